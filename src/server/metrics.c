/* GET /metrics: what the engine counts, for Prometheus. GET /load: requests taken and not answered yet, as vLLM's. */
#include "engine/metrics.h"

#include "server/server_internal.h"

void qn_handle_metrics(void *context, const qn_http_request *request, qn_http_reply *reply)
{
    (void)request;
    const qn_server *server = context;
    reply->status = 200;
    reply->content_type = "text/plain; version=0.0.4; charset=utf-8";
    qn_metrics_write(qn_engine_metrics(server->engine), server->options.model_names[0], &reply->body);
}

void qn_handle_load(void *context, const qn_http_request *request, qn_http_reply *reply)
{
    (void)request;
    const qn_server *server = context;
    qn_engine_load load = qn_engine_get_load(server->engine);
    reply->status = 200;
    reply->content_type = "application/json";
    qn_buffer_format(&reply->body, "{\"server_load\":%zu,\"running\":%zu,\"waiting\":%zu}", load.running + load.waiting,
                     load.running, load.waiting);
}
