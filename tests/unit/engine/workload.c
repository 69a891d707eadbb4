#include "unit/engine/workload.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint32_t below(random_stream *r, uint32_t bound)
{
    return random_word(r) % bound;
}

static bool one_in(random_stream *r, uint32_t n)
{
    return below(r, n) == 0;
}

static uint32_t between(random_stream *r, uint32_t low, uint32_t high)
{
    return low + below(r, high - low + 1);
}

static qn_status fill_toy_mask(void *context, const int32_t *tokens, size_t count, uint64_t *allowed)
{
    const toy_mask *m = context;
    uint32_t state = 2166136261U;
    if (count >= m->fails_from) {
        return QN_USAGE;
    }
    for (size_t i = 0; i < count; i++) {
        state = (state ^ (uint32_t)tokens[i]) * 16777619U;
    }
    for (size_t v = 0; v < m->vocab && count < m->only_end_from; v++) {
        uint32_t mixed = (state ^ (uint32_t)v) * m->multiplier;
        allowed[v / 64] |= (uint64_t)((mixed >> 20) % 4 != 0) << v % 64;
    }
    for (size_t i = 0; i < m->end_count; i++) {
        allowed[(size_t)m->ends[i] / 64] |= (uint64_t)1 << m->ends[i] % 64;
    }
    return QN_OK;
}

static bool watch_step(void *context, const qn_step *step)
{
    step_witness *w = context;
    w->wrong = w->wrong || step->accepted > step->draft_count || step->token_count > step->accepted + 1;
    for (size_t i = 0; i < step->accepted && i < step->token_count; i++) {
        w->wrong = w->wrong || step->tokens[i] != step->drafts[i];
    }
    w->tokens += step->token_count;
    return true;
}

/* ---- one request ---- */

static qn_sampling random_sampling(random_stream *r, size_t vocab, const int32_t *ends, ask *a)
{
    static const float temperatures[] = {0.0F, 0.0F, 0.3F, 1.0F, 1.0F, 1.5F}, top_ps[] = {1.0F, 1.0F, 0.9F, 0.5F},
                       min_ps[] = {0.0F, 0.0F, 0.05F}, penalties[] = {0.0F, 0.6F, -0.4F}, repetitions[] = {1.3F, 0.8F},
                       biases[] = {1.0F, -2.0F, 8.0F, -100.0F, 100.0F};
    static const int32_t top_ks[] = {0, 0, 5, 40};
    qn_sampling s = {.temperature = temperatures[below(r, 6)],
                     .top_p = top_ps[below(r, 4)],
                     .min_p = min_ps[below(r, 3)],
                     .top_k = top_ks[below(r, 4)],
                     .seed = random_word(r),
                     .choice = below(r, 3)};
    if (one_in(r, 3)) {
        s.presence_penalty = penalties[below(r, 3)];
        s.frequency_penalty = penalties[below(r, 3)];
    }
    s.repetition_penalty = one_in(r, 4) ? repetitions[below(r, 2)] : 1.0F;
    s.logit_bias = a->biases;
    s.logit_bias_count = one_in(r, 3) ? between(r, 1, WORKLOAD_MAX_BIASES) : 0;
    for (size_t i = 0; i < s.logit_bias_count; i++) {
        a->biases[i] = (qn_logit_bias){.token = one_in(r, 6) ? ends[0] : (int32_t)below(r, (uint32_t)vocab),
                                       .bias = biases[below(r, one_in(r, 8) ? 5 : 4)]};
    }
    return s;
}

/* When and how the reader leaves. */
static void random_departure(random_stream *r, ask *a)
{
    a->cancel_after_us = a->cancel_at_tokens = a->cancel_at_prompt = NEVER;
    switch (below(r, 12)) {
    case 0:
        a->cancel_after_us = below(r, one_in(r, 2) ? 300 : 20000);
        break;
    case 1:
        a->cancel_at_tokens = below(r, 20);
        break;
    case 2:
        a->cancel_at_prompt = below(r, (uint32_t)a->request.prompt_count + 1);
        break;
    case 3:
        a->request.timeout_us = between(r, 1, one_in(r, 2) ? 1000 : 30000);
        break;
    default:
        break;
    }
    a->cancel_answered = a->by_job && one_in(r, 3);
}

