#include "server/completion_writer.h"

#include <string.h>

#include "base/memory.h"
#include "server/logprobs_json.h"
#include "server/logprobs_legacy.h"
#include "server/openai_parts.h"
#include "server/sse.h"
#include "text/detokenizer.h"

typedef struct completion_writer {
    qn_openai_head head;
    int logprobs; /* -1: not asked for */
    bool tells_prompt_logprobs, echo, with_ids;
    size_t prompt_top; /* of prompt logprobs */
    struct progress {
        bool begun;        /* the prompt was told */
        size_t characters; /* of the text so far */
    } * choices;           /* of a stream */
    qn_buffer scratch;     /* one chunk's JSON */
} completion_writer;

qn_status qn_completion_writer_new(const qn_server *server, const qn_completion_request *request,
                                   const char *request_id, void **out, qn_error *err)
{
    completion_writer *w = qn_alloc_zero(1, sizeof *w);
    size_t count = request->prompt_count * request->generation.n;
    struct progress *choices = qn_alloc_zero(count, sizeof *choices);
    if (w == NULL || choices == NULL) {
        qn_free(w);
        qn_free(choices);
        return qn_fail_memory(err, "request", sizeof *w + count * sizeof *choices);
    }
    w->choices = choices;
    w->head.model = server->options.model_names[0];
    w->head.prompt_details = server->options.prompt_details;
    w->head.include_usage = request->streaming.include_usage;
    w->head.continuous_usage = request->streaming.continuous_usage;
    qn_openai_head_start(&w->head, "cmpl-", request_id);
    w->logprobs = request->logprobs;
    w->tells_prompt_logprobs = request->generation.prompt_logprobs >= 0;
    w->prompt_top = w->tells_prompt_logprobs ? (size_t)request->generation.prompt_logprobs : 0;
    w->echo = request->echo;
    w->with_ids = request->return_token_ids;
    *out = w;
    return QN_OK;
}

static void free_writer(void *writer)
{
    completion_writer *w = writer;
    qn_buffer_free(&w->scratch);
    qn_free(w->choices);
    qn_free(w);
}

/* The prompt as text; ids that the tokenizer does not have are none. */
static void add_prompt_text(const qn_answer *answer, size_t prompt, qn_buffer *out)
{
    const qn_tokenizer *tokenizer = qn_answer_tokenizer(answer);
    const qn_tokens *tokens = qn_answer_prompt(answer, prompt);
    qn_detokenizer detokenizer;
    qn_error err;
    qn_detokenizer_start(&detokenizer, tokenizer, false);
    for (size_t i = 0; i < tokens->count; i++) {
        if ((size_t)tokens->ids[i] < qn_tokenizer_size(tokenizer)) {
            qn_detokenizer_feed(&detokenizer, &tokens->ids[i], 1, out, &err);
        }
    }
    qn_detokenizer_flush(&detokenizer, out, &err);
}

static void add_prompt_logprobs(const completion_writer *w, const qn_answer *answer, size_t prompt,
                                qn_legacy_logprobs *lists, size_t *characters)
{
    const qn_tokenizer *tokenizer = qn_answer_tokenizer(answer);
    qn_stream_tokens told = qn_answer_prompt_logprobs(answer, prompt);
    qn_legacy_logprobs_add_first(lists, tokenizer, qn_answer_prompt(answer, prompt)->ids[0], characters);
    qn_legacy_logprobs_add(lists, tokenizer, told.logprobs, told.count, w->prompt_top, false, characters);
}

static void write_logprobs(const completion_writer *w, const qn_answer *answer, const qn_answer_choice *choice,
                           bool with_prompt, size_t *characters, qn_buffer *out)
{
    qn_buffer_text(out, ",\"logprobs\":");
    if (w->logprobs < 0) {
        qn_buffer_text(out, "null");
        return;
    }
    qn_legacy_logprobs lists = {0};
    if (with_prompt) {
        add_prompt_logprobs(w, answer, choice->prompt, &lists, characters);
    }
    if (choice->tokens.logprobs != NULL) {
        qn_legacy_logprobs_add(&lists, qn_answer_tokenizer(answer), choice->tokens.logprobs, choice->tokens.count,
                               (size_t)w->logprobs, true, characters);
    }
    qn_legacy_logprobs_write(&lists, out);
    qn_legacy_logprobs_free(&lists);
}

