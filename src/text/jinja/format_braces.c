/* str.format: "{name.attribute[0]!r:>10}" and the like, as string.Formatter parses it. */
#include <string.h>

#include "text/jinja/access.h"
#include "text/jinja/compare.h"
#include "text/jinja/dict.h"
#include "text/jinja/format.h"
#include "text/jinja/number.h"
#include "text/jinja/repr.h"
#include "text/jinja/character.h"

/* How deep fields may stand in the specification of a field. */
enum { MAX_NESTING = 2 };

typedef enum numbering { NUMBERING_OPEN, NUMBERING_AUTOMATIC, NUMBERING_MANUAL } numbering;

typedef struct formatter {
    qn_render *render;
    const qn_arguments *arguments;
    const qn_dict *mapping; /* of format_map, instead of the arguments */
    numbering numbering;
    int64_t next;
} formatter;

/* One {field}, as byte offsets of the format; conversion is the character behind '!', or 0. */
typedef struct placeholder {
    size_t name, name_end, spec, spec_end;
    char conversion;
} placeholder;

static qn_status format_text(formatter *f, const qn_str *format, unsigned nesting, qn_builder *b);

static bool all_digits(const qn_str *s)
{
    for (size_t i = 0; i < s->bytes; ++i) {
        if (s->data[i] < '0' || s->data[i] > '9')
            return false;
    }
    return s->bytes > 0;
}

/* Reads the field whose name starts at *at, and moves *at behind its closing brace. */
static qn_status read_field(qn_render *r, const qn_str *format, size_t *at, placeholder *out)
{
    size_t i = *at, depth = 1;
    bool bracket = false;
    *out = (placeholder){.name = i};
    /* The name runs to ':' or '!' outside of brackets, or to the end of the field. */
    for (; i < format->bytes; ++i) {
        char c = format->data[i];
        if (c == '{')
            return qn_render_fail(r, "unexpected '{' in field name");
        if (c == '[')
            bracket = true;
        if (c == ']')
            bracket = false;
        if (!bracket && (c == '}' || c == ':' || c == '!'))
            break;
    }
    out->name_end = i;
    if (i < format->bytes && format->data[i] == '!') {
        if (i + 1 >= format->bytes || format->data[i + 1] == '}')
            return qn_render_fail(r, "unmatched '{' in format spec");
        out->conversion = format->data[i + 1];
        i += 2;
        if (i < format->bytes && format->data[i] != ':' && format->data[i] != '}')
            return qn_render_fail(r, "expected ':' after conversion specifier");
    }
    if (i < format->bytes && format->data[i] == ':')
        ++i;
    out->spec = i;
    for (; i < format->bytes; ++i) {
        depth += format->data[i] == '{';
        depth -= format->data[i] == '}';
        if (depth == 0) {
            out->spec_end = i;
            *at = i + 1;
            return QN_OK;
        }
    }
    return qn_render_fail(r, "expected '}' before end of string");
}

static qn_status positional(formatter *f, int64_t index, qn_value *out)
{
    if (f->mapping || index < 0 || index >= (int64_t)f->arguments->count)
        return qn_render_fail(f->render, "replacement index %lld out of range", (long long)index);
    *out = f->arguments->values[index];
    return QN_OK;
}

static qn_status named(formatter *f, const qn_str *name, qn_value *out)
{
    *out = qn_missing();
    if (f->mapping)
        *out = qn_dict_get_str(f->render, f->mapping, name);
    else {
        for (size_t i = 0; i < f->arguments->keyword_count; ++i) {
            if (qn_str_equal(f->arguments->keywords[i].name, name))
                *out = f->arguments->keywords[i].value;
        }
    }
    return qn_is_missing(*out) ? qn_render_fail(f->render, "no value named '%.*s' for the format",
                                                (int)(name->bytes < 100 ? name->bytes : 100), name->data)
                               : QN_OK;
}

/* The value that the first part of a field's name stands for. `whole`: the name has no other parts. */
static qn_status first_value(formatter *f, const qn_str *name, bool whole, qn_value *out)
{
    qn_render *r = f->render;
    qn_value index;
    bool valid;
    if (name->bytes == 0 && whole) {
        if (f->numbering == NUMBERING_MANUAL)
            return qn_render_fail(r, "cannot switch from manual field specification to automatic field numbering");
        f->numbering = NUMBERING_AUTOMATIC;
        return positional(f, f->next++, out);
    }
    if (!all_digits(name))
        return named(f, name, out);
    if (whole) {
        if (f->numbering == NUMBERING_AUTOMATIC)
            return qn_render_fail(r, "cannot switch from automatic field numbering to manual field specification");
        f->numbering = NUMBERING_MANUAL;
    }
    QN_TRY(qn_number_parse_integer(r, name, 10, &index, &valid));
    return positional(f, valid && index.kind == QN_VALUE_INT ? index.integer : -1, out);
}

