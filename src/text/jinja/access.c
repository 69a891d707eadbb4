/* Python's lookups, in Jinja2's order: `a.b` tries the attribute first, `a['b']` the item. */
#include "text/jinja/access.h"

#include "text/jinja/call.h"
#include "text/jinja/compare.h"
#include "text/jinja/dict.h"
#include "text/jinja/iterate.h"
#include "text/jinja/loop.h"
#include "text/jinja/methods.h"
#include "text/jinja/number.h"
#include "text/jinja/str.h"
#include "text/jinja/undefined.h"
#include "text/jinja/character.h"

static bool starts_with_underscore(const qn_str *name)
{
    return name->bytes > 0 && name->data[0] == '_';
}

static qn_status bind_method(qn_render *r, qn_value self, const qn_function *function, qn_value *out)
{
    qn_method *method = qn_render_alloc(r, 1, sizeof *method);
    if (!method)
        return qn_render_status(r);
    method->self = self;
    method->function = function;
    *out = (qn_value){.kind = QN_VALUE_METHOD, .method = method};
    return QN_OK;
}

/* Attributes that are not methods. */
static qn_status find_property(qn_render *r, qn_value object, const qn_str *name, qn_value *out)
{
    *out = qn_missing();
    if (qn_is_integer(object) || object.kind == QN_VALUE_FLOAT) {
        bool real = object.kind == QN_VALUE_FLOAT;
        if (qn_str_is(name, "real") || (!real && qn_str_is(name, "numerator")))
            *out = object.kind == QN_VALUE_BOOL ? qn_int(object.boolean) : object;
        else if (qn_str_is(name, "imag"))
            *out = real ? qn_float(0) : qn_int(0);
        else if (!real && qn_str_is(name, "denominator"))
            *out = qn_int(1);
    } else if (object.kind == QN_VALUE_RANGE) {
        if (qn_str_is(name, "start"))
            *out = qn_int(object.range->start);
        else if (qn_str_is(name, "stop"))
            *out = qn_int(object.range->stop);
        else if (qn_str_is(name, "step"))
            *out = qn_int(object.range->step);
    } else if (object.kind == QN_VALUE_TUPLE && object.list->pair_with_names) {
        if (qn_str_is(name, "grouper"))
            *out = object.list->items[0];
        else if (qn_str_is(name, "list"))
            *out = object.list->items[1];
    } else if (object.kind == QN_VALUE_CYCLER) {
        if (qn_str_is(name, "current"))
            *out = object.cycler->items->items[object.cycler->position];
        else if (qn_str_is(name, "items"))
            *out = (qn_value){.kind = QN_VALUE_TUPLE, .list = object.cycler->items};
        else if (qn_str_is(name, "pos"))
            *out = qn_int((int64_t)object.cycler->position);
    } else if (object.kind == QN_VALUE_JOINER) {
        if (qn_str_is(name, "sep"))
            *out = object.joiner->separator;
        else if (qn_str_is(name, "used"))
            *out = qn_bool(object.joiner->used);
    } else if (object.kind == QN_VALUE_MACRO) {
        return qn_macro_attribute(r, object.macro, name, out);
    } else if (object.kind == QN_VALUE_LOOP) {
        return qn_loop_attribute(r, object.loop, name, out);
    }
    return QN_OK;
}

qn_status qn_find_attribute(qn_render *r, qn_value object, const qn_str *name, qn_value *out, bool *unsafe)
{
    *unsafe = false;
    *out = qn_missing();
    if (object.kind == QN_VALUE_NAMESPACE) {
        qn_value value = qn_dict_get_str(r, object.names, name);
        *unsafe = starts_with_underscore(name) && (!qn_is_missing(value) || qn_str_is(name, "__class__"));
        *out = *unsafe ? qn_missing() : value;
        return QN_OK;
    }
    if (qn_attribute_is_unsafe(object.kind, name)) {
        *unsafe = true;
        return QN_OK;
    }
    if (object.kind == QN_VALUE_UNDEFINED)
        return qn_undefined_fail(r, object.undefined);
    const qn_function *method = object.kind == QN_VALUE_STRING ? qn_string_method(name)
                                                               : qn_collection_method(object.kind, name);
    if (method)
        return bind_method(r, object, method, out);
    if (qn_attribute_is_unsupported(object.kind, name))
        return qn_render_fail(r, "the attribute '%.*s' of '%s' objects is not supported", (int)name->bytes, name->data,
                              qn_type_name(object));
    return find_property(r, object, name, out);
}

