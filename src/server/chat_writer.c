#include "server/chat_writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "server/logprobs_json.h"
#include "server/openai_response.h"

typedef struct chat_writer {
    qn_openai_head head;
    int logprobs, prompt_logprobs; /* -1: not asked for */
    bool with_ids, tells_reasoning;
    qn_buffer echo;    /* what each choice's content begins with */
    qn_buffer scratch; /* one chunk's JSON */
    uint64_t salt;     /* of the ids of calls */
    bool *has_calls;   /* [choices] of a stream */
} chat_writer;

enum { CALL_ID_MAX = 64 };

static void free_writer(void *writer)
{
    chat_writer *w = writer;
    qn_buffer_free(&w->scratch);
    qn_buffer_free(&w->echo);
    qn_free(w->has_calls);
    qn_free(w);
}

static void add_echo(const json_t *messages, qn_buffer *out)
{
    const json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    const char *role = json_string_value(json_object_get(last, "role"));
    const json_t *content = json_object_get(last, "content");
    if (role != NULL && strcmp(role, "assistant") == 0 && json_is_string(content)) {
        qn_buffer_append(out, json_string_value(content), json_string_length(content));
    }
}

qn_status qn_chat_writer_new(const qn_server *server, const qn_chat_request *chat, const char *request_id, void **out,
                             qn_error *err)
{
    chat_writer *w = qn_alloc_zero(1, sizeof *w);
    if (w == NULL || (w->has_calls = qn_alloc_zero(chat->generation.n, sizeof *w->has_calls)) == NULL) {
        qn_free(w);
        return qn_fail_memory(err, "request", sizeof *w);
    }
    w->salt = qn_random_seed();
    w->head.model = server->options.model_names[0];
    w->head.prompt_details = server->options.prompt_details;
    w->head.include_usage = chat->include_usage;
    w->head.continuous_usage = chat->continuous_usage;
    qn_openai_head_start(&w->head, "chatcmpl-", request_id);
    w->logprobs = chat->logprobs;
    w->prompt_logprobs = chat->generation.prompt_logprobs;
    w->with_ids = chat->return_token_ids;
    w->tells_reasoning = chat->include_reasoning;
    if (chat->echo) {
        add_echo(chat->messages, &w->echo);
    }
    if (w->echo.failed) {
        size_t bytes = w->echo.size;
        free_writer(w);
        return qn_fail_memory(err, "echo", bytes);
    }
    *out = w;
    return QN_OK;
}

static bool is_told(const chat_writer *w, const qn_output_event *part)
{
    return part->kind != QN_OUTPUT_CALL_END && (w->tells_reasoning || part->kind != QN_OUTPUT_REASONING);
}

static bool is_of_call(const qn_output_event *part)
{
    return part->kind == QN_OUTPUT_CALL || part->kind == QN_OUTPUT_ARGUMENTS;
}

/* Unlike any other of the answer, and hardly like one of another. */
static const char *call_id(const chat_writer *w, size_t choice, size_t call, char id[CALL_ID_MAX])
{
    snprintf(id, CALL_ID_MAX, "call_%016" PRIx64 "%02zx%04zx", w->salt, choice, call);
    return id;
}

/* The elements of logprobs.content; NULL: not asked for. */
static const qn_buffer *write_logprobs(const chat_writer *w, const qn_answer *answer, const qn_stream_tokens *tokens,
                                       qn_buffer *out)
{
    if (w->logprobs < 0) {
        return NULL;
    }
    if (tokens->logprobs != NULL) {
        qn_logprobs_write_content(out, qn_answer_tokenizer(answer), tokens->logprobs, tokens->count,
                                  (size_t)w->logprobs);
    }
    return out;
}

static qn_chat_prompt_part prompt_ids(const chat_writer *w, const qn_answer *answer)
{
    const qn_tokens *prompt = qn_answer_prompt(answer, 0);
    return w->with_ids ? (qn_chat_prompt_part){.ids = prompt->ids, .id_count = prompt->count}
                       : (qn_chat_prompt_part){0};
}

