#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "text/pretokenizer.h"

#define BYTE_LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":false}"

static json_t *parse_json(const char *text)
{
    qn_error err;
    json_t *value = NULL;
    if (qn_json_parse(text, strlen(text), "spec", &value, &err) != QN_OK)
        fail_msg("%s", err.message);
    return value;
}

static qn_status join(void *context, const char *piece, size_t bytes, qn_error *err)
{
    (void)err;
    qn_buffer *out = context;
    assert_true(bytes > 0);
    if (out->size > 0)
        qn_buffer_char(out, '|');
    qn_buffer_append(out, piece, bytes);
    return QN_OK;
}

/* The pieces of the text, joined by bars. */
static void check(const char *spec, const char *text, const char *expected)
{
    qn_error err;
    qn_pretokenizer *p = NULL;
    qn_pretokenizer_scratch *scratch = NULL;
    qn_buffer out = {0};
    json_t *json = parse_json(spec);
    if (qn_pretokenizer_parse(json, "pre_tokenizer", &p, &err) != QN_OK)
        fail_msg("%s: %s", spec, err.message);
    assert_int_equal(qn_pretokenizer_scratch_new(&scratch, &err), QN_OK);
    for (int again = 0; again < 2; again++) { /* the scratch carries nothing over */
        qn_buffer_clear(&out);
        assert_int_equal(qn_pretokenizer_run(p, scratch, text, strlen(text), join, &out, &err), QN_OK);
        assert_string_equal(qn_buffer_string(&out), expected);
    }
    qn_pretokenizer_scratch_free(scratch);
    qn_pretokenizer_free(p);
    qn_buffer_free(&out);
    json_decref(json);
}

static void check_split(const char *pattern, const char *behavior, const char *invert, const char *text,
                        const char *expected)
{
    char spec[1024];
    snprintf(spec, sizeof spec,
             "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":%s,\"behavior\":\"%s\","
             "\"invert\":%s}," BYTE_LEVEL "]}",
             pattern, behavior, invert);
    check(spec, text, expected);
}

/* The examples of the documentation of `tokenizers`, and texts that begin or end with a match. */
static void test_behaviors(void **state)
{
    (void)state;
    static const char dash[] = "{\"String\":\"-\"}";
    const char *text = "the-final--countdown";
    check_split(dash, "Removed", "false", text, "the|final|countdown");
    check_split(dash, "Isolated", "false", text, "the|-|final|-|-|countdown");
    check_split(dash, "MergedWithPrevious", "false", text, "the-|final-|-|countdown");
    check_split(dash, "MergedWithNext", "false", text, "the|-final|-|-countdown");
    check_split(dash, "Contiguous", "false", text, "the|-|final|--|countdown");
    check_split(dash, "Removed", "true", text, "-|-|-");
    check_split(dash, "Isolated", "true", text, "the|-|final|-|-|countdown");
    check_split(dash, "MergedWithPrevious", "true", "a-b", "a|-b");
    check_split(dash, "MergedWithPrevious", "false", "-a-", "-|a-");
    check_split(dash, "MergedWithNext", "false", "-a-", "-a|-");
    check_split(dash, "MergedWithNext", "false", "--", "-|-");
    check_split(dash, "Contiguous", "false", "--a--", "--|a|--");
    check_split(dash, "Removed", "false", "--", "");
    check_split("{\"Regex\":\"x*\"}", "Isolated", "false", "axb", "a|x|b");
    check_split("{\"Regex\":\"x*\"}", "Removed", "false", "axb", "a|b");
    check_split("{\"String\":\"\"}", "Isolated", "false", "abc", "a|b|c");
    check_split("{\"String\":\".\"}", "Isolated", "false", "a.b", "a|.|b");
    check_split("{\"Regex\":\".\"}", "Isolated", "false", "a.b", "a|.|b");
}

static void test_digits(void **state)
{
    (void)state;
    check("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits\":true}," BYTE_LEVEL "]}",
          "a12\xC2\xBD b", "a|1|2|\xC2\xBD| b");
    check("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits\":false}," BYTE_LEVEL
          "]}",
          "12\xC2\xBD b34", "12\xC2\xBD| b|34");
}

static void test_byte_level(void **state)
{
    (void)state;
    check(BYTE_LEVEL, "a b", "a b");
    check("{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true}", "Hello there, I'm  x",
          " Hello| there|,| I|'m| | x");
    check("{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true,\"use_regex\":true}", " a", " a");
    /* every piece of the step before gets a space of its own */
    check("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"String\":\"-\"},\"behavior\":"
          "\"Removed\",\"invert\":false},{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":false,"
          "\"use_regex\":false}]}",
          "a-b- c", " a| b| c");
}

static void test_steps_see_pieces_as_texts(void **state)
{
    (void)state;
    /* the lookbehind of the second step does not see what the first cut off */
    check(
        "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\d\"},\"behavior\":"
        "\"Isolated\",\"invert\":false},{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":"
        "{\"Regex\":\"(?<=1)a\"},\"behavior\":\"Isolated\",\"invert\":false}]}," BYTE_LEVEL "]}",
        "1ab", "1|ab");
}

