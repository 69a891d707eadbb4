/* The tests of Jinja2: `value is NAME`. */
#include "text/jinja/compare.h"
#include "text/jinja/hash.h"
#include "text/jinja/filters.h"
#include "text/jinja/iterate.h"
#include "text/jinja/operators.h"
#include "text/jinja/repr.h"
#include "text/jinja/str.h"
#include "text/jinja/text_ops.h"

/* value % divisor == wanted */
static qn_status has_remainder(qn_render *r, qn_value value, qn_value divisor, int64_t wanted, qn_value *out)
{
    qn_value remainder;
    QN_TRY(qn_value_operate(r, QN_OPERATOR_MODULO, value, divisor, &remainder));
    *out = qn_bool(false);
    return qn_value_equal(r, remainder, qn_int(wanted), &out->boolean);
}

static qn_status test_odd(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    return has_remainder(r, self, qn_int(2), 1, out);
}

static qn_status test_even(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    return has_remainder(r, self, qn_int(2), 0, out);
}

static qn_status test_divisibleby(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    return has_remainder(r, self, given[0], 0, out);
}

static qn_status test_defined(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)r, (void)given;
    *out = qn_bool(self.kind != QN_VALUE_UNDEFINED);
    return QN_OK;
}

static qn_status test_undefined(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)r, (void)given;
    *out = qn_bool(self.kind == QN_VALUE_UNDEFINED);
    return QN_OK;
}

static qn_status test_filter(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    uint64_t hash; /* a dictionary is asked: it refuses what is not hashable */
    QN_TRY(qn_value_hash(r, self, &hash));
    *out = qn_bool(qn_is_string(self) && qn_filter_find(self.string));
    return QN_OK;
}

static qn_status test_test(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    uint64_t hash;
    QN_TRY(qn_value_hash(r, self, &hash));
    *out = qn_bool(qn_is_string(self) && qn_test_find(self.string));
    return QN_OK;
}

static qn_status test_none(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)r, (void)given;
    *out = qn_bool(self.kind == QN_VALUE_NONE);
    return QN_OK;
}

static qn_status test_boolean(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)r, (void)given;
    *out = qn_bool(self.kind == QN_VALUE_BOOL);
    return QN_OK;
}

static qn_status test_true(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)r, (void)given;
    *out = qn_bool(self.kind == QN_VALUE_BOOL && self.boolean);
    return QN_OK;
}

static qn_status test_false(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)r, (void)given;
    *out = qn_bool(self.kind == QN_VALUE_BOOL && !self.boolean);
    return QN_OK;
}

static qn_status test_integer(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)r, (void)given;
    *out = qn_bool(self.kind == QN_VALUE_INT || self.kind == QN_VALUE_BIG_INT);
    return QN_OK;
}

static qn_status test_float(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)r, (void)given;
    *out = qn_bool(self.kind == QN_VALUE_FLOAT);
    return QN_OK;
}

static qn_status test_number(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)r, (void)given;
    *out = qn_bool(qn_is_number(self));
    return QN_OK;
}

static qn_status test_lower(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    const qn_str *s;
    QN_TRY(qn_value_str(r, self, &s));
    return qn_text_is_lower(r, s, out);
}

static qn_status test_upper(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    const qn_str *s;
    QN_TRY(qn_value_str(r, self, &s));
    return qn_text_is_upper(r, s, out);
}

static qn_status test_string(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)r, (void)given;
    *out = qn_bool(qn_is_string(self));
    return QN_OK;
}

static qn_status test_mapping(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)r, (void)given;
    *out = qn_bool(self.kind == QN_VALUE_DICT);
    return QN_OK;
}

static qn_status test_sequence(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)r, (void)given;
    size_t length; /* a view has a length but no items by position */
    *out = qn_bool(qn_value_length(self, &length) && self.kind != QN_VALUE_VIEW);
    return QN_OK;
}

static qn_status test_iterable(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)r, (void)given;
    *out = qn_bool(qn_is_iterable(self));
    return QN_OK;
}

static qn_status test_callable(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)r, (void)given;
    *out = qn_bool(self.kind == QN_VALUE_FUNCTION || self.kind == QN_VALUE_METHOD || self.kind == QN_VALUE_MACRO ||
                   self.kind == QN_VALUE_LOOP || self.kind == QN_VALUE_JOINER || self.kind == QN_VALUE_UNDEFINED);
    return QN_OK;
}

