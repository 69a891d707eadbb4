/* Collecting: the same file whatever threads and chunks, sums that add up over windows, every position once, failures.
 * What the sums are is held against the weights by tests/api/test_eval_collect.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/memory.h"
#include "checkpoint/importance.h"
#include "checkpoint/safetensors.h"
#include "engine/collect.h"
#include "engine/perplexity.h"
#include "unit/engine/support.h"

enum { COUNT = 60, FILES = 3 };

static int32_t ids[COUNT];
static char dir[] = "/tmp/quern-collect-XXXXXX", paths[FILES][64];

static qn_engine *open_tiny(size_t rows, size_t threads)
{
    const qn_engine_options options = {.model_dir = "models/quern-tiny",
                                       .threads = threads,
                                       .max_model_len = 200,
                                       .max_num_batched_tokens = rows,
                                       .without_text = true};
    random_stream r = {.seed = 6, .next = 0};
    for (size_t i = 0; i < COUNT; i++) {
        ids[i] = (int32_t)(random_word(&r) % 1500);
    }
    return open_engine(&options, NULL);
}

static qn_status try_collect(qn_engine *engine, const int32_t *text, size_t count, size_t context, size_t stride,
                             const char *path, qn_error *err)
{
    qn_collect *collect = NULL;
    qn_perplexity p;
    qn_status status = qn_collect_new(engine, context, path, &collect, err);
    if (status == QN_OK) {
        status = qn_measure_perplexity(engine, text, count, context, stride, collect, &p, err);
    }
    if (status == QN_OK) {
        status = qn_collect_finish(collect, err);
    }
    qn_collect_free(collect);
    return status;
}

static void collect(qn_engine *engine, const int32_t *text, size_t count, size_t context, size_t stride,
                    const char *path)
{
    qn_error err;
    if (try_collect(engine, text, count, context, stride, path, &err) != QN_OK) {
        fail_msg("%s", err.message);
    }
}

static void assert_same_files(const char *a, const char *b)
{
    char *one, *other;
    size_t one_bytes, other_bytes;
    qn_error err;
    assert_int_equal(qn_file_read(a, 1 << 24, &one, &one_bytes, &err), QN_OK);
    assert_int_equal(qn_file_read(b, 1 << 24, &other, &other_bytes, &err), QN_OK);
    assert_int_equal(one_bytes, other_bytes);
    assert_memory_equal(one, other, one_bytes);
    qn_free(one);
    qn_free(other);
}

static void threads_and_chunks_change_nothing(void **state)
{
    (void)state;
    qn_engine *one = open_tiny(200, 1), *other = open_tiny(7, 3);
    collect(one, ids, COUNT, 25, 10, paths[0]);
    collect(other, ids, COUNT, 25, 10, paths[1]);
    assert_same_files(paths[0], paths[1]);
    qn_engine_close(one);
    qn_engine_close(other);
}

static void measuring_does_not_change(void **state)
{
    (void)state;
    qn_engine *engine = open_tiny(64, 2);
    qn_perplexity plain, collecting;
    qn_collect *c;
    qn_error err;
    assert_int_equal(qn_measure_perplexity(engine, ids, COUNT, 25, 10, NULL, &plain, &err), QN_OK);
    assert_int_equal(qn_collect_new(engine, 25, paths[0], &c, &err), QN_OK);
    assert_int_equal(qn_measure_perplexity(engine, ids, COUNT, 25, 10, c, &collecting, &err), QN_OK);
    assert_true(plain.mean_nll == collecting.mean_nll);
    qn_collect_free(c); /* not finished: no file */
    assert_int_equal(access(paths[0], F_OK), -1);
    qn_engine_close(engine);
}

static float value_of(const qn_tensor *tensor, size_t i)
{
    float value;
    memcpy(&value, tensor->data + i * sizeof value, sizeof value);
    return value;
}