/* Item of a sequence by position; MISSING when out of range. */
static bool place_of(qn_value key, size_t count, size_t *out)
{
    if (key.kind == QN_VALUE_BIG_INT || !qn_is_integer(key))
        return false;
    int64_t index = key.kind == QN_VALUE_BOOL ? key.boolean : key.integer;
    if (index < 0)
        index += (int64_t)count;
    if (index < 0 || index >= (int64_t)count)
        return false;
    *out = (size_t)index;
    return true;
}

static qn_status character_at(qn_render *r, const qn_str *s, size_t index, qn_value *out)
{
    const qn_str *character;
    if (s->bytes != s->length)
        QN_TRY(qn_text_work(r, s->bytes));
    size_t start = qn_str_offset(s, index), end = start + 1;
    while (end < s->bytes && ((unsigned char)s->data[end] & 0xC0) == 0x80)
        ++end;
    QN_TRY(qn_str_slice(r, s, start, end, &character));
    if (s->markup)
        QN_TRY(qn_str_mark(r, character, true, &character));
    *out = qn_string(character);
    return QN_OK;
}

/* obj[key] of Python; MISSING for TypeError and LookupError, which Jinja2 takes the same. */
static qn_status find_item(qn_render *r, qn_value object, qn_value key, qn_value *out)
{
    size_t place;
    *out = qn_missing();
    switch (object.kind) {
    case QN_VALUE_UNDEFINED:
        return qn_undefined_fail(r, object.undefined);
    case QN_VALUE_STRING:
        return place_of(key, object.string->length, &place) ? character_at(r, object.string, place, out) : QN_OK;
    case QN_VALUE_LIST:
    case QN_VALUE_TUPLE:
        if (place_of(key, object.list->count, &place))
            *out = object.list->items[place];
        return QN_OK;
    case QN_VALUE_RANGE:
        if (place_of(key, (size_t)object.range->count, &place))
            *out = qn_int(object.range->start + (int64_t)place * object.range->step);
        return QN_OK;
    case QN_VALUE_DICT:
        if (qn_is_string(key)) {
            *out = qn_dict_get_str(r, object.dict, key.string);
            return QN_OK;
        }
        if (key.kind == QN_VALUE_LIST || key.kind == QN_VALUE_DICT || key.kind == QN_VALUE_VIEW)
            return QN_OK;
        return qn_dict_get(r, object.dict, key, out);
    default:
        return QN_OK;
    }
}

qn_status qn_get_attribute(qn_render *r, qn_value object, const qn_str *name, qn_value *out)
{
    bool unsafe;
    QN_TRY(qn_find_attribute(r, object, name, out, &unsafe));
    if (unsafe)
        return qn_undefined_unsafe(r, object, name, out);
    if (qn_is_missing(*out))
        QN_TRY(find_item(r, object, qn_string(name), out));
    return qn_is_missing(*out) ? qn_undefined_item(r, object, qn_string(name), out) : QN_OK;
}

qn_status qn_get_item(qn_render *r, qn_value object, qn_value key, qn_value *out)
{
    QN_TRY(find_item(r, object, key, out));
    if (!qn_is_missing(*out))
        return QN_OK;
    if (qn_is_string(key)) {
        bool unsafe;
        QN_TRY(qn_find_attribute(r, object, key.string, out, &unsafe));
        if (unsafe)
            return qn_undefined_unsafe(r, object, key.string, out);
    }
    return qn_is_missing(*out) ? qn_undefined_item(r, object, key, out) : QN_OK;
}

