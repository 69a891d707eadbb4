#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "server/api_keys.h"

static qn_status add(qn_api_keys *keys, const char *key, qn_error *err)
{
    return qn_api_keys_add(keys, key, strlen(key), "--api-key", err);
}

static long find(const qn_api_keys *keys, const char *text)
{
    return qn_api_keys_find(keys, text, strlen(text));
}

static int setup(void **state)
{
    qn_error err;
    return qn_api_keys_new((qn_api_keys **)state, &err) == QN_OK ? 0 : -1;
}

static int teardown(void **state)
{
    qn_api_keys_free(*state);
    return 0;
}

static void test_finds_each_key_and_nothing_else(void **state)
{
    qn_api_keys *keys = *state;
    qn_error err;
    char longest[QN_API_KEY_BYTES + 2], name[16];
    memset(longest, 'k', sizeof longest);
    longest[QN_API_KEY_BYTES] = '\0';
    assert_int_equal(find(keys, "a"), QN_API_KEY_NONE);
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "key-%d", i);
        assert_int_equal(add(keys, name, &err), QN_OK);
    }
    assert_int_equal(add(keys, longest, &err), QN_OK);
    assert_int_equal(qn_api_keys_count(keys), 101);
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "key-%d", i);
        assert_int_equal(find(keys, name), i);
    }
    assert_int_equal(find(keys, longest), 100);
    static const char *const wrong[] = {"", "key", "key-", "key-100", "Key-1", "key-1 ", " key-1", "ey-1"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(find(keys, wrong[i]), QN_API_KEY_NONE);
    }
    assert_int_equal(qn_api_keys_find(keys, "key-1\0", 6), 1); /* padding: no header holds a NUL */
    longest[QN_API_KEY_BYTES] = 'k';
    longest[QN_API_KEY_BYTES + 1] = '\0';
    assert_int_equal(find(keys, longest), QN_API_KEY_NONE);
    longest[QN_API_KEY_BYTES - 1] = '\0';
    assert_int_equal(find(keys, longest), QN_API_KEY_NONE);
}

static void test_a_key_of_two_is_the_first(void **state)
{
    qn_api_keys *keys = *state;
    qn_error err;
    assert_int_equal(add(keys, "x", &err), QN_OK);
    assert_int_equal(add(keys, "y", &err), QN_OK);
    assert_int_equal(add(keys, "y", &err), QN_OK);
    assert_true(find(keys, "y") >= 1);
}

static void test_what_is_no_key_is_refused_and_never_shown(void **state)
{
    qn_api_keys *keys = *state;
    qn_error err;
    char lengthy[QN_API_KEY_BYTES + 2];
    memset(lengthy, 's', sizeof lengthy);
    lengthy[sizeof lengthy - 1] = '\0';
    const char *const bad[] = {"", "se cret", "secret\n", "secr\xc3\xa4t", "secret\x7f", lengthy};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(add(keys, bad[i], &err), QN_USAGE);
        assert_non_null(strstr(err.message, "--api-key: not a key"));
        assert_null(strstr(err.message, "sec"));
        assert_null(strstr(err.message, "sss"));
    }
    for (int i = 0; i < QN_API_KEYS_MAX; i++) {
        assert_int_equal(add(keys, "k", &err), QN_OK);
    }
    assert_int_equal(add(keys, "secret", &err), QN_USAGE);
    assert_null(strstr(err.message, "secret"));
}

static void catch_line(void *context, const char *line)
{
    snprintf(context, 200, "%s", line);
}

static void test_files(void **state)
{
    qn_api_keys *keys = *state;
    qn_error err;
    char path[] = "/tmp/quern_keys_XXXXXX", line[200] = "";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    static const char text[] = "# ours\n\n one \r\n#two\n\ttwo\nthree";
    assert_int_equal(write(fd, text, sizeof text - 1), (int)sizeof text - 1);
    qn_log_set_sink(catch_line, line);
    assert_int_equal(qn_api_keys_add_file(keys, path, &err), QN_OK);
    assert_string_equal(line, "");
    assert_int_equal(qn_api_keys_count(keys), 3);
    assert_int_equal(find(keys, "one"), 0);
    assert_int_equal(find(keys, "two"), 1);
    assert_int_equal(find(keys, "three"), 2);
    assert_int_equal(fchmod(fd, 0644), 0);
    assert_int_equal(qn_api_keys_add_file(keys, path, &err), QN_OK);
    assert_non_null(strstr(line, "others on this machine may read"));
    qn_log_set_sink(NULL, NULL);

    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(pwrite(fd, "# only\n \n", 9, 0), 9);
    assert_int_equal(fchmod(fd, 0600), 0);
    assert_int_equal(qn_api_keys_add_file(keys, path, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "has no key"));
    assert_int_equal(pwrite(fd, "good\nsecret key\n", 16, 0), 16);
    assert_int_equal(qn_api_keys_add_file(keys, path, &err), QN_USAGE);
    assert_non_null(strstr(err.message, " line 2: key: not a key"));
    assert_null(strstr(err.message, "secret"));
    close(fd);
    unlink(path);
    assert_int_equal(qn_api_keys_add_file(keys, path, &err), QN_BAD_INPUT);
}

static void test_short_memory(void **state)
{
    (void)state;
    qn_error err;
    for (long nth = 1;; nth++) {
        qn_api_keys *keys = NULL;
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        qn_status status = qn_api_keys_new(&keys, &err);
        for (int i = 0; status == QN_OK && i < 9; i++) {
            status = add(keys, "k", &err);
        }
        bool failed = qn_fault_seen(QN_FAULT_ALLOC) >= nth;
        qn_fault_disarm();
        qn_api_keys_free(keys);
        assert_int_equal(status, failed ? QN_RESOURCE : QN_OK);
        if (!failed) {
            assert_true(nth > 3);
            return;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_finds_each_key_and_nothing_else, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_key_of_two_is_the_first, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_no_key_is_refused_and_never_shown, setup, teardown),
        cmocka_unit_test_setup_teardown(test_files, setup, teardown),
        cmocka_unit_test(test_short_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
