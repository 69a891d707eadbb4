/* The order of the work is that of its risks: the config is read and cut, the files are planned and the disk is asked
 * for room before anything is written; weights come next, config.json last, so that a folder without it is no
 * checkpoint. */
#include "synth/synth.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/pool.h"
#include "checkpoint/config_rewrite.h"
#include "checkpoint/index_writer.h"
#include "synth/files.h"
#include "synth/values.h"
#include "synth/weights.h"

/* Beside the weights: headers, index, tokenizer. */
static const uint64_t SPARE_BYTES = 64 << 20;

/* Far above what the bounds of a catalogue allow. */
static const size_t NAMES_LIMIT_BYTES = (size_t)2 << 30;

static const char INDEX_NAME[] = "model.safetensors.index.json", CONFIG_NAME[] = "config.json";

/* What is copied of a source that is a folder. */
static const char *const CARRIED[] = {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
                                      "generation_config.json"};
enum { CARRIED_COUNT = sizeof CARRIED / sizeof *CARRIED, CARRIED_LIMIT_BYTES = 256 << 20 };

typedef struct synthesis {
    const qn_synth_options *options;
    bool from_folder, made_folder;
    json_t *document; /* config.json as it is going to be */
    qn_config config;
    qn_catalogue *catalogue;
    qn_synth_files files;
    qn_values *values;
    const qn_kernels *kernels;
    qn_pool *pool;
} synthesis;

static qn_status find_config(synthesis *s, char **out, qn_error *err)
{
    const char *source = s->options->source;
    struct stat info;
    s->from_folder = stat(source, &info) == 0 && S_ISDIR(info.st_mode);
    *out = s->from_folder ? qn_path_join(source, CONFIG_NAME) : qn_strdup(source);
    return *out ? QN_OK : qn_fail_memory(err, source, strlen(source) + sizeof CONFIG_NAME + 1);
}

/* With a format that was asked for, what the config says of its own is of no interest and need not be understood. */
static qn_status parse_config(synthesis *s, const char *path, qn_error *err)
{
    qn_status status = qn_json_parse_file(path, QN_CONFIG_LIMIT_BYTES, &s->document, err);
    if (status == QN_OK && s->options->format != QN_SYNTH_AS_CONFIG)
        json_object_del(s->document, "quantization_config");
    char *text = NULL;
    if (status == QN_OK)
        status = qn_json_text(s->document, path, &text, err);
    if (status == QN_OK)
        status = qn_config_parse(text, strlen(text), path, &s->config, err);
    qn_free(text);
    return status;
}

static qn_status choose_format(synthesis *s, qn_synth_format *out, qn_error *err)
{
    *out = s->options->format;
    if (*out != QN_SYNTH_AS_CONFIG)
        return QN_OK;
    if (s->config.expert_format != QN_EXPERTS_PLAIN && s->config.expert_format != QN_EXPERTS_COMPRESSED_TENSORS)
        return qn_fail_field(err, QN_USAGE, "format",
                             "%s: its quantization_config is of a layout that is read but not written: give --format "
                             "bf16 or mxfp4",
                             s->options->source);
    *out = s->config.expert_format == QN_EXPERTS_PLAIN ? QN_SYNTH_BF16 : QN_SYNTH_MXFP4;
    json_object_del(s->document, "quantization_config");
    return QN_OK;
}

static qn_status plan(synthesis *s, qn_synth_result *out, qn_error *err)
{
    char *path = NULL;
    qn_status status = find_config(s, &path, err);
    if (status == QN_OK)
        status = parse_config(s, path, err);
    qn_free(path);
    if (status == QN_OK)
        status = choose_format(s, &out->format, err);
    if (status == QN_OK)
        status = qn_synth_cut_apply(&s->options->cut, s->document, &s->config, err);
    if (status == QN_OK)
        status = qn_catalogue_new(&s->config, &s->catalogue, err);
    if (status == QN_OK)
        status = qn_synth_files_plan(s->catalogue, out->format == QN_SYNTH_MXFP4, s->options->max_shard_bytes,
                                     &s->files, err);
    return status;
}

static qn_status check_empty(const char *dir, qn_error *err)
{
    DIR *folder = opendir(dir);
    if (!folder)
        return qn_fail(err, QN_USAGE, "%s: cannot be listed (%s): name a new or empty folder", dir, strerror(errno));
    bool empty = true;
    for (const struct dirent *entry; empty && (entry = readdir(folder)) != NULL;)
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    closedir(folder);
    return empty ? QN_OK : qn_fail(err, QN_USAGE, "%s: is not empty: name a new folder, or empty it", dir);
}

