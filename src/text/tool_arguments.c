/* What becomes of a value is decided as early as it can be: `held` is what has come of one until then. */
#include "text/tool_arguments.h"

#include <string.h>

#include "base/json_wide.h"
#include "base/memory.h"
#include "text/tool_json.h"

/* What becomes of the value that comes. */
typedef enum fate {
    DROPPED,   /* no key, or one that has its value */
    UNDECIDED, /* string or JSON: held */
    STREAMED   /* a string: told as it comes */
} fate;

struct qn_tool_arguments {
    qn_output_events *events;
    size_t call;         /* its number */
    const qn_tool *tool; /* NULL: not declared */
    bool has_any;        /* the first key is told */
    json_t *keys;        /* object: those that have a value */
    qn_buffer key, held;
    qn_buffer scratch; /* JSON on its way to the events */

    /* Of the value that comes. */
    fate fate;
    bool has_text;
    bool has_solid_text; /* some that is not white space */
    const qn_argument_type *type;
};

qn_status qn_tool_arguments_new(qn_output_events *events, qn_tool_arguments **out, qn_error *err)
{
    qn_tool_arguments *arguments = qn_alloc_zero(1, sizeof *arguments);
    if (arguments == NULL) {
        return qn_fail_memory(err, "tool calls", sizeof *arguments);
    }
    arguments->events = events;
    arguments->held.limit = arguments->key.limit = QN_TOOL_HELD_MAX_BYTES;
    *out = arguments;
    return QN_OK;
}

void qn_tool_arguments_free(qn_tool_arguments *arguments)
{
    if (arguments != NULL) {
        json_decref(arguments->keys);
        qn_buffer_free(&arguments->key);
        qn_buffer_free(&arguments->held);
        qn_buffer_free(&arguments->scratch);
        qn_free(arguments);
    }
}

bool qn_tool_arguments_failed(const qn_tool_arguments *arguments)
{
    return arguments->key.failed || arguments->held.failed || arguments->scratch.failed;
}

size_t qn_tool_arguments_held_bytes(const qn_tool_arguments *arguments)
{
    return arguments->held.size;
}

bool qn_tool_arguments_has_text(const qn_tool_arguments *arguments)
{
    return arguments->has_text;
}

static void tell(qn_tool_arguments *arguments, const char *text, size_t bytes)
{
    qn_output_events_add(arguments->events, QN_OUTPUT_ARGUMENTS, arguments->call, text, bytes);
}

/* Tells what scratch has. */
static void tell_scratch(qn_tool_arguments *arguments)
{
    tell(arguments, qn_buffer_string(&arguments->scratch), arguments->scratch.size);
    if (!arguments->scratch.failed) {
        qn_buffer_clear(&arguments->scratch);
    }
}

qn_status qn_tool_arguments_begin(qn_tool_arguments *arguments, size_t call, const qn_tool *tool, qn_error *err)
{
    arguments->call = call;
    arguments->tool = tool;
    arguments->has_any = false;
    json_decref(arguments->keys);
    arguments->keys = json_object();
    return arguments->keys != NULL ? QN_OK : qn_fail_memory(err, "tool call", sizeof(json_t));
}

void qn_tool_arguments_end(qn_tool_arguments *arguments)
{
    const char *rest = arguments->has_any ? "}" : "{}";
    tell(arguments, rest, strlen(rest));
}

void qn_tool_arguments_set_key(qn_tool_arguments *arguments, const char *key, size_t bytes)
{
    qn_buffer_clear(&arguments->key);
    qn_buffer_append(&arguments->key, key, bytes);
}

/* The key and what stands before its value. */
static qn_status open_value(qn_tool_arguments *arguments, qn_error *err)
{
    qn_buffer_text(&arguments->scratch, arguments->has_any ? ", " : "{");
    qn_buffer_json_string(&arguments->scratch, qn_buffer_string(&arguments->key), arguments->key.size);
    qn_buffer_text(&arguments->scratch, ": ");
    arguments->has_any = true;
    if (json_object_setn_new_nocheck(arguments->keys, qn_buffer_string(&arguments->key), arguments->key.size,
                                     json_true()) != 0) {
        return qn_fail_memory(err, "tool call", arguments->key.size);
    }
    return QN_OK;
}

