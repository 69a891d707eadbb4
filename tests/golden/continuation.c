/* See continuation.h. */
#include "golden/continuation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"

/* Whether ours is the expected i-th token; fails the test when it is not and no near-tie excuses it. */
static bool agrees(const expected_tokens *expected, size_t i, int32_t ours)
{
    if (ours == expected->tokens[i])
        return true;
    if (expected->margins[i] >= expected->near_tie)
        fail_msg("%s: token %zu is %d instead of %d, at a margin of %g", expected->what, i, (int)ours,
                 (int)expected->tokens[i], expected->margins[i]);
    printf("%s: ends at token %zu: margin %.2g\n", expected->what, i, expected->margins[i]);
    return false;
}

size_t continue_greedily(rig *r, qn_kv_sequence *sequence, size_t n, const float *hidden,
                         const expected_tokens *expected)
{
    float *row = rig_alloc(r->hidden_size, sizeof *row), *logits = rig_alloc(r->vocab_size, sizeof *logits);
    memcpy(row, hidden, r->hidden_size * sizeof *row);
    size_t i = 0;
    for (;;) {
        rig_logits(r, row, 1, logits);
        int32_t token = rig_argmax(logits, r->vocab_size);
        if (!agrees(expected, i, token) || ++i == expected->count)
            break;
        rig_forward(r, sequence, &token, n + i - 1, 1, 0, row, NULL);
    }
    qn_free(row);
    qn_free(logits);
    return i;
}

/* What one step gives, compared with what it should. */
static bool step_agrees(const expected_tokens *expected, const expected_step *step, size_t emitted_before,
                        size_t position, int32_t draft, const int32_t *emitted, size_t count)
{
    assert_int_equal(position, step->position);
    if (draft != step->draft) {
        if (step->draft_margin >= expected->near_tie)
            fail_msg("%s: the draft at %zu is %d instead of %d, at a margin of %g", expected->what, position,
                     (int)draft, (int)step->draft, step->draft_margin);
        return false;
    }
    for (size_t i = 0; i < count && emitted_before + i < expected->count; i++)
        if (!agrees(expected, emitted_before + i, emitted[i]))
            return false;
    assert_int_equal(count, step->emitted_count);
    assert_int_equal(count == 2, step->accepted);
    assert_memory_equal(emitted, step->emitted, count * sizeof *emitted);
    return true;
}

size_t continue_speculatively(rig *r, qn_kv_sequence *sequence, size_t n, const float *hidden, const float *mtp_out,
                              const expected_tokens *expected, const expected_step *steps, size_t step_count)
{
    size_t vocab = r->vocab_size, emitted_total = 1, done = 0;
    float *rows = rig_alloc(2 * r->hidden_size, sizeof *rows), *logits = rig_alloc(2 * vocab, sizeof *logits);
    float *mtp_rows = rig_alloc(2 * r->hidden_size, sizeof *mtp_rows);
    rig_logits(r, hidden, 1, logits);
    int32_t last = rig_argmax(logits, vocab);
    rig_mtp_logits(r, mtp_out, 1, logits);
    int32_t draft = rig_argmax(logits, vocab);
    bool going_on = agrees(expected, 0, last);
    for (; going_on && done < step_count; done += going_on) {
        size_t at = n + emitted_total - 1; /* of the last token, not yet computed */
        int32_t verified[2] = {last, draft}, emitted[2];
        rig_forward(r, sequence, verified, at, 2, 0, rows, NULL);
        rig_logits(r, rows, 2, logits);
        emitted[0] = rig_argmax(logits, vocab);
        emitted[1] = rig_argmax(logits + vocab, vocab);
        size_t count = emitted[0] == draft ? 2 : 1;
        going_on = step_agrees(expected, &steps[done], emitted_total, at + 1, draft, emitted, count);
        rig_mtp(r, sequence, emitted, rows, at, count, 0, mtp_rows, NULL, NULL);
        rig_mtp_logits(r, mtp_rows + (count - 1) * r->hidden_size, 1, logits);
        draft = rig_argmax(logits, vocab);
        last = emitted[count - 1];
        emitted_total += count;
    }
    qn_free(rows);
    qn_free(mtp_rows);
    qn_free(logits);
    return done;
}
