/* The counts of a model whose experts come from the disk, and of one that has them in memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "bench/expert_sample.h"
#include "bench/model_rig.h"

static const char MODEL[] = "models/quern-tiny";

static void count_of_steps(size_t cache_bytes, size_t steps, qn_expert_counts *out, size_t *taken)
{
    qn_checkpoint *checkpoint;
    qn_model_rig *rig;
    qn_error err;
    assert_int_equal(qn_checkpoint_open(MODEL, &checkpoint, &err), QN_OK);
    const qn_model_rig_options options = {.checkpoint = checkpoint,
                                          .threads = 1,
                                          .sequences = 1,
                                          .context_tokens = 16,
                                          .max_rows = 1,
                                          .logit_rows = 1,
                                          .expert_cache_bytes = cache_bytes};
    assert_int_equal(qn_model_rig_open(&options, &rig, &err), QN_OK);
    const qn_expert_counts before = qn_expert_counts_now(qn_model_rig_model(rig));
    qn_call_times times = {0};
    for (size_t i = 0; i < steps; i++)
        assert_int_equal(qn_model_rig_call(rig, 1, 3, 1, QN_RIG_NO_LOGITS, &times, &err), QN_OK);
    *out = qn_expert_counts_add(qn_expert_counts_now(qn_model_rig_model(rig)), -1, before);
    *taken = times.experts;
    qn_model_rig_close(rig);
    qn_checkpoint_close(checkpoint);
}

static void counts_are_those_of_the_steps(void **state)
{
    (void)state;
    qn_expert_counts did;
    size_t taken;
    count_of_steps(2 << 20, 40, &did, &taken);
    assert_true(did.of[QN_EXPERTS_NEEDED] == (double)taken);
    assert_true(did.of[QN_EXPERTS_HIT] > 0 && did.of[QN_EXPERTS_HIT] < did.of[QN_EXPERTS_NEEDED]);
    assert_true(did.of[QN_EXPERTS_GUESSED] > 0 && did.of[QN_EXPERTS_RIGHT] <= did.of[QN_EXPERTS_GUESSED]);
    assert_true(did.of[QN_EXPERTS_AHEAD_USED] <= did.of[QN_EXPERTS_AHEAD]);
    assert_true(did.of[QN_EXPERTS_BYTES_MISSED] > 0);
    assert_true(did.of[QN_EXPERTS_BYTES_MISSED] <= did.of[QN_EXPERTS_BYTES_READ]);
}

static void nothing_counts_without_a_cache(void **state)
{
    (void)state;
    qn_expert_counts did;
    size_t taken;
    count_of_steps(0, 2, &did, &taken);
    assert_true(taken > 0);
    for (size_t i = 0; i < QN_EXPERT_COUNTS; i++)
        assert_true(did.of[i] <= 0 && did.of[i] >= 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_those_of_the_steps),
        cmocka_unit_test(nothing_counts_without_a_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
