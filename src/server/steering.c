#include "server/steering.h"

#include <string.h>

static qn_status take(const json_t *document, const char *name, const char *known, json_t *fields, qn_error *err)
{
    json_t *value = json_object_get(document, name);
    return value == NULL || json_object_set(fields, known, value) == 0 ? QN_OK
                                                                       : qn_fail_memory(err, "request", sizeof *value);
}

static qn_status collect(const json_t *document, const qn_steering_name *names, size_t count, json_t *fields,
                         qn_error *err)
{
    qn_status status = QN_OK;
    for (size_t i = 0; i < qn_steering_fields.count && status == QN_OK; i++) {
        const char *name = qn_steering_fields.fields[i].name;
        status = take(document, name, name, fields, err);
    }
    for (size_t i = 0; i < count && status == QN_OK; i++) {
        status = take(document, names[i].name, names[i].known, fields, err);
    }
    return status;
}

/* Sentences begin with the field's name. */
static void rename_field(const qn_steering_name *names, size_t count, qn_error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(err->field, names[i].known) != 0 || strcmp(names[i].name, names[i].known) == 0) {
            continue;
        }
        const qn_error inner = *err;
        size_t bytes = strlen(names[i].known);
        const char *rest = strncmp(inner.message, names[i].known, bytes) == 0 ? inner.message + bytes : inner.message;
        qn_fail_field(err, inner.status, names[i].name, "%s%s%s", names[i].name, rest[0] == ':' ? "" : ": ", rest);
        return;
    }
}

qn_status qn_steering_read(const json_t *document, const qn_steering_name *names, size_t count,
                           const qn_generation_limits *limits, json_t **fields, qn_generation_fields *out,
                           qn_error *err)
{
    *out = (qn_generation_fields){0};
    *fields = json_object();
    if (*fields == NULL) {
        return qn_fail_memory(err, "request", sizeof(json_t));
    }
    qn_status status = collect(document, names, count, *fields, err);
    if (status == QN_OK) {
        status = qn_generation_fields_read(*fields, limits, out, err);
        if (status != QN_OK) {
            rename_field(names, count, err);
        }
    }
    return status;
}
