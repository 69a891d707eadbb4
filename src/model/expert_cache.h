/* Routed experts that lie on the disk, and as many of them in memory as there is room for.
 *
 * Of GLM-5.3's 399 GiB the routed experts are all but some 40; a token takes 8 of 256 in each layer. With this cache
 * only those that are in use have to be in memory: an expert that is not there is read from its files (io_uring,
 * O_DIRECT), all that a layer lacks at once and in the order asked for, so that the first can be computed with while
 * the others come. What is computed is the same to the bit.
 *
 * An expert's *heat* counts its uses, earlier ones for less: a use of n steps ago counts e^(-n / 2048). The coldest
 * goes when room is needed, so that what is used most stays, and what is used once passes through. Experts may be asked
 * for ahead of time (want): such reads go behind those that somebody waits for.
 *
 * Layers whose experts have another size than the first sparse layer's (an MTP layer left in BF16) are not served:
 * their views stay the checkpoint's. The calling thread of the model uses it; figures may be read by any. */
#ifndef QN_MODEL_EXPERT_CACHE_H
#define QN_MODEL_EXPERT_CACHE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "model/expert_slot.h"
#include "model/weights.h"

typedef struct qn_expert_cache qn_expert_cache;

/* Reads that are under way at once: two experts' worth, of megabytes each: enough to keep a disk busy, and few enough
 * that the first expert asked for is there long before the last. */
enum { QN_EXPERT_READS = 2 * QN_EXPERT_PARTS };

/* Counted since the start; times in nanoseconds. An expert that a step needs is a hit when it is wholly there, and
 * `late` when its read was under way. */
typedef struct qn_expert_cache_figures {
    _Atomic uint64_t hits, late, misses;
    _Atomic uint64_t ahead, ahead_used; /* read ahead of time, before the last hold; those then needed */
    _Atomic uint64_t bytes_read, waited_ns;
    _Atomic uint64_t bytes_missed; /* of experts needed that had to be read for it, in time or not; what bytes_read has
                                      beyond these was read for guesses that did not come true, or have not yet */
} qn_expert_cache_figures;

/* What a cache for `experts` experts takes; 0: the model has no routed experts. */
size_t qn_expert_cache_bytes(const qn_weights *weights, size_t experts);

/* bytes: of all that the cache holds; taken at once, as far as there are experts. Field "expert-cache": QN_USAGE when
 * they do not hold 4 * num_experts_per_tok experts, with the number that does; QN_RESOURCE when memory does not hold
 * them. The checkpoint and the weights' tables outlive it. */
qn_status qn_expert_cache_new(const qn_checkpoint *checkpoint, const qn_weights *weights, size_t bytes,
                              uint64_t patience_us, qn_expert_cache **out, qn_error *err);
void qn_expert_cache_free(qn_expert_cache *cache); /* NULL is fine */

/* Memory for the experts; bytes on the disk of all that it serves, and their number. */
size_t qn_expert_cache_memory(const qn_expert_cache *cache);
size_t qn_expert_cache_disk_bytes(const qn_expert_cache *cache);
size_t qn_expert_cache_count(const qn_expert_cache *cache);

/* [QN_EXPERT_PARTS], of an expert; 0: there is no such part (scales of BF16). */
const size_t *qn_expert_cache_part_bytes(const qn_expert_cache *cache);

bool qn_expert_cache_serves(const qn_expert_cache *cache, size_t layer);
size_t qn_expert_cache_room(const qn_expert_cache *cache); /* experts in all */
size_t qn_expert_cache_most(const qn_expert_cache *cache); /* experts that may be held at once: half of that */
const qn_expert_cache_figures *qn_expert_cache_figures_of(const qn_expert_cache *cache);

/* Gives experts[0 .. count), count <= qn_expert_cache_most, places until the next hold, whichever layer's, and starts
 * reading those that are not there. views[i] is of experts[i], and may be read from once it has arrived. Waits for
 * nothing but places that are still being read into, and fails as qn_async_reader_wait_any does. */
qn_status qn_expert_cache_hold(qn_expert_cache *cache, size_t layer, const int32_t *experts, size_t count,
                               qn_expert_views *views, qn_error *err);

/* Those of the experts held that are there and were not told since the hold: indexes into its list, ascending, in
 * arrived[*count], which has room for all of them. `waits`: until there is one, unless all were told. Fails as
 * qn_async_reader_wait does; a later hold reads again. */
qn_status qn_expert_cache_arrivals(qn_expert_cache *cache, bool waits, int32_t *arrived, size_t *count, qn_error *err);

/* Starts reading those that are not there, in this order, as far as there is room beside what is held; all of them stay
 * until the next hold, or until others are wanted: what was not begun by then, and is not among them, is forgotten. Of
 * what was begun the rest is read when somebody asks for that expert again. Never waits. */
void qn_expert_cache_want(qn_expert_cache *cache, size_t layer, const int32_t *experts, size_t count);

/* Takes note of reads that are done and starts those that queue: to be called every few hundred microseconds while
 * anything computes, since little of what is wanted is under way at a time. */
void qn_expert_cache_poll(qn_expert_cache *cache);

/* How many of these are neither there nor under way. */
size_t qn_expert_cache_lacks(const qn_expert_cache *cache, size_t layer, const int32_t *experts, size_t count);

#endif
