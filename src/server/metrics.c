/* GET /metrics: what the engine counts, for Prometheus. GET /load: requests taken and not answered yet, as vLLM's. */
#include "engine/metrics.h"

#include <inttypes.h>

#include "server/server_internal.h"

static void write_number(qn_buffer *out, const char *name, const char *type, const char *help, uint64_t value)
{
    qn_buffer_format(out, "# HELP %s %s.\n# TYPE %s %s\n%s %" PRIu64 "\n", name, help, name, type, name, value);
}

static void write_responses(qn_response_store *store, qn_buffer *out)
{
    qn_response_store_counts counts = qn_response_store_count(store);
    write_number(out, "quern:responses_stored", "gauge", "Responses that are kept", counts.count);
    write_number(out, "quern:responses_stored_bytes", "gauge", "Memory that they take", counts.bytes);
    write_number(out, "quern:responses_store_limit_bytes", "gauge", "The most that they may take", counts.limit_bytes);
    write_number(out, "quern:responses_evicted_total", "counter", "Responses that gave way to newer ones",
                 counts.evicted);
    write_number(out, "quern:responses_not_stored_total", "counter", "Responses that found no room", counts.refused);
}

void qn_handle_metrics(void *context, const qn_http_request *request, qn_http_reply *reply)
{
    (void)request;
    const qn_server *server = context;
    reply->status = 200;
    reply->content_type = "text/plain; version=0.0.4; charset=utf-8";
    qn_metrics_write(qn_engine_metrics(server->engine), server->options.model_names[0], &reply->body);
    if (server->responses != NULL) {
        write_responses(server->responses, &reply->body);
    }
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
