/* The table of filters, and those that fit no other file. */
#include "text/jinja/filters.h"

#include "text/jinja/access.h"
#include "text/jinja/compare.h"
#include "text/jinja/filter_functions.h"
#include "text/jinja/loop.h"
#include "text/jinja/number.h"
#include "text/jinja/operators.h"
#include "text/jinja/str.h"
#include "text/jinja/tojson.h"
#include "text/jinja/undefined.h"

static qn_status filter_abs(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    if (!qn_is_number(self))
        return qn_render_fail(r, "bad operand type for abs(): '%s'", qn_type_name(self));
    return qn_number_absolute(r, self, out);
}

static qn_status filter_attr(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    const qn_str *name;
    bool unsafe;
    QN_TRY(qn_argument_string(r, "attr: the name", given[0], &name));
    QN_TRY(qn_find_attribute(r, self, name, out, &unsafe));
    if (unsafe)
        return qn_undefined_unsafe(r, self, name, out);
    return qn_is_missing(*out) ? qn_undefined_item(r, self, given[0], out) : QN_OK;
}

static qn_status filter_default(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    *out = self;
    if (self.kind != QN_VALUE_UNDEFINED && (!qn_value_truth(given[1]) || qn_value_truth(self)))
        return QN_OK;
    *out = given[0];
    return qn_is_missing(given[0]) ? qn_str_literal(r, "", out) : QN_OK;
}

static qn_status filter_length(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    size_t length;
    if (self.kind == QN_VALUE_LOOP)
        QN_TRY(qn_loop_length(r, self.loop, &length));
    else if (!qn_value_length(self, &length))
        return qn_render_fail(r, "object of type '%s' has no len()", qn_type_name(self));
    *out = qn_int((int64_t)length);
    return QN_OK;
}

/* float(value); *valid false where Python raises TypeError or ValueError. */
static qn_status to_real(qn_render *r, qn_value value, double *out, bool *valid)
{
    *valid = false;
    if (value.kind == QN_VALUE_UNDEFINED)
        return qn_undefined_fail(r, value.undefined);
    if (qn_is_string(value))
        return qn_number_parse_real(r, value.string, out, valid);
    if (!qn_is_number(value))
        return QN_OK;
    *valid = true;
    return qn_number_real(r, value, out);
}

static qn_status filter_float(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    bool valid;
    double real;
    QN_TRY(to_real(r, self, &real, &valid));
    *out = valid ? qn_float(real) : qn_is_missing(given[0]) ? qn_float(0) : given[0];
    return QN_OK;
}

static qn_status filter_int(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    int64_t base;
    bool valid = false;
    double real;
    QN_TRY(qn_argument_integer(r, "int: the base", given[1], 10, &base));
    if (qn_is_string(self) && (base == 0 || (base >= 2 && base <= 36))) {
        QN_TRY(qn_number_parse_integer(r, self.string, (unsigned)base, out, &valid));
    } else if (qn_is_integer(self)) {
        *out = self.kind == QN_VALUE_BOOL ? qn_int(self.boolean) : self;
        valid = true;
    } else if (self.kind == QN_VALUE_FLOAT && self.real == self.real) {
        return qn_number_truncate(r, self.real, out);
    }
    if (valid)
        return QN_OK;
    QN_TRY(to_real(r, self, &real, &valid));
    if (valid && real - real == 0) /* finite */
        return qn_number_truncate(r, real, out);
    *out = qn_is_missing(given[0]) ? qn_int(0) : given[0];
    return QN_OK;
}

/* math.floor or math.ceil of value * 10^precision, divided by 10^precision again. */
static qn_status round_towards(qn_render *r, qn_value value, qn_value precision, bool up, qn_value *out)
{
    qn_value unit, scaled, whole;
    QN_TRY(qn_number_operate(r, QN_OPERATOR_POWER, qn_int(10), precision, &unit));
    QN_TRY(qn_number_operate(r, QN_OPERATOR_MULTIPLY, value, unit, &scaled));
    whole = scaled;
    if (scaled.kind == QN_VALUE_FLOAT) {
        QN_TRY(qn_number_truncate(r, scaled.real, &whole));
        qn_number_order order = qn_number_compare(whole, scaled);
        if (up && order == QN_NUMBER_LESS)
            QN_TRY(qn_number_operate(r, QN_OPERATOR_ADD, whole, qn_int(1), &whole));
        if (!up && order == QN_NUMBER_GREATER)
            QN_TRY(qn_number_operate(r, QN_OPERATOR_SUBTRACT, whole, qn_int(1), &whole));
    }
    return qn_number_operate(r, QN_OPERATOR_DIVIDE, whole, unit, out);
}

