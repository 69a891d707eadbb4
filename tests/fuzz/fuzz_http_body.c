/* room: server */
/* clang-format off */
/* covers: src/server/openai_chat.c src/server/openai_completion.c src/server/openai_fields.c src/server/openai_tools.c src/server/generation_fields.c src/server/format_fields.c src/server/chat_messages.c src/server/request_body.c src/server/request_fields.c src/server/responses_input.c src/server/responses_items.c src/server/responses_request.c src/server/anthropic_messages.c src/server/anthropic_request.c src/server/anthropic_tools.c src/server/steering.c */
/* clang-format on */
/* max_len: 2048 */
/* A request's body, whichever endpoint it is sent to: each reads it as its own, and refuses it with a sentence or has a
 * request that keeps to every bound. (Want of memory is the unit tests': jansson's lexer asserts when its buffer can't
 * grow in the middle of a number or a bare word.) */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "server/anthropic_request.h"
#include "server/openai_chat.h"
#include "server/openai_completion.h"
#include "server/responses_input.h"
#include "server/responses_items.h"
#include "server/responses_request.h"

enum { VOCAB_SIZE = 1600 };

static qn_tokenizer *tokenizer;

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    qn_error err;
    qn_json_init();
    require(qn_tokenizer_open("models/quern-tiny", &tokenizer, &err) == QN_OK);
    return 0;
}

static bool accepted(qn_status status, const qn_error *err)
{
    require(status == QN_OK || (status == QN_USAGE && err->message[0] != '\0'));
    return status == QN_OK;
}

static void check_generation(const qn_generation_fields *fields)
{
    qn_error err;
    require(qn_sampling_check(&fields->sampling, &err) == QN_OK);
    require(qn_sampling_check_tokens(&fields->sampling, VOCAB_SIZE, &err) == QN_OK);
    require(fields->sampling.temperature <= 2);
    require(fields->stop_count <= QN_STOP_MAX_STRINGS && fields->stop_token_count <= QN_MAX_STOP_TOKENS);
    for (size_t i = 0; i < fields->stop_count; i++) {
        require(fields->stop[i][0] != '\0');
    }
    require(fields->n >= 1 && fields->n <= QN_REQUEST_MAX_CHOICES);
    require(fields->max_tokens == 0 || fields->min_tokens <= fields->max_tokens);
    require(fields->cache_salt == NULL || fields->cache_salt[0] != '\0');
}

/* What the chat template is given. */
static void check_prompt(const json_t *messages, const json_t *kwargs, const qn_tool_choice *tools)
{
    require(json_array_size(messages) > 0 && json_is_object(kwargs));
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *message = json_array_get(messages, i);
        require(json_is_string(json_object_get(message, "content")) &&
                json_is_string(json_object_get(message, "role")));
    }
    require(tools->demand != QN_TOOLS_CALL || json_array_size(tools->list) > 0);
    qn_tool_list *list = NULL;
    qn_error err;
    if (accepted(qn_tool_choice_tools(tools, &list, &err), &err)) {
        qn_tool_list_free(list);
    }
}

static void read_chat(const char *body, size_t bytes, const qn_chat_defaults *defaults)
{
    qn_chat_request r;
    qn_error err;
    if (accepted(qn_chat_request_parse(body, bytes, defaults, &r, &err), &err)) {
        check_generation(&r.generation);
        check_prompt(r.messages, r.kwargs.values, &r.tools);
        require(r.logprobs >= -1 && r.logprobs <= QN_MAX_LOGPROBS);
        qn_chat_request_free(&r);
    }
}

static void encode_prompts(const qn_completion_request *r)
{
    qn_tokens prompts[QN_REQUEST_MAX_CHOICES] = {{0}};
    qn_error err;
    bool fine = accepted(qn_completion_prompts(r, tokenizer, prompts, &err), &err);
    for (size_t i = 0; i < r->prompt_count; i++) {
        require(!fine || prompts[i].count > 0);
        qn_tokens_free(&prompts[i]);
    }
}

static void read_completion(const char *body, size_t bytes, const qn_chat_defaults *defaults)
{
    qn_completion_request r;
    qn_error err;
    if (accepted(qn_completion_request_parse(body, bytes, &defaults->limits, &r, &err), &err)) {
        check_generation(&r.generation);
        require(r.prompt_count >= 1 && r.prompt_count * (size_t)r.generation.n <= QN_REQUEST_MAX_CHOICES);
        require(r.logprobs >= -1 && r.logprobs <= QN_MAX_LOGPROBS);
        encode_prompts(&r);
        qn_completion_request_free(&r);
    }
}

static json_t *messages_of(const json_t *input)
{
    json_t *messages = json_array();
    qn_unknown_fields unknown = {0};
    qn_error err;
    require(qn_responses_input_translate(NULL, input, messages, &unknown, &err) == QN_OK);
    return messages;
}

/* What is kept of an input says what it said, and is walked item by item. */
static void check_kept(const json_t *input)
{
    qn_buffer out = {0};
    qn_responses_items_write(input, "resp_0123456789abcdef0123456789abcdef", &out);
    const qn_stored_text array = {.text = qn_buffer_string(&out), .bytes = out.size};
    json_t *kept = NULL;
    qn_error err;
    require(qn_responses_items_parse(&array, 1, &kept, &err) == QN_OK);
    qn_stored_text item, id;
    size_t count = 0;
    for (size_t at = 0; qn_responses_items_next(array, &at, &item, &id); count++) {
        require(id.bytes > 0 && item.bytes > id.bytes);
    }
    require(count == json_array_size(kept));
    json_t *sent = messages_of(input), *again = messages_of(kept);
    require(json_equal(sent, again));
    json_decref(again);
    json_decref(sent);
    json_decref(kept);
    qn_buffer_free(&out);
}

static void read_response(const char *body, size_t bytes, const qn_chat_defaults *defaults)
{
    qn_responses_request r;
    qn_error err;
    if (accepted(qn_responses_request_parse(body, bytes, defaults, &r, &err), &err)) {
        check_generation(&r.generation);
        if (!r.needs_store || accepted(qn_responses_request_continue(&r, NULL, NULL, &err), &err)) {
            check_prompt(r.messages, r.kwargs.values, &r.tools);
            check_kept(r.input);
        }
        qn_responses_request_free(&r);
    }
}

static void read_messages(const char *body, size_t bytes, bool counting, const qn_chat_defaults *defaults)
{
    qn_anthropic_request r;
    qn_error err;
    if (accepted(qn_anthropic_request_parse(body, bytes, counting, defaults, &r, &err), &err)) {
        check_generation(&r.generation);
        check_prompt(r.messages, r.kwargs.values, &r.tools);
        require(counting || r.generation.max_tokens > 0);
        qn_anthropic_request_free(&r);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const qn_chat_defaults defaults = {
        .limits = {.sampling = {.temperature = 1, .top_p = 1, .top_k = -1}, .vocab_size = VOCAB_SIZE}};
    const char *body = (const char *)data;
    read_chat(body, size, &defaults);
    read_completion(body, size, &defaults);
    read_response(body, size, &defaults);
    read_messages(body, size, false, &defaults);
    read_messages(body, size, true, &defaults);
    return 0;
}
