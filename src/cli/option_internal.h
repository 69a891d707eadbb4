/* What the three files of the option parser share: the walk (options.c), values (option_values.c), help
 * (option_help.c). */
#ifndef QN_CLI_OPTION_INTERNAL_H
#define QN_CLI_OPTION_INTERNAL_H

#include "cli/options.h"

bool qn_option_is_flag(const qn_option *option); /* takes no value */

/* Reads text into *option->value; text is NULL for flags, `negated` tells --no-name. */
qn_status qn_option_read(const qn_option *option, const char *text, bool negated, qn_error *err);

/* Sets one member of an option of kind JSON, `path` being its keys with dots between them: the object is made where
 * there is none yet. `text` is JSON, or else a string as it stands. */
qn_status qn_option_read_member(const qn_option *option, const char *path, size_t bytes, const char *text,
                                qn_error *err);

void qn_options_print_help(const qn_option_table *table); /* on stdout */

#endif
