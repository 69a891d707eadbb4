/* `quern convert SRC DST`: convert/convert.h on the command line. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/pool.h"
#include "checkpoint/verify.h"
#include "cli/command.h"
#include "cli/json_result.h"
#include "cli/options.h"
#include "cli/stop.h"
#include "convert/convert.h"
#include "convert/shard_plan.h"

typedef struct arguments {
    qn_option_table table;
    qn_convert_options convert;
    const char *layers;
    size_t max_shard_bytes;
    bool rtn, json, verify;
} arguments;

static void add_options(arguments *a)
{
    const qn_option own[] = {
        {.name = "layers",
         .kind = QN_OPTION_STRING,
         .value = &a->layers,
         .value_name = "A-B",
         .help = "convert the routed experts of these layers only, A alone of one; the MTP layer has the number "
                 "num_hidden_layers (default: everything, then finalize)"},
        {.name = "rest",
         .kind = QN_OPTION_FLAG,
         .value = &a->convert.rest,
         .help = "copy what is no routed expert only, or beside --layers"},
        {.name = "finalize",
         .kind = QN_OPTION_FLAG,
         .value = &a->convert.finalize,
         .help = "check that all parts are there and write what makes them a checkpoint"},
        {.name = "threads",
         .kind = QN_OPTION_SIZE,
         .value = &a->convert.threads,
         .value_name = "N",
         .help = "threads that compute (default: all CPUs)",
         .min = 1,
         .max = QN_POOL_MAX_THREADS},
        {.name = "max-shard-size",
         .kind = QN_OPTION_SIZE,
         .value = &a->max_shard_bytes,
         .value_name = "BYTES",
         .help = "largest file of weights (default: 6g)",
         .min = QN_MIN_SHARD_BYTES,
         .max = INT64_MAX},
        {.name = "rtn",
         .kind = QN_OPTION_FLAG,
         .value = &a->rtn,
         .help = "scales by the OCP rule and rounding to nearest (default: the scales of the least squared error)"},
        {.name = "importance",
         .kind = QN_OPTION_STRING,
         .value = &a->convert.importance,
         .value_name = "FILE",
         .help = "weigh the errors by measured inputs, from `quern eval ppl --collect`"},
        {.name = "allow-lossy-source",
         .kind = QN_OPTION_FLAG,
         .value = &a->convert.allow_lossy_source,
         .help = "take an FP8 checkpoint, though MXFP4 made from it has a larger error"},
        {.name = "watch",
         .kind = QN_OPTION_FLAG,
         .value = &a->convert.watch,
         .help = "wait for files of SRC that are still being downloaded, and convert what is there"},
        {.name = "delete-source-shards",
         .kind = QN_OPTION_FLAG,
         .value = &a->convert.delete_source_shards,
         .help = "remove each file of weights of SRC once all of it is converted and read back from the disk"},
        {.name = "verify",
         .kind = QN_OPTION_FLAG,
         .value = &a->verify,
         .help = "read a converted folder again, the only argument, and hold every byte against its manifest"},
        {.name = "json", .kind = QN_OPTION_FLAG, .value = &a->json, .help = "progress and result as JSON lines"},
    };
    qn_options_add(&a->table, own, sizeof own / sizeof *own);
}

/* "A-B", or "A" for one layer. */
static qn_status parse_layers(arguments *a, qn_error *err)
{
    if (!a->layers)
        return QN_OK;
    size_t values[2] = {0, 0};
    const char *at = a->layers;
    for (int i = 0; i < 2; i++) {
        size_t digits = strspn(at, "0123456789");
        if (digits == 0 || digits > 6)
            return qn_fail_field(err, QN_USAGE, "layers", "--layers: %s is no range: write it as 3-10", a->layers);
        values[i] = strtoul(at, NULL, 10);
        at += digits;
        if (i == 0 && *at == '\0') {
            values[1] = values[0];
            break;
        }
        if (*at != (i == 0 ? '-' : '\0'))
            return qn_fail_field(err, QN_USAGE, "layers", "--layers: %s is no range: write it as 3-10", a->layers);
        at++;
    }
    a->convert.layers = true;
    a->convert.first_layer = values[0];
    a->convert.last_layer = values[1];
    return QN_OK;
}

/* QUERN_WATCH_MS: for tests, which cannot wait for seconds. */
static qn_status read_interval(arguments *a, qn_error *err)
{
    const char *text = getenv("QUERN_WATCH_MS");
    if (!text)
        return QN_OK;
    size_t digits = strspn(text, "0123456789");
    unsigned long ms = digits > 0 && digits < 7 ? strtoul(text, NULL, 10) : 0;
    if (ms == 0 || text[digits] != '\0')
        return qn_fail(err, QN_USAGE, "QUERN_WATCH_MS: \"%s\" is no number of milliseconds: give 1 to 999999", text);
    a->convert.watch_interval_us = ms * UINT64_C(1000);
    return QN_OK;
}

static void print_text(const arguments *a, const qn_convert_result *r)
{
    const char *destination = a->convert.destination;
    if (r->already_complete) {
        printf("%s: already complete\n", destination);
        return;
    }
    double seconds = (double)r->us / 1e6;
    printf("%s: %s (%zu of %zu files); read %.1f MB, wrote %.1f MB in %.1f s (%.1f MB/s)\n", destination,
           r->complete ? "complete" : "done as asked, for --finalize when all parts are", r->files_done, r->files_total,
           (double)r->source_bytes / 1e6, (double)r->output_bytes / 1e6, seconds,
           seconds > 0 ? (double)r->source_bytes / 1e6 / seconds : 0.0);
}

