/* The messages are Jinja2's own, since template authors know them. */
#include "text/jinja/undefined.h"

#include "text/jinja/compare.h"
#include "text/jinja/repr.h"
#include "text/jinja/str.h"

static qn_status make(qn_render *r, qn_undefined undefined, qn_value *out)
{
    qn_undefined *made = qn_render_alloc(r, 1, sizeof *made);
    if (!made)
        return qn_render_status(r);
    *made = undefined;
    *out = (qn_value){.kind = QN_VALUE_UNDEFINED, .undefined = made};
    return QN_OK;
}

qn_status qn_undefined_variable(qn_render *r, const qn_str *name, qn_value *out)
{
    return make(r, (qn_undefined){.name = name}, out);
}

qn_status qn_undefined_item(qn_render *r, qn_value object, qn_value item, qn_value *out)
{
    return make(r, (qn_undefined){.object = object, .item = item}, out);
}

qn_status qn_undefined_hint(qn_render *r, const char *hint, qn_value *out)
{
    return make(r, (qn_undefined){.hint = hint}, out);
}

qn_status qn_undefined_unsafe(qn_render *r, qn_value object, const qn_str *name, qn_value *out)
{
    return make(r, (qn_undefined){.object = object, .name = name}, out);
}

qn_status qn_undefined_fail(qn_render *r, const qn_undefined *undefined)
{
    if (undefined->hint)
        return qn_render_fail(r, "%s", undefined->hint);
    bool is_variable = qn_is_missing(undefined->object);
    const char *type = undefined->object.kind == QN_VALUE_NONE ? "None" : qn_type_name(undefined->object);
    const char *object = undefined->object.kind == QN_VALUE_NONE ? "" : " object";
    const qn_str *subject = undefined->name;
    if (qn_is_missing(undefined->item)) {
        int bytes = (int)(subject->bytes < 200 ? subject->bytes : 200);
        if (is_variable)
            return qn_render_fail(r, "'%.*s' is undefined", bytes, subject->data);
        return qn_render_fail(r, "access to attribute '%.*s' of '%s' object is unsafe", bytes, subject->data, type);
    }
    QN_TRY(qn_value_repr(r, undefined->item, &subject));
    int bytes = (int)(subject->bytes < 200 ? subject->bytes : 200);
    if (qn_is_string(undefined->item))
        return qn_render_fail(r, "'%s%s' has no attribute %.*s", type, object, bytes, subject->data);
    return qn_render_fail(r, "%s%s has no element %.*s", type, object, bytes, subject->data);
}
