/* What a load reads and where it puts it: every byte of every matrix, once, at places that direct reads can take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/direct_reader.h"
#include "base/fault.h"
#include "base/packed_bf16.h"
#include "model/residence_plan.h"

enum { REQUEST = 2 * QN_DIRECT_ALIGNMENT };

static const char *const CHECKPOINTS[] = {
    "tests/data/oracle/tiny-sharded",
    "tests/data/oracle/tiny-mtp",
    "tests/data/oracle/tiny-sparse-mxfp4-fused",
    "models/quern-tiny",
};

typedef struct opened {
    qn_checkpoint *checkpoint;
    qn_weights weights;
    qn_view_map map;
} opened;

static opened open_weights(const char *dir)
{
    opened o;
    qn_error err;
    assert_int_equal(qn_checkpoint_open(dir, &o.checkpoint, &err), QN_OK);
    assert_int_equal(qn_weights_take(o.checkpoint, &o.weights, &err), QN_OK);
    assert_int_equal(qn_view_map_make(o.checkpoint, &o.map, &err), QN_OK);
    return o;
}

static void close_weights(opened *o)
{
    qn_view_map_free(&o->map);
    qn_weights_free(&o->weights);
    qn_checkpoint_close(o->checkpoint);
}

/* The requests that the move waits for bring its bytes [data, data + bytes) to memory at `at`. */
static void check_covered(const opened *o, const qn_load_plan *plan, const qn_load_move *move, const uint8_t *data,
                          size_t bytes, size_t at)
{
    size_t file, done = 0;
    uint64_t offset;
    assert_true(qn_view_map_find(&o->map, data, &file, &offset));
    for (size_t i = 0; i < move->needs && done < bytes; i++) {
        const qn_load_request *r = &plan->requests[i];
        if (r->packing != QN_NOT_PACKED || r->file != file || r->offset > offset + done ||
            r->offset + r->bytes <= offset + done)
            continue;
        assert_int_equal(r->at + (offset + done - r->offset), at + done);
        done = (size_t)(r->offset + r->bytes - offset);
    }
    assert_true(done >= bytes);
}

/* The requests from `first` on bring all rows of a packing, whose block is at `at`. Returns the request behind. */
static size_t check_packing(const qn_load_plan *plan, size_t first, size_t *at)
{
    const qn_load_packing *p = &plan->packings[plan->requests[first].packing];
    const size_t row_bytes = qn_matrix_row_bytes(&p->from);
    size_t row = 0, i = first;
    for (; i < first + p->request_count; i++) {
        const qn_load_request *r = &plan->requests[i];
        assert_true(r->packing == plan->requests[first].packing && r->file == plan->requests[first].file);
        assert_true(r->first_row == row && r->row_end > row);
        assert_int_equal(r->offset, plan->requests[first].offset + row * row_bytes);
        assert_int_equal(r->bytes, (r->row_end - row) * row_bytes);
        assert_true((r->bytes <= REQUEST || r->row_end == row + 1) && r->bytes <= plan->piece_bytes);
        row = r->row_end;
    }
    assert_int_equal(row, p->from.rows);
    assert_int_equal(p->at, *at);
    size_t most = qn_packed_bf16_most_bytes(p->from.rows, p->from.cols);
    *at += (most + QN_DIRECT_ALIGNMENT - 1) / QN_DIRECT_ALIGNMENT * QN_DIRECT_ALIGNMENT;
    return i;
}

static void check_requests(const qn_load_plan *plan)
{
    size_t at = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < plan->request_count; i++) {
        const qn_load_request *r = &plan->requests[i];
        if (r->packing != QN_NOT_PACKED) {
            bytes += qn_matrix_data_bytes(&plan->packings[r->packing].from);
            i = check_packing(plan, i, &at) - 1;
            continue;
        }
        assert_true(r->bytes > 0 && r->bytes <= REQUEST);
        assert_true(r->offset % QN_DIRECT_ALIGNMENT == 0 && r->at % QN_DIRECT_ALIGNMENT == 0);
        assert_true(r->at == at); /* neither holes nor two that overlap */
        at += (r->bytes + QN_DIRECT_ALIGNMENT - 1) / QN_DIRECT_ALIGNMENT * QN_DIRECT_ALIGNMENT;
        bytes += r->bytes;
    }
    assert_true(at == plan->memory_bytes && bytes == plan->read_bytes);
}

static void check_packed_move(const qn_load_plan *plan, const qn_load_move *move)
{
    size_t last = 0;
    for (size_t i = 0; i < plan->request_count; i++)
        last = plan->requests[i].packing == move->packing ? i + 1 : last;
    assert_true(move->packing < plan->packing_count && last > 0);
    assert_int_equal(move->needs, last);
    assert_ptr_equal(plan->packings[move->packing].from.data, move->from.data);
}

/* Returns how many matrices are packed. */
static size_t check_moves(const opened *o, const qn_load_plan *plan)
{
    size_t packed = 0;
    for (size_t k = 0; k < plan->move_count; k++) {
        const qn_load_move *move = &plan->moves[k];
        size_t data = move->from.rows * qn_matrix_row_bytes(&move->from);
        assert_true(move->needs <= plan->request_count && (k == 0 || move[-1].needs <= move->needs));
        if (move->packing != QN_NOT_PACKED) {
            check_packed_move(plan, move);
            packed++;
            continue;
        }
        check_covered(o, plan, move, move->from.data, data, move->data_at);
        if (move->from.scales)
            check_covered(o, plan, move, move->from.scales, qn_matrix_bytes(&move->from) - data, move->scales_at);
    }
    return packed;
}

