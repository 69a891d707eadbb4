/* room: server */
/* covers: src/server/tokenize.c src/server/request_body.c */
/* max_len: 512 */
/* A body sent to /tokenize and to /detokenize of a server over the shipped model: the answer is 200 or an error of the
 * client's, in JSON either way, and ids of a prompt are that prompt again as text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "server/http_internal.h"
#include "server/server_internal.h"

static qn_server server;

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void ignore_line(void *context, const char *line)
{
    (void)context;
    (void)line;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    static const char *const names[] = {"tiny"};
    const qn_engine_options options = {
        .model_dir = "models/quern-tiny", .threads = 1, .max_model_len = 512, .max_num_seqs = 1, .block_size = 16};
    qn_error err;
    qn_json_init();
    qn_log_set_sink(ignore_line, NULL);
    server.options.model_names = names;
    server.options.model_name_count = 1;
    require(pthread_mutex_init(&server.mutex, NULL) == 0);
    qn_budget_init(&server.body_memory, 64 << 20);
    require(qn_engine_open(&options, &server.engine, &err) == QN_OK);
    return 0;
}

/* The answer, the caller's; *status: that of HTTP. */
static json_t *ask(qn_http_handler handler, const char *body, size_t bytes, unsigned *status)
{
    static char copy[4096];
    require(bytes < sizeof copy);
    memcpy(copy, body, bytes);
    copy[bytes] = '\0';
    qn_http_exchange exchange = {.request_id = "r"};
    const qn_http_request request = {.method = "POST", .body = copy, .body_bytes = bytes, .exchange = &exchange};
    qn_http_reply reply = {0};
    json_t *answer = NULL;
    qn_error err;
    handler(&server, &request, &reply);
    *status = reply.status;
    require(reply.status == 200 || reply.status == 400 || reply.status == 404);
    require(qn_json_parse(qn_buffer_string(&reply.body), reply.body.size, "answer", &answer, &err) == QN_OK);
    require(json_is_object(json_object_get(answer, "error")) == (reply.status != 200));
    qn_buffer_free(&reply.body);
    return answer;
}

/* The prompt of a body whose ids came back. */
static void check_ids(const char *body, size_t bytes, const json_t *ids)
{
    json_t *document = NULL, *again = json_pack("{s:O}", "tokens", ids);
    qn_error err;
    require(qn_json_parse(body, bytes, "body", &document, &err) == QN_OK && again != NULL);
    const json_t *prompt = json_object_get(document, "prompt");
    char text[4000];
    size_t text_bytes = json_dumpb(again, text, sizeof text, JSON_COMPACT);
    if (json_is_string(prompt) && text_bytes <= sizeof text) {
        unsigned status;
        json_t *answer = ask(qn_handle_detokenize, text, text_bytes, &status);
        require(status == 200 && json_equal(json_object_get(answer, "prompt"), prompt));
        json_decref(answer);
    }
    json_decref(again);
    json_decref(document);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned status;
    json_t *answer = ask(qn_handle_tokenize, (const char *)data, size, &status);
    if (status == 200) {
        const json_t *ids = json_object_get(answer, "tokens");
        require(json_is_array(ids) &&
                (json_int_t)json_array_size(ids) == json_integer_value(json_object_get(answer, "count")));
        check_ids((const char *)data, size, ids);
    }
    json_decref(answer);
    answer = ask(qn_handle_detokenize, (const char *)data, size, &status);
    require(status != 200 || json_is_string(json_object_get(answer, "prompt")));
    json_decref(answer);
    return 0;
}