/* A choice up to its logprobs and ids: all of it, or what a take brought. */
static void write_choice(const completion_writer *w, const qn_answer *answer, const qn_answer_choice *choice,
                         struct progress *progress, qn_buffer *out)
{
    bool begins = !progress->begun;
    qn_buffer text = {0};
    progress->begun = true;
    if (w->echo && begins) {
        add_prompt_text(answer, choice->prompt, &text);
    }
    for (size_t i = 0; i < choice->part_count; i++) { /* raw text: all of it is content */
        qn_buffer_append(&text, choice->parts[i].text, choice->parts[i].bytes);
    }
    qn_buffer_format(out, "{\"index\":%zu,\"text\":", choice->index);
    qn_buffer_json_string(out, qn_buffer_string(&text), text.size);
    out->failed = out->failed || text.failed;
    qn_buffer_free(&text);
    write_logprobs(w, answer, choice, w->echo && begins, &progress->characters, out);
    if (w->with_ids && begins) {
        const qn_tokens *prompt = qn_answer_prompt(answer, choice->prompt);
        qn_openai_write_ids(out, "prompt_token_ids", prompt->ids, prompt->count);
    }
    if (w->with_ids) {
        qn_openai_write_ids(out, "token_ids", choice->tokens.ids, choice->tokens.count);
    }
}

/* ---- a stream of chunks ---- */

/* There is nothing to tell yet, but that the request was taken. */
static void begin(void *writer, const qn_answer *answer, qn_buffer *out)
{
    (void)writer;
    (void)answer;
    qn_sse_comment(out, "waiting");
}

static void news(void *writer, const qn_answer *answer, const qn_answer_choice *choice, qn_buffer *out)
{
    completion_writer *w = writer;
    struct progress *progress = &w->choices[choice->index];
    bool tells_tokens = choice->tokens.count > 0 && (w->logprobs >= 0 || w->with_ids);
    if (choice->part_count == 0 && !choice->over && !tells_tokens && !(w->echo && !progress->begun)) {
        return;
    }
    const qn_answer_totals totals = qn_answer_totals_of(answer, choice);
    qn_openai_write_head(&w->scratch, &w->head, "text_completion");
    qn_buffer_text(&w->scratch, ",\"choices\":[");
    write_choice(w, answer, choice, progress, &w->scratch);
    if (choice->over) {
        qn_openai_write_finish(&w->scratch, &choice->result, false);
        qn_buffer_text(&w->scratch, "}]");
        qn_openai_write_timings(&w->scratch, &totals);
    } else {
        qn_buffer_text(&w->scratch, ",\"finish_reason\":null,\"stop_reason\":null}]");
    }
    qn_openai_write_chunk_usage(&w->scratch, &w->head, &totals);
    qn_buffer_char(&w->scratch, '}');
    qn_openai_send(&w->scratch, out);
}

static void end(void *writer, const qn_answer *answer, qn_buffer *out)
{
    completion_writer *w = writer;
    if (w->head.include_usage) {
        qn_openai_write_head(&w->scratch, &w->head, "text_completion");
        qn_buffer_text(&w->scratch, ",\"choices\":[]");
        qn_openai_write_usage(&w->scratch, &w->head, qn_answer_totals_of_all(answer));
        qn_buffer_char(&w->scratch, '}');
        qn_openai_send(&w->scratch, out);
    }
    qn_openai_send_done(out);
}

static void fail(void *writer, const qn_api_error *error, const qn_error *err, qn_buffer *out)
{
    completion_writer *w = writer;
    qn_openai_send_failure(error, err, &w->scratch, out);
}

/* ---- one body ---- */

static void body(void *writer, const qn_answer *answer, qn_buffer *out)
{
    const completion_writer *w = writer;
    qn_openai_write_head(out, &w->head, "text_completion");
    qn_buffer_text(out, ",\"choices\":[");
    for (size_t i = 0; i < qn_answer_choice_count(answer); i++) {
        const qn_answer_choice choice = qn_answer_choice_at(answer, i);
        struct progress progress = {.begun = false};
        qn_buffer_text(out, i > 0 ? "," : "");
        write_choice(w, answer, &choice, &progress, out);
        if (w->tells_prompt_logprobs) {
            qn_stream_tokens told = qn_answer_prompt_logprobs(answer, choice.prompt);
            qn_buffer_text(out, ",\"prompt_logprobs\":");
            qn_logprobs_write_prompt(out, qn_answer_tokenizer(answer), told.logprobs, told.ranks, told.count,
                                     w->prompt_top);
        }
        qn_openai_write_finish(out, &choice.result, false);
        qn_buffer_char(out, '}');
    }
    qn_buffer_char(out, ']');
    qn_openai_write_usage(out, &w->head, qn_answer_totals_of_all(answer));
    qn_openai_write_timings(out, qn_answer_totals_of_all(answer));
    qn_buffer_char(out, '}');
}

const qn_answer_api qn_completion_api = {
    .write_error = qn_api_error_write,
    .body = body,
    .begin = begin,
    .news = news,
    .end = end,
    .fail = fail,
    .free = free_writer,
};
