/* What the requests of packings make of matrices, in whatever order they are done. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/direct_reader.h"
#include "base/fault.h"
#include "base/huge_memory.h"
#include "base/packed_bf16.h"
#include "base/pool.h"
#include "model/residence_packing.h"

enum { REQUEST = QN_DIRECT_ALIGNMENT, THREADS = 4 };

typedef struct opened {
    qn_checkpoint *checkpoint;
    qn_weights weights;
    qn_view_map map;
    qn_load_plan plan;
    qn_direct_reader **readers;
    qn_huge_memory memory;
} opened;

static opened open_plan(void)
{
    opened o;
    qn_error err;
    const qn_load_wishes wishes = {.request_bytes = REQUEST, .pack_dense = true};
    assert_int_equal(qn_checkpoint_open("models/quern-tiny", &o.checkpoint, &err), QN_OK);
    assert_int_equal(qn_weights_take(o.checkpoint, &o.weights, &err), QN_OK);
    assert_int_equal(qn_view_map_make(o.checkpoint, &o.map, &err), QN_OK);
    assert_int_equal(qn_load_plan_make(&o.weights, &o.map, wishes, &o.plan, &err), QN_OK);
    assert_int_equal(qn_view_map_open_files(&o.map, "test", &o.readers, &err), QN_OK);
    assert_int_equal(qn_huge_memory_new(o.plan.memory_bytes, true, "test", &o.memory, &err), QN_OK);
    return o;
}

static void close_plan(opened *o)
{
    qn_huge_memory_free(&o->memory);
    qn_view_map_close_files(&o->map, o->readers);
    qn_load_plan_free(&o->plan);
    qn_view_map_free(&o->map);
    qn_weights_free(&o->weights);
    qn_checkpoint_close(o->checkpoint);
}

static void check_results(const opened *o, const qn_load_packer *packer)
{
    static float a[QN_PACKED_MAX_COLS], b[QN_PACKED_MAX_COLS];
    uint64_t from_bytes = 0, bytes = 0;
    for (size_t i = 0; i < o->plan.packing_count; i++) {
        const qn_matrix *from = &o->plan.packings[i].from, *now = qn_load_packer_result(packer, i);
        assert_true(now->dtype == QN_DTYPE_PACKED_BF16 && now->rows == from->rows && now->cols == from->cols);
        assert_ptr_equal(now->data, o->memory.data + o->plan.packings[i].at);
        for (size_t row = 0; row < from->rows; row++) {
            qn_matrix_row_to_f32(now, row, a);
            qn_matrix_row_to_f32(from, row, b);
            assert_memory_equal(a, b, from->cols * sizeof *a);
        }
        from_bytes += qn_matrix_data_bytes(from);
        bytes += qn_matrix_bytes(now);
    }
    const qn_load_packer_figures f = qn_load_packer_get_figures(packer);
    assert_int_equal(f.packed, o->plan.packing_count);
    assert_true(f.from_bytes == from_bytes && f.bytes == bytes);
    assert_true(f.unpacked == 0 && f.unpacked_bytes == 0 && f.mapped_bytes == 0);
}

static void requests_may_come_in_any_order(void **state)
{
    (void)state;
    opened o = open_plan();
    qn_load_packer *packer;
    qn_error err;
    assert_int_equal(qn_load_packer_new(&o.plan, o.readers, o.memory.data, 1, &packer, &err), QN_OK);
    for (size_t i = o.plan.request_count; i-- > 0;) {
        if (o.plan.requests[i].packing == QN_NOT_PACKED)
            continue;
        assert_true(qn_load_packer_get_figures(packer).packed < o.plan.packing_count);
        assert_int_equal(qn_load_packer_do(packer, &o.plan.requests[i], 0, &err), QN_OK);
    }
    qn_load_packer_free_buffers(packer);
    check_results(&o, packer);
    qn_load_packer_free(packer);
    close_plan(&o);
    qn_load_packer_free(NULL);
}

typedef struct crowd {
    const opened *o;
    qn_load_packer *packer;
} crowd;

static void do_request(void *context, size_t item, size_t worker)
{
    const crowd *c = context;
    const qn_load_request *request = &c->o->plan.requests[item];
    qn_error err;
    if (request->packing != QN_NOT_PACKED)
        assert_int_equal(qn_load_packer_do(c->packer, request, worker, &err), QN_OK);
}

static void threads_share_a_matrix(void **state)
{
    (void)state;
    opened o = open_plan();
    crowd c = {.o = &o};
    qn_pool *pool;
    qn_error err;
    assert_int_equal(qn_pool_new(THREADS, &pool, &err), QN_OK);
    assert_int_equal(qn_load_packer_new(&o.plan, o.readers, o.memory.data, THREADS, &c.packer, &err), QN_OK);
    qn_pool_run(pool, o.plan.request_count, do_request, &c);
    check_results(&o, c.packer);
    qn_load_packer_free(c.packer);
    qn_pool_free(pool);
    close_plan(&o);
}

static void a_read_that_fails_finishes_nothing(void **state)
{
    (void)state;
    opened o = open_plan();
    qn_load_packer *packer;
    qn_error err;
    size_t first = 0;
    while (o.plan.requests[first].packing == QN_NOT_PACKED)
        first++;
    assert_int_equal(qn_load_packer_new(&o.plan, o.readers, o.memory.data, 1, &packer, &err), QN_OK);
    qn_fault_arm(QN_FAULT_READ, 1);
    assert_int_equal(qn_load_packer_do(packer, &o.plan.requests[first], 0, &err), QN_RESOURCE);
    qn_fault_disarm();
    const qn_load_packer_figures f = qn_load_packer_get_figures(packer);
    assert_true(f.packed == 0 && f.unpacked == 0);
    qn_load_packer_free(packer);
    close_plan(&o);
}

static void no_memory_for_buffers_is_told(void **state)
{
    (void)state;
    opened o = open_plan();
    qn_status status = QN_RESOURCE;
    size_t failures = 0;
    for (long nth = 1; status != QN_OK; nth++) {
        qn_load_packer *packer = NULL;
        qn_error err;
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        status = qn_load_packer_new(&o.plan, o.readers, o.memory.data, THREADS, &packer, &err);
        qn_fault_disarm();
        assert_true(status == QN_OK || (status == QN_RESOURCE && !packer));
        failures += status != QN_OK;
        qn_load_packer_free(packer);
    }
    assert_int_equal(failures, 3 + THREADS);
    close_plan(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_may_come_in_any_order),
        cmocka_unit_test(threads_share_a_matrix),
        cmocka_unit_test(a_read_that_fails_finishes_nothing),
        cmocka_unit_test(no_memory_for_buffers_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
