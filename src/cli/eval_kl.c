/* `quern eval kl`: how far one checkpoint's predictions of a text are from another's (engine/divergence.h). */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/size.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/eval.h"
#include "cli/eval_text.h"
#include "cli/json_result.h"
#include "engine/divergence.h"

enum { BAR_WIDTH = 40 };

typedef struct arguments {
    qn_option_table table;
    qn_engine_flags engine;
    qn_eval_text_flags text;
    bool json;
} arguments;

static void add_options(arguments *a)
{
    const qn_option own[] = {
        {.name = "json", .kind = QN_OPTION_FLAG, .value = &a->json, .help = "prints one JSON object"},
    };
    qn_eval_text_flags_add(&a->text, &a->table);
    qn_options_add(&a->table, own, sizeof own / sizeof *own);
    qn_engine_flags_add(&a->engine, &a->table, false);
}

/* A line for each bin from the first to the last that has positions. */
static void print_histogram(const qn_divergence *d)
{
    size_t first = QN_DIVERGENCE_BINS, last = 0, most = 1;
    for (size_t i = 0; i < QN_DIVERGENCE_BINS; i++) {
        if (d->histogram[i] > 0) {
            first = i < first ? i : first;
            last = i;
        }
        most = d->histogram[i] > most ? d->histogram[i] : most;
    }
    puts("\npositions by KL, from");
    for (size_t i = first; i <= last; i++) {
        char bar[BAR_WIDTH + 1] = "";
        size_t length = (d->histogram[i] * BAR_WIDTH + most - 1) / most;
        memset(bar, '#', length);
        printf("  %-8.2g %8zu %s\n", qn_divergence_bin_begin(i), d->histogram[i], bar);
    }
}

static void print_text(const qn_divergence *d, size_t context, size_t stride)
{
    printf("KL(A || B)      mean %.6g +- %.2g, median %.6g, 99 %% %.6g, max %.6g nats\n", d->mean_kl, d->mean_kl_error,
           d->median_kl, d->p99_kl, d->max_kl);
    printf("top-1 agreement %.4f\n", d->top1_agreement);
    printf("perplexity      A %.4f, B %.4f\n", d->perplexity_a, d->perplexity_b);
    printf("scored          %zu of %zu tokens, %zu window%s of %zu, stride %zu\n", d->scored, d->tokens, d->windows,
           d->windows == 1 ? "" : "s", context, stride);
    print_histogram(d);
}

static json_t *histogram_json(const qn_divergence *d)
{
    json_t *bins = json_array();
    for (size_t i = 0; bins != NULL && i < QN_DIVERGENCE_BINS; i++) {
        json_t *bin = json_pack("{s:f, s:I}", "from", qn_divergence_bin_begin(i), "positions",
                                (json_int_t)d->histogram[i]);
        if (json_array_append_new(bins, bin) != 0) {
            json_decref(bins);
            bins = NULL;
        }
    }
    return bins;
}

static qn_status print_json(const qn_divergence *d, size_t context, size_t stride, qn_error *err)
{
    json_t *root = json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:o}",
                             "mean_kl", d->mean_kl, "mean_kl_error", d->mean_kl_error, "median_kl", d->median_kl,
                             "p99_kl", d->p99_kl, "max_kl", d->max_kl, "top1_agreement", d->top1_agreement,
                             "perplexity_a", d->perplexity_a, "perplexity_b", d->perplexity_b, "mean_nll_a",
                             d->mean_nll_a, "mean_nll_b", d->mean_nll_b, "tokens", (json_int_t)d->tokens, "scored",
                             (json_int_t)d->scored, "windows", (json_int_t)d->windows, "context", (json_int_t)context,
                             "stride", (json_int_t)stride, "histogram", histogram_json(d));
    return qn_print_json(root, 0, err);
}