/* Follows .attribute and [item] from `at` to the end of the field's name. */
static qn_status follow(formatter *f, const qn_str *name, size_t at, qn_value *value)
{
    qn_render *r = f->render;
    while (at < name->bytes) {
        bool attribute = name->data[at] == '.';
        size_t start = ++at;
        if (!attribute && name->data[start - 1] != '[')
            return qn_render_fail(r, "only '.' or '[' may follow ']' in format field specifier");
        while (at < name->bytes && (attribute ? name->data[at] != '.' && name->data[at] != '[' : name->data[at] != ']'))
            ++at;
        if (at == start)
            return qn_render_fail(r, "empty attribute in format string");
        if (!attribute && at >= name->bytes)
            return qn_render_fail(r, "missing ']' in format string");
        const qn_str *part;
        QN_TRY(qn_str_slice(r, name, start, at, &part));
        at += !attribute;
        if (attribute) {
            QN_TRY(qn_get_attribute(r, *value, part, value));
            continue;
        }
        qn_value key = qn_string(part);
        bool valid;
        if (all_digits(part))
            QN_TRY(qn_number_parse_integer(r, part, 10, &key, &valid));
        QN_TRY(qn_get_item(r, *value, key, value));
    }
    return QN_OK;
}

static qn_status field_value(formatter *f, const qn_str *format, const placeholder *field, qn_value *out)
{
    const qn_str *name, *first;
    size_t end = 0;
    QN_TRY(qn_str_slice(f->render, format, field->name, field->name_end, &name));
    while (end < name->bytes && name->data[end] != '.' && name->data[end] != '[')
        ++end;
    QN_TRY(qn_str_slice(f->render, name, 0, end, &first));
    QN_TRY(first_value(f, first, end == name->bytes, out));
    return follow(f, name, end, out);
}

static qn_status convert(qn_render *r, char conversion, qn_value *value)
{
    const qn_str *s;
    qn_builder b = qn_builder_start(r);
    switch (conversion) {
    case 0:
        return QN_OK;
    case 's':
        QN_TRY(qn_value_str(r, *value, &s));
        break;
    case 'r':
        QN_TRY(qn_value_repr(r, *value, &s));
        break;
    case 'a':
        if (!qn_is_string(*value))
            return qn_render_fail(r, "!a of a value that is not a string is not supported");
        qn_builder_quoted(&b, value->string, true);
        QN_TRY(qn_builder_finish(&b, &s));
        break;
    default:
        return qn_render_fail(r, "unknown conversion specifier '!%c'", conversion);
    }
    *value = qn_string(s);
    return QN_OK;
}

static qn_status append_field(formatter *f, const qn_str *format, size_t *at, unsigned nesting, qn_builder *b)
{
    placeholder field;
    qn_value value;
    const qn_str *spec;
    qn_builder spec_text = qn_builder_start(f->render);
    QN_TRY(read_field(f->render, format, at, &field));
    QN_TRY(field_value(f, format, &field, &value));
    QN_TRY(convert(f->render, field.conversion, &value));
    QN_TRY(qn_str_slice(f->render, format, field.spec, field.spec_end, &spec));
    QN_TRY(format_text(f, spec, nesting + 1, &spec_text));
    QN_TRY(qn_builder_finish(&spec_text, &spec));
    return qn_format_value(b, value, spec);
}

static qn_status format_text(formatter *f, const qn_str *format, unsigned nesting, qn_builder *b)
{
    size_t plain = 0, at = 0;
    if (nesting > MAX_NESTING)
        return qn_render_fail(f->render, "max string recursion exceeded");
    QN_TRY(qn_text_work(f->render, format->bytes));
    while (at < format->bytes) {
        char c = format->data[at++];
        if (c != '{' && c != '}')
            continue;
        bool twofold = at < format->bytes && format->data[at] == c;
        qn_builder_part(b, format, plain, twofold ? at : at - 1);
        if (twofold)
            ++at;
        else if (c == '}' || at == format->bytes)
            return qn_render_fail(f->render, "single '%c' encountered in format string", c);
        else
            QN_TRY(append_field(f, format, &at, nesting, b));
        plain = at;
    }
    qn_builder_part(b, format, plain, format->bytes);
    return b->status;
}

static qn_status run(formatter *f, const qn_str *format, qn_value *out)
{
    qn_builder b = qn_builder_start(f->render);
    QN_TRY(format_text(f, format, 0, &b));
    return qn_builder_value(&b, out);
}

qn_status qn_method_format(qn_render *r, qn_value self, const qn_arguments *arguments, qn_value *out)
{
    formatter f = {.render = r, .arguments = arguments};
    return run(&f, self.string, out);
}

qn_status qn_method_format_map(qn_render *r, qn_value self, const qn_arguments *arguments, qn_value *out)
{
    if (arguments->count != 1 || arguments->keyword_count != 0)
        return qn_render_fail(r, "format_map: takes exactly one argument");
    if (arguments->values[0].kind != QN_VALUE_DICT)
        return qn_render_fail(r, "format_map: the argument must be a dictionary, not '%s'",
                              qn_type_name(arguments->values[0]));
    formatter f = {.render = r, .arguments = arguments, .mapping = arguments->values[0].dict};
    return run(&f, self.string, out);
}