static qn_status print_json(const qn_convert_result *r, qn_error *err)
{
    json_t *root = json_pack("{s:{s:b,s:b,s:I,s:I,s:I,s:I,s:f}}", "result", "complete", r->complete, "already_complete",
                             r->already_complete, "files_done", (json_int_t)r->files_done, "files_total",
                             (json_int_t)r->files_total, "source_bytes", (json_int_t)r->source_bytes, "output_bytes",
                             (json_int_t)r->output_bytes, "seconds", (double)r->us / 1e6);
    return qn_print_json(root, JSON_COMPACT, err);
}

static qn_status convert(arguments *a, qn_error *err)
{
    qn_convert_result result;
    a->convert.source = a->table.argument[0];
    a->convert.destination = a->table.argument[1];
    a->convert.max_shard_bytes = a->max_shard_bytes;
    a->convert.rule = a->rtn ? QN_SCALE_OCP : QN_SCALE_LEAST_ERROR;
    a->convert.progress_json = a->json ? stdout : NULL;
    qn_status status = parse_layers(a, err);
    if (status == QN_OK)
        status = read_interval(a, err);
    if (status != QN_OK)
        return status;
    a->convert.stop = qn_stop_on_signals();
    status = qn_convert(&a->convert, &result, err);
    if (status != QN_OK)
        return status;
    if (a->json)
        return print_json(&result, err);
    print_text(a, &result);
    return QN_OK;
}

static qn_status print_verified(const arguments *a, const qn_verify_result *r, qn_error *err)
{
    double seconds = (double)r->us / 1e6;
    if (!a->json) {
        printf("%s: verified: %zu files with %zu tensors are as they were written; read %.1f MB in %.1f s (%.1f "
               "MB/s)\n",
               a->table.argument[0], r->files, r->tensors, (double)r->bytes / 1e6, seconds,
               seconds > 0 ? (double)r->bytes / 1e6 / seconds : 0.0);
        return QN_OK;
    }
    json_t *root = json_pack("{s:{s:b,s:I,s:I,s:I,s:I,s:f}}", "result", "verified", r->mismatches == 0, "files",
                             (json_int_t)r->files, "tensors", (json_int_t)r->tensors, "mismatches",
                             (json_int_t)r->mismatches, "bytes", (json_int_t)r->bytes, "seconds", seconds);
    return qn_print_json(root, JSON_COMPACT, err);
}

static qn_status verify(arguments *a, qn_error *err)
{
    static const char *const of_conversion[] = {
        "layers",     "rest",  "finalize",           "max-shard-size",      "rtn",
        "importance", "watch", "allow-lossy-source", "delete-source-shards"};
    for (size_t i = 0; i < sizeof of_conversion / sizeof *of_conversion; i++) {
        if (qn_options_given(&a->table, of_conversion[i]))
            return qn_fail_field(
                err, QN_USAGE, "verify",
                "--verify: only reads, and --%s has no meaning for it: give --threads and --json alone",
                of_conversion[i]);
    }
    const qn_verify_options options = {.threads = a->convert.threads,
                                       .progress_json = a->json ? stdout : NULL,
                                       .stop = qn_stop_on_signals()};
    qn_verify_result result;
    qn_status status = qn_verify(a->table.argument[0], &options, &result, err);
    qn_error ignored; /* the mismatch is the error, whether the result could be printed or not */
    if (status == QN_OK)
        return print_verified(a, &result, err);
    if (status == QN_FAILED && a->json)
        (void)print_verified(a, &result, &ignored);
    return status;
}

/* SRC and DST, or DIR alone. */
static qn_status check_arguments(const arguments *a, qn_error *err)
{
    if (a->verify && a->table.argument_count != 1)
        return qn_fail_field(err, QN_USAGE, "verify", "--verify: takes one folder: quern convert --verify DIR");
    if (!a->verify && a->table.argument_count != 2)
        return qn_fail(err, QN_USAGE, "convert: takes two folders, SRC and DST: see quern convert --help");
    return QN_OK;
}

static int run(int argc, char **argv)
{
    arguments a = {
        .table = {.command = "convert",
                  .arguments = "SRC DST | --verify DIR",
                  .summary = "Makes a checkpoint with MXFP4 routed experts out of a BF16 one. May be stopped "
                             "or killed at any time, and goes on when it is run again.",
                  .min_arguments = 1,
                  .max_arguments = 2},
        .max_shard_bytes = QN_DEFAULT_SHARD_BYTES};
    qn_error err;
    add_options(&a);
    qn_status status = qn_options_parse(&a.table, argc, argv, &err);
    if (status == QN_OK && !a.table.help_shown)
        status = check_arguments(&a, &err);
    if (status == QN_OK && !a.table.help_shown)
        status = a.verify ? verify(&a, &err) : convert(&a, &err);
    return status == QN_OK ? QN_OK : qn_command_fail(&err);
}

const qn_command qn_convert_command = {.name = "convert",
                                       .summary = "make an MXFP4 checkpoint out of a BF16 one",
                                       .run = run};