/* ---- a stream of chunks ---- */

static void begin(void *writer, const qn_answer *answer, qn_buffer *out)
{
    chat_writer *w = writer;
    for (size_t i = 0; i < qn_answer_choice_count(answer); i++) {
        const qn_chat_prompt_part prompt = i == 0 ? prompt_ids(w, answer) : (qn_chat_prompt_part){0};
        const qn_answer_choice choice = qn_answer_choice_at(answer, i);
        const qn_answer_totals so_far = qn_answer_totals_of(answer, &choice);
        qn_chat_write_role_chunk(&w->scratch, &w->head, i, &prompt, &so_far);
        qn_openai_send(&w->scratch, out);
        if (w->echo.size > 0) {
            qn_chat_write_text_chunk(&w->scratch, &w->head, i, QN_OUTPUT_CONTENT, w->echo.data, w->echo.size, NULL,
                                     &so_far);
            qn_openai_send(&w->scratch, out);
        }
    }
}

static void write_part(chat_writer *w, size_t index, const qn_output_event *part, const qn_chat_tokens *tokens,
                       const qn_answer_totals *so_far)
{
    if (is_of_call(part)) {
        char id[CALL_ID_MAX];
        w->has_calls[index] = true;
        qn_chat_write_call_chunk(&w->scratch, &w->head, index, part, call_id(w, index, part->call, id), tokens, so_far);
    } else {
        qn_chat_write_text_chunk(&w->scratch, &w->head, index, part->kind, part->text, part->bytes, tokens, so_far);
    }
}

/* Tokens are told once, with the first chunk. */
static void news(void *writer, const qn_answer *answer, const qn_answer_choice *choice, qn_buffer *out)
{
    chat_writer *w = writer;
    qn_buffer logprobs = {0};
    const qn_chat_tokens told = {.logprobs = write_logprobs(w, answer, &choice->tokens, &logprobs),
                                 .ids = choice->tokens.ids,
                                 .id_count = choice->tokens.count,
                                 .with_ids = w->with_ids};
    const qn_answer_totals totals = qn_answer_totals_of(answer, choice);
    const qn_chat_tokens *tokens = choice->tokens.count > 0 ? &told : NULL;
    for (size_t i = 0; i < choice->part_count; i++) {
        const qn_output_event *part = &choice->parts[i];
        if (!is_told(w, part)) {
            continue;
        }
        write_part(w, choice->index, part, tokens, &totals);
        qn_openai_send(&w->scratch, out);
        tokens = NULL;
    }
    if (choice->over) {
        qn_chat_write_finish_chunk(&w->scratch, &w->head, choice->index, &choice->result, w->has_calls[choice->index],
                                   tokens, &totals);
        qn_openai_send(&w->scratch, out);
    } else if (tokens != NULL && (told.logprobs != NULL || told.with_ids)) {
        qn_chat_write_text_chunk(&w->scratch, &w->head, choice->index, QN_OUTPUT_CONTENT, "", 0, tokens, &totals);
        qn_openai_send(&w->scratch, out);
    }
    qn_buffer_free(&logprobs);
}

static void end(void *writer, const qn_answer *answer, qn_buffer *out)
{
    chat_writer *w = writer;
    if (w->head.include_usage) {
        qn_chat_write_usage_chunk(&w->scratch, &w->head, qn_answer_totals_of_all(answer));
        qn_openai_send(&w->scratch, out);
    }
    qn_openai_send_done(out);
}

static void fail(void *writer, const qn_api_error *error, const qn_error *err, qn_buffer *out)
{
    chat_writer *w = writer;
    qn_openai_send_failure(error, err, &w->scratch, out);
}

/* ---- one body ---- */

/* What a finished choice says, as text. */
typedef struct message {
    qn_result result;
    qn_buffer content, reasoning, calls, logprobs;
} message;

