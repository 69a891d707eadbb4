/* The contract of the batch: whatever else runs, arrives, leaves or is put back, and however the cache is shared, each
 * request gets what it gets alone on an idle engine, bit for bit.
 *
 * 200 random workloads, each made from one number; QUERN_WORKLOADS sets how many, QUERN_WORKLOADS_SEED the first
 * number. A workload that fails says how to repeat it, though threads may meet otherwise then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "engine/engine_internal.h"
#include "engine/metrics_internal.h"
#include "unit/engine/workload.h"

enum { ENOUGH_FOR_ALL = 200, ALONE_CONTEXT = 512, MODELS = 2, ISAS = 2, GUARDS = 2 };
static const uint64_t LIMIT_US = (SANITIZED ? 600 : 120) * UINT64_C(1000000);

/* Engines that requests are alone on: by model, instruction set, and guard. */
typedef struct references {
    qn_engine *engines[MODELS][ISAS][GUARDS];
} references;

static qn_engine *reference_for(references *all, const workload *w)
{
    qn_engine **engine = &all->engines[w->text][w->isa == NULL][w->options.repetition.repeats > 0];
    if (*engine == NULL) {
        const qn_engine_options options = {.model_dir = w->options.model_dir,
                                           .without_text = w->options.without_text,
                                           .threads = 1,
                                           .max_model_len = ALONE_CONTEXT,
                                           .block_size = 16,
                                           .repetition = w->options.repetition};
        *engine = open_engine(&options, w->isa);
    }
    return *engine;
}

static void close_references(references *all)
{
    qn_engine **engines = &all->engines[0][0][0];
    for (size_t i = 0; i < (size_t)MODELS * ISAS * GUARDS; i++) {
        qn_engine_close(engines[i]);
    }
}

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

/* What all workloads together did: that they reached what they are there for. */
typedef struct tally {
    uint64_t counters[QN_METRICS_COUNTERS];
    size_t answers, parts, repetitions, stop_strings, resumed_from_store;
} tally;

/* A stopped engine holds nothing any more but blocks that the store is still writing. */
static void check_idle(const workload *w, const qn_engine *engine)
{
    bool idle = engine->running_count == 0 && engine->waiting_count == 0 && engine->active_count == 0 &&
                engine->waiting == NULL && engine->incoming_first == NULL &&
                qn_kv_pool_referenced(engine->blocks) <= engine->store_pins;
    for (size_t i = 0; i < engine->max_num_seqs; i++) {
        idle = idle && engine->slots[i].job == NULL && engine->slots[i].sequence.block_count == 0 &&
               engine->slots[i].loads == 0;
    }
    if (!idle) {
        workload_describe(w, &w->asks[0]);
        fail_msg("workload %llu: the stopped engine holds %zu blocks, %zu waiting, %zu running, %zu active",
                 (unsigned long long)w->seed, qn_kv_pool_referenced(engine->blocks), engine->waiting_count,
                 engine->running_count, engine->active_count);
    }
}

static void check_counts(const workload *w, const qn_engine *engine, const answer *answers, tally *t)
{
    const qn_metrics_state *m = &engine->metrics->state;
    size_t accepted = 0, ended = 0, cached = 0;
    for (size_t i = 0; i < w->ask_count; i++) {
        accepted += answers[i].accepted;
        cached += answers[i].timings.cached_tokens;
    }
    for (size_t i = 0; i < QN_METRICS_REASONS; i++) {
        ended += m->finished[i];
    }
    assert_int_equal(accepted, ended);
    assert_true(m->counters[QN_COUNT_PREFIX_HITS] <= m->counters[QN_COUNT_PREFIX_QUERIES]);
    assert_true(cached <= m->counters[QN_COUNT_PREFIX_HITS] + m->counters[QN_COUNT_STORE_HITS]);
    assert_true(m->counters[QN_COUNT_ACCEPTED_TOKENS] <= m->counters[QN_COUNT_DRAFT_TOKENS]);
    for (size_t i = 0; i < QN_METRICS_COUNTERS; i++) {
        t->counters[i] += m->counters[i];
    }
}

