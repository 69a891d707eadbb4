#include "server/answer_totals.h"

static uint64_t longer(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void qn_answer_totals_add(qn_answer_totals *totals, const qn_result *result, bool first_of_prompt)
{
    qn_timings *sum = &totals->timings;
    const qn_timings *t = &result->timings;
    totals->choices++;
    if (first_of_prompt) {
        sum->prompt_tokens += result->prompt_tokens;
        sum->cached_tokens += t->cached_tokens;
    }
    sum->queue_us = longer(sum->queue_us, t->queue_us);
    sum->prefill_us = longer(sum->prefill_us, t->prefill_us);
    sum->decode_us = longer(sum->decode_us, t->decode_us);
    sum->longest_gap_us = longer(sum->longest_gap_us, t->longest_gap_us);
    sum->completion_tokens += result->completion_tokens;
    sum->steps += t->steps;
    sum->drafts_proposed += t->drafts_proposed;
    sum->drafts_accepted += t->drafts_accepted;
    sum->preemptions += t->preemptions;
    totals->reasoning_tokens += result->reasoning_tokens;
}