static void every_matrix_arrives_before_it_moves(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * sizeof CHECKPOINTS / sizeof *CHECKPOINTS; i++) {
        opened o = open_weights(CHECKPOINTS[i / 2]);
        qn_load_plan plan;
        qn_error err;
        const qn_load_wishes wishes = {.request_bytes = REQUEST, .pack_dense = i % 2};
        assert_int_equal(qn_load_plan_make(&o.weights, &o.map, wishes, &plan, &err), QN_OK);
        check_requests(&plan);
        assert_int_equal(check_moves(&o, &plan) > 0, i % 2);
        qn_load_plan_free(&plan);
        close_weights(&o);
    }
}

/* What the memory is sized by is what the plan then takes. */
static void the_saving_told_is_that_of_the_plan(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof CHECKPOINTS / sizeof *CHECKPOINTS; i++) {
        opened o = open_weights(CHECKPOINTS[i]);
        qn_load_plan plan;
        qn_error err;
        const qn_load_wishes wishes = {.request_bytes = REQUEST, .pack_dense = true};
        size_t saved = 0;
        assert_int_equal(qn_load_plan_make(&o.weights, &o.map, wishes, &plan, &err), QN_OK);
        for (size_t k = 0; k < plan.packing_count; k++) {
            const qn_matrix *from = &plan.packings[k].from;
            saved += qn_matrix_data_bytes(from) - qn_packed_bf16_most_bytes(from->rows, from->cols);
        }
        assert_true(saved > 0);
        assert_int_equal(qn_load_saving(&o.weights), saved);
        qn_load_plan_free(&plan);
        close_weights(&o);
    }
}

/* The packing of the move of this matrix. */
static size_t packing_of(const qn_load_plan *plan, const qn_matrix *matrix)
{
    for (size_t i = 0; i < plan->move_count; i++)
        if (plan->moves[i].matrix == matrix)
            return plan->moves[i].packing;
    fail();
    return 0;
}

/* Rows of an embedding are taken one by one; but what is the head too must not lie in memory twice. */
static void an_embedding_is_packed_only_as_the_head(void **state)
{
    (void)state;
    for (int tied = 0; tied < 2; tied++) {
        opened o = open_weights("models/quern-tiny");
        qn_load_plan plan;
        qn_error err;
        if (tied)
            o.weights.lm_head = o.weights.mtp.head = o.weights.embed_tokens;
        const qn_load_wishes wishes = {.request_bytes = REQUEST, .pack_dense = true};
        assert_int_equal(qn_load_plan_make(&o.weights, &o.map, wishes, &plan, &err), QN_OK);
        check_requests(&plan);
        check_moves(&o, &plan);
        size_t head = packing_of(&plan, &o.weights.lm_head), embedding = packing_of(&plan, &o.weights.embed_tokens);
        assert_true(head != QN_NOT_PACKED && embedding == (tied ? head : QN_NOT_PACKED));
        for (size_t i = 0; i < plan.packing_count; i++)
            for (size_t k = 0; k < i; k++)
                assert_ptr_not_equal(plan.packings[i].from.data, plan.packings[k].from.data);
        qn_load_plan_free(&plan);
        close_weights(&o);
    }
}

static void count_matrix(void *context, qn_matrix *matrix, qn_matrix_kind kind)
{
    size_t *count = context;
    (void)matrix;
    count[0] += kind != QN_MATRIX_EXPERT;
    count[1]++;
}

static void experts_of_a_cache_are_not_read(void **state)
{
    (void)state;
    opened o = open_weights("models/quern-tiny");
    qn_load_plan all, dense;
    qn_error err;
    size_t count[2] = {0};
    qn_load_wishes wishes = {.request_bytes = REQUEST};
    qn_weights_each_matrix(&o.weights, count_matrix, count);
    assert_true(count[0] < count[1]);
    assert_int_equal(qn_load_plan_make(&o.weights, &o.map, wishes, &all, &err), QN_OK);
    wishes.without_experts = true;
    assert_int_equal(qn_load_plan_make(&o.weights, &o.map, wishes, &dense, &err), QN_OK);
    assert_int_equal(all.move_count, count[1]);
    assert_int_equal(dense.move_count, count[0]);
    assert_true(dense.read_bytes <= all.read_bytes);
    check_requests(&dense);
    qn_load_plan_free(&all);
    qn_load_plan_free(&dense);
    close_weights(&o);
}

static void no_memory_leaves_nothing_behind(void **state)
{
    (void)state;
    opened o = open_weights(CHECKPOINTS[0]);
    qn_status status = QN_RESOURCE;
    for (long nth = 1; status != QN_OK; nth++) {
        qn_load_plan plan;
        qn_error err;
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        const qn_load_wishes wishes = {.request_bytes = REQUEST, .pack_dense = true};
        status = qn_load_plan_make(&o.weights, &o.map, wishes, &plan, &err);
        bool failed = qn_fault_seen(QN_FAULT_ALLOC) >= nth;
        qn_fault_disarm();
        assert_int_equal(status, failed ? QN_RESOURCE : QN_OK);
        qn_load_plan_free(&plan);
    }
    close_weights(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_matrix_arrives_before_it_moves),
        cmocka_unit_test(the_saving_told_is_that_of_the_plan),
        cmocka_unit_test(an_embedding_is_packed_only_as_the_head),
        cmocka_unit_test(experts_of_a_cache_are_not_read),
        cmocka_unit_test(no_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
