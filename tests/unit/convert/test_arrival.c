#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "convert/arrival.h"
#include "support.h"

static char folder[SUPPORT_PATH_BYTES];
static size_t lines;

static void count_line(void *context, const char *line)
{
    (void)context;
    lines += strstr(line, "waiting for") != NULL;
}

static int make_folder(void **state)
{
    (void)state;
    lines = 0;
    qn_log_set_sink(count_line, NULL);
    support_make(folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    qn_log_set_sink(NULL, NULL);
    support_remove(folder);
    return 0;
}

static void put(const char *name, const void *data, size_t bytes)
{
    char path[SUPPORT_PATH_BYTES];
    qn_error err;
    assert_int_equal(qn_file_write(support_path(folder, name, path), data, bytes, &err), QN_OK);
}

static bool is_whole(void)
{
    char path[SUPPORT_PATH_BYTES];
    return qn_arrival_is_whole(support_path(folder, "m.safetensors", path));
}

/* Eight bytes of length, the header, eight bytes of data. */
static size_t make_file(uint8_t out[128], const char *dtype, const char *shape)
{
    char *text = (char *)out + 8;
    int length = snprintf(text, 112, "{\"a\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[0,8]}}", dtype, shape);
    memset(out, 0, 8);
    out[0] = (uint8_t)length;
    memset(text + length, 1, 8);
    return 8 + (size_t)length + 8;
}

static void test_a_file_is_there_at_its_exact_size_alone(void **state)
{
    (void)state;
    uint8_t data[128];
    size_t bytes = make_file(data, "BF16", "[4]");
    assert_false(is_whole());
    for (size_t cut = 0; cut < bytes; cut++) {
        put("m.safetensors", data, cut);
        assert_false(is_whole());
    }
    put("m.safetensors", data, bytes);
    assert_true(is_whole());
    put("m.safetensors", data, bytes + 1);
    assert_false(is_whole());
    bytes = make_file(data, "F8_E4M3", "[8]");
    put("m.safetensors", data, bytes);
    assert_true(is_whole());
}

static void test_a_marker_beside_it_says_that_it_is_not_there(void **state)
{
    (void)state;
    static const char *const markers[] = {".aria2", ".incomplete", ".part"};
    uint8_t data[128];
    char path[SUPPORT_PATH_BYTES], name[64];
    put("m.safetensors", data, make_file(data, "BF16", "[4]"));
    for (size_t i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "m.safetensors%s", markers[i]);
        put(name, "", 0);
        assert_string_equal(qn_arrival_marker(support_path(folder, "m.safetensors", path)), markers[i]);
        assert_false(is_whole());
        unlink(support_path(folder, name, path));
    }
    assert_null(qn_arrival_marker(support_path(folder, "m.safetensors", path)));
    assert_true(is_whole());
}

static void test_index_is_waited_for_until_it_is_whole_or_a_stop(void **state)
{
    (void)state;
    atomic_bool stop = true;
    qn_error err = {0};
    uint8_t data[128];
    assert_int_equal(qn_arrival_wait_for_index("/nonexistent", 1, &stop, &err), QN_BAD_INPUT);
    assert_int_equal(qn_arrival_wait_for_index(folder, 1, &stop, &err), QN_CANCELLED);
    put("config.json", "{\"a\"", 4);
    assert_int_equal(qn_arrival_wait_for_index(folder, 1, &stop, &err), QN_CANCELLED);
    put("config.json", "{}", 2);
    put("model.safetensors.index.json", "{\"weight_map\": {", 16);
    assert_int_equal(qn_arrival_wait_for_index(folder, 1, &stop, &err), QN_CANCELLED);
    assert_int_equal(lines, 3);
    put("model.safetensors.index.json", "{}", 2);
    assert_int_equal(qn_arrival_wait_for_index(folder, 1, &stop, &err), QN_OK); /* nothing to wait for */
    char path[SUPPORT_PATH_BYTES];
    unlink(support_path(folder, "model.safetensors.index.json", path));
    put("model.safetensors", data, make_file(data, "BF16", "[4]"));
    assert_int_equal(qn_arrival_wait_for_index(folder, 1, &stop, &err), QN_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_file_is_there_at_its_exact_size_alone, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_a_marker_beside_it_says_that_it_is_not_there, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_index_is_waited_for_until_it_is_whole_or_a_stop, make_folder,
                                        remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
