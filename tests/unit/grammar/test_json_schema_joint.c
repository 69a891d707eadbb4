#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/buffer.h"
#include "grammar/matcher.h"
#include "unit/grammar/schema_check.h"
#include "unit/random_stream.h"

enum { SCHEMAS = 300, TEXTS = 60, THOUSAND = 1000 };

/* A thousand objects */

static qn_grammar *thousand(const char *each, bool one)
{
    qn_buffer text = {0};
    qn_error err;
    qn_buffer_format(&text, "{\"%s\":[", one ? "oneOf" : "anyOf");
    for (int i = 0; i < THOUSAND; i++) {
        qn_buffer_text(&text, i > 0 ? "," : "");
        for (const char *at = each; *at; at++) {
            if (*at == '%')
                qn_buffer_format(&text, "%d", i);
            else
                qn_buffer_char(&text, *at);
        }
    }
    qn_buffer_text(&text, "]}");
    json_t *schema = schema_of(qn_buffer_string(&text));
    qn_grammar *grammar = schema_grammar(schema, QN_SCHEMA_JSON, true, &err);
    if (!grammar)
        fail_msg("%s", err.message);
    json_decref(schema);
    qn_buffer_free(&text);
    return grammar;
}

static void check(qn_grammar *grammar, const char *const *accept, const char *const *reject)
{
    for (; *accept; accept++)
        if (!schema_matches(grammar, *accept, strlen(*accept)))
            fail_msg("rejects %s", *accept);
    for (; *reject; reject++)
        if (schema_matches(grammar, *reject, strlen(*reject)))
            fail_msg("accepts %s", *reject);
    qn_grammar_free(grammar);
}

#define TEXTS_OF(...)     \
    (const char *const[]) \
    {                     \
        __VA_ARGS__, NULL \
    }

static void test_a_thousand_objects_told_apart_by_a_string(void **state)
{
    (void)state;
    static const char each[] =
        "{\"type\":\"object\",\"properties\":{\"type\":{\"const\":\"k%\"},\"id\":{\"type\":\"string\"},"
        "\"f%\":{\"type\":\"integer\"},\"g%\":{\"type\":\"null\"}},\"required\":[\"type\",\"f%\"],"
        "\"additionalProperties\":false}";
    for (int one = 0; one < 2; one++)
        check(thousand(each, one),
              TEXTS_OF("{\"type\":\"k7\",\"f7\":1}", "{\"f999\":1,\"type\":\"k999\"}",
                       "{ \"id\" : \"\", \"g10\":null,"
                       "\"f10\":2 ,\"\\u0074ype\":\"\\u006b10\"}"),
              TEXTS_OF("{\"type\":\"k7\",\"f8\":1}", "{\"f99\":1,\"type\":\"k999\"}",
                       "{\"type\":\"k1000\",\"f1000\":1}", "{\"f7\":1,\"type\":\"k7\",\"f7\":1}", "{\"type\":\"k7\"}",
                       "{}", "{\"f7\":1,\"type\":\"k7\",\"id\":\"\",\"other\":1}"));
}

static void test_a_thousand_objects_with_other_members(void **state)
{
    (void)state;
    check(thousand("{\"type\":\"object\",\"properties\":{\"type\":{\"const\":\"k%\"},\"f%\":{\"type\":\"integer\"}},"
                   "\"required\":[\"type\"]}",
                   false),
          TEXTS_OF("{\"type\":\"k7\",\"f7\":1,\"f8\":null,\"x\":[]}", "{\"x\":1,\"f8\":\"\",\"x\":2,\"type\":\"k7\"}"),
          TEXTS_OF("{\"type\":\"k7\",\"f7\":null}", "{\"f7\":null,\"x\":1,\"type\":\"k7\"}", "{\"type\":3}",
                   "{\"type\":\"k7\",\"type\":\"k7\"}"));
}

static void test_a_thousand_objects_with_equal_first_names(void **state)
{
    (void)state;
    check(thousand("{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"array\",\"items\":{\"const\":%}},"
                   "\"w\":{\"enum\":[%,null]},\"x\":{\"type\":\"boolean\"}},\"required\":[\"v\",\"x\"],"
                   "\"additionalProperties\":false,\"minProperties\":2,\"maxProperties\":3}",
                   false),
          TEXTS_OF("{\"v\":[7,7],\"w\":7,\"x\":true}", "{\"x\":true,\"v\":[]}"),
          TEXTS_OF("{\"v\":[7,8],\"x\":true}", "{\"v\":[7],\"w\":8,\"x\":true}", "{\"x\":true}"));
}

