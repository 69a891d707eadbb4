/* `quern eval ppl`: the perplexity of a text (engine/perplexity.h). */
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/eval.h"
#include "engine/perplexity.h"

enum { TEXT_LIMIT_BYTES = 1 << 30, DEFAULT_CONTEXT = 2048 };

typedef struct arguments {
    qn_option_table table;
    qn_engine_flags engine;
    const char *text;
    size_t context, stride;
    bool json;
} arguments;

static void add_options(arguments *a)
{
    const qn_option own[] = {
        {.name = "text",
         .kind = QN_OPTION_STRING,
         .value = &a->text,
         .value_name = "FILE",
         .help = "the text, UTF-8; it may spell special tokens (default: standard input)"},
        {.name = "context",
         .kind = QN_OPTION_SIZE,
         .value = &a->context,
         .value_name = "N",
         .help = "tokens of a window (default: 2048, or all that the model takes)",
         .min = 2,
         .max = INT32_MAX},
        {.name = "stride",
         .kind = QN_OPTION_SIZE,
         .value = &a->stride,
         .value_name = "N",
         .help = "tokens from one window's start to the next (default: half a window)",
         .min = 1,
         .max = INT32_MAX},
        {.name = "json", .kind = QN_OPTION_FLAG, .value = &a->json, .help = "prints one JSON object"},
    };
    qn_options_add(&a->table, own, sizeof own / sizeof *own);
    qn_engine_flags_add(&a->engine, &a->table, false);
}

static qn_status read_text(const arguments *a, char **text, size_t *bytes, qn_error *err)
{
    return a->text != NULL ? qn_file_read(a->text, TEXT_LIMIT_BYTES, text, bytes, err)
                           : qn_fd_read(STDIN_FILENO, "standard input", TEXT_LIMIT_BYTES, text, bytes, err);
}

static qn_status print_result(const arguments *a, const qn_perplexity *p, size_t context, size_t stride, qn_error *err)
{
    if (!a->json) {
        printf("perplexity %.4f (mean NLL %.6f over %zu of %zu tokens, %zu windows of %zu, stride %zu)\n",
               p->perplexity, p->mean_nll, p->scored, p->tokens, p->windows, context, stride);
        return QN_OK;
    }
    json_t *root = json_pack("{s:f, s:f, s:I, s:I, s:I, s:I, s:I}", "perplexity", p->perplexity, "mean_nll",
                             p->mean_nll, "tokens", (json_int_t)p->tokens, "scored", (json_int_t)p->scored, "windows",
                             (json_int_t)p->windows, "context", (json_int_t)context, "stride", (json_int_t)stride);
    int failed = root == NULL || json_dumpf(root, stdout, 0) != 0;
    fputc('\n', stdout);
    json_decref(root);
    return failed ? qn_fail(err, QN_RESOURCE, "--json: the result could not be written: no memory") : QN_OK;
}

static qn_status measure(const arguments *a, qn_engine *engine, const char *text, size_t bytes, qn_error *err)
{
    qn_tokens tokens = {0};
    qn_perplexity perplexity;
    size_t longest = qn_engine_max_model_len(engine);
    size_t context = a->context > 0 ? a->context : longest < DEFAULT_CONTEXT ? longest : DEFAULT_CONTEXT;
    size_t stride = a->stride > 0 ? a->stride : context / 2;
    qn_status status = qn_tokenizer_encode(qn_engine_tokenizer(engine), text, bytes, NULL, 0, &tokens, err);
    if (status == QN_OK) {
        status = qn_measure_perplexity(engine, tokens.ids, tokens.count, context, stride, &perplexity, err);
    }
    if (status == QN_OK) {
        status = print_result(a, &perplexity, context, stride, err);
    }
    qn_tokens_free(&tokens);
    return status;
}

static qn_status run(const arguments *a, qn_error *err)
{
    qn_engine_options options;
    qn_engine *engine = NULL;
    char *text = NULL;
    size_t bytes = 0;
    qn_status status = qn_engine_flags_options(&a->engine, &a->table, &options, err);
    if (status == QN_OK) {
        status = read_text(a, &text, &bytes, err);
    }
    if (status == QN_OK) {
        options.needed_tokens = a->context > 0 ? a->context : DEFAULT_CONTEXT;
        status = qn_engine_open(&options, &engine, err);
    }
    if (status == QN_OK) {
        status = measure(a, engine, text, bytes, err);
    }
    qn_engine_close(engine);
    qn_free(text);
    return status;
}

int qn_eval_ppl(int argc, char **argv)
{
    arguments a = {.table = {.command = "eval ppl",
                             .arguments = "MODEL_DIR",
                             .summary = "Measures how well the model predicts a text.",
                             .min_arguments = 1,
                             .max_arguments = 1}};
    qn_error err;
    add_options(&a);
    qn_status status = qn_options_parse(&a.table, argc, argv, &err);
    if (status == QN_OK && !a.table.help_shown) {
        status = run(&a, &err);
    }
    qn_engine_flags_free(&a.engine);
    return status == QN_OK ? QN_OK : qn_command_fail(&err);
}
