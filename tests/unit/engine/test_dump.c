/* The file that a dump writes: complete or not there. What is in it is held against the goldens by
 * tests/api/test_eval.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "checkpoint/safetensors.h"
#include "engine/dump.h"
#include "unit/engine/support.h"

enum { COUNT = 12, PATH_BYTES = 64 };

static const int32_t ids[COUNT] = {5, 6, 7, 8, 9, 10, 1500, 2, 3, 4, 0, 77};

static qn_engine *open_tiny(void)
{
    const qn_engine_options options = {.model_dir = "models/quern-tiny",
                                       .threads = 2,
                                       .max_model_len = 64,
                                       .max_num_batched_tokens = 5,
                                       .without_text = true};
    return open_engine(&options, NULL);
}

static const qn_tensor *tensor(const qn_safetensors *file, const char *name, qn_dtype dtype, size_t rows, size_t width)
{
    const qn_tensor *t = qn_safetensors_find(file, name);
    if (t == NULL) {
        fail_msg("%s is missing", name);
    }
    assert_int_equal(t->dtype, dtype);
    assert_int_equal(t->shape[0], rows);
    assert_int_equal(t->dims == 1 ? 1 : t->shape[1], width);
    return t;
}

static void writes_what_was_asked_for(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "/tmp/quern-dump-%ld", (long)getpid());
    qn_engine *engine = open_tiny();
    qn_error err;
    qn_safetensors *file;
    const qn_dump_options all = {.hidden = true, .mtp = true, .chain = 2}, none = {.hidden = false};

    assert_int_equal(qn_dump_logits(engine, ids, COUNT, &none, path, &err), QN_OK);
    assert_int_equal(qn_safetensors_open(path, &file, &err), QN_OK);
    assert_int_equal(qn_safetensors_count(file), 1);
    tensor(file, "logits", QN_DTYPE_F32, COUNT, 1536);
    qn_safetensors_close(file);

    assert_int_equal(qn_dump_logits(engine, ids, COUNT, &all, path, &err), QN_OK);
    assert_int_equal(qn_safetensors_open(path, &file, &err), QN_OK);
    /* 7 layers with 2 tensors, 4 indexers with 2, 6 sparse ones with 3; logits and final_norm; 7 of the MTP layer; 2
     * chains */
    assert_int_equal(qn_safetensors_count(file), 7 * 2 + 4 * 2 + 6 * 3 + 2 + 7 + 2);
    tensor(file, "hidden.6", QN_DTYPE_F32, COUNT, 128);
    tensor(file, "topk.2", QN_DTYPE_I32, COUNT, COUNT);
    tensor(file, "router_margin.1", QN_DTYPE_F32, COUNT, 1);
    tensor(file, "mtp_router_experts", QN_DTYPE_I32, COUNT, 4);
    /* The chain's first row is the last of mtp_logits; each row sees all keys up to itself. */
    const qn_tensor *mtp = tensor(file, "mtp_logits", QN_DTYPE_F32, COUNT, 1536);
    const qn_tensor *chain = tensor(file, "mtp_chain_own_indices", QN_DTYPE_F32, 2, 1536);
    assert_memory_equal(chain->data, mtp->data + (COUNT - 1) * 1536 * sizeof(float), 1536 * sizeof(float));
    const qn_tensor *topk = tensor(file, "topk.0", QN_DTYPE_I32, COUNT, COUNT);
    for (int32_t row = 0; row < COUNT; row++) {
        for (int32_t i = 0; i < COUNT; i++) {
            int32_t position;
            memcpy(&position, topk->data + (row * COUNT + i) * (int32_t)sizeof position, sizeof position);
            assert_int_equal(position, i <= row ? i : -1);
        }
    }
    qn_safetensors_close(file);
    unlink(path);
    qn_engine_close(engine);
}

static void refuses_what_cannot_be(void **state)
{
    (void)state;
    qn_engine *engine = open_tiny();
    qn_error err;
    int32_t many[65] = {0};
    const qn_dump_options none = {.hidden = false}, chain = {.chain = 2}, mtp = {.mtp = true, .chain = 5};
    assert_int_equal(qn_dump_logits(engine, ids, 0, &none, "/tmp/quern-never", &err), QN_USAGE);
    assert_int_equal(qn_dump_logits(engine, many, 65, &none, "/tmp/quern-never", &err), QN_USAGE);
    assert_int_equal(qn_dump_logits(engine, many, 60, &mtp, "/tmp/quern-never", &err), QN_USAGE);
    assert_int_equal(qn_dump_logits(engine, ids, COUNT, &chain, "/tmp/quern-never", &err), QN_USAGE);
    many[2] = 1536;
    assert_int_equal(qn_dump_logits(engine, many, 5, &none, "/tmp/quern-never", &err), QN_USAGE);
    many[2] = -1;
    assert_int_equal(qn_dump_logits(engine, many, 5, &none, "/tmp/quern-never", &err), QN_USAGE);
    assert_int_equal(access("/tmp/quern-never", F_OK), -1);
    qn_engine_close(engine);
}

static void check_faults(qn_fault_kind kind)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "/tmp/quern-dump-fault-%ld", (long)getpid());
    qn_engine *engine = open_tiny();
    const qn_dump_options all = {.hidden = true, .mtp = true, .chain = 2};
    for (long n = 1;; n++) {
        qn_error err;
        qn_fault_arm(kind, n);
        qn_status status = qn_dump_logits(engine, ids, COUNT, &all, path, &err);
        qn_fault_disarm();
        assert_int_equal(access(path, F_OK), status == QN_OK ? 0 : -1);
        if (status == QN_OK) {
            assert_true(n > 3);
            break;
        }
        assert_int_equal(status, QN_RESOURCE);
    }
    unlink(path);
    qn_engine_close(engine);
}

static void every_allocation_and_write_may_fail(void **state)
{
    (void)state;
    check_faults(QN_FAULT_ALLOC);
    check_faults(QN_FAULT_WRITE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_what_was_asked_for),
        cmocka_unit_test(refuses_what_cannot_be),
        cmocka_unit_test(every_allocation_and_write_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
