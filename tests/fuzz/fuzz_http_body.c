/* room: server */
/* clang-format off */
/* covers: src/server/openai_chat.c src/server/generation_fields.c src/server/chat_messages.c src/server/request_body.c src/server/request_fields.c */
/* clang-format on */
/* max_len: 8192 */
/* The body of a chat request. (Want of memory is the unit test's: jansson's lexer asserts when its buffer can't grow in
 * the middle of a number or a bare word.) */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/json.h"
#include "server/openai_chat.h"

enum { VOCAB_SIZE = 1600 };

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    qn_json_init();
    return 0;
}

static void check(const qn_chat_request *request)
{
    assert(json_array_size(request->messages) > 0);
    assert(json_is_object(request->kwargs));
    const qn_generation_fields *fields = &request->generation;
    qn_error err;
    assert(qn_sampling_check(&fields->sampling, &err) == QN_OK);
    assert(qn_sampling_check_tokens(&fields->sampling, VOCAB_SIZE, &err) == QN_OK);
    assert(fields->sampling.temperature <= 2);
    assert(fields->stop_count <= QN_STOP_MAX_STRINGS && fields->stop_token_count <= QN_MAX_STOP_TOKENS);
    for (size_t i = 0; i < fields->stop_count; i++) {
        assert(fields->stop[i][0] != '\0');
    }
    assert(fields->n >= 1 && fields->n <= QN_REQUEST_MAX_CHOICES);
    assert(fields->max_tokens == 0 || fields->min_tokens <= fields->max_tokens);
    assert(request->logprobs >= -1 && request->logprobs <= QN_MAX_LOGPROBS);
    assert(fields->cache_salt == NULL || fields->cache_salt[0] != '\0');
    for (size_t i = 0; i < json_array_size(request->messages); i++) {
        assert(json_is_string(json_object_get(json_array_get(request->messages, i), "content")));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const qn_chat_defaults defaults = {
        .limits = {.sampling = {.temperature = 1, .top_p = 1, .top_k = -1}, .vocab_size = VOCAB_SIZE}};
    qn_chat_request request;
    qn_error err;
    qn_status status = qn_chat_request_parse((const char *)data, size, &defaults, &request, &err);
    if (status == QN_OK) {
        check(&request);
        qn_chat_request_free(&request);
    } else {
        assert(status == QN_USAGE);
        assert(err.message[0] != '\0');
    }
    return 0;
}
