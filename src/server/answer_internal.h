/* What answer_start.c and answer.c share: the parts of an answer. */
#ifndef QN_SERVER_ANSWER_INTERNAL_H
#define QN_SERVER_ANSWER_INTERNAL_H

#include "server/answer.h"
#include "text/constraint.h"

/* A choice in the making. */
typedef struct qn_choice_state {
    qn_stream *stream;
    qn_constraint *constraint; /* NULL: free */
    bool over;
    qn_output_events parts;    /* of the last take; of a whole body all */
    qn_buffer logprobs, ranks; /* of a whole body */
} qn_choice_state;

struct qn_answer {
    qn_server *server;
    const qn_answer_api *api;
    void *writer;
    qn_tool_list *tools; /* the streams read it; NULL: none */
    qn_choice_state *choices;
    size_t count, over_count, choices_each; /* choices_each: of one prompt */
    qn_tokens *prompts;                     /* keep_prompts; else empty ones */
    size_t prompt_count;
    int64_t seed;
    int logprobs, prompt_logprobs; /* -1: not asked for */
    bool prompt_only;
    size_t at_most;
    qn_answer_grammar *grammar; /* NULL: none */
    const char *form_field;     /* likewise */
    char *stop_text;            /* the strings of `stop`, which the streams read */
    const char *stop[QN_STOP_MAX_STRINGS];
    qn_answer_totals totals;                 /* of the choices that are over */
    bool begun, ended;                       /* of a stream */
    char log_id[QN_HTTP_REQUEST_ID_MAX + 1]; /* "": not logged */
    qn_buffer description;                   /* for the log's line; empty unless requests are logged */
};

#endif
