/* What templates can call by name without being given it. */
#include "text/jinja/functions.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "text/jinja/arguments.h"
#include "text/jinja/compare.h"
#include "text/jinja/dict.h"
#include "text/jinja/iterate.h"
#include "text/jinja/repr.h"
#include "text/jinja/str.h"
#include "text/jinja/undefined.h"

static qn_status function_range(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)self;
    int64_t start = 0, stop, step;
    qn_range *range = qn_render_alloc(r, 1, sizeof *range);
    if (!range)
        return qn_render_status(r);
    bool one = qn_is_missing(given[1]);
    if (!one)
        QN_TRY(qn_argument_integer(r, "range", given[0], 0, &start));
    QN_TRY(qn_argument_integer(r, "range", one ? given[0] : given[1], 0, &stop));
    QN_TRY(qn_argument_integer(r, "range", given[2], 1, &step));
    if (step == 0)
        return qn_render_fail(r, "range() arg 3 must not be zero");
    bool empty = step > 0 ? start >= stop : start <= stop;
    uint64_t distance = step > 0 ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
    uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    uint64_t count = empty ? 0 : (distance - 1) / stride + 1;
    if (count > QN_TEMPLATE_MAX_RANGE)
        return qn_render_fail(r, "range too big: ranges larger than %d are not allowed", QN_TEMPLATE_MAX_RANGE);
    *range = (qn_range){start, stop, step, (int64_t)count};
    *out = (qn_value){.kind = QN_VALUE_RANGE, .range = range};
    return QN_OK;
}

static qn_status add_pairs(qn_render *r, qn_dict *dict, qn_value pairs)
{
    qn_cursor cursor;
    QN_TRY(qn_cursor_start(r, pairs, &cursor));
    for (;;) {
        qn_value pair;
        const qn_list *parts;
        QN_TRY(qn_cursor_next(r, &cursor, &pair));
        if (qn_is_missing(pair))
            return QN_OK;
        QN_TRY(qn_collect(r, pair, &parts));
        if (parts->count != 2)
            return qn_render_fail(r, "dictionary update sequence element has length %zu; 2 is required", parts->count);
        QN_TRY(qn_dict_set(r, dict, parts->items[0], parts->items[1]));
    }
}

/* dict(mapping or pairs, **keywords) */
static qn_status make_dict(qn_render *r, const qn_arguments *arguments, qn_dict **out)
{
    if (arguments->count > 1)
        return qn_render_fail(r, "dict expected at most 1 argument, got %zu", arguments->count);
    if (arguments->count == 1 && arguments->values[0].kind == QN_VALUE_UNDEFINED)
        return qn_undefined_fail(r, arguments->values[0].undefined);
    if (arguments->count == 1 && arguments->values[0].kind == QN_VALUE_DICT) {
        QN_TRY(qn_dict_copy(r, arguments->values[0].dict, out));
    } else {
        QN_TRY(qn_dict_new(r, arguments->keyword_count, out));
        if (arguments->count == 1)
            QN_TRY(add_pairs(r, *out, arguments->values[0]));
    }
    for (size_t i = 0; i < arguments->keyword_count; ++i)
        QN_TRY(qn_dict_set(r, *out, qn_string(arguments->keywords[i].name), arguments->keywords[i].value));
    return QN_OK;
}

static qn_status function_dict(qn_render *r, qn_value self, const qn_arguments *arguments, qn_value *out)
{
    (void)self;
    qn_dict *dict;
    QN_TRY(make_dict(r, arguments, &dict));
    *out = qn_dictionary(dict);
    return QN_OK;
}

static qn_status function_namespace(qn_render *r, qn_value self, const qn_arguments *arguments, qn_value *out)
{
    (void)self;
    qn_dict *dict;
    QN_TRY(make_dict(r, arguments, &dict));
    *out = (qn_value){.kind = QN_VALUE_NAMESPACE, .names = dict};
    return QN_OK;
}

