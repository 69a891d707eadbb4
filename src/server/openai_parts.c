#include "server/openai_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "server/sse.h"

void qn_openai_send(qn_buffer *json, qn_buffer *out)
{
    qn_sse_data(out, qn_buffer_string(json), json->size);
    out->failed = out->failed || json->failed;
    qn_buffer_clear(json);
}

void qn_openai_send_done(qn_buffer *out)
{
    qn_sse_data(out, "[DONE]", strlen("[DONE]"));
}

void qn_openai_send_failure(const qn_api_error *error, const qn_error *err, qn_buffer *json, qn_buffer *out)
{
    qn_buffer_clear(json);
    qn_api_error_write(error, err, json);
    qn_openai_send(json, out);
    qn_openai_send_done(out);
}

void qn_openai_head_start(qn_openai_head *head, const char *prefix, const char *request_id)
{
    snprintf(head->id, sizeof head->id, "%s%s", prefix, request_id);
    head->created = qn_unix_seconds();
}

void qn_openai_write_head(qn_buffer *out, const qn_openai_head *head, const char *object)
{
    qn_buffer_format(out, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%" PRId64 ",\"model\":", head->id, object,
                     head->created);
    qn_buffer_json_string(out, head->model, strlen(head->model));
}

void qn_openai_write_ids(qn_buffer *out, const char *name, const int32_t *ids, size_t count)
{
    qn_buffer_format(out, ",\"%s\":[", name);
    for (size_t i = 0; i < count; i++) {
        qn_buffer_format(out, "%s%" PRId32, i > 0 ? "," : "", ids[i]);
    }
    qn_buffer_char(out, ']');
}

void qn_openai_write_finish(qn_buffer *out, const qn_result *result, bool has_calls)
{
    bool for_calls = has_calls && result->finish == QN_FINISH_STOP;
    qn_buffer_format(out, ",\"finish_reason\":\"%s\",\"stop_reason\":",
                     for_calls ? "tool_calls" : qn_finish_name(result->finish));
    if (result->stop_matched != NULL) {
        qn_buffer_json_string(out, result->stop_matched, strlen(result->stop_matched));
    } else if (result->stop_token >= 0) {
        qn_buffer_format(out, "%" PRId32, result->stop_token);
    } else {
        qn_buffer_text(out, "null");
    }
}

void qn_openai_write_usage(qn_buffer *out, const qn_openai_head *head, const qn_answer_totals *totals)
{
    const qn_timings *t = &totals->timings;
    qn_buffer_format(out, ",\"usage\":{\"prompt_tokens\":%zu,\"completion_tokens\":%zu,\"total_tokens\":%zu",
                     t->prompt_tokens, t->completion_tokens, t->prompt_tokens + t->completion_tokens);
    qn_buffer_format(out, ",\"completion_tokens_details\":{\"reasoning_tokens\":%zu}", totals->reasoning_tokens);
    if (head->prompt_details) {
        qn_buffer_format(out, ",\"prompt_tokens_details\":{\"cached_tokens\":%zu}", t->cached_tokens);
    }
    qn_buffer_char(out, '}');
}

void qn_openai_write_chunk_usage(qn_buffer *out, const qn_openai_head *head, const qn_answer_totals *so_far)
{
    if (head->continuous_usage) {
        qn_openai_write_usage(out, head, so_far);
    } else if (head->include_usage) {
        qn_buffer_text(out, ",\"usage\":null");
    }
}

/* Rates and draft_n* are named, and draft_n* told again, as llama.cpp has them, which clients read already. The first
 * token of each choice comes with the prompt; decoding makes the others. */
void qn_openai_write_timings(qn_buffer *out, const qn_answer_totals *totals)
{
    const qn_timings *t = &totals->timings;
    size_t decoded = t->completion_tokens > totals->choices ? t->completion_tokens - totals->choices : 0;
    size_t computed = t->prompt_tokens > t->cached_tokens ? t->prompt_tokens - t->cached_tokens : 0;
    qn_buffer_format(out,
                     ",\"timings\":{\"queue_ms\":%.3f,\"prefill_ms\":%.3f,\"decode_ms\":%.3f,\"longest_gap_ms\":%.3f,"
                     "\"prompt_tokens\":%zu,"
                     "\"cached_tokens\":%zu,\"completion_tokens\":%zu,\"prompt_per_second\":%.3f,"
                     "\"predicted_per_second\":%.3f",
                     (double)t->queue_us / 1e3, (double)t->prefill_us / 1e3, (double)t->decode_us / 1e3,
                     (double)t->longest_gap_us / 1e3, t->prompt_tokens, t->cached_tokens, t->completion_tokens,
                     qn_per_second(computed, t->prefill_us), qn_per_second(decoded, t->decode_us));
    qn_buffer_format(out, ",\"drafts\":%zu,\"drafts_accepted\":%zu,\"draft_n\":%zu,\"draft_n_accepted\":%zu",
                     t->drafts_proposed, t->drafts_accepted, t->drafts_proposed, t->drafts_accepted);
    qn_buffer_format(out, ",\"preemptions\":%zu,\"seed\":%" PRId64 "}", t->preemptions, totals->seed);
}
