/* `quern eval logits`: what the model computes for given tokens, for comparison with references (engine/dump.h). */
#include "base/json.h"
#include "base/memory.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/eval.h"
#include "cli/eval_output.h"
#include "engine/dump.h"

enum { IDS_LIMIT_BYTES = 64 << 20 };

typedef struct arguments {
    qn_option_table table;
    qn_engine_flags engine;
    const char *ids, *out;
    bool hidden, mtp;
    size_t chain;
} arguments;

static void add_options(arguments *a)
{
    const qn_option own[] = {
        {.name = "ids",
         .kind = QN_OPTION_STRING,
         .value = &a->ids,
         .value_name = "FILE",
         .help = "the tokens: a JSON array of ids"},
        {.name = "out",
         .kind = QN_OPTION_STRING,
         .value = &a->out,
         .value_name = "FILE",
         .help = "the safetensors file to write"},
        {.name = "hidden",
         .kind = QN_OPTION_FLAG,
         .value = &a->hidden,
         .help = "also the layers' hidden states, attention outputs, chosen keys, experts and weights"},
        {.name = "mtp", .kind = QN_OPTION_FLAG, .value = &a->mtp, .help = "also the MTP layer's, teacher-forced"},
        {.name = "chain",
         .kind = QN_OPTION_SIZE,
         .value = &a->chain,
         .value_name = "N",
         .help = "also N greedy drafts chained from the last token (with --mtp)",
         .min = 1,
         .max = QN_DUMP_MAX_CHAIN},
    };
    qn_options_add(&a->table, own, sizeof own / sizeof *own);
    qn_engine_flags_add(&a->engine, &a->table, false);
}

static qn_status read_ids(const char *path, int32_t **ids, size_t *count, qn_error *err)
{
    json_t *array;
    qn_status status = qn_json_parse_file(path, IDS_LIMIT_BYTES, &array, err);
    if (status != QN_OK) {
        return status;
    }
    *count = json_array_size(array);
    *ids = qn_alloc(*count, sizeof **ids);
    if (!json_is_array(array) || *count == 0) {
        status = qn_fail(err, QN_BAD_INPUT, "%s: expected a JSON array of token ids, not empty", path);
    } else if (*ids == NULL) {
        status = qn_fail_memory(err, path, *count * sizeof **ids);
    }
    for (size_t i = 0; status == QN_OK && i < *count; i++) {
        const json_t *id = json_array_get(array, i);
        json_int_t value = json_integer_value(id);
        if (!json_is_integer(id) || value < 0 || value > INT32_MAX) {
            status = qn_fail(err, QN_BAD_INPUT, "%s: element %zu is no token id: give integers from 0 on", path, i);
        } else {
            (*ids)[i] = (int32_t)value;
        }
    }
    json_decref(array);
    return status;
}

static qn_status run(const arguments *a, qn_error *err)
{
    qn_engine_options options;
    qn_engine *engine = NULL;
    int32_t *ids = NULL;
    size_t count = 0;
    if (a->ids == NULL || a->out == NULL) {
        return qn_fail_field(err, QN_USAGE, a->ids == NULL ? "ids" : "out", "eval logits: needs --ids and --out");
    }
    qn_status status = qn_engine_flags_options(&a->engine, &a->table, &options, err);
    if (status == QN_OK) {
        status = qn_check_output("out", a->out, a->table.argument[0], a->ids, err);
    }
    if (status == QN_OK) {
        status = read_ids(a->ids, &ids, &count, err);
    }
    const qn_dump_options dump = {.hidden = a->hidden, .mtp = a->mtp, .chain = a->chain};
    if (status == QN_OK) {
        options.without_text = true;
        options.needed_tokens = count + qn_dump_room(&dump);
        status = qn_engine_open(&options, &engine, err);
    }
    if (status == QN_OK) {
        status = qn_dump_logits(engine, ids, count, &dump, a->out, err);
    }
    qn_engine_close(engine);
    qn_free(ids);
    return status;
}

int qn_eval_logits(int argc, char **argv)
{
    arguments a = {.table = {.command = "eval logits",
                             .arguments = "MODEL_DIR",
                             .summary = "Writes what the model computes for given tokens to a safetensors file.",
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
