#include <stdint.h>
#include <string.h>

#include "cli/bench_serve.h"
#include "cli/options.h"
#include "cli/size_list.h"

enum { LONGEST_S = 86400 };
static const int64_t LARGEST_SEED = INT64_C(1) << 52;

typedef struct lists {
    const char *concurrency, *prefix_caching, *speculation, *long_prompts;
    int64_t seed;
    bool stress;
    double overload_s;
} lists;

static void add_server_options(qn_option_table *table, qn_serve_bench *b, lists *l)
{
    const qn_option options[] = {
        {.name = "base-url",
         .kind = QN_OPTION_STRING,
         .value = &b->base_url,
         .value_name = "URL",
         .help =
             "a server that runs, such as http://127.0.0.1:8000; without it the bench starts its own for MODEL_DIR"},
        {.name = "model",
         .kind = QN_OPTION_STRING,
         .value = &b->model,
         .value_name = "NAME",
         .help = "the model to ask for (default: the first that the server lists)"},
        {.name = "prefix-caching",
         .kind = QN_OPTION_STRING,
         .value = &l->prefix_caching,
         .value_name = "LIST",
         .help = "on, off or on,off: a server of its own for each (default: the server's default)"},
        {.name = "speculation",
         .kind = QN_OPTION_STRING,
         .value = &l->speculation,
         .value_name = "LIST",
         .help = "numbers of drafts (num_speculative_tokens), such as 0,1: a server of its own for each (default: the "
                 "server's default)"},
        {.name = "timeout",
         .kind = QN_OPTION_NUMBER,
         .value = &b->patience_s,
         .value_name = "SECONDS",
         .help = "a request that gets no text for so long has failed (default: 600)",
         .number_min = 0.1,
         .number_max = LONGEST_S},
        {.name = "out", .kind = QN_OPTION_STRING, .value = &b->out, .value_name = "FILE", .help = "saves the JSON"},
        {.name = "json", .kind = QN_OPTION_FLAG, .value = &b->json, .help = "prints one JSON object"},
    };
    qn_options_add(table, options, sizeof options / sizeof *options);
}

static void add_load_options(qn_option_table *table, qn_serve_bench *b, lists *l)
{
    qn_serve_workload *w = &b->workload;
    const qn_option options[] = {
        {.name = "concurrency",
         .kind = QN_OPTION_STRING,
         .value = &l->concurrency,
         .value_name = "LIST",
         .help = "clients, each with one request at a time; a row of the table for each number (default: 1,4,16)"},
        {.name = "requests",
         .kind = QN_OPTION_SIZE,
         .value = &w->requests,
         .value_name = "N",
         .help = "requests of a row (default: 32)",
         .min = 1,
         .max = QN_SERVE_MAX_REQUESTS},
        {.name = "prompt-tokens",
         .kind = QN_OPTION_SIZE,
         .value = &w->prompt_tokens,
         .value_name = "N",
         .help = "tokens of a prompt, nearly: the chat template's count too (default: 256; 32 with --overload)",
         .min = 1,
         .max = QN_SERVE_MAX_TOKENS},
        {.name = "max-tokens",
         .kind = QN_OPTION_SIZE,
         .value = &w->max_tokens,
         .value_name = "N",
         .help = "tokens of an answer, which never ends earlier (default: 64; 256 with --stress, 8 with --overload)",
         .min = 1,
         .max = QN_SERVE_MAX_TOKENS},
        {.name = "shared-prefix-tokens",
         .kind = QN_OPTION_SIZE,
         .value = &w->shared_prefix_tokens,
         .value_name = "N",
         .help = "of a prompt's tokens, so many at its beginning are the same in all prompts of a row (default: 0)",
         .max = QN_SERVE_MAX_TOKENS},
        {.name = "temperature",
         .kind = QN_OPTION_NUMBER,
         .value = &w->temperature,
         .value_name = "T",
         .help = "of the requests (default: 0, greedy)",
         .number_min = 0,
         .number_max = 2},
        {.name = "seed",
         .kind = QN_OPTION_INTEGER,
         .value = &l->seed,
         .value_name = "N",
         .help = "of prompts and sampling: the same one sends the same requests (default: 0)",
         .min = 0,
         .max = LARGEST_SEED},
    };
    qn_options_add(table, options, sizeof options / sizeof *options);
}

