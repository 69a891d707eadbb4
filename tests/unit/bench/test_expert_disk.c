#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/fault.h"
#include "bench/expert_disk.h"

/* Several files, all of them smaller than the first part. */
static const char MODEL[] = "tests/data/oracle/tiny-sharded";

static const size_t PARTS[QN_EXPERT_PARTS] = {6291456, 393216, 9000, 0, 5000, 0};

static qn_checkpoint *open_checkpoint(void)
{
    qn_checkpoint *checkpoint = NULL;
    qn_error err = {0};
    if (qn_checkpoint_open(MODEL, &checkpoint, &err) != QN_OK)
        fail_msg("%s", err.message);
    return checkpoint;
}

static void test_places_stay_within_the_files(void **state)
{
    (void)state;
    qn_checkpoint *checkpoint = open_checkpoint();
    for (uint64_t seed = 0; seed < 20; seed++) {
        qn_expert_disk *disk = NULL;
        qn_error err = {0};
        double gbps = 0;
        assert_int_equal(qn_expert_disk_open(checkpoint, PARTS, seed, &disk, &err), QN_OK);
        for (size_t i = 0; i < 3; i++) {
            if (qn_expert_disk_sample(disk, &gbps, &err) != QN_OK)
                fail_msg("%s", err.message);
            assert_true(gbps > 0);
        }
        qn_expert_disk_close(disk);
    }
    qn_checkpoint_close(checkpoint);
}

static void test_every_failure_is_told(void **state)
{
    (void)state;
    qn_checkpoint *checkpoint = open_checkpoint();
    long refused = 0;
    for (int kind = QN_FAULT_ALLOC; kind <= QN_FAULT_READ; kind++) {
        for (long nth = 1;; nth++) {
            qn_expert_disk *disk = NULL;
            qn_error err = {0};
            double gbps;
            qn_fault_arm((qn_fault_kind)kind, nth);
            qn_status status = qn_expert_disk_open(checkpoint, PARTS, 1, &disk, &err);
            if (status == QN_OK)
                status = qn_expert_disk_sample(disk, &gbps, &err);
            long seen = qn_fault_seen((qn_fault_kind)kind);
            qn_fault_disarm();
            qn_expert_disk_close(disk);
            assert_true(status == QN_OK || (status == QN_RESOURCE && strlen(err.message) > 0));
            refused += status != QN_OK;
            if (seen < nth)
                break;
        }
    }
    assert_true(refused > 10);
    qn_checkpoint_close(checkpoint);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places_stay_within_the_files),
        cmocka_unit_test(test_every_failure_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
