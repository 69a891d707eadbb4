/* GET /metrics: what the engine counts, for Prometheus. GET /load: requests taken and not answered yet, as vLLM's. */
#include "engine/metrics.h"

#include "server/server_internal.h"

static void write_responses(const qn_server *server, qn_buffer *out)
{
    const qn_response_store_counts counts = qn_response_store_count(server->responses);
    const qn_metrics_number numbers[] = {
        {"quern:responses_stored", "gauge", "Responses that are kept", counts.count},
        {"quern:responses_stored_bytes", "gauge", "Memory that they take", counts.bytes},
        {"quern:responses_store_limit_bytes", "gauge", "The most that they may take", counts.limit_bytes},
        {"quern:responses_evicted_total", "counter", "Responses that gave way to newer ones", counts.evicted},
        {"quern:responses_not_stored_total", "counter", "Responses that found no room", counts.refused},
    };
    qn_metrics_write_numbers(numbers, sizeof numbers / sizeof *numbers, server->options.model_names[0], out);
}

static void write_grammars(const qn_server *server, qn_buffer *out)
{
    const qn_grammar_counts counts = qn_grammar_cache_counts(server->grammars);
    const qn_metrics_number numbers[] = {
        {"quern:grammars_kept", "gauge", "Grammars of requests that are kept", counts.kept},
        {"quern:grammar_mask_bytes", "gauge", "Memory that their token masks take", counts.bytes},
        {"quern:grammar_hits_total", "counter", "Answers whose grammar was there already", counts.hits},
        {"quern:grammars_compiled_total", "counter", "Grammars compiled", counts.compiled},
    };
    qn_metrics_write_numbers(numbers, sizeof numbers / sizeof *numbers, server->options.model_names[0], out);
}

static void write_experts(const qn_server *server, const qn_expert_cache *cache, qn_buffer *out)
{
    const qn_expert_cache_figures *f = qn_expert_cache_figures_of(cache);
    const qn_metrics_number numbers[] = {
        {"quern:expert_cache_room", "gauge", "Routed experts that memory holds", qn_expert_cache_room(cache)},
        {"quern:expert_cache_bytes", "gauge", "Memory that they take", qn_expert_cache_memory(cache)},
        {"quern:expert_cache_hits_total", "counter", "Experts that were in memory when a step needed them", f->hits},
        {"quern:expert_cache_late_total", "counter", "Experts whose read ahead of time was still under way", f->late},
        {"quern:expert_cache_misses_total", "counter", "Experts that a step had to read", f->misses},
        {"quern:expert_cache_ahead_total", "counter", "Experts read ahead of time", f->ahead},
        {"quern:expert_cache_ahead_used_total", "counter", "Those of them that a step then needed", f->ahead_used},
        {"quern:expert_cache_read_bytes_total", "counter", "Bytes of experts read from the disk", f->bytes_read},
        {"quern:expert_cache_wait_ns_total", "counter", "Nanoseconds that steps waited for experts", f->waited_ns},
    };
    qn_metrics_write_numbers(numbers, sizeof numbers / sizeof *numbers, server->options.model_names[0], out);
}

static void write_load(const qn_server *server, qn_buffer *out)
{
    const qn_residence_state load = qn_engine_load_state(server->engine);
    const qn_metrics_number numbers[] = {
        {"quern:weights_to_load_bytes", "gauge", "Weights that are to lie in memory of their own; 0: mapped",
         load.total_bytes},
        {"quern:weights_loaded_bytes", "gauge", "Those that were read by now", load.loaded_bytes},
    };
    qn_metrics_write_numbers(numbers, sizeof numbers / sizeof *numbers, server->options.model_names[0], out);
}

void qn_handle_metrics(void *context, const qn_http_request *request, qn_http_reply *reply)
{
    (void)request;
    const qn_server *server = context;
    reply->status = 200;
    reply->content_type = "text/plain; version=0.0.4; charset=utf-8";
    qn_metrics_write(qn_engine_metrics(server->engine), server->options.model_names[0], &reply->body);
    write_load(server, &reply->body);
    write_grammars(server, &reply->body);
    if (qn_engine_expert_cache(server->engine) != NULL) {
        write_experts(server, qn_engine_expert_cache(server->engine), &reply->body);
    }
    if (server->responses != NULL) {
        write_responses(server, &reply->body);
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