static void add_mode_options(qn_option_table *table, qn_serve_bench *b, lists *l)
{
    const qn_option options[] = {
        {.name = "stress",
         .kind = QN_OPTION_FLAG,
         .value = &l->stress,
         .help = "instead of the table: long prompts beside answers under way, and the gaps these get"},
        {.name = "decodes",
         .kind = QN_OPTION_SIZE,
         .value = &b->stress.decodes,
         .value_name = "N",
         .help = "--stress: clients that decode steadily (default: 4)",
         .min = 1,
         .max = QN_SERVE_MAX_CLIENTS / 2},
        {.name = "long-prompts",
         .kind = QN_OPTION_STRING,
         .value = &l->long_prompts,
         .value_name = "LIST",
         .help = "--stress: tokens of each long prompt (default: 65536,102400)"},
        {.name = "max-gap-ms",
         .kind = QN_OPTION_NUMBER,
         .value = &b->max_gap_ms,
         .value_name = "MS",
         .help = "--stress: fails when a gap is longer than twice this (default: no bound)",
         .number_min = 0.001,
         .number_max = 1e7},
        {.name = "overload",
         .kind = QN_OPTION_NUMBER,
         .value = &l->overload_s,
         .value_name = "SECONDS",
         .help = "instead of the table: many clients send short requests for so long, back to back",
         .number_min = 0.1,
         .number_max = LONGEST_S},
        {.name = "clients",
         .kind = QN_OPTION_SIZE,
         .value = &b->overload.clients,
         .value_name = "N",
         .help = "--overload: how many (default: 500)",
         .min = 1,
         .max = QN_SERVE_MAX_CLIENTS},
    };
    qn_options_add(table, options, sizeof options / sizeof *options);
}

static qn_status bad_list(const char *option, const char *text, const char *wanted, qn_error *err)
{
    return qn_fail_field(err, QN_USAGE, option, "--%s: '%.200s': give %s", option, text, wanted);
}

static qn_status read_switches(const char *option, const char *text, size_t out[2], size_t *count, qn_error *err)
{
    static const struct {
        const char *text;
        size_t count, values[2];
    } known[] = {{"on", 1, {1}}, {"off", 1, {0}}, {"on,off", 2, {1, 0}}, {"off,on", 2, {0, 1}}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(text, known[i].text) == 0) {
            *count = known[i].count;
            memcpy(out, known[i].values, sizeof known[i].values);
            return QN_OK;
        }
    }
    return bad_list(option, text, "on, off or on,off", err);
}

/* The grid: each number of drafts with each switch of the prefix cache. */
static qn_status read_settings(const lists *l, qn_serve_bench *b, qn_error *err)
{
    enum { MOST_DRAFTS = 16, MOST_SWITCHES = 2 };
    size_t switches[MOST_SWITCHES] = {0}, drafts[QN_BENCH_MAX_POINTS] = {0}, switch_count = 1, draft_count = 1;
    qn_status status = QN_OK;
    if (l->prefix_caching)
        status = read_switches("prefix-caching", l->prefix_caching, switches, &switch_count, err);
    if (status == QN_OK && l->speculation)
        status = qn_size_list_read("speculation", l->speculation, 0, MOST_DRAFTS, QN_BENCH_MAX_POINTS, drafts,
                                   &draft_count, err);
    for (size_t i = 0; status == QN_OK && i < switch_count * draft_count; i++) {
        b->settings[b->setting_count++] = (qn_serve_setting){
            .prefix_caching = l->prefix_caching ? (int)switches[i / draft_count] : QN_SETTING_DEFAULT,
            .speculation = l->speculation ? (int)drafts[i % draft_count] : QN_SETTING_DEFAULT};
    }
    return status;
}

static qn_status usage(const char *option, const char *why, qn_error *err)
{
    return qn_fail_field(err, QN_USAGE, option, "--%s: %s", option, why);
}

/* Options that this mode or server has no use for are told, not ignored. */
static qn_status check_use(const qn_serve_bench *b, const qn_option_table *table, qn_error *err)
{
    static const struct {
        const char *option;
        bool table, stress, overload;
    } uses[] = {{"concurrency", true, false, false},       {"requests", true, false, false},
                {"decodes", false, true, false},           {"long-prompts", false, true, false},
                {"max-gap-ms", false, true, false},        {"clients", false, false, true},
                {"shared-prefix-tokens", true, true, true}};
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        bool used = b->mode == QN_BENCH_TABLE    ? uses[i].table
                    : b->mode == QN_BENCH_STRESS ? uses[i].stress
                                                 : uses[i].overload;
        if (!used && qn_options_given(table, uses[i].option))
            return usage(uses[i].option, "the other mode's: see quern bench serve --help", err);
    }
    static const char *const own[] = {"prefix-caching", "speculation"};
    for (size_t i = 0; b->base_url && i < 2; i++) {
        if (qn_options_given(table, own[i]))
            return usage(own[i], "a running server is as it is: give MODEL_DIR in place of --base-url", err);
    }
    return QN_OK;
}

