#include "bench/serve_answer.h"

#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/size.h"

enum { FIRST_CHUNKS = 256, MOST_TOKENS = 1 << 30, ERROR_SHOWN = 400 };

static bool has_text(const json_t *delta)
{
    static const char *const names[] = {"content", "reasoning_content", "reasoning"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (json_string_length(json_object_get(delta, names[i])) > 0)
            return true;
    }
    return false;
}

static qn_status add_chunk(qn_serve_answer *a, qn_error *err)
{
    if (a->chunks == a->capacity) {
        size_t capacity = a->capacity ? 2 * a->capacity : FIRST_CHUNKS;
        if (capacity > QN_SERVE_ANSWER_MAX_CHUNKS)
            return qn_fail(err, QN_BAD_INPUT, "answer: more than %d chunks: does max_tokens do nothing there?",
                           QN_SERVE_ANSWER_MAX_CHUNKS);
        uint64_t *chunk_us = qn_realloc(a->chunk_us, capacity, sizeof *chunk_us);
        if (!chunk_us)
            return qn_fail_memory(err, "arrival times", capacity * sizeof *chunk_us);
        a->chunk_us = chunk_us;
        a->capacity = capacity;
    }
    a->chunk_us[a->chunks++] = a->now_us;
    return QN_OK;
}

/* A field that is absent or null is none; false: it is there and is no count. */
static bool read_count(const json_t *object, const char *name, bool *has, size_t *out)
{
    const json_t *value = json_object_get(object, name);
    *has = value && !json_is_null(value);
    if (!*has)
        return true;
    json_int_t count = json_integer_value(value);
    *out = count > 0 ? (size_t)count : 0;
    return json_is_integer(value) && count >= 0 && count <= MOST_TOKENS;
}

static bool read_usage(qn_serve_answer *a, const json_t *usage)
{
    bool has_prompt, has_completion;
    if (!json_is_object(usage)) /* null in all chunks but the last */
        return true;
    bool good = read_count(usage, "prompt_tokens", &has_prompt, &a->prompt_tokens) &&
                read_count(usage, "completion_tokens", &has_completion, &a->completion_tokens) &&
                read_count(json_object_get(usage, "prompt_tokens_details"), "cached_tokens", &a->has_cached,
                           &a->cached_tokens);
    a->has_usage = good && has_prompt && has_completion;
    return good;
}

static bool read_timings(qn_serve_answer *a, const json_t *timings)
{
    static const char *const names[][2] = {{"drafts", "drafts_accepted"}, {"draft_n", "draft_n_accepted"}};
    const json_t *gap = json_object_get(timings, "longest_gap_ms");
    if (json_is_number(gap)) {
        a->has_longest_gap = true;
        a->longest_gap_ms = json_number_value(gap);
    }
    for (size_t i = 0; json_is_object(timings) && i < 2; i++) {
        bool has_drafts, has_accepted;
        if (!read_count(timings, names[i][0], &has_drafts, &a->drafts) ||
            !read_count(timings, names[i][1], &has_accepted, &a->drafts_accepted))
            return false;
        if (has_drafts && has_accepted) {
            a->has_drafts = true;
            return true;
        }
    }
    return true;
}

static qn_status told_error(const json_t *error, qn_error *err)
{
    const char *message = json_string_value(json_object_get(error, "message"));
    return qn_fail(err, QN_FAILED, "server: in its stream: %.*s", ERROR_SHOWN, message ? message : "an error");
}

static qn_status read_chunk(qn_serve_answer *a, const json_t *root, qn_error *err)
{
    const json_t *error = json_object_get(root, "error");
    if (error && !json_is_null(error))
        return told_error(error, err);
    const json_t *choices = json_object_get(root, "choices");
    if (!json_is_array(choices) || !read_usage(a, json_object_get(root, "usage")) ||
        !read_timings(a, json_object_get(root, "timings")))
        return qn_fail(err, QN_BAD_INPUT, "answer: an event is no chat.completion.chunk: is this a chat API?");
    const json_t *choice = json_array_get(choices, 0);
    a->finished = a->finished || json_is_string(json_object_get(choice, "finish_reason"));
    return has_text(json_object_get(choice, "delta")) ? add_chunk(a, err) : QN_OK;
}

static qn_status on_event(void *context, const char *data, size_t bytes, qn_error *err)
{
    qn_serve_answer *a = context;
    static const char end[] = "[DONE]";
    if (a->done)
        return qn_fail(err, QN_BAD_INPUT, "answer: an event after [DONE]: is this a chat API?");
    if (bytes == sizeof end - 1 && memcmp(data, end, bytes) == 0) {
        a->done = true;
        return QN_OK;
    }
    json_t *root = NULL;
    qn_status status = qn_json_parse(data, bytes, "event", &root, err);
    if (status == QN_OK)
        status = read_chunk(a, root, err);
    json_decref(root);
    return status;
}

qn_status qn_serve_answer_read(qn_serve_answer *a, const char *bytes, size_t count, uint64_t now_us, qn_error *err)
{
    a->now_us = now_us;
    return qn_event_read(&a->reader, bytes, count, on_event, a, err);
}

qn_status qn_serve_answer_check(const qn_serve_answer *a, qn_error *err)
{
    if (!a->finished || !a->done)
        return qn_fail(err, QN_BAD_INPUT, "answer: the stream ended before %s: look at the server's log",
                       a->finished ? "[DONE]" : "its finish_reason");
    if (!a->has_usage)
        return qn_fail(err, QN_BAD_INPUT,
                       "answer: it has no usage, so its tokens can't be counted: measure a server that honours "
                       "stream_options.include_usage");
    return QN_OK;
}

double qn_serve_answer_tokens_per_chunk(const qn_serve_answer *a)
{
    return a->chunks == 0 || a->completion_tokens < a->chunks ? 1 : (double)a->completion_tokens / (double)a->chunks;
}

void qn_serve_answer_clear(qn_serve_answer *a)
{
    qn_event_reader_free(&a->reader);
    *a = (qn_serve_answer){.chunk_us = a->chunk_us, .capacity = a->capacity};
}

void qn_serve_answer_free(qn_serve_answer *a)
{
    qn_event_reader_free(&a->reader);
    qn_free(a->chunk_us);
    *a = (qn_serve_answer){0};
}