static void test_a_thousand_objects_with_equal_members_written_anew(void **state)
{
    (void)state;
    check(thousand("{\"type\":\"object\",\"properties\":{\"type\":{\"const\":\"k%\"},"
                   "\"id\":{\"type\":\"string\",\"maxLength\":3,\"description\":\"The id of k%\"},"
                   "\"note\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}],\"default\":null},"
                   "\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"string\",\"minLength\":1},\"maxItems\":2},"
                   "\"size\":{\"type\":\"object\",\"properties\":{\"w\":{\"type\":\"number\",\"minimum\":0}}}},"
                   "\"required\":[\"type\",\"id\"],\"additionalProperties\":false}",
                   false),
          TEXTS_OF("{\"id\":\"abc\",\"note\":null,\"tags\":[\"x\",\"y\"],\"size\":{\"w\":0.5},\"type\":\"k7\"}",
                   "{\"tags\":[],\"type\":\"k999\",\"note\":\"\",\"id\":\"\"}"),
          TEXTS_OF("{\"id\":\"abcd\",\"type\":\"k7\"}", "{\"id\":\"a\",\"note\":1,\"type\":\"k7\"}",
                   "{\"id\":\"a\",\"tags\":[\"\"],\"type\":\"k7\"}",
                   "{\"id\":\"a\",\"tags\":[\"a\",\"b\",\"c\"],\"type\":\"k7\"}",
                   "{\"id\":\"a\",\"size\":{\"w\":-1},\"type\":\"k7\"}", "{\"id\":\"a\",\"type\":\"k1000\"}",
                   "{\"tags\":[]}"));
}

/* A schema that is used inside itself, by reference. */
static void test_a_thousand_objects_with_a_recursive_member(void **state)
{
    (void)state;
    check(thousand("{\"type\":\"object\",\"properties\":{\"type\":{\"const\":\"k%\"},\"in\":{\"$ref\":\"#\"}},"
                   "\"required\":[\"type\"],\"additionalProperties\":false}",
                   false),
          TEXTS_OF("{\"in\":{\"in\":{\"type\":\"k1\"},\"type\":\"k2\"},\"type\":\"k3\"}"),
          TEXTS_OF("{\"in\":{\"in\":{\"type\":\"k1\"}},\"type\":\"k3\"}"));
}

/* Few and many are the same language */

static void random_object(random_stream *r, qn_buffer *out)
{
    static const char *const names[] = {"a", "ab", "abc", "b", "\\u00e9", "", "a\\\"", "type"};
    static const char *const values[] = {
        "{\"const\":\"x\"}",
        "{\"const\":\"xy\"}",
        "{\"enum\":[\"\"]}",
        "{\"enum\":[\"\\\"\"]}",
        "{\"const\":1}",
        "{\"type\":\"integer\"}",
        "{\"type\":\"string\"}",
        "{\"type\":\"number\"}",
        "{\"enum\":[\"x\",1,null]}",
        "true",
        "false",
        "{\"title\":\"T\",\"type\":\"string\",\"maxLength\":1}",
        "{\"type\":\"string\",\"maxLength\":1}",
        "{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}",
        "{\"not\":{\"const\":\"x\"}}",
        "{\"type\":\"object\",\"required\":[\"a\"],\"properties\":{\"a\":{\"$ref\":\"#\"}}}"};
    static const char *const others[] = {"false", "false", "true", "{\"type\":\"integer\"}", "{\"type\":\"string\"}"};
    bool has[8];
    size_t count = 0;
    qn_buffer_text(out, "{\"type\":");
    qn_buffer_text(out, random_word(r) % 8 ? "\"object\"" : "[\"object\",\"null\"]");
    qn_buffer_text(out, ",\"properties\":{");
    for (size_t i = 0; i < 8; i++) {
        has[i] = random_word(r) % 3 == 0;
        if (has[i])
            qn_buffer_format(out, "%s\"%s\":%s", count++ ? "," : "", names[i], values[random_word(r) % 16]);
    }
    qn_buffer_text(out, "},\"required\":[");
    count = 0;
    for (size_t i = 0; i < 8; i++)
        if (has[i] && random_word(r) % 2)
            qn_buffer_format(out, "%s\"%s\"", count++ ? "," : "", names[i]);
    qn_buffer_format(out, "],\"additionalProperties\":%s", others[random_word(r) % 5]);
    if (random_word(r) % 4 == 0)
        qn_buffer_format(out, ",\"maxProperties\":%u", random_word(r) % 4);
    if (random_word(r) % 4 == 0)
        qn_buffer_format(out, ",\"minProperties\":%u", random_word(r) % 2);
    qn_buffer_char(out, '}');
}

