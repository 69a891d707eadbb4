/* The place of one routed expert in the memory of the expert cache (expert_cache.h).
 *
 * An expert has up to six parts on the disk: its three matrices' codes and scales (BF16 ones have no scales). Each is
 * read by itself, to a buffer of its own, since a read of whole blocks brings some of the neighbouring bytes along. All
 * experts of a cache have parts of the same sizes. One thread uses a slot, that of the cache's reader. */
#ifndef QN_MODEL_EXPERT_SLOT_H
#define QN_MODEL_EXPERT_SLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/async_reader.h"
#include "base/matrix.h"
#include "model/weights.h"

enum { QN_EXPERT_PARTS = 6 };

typedef struct qn_expert_views {
    qn_matrix gate, up, down;
} qn_expert_views;

typedef struct qn_expert_slot {
    size_t expert;         /* layer * experts of a layer + id */
    bool owned;            /* by that expert */
    bool held, ahead;      /* needed by the layer that runs; read ahead of time and not needed yet */
    bool told;             /* of a slot that is held: its expert has arrived */
    bool dropped;          /* what its reads left in the page cache was given back */
    uint64_t used, wanted; /* count of the cache's holds then */
    qn_async_read parts[QN_EXPERT_PARTS];
} qn_expert_slot;

/* Where the parts of an expert are mapped, and their sizes; 0 bytes: there is no such part. */
void qn_expert_parts_of(const qn_mlp_weights *weights, size_t expert, const uint8_t *data[QN_EXPERT_PARTS],
                        size_t bytes[QN_EXPERT_PARTS]);

/* Memory that a slot takes, and a slot at such a place, aligned to QN_DIRECT_ALIGNMENT. */
size_t qn_expert_slot_bytes(const size_t bytes[QN_EXPERT_PARTS]);
void qn_expert_slot_make(qn_expert_slot *slot, const size_t bytes[QN_EXPERT_PARTS], uint8_t *memory);

bool qn_expert_slot_is_there(const qn_expert_slot *slot);     /* all parts are */
bool qn_expert_slot_is_under_way(const qn_expert_slot *slot); /* the reader has one of the parts, queued or read into */
bool qn_expert_slot_is_untouched(const qn_expert_slot *slot); /* nothing of its parts was begun */

/* A part whose read is not done, and one whose read failed; NULL: there is none. */
const qn_async_read *qn_expert_slot_unread(const qn_expert_slot *slot);
const qn_async_read *qn_expert_slot_failed(const qn_expert_slot *slot);

/* What is read for its expert, whole blocks. */
size_t qn_expert_slot_read_bytes(const qn_expert_slot *slot);

/* Starts the parts that are not there: none was asked for yet, or reading failed. Those that queue become urgent, where
 * these are. */
void qn_expert_slot_start(qn_expert_slot *slot, qn_async_reader *reader, bool urgent);

/* Files that can't be read directly leave a copy in the page cache; it is given back, once. */
void qn_expert_slot_drop_copies(qn_expert_slot *slot);

/* The expert's matrices where the slot has them, or will. */
qn_expert_views qn_expert_slot_views(const qn_expert_slot *slot, const qn_mlp_weights *weights, size_t expert);

#endif
