#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/memory.h"

/* A fresh folder per test; *state is its path. */
static int make_folder(void **state)
{
    char *folder = strdup("/tmp/quern-file-XXXXXX");
    *state = mkdtemp(folder);
    return *state ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", (char *)*state);
    int rc = system(command);
    free(*state);
    return rc;
}

static char *path_in(void **state, const char *name)
{
    return qn_path_join(*state, name);
}

static void put(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static void test_map_and_read_give_the_bytes(void **state)
{
    char *path = path_in(state, "data");
    static uint8_t data[200000];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 7 >> 3);
    put(path, data, sizeof data);

    qn_error err;
    qn_mapping mapping = {0};
    assert_int_equal(qn_file_map(path, &mapping, &err), QN_OK);
    assert_int_equal(mapping.bytes, sizeof data);
    assert_memory_equal(mapping.data, data, sizeof data);
    qn_file_unmap(&mapping);
    assert_null(mapping.data);
    qn_file_unmap(&mapping);

    char *text = NULL;
    size_t bytes = 0;
    assert_int_equal(qn_file_read(path, sizeof data, &text, &bytes, &err), QN_OK);
    assert_int_equal(bytes, sizeof data);
    assert_memory_equal(text, data, sizeof data);
    assert_int_equal(text[bytes], 0);
    qn_free(text);
    qn_free(path);
}

static void test_empty_file(void **state)
{
    char *path = path_in(state, "empty");
    put(path, "", 0);
    qn_error err;
    qn_mapping mapping = {0};
    assert_int_equal(qn_file_map(path, &mapping, &err), QN_OK);
    assert_null(mapping.data);
    assert_int_equal(mapping.bytes, 0);
    qn_file_unmap(&mapping);
    char *text = NULL;
    size_t bytes = 1;
    assert_int_equal(qn_file_read(path, 0, &text, &bytes, &err), QN_OK);
    assert_int_equal(bytes, 0);
    assert_string_equal(text, "");
    qn_free(text);
    qn_free(path);
}

static void test_limit_is_exact(void **state)
{
    char *path = path_in(state, "ten");
    put(path, "0123456789", 10);
    qn_error err;
    char *text = NULL;
    size_t bytes = 0;
    assert_int_equal(qn_file_read(path, 9, &text, &bytes, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "larger than the 9 bytes"));
    assert_non_null(strstr(err.message, path));
    assert_int_equal(qn_file_read(path, 10, &text, &bytes, &err), QN_OK);
    qn_free(text);
    qn_free(path);
}

/* Files under /proc tell a size of 0 and have content all the same. */
static void test_file_whose_size_lies(void **state)
{
    (void)state;
    qn_error err;
    char *text = NULL;
    size_t bytes = 0;
    assert_int_equal(qn_file_read("/proc/self/status", 1 << 20, &text, &bytes, &err), QN_OK);
    assert_true(bytes > 100);
    assert_int_equal(strlen(text), bytes);
    qn_free(text);
    assert_int_equal(qn_file_read("/proc/self/status", 100, &text, &bytes, &err), QN_BAD_INPUT);
}

static void assert_both_refuse(const char *path, qn_status status, const char *words)
{
    qn_error err = {0};
    qn_mapping mapping = {0};
    assert_int_equal(qn_file_map(path, &mapping, &err), status);
    assert_non_null(strstr(err.message, path));
    assert_non_null(strstr(err.message, words));
    assert_null(mapping.data);
    char *text = NULL;
    size_t bytes = 0;
    err = (qn_error){0};
    assert_int_equal(qn_file_read(path, 100, &text, &bytes, &err), status);
    assert_non_null(strstr(err.message, words));
    assert_null(text);
}

static void test_what_is_no_regular_file(void **state)
{
    char *missing = path_in(state, "missing"), *pipe_path = path_in(state, "pipe");
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    assert_both_refuse(missing, QN_BAD_INPUT, "no such file");
    assert_both_refuse(*state, QN_BAD_INPUT, "is a folder");
    assert_both_refuse(pipe_path, QN_BAD_INPUT, "is a device or pipe"); /* and does not wait for a writer */
    assert_both_refuse("/dev/zero", QN_BAD_INPUT, "is a device or pipe");
    char *below = qn_path_join("/dev/null", "x");
    assert_both_refuse(below, QN_BAD_INPUT, "check the path");
    qn_free(below);
    qn_free(missing);
    qn_free(pipe_path);
}

