#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/fault.h"
#include "server/response_store.h"

enum { NOBODY = -1, ALICE = 0, BOB = 1, OUTPUT_AT = 11 };

static qn_response_store *store_of(size_t limit)
{
    qn_response_store *store = NULL;
    qn_error err;
    assert_int_equal(qn_response_store_new(limit, &store, &err), QN_OK);
    return store;
}

static qn_stored_text text_of(const char *text)
{
    return (qn_stored_text){.text = text, .bytes = strlen(text)};
}

static void assert_text(qn_stored_text text, const char *wanted)
{
    assert_int_equal(text.bytes, strlen(wanted));
    assert_memory_equal(text.text, wanted, text.bytes);
}

/* {"output": [...]} with as many bytes of output as asked for. */
static bool put(qn_response_store *store, long owner, const char *id, qn_stored_response *previous, size_t output_bytes)
{
    qn_stored_response *opened = qn_response_store_open(store, owner, id, previous, text_of("[\"in\"]"));
    if (opened == NULL) {
        return false;
    }
    size_t bytes = OUTPUT_AT + output_bytes + 1;
    char *body = malloc(bytes + 1);
    assert_non_null(body);
    snprintf(body, bytes + 1, "{\"output\": %*s}", (int)output_bytes, "");
    memset(body + OUTPUT_AT, 'x', output_bytes);
    bool kept = qn_response_store_keep(store, opened, (qn_stored_text){.text = body, .bytes = bytes}, OUTPUT_AT,
                                       output_bytes);
    free(body);
    return kept;
}

static bool knows(qn_response_store *store, long owner, const char *id)
{
    qn_stored_response *held = qn_response_store_get(store, owner, id);
    qn_response_store_release(store, held);
    return held != NULL;
}

static void assert_bounded(qn_response_store *store)
{
    qn_response_store_counts counts = qn_response_store_count(store);
    if (counts.bytes > counts.limit_bytes) {
        fail_msg("%zu bytes of %zu", counts.bytes, counts.limit_bytes);
    }
}

static void test_what_was_kept_comes_back(void **state)
{
    (void)state;
    qn_response_store *store = store_of(1 << 16);
    size_t empty = qn_response_store_count(store).bytes;
    qn_stored_response *opened = qn_response_store_open(store, NOBODY, "resp_1", NULL, text_of("[{\"id\":\"a\"}]"));
    assert_non_null(opened);
    assert_false(knows(store, NOBODY, "resp_1")); /* not before it is complete */
    assert_true(qn_response_store_keep(store, opened, text_of("{\"output\":[1],\"x\":2}"), 10, 3));
    qn_stored_response *held = qn_response_store_get(store, NOBODY, "resp_1");
    assert_non_null(held);
    assert_text(qn_stored_input(held), "[{\"id\":\"a\"}]");
    assert_text(qn_stored_body(held), "{\"output\":[1],\"x\":2}");
    assert_text(qn_stored_output(held), "[1]");
    assert_null(qn_stored_previous(held));
    assert_false(knows(store, NOBODY, "resp_2"));
    assert_true(qn_response_store_delete(store, NOBODY, "resp_1"));
    assert_false(qn_response_store_delete(store, NOBODY, "resp_1"));
    assert_text(qn_stored_body(held), "{\"output\":[1],\"x\":2}"); /* as long as it is held */
    assert_true(qn_response_store_count(store).bytes > empty);
    qn_response_store_release(store, held);
    assert_int_equal(qn_response_store_count(store).bytes, empty);
    qn_response_store_free(store);
}

static void test_ids_of_others_are_unknown(void **state)
{
    (void)state;
    qn_response_store *store = store_of(1 << 16);
    assert_true(put(store, ALICE, "resp_1", NULL, 10));
    assert_false(knows(store, BOB, "resp_1"));
    assert_false(knows(store, NOBODY, "resp_1"));
    assert_false(qn_response_store_delete(store, BOB, "resp_1"));
    assert_true(put(store, BOB, "resp_1", NULL, 20)); /* neither takes the other's place */
    qn_stored_response *alices = qn_response_store_get(store, ALICE, "resp_1");
    qn_stored_response *bobs = qn_response_store_get(store, BOB, "resp_1");
    assert_int_equal(qn_stored_output(alices).bytes, 10);
    assert_int_equal(qn_stored_output(bobs).bytes, 20);
    qn_response_store_release(store, alices);
    qn_response_store_release(store, bobs);
    assert_true(put(store, BOB, "resp_1", NULL, 30)); /* its owner's is replaced */
    assert_int_equal(qn_response_store_count(store).count, 2);
    qn_response_store_free(store);
}

/* Room for so many responses of 100 bytes of output, and not for one more. */
static qn_response_store *store_for(size_t responses)
{
    qn_response_store *probe = store_of(1 << 14);
    size_t before = qn_response_store_count(probe).bytes;
    assert_true(put(probe, NOBODY, "resp_0", NULL, 100));
    size_t each = qn_response_store_count(probe).bytes - before;
    qn_response_store_free(probe);
    for (size_t limit = responses * each;; limit++) { /* its table depends on the limit */
        qn_response_store *store = store_of(limit);
        if (qn_response_store_count(store).bytes + responses * each == limit) {
            return store;
        }
        qn_response_store_free(store);
    }
}

