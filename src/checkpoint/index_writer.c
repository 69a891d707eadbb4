#include "checkpoint/index_writer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int compare_placed(const void *a, const void *b)
{
    const qn_placed_tensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

void qn_index_format(qn_placed_tensor *placed, size_t count, uint64_t total_size, qn_buffer *out)
{
    if (count > 0)
        qsort(placed, count, sizeof *placed, compare_placed);
    qn_buffer_format(out, "{\n  \"metadata\": {\n    \"total_size\": %" PRIu64 "\n  },\n  \"weight_map\": {",
                     total_size);
    for (size_t i = 0; i < count; i++) {
        qn_buffer_text(out, i ? ",\n    " : "\n    ");
        qn_buffer_json_string(out, placed[i].name, strlen(placed[i].name));
        qn_buffer_text(out, ": ");
        qn_buffer_json_string(out, placed[i].file, strlen(placed[i].file));
    }
    qn_buffer_text(out, "\n  }\n}\n");
}
