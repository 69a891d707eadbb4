/* What a tokenizer.json may say, and what makes quern refuse it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "small_tokenizer.h"

#define AB "\"ab\":256"

static void accepted(const small_spec *spec)
{
    qn_tokenizer_free(small_open(spec));
}

static void test_fields_of_no_effect_are_accepted(void **state)
{
    (void)state;
    accepted(&(small_spec){.model = "\"dropout\":null,\"unk_token\":null,\"fuse_unk\":false,\"byte_fallback\":false,"
                                    "\"continuing_subword_prefix\":\"\",\"end_of_word_suffix\":null"});
    accepted(
        &(small_spec){.model = "\"dropout\":0.0,\"unk_token\":\"<unk>\",\"fuse_unk\":true,\"byte_fallback\":true"});
    accepted(&(small_spec){.post = "{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":false}"});
    accepted(
        &(small_spec){.post = "{\"type\":\"TemplateProcessing\",\"single\":[],\"pair\":[],\"special_tokens\":{}}"});
    accepted(&(small_spec){.post = "{\"type\":\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\"},"
                                   "{\"type\":\"TemplateProcessing\"}]}"});
    accepted(&(small_spec){.normalizer = "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},"
                                         "{\"type\":\"Sequence\",\"normalizers\":[]}]}"});
    accepted(&(small_spec){.tokens = AB, .merges = "[\"#version: 0.2\",\"a b\"]"});
}

static void test_models(void **state)
{
    (void)state;
    small_refused(&(small_spec){.model = "\"dropout\":0.1"}, "dropout");
    small_refused(&(small_spec){.model = "\"continuing_subword_prefix\":\"##\""}, "continuing_subword_prefix");
    small_refused(&(small_spec){.model = "\"end_of_word_suffix\":\"</w>\""}, "end_of_word_suffix");
    small_refused(&(small_spec){.model = "\"end_of_word_suffix\":3"}, "end_of_word_suffix");
    small_refused(&(small_spec){.model = "\"ignore_merges\":1"}, "ignore_merges");
    small_refused(&(small_spec){.model = "\"cache_capacity\":1"}, "\"cache_capacity\" is not known");
    small_refused(&(small_spec){.model = "\"type\":\"BPE\""}, "\"type\" is given twice");
    small_refused(&(small_spec){.model = "\"dropout\":nul"}, "dropout: invalid JSON");
}

static void test_merge_forms(void **state)
{
    (void)state;
    small_refused(&(small_spec){.tokens = AB, .merges = "[\"ab\"]"}, "one space");
    small_refused(&(small_spec){.tokens = AB, .merges = "[\"a b c\"]"}, "one space");
    small_refused(&(small_spec){.tokens = AB, .merges = "[[\"a\"]]"}, "two parts");
    small_refused(&(small_spec){.tokens = AB, .merges = "[[\"a\",\"b\",\"c\"]]"}, "only two");
    small_refused(&(small_spec){.tokens = AB, .merges = "[3]"}, "string");
    small_refused(&(small_spec){.tokens = AB, .merges = "[[1,2]]"}, "string");
    small_refused(&(small_spec){.tokens = AB, .merges = "{}"}, "array");
    small_refused(&(small_spec){.tokens = AB, .merges = "[\"a b\" \"a b\"]"}, "comma");
    small_refused(&(small_spec){.tokens = AB, .merges = "[\" ab\"]"}, "empty");
    qn_tokenizer *t = small_open(&(small_spec){.tokens = "\"ab\\u0063\":256,"
                                                         "\"b\\u0063\":257",
                                               .merges = "[[\"\\u0062\",\"\\u0063\"],[\"a\",\"b\\u0063\"]]"});
    assert_string_equal(small_ids(t, "abc", 3), "256"); /* escapes on both sides */
    qn_tokenizer_free(t);
}

static void test_vocabularies(void **state)
{
    (void)state;
    small_refused(&(small_spec){.tokens = "\"ab\":257"}, "holes");
    small_refused(&(small_spec){.tokens = "\"ab\":7"}, "two tokens");
    small_refused(&(small_spec){.tokens = "\"ab\":-1"}, "id -1");
    small_refused(&(small_spec){.tokens = "\"ab\":99999999999"}, "id 99999999999");
    small_refused(&(small_spec){.tokens = "\"ab\":1.5"}, "integer");
    small_refused(&(small_spec){.tokens = "\"ab\":\"256\""}, "integer");
    small_refused(&(small_spec){.tokens = AB ",\"ab\":257"}, "same token");
    small_refused(&(small_spec){.tokens = "\"a\xFF\":256"}, "string");
}

