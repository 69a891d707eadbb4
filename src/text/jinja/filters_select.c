/* map, select, reject and their attribute forms: filters that apply filters and tests named at run time. */
#include "text/jinja/access.h"
#include "text/jinja/compare.h"
#include "text/jinja/filter_functions.h"
#include "text/jinja/filters.h"
#include "text/jinja/iterate.h"
#include "text/jinja/repr.h"
#include "text/jinja/str.h"

static qn_status list_of(qn_render *r, const qn_list_builder *list, const qn_list **out)
{
    qn_value made;
    QN_TRY(qn_list_value(r, QN_VALUE_LIST, list->items, list->count, &made));
    *out = made.list;
    return QN_OK;
}

/* The arguments behind the first `count`. */
static qn_arguments rest_of(const qn_arguments *arguments, size_t count)
{
    qn_arguments rest = *arguments;
    if (count > 0)
        rest.values += count;
    rest.count -= count;
    return rest;
}

static qn_status fail_unknown(qn_render *r, const char *what, qn_value name)
{
    const qn_str *text;
    QN_TRY(qn_value_repr(r, name, &text));
    return qn_render_fail(r, "no %s named %.*s", what, (int)(text->bytes < 100 ? text->bytes : 100), text->data);
}

/* map(attribute=..., default=...) */
static qn_status map_attribute(qn_render *r, qn_value source, const qn_arguments *arguments, qn_list_builder *items)
{
    qn_value attribute = qn_none(), fallback = qn_none();
    qn_cursor cursor;
    for (size_t i = 0; i < arguments->keyword_count; ++i) {
        const qn_keyword *keyword = &arguments->keywords[i];
        if (qn_str_is(keyword->name, "attribute"))
            attribute = keyword->value;
        else if (qn_str_is(keyword->name, "default"))
            fallback = keyword->value;
        else
            return qn_render_fail(r, "map: unexpected keyword argument '%.*s'",
                                  (int)(keyword->name->bytes < 100 ? keyword->name->bytes : 100), keyword->name->data);
    }
    QN_TRY(qn_cursor_start(r, source, &cursor));
    for (;;) {
        qn_value item;
        QN_TRY(qn_cursor_next(r, &cursor, &item));
        if (qn_is_missing(item))
            return QN_OK;
        QN_TRY(qn_get_path(r, item, attribute, fallback, &item));
        QN_TRY(qn_list_add(r, items, item));
    }
}

static qn_status map_filter(qn_render *r, qn_value source, const qn_arguments *arguments, qn_list_builder *items)
{
    qn_arguments rest = rest_of(arguments, 1);
    qn_value name = arguments->values[0];
    const qn_filter *filter = qn_is_string(name) ? qn_filter_find(name.string) : NULL;
    qn_cursor cursor;
    QN_TRY(qn_cursor_start(r, source, &cursor));
    for (;;) {
        qn_value item;
        QN_TRY(qn_cursor_next(r, &cursor, &item));
        if (qn_is_missing(item))
            return QN_OK;
        if (!filter)
            return fail_unknown(r, "filter", name);
        QN_TRY(qn_filter_apply(r, filter, item, &rest, &item));
        QN_TRY(qn_list_add(r, items, item));
    }
}

static qn_status map(qn_render *r, qn_value source, const qn_arguments *arguments, const qn_list **out)
{
    qn_list_builder items = {0};
    bool by_attribute = false;
    for (size_t i = 0; arguments->count == 0 && i < arguments->keyword_count; ++i)
        by_attribute = by_attribute || qn_str_is(arguments->keywords[i].name, "attribute");
    if (qn_value_truth(source)) {
        if (!by_attribute && arguments->count == 0)
            return qn_render_fail(r, "map requires a filter argument");
        QN_TRY(by_attribute ? map_attribute(r, source, arguments, &items) : map_filter(r, source, arguments, &items));
    }
    return list_of(r, &items, out);
}

qn_status qn_filter_map(qn_render *r, qn_value self, const qn_arguments *arguments, qn_value *out)
{
    return qn_iterator_new(r, map, self, arguments, out);
}

/* Keeps the items whose test (truth without one) is `wanted`; `by_attribute`: that of the attribute named first. */
static qn_status choose(qn_render *r, qn_value source, const qn_arguments *arguments, bool wanted, bool by_attribute,
                        const qn_list **out)
{
    qn_list_builder items = {0};
    qn_cursor cursor;
    if (!qn_value_truth(source))
        return list_of(r, &items, out);
    if (by_attribute && arguments->count == 0)
        return qn_render_fail(r, "missing parameter for attribute name");
    qn_value path = by_attribute ? arguments->values[0] : qn_none();
    qn_arguments rest = rest_of(arguments, by_attribute);
    bool tests = rest.count > 0;
    const qn_function *test = tests && qn_is_string(rest.values[0]) ? qn_test_find(rest.values[0].string) : NULL;
    qn_arguments test_arguments = tests ? rest_of(&rest, 1) : rest;
    QN_TRY(qn_cursor_start(r, source, &cursor));
    for (;;) {
        qn_value item, tested;
        bool passed;
        QN_TRY(qn_render_work(r, 1));
        QN_TRY(qn_cursor_next(r, &cursor, &item));
        if (qn_is_missing(item))
            return list_of(r, &items, out);
        QN_TRY(qn_get_path(r, item, path, qn_missing(), &tested));
        if (tests && !test)
            return fail_unknown(r, "test", rest.values[0]);
        passed = qn_value_truth(tested);
        if (test)
            QN_TRY(qn_test_apply(r, test, tested, &test_arguments, &passed));
        if (passed == wanted)
            QN_TRY(qn_list_add(r, &items, item));
    }
}

static qn_status selected(qn_render *r, qn_value source, const qn_arguments *arguments, const qn_list **out)
{
    return choose(r, source, arguments, true, false, out);
}

static qn_status rejected(qn_render *r, qn_value source, const qn_arguments *arguments, const qn_list **out)
{
    return choose(r, source, arguments, false, false, out);
}

static qn_status selected_by_attribute(qn_render *r, qn_value source, const qn_arguments *arguments,
                                       const qn_list **out)
{
    return choose(r, source, arguments, true, true, out);
}

static qn_status rejected_by_attribute(qn_render *r, qn_value source, const qn_arguments *arguments,
                                       const qn_list **out)
{
    return choose(r, source, arguments, false, true, out);
}

qn_status qn_filter_select(qn_render *r, qn_value self, const qn_arguments *arguments, qn_value *out)
{
    return qn_iterator_new(r, selected, self, arguments, out);
}

qn_status qn_filter_reject(qn_render *r, qn_value self, const qn_arguments *arguments, qn_value *out)
{
    return qn_iterator_new(r, rejected, self, arguments, out);
}

qn_status qn_filter_selectattr(qn_render *r, qn_value self, const qn_arguments *arguments, qn_value *out)
{
    return qn_iterator_new(r, selected_by_attribute, self, arguments, out);
}

qn_status qn_filter_rejectattr(qn_render *r, qn_value self, const qn_arguments *arguments, qn_value *out)
{
    return qn_iterator_new(r, rejected_by_attribute, self, arguments, out);
}
