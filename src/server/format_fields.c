#include "server/format_fields.h"

#include <string.h>

#include "base/json.h"
#include "base/json_wide.h"

/* A field that gives a form by itself; or a member of structured_outputs, and how errors call it. */
typedef struct form_field {
    const char *name;
    qn_format_kind kind;
    const char *place;
} form_field;

static const form_field fields[] = {
    {.name = "guided_json", .kind = QN_FORMAT_JSON_SCHEMA},
    {.name = "guided_regex", .kind = QN_FORMAT_REGEX},
    {.name = "guided_choice", .kind = QN_FORMAT_CHOICE},
    {.name = "guided_grammar", .kind = QN_FORMAT_GBNF},
    {.name = "json_schema", .kind = QN_FORMAT_JSON_SCHEMA},
    {.name = "grammar", .kind = QN_FORMAT_GBNF},
    {.name = "regex", .kind = QN_FORMAT_REGEX},
    {.name = "ebnf", .kind = QN_FORMAT_GBNF},
};

static const form_field members[] = {
    {"json", QN_FORMAT_JSON_SCHEMA, "structured_outputs.json"},
    {"regex", QN_FORMAT_REGEX, "structured_outputs.regex"},
    {"choice", QN_FORMAT_CHOICE, "structured_outputs.choice"},
    {"grammar", QN_FORMAT_GBNF, "structured_outputs.grammar"},
    {"json_object", QN_FORMAT_JSON_OBJECT, "structured_outputs.json_object"},
};

static const qn_field names[] = {
    {.name = "response_format"}, {.name = "structured_outputs"},
    {.name = "guided_json"},     {.name = "guided_regex"},
    {.name = "guided_choice"},   {.name = "guided_grammar"},
    {.name = "json_schema"},     {.name = "grammar"},
    {.name = "regex"},           {.name = "ebnf"},
};

const qn_field_table qn_format_field_table = {.fields = names, .count = sizeof names / sizeof names[0]};

/* A schema may come as JSON's text. */
static qn_status read_schema(const json_t *value, const char *field, qn_format_fields *out, qn_error *err)
{
    if (json_is_string(value)) {
        qn_status status = qn_json_parse(json_string_value(value), json_string_length(value), field, &out->parsed, err);
        if (status != QN_OK) {
            err->status = status == QN_BAD_INPUT ? QN_USAGE : status;
            return err->status;
        }
        value = out->parsed;
    }
    if (!qn_json_is_object(value) && !json_is_boolean(value)) {
        return qn_fail(err, QN_USAGE, "%s: %s given: send a JSON Schema", field, qn_json_type_name(value));
    }
    out->format.value = value;
    return QN_OK;
}

static qn_status read_choices(const json_t *value, const char *field, qn_format_fields *out, qn_error *err)
{
    bool strings = json_array_size(value) > 0;
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *item = json_array_get(value, i);
        strings = strings && json_is_string(item) && strlen(json_string_value(item)) == json_string_length(item);
    }
    if (!strings) {
        return qn_fail(err, QN_USAGE, "%s: send a list of strings, at least one", field);
    }
    out->format.value = value;
    return QN_OK;
}

static qn_status read_text(const json_t *value, const char *field, qn_format_fields *out, qn_error *err)
{
    if (!json_is_string(value) || json_string_length(value) == 0) {
        return qn_fail(err, QN_USAGE, "%s: send a string that is not empty", field);
    }
    out->format.value = value;
    /* what vLLM calls a grammar is EBNF or Lark, and only EBNF has this sign */
    if (out->format.kind == QN_FORMAT_GBNF && strstr(json_string_value(value), "::=") == NULL) {
        out->format.kind = QN_FORMAT_LARK;
    }
    return QN_OK;
}

static qn_status read_form(const json_t *value, qn_format_kind kind, const char *field, qn_format_fields *out,
                           qn_error *err)
{
    if (out->format.kind != QN_FORMAT_TEXT) {
        return qn_fail(err, QN_USAGE, "%s: %s asks for a form already: send one of them", field, out->format.field);
    }
    out->format.kind = kind;
    out->format.field = field;
    switch (kind) {
    case QN_FORMAT_JSON_SCHEMA:
        return read_schema(value, field, out, err);
    case QN_FORMAT_CHOICE:
        return read_choices(value, field, out, err);
    case QN_FORMAT_JSON_OBJECT:
        if (!json_is_boolean(value)) {
            return qn_fail(err, QN_USAGE, "%s: %s given: send true or false", field, qn_json_type_name(value));
        }
        out->format.kind = json_is_true(value) ? QN_FORMAT_JSON_OBJECT : QN_FORMAT_TEXT;
        return QN_OK;
    case QN_FORMAT_REGEX:
    case QN_FORMAT_GBNF:
    case QN_FORMAT_LARK:
    case QN_FORMAT_TEXT:
        break;
    }
    return read_text(value, field, out, err);
}