static qn_status open_destination(synthesis *s, qn_error *err)
{
    const char *dir = s->options->destination;
    s->made_folder = mkdir(dir, 0777) == 0;
    if (s->made_folder)
        return QN_OK;
    if (errno == EEXIST)
        return check_empty(dir, err);
    return qn_fail(err, errno == ENOSPC || errno == EDQUOT ? QN_RESOURCE : QN_USAGE,
                   "%s: cannot be made (%s): name a folder below one that exists and may be written", dir,
                   strerror(errno));
}

static qn_status check_space(const synthesis *s, qn_error *err)
{
    const char *dir = s->options->destination;
    struct statvfs disk;
    if (statvfs(dir, &disk) != 0)
        return qn_fail_errno(err, dir, "ask for the free space of", errno);
    uint64_t available = (uint64_t)disk.f_bavail * disk.f_frsize, needed = s->files.bytes + SPARE_BYTES;
    if (available >= needed)
        return QN_OK;
    return qn_fail(err, QN_RESOURCE,
                   "%s: its disk has %" PRIu64 " bytes free and this takes %" PRIu64
                   ": free some, or write fewer layers or experts",
                   dir, available, needed);
}

static qn_status write_in(const synthesis *s, const char *name, const char *text, size_t bytes, qn_error *err)
{
    char *path = qn_path_join(s->options->destination, name);
    qn_status status = path ? qn_file_write(path, text, bytes, err) : qn_fail_memory(err, name, strlen(name));
    qn_free(path);
    return status;
}

static void count_tensors(const synthesis *s, qn_synth_result *out)
{
    for (size_t i = 0; i < qn_catalogue_count(s->catalogue); i++) {
        const qn_catalogue_tensor *tensor = qn_catalogue_at(s->catalogue, i);
        qn_synth_part parts[QN_SYNTH_MAX_PARTS];
        out->tensors += qn_synth_parts(&s->files, tensor, parts);
        out->weights += qn_catalogue_elements(tensor);
    }
    out->files = s->files.count;
    out->bytes = s->files.bytes;
}

/* Where each tensor lies, in *placed [most]; names are kept in the arena. Returns how many, 0 when out of memory. */
static size_t place_tensors(const synthesis *s, qn_arena *names, qn_placed_tensor *placed)
{
    size_t count = 0;
    for (size_t file = 0; file < s->files.count; file++) {
        char name[QN_SYNTH_FILE_NAME_BYTES];
        qn_synth_file_name(&s->files, file, name);
        const char *file_name = qn_arena_strndup(names, name, strlen(name));
        for (size_t i = s->files.first[file]; i < s->files.first[file + 1]; i++) {
            qn_synth_part parts[QN_SYNTH_MAX_PARTS];
            size_t part_count = qn_synth_parts(&s->files, qn_catalogue_at(s->catalogue, i), parts);
            for (size_t k = 0; k < part_count; k++) {
                const char *kept = qn_arena_strndup(names, parts[k].name, strlen(parts[k].name));
                if (!kept || !file_name)
                    return 0;
                placed[count++] = (qn_placed_tensor){.name = kept, .file = file_name};
            }
        }
    }
    return count;
}

static qn_status write_index(const synthesis *s, const qn_synth_result *result, qn_error *err)
{
    if (s->files.count == 1)
        return QN_OK;
    qn_buffer text = {0};
    qn_arena *names = qn_arena_new(NAMES_LIMIT_BYTES);
    qn_placed_tensor *placed = qn_alloc(result->tensors, sizeof *placed);
    size_t count = names && placed ? place_tensors(s, names, placed) : 0;
    if (count > 0)
        qn_index_format(placed, count, s->files.bytes, &text);
    qn_status status = count > 0 && !text.failed ? write_in(s, INDEX_NAME, text.data, text.size, err)
                                                 : qn_fail_memory(err, INDEX_NAME, result->tensors * sizeof *placed);
    qn_buffer_free(&text);
    qn_free(placed);
    qn_arena_free(names);
    return status;
}

