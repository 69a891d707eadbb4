/* A state machine over markup and text. `place` says what the text that comes belongs to; `held` is what of it cannot
 * be told yet. */
#include "text/tool_call.h"

#include <string.h>

#include "base/memory.h"
#include "text/tool_arguments.h"
#include "text/tool_json.h"

const char *const qn_call_markup_text[QN_MARKUP_COUNT] = {"<tool_call>", "</tool_call>", "<arg_key>",
                                                          "</arg_key>",  "<arg_value>",  "</arg_value>"};

typedef enum place {
    OUTSIDE,
    NAME,      /* held: the name */
    NAMELESS,  /* arguments of a call without a name: dropped */
    BETWEEN,   /* held: text that is a key if </arg_key> follows */
    KEY,       /* held: the key */
    AFTER_KEY, /* white space before <arg_value> */
    VALUE,     /* its text goes to the arguments */
    CLOSING    /* a </tool_call> came within a value; quoted: it, and white space behind it */
} place;

struct qn_tool_calls {
    const qn_tool_list *tools;
    qn_output_events *events;
    place place;
    size_t next;                  /* number of the next call */
    qn_tool_arguments *arguments; /* of this call */
    qn_buffer held, quoted, refused;
};

void qn_tool_calls_free(qn_tool_calls *calls)
{
    if (calls != NULL) {
        qn_tool_arguments_free(calls->arguments);
        qn_buffer_free(&calls->held);
        qn_buffer_free(&calls->quoted);
        qn_buffer_free(&calls->refused);
        qn_free(calls);
    }
}

qn_status qn_tool_calls_new(const qn_tool_list *tools, qn_output_events *events, qn_tool_calls **out, qn_error *err)
{
    qn_tool_calls *calls = qn_alloc_zero(1, sizeof *calls);
    if (calls == NULL) {
        return qn_fail_memory(err, "tool calls", sizeof *calls);
    }
    calls->tools = tools;
    calls->events = events;
    calls->held.limit = calls->quoted.limit = QN_TOOL_HELD_MAX_BYTES;
    qn_status status = qn_tool_arguments_new(events, &calls->arguments, err);
    if (status != QN_OK) {
        qn_tool_calls_free(calls);
        return status;
    }
    *out = calls;
    return QN_OK;
}

bool qn_tool_calls_inside(const qn_tool_calls *calls)
{
    return calls->place != OUTSIDE;
}

const qn_buffer *qn_tool_calls_refused(const qn_tool_calls *calls)
{
    return &calls->refused;
}

void qn_tool_calls_clear_refused(qn_tool_calls *calls)
{
    qn_buffer_clear(&calls->refused);
}

static qn_status check(const qn_tool_calls *calls, qn_error *err)
{
    bool failed = calls->held.failed || calls->quoted.failed || calls->refused.failed ||
                  qn_tool_arguments_failed(calls->arguments) || qn_output_events_failed(calls->events);
    size_t held_bytes = calls->held.size + calls->quoted.size + qn_tool_arguments_held_bytes(calls->arguments);
    return failed ? qn_fail_memory(err, "tool call", held_bytes) : QN_OK;
}

static void tell(qn_tool_calls *calls, qn_output_kind kind, const char *text, size_t bytes)
{
    qn_output_events_add(calls->events, kind, calls->next, text, bytes);
}

/* ---- calls ---- */

static qn_status begin_call(qn_tool_calls *calls, const char *name, size_t bytes, qn_error *err)
{
    const qn_tool *tool = qn_tool_list_find(calls->tools, name, bytes);
    qn_status status = qn_tool_arguments_begin(calls->arguments, calls->next, tool, err);
    if (status == QN_OK) {
        tell(calls, QN_OUTPUT_CALL, name, bytes);
        calls->place = BETWEEN;
    }
    return status;
}

static void leave(qn_tool_calls *calls)
{
    calls->place = OUTSIDE;
    qn_buffer_clear(&calls->held);
    qn_buffer_clear(&calls->quoted);
}

/* All of its arguments are told. */
static void end_call(qn_tool_calls *calls)
{
    tell(calls, QN_OUTPUT_CALL_END, "", 0);
    calls->next++;
    leave(calls);
}

