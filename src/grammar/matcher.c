/* The set of stacks of grammar/stacks.h with its frames; unused ones are dropped whenever they have become the most. */
#include "grammar/matcher.h"

#include <string.h>

#include "base/memory.h"
#include "base/size.h"
#include "grammar/matcher_internal.h"

enum { LEAST_FRAMES = 256 };

qn_status qn_matcher_new(const qn_grammar *grammar, qn_matcher **out, qn_error *err)
{
    qn_matcher *m = qn_alloc_zero(1, sizeof *m);
    if (!m)
        return qn_fail_memory(err, "matcher", sizeof *m);
    m->collect_at = LEAST_FRAMES;
    if (!qn_frame_store_init(&m->store, grammar) ||
        (!qn_stacks_start(&m->store, grammar->start, QN_FRAME_BOTTOM, &m->now) && m->store.short_of_memory)) {
        qn_matcher_free(m);
        return qn_fail_memory(err, "matcher", sizeof *m);
    }
    m->exhausted = m->store.exhausted;
    if (m->exhausted)
        m->now.count = 0;
    *out = m;
    return QN_OK;
}

qn_status qn_matcher_clone(const qn_matcher *from, qn_matcher **out, qn_error *err)
{
    qn_matcher *m = qn_alloc_zero(1, sizeof *m);
    if (!m)
        return qn_fail_memory(err, "matcher", sizeof *m);
    m->collect_at = from->collect_at;
    m->exhausted = from->exhausted;
    m->now.stacks = qn_alloc(from->now.count, sizeof *m->now.stacks);
    if (!m->now.stacks || !qn_frame_store_copy(&m->store, &from->store)) {
        qn_matcher_free(m);
        return qn_fail_memory(err, "matcher", from->store.frame_count * sizeof(qn_frame));
    }
    m->now.count = m->now.capacity = from->now.count;
    if (from->now.count > 0)
        memcpy(m->now.stacks, from->now.stacks, from->now.count * sizeof *m->now.stacks);
    *out = m;
    return QN_OK;
}

void qn_matcher_free(qn_matcher *m)
{
    if (!m)
        return;
    qn_frame_store_free(&m->store);
    qn_free(m->now.stacks);
    qn_free(m->next.stacks);
    qn_free(m);
}

static bool step(qn_matcher *m, uint64_t letter)
{
    if (!qn_stacks_step(&m->store, &m->now, letter, &m->next)) {
        m->exhausted = true;
        return false;
    }
    if (m->next.count == 0)
        return false;
    qn_stack_set taken = m->next;
    m->next = m->now;
    m->now = taken;
    if (m->store.frame_count > m->collect_at && qn_frame_store_collect(&m->store, &m->now))
        m->collect_at = qn_max_size(LEAST_FRAMES, 4 * m->store.frame_count);
    return true;
}

size_t qn_matcher_bytes(qn_matcher *m, const void *bytes, size_t count)
{
    const unsigned char *letters = bytes;
    for (size_t i = 0; i < count; i++)
        if (!step(m, letters[i]))
            return i;
    return count;
}

bool qn_matcher_token(qn_matcher *m, int32_t token)
{
    return token >= 0 && step(m, QN_TOKEN_LETTER + (uint64_t)token);
}

bool qn_matcher_can_end(const qn_matcher *m)
{
    for (size_t i = 0; i < m->now.count; i++)
        if (m->now.stacks[i].frame == QN_FRAME_BOTTOM &&
            m->store.grammar->states[m->now.stacks[i].state].kind == QN_STATE_RETURN)
            return true;
    return false;
}

bool qn_matcher_must_end(const qn_matcher *m)
{
    return m->now.count == 1 && qn_matcher_can_end(m);
}

bool qn_matcher_exhausted(const qn_matcher *m)
{
    return m->exhausted;
}

bool qn_matcher_short_of_memory(const qn_matcher *m)
{
    return m->store.short_of_memory;
}
