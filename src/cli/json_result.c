#include "cli/json_result.h"

#include <stdio.h>

qn_status qn_print_json(json_t *value, size_t flags, qn_error *err)
{
    int failed = value == NULL || json_dumpf(value, stdout, flags) != 0;
    fputc('\n', stdout);
    json_decref(value);
    return failed ? qn_fail(err, QN_RESOURCE, "--json: the result could not be written: free memory, run it again")
                  : QN_OK;
}