/* A file that the source does not have is not missed. */
static qn_status carry_one(const synthesis *s, const char *name, size_t *carried, qn_error *err)
{
    char *path = qn_path_join(s->options->source, name), *text = NULL;
    if (!path)
        return qn_fail_memory(err, name, strlen(name));
    size_t bytes = 0;
    qn_status status = QN_OK;
    if (access(path, F_OK) == 0) {
        status = qn_file_read(path, CARRIED_LIMIT_BYTES, &text, &bytes, err);
        if (status == QN_OK)
            status = write_in(s, name, text, bytes, err);
        ++*carried;
    }
    qn_free(text);
    qn_free(path);
    return status;
}

static qn_status carry(const synthesis *s, qn_error *err)
{
    const char *why = !s->from_folder             ? "the source is a config alone"
                      : s->options->cut.vocab > 0 ? "the vocabulary is cut"
                                                  : "the source has none";
    size_t carried = 0;
    qn_status status = QN_OK;
    for (size_t i = 0; s->from_folder && s->options->cut.vocab == 0 && i < CARRIED_COUNT && status == QN_OK; i++)
        status = carry_one(s, CARRIED[i], &carried, err);
    if (status == QN_OK && carried == 0)
        qn_log("%s: has no tokenizer, since %s: run it by token ids (quern eval logits), or copy one there",
               s->options->destination, why);
    return status;
}

static qn_status write_config(const synthesis *s, const qn_synth_result *result, qn_error *err)
{
    char *text = NULL;
    qn_buffer quantised = {0};
    qn_status status = qn_json_text(s->document, CONFIG_NAME, &text, err);
    if (status == QN_OK && result->format == QN_SYNTH_MXFP4)
        status = qn_config_rewrite(text, strlen(text), CONFIG_NAME, &quantised, err);
    const char *chosen = quantised.size > 0 ? quantised.data : text;
    if (status == QN_OK)
        status = write_in(s, CONFIG_NAME, chosen, strlen(chosen), err);
    qn_buffer_free(&quantised);
    qn_free(text);
    return status;
}

static qn_status write_weights(const synthesis *s, qn_error *err)
{
    const qn_synth_options *o = s->options;
    const qn_synth_weights weights = {.files = &s->files,
                                      .values = s->values,
                                      .kernels = s->kernels,
                                      .dir = o->destination,
                                      .progress_json = o->progress_json,
                                      .stop = o->stop};
    return qn_synth_weights_write(&weights, s->pool, err);
}

static qn_status write_all(synthesis *s, qn_synth_result *out, qn_error *err)
{
    qn_status status = qn_kernels_from_environment(&s->kernels, err);
    if (status == QN_OK)
        status = qn_values_new(s->options->seed, &s->values, err);
    if (status == QN_OK)
        status = qn_pool_new(s->options->threads, &s->pool, err);
    if (status == QN_OK)
        status = write_weights(s, err);
    count_tensors(s, out);
    if (status == QN_OK)
        status = write_index(s, out, err);
    if (status == QN_OK && !s->options->without_text)
        status = carry(s, err);
    return status == QN_OK ? write_config(s, out, err) : status;
}

static void remove_from(const char *dir, const char *name)
{
    char *path = qn_path_join(dir, name);
    if (path)
        unlink(path);
    qn_free(path);
}

/* After a failure: the folder was new or empty, so what bears these names is this run's. */
static void remove_all(const synthesis *s)
{
    const char *dir = s->options->destination;
    for (size_t file = 0; file < s->files.count; file++) {
        char name[QN_SYNTH_FILE_NAME_BYTES];
        remove_from(dir, qn_synth_file_name(&s->files, file, name));
    }
    remove_from(dir, INDEX_NAME);
    for (size_t i = 0; i < CARRIED_COUNT; i++)
        remove_from(dir, CARRIED[i]);
    remove_from(dir, CONFIG_NAME);
    if (s->made_folder)
        rmdir(dir);
}

static void release(synthesis *s)
{
    qn_pool_free(s->pool);
    qn_values_free(s->values);
    qn_synth_files_free(&s->files);
    qn_catalogue_free(s->catalogue);
    json_decref(s->document);
}

qn_status qn_synth_write(const qn_synth_options *options, qn_synth_result *out, qn_error *err)
{
    uint64_t started_us = qn_now_us();
    synthesis s = {.options = options};
    *out = (qn_synth_result){0};
    qn_status status = plan(&s, out, err);
    bool opened = status == QN_OK && (status = open_destination(&s, err)) == QN_OK;
    if (status == QN_OK)
        status = check_space(&s, err);
    if (status == QN_OK)
        status = write_all(&s, out, err);
    if (status != QN_OK && opened)
        remove_all(&s);
    release(&s);
    out->us = qn_now_us() - started_us;
    return status;
}
