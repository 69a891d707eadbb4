/* room: server */
/* covers: src/server/openai_chat.c src/server/chat_messages.c src/server/request_body.c src/server/request_fields.c */
/* max_len: 8192 */
/* The body of a chat request. (Want of memory is the unit test's: jansson's lexer asserts when its buffer can't grow in
 * the middle of a number or a bare word.) */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/json.h"
#include "server/openai_chat.h"

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
    assert(request->sampling.top_p > 0 && request->sampling.top_p <= 1);
    assert(request->sampling.temperature >= 0 && request->sampling.temperature <= 2);
    assert(request->stop_count <= QN_STOP_MAX_STRINGS);
    for (size_t i = 0; i < request->stop_count; i++) {
        assert(request->stop[i][0] != '\0');
    }
    for (size_t i = 0; i < json_array_size(request->messages); i++) {
        assert(json_is_string(json_object_get(json_array_get(request->messages, i), "content")));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const qn_chat_defaults defaults = {.sampling = {.temperature = 1, .top_p = 1, .top_k = -1}};
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
