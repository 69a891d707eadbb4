#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/memory.h"
#include "checkpoint/checksum.h"

enum { FILE_BYTES = (9 << 20) + 123, COUNT = 5 };

static const qn_stretch places[COUNT] = {
    {.offset = 0, .bytes = FILE_BYTES},       {.offset = 1, .bytes = 4096},
    {.offset = 4095, .bytes = (4 << 20) + 2}, {.offset = 77, .bytes = 0},
    {.offset = FILE_BYTES - 1, .bytes = 1},
};

typedef struct fixture {
    char path[64];
    uint8_t *data;
} fixture;

static int make(void **state)
{
    static fixture f;
    strcpy(f.path, "/tmp/quern-checksum-XXXXXX");
    int fd = mkstemp(f.path);
    assert_true(fd >= 0);
    close(fd);
    f.data = qn_alloc(FILE_BYTES, 1);
    for (size_t i = 0; i < FILE_BYTES; i++)
        f.data[i] = (uint8_t)(i * 2654435761u >> 13);
    qn_error err;
    assert_int_equal(qn_file_write(f.path, f.data, FILE_BYTES, &err), QN_OK);
    *state = &f;
    return 0;
}

static int clean(void **state)
{
    fixture *f = *state;
    unlink(f->path);
    qn_free(f->data);
    return 0;
}

static void test_hashes_are_those_of_the_bytes(void **state)
{
    const fixture *f = *state;
    for (size_t threads = 1; threads <= 4; threads++) {
        qn_checksummer *c = NULL;
        qn_error err;
        qn_stretch stretches[COUNT];
        memcpy(stretches, places, sizeof places);
        assert_int_equal(qn_checksummer_new(threads, NULL, NULL, &c, &err), QN_OK);
        assert_int_equal(qn_checksummer_run(c, f->path, stretches, COUNT, &err), QN_OK);
        uint64_t bytes = 0;
        for (size_t i = 0; i < COUNT; i++) {
            qn_hash expected = qn_hash_bytes(f->data + stretches[i].offset, (size_t)stretches[i].bytes);
            assert_true(qn_hash_equal(stretches[i].hash, expected));
            bytes += stretches[i].bytes;
        }
        assert_int_equal(qn_checksummer_bytes(c), bytes);
        qn_checksummer_free(c);
    }
}

static void test_a_short_file_is_an_error_and_the_next_is_read(void **state)
{
    const fixture *f = *state;
    qn_checksummer *c = NULL;
    qn_error err;
    assert_int_equal(qn_checksummer_new(2, NULL, NULL, &c, &err), QN_OK);
    qn_stretch beyond = {.offset = FILE_BYTES - 10, .bytes = 11};
    assert_int_equal(qn_checksummer_run(c, f->path, &beyond, 1, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, f->path));
    assert_int_equal(qn_checksummer_run(c, "/tmp/quern-no-such-file", &beyond, 1, &err), QN_BAD_INPUT);
    qn_stretch inside = {.offset = FILE_BYTES - 10, .bytes = 10};
    assert_int_equal(qn_checksummer_run(c, f->path, &inside, 1, &err), QN_OK);
    assert_true(qn_hash_equal(inside.hash, qn_hash_bytes(f->data + FILE_BYTES - 10, 10)));
    qn_checksummer_free(c);
}

static void test_a_stop_is_heeded(void **state)
{
    const fixture *f = *state;
    atomic_bool stop = true;
    qn_checksummer *c = NULL;
    qn_error err;
    qn_stretch stretches[COUNT];
    memcpy(stretches, places, sizeof places);
    assert_int_equal(qn_checksummer_new(1, NULL, &stop, &c, &err), QN_OK);
    assert_int_equal(qn_checksummer_run(c, f->path, stretches, COUNT, &err), QN_CANCELLED);
    qn_checksummer_free(c);
}

static void walk_faults(const fixture *f, qn_fault_kind kind)
{
    for (long nth = 1;; nth++) {
        qn_checksummer *c = NULL;
        qn_error err;
        qn_stretch stretches[COUNT];
        memcpy(stretches, places, sizeof places);
        qn_fault_arm(kind, nth);
        qn_status status = qn_checksummer_new(1, NULL, NULL, &c, &err);
        if (status == QN_OK)
            status = qn_checksummer_run(c, f->path, stretches, COUNT, &err);
        bool reached = qn_fault_seen(kind) >= nth;
        qn_fault_disarm();
        qn_checksummer_free(c);
        if (!reached)
            break;
        if (status == QN_OK) /* reading past the cache was refused, and is done through it instead */
            assert_true(qn_hash_equal(stretches[0].hash, qn_hash_bytes(f->data, FILE_BYTES)));
    }
}

static void test_no_failure_passes_for_a_hash(void **state)
{
    walk_faults(*state, QN_FAULT_ALLOC);
    walk_faults(*state, QN_FAULT_READ);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_hashes_are_those_of_the_bytes, make, clean),
        cmocka_unit_test_setup_teardown(test_a_short_file_is_an_error_and_the_next_is_read, make, clean),
        cmocka_unit_test_setup_teardown(test_a_stop_is_heeded, make, clean),
        cmocka_unit_test_setup_teardown(test_no_failure_passes_for_a_hash, make, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
