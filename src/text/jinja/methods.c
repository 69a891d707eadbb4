/* Methods of lists, tuples, dictionaries, views, ranges, numbers and cyclers, and which attributes are closed. */
#include "text/jinja/methods.h"

#include <math.h>

#include "text/jinja/compare.h"
#include "text/jinja/dict.h"
#include "text/jinja/integer.h"
#include "text/jinja/iterate.h"
#include "text/jinja/str.h"

static qn_status dict_get(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    QN_TRY(qn_dict_get(r, self.dict, given[0], out));
    if (qn_is_missing(*out))
        *out = qn_is_missing(given[1]) ? qn_none() : given[1];
    return QN_OK;
}

static qn_status view(qn_render *r, qn_value self, qn_view_kind kind, qn_value *out)
{
    qn_view *view = qn_render_alloc(r, 1, sizeof *view);
    if (!view)
        return qn_render_status(r);
    view->kind = kind;
    view->dict = self.dict;
    *out = (qn_value){.kind = QN_VALUE_VIEW, .view = view};
    return QN_OK;
}

static qn_status dict_keys(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    return view(r, self, QN_VIEW_KEYS, out);
}

static qn_status dict_values(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    return view(r, self, QN_VIEW_VALUES, out);
}

static qn_status dict_items(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    return view(r, self, QN_VIEW_ITEMS, out);
}

/* Values never change, so a copy is the value itself. */
static qn_status copy(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)r, (void)given;
    *out = self;
    return QN_OK;
}

static qn_status sequence_count(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    int64_t count = 0;
    qn_cursor cursor;
    QN_TRY(qn_cursor_start(r, self, &cursor));
    for (;;) {
        qn_value item;
        bool equal;
        QN_TRY(qn_render_work(r, 1));
        QN_TRY(qn_cursor_next(r, &cursor, &item));
        if (qn_is_missing(item))
            break;
        QN_TRY(qn_value_equal(r, item, given[0], &equal));
        count += equal;
    }
    *out = qn_int(count);
    return QN_OK;
}

/* A bound of list.index, counted from the end when negative. */
static qn_status index_bound(qn_render *r, qn_value given, int64_t count, int64_t fallback, int64_t *out)
{
    QN_TRY(qn_argument_integer(r, "index", given, fallback, out));
    if (*out < 0)
        *out = *out < -count ? 0 : *out + count;
    return QN_OK;
}

static qn_status sequence_index(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    const qn_list *list;
    int64_t start, stop;
    QN_TRY(qn_collect(r, self, &list));
    QN_TRY(index_bound(r, given[1], (int64_t)list->count, 0, &start));
    QN_TRY(index_bound(r, given[2], (int64_t)list->count, INT64_MAX, &stop));
    for (int64_t i = start; i < stop && i < (int64_t)list->count; ++i) {
        bool equal;
        QN_TRY(qn_render_work(r, 1));
        QN_TRY(qn_value_equal(r, list->items[i], given[0], &equal));
        *out = qn_int(i);
        if (equal)
            return QN_OK;
    }
    return qn_render_fail(r, "the value is not in the %s", qn_type_name(self));
}

static qn_status int_bit_length(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)r, (void)given;
    if (self.kind == QN_VALUE_BIG_INT) {
        *out = qn_int((int64_t)qn_integer_bits(self.big));
        return QN_OK;
    }
    int64_t value = self.kind == QN_VALUE_BOOL ? self.boolean : self.integer, bits = 0;
    for (uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value; rest > 0; rest >>= 1)
        ++bits;
    *out = qn_int(bits);
    return QN_OK;
}

static qn_status float_is_integer(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)r, (void)given;
    *out = qn_bool(isfinite(self.real) && floor(self.real) == self.real);
    return QN_OK;
}

static qn_status cycler_next(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)r, (void)given;
    qn_cycler *cycler = self.cycler;
    *out = cycler->items->items[cycler->position];
    cycler->position = (cycler->position + 1) % cycler->items->count;
    return QN_OK;
}

static qn_status cycler_reset(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)r, (void)given;
    self.cycler->position = 0;
    *out = qn_none();
    return QN_OK;
}

/* Sets of kinds. */
enum {
    OF_BOOL = 1 << QN_VALUE_BOOL,
    OF_INT = 1 << QN_VALUE_INT,
    OF_BIG_INT = 1 << QN_VALUE_BIG_INT,
    OF_FLOAT = 1 << QN_VALUE_FLOAT,
    OF_STRING = 1 << QN_VALUE_STRING,
    OF_LIST = 1 << QN_VALUE_LIST,
    OF_TUPLE = 1 << QN_VALUE_TUPLE,
    OF_DICT = 1 << QN_VALUE_DICT,
    OF_RANGE = 1 << QN_VALUE_RANGE,
    OF_CYCLER = 1 << QN_VALUE_CYCLER
};