static qn_status filter_round(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    int64_t precision = 0;
    bool up = false, down = false;
    if (!qn_is_missing(given[1])) {
        up = qn_is_string(given[1]) && qn_str_is(given[1].string, "ceil");
        down = qn_is_string(given[1]) && qn_str_is(given[1].string, "floor");
        if (!up && !down && !(qn_is_string(given[1]) && qn_str_is(given[1].string, "common")))
            return qn_render_fail(r, "round: method must be common, ceil or floor");
    }
    if (!qn_is_number(self))
        return qn_render_fail(r, "round: '%s' is not a number", qn_type_name(self));
    if (up || down) {
        qn_value power = qn_is_missing(given[0]) ? qn_int(0) : given[0];
        if (!qn_is_number(power))
            return qn_render_fail(r, "round: precision must be a number, not '%s'", qn_type_name(power));
        return round_towards(r, self, power, up, out);
    }
    bool to_integer = given[0].kind == QN_VALUE_NONE;
    if (!to_integer)
        QN_TRY(qn_argument_integer(r, "round: precision", given[0], 0, &precision));
    QN_TRY(qn_number_round(r, self, precision, out));
    return to_integer && out->kind == QN_VALUE_FLOAT ? qn_number_truncate(r, out->real, out) : QN_OK;
}