static qn_status test_sameas(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)r;
    *out = qn_bool(qn_value_same(self, given[0]));
    return QN_OK;
}

static qn_status test_escaped(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)r, (void)given;
    *out = qn_bool(qn_is_string(self) && self.string->markup);
    return QN_OK;
}

static qn_status test_in(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    *out = qn_bool(false);
    return qn_value_contains(r, given[0], self, &out->boolean);
}

static qn_status test_eq(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    *out = qn_bool(false);
    return qn_value_equal(r, self, given[0], &out->boolean);
}

static qn_status test_ne(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    QN_TRY(test_eq(r, self, given, out));
    out->boolean = !out->boolean;
    return QN_OK;
}

static qn_status test_order(qn_render *r, qn_value self, const qn_value *given, const char *operation, qn_value *out)
{
    *out = qn_bool(false);
    return qn_value_order(r, self, given[0], operation, &out->boolean);
}

static qn_status test_gt(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    return test_order(r, self, given, ">", out);
}

static qn_status test_ge(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    return test_order(r, self, given, ">=", out);
}

static qn_status test_lt(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    return test_order(r, self, given, "<", out);
}

static qn_status test_le(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    return test_order(r, self, given, "<=", out);
}

static const qn_function tests[] = {
    {.name = "odd", .native = test_odd},
    {.name = "even", .native = test_even},
    {.name = "divisibleby", .native = test_divisibleby, .parameters = {"num"}, .required = 1},
    {.name = "defined", .native = test_defined},
    {.name = "undefined", .native = test_undefined},
    {.name = "filter", .native = test_filter},
    {.name = "test", .native = test_test},
    {.name = "none", .native = test_none},
    {.name = "boolean", .native = test_boolean},
    {.name = "false", .native = test_false},
    {.name = "true", .native = test_true},
    {.name = "integer", .native = test_integer},
    {.name = "float", .native = test_float},
    {.name = "lower", .native = test_lower},
    {.name = "upper", .native = test_upper},
    {.name = "string", .native = test_string},
    {.name = "mapping", .native = test_mapping},
    {.name = "number", .native = test_number},
    {.name = "sequence", .native = test_sequence},
    {.name = "iterable", .native = test_iterable},
    {.name = "callable", .native = test_callable},
    {.name = "sameas", .native = test_sameas, .parameters = {"other"}, .required = 1},
    {.name = "escaped", .native = test_escaped},
    {.name = "in", .native = test_in, .parameters = {"seq"}, .required = 1},
    {.name = "==", .native = test_eq, .parameters = {"other"}, .required = 1},
    {.name = "eq", .native = test_eq, .parameters = {"other"}, .required = 1},
    {.name = "equalto", .native = test_eq, .parameters = {"other"}, .required = 1},
    {.name = "!=", .native = test_ne, .parameters = {"other"}, .required = 1},
    {.name = "ne", .native = test_ne, .parameters = {"other"}, .required = 1},
    {.name = ">", .native = test_gt, .parameters = {"other"}, .required = 1},
    {.name = "gt", .native = test_gt, .parameters = {"other"}, .required = 1},
    {.name = "greaterthan", .native = test_gt, .parameters = {"other"}, .required = 1},
    {.name = ">=", .native = test_ge, .parameters = {"other"}, .required = 1},
    {.name = "ge", .native = test_ge, .parameters = {"other"}, .required = 1},
    {.name = "<", .native = test_lt, .parameters = {"other"}, .required = 1},
    {.name = "lt", .native = test_lt, .parameters = {"other"}, .required = 1},
    {.name = "lessthan", .native = test_lt, .parameters = {"other"}, .required = 1},
    {.name = "<=", .native = test_le, .parameters = {"other"}, .required = 1},
    {.name = "le", .native = test_le, .parameters = {"other"}, .required = 1},
};

const qn_function *qn_test_find(const qn_str *name)
{
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; ++i) {
        if (qn_str_is(name, tests[i].name))
            return &tests[i];
    }
    return NULL;
}

qn_status qn_test_apply(qn_render *r, const qn_function *test, qn_value value, const qn_arguments *arguments, bool *out)
{
    qn_value result;
    QN_TRY(qn_function_call(r, test, value, arguments, &result));
    *out = qn_value_truth(result);
    return QN_OK;
}