static qn_status function_cycler(qn_render *r, qn_value self, const qn_arguments *arguments, qn_value *out)
{
    (void)self;
    if (arguments->keyword_count > 0)
        return qn_render_fail(r, "cycler: takes no keyword arguments");
    if (arguments->count == 0)
        return qn_render_fail(r, "cycler: at least one item has to be provided");
    qn_cycler *cycler = qn_render_alloc(r, 1, sizeof *cycler);
    if (!cycler)
        return qn_render_status(r);
    qn_value items;
    QN_TRY(qn_list_value(r, QN_VALUE_TUPLE, arguments->values, arguments->count, &items));
    cycler->items = items.list;
    *out = (qn_value){.kind = QN_VALUE_CYCLER, .cycler = cycler};
    return QN_OK;
}

static qn_status function_joiner(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)self;
    qn_joiner *joiner = qn_render_alloc(r, 1, sizeof *joiner);
    if (!joiner)
        return qn_render_status(r);
    joiner->separator = given[0];
    if (qn_is_missing(given[0]))
        QN_TRY(qn_str_literal(r, ", ", &joiner->separator));
    *out = (qn_value){.kind = QN_VALUE_JOINER, .joiner = joiner};
    return QN_OK;
}

static qn_status function_lipsum(qn_render *r, qn_value self, const qn_arguments *arguments, qn_value *out)
{
    (void)self, (void)arguments, (void)out;
    return qn_render_fail(r, "lipsum() is not supported");
}

static qn_status function_raise_exception(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)self, (void)out;
    const qn_str *message;
    QN_TRY(qn_value_str(r, given[0], &message));
    return qn_render_fail(r, "%.*s", (int)(message->bytes < 900 ? message->bytes : 900), message->data);
}

/* datetime.now().strftime: libc's, but for what Python adds or leaves empty without a time zone. */
static qn_status function_strftime_now(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)self;
    const qn_str *format;
    struct timespec now;
    struct tm local;
    char text[256];
    QN_TRY(qn_argument_string(r, "strftime_now", given[0], &format));
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    qn_builder b = qn_builder_start(r);
    for (size_t at = 0; at < format->bytes; ++at) {
        char letter = at + 1 < format->bytes ? format->data[at + 1] : '\0';
        if (format->data[at] != '%' || letter == '\0') {
            qn_builder_part(&b, format, at, at + 1);
            continue;
        }
        ++at;
        if (letter == 'f') {
            snprintf(text, sizeof text, "%06ld", now.tv_nsec / 1000);
            qn_builder_literal(&b, text);
        } else if (strchr("aAbBcCdDeFgGhHIjklmMnpPrRsStTuUVwWxXyY%", letter)) {
            char conversion[3] = {'%', letter, '\0'};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* one of the letters above */
            size_t bytes = strftime(text, sizeof text, conversion, &local);
#pragma GCC diagnostic pop
            qn_builder_text(&b, text, bytes, QN_ORIGIN_TEMPLATE);
        } else if (letter != 'z' && letter != 'Z') {
            return qn_render_fail(r, "strftime_now: the conversion %%%c is not supported", letter);
        }
    }
    return qn_builder_value(&b, out);
}

static const qn_function functions[] = {
    {.name = "range",
     .native = function_range,
     .parameters = {"start", "stop", "step"},
     .required = 1,
     .positional = true},
    {.name = "dict", .raw = function_dict, .class_name = "<class 'dict'>"},
    {.name = "namespace", .raw = function_namespace, .class_name = "<class 'jinja2.utils.Namespace'>"},
    {.name = "cycler", .raw = function_cycler, .class_name = "<class 'jinja2.utils.Cycler'>"},
    {.name = "joiner", .native = function_joiner, .parameters = {"sep"}, .class_name = "<class 'jinja2.utils.Joiner'>"},
    {.name = "lipsum", .raw = function_lipsum},
    {.name = "raise_exception", .native = function_raise_exception, .parameters = {"message"}, .required = 1},
    {.name = "strftime_now", .native = function_strftime_now, .parameters = {"format"}, .required = 1},
};

qn_status qn_functions_install(qn_render *r, qn_dict *variables)
{
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; ++i) {
        qn_value name, function = {.kind = QN_VALUE_FUNCTION, .function = &functions[i]};
        QN_TRY(qn_str_literal(r, functions[i].name, &name));
        QN_TRY(qn_dict_set(r, variables, name, function));
    }
    return QN_OK;
}