static void random_text(random_stream *r, int depth, qn_buffer *out)
{
    static const char *const names[] = {"a",       "\\u0061b", "ab",    "abc",  "b",     "\xC3\xA9",
                                        "\\u00e9", "",         "a\\\"", "type", "other", "c"};
    static const char *const values[] = {"\"x\"", "\"xy\"", "\"\"", "\"\\\"\"", "\"\\u0078\"", "1", "1.5", "null", "2"};
    qn_buffer_char(out, '{');
    for (size_t n = random_word(r) % 5; n > 0; n--) {
        qn_buffer_format(out, "\"%s\":", names[random_word(r) % 12]);
        if (depth > 0 && random_word(r) % 6 == 0)
            random_text(r, depth - 1, out);
        else
            qn_buffer_text(out, values[random_word(r) % 9]);
        qn_buffer_text(out, n > 1 ? "," : "");
    }
    qn_buffer_char(out, '}');
}

static size_t taken(const qn_grammar *grammar, const qn_buffer *text, bool *ends)
{
    qn_error err;
    qn_matcher *m;
    assert_int_equal(qn_matcher_new(grammar, &m, &err), QN_OK);
    size_t count = qn_matcher_bytes(m, text->data, text->size);
    assert_false(qn_matcher_exhausted(m));
    *ends = qn_matcher_can_end(m);
    qn_matcher_free(m);
    return count;
}

/* Options in an anyOf of several that have few each are followed side by side, whatever follows them. */
static void test_random_objects_as_one_and_side_by_side(void **state)
{
    (void)state;
    size_t compiled = 0, valid = 0;
    for (uint64_t seed = 1; seed <= SCHEMAS; seed++) {
        random_stream r = {.seed = seed};
        qn_buffer one = {0}, many = {0}, text = {0};
        qn_error err;
        qn_buffer_text(&one, "{\"anyOf\":[");
        qn_buffer_text(&many, "{\"anyOf\":[{\"anyOf\":[");
        for (size_t i = 0, count = 9 + random_word(&r) % 12; i < count; i++) {
            text.size = 0;
            random_object(&r, &text);
            qn_buffer_text(&one, i > 0 ? "," : "");
            qn_buffer_append(&one, text.data, text.size);
            qn_buffer_text(&many, i == 0 ? "" : i % 4 ? "," : "]},{\"anyOf\":[");
            qn_buffer_append(&many, text.data, text.size);
        }
        qn_buffer_text(&one, "]}");
        qn_buffer_text(&many, "]}]}");
        json_t *schemas[] = {schema_of(qn_buffer_string(&one)), schema_of(qn_buffer_string(&many))};
        qn_grammar *grammars[2];
        for (int i = 0; i < 2; i++)
            grammars[i] = schema_grammar(schemas[i], QN_SCHEMA_JSON, false, &err);
        if (!grammars[0] != !grammars[1])
            fail_msg("seed %u: %s", (unsigned)seed, err.message);
        for (int i = 0; grammars[0] && i < TEXTS; i++) {
            bool ends, as;
            text.size = 0;
            random_text(&r, 1, &text);
            size_t count = taken(grammars[0], &text, &ends);
            if (count != taken(grammars[1], &text, &as) || ends != as)
                fail_msg("seed %u: %s: up to byte %zu, %d", (unsigned)seed, qn_buffer_string(&text), count, ends);
            valid += count == text.size && ends;
        }
        compiled += grammars[0] != NULL;
        for (int i = 0; i < 2; i++) {
            qn_grammar_free(grammars[i]);
            json_decref(schemas[i]);
        }
        qn_buffer_free(&one);
        qn_buffer_free(&many);
        qn_buffer_free(&text);
    }
    assert_true(compiled > SCHEMAS / 2 && valid > SCHEMAS);
}

static void test_short_memory(void **state)
{
    (void)state;
    json_t *schema = schema_of(
        "{\"anyOf\":[{\"properties\":{\"a\":{\"const\":\"x\"}},\"required\":[\"a\"]},{\"required\":[\"b\"]},"
        "{\"required\":[\"c\"]},{\"required\":[\"d\"]},{\"required\":[\"e\"]},{\"required\":[\"f\"]},"
        "{\"required\":[\"g\"]},{\"required\":[\"h\"]},{\"type\":\"object\",\"properties\":{\"a\":{\"const\":\"xy\"},"
        "\"b\":{}},\"additionalProperties\":false}]}");
    qn_grammar *grammar = schema_grammar_after_faults(schema);
    check(grammar, TEXTS_OF("{\"a\":\"xy\"}", "{}", "{\"a\":1,\"h\":2}", "3"), TEXTS_OF("{\"a\":1}"));
    json_decref(schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_thousand_objects_told_apart_by_a_string),
        cmocka_unit_test(test_a_thousand_objects_with_other_members),
        cmocka_unit_test(test_a_thousand_objects_with_equal_first_names),
        cmocka_unit_test(test_a_thousand_objects_with_equal_members_written_anew),
        cmocka_unit_test(test_a_thousand_objects_with_a_recursive_member),
        cmocka_unit_test(test_random_objects_as_one_and_side_by_side),
        cmocka_unit_test(test_short_memory),
    };
    return cmocka_run_group_tests(tests, schema_init_json, NULL);
}
