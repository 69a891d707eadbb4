#include "cli/eval_text.h"

#include <unistd.h>

#include "base/file.h"
#include "base/size.h"

enum { TEXT_LIMIT_BYTES = 1 << 30, DEFAULT_CONTEXT = 2048 };

void qn_eval_text_flags_add(qn_eval_text_flags *flags, qn_option_table *table)
{
    const qn_option options[] = {
        {.name = "text",
         .kind = QN_OPTION_STRING,
         .value = &flags->text,
         .value_name = "FILE",
         .help = "the text, UTF-8; it may spell special tokens (default: standard input)"},
        {.name = "context",
         .kind = QN_OPTION_SIZE,
         .value = &flags->context,
         .value_name = "N",
         .help = "tokens of a window (default: 2048, or all that the model takes)",
         .min = 2,
         .max = INT32_MAX},
        {.name = "stride",
         .kind = QN_OPTION_SIZE,
         .value = &flags->stride,
         .value_name = "N",
         .help = "tokens from one window's start to the next (default: half a window)",
         .min = 1,
         .max = INT32_MAX},
    };
    qn_options_add(table, options, sizeof options / sizeof *options);
}

qn_status qn_eval_text_read(const qn_eval_text_flags *flags, char **text, size_t *bytes, qn_error *err)
{
    return flags->text != NULL ? qn_file_read(flags->text, TEXT_LIMIT_BYTES, text, bytes, err)
                               : qn_fd_read(STDIN_FILENO, "standard input", TEXT_LIMIT_BYTES, text, bytes, err);
}

size_t qn_eval_context(const qn_eval_text_flags *flags, size_t max_model_len)
{
    return flags->context > 0 ? flags->context : qn_min_size(max_model_len, DEFAULT_CONTEXT);
}

size_t qn_eval_stride(const qn_eval_text_flags *flags, size_t context)
{
    return flags->stride > 0 ? flags->stride : context / 2;
}
