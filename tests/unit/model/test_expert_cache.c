/* What the cache hands out is held against the mapping that it is there to replace. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/fault.h"
#include "base/memory.h"
#include "base/random.h"
#include "model/expert_cache.h"

enum { MAX_HELD = 64, ROUNDS = 400 };

static const uint64_t PATIENCE_US = 60000000;

typedef struct fixture {
    qn_checkpoint *checkpoint;
    qn_weights weights;
    qn_expert_cache *cache;
    size_t experts, per_token;
    uint64_t drawn;
} fixture;

static fixture open_model(const char *dir)
{
    fixture f = {.drawn = qn_random_seed()};
    qn_error err = {0};
    if (qn_checkpoint_open(dir, &f.checkpoint, &err) != QN_OK ||
        qn_weights_take(f.checkpoint, &f.weights, &err) != QN_OK)
        fail_msg("%s", err.message);
    f.experts = qn_checkpoint_config(f.checkpoint)->n_routed_experts;
    f.per_token = qn_checkpoint_config(f.checkpoint)->num_experts_per_tok;
    printf("%s: seed %llu\n", dir, (unsigned long long)f.drawn);
    return f;
}

static void open_patient_cache(fixture *f, size_t experts, uint64_t patience_us)
{
    qn_error err = {0};
    size_t bytes = qn_expert_cache_bytes(&f->weights, experts);
    if (qn_expert_cache_new(f->checkpoint, &f->weights, bytes, patience_us, &f->cache, &err) != QN_OK)
        fail_msg("%s", err.message);
    assert_int_equal(qn_expert_cache_room(f->cache), experts);
}

static void open_cache(fixture *f, size_t experts)
{
    open_patient_cache(f, experts, PATIENCE_US);
}

static void close_model(fixture *f)
{
    qn_expert_cache_free(f->cache);
    qn_weights_free(&f->weights);
    qn_checkpoint_close(f->checkpoint);
}

static size_t draw(fixture *f, size_t below)
{
    f->drawn = f->drawn * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(f->drawn >> 33) % below;
}

/* The least that a cache may hold, and so much more. */
static size_t least_room(const fixture *f, size_t more)
{
    size_t least = 4 * f->per_token < 2 * f->experts ? 4 * f->per_token : 2 * f->experts;
    return least + more;
}

static void expect_matrix(const qn_matrix *given, const qn_matrix *mapped)
{
    size_t data = mapped->rows * qn_matrix_row_bytes(mapped), all = qn_matrix_bytes(mapped);
    assert_int_equal(given->dtype, mapped->dtype);
    assert_int_equal(given->rows, mapped->rows);
    assert_int_equal(given->cols, mapped->cols);
    assert_ptr_not_equal(given->data, mapped->data);
    assert_memory_equal(given->data, mapped->data, data);
    if (mapped->scales)
        assert_memory_equal(given->scales, mapped->scales, all - data);
    else
        assert_null(given->scales);
}

static void expect_experts(const fixture *f, size_t layer, const int32_t *ids, size_t count,
                           const qn_expert_views *views)
{
    const qn_mlp_weights *w = &f->weights.layers[layer].experts;
    for (size_t i = 0; i < count; i++) {
        expect_matrix(&views[i].gate, &w->gate[ids[i]]);
        expect_matrix(&views[i].up, &w->up[ids[i]]);
        expect_matrix(&views[i].down, &w->down[ids[i]]);
    }
}

/* Holds them and waits until all have arrived, each told once. */
static qn_status hold_all(fixture *f, size_t layer, const int32_t *ids, size_t count, qn_expert_views *views,
                          qn_error *err)
{
    bool told[MAX_HELD] = {false};
    size_t all = 0, arrived = 1;
    qn_status status = qn_expert_cache_hold(f->cache, layer, ids, count, views, err);
    while (status == QN_OK && arrived > 0) {
        int32_t at[MAX_HELD];
        status = qn_expert_cache_arrivals(f->cache, true, at, &arrived, err);
        for (size_t i = 0; i < arrived && status == QN_OK; i++) {
            assert_in_range(at[i], i > 0 ? at[i - 1] + 1 : 0, (int32_t)count - 1);
            assert_false(told[at[i]]);
            told[at[i]] = true;
            all++;
        }
    }
    assert_true(status != QN_OK || all == count);
    return status;
}

static size_t draw_layer(fixture *f)
{
    size_t layer;
    do
        layer = draw(f, f->weights.layer_count);
    while (!qn_expert_cache_serves(f->cache, layer));
    return layer;
}

