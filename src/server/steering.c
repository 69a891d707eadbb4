#include "server/steering.h"

#include <string.h>

static const qn_steering_name own_names[] = {
    {"min_p", "min_p"},
    {"seed", "seed"},
    {"min_tokens", "min_tokens"},
    {"ignore_eos", "ignore_eos"},
    {"stop_token_ids", "stop_token_ids"},
    {"presence_penalty", "presence_penalty"},
    {"frequency_penalty", "frequency_penalty"},
    {"repetition_penalty", "repetition_penalty"},
    {"logit_bias", "logit_bias"},
    {"priority", "priority"},
    {"cache_salt", "cache_salt"},
    {"timeout", "timeout"},
    {"thinking_token_budget", "thinking_token_budget"},
};

static qn_status collect(const json_t *document, const qn_steering_name *names, size_t count, json_t *fields,
                         qn_error *err)
{
    for (size_t i = 0; i < count; i++) {
        json_t *value = json_object_get(document, names[i].name);
        if (value != NULL && json_object_set(fields, names[i].known, value) != 0) {
            return qn_fail_memory(err, "request", sizeof(json_t));
        }
    }
    return QN_OK;
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
    qn_status status = collect(document, own_names, sizeof own_names / sizeof own_names[0], *fields, err);
    if (status == QN_OK) {
        status = collect(document, names, count, *fields, err);
    }
    if (status == QN_OK) {
        status = qn_generation_fields_read(*fields, limits, out, err);
        if (status != QN_OK) {
            rename_field(names, count, err);
        }
    }
    return status;
}
