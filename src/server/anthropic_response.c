#include "server/anthropic_response.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "server/sse.h"

/* A thinking block has to be signed, so that its maker knows it again. These need no proof: the signature says quern,
 * in base64. */
static const char signature[] = "cXVlcm4=";

void qn_anthropic_message_start(qn_anthropic_message *message, const char *request_id)
{
    snprintf(message->id, sizeof message->id, "msg_%s", request_id);
    message->salt = qn_random_seed();
}

static void write_string(qn_buffer *out, const char *text)
{
    qn_buffer_json_string(out, text, strlen(text));
}

static void write_call_id(qn_buffer *out, const qn_anthropic_message *m, size_t call)
{
    qn_buffer_format(out, "\"toolu_%016" PRIx64 "%04zx\"", m->salt, call);
}

/* Anthropic counts as input what was neither written to nor read from a cache. */
static void write_usage(qn_buffer *out, const qn_anthropic_message *m, const qn_result *result)
{
    size_t cached = m->prompt_details ? result->timings.cached_tokens : 0;
    qn_buffer_format(out,
                     "\"usage\":{\"input_tokens\":%zu,\"cache_creation_input_tokens\":0,"
                     "\"cache_read_input_tokens\":%zu,\"output_tokens\":%zu,"
                     "\"output_tokens_details\":{\"thinking_tokens\":%zu}}",
                     m->prompt_tokens - cached, cached, result->completion_tokens, result->reasoning_tokens);
}

/* "stop_reason" and "stop_sequence". What --repetition-guard ended was cut as if by max_tokens. */
static void write_stop(qn_buffer *out, const qn_anthropic_message *m, const qn_result *result)
{
    const char *reason = "end_turn";
    if (result->stop_matched != NULL) {
        reason = "stop_sequence";
    } else if (result->finish == QN_FINISH_LENGTH && m->cut_by_context) {
        reason = "model_context_window_exceeded";
    } else if (result->finish == QN_FINISH_LENGTH || result->finish == QN_FINISH_REPETITION) {
        reason = "max_tokens";
    } else if (m->calls > 0) {
        reason = "tool_use";
    }
    qn_buffer_format(out, "\"stop_reason\":\"%s\",\"stop_sequence\":", reason);
    if (result->stop_matched != NULL) {
        write_string(out, result->stop_matched);
    } else {
        qn_buffer_text(out, "null");
    }
}

static void write_head(qn_buffer *out, const qn_anthropic_message *m)
{
    qn_buffer_format(out, "{\"id\":\"%s\",\"type\":\"message\",\"role\":\"assistant\",\"model\":", m->id);
    write_string(out, m->model);
}

/* ---- a stream ---- */

void qn_anthropic_write_start(const qn_anthropic_message *message, qn_buffer *out)
{
    qn_sse_open(out, "message_start");
    qn_buffer_text(out, "{\"type\":\"message_start\",\"message\":");
    write_head(out, message);
    qn_buffer_text(out, ",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,");
    write_usage(out, message, &(qn_result){0});
    qn_buffer_text(out, "}}");
    qn_sse_close(out);
    qn_anthropic_write_ping(out);
}

void qn_anthropic_write_ping(qn_buffer *out)
{
    qn_sse_open(out, "ping");
    qn_buffer_text(out, "{\"type\":\"ping\"}");
    qn_sse_close(out);
}

static void open_delta(qn_buffer *out, const qn_anthropic_message *m, const char *type, const char *field)
{
    qn_sse_open(out, "content_block_delta");
    qn_buffer_format(out, "{\"type\":\"content_block_delta\",\"index\":%zu,\"delta\":{\"type\":\"%s\",\"%s\":",
                     m->blocks - 1, type, field);
}

static void close_delta(qn_buffer *out)
{
    qn_buffer_text(out, "}}");
    qn_sse_close(out);
}

static void close_block(qn_anthropic_message *m, qn_buffer *out)
{
    if (!m->open) {
        return;
    }
    if (m->kind == QN_OUTPUT_REASONING) {
        open_delta(out, m, "signature_delta", "signature");
        write_string(out, signature);
        close_delta(out);
    }
    qn_sse_open(out, "content_block_stop");
    qn_buffer_format(out, "{\"type\":\"content_block_stop\",\"index\":%zu}", m->blocks - 1);
    qn_sse_close(out);
    m->open = false;
}

