#include "server/openapi.h"

#include "server/server_internal.h"

void qn_handle_openapi(void *context, const qn_http_request *request, qn_http_reply *reply)
{
    (void)context;
    (void)request;
    reply->status = 200;
    reply->content_type = "application/json";
    qn_buffer_append(&reply->body, qn_openapi_text, qn_openapi_bytes);
}