static void random_ends(random_stream *r, const workload *w, size_t vocab, const int32_t *ends, size_t end_count,
                        ask *a)
{
    static const char *const strings[] = {"is", "The ", "4", "e", " = ", "result is", ".", "a", "t", " "};
    qn_request *request = &a->request;
    request->ignore_eos = one_in(r, 2);
    request->min_tokens = one_in(r, 3) ? below(r, (uint32_t)(request->max_tokens > 0 ? request->max_tokens : 9) + 1)
                                       : 0;
    request->stop_token_ids = a->stop_tokens;
    request->stop_token_count = one_in(r, 4) ? between(r, 1, 16) : 0;
    for (size_t i = 0; i < request->stop_token_count; i++) {
        a->stop_tokens[i] = (int32_t)below(r, (uint32_t)vocab);
    }
    request->stop = a->stops;
    request->stop_count = w->text && !a->by_job && one_in(r, 2) ? between(r, 1, WORKLOAD_MAX_STOPS) : 0;
    for (size_t i = 0; i < request->stop_count; i++) {
        a->stops[i] = strings[below(r, sizeof strings / sizeof *strings)];
    }
    if (one_in(r, 5)) {
        a->mask = (toy_mask){.multiplier = random_word(r) | 1,
                             .vocab = vocab,
                             .only_end_from = one_in(r, 2) ? below(r, 12) : NEVER,
                             .fails_from = one_in(r, 8) ? below(r, 12) : NEVER,
                             .ends = ends,
                             .end_count = end_count};
        request->mask = (qn_token_mask){.context = &a->mask, .fill = fill_toy_mask};
    }
}

static void random_ask(random_stream *r, const workload *w, size_t vocab, const int32_t *ends, size_t end_count,
                       size_t longest_answer, ask *a)
{
    static const char *const salts[] = {NULL, NULL, NULL, "a", "b"};
    qn_request *request = &a->request;
    request->prompt_ids = a->prompt;
    request->max_tokens = one_in(r, 20) ? 0 : between(r, 1, (uint32_t)longest_answer);
    if (request->max_tokens == 0 && w->options.max_model_len > request->prompt_count + 2 * longest_answer) {
        request->max_tokens = longest_answer;
    }
    request->sampling = random_sampling(r, vocab, ends, a);
    request->priority = (int32_t)below(r, 3) - 1;
    request->cache_salt = salts[below(r, 5)];
    request->has_logprobs = one_in(r, 3);
    request->logprobs = request->has_logprobs ? below(r, one_in(r, 3) ? QN_MAX_LOGPROBS + 1 : 4) : 0;
    request->has_prompt_logprobs = one_in(r, 9);
    request->prompt_logprobs = request->has_prompt_logprobs ? below(r, 4) : 0;
    request->raw_text = one_in(r, 2);
    request->in_reasoning = one_in(r, 2);
    a->by_job = one_in(r, 3);
    if (w->options.repetition.repeats > 0 && one_in(r, 3)) { /* it goes round in circles */
        a->biases[0] = (qn_logit_bias){.token = (int32_t)below(r, 400), .bias = 100.0F};
        request->sampling.logit_bias_count = 1;
        request->sampling.top_k = 1;
        request->max_tokens = longest_answer;
    }
    if (one_in(r, 4)) {
        request->trace = (qn_trace){.context = &a->witness, .on_step = watch_step};
    }
    random_ends(r, w, vocab, ends, end_count, a);
    random_departure(r, a);
    a->submitter = below(r, (uint32_t)w->submitters);
}

/* ---- prompts that share beginnings ---- */

enum { STEMS = 3 };

typedef struct stems {
    int32_t ids[STEMS][WORKLOAD_MAX_PROMPT];
} stems;

static void random_stems(random_stream *r, size_t vocab, const json_t *prompts, stems *out)
{
    for (size_t s = 0; s < STEMS; s++) {
        const json_t *ids = prompts == NULL ? NULL
                                            : json_array_get(prompts, below(r, (uint32_t)json_array_size(prompts)));
        for (size_t i = 0; i < WORKLOAD_MAX_PROMPT; i++) {
            out->ids[s][i] = i < json_array_size(ids) ? (int32_t)json_integer_value(json_array_get(ids, i))
                                                      : (int32_t)below(r, (uint32_t)vocab);
        }
    }
}

