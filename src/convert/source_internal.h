/* What source.c (config, index, tensors) and source_files.c (headers, reading) share. */
#ifndef QN_CONVERT_SOURCE_INTERNAL_H
#define QN_CONVERT_SOURCE_INTERNAL_H

#include <pthread.h>

#include "base/arena.h"
#include "base/hash.h"
#include "checkpoint/index.h"
#include "convert/source.h"

typedef struct qn_source_file {
    const char *name;
    char *path;
    qn_safetensors *header; /* NULL: not read yet */
    qn_direct_reader *reader;
    size_t users; /* of reader */
} qn_source_file;

struct qn_source {
    char *dir;
    json_t *config_json;
    qn_config config;
    qn_catalogue *catalogue;
    char config_hash[QN_HASH_TEXT_BYTES], index_hash[QN_HASH_TEXT_BYTES];
    qn_index index; /* {0}: a single file */
    qn_source_file *files;
    size_t file_count;
    qn_arena *names; /* of fused tensors and extras */
    qn_source_tensor *tensors;
    size_t count;
    pthread_mutex_t lock; /* headers and readers of files */
    bool told_buffered, fp8;
};

/* The file's header, of an FP8 source too. */
qn_status qn_source_open_header(const qn_source *source, qn_source_file *file, qn_error *err);

#endif
