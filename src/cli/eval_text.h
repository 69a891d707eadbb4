/* The options of the measurements that read a text: `eval ppl` and `eval kl`. */
#ifndef QN_CLI_EVAL_TEXT_H
#define QN_CLI_EVAL_TEXT_H

#include <stddef.h>

#include "cli/options.h"

/* Start from {0} and keep it where it is: the option table points into it. */
typedef struct qn_eval_text_flags {
    const char *text;       /* NULL: standard input */
    size_t context, stride; /* 0: not given */
} qn_eval_text_flags;

void qn_eval_text_flags_add(qn_eval_text_flags *flags, qn_option_table *table);

/* The text with a NUL behind, to be released with qn_free. */
qn_status qn_eval_text_read(const qn_eval_text_flags *flags, char **text, size_t *bytes, qn_error *err);

/* What the options ask for, or the default: a context of 2048, or all that a model takes when that is less; a stride of
 * half a context. */
size_t qn_eval_context(const qn_eval_text_flags *flags, size_t max_model_len);
size_t qn_eval_stride(const qn_eval_text_flags *flags, size_t context);

#endif
