#include "engine/choose.h"

#include <string.h>

#include "base/clock.h"
#include "base/finite.h"

_Static_assert((int)QN_MAX_SPECULATIVE_TOKENS <= (int)QN_MAX_AHEAD, "a row may stand behind all drafts");

typedef struct choosing {
    qn_engine *engine;
    const qn_choice *choices;
} choosing;

/* The tokens that may not come while the answer is shorter than min_tokens. */
static void ban_ends(const qn_engine *engine, const qn_job *job, size_t answered, qn_rules *rules, int32_t *banned)
{
    const qn_request *request = &job->request;
    if (answered >= request->min_tokens) {
        return;
    }
    size_t count = 0;
    for (size_t i = 0; i < engine->generation.eos_count && !request->ignore_eos; i++) {
        banned[count++] = engine->generation.eos_token_id[i];
    }
    for (size_t i = 0; i < request->stop_token_count; i++) {
        banned[count++] = request->stop_token_ids[i];
    }
    rules->banned = banned;
    rules->banned_count = count;
}

static int32_t choose(const choosing *c, const qn_choice *choice, size_t worker)
{
    qn_engine *engine = c->engine;
    qn_batch *b = &engine->batch;
    const qn_job *job = choice->job;
    size_t answered = qn_job_answered(job) + choice->ahead;
    int32_t banned[QN_GENERATION_MAX_EOS + QN_MAX_STOP_TOKENS];
    qn_rules rules = {.sampling = &job->request.sampling,
                      .counts = job->counts,
                      .ahead = job->tokens + job->length,
                      .ahead_count = choice->ahead};
    if (!qn_all_finite(choice->logits, engine->config->vocab_size)) {
        return QN_NOT_FINITE;
    }
    ban_ends(engine, job, answered, &rules, banned);
    if (job->request.mask.fill != NULL) {
        uint64_t *allowed = b->allowed + worker * b->allowed_words;
        memset(allowed, 0, b->allowed_words * sizeof *allowed);
        qn_status status = job->request.mask.fill(job->request.mask.context, job->tokens + job->request.prompt_count,
                                                  answered, allowed);
        if (status != QN_OK) {
            return status == QN_RESOURCE ? QN_MASK_NO_MEMORY : QN_MASK_FAILED;
        }
        rules.allowed = allowed;
    }
    return qn_sample_with_rules(b->samplers[worker], &rules, choice->logits, job->length + choice->ahead);
}

static void choose_one(void *context, size_t item, size_t worker)
{
    const choosing *c = context;
    const qn_choice *choice = &c->choices[item];
    int32_t token = choose(c, choice, worker);
    *choice->out = token;
    if (token >= 0 && choice->logprobs != NULL && choice->job->request.has_logprobs) {
        *choice->rank = qn_logprobs(choice->logits, c->engine->config->vocab_size, token, choice->job->request.logprobs,
                                    choice->logprobs);
    }
}

void qn_choose(qn_engine *engine, const qn_choice *choices, size_t count)
{
    choosing c = {.engine = engine, .choices = choices};
    uint64_t start = qn_now_us();
    qn_pool_run(engine->pool, count, choose_one, &c);
    engine->batch.sampling_us += qn_now_us() - start;
}

typedef struct telling {
    qn_engine *engine;
    float *const *logits;
    const int32_t *tokens;
    size_t top;
    qn_logprob *out;
    uint32_t *ranks;
} telling;

static void tell_one(void *context, size_t item, size_t worker)
{
    (void)worker;
    const telling *t = context;
    size_t vocab = t->engine->config->vocab_size;
    t->ranks[item] = 0;
    if (qn_all_finite(t->logits[item], vocab)) {
        t->ranks[item] = qn_logprobs(t->logits[item], vocab, t->tokens[item], t->top, t->out + item * (1 + t->top));
    }
}

void qn_tell_logprobs(qn_engine *engine, float *const *logits, const int32_t *tokens, size_t count, size_t top,
                      qn_logprob *out, uint32_t *ranks)
{
    telling t = {.engine = engine, .logits = logits, .tokens = tokens, .top = top, .out = out, .ranks = ranks};
    uint64_t start = qn_now_us();
    qn_pool_run(engine->pool, count, tell_one, &t);
    engine->batch.sampling_us += qn_now_us() - start;
}
