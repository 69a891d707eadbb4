#include "server/anthropic_error.h"

#include <string.h>

static const char *type_of(unsigned status)
{
    static const struct {
        unsigned status;
        const char *type;
    } types[] = {
        {401, "authentication_error"}, {403, "permission_error"}, {404, "not_found_error"},  {413, "request_too_large"},
        {429, "rate_limit_error"},     {503, "overloaded_error"}, {529, "overloaded_error"}, {504, "timeout_error"},
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (types[i].status == status) {
            return types[i].type;
        }
    }
    return status >= 500 ? "api_error" : "invalid_request_error";
}

void qn_anthropic_error_write(const qn_api_error *error, const qn_error *err, qn_buffer *out)
{
    qn_buffer_format(out, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":", type_of(error->status));
    qn_buffer_json_string(out, err->message, strlen(err->message));
    qn_buffer_text(out, "}}");
}

bool qn_anthropic_path(const char *path)
{
    static const char root[] = "/v1/messages";
    size_t bytes = strlen(root);
    return strncmp(path, root, bytes) == 0 && (path[bytes] == '\0' || path[bytes] == '/');
}
