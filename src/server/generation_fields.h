/* The fields of a request that steer generation: OpenAI's, vLLM's, and quern's own `timeout`. Every endpoint that
 * generates reads them here, so that they mean the same everywhere; docs/api.md lists them. */
#ifndef QN_SERVER_GENERATION_FIELDS_H
#define QN_SERVER_GENERATION_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "engine/request.h"
#include "server/request_fields.h"
#include "sampling/logprobs.h"
#include "sampling/sampler.h"
#include "text/stop.h"

enum {
    QN_REQUEST_MAX_CHOICES = 128,
    QN_REQUEST_MAX_BIASES = 1024,
    QN_REQUEST_MAX_SALT_BYTES = 1024,
    QN_REQUEST_MAX_TIMEOUT_S = 7 * 24 * 3600
};

/* What the server has to offer. */
typedef struct qn_generation_limits {
    qn_sampling sampling; /* what a request that says nothing gets */
    size_t vocab_size;    /* token ids are below it */
    bool may_be_empty;    /* max_tokens may be 0 */
    size_t max_choices;   /* that one request may ask for, besides QN_REQUEST_MAX_CHOICES; 0: no further bound */
} qn_generation_limits;

typedef struct qn_generation_fields {
    qn_sampling sampling; /* the seed only when seed_given; its choice is 0; its biases are `biases` */
    bool seed_given;
    size_t max_tokens;            /* 0: not said, or with a max_tokens_field: none at all */
    const char *max_tokens_field; /* which field said it, NULL: none: max_completion_tokens wins over max_tokens */
    size_t min_tokens;
    const char *stop[QN_STOP_MAX_STRINGS]; /* in the document */
    size_t stop_count;
    int32_t *stop_token_ids; /* owned */
    size_t stop_token_count;
    qn_logit_bias *biases; /* owned */
    bool ignore_eos;
    size_t n;
    int prompt_logprobs; /* -1: not asked for; else how many of the most probable besides the prompt's own */
    int32_t priority;
    const char *cache_salt; /* in the document; NULL: none */
    const char *request_id; /* likewise */
    uint64_t timeout_us;    /* 0: none */
    bool has_thinking_budget;
    size_t thinking_budget; /* tokens of thoughts, at most */
} qn_generation_fields;

/* Fields that are no standard's, vLLM's, SGLang's and quern's own, by the same names in every API: a part of each API's
 * table. Forms of the answer (format_fields.h) and template variables (template_kwargs.h) are two more such parts. */
extern const qn_field_table qn_steering_fields;

/* Reads the document's fields over *out, which holds nothing yet. QN_USAGE names the field; QN_RESOURCE. Whatever it
 * returns, qn_generation_fields_free releases what there is. The document must live as long as *out. */
qn_status qn_generation_fields_read(const json_t *document, const qn_generation_limits *limits,
                                    qn_generation_fields *out, qn_error *err);
void qn_generation_fields_free(qn_generation_fields *fields); /* back to {0}; {0} is fine */

#endif