static void open_block(qn_anthropic_message *m, const qn_output_event *part, qn_buffer *out)
{
    close_block(m, out);
    qn_sse_open(out, "content_block_start");
    qn_buffer_format(out, "{\"type\":\"content_block_start\",\"index\":%zu,\"content_block\":{", m->blocks++);
    if (part->kind == QN_OUTPUT_REASONING) {
        qn_buffer_text(out, "\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"");
    } else if (part->kind == QN_OUTPUT_CONTENT) {
        qn_buffer_text(out, "\"type\":\"text\",\"text\":\"\"");
    } else {
        qn_buffer_text(out, "\"type\":\"tool_use\",\"id\":");
        write_call_id(out, m, part->call);
        qn_buffer_text(out, ",\"name\":");
        qn_buffer_json_string(out, part->text, part->bytes);
        qn_buffer_text(out, ",\"input\":{}");
    }
    qn_buffer_text(out, "}}");
    qn_sse_close(out);
    m->open = true;
    m->kind = part->kind;
}

void qn_anthropic_write_part(qn_anthropic_message *message, const qn_output_event *part, qn_buffer *out)
{
    static const struct {
        const char *type, *field;
    } deltas[] = {[QN_OUTPUT_CONTENT] = {"text_delta", "text"},
                  [QN_OUTPUT_REASONING] = {"thinking_delta", "thinking"},
                  [QN_OUTPUT_ARGUMENTS] = {"input_json_delta", "partial_json"}};
    switch (part->kind) {
    case QN_OUTPUT_CALL:
        open_block(message, part, out);
        return;
    case QN_OUTPUT_CALL_END:
        close_block(message, out);
        message->calls++;
        return;
    case QN_OUTPUT_CONTENT:
    case QN_OUTPUT_REASONING:
        if (!message->open || message->kind != part->kind) {
            open_block(message, part, out);
        }
        break;
    case QN_OUTPUT_ARGUMENTS: /* of the call that is open */
        break;
    }
    if (part->kind == QN_OUTPUT_REASONING && message->hides_thoughts) {
        return;
    }
    open_delta(out, message, deltas[part->kind].type, deltas[part->kind].field);
    qn_buffer_json_string(out, part->text, part->bytes);
    close_delta(out);
}

void qn_anthropic_write_end(qn_anthropic_message *message, const qn_result *result, qn_buffer *out)
{
    close_block(message, out);
    qn_sse_open(out, "message_delta");
    qn_buffer_text(out, "{\"type\":\"message_delta\",\"delta\":{");
    write_stop(out, message, result);
    qn_buffer_text(out, "},");
    write_usage(out, message, result);
    qn_buffer_char(out, '}');
    qn_sse_close(out);
    qn_sse_open(out, "message_stop");
    qn_buffer_text(out, "{\"type\":\"message_stop\"}");
    qn_sse_close(out);
}

/* ---- one body ---- */

static void write_text_block(qn_buffer *out, const qn_anthropic_message *m, const qn_output_event *part)
{
    bool thinking = part->kind == QN_OUTPUT_REASONING;
    qn_buffer_text(out, thinking ? "{\"type\":\"thinking\",\"thinking\":" : "{\"type\":\"text\",\"text\":");
    qn_buffer_json_string(out, part->text, thinking && m->hides_thoughts ? 0 : part->bytes);
    if (thinking) {
        qn_buffer_format(out, ",\"signature\":\"%s\"", signature);
    }
    qn_buffer_char(out, '}');
}

static void write_call_block(qn_buffer *out, const qn_anthropic_message *m, const qn_output_event *call,
                             const qn_buffer *arguments)
{
    qn_buffer_text(out, "{\"type\":\"tool_use\",\"id\":");
    write_call_id(out, m, call->call);
    qn_buffer_text(out, ",\"name\":");
    qn_buffer_json_string(out, call->text, call->bytes);
    qn_buffer_text(out, ",\"input\":");
    qn_buffer_append(out, qn_buffer_string(arguments), arguments->size);
    qn_buffer_char(out, '}');
    out->failed = out->failed || arguments->failed;
}

static void write_blocks(qn_anthropic_message *m, const qn_output_event *parts, size_t count, qn_buffer *out)
{
    const qn_output_event *call = NULL;
    qn_buffer arguments = {0};
    for (size_t i = 0; i < count; i++) {
        const qn_output_event *part = &parts[i];
        if (part->kind == QN_OUTPUT_CALL) {
            call = part;
            qn_buffer_clear(&arguments);
        } else if (part->kind == QN_OUTPUT_ARGUMENTS) {
            qn_buffer_append(&arguments, part->text, part->bytes);
        } else {
            qn_buffer_text(out, m->blocks++ > 0 ? "," : "");
            if (part->kind == QN_OUTPUT_CALL_END) {
                write_call_block(out, m, call, &arguments);
                m->calls++;
            } else {
                write_text_block(out, m, part);
            }
        }
    }
    qn_buffer_free(&arguments);
}

void qn_anthropic_write_message(qn_anthropic_message *message, const qn_output_event *parts, size_t count,
                                const qn_result *result, qn_buffer *out)
{
    write_head(out, message);
    qn_buffer_text(out, ",\"content\":[");
    write_blocks(message, parts, count, out);
    qn_buffer_text(out, "],");
    write_stop(out, message, result);
    qn_buffer_char(out, ',');
    write_usage(out, message, result);
    qn_buffer_char(out, '}');
}
