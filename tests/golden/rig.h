/* A model opened from a checkpoint directory with a pool of threads and a cache, for tests that drive it directly.
 * Every failure fails the running test. */
#ifndef QN_TESTS_RIG_H
#define QN_TESTS_RIG_H

#include <stddef.h>
#include <stdint.h>

#include "model/model.h"

/* Builds for sanitizers and debuggers run the same kinds of checks, less of the long ones. */
#ifdef NDEBUG
enum { RIG_LONGEST_PROMPT = 6000 };
#else
enum { RIG_LONGEST_PROMPT = 400 };
#endif

typedef struct rig_options {
    const char *isa; /* NULL: the best of this CPU */
    size_t threads;  /* 0: 2 */
    size_t max_rows; /* 0: 512 */
    size_t max_context_tokens;
    size_t block_tokens; /* 0: 64 */
    size_t sequences;    /* how many of full length the cache holds; 0: 1 */
    size_t dsa_dense_below;
    float mla_norm_eps;        /* 0: the default */
    size_t expert_cache_bytes; /* 0: all experts in memory */
} rig_options;

typedef struct rig {
    qn_checkpoint *checkpoint;
    qn_pool *pool;
    qn_model *model;
    qn_kv_pool *kv;
    const qn_kernels *kernels;
    size_t max_rows, max_context_tokens, hidden_size, vocab_size;
} rig;

rig rig_open(const char *dir, rig_options options);
void rig_close(rig *r);

qn_kv_sequence rig_sequence(const rig *r);

/* Tokens [start, start + count) in chunks of at most `chunk` (0: max_rows); hidden [count, hidden_size]. */
void rig_forward(rig *r, qn_kv_sequence *sequence, const int32_t *ids, size_t start, size_t count, size_t chunk,
                 float *hidden, const qn_observer *observer);

/* The MTP layer likewise; out [count, hidden_size]. selection: of the last row, may be NULL. */
void rig_mtp(rig *r, qn_kv_sequence *sequence, const int32_t *next_ids, const float *hidden, size_t start, size_t count,
             size_t chunk, float *out, qn_mtp_selection *selection, const qn_observer *observer);

/* logits [rows, vocab_size] of hidden [rows, hidden_size]. */
void rig_logits(rig *r, const float *hidden, size_t rows, float *logits);
void rig_mtp_logits(rig *r, const float *hidden, size_t rows, float *logits);

int32_t rig_argmax(const float *logits, size_t count); /* the lowest of equals */
void *rig_alloc(size_t count, size_t size);            /* never NULL; released with qn_free */

/* What an observer saw of a prompt, rows of its chunks one behind the other: rig_record_find gives [rows, width]. */
typedef struct rig_record rig_record;
rig_record *rig_record_new(size_t max_rows);
void rig_record_free(rig_record *record);
qn_observer rig_record_observer(rig_record *record);
const void *rig_record_find(const rig_record *record, qn_observed what, size_t layer, size_t *rows, size_t *width);

#endif
