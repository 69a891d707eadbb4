/* `quern eval ppl`: the perplexity of a text (engine/perplexity.h). */
#include <stdio.h>

#include "base/json.h"
#include "base/memory.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/eval.h"
#include "cli/eval_output.h"
#include "cli/eval_text.h"
#include "cli/json_result.h"
#include "engine/perplexity.h"

typedef struct arguments {
    qn_option_table table;
    qn_engine_flags engine;
    qn_eval_text_flags text;
    const char *collect;
    bool json;
} arguments;

static void add_options(arguments *a)
{
    const qn_option own[] = {
        {.name = "collect",
         .kind = QN_OPTION_STRING,
         .value = &a->collect,
         .value_name = "FILE",
         .help = "also gathers the second moments of what enters the routed experts, for `quern convert --importance`, "
                 "and writes them to this safetensors file"},
        {.name = "json", .kind = QN_OPTION_FLAG, .value = &a->json, .help = "prints one JSON object"},
    };
    qn_eval_text_flags_add(&a->text, &a->table);
    qn_options_add(&a->table, own, sizeof own / sizeof *own);
    qn_engine_flags_add(&a->engine, &a->table, false);
}

static qn_status print_result(const arguments *a, const qn_perplexity *p, size_t context, size_t stride, qn_error *err)
{
    if (!a->json) {
        printf("perplexity %.4f (mean NLL %.6f over %zu of %zu tokens, %zu window%s of %zu, stride %zu)\n",
               p->perplexity, p->mean_nll, p->scored, p->tokens, p->windows, p->windows == 1 ? "" : "s", context,
               stride);
        return QN_OK;
    }
    json_t *root = json_pack("{s:f, s:f, s:I, s:I, s:I, s:I, s:I}", "perplexity", p->perplexity, "mean_nll",
                             p->mean_nll, "tokens", (json_int_t)p->tokens, "scored", (json_int_t)p->scored, "windows",
                             (json_int_t)p->windows, "context", (json_int_t)context, "stride", (json_int_t)stride);
    return qn_print_json(root, 0, err);
}

static qn_status measure_tokens(const arguments *a, qn_engine *engine, const qn_tokens *tokens, qn_error *err)
{
    qn_perplexity perplexity;
    qn_collect *collect = NULL;
    size_t context = qn_eval_context(&a->text, qn_engine_max_model_len(engine));
    size_t stride = qn_eval_stride(&a->text, context);
    qn_status status = QN_OK;
    if (a->collect != NULL) {
        status = qn_collect_new(engine, context, a->collect, &collect, err);
    }
    if (status == QN_OK) {
        status = qn_measure_perplexity(engine, tokens->ids, tokens->count, context, stride, collect, &perplexity, err);
    }
    if (status == QN_OK && collect != NULL) {
        status = qn_collect_finish(collect, err);
    }
    if (status == QN_OK) {
        status = print_result(a, &perplexity, context, stride, err);
    }
    qn_collect_free(collect);
    return status;
}

static qn_status measure(const arguments *a, qn_engine *engine, const char *text, size_t bytes, qn_error *err)
{
    qn_tokens tokens = {0};
    qn_status status = qn_tokenizer_encode(qn_engine_tokenizer(engine), text, bytes, NULL, 0, &tokens, err);
    if (status == QN_OK) {
        status = measure_tokens(a, engine, &tokens, err);
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
    if (status == QN_OK && a->collect != NULL) {
        status = qn_check_output("collect", a->collect, a->table.argument[0], a->text.text, err);
    }
    if (status == QN_OK) {
        status = qn_eval_text_read(&a->text, &text, &bytes, err);
    }
    if (status == QN_OK) {
        options.without_chat = true;
        options.needed_tokens = qn_eval_context(&a->text, SIZE_MAX);
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