static void refused(const char *spec, const char *part)
{
    qn_error err;
    qn_pretokenizer *p = NULL;
    json_t *json = spec ? parse_json(spec) : NULL;
    if (qn_pretokenizer_parse(json, "pre_tokenizer", &p, &err) != QN_BAD_INPUT)
        fail_msg("%s was accepted", spec);
    if (!strstr(err.message, part) || strncmp(err.message, "pre_tokenizer: ", 15) != 0)
        fail_msg("%s: \"%s\" does not tell of \"%s\"", spec, err.message, part);
    json_decref(json);
}

static void test_refusals(void **state)
{
    (void)state;
    refused(NULL, "type");
    refused("{\"type\":\"Metaspace\"}", "Metaspace");
    refused("{\"type\":\"Whitespace\"}", "Whitespace");
    refused("{\"type\":7}", "\"type\" is integer");
    refused("[]", "type");
    refused("{\"type\":\"Sequence\",\"pretokenizers\":[]}", "ByteLevel");
    refused("{\"type\":\"Sequence\",\"pretokenizers\":{}}", "array");
    refused("{\"type\":\"Sequence\"}", "missing");
    refused("{\"type\":\"Sequence\",\"pretokenizers\":[" BYTE_LEVEL "," BYTE_LEVEL "]}", "after ByteLevel");
    refused("{\"type\":\"Digits\",\"individual_digits\":true}", "ByteLevel");
    refused("{\"type\":\"Digits\"}", "individual_digits");
    refused("{\"type\":\"ByteLevel\",\"add_prefix_space\":1,\"trim_offsets\":true}", "add_prefix_space");
    refused("{\"type\":\"ByteLevel\",\"add_prefix_space\":false}", "trim_offsets");
    refused("{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":0}", "use_regex");
    refused("{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"new\":0}", "\"new\"");
    static const char split[] = "{\"type\":\"Split\",\"pattern\":%s,\"behavior\":%s,\"invert\":%s}";
    static const char *const bad[][4] = {
        {"{\"Regex\":\"(\"}", "\"Isolated\"", "false", "does not end"},
        {"{\"Regex\":\"(?<=a+)\"}", "\"Isolated\"", "false", "PCRE2"},
        {"{\"Regex\":7}", "\"Isolated\"", "false", "neither"},
        {"{\"Glob\":\"a\"}", "\"Isolated\"", "false", "neither"},
        {"\"a\"", "\"Isolated\"", "false", "neither"},
        {"{\"Regex\":\"a\"}", "\"Sideways\"", "false", "Sideways"},
        {"{\"Regex\":\"a\"}", "3", "false", "behavior"},
        {"{\"Regex\":\"a\"}", "\"Isolated\"", "null", "invert"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char spec[256];
        snprintf(spec, sizeof spec, split, bad[i][0], bad[i][1], bad[i][2]);
        refused(spec, bad[i][3]);
    }
    qn_buffer many = {0};
    qn_buffer_text(&many, "{\"type\":\"Sequence\",\"pretokenizers\":[");
    for (int i = 0; i < 20; i++)
        qn_buffer_text(&many, "{\"type\":\"Digits\",\"individual_digits\":true},");
    qn_buffer_text(&many, BYTE_LEVEL "]}");
    refused(many.data, "16 steps");
    qn_buffer_clear(&many);
    for (int i = 0; i < 12; i++)
        qn_buffer_text(&many, "{\"type\":\"Sequence\",\"pretokenizers\":[");
    qn_buffer_text(&many, BYTE_LEVEL);
    for (int i = 0; i < 12; i++)
        qn_buffer_text(&many, "]}");
    refused(many.data, "Sequence");
    qn_buffer_free(&many);
}

static qn_status give_up(void *context, const char *piece, size_t bytes, qn_error *err)
{
    (void)piece;
    (void)bytes;
    return --*(int *)context == 0 ? qn_fail(err, QN_FAILED, "enough") : QN_OK;
}

static void test_stops_when_the_sink_fails(void **state)
{
    (void)state;
    qn_error err;
    qn_pretokenizer *p = NULL;
    qn_pretokenizer_scratch *scratch = NULL;
    int left = 2;
    json_t *json = parse_json("{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true}");
    assert_int_equal(qn_pretokenizer_parse(json, "x", &p, &err), QN_OK);
    assert_int_equal(qn_pretokenizer_scratch_new(&scratch, &err), QN_OK);
    assert_int_equal(qn_pretokenizer_run(p, scratch, "a b c d", 7, give_up, &left, &err), QN_FAILED);
    assert_int_equal(left, 0);
    assert_int_equal(qn_pretokenizer_run(p, scratch, "", 0, give_up, &left, &err), QN_OK);
    qn_pretokenizer_scratch_free(scratch);
    qn_pretokenizer_free(p);
    json_decref(json);
    qn_pretokenizer_free(NULL);
    qn_pretokenizer_scratch_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_behaviors),  cmocka_unit_test(test_digits),
        cmocka_unit_test(test_byte_level), cmocka_unit_test(test_steps_see_pieces_as_texts),
        cmocka_unit_test(test_refusals),   cmocka_unit_test(test_stops_when_the_sink_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
