/* A token's way: detokenizer (whole characters) -> stop strings -> trimming -> an event. Each holds
 * back what it can't decide yet. A change of channel settles what the first two hold, for the old channel; white space
 * held back by trimming stays with its channel, since more of it may follow after another block. Inside of a tool call
 * the way is shorter: detokenizer -> the call's own parser. */
#include "text/output.h"

#include <string.h>

#include "base/memory.h"
#include "text/detokenizer.h"
#include "text/stop.h"
#include "text/tool_call.h"

enum { CHANNELS = 2 };

typedef struct channel_text {
    qn_buffer held_space; /* white space that counts only if more text follows */
    bool begun;           /* some text has come: white space is no longer leading */
} channel_text;

struct qn_output_stream {
    const qn_tokenizer *tokenizer;
    bool split;
    int32_t think_begin, think_end;       /* -1: the tokenizer has none */
    int32_t call_markup[QN_MARKUP_COUNT]; /* ids; -1 without tools */
    qn_tool_calls *calls;                 /* NULL without tools */
    qn_output_kind channel;               /* CONTENT or REASONING */
    size_t reasoning_tokens;
    size_t tokens, min_tokens; /* tokens: fed, markup not counted */
    qn_detokenizer detokenizer;
    qn_stop *stop;
    int stopped;
    qn_buffer characters, passed; /* scratch: out of the detokenizer, out of the stop strings */
    channel_text channels[CHANNELS];
    qn_output_events events;
};

qn_status qn_output_stream_new(const qn_tokenizer *tokenizer, const qn_output_options *options, qn_output_stream **out,
                               qn_error *err)
{
    qn_output_stream *stream = qn_alloc_zero(1, sizeof *stream);
    if (stream == NULL) {
        return qn_fail_memory(err, "output stream", sizeof *stream);
    }
    stream->tokenizer = tokenizer;
    stream->split = options->split;
    stream->think_begin = options->split ? qn_tokenizer_find_added(tokenizer, "<think>") : -1;
    stream->think_end = options->split ? qn_tokenizer_find_added(tokenizer, "</think>") : -1;
    stream->channel = options->split && options->in_reasoning ? QN_OUTPUT_REASONING : QN_OUTPUT_CONTENT;
    stream->channels[stream->channel].begun = options->mid_text;
    stream->stopped = -1;
    stream->min_tokens = options->min_tokens;
    qn_detokenizer_start(&stream->detokenizer, tokenizer, true);
    bool with_calls = options->split && options->tools != NULL;
    for (size_t i = 0; i < QN_MARKUP_COUNT; i++) {
        stream->call_markup[i] = with_calls ? qn_tokenizer_find_added(tokenizer, qn_call_markup_text[i]) : -1;
    }
    qn_status status = qn_stop_new(options->stop, options->stop_count, &stream->stop, err);
    if (status == QN_OK && with_calls) {
        status = qn_tool_calls_new(options->tools, &stream->events, &stream->calls, err);
    }
    if (status != QN_OK) {
        qn_output_stream_free(stream);
        return status;
    }
    *out = stream;
    return QN_OK;
}

