/* config.json and the manifest together mean that all is there: the manifest is written after the weights and what goes
 * with them, config.json after the manifest, and the state is only removed then. So after death anywhere on the way the
 * same steps are done again, with the same bytes. */
#include "convert/finalize.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/memory.h"
#include "checkpoint/safetensors.h"
#include "convert/carry.h"
#include "convert/export.h"
#include "convert/state.h"

static bool exists(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0;
}

/* Weights of another checkpoint, or of this one with another size of files, would be taken for part of the output. */
static qn_status refuse_foreign_weights(const qn_job *job, qn_error *err)
{
    const char *dst = job->options->destination;
    DIR *dir = opendir(dst);
    qn_status status = QN_OK;
    for (struct dirent *at = dir ? readdir(dir) : NULL; at && status == QN_OK; at = readdir(dir)) {
        if (fnmatch("*.safetensors", at->d_name, 0) == 0 && qn_shard_plan_find(job->plan, at->d_name) == QN_NO_INDEX)
            status = qn_fail(err, QN_USAGE, "%s/%s: is no file of this conversion: remove it, or take another folder",
                             dst, at->d_name);
    }
    if (dir)
        closedir(dir);
    return status;
}

/* A folder with a config.json: finished by a conversion with the same settings, or not for us to write in. */
static qn_status check_finished(const qn_job *job, const char *config, const char *manifest_path, qn_error *err)
{
    if (!exists(manifest_path))
        return qn_fail(err, QN_USAGE, "%s: no conversion wrote it: give a new folder for the output", config);
    qn_manifest *manifest = NULL;
    qn_status status = qn_manifest_read(manifest_path, &manifest, err);
    if (status == QN_OK)
        status = qn_settings_compare(job->settings, manifest, manifest_path, err);
    qn_manifest_free(manifest);
    return status == QN_OK ? qn_state_remove(job->options->destination, err) : status;
}

qn_status qn_finalize_is_complete(const qn_job *job, bool *complete, qn_error *err)
{
    const char *dst = job->options->destination;
    char *config = qn_path_join(dst, "config.json"), *manifest = qn_path_join(dst, QN_MANIFEST_NAME);
    qn_status status = config && manifest ? QN_OK : qn_fail_memory(err, dst, strlen(dst));
    *complete = false;
    if (status == QN_OK && exists(config)) {
        status = check_finished(job, config, manifest, err);
        *complete = status == QN_OK;
    } else if (status == QN_OK) {
        status = qn_state_check(dst, job->settings, err);
        if (status == QN_OK)
            status = refuse_foreign_weights(job, err);
    }
    qn_free(manifest);
    qn_free(config);
    return status;
}

/* "layers 3, 5 to 9 and the rest" of what is not done. */
static void describe_missing(const qn_job *job, qn_buffer *out)
{
    size_t count = qn_shard_plan_count(job->plan);
    bool rest = false, any = false;
    for (size_t i = 0; i < count; i++) {
        const qn_planned_shard *s = qn_shard_plan_at(job->plan, i);
        if (job->state[i] == QN_SHARD_DONE)
            continue;
        if (s->layer == QN_NO_INDEX) {
            rest = true;
            continue;
        }
        size_t last = s->layer;
        while (i + 1 < count && job->state[i + 1] != QN_SHARD_DONE) {
            i++;
            last = qn_shard_plan_at(job->plan, i)->layer;
        }
        qn_buffer_format(out, any ? ", %zu" : "layers %zu", s->layer);
        if (last != s->layer)
            qn_buffer_format(out, " to %zu", last);
        any = true;
    }
    if (rest)
        qn_buffer_text(out, any ? " and the rest" : "the rest");
}

static qn_status find_states(qn_job *job, qn_error *err)
{
    qn_status status = qn_job_look_at_all(job, err);
    if (status != QN_OK)
        return status;
    size_t missing = qn_job_count(job, QN_SHARD_OPEN);
    if (missing == 0)
        return QN_OK;
    qn_buffer text = {0};
    describe_missing(job, &text);
    status = qn_fail(err, QN_FAILED,
                     "%s: %zu of %zu files are not done (%s): convert these, with --layers and --rest, then "
                     "--finalize",
                     job->options->destination, missing, qn_shard_plan_count(job->plan), qn_buffer_string(&text));
    qn_buffer_free(&text);
    return status;
}

/* Bytes of data of a finished file. */
static qn_status data_bytes_of(const char *dst, const char *name, uint64_t *bytes, qn_error *err)
{
    char *path = qn_path_join(dst, name);
    qn_safetensors *header = NULL;
    qn_status status = path ? qn_safetensors_open_header(path, &header, err) : qn_fail_memory(err, name, strlen(dst));
    for (size_t i = 0; status == QN_OK && i < qn_safetensors_count(header); i++)
        *bytes += qn_safetensors_at(header, i)->bytes;
    qn_safetensors_close(header);
    qn_free(path);
    return status;
}