/* A call that has its arguments as one JSON object. */
static qn_status tell_whole_call(qn_tool_calls *calls, qn_tool_text name, qn_tool_text arguments, qn_error *err)
{
    qn_status status = begin_call(calls, name.text, name.bytes, err);
    if (status == QN_OK) {
        tell(calls, QN_OUTPUT_ARGUMENTS, arguments.text, arguments.bytes);
        end_call(calls);
    }
    return status;
}

/* All of a call's text, which has no markup inside: a name, a name and an object, one object, or no call at all. */
static qn_status end_in_name(qn_tool_calls *calls, qn_error *err)
{
    qn_tool_text all = qn_tool_json_trim(qn_buffer_string(&calls->held), calls->held.size);
    qn_tool_text name = qn_tool_json_first_word(all);
    if (name.bytes == all.bytes && all.bytes > 0 && *all.text != '{') {
        qn_status status = begin_call(calls, all.text, all.bytes, err);
        if (status == QN_OK) {
            qn_tool_arguments_end(calls->arguments);
            end_call(calls);
        }
        return status;
    }
    qn_tool_json found = {0};
    qn_status status = all.bytes > 0 ? qn_tool_json_read(all, calls->tools, &found, err) : QN_OK;
    if (status == QN_OK && found.name.bytes > 0) {
        status = tell_whole_call(calls, found.name, found.arguments, err);
    } else if (status == QN_OK) {
        qn_buffer_append(&calls->refused, calls->held.data, calls->held.size);
        leave(calls);
    }
    qn_tool_json_free(&found);
    return status;
}

/* Arguments follow the name. */
static qn_status end_name(qn_tool_calls *calls, qn_error *err)
{
    qn_tool_text name = qn_tool_json_trim(qn_buffer_string(&calls->held), calls->held.size);
    qn_tool_text word = qn_tool_json_first_word(name);
    if (qn_tool_list_find(calls->tools, name.text, name.bytes) == NULL &&
        qn_tool_list_find(calls->tools, word.text, word.bytes) != NULL) {
        name = word;
    }
    qn_status status = QN_OK;
    calls->place = NAMELESS;
    if (name.bytes > 0 && *name.text != '{') {
        status = begin_call(calls, name.text, name.bytes, err);
    }
    qn_buffer_clear(&calls->held);
    return status;
}

/* A key ended, yet only the call began: the name and the key are one text. Best is a declared tool with a parameter
 * that is just the rest; then the longest name that leaves a rest; then the text as it falls at its first space. */
static qn_status split_name(qn_tool_calls *calls, qn_error *err)
{
    qn_tool_text all = qn_tool_json_trim(qn_buffer_string(&calls->held), calls->held.size);
    qn_tool_text name = qn_tool_json_first_word(all);
    size_t best = 0;
    for (size_t i = 0; i < qn_tool_list_count(calls->tools); i++) {
        const qn_tool *tool = qn_tool_list_at(calls->tools, i);
        size_t length = strlen(tool->name);
        if (length > all.bytes || memcmp(tool->name, all.text, length) != 0) {
            continue;
        }
        qn_tool_text rest = qn_tool_json_trim(all.text + length, all.bytes - length);
        size_t rank = length + 1 + (qn_tool_declares(tool, rest.text, rest.bytes) ? 2 * QN_TOOL_NAME_MAX_BYTES : 0);
        if (rank > best) {
            best = rank;
            name.bytes = length;
        }
    }
    if (name.bytes == 0) {
        calls->place = NAMELESS;
        return QN_OK;
    }
    qn_status status = begin_call(calls, name.text, name.bytes, err);
    qn_tool_text key = qn_tool_json_trim(name.text + name.bytes,
                                         all.bytes - (size_t)(name.text - all.text) - name.bytes);
    qn_tool_arguments_set_key(calls->arguments, key.text, key.bytes);
    calls->place = AFTER_KEY;
    return status;
}

/* ---- what comes ---- */

static qn_status begin_value(qn_tool_calls *calls, qn_error *err)
{
    calls->place = VALUE;
    return qn_tool_arguments_begin_value(calls->arguments, err);
}

