/* Grammars kept for the requests that follow: what is told apart, what goes first, and by several threads at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "server/grammar_cache.h"
#include "unit/shipped_tokenizer.h"

static qn_tokenizer *tokenizer;
static qn_vocabulary_trie *trie;

static int open_all(void **state)
{
    (void)state;
    return shipped_tokenizer_open(&tokenizer, &trie);
}

static int close_all(void **state)
{
    (void)state;
    qn_vocabulary_trie_free(trie);
    qn_tokenizer_free(tokenizer);
    return 0;
}

static qn_grammar_cache *new_cache(void)
{
    qn_grammar_cache *cache = NULL;
    qn_error err;
    assert_int_equal(qn_grammar_cache_new(tokenizer, trie, &cache, &err), QN_OK);
    return cache;
}

/* The grammar of a regular expression; a reference of the caller's. */
static qn_answer_grammar *get(qn_grammar_cache *cache, const char *regex)
{
    qn_error err;
    qn_answer_grammar *grammar = NULL;
    json_t *value = json_string(regex);
    const qn_answer_format format = {.kind = QN_FORMAT_REGEX, .value = value, .field = "regex"};
    qn_status status = qn_grammar_cache_get(cache, &format, QN_CALLS_NONE, NULL, &grammar, &err);
    json_decref(value);
    if (status != QN_OK) {
        fail_msg("%s", err.message);
    }
    return grammar;
}

static void test_the_same_request_gets_the_same_grammar(void **state)
{
    (void)state;
    qn_grammar_cache *cache = new_cache();
    qn_answer_grammar *a = get(cache, "a+"), *b = get(cache, "b+"), *again = get(cache, "a+");
    assert_ptr_equal(a, again);
    assert_ptr_not_equal(a, b);
    qn_grammar_counts counts = qn_grammar_cache_counts(cache);
    assert_int_equal(counts.hits, 1);
    assert_int_equal(counts.compiled, 2);
    assert_int_equal(counts.kept, 2);
    qn_answer_grammar_release(a);
    qn_answer_grammar_release(b);
    qn_grammar_cache_free(cache);
    assert_non_null(qn_answer_grammar_of(again)); /* it lives on while it is held */
    qn_answer_grammar_release(again);
}

static void test_all_that_a_grammar_depends_on_is_told_apart(void **state)
{
    (void)state;
    qn_grammar_cache *cache = new_cache();
    json_t *tools = json_loads("[{\"type\":\"function\",\"function\":{\"name\":\"f\"}},"
                               "{\"type\":\"function\",\"function\":{\"name\":\"g\"}}]",
                               0, NULL);
    json_t *other = json_loads("[{\"type\":\"function\",\"function\":{\"name\":\"f\"}},"
                               "{\"type\":\"function\",\"function\":{\"name\":\"h\"}}]",
                               0, NULL);
    json_t *schema = json_loads("{\"type\":\"string\"}", 0, NULL);
    const bool first[] = {true, false}, second[] = {false, true};
    const qn_call_rules base = {.tools = tools, .min = 1, .max = 1};
    qn_call_rules rules[8];
    for (size_t i = 0; i < 8; i++) {
        rules[i] = base;
    }
    rules[1].tools = other;
    rules[2].callable = first;
    rules[3].callable = second;
    rules[4].held = first;
    rules[5].max = 2;
    rules[6].line_breaks = true;
    rules[7].min = 0;
    const qn_answer_format formats[] = {{.kind = QN_FORMAT_TEXT},
                                        {.kind = QN_FORMAT_JSON_SCHEMA, .value = schema, .field = "x"},
                                        {.kind = QN_FORMAT_JSON_SCHEMA, .value = schema, .field = "x", .compact = true},
                                        {.kind = QN_FORMAT_JSON_OBJECT, .value = schema, .field = "x"}};
    static const qn_calls_place places[] = {QN_CALLS_NONE, QN_CALLS_ONLY, QN_CALLS_EITHER};
    size_t wanted = 0;
    qn_answer_grammar *all[8 * 4 * 3];
    for (size_t round = 0; round < 2; round++) {
        size_t at = 0;
        for (size_t r = 0; r < 8; r++) {
            qn_error err;
            const qn_answer_format *format = &formats[r % 4];
            qn_calls_place place = places[1 + r % 2];
            qn_answer_grammar *grammar = NULL;
            assert_int_equal(qn_grammar_cache_get(cache, format, place, &rules[r], &grammar, &err), QN_OK);
            if (round == 0) {
                all[at++] = grammar;
                wanted++;
            } else {
                assert_ptr_equal(all[at++], grammar);
                qn_answer_grammar_release(grammar);
            }
        }
        for (size_t f = 0; f < 4; f++) {
            qn_error err;
            qn_answer_grammar *grammar = NULL;
            assert_int_equal(qn_grammar_cache_get(cache, &formats[f], QN_CALLS_NONE, &base, &grammar, &err), QN_OK);
            if (round == 0) {
                all[at++] = grammar;
                wanted++;
            } else {
                assert_ptr_equal(all[at++], grammar);
                qn_answer_grammar_release(grammar);
            }
        }
    }
    qn_grammar_counts counts = qn_grammar_cache_counts(cache);
    assert_int_equal(counts.compiled, wanted);
    assert_int_equal(counts.hits, wanted);
    for (size_t i = 0; i < wanted; i++) {
        qn_answer_grammar_release(all[i]);
    }
    json_decref(tools);
    json_decref(other);
    json_decref(schema);
    qn_grammar_cache_free(cache);
}