static void test_unreadable_file(void **state)
{
    if (geteuid() == 0)
        skip(); /* root reads everything */
    char *path = path_in(state, "secret");
    put(path, "x", 1);
    assert_int_equal(chmod(path, 0), 0);
    assert_both_refuse(path, QN_BAD_INPUT, "check its permissions");
    qn_free(path);
}

static void test_only_regular_files_are_replaced(void **state)
{
    char *pipe_path = path_in(state, "pipe"), *link_path = path_in(state, "link"), *real = path_in(state, "real");
    char *lost = path_in(state, "lost"), *folder = path_in(state, "folder");
    struct stat info;
    qn_error err;
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    assert_int_equal(mkdir(folder, 0700), 0);
    put(real, "old", 3);
    assert_int_equal(symlink("real", link_path), 0);
    assert_int_equal(symlink("nowhere", lost), 0);
    assert_int_equal(qn_file_write(pipe_path, "new", 3, &err), QN_USAGE);
    assert_true(lstat(pipe_path, &info) == 0 && S_ISFIFO(info.st_mode));
    assert_int_equal(qn_file_write(folder, "new", 3, &err), QN_USAGE);
    assert_int_equal(qn_file_write(lost, "new", 3, &err), QN_USAGE);
    assert_int_equal(qn_file_write(link_path, "longer", 6, &err), QN_OK);
    assert_true(lstat(link_path, &info) == 0 && S_ISLNK(info.st_mode));
    assert_true(stat(real, &info) == 0 && info.st_size == 6);
    char *paths[] = {pipe_path, link_path, real, lost, folder};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        qn_free(paths[i]);
}

static void test_fd_read_to_the_end_of_a_pipe(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "hello", 5), 5);
    close(ends[1]);
    qn_error err;
    char *text = NULL;
    size_t bytes = 0;
    assert_int_equal(qn_fd_read(ends[0], "stdin", 5, &text, &bytes, &err), QN_OK);
    assert_string_equal(text, "hello");
    assert_int_equal(bytes, 5);
    qn_free(text);
    close(ends[0]);
}

static void test_fd_read_grows_and_stops_at_the_limit(void **state)
{
    char *path = path_in(state, "large");
    static char data[1000000];
    memset(data, 'x', sizeof data);
    put(path, data, sizeof data);
    qn_error err;
    char *text = NULL;
    size_t bytes = 0;
    int fd = open(path, O_RDONLY);
    assert_int_equal(qn_fd_read(fd, "stdin", SIZE_MAX - 1, &text, &bytes, &err), QN_OK);
    assert_int_equal(bytes, sizeof data);
    assert_memory_equal(text, data, bytes);
    qn_free(text);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_int_equal(qn_fd_read(fd, "stdin", sizeof data - 1, &text, &bytes, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "stdin: is larger than the 999999 bytes"));
    close(fd);
    assert_int_equal(qn_fd_read(fd, "stdin", 10, &text, &bytes, &err), QN_RESOURCE);
    qn_free(path);
}

static int count_entries(const char *folder)
{
    char command[256];
    snprintf(command, sizeof command, "ls -A '%s' | wc -l", folder);
    FILE *listing = popen(command, "r");
    int count = -1;
    assert_int_equal(fscanf(listing, "%d", &count), 1);
    pclose(listing);
    return count;
}

static void test_write_replaces_whole(void **state)
{
    char *path = path_in(state, "out");
    qn_error err;
    assert_int_equal(qn_file_write(path, "a longer first text", 19, &err), QN_OK);
    assert_int_equal(qn_file_write(path, "short", 5, &err), QN_OK);
    char *text = NULL;
    size_t bytes = 0;
    assert_int_equal(qn_file_read(path, 100, &text, &bytes, &err), QN_OK);
    assert_string_equal(text, "short");
    qn_free(text);
    assert_int_equal(count_entries(*state), 1);

    mode_t mask = umask(0);
    umask(mask);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0666 & ~mask);
    qn_free(path);
}

