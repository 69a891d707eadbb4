/* `quern synth CONFIG_OR_DIR DST`: a random checkpoint of a config (synth/synth.h). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/pool.h"
#include "cli/command.h"
#include "cli/json_result.h"
#include "cli/options.h"
#include "cli/stop.h"
#include "synth/synth.h"

typedef struct arguments {
    qn_option_table table;
    qn_synth_cut cut;
    const char *format;
    int64_t seed;
    size_t threads, max_shard_bytes;
    bool json;
} arguments;

static void add_options(arguments *a)
{
    static const char *const formats[] = {"bf16", "mxfp4", NULL};
    const qn_option own[] = {
        {.name = "layers",
         .kind = QN_OPTION_SIZE,
         .value = &a->cut.layers,
         .value_name = "N",
         .help = "only the first N layers, the MTP layer not counted (default: all)",
         .min = 1,
         .max = QN_MAX_LAYERS},
        {.name = "sparse-from",
         .kind = QN_OPTION_SIZE,
         .value = &a->cut.sparse_from,
         .value_name = "N",
         .help = "layers from N on have experts, those before a dense MLP; 0: all have (default: as the config says)",
         .min = 0,
         .max = QN_MAX_LAYERS},
        {.name = "experts",
         .kind = QN_OPTION_SIZE,
         .value = &a->cut.experts,
         .value_name = "N",
         .help = "only N routed experts a layer (default: all)",
         .min = 1,
         .max = INT32_MAX},
        {.name = "vocab",
         .kind = QN_OPTION_SIZE,
         .value = &a->cut.vocab,
         .value_name = "N",
         .help = "only the first N tokens (default: all)",
         .min = 1,
         .max = INT32_MAX},
        {.name = "no-mtp", .kind = QN_OPTION_FLAG, .value = &a->cut.without_mtp, .help = "leave out the MTP layer"},
        {.name = "format",
         .kind = QN_OPTION_CHOICE,
         .value = &a->format,
         .value_name = "FORMAT",
         .help =
             "of the routed experts: bf16 or mxfp4 (default: as the config's quantization_config; bf16 without one)",
         .choices = formats},
        {.name = "seed",
         .kind = QN_OPTION_INTEGER,
         .value = &a->seed,
         .value_name = "N",
         .help = "the same seed gives the same bytes (default: 0)",
         .min = 0,
         .max = INT64_MAX},
        {.name = "max-shard-size",
         .kind = QN_OPTION_SIZE,
         .value = &a->max_shard_bytes,
         .value_name = "SIZE",
         .help = "bytes of tensors in a file, unless a single one is larger (default: 5g)",
         .min = 1,
         .max = INT64_MAX},
        {.name = "threads",
         .kind = QN_OPTION_SIZE,
         .value = &a->threads,
         .value_name = "N",
         .help = "threads that compute (default: all CPUs, or what a CPU quota pays for)",
         .min = 1,
         .max = QN_POOL_MAX_THREADS},
        {.name = "json", .kind = QN_OPTION_FLAG, .value = &a->json, .help = "progress and result as JSON lines"},
    };
    qn_options_add(&a->table, own, sizeof own / sizeof *own);
}

static double seconds_of(const qn_synth_result *result)
{
    return (double)result->us / 1e6;
}

static qn_status print_json(const char *destination, int64_t seed, const qn_synth_result *r, qn_error *err)
{
    json_t *root = json_pack("{s:{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:f}}", "result", "destination", destination,
                             "format", r->format == QN_SYNTH_MXFP4 ? "mxfp4" : "bf16", "seed", (json_int_t)seed,
                             "files", (json_int_t)r->files, "tensors", (json_int_t)r->tensors, "weights",
                             (json_int_t)r->weights, "bytes", (json_int_t)r->bytes, "seconds", seconds_of(r));
    return qn_print_json(root, JSON_COMPACT, err);
}

static void print_text(const char *destination, int64_t seed, const qn_synth_result *r)
{
    double gigabytes = (double)r->bytes / 1e9, seconds = seconds_of(r);
    printf("%s: %" PRIu64 " random weights%s with seed %" PRId64 ", %zu tensors in %zu file%s, %.2f GB in %.1f s "
           "(%.2f GB/s)\n",
           destination, r->weights, r->format == QN_SYNTH_MXFP4 ? " (experts in MXFP4)" : "", seed, r->tensors,
           r->files, r->files == 1 ? "" : "s", gigabytes, seconds, seconds > 0 ? gigabytes / seconds : 0);
}

static qn_synth_format format_of(const char *name)
{
    if (name == NULL)
        return QN_SYNTH_AS_CONFIG;
    return strcmp(name, "mxfp4") == 0 ? QN_SYNTH_MXFP4 : QN_SYNTH_BF16;
}

static qn_status synthesise(const arguments *a, qn_error *err)
{
    const qn_synth_options options = {.source = a->table.argument[0],
                                      .destination = a->table.argument[1],
                                      .cut = a->cut,
                                      .format = format_of(a->format),
                                      .seed = (uint64_t)a->seed,
                                      .max_shard_bytes = a->max_shard_bytes,
                                      .threads = a->threads,
                                      .progress_json = a->json ? stdout : NULL,
                                      .stop = qn_stop_on_signals()};
    qn_synth_result result;
    qn_status status = qn_synth_write(&options, &result, err);
    if (status == QN_OK && a->json)
        return print_json(options.destination, a->seed, &result, err);
    if (status == QN_OK)
        print_text(options.destination, a->seed, &result);
    return status;
}

static int run(int argc, char **argv)
{
    arguments a = {
        .table = {.command = "synth",
                  .arguments = "CONFIG_OR_DIR DST",
                  .summary =
                      "Writes a random checkpoint of a config, whole or cut, into the new folder DST: values with "
                      "the spread of trained weights, for planning, benches and tests. CONFIG_OR_DIR is a "
                      "config.json or a folder that has one.",
                  .min_arguments = 2,
                  .max_arguments = 2},
        .max_shard_bytes = QN_SYNTH_DEFAULT_SHARD_BYTES,
    };
    add_options(&a);
    qn_error err;
    qn_status status = qn_options_parse(&a.table, argc, argv, &err);
    a.cut.moves_sparse = qn_options_given(&a.table, "sparse-from");
    if (status == QN_OK && !a.table.help_shown)
        status = synthesise(&a, &err);
    return status == QN_OK ? 0 : qn_command_fail(&err);
}

const qn_command qn_synth_command = {.name = "synth", .summary = "write a random checkpoint of a config", .run = run};
