#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/fault.h"
#include "base/memory.h"
#include "checkpoint/index.h"
#include "convert/shard_plan.h"
#include "support.h"

static char folder[SUPPORT_PATH_BYTES];

static int make_folder(void **state)
{
    (void)state;
    support_make(folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    support_remove(folder);
    return 0;
}

static qn_source *open_source(const char *config_path, size_t files)
{
    qn_source *source = NULL;
    qn_error err;
    support_make_source(folder, config_path, files);
    if (qn_source_open(folder, false, &source, &err) != QN_OK)
        fail_msg("%s", err.message);
    return source;
}

static qn_shard_plan *make_plan(const qn_source *source, uint64_t max_shard_bytes)
{
    qn_shard_plan *plan = NULL;
    qn_error err;
    if (qn_shard_plan_new(source, max_shard_bytes, &plan, &err) != QN_OK)
        fail_msg("%s", err.message);
    return plan;
}

/* Each tensor stands once, in ascending order within experts and rest, in files of one layer's experts or of the rest
 * that keep to the size and could not have taken one more. */
static void check_plan(const qn_source *source, const qn_shard_plan *plan, uint64_t limit)
{
    size_t count = qn_source_count(source), seen = 0, last[2] = {0, 0};
    uint64_t total = 0;
    uint8_t *times = qn_alloc_zero(count, 1);
    assert_non_null(times);
    for (size_t i = 0; i < qn_shard_plan_count(plan); i++) {
        const qn_planned_shard *s = qn_shard_plan_at(plan, i);
        char name[QN_SHARD_NAME_BYTES];
        snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", i + 1, qn_shard_plan_count(plan));
        assert_string_equal(s->name, name);
        assert_int_equal(qn_shard_plan_find(plan, name), i);
        uint64_t bytes = 0;
        for (size_t k = 0; k < s->count; k++) {
            const qn_source_tensor *t = qn_source_at(source, s->tensors[k]);
            bool expert = t->expert != QN_NO_INDEX;
            assert_int_equal(expert ? t->layer : QN_NO_INDEX, s->layer);
            assert_int_equal(times[s->tensors[k]]++, 0);
            assert_true(s->tensors[k] >= last[expert]);
            last[expert] = s->tensors[k];
            bytes += qn_planned_output_bytes(t);
            seen++;
        }
        assert_int_equal(bytes, s->bytes);
        assert_true(bytes <= limit || s->count == 1);
        if (i + 1 < qn_shard_plan_count(plan) && qn_shard_plan_at(plan, i + 1)->layer == s->layer) {
            const qn_source_tensor *next = qn_source_at(source, qn_shard_plan_at(plan, i + 1)->tensors[0]);
            assert_true(bytes + qn_planned_output_bytes(next) > limit);
        }
        total += bytes;
    }
    assert_int_equal(seen, count);
    assert_int_equal(total, qn_shard_plan_bytes(plan));
    qn_free(times);
}

static void test_glm_5_3(void **state)
{
    (void)state;
    qn_source *source = open_source("tests/data/glm-5.3/config.json", 282);
    qn_shard_plan *plan = make_plan(source, QN_DEFAULT_SHARD_BYTES);
    check_plan(source, plan, QN_DEFAULT_SHARD_BYTES);
    size_t layers = 0;
    for (size_t i = 0; i < qn_shard_plan_count(plan); i++) {
        const qn_planned_shard *s = qn_shard_plan_at(plan, i);
        if (s->layer == QN_NO_INDEX) {
            assert_int_equal(layers, 0); /* the rest comes first */
            continue;
        }
        layers++;
        assert_int_equal(s->count, 3 * 256);
        assert_int_equal(s->bytes, UINT64_C(256) * 3 * 6144 * 2048 / 32 * 17);
    }
    assert_int_equal(layers, 76); /* 75 and the MTP layer's */
    assert_int_equal((qn_shard_plan_bytes(plan) + (1 << 29)) >> 30, 399);
    assert_int_equal(qn_shard_plan_find(plan, "model-00001-of-00001.safetensors"), QN_NO_INDEX);
    qn_shard_plan_free(plan);
    qn_source_close(source);
}

static void test_sizes_of_files(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {QN_MIN_SHARD_BYTES, 100000, 1000000, QN_DEFAULT_SHARD_BYTES};
    qn_source *source = open_source("models/quern-tiny/config.json", 3);
    for (size_t i = 0; i < 4; i++) {
        qn_shard_plan *plan = make_plan(source, sizes[i]);
        check_plan(source, plan, sizes[i]);
        qn_shard_plan_free(plan);
    }
    qn_source_close(source);
}

static void test_too_many_files(void **state)
{
    (void)state;
    qn_source *source = open_source("tests/data/glm-5.3/config.json", 2);
    qn_shard_plan *plan = NULL;
    qn_error err;
    assert_int_equal(qn_shard_plan_new(source, QN_MIN_SHARD_BYTES, &plan, &err), QN_USAGE);
    assert_string_equal(err.field, "max-shard-size");
    qn_source_close(source);
}

static void test_each_failing_allocation(void **state)
{
    (void)state;
    qn_source *source = open_source("models/quern-tiny/config.json", 3);
    bool reached = true;
    for (long nth = 1; reached; nth++) {
        qn_shard_plan *plan = NULL;
        qn_error err;
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        qn_status status = qn_shard_plan_new(source, QN_MIN_SHARD_BYTES, &plan, &err);
        reached = qn_fault_seen(QN_FAULT_ALLOC) >= nth;
        qn_fault_disarm();
        assert_int_equal(status, reached ? QN_RESOURCE : QN_OK);
        qn_shard_plan_free(plan);
    }
    qn_source_close(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_glm_5_3, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_sizes_of_files, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_too_many_files, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_each_failing_allocation, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
