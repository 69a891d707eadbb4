/* The index against a plain table that looks at all entries. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/fault.h"
#include "base/random.h"
#include "kv/store_index.h"
#include "store_support.h"

enum { NODES = 200, STEPS = 20000 };

/* Node i's parent is i / 3; node 0 is its own. */
typedef struct node {
    bool there, foreign;
    qn_kv_entry_state state;
    int64_t recency_ns;
} node;

static node nodes[NODES];

static qn_hash id_of(size_t i)
{
    return test_key(77, i);
}

static bool is_leaf(size_t i)
{
    for (size_t child = 0; child < NODES; child++) {
        if (nodes[child].there && child / 3 == i)
            return false;
    }
    return true;
}

static size_t expected_victim(void)
{
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < NODES; i++) {
        if (!nodes[i].there || nodes[i].state != QN_KV_ENTRY_STORED || !is_leaf(i))
            continue;
        bool better = best == SIZE_MAX ||
                      (nodes[i].foreign != nodes[best].foreign ? nodes[i].foreign
                                                               : nodes[i].recency_ns < nodes[best].recency_ns);
        best = better ? i : best;
    }
    return best;
}

static void check(const qn_kv_index *index)
{
    size_t blocks = 0, victim = expected_victim();
    uint64_t bytes = 0;
    for (size_t i = 0; i < NODES; i++) {
        blocks += nodes[i].there && nodes[i].state == QN_KV_ENTRY_STORED && !nodes[i].foreign;
        bytes += nodes[i].there && nodes[i].state != QN_KV_ENTRY_QUEUED ? i + 1 : 0;
        assert_int_equal(qn_kv_index_find(index, id_of(i)) != NULL, nodes[i].there);
    }
    assert_int_equal(qn_kv_index_blocks(index), blocks);
    assert_int_equal(qn_kv_index_bytes(index), bytes);
    const qn_kv_entry *found = qn_kv_index_victim(index);
    if (victim == SIZE_MAX)
        assert_null(found);
    else
        assert_true(found && qn_hash_equal(found->id, id_of(victim)));
}

/* One random change to node i and its entry. */
static void step(qn_kv_index *index, size_t i, uint32_t choice)
{
    qn_kv_entry *entry = qn_kv_index_find(index, id_of(i));
    if (!entry) {
        nodes[i] = (node){.there = true, .foreign = choice % 8 == 0, .state = QN_KV_ENTRY_QUEUED};
        assert_non_null(qn_kv_index_add(index, id_of(i), id_of(i / 3), nodes[i].foreign));
    } else if (nodes[i].state == QN_KV_ENTRY_QUEUED && choice % 4 != 0) {
        nodes[i].state = QN_KV_ENTRY_STORED;
        nodes[i].recency_ns = choice % 2 ? qn_kv_index_tick(index) : (int64_t)(choice >> 3) * NODES + (int64_t)i;
        qn_kv_index_set_stored(index, entry, i + 1, nodes[i].recency_ns);
    } else if (nodes[i].state == QN_KV_ENTRY_STORED && choice % 4 == 0) {
        nodes[i].recency_ns = qn_kv_index_tick(index);
        qn_kv_index_touch(index, entry, nodes[i].recency_ns);
    } else if (nodes[i].state == QN_KV_ENTRY_STORED && choice % 4 == 1) {
        nodes[i].state = QN_KV_ENTRY_REMOVING;
        qn_kv_index_set_removing(index, entry);
    } else {
        nodes[i].there = false;
        qn_kv_index_erase(index, entry);
    }
}

static void test_victims_are_those_of_a_plain_search(void **state)
{
    (void)state;
    uint64_t seed = qn_random_seed();
    print_message("seed %llu\n", (unsigned long long)seed);
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    qn_kv_index *index = qn_kv_index_new(NODES);
    assert_non_null(index);
    for (uint32_t i = 0; i < STEPS; i++) {
        uint32_t out[4];
        qn_philox4x32_10((const uint32_t[4]){i, 0, 0, 0}, key, out);
        step(index, out[0] % NODES, out[1]);
        if (i % 10 == 0)
            check(index);
    }
    qn_kv_index_free(index);
    qn_kv_index_free(NULL);
    memset(nodes, 0, sizeof nodes);
}

static void test_ticks_rise_and_stay_behind_no_date(void **state)
{
    (void)state;
    const int64_t future_ns = INT64_MAX / 2;
    qn_kv_index *index = qn_kv_index_new(0);
    int64_t first = qn_kv_index_tick(index), second = qn_kv_index_tick(index);
    assert_true(first < second);
    qn_kv_entry *entry = qn_kv_index_add(index, id_of(1), id_of(0), false);
    qn_kv_index_set_stored(index, entry, 1, future_ns);
    assert_true(qn_kv_index_tick(index) > future_ns);
    qn_kv_index_free(index);
}

static void test_want_of_memory_changes_nothing(void **state)
{
    (void)state;
    for (long nth = 1; nth <= 3; nth++) {
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        assert_null(qn_kv_index_new(NODES));
        qn_fault_disarm();
    }
    qn_kv_index *index = qn_kv_index_new(NODES);
    for (long nth = 1; nth <= 2; nth++) {
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        assert_null(qn_kv_index_add(index, id_of(1), id_of(0), false));
        qn_fault_disarm();
        assert_null(qn_kv_index_find(index, id_of(1)));
        assert_null(qn_kv_index_victim(index));
    }
    qn_kv_index_free(index);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_victims_are_those_of_a_plain_search),
        cmocka_unit_test(test_ticks_rise_and_stay_behind_no_date),
        cmocka_unit_test(test_want_of_memory_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
