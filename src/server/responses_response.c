#include "server/responses_response.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_wide.h"
#include "base/random.h"
#include "server/sse.h"

/* ---- what a response tells of its request ---- */

/* ,"name": and the document's value, or what stands for none. */
static qn_status echo(qn_response *r, const json_t *document, const char *name, const char *otherwise, qn_error *err)
{
    const json_t *value = qn_field_get(document, name);
    qn_buffer_format(&r->settings, ",\"%s\":", name);
    if (value == NULL) {
        qn_buffer_text(&r->settings, otherwise);
        return QN_OK;
    }
    return qn_json_wide_write(value, SIZE_MAX, &r->settings) ? QN_OK
                                                             : qn_fail_memory(err, "response", r->settings.size);
}

static qn_status write_settings(qn_response *r, const char *model, const qn_responses_request *request, qn_error *err)
{
    static const struct {
        const char *name, *otherwise;
    } told[] = {
        {"instructions", "null"},
        {"max_output_tokens", "null"},
        {"max_tool_calls", "null"},
        {"parallel_tool_calls", "true"},
        {"previous_response_id", "null"},
        {"reasoning", "{\"effort\":null,\"summary\":null}"},
        {"tool_choice", "\"auto\""},
        {"tools", "[]"},
        {"text", "{\"format\":{\"type\":\"text\"}}"},
        {"metadata", "{}"},
        {"user", "null"},
    };
    qn_buffer_text(&r->settings, ",\"model\":");
    qn_buffer_json_string(&r->settings, model, strlen(model));
    const qn_sampling *sampling = &request->generation.sampling;
    qn_buffer_format(&r->settings, ",\"temperature\":%g,\"top_p\":%g", (double)sampling->temperature,
                     (double)sampling->top_p);
    qn_buffer_text(&r->settings, ",\"background\":false,\"service_tier\":\"default\",\"top_logprobs\":0,"
                                 "\"truncation\":\"disabled\"");
    qn_buffer_format(&r->settings, ",\"store\":%s", r->store ? "true" : "false");
    qn_status status = QN_OK;
    for (size_t i = 0; i < sizeof told / sizeof told[0] && status == QN_OK; i++) {
        status = echo(r, request->document, told[i].name, told[i].otherwise, err);
    }
    return status == QN_OK && r->settings.failed ? qn_fail_memory(err, "response", r->settings.size) : status;
}

void qn_response_name(qn_response *response)
{
    snprintf(response->id, sizeof response->id, "resp_%016" PRIx64 "%016" PRIx64, qn_random_seed(), qn_random_seed());
    response->created = qn_unix_seconds();
    response->salt = qn_random_seed();
}

qn_status qn_response_start(qn_response *response, const char *model, const qn_responses_request *request,
                            qn_error *err)
{
    return write_settings(response, model, request, err);
}

void qn_response_free(qn_response *response)
{
    qn_buffer_free(&response->settings);
    qn_buffer_free(&response->done);
    qn_buffer_free(&response->text);
    qn_buffer_free(&response->name);
}

/* ---- pieces ---- */

static void append_buffer(qn_buffer *out, const qn_buffer *text)
{
    qn_buffer_append(out, qn_buffer_string(text), text->size);
    out->failed = out->failed || text->failed;
}

static void write_text(qn_buffer *out, const qn_buffer *text)
{
    qn_buffer_json_string(out, qn_buffer_string(text), text->size);
    out->failed = out->failed || text->failed;
}

static void write_item_id(qn_buffer *out, const qn_response *r)
{
    const char *prefix = r->kind == QN_OUTPUT_REASONING ? "rs" : r->kind == QN_OUTPUT_CONTENT ? "msg" : "fc";
    qn_buffer_format(out, "\"%s_%s%04zx\"", prefix, r->id + strlen("resp_"), r->items - 1);
}

/* A message's or thoughts' only part. */
static void write_part(qn_buffer *out, const qn_response *r)
{
    qn_buffer_text(out, r->kind == QN_OUTPUT_REASONING
                            ? "{\"type\":\"reasoning_text\",\"text\":"
                            : "{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":[],\"text\":");
    write_text(out, &r->text);
    qn_buffer_char(out, '}');
}

