#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>

#include "server/budget.h"

enum { THREADS = 16, ROUNDS = 500, TOTAL = 100 };

static qn_budget budget;
static atomic_size_t held, most;

static void *take_and_give(void *context)
{
    const size_t amount = *(const size_t *)context;
    for (int i = 0; i < ROUNDS; i++) {
        size_t taken = qn_budget_take(&budget, amount);
        size_t now = atomic_fetch_add(&held, taken) + taken, before = atomic_load(&most);
        while (now > before && !atomic_compare_exchange_weak(&most, &before, now)) {
        }
        atomic_fetch_sub(&held, taken);
        qn_budget_give(&budget, taken);
    }
    return NULL;
}

/* Small takers and ones that want more than there is: all come to their turn, never beyond the total. */
static void test_total_is_never_passed(void **state)
{
    (void)state;
    qn_budget_init(&budget, TOTAL);
    pthread_t threads[THREADS];
    size_t amounts[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        amounts[i] = i % 4 == 0 ? 2 * TOTAL : 15 * i;
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, &amounts[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_in_range(atomic_load(&most), 1, TOTAL);
    assert_int_equal(budget.taken, 0);
    qn_budget_destroy(&budget);
}

static void test_amounts_share_the_total(void **state)
{
    (void)state;
    qn_budget_init(&budget, TOTAL);
    size_t first = qn_budget_take(&budget, 60), second = qn_budget_take(&budget, 40);
    assert_int_equal(first, 60);
    assert_int_equal(second, 40);
    assert_int_equal(qn_budget_take(&budget, 0), 0);
    qn_budget_give(&budget, first);
    qn_budget_give(&budget, second);
    size_t all = qn_budget_take(&budget, TOTAL + 1);
    assert_int_equal(all, TOTAL);
    qn_budget_give(&budget, all);
    qn_budget_destroy(&budget);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_total_is_never_passed),
                                       cmocka_unit_test(test_amounts_share_the_total)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
