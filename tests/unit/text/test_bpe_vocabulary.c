#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/json.h"
#include "small_tokenizer.h"
#include "text/bpe_vocabulary.h"

/* A vocabulary of the 256 bytes, not sealed yet. */
static qn_vocabulary *bytes_only(void)
{
    qn_error err;
    qn_vocabulary *v = NULL;
    qn_buffer members = {0};
    json_t *object = NULL, *id;
    const char *spelling;
    qn_buffer_char(&members, '{');
    small_bytes(&members);
    qn_buffer_char(&members, '}');
    assert_int_equal(qn_json_parse(members.data, members.size, "bytes", &object, &err), QN_OK);
    assert_int_equal(qn_vocabulary_new(&v, &err), QN_OK);
    json_object_foreach(object, spelling, id)
    {
        assert_int_equal(qn_vocabulary_add(v, spelling, strlen(spelling), json_integer_value(id), &err), QN_OK);
    }
    json_decref(object);
    qn_buffer_free(&members);
    return v;
}

static void add(qn_vocabulary *v, const char *spelling, int64_t id)
{
    qn_error err;
    assert_int_equal(qn_vocabulary_add(v, spelling, strlen(spelling), id, &err), QN_OK);
}

static int32_t find(const qn_vocabulary *v, const char *spelling)
{
    char scratch[64];
    return qn_vocabulary_find(v, spelling, strlen(spelling), scratch);
}

static void assert_bytes(const qn_vocabulary *v, int32_t id, const char *expected)
{
    size_t bytes;
    const char *text = qn_vocabulary_bytes(v, id, &bytes);
    assert_int_equal(bytes, strlen(expected));
    assert_memory_equal(text, expected, bytes);
}

static void test_spellings_stand_for_bytes(void **state)
{
    (void)state;
    qn_error err;
    qn_vocabulary *v = bytes_only();
    add(v, "<u v>", 258); /* a real space: not of the alphabet, stands for itself */
    add(v,
        "\xC4\xA0"
        "a",
        256);
    add(v, "\xC3\x83\xC2\xA9", 257); /* the bytes of an e with acute */
    add(v, "", 259);
    assert_int_equal(qn_vocabulary_seal(v, &err), QN_OK);
    assert_int_equal(qn_vocabulary_count(v), 260);
    assert_bytes(v, 256, " a");
    assert_bytes(v, 257, "\xC3\xA9");
    assert_bytes(v, 258, "<u v>");
    assert_bytes(v, 259, "");
    assert_int_equal(find(v, "\xC4\xA0"
                             "a"),
                     256);
    assert_int_equal(find(v, " a"), -1); /* the same bytes, another spelling */
    assert_int_equal(find(v, "<u v>"), 258);
    assert_int_equal(find(v, "nothing"), -1);
    assert_int_equal(qn_vocabulary_find_bytes(v, " a", 2), 256);
    assert_int_equal(qn_vocabulary_find_bytes(v, "<u v>", 5), -1); /* no text is encoded to it */
    assert_int_equal(qn_vocabulary_find_bytes(v, "\xC3\xA9", 2), 257);
    for (int byte = 0; byte < 256; byte++)
        assert_int_equal(qn_vocabulary_byte_id(v, (uint8_t)byte), byte);
    char scratch[64];
    assert_int_equal(qn_vocabulary_find_joined(v,
                                               "\xC4\xA0"
                                               "a",
                                               3, 255, scratch),
                     256); /* behind the guess */
    assert_int_equal(qn_vocabulary_find_joined(v,
                                               "\xC4\xA0"
                                               "a",
                                               3, 256, scratch),
                     256);
    assert_int_equal(qn_vocabulary_find_joined(v,
                                               "\xC4\xA0"
                                               "a",
                                               3, 3, scratch),
                     256);
    assert_int_equal(qn_vocabulary_find_joined(v,
                                               "\xC4\xA0"
                                               "a",
                                               3, -1, scratch),
                     256);
    assert_int_equal(qn_vocabulary_find_joined(v, "nope", 4, 259, scratch), -1);
    assert_int_equal(qn_vocabulary_append(v, "<x>", 3, &err), QN_OK);
    assert_int_equal(qn_vocabulary_count(v), 261);
    assert_bytes(v, 260, "<x>");
    assert_int_equal(find(v, "<x>"), -1);
    qn_vocabulary_free(v);
    qn_vocabulary_free(NULL);
}

static void refuse_seal(qn_vocabulary *v, const char *part)
{
    qn_error err;
    assert_int_equal(qn_vocabulary_seal(v, &err), QN_BAD_INPUT);
    if (!strstr(err.message, part))
        fail_msg("\"%s\" does not tell of \"%s\"", err.message, part);
    qn_vocabulary_free(v);
}

static void test_ids_must_be_complete_and_unique(void **state)
{
    (void)state;
    qn_error err;
    qn_vocabulary *v = bytes_only();
    add(v, "ab", 257);
    refuse_seal(v, "without holes");
    v = bytes_only();
    add(v, "ab", 3);
    refuse_seal(v, "two tokens");
    v = bytes_only();
    add(v, "ab", 256);
    add(v, "ab", 257);
    refuse_seal(v, "same token");
    assert_int_equal(qn_vocabulary_new(&v, &err), QN_OK);
    refuse_seal(v, "byte 0x00");
    v = bytes_only();
    assert_int_equal(qn_vocabulary_add(v, "ab", 2, -1, &err), QN_BAD_INPUT);
    assert_int_equal(qn_vocabulary_add(v, "ab", 2, QN_VOCABULARY_MAX_TOKENS, &err), QN_BAD_INPUT);
    assert_int_equal(qn_vocabulary_add(v, "ab", 2, INT64_MAX, &err), QN_BAD_INPUT);
    qn_vocabulary_free(v);
}

static void test_many_tokens_are_found(void **state)
{
    (void)state;
    enum { MANY = 20000 };
    qn_error err;
    qn_vocabulary *v = bytes_only();
    char spelling[32], scratch[64];
    for (int i = MANY - 1; i >= 0; i--) { /* ids in descending order */
        snprintf(spelling, sizeof spelling, "token%d", i);
        add(v, spelling, 256 + i);
    }
    assert_int_equal(qn_vocabulary_seal(v, &err), QN_OK);
    for (int i = 0; i < MANY; i++) {
        size_t length = (size_t)snprintf(spelling, sizeof spelling, "token%d", i);
        assert_int_equal(qn_vocabulary_find(v, spelling, length, scratch), 256 + i);
    }
    assert_int_equal(find(v, "token20000"), -1);
    qn_vocabulary_free(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spellings_stand_for_bytes),
        cmocka_unit_test(test_ids_must_be_complete_and_unique),
        cmocka_unit_test(test_many_tokens_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
