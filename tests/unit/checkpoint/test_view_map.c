#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/fault.h"
#include "checkpoint/view_map.h"

static const char SHARDED[] = "tests/data/oracle/tiny-sharded";

static qn_checkpoint *open_sharded(void)
{
    qn_checkpoint *checkpoint = NULL;
    qn_error err = {0};
    if (qn_checkpoint_open(SHARDED, &checkpoint, &err) != QN_OK)
        fail_msg("%s", err.message);
    return checkpoint;
}

static void expect_byte(const qn_view_map *map, const uint8_t *data, const char *file_name)
{
    size_t file = SIZE_MAX;
    uint64_t offset = 0;
    uint8_t byte = 0;
    assert_true(qn_view_map_find(map, data, &file, &offset));
    assert_non_null(strstr(map->files[file].path, file_name));
    FILE *in = fopen(map->files[file].path, "rb");
    assert_non_null(in);
    assert_int_equal(fseek(in, (long)offset, SEEK_SET), 0);
    assert_int_equal(fread(&byte, 1, 1, in), 1);
    fclose(in);
    assert_int_equal(byte, *data);
}

static void test_each_tensor_is_found_where_it_lies(void **state)
{
    (void)state;
    qn_checkpoint *checkpoint = open_sharded();
    qn_view_map map;
    qn_error err;
    assert_int_equal(qn_view_map_make(checkpoint, &map, &err), QN_OK);
    assert_true(map.count > 1);
    for (size_t i = 0; i < qn_checkpoint_tensor_count(checkpoint); i++) {
        const char *name;
        const qn_tensor *tensor = qn_checkpoint_tensor(checkpoint, i, &name);
        if (tensor->bytes == 0)
            continue;
        expect_byte(&map, tensor->data, name);
        expect_byte(&map, tensor->data + tensor->bytes / 2, name);
        expect_byte(&map, tensor->data + tensor->bytes - 1, name);
    }
    qn_view_map_free(&map);
    qn_checkpoint_close(checkpoint);
}

static void test_what_is_no_tensor_is_not_found(void **state)
{
    (void)state;
    qn_checkpoint *checkpoint = open_sharded();
    qn_view_map map;
    qn_error err;
    size_t file;
    uint64_t offset;
    uint8_t own = 0;
    assert_int_equal(qn_view_map_make(checkpoint, &map, &err), QN_OK);
    assert_false(qn_view_map_find(&map, &own, &file, &offset));
    for (size_t i = 0; i < map.count; i++) {
        assert_false(qn_view_map_find(&map, map.files[i].start, &file, &offset)); /* the header's length */
        assert_false(qn_view_map_find(&map, map.files[i].data - 1, &file, &offset));
    }
    qn_view_map_free(&map);
    qn_checkpoint_close(checkpoint);
}

static void test_every_failing_allocation_is_told(void **state)
{
    (void)state;
    qn_checkpoint *checkpoint = open_sharded();
    qn_view_map map;
    long refused = 0;
    qn_status status;
    do {
        qn_error err = {0};
        qn_fault_arm(QN_FAULT_ALLOC, refused + 1);
        status = qn_view_map_make(checkpoint, &map, &err);
        qn_fault_disarm();
        assert_true(status == QN_OK || (status == QN_RESOURCE && map.count == 0));
        refused += status != QN_OK;
    } while (status != QN_OK);
    assert_true(refused >= 3);
    qn_view_map_free(&map);
    qn_checkpoint_close(checkpoint);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_tensor_is_found_where_it_lies),
        cmocka_unit_test(test_what_is_no_tensor_is_not_found),
        cmocka_unit_test(test_every_failing_allocation_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