/* A method of every kind whose bit is set. */
typedef struct kind_method {
    unsigned kinds;
    qn_function function;
} kind_method;

static const kind_method collection_methods[] = {
    {OF_DICT, {.name = "get", .native = dict_get, .parameters = {"key", "default"}, .required = 1, .positional = true}},
    {OF_DICT, {.name = "items", .native = dict_items}},
    {OF_DICT, {.name = "keys", .native = dict_keys}},
    {OF_DICT, {.name = "values", .native = dict_values}},
    {OF_DICT | OF_LIST, {.name = "copy", .native = copy}},
    {OF_LIST | OF_TUPLE | OF_RANGE,
     {.name = "count", .native = sequence_count, .parameters = {"value"}, .required = 1, .positional = true}},
    {OF_LIST | OF_TUPLE,
     {.name = "index",
      .native = sequence_index,
      .parameters = {"value", "start", "stop"},
      .required = 1,
      .positional = true}},
    {OF_RANGE, {.name = "index", .native = sequence_index, .parameters = {"value"}, .required = 1, .positional = true}},
    {OF_INT | OF_BIG_INT | OF_BOOL, {.name = "bit_length", .native = int_bit_length}},
    {OF_FLOAT, {.name = "is_integer", .native = float_is_integer}},
    {OF_CYCLER, {.name = "next", .native = cycler_next}},
    {OF_CYCLER, {.name = "reset", .native = cycler_reset}},
};

const qn_function *qn_collection_method(qn_value_kind kind, const qn_str *name)
{
    for (size_t i = 0; i < sizeof collection_methods / sizeof collection_methods[0]; ++i) {
        if ((collection_methods[i].kinds >> kind & 1) && qn_str_is(name, collection_methods[i].function.name))
            return &collection_methods[i].function;
    }
    return NULL;
}

static bool is_one_of(const qn_str *name, const char *const *names)
{
    for (; *names; ++names) {
        if (qn_str_is(name, *names))
            return true;
    }
    return false;
}

bool qn_attribute_is_unsafe(qn_value_kind kind, const qn_str *name)
{
    static const char *const of_lists[] = {"append", "clear",   "extend", "insert", "pop",
                                           "remove", "reverse", "sort",   NULL};
    static const char *const of_dicts[] = {"clear", "pop", "popitem", "setdefault", "update", NULL};
    static const char *const of_objects[] = {
        "__class__",   "__delattr__", "__dir__",           "__doc__",          "__eq__",
        "__format__",  "__ge__",      "__getattribute__",  "__getstate__",     "__gt__",
        "__hash__",    "__init__",    "__init_subclass__", "__le__",           "__lt__",
        "__ne__",      "__new__",     "__reduce__",        "__reduce_ex__",    "__repr__",
        "__setattr__", "__sizeof__",  "__str__",           "__subclasshook__", NULL};
    static const char *const of_containers[] = {"__contains__", "__getitem__", "__iter__", "__len__", NULL};
    unsigned containers = OF_STRING | OF_LIST | OF_TUPLE | OF_DICT | OF_RANGE;
    if (name->bytes > 0 && name->data[0] == '_')
        return is_one_of(name, of_objects) || ((containers >> kind & 1) && is_one_of(name, of_containers));
    return (kind == QN_VALUE_LIST && is_one_of(name, of_lists)) || (kind == QN_VALUE_DICT && is_one_of(name, of_dicts));
}

bool qn_attribute_is_unsupported(qn_value_kind kind, const qn_str *name)
{
    static const char *const of_strings[] = {"encode", "maketrans", "translate", NULL};
    static const char *const of_dicts[] = {"fromkeys", NULL};
    static const char *const of_integers[] = {"as_integer_ratio", "bit_count", "conjugate",
                                              "from_bytes",       "to_bytes",  NULL};
    static const char *const of_floats[] = {"as_integer_ratio", "conjugate", "fromhex", "hex", NULL};
    static const char *const of_views[] = {"isdisjoint", "mapping", NULL};
    static const char *const of_iterators[] = {"close", "gi_running", "gi_suspended", "gi_yieldfrom", "send",
                                               "throw", NULL};
    switch (kind) {
    case QN_VALUE_STRING:
        return is_one_of(name, of_strings);
    case QN_VALUE_DICT:
        return is_one_of(name, of_dicts);
    case QN_VALUE_BOOL:
    case QN_VALUE_INT:
    case QN_VALUE_BIG_INT:
        return is_one_of(name, of_integers);
    case QN_VALUE_FLOAT:
        return is_one_of(name, of_floats);
    case QN_VALUE_VIEW:
        return is_one_of(name, of_views);
    case QN_VALUE_ITERATOR:
        return is_one_of(name, of_iterators);
    default:
        return false;
    }
}