static void test_write_into_a_missing_folder(void **state)
{
    char *path = path_in(state, "no/such/out");
    qn_error err;
    assert_int_equal(qn_file_write(path, "x", 1, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "folder does not exist"));
    qn_free(path);
}

/* Walks the failure through every system call and allocation of the writer: the old content stays, nothing is left
 * behind, and the error says that the system is at fault. */
static void test_failed_write_leaves_the_old_file(void **state)
{
    char *path = path_in(state, "kept");
    qn_error err;
    assert_int_equal(qn_file_write(path, "old", 3, &err), QN_OK);
    static const qn_fault_kind kinds[2] = {QN_FAULT_WRITE, QN_FAULT_ALLOC};
    for (int k = 0; k < 2; k++) {
        for (long nth = 1;; nth++) {
            qn_fault_arm(kinds[k], nth);
            qn_status status = qn_file_write(path, "new text", 8, &err);
            bool reached = qn_fault_seen(kinds[k]) >= nth;
            qn_fault_disarm();
            if (status == QN_OK)
                assert_true(!reached || kinds[k] == QN_FAULT_ALLOC);
            else
                assert_int_equal(status, QN_RESOURCE);
            char *text = NULL;
            size_t bytes = 0;
            assert_int_equal(qn_file_read(path, 100, &text, &bytes, &err), QN_OK);
            assert_string_equal(text, status == QN_OK ? "new text" : "old");
            qn_free(text);
            assert_int_equal(count_entries(*state), 1);
            assert_int_equal(qn_file_write(path, "old", 3, &err), QN_OK);
            if (!reached)
                break;
        }
    }
    qn_free(path);
}

static void test_failed_reads_are_errors(void **state)
{
    char *path = path_in(state, "data");
    static char data[100000];
    put(path, data, sizeof data);
    for (long nth = 1;; nth++) {
        qn_error err = {0};
        qn_mapping mapping = {0};
        char *text = NULL;
        size_t bytes = 0;
        qn_fault_arm(QN_FAULT_READ, nth);
        qn_status mapped = qn_file_map(path, &mapping, &err);
        qn_status read = qn_file_read(path, sizeof data, &text, &bytes, &err);
        bool reached = qn_fault_seen(QN_FAULT_READ) >= nth;
        qn_fault_disarm();
        assert_int_equal((mapped != QN_OK) + (read != QN_OK), reached);
        if (reached)
            assert_int_equal(err.status, QN_RESOURCE);
        qn_file_unmap(&mapping);
        qn_free(text);
        if (!reached)
            break;
    }
    for (long nth = 1;; nth++) {
        qn_error err = {0};
        char *text = NULL;
        size_t bytes = 0;
        int fd = open(path, O_RDONLY);
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        qn_status read = qn_fd_read(fd, "stdin", sizeof data, &text, &bytes, &err);
        bool reached = qn_fault_seen(QN_FAULT_ALLOC) >= nth;
        qn_fault_disarm();
        close(fd);
        assert_int_equal(read, reached ? QN_RESOURCE : QN_OK);
        qn_free(text);
        if (!reached)
            break;
    }
    qn_free(path);
}

static void test_path_join(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"/", "b", "/b"}, {"", "b", "b"}, {"a", "", "a/"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *path = qn_path_join(cases[i][0], cases[i][1]);
        assert_string_equal(path, cases[i][2]);
        qn_free(path);
    }
    qn_fault_arm(QN_FAULT_ALLOC, 1);
    assert_null(qn_path_join("a", "b"));
    qn_fault_disarm();
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_map_and_read_give_the_bytes),
        IN_FOLDER(test_empty_file),
        IN_FOLDER(test_limit_is_exact),
        IN_FOLDER(test_file_whose_size_lies),
        IN_FOLDER(test_what_is_no_regular_file),
        IN_FOLDER(test_unreadable_file),
        IN_FOLDER(test_only_regular_files_are_replaced),
        IN_FOLDER(test_fd_read_to_the_end_of_a_pipe),
        IN_FOLDER(test_fd_read_grows_and_stops_at_the_limit),
        IN_FOLDER(test_write_replaces_whole),
        IN_FOLDER(test_write_into_a_missing_folder),
        IN_FOLDER(test_failed_write_leaves_the_old_file),
        IN_FOLDER(test_failed_reads_are_errors),
        IN_FOLDER(test_path_join),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