/* Up to `most` different ones, ascending. */
static size_t draw_experts(fixture *f, size_t most, int32_t *ids)
{
    size_t count = 0, wanted = 1 + draw(f, most);
    for (size_t e = 0; e < f->experts && count < wanted; e++) {
        if (draw(f, f->experts - e) < wanted - count)
            ids[count++] = (int32_t)e;
    }
    return count;
}

static const char *const CHECKPOINTS[] = {
    "tests/data/oracle/tiny-sparse",
    "tests/data/oracle/tiny-sharded",
    "tests/data/oracle/tiny-mtp",
    "tests/data/oracle/tiny-sparse-mxfp4-ct",
    "tests/data/oracle/tiny-sparse-mxfp4-fused",
    "tests/data/oracle/tiny-sparse-mxfp4-quark",
};

static void test_every_layout_comes_from_the_disk_as_it_is_mapped(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof CHECKPOINTS / sizeof *CHECKPOINTS; c++) {
        fixture f = open_model(CHECKPOINTS[c]);
        open_cache(&f, least_room(&f, draw(&f, 5)));
        uint64_t needed = 0;
        for (size_t i = 0; i < ROUNDS; i++) {
            int32_t ids[MAX_HELD], wanted[MAX_HELD];
            qn_expert_views views[MAX_HELD];
            qn_error err = {0};
            size_t layer = draw_layer(&f), count = draw_experts(&f, qn_expert_cache_most(f.cache), ids);
            if (hold_all(&f, layer, ids, count, views, &err) != QN_OK)
                fail_msg("%s", err.message);
            qn_expert_cache_want(f.cache, draw_layer(&f), wanted, draw_experts(&f, MAX_HELD, wanted));
            expect_experts(&f, layer, ids, count, views); /* what is wanted takes nothing away from what is held */
            needed += count;
        }
        const qn_expert_cache_figures *figures = qn_expert_cache_figures_of(f.cache);
        assert_int_equal(figures->hits + figures->late + figures->misses, needed);
        assert_true(figures->hits > 0 && figures->misses > 0 && figures->ahead_used <= figures->ahead);
        assert_true(figures->bytes_missed > 0 && figures->bytes_missed <= figures->bytes_read);
        close_model(&f);
    }
}

static void test_what_is_used_most_stays(void **state)
{
    (void)state;
    fixture f = open_model("tests/data/oracle/tiny-sparse-mxfp4-ct");
    open_cache(&f, least_room(&f, 0));
    size_t layer = draw_layer(&f);
    qn_error err;
    qn_expert_views views[2];
    const qn_expert_cache_figures *figures = qn_expert_cache_figures_of(f.cache);
    for (size_t i = 0; i < 50; i++)
        assert_int_equal(hold_all(&f, layer, (const int32_t[]){0, 1}, 2, views, &err), QN_OK);
    assert_int_equal(figures->misses, 2);
    for (size_t i = 0; i < 50; i++) {
        int32_t passing = (int32_t)(2 + i % (f.experts - 2));
        assert_int_equal(hold_all(&f, draw_layer(&f), &passing, 1, views, &err), QN_OK);
    }
    uint64_t misses = figures->misses;
    assert_int_equal(hold_all(&f, layer, (const int32_t[]){0, 1}, 2, views, &err), QN_OK);
    assert_int_equal(figures->misses, misses);
    close_model(&f);
}

static void test_experts_asked_for_ahead_are_no_misses(void **state)
{
    (void)state;
    fixture f = open_model("tests/data/oracle/tiny-sparse");
    open_cache(&f, least_room(&f, 0));
    size_t layer = draw_layer(&f);
    qn_error err;
    qn_expert_views views[2];
    const int32_t ids[] = {1, 3};
    const qn_expert_cache_figures *figures = qn_expert_cache_figures_of(f.cache);
    assert_int_equal(qn_expert_cache_lacks(f.cache, layer, ids, 2), 2);
    qn_expert_cache_want(f.cache, layer, ids, 2);
    assert_int_equal(qn_expert_cache_lacks(f.cache, layer, ids, 2), 0);
    assert_int_equal(hold_all(&f, layer, ids, 2, views, &err), QN_OK);
    expect_experts(&f, layer, ids, 2, views);
    assert_int_equal(figures->misses, 0);
    assert_int_equal(figures->ahead_used, 2);
    assert_int_equal(figures->bytes_missed, figures->bytes_read);
    uint64_t missed = figures->bytes_missed;
    assert_int_equal(hold_all(&f, layer, ids, 2, views, &err), QN_OK); /* needed again, and read once */
    assert_int_equal(figures->bytes_missed, missed);
    assert_int_equal(figures->hits + figures->late, 4);
    close_model(&f);
}

