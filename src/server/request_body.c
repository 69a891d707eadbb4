#include "server/request_body.h"

#include <stdbool.h>

#include "base/json.h"
#include "base/json_wide.h"

/* A value is up to a member's node, its key and an empty container's table; a byte of text becomes a byte of the tree,
 * of the prompt, and four of tokens where each is one. */
enum { VALUE_COST_BYTES = 256, TEXT_COST_BYTES = 6 };

/* Each value stands behind one of these, or is the document. */
static bool opens_value(char c)
{
    return c == '[' || c == '{' || c == ',' || c == ':';
}

size_t qn_request_count_values(const char *text, size_t bytes)
{
    size_t count = 1;
    bool in_string = false;
    for (size_t i = 0; i < bytes; i++) {
        char c = text[i];
        if (in_string) {
            if (c == '\\') {
                i++;
            } else if (c == '"') {
                in_string = false;
            }
        } else if (c == '"') {
            in_string = true;
        } else if (opens_value(c)) {
            count++;
        }
    }
    return count;
}

size_t qn_request_body_cost(const char *body, size_t bytes)
{
    size_t values = 1;
    for (size_t i = 0; i < bytes; i++) {
        values += opens_value(body[i]);
    }
    return bytes * TEXT_COST_BYTES + values * VALUE_COST_BYTES;
}

qn_status qn_request_body_parse(const char *body, size_t bytes, json_t **out, qn_error *err)
{
    if (bytes == 0) {
        return qn_fail(err, QN_USAGE, "body: empty: send a JSON object");
    }
    if (qn_request_count_values(body, bytes) > QN_BODY_MAX_VALUES) {
        return qn_fail(err, QN_USAGE, "body: more than %d JSON values: send a smaller request", QN_BODY_MAX_VALUES);
    }
    json_t *value = NULL;
    qn_status status = qn_json_parse_wide(body, bytes, "body", &value, err);
    if (status == QN_BAD_INPUT) {
        err->status = QN_USAGE;
        return QN_USAGE;
    }
    if (status != QN_OK) {
        return status;
    }
    if (!qn_json_is_object(value)) {
        qn_fail(err, QN_USAGE, "body: %s: send a JSON object", qn_json_type_name(value));
        json_decref(value);
        return QN_USAGE;
    }
    *out = value;
    return QN_OK;
}