static void write_item(qn_buffer *out, const qn_response *r, bool begun, const char *status)
{
    qn_buffer_text(out, "{\"id\":");
    write_item_id(out, r);
    qn_buffer_format(out, ",\"status\":\"%s\"", status);
    if (r->kind == QN_OUTPUT_CALL) {
        qn_buffer_format(out, ",\"type\":\"function_call\",\"call_id\":\"call_%016" PRIx64 "%04zx\",\"name\":", r->salt,
                         r->items - 1);
        write_text(out, &r->name);
        qn_buffer_text(out, ",\"arguments\":");
        write_text(out, &r->text);
        qn_buffer_char(out, '}');
        return;
    }
    qn_buffer_text(out, r->kind == QN_OUTPUT_REASONING ? ",\"type\":\"reasoning\",\"summary\":[],\"content\":["
                                                       : ",\"type\":\"message\",\"role\":\"assistant\",\"content\":[");
    if (!begun) {
        write_part(out, r);
    }
    qn_buffer_text(out, "]}");
}

static void write_usage(qn_buffer *out, const qn_response *r, const qn_result *result)
{
    size_t cached = r->prompt_details ? result->timings.cached_tokens : 0;
    qn_buffer_format(out,
                     "{\"input_tokens\":%zu,\"input_tokens_details\":{\"cached_tokens\":%zu,\"cache_write_tokens\":0},"
                     "\"output_tokens\":%zu,\"output_tokens_details\":{\"reasoning_tokens\":%zu},\"total_tokens\":%zu}",
                     result->prompt_tokens, cached, result->completion_tokens, result->reasoning_tokens,
                     result->prompt_tokens + result->completion_tokens);
}

static bool was_cut(const qn_result *result)
{
    return result->finish == QN_FINISH_LENGTH || result->finish == QN_FINISH_REPETITION;
}

/* result NULL: it is not over, or has failed with the message. Returns where the array of items begins. */
static size_t write_response(qn_buffer *out, const qn_response *r, const qn_result *result, const char *failure)
{
    const char *status = failure != NULL   ? "failed"
                         : result == NULL  ? "in_progress"
                         : was_cut(result) ? "incomplete"
                                           : "completed";
    qn_buffer_format(out, "{\"id\":\"%s\",\"object\":\"response\",\"created_at\":%" PRId64 ",\"status\":\"%s\"", r->id,
                     r->created, status);
    qn_buffer_text(out, ",\"error\":");
    if (failure != NULL) {
        qn_buffer_text(out, "{\"code\":\"server_error\",\"message\":");
        qn_buffer_json_string(out, failure, strlen(failure));
        qn_buffer_char(out, '}');
    } else {
        qn_buffer_text(out, "null");
    }
    qn_buffer_text(out, ",\"incomplete_details\":");
    qn_buffer_text(out, result != NULL && was_cut(result) ? "{\"reason\":\"max_output_tokens\"}" : "null");
    append_buffer(out, &r->settings);
    qn_buffer_text(out, ",\"output\":");
    size_t output_at = out->size;
    qn_buffer_char(out, '[');
    append_buffer(out, &r->done);
    qn_buffer_text(out, "],\"usage\":");
    if (result != NULL) {
        write_usage(out, r, result);
    } else {
        qn_buffer_text(out, "null");
    }
    qn_buffer_char(out, '}');
    return output_at;
}

/* ---- events ---- */

static void open_event(qn_response *r, const char *type, qn_buffer *events)
{
    qn_sse_open(events, type);
    qn_buffer_format(events, "{\"type\":\"%s\",\"sequence_number\":%zu", type, r->sequence++);
}

static void close_event(qn_buffer *events)
{
    qn_buffer_char(events, '}');
    qn_sse_close(events);
}

static void tell_response(qn_response *r, const char *type, const qn_result *result, const char *failure,
                          qn_buffer *events)
{
    open_event(r, type, events);
    qn_buffer_text(events, ",\"response\":");
    write_response(events, r, result, failure);
    close_event(events);
}

static void tell_item(qn_response *r, const char *type, bool begun, const char *status, qn_buffer *events)
{
    open_event(r, type, events);
    qn_buffer_format(events, ",\"output_index\":%zu,\"item\":", r->items - 1);
    write_item(events, r, begun, status);
    close_event(events);
}

/* Up to what is told of the open item; calls have no parts. */
static void open_item_event(qn_response *r, const char *type, qn_buffer *events)
{
    open_event(r, type, events);
    qn_buffer_text(events, ",\"item_id\":");
    write_item_id(events, r);
    qn_buffer_format(events, ",\"output_index\":%zu", r->items - 1);
    if (r->kind != QN_OUTPUT_CALL) {
        qn_buffer_text(events, ",\"content_index\":0");
    }
}

