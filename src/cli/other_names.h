/* What options of llama.cpp and SGLang and short forms of vLLM's are called here.
 *
 * None of these names is an option of quern. Where one is met, the error says which option means the same, or why there
 * is none, instead of guessing by the letters. */
#ifndef QN_CLI_OTHER_NAMES_H
#define QN_CLI_OTHER_NAMES_H

#include <stddef.h>

#include "cli/options.h"

enum { QN_OTHER_NAME_BYTES = 256 };

/* Writes reason and way out, "llama.cpp's name for --threads: give --threads N", for `word` as it was typed ("-t",
 * "--ctx-size=4096"; what stands behind "=" does not count). False: the word means nothing in those programs, or
 * nothing to this command. */
bool qn_other_name_advice(const qn_option_table *table, const char *word, char out[QN_OTHER_NAME_BYTES]);

#endif