static qn_status end_value(qn_tool_calls *calls, qn_error *err)
{
    calls->place = BETWEEN;
    return qn_tool_arguments_end_value(calls->arguments, err);
}

/* The held text is the key. */
static void end_key(qn_tool_calls *calls)
{
    qn_tool_text key = qn_tool_json_trim(qn_buffer_string(&calls->held), calls->held.size);
    qn_tool_arguments_set_key(calls->arguments, key.text, key.bytes);
    qn_buffer_clear(&calls->held);
    calls->place = AFTER_KEY;
}

/* The text of markup that stands in a value is the value's. */
static qn_status quote(qn_tool_calls *calls, qn_call_markup markup, qn_error *err)
{
    const char *text = qn_call_markup_text[markup];
    return qn_tool_arguments_text(calls->arguments, text, strlen(text), err);
}

/* The </tool_call> that a value may have quoted was a quote. */
static qn_status return_to_value(qn_tool_calls *calls, qn_error *err)
{
    calls->place = VALUE;
    qn_status status = qn_tool_arguments_text(calls->arguments, qn_buffer_string(&calls->quoted), calls->quoted.size,
                                              err);
    qn_buffer_clear(&calls->quoted);
    return status;
}

static qn_status markup_in_value(qn_tool_calls *calls, qn_call_markup markup, qn_error *err)
{
    qn_status status = QN_OK;
    switch (markup) {
    case QN_MARKUP_CALL_END:
        calls->place = CLOSING;
        qn_buffer_text(&calls->quoted, qn_call_markup_text[markup]);
        break;
    case QN_MARKUP_VALUE_BEGIN:
        return qn_tool_arguments_has_text(calls->arguments) ? quote(calls, markup, err) : QN_OK;
    case QN_MARKUP_KEY_END:
        return quote(calls, markup, err);
    case QN_MARKUP_KEY_BEGIN:
        status = end_value(calls, err);
        calls->place = KEY;
        break;
    case QN_MARKUP_VALUE_END:
        return end_value(calls, err);
    case QN_MARKUP_CALL_BEGIN:
    case QN_MARKUP_COUNT:
        break;
    }
    return status;
}

/* Markup between </arg_value> and </tool_call>, where no value is open. */
static qn_status markup_in_arguments(qn_tool_calls *calls, qn_call_markup markup, qn_error *err)
{
    bool key_complete = calls->place == AFTER_KEY;
    switch (markup) {
    case QN_MARKUP_KEY_BEGIN:
        qn_buffer_clear(&calls->held);
        calls->place = KEY;
        break;
    case QN_MARKUP_KEY_END:
        if (!key_complete) {
            end_key(calls);
        }
        break;
    case QN_MARKUP_VALUE_BEGIN:
        if (!key_complete) {
            end_key(calls);
        }
        return begin_value(calls, err);
    case QN_MARKUP_VALUE_END:
        if (key_complete) {
            qn_status status = begin_value(calls, err);
            return status == QN_OK ? end_value(calls, err) : status;
        }
        qn_buffer_clear(&calls->held);
        calls->place = BETWEEN;
        break;
    case QN_MARKUP_CALL_END:
        qn_tool_arguments_end(calls->arguments);
        end_call(calls);
        break;
    case QN_MARKUP_CALL_BEGIN:
    case QN_MARKUP_COUNT:
        break;
    }
    return QN_OK;
}

static qn_status markup_in_name(qn_tool_calls *calls, qn_call_markup markup, qn_error *err)
{
    qn_status status = QN_OK;
    switch (markup) {
    case QN_MARKUP_CALL_END:
        return end_in_name(calls, err);
    case QN_MARKUP_KEY_BEGIN:
        status = end_name(calls, err);
        break;
    case QN_MARKUP_KEY_END:
    case QN_MARKUP_VALUE_BEGIN:
        status = split_name(calls, err);
        qn_buffer_clear(&calls->held);
        break;
    case QN_MARKUP_VALUE_END:
    case QN_MARKUP_CALL_BEGIN:
    case QN_MARKUP_COUNT:
        return QN_OK;
    }
    return status == QN_OK && calls->place != NAMELESS && markup != QN_MARKUP_KEY_END
               ? markup_in_arguments(calls, markup, err)
               : status;
}

