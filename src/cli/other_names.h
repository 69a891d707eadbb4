/* What options of llama.cpp and SGLang and short forms of vLLM's are called here.
 *
 * Where a command has no option of such a name, the error says which of its options means the same, or why there is
 * none, instead of guessing by the letters. */
#ifndef QN_CLI_OTHER_NAMES_H
#define QN_CLI_OTHER_NAMES_H

#include <stddef.h>

#include "cli/options.h"

enum { QN_OTHER_NAME_BYTES = 256 };

/* Writes what ends the error about `word`, which is no option of the table's, as it was typed ("-t", "--ctx-size=4096";
 * what stands behind "=" does not count): "give --threads N", or the reason why there is no such option and the way
 * out. False: the word means nothing in those programs, or nothing to this command. */
bool qn_other_name_advice(const qn_option_table *table, const char *word, char out[QN_OTHER_NAME_BYTES]);

#endif
