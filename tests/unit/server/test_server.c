/* A whole server in this process, over the shipped model, so that allocations can be made to fail under it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/fault.h"
#include "base/json.h"
#include "base/log.h"
#include "server/server.h"

enum { PATIENCE_MS = 60000 };

typedef struct rig {
    qn_engine *engine;
    qn_server *server;
    uint16_t port;
} rig;

static const char *const names[] = {"tiny"};

static void ignore_line(void *context, const char *line)
{
    (void)context;
    (void)line;
}

static int start(void **state)
{
    static rig r;
    qn_error err;
    qn_http_socket socket;
    qn_log_set_sink(ignore_line, NULL);
    const qn_engine_options engine = {.model_dir = "models/quern-tiny",
                                      .threads = 1,
                                      .max_model_len = 512,
                                      .max_num_seqs = 3,
                                      .block_size = 16,
                                      .max_queue = 8,
                                      .prefix_caching = true};
    const qn_server_options options = {
        .model_names = names, .model_name_count = 1, .max_num_seqs = 3, .max_queue = 8, .patience_s = 60};
    assert_int_equal(qn_engine_open(&engine, &r.engine, &err), QN_OK);
    assert_int_equal(qn_http_bind("127.0.0.1", 0, &socket, &err), QN_OK);
    r.port = socket.port;
    assert_int_equal(qn_server_start(&options, r.engine, &socket, &r.server, &err), QN_OK);
    *state = &r;
    return 0;
}

static int stop(void **state)
{
    rig *r = *state;
    qn_server_stop(r->server);
    qn_engine_close(r->engine);
    qn_log_set_sink(NULL, NULL);
    return 0;
}

static int connect_to(const rig *r)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(r->port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* A body with a prompt is for /v1/completions. */
static void send_request(int fd, const char *body)
{
    const char *path = strstr(body, "\"prompt\":") != NULL ? "/v1/completions" : "/v1/chat/completions";
    char head[256];
    int bytes = snprintf(head, sizeof head,
                         "POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n", path,
                         strlen(body));
    assert_int_equal(send(fd, head, (size_t)bytes, MSG_NOSIGNAL), bytes);
    send(fd, body, strlen(body), MSG_NOSIGNAL); /* may be refused before it is read */
}

/* Everything up to the end of the connection, which must come. Not by qn_alloc: faults are armed. */
static void read_answer(int fd, char *out, size_t capacity)
{
    size_t size = 0;
    for (;;) {
        struct pollfd readable = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&readable, 1, PATIENCE_MS), 1);
        char piece[4096];
        ssize_t got = recv(fd, piece, sizeof piece, 0);
        if (got <= 0) {
            break;
        }
        size_t kept = (size_t)got < capacity - 1 - size ? (size_t)got : capacity - 1 - size;
        memcpy(out + size, piece, kept);
        size += kept;
    }
    out[size] = '\0';
    close(fd);
}

static void ask(const rig *r, const char *body, char *out, size_t capacity)
{
    int fd = connect_to(r);
    send_request(fd, body);
    read_answer(fd, out, capacity);
}

#define MESSAGES "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]"
#define FIELDS                                                                                                     \
    "\"max_tokens\":3,\"temperature\":1,\"seed\":3,\"n\":2,\"logprobs\":true,\"top_logprobs\":2,"                  \
    "\"return_token_ids\":true,\"stop\":[\"~~~\"],\"logit_bias\":{\"7\":1},\"stop_token_ids\":[9],\"cache_salt\":" \
    "\"s\","                                                                                                       \
    "\"presence_penalty\":1"

#define FIELDS_OF_COMPLETIONS "\"max_tokens\":2,\"temperature\":1,\"seed\":3,\"return_token_ids\":true"

static const char whole[] = "{" MESSAGES "," FIELDS ",\"prompt_logprobs\":1}";
static const char streamed[] = "{" MESSAGES "," FIELDS ",\"stream\":true}";

static const char echoed[] = "{\"prompt\":[\"Hi\",\"Ho\"],\"echo\":true,\"logprobs\":1," FIELDS_OF_COMPLETIONS "}";

static char answer[1 << 18], expected[1 << 18];

/* What of the body does not change: the choices. */
static const char *choices_of(char *text)
{
    char *begin = strstr(text, "\"choices\":"), *end = begin != NULL ? strstr(begin, ",\"usage\"") : NULL;
    assert_non_null(end);
    *end = '\0';
    return begin;
}

static void test_answers_before_and_after_are_the_same(void **state)
{
    const rig *r = *state;
    ask(r, whole, expected, sizeof expected);
    ask(r, whole, answer, sizeof answer);
    assert_string_equal(choices_of(answer), choices_of(expected));
}

/* What a failure left in the engine is gone within a step. */
static void wait_until_idle(const rig *r)
{
    qn_engine_load load = qn_engine_get_load(r->engine);
    for (int ms = 0; load.running + load.waiting > 0; ms++) {
        assert_true(ms < PATIENCE_MS);
        poll(NULL, 0, 1);
        load = qn_engine_get_load(r->engine);
    }
}

/* Whichever allocation fails, of the handler, the engine or libraries that allocate through it: the connection ends
 * with an answer or without one, and the server goes on. */
static void walk_faults(const rig *r, const char *body)
{
    long answered = 0, unanswered = 0;
    for (long n = 1;; n++) {
        int fd = connect_to(r);
        qn_fault_arm(QN_FAULT_ALLOC, n);
        send_request(fd, body);
        read_answer(fd, answer, sizeof answer);
        bool hit = qn_fault_seen(QN_FAULT_ALLOC) >= n;
        qn_fault_disarm();
        wait_until_idle(r);
        if (strncmp(answer, "HTTP/1.1 ", 9) == 0) {
            answered++;
            int status = 0;
            assert_int_equal(sscanf(answer, "HTTP/1.1 %d", &status), 1);
            assert_true(status == 200 || status == 500 || status == 503);
        } else {
            unanswered++;
        }
        if (!hit) {
            break;
        }
    }
    assert_true(answered > unanswered);
    ask(r, whole, answer, sizeof answer);
    ask(r, whole, expected, sizeof expected);
    assert_string_equal(choices_of(answer), choices_of(expected));
}

static void test_out_of_memory_in_a_whole_answer(void **state)
{
    walk_faults(*state, whole);
}

static void test_out_of_memory_in_a_stream(void **state)
{
    walk_faults(*state, streamed);
}

static void test_out_of_memory_in_a_completion(void **state)
{
    walk_faults(*state, echoed);
}

int main(void)
{
    qn_json_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_before_and_after_are_the_same),
        cmocka_unit_test(test_out_of_memory_in_a_whole_answer),
        cmocka_unit_test(test_out_of_memory_in_a_stream),
        cmocka_unit_test(test_out_of_memory_in_a_completion),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
