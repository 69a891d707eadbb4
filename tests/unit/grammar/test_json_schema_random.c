#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/matcher.h"
#include "unit/random_grammar.h"
#include "unit/grammar/random_schema.h"
#include "unit/grammar/schema_check.h"
#include "unit/grammar/schema_judge.h"

enum { LONGEST_WORD = 400, WORDS = 30, VALUES = 60 };

static int below(uint64_t *seed, int n)
{
    return (int)(random_next(seed) % (uint64_t)n);
}

/* A byte that may come next, more likely one that is JSON's own, and after a while one that ends something. */
static bool take_byte(qn_matcher *m, uint64_t *seed, size_t length, char *out)
{
    static const char likely[] = "\"\"}],:{[0125.abc -tfn\\";
    const char *endings = "\"}]1";
    for (size_t i = 0; length > 60 && i < strlen(endings); i++)
        if (qn_matcher_bytes(m, &endings[i], 1) == 1) {
            *out = endings[i];
            return true;
        }
    for (int i = 0; i < 12; i++) {
        *out = likely[below(seed, (int)sizeof likely - 1)];
        if (qn_matcher_bytes(m, out, 1) == 1)
            return true;
    }
    int from = below(seed, 256);
    for (int i = 0; i < 256; i++) {
        *out = (char)((from + i) & 255);
        if (qn_matcher_bytes(m, out, 1) == 1)
            return true;
    }
    return false;
}

/* The bytes of a random word; 0 when it became too long. No place may be a dead end. */
static size_t random_word(const qn_grammar *grammar, uint64_t *seed, char word[LONGEST_WORD], const char *schema)
{
    qn_error err;
    qn_matcher *m;
    size_t length = 0;
    assert_int_equal(qn_matcher_new(grammar, &m, &err), QN_OK);
    for (;;) {
        bool end = qn_matcher_can_end(m);
        if (end && (length > 60 || below(seed, 3) == 0))
            break;
        if (length == LONGEST_WORD) {
            length = 0;
            break;
        }
        if (!take_byte(m, seed, length, &word[length])) {
            if (!end && !qn_matcher_exhausted(m))
                fail_msg("%s: a dead end after %.*s", schema, (int)length, word);
            length = end ? length : 0;
            break;
        }
        length++;
    }
    qn_matcher_free(m);
    return length;
}

/* The judge computes with doubles: it is asked where these are exact enough. */
static bool is_moderate(const json_t *value)
{
    const char *key;
    json_t *part;
    double size = fabs(json_number_value(value));
    json_object_foreach((json_t *)(uintptr_t)value, key, part) if (!is_moderate(part)) return false;
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!is_moderate(json_array_get(value, i)))
            return false;
    return size == 0 || (size < 1e9 && size > 1e-9);
}

typedef struct tally {
    size_t compiled, refused, impossible, words, accepted, rejected;
} tally;

static void check_words(const json_t *schema, const qn_grammar *grammar, uint64_t *seed, const char *text, tally *t)
{
    char word[LONGEST_WORD];
    for (int i = 0; i < WORDS; i++) {
        size_t length = random_word(grammar, seed, word, text);
        json_error_t error;
        json_t *value = length ? json_loadb(word, length, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error) : NULL;
        if (length && !value && !strstr(error.text, "overflow") && !strstr(error.text, "too big"))
            fail_msg("%s: %.*s: %s", text, (int)length, word, error.text);
        if (value && is_moderate(value)) {
            t->words++;
            if (!schema_judge(schema, schema, value))
                fail_msg("%s accepts %.*s", text, (int)length, word);
        }
        json_decref(value);
    }
}

/* A compiled schema accepts a value's text if it is valid, and only then; one that is refused as impossible has none.
 */
static void check_values(const json_t *schema, const qn_grammar *grammar, uint64_t *seed, const char *text, tally *t)
{
    for (int i = 0; i < VALUES; i++) {
        qn_buffer instance = {0};
        random_value(seed, 2, &instance);
        const char *word = qn_buffer_string(&instance);
        json_t *value = schema_of(word);
        bool valid = schema_judge(schema, schema, value);
        bool accepted = grammar && schema_matches(grammar, word, strlen(word));
        if (valid != accepted)
            fail_msg("%s %s %s", text, accepted ? "accepts" : "rejects", word);
        t->accepted += valid;
        t->rejected += !valid;
        json_decref(value);
        qn_buffer_free(&instance);
    }
}

static bool is_impossible(const qn_error *err)
{
    return strstr(err->message, "no value can satisfy") || strstr(err->message, "no text can match");
}

static void check_schema(uint64_t number, tally *t)
{
    uint64_t seed = number;
    qn_error err = {0};
    qn_buffer out = {0};
    json_error_t error;
    random_schema(&seed, &out);
    const char *text = qn_buffer_string(&out);
    json_t *schema = json_loads(text, 0, &error);
    if (!schema)
        fail_msg("%s: %s", text, error.text);
    qn_grammar *grammar = schema_grammar(schema, QN_SCHEMA_JSON, below(&seed, 2), &err);
    if (grammar) {
        t->compiled++;
        check_words(schema, grammar, &seed, text, t);
        check_values(schema, grammar, &seed, text, t);
    } else if (is_impossible(&err)) {
        t->impossible++;
        check_values(schema, NULL, &seed, text, t);
    } else {
        t->refused++;
        assert_int_equal(err.status, QN_USAGE);
        if (getenv("QN_TEST_TELL"))
            print_message("%s\n", err.message);
    }
    qn_grammar_free(grammar);
    json_decref(schema);
    qn_buffer_free(&out);
}

static void test_random_schemas(void **state)
{
    (void)state;
    const char *from = getenv("QN_TEST_SEED"), *rounds = getenv("QN_TEST_ROUNDS");
    uint64_t seed = from ? strtoull(from, NULL, 10) : 1;
    long count = rounds ? strtol(rounds, NULL, 10) : 1500;
    tally t = {0};
    print_message("seeds from %llu\n", (unsigned long long)seed);
    for (long i = 0; i < count; i++)
        check_schema(seed + (uint64_t)i, &t);
    print_message("%zu compiled, %zu refused, %zu impossible; %zu words; %zu values accepted, %zu rejected\n",
                  t.compiled, t.refused, t.impossible, t.words, t.accepted, t.rejected);
    assert_true(t.compiled > (size_t)count / 3 && t.words > t.compiled && t.accepted > t.compiled);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_schemas)};
    return cmocka_run_group_tests(tests, schema_init_json, NULL);
}
