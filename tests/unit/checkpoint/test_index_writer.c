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
#include "checkpoint/index.h"
#include "checkpoint/index_writer.h"

static json_t *map_of(const char *first, const char *second)
{
    json_t *map = json_object();
    json_object_set_new(map, first, json_string("model-00001-of-00002.safetensors"));
    json_object_set_new(map, second, json_string("model-00002-of-00002.safetensors"));
    return map;
}

static char *write_and_read(json_t *map, const char *path)
{
    qn_error err;
    char *text = NULL;
    size_t bytes = 0;
    assert_int_equal(qn_index_write(path, map, 9007199254740993, &err), QN_OK);
    assert_int_equal(qn_file_read(path, 1 << 20, &text, &bytes, &err), QN_OK);
    return text;
}

static void test_is_read_back_whatever_the_order_of_entries(void **state)
{
    (void)state;
    char dir[] = "/tmp/quern-index-XXXXXX";
    assert_non_null(mkdtemp(dir));
    char *path = qn_path_join(dir, "model.safetensors.index.json");
    json_t *one = map_of("b", "a"), *other = json_object();
    json_object_set(other, "a", json_object_get(one, "a"));
    json_object_set(other, "b", json_object_get(one, "b"));
    char *first = write_and_read(one, path), *second = write_and_read(other, path);
    assert_string_equal(first, second);

    qn_index index;
    qn_error err;
    assert_int_equal(qn_index_open(path, &index, &err), QN_OK);
    assert_true(index.has_total && index.total_size == 9007199254740993);
    assert_int_equal(index.file_count, 2);
    assert_string_equal(qn_index_file_of(&index, "b"), "model-00001-of-00002.safetensors");
    qn_index_close(&index);

    qn_status status = QN_RESOURCE;
    for (long nth = 1; status != QN_OK; nth++) {
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        status = qn_index_write(path, one, 9007199254740993, &err);
        qn_fault_disarm();
        if (status != QN_OK)
            assert_int_equal(status, QN_RESOURCE);
    }
    char *after = NULL;
    size_t bytes = 0;
    assert_int_equal(qn_file_read(path, 1 << 20, &after, &bytes, &err), QN_OK);
    assert_string_equal(after, first);
    qn_free(after);
    json_decref(one);
    json_decref(other);
    qn_free(first);
    qn_free(second);
    unlink(path);
    qn_free(path);
    assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
    qn_json_init();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_is_read_back_whatever_the_order_of_entries)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
