/* What lies at a path, whether or not quern can run it: a checkpoint, whole or still arriving, one file of weights, a
 * config alone, the destination of a conversion that goes on.
 *
 * To look at, not to compute with. Everything that goes wrong is kept as a sentence beside the thing it is about, and
 * the rest is listed all the same. Only configs, indexes and headers are read, and nothing is mapped, so that files
 * which grow or vanish meanwhile do no harm. Belongs to one thread; all strings live until qn_listing_close. */
#ifndef QN_CHECKPOINT_LISTING_H
#define QN_CHECKPOINT_LISTING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/hash.h"
#include "checkpoint/config.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"

typedef enum qn_listing_kind {
    QN_LISTING_FOLDER,
    QN_LISTING_WEIGHTS, /* one .safetensors file */
    QN_LISTING_CONFIG   /* one .json file */
} qn_listing_kind;

typedef enum qn_file_state {
    QN_FILE_WHOLE,      /* as long as its header says, or longer */
    QN_FILE_CUT,        /* shorter, as while it arrives */
    QN_FILE_MISSING,    /* the index names it */
    QN_FILE_UNREADABLE, /* or no safetensors file */
    QN_FILE_STRAY       /* weights in the folder that the checkpoint does not have; not looked into */
} qn_file_state;

const char *qn_file_state_name(qn_file_state state); /* "whole", "cut off", "missing", "unreadable", "stray" */

typedef struct qn_listed_file {
    const char *name; /* plain, as the folder has it: bytes of any kind but '/' */
    qn_file_state state;
    const char *problem;   /* of an unreadable file, else NULL */
    uint64_t bytes;        /* on disk */
    uint64_t whole_bytes;  /* that its header says; 0: it could not be read */
    uint64_t header_bytes; /* all before the data; 0: it could not be read */
    size_t first_tensor, tensors;
    qn_hash header_hash; /* zero until qn_listing_checksum */
} qn_listed_file;

typedef struct qn_listed_tensor {
    const char *name;
    const char *dtype; /* as the header spells it, printable */
    size_t dims;
    uint64_t shape[QN_TENSOR_MAX_DIMS];
    uint64_t elements, offset, bytes; /* offset: from the start of the file */
    size_t file;
    bool whole;   /* its bytes are there */
    qn_hash hash; /* zero until qn_listing_checksum, and of what is not whole */
} qn_listed_tensor;

typedef struct qn_listing {
    qn_listing_kind kind;
    const char *path;           /* as given */
    bool has_config;            /* config.json is there and can be read ... */
    qn_config config;           /* ... as this, quantization_config left aside: qn_config_peek */
    const char *config_problem; /* NULL: none, or no config.json */
    const char *quantization;   /* "" when config.json speaks of none */
    bool has_index;             /* the index is there and can be read */
    const char *index_problem;  /* NULL: none, or no index */
    bool has_index_bytes;       /* the index tells how many bytes its tensors have ... */
    uint64_t index_bytes;       /* ... as this */
    qn_listed_file *files;      /* ascending names, strays last */
    size_t file_count;          /* strays included */
    qn_listed_tensor *tensors;  /* those of headers that could be read, in order of file and offset */
    size_t tensor_count;
    const char **missing; /* names of tensors that the index places in a file which is missing or unreadable */
    size_t missing_count;
    bool converting; /* the folder holds an unfinished conversion: files that are done, being written, planned */
    size_t converted_files, started_files, planned_files; /* 0 planned: nothing tells yet */
    struct qn_listing_store *store;                       /* what owns the rest */
} qn_listing;

/* Fails only for want of memory (QN_RESOURCE): a path where nothing is gives an empty listing. */
qn_status qn_listing_open(const char *path, qn_listing **out, qn_error *err);
void qn_listing_close(qn_listing *listing); /* NULL is fine */

/* "PATH/NAME", or the path itself when that is a file; to be released with qn_free; NULL when out of memory. */
char *qn_listing_file_path(const qn_listing *listing, size_t file);

/* Reads all: fills the hashes of headers, and of tensors that are whole, as a manifest has them. `json`: where progress
 * goes as JSON lines; NULL: to people. `stop` is asked between reads and may be NULL. QN_RESOURCE: a file that cannot
 * be read, memory. QN_CANCELLED: stopped. */
qn_status qn_listing_checksum(qn_listing *listing, FILE *json, const atomic_bool *stop, qn_error *err);

/* These hashes against those of the weights in a manifest. QN_FAILED: the error tells the first mismatch and how many
 * there are. */
qn_status qn_listing_compare(const qn_listing *listing, const qn_manifest *manifest, qn_error *err);

#endif