/* The ids of the text, when both tokenizers agree about them. */
static qn_status encode(const arguments *a, const qn_engine *engine_a, const qn_engine *engine_b, const char *text,
                        size_t bytes, qn_tokens *out, qn_error *err)
{
    qn_tokens other = {0};
    qn_status status = qn_tokenizer_encode(qn_engine_tokenizer(engine_a), text, bytes, NULL, 0, out, err);
    if (status == QN_OK) {
        status = qn_tokenizer_encode(qn_engine_tokenizer(engine_b), text, bytes, NULL, 0, &other, err);
    }
    size_t i = 0;
    while (status == QN_OK && i < out->count && i < other.count && out->ids[i] == other.ids[i]) {
        i++;
    }
    if (status == QN_OK && (i < out->count || i < other.count)) {
        status = qn_fail(err, QN_BAD_INPUT,
                         "%s, %s: their tokenizers read the text differently from token %zu on: only models with one "
                         "tokenizer can be compared",
                         a->table.argument[0], a->table.argument[1], i);
    }
    qn_tokens_free(&other);
    return status;
}

static qn_status measure(const arguments *a, qn_engine *engine_a, qn_engine *engine_b, const char *text, size_t bytes,
                         qn_error *err)
{
    qn_tokens tokens = {0};
    qn_divergence divergence;
    size_t context = qn_eval_context(&a->text,
                                     qn_min_size(qn_engine_max_model_len(engine_a), qn_engine_max_model_len(engine_b)));
    size_t stride = qn_eval_stride(&a->text, context);
    qn_status status = qn_check_comparable(engine_a, engine_b, err);
    if (status == QN_OK) {
        status = encode(a, engine_a, engine_b, text, bytes, &tokens, err);
    }
    if (status == QN_OK) {
        status = qn_measure_divergence(engine_a, engine_b, tokens.ids, tokens.count, context, stride, &divergence, err);
    }
    if (status == QN_OK && a->json) {
        status = print_json(&divergence, context, stride, err);
    } else if (status == QN_OK) {
        print_text(&divergence, context, stride);
    }
    qn_tokens_free(&tokens);
    return status;
}

static qn_status open_model(const qn_engine_options *options, char letter, const char *dir, qn_engine **out,
                            qn_error *err)
{
    qn_engine_options own = *options;
    own.model_dir = dir;
    qn_log("model %c: %s", letter, dir);
    return qn_engine_open(&own, out, err);
}

static qn_status run(const arguments *a, qn_error *err)
{
    qn_engine_options options;
    qn_engine *engine_a = NULL, *engine_b = NULL;
    char *text = NULL;
    size_t bytes = 0;
    qn_status status = qn_engine_flags_options(&a->engine, &a->table, &options, err);
    if (status == QN_OK) {
        status = qn_eval_text_read(&a->text, &text, &bytes, err);
    }
    if (status == QN_OK) {
        options.without_chat = true;
        options.needed_tokens = qn_eval_context(&a->text, SIZE_MAX);
        status = open_model(&options, 'A', a->table.argument[0], &engine_a, err);
    }
    if (status == QN_OK) {
        status = open_model(&options, 'B', a->table.argument[1], &engine_b, err);
    }
    if (status == QN_OK) {
        status = measure(a, engine_a, engine_b, text, bytes, err);
    }
    qn_engine_close(engine_a);
    qn_engine_close(engine_b);
    qn_free(text);
    return status;
}

int qn_eval_kl(int argc, char **argv)
{
    arguments a = {.table = {.command = "eval kl",
                             .arguments = "MODEL_A MODEL_B",
                             .summary = "Measures how far B's predictions of a text are from A's, as KL(A || B).",
                             .min_arguments = 2,
                             .max_arguments = 2}};
    qn_error err;
    add_options(&a);
    qn_status status = qn_options_parse(&a.table, argc, argv, &err);
    if (status == QN_OK && !a.table.help_shown) {
        status = run(&a, &err);
    }
    qn_engine_flags_free(&a.engine);
    return status == QN_OK ? QN_OK : qn_command_fail(&err);
}