void qn_output_stream_free(qn_output_stream *stream)
{
    if (stream == NULL) {
        return;
    }
    qn_stop_free(stream->stop);
    qn_tool_calls_free(stream->calls);
    qn_buffer_free(&stream->characters);
    qn_buffer_free(&stream->passed);
    for (size_t i = 0; i < CHANNELS; i++) {
        qn_buffer_free(&stream->channels[i].held_space);
    }
    qn_output_events_free(&stream->events);
    qn_free(stream);
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static void show(qn_output_stream *stream, const char *text, size_t bytes)
{
    qn_output_events_add(&stream->events, stream->channel, 0, text, bytes);
}

static void show_trimmed(qn_output_stream *stream, const char *text, size_t bytes)
{
    channel_text *to = &stream->channels[stream->channel];
    while (!to->begun && bytes > 0 && is_space(*text)) {
        text++;
        bytes--;
    }
    size_t solid = bytes;
    while (solid > 0 && is_space(text[solid - 1])) {
        solid--;
    }
    if (solid > 0) {
        to->begun = true;
        show(stream, qn_buffer_string(&to->held_space), to->held_space.size);
        qn_buffer_clear(&to->held_space);
        show(stream, text, solid);
    }
    qn_buffer_append(&to->held_space, text + solid, bytes - solid);
}

/* What the stop strings let pass is shown. */
static qn_status deliver(qn_output_stream *stream, qn_error *err)
{
    if (stream->split) {
        show_trimmed(stream, qn_buffer_string(&stream->passed), stream->passed.size);
    } else {
        show(stream, qn_buffer_string(&stream->passed), stream->passed.size);
    }
    qn_buffer_clear(&stream->passed);
    if (qn_output_events_failed(&stream->events) || stream->channels[stream->channel].held_space.failed) {
        return qn_fail_memory(err, "generated text", stream->events.text.size);
    }
    return QN_OK;
}

/* The characters that are ready go through the stop strings, or past them while it is too early for one. */
static qn_status pass(qn_output_stream *stream, qn_error *err)
{
    if (stream->tokens <= stream->min_tokens && stream->min_tokens > 0) {
        qn_buffer_append(&stream->passed, stream->characters.data, stream->characters.size);
        qn_buffer_clear(&stream->characters);
        if (stream->passed.failed) {
            return qn_fail_memory(err, "generated text", stream->passed.size);
        }
        return deliver(stream, err);
    }
    qn_status status = qn_stop_feed(stream->stop, qn_buffer_string(&stream->characters), stream->characters.size,
                                    &stream->passed, err);
    qn_buffer_clear(&stream->characters);
    stream->stopped = qn_stop_matched(stream->stop);
    return status == QN_OK ? deliver(stream, err) : status;
}

/* Everything held back before trimming, at the end of a stretch of one channel. */
static qn_status settle(qn_output_stream *stream, qn_error *err)
{
    qn_status status = qn_detokenizer_flush(&stream->detokenizer, &stream->characters, err);
    if (status == QN_OK) {
        status = pass(stream, err);
    }
    if (status == QN_OK) {
        status = qn_stop_flush(stream->stop, &stream->passed, err);
    }
    return status == QN_OK ? deliver(stream, err) : status;
}

static qn_status change_channel(qn_output_stream *stream, qn_output_kind channel, qn_error *err)
{
    if (stream->channel == channel) {
        return QN_OK;
    }
    qn_status status = settle(stream, err);
    if (status == QN_OK && stream->stopped < 0) {
        qn_stop_reset(stream->stop);
        stream->channel = channel;
    }
    return status;
}

/* ---- tool calls ---- */

static bool in_call(const qn_output_stream *stream)
{
    return stream->calls != NULL && qn_tool_calls_inside(stream->calls);
}

/* QN_MARKUP_COUNT: it is none. */
static qn_call_markup markup_of(const qn_output_stream *stream, int32_t token)
{
    size_t i = 0;
    while (i < QN_MARKUP_COUNT && (token < 0 || stream->call_markup[i] != token)) {
        i++;
    }
    return (qn_call_markup)i;
}

/* The characters that are ready are the call's. */
static qn_status pass_to_call(qn_output_stream *stream, qn_error *err)
{
    qn_status status = qn_tool_calls_text(stream->calls, qn_buffer_string(&stream->characters), stream->characters.size,
                                          err);
    qn_buffer_clear(&stream->characters);
    return status;
}

static qn_status settle_call_text(qn_output_stream *stream, qn_error *err)
{
    qn_status status = qn_detokenizer_flush(&stream->detokenizer, &stream->characters, err);
    return status == QN_OK ? pass_to_call(stream, err) : status;
}

/* What looked like a call and was none. It has passed the stop strings by. */
static qn_status show_refused(qn_output_stream *stream, qn_error *err)
{
    const qn_buffer *refused = qn_tool_calls_refused(stream->calls);
    qn_buffer_append(&stream->passed, refused->data, refused->size);
    qn_tool_calls_clear_refused(stream->calls);
    return stream->passed.failed ? qn_fail_memory(err, "generated text", refused->size) : deliver(stream, err);
}

static qn_status feed_call_markup(qn_output_stream *stream, qn_call_markup markup, qn_error *err)
{
    if (!in_call(stream) && markup != QN_MARKUP_CALL_BEGIN) {
        return QN_OK; /* a stray one */
    }
    qn_status status = in_call(stream) ? settle_call_text(stream, err) : settle(stream, err);
    if (status != QN_OK || stream->stopped >= 0) {
        return status;
    }
    qn_stop_reset(stream->stop);
    status = qn_tool_calls_markup(stream->calls, markup, err);
    return status == QN_OK ? show_refused(stream, err) : status;
}

/* ---- tokens ---- */

static qn_status feed_think(qn_output_stream *stream, bool begin, qn_error *err)
{
    if (in_call(stream)) {
        qn_status status = settle_call_text(stream, err);
        if (status == QN_OK) {
            status = qn_tool_calls_think(stream->calls, begin ? "<think>" : "</think>", err);
        }
        if (status != QN_OK || in_call(stream)) {
            return status;
        }
    }
    return change_channel(stream, begin ? QN_OUTPUT_REASONING : QN_OUTPUT_CONTENT, err);
}

static qn_status feed_text(qn_output_stream *stream, int32_t token, qn_call_markup markup, qn_error *err)
{
    stream->tokens++;
    stream->reasoning_tokens += stream->channel == QN_OUTPUT_REASONING;
    qn_output_events_set_reasoning_tokens(&stream->events, stream->reasoning_tokens);
    if (token < 0 || (size_t)token >= qn_tokenizer_size(stream->tokenizer)) {
        return QN_OK;
    }
    qn_status status = QN_OK;
    if (markup != QN_MARKUP_COUNT) { /* in reasoning, where it is text whether the tokenizer calls it special or not */
        status = qn_detokenizer_flush(&stream->detokenizer, &stream->characters, err);
        qn_buffer_text(&stream->characters, qn_call_markup_text[markup]);
    } else {
        status = qn_detokenizer_feed(&stream->detokenizer, &token, 1, &stream->characters, err);
    }
    if (status == QN_OK && stream->characters.failed) {
        status = qn_fail_memory(err, "generated text", stream->characters.size);
    }
    if (status != QN_OK) {
        return status;
    }
    return in_call(stream) ? pass_to_call(stream, err) : pass(stream, err);
}

qn_status qn_output_stream_feed(qn_output_stream *stream, int32_t token, qn_error *err)
{
    if (token >= 0 && (token == stream->think_begin || token == stream->think_end)) {
        return feed_think(stream, token == stream->think_begin, err);
    }
    qn_call_markup markup = markup_of(stream, token);
    if (markup != QN_MARKUP_COUNT && stream->channel == QN_OUTPUT_CONTENT) {
        return feed_call_markup(stream, markup, err);
    }
    return feed_text(stream, token, markup, err);
}

qn_status qn_output_stream_finish(qn_output_stream *stream, bool cut, qn_error *err)
{
    if (stream->stopped >= 0) {
        return QN_OK;
    }
    if (!in_call(stream)) {
        return settle(stream, err);
    }
    /* half a character is no beginning of the whole one */
    qn_status status = cut ? QN_OK : settle_call_text(stream, err);
    if (status == QN_OK) {
        status = qn_tool_calls_finish(stream->calls, cut, err);
    }
    return status == QN_OK ? show_refused(stream, err) : status;
}

int qn_output_stream_stopped(const qn_output_stream *stream)
{
    return stream->stopped;
}

const qn_output_event *qn_output_stream_events(qn_output_stream *stream, size_t *count)
{
    return qn_output_events_read(&stream->events, count);
}

void qn_output_stream_clear(qn_output_stream *stream)
{
    qn_output_events_clear(&stream->events);
}

size_t qn_output_stream_reasoning_tokens(const qn_output_stream *stream)
{
    return stream->reasoning_tokens;
}
