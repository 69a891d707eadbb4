#include "cli/json_result.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"

qn_status qn_print_json(json_t *value, size_t flags, qn_error *err)
{
    int failed = value == NULL || json_dumpf(value, stdout, flags) != 0;
    fputc('\n', stdout);
    json_decref(value);
    return failed ? qn_fail(err, QN_RESOURCE, "--json: the result could not be written: free memory, run it again")
                  : QN_OK;
}

qn_status qn_tell_figures(json_t *value, bool print, const char *out, qn_error *err)
{
    static const char what[] = "figures as JSON";
    char *text = NULL;
    qn_status status = value != NULL ? qn_json_text(value, what, &text, err) : qn_fail_memory(err, what, sizeof *value);
    json_decref(value);
    if (status == QN_OK && print) {
        fputs(text, stdout);
    }
    if (status == QN_OK && out != NULL) {
        status = qn_file_write(out, text, strlen(text), err);
    }
    qn_free(text);
    return status;
}