/* Ends the call as if all that is missing had come. */
static qn_status complete(qn_tool_calls *calls, qn_error *err)
{
    if (calls->place == NAME) {
        return end_in_name(calls, err);
    }
    if (calls->place == NAMELESS) {
        leave(calls);
        return QN_OK;
    }
    qn_status status = calls->place == VALUE || calls->place == CLOSING ? end_value(calls, err) : QN_OK;
    if (status == QN_OK) {
        qn_tool_arguments_end(calls->arguments);
        end_call(calls);
    }
    return status;
}

static qn_status take_markup(qn_tool_calls *calls, qn_call_markup markup, qn_error *err)
{
    qn_status status = QN_OK;
    if (markup == QN_MARKUP_CALL_BEGIN) {
        status = calls->place != OUTSIDE ? complete(calls, err) : QN_OK;
        calls->place = NAME;
        return status;
    }
    if (calls->place == CLOSING && markup == QN_MARKUP_CALL_END) {
        return complete(calls, err);
    }
    if (calls->place == CLOSING && markup == QN_MARKUP_KEY_BEGIN) { /* a quote cannot be what came before it */
        calls->place = VALUE;
        qn_buffer_clear(&calls->quoted);
    } else if (calls->place == CLOSING) {
        status = return_to_value(calls, err);
    }
    if (status != QN_OK) {
        return status;
    }
    switch (calls->place) {
    case NAME:
        return markup_in_name(calls, markup, err);
    case VALUE:
        return markup_in_value(calls, markup, err);
    case NAMELESS:
        if (markup == QN_MARKUP_CALL_END) {
            leave(calls);
        }
        return QN_OK;
    case BETWEEN:
    case KEY:
    case AFTER_KEY:
        return markup_in_arguments(calls, markup, err);
    case OUTSIDE:
    case CLOSING:
        break;
    }
    return QN_OK;
}

qn_status qn_tool_calls_markup(qn_tool_calls *calls, qn_call_markup markup, qn_error *err)
{
    qn_status status = take_markup(calls, markup, err);
    return status == QN_OK ? check(calls, err) : status;
}

static qn_status take_text(qn_tool_calls *calls, const char *text, size_t bytes, qn_error *err)
{
    qn_status status = QN_OK;
    qn_tool_text solid = qn_tool_json_trim_start(text, bytes);
    switch (calls->place) {
    case NAME:
    case BETWEEN:
    case KEY:
        qn_buffer_append(&calls->held, text, bytes);
        break;
    case AFTER_KEY:
        if (solid.bytes > 0) {
            status = begin_value(calls, err);
            return status == QN_OK ? qn_tool_arguments_text(calls->arguments, solid.text, solid.bytes, err) : status;
        }
        break;
    case CLOSING:
        qn_buffer_append(&calls->quoted, text, bytes);
        return solid.bytes > 0 && !calls->quoted.failed ? return_to_value(calls, err) : QN_OK;
    case VALUE:
        return qn_tool_arguments_text(calls->arguments, text, bytes, err);
    case OUTSIDE:
    case NAMELESS:
        break;
    }
    return status;
}

qn_status qn_tool_calls_text(qn_tool_calls *calls, const char *text, size_t bytes, qn_error *err)
{
    qn_status status = bytes > 0 ? take_text(calls, text, bytes, err) : QN_OK;
    return status == QN_OK ? check(calls, err) : status;
}

qn_status qn_tool_calls_think(qn_tool_calls *calls, const char *text, qn_error *err)
{
    qn_status status = QN_OK;
    if (calls->place == CLOSING) {
        status = complete(calls, err);
    } else if (calls->place == VALUE) {
        status = qn_tool_arguments_text(calls->arguments, text, strlen(text), err);
    }
    return status == QN_OK ? check(calls, err) : status;
}

qn_status qn_tool_calls_finish(qn_tool_calls *calls, bool cut, qn_error *err)
{
    qn_status status = QN_OK;
    if (calls->place != OUTSIDE && (!cut || calls->place == CLOSING)) {
        status = complete(calls, err);
    }
    return status == QN_OK ? check(calls, err) : status;
}
