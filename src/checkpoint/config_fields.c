#include "checkpoint/config_fields.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

enum { UNKNOWN_LINES = 8 };

const char *qn_value_text(const json_t *value, char out[QN_VALUE_TEXT_BYTES])
{
    switch (json_typeof(value)) {
    case JSON_STRING: {
        const char *text = json_string_value(value);
        snprintf(out, QN_VALUE_TEXT_BYTES, strlen(text) > 48 ? "\"%.45s...\"" : "\"%.48s\"", text);
        return out;
    }
    case JSON_INTEGER:
        snprintf(out, QN_VALUE_TEXT_BYTES, "%lld", (long long)json_integer_value(value));
        return out;
    case JSON_REAL:
        snprintf(out, QN_VALUE_TEXT_BYTES, "%.17g", json_real_value(value));
        if (strspn(out, "-0123456789") == strlen(out))
            strcat(out, ".0"); /* or it would look like an integer */
        return out;
    case JSON_TRUE:
    case JSON_FALSE:
    case JSON_NULL:
        snprintf(out, QN_VALUE_TEXT_BYTES, "%s",
                 json_is_true(value)    ? "true"
                 : json_is_false(value) ? "false"
                                        : "null");
        return out;
    case JSON_ARRAY:
        snprintf(out, QN_VALUE_TEXT_BYTES, "a list of %zu", json_array_size(value));
        return out;
    case JSON_OBJECT:
        snprintf(out, QN_VALUE_TEXT_BYTES, "an object");
        return out;
    }
    return "";
}

bool qn_value_is(const json_t *value, const char *text)
{
    return json_is_string(value) && json_string_length(value) == strlen(text) &&
           strcmp(json_string_value(value), text) == 0;
}

__attribute__((format(printf, 3, 0))) static void fail_text(qn_fields *f, const char *name, const char *format,
                                                            va_list arguments)
{
    char sentence[QN_ERROR_MESSAGE_BYTES / 2];
    vsnprintf(sentence, sizeof sentence, format, arguments);
    f->status = qn_fail(f->err, QN_BAD_INPUT, "%s: %s%s %s", f->what, f->prefix, name, sentence);
}

void qn_fields_fail(qn_fields *f, const char *name, const char *format, ...)
{
    if (f->status != QN_OK)
        return;
    va_list arguments;
    va_start(arguments, format);
    fail_text(f, name, format, arguments);
    va_end(arguments);
}

void qn_fields_refuse(qn_fields *f, const char *name, const json_t *value, const char *format, ...)
{
    if (f->status != QN_OK)
        return;
    char text[QN_VALUE_TEXT_BYTES], reason[QN_ERROR_MESSAGE_BYTES / 2];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    qn_fields_fail(f, name, "is %s: %s", qn_value_text(value, text), reason);
}

json_t *qn_fields_take(qn_fields *f, const char *name)
{
    if (f->status != QN_OK)
        return NULL;
    json_t *value = json_incref(json_object_get(f->object, name));
    json_object_del(f->object, name);
    if (json_is_null(value)) {
        json_decref(value);
        return NULL;
    }
    return value;
}

void qn_fields_drop(qn_fields *f, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        json_object_del(f->object, names[i]);
}

/* Takes a field that may have to be there. */
static json_t *take(qn_fields *f, const char *name, bool required, const char *expected)
{
    json_t *value = qn_fields_take(f, name);
    if (!value && required)
        qn_fields_fail(f, name, "is absent: it must be %s, use the config.json that came with the checkpoint",
                       expected);
    return value;
}

bool qn_fields_size(qn_fields *f, const char *name, bool required, size_t least, size_t most, size_t *out)
{
    json_t *value = take(f, name, required, "an integer");
    if (!value)
        return false;
    if (!json_is_integer(value) || json_integer_value(value) < 0 || (size_t)json_integer_value(value) < least ||
        (size_t)json_integer_value(value) > most)
        qn_fields_refuse(f, name, value, "quern takes an integer from %zu to %zu, correct the file", least, most);
    else
        *out = (size_t)json_integer_value(value);
    json_decref(value);
    return f->status == QN_OK;
}

bool qn_fields_number(qn_fields *f, const char *name, bool required, double least, double most, double *out)
{
    json_t *value = take(f, name, required, "a number");
    if (!value)
        return false;
    double number = json_number_value(value);
    if (!json_is_number(value) || !(number >= least && number <= most))
        qn_fields_refuse(f, name, value, "quern takes a number from %g to %g, correct the file", least, most);
    else
        *out = number;
    json_decref(value);
    return f->status == QN_OK;
}

bool qn_fields_bool(qn_fields *f, const char *name, bool required, bool *out)
{
    json_t *value = take(f, name, required, "true or false");
    if (!value)
        return false;
    if (!json_is_boolean(value))
        qn_fields_refuse(f, name, value, "it must be true or false, correct the file");
    else
        *out = json_is_true(value);
    json_decref(value);
    return f->status == QN_OK;
}

bool qn_fields_expect_string(qn_fields *f, const char *name, const char *only, const char *reason)
{
    json_t *value = qn_fields_take(f, name);
    if (!value)
        return false;
    if (!qn_value_is(value, only))
        qn_fields_refuse(f, name, value, "quern supports \"%s\" only%s", only, reason);
    json_decref(value);
    return true;
}

bool qn_fields_expect_bool(qn_fields *f, const char *name, bool only, const char *reason)
{
    json_t *value = qn_fields_take(f, name);
    if (!value)
        return false;
    if (!json_is_boolean(value) || json_is_true(value) != only)
        qn_fields_refuse(f, name, value, "quern supports %s only%s", only ? "true" : "false", reason);
    json_decref(value);
    return true;
}

bool qn_fields_expect_size(qn_fields *f, const char *name, size_t only, const char *reason)
{
    json_t *value = qn_fields_take(f, name);
    if (!value)
        return false;
    if (!json_is_integer(value) || json_integer_value(value) < 0 || (size_t)json_integer_value(value) != only)
        qn_fields_refuse(f, name, value, "quern supports %zu only%s", only, reason);
    json_decref(value);
    return true;
}

void qn_fields_log_rest(const qn_fields *f)
{
    if (f->quiet)
        return;
    size_t told = 0, count = json_object_size(f->object);
    const char *name;
    json_t *value;
    json_object_foreach(f->object, name, value)
    {
        if (told == UNKNOWN_LINES) {
            qn_log("%s: quern does not know %zu more fields, they have no effect", f->what, count - told);
            return;
        }
        qn_log("%s: quern knows no field %s%s, it has no effect", f->what, f->prefix, name);
        told++;
    }
}