/* A bound of a slice; out of int64 it is as good as the largest. */
static qn_status slice_bound(qn_render *r, qn_value given, int64_t fallback, int64_t *out)
{
    if (qn_is_missing(given) || given.kind == QN_VALUE_NONE) {
        *out = fallback;
        return QN_OK;
    }
    if (given.kind == QN_VALUE_BIG_INT) {
        *out = given.big->negative ? INT64_MIN + 1 : INT64_MAX;
        return QN_OK;
    }
    if (!qn_is_integer(given))
        return qn_render_fail(r, "slice indices must be integers or None, not '%s'", qn_type_name(given));
    *out = given.kind == QN_VALUE_BOOL ? given.boolean : given.integer;
    return QN_OK;
}

/* Brings a bound into 0..count (or -1..count-1 going backwards), as PySlice_AdjustIndices does. */
static int64_t clamp_bound(int64_t bound, int64_t count, int64_t step)
{
    if (bound < 0) {
        bound = bound < -count ? -1 : bound + count;
        return bound < 0 && step > 0 ? 0 : bound;
    }
    return bound < count ? bound : step < 0 ? count - 1 : count;
}

typedef struct extent {
    int64_t start, step, count, stop;
} extent;

static qn_status slice_extent(qn_render *r, size_t length, qn_value start, qn_value stop, qn_value step, extent *out)
{
    int64_t count = (int64_t)length, first = 0, last = 0;
    *out = (extent){.step = 1};
    QN_TRY(slice_bound(r, step, 1, &out->step));
    if (out->step == 0)
        return qn_render_fail(r, "slice step cannot be zero");
    if (out->step == INT64_MIN)
        out->step = -INT64_MAX;
    QN_TRY(slice_bound(r, start, out->step < 0 ? INT64_MAX : 0, &first));
    QN_TRY(slice_bound(r, stop, out->step < 0 ? INT64_MIN : INT64_MAX, &last));
    out->start = clamp_bound(first, count, out->step);
    out->stop = clamp_bound(last, count, out->step);
    if (out->step > 0)
        out->count = out->start < out->stop ? (out->stop - out->start - 1) / out->step + 1 : 0;
    else
        out->count = out->stop < out->start ? (out->start - out->stop - 1) / -out->step + 1 : 0;
    return QN_OK;
}

/* Where each character starts, and where the last one ends. */
static qn_status character_offsets(qn_render *r, const qn_str *s, size_t **out)
{
    size_t *offsets = qn_render_alloc(r, s->length + 1, sizeof *offsets), count = 0;
    if (!offsets)
        return qn_render_status(r);
    QN_TRY(qn_render_work(r, s->bytes / 8));
    for (size_t i = 0; i < s->bytes; ++i) {
        if (((unsigned char)s->data[i] & 0xC0) != 0x80)
            offsets[count++] = i;
    }
    offsets[count] = s->bytes;
    *out = offsets;
    return QN_OK;
}

static qn_status slice_string(qn_render *r, const qn_str *s, extent part, const qn_str **out)
{
    if (part.count == 0)
        return qn_str_slice(r, s, 0, 0, out);
    if (part.step == 1) {
        if (s->bytes != s->length)
            QN_TRY(qn_text_work(r, s->bytes));
        return qn_str_slice(r, s, qn_str_offset(s, (size_t)part.start),
                            qn_str_offset(s, (size_t)(part.start + part.count)), out);
    }
    size_t *offsets;
    QN_TRY(character_offsets(r, s, &offsets));
    qn_builder b = qn_builder_start(r);
    for (int64_t i = 0; i < part.count && b.status == QN_OK; ++i) {
        size_t at = (size_t)(part.start + i * part.step);
        qn_builder_part(&b, s, offsets[at], offsets[at + 1]);
    }
    return qn_builder_finish(&b, out);
}

static qn_status slice_list(qn_render *r, qn_value object, extent part, qn_value *out)
{
    const qn_value *items = object.list->items;
    if (part.step == 1)
        return qn_list_value(r, object.kind, part.count ? items + part.start : NULL, (size_t)part.count, out);
    qn_value *copy = qn_render_alloc(r, (size_t)part.count, sizeof *copy);
    if (!copy)
        return qn_render_status(r);
    QN_TRY(qn_render_work(r, (uint64_t)part.count));
    for (int64_t i = 0; i < part.count; ++i)
        copy[i] = items[part.start + i * part.step];
    return qn_list_value(r, object.kind, copy, (size_t)part.count, out);
}

