/* GET /health: 200 while requests are taken, 503 while draining, so that balancers look elsewhere. GET and POST
 * /ping: the same, for SageMaker. GET /version. */
#include "server/server_internal.h"

void qn_handle_health(void *context, const qn_http_request *request, qn_http_reply *reply)
{
    (void)request;
    if (qn_server_draining(context)) {
        qn_error err;
        qn_fail(&err, QN_RESOURCE, "server: stopping: use another one");
        qn_reply_api_error(reply, (qn_api_error){.status = 503, .code = "stopping"}, &err);
        return;
    }
    reply->status = 200;
    reply->content_type = "application/json";
    qn_buffer_text(&reply->body, "{\"status\":\"ok\"}");
}

void qn_handle_ping(void *context, const qn_http_request *request, qn_http_reply *reply)
{
    qn_handle_health(context, request, reply);
}

void qn_handle_version(void *context, const qn_http_request *request, qn_http_reply *reply)
{
    (void)context;
    (void)request;
    reply->status = 200;
    reply->content_type = "application/json";
    qn_buffer_text(&reply->body, "{\"version\":\"" QUERN_VERSION "\"}");
}
