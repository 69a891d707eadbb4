#include "checkpoint/index_writer.h"

#include <string.h>

#include "base/file.h"
#include "base/memory.h"

qn_status qn_index_write(const char *path, json_t *weight_map, uint64_t total_size, qn_error *err)
{
    json_t *root = json_pack("{s:{s:I}, s:O}", "metadata", "total_size", (json_int_t)total_size, "weight_map",
                             weight_map);
    char *text = NULL;
    qn_status status = root ? qn_json_text(root, true, path, &text, err) : qn_fail_memory(err, path, sizeof(json_t));
    if (status == QN_OK)
        status = qn_file_write(path, text, strlen(text), err);
    qn_free(text);
    json_decref(root);
    return status;
}
