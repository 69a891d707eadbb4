/* A conversation to prompt ids: the template renders it, the tokenizer encodes it, and the spans that the template
 * keeps track of see to it that what a client wrote stays text. */
#include "engine/engine_internal.h"

qn_status qn_engine_chat_prompt(const qn_engine *engine, const json_t *messages, const json_t *tools,
                                const json_t *kwargs, qn_tokens *out, qn_error *err)
{
    qn_buffer text = {0};
    qn_span_list spans = {0};
    if (engine->chat == NULL) {
        return qn_fail(err, QN_INTERNAL, "chat: the engine was opened without text");
    }
    bool trusted = engine->trust_content_tokens;
    qn_status status = qn_chat_render(engine->chat, messages, tools, kwargs, true, &text, trusted ? NULL : &spans, err);
    if (status == QN_OK) {
        status = qn_tokenizer_encode(engine->tokenizer, qn_buffer_string(&text), text.size, spans.items, spans.count,
                                     out, err);
    }
    qn_span_list_free(&spans);
    qn_buffer_free(&text);
    return status;
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
