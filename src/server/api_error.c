#include "server/api_error.h"

#include <string.h>

qn_api_error qn_api_error_of(const qn_error *err)
{
    switch (err->status) {
    case QN_USAGE:
    case QN_BAD_INPUT:
        return (qn_api_error){.status = 400};
    case QN_RESOURCE:
        return (qn_api_error){.status = 503, .code = "overloaded"};
    case QN_CANCELLED:
        if (strcmp(err->field, "timeout") == 0) {
            return (qn_api_error){.status = 504, .code = "timeout"};
        }
        return (qn_api_error){.status = 503, .code = "stopping"};
    default:
        return (qn_api_error){.status = 500, .code = "internal_error"};
    }
}

/* OpenAI's words; "requests" is what there are too many of. */
static const char *type_of(unsigned status)
{
    return status >= 500 ? "server_error" : status == 429 ? "requests" : "invalid_request_error";
}

static void write_optional(qn_buffer *out, const char *text)
{
    if (text == NULL || text[0] == '\0') {
        qn_buffer_text(out, "null");
    } else {
        qn_buffer_json_string(out, text, strlen(text));
    }
}

void qn_api_error_write(const qn_api_error *error, const qn_error *err, qn_buffer *out)
{
    qn_buffer_text(out, "{\"error\":{\"message\":");
    qn_buffer_json_string(out, err->message, strlen(err->message));
    qn_buffer_format(out, ",\"type\":\"%s\",\"param\":", type_of(error->status));
    write_optional(out, err->field);
    qn_buffer_text(out, ",\"code\":");
    write_optional(out, error->code);
    qn_buffer_text(out, "}}");
}