static qn_status slice_range(qn_render *r, const qn_range *range, extent part, qn_value *out)
{
    qn_range *slice = qn_render_alloc(r, 1, sizeof *slice);
    if (!slice)
        return qn_render_status(r);
    /* A step beyond the range's length selects one item at most: any such step will do, but Python prints the true one.
     */
    if (__builtin_mul_overflow(range->step, part.step, &slice->step) ||
        __builtin_mul_overflow(part.stop, range->step, &slice->stop) ||
        __builtin_add_overflow(slice->stop, range->start, &slice->stop))
        return qn_render_fail(r, "the step of a range grows beyond 64 bits");
    slice->start = range->start + part.start * range->step;
    slice->count = part.count;
    *out = (qn_value){.kind = QN_VALUE_RANGE, .range = slice};
    return QN_OK;
}

qn_status qn_get_slice(qn_render *r, qn_value object, qn_value start, qn_value stop, qn_value step, qn_value *out)
{
    extent part;
    size_t length;
    if (object.kind == QN_VALUE_UNDEFINED)
        return qn_undefined_fail(r, object.undefined);
    bool sliceable = qn_is_string(object) || qn_is_sequence(object) || object.kind == QN_VALUE_RANGE;
    if (!sliceable || !qn_value_length(object, &length))
        return qn_render_fail(r, "'%s' object cannot be sliced", qn_type_name(object));
    QN_TRY(slice_extent(r, length, start, stop, step, &part));
    if (qn_is_sequence(object))
        return slice_list(r, object, part, out);
    if (object.kind == QN_VALUE_RANGE)
        return slice_range(r, object.range, part, out);
    const qn_str *s;
    QN_TRY(slice_string(r, object.string, part, &s));
    if (object.string->markup)
        QN_TRY(qn_str_mark(r, s, true, &s));
    *out = qn_string(s);
    return QN_OK;
}

/* One part of a path: an integer when it is all digits. */
static qn_status path_key(qn_render *r, const qn_str *part, qn_value *out)
{
    qn_walk walk = {.string = part};
    bool digits = part->bytes > 0, valid;
    while (digits && qn_walk_next(&walk))
        digits = qn_code_is_digit(walk.code);
    *out = qn_string(part);
    if (!digits)
        return QN_OK;
    QN_TRY(qn_number_parse_integer(r, part, 10, out, &valid));
    return valid ? QN_OK : qn_render_fail(r, "invalid literal for int() in an attribute path");
}

qn_status qn_get_path(qn_render *r, qn_value object, qn_value path, qn_value fallback, qn_value *out)
{
    bool has_fallback = !qn_is_missing(fallback) && fallback.kind != QN_VALUE_NONE;
    *out = object;
    if (qn_is_missing(path) || path.kind == QN_VALUE_NONE)
        return QN_OK;
    if (!qn_is_string(path)) {
        QN_TRY(qn_get_item(r, object, path, out));
        if (has_fallback && out->kind == QN_VALUE_UNDEFINED)
            *out = fallback;
        return QN_OK;
    }
    const qn_str *dot = &(qn_str){.data = ".", .bytes = 1, .length = 1};
    for (size_t from = 0;;) {
        ptrdiff_t found = qn_str_find(path.string, dot, from, path.string->bytes);
        size_t to = found == QN_NOT_FOUND ? path.string->bytes : (size_t)found;
        const qn_str *part;
        qn_value key, item;
        QN_TRY(qn_str_slice(r, path.string, from, to, &part));
        QN_TRY(path_key(r, part, &key));
        QN_TRY(qn_get_item(r, *out, key, &item));
        *out = has_fallback && item.kind == QN_VALUE_UNDEFINED ? fallback : item;
        if (found == QN_NOT_FOUND)
            return QN_OK;
        from = to + 1;
    }
}