static void test_the_least_used_goes_first(void **state)
{
    (void)state;
    qn_grammar_cache *cache = new_cache();
    char regex[32];
    for (int i = 0; i < QN_GRAMMAR_CACHE_ENTRIES; i++) {
        snprintf(regex, sizeof regex, "x%d", i);
        qn_answer_grammar_release(get(cache, regex));
    }
    qn_answer_grammar_release(get(cache, "x0")); /* now x1 is the oldest */
    qn_answer_grammar_release(get(cache, "new"));
    size_t hits = qn_grammar_cache_counts(cache).hits;
    qn_answer_grammar_release(get(cache, "x0"));
    qn_answer_grammar_release(get(cache, "x2"));
    assert_int_equal(qn_grammar_cache_counts(cache).hits, hits + 2);
    qn_answer_grammar_release(get(cache, "x1"));
    assert_int_equal(qn_grammar_cache_counts(cache).hits, hits + 2);
    assert_int_equal(qn_grammar_cache_counts(cache).kept, QN_GRAMMAR_CACHE_ENTRIES);
    qn_grammar_cache_free(cache);
}

static void test_what_is_refused_or_too_large_is_not_kept(void **state)
{
    (void)state;
    qn_grammar_cache *cache = new_cache();
    qn_error err;
    qn_answer_grammar *grammar = NULL;
    json_t *value = json_string("(a");
    const qn_answer_format bad = {.kind = QN_FORMAT_REGEX, .value = value, .field = "regex"};
    assert_int_equal(qn_grammar_cache_get(cache, &bad, QN_CALLS_NONE, NULL, &grammar, &err), QN_USAGE);
    assert_string_equal(err.field, "regex");
    assert_null(grammar);
    json_decref(value);
    json_t *choices = json_array();
    char text[1025] = {0};
    memset(text, 'x', sizeof text - 1);
    for (size_t i = 0; i < QN_GRAMMAR_CACHE_MAX_KEY_BYTES / sizeof text + 1; i++) {
        assert_int_equal(json_array_append_new(choices, json_string(text)), 0);
    }
    const qn_answer_format large = {.kind = QN_FORMAT_CHOICE, .value = choices, .field = "choice"};
    assert_int_equal(qn_grammar_cache_get(cache, &large, QN_CALLS_NONE, NULL, &grammar, &err), QN_OK);
    qn_answer_grammar_release(grammar);
    json_decref(choices);
    assert_int_equal(qn_grammar_cache_counts(cache).kept, 0);
    qn_grammar_cache_free(cache);
}

static void test_short_of_memory(void **state)
{
    (void)state;
    bool failed = true;
    for (long n = 1; failed; n++) {
        qn_grammar_cache *cache = NULL;
        qn_answer_grammar *grammar = NULL;
        qn_error err;
        json_t *value = json_string("a{2,3}");
        const qn_answer_format format = {.kind = QN_FORMAT_REGEX, .value = value, .field = "regex"};
        qn_fault_arm(QN_FAULT_ALLOC, n);
        qn_status status = qn_grammar_cache_new(tokenizer, trie, &cache, &err);
        if (status == QN_OK) {
            status = qn_grammar_cache_get(cache, &format, QN_CALLS_NONE, NULL, &grammar, &err);
        }
        failed = qn_fault_seen(QN_FAULT_ALLOC) >= n;
        qn_fault_disarm();
        assert_true(status == QN_OK || status == QN_RESOURCE);
        assert_int_equal(status == QN_OK, grammar != NULL);
        qn_answer_grammar_release(grammar);
        qn_grammar_cache_free(cache);
        json_decref(value);
    }
}

static void *ask_often(void *cache)
{
    char regex[32];
    for (unsigned i = 0; i < 200; i++) {
        snprintf(regex, sizeof regex, "y%u", i * 7 % 40);
        qn_error err;
        qn_answer_grammar *grammar = NULL;
        json_t *value = json_string(regex);
        const qn_answer_format format = {.kind = QN_FORMAT_REGEX, .value = value, .field = "regex"};
        if (qn_grammar_cache_get(cache, &format, QN_CALLS_NONE, NULL, &grammar, &err) != QN_OK) {
            json_decref(value);
            return NULL;
        }
        json_decref(value);
        qn_answer_grammar_release(grammar);
    }
    return cache;
}

static void test_several_threads(void **state)
{
    (void)state;
    qn_grammar_cache *cache = new_cache();
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, ask_often, cache), 0);
    }
    for (size_t i = 0; i < 4; i++) {
        void *result = NULL;
        pthread_join(threads[i], &result);
        assert_ptr_equal(result, cache);
    }
    qn_grammar_counts counts = qn_grammar_cache_counts(cache);
    assert_int_equal(counts.hits + counts.compiled, 800);
    assert_int_equal(counts.kept, QN_GRAMMAR_CACHE_ENTRIES);
    qn_grammar_cache_free(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_same_request_gets_the_same_grammar),
        cmocka_unit_test(test_all_that_a_grammar_depends_on_is_told_apart),
        cmocka_unit_test(test_the_least_used_goes_first),
        cmocka_unit_test(test_what_is_refused_or_too_large_is_not_kept),
        cmocka_unit_test(test_short_of_memory),
        cmocka_unit_test(test_several_threads),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