static void test_the_least_recently_used_gives_way(void **state)
{
    (void)state;
    qn_response_store *store = store_for(3);
    assert_true(put(store, NOBODY, "resp_1", NULL, 100));
    assert_true(put(store, NOBODY, "resp_2", NULL, 100));
    assert_true(put(store, NOBODY, "resp_3", NULL, 100));
    qn_response_store_counts full = qn_response_store_count(store);
    assert_int_equal(full.bytes, full.limit_bytes);
    assert_true(knows(store, NOBODY, "resp_1")); /* a use */
    assert_true(put(store, NOBODY, "resp_4", NULL, 100));
    assert_false(knows(store, NOBODY, "resp_2"));
    assert_true(knows(store, NOBODY, "resp_1") && knows(store, NOBODY, "resp_3") && knows(store, NOBODY, "resp_4"));
    qn_response_store_counts counts = qn_response_store_count(store);
    assert_int_equal(counts.count, 3);
    assert_int_equal(counts.evicted, 1);
    assert_int_equal(counts.bytes, counts.limit_bytes);
    qn_response_store_free(store);
}

/* The end of a conversation gives way before its beginning: it frees memory, the beginning alone would not. */
static void test_a_conversation_gives_way_from_its_end(void **state)
{
    (void)state;
    qn_response_store *store = store_for(3);
    qn_stored_response *previous = NULL;
    for (int i = 1; i <= 3; i++) {
        char id[QN_RESPONSE_ID_BYTES];
        snprintf(id, sizeof id, "resp_%d", i);
        assert_true(put(store, NOBODY, id, previous, 100));
        qn_response_store_release(store, previous);
        previous = qn_response_store_get(store, NOBODY, id);
    }
    assert_text(qn_stored_input(qn_stored_previous(qn_stored_previous(previous))), "[\"in\"]");
    qn_response_store_release(store, previous);
    assert_true(put(store, NOBODY, "resp_x", NULL, 100));
    assert_false(knows(store, NOBODY, "resp_3"));
    assert_true(knows(store, NOBODY, "resp_1") && knows(store, NOBODY, "resp_2"));
    assert_int_equal(qn_response_store_count(store).evicted, 1);
    qn_response_store_free(store);
}

static void test_a_deleted_beginning_lasts_for_its_end(void **state)
{
    (void)state;
    qn_response_store *store = store_of(1 << 16);
    size_t empty = qn_response_store_count(store).bytes;
    assert_true(put(store, NOBODY, "resp_1", NULL, 100));
    qn_stored_response *first = qn_response_store_get(store, NOBODY, "resp_1");
    assert_true(put(store, NOBODY, "resp_2", first, 100));
    qn_response_store_release(store, first);
    assert_true(qn_response_store_delete(store, NOBODY, "resp_1"));
    assert_false(knows(store, NOBODY, "resp_1"));
    qn_stored_response *second = qn_response_store_get(store, NOBODY, "resp_2");
    assert_int_equal(qn_stored_output(qn_stored_previous(second)).bytes, 100);
    qn_response_store_release(store, second);
    assert_true(qn_response_store_delete(store, NOBODY, "resp_2"));
    assert_int_equal(qn_response_store_count(store).bytes, empty);
    qn_response_store_free(store);
}

static void test_what_never_fits_drives_nobody_out(void **state)
{
    (void)state;
    qn_response_store *store = store_for(3);
    assert_true(put(store, NOBODY, "resp_1", NULL, 100));
    assert_false(put(store, NOBODY, "resp_2", NULL, 5000));
    assert_true(knows(store, NOBODY, "resp_1"));
    assert_int_equal(qn_response_store_count(store).refused, 1);
    qn_stored_response *first = qn_response_store_get(store, NOBODY, "resp_1"); /* with what it goes on from */
    assert_false(put(store, NOBODY, "resp_3", first, 600));
    assert_true(knows(store, NOBODY, "resp_1"));
    qn_response_store_release(store, first);
    assert_true(put(store, NOBODY, "resp_4", NULL, 600));
    qn_response_store_free(store);
    store = store_of(1);
    assert_false(put(store, NOBODY, "resp_1", NULL, 1));
    qn_response_store_free(store);
}

/* What is held counts, though nobody knows it any more. */
static void test_held_responses_count(void **state)
{
    (void)state;
    qn_response_store *store = store_for(2);
    assert_true(put(store, NOBODY, "resp_1", NULL, 100));
    qn_stored_response *held = qn_response_store_get(store, NOBODY, "resp_1");
    assert_true(put(store, NOBODY, "resp_2", NULL, 100));
    assert_false(put(store, NOBODY, "resp_3", NULL, 101)); /* more than one that is not held leaves room for */
    assert_bounded(store);
    qn_response_store_release(store, held);
    assert_true(put(store, NOBODY, "resp_3", NULL, 101));
    assert_bounded(store);
    qn_response_store_free(store);
}