static void test_sections(void **state)
{
    (void)state;
    small_refused(&(small_spec){.more = "\"new_section\":{}"}, "\"new_section\" is not known");
    small_refused(&(small_spec){.more = "\"model\":{}"}, "\"model\" is given twice");
    small_refused(&(small_spec){.more = "\"version\":\"1.0\""}, "given twice");
    small_refused(&(small_spec){.normalizer = "{\"type\":\"NFKC\"}"}, "NFKC");
    small_refused(&(small_spec){.normalizer = "{\"type\":\"Lowercase\"}"}, "Lowercase");
    small_refused(&(small_spec){.normalizer = "{\"type\":\"NFC\",\"form\":1}"}, "\"form\"");
    small_refused(&(small_spec){.normalizer = "{\"type\":\"Sequence\"}"}, "normalizers");
    small_refused(&(small_spec){.normalizer = "{}"}, "type");
    small_refused(&(small_spec){.normalizer = "[]"}, "type");
    small_refused(&(small_spec){.pre_tokenizer = "null"}, "pre_tokenizer");
    small_refused(&(small_spec){.decoder = "null"}, "decoder");
    small_refused(&(small_spec){.decoder = "{\"type\":\"WordPiece\"}"}, "WordPiece");
    small_refused(&(small_spec){.decoder = "{\"type\":\"ByteLevel\",\"odd\":1}"}, "\"odd\"");
    small_refused(&(small_spec){.decoder = "{}"}, "type");
    small_refused(&(small_spec){.post = "{\"type\":\"BertProcessing\"}"}, "BertProcessing");
    small_refused(&(small_spec){.post = "{\"type\":\"Sequence\",\"processors\":[{\"type\":\"New\"}]}"}, "New");
    small_refused(&(small_spec){.post = "{\"type\":\"Sequence\"}"}, "processors");
    small_refused(&(small_spec){.added = "{}"}, "array");
    small_refused(&(small_spec){.added = "null"}, "it is null: an array is expected");
}

/* Replaces the first `from` of the file by `to`. */
static void refused_with(const char *from, const char *to, const char *part)
{
    qn_buffer json = {0}, changed = {0};
    qn_error err;
    qn_tokenizer *t = NULL;
    small_json(&(small_spec){0}, &json);
    const char *at = strstr(json.data, from);
    assert_non_null(at);
    qn_buffer_append(&changed, json.data, (size_t)(at - json.data));
    qn_buffer_text(&changed, to);
    qn_buffer_text(&changed, at + strlen(from));
    assert_int_equal(qn_tokenizer_parse(changed.data, changed.size, "small.json", &t, &err), QN_BAD_INPUT);
    if (!strstr(err.message, part))
        fail_msg("\"%s\" does not tell of \"%s\"", err.message, part);
    qn_buffer_free(&json);
    qn_buffer_free(&changed);
}

static void test_fields_that_must_be_there(void **state)
{
    (void)state;
    refused_with("\"version\":\"1.0\"", "\"version\":\"2.0\"", "version");
    refused_with("\"version\":\"1.0\",", "", "version");
    refused_with("\"truncation\":null", "\"truncation\":{}", "truncation");
    refused_with("\"padding\":null", "\"padding\":true", "padding");
    refused_with("\"type\":\"BPE\"", "\"type\":\"Unigram\"", "only \"BPE\"");
    refused_with("\"type\":\"BPE\",", "", "only \"BPE\"");
    refused_with("\"vocab\":", "\"unk_token\":", "model.vocab: it is missing");
    refused_with(",\"merges\":[]", "", "model.merges: it is missing");
    refused_with("\"model\":", "\"version\":", "given twice");
    refused_with("\"merges\":[]}}", "\"merges\":[]}}x", "follows the end");
    refused_with("{\"version\"", "[\"version\"", "object");
}

static void test_a_file_without_a_model(void **state)
{
    (void)state;
    qn_error err;
    qn_tokenizer *t = NULL;
    assert_int_equal(qn_tokenizer_parse("{\"version\":\"1.0\"}", 17, "x", &t, &err), QN_BAD_INPUT);
    assert_string_equal(err.message, "x: it has no \"model\": the file is damaged");
    assert_int_equal(qn_tokenizer_parse(NULL, 0, "x", &t, &err), QN_BAD_INPUT);
    assert_null(t);
}

static void added_refused(int id, const char *content, const char *flags, const char *normalizer, const char *part)
{
    qn_buffer added = {0};
    qn_buffer_char(&added, '[');
    small_added(&added, id, content, flags);
    qn_buffer_char(&added, ']');
    small_refused(&(small_spec){.tokens = "\"\xCC\x81\":256", .added = added.data, .normalizer = normalizer}, part);
    qn_buffer_free(&added);
}