static const qn_filter filters[] = {
    {.function = {.name = "abs", .native = filter_abs}},
    {.function = {.name = "attr", .native = filter_attr, .parameters = {"name"}, .required = 1}},
    {.function = {.name = "batch", .native = qn_filter_batch, .parameters = {"linecount", "fill_with"}, .required = 1}},
    {.function = {.name = "capitalize", .native = qn_filter_capitalize}},
    {.function = {.name = "center", .native = qn_filter_center, .parameters = {"width"}}},
    {.function = {.name = "count", .native = filter_length}, .takes_markup = true},
    {.function = {.name = "d", .native = filter_default, .parameters = {"default_value", "boolean"}},
     .takes_markup = true},
    {.function = {.name = "default", .native = filter_default, .parameters = {"default_value", "boolean"}},
     .takes_markup = true},
    {.function = {.name = "dictsort", .native = qn_filter_dictsort, .parameters = {"case_sensitive", "by", "reverse"}}},
    {.function = {.name = "e", .native = qn_filter_escape}, .takes_markup = true},
    {.function = {.name = "escape", .native = qn_filter_escape}, .takes_markup = true},
    {.function = {.name = "filesizeformat", .native = qn_filter_filesizeformat, .parameters = {"binary"}}},
    {.function = {.name = "first", .native = qn_filter_first}, .takes_markup = true},
    {.function = {.name = "float", .native = filter_float, .parameters = {"default"}}, .takes_markup = true},
    {.function = {.name = "forceescape", .native = qn_filter_forceescape}, .takes_markup = true},
    {.function = {.name = "format", .raw = qn_filter_format}},
    {.function = {.name = "groupby",
                  .native = qn_filter_groupby,
                  .parameters = {"attribute", "default", "case_sensitive"},
                  .required = 1}},
    {.function = {.name = "indent", .native = qn_filter_indent, .parameters = {"width", "first", "blank"}}},
    {.function = {.name = "int", .native = filter_int, .parameters = {"default", "base"}}, .takes_markup = true},
    {.function = {.name = "items", .native = qn_filter_items}},
    {.function = {.name = "join", .native = qn_filter_join, .parameters = {"d", "attribute"}}, .takes_markup = true},
    {.function = {.name = "last", .native = qn_filter_last}, .takes_markup = true},
    {.function = {.name = "length", .native = filter_length}, .takes_markup = true},
    {.function = {.name = "list", .native = qn_filter_list}, .takes_markup = true},
    {.function = {.name = "lower", .native = qn_filter_lower}},
    {.function = {.name = "map", .raw = qn_filter_map}, .takes_markup = true},
    {.function = {.name = "max", .native = qn_filter_max, .parameters = {"case_sensitive", "attribute"}},
     .takes_markup = true},
    {.function = {.name = "min", .native = qn_filter_min, .parameters = {"case_sensitive", "attribute"}},
     .takes_markup = true},
    {.function = {.name = "pprint"}, .unsupported = true},
    {.function = {.name = "random"}, .unsupported = true},
    {.function = {.name = "reject", .raw = qn_filter_reject}, .takes_markup = true},
    {.function = {.name = "rejectattr", .raw = qn_filter_rejectattr}, .takes_markup = true},
    {.function = {.name = "replace", .native = qn_filter_replace, .parameters = {"old", "new", "count"}, .required = 2},
     .takes_markup = true},
    {.function = {.name = "reverse", .native = qn_filter_reverse}},
    {.function = {.name = "round", .native = filter_round, .parameters = {"precision", "method"}}},
    {.function = {.name = "safe", .native = qn_filter_safe}, .takes_markup = true},
    {.function = {.name = "select", .raw = qn_filter_select}, .takes_markup = true},
    {.function = {.name = "selectattr", .raw = qn_filter_selectattr}, .takes_markup = true},
    {.function = {.name = "slice", .native = qn_filter_slice, .parameters = {"slices", "fill_with"}, .required = 1}},
    {.function = {.name = "sort", .native = qn_filter_sort, .parameters = {"reverse", "case_sensitive", "attribute"}},
     .takes_markup = true},
    {.function = {.name = "string", .native = qn_filter_string}, .takes_markup = true},
    {.function = {.name = "striptags"}, .unsupported = true},
    {.function = {.name = "sum", .native = qn_filter_sum, .parameters = {"attribute", "start"}}},
    {.function = {.name = "title", .native = qn_filter_title}, .takes_markup = true},
    {.function = {.name = "tojson",
                  .native = qn_filter_tojson,
                  .parameters = {"ensure_ascii", "indent", "separators", "sort_keys"}},
     .takes_markup = true},
    {.function = {.name = "trim", .native = qn_filter_trim, .parameters = {"chars"}}},
    {.function = {.name = "truncate",
                  .native = qn_filter_truncate,
                  .parameters = {"length", "killwords", "end", "leeway"}}},
    {.function = {.name = "unique", .native = qn_filter_unique, .parameters = {"case_sensitive", "attribute"}},
     .takes_markup = true},
    {.function = {.name = "upper", .native = qn_filter_upper}},
    {.function = {.name = "urlencode", .native = qn_filter_urlencode}, .takes_markup = true},
    {.function = {.name = "urlize"}, .unsupported = true},
    {.function = {.name = "wordcount", .native = qn_filter_wordcount}, .takes_markup = true},
    {.function = {.name = "wordwrap"}, .unsupported = true},
    {.function = {.name = "xmlattr", .native = qn_filter_xmlattr, .parameters = {"autospace"}}},
};

const qn_filter *qn_filter_find(const qn_str *name)
{
    for (size_t i = 0; i < sizeof filters / sizeof filters[0]; ++i) {
        if (qn_str_is(name, filters[i].function.name))
            return &filters[i];
    }
    return NULL;
}

qn_status qn_filter_apply(qn_render *r, const qn_filter *filter, qn_value value, const qn_arguments *arguments,
                          qn_value *out)
{
    if (filter->unsupported)
        return qn_render_fail(r, "the filter '%s' is not supported", filter->function.name);
    if (!filter->takes_markup && qn_is_string(value) && value.string->markup)
        return qn_render_fail(r, "the filter '%s' on the result of `safe` or `escape` is not supported",
                              filter->function.name);
    return qn_function_call(r, &filter->function, value, arguments, out);
}