static void random_prompt(random_stream *r, const stems *stem, size_t vocab, size_t longest, ask *a)
{
    size_t shared = one_in(r, 4) ? 0 : 1 + below(r, (uint32_t)longest);
    shared -= one_in(r, 2) ? shared % 16 : 0; /* often up to a block's border */
    size_t own = shared == 0 || one_in(r, 3) ? 1 + below(r, (uint32_t)(longest - shared > 40 ? 40 : longest)) : 0;
    own = shared + own > longest ? longest - shared : own;
    memcpy(a->prompt, stem->ids[below(r, STEMS)], shared * sizeof *a->prompt);
    for (size_t i = 0; i < own; i++) {
        a->prompt[shared + i] = (int32_t)below(r, (uint32_t)vocab);
    }
    a->request.prompt_count = shared + own;
    if (a->request.prompt_count == 0) {
        a->prompt[0] = 1;
        a->request.prompt_count = 1;
    }
}

/* ---- the whole ---- */

static void random_options(random_stream *r, workload *w)
{
    static const size_t rows[] = {4, 12, 40, 512};
    qn_engine_options *o = &w->options;
    o->model_dir = w->text ? "models/quern-tiny" : "tests/data/oracle/tiny-mtp";
    o->without_text = !w->text;
    o->threads = between(r, 1, 2);
    o->block_size = one_in(r, 4) ? 32 : 16;
    o->max_num_seqs = between(r, 1, 8);
    o->max_num_batched_tokens = rows[below(r, 4)];
    o->max_queue = one_in(r, 4) ? between(r, 1, 3) : 0;
    o->num_speculative_tokens = (int)below(r, 4);
    o->trace_drafts = o->num_speculative_tokens > 0 && one_in(r, 2);
    o->prefix_caching = !one_in(r, 4);
    o->repetition = one_in(r, 3) ? (qn_repetition_limits){.max_ngram = 16, .repeats = 2} : (qn_repetition_limits){0};
    o->prefault = one_in(r, 8);
    o->fairness.by_priority = one_in(r, 2);
    o->fairness.long_prefill_share = 1.0;
    if (one_in(r, 3)) {
        o->fairness.max_decode_gap_us = between(r, 200, 20000);
        o->fairness.long_prefill_share = one_in(r, 2) ? 0.3 : 1.0;
        o->fairness.long_prefill_min_tokens = below(r, 100);
        o->fairness.long_prefill_token_threshold = one_in(r, 2) ? between(r, 1, 60) : 0;
    }
    w->isa = one_in(r, w->text ? 12 : 4) ? "scalar" : NULL; /* slow */
    w->rounds = 1;
    if (o->prefix_caching && one_in(r, 3)) {
        strcpy(w->store_dir, "/tmp/quern-workload-XXXXXX");
        assert_non_null(mkdtemp(w->store_dir));
        o->kv_store_dir = w->store_dir;
        o->kv_store_bytes = one_in(r, 4) ? 1 << 20 : 1 << 28;
        w->rounds = 2;
    }
}