static void run_round(const workload *w, const answer *alone, size_t block_bytes, tally *t)
{
    answer answers[WORKLOAD_MAX_ASKS];
    qn_engine_options options = w->options;
    options.kv_cache_bytes = w->blocks * block_bytes;
    qn_engine *engine = open_engine(&options, w->isa);
    run_together(engine, w, LIMIT_US, answers);
    qn_engine_stop(engine);
    for (size_t i = 0; i < w->ask_count; i++) {
        const char *what = answer_differs(w, &w->asks[i], &alone[i], &answers[i]);
        if (what != NULL) {
            workload_describe(w, &w->asks[i]);
            fail_msg("request %zu: its %s differ: alone %zu tokens, status %d, finish %d; now %zu, %d, %d (%s), %zu "
                     "cached, %zu preemptions; to repeat: QUERN_WORKLOADS=1 QUERN_WORKLOADS_SEED=%llu",
                     i, what, alone[i].tokens.size / 4, alone[i].end.status, alone[i].end.finish,
                     answers[i].tokens.size / 4, answers[i].end.status, answers[i].end.finish,
                     answers[i].end.status == QN_OK ? "" : answers[i].end.err.message, answers[i].timings.cached_tokens,
                     answers[i].timings.preemptions, (unsigned long long)w->seed);
        }
        t->answers += answers[i].tokens.size == alone[i].tokens.size;
        t->parts += answers[i].tokens.size < alone[i].tokens.size;
        t->repetitions += answers[i].ended && answers[i].end.finish == QN_FINISH_REPETITION;
        t->stop_strings += answers[i].stop_index >= 0;
    }
    check_idle(w, engine);
    check_counts(w, engine, answers, t);
    for (size_t i = 0; i < w->ask_count; i++) {
        answer_free(&answers[i]);
    }
    qn_engine_close(engine);
}

static size_t block_bytes_of(const qn_engine *reference, const workload *w)
{
    qn_kv_layout layout;
    qn_error err;
    assert_int_equal(qn_model_kv_layout(reference->model, w->options.block_size, &layout, &err), QN_OK);
    return layout.block_bytes;
}

static void run_workload(uint64_t seed, const json_t *prompts, references *all, tally *t)
{
    answer alone[WORKLOAD_MAX_ASKS];
    workload *w = workload_make(seed, prompts);
    qn_engine *reference = reference_for(all, w);
    for (size_t i = 0; i < w->ask_count; i++) {
        run_alone(reference, w, &w->asks[i], &alone[i]);
    }
    for (int round = 0; round < w->rounds; round++) {
        run_round(w, alone, block_bytes_of(reference, w), t);
    }
    for (size_t i = 0; i < w->ask_count; i++) {
        answer_free(&alone[i]);
    }
    workload_free(w);
}

static void check_reached(const tally *t)
{
    print_message("%zu answers, %zu called off, %llu preemptions, %llu prefix hits, %llu from the store, %llu of %llu "
                  "drafts accepted, %llu refused, %zu loops, %zu stop strings\n",
                  t->answers, t->parts, (unsigned long long)t->counters[QN_COUNT_PREEMPTIONS],
                  (unsigned long long)t->counters[QN_COUNT_PREFIX_HITS],
                  (unsigned long long)t->counters[QN_COUNT_STORE_HITS],
                  (unsigned long long)t->counters[QN_COUNT_ACCEPTED_TOKENS],
                  (unsigned long long)t->counters[QN_COUNT_DRAFT_TOKENS],
                  (unsigned long long)t->counters[QN_COUNT_REFUSALS], t->repetitions, t->stop_strings);
}

static void every_request_as_if_alone(void **state)
{
    (void)state;
    uint64_t count = number_from("QUERN_WORKLOADS", SANITIZED ? 12 : 200);
    uint64_t seed = number_from("QUERN_WORKLOADS_SEED", qn_random_seed() % 1000000000);
    references all = {0};
    tally t = {0};
    json_t *cases = read_json_lines("models/quern-tiny/eval/greedy_hf.jsonl"), *prompts = json_array();
    for (size_t i = 0; i < json_array_size(cases); i++) {
        json_array_append(prompts, json_object_get(json_array_get(cases, i), "prompt_ids"));
    }
    print_message("seed %llu\n", (unsigned long long)seed);
    for (uint64_t i = 0; i < count; i++) {
        run_workload(seed + i, prompts, &all, &t);
    }
    check_reached(&t);
    if (count >= ENOUGH_FOR_ALL) {
        assert_true(t.counters[QN_COUNT_PREEMPTIONS] > 0);
        assert_true(t.counters[QN_COUNT_PREFIX_HITS] > 0);
        assert_true(t.counters[QN_COUNT_STORE_HITS] > 0);
        assert_true(t.counters[QN_COUNT_ACCEPTED_TOKENS] > 0);
        assert_true(t.counters[QN_COUNT_REFUSALS] > 0);
        assert_true(t.repetitions > 0 && t.stop_strings > 0 && t.parts > 0);
    }
    close_references(&all);
    json_decref(cases);
    json_decref(prompts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_request_as_if_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
