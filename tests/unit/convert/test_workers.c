#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/direct_reader.h"
#include "base/pool.h"
#include "convert/workers.h"

/* Buffers stay within their bound for every number of threads, in whole blocks and pieces that are worth a request. */
static void test_memory_is_bounded(void **state)
{
    (void)state;
    size_t last = SIZE_MAX;
    for (size_t threads = 1; threads <= QN_POOL_MAX_THREADS; threads++) {
        size_t workers = qn_workers_for(threads), piece = qn_piece_bytes_for(workers);
        assert_true(workers >= threads && workers <= QN_POOL_MAX_THREADS);
        assert_true(workers * qn_encoder_bytes(piece) <= QN_CONVERT_BUFFER_BYTES);
        assert_int_equal(piece % QN_DIRECT_ALIGNMENT, 0);
        assert_true(piece >= 512 * 1024 && piece <= last);
        last = piece;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
