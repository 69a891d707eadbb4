/* `quern plan`: what a model needs and what this machine would make of it (plan/plan.h). */
#include <stdio.h>

#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/pool.h"
#include "cli/command.h"
#include "cli/json_result.h"
#include "cli/options.h"
#include "plan/plan.h"

enum { HW_LIMIT_BYTES = 1 << 20, DEFAULT_ROWS = 512, MOST_ROWS = 65536 };

static const double MEASURE_SECONDS = 10;

typedef struct arguments {
    qn_option_table table;
    const char *hw, *disk;
    bool measure, json;
    size_t memory, ranks, max_model_len, rows;
    double acceptance;
} arguments;

static void add_options(arguments *a)
{
    const qn_option options[] = {
        {.name = "memory",
         .kind = QN_OPTION_SIZE,
         .value = &a->memory,
         .value_name = "SIZE",
         .help = "memory to plan with, of a rank: 512G (default: what is available here)",
         .min = 1 << 20,
         .max = INT64_MAX},
        {.name = "max-model-len",
         .kind = QN_OPTION_SIZE,
         .value = &a->max_model_len,
         .value_name = "TOKENS",
         .help = "tokens of a request (default: the model's max_position_embeddings)",
         .min = 1,
         .max = INT32_MAX},
        {.name = "max-num-batched-tokens",
         .kind = QN_OPTION_SIZE,
         .value = &a->rows,
         .value_name = "TOKENS",
         .help = "tokens of a prompt computed in one step (default: 512)",
         .min = 1,
         .max = MOST_ROWS},
        {.name = "ranks",
         .kind = QN_OPTION_SIZE,
         .value = &a->ranks,
         .value_name = "N",
         .help = "only layouts over so many ranks (default: 1 to 64)",
         .min = 1,
         .max = QN_PLAN_MAX_RANKS},
        {.name = "acceptance",
         .kind = QN_OPTION_NUMBER,
         .value = &a->acceptance,
         .value_name = "SHARE",
         .help = "share of the MTP layer's drafts that are accepted (default: 0.8)",
         .number_min = 0,
         .number_max = 1},
        {.name = "disk",
         .kind = QN_OPTION_STRING,
         .value = &a->disk,
         .value_name = "DIR",
         .help = "the folder for the weights: its free space is told, its disk measured (default: the config's folder, "
                 "not measured)"},
        {.name = "hw",
         .kind = QN_OPTION_STRING,
         .value = &a->hw,
         .value_name = "FILE",
         .help = "figures that quern bench hw --out saved (default: measures some 10 s)"},
        {.name = "measure",
         .kind = QN_OPTION_FLAG,
         .value = &a->measure,
         .help = "measures this machine for predictions; --no-measure: sizes alone (default: on)"},
        {.name = "json", .kind = QN_OPTION_FLAG, .value = &a->json, .help = "prints one JSON object"},
    };
    qn_options_add(&a->table, options, sizeof options / sizeof *options);
}

static qn_status read_figures(const arguments *a, qn_hardware *out, qn_error *err)
{
    json_t *root;
    qn_status status = qn_json_parse_file(a->hw, HW_LIMIT_BYTES, &root, err);
    if (status == QN_OK) {
        status = qn_hardware_from_json(root, a->hw, out, err);
        json_decref(root);
    }
    return status;
}

static qn_status count_threads(size_t *out, qn_error *err)
{
    qn_pool *pool;
    qn_status status = qn_pool_new(0, &pool, err);
    if (status == QN_OK) {
        *out = qn_pool_threads(pool);
        qn_pool_free(pool);
    }
    return status;
}

static qn_status print(const arguments *a, const qn_plan *plan, qn_error *err)
{
    if (a->json) {
        return qn_print_json(qn_plan_to_json(plan), JSON_REAL_PRECISION(6), err);
    }
    qn_buffer text = {0};
    qn_plan_to_text(plan, &text);
    qn_status status = text.failed ? qn_fail_memory(err, "plan as text", text.size) : QN_OK;
    if (status == QN_OK) {
        fputs(qn_buffer_string(&text), stdout);
    }
    qn_buffer_free(&text);
    return status;
}

/* The config is read and its sizes counted first, so that its faults show before anything is measured. */
static qn_status make(const arguments *a, qn_plan *plan, qn_hardware *hardware, qn_error *err)
{
    qn_plan_options options = {.path = a->table.argument[0],
                               .root = "",
                               .disk = a->disk,
                               .memory_bytes = a->memory,
                               .max_model_len = a->max_model_len,
                               .max_num_batched_tokens = a->rows,
                               .ranks = a->ranks,
                               .acceptance = a->acceptance};
    qn_status status = qn_kernels_from_environment(&options.kernels, err);
    if (status == QN_OK) {
        status = count_threads(&options.threads, err);
    }
    if (status == QN_OK && a->hw != NULL) {
        status = read_figures(a, hardware, err);
    }
    if (status == QN_OK) {
        options.hardware = a->hw != NULL ? hardware : NULL;
        status = qn_plan_make(&options, plan, err);
    }
    if (status != QN_OK || a->hw != NULL || !a->measure) {
        return status;
    }
    qn_hardware_options measuring = {
        .kernels = options.kernels, .disk = a->disk, .seconds = MEASURE_SECONDS, .show_progress = true};
    status = qn_hardware_measure(&measuring, hardware, err);
    if (status == QN_OK) {
        options.hardware = hardware;
        status = qn_plan_make(&options, plan, err);
    }
    return status;
}

static qn_status run(const arguments *a, qn_error *err)
{
    qn_plan *plan = qn_alloc(1, sizeof *plan);
    qn_hardware *hardware = qn_alloc(1, sizeof *hardware);
    qn_status status = plan == NULL || hardware == NULL ? qn_fail_memory(err, "plan", sizeof *plan + sizeof *hardware)
                                                        : make(a, plan, hardware, err);
    if (status == QN_OK) {
        status = print(a, plan, err);
    }
    qn_free(plan);
    qn_free(hardware);
    return status;
}

static int command_main(int argc, char **argv)
{
    arguments a = {.table = {.command = "plan",
                             .arguments = "CONFIG_OR_DIR",
                             .summary = "Tells from a config alone what a model needs, what of it fits here, and how "
                                        "fast it would run.",
                             .min_arguments = 1,
                             .max_arguments = 1},
                   .measure = true,
                   .rows = DEFAULT_ROWS,
                   .acceptance = 0.8};
    qn_error err;
    add_options(&a);
    qn_status status = qn_options_parse(&a.table, argc, argv, &err);
    if (status == QN_OK && !a.table.help_shown) {
        status = run(&a, &err);
    }
    return status == QN_OK ? QN_OK : qn_command_fail(&err);
}

const qn_command qn_plan_command = {.name = "plan", .summary = "size a model for this machine", .run = command_main};
