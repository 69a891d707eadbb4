/* A synthetic model is written to a folder for temporary files and removed again, after a signal too. */
#include "cli/bench_model.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "cli/command.h"
#include "cli/json_result.h"
#include "cli/size_list.h"
#include "cli/stop.h"
#include "synth/temporary.h"

enum { MOST_NUMBERS = 8 };

_Static_assert(MOST_NUMBERS *MOST_NUMBERS <= QN_SPEED_MAX_POINTS, "each with each fits");

static void add_run_options(qn_bench_model *b)
{
    const qn_option options[] = {
        {.name = "repeats",
         .kind = QN_OPTION_SIZE,
         .value = &b->speed.repeats,
         .value_name = "N",
         .help = "samples of each setting, after one that does not count (default: 5)",
         .min = 1,
         .max = QN_SPEED_MAX_REPEATS},
        {.name = "expert-cache",
         .kind = QN_OPTION_SIZE,
         .value = &b->speed.expert_cache_bytes,
         .value_name = "BYTES",
         .help = "routed experts stay on the disk, and so much memory holds those used most (default: off)",
         .min = 1,
         .max = INT64_MAX},
        {.name = "seed",
         .kind = QN_OPTION_INTEGER,
         .value = &b->seed,
         .value_name = "N",
         .help = "of the tokens, and of a synthetic model (default: 0)",
         .min = 0,
         .max = INT64_MAX},
        {.name = "out",
         .kind = QN_OPTION_STRING,
         .value = &b->out,
         .value_name = "FILE",
         .help = "saves the figures as JSON"},
        {.name = "json", .kind = QN_OPTION_FLAG, .value = &b->json, .help = "prints one JSON object"},
    };
    qn_options_add(&b->table, options, sizeof options / sizeof *options);
}

static void add_synthetic_options(qn_bench_model *b)
{
    const qn_option options[] = {
        {.name = "synthetic",
         .kind = QN_OPTION_STRING,
         .value = &b->synthetic,
         .value_name = "CONFIG_OR_DIR",
         .help = "in place of MODEL_DIR: random weights of this config, experts in MXFP4, no MTP layer, below $TMPDIR "
                 "and removed at the end"},
        {.name = "layers",
         .kind = QN_OPTION_SIZE,
         .value = &b->layers,
         .value_name = "N",
         .help = "of a synthetic model (default: 2)",
         .min = 1,
         .max = QN_MAX_LAYERS},
        {.name = "sparse-from",
         .kind = QN_OPTION_SIZE,
         .value = &b->sparse_from,
         .value_name = "N",
         .help = "of a synthetic model: layers from N on have experts (default: 1)",
         .min = 0,
         .max = QN_MAX_LAYERS},
        {.name = "experts",
         .kind = QN_OPTION_SIZE,
         .value = &b->experts,
         .value_name = "N",
         .help = "of a synthetic model: routed experts of a layer (default: all)",
         .min = 1,
         .max = INT32_MAX},
        {.name = "vocab",
         .kind = QN_OPTION_SIZE,
         .value = &b->vocab,
         .value_name = "N",
         .help = "of a synthetic model: tokens of the vocabulary (default: all)",
         .min = 1,
         .max = INT32_MAX},
    };
    qn_options_add(&b->table, options, sizeof options / sizeof *options);
}

/* Each context with each count. */
static qn_status read_points(qn_bench_model *b, qn_speed_point points[QN_SPEED_MAX_POINTS], qn_error *err)
{
    size_t contexts[MOST_NUMBERS], counts[MOST_NUMBERS], context_count = 0, count_count = 0;
    qn_status status = qn_size_list_read("context", b->context, 0, QN_MAX_POSITIONS, MOST_NUMBERS, contexts,
                                         &context_count, err);
    if (status == QN_OK)
        status = qn_size_list_read(b->count_name, b->count, 1, b->most_count, MOST_NUMBERS, counts, &count_count, err);
    for (size_t i = 0; status == QN_OK && i < context_count * count_count; i++)
        points[b->speed.point_count++] = (qn_speed_point){.context = contexts[i / count_count],
                                                          .count = counts[i % count_count]};
    b->speed.points = points;
    b->speed.leaves_out = !qn_options_given(&b->table, "context") && !qn_options_given(&b->table, b->count_name);
    return status;
}