/* Windows that share one token each are texts of their own. */
static void sums_add_up_over_windows(void **state)
{
    (void)state;
    enum { LENGTH = 20 };
    qn_engine *engine = open_tiny(64, 2);
    qn_safetensors *files[FILES];
    qn_error err;
    collect(engine, ids, 2 * LENGTH - 1, LENGTH, LENGTH - 1, paths[0]);
    collect(engine, ids, LENGTH, LENGTH, 1, paths[1]);
    collect(engine, ids + LENGTH - 1, LENGTH, LENGTH, 1, paths[2]);
    for (size_t i = 0; i < FILES; i++) {
        assert_int_equal(qn_safetensors_open(paths[i], &files[i], &err), QN_OK);
    }
    assert_int_equal(qn_safetensors_count(files[0]), 7 * QN_IMPORTANCE_TENSORS);
    for (size_t t = 0; t < qn_safetensors_count(files[0]); t++) {
        const qn_tensor *whole = qn_safetensors_at(files[0], t);
        const qn_tensor *first = qn_safetensors_find(files[1], whole->name);
        const qn_tensor *second = qn_safetensors_find(files[2], whole->name);
        double total = 0.0;
        for (size_t i = 0; i < whole->bytes / sizeof(float); i++) {
            double sum = (double)value_of(first, i) + (double)value_of(second, i);
            assert_true(fabs((double)value_of(whole, i) - sum) <= 1e-6 * sum);
            total += sum;
        }
        if (whole->dims == 1) {
            assert_true(total == 4.0 * (2 * LENGTH - 2)); /* four experts a token */
        } else {
            assert_true(total > 0.0);
        }
    }
    for (size_t i = 0; i < FILES; i++) {
        qn_safetensors_close(files[i]);
    }
    qn_engine_close(engine);
}

static void each_position_counts_once(void **state)
{
    (void)state;
    qn_engine *engine = open_tiny(13, 2);
    qn_importance *importance;
    qn_safetensors *file;
    qn_error err;
    collect(engine, ids, COUNT, 20, 3, paths[0]);
    assert_int_equal(qn_importance_open(paths[0], qn_engine_config(engine), &importance, &err), QN_OK);
    qn_importance_close(importance);
    assert_int_equal(qn_safetensors_open(paths[0], &file, &err), QN_OK);
    for (size_t layer = 1; layer <= 7; layer++) { /* the last is the MTP layer */
        char name[QN_IMPORTANCE_NAME_BYTES];
        double tokens = 0.0;
        const qn_tensor *tensor = qn_safetensors_find(file, qn_importance_name(layer, QN_IMPORTANCE_TOKENS, name));
        for (size_t e = 0; e < tensor->shape[0]; e++) {
            tokens += (double)value_of(tensor, e);
        }
        assert_true(tokens == 4.0 * (COUNT - 1));
    }
    qn_safetensors_close(file);
    qn_engine_close(engine);
}

static void walk_faults(qn_fault_kind kind)
{
    qn_engine *engine = open_tiny(64, 1);
    long seen = 0;
    for (long n = 1; seen >= n - 1; n++) {
        qn_error err;
        qn_fault_arm(kind, n);
        qn_status status = try_collect(engine, ids, 5, 4, 2, paths[0], &err);
        seen = qn_fault_seen(kind);
        qn_fault_disarm();
        /* How much memory is left may stay unknown. */
        assert_true(status == QN_RESOURCE || status == QN_OK);
        assert_int_equal(access(paths[0], F_OK), status == QN_OK ? 0 : -1);
        unlink(paths[0]);
    }
    assert_true(seen > 3);
    qn_engine_close(engine);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    walk_faults(QN_FAULT_ALLOC);
}

static void every_write_may_fail(void **state)
{
    (void)state;
    walk_faults(QN_FAULT_WRITE);
}

static int remove_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < FILES; i++) {
        unlink(paths[i]);
    }
    return 0;
}

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(dir) == NULL) {
        return -1;
    }
    for (size_t i = 0; i < FILES; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/%zu", dir, i);
    }
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(dir); /* fails when anything was left in it */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(threads_and_chunks_change_nothing, remove_files),
        cmocka_unit_test_teardown(measuring_does_not_change, remove_files),
        cmocka_unit_test_teardown(sums_add_up_over_windows, remove_files),
        cmocka_unit_test_teardown(each_position_counts_once, remove_files),
        cmocka_unit_test_teardown(every_allocation_may_fail, remove_files),
        cmocka_unit_test_teardown(every_write_may_fail, remove_files),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
