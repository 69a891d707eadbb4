/* GET /v1/models and /v1/models/ID: the served names, each with the context that the engine has room for. */
#include <inttypes.h>
#include <string.h>

#include "server/server_internal.h"

static void write_model(const qn_server *server, const char *name, qn_buffer *out)
{
    qn_buffer_text(out, "{\"id\":");
    qn_buffer_json_string(out, name, strlen(name));
    qn_buffer_format(out, ",\"object\":\"model\",\"created\":%" PRId64 ",\"owned_by\":\"quern\",\"max_model_len\":%zu}",
                     server->started_s, qn_engine_max_model_len(server->engine));
}

void qn_handle_models(void *context, const qn_http_request *request, qn_http_reply *reply)
{
    (void)request;
    const qn_server *server = context;
    reply->status = 200;
    reply->content_type = "application/json";
    qn_buffer_text(&reply->body, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < server->options.model_name_count; i++) {
        qn_buffer_text(&reply->body, i > 0 ? "," : "");
        write_model(server, server->options.model_names[i], &reply->body);
    }
    qn_buffer_text(&reply->body, "]}");
}

void qn_handle_model(void *context, const qn_http_request *request, qn_http_reply *reply)
{
    const qn_server *server = context;
    if (!qn_server_has_model(server, request->rest)) {
        qn_error err;
        qn_fail_field(&err, QN_USAGE, "model", "model: %.200s is not served here: GET /v1/models tells what is",
                      request->rest);
        qn_reply_api_error(reply, (qn_api_error){.status = 404, .code = "model_not_found"}, &err);
        return;
    }
    reply->status = 200;
    reply->content_type = "application/json";
    write_model(server, request->rest, &reply->body);
}
