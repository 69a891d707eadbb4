#include "server/request_fields.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"

static const qn_field *find_field(const qn_field *fields, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(fields[i].name, name) == 0) {
            return &fields[i];
        }
    }
    return NULL;
}

static const qn_field *find_in_table(const qn_field_table *table, const char *name)
{
    const qn_field *field = find_field(table->fields, table->count, name);
    for (size_t i = 0; field == NULL && table->also != NULL && table->also[i] != NULL; i++) {
        field = find_field(table->also[i]->fields, table->also[i]->count, name);
    }
    return field;
}

static void add_unknown(qn_unknown_fields *unknown, const char *name)
{
    if (unknown->count < QN_UNKNOWN_FIELDS_MAX) {
        unknown->within[unknown->count] = NULL;
        unknown->names[unknown->count++] = name;
    }
    unknown->total++;
}

/* Numbers are compared by value, so that 1 and 1.0 are both neutral. */
static bool is_neutral(const json_t *value, const char *neutral)
{
    if (neutral == NULL) {
        return false;
    }
    switch (json_typeof(value)) {
    case JSON_TRUE:
        return strcmp(neutral, "true") == 0;
    case JSON_FALSE:
        return strcmp(neutral, "false") == 0;
    case JSON_INTEGER:
    case JSON_REAL: {
        char *end = NULL;
        double number = strtod(neutral, &end);
        return end != neutral && number == json_number_value(value);
    }
    case JSON_STRING: {
        size_t bytes = json_string_length(value);
        return strlen(neutral) == bytes + 2 && neutral[0] == '"' &&
               memcmp(neutral + 1, json_string_value(value), bytes) == 0;
    }
    case JSON_ARRAY:
        return json_array_size(value) == 0 && strcmp(neutral, "[]") == 0;
    case JSON_OBJECT:
        return json_object_size(value) == 0 && strcmp(neutral, "{}") == 0;
    case JSON_NULL:
        break;
    }
    return false;
}

static qn_status check_field(const qn_field *field, const json_t *value, qn_error *err)
{
    if (field->rule != QN_FIELD_NEUTRAL || json_is_null(value) || is_neutral(value, field->neutral)) {
        return QN_OK;
    }
    if (field->neutral == NULL) {
        return qn_fail_field(err, QN_USAGE, field->name, "%s: not supported in this version: leave it out",
                             field->name);
    }
    return qn_fail_field(err, QN_USAGE, field->name, "%s: only %s is supported in this version: leave it out",
                         field->name, field->neutral);
}

qn_status qn_field_table_check(const json_t *object, const qn_field_table *table, qn_unknown_fields *unknown,
                               qn_error *err)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        const qn_field *field = find_in_table(table, name);
        if (field == NULL) {
            add_unknown(unknown, name);
            continue;
        }
        qn_status status = check_field(field, value, err);
        if (status != QN_OK) {
            return status;
        }
    }
    return QN_OK;
}

qn_status qn_fields_check(const json_t *object, const qn_field *fields, size_t count, qn_unknown_fields *unknown,
                          qn_error *err)
{
    return qn_field_table_check(object, &(qn_field_table){.fields = fields, .count = count}, unknown, err);
}

qn_status qn_members_check(const json_t *object, const char *within, const qn_field *fields, size_t count,
                           qn_unknown_fields *unknown, qn_error *err)
{
    size_t before = unknown->count;
    qn_status status = qn_fields_check(object, fields, count, unknown, err);
    for (size_t i = before; i < unknown->count; i++) {
        unknown->within[i] = within;
    }
    return status;
}

const json_t *qn_field_get(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    return json_is_null(value) ? NULL : value;
}

static qn_status wrong_type(const json_t *value, const char *name, const char *wanted, qn_error *err)
{
    return qn_fail_field(err, QN_USAGE, name, "%s: %s given: send %s", name, qn_json_type_name(value), wanted);
}

qn_status qn_field_boolean(const json_t *object, const char *name, bool *out, qn_error *err)
{
    const json_t *value = qn_field_get(object, name);
    if (value == NULL) {
        return QN_OK;
    }
    if (!json_is_boolean(value)) {
        return wrong_type(value, name, "true or false", err);
    }
    *out = json_is_true(value);
    return QN_OK;
}

qn_status qn_field_integer(const json_t *object, const char *name, int64_t min, int64_t max, int64_t *out,
                           qn_error *err)
{
    const json_t *value = qn_field_get(object, name);
    if (value == NULL) {
        return QN_OK;
    }
    if (!json_is_integer(value)) {
        return wrong_type(value, name, "an integer", err);
    }
    int64_t number = json_integer_value(value);
    if (number < min) {
        return qn_fail_field(err, QN_USAGE, name, "%s: %lld is too small: send at least %lld", name, (long long)number,
                             (long long)min);
    }
    if (number > max) {
        return qn_fail_field(err, QN_USAGE, name, "%s: %lld is too large: send at most %lld", name, (long long)number,
                             (long long)max);
    }
    *out = number;
    return QN_OK;
}

qn_status qn_field_float(const json_t *object, const char *name, double min, double max, float *out, qn_error *err)
{
    const json_t *value = qn_field_get(object, name);
    if (value == NULL) {
        return QN_OK;
    }
    if (!json_is_number(value)) {
        return wrong_type(value, name, "a number", err);
    }
    double number = json_number_value(value);
    if (!(number >= min && number <= max)) {
        return qn_fail_field(err, QN_USAGE, name, "%s: %g is out of range: send %g to %g", name, number, min, max);
    }
    *out = (float)number;
    return QN_OK;
}

qn_status qn_field_string(const json_t *object, const char *name, const char **out, qn_error *err)
{
    const json_t *value = qn_field_get(object, name);
    if (value == NULL) {
        return QN_OK;
    }
    if (!json_is_string(value)) {
        return wrong_type(value, name, "a string", err);
    }
    if (strlen(json_string_value(value)) != json_string_length(value)) {
        return qn_fail_field(err, QN_USAGE, name, "%s: contains a NUL: leave it out", name);
    }
    *out = json_string_value(value);
    return QN_OK;
}
