/* One answer in the making, whichever API asked for it: a stream of the engine for each of its choices, read on the
 * connection's thread into one body or into server-sent events.
 *
 * It knows no API. An endpoint says how things are told with a table of functions (qn_answer_api) and a writer, the
 * state that they share: the answer's id, which fields were asked for. All of an answer is called from one thread at a
 * time, first the handler's, then the stream's, which are the same connection's.
 *
 * Whoever waits here waits for news and for the client at once: when the client hangs up, the streams are closed, and
 * the engine drops all choices within a step. A stream that is silent for 10 seconds gets a comment, which clients
 * skip, or what its API has for that. */
#ifndef QN_SERVER_ANSWER_H
#define QN_SERVER_ANSWER_H

#include "engine/stream.h"
#include "server/answer_totals.h"
#include "server/api_error.h"
#include "server/generation_fields.h"
#include "server/http.h"
#include "server/server_internal.h"
#include "text/answer_grammar.h"
#include "text/tokenizer.h"
#include "text/tool_list.h"

typedef struct qn_answer qn_answer;

/* A choice as a writer sees it: in a stream what the last take brought, for a body all of it. Valid during the call. */
typedef struct qn_answer_choice {
    size_t index;                 /* prompt * n + which of its n */
    size_t prompt;                /* which of the prompts */
    bool over;                    /* `result` is complete; nothing more comes */
    qn_result result;             /* so far */
    const qn_output_event *parts; /* in the order of the answer; neighbours of one kind are one part */
    size_t part_count;            /* may be 0 where the tokens gave no text yet */
    qn_stream_tokens tokens; /* ids, and logprobs and ranks where options.logprobs asked for them. Text does not end
                                where tokens do: they are told beside the parts, not with one of them */
} qn_answer_choice;

/* How an API tells an answer. `writer` is what qn_answer_start was given. A buffer that could not grow fails the
 * answer.
 */
typedef struct qn_answer_api {
    /* The body of an error, in the API's shape; also for errors before there is an answer. */
    qn_api_error_writer write_error;

    /* The whole answer as one JSON value: every choice is over. qn_answer_choice_at gives them. */
    void (*body)(void *writer, const qn_answer *answer, qn_buffer *out);

    /* The stream's events, framed (sse.h). `begin` comes at once, so that a client sees the stream begin while its
     * request waits; then `news` for each take of a choice that brought anything, with choice->over at last, once for
     * each choice; then `end` when all are over. `fail` ends the stream instead, when the status line is out already:
     * nothing follows it. */
    void (*begin)(void *writer, const qn_answer *answer, qn_buffer *out);
    void (*news)(void *writer, const qn_answer *answer, const qn_answer_choice *choice, qn_buffer *out);
    void (*end)(void *writer, const qn_answer *answer, qn_buffer *out);
    void (*fail)(void *writer, const qn_api_error *error, const qn_error *err, qn_buffer *out);
    /* What a stream that is silent gets; NULL: a comment. */
    void (*idle)(void *writer, qn_buffer *out);

    void (*free)(void *writer);
} qn_answer_api;

typedef struct qn_answer_options {
    const qn_generation_fields *generation; /* read by qn_answer_start only */
    int logprobs;                           /* of each token, besides its own, so many of the most probable; -1: none */
    bool keep_prompts;                      /* the writer reads the prompts' ids */
    bool mid_text;                          /* the prompts end within a text that goes on (likewise) */
    qn_tool_list *tools; /* calls of them are told apart; qn_answer_start takes the list, on failure too. NULL: none */
    bool raw_text;       /* all text is content as it is (engine/request.h) */
    size_t at_most; /* where generation->max_tokens is 0: so many tokens, or what the context has left for a prompt; 0:
                       that alone */
    qn_answer_grammar *grammar; /* what the text behind thoughts has to be; NULL: anything. The answer takes a reference
                                   of its own */
    const char *form_field;     /* static: the request's field that asks for the grammar, for errors; NULL: none does */
    bool prompt_only; /* no token of an answer: what is told is the prompt's. The engine computes one, which is dropped
                       */
} qn_answer_options;

/* Submits generation->n choices for each prompt, at most QN_REQUEST_MAX_CHOICES together. Takes the writer, on failure
 * too. Prompts are copied as far as needed; nothing else of the arguments is used afterwards. All or none: when one is
 * refused, the others are withdrawn. Errors as qn_stream_open. */
qn_status qn_answer_start(qn_server *server, const qn_answer_api *api, void *writer, const qn_answer_options *options,
                          const qn_tokens *prompts, size_t prompt_count, qn_answer **out, qn_error *err);

/* Where requests are logged: the line about this one, and from now on those about its ends. */
void qn_answer_log(qn_answer *answer, const qn_http_request *request, bool stream);

/* Waits for the end and fills the reply, with an error too. */
void qn_answer_reply(qn_answer *answer, qn_http_exchange *exchange, qn_http_reply *reply);

/* Makes the reply a stream of events, which owns the answer from now on. */
void qn_answer_stream(qn_answer *answer, qn_http_reply *reply);

/* Withdraws what is not done. NULL is fine. */
void qn_answer_free(qn_answer *answer);

/* ---- for writers ---- */

const qn_tokenizer *qn_answer_tokenizer(const qn_answer *answer);
size_t qn_answer_choice_count(const qn_answer *answer);
qn_answer_choice qn_answer_choice_at(const qn_answer *answer, size_t index); /* of a body */

size_t qn_answer_prompt_count(const qn_answer *answer);
const qn_tokens *qn_answer_prompt(const qn_answer *answer, size_t prompt); /* with keep_prompts; else empty */

/* With generation->prompt_logprobs: of all tokens of the prompt from the second on. They are there from the first news
 * of any of its choices on. */
qn_stream_tokens qn_answer_prompt_logprobs(const qn_answer *answer, size_t prompt);

/* Of the choices that are over, and of one alone. */
const qn_answer_totals *qn_answer_totals_of_all(const qn_answer *answer);
qn_answer_totals qn_answer_totals_of(const qn_answer *answer, const qn_answer_choice *one);

#endif
