/* `quern bench grammar`: how fast grammars compile and token masks are made (bench/grammar_speed.h). */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "bench/grammar_speed.h"
#include "cli/bench.h"
#include "cli/command.h"
#include "cli/json_result.h"
#include "cli/options.h"

enum { FILE_MAX_BYTES = 256 << 20, WHAT_BYTES = 300, MOST_WALKS = 1000, MOST_TOKENS = 1 << 24, SLOWEST = 5 };

typedef struct arguments {
    qn_option_table table;
    size_t walks, walk_tokens, vocab;
    int64_t seed;
    bool json;
} arguments;

static qn_status measure_line(qn_grammar_bench *bench, const char *text, size_t bytes, const char *what, qn_error *err)
{
    json_t *line = NULL;
    qn_status status = qn_json_parse(text, bytes, what, &line, err);
    if (status == QN_OK) {
        status = qn_grammar_bench_line(bench, line, what, err);
    }
    json_decref(line);
    return status;
}

static qn_status measure_file(qn_grammar_bench *bench, const char *path, qn_error *err)
{
    char *text = NULL;
    size_t bytes = 0, number = 0;
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    qn_status status = qn_file_read(path, FILE_MAX_BYTES, &text, &bytes, err);
    for (size_t at = 0; at < bytes && status == QN_OK;) {
        char what[WHAT_BYTES];
        const char *end = memchr(text + at, '\n', bytes - at);
        size_t length = end != NULL ? (size_t)(end - (text + at)) : bytes - at;
        snprintf(what, sizeof what, "%s: line %zu", name, ++number);
        if (length > 0) {
            status = measure_line(bench, text + at, length, what, err);
        }
        at += length + 1;
    }
    qn_free(text);
    return status;
}

static void print_line(const char *label, const qn_statistic *s, double scale)
{
    printf("%-26s %9zu %9.2f %9.2f %9.2f\n", label, s->samples, s->median / scale, s->p99 / scale, s->max / scale);
}

/* The grammars with the slowest first masks. */
static void print_slowest(const qn_grammar_speed *speed)
{
    double below = 0;
    printf("\n%-44s %9s %9s %9s %9s\n", "slowest first masks, us", "compile", "median", "p99", "worst");
    for (size_t shown = 0; shown < SLOWEST && shown < speed->count; shown++) {
        const qn_grammar_times *slowest = NULL;
        for (size_t i = 0; i < speed->count; i++) {
            const qn_grammar_times *t = &speed->all[i];
            if ((shown == 0 || t->first.max < below) && (slowest == NULL || t->first.max > slowest->first.max)) {
                slowest = t;
            }
        }
        if (slowest == NULL) {
            break;
        }
        below = slowest->first.max;
        printf("  %-42.42s %9.1f %9.2f %9.2f %9.2f\n", slowest->name, slowest->compile, slowest->first.median,
               slowest->first.p99, slowest->first.max);
    }
}

static void print_table(const qn_grammar_speed *speed)
{
    size_t longer = 0;
    for (size_t i = 0; i < speed->count; i++) {
        longer += speed->all[i].longer;
    }
    printf("%zu grammars over %zu tokens, whose trie took %.0f ms; %zu more were refused; %zu texts left their "
           "grammar\n\n",
           speed->count, speed->tokens, speed->trie / 1e3, speed->refused, longer);
    printf("%-26s %9s %9s %9s %9s\n", "", "times", "median", "p99", "worst");
    print_line("compiling, ms", &speed->compile, 1e3);
    print_line("masks the first time, us", &speed->first, 1);
    print_line("masks again, us", &speed->again, 1);
    print_slowest(speed);
}

static json_t *statistic_to_json(const qn_statistic *s)
{
    return json_pack("{s:I, s:f, s:f, s:f, s:f}", "count", (json_int_t)s->samples, "min_us", s->min, "median_us",
                     s->median, "p99_us", s->p99, "max_us", s->max);
}

