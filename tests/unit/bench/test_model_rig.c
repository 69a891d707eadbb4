/* What a call tells adds up, its work is that of the shapes, and every failing allocation is an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/fault.h"
#include "bench/model_rig.h"

static const char MODEL[] = "models/quern-tiny";
enum { CONTEXT = 300, ROWS = 8 };

static qn_model_rig_options options_of(qn_checkpoint *checkpoint)
{
    return (qn_model_rig_options){.checkpoint = checkpoint,
                                  .threads = 2,
                                  .sequences = 2,
                                  .context_tokens = CONTEXT,
                                  .max_rows = ROWS,
                                  .logit_rows = ROWS};
}

static qn_checkpoint *open_checkpoint(void)
{
    qn_checkpoint *checkpoint;
    qn_error err;
    assert_int_equal(qn_checkpoint_open(MODEL, &checkpoint, &err), QN_OK);
    return checkpoint;
}

static void parts_sum_up(void **state)
{
    (void)state;
    qn_checkpoint *checkpoint = open_checkpoint();
    const qn_model_rig_options options = options_of(checkpoint);
    qn_model_rig *rig;
    qn_error err;
    assert_int_equal(qn_model_rig_open(&options, &rig, &err), QN_OK);
    qn_model_rig_touch_weights(rig);
    qn_call_times times = {0};
    assert_int_equal(qn_model_rig_call(rig, 2, CONTEXT - 4, 4, QN_RIG_LAST_LOGITS, &times, &err), QN_OK);
    double sum = 0;
    for (qn_model_part p = 0; p < QN_PARTS; p++) {
        assert_true(times.part_seconds[p] >= 0);
        sum += times.part_seconds[p];
    }
    assert_true(sum > 0 && sum <= times.seconds * (1 + 1e-9));
    assert_true(times.experts > 0 && times.work[QN_PART_EXPERTS].bytes > 0);
    assert_true(times.work[QN_PART_HEAD].flops > 0);

    /* the same call adds the same work, but for the experts; rows without logits leave the last layer early */
    const double last = times.work[QN_PART_ATTEND].flops, head = times.work[QN_PART_HEAD].flops;
    assert_int_equal(qn_model_rig_call(rig, 2, CONTEXT - 4, 4, QN_RIG_LAST_LOGITS, &times, &err), QN_OK);
    assert_true(times.work[QN_PART_ATTEND].flops == 2 * last);
    assert_true(times.work[QN_PART_HEAD].flops == 2 * head);
    assert_int_equal(qn_model_rig_call(rig, 2, CONTEXT - 4, 4, QN_RIG_NO_LOGITS, &times, &err), QN_OK);
    const double none = times.work[QN_PART_ATTEND].flops - 2 * last;
    assert_true(none > 0 && none < last);
    assert_true(times.work[QN_PART_HEAD].flops == 2 * head);
    assert_int_equal(qn_model_rig_call(rig, 2, CONTEXT - 4, 4, QN_RIG_ALL_LOGITS, &times, &err), QN_OK);
    assert_true(times.work[QN_PART_ATTEND].flops - 2 * last - none > last);
    assert_true(times.work[QN_PART_HEAD].flops == (2 + 4) * head);
    assert_int_equal(qn_model_rig_call(rig, 2, CONTEXT, 1, QN_RIG_LAST_LOGITS, &times, &err), QN_USAGE);
    qn_model_rig_close(rig);
    qn_checkpoint_close(checkpoint);
}

/* The bytes that a call needs, and as they were if nothing was packed. */
static qn_part_work work_of_call(qn_load load, qn_pack_dense pack)
{
    qn_checkpoint *checkpoint = open_checkpoint();
    qn_model_rig_options options = options_of(checkpoint);
    options.load = load;
    options.pack_dense = pack;
    qn_model_rig *rig;
    qn_error err;
    assert_int_equal(qn_model_rig_open(&options, &rig, &err), QN_OK);
    assert_int_equal(qn_model_rig_is_resident(rig), load == QN_LOAD_RESIDENT);
    assert_int_equal(qn_model_rig_is_packed(rig), pack == QN_PACK_ON);
    qn_model_rig_touch_weights(rig);
    qn_call_times times = {0};
    assert_int_equal(qn_model_rig_call(rig, 1, 0, 1, QN_RIG_LAST_LOGITS, &times, &err), QN_OK);
    qn_part_work sum = {0};
    for (qn_model_part p = 0; p < QN_PARTS; p++) {
        sum.bytes += times.work[p].bytes;
        sum.unpacked_bytes += times.work[p].unpacked_bytes;
    }
    qn_model_rig_close(rig);
    qn_checkpoint_close(checkpoint);
    return sum;
}

static void packed_weights_count_as_what_is_read(void **state)
{
    (void)state;
    const qn_part_work mapped = work_of_call(QN_LOAD_MAPPED, QN_PACK_AUTO);
    const qn_part_work resident = work_of_call(QN_LOAD_RESIDENT, QN_PACK_OFF);
    const qn_part_work packed = work_of_call(QN_LOAD_RESIDENT, QN_PACK_ON);
    assert_true(mapped.bytes == mapped.unpacked_bytes && resident.bytes == mapped.bytes);
    assert_true(resident.unpacked_bytes == mapped.bytes && packed.unpacked_bytes == mapped.bytes);
    assert_true(packed.bytes < mapped.bytes);
}

static void every_failing_allocation(void **state)
{
    (void)state;
    qn_status status = QN_RESOURCE;
    size_t refused = 0;
    for (long nth = 1; status != QN_OK; nth++) {
        assert_true(nth < 1000);
        qn_checkpoint *checkpoint = open_checkpoint();
        const qn_model_rig_options options = options_of(checkpoint);
        qn_model_rig *rig;
        qn_error err;
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        status = qn_model_rig_open(&options, &rig, &err);
        qn_fault_disarm();
        assert_true(status == QN_OK || status == QN_RESOURCE);
        refused += status != QN_OK;
        if (status == QN_OK)
            qn_model_rig_close(rig);
        qn_checkpoint_close(checkpoint);
    }
    assert_in_range(refused, 2, 999); /* then one that nothing was refused to */
}

static void a_signal_is_heard_while_weights_load(void **state)
{
    (void)state;
    const atomic_bool stop = true;
    qn_checkpoint *checkpoint = open_checkpoint();
    qn_model_rig_options options = options_of(checkpoint);
    options.load = QN_LOAD_RESIDENT;
    options.stop = &stop;
    qn_model_rig *rig;
    qn_error err;
    assert_int_equal(qn_model_rig_open(&options, &rig, &err), QN_CANCELLED);
    assert_string_equal(err.message, "bench: stopped while the weights were loaded: nothing was measured");
    qn_checkpoint_close(checkpoint);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(parts_sum_up),
                                       cmocka_unit_test(packed_weights_count_as_what_is_read),
                                       cmocka_unit_test(a_signal_is_heard_while_weights_load),
                                       cmocka_unit_test(every_failing_allocation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
