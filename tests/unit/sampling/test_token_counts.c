/* Counts against a plain table of the vocabulary. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/fault.h"
#include "base/random.h"
#include "sampling/token_counts.h"
#include "unit/random_stream.h"

enum { VOCABULARY = 3000 };

typedef struct plain_counts {
    uint32_t in_answer[VOCABULARY];
    bool in_prompt[VOCABULARY];
} plain_counts;

static void assert_equals(const qn_token_counts *counts, const plain_counts *plain)
{
    size_t different = 0;
    for (int32_t token = 0; token < VOCABULARY; token++) {
        qn_token_count one = qn_token_counts_of(counts, token);
        assert_int_equal(one.token, token);
        assert_int_equal(one.in_answer, plain->in_answer[token]);
        assert_int_equal(one.in_prompt, plain->in_prompt[token]);
        different += plain->in_answer[token] > 0 || plain->in_prompt[token];
    }
    const qn_token_count *list;
    assert_int_equal(qn_token_counts_list(counts, &list), different);
    for (size_t i = 0; i < different; i++) {
        qn_token_count same = qn_token_counts_of(counts, list[i].token);
        assert_int_equal(list[i].in_answer, same.in_answer);
        assert_int_equal(list[i].in_prompt, same.in_prompt);
    }
}

/* Ids that share low bits, and ids in a row: both make an index with a poor hash go round for long. */
static int32_t random_token(random_stream *r, int shape)
{
    uint32_t word = random_word(r);
    return (int32_t)(shape == 0 ? word % VOCABULARY : shape == 1 ? word % 20 : word % 11 * 256);
}

static void counts_equal_those_of_a_plain_table(void **state)
{
    (void)state;
    random_stream r = {.seed = qn_random_seed(), .next = 0};
    print_message("seed %llu\n", (unsigned long long)r.seed);
    static plain_counts plain;
    static int32_t prompt[5000];
    qn_error err;
    for (int round = 0; round < 60; round++) {
        memset(&plain, 0, sizeof plain);
        size_t count = round % 7 == 0 ? 0 : random_word(&r) % 5000;
        for (size_t i = 0; i < count; i++) {
            prompt[i] = random_token(&r, round % 3);
            plain.in_prompt[prompt[i]] = true;
        }
        qn_token_counts *counts;
        assert_int_equal(qn_token_counts_new(prompt, count, &counts, &err), QN_OK);
        assert_equals(counts, &plain);
        for (size_t i = 0; i < random_word(&r) % 4000; i++) {
            int32_t token = random_token(&r, (round / 3) % 3);
            plain.in_answer[token]++;
            assert_int_equal(qn_token_counts_add(counts, token, &err), QN_OK);
        }
        assert_equals(counts, &plain);
        qn_token_counts_free(counts);
    }
    qn_token_counts_free(NULL);
}

static void failed_allocation_loses_no_count(void **state)
{
    (void)state;
    qn_error err;
    enum { TOKENS = 600 };
    int32_t prompt[TOKENS];
    for (int32_t i = 0; i < TOKENS; i++) {
        prompt[i] = i;
    }
    for (long n = 1;; n++) {
        qn_token_counts *counts;
        qn_fault_arm(QN_FAULT_ALLOC, n);
        qn_status status = qn_token_counts_new(prompt, TOKENS, &counts, &err);
        qn_fault_disarm();
        if (status == QN_OK) {
            assert_true(n > 3);
            qn_token_counts_free(counts);
            break;
        }
        assert_int_equal(status, QN_RESOURCE);
    }
    for (long n = 1; n <= 2; n++) {
        qn_token_counts *counts;
        assert_int_equal(qn_token_counts_new(NULL, 0, &counts, &err), QN_OK);
        qn_fault_arm(QN_FAULT_ALLOC, n);
        int32_t token = 0;
        while (qn_token_counts_add(counts, token, &err) == QN_OK) {
            token++;
        }
        qn_fault_disarm();
        assert_int_equal(err.status, QN_RESOURCE);
        const qn_token_count *list;
        assert_int_equal(qn_token_counts_list(counts, &list), token);
        assert_int_equal(qn_token_counts_add(counts, token, &err), QN_OK);
        for (int32_t seen = 0; seen <= token; seen++) {
            assert_int_equal(qn_token_counts_of(counts, seen).in_answer, 1);
        }
        qn_token_counts_free(counts);
    }
}

static void reserved_room_needs_no_memory(void **state)
{
    (void)state;
    qn_error err;
    qn_token_counts *counts;
    assert_int_equal(qn_token_counts_new(NULL, 0, &counts, &err), QN_OK);
    assert_int_equal(qn_token_counts_reserve(counts, 1000, &err), QN_OK);
    qn_fault_arm(QN_FAULT_ALLOC, 1);
    for (int32_t token = 0; token < 1000; token++) {
        assert_int_equal(qn_token_counts_add(counts, 7 * token, &err), QN_OK);
    }
    qn_fault_disarm();
    assert_int_equal(qn_token_counts_reserve(counts, SIZE_MAX, &err), QN_RESOURCE);
    assert_int_equal(qn_token_counts_reserve(counts, SIZE_MAX / 4, &err), QN_RESOURCE);
    assert_int_equal(qn_token_counts_of(counts, 700).in_answer, 1);
    qn_token_counts_free(counts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_equal_those_of_a_plain_table),
        cmocka_unit_test(failed_allocation_loses_no_count),
        cmocka_unit_test(reserved_room_needs_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
