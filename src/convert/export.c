/* The texts are made in memory, since the manifest, which has their hashes, is written before the last of them. */
#include "convert/export.h"

#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/memory.h"
#include "checkpoint/config_rewrite.h"
#include "checkpoint/index_writer.h"
#include "convert/carry.h"

enum { CONFIG_LIMIT_BYTES = 16 << 20, README_LIMIT_BYTES = 16 << 20 };

static const char CONFIG_NAME[] = "config.json", CARD_NAME[] = "README.md",
                  INDEX_NAME[] = "model.safetensors.index.json";

static qn_status read_in(const char *dir, const char *name, size_t limit_bytes, char **out, size_t *bytes,
                         qn_error *err)
{
    char *path = qn_path_join(dir, name);
    if (!path)
        return qn_fail_memory(err, dir, strlen(dir) + strlen(name) + 2);
    qn_status status = qn_file_read(path, limit_bytes, out, bytes, err);
    qn_free(path);
    return status;
}

static qn_status write_in(const char *dir, const char *name, const qn_buffer *text, qn_error *err)
{
    char *path = qn_path_join(dir, name);
    if (!path)
        return qn_fail_memory(err, dir, strlen(dir) + strlen(name) + 2);
    qn_status status = text->failed ? qn_fail_memory(err, path, text->size)
                                    : qn_file_write(path, qn_buffer_string(text), text->size, err);
    qn_free(path);
    return status;
}

static qn_status add_text(qn_manifest *manifest, const char *name, const qn_buffer *text, qn_error *err)
{
    if (text->failed)
        return qn_fail_memory(err, name, text->size);
    const qn_manifest_file file = {.name = name,
                                   .bytes = text->size,
                                   .hash = qn_hash_bytes(qn_buffer_string(text), text->size)};
    return qn_manifest_add(manifest, &file, err);
}

static qn_status format_index(const qn_manifest *manifest, uint64_t total_size, qn_buffer *out, qn_error *err)
{
    size_t count = 0, filled = 0;
    for (size_t i = 0; i < qn_manifest_count(manifest); i++)
        count += qn_manifest_at(manifest, i)->tensor_count;
    qn_placed_tensor *placed = qn_alloc(count, sizeof *placed);
    if (!placed)
        return qn_fail_memory(err, INDEX_NAME, count * sizeof *placed);
    for (size_t i = 0; i < qn_manifest_count(manifest); i++) {
        const qn_manifest_file *file = qn_manifest_at(manifest, i);
        for (size_t k = 0; k < file->tensor_count; k++)
            placed[filled++] = (qn_placed_tensor){file->tensors[k].name, file->name};
    }
    qn_index_format(placed, count, total_size, out);
    qn_free(placed);
    return QN_OK;
}

static qn_status format_config(const qn_export_plan *plan, qn_buffer *out, qn_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    qn_status status = read_in(plan->source, CONFIG_NAME, CONFIG_LIMIT_BYTES, &text, &bytes, err);
    if (status == QN_OK)
        status = qn_config_rewrite(text, bytes, CONFIG_NAME, out, err);
    qn_free(text);
    return status;
}

/* A release without a README gives a card without a licence in front, not an error. */
static qn_status format_card(const qn_export_plan *plan, qn_buffer *out, qn_error *err)
{
    char *path = qn_path_join(plan->source, CARD_NAME), *text = NULL;
    if (!path)
        return qn_fail_memory(err, plan->source, strlen(plan->source));
    struct stat info;
    size_t bytes = 0;
    qn_status status = QN_OK;
    if (stat(path, &info) == 0)
        status = qn_file_read(path, README_LIMIT_BYTES, &text, &bytes, err);
    if (status == QN_OK)
        qn_model_card(&plan->facts, text, bytes, plan->manifest, out);
    qn_free(text);
    qn_free(path);
    return status;
}

static qn_status write_manifest(const qn_export_plan *plan, qn_error *err)
{
    char *path = qn_path_join(plan->destination, QN_MANIFEST_NAME);
    if (!path)
        return qn_fail_memory(err, plan->destination, strlen(plan->destination));
    qn_status status = qn_manifest_write(plan->manifest, path, err);
    qn_free(path);
    return status;
}

typedef struct texts {
    qn_buffer card, index, config;
} texts;

/* The texts, entered into the manifest once the files that they tell of are. */
static qn_status make_texts(const qn_export_plan *plan, texts *t, qn_error *err)
{
    qn_status status = format_card(plan, &t->card, err);
    if (status == QN_OK)
        status = format_index(plan->manifest, plan->facts.expert_bytes + plan->facts.other_bytes, &t->index, err);
    if (status == QN_OK)
        status = format_config(plan, &t->config, err);
    if (status == QN_OK)
        status = add_text(plan->manifest, CARD_NAME, &t->card, err);
    if (status == QN_OK)
        status = add_text(plan->manifest, INDEX_NAME, &t->index, err);
    if (status == QN_OK)
        status = add_text(plan->manifest, CONFIG_NAME, &t->config, err);
    return status;
}

qn_status qn_export(const qn_export_plan *plan, qn_error *err)
{
    texts t = {0};
    qn_status status = qn_carry(plan->source, plan->destination, plan->manifest, err);
    if (status == QN_OK)
        status = make_texts(plan, &t, err);
    if (status == QN_OK)
        status = write_in(plan->destination, CARD_NAME, &t.card, err);
    if (status == QN_OK)
        status = write_in(plan->destination, INDEX_NAME, &t.index, err);
    if (status == QN_OK)
        status = write_manifest(plan, err);
    if (status == QN_OK)
        status = write_in(plan->destination, CONFIG_NAME, &t.config, err);
    qn_buffer_free(&t.card);
    qn_buffer_free(&t.index);
    qn_buffer_free(&t.config);
    return status;
}
