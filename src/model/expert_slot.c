#include "model/expert_slot.h"

void qn_expert_parts_of(const qn_mlp_weights *weights, size_t expert, const uint8_t *data[QN_EXPERT_PARTS],
                        size_t bytes[QN_EXPERT_PARTS])
{
    const qn_matrix *const matrices[] = {&weights->gate[expert], &weights->up[expert], &weights->down[expert]};
    for (size_t i = 0; i < QN_EXPERT_PARTS / 2; i++) {
        const qn_matrix *m = matrices[i];
        data[2 * i] = m->data;
        bytes[2 * i] = qn_matrix_data_bytes(m);
        data[2 * i + 1] = m->scales;
        bytes[2 * i + 1] = qn_matrix_scale_bytes(m);
    }
}

size_t qn_expert_slot_bytes(const size_t bytes[QN_EXPERT_PARTS])
{
    size_t sum = 0;
    for (size_t i = 0; i < QN_EXPERT_PARTS; i++)
        sum += bytes[i] > 0 ? qn_direct_buffer_bytes(bytes[i]) : 0;
    return sum;
}

void qn_expert_slot_make(qn_expert_slot *slot, const size_t bytes[QN_EXPERT_PARTS], uint8_t *memory)
{
    *slot = (qn_expert_slot){0};
    for (size_t p = 0; p < QN_EXPERT_PARTS; p++) {
        slot->parts[p] = (qn_async_read){.bytes = bytes[p], .buffer = memory};
        memory += bytes[p] > 0 ? qn_direct_buffer_bytes(bytes[p]) : 0;
    }
}

static bool is_done(const qn_async_read *part)
{
    return part->state == QN_ASYNC_DONE && part->error == 0;
}

bool qn_expert_slot_is_there(const qn_expert_slot *slot)
{
    for (size_t p = 0; p < QN_EXPERT_PARTS; p++) {
        if (slot->parts[p].bytes > 0 && !is_done(&slot->parts[p]))
            return false;
    }
    return true;
}

bool qn_expert_slot_is_under_way(const qn_expert_slot *slot)
{
    for (size_t p = 0; p < QN_EXPERT_PARTS; p++) {
        if (slot->parts[p].state == QN_ASYNC_QUEUED || slot->parts[p].state == QN_ASYNC_UNDER_WAY)
            return true;
    }
    return false;
}

bool qn_expert_slot_is_untouched(const qn_expert_slot *slot)
{
    for (size_t p = 0; p < QN_EXPERT_PARTS; p++) {
        if (slot->parts[p].bytes > 0 && (slot->parts[p].state != QN_ASYNC_IDLE || slot->parts[p].got > 0))
            return false;
    }
    return true;
}

const qn_async_read *qn_expert_slot_unread(const qn_expert_slot *slot)
{
    for (size_t p = 0; p < QN_EXPERT_PARTS; p++) {
        if (slot->parts[p].bytes > 0 && slot->parts[p].state != QN_ASYNC_DONE)
            return &slot->parts[p];
    }
    return NULL;
}

const qn_async_read *qn_expert_slot_failed(const qn_expert_slot *slot)
{
    for (size_t p = 0; p < QN_EXPERT_PARTS; p++) {
        if (slot->parts[p].state == QN_ASYNC_DONE && slot->parts[p].error != 0)
            return &slot->parts[p];
    }
    return NULL;
}

size_t qn_expert_slot_read_bytes(const qn_expert_slot *slot)
{
    size_t sum = 0;
    for (size_t p = 0; p < QN_EXPERT_PARTS; p++) {
        const qn_async_read *part = &slot->parts[p];
        sum += part->bytes > 0 ? qn_direct_widened(part->offset, part->bytes) : 0;
    }
    return sum;
}

void qn_expert_slot_start(qn_expert_slot *slot, qn_async_reader *reader, bool urgent)
{
    for (size_t p = 0; p < QN_EXPERT_PARTS; p++) {
        if (slot->parts[p].bytes > 0 && !is_done(&slot->parts[p]))
            qn_async_reader_start(reader, &slot->parts[p], urgent);
    }
}

void qn_expert_slot_drop_copies(qn_expert_slot *slot)
{
    for (size_t p = 0; p < QN_EXPERT_PARTS && !slot->dropped; p++) {
        const qn_async_read *part = &slot->parts[p];
        if (part->bytes > 0 && qn_direct_reader_is_buffered(part->file))
            qn_direct_reader_drop(part->file, part->offset, part->bytes);
    }
    slot->dropped = true;
}

static qn_matrix matrix_in(const qn_matrix *on_disk, const qn_async_read *data, const qn_async_read *scales)
{
    qn_matrix m = *on_disk;
    m.data = qn_async_read_data(data);
    m.scales = on_disk->scales ? qn_async_read_data(scales) : NULL;
    return m;
}

qn_expert_views qn_expert_slot_views(const qn_expert_slot *slot, const qn_mlp_weights *weights, size_t expert)
{
    const qn_async_read *parts = slot->parts;
    return (qn_expert_views){.gate = matrix_in(&weights->gate[expert], &parts[0], &parts[1]),
                             .up = matrix_in(&weights->up[expert], &parts[2], &parts[3]),
                             .down = matrix_in(&weights->down[expert], &parts[4], &parts[5])};
}
