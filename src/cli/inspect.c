/* `quern inspect PATH`: what a checkpoint is, and whether it can be run. What is shown is read off the headers,
 * whatever state it is in; whether it can be run is found out by loading it (the same code takes the tensors), so a
 * checkpoint that is inspected without an error can be run. */
#include "cli/inspect.h"

#include <sys/stat.h>

#include "base/file.h"
#include "base/memory.h"
#include "checkpoint/manifest.h"
#include "cli/chart.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/stop.h"
#include "model/weights.h"

/* Takes every tensor as a model would, for the checks in it. */
static qn_status load(const char *dir, qn_error *err)
{
    qn_checkpoint *checkpoint = NULL;
    qn_weights weights;
    qn_status status = qn_checkpoint_open(dir, &checkpoint, err);
    if (status == QN_OK)
        status = qn_weights_take(checkpoint, &weights, err);
    if (status == QN_OK)
        qn_weights_free(&weights);
    qn_checkpoint_close(checkpoint);
    return status;
}

/* QN_OK, or why it can't be run. */
static qn_status check(const qn_listing *l, qn_error *err)
{
    if (l->kind == QN_LISTING_WEIGHTS)
        return qn_fail(err, QN_BAD_INPUT,
                       "%s: is one file of weights: to run a model, name the folder with its config.json", l->path);
    if (l->kind == QN_LISTING_CONFIG && l->config_problem)
        return qn_fail(err, QN_BAD_INPUT, "%s", l->config_problem);
    if (l->kind == QN_LISTING_CONFIG)
        return qn_fail(err, QN_BAD_INPUT, "%s: is a config without weights: see quern plan for what its model needs",
                       l->path);
    if (l->converting && !l->has_config)
        return qn_fail(err, QN_BAD_INPUT, "%s: is an unfinished conversion: go on with quern convert", l->path);
    return load(l->path, err);
}

/* The folder's manifest; *out NULL: it has none. */
static qn_status read_manifest(const qn_listing *l, qn_manifest **out, qn_error *err)
{
    struct stat info;
    *out = NULL;
    if (l->kind != QN_LISTING_FOLDER)
        return QN_OK;
    char *path = qn_path_join(l->path, QN_MANIFEST_NAME);
    if (!path)
        return qn_fail_memory(err, l->path, sizeof QN_MANIFEST_NAME);
    qn_status status = lstat(path, &info) == 0 ? qn_manifest_read(path, out, err) : QN_OK;
    qn_free(path);
    return status;
}

/* Hashes everything; *verdict: what a manifest says to that. QN_FAILED: it says otherwise. */
static qn_status checksum(qn_listing *l, const char **verdict, qn_error *err)
{
    qn_manifest *manifest = NULL;
    qn_status status = read_manifest(l, &manifest, err);
    if (status == QN_OK)
        status = qn_listing_checksum(l, NULL, qn_stop_on_signals(), err);
    if (status == QN_OK && manifest) {
        status = qn_listing_compare(l, manifest, err);
        *verdict = status == QN_OK ? "all headers and tensors are as it says" : "not all are as it says";
    }
    qn_manifest_free(manifest);
    return status;
}

static qn_status print(const qn_inspection *inspection, bool json, qn_error *err)
{
    if (json)
        return qn_inspect_print_json(inspection, err);
    qn_inspect_print_text(inspection, qn_locale_has_utf8());
    return QN_OK;
}

/* What can't be run comes before what differs from the manifest, which was told as it was found. */
static qn_status show(qn_listing *listing, const qn_summary *summary, bool json, bool checksums, qn_error *err)
{
    qn_error print_err, checksum_err;
    const char *verdict = NULL;
    qn_status status = check(listing, err);
    qn_status sums = checksums ? checksum(listing, &verdict, &checksum_err) : QN_OK;
    if (sums != QN_OK && !verdict) {
        *err = checksum_err;
        return sums;
    }
    qn_inspection inspection = {.listing = listing,
                                .summary = summary,
                                .problem = status == QN_OK ? NULL : err->message,
                                .checksums = checksums,
                                .manifest = verdict};
    qn_status printed = print(&inspection, json, &print_err);
    if (status == QN_OK && sums != QN_OK)
        status = (*err = checksum_err).status;
    if (status == QN_OK && printed != QN_OK)
        status = (*err = print_err).status;
    return status;
}

static qn_status inspect(const char *path, bool json, bool checksums, qn_error *err)
{
    qn_listing *listing = NULL;
    qn_summary summary = {0};
    qn_status status = qn_listing_open(path, &listing, err);
    if (status == QN_OK)
        status = qn_listing_summarise(listing, &summary, err);
    if (status == QN_OK)
        status = show(listing, &summary, json, checksums, err);
    qn_summary_free(&summary);
    qn_listing_close(listing);
    return status;
}

static int run(int argc, char **argv)
{
    bool json = false, checksums = false;
    const qn_option options[] = {
        {.name = "json",
         .kind = QN_OPTION_FLAG,
         .value = &json,
         .help = "print one JSON object, with lists of all layers, files and tensors (default: a picture)"},
        {.name = "checksum",
         .kind = QN_OPTION_FLAG,
         .value = &checksums,
         .help = "reads all: also the XXH3-128 of every header and tensor, and whether they are those of "
                 "quern-manifest.json"},
    };
    qn_option_table table = {
        .command = "inspect",
        .arguments = "PATH",
        .summary =
            "Tells what a checkpoint's folder holds (sizes, layers, tensors by kind and dtype, memory of a token in "
            "the KV cache) and checks it as a load would. What can't be run is shown as far as it goes, then the "
            "reason: a download that goes on, an unfinished conversion, a format that quern does not run, one "
            ".safetensors file, a config.json.",
        .min_arguments = 1,
        .max_arguments = 1,
    };
    qn_options_add(&table, options, sizeof options / sizeof *options);
    qn_error err;
    qn_status status = qn_options_parse(&table, argc, argv, &err);
    if (status == QN_OK && !table.help_shown)
        status = inspect(table.argument[0], json, checksums, &err);
    return status == QN_OK ? 0 : qn_command_fail(&err);
}

const qn_command qn_inspect_command = {.name = "inspect",
                                       .summary = "check a checkpoint and tell what it holds",
                                       .run = run};