/* A guess that was not begun would be read before what is needed, and may be wrong. */
static void test_guesses_that_did_not_come_true_are_not_read(void **state)
{
    (void)state;
    fixture f = open_model("tests/data/oracle/tiny-sparse");
    open_cache(&f, least_room(&f, 0));
    size_t layer = draw_layer(&f);
    qn_error err;
    qn_expert_views views[1];
    const int32_t guessed[] = {0, 1, 2, 3}, needed[] = {4};
    const qn_expert_cache_figures *figures = qn_expert_cache_figures_of(f.cache);
    qn_expert_cache_want(f.cache, layer, guessed, 4); /* of three parts each, and four are read at once */
    assert_int_equal(qn_expert_cache_lacks(f.cache, layer, guessed, 4), 0);
    assert_int_equal(hold_all(&f, layer, needed, 1, views, &err), QN_OK);
    expect_experts(&f, layer, needed, 1, views);
    assert_int_equal(figures->ahead, 2);
    assert_true(figures->bytes_missed < figures->bytes_read); /* by what was read for guesses */
    assert_int_equal(qn_expert_cache_lacks(f.cache, layer, guessed, 2), 0);
    assert_int_equal(qn_expert_cache_lacks(f.cache, layer, guessed + 2, 2), 2);
    assert_int_equal(hold_all(&f, layer, guessed + 1, 1, views, &err), QN_OK); /* begun, and then left */
    expect_experts(&f, layer, guessed + 1, 1, views);
    assert_int_equal(figures->ahead_used, 1);
    close_model(&f);
}

/* Later guesses take the place of those that were not begun, however often, and none of them is lost room. */
static void test_later_guesses_take_the_place_of_earlier_ones(void **state)
{
    (void)state;
    fixture f = open_model("tests/data/oracle/tiny-sparse-mxfp4-ct");
    open_cache(&f, least_room(&f, 0));
    size_t layer = draw_layer(&f), other = draw_layer(&f);
    int32_t ids[MAX_HELD], guessed[MAX_HELD];
    qn_expert_views views[MAX_HELD];
    qn_error err = {0};
    for (size_t round = 0; round < 50; round++) {
        for (size_t i = 0; i < 8; i++)
            qn_expert_cache_want(f.cache, layer, guessed, draw_experts(&f, f.per_token, guessed));
        size_t count = draw_experts(&f, qn_expert_cache_most(f.cache), ids);
        if (hold_all(&f, layer, ids, count, views, &err) != QN_OK)
            fail_msg("%s", err.message);
        qn_expert_cache_want(f.cache, other, guessed, draw_experts(&f, f.per_token, guessed));
        qn_expert_cache_want(f.cache, layer, NULL, 0); /* nothing is wanted any more */
        expect_experts(&f, layer, ids, count, views);
    }
    close_model(&f);
}

static void test_what_is_there_does_not_wait_for_what_never_comes(void **state)
{
    (void)state;
    fixture f = open_model("tests/data/oracle/tiny-sparse-mxfp4-ct");
    open_patient_cache(&f, least_room(&f, 0), 1000);
    size_t layer = draw_layer(&f), count = 0;
    const int32_t ids[] = {1, 3, 4};
    int32_t arrived[3];
    qn_expert_views views[3];
    qn_error err = {0};
    while (hold_all(&f, layer, ids + 1, 1, views, &err) != QN_OK) /* as slow as the disk may be */
        continue;
    qn_fault_arm(QN_FAULT_WRITE, 1); /* the first request is lost */
    assert_int_equal(qn_expert_cache_hold(f.cache, layer, ids, 3, views, &err), QN_OK);
    qn_fault_disarm();
    assert_int_equal(qn_expert_cache_arrivals(f.cache, true, arrived, &count, &err), QN_OK);
    assert_true(count > 0);
    assert_int_equal(arrived[0], 1);
    expect_experts(&f, layer, ids + 1, 1, views + 1);
    qn_status status = QN_OK;
    for (size_t i = 0; i < 3 && status == QN_OK; i++) /* the third may come; the first does not */
        status = qn_expert_cache_arrivals(f.cache, true, arrived, &count, &err);
    assert_int_equal(status, QN_RESOURCE);
    assert_non_null(strstr(err.message, ".safetensors"));
    assert_non_null(strstr(err.message, "no read has got on"));
    close_model(&f);
}

