/* Options whose value is a list of sizes with commas between: "0,4K,32K". */
#ifndef QN_CLI_SIZE_LIST_H
#define QN_CLI_SIZE_LIST_H

#include <stddef.h>

#include "base/error.h"

/* Each from `least` to `most`, written as a QN_OPTION_SIZE; 1 to `room` of them. QN_USAGE naming the option. */
qn_status qn_size_list_read(const char *option, const char *text, size_t least, size_t most, size_t room, size_t *out,
                            size_t *count, qn_error *err);

#endif