static qn_status check_use(const qn_bench_model *b, qn_error *err)
{
    static const char *const own[] = {"layers", "sparse-from", "experts", "vocab"};
    if (b->synthetic && b->table.argument_count > 0)
        return qn_fail_field(err, QN_USAGE, "synthetic", "--synthetic: two models: give MODEL_DIR or this, not both");
    if (!b->synthetic && b->table.argument_count == 0)
        return qn_fail(err, QN_USAGE, "%s: no model: give MODEL_DIR, or --synthetic CONFIG", b->table.command);
    for (size_t i = 0; !b->synthetic && i < sizeof own / sizeof *own; i++)
        if (qn_options_given(&b->table, own[i]))
            return qn_fail_field(err, QN_USAGE, own[i],
                                 "--%s: MODEL_DIR is measured as it is: give it with --synthetic", own[i]);
    return QN_OK;
}

static qn_status make_model(const qn_bench_model *b, char path[QN_TEMPORARY_PATH_BYTES], qn_error *err)
{
    const qn_synth_options options = {.source = b->synthetic,
                                      .cut = {.layers = b->layers,
                                              .moves_sparse = true,
                                              .sparse_from = b->sparse_from,
                                              .experts = b->experts,
                                              .vocab = b->vocab,
                                              .without_mtp = true},
                                      .format = QN_SYNTH_MXFP4,
                                      .seed = (uint64_t)b->seed,
                                      .max_shard_bytes = QN_SYNTH_DEFAULT_SHARD_BYTES,
                                      .threads = b->speed.threads,
                                      .stop = b->speed.stop};
    qn_synth_result result;
    return qn_synth_temporary(&options, path, &result, err);
}

static qn_status tell_json(const qn_bench_model *b, const qn_model_speed *speed, const char *model, qn_error *err)
{
    json_t *root = qn_model_speed_to_json(speed);
    if (root && (json_object_set_new(root, "model", json_string(model)) != 0 ||
                 json_object_set_new(root, "synthetic", json_boolean(b->synthetic != NULL)) != 0)) {
        json_decref(root);
        root = NULL;
    }
    return qn_tell_figures(root, b->json, b->out, err);
}

static qn_status measure(qn_bench_model *b, qn_error *err)
{
    char made[QN_TEMPORARY_PATH_BYTES] = "";
    qn_model_speed *speed = qn_alloc(1, sizeof *speed);
    qn_status status = speed ? QN_OK : qn_fail_memory(err, "figures of the bench", sizeof *speed);
    if (status == QN_OK && b->synthetic)
        status = make_model(b, made, err);
    b->speed.model_dir = b->synthetic ? made : b->table.argument[0];
    if (status == QN_OK)
        status = qn_model_speed_measure(&b->speed, speed, err);
    qn_synth_temporary_remove(made);
    const char *model = b->synthetic ? b->synthetic : b->table.argument[0];
    if (status == QN_OK && !b->json)
        qn_bench_model_print(speed, model);
    if (status == QN_OK && (b->json || b->out))
        status = tell_json(b, speed, model, err);
    qn_free(speed);
    return status;
}

int qn_bench_model_main(qn_bench_model *b, int argc, char **argv)
{
    qn_speed_point points[QN_SPEED_MAX_POINTS];
    qn_load_choice choice = {0};
    qn_error err;
    b->layers = 2;
    b->sparse_from = 1;
    b->speed.repeats = 5;
    b->speed.show_progress = true;
    add_run_options(b);
    qn_thread_flags_add(&b->threads, &b->table);
    qn_load_flags_add(&b->load, &b->table);
    add_synthetic_options(b);
    qn_status status = qn_options_parse(&b->table, argc, argv, &err);
    if (status == QN_OK && b->table.help_shown)
        return QN_OK;
    if (status == QN_OK)
        status = check_use(b, &err);
    if (status == QN_OK)
        status = read_points(b, points, &err);
    if (status == QN_OK)
        status = qn_load_flags_read(&b->load, &choice, &err);
    b->speed.threads = b->threads.threads;
    b->speed.cpu_binding = b->threads.cpu_binding;
    b->speed.load = choice.load;
    b->speed.pack_dense = choice.pack_dense;
    b->speed.numa = choice.numa;
    b->speed.seed = (uint64_t)b->seed;
    b->speed.stop = qn_stop_on_signals();
    if (status == QN_OK)
        status = measure(b, &err);
    return status == QN_OK ? QN_OK : qn_command_fail(&err);
}