/* A call and the arguments that follow it. */
static size_t add_call(const chat_writer *w, const qn_answer_choice *choice, size_t at, qn_buffer *out)
{
    const qn_output_event *call = &choice->parts[at];
    qn_buffer arguments = {0};
    char id[CALL_ID_MAX];
    size_t next = at + 1;
    while (next < choice->part_count && choice->parts[next].kind == QN_OUTPUT_ARGUMENTS) {
        qn_buffer_append(&arguments, choice->parts[next].text, choice->parts[next].bytes);
        next++;
    }
    qn_buffer_text(out, out->size > 0 ? "," : "");
    qn_chat_write_call(out, call_id(w, choice->index, call->call, id), call, &arguments);
    qn_buffer_free(&arguments);
    return next;
}

static qn_chat_choice fill_message(const chat_writer *w, const qn_answer *answer, size_t index, message *m)
{
    qn_answer_choice choice = qn_answer_choice_at(answer, index);
    m->result = choice.result;
    qn_buffer_append(&m->content, qn_buffer_string(&w->echo), w->echo.size);
    size_t at = 0;
    while (at < choice.part_count) {
        const qn_output_event *part = &choice.parts[at];
        if (part->kind == QN_OUTPUT_CALL) {
            at = add_call(w, &choice, at, &m->calls);
            continue;
        }
        if (is_told(w, part)) {
            qn_buffer_append(part->kind == QN_OUTPUT_REASONING ? &m->reasoning : &m->content, part->text, part->bytes);
        }
        at++;
    }
    return (qn_chat_choice){.index = index,
                            .result = &m->result,
                            .content = &m->content,
                            .reasoning = &m->reasoning,
                            .calls = &m->calls,
                            .tokens = {.logprobs = write_logprobs(w, answer, &choice.tokens, &m->logprobs),
                                       .ids = choice.tokens.ids,
                                       .id_count = choice.tokens.count,
                                       .with_ids = w->with_ids}};
}

static void write_messages(const chat_writer *w, const qn_answer *answer, qn_chat_choice *choices, message *messages,
                           qn_buffer *out)
{
    size_t count = qn_answer_choice_count(answer);
    for (size_t i = 0; i < count; i++) {
        choices[i] = fill_message(w, answer, i, &messages[i]);
        out->failed = out->failed || messages[i].content.failed || messages[i].reasoning.failed ||
                      messages[i].calls.failed;
    }
    qn_buffer logprobs = {0};
    qn_chat_prompt_part prompt = prompt_ids(w, answer);
    if (w->prompt_logprobs >= 0) {
        qn_stream_tokens told = qn_answer_prompt_logprobs(answer, 0);
        qn_logprobs_write_prompt(&logprobs, qn_answer_tokenizer(answer), told.logprobs, told.ranks, told.count,
                                 (size_t)w->prompt_logprobs);
        prompt.logprobs = &logprobs;
    }
    qn_chat_write_answer(out, &w->head, choices, count, &prompt, qn_answer_totals_of_all(answer));
    qn_buffer_free(&logprobs);
}

static void body(void *writer, const qn_answer *answer, qn_buffer *out)
{
    size_t count = qn_answer_choice_count(answer);
    qn_chat_choice *choices = qn_alloc_zero(count, sizeof *choices);
    message *messages = qn_alloc_zero(count, sizeof *messages);
    if (choices != NULL && messages != NULL) {
        write_messages(writer, answer, choices, messages, out);
    } else {
        out->failed = true;
    }
    for (size_t i = 0; messages != NULL && i < count; i++) {
        qn_buffer_free(&messages[i].content);
        qn_buffer_free(&messages[i].reasoning);
        qn_buffer_free(&messages[i].calls);
        qn_buffer_free(&messages[i].logprobs);
    }
    qn_free(choices);
    qn_free(messages);
}

const qn_answer_api qn_chat_api = {
    .write_error = qn_api_error_write,
    .body = body,
    .begin = begin,
    .news = news,
    .end = end,
    .fail = fail,
    .free = free_writer,
};
