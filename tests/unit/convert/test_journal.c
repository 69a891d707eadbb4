#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/memory.h"
#include "convert/journal.h"
#include "support.h"

enum { TENSORS = 12 };

static const qn_hash HEADER = {.high = 0x0123456789abcdef, .low = 42}, OTHER_HEADER = {.high = 1, .low = 2};

static char folder[SUPPORT_PATH_BYTES], path[SUPPORT_PATH_BYTES];

static int make_folder(void **state)
{
    (void)state;
    support_make(folder);
    support_path(folder, "a.journal", path);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    support_remove(folder);
    return 0;
}

/* What a journal told. */
typedef struct told {
    bool has[TENSORS], fresh;
    qn_hash hash[TENSORS];
} told;

static void take(void *context, size_t tensor, qn_hash hash)
{
    told *t = context;
    assert_true(tensor < TENSORS);
    t->has[tensor] = true;
    t->hash[tensor] = hash;
}

static qn_journal *open_journal(qn_hash header, told *t)
{
    qn_journal *journal = NULL;
    qn_error err;
    *t = (told){0};
    if (qn_journal_open(path, header, TENSORS, take, t, &journal, &t->fresh, &err) != QN_OK)
        fail_msg("%s", err.message);
    return journal;
}

static qn_hash hash_of(size_t tensor)
{
    return (qn_hash){.high = 1000 + tensor, .low = ~(uint64_t)tensor};
}

/* A journal with lines for tensors 0, 1 and 2, then 10 and 11. */
static void write_journal(void)
{
    told t;
    qn_error err;
    const qn_hash first[] = {hash_of(0), hash_of(1), hash_of(2)}, second[] = {hash_of(10), hash_of(11)};
    qn_journal *journal = open_journal(HEADER, &t);
    assert_true(t.fresh);
    assert_int_equal(qn_journal_append(journal, 0, 3, first, &err), QN_OK);
    assert_int_equal(qn_journal_append(journal, 10, 2, second, &err), QN_OK);
    qn_journal_close(journal);
}

static void test_what_was_appended_is_told(void **state)
{
    (void)state;
    told t;
    qn_error err;
    write_journal();
    for (int round = 0; round < 2; round++) {
        qn_journal *journal = open_journal(HEADER, &t);
        assert_false(t.fresh);
        for (size_t i = 0; i < TENSORS; i++) {
            assert_int_equal(t.has[i], i < 3 || i >= 10 || (round == 1 && i == 5));
            if (t.has[i])
                assert_true(qn_hash_equal(t.hash[i], i == 5 ? HEADER : hash_of(i)));
        }
        /* a second line of a tensor holds */
        const qn_hash changed[] = {hash_of(5), HEADER};
        assert_int_equal(qn_journal_append(journal, 5, 1, changed, &err), QN_OK);
        assert_int_equal(qn_journal_append(journal, 5, 1, changed + 1, &err), QN_OK);
        qn_journal_close(journal);
    }
    qn_journal_close(NULL);
}

static void test_another_header_begins_anew(void **state)
{
    (void)state;
    told t;
    write_journal();
    qn_journal_close(open_journal(OTHER_HEADER, &t));
    assert_true(t.fresh);
    qn_journal_close(open_journal(OTHER_HEADER, &t));
    assert_false(t.fresh);
    for (size_t i = 0; i < TENSORS; i++)
        assert_false(t.has[i]);
}

/* Cut anywhere, a journal tells only whole lines, and can be appended to. */
static void test_a_torn_line_counts_for_nothing(void **state)
{
    (void)state;
    char *text = NULL;
    size_t bytes = 0;
    qn_error err;
    write_journal();
    assert_int_equal(qn_file_read(path, 4096, &text, &bytes, &err), QN_OK);
    for (size_t cut = 0; cut <= bytes; cut++) {
        assert_int_equal(qn_file_write(path, text, cut, &err), QN_OK);
        size_t lines = 0;
        for (size_t i = 0; i < cut; i++)
            lines += text[i] == '\n';
        told t;
        qn_journal *journal = open_journal(HEADER, &t);
        assert_int_equal(t.fresh, lines == 0);
        size_t has = 0;
        for (size_t i = 0; i < TENSORS; i++)
            has += t.has[i];
        assert_int_equal(has, lines > 0 ? lines - 1 : 0);
        const qn_hash hash = hash_of(7);
        assert_int_equal(qn_journal_append(journal, 7, 1, &hash, &err), QN_OK);
        qn_journal_close(journal);
        qn_journal_close(open_journal(HEADER, &t));
        assert_true(t.has[7]);
        assert_true(qn_hash_equal(t.hash[7], hash));
    }
    qn_free(text);
}

/* A changed byte never makes a line say something else. */
static void test_damage_is_noticed(void **state)
{
    (void)state;
    char *text = NULL;
    size_t bytes = 0;
    qn_error err;
    write_journal();
    assert_int_equal(qn_file_read(path, 4096, &text, &bytes, &err), QN_OK);
    for (size_t at = 0; at < bytes; at++) {
        char whole = text[at];
        text[at] = (char)(whole ^ (1 << at % 8));
        assert_int_equal(qn_file_write(path, text, bytes, &err), QN_OK);
        told t;
        qn_journal_close(open_journal(HEADER, &t));
        for (size_t i = 0; i < TENSORS; i++) {
            if (t.has[i])
                assert_true(qn_hash_equal(t.hash[i], hash_of(i)));
        }
        text[at] = whole;
    }
    qn_free(text);
}

static void test_lines_of_other_files_are_ignored(void **state)
{
    (void)state;
    told t;
    qn_error err;
    qn_journal *journal = NULL;
    bool fresh = false;
    write_journal();
    t = (told){0};
    assert_int_equal(qn_journal_open(path, HEADER, 2, take, &t, &journal, &fresh, &err), QN_OK);
    assert_true(t.has[0] && t.has[1] && !t.has[2] && !t.has[10]);
    qn_journal_close(journal);
}

static void test_each_fault_is_an_error(void **state)
{
    (void)state;
    static const qn_fault_kind kinds[] = {QN_FAULT_ALLOC, QN_FAULT_READ, QN_FAULT_WRITE};
    for (size_t k = 0; k < 3; k++) {
        bool reached = true;
        size_t failures = 0;
        for (long nth = 1; reached; nth++) {
            told t = {0};
            qn_journal *journal = NULL;
            qn_error err;
            const qn_hash hash = hash_of(4);
            unlink(path);
            qn_fault_arm(kinds[k], nth);
            qn_status status = qn_journal_open(path, HEADER, TENSORS, take, &t, &journal, &t.fresh, &err);
            if (status == QN_OK)
                status = qn_journal_append(journal, 4, 1, &hash, &err);
            reached = qn_fault_seen(kinds[k]) >= nth;
            qn_fault_disarm();
            assert_true(status == QN_OK || status == QN_RESOURCE);
            failures += status != QN_OK;
            qn_journal_close(journal);
        }
        assert_true(failures >= 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_was_appended_is_told, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_another_header_begins_anew, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_a_torn_line_counts_for_nothing, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_damage_is_noticed, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_lines_of_other_files_are_ignored, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_each_fault_is_an_error, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