static qn_status print_json(const qn_grammar_speed *speed, qn_error *err)
{
    json_t *grammars = json_array();
    for (size_t i = 0; i < speed->count; i++) {
        const qn_grammar_times *t = &speed->all[i];
        json_array_append_new(grammars, json_pack("{s:s, s:f, s:o, s:o, s:I}", "name", t->name, "compile_us",
                                                  t->compile, "first", statistic_to_json(&t->first), "again",
                                                  statistic_to_json(&t->again), "longer", (json_int_t)t->longer));
    }
    json_t *root = json_pack("{s:I, s:f, s:I, s:o, s:o, s:o, s:o}", "tokens", (json_int_t)speed->tokens, "trie_us",
                             speed->trie, "refused", (json_int_t)speed->refused, "compile",
                             statistic_to_json(&speed->compile), "first", statistic_to_json(&speed->first), "again",
                             statistic_to_json(&speed->again), "grammars", grammars);
    return qn_print_json(root, 0, err);
}

static qn_status run(const arguments *a, qn_error *err)
{
    qn_tokenizer *tokenizer = NULL;
    qn_grammar_bench *bench = NULL;
    qn_status status = qn_tokenizer_open(a->table.argument[0], &tokenizer, err);
    if (status == QN_OK) {
        const qn_grammar_speed_options options = {tokenizer, a->walks, a->walk_tokens, (uint32_t)a->seed, a->vocab};
        status = qn_grammar_bench_new(&options, &bench, err);
    }
    for (size_t i = 1; i < a->table.argument_count && status == QN_OK; i++) {
        status = measure_file(bench, a->table.argument[i], err);
    }
    if (status == QN_OK) {
        const qn_grammar_speed speed = qn_grammar_bench_speed(bench);
        if (a->json) {
            status = print_json(&speed, err);
        } else {
            print_table(&speed);
        }
    }
    qn_grammar_bench_free(bench);
    qn_tokenizer_free(tokenizer);
    return status;
}

int qn_bench_grammar(int argc, char **argv)
{
    arguments a = {.walks = 2,
                   .walk_tokens = 32,
                   .table = {.command = "bench grammar",
                             .arguments = "TOKENIZER FILE...",
                             .summary = "Measures structured output without a model: how long grammars take to "
                                        "compile, and the set of tokens that may follow at each token of their texts. "
                                        "TOKENIZER: a tokenizer.json or a model's folder. FILE: a grammar a line, "
                                        "{\"schema\": ..., \"accept\": [TEXT, ...]} or {\"kind\": \"regex\", "
                                        "\"grammar\": ..., \"accept\": ...}; kinds: regex, choice, gbnf, ebnf, lark.",
                             .min_arguments = 2,
                             .max_arguments = QN_ARGUMENTS_MAX}};
    const qn_option options[] = {
        {.name = "walks",
         .kind = QN_OPTION_SIZE,
         .value = &a.walks,
         .value_name = "N",
         .help = "also walks N texts of each grammar that are made up of any allowed tokens (default: 2)",
         .min = 0,
         .max = MOST_WALKS},
        {.name = "walk-tokens",
         .kind = QN_OPTION_SIZE,
         .value = &a.walk_tokens,
         .value_name = "N",
         .help = "their tokens at most (default: 32)",
         .min = 1,
         .max = QN_GRAMMAR_MAX_WALK_TOKENS},
        {.name = "vocab",
         .kind = QN_OPTION_SIZE,
         .value = &a.vocab,
         .value_name = "N",
         .help = "makes masks of N tokens, as for a model whose embedding has more rows than the tokenizer has tokens "
                 "(default: the tokenizer's)",
         .min = 1,
         .max = MOST_TOKENS},
        {.name = "seed",
         .kind = QN_OPTION_INTEGER,
         .value = &a.seed,
         .value_name = "N",
         .help = "another one makes up others (default: 0)",
         .min = 0,
         .max = UINT32_MAX},
        {.name = "json", .kind = QN_OPTION_FLAG, .value = &a.json, .help = "prints one JSON object"},
    };
    qn_error err;
    qn_options_add(&a.table, options, sizeof options / sizeof *options);
    qn_status status = qn_options_parse(&a.table, argc, argv, &err);
    if (status == QN_OK && !a.table.help_shown) {
        status = run(&a, &err);
    }
    return status == QN_OK ? QN_OK : qn_command_fail(&err);
}