static void test_random_use_stays_within_the_bound(void **state)
{
    (void)state;
    unsigned seed = 20261202;
    print_message("seed %u\n", seed);
    srand(seed);
    qn_response_store *store = store_of(8000);
    size_t empty = qn_response_store_count(store).bytes;
    qn_stored_response *held[8] = {0};
    for (int i = 0; i < 20000; i++) {
        char id[QN_RESPONSE_ID_BYTES];
        snprintf(id, sizeof id, "resp_%d", rand() % 100);
        long owner = rand() % 2;
        size_t at = (size_t)(rand() % 8);
        switch (rand() % 4) {
        case 0:
            qn_response_store_delete(store, owner, id);
            break;
        case 1:
            qn_response_store_release(store, held[at]);
            held[at] = qn_response_store_get(store, owner, id);
            break;
        default:
            put(store, owner, id, held[at], (size_t)(rand() % 3000));
        }
        assert_bounded(store);
    }
    for (size_t i = 0; i < 8; i++) {
        qn_response_store_release(store, held[i]);
    }
    for (int i = 0; i < 200; i++) {
        char id[QN_RESPONSE_ID_BYTES];
        snprintf(id, sizeof id, "resp_%d", i / 2);
        qn_response_store_delete(store, i % 2, id);
    }
    qn_response_store_counts counts = qn_response_store_count(store);
    assert_int_equal(counts.count, 0);
    assert_int_equal(counts.bytes, empty);
    print_message("%zu gave way, %zu found no room\n", (size_t)counts.evicted, (size_t)counts.refused);
    assert_true(counts.evicted > 0 && counts.refused > 0);
    qn_response_store_free(store);
}

static void test_short_of_memory(void **state)
{
    (void)state;
    qn_response_store *store = NULL;
    qn_error err;
    qn_fault_arm(QN_FAULT_ALLOC, 1);
    assert_int_equal(qn_response_store_new(1 << 16, &store, &err), QN_RESOURCE);
    qn_fault_disarm();
    store = store_of(1 << 16);
    size_t empty = qn_response_store_count(store).bytes;
    for (long nth = 1; nth <= 2; nth++) {
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        assert_false(put(store, NOBODY, "resp_1", NULL, 100));
        qn_fault_disarm();
        assert_false(knows(store, NOBODY, "resp_1"));
        assert_int_equal(qn_response_store_count(store).bytes, empty);
    }
    qn_fault_arm(QN_FAULT_ALLOC, 3);
    assert_true(put(store, NOBODY, "resp_1", NULL, 100));
    qn_fault_disarm();
    assert_int_equal(qn_response_store_count(store).refused, 2);
    qn_response_store_free(store);
}

typedef struct visitor {
    pthread_t thread;
    qn_response_store *store;
    unsigned seed;
} visitor;

static void *visit(void *context)
{
    visitor *v = context;
    for (int i = 0; i < 2000; i++) {
        char id[QN_RESPONSE_ID_BYTES];
        snprintf(id, sizeof id, "resp_%d", rand_r(&v->seed) % 20);
        qn_stored_response *previous = qn_response_store_get(v->store, NOBODY, id);
        if (previous != NULL && qn_stored_output(previous).bytes > 0 && qn_stored_output(previous).text[0] != 'x') {
            abort();
        }
        snprintf(id, sizeof id, "resp_%d", rand_r(&v->seed) % 20);
        put(v->store, NOBODY, id, previous, (size_t)(rand_r(&v->seed) % 500));
        qn_response_store_release(v->store, previous);
        snprintf(id, sizeof id, "resp_%d", rand_r(&v->seed) % 20);
        qn_response_store_delete(v->store, NOBODY, id);
        qn_response_store_counts counts = qn_response_store_count(v->store);
        if (counts.bytes > counts.limit_bytes) {
            abort();
        }
    }
    return NULL;
}

static void test_threads_meet(void **state)
{
    (void)state;
    visitor visitors[4];
    qn_response_store *store = store_of(5000);
    for (unsigned i = 0; i < 4; i++) {
        visitors[i] = (visitor){.store = store, .seed = i + 1};
        assert_int_equal(pthread_create(&visitors[i].thread, NULL, visit, &visitors[i]), 0);
    }
    for (size_t i = 0; i < 4; i++) {
        pthread_join(visitors[i].thread, NULL);
    }
    assert_bounded(store);
    qn_response_store_free(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_kept_comes_back),
        cmocka_unit_test(test_ids_of_others_are_unknown),
        cmocka_unit_test(test_the_least_recently_used_gives_way),
        cmocka_unit_test(test_a_conversation_gives_way_from_its_end),
        cmocka_unit_test(test_a_deleted_beginning_lasts_for_its_end),
        cmocka_unit_test(test_what_never_fits_drives_nobody_out),
        cmocka_unit_test(test_held_responses_count),
        cmocka_unit_test(test_random_use_stays_within_the_bound),
        cmocka_unit_test(test_short_of_memory),
        cmocka_unit_test(test_threads_meet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