static void tell_part(qn_response *r, const char *type, qn_buffer *events)
{
    open_item_event(r, type, events);
    qn_buffer_text(events, ",\"part\":");
    write_part(events, r);
    close_event(events);
}

/* A delta, or the whole text once it is done. */
static void tell_text(qn_response *r, bool done, const char *text, size_t bytes, qn_buffer *events)
{
    static const char *const names[][2] = {
        [QN_OUTPUT_CONTENT] = {"response.output_text.delta", "response.output_text.done"},
        [QN_OUTPUT_REASONING] = {"response.reasoning_text.delta", "response.reasoning_text.done"},
        [QN_OUTPUT_CALL] = {"response.function_call_arguments.delta", "response.function_call_arguments.done"}};
    open_item_event(r, names[r->kind][done ? 1 : 0], events);
    if (r->kind == QN_OUTPUT_CONTENT) {
        qn_buffer_text(events, ",\"logprobs\":[]");
    }
    if (r->kind == QN_OUTPUT_CALL && done) {
        qn_buffer_text(events, ",\"name\":");
        write_text(events, &r->name);
    }
    qn_buffer_format(events, ",\"%s\":", !done ? "delta" : r->kind == QN_OUTPUT_CALL ? "arguments" : "text");
    qn_buffer_json_string(events, text, bytes);
    close_event(events);
}

/* ---- the making ---- */

static void close_item(qn_response *r, const char *status, qn_buffer *events)
{
    if (!r->open) {
        return;
    }
    if (events != NULL) {
        tell_text(r, true, qn_buffer_string(&r->text), r->text.size, events);
        if (r->kind != QN_OUTPUT_CALL) {
            tell_part(r, "response.content_part.done", events);
        }
        tell_item(r, "response.output_item.done", false, status, events);
    }
    qn_buffer_text(&r->done, r->done.size > 0 ? "," : "");
    write_item(&r->done, r, false, status);
    r->open = false;
}

static void open_item(qn_response *r, const qn_output_event *part, qn_buffer *events)
{
    close_item(r, "completed", events);
    r->open = true;
    r->kind = part->kind;
    r->items++;
    qn_buffer_clear(&r->text);
    qn_buffer_clear(&r->name);
    if (part->kind == QN_OUTPUT_CALL) {
        qn_buffer_append(&r->name, part->text, part->bytes);
    }
    if (events != NULL) {
        tell_item(r, "response.output_item.added", true, "in_progress", events);
        if (r->kind != QN_OUTPUT_CALL) {
            tell_part(r, "response.content_part.added", events);
        }
    }
}

void qn_response_write_start(qn_response *response, qn_buffer *events)
{
    tell_response(response, "response.created", NULL, NULL, events);
    tell_response(response, "response.in_progress", NULL, NULL, events);
}

void qn_response_add(qn_response *response, const qn_output_event *part, qn_buffer *events)
{
    switch (part->kind) {
    case QN_OUTPUT_CALL:
        open_item(response, part, events);
        return;
    case QN_OUTPUT_CALL_END:
        close_item(response, "completed", events);
        return;
    case QN_OUTPUT_CONTENT:
    case QN_OUTPUT_REASONING:
        if (!response->open || response->kind != part->kind) {
            open_item(response, part, events);
        }
        break;
    case QN_OUTPUT_ARGUMENTS: /* of the call that is open */
        break;
    }
    qn_buffer_append(&response->text, part->text, part->bytes);
    if (events != NULL) {
        tell_text(response, false, part->text, part->bytes, events);
    }
}

void qn_response_finish(qn_response *response, const qn_result *result, qn_buffer *events)
{
    close_item(response, was_cut(result) ? "incomplete" : "completed", events);
    if (events != NULL) {
        tell_response(response, was_cut(result) ? "response.incomplete" : "response.completed", result, NULL, events);
    }
}

void qn_response_write_failure(qn_response *response, const char *message, qn_buffer *events)
{
    tell_response(response, "response.failed", NULL, message, events);
}

void qn_response_write(const qn_response *response, const qn_result *result, qn_buffer *out, size_t *output_at,
                       size_t *output_bytes)
{
    *output_at = write_response(out, response, result, NULL);
    *output_bytes = response->done.size + strlen("[]");
}
