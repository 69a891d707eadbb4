/* What becomes of calls that ended: sums, samples, and their JSON. */
#include "base/clock.h"
#include "bench/serve_load.h"

static double ms_between(uint64_t from_us, uint64_t to_us)
{
    return to_us > from_us ? (double)(to_us - from_us) / 1e3 : 0;
}

static void add_answer(qn_serve_tally *t, const qn_call *call)
{
    const qn_serve_answer *a = &call->answer;
    double per_chunk = qn_serve_answer_tokens_per_chunk(a);
    t->prompt_tokens += a->prompt_tokens;
    t->completion_tokens += a->completion_tokens;
    if (a->has_cached) {
        t->cached_tokens += a->cached_tokens;
        t->cached_of_tokens += a->prompt_tokens;
    }
    if (a->has_drafts) {
        t->has_drafts = true;
        t->drafts += a->drafts;
        t->drafts_accepted += a->drafts_accepted;
    }
    if (a->has_longest_gap) {
        t->longest_gap_ms = a->longest_gap_ms > t->longest_gap_ms ? a->longest_gap_ms : t->longest_gap_ms;
        t->has_longest_gap = true;
    }
    if (a->chunks > 0)
        qn_samples_add(&t->first_ms, ms_between(call->sent_us, a->chunk_us[0]));
    for (size_t i = 1; i < a->chunks; i++) {
        double gap_ms = ms_between(a->chunk_us[i - 1], a->chunk_us[i]);
        qn_samples_add(&t->gap_ms, gap_ms);
        qn_samples_add(&t->token_ms, gap_ms / per_chunk);
    }
    qn_samples_add(&t->whole_ms, ms_between(call->sent_us, call->ended_us));
}

void qn_serve_tally_add(qn_serve_tally *t, const qn_call *call)
{
    if (t->begin_us == 0 || call->sent_us < t->begin_us)
        t->begin_us = call->sent_us;
    if (call->ended_us > t->end_us)
        t->end_us = call->ended_us;
    t->refusals += call->refusals;
    t->refusals_untimed += call->refusals_untimed;
    switch (call->outcome) {
    case QN_CALL_FINISHED:
        t->finished++;
        add_answer(t, call);
        break;
    case QN_CALL_REFUSED:
        t->refused++;
        break;
    case QN_CALL_CUT_OFF:
        t->cut_off++;
        break;
    case QN_CALL_FAILED:
        if (t->failed++ == 0)
            t->first_error = call->err;
        break;
    }
}

double qn_serve_tally_seconds(const qn_serve_tally *t)
{
    return ms_between(t->begin_us, t->end_us) / 1e3;
}

static json_t *counts_json(const qn_serve_tally *t)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "finished", (json_int_t)t->finished, "refused",
                     (json_int_t)t->refused, "failed", (json_int_t)t->failed, "cut_off", (json_int_t)t->cut_off,
                     "refusals", (json_int_t)t->refusals, "refusals_without_retry_after",
                     (json_int_t)t->refusals_untimed);
}

/* null for what the server did not tell. */
static json_t *drafts_json(const qn_serve_tally *t)
{
    return t->has_drafts
               ? json_pack("{s:I, s:I}", "drafts", (json_int_t)t->drafts, "accepted", (json_int_t)t->drafts_accepted)
               : json_null();
}

static json_t *cached_json(const qn_serve_tally *t)
{
    return t->cached_of_tokens > 0 ? json_integer((json_int_t)t->cached_tokens) : json_null();
}

json_t *qn_serve_tally_json(qn_serve_tally *t)
{
    uint64_t us = t->end_us - t->begin_us;
    json_t *longest = t->has_longest_gap ? json_real(t->longest_gap_ms) : json_null();
    return json_pack("{s:o, s:f, s:f, s:f, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s?}", "requests",
                     counts_json(t), "seconds", qn_serve_tally_seconds(t), "output_tokens_per_second",
                     qn_per_second(t->completion_tokens, us), "requests_per_second", qn_per_second(t->finished, us),
                     "prompt_tokens", (json_int_t)t->prompt_tokens, "completion_tokens",
                     (json_int_t)t->completion_tokens, "cached_tokens", cached_json(t), "speculation", drafts_json(t),
                     "first_token_ms", qn_samples_json(&t->first_ms), "gap_ms", qn_samples_json(&t->gap_ms),
                     "between_tokens_ms", qn_samples_json(&t->token_ms), "whole_ms", qn_samples_json(&t->whole_ms),
                     "longest_token_gap_ms", longest, "first_error", t->failed > 0 ? t->first_error.message : NULL);
}

void qn_serve_tally_free(qn_serve_tally *t)
{
    qn_samples_free(&t->first_ms);
    qn_samples_free(&t->gap_ms);
    qn_samples_free(&t->token_ms);
    qn_samples_free(&t->whole_ms);
    *t = (qn_serve_tally){0};
}