static qn_status check_server(const qn_serve_bench *b, qn_error *err)
{
    if (!b->base_url && !b->model_dir)
        return qn_fail(err, QN_USAGE, "bench serve: no server: give --base-url URL, or MODEL_DIR to start one");
    if (b->base_url && b->model_dir)
        return qn_fail(err, QN_USAGE, "bench serve: two servers: give --base-url or MODEL_DIR, not both");
    if (b->base_url && b->server_flag_count > 0)
        return qn_fail(err, QN_USAGE, "%s: a running server is as it is: give MODEL_DIR in place of --base-url",
                       b->server_flags[0]);
    return QN_OK;
}

/* What was not given gets the mode's default. */
static qn_status complete(qn_serve_bench *b, const lists *l, qn_error *err)
{
    static const size_t prompt_tokens[] = {256, 256, 32}, max_tokens[] = {64, 256, 8};
    qn_serve_workload *w = &b->workload;
    w->prompt_tokens = w->prompt_tokens ? w->prompt_tokens : prompt_tokens[b->mode];
    w->max_tokens = w->max_tokens ? w->max_tokens : max_tokens[b->mode];
    w->seed = (uint64_t)l->seed;
    if (w->shared_prefix_tokens >= w->prompt_tokens)
        return usage("shared-prefix-tokens", "as long as the prompt: give less, or more --prompt-tokens", err);
    qn_status status = read_settings(l, b, err);
    if (status == QN_OK)
        status = qn_size_list_read("concurrency", l->concurrency, 1, QN_SERVE_MAX_CLIENTS, QN_BENCH_MAX_POINTS,
                                   b->concurrency, &b->concurrency_count, err);
    if (status == QN_OK)
        status = qn_size_list_read("long-prompts", l->long_prompts, 1, QN_SERVE_MAX_TOKENS, QN_SERVE_MAX_LONG,
                                   b->stress.long_tokens, &b->stress.long_count, err);
    b->stress.workload = b->overload.workload = *w;
    b->overload.seconds = l->overload_s;
    return status;
}

/* Words behind "--" are the server's. */
static int split(int argc, char **argv, qn_serve_bench *b)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            b->server_flags = (const char *const *)argv + i + 1;
            b->server_flag_count = (size_t)(argc - i - 1);
            return i;
        }
    }
    return argc;
}

qn_status qn_bench_serve_parse(int argc, char **argv, qn_serve_bench *out, qn_error *err)
{
    *out = (qn_serve_bench){.workload.requests = 32, .patience_s = 600, .stress.decodes = 4, .overload.clients = 500};
    lists l = {.concurrency = "1,4,16", .long_prompts = "65536,102400"};
    qn_option_table table = {.command = "bench serve",
                             .arguments = "[MODEL_DIR [-- FLAGS_OF_SERVE]]",
                             .summary = "Measures a chat server under load: one that runs (--base-url), or its own for "
                                        "MODEL_DIR. Prints a table of concurrencies; with --stress or --overload how "
                                        "it bears long prompts or too many clients.",
                             .max_arguments = 1};
    add_server_options(&table, out, &l);
    add_load_options(&table, out, &l);
    add_mode_options(&table, out, &l);
    qn_status status = qn_options_parse(&table, split(argc, argv, out), argv, err);
    out->help_shown = table.help_shown;
    if (status != QN_OK || table.help_shown)
        return status;
    out->model_dir = table.argument_count > 0 ? table.argument[0] : NULL;
    if (l.stress && l.overload_s > 0)
        return usage("stress", "not together with --overload: run them one after the other", err);
    out->mode = l.stress ? QN_BENCH_STRESS : l.overload_s > 0 ? QN_BENCH_OVERLOAD : QN_BENCH_TABLE;
    status = check_server(out, err);
    if (status == QN_OK)
        status = check_use(out, &table, err);
    return status == QN_OK ? complete(out, &l, err) : status;
}