/* From now on the value is a string, with what is held of it. */
static qn_status stream_value(qn_tool_arguments *arguments, qn_error *err)
{
    qn_status status = open_value(arguments, err);
    if (status == QN_OK) {
        arguments->fate = STREAMED;
        qn_buffer_char(&arguments->scratch, '"');
        qn_buffer_json_text(&arguments->scratch, qn_buffer_string(&arguments->held), arguments->held.size);
        qn_buffer_clear(&arguments->held);
        tell_scratch(arguments);
    }
    return status;
}

qn_status qn_tool_arguments_begin_value(qn_tool_arguments *arguments, qn_error *err)
{
    const char *key = qn_buffer_string(&arguments->key);
    size_t bytes = arguments->key.size;
    arguments->has_text = arguments->has_solid_text = false;
    qn_buffer_clear(&arguments->held);
    arguments->type = qn_tool_argument_type(arguments->tool, key, bytes);
    if (bytes == 0 || json_object_getn(arguments->keys, key, bytes) != NULL) {
        arguments->fate = DROPPED;
        return QN_OK;
    }
    arguments->fate = UNDECIDED;
    return arguments->type != NULL && arguments->type->kind == QN_ARGUMENT_STRING ? stream_value(arguments, err)
                                                                                  : QN_OK;
}

/* Can what is held of a value, which ends with this text, still become JSON that counts? */
static bool may_be_json(qn_tool_arguments *arguments, const char *text, size_t bytes)
{
    size_t held = arguments->held.size;
    bool first = !arguments->has_solid_text;
    arguments->has_solid_text = arguments->has_solid_text || qn_tool_json_trim_start(text, bytes).bytes > 0;
    switch (arguments->type != NULL ? arguments->type->kind : QN_ARGUMENT_JSON) {
    case QN_ARGUMENT_STRING:
        return false;
    case QN_ARGUMENT_STRING_OR_NULL:
        return held <= 4 && memcmp(qn_buffer_string(&arguments->held), "null", held) == 0;
    case QN_ARGUMENT_LISTED:
        break;
    case QN_ARGUMENT_JSON:
        return !first || qn_tool_json_may_begin(text, bytes);
    }
    return true;
}

qn_status qn_tool_arguments_text(qn_tool_arguments *arguments, const char *text, size_t bytes, qn_error *err)
{
    arguments->has_text = true;
    if (arguments->fate == STREAMED) {
        qn_buffer_json_text(&arguments->scratch, text, bytes);
        tell_scratch(arguments);
    } else if (arguments->fate == UNDECIDED) {
        qn_buffer_append(&arguments->held, text, bytes);
        if (!arguments->held.failed && !may_be_json(arguments, text, bytes)) {
            return stream_value(arguments, err);
        }
    }
    return QN_OK;
}

qn_status qn_tool_arguments_end_value(qn_tool_arguments *arguments, qn_error *err)
{
    qn_status status = QN_OK;
    bool json = false;
    if (arguments->fate == UNDECIDED) {
        status = qn_argument_is_json(arguments->type, qn_buffer_string(&arguments->held), arguments->held.size, &json,
                                     err);
        if (status == QN_OK && json) {
            status = open_value(arguments, err);
            qn_tool_text value = qn_tool_json_trim(qn_buffer_string(&arguments->held), arguments->held.size);
            qn_buffer_append(&arguments->scratch, value.text, value.bytes);
            tell_scratch(arguments);
        } else if (status == QN_OK) {
            status = stream_value(arguments, err);
        }
    }
    if (arguments->fate == STREAMED && status == QN_OK) {
        tell(arguments, "\"", 1);
    }
    qn_buffer_clear(&arguments->held);
    return status;
}
