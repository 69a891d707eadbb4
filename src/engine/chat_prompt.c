/* A conversation to prompt ids: the template renders it, the tokenizer encodes it, and the spans that the template
 * keeps track of see to it that what a client wrote stays text. */
#include "engine/engine_internal.h"
#include "text/chat_continue.h"

static qn_status render(const qn_engine *engine, const json_t *messages, const json_t *tools, const json_t *kwargs,
                        qn_prompt_end end, qn_buffer *text, qn_span_list *spans, qn_error *err)
{
    qn_status status = qn_chat_render(engine->chat, messages, tools, kwargs, end == QN_PROMPT_OPENS_MESSAGE, text,
                                      spans, err);
    return status == QN_OK && end == QN_PROMPT_CONTINUES ? qn_chat_cut_after_final(messages, text, spans, err) : status;
}

qn_status qn_engine_chat_prompt_ending(const qn_engine *engine, const json_t *messages, const json_t *tools,
                                       const json_t *kwargs, qn_prompt_end end, qn_tokens *out, qn_error *err)
{
    qn_buffer text = {0};
    qn_span_list spans = {0};
    if (engine->chat == NULL) {
        return qn_fail(err, QN_INTERNAL, "chat: the engine was opened without a template");
    }
    qn_status status = render(engine, messages, tools, kwargs, end, &text, &spans, err);
    if (status == QN_OK) {
        size_t span_count = engine->trust_content_tokens ? 0 : spans.count;
        status = qn_tokenizer_encode(engine->tokenizer, qn_buffer_string(&text), text.size, spans.items, span_count,
                                     out, err);
    }
    qn_span_list_free(&spans);
    qn_buffer_free(&text);
    return status;
}

qn_status qn_engine_chat_prompt(const qn_engine *engine, const json_t *messages, const json_t *tools,
                                const json_t *kwargs, qn_tokens *out, qn_error *err)
{
    return qn_engine_chat_prompt_ending(engine, messages, tools, kwargs, QN_PROMPT_OPENS_MESSAGE, out, err);
}

bool qn_engine_opens_reasoning(const qn_engine *engine, const int32_t *prompt_ids, size_t count)
{
    while (count > 0) {
        int32_t id = prompt_ids[--count];
        if (id == engine->think_begin || id == engine->think_end) {
            return id == engine->think_begin;
        }
    }
    return false;
}