static qn_status read_structured_outputs(const json_t *object, qn_format_fields *out, qn_error *err)
{
    static const char field[] = "structured_outputs";
    bool flag = false, own = false;
    if (object == NULL) {
        return QN_OK;
    }
    if (!qn_json_is_object(object)) {
        return qn_fail(err, QN_USAGE, "%s: %s given: send an object", field, qn_json_type_name(object));
    }
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        const json_t *value = qn_field_get(object, members[i].name);
        qn_status status = value != NULL ? read_form(value, members[i].kind, members[i].place, out, err) : QN_OK;
        if (status != QN_OK) {
            return status;
        }
        own = own || value != NULL;
    }
    if (own) {
        out->format.field = field; /* what a client's parameter is called */
    }
    qn_error inner;
    if (qn_field_boolean(object, "disable_any_whitespace", &flag, &inner) != QN_OK) {
        return qn_fail(err, QN_USAGE, "%s.%s", field, inner.message);
    }
    out->format.compact = flag;
    qn_status status = QN_OK;
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        bool known = json_is_null(value) || strcmp(name, "disable_any_whitespace") == 0 ||
                     (json_is_false(value) &&
                      (strcmp(name, "disable_fallback") == 0 || strcmp(name, "disable_additional_properties") == 0));
        for (size_t i = 0; i < sizeof members / sizeof *members && !known; i++) {
            known = strcmp(name, members[i].name) == 0;
        }
        if (status == QN_OK && !known) {
            status = qn_fail(err, QN_USAGE, "%s.%.64s: not supported: leave it out", field, name);
        }
    }
    return status;
}

static qn_status named(qn_status status, const char *field, qn_error *err)
{
    if (status == QN_USAGE) {
        qn_error told = *err;
        return qn_fail_field(err, QN_USAGE, field, "%s", told.message);
    }
    return status;
}

static qn_status read_type(const json_t *format, const char *field, bool nested, qn_format_fields *out, qn_error *err)
{
    const char *type = json_string_value(json_object_get(format, "type"));
    if (type != NULL && strcmp(type, "text") == 0) {
        return QN_OK;
    }
    if (type != NULL && strcmp(type, "json_object") == 0) {
        const json_t *asked = qn_field_get(format, "schema"); /* llama.cpp has it here as well */
        return asked != NULL ? read_form(asked, QN_FORMAT_JSON_SCHEMA, field, out, err)
                             : read_form(json_true(), QN_FORMAT_JSON_OBJECT, field, out, err);
    }
    if (type == NULL || strcmp(type, "json_schema") != 0) {
        return qn_fail(err, QN_USAGE, "%s: unknown type: send text, json_object or json_schema", field);
    }
    const json_t *holder = nested ? json_object_get(format, "json_schema") : format;
    const json_t *name = qn_field_get(holder, "name"), *strict = qn_field_get(holder, "strict");
    if ((name != NULL && !json_is_string(name)) || (strict != NULL && !json_is_boolean(strict))) {
        return qn_fail(err, QN_USAGE, "%s: send a string as name, and true or false as strict", field);
    }
    const json_t *schema = json_object_get(holder, "schema");
    if (!qn_json_is_object(schema) && !json_is_boolean(schema)) {
        return qn_fail(err, QN_USAGE, "%s: no schema: send {\"type\": \"json_schema\", %s", field,
                       nested ? "\"json_schema\": {\"name\": ..., \"schema\": {...}}}" : "\"schema\": {...}}");
    }
    return read_form(schema, QN_FORMAT_JSON_SCHEMA, field, out, err);
}

qn_status qn_format_read(const json_t *format, const char *field, bool nested, qn_format_fields *out, qn_error *err)
{
    return format == NULL ? QN_OK : named(read_type(format, field, nested, out, err), field, err);
}

qn_status qn_format_fields_read(const json_t *document, qn_format_fields *out, qn_error *err)
{
    qn_status status = qn_format_read(qn_field_get(document, "response_format"), "response_format", true, out, err);
    if (status == QN_OK) {
        status = named(read_structured_outputs(qn_field_get(document, "structured_outputs"), out, err),
                       "structured_outputs", err);
    }
    for (size_t i = 0; i < sizeof fields / sizeof *fields && status == QN_OK; i++) {
        const json_t *value = qn_field_get(document, fields[i].name);
        if (value != NULL) {
            status = named(read_form(value, fields[i].kind, fields[i].name, out, err), fields[i].name, err);
        }
    }
    return status;
}

void qn_format_fields_free(qn_format_fields *form)
{
    json_decref(form->parsed);
    *form = (qn_format_fields){0};
}
