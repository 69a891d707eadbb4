/* Prefaulted memory is resident and unchanged, wherever it begins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fault.h"
#include "base/prefault.h"

enum { PAGES = 64 };

static size_t resident_pages(void *start, size_t page_bytes)
{
    unsigned char resident[PAGES];
    size_t count = 0;
    assert_int_equal(mincore(start, PAGES * page_bytes, resident), 0);
    for (size_t i = 0; i < PAGES; i++)
        count += resident[i] & 1;
    return count;
}

static uint8_t *map_pages(size_t page_bytes)
{
    void *start = mmap(NULL, PAGES * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(start, MAP_FAILED);
    assert_int_equal(resident_pages(start, page_bytes), 0);
    return start;
}

static void test_makes_pages_resident(void **state)
{
    (void)state;
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    qn_error err;
    for (int touch = 0; touch < 2; touch++) {
        uint8_t *start = map_pages(page_bytes);
        /* from inside the second page into the last but one */
        uint8_t *from = start + page_bytes + 64;
        size_t bytes = (PAGES - 3) * page_bytes;
        from[100] = 42;
        if (touch)
            qn_touch_pages(from, bytes);
        else
            assert_int_equal(qn_prefault(from, bytes, "KV cache", &err), QN_OK);
        assert_in_range(resident_pages(start, page_bytes), PAGES - 2, PAGES);
        assert_int_equal(from[100], 42);
        assert_int_equal(munmap(start, PAGES * page_bytes), 0);
    }
}

static void test_tells_lack_of_memory(void **state)
{
    (void)state;
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *start = map_pages(page_bytes);
    qn_error err;
    qn_fault_arm(QN_FAULT_WRITE, 1);
    assert_int_equal(qn_prefault(start, PAGES * page_bytes, "KV cache", &err), QN_RESOURCE);
    qn_fault_disarm();
    assert_non_null(strstr(err.message, "KV cache: making"));
    assert_int_equal(munmap(start, PAGES * page_bytes), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_makes_pages_resident),
        cmocka_unit_test(test_tells_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
