/* One Knuth-Morris-Pratt automaton a stop string, all stepped byte by byte: the state of an automaton is the length of
 * the longest beginning of its string that the text so far ends with. The largest state is therefore exactly what must
 * be held back, and a state that reaches the string's length is a match. Held text is always a beginning of some stop
 * string, so its bytes are read back from there and nothing needs to be buffered. */
#include "text/stop.h"

#include <stdint.h>
#include <string.h>

#include "base/memory.h"

typedef struct stop_string {
    char *text;
    size_t bytes;
    uint16_t *border; /* border[n]: longest proper border of the first n bytes, n = 1..bytes */
    size_t state;
} stop_string;

struct qn_stop {
    stop_string *strings;
    size_t count;
    int matched;
};

static void fill_borders(stop_string *s)
{
    s->border[0] = 0;
    size_t length = 0;
    for (size_t n = 1; n <= s->bytes; n++) {
        if (n > 1) {
            while (length > 0 && s->text[length] != s->text[n - 1])
                length = s->border[length];
            if (s->text[length] == s->text[n - 1])
                length++;
        }
        s->border[n] = (uint16_t)length;
    }
}

static qn_status add_string(qn_stop *stop, const char *text, qn_error *err)
{
    size_t bytes = strlen(text);
    if (bytes == 0)
        return qn_fail_field(err, QN_USAGE, "stop", "stop: a stop string is empty: leave it out");
    if (bytes > QN_STOP_MAX_BYTES)
        return qn_fail_field(err, QN_USAGE, "stop", "stop: a stop string has %zu bytes: at most %d are allowed", bytes,
                             QN_STOP_MAX_BYTES);
    stop_string *s = &stop->strings[stop->count];
    s->text = qn_strndup(text, bytes);
    s->border = qn_alloc(bytes + 1, sizeof *s->border);
    stop->count++; /* from here qn_stop_free releases it */
    if (!s->text || !s->border)
        return qn_fail_memory(err, "stop strings", bytes * (1 + sizeof *s->border));
    s->bytes = bytes;
    fill_borders(s);
    return QN_OK;
}

qn_status qn_stop_new(const char *const *strings, size_t count, qn_stop **out, qn_error *err)
{
    if (count > QN_STOP_MAX_STRINGS)
        return qn_fail_field(err, QN_USAGE, "stop", "stop: %zu stop strings: at most %d are allowed", count,
                             QN_STOP_MAX_STRINGS);
    qn_stop *stop = qn_alloc_zero(1, sizeof *stop);
    if (!stop)
        return qn_fail_memory(err, "stop strings", sizeof *stop);
    stop->matched = -1;
    stop->strings = qn_alloc_zero(count, sizeof *stop->strings);
    qn_status status = QN_OK;
    if (!stop->strings)
        status = qn_fail_memory(err, "stop strings", count * sizeof *stop->strings);
    for (size_t i = 0; i < count && status == QN_OK; i++)
        status = add_string(stop, strings[i], err);
    if (status != QN_OK) {
        qn_stop_free(stop);
        return status;
    }
    *out = stop;
    return QN_OK;
}

void qn_stop_free(qn_stop *stop)
{
    if (!stop)
        return;
    for (size_t i = 0; i < stop->count; i++) {
        qn_free(stop->strings[i].text);
        qn_free(stop->strings[i].border);
    }
    qn_free(stop->strings);
    qn_free(stop);
}

/* Steps every automaton by one byte. Returns the string that is now complete, the longest and then the first listed
 * when there are several, or -1. */
static int step(qn_stop *stop, char byte)
{
    int complete = -1;
    for (size_t i = 0; i < stop->count; i++) {
        stop_string *s = &stop->strings[i];
        size_t state = s->state; /* below s->bytes: a complete string ends the text */
        while (state > 0 && s->text[state] != byte)
            state = s->border[state];
        if (s->text[state] == byte)
            state++;
        s->state = state;
        if (state == s->bytes && (complete < 0 || s->bytes > stop->strings[complete].bytes))
            complete = (int)i;
    }
    return complete;
}

/* The automaton with the longest state: its string begins with the text that is held back. NULL: nothing is held. */
static const stop_string *holder(const qn_stop *stop)
{
    const stop_string *longest = NULL;
    for (size_t i = 0; i < stop->count; i++) {
        const stop_string *s = &stop->strings[i];
        if (s->state > 0 && (!longest || s->state > longest->state))
            longest = s;
    }
    return longest;
}

static qn_status output_status(const qn_buffer *out, qn_error *err)
{
    return out->failed ? qn_fail_memory(err, "output text", out->size) : QN_OK;
}

/* Gives out the first `bytes` of (held text, then text). */
static void release(const char *held, size_t held_bytes, const char *text, size_t bytes, qn_buffer *out)
{
    size_t from_held = bytes < held_bytes ? bytes : held_bytes;
    qn_buffer_append(out, held, from_held);
    qn_buffer_append(out, text, bytes - from_held);
}

qn_status qn_stop_feed(qn_stop *stop, const char *text, size_t bytes, qn_buffer *out, qn_error *err)
{
    if (stop->matched >= 0)
        return QN_OK;
    const stop_string *before = holder(stop);
    size_t held = before ? before->state : 0;
    for (size_t i = 0; i < bytes; i++) {
        stop->matched = step(stop, text[i]);
        if (stop->matched >= 0) {
            size_t end = held + i + 1;
            release(before ? before->text : "", held, text, end - stop->strings[stop->matched].bytes, out);
            return output_status(out, err);
        }
    }
    const stop_string *after = holder(stop);
    release(before ? before->text : "", held, text, held + bytes - (after ? after->state : 0), out);
    return output_status(out, err);
}

int qn_stop_matched(const qn_stop *stop)
{
    return stop->matched;
}

qn_status qn_stop_flush(qn_stop *stop, qn_buffer *out, qn_error *err)
{
    if (stop->matched >= 0)
        return QN_OK;
    const stop_string *held = holder(stop);
    if (held)
        qn_buffer_append(out, held->text, held->state);
    for (size_t i = 0; i < stop->count; i++)
        stop->strings[i].state = 0;
    return output_status(out, err);
}

void qn_stop_reset(qn_stop *stop)
{
    stop->matched = -1;
    for (size_t i = 0; i < stop->count; i++)
        stop->strings[i].state = 0;
}