workload *workload_make(uint64_t seed, const json_t *prompts)
{
    static const int32_t tiny_ends[] = {500, 507, 509}, text_ends[] = {1515, 1522, 1524};
    random_stream r = {.seed = seed};
    stems stem;
    workload *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->seed = seed;
    w->text = one_in(&r, SANITIZED ? 8 : 5);
    random_options(&r, w);
    /* short questions with long answers fill the cache while they decode, long prompts while they begin */
    bool chatty = one_in(&r, 2);
    size_t vocab = w->text ? 1536 : 512;
    size_t longest_prompt = chatty                          ? 40
                            : one_in(&r, SANITIZED ? 8 : 3) ? WORKLOAD_MAX_PROMPT
                                                            : (SANITIZED ? 70 : 110),
           longest_answer = chatty ? (SANITIZED ? 36 : 60) : (SANITIZED ? 10 : 20);
    if (w->options.repetition.repeats > 0 && one_in(&r, 2)) {
        longest_answer = QN_REPETITION_LEAST_TOKENS + 20;
    }
    w->options.max_model_len = longest_prompt + longest_answer;
    size_t least = (w->options.max_model_len + w->options.block_size - 1) / w->options.block_size;
    w->blocks = one_in(&r, 4) ? 8 * least : least + below(&r, (uint32_t)least);
    w->submitters = between(&r, 1, 3);
    w->ask_count = between(&r, 1, one_in(&r, 5) ? WORKLOAD_MAX_ASKS : 5);
    w->stop_after_us = one_in(&r, 12) ? below(&r, 30000) : NEVER;
    random_stems(&r, vocab, w->text ? prompts : NULL, &stem);
    uint32_t spread_us = one_in(&r, 2) ? 1 : one_in(&r, 2) ? 2000 : 20000;
    for (size_t i = 0; i < w->ask_count; i++) {
        ask *a = &w->asks[i];
        random_prompt(&r, &stem, vocab, longest_prompt, a);
        if (i > 0 && one_in(&r, 4)) { /* word for word what another asks */
            memcpy(a->prompt, w->asks[i - 1].prompt, sizeof a->prompt);
            a->request.prompt_count = w->asks[i - 1].request.prompt_count;
        }
        random_ask(&r, w, vocab, w->text ? text_ends : tiny_ends, 3, longest_answer, a);
        a->due_us = below(&r, spread_us);
    }
    return w;
}

static void remove_folder(const char *dir)
{
    char path[512];
    DIR *folder = opendir(dir);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
            if (unlink(path) != 0) {
                remove_folder(path);
            }
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
    rmdir(dir);
}

void workload_free(workload *w)
{
    if (w->store_dir[0] != '\0') {
        remove_folder(w->store_dir);
    }
    free(w);
}

void workload_describe(const workload *w, const ask *a)
{
    const qn_engine_options *o = &w->options;
    const qn_sampling *s = &a->request.sampling;
    const qn_request *q = &a->request;
    fprintf(stderr,
            "workload %llu: %s %s, %zu requests from %zu threads, %zu seats, %zu rows, %zu blocks of %zu, context %zu, "
            "%d drafts%s, %zu threads, prefixes %d, store %s, gap %llu us, share %g, threshold %zu, priority %d, guard "
            "%zu, stop after %llu us\n",
            (unsigned long long)w->seed, o->model_dir, w->isa == NULL ? "best" : w->isa, w->ask_count, w->submitters,
            o->max_num_seqs, o->max_num_batched_tokens, w->blocks, o->block_size, o->max_model_len,
            o->num_speculative_tokens, o->trace_drafts ? " always" : "", o->threads, o->prefix_caching,
            w->store_dir[0] == '\0' ? "none" : "on", (unsigned long long)o->fairness.max_decode_gap_us,
            o->fairness.long_prefill_share, o->fairness.long_prefill_token_threshold, o->fairness.by_priority,
            o->repetition.repeats, (unsigned long long)w->stop_after_us);
    fprintf(
        stderr,
        "request %zu: %zu prompt tokens, %zu to answer, at least %zu, T %g, top_p %g, top_k %d, min_p %g, penalties "
        "%g %g %g, %zu biases, %zu stop tokens, %zu stop strings, ignore_eos %d, logprobs %d %zu, of the prompt %d "
        "%zu, mask %d ends %zu fails %zu, salt %s, timeout %llu us, leaves after %llu us, %zu tokens, %zu of the "
        "prompt, %s\n",
        (size_t)(a - w->asks), q->prompt_count, q->max_tokens, q->min_tokens, (double)s->temperature, (double)s->top_p,
        s->top_k, (double)s->min_p, (double)s->presence_penalty, (double)s->frequency_penalty,
        (double)s->repetition_penalty, s->logit_bias_count, q->stop_token_count, q->stop_count, q->ignore_eos,
        q->has_logprobs, q->logprobs, q->has_prompt_logprobs, q->prompt_logprobs, q->mask.fill != NULL,
        a->mask.only_end_from, a->mask.fails_from, q->cache_salt == NULL ? "none" : q->cache_salt,
        (unsigned long long)q->timeout_us, (unsigned long long)a->cancel_after_us, a->cancel_at_tokens,
        a->cancel_at_prompt, a->by_job ? "read as tokens" : "read as text");
}
