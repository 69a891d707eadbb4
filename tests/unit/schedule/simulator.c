#include "simulator.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/size.h"

enum { NO_OUTLIER = 1 << 30 };

void simulator_start(simulator *sim, const machine *m, const qn_fairness_limits *limits, uint64_t seed)
{
    memset(sim, 0, sizeof *sim);
    sim->m = *m;
    sim->source.seed = seed;
    sim->max_num_seqs = 16;
    sim->host_us = 300;
    sim->now_us = 1000000;
    sim->watched = SIMULATOR_REQUESTS;
    sim->last_outlier = NO_OUTLIER;
    qn_cost_start(&sim->cost);
    qn_fairness_start(&sim->fairness, limits);
}

sim_request *simulator_add(simulator *sim, uint64_t arrival_us, size_t prompt_tokens, size_t answer_tokens)
{
    assert_true(sim->count < SIMULATOR_REQUESTS);
    sim_request *request = &sim->requests[sim->count++];
    *request = (sim_request){.arrival_us = arrival_us, .prompt_tokens = prompt_tokens, .answer_tokens = answer_tokens};
    return request;
}

static bool decodes(const sim_request *request)
{
    return request->running && request->computed == request->prompt_tokens;
}

static qn_place place_of(const sim_request *request)
{
    return (qn_place){.priority = request->priority, .arrival = request->arrival_us};
}

static void admit(simulator *sim)
{
    size_t running = 0;
    for (size_t i = 0; i < sim->count; i++)
        running += sim->requests[i].running;
    while (running < sim->max_num_seqs) {
        sim_request *first = NULL;
        for (size_t i = 0; i < sim->count; i++) {
            sim_request *request = &sim->requests[i];
            if (request->running || request->done_us || request->arrival_us > sim->now_us)
                continue;
            qn_place a = place_of(request), b = first ? place_of(first) : a;
            if (!first || qn_waiting_order(&a, &b, sim->fairness.limits.by_priority) < 0)
                first = request;
        }
        if (!first)
            return;
        first->running = true;
        running++;
    }
}

/* Moves the clock to the next arrival; false: there is none. */
static bool wait_for_arrival(simulator *sim)
{
    uint64_t next = UINT64_MAX;
    for (size_t i = 0; i < sim->count; i++)
        if (!sim->requests[i].done_us && sim->requests[i].arrival_us < next)
            next = sim->requests[i].arrival_us;
    if (next == UINT64_MAX)
        return false;
    assert_true(next > sim->now_us);
    sim->now_us = next;
    return true;
}

static void give_token(simulator *sim, sim_request *request)
{
    if (request->generated++ == 0) {
        request->first_token_us = sim->now_us;
    } else {
        uint64_t gap = sim->now_us - request->last_token_us, bound = sim->fairness.limits.max_decode_gap_us;
        if (sim->last_outlier == NO_OUTLIER || sim->last_outlier < request->last_step) {
            sim->gaps++;
            sim->gaps_beyond += bound && gap > bound;
            sim->largest_gap_us = gap > sim->largest_gap_us ? gap : sim->largest_gap_us;
        }
    }
    request->last_token_us = sim->now_us;
    request->last_step = sim->steps;
    if (request->generated == request->answer_tokens) {
        request->running = false;
        request->done_us = sim->now_us;
    }
}

static void count_rows(simulator *sim, const qn_step_shape *decode, const qn_prefill *prefills,
                       sim_request *const *owners, size_t count)
{
    qn_step_shape all = qn_fairness_shape(decode, prefills, count), without = all;
    bool watched = false;
    for (size_t i = 0; i < count; i++) {
        const qn_prefill *prefill = &prefills[i];
        assert_true(prefill->rows <= prefill->remaining);
        sim->prefill_rows += prefill->rows;
        if (owners[i] == &sim->requests[sim->watched % SIMULATOR_REQUESTS] && sim->watched < sim->count) {
            watched = true;
            sim->watched_rows += prefill->rows;
        }
        if (prefill->prompt_tokens <= sim->fairness.limits.long_prefill_min_tokens || prefill->rows == 0)
            continue;
        qn_step_shape part = qn_fairness_shape(&(qn_step_shape){0}, prefill, 1);
        without.prefill_rows -= part.prefill_rows;
        without.scanned_keys -= part.scanned_keys;
    }
    assert_true(all.decode_rows + all.prefill_rows <= sim->fairness.limits.max_num_batched_tokens);
    if (watched)
        sim->rows_beside += all.prefill_rows;
    if (decode->decode_rows > 0) {
        sim->decoding_us += machine_us(&sim->m, &all);
        sim->long_us += machine_us(&sim->m, &all) - machine_us(&sim->m, &without);
    }
}

static void compute(simulator *sim, const qn_step_shape *decode, const qn_prefill *prefills, size_t count)
{
    qn_step_shape shape = qn_fairness_shape(decode, prefills, count);
    uint64_t us = machine_step_us(&sim->m, &shape, &sim->source);
    if ((double)us > 3 * machine_us(&sim->m, &shape))
        sim->last_outlier = sim->steps;
    else if (decode->decode_rows > 0 && us > sim->largest_model_us)
        sim->largest_model_us = us;
    sim->now_us += us + sim->host_us;
    sim->busy_us += (double)us;
    qn_fairness_learn(&sim->fairness, &sim->cost, decode, prefills, count, us, us + sim->host_us);
    qn_cost_learn(&sim->cost, &shape, us);
}

bool simulator_step(simulator *sim)
{
    admit(sim);
    qn_step_shape decode = {0};
    qn_prefill prefills[SIMULATOR_RUNNING];
    sim_request *owners[SIMULATOR_RUNNING], *decoding[SIMULATOR_RUNNING];
    size_t count = 0;
    uint64_t oldest = sim->now_us;
    for (size_t i = 0; i < sim->count; i++) {
        sim_request *request = &sim->requests[i];
        if (decodes(request)) {
            decoding[decode.decode_rows++] = request;
            decode.scanned_keys += (double)(request->prompt_tokens + request->generated);
            oldest = request->last_token_us < oldest ? request->last_token_us : oldest;
        } else if (request->running) {
            owners[count] = request;
            prefills[count++] = (qn_prefill){.priority = request->priority,
                                             .arrival = request->arrival_us,
                                             .prompt_tokens = request->prompt_tokens,
                                             .computed = request->computed,
                                             .remaining = request->prompt_tokens - request->computed};
        }
    }
    if (decode.decode_rows + count == 0)
        return wait_for_arrival(sim);
    qn_fairness_plan(&sim->fairness, &sim->cost, sim->now_us, &decode, sim->now_us - oldest, prefills, count);
    assert_true(qn_fairness_shape(&decode, prefills, count).prefill_rows + decode.decode_rows > 0);
    count_rows(sim, &decode, prefills, owners, count);
    sim->steps++;
    compute(sim, &decode, prefills, count);
    for (size_t i = 0; i < decode.decode_rows; i++)
        give_token(sim, decoding[i]);
    for (size_t i = 0; i < count; i++) {
        owners[i]->computed += prefills[i].rows;
        if (decodes(owners[i]))
            give_token(sim, owners[i]);
    }
    return true;
}

void simulator_run(simulator *sim, unsigned most_steps)
{
    while (simulator_step(sim))
        assert_true(sim->steps < most_steps);
    for (size_t i = 0; i < sim->count; i++)
        assert_true(sim->requests[i].done_us > 0);
}