static void test_added_tokens(void **state)
{
    (void)state;
    static const char nfc[] = "{\"type\":\"NFC\"}";
    added_refused(258, "<x>", "", NULL, "would give it 257");
    added_refused(255, "<x>", "", NULL, "would give it 257");
    added_refused(257, "a", "", NULL, "would give it 97");
    added_refused(-1, "<x>", "", NULL, "id");
    added_refused(1 << 30, "<x>", "", NULL, "id");
    added_refused(257, "", "", NULL, "0 bytes");
    char *longest = qn_alloc_zero(1000, 1);
    memset(longest, 'x', 999);
    added_refused(257, longest, "", NULL, "999 bytes");
    qn_free(longest);
    added_refused(97, "a", "", "{\"type\":\"NFD\"}", "NFD");
    small_refused(&(small_spec){.added = "[{\"id\":256,\"content\":\"<x>\"}]"}, "single_word");
    small_refused(&(small_spec){.added = "[3]"}, "object");
    small_refused(&(small_spec){.added = "[{\"id\":256,\"content\":\"<x>\",\"odd\":1}]"}, "\"odd\"");

    qn_buffer twice = {0};
    qn_buffer_char(&twice, '[');
    small_added(&twice, 256, "<x>", "");
    small_added(&twice, 257, "<x>", "n");
    qn_buffer_char(&twice, ']');
    small_refused(&(small_spec){.added = twice.data}, "both stand for \"<x>\"");
    qn_buffer_clear(&twice);
    qn_buffer_char(&twice, '[');
    small_added(&twice, 256, "e\xCC\x81>", "n");
    small_added(&twice, 257, "\xC3\xA9>", "n");
    qn_buffer_char(&twice, ']');
    accepted(&(small_spec){.added = twice.data});
    small_refused(&(small_spec){.added = twice.data, .normalizer = nfc}, "both stand for"); /* once normalized */
    qn_buffer_free(&twice);
    /* "e" and an acute as a token of the vocabulary: normalization would give the id another text */
    qn_buffer own = {0};
    qn_buffer_char(&own, '[');
    small_added(&own, 256, "e\xCC\x81", "n");
    qn_buffer_char(&own, ']');
    small_refused(&(small_spec){.tokens = "\"e\xCC\x81\":256", .added = own.data, .normalizer = nfc}, "changes");
    accepted(&(small_spec){.tokens = "\"e\xCC\x81\":256", .added = own.data});
    qn_buffer_free(&own);
}

static void test_added_tokens_may_be_of_the_vocabulary(void **state)
{
    (void)state;
    qn_error err;
    qn_buffer added = {0}, text = {0};
    qn_buffer_char(&added, '[');
    small_added(&added, 256, "<x>", "s");
    small_added(&added, 97, "a", "");
    small_added(&added, 258, "o\xCC\x81>", "ns");
    qn_buffer_char(&added, ']');
    qn_tokenizer *t = small_open(&(small_spec){.tokens = "\"<x>\":256,\"ab\":257",
                                               .merges = "[\"a b\"]",
                                               .normalizer = "{\"type\":\"NFC\"}",
                                               .added = added.data});
    assert_string_equal(small_ids(t, "<x>ab", 5), "256 97 98");
    assert_true(qn_tokenizer_is_special(t, 256) && qn_tokenizer_is_added(t, 97));
    assert_int_equal(qn_tokenizer_find_added(t, "<x>"), 256);
    /* as tokenizers has it: a special token that normalization changes is decoded so, and never left out */
    const int32_t ids[] = {256, 258};
    assert_int_equal(qn_tokenizer_decode(t, ids, 2, true, &text, &err), QN_OK);
    assert_string_equal(text.data, "\xEF\xBF\xBD>"); /* the o with acute is itself a letter of the byte alphabet */
    assert_int_equal(qn_tokenizer_find_added(t, "o\xCC\x81>"), 258);
    qn_buffer_free(&text);
    qn_buffer_free(&added);
    qn_tokenizer_free(t);
}

/* Cut off at every byte, and with every byte replaced: an error or a tokenizer, nothing else. */
static void test_damage_anywhere(void **state)
{
    (void)state;
    qn_buffer json = {0}, added = {0};
    qn_buffer_char(&added, '[');
    small_added(&added, 257, "<x>", "ns");
    qn_buffer_char(&added, ']');
    small_json(&(small_spec){.tokens = AB, .merges = "[\"a b\"]", .added = added.data}, &json);
    for (size_t at = 0; at < json.size; at++) {
        qn_error err;
        qn_tokenizer *t = NULL;
        assert_int_equal(qn_tokenizer_parse(json.data, at, "cut.json", &t, &err), QN_BAD_INPUT);
        char byte = json.data[at];
        json.data[at] = byte == '{' ? '[' : byte == '"' ? '\\' : '}';
        if (qn_tokenizer_parse(json.data, json.size, "changed.json", &t, &err) == QN_OK)
            qn_tokenizer_free(t);
        json.data[at] = byte;
    }
    qn_buffer_free(&json);
    qn_buffer_free(&added);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields_of_no_effect_are_accepted),
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_merge_forms),
        cmocka_unit_test(test_vocabularies),
        cmocka_unit_test(test_sections),
        cmocka_unit_test(test_fields_that_must_be_there),
        cmocka_unit_test(test_a_file_without_a_model),
        cmocka_unit_test(test_added_tokens),
        cmocka_unit_test(test_added_tokens_may_be_of_the_vocabulary),
        cmocka_unit_test(test_damage_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