/* Whichever read fails, the hold tells it, and the next one has the right bytes. */
static void test_every_failing_read_is_told_and_tried_again(void **state)
{
    (void)state;
    fixture f = open_model("tests/data/oracle/tiny-sparse-mxfp4-quark");
    size_t failed = 0;
    for (long nth = 1;; nth++) {
        open_cache(&f, least_room(&f, 0));
        size_t layer = draw_layer(&f);
        const int32_t ids[] = {0, 2};
        qn_expert_views views[2];
        qn_error err = {0};
        qn_fault_arm(QN_FAULT_READ, nth);
        qn_status status = hold_all(&f, layer, ids, 2, views, &err);
        qn_fault_disarm();
        if (status != QN_OK) {
            failed++;
            assert_int_equal(status, QN_RESOURCE);
            assert_non_null(strstr(err.message, ".safetensors"));
            assert_int_equal(hold_all(&f, layer, ids, 2, views, &err), QN_OK);
        }
        expect_experts(&f, layer, ids, 2, views);
        qn_expert_cache_free(f.cache);
        f.cache = NULL;
        if (status == QN_OK)
            break;
    }
    assert_true(failed >= 12); /* two experts of six parts */
    close_model(&f);
}

static void test_every_failing_allocation_is_told(void **state)
{
    (void)state;
    fixture f = open_model("tests/data/oracle/tiny-sharded");
    size_t bytes = qn_expert_cache_bytes(&f.weights, least_room(&f, 0)), refused = 0;
    for (int kind = QN_FAULT_ALLOC; kind <= QN_FAULT_READ; kind++) {
        for (long nth = 1;; nth++) {
            qn_error err = {0};
            qn_fault_arm((qn_fault_kind)kind, nth);
            qn_status status = qn_expert_cache_new(f.checkpoint, &f.weights, bytes, PATIENCE_US, &f.cache, &err);
            long seen = qn_fault_seen((qn_fault_kind)kind);
            qn_fault_disarm();
            if (status == QN_OK) { /* a read that fails at open is done through the page cache instead */
                qn_expert_cache_free(f.cache);
                f.cache = NULL;
            } else {
                assert_null(f.cache);
                assert_true(err.message[0] != 0);
                refused++;
            }
            if (seen < nth)
                break;
        }
    }
    assert_true(refused > 5);
    close_model(&f);
}

static void test_too_small_a_cache_is_refused_with_the_size_that_does(void **state)
{
    (void)state;
    fixture f = open_model("tests/data/oracle/tiny-sparse");
    qn_error err = {0};
    size_t least = least_room(&f, 0);
    char needed[64];
    snprintf(needed, sizeof needed, "give at least %zu", qn_expert_cache_bytes(&f.weights, least));
    assert_int_equal(qn_expert_cache_new(f.checkpoint, &f.weights, qn_expert_cache_bytes(&f.weights, least) - 1,
                                         PATIENCE_US, &f.cache, &err),
                     QN_USAGE);
    assert_non_null(strstr(err.message, needed));
    close_model(&f);
}

static void test_a_model_without_experts_is_refused(void **state)
{
    (void)state;
    fixture f = open_model("tests/data/oracle/tiny-sparse");
    qn_error err = {0};
    for (size_t i = 0; i < f.weights.layer_count; i++)
        f.weights.layers[i].experts.count = 0;
    assert_int_equal(qn_expert_cache_new(f.checkpoint, &f.weights, 1 << 20, PATIENCE_US, &f.cache, &err), QN_USAGE);
    assert_non_null(strstr(err.message, "no routed experts"));
    close_model(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_layout_comes_from_the_disk_as_it_is_mapped),
        cmocka_unit_test(test_what_is_used_most_stays),
        cmocka_unit_test(test_experts_asked_for_ahead_are_no_misses),
        cmocka_unit_test(test_guesses_that_did_not_come_true_are_not_read),
        cmocka_unit_test(test_later_guesses_take_the_place_of_earlier_ones),
        cmocka_unit_test(test_what_is_there_does_not_wait_for_what_never_comes),
        cmocka_unit_test(test_every_failing_read_is_told_and_tried_again),
        cmocka_unit_test(test_every_failing_allocation_is_told),
        cmocka_unit_test(test_too_small_a_cache_is_refused_with_the_size_that_does),
        cmocka_unit_test(test_a_model_without_experts_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