static qn_status gather_facts(const qn_job *job, qn_card_facts *facts, qn_error *err)
{
    *facts = (qn_card_facts){.round_to_nearest = job->options->rule == QN_SCALE_OCP,
                             .importance = job->importance != NULL,
                             .lossy_source = json_object_get(qn_source_config_json(job->source),
                                                             "quantization_config") != NULL};
    for (size_t i = 0; i < qn_shard_plan_count(job->plan); i++) {
        const qn_planned_shard *s = qn_shard_plan_at(job->plan, i);
        bool experts = s->layer != QN_NO_INDEX;
        qn_status status = data_bytes_of(job->options->destination, s->name,
                                         experts ? &facts->expert_bytes : &facts->other_bytes, err);
        if (status != QN_OK)
            return status;
        *(experts ? &facts->expert_matrices : &facts->other_tensors) += s->count;
        *(experts ? &facts->expert_source_bytes : &facts->other_source_bytes) += s->source_bytes;
    }
    return QN_OK;
}

/* The manifest of all files of weights, with the settings. */
static qn_status gather_manifest(const qn_job *job, qn_manifest *manifest, qn_error *err)
{
    qn_status status = QN_OK;
    for (size_t i = 0; i < qn_manifest_setting_count(job->settings) && status == QN_OK; i++) {
        const char *value, *name = qn_manifest_setting_at(job->settings, i, &value);
        status = qn_manifest_set(manifest, name, value, err);
    }
    for (size_t i = 0; i < qn_shard_plan_count(job->plan) && status == QN_OK; i++) {
        char *path = qn_convert_state_path(job->options->destination, qn_shard_plan_at(job->plan, i)->name, ".json");
        status = path ? qn_manifest_entry_read(path, manifest, err) : qn_fail_memory(err, "manifest", 0);
        qn_free(path);
    }
    return status;
}

/* Files that an end in the middle of a write left beside the one that was meant: "NAME.1234abcd". */
static void remove_temporaries(const char *dst)
{
    static const char *const names[] = {"config.json", "README.md", "model.safetensors.index.json", QN_MANIFEST_NAME};
    enum { SUFFIX_BYTES = 9 };
    DIR *dir = opendir(dst);
    for (struct dirent *at = dir ? readdir(dir) : NULL; at; at = readdir(dir)) {
        size_t bytes = strlen(at->d_name);
        if (bytes <= SUFFIX_BYTES || bytes > QN_MANIFEST_FILE_NAME_BYTES)
            continue;
        char name[QN_MANIFEST_FILE_NAME_BYTES + 1];
        snprintf(name, sizeof name, "%.*s", (int)(bytes - SUFFIX_BYTES), at->d_name);
        const char *suffix = at->d_name + bytes - SUFFIX_BYTES;
        bool ours = qn_carry_takes(name);
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            ours = ours || strcmp(name, names[i]) == 0;
        if (ours && suffix[0] == '.' && strspn(suffix + 1, "0123456789abcdef") == SUFFIX_BYTES - 1)
            unlinkat(dirfd(dir), at->d_name, 0);
    }
    if (dir)
        closedir(dir);
}

static qn_status export_all(const qn_job *job, qn_error *err)
{
    qn_export_plan plan = {.source = job->options->source, .destination = job->options->destination};
    remove_temporaries(plan.destination);
    qn_status status = qn_manifest_new(&plan.manifest, err);
    if (status == QN_OK)
        status = gather_manifest(job, plan.manifest, err);
    if (status == QN_OK)
        status = gather_facts(job, &plan.facts, err);
    if (status == QN_OK)
        status = qn_export(&plan, err);
    qn_manifest_free(plan.manifest);
    return status == QN_OK ? qn_state_remove(job->options->destination, err) : status;
}

qn_status qn_finalize(qn_job *job, qn_error *err)
{
    const char *dst = job->options->destination;
    qn_file_lock *session = NULL;
    bool complete = false;
    qn_status status = qn_state_close_session(dst, job->encoding.stop, &session, err);
    /* another run may have done it while this one waited, and have removed what it waited for */
    if (status == QN_OK || !qn_state_exists(dst))
        status = qn_finalize_is_complete(job, &complete, err);
    if (status == QN_OK && !complete)
        status = find_states(job, err);
    if (status == QN_OK && !complete)
        status = export_all(job, err);
    qn_file_lock_release(session);
    return status;
}
