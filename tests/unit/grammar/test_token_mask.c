#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include "base/fault.h"
#include "grammar/token_mask.h"
#include "unit/grammar/mask_rig.h"
#include "unit/random_grammar.h"

enum { LETTER = 5, THREADS = 3, TEXT_GRAMMARS = 18 };

static qn_error err;

/* Random letters; some have no text, some are empty, some are alike. */
static void make_vocabulary(mask_vocabulary *v, const char *alphabet, uint64_t seed)
{
    memset(v, 0, sizeof *v);
    for (size_t t = 0; t < RIG_TOKENS; t++) {
        v->no_text[t] = t < 8;
        v->lengths[t] = t == 8 ? 0 : 1 + random_next(&seed) % (t < 100 ? 3 : RIG_LONGEST);
        for (size_t i = 0; i < v->lengths[t]; i++)
            v->bytes[t][i] = alphabet[random_next(&seed) % strlen(alphabet)];
    }
}

/* Goes on with an allowed token, chosen at random; false when there is none. */
static bool take_random(qn_matcher *m, const mask_vocabulary *v, const uint64_t mask[RIG_WORDS], uint64_t *seed)
{
    size_t first = random_next(seed) % RIG_TOKENS;
    for (size_t i = 0; i < RIG_TOKENS; i++) {
        size_t t = (first + i) % RIG_TOKENS;
        if (!(mask[t / 64] >> (t % 64) & 1))
            continue;
        if (qn_matcher_token(m, (int32_t)t))
            return true;
        return qn_matcher_bytes(m, v->bytes[t], v->lengths[t]) == v->lengths[t];
    }
    return false;
}

/* Masks along a random text are what the slow way says. */
static void check_along(const qn_grammar *g, qn_mask_cache *cache, const mask_vocabulary *v, uint64_t seed, int steps)
{
    qn_matcher *m;
    assert_int_equal(qn_matcher_new(g, &m, &err), QN_OK);
    uint64_t random = seed;
    for (int i = 0; i < steps; i++) {
        uint64_t mask[RIG_WORDS] = {0}, slow[RIG_WORDS];
        bool exhausted = false;
        mask_rig_fill(m, v, slow, &exhausted);
        if (exhausted)
            break;
        assert_int_equal(qn_mask_fill(cache, m, mask, &err), QN_OK);
        if (memcmp(mask, slow, sizeof mask) != 0)
            fail_msg("seed %llu: a wrong mask at step %d", (unsigned long long)seed, i);
        if (!take_random(m, v, mask, &random))
            break;
    }
    qn_matcher_free(m);
}

static void masks_of_random_grammars_are_exact(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        random_grammar r;
        mask_vocabulary v;
        make_vocabulary(&v, seed % 3 ? "ab" : "abx", seed);
        qn_grammar_builder *b = mask_rig_builder();
        qn_expr root = random_grammar_make(seed, b, &r);
        qn_grammar *g = mask_rig_build(b, root);
        qn_vocabulary_trie *trie = mask_rig_trie(&v);
        qn_mask_cache *cache = mask_rig_cache(g, trie);
        for (uint64_t round = 0; round < 3; round++)
            check_along(g, cache, &v, seed + 1000 * round, 8);
        qn_mask_cache_free(cache);
        qn_vocabulary_trie_free(trie);
        qn_grammar_free(g);
    }
}

/* {"ab":"..","abc":[..],<tool>..}: members in any order, bounded strings, nesting, tokens as letters. */
static qn_grammar *object_grammar(void)
{
    qn_grammar_builder *b = mask_rig_builder();
    qn_rule value = qn_rule_declare(b, "value");
    qn_char_range quote = {'"', '"'};
    qn_expr any = qn_expr_chars_except(b, &quote, 1), q = qn_expr_text(b, "\""), comma = qn_expr_text(b, ",");
    qn_expr open = qn_expr_concat(b, (qn_expr[]){q, qn_expr_repeat(b, any, 0, QN_UNBOUNDED), q}, 3);
    qn_expr bounded = qn_expr_concat(b, (qn_expr[]){q, qn_expr_repeat(b, any, 20, 60), q}, 3);
    qn_expr self = qn_expr_rule(b, value);
    qn_expr list = qn_expr_concat2(b, self, qn_expr_repeat(b, qn_expr_concat2(b, comma, self), 0, 30));
    qn_expr array = qn_expr_concat(b,
                                   (qn_expr[]){qn_expr_text(b, "["), qn_expr_optional(b, list), qn_expr_text(b, "]")},
                                   3);
    qn_expr items[4] = {qn_expr_concat2(b, qn_expr_text(b, "\"ab\":"), bounded),
                        qn_expr_concat2(b, qn_expr_text(b, "\"abc\":"), self),
                        qn_expr_concat2(b, qn_expr_text(b, "\"b\":"), open), qn_expr_token(b, LETTER)};
    qn_each_once group = {items, (bool[]){true, false, false, false}, 4, NULL, comma, 0, 3};
    qn_expr object = qn_expr_concat(
        b, (qn_expr[]){qn_expr_text(b, "{"), qn_expr_each_once(b, &group), qn_expr_text(b, "}")}, 3);
    qn_expr options[4] = {object, array, open, bounded};
    qn_rule_define(b, value, qn_expr_choice(b, options, 4));
    return mask_rig_build(b, self);
}

static void masks_of_objects_are_exact(void **state)
{
    (void)state;
    qn_grammar *g = object_grammar();
    for (uint64_t seed = 1; seed <= 10; seed++) {
        mask_vocabulary v;
        make_vocabulary(&v, "ab\"\"{}[],:c", seed);
        qn_vocabulary_trie *trie = mask_rig_trie(&v);
        qn_mask_cache *cache = mask_rig_cache(g, trie);
        for (uint64_t round = 0; round < 3; round++)
            check_along(g, cache, &v, seed + 1000 * round, 25);
        qn_mask_cache_free(cache);
        qn_vocabulary_trie_free(trie);
    }
    qn_grammar_free(g);
}

/* Pieces of text, cut anywhere: whole and partial characters, and what ends plain text. */
static void make_text_vocabulary(mask_vocabulary *v, uint64_t seed)
{
    static const char *const pieces[] = {
        "a",  "b", "a",  " ", "\xC3\xA9", "\xE4\xBD\xA0", "\xF0\x9F\x98\x80", "b", "\"",
        "\\", "<", "\n", "-", "-",        "\xD0\xB0"};
    memset(v, 0, sizeof *v);
    for (size_t t = 0; t < RIG_TOKENS; t++) {
        char text[64];
        size_t length = 0, kinds = t % 3 ? 8 : sizeof pieces / sizeof *pieces;
        for (size_t count = 1 + random_next(&seed) % 5; count > 0; count--)
            length += (size_t)sprintf(text + length, "%s", pieces[random_next(&seed) % kinds]);
        size_t skip = t % 5 == 0 ? random_next(&seed) % length : 0;
        v->lengths[t] = 1 + (length - skip - 1) % (RIG_LONGEST - 1);
        memcpy(v->bytes[t], text + skip, v->lengths[t]);
        v->no_text[t] = t < 8;
    }
}

/* Strings of any text, bounded, of few characters, of all but some, with something inside. */
static qn_grammar *text_grammar(size_t kind)
{
    qn_grammar_builder *b = mask_rig_builder();
    qn_char_range out[] = {{'"', '"'}, {'\\', '\\'}, {'\n', '\n'}, {0xE9, 0xE9}}, ab = {'a', 'b'};
    qn_char_range ascii[] = {{' ', '!'}, {'#', '['}, {']', '~'}}, letters[] = {{'a', 'z'}, {0x4E00, 0x9FFF}};
    qn_char_range not_a[] = {{'"', '"'}, {'\\', '\\'}, {'\n', '\n'}, {'a', 'a'}};
    qn_char_range in_words[] = {{' ', ' '},     {'a', 'z'},       {0xE9, 0xE9},
                                {0x430, 0x44F}, {0x4F60, 0x4F60}, {0x1F600, 0x1F600}};
    qn_expr word = qn_expr_chars(b, in_words, 6), words = qn_expr_repeat(b, word, 1, QN_UNBOUNDED);
    qn_expr dash = qn_expr_text(b, "-");
    qn_expr no_a = qn_expr_chars_except(b, not_a, 4);
    qn_expr q = qn_expr_text(b, "\""), plain = qn_expr_chars_except(b, out, 3);
    qn_expr escape = qn_expr_concat2(b, qn_expr_text(b, "\\"), plain);
    qn_expr character = qn_expr_choice(b, (qn_expr[]){plain, escape}, 2);
    qn_expr any = qn_expr_repeat(b, character, 0, QN_UNBOUNDED);
    qn_expr bodies[] = {any,
                        qn_expr_repeat(b, character, 2, 5),
                        qn_expr_repeat(b, plain, 30, 200),
                        qn_expr_repeat(b, qn_expr_chars(b, &ab, 1), 0, QN_UNBOUNDED),
                        qn_expr_repeat(b, qn_expr_chars_except(b, out, 4), 0, QN_UNBOUNDED),
                        qn_expr_concat(b, (qn_expr[]){any, qn_expr_text(b, "ab"), any}, 3),
                        qn_expr_concat2(b, qn_expr_repeat(b, plain, 3, 3), qn_expr_text(b, "a")),
                        qn_expr_repeat(b, qn_expr_chars(b, ascii, 3), 0, QN_UNBOUNDED),
                        qn_expr_repeat(b, qn_expr_chars(b, &ab, 1), 2, 9),
                        qn_expr_concat2(b, qn_expr_text(b, "a"), qn_expr_repeat(b, no_a, 0, QN_UNBOUNDED)),
                        qn_expr_repeat(b, qn_expr_concat2(b, no_a, qn_expr_chars(b, &ab, 1)), 0, 4),
                        qn_expr_concat(b, (qn_expr[]){qn_expr_repeat(b, no_a, 0, 3), qn_expr_text(b, "a"), any}, 3),
                        qn_expr_repeat(b, qn_expr_chars(b, letters, 2), 1, QN_UNBOUNDED),
                        qn_expr_concat(b, (qn_expr[]){words, dash, words}, 3),
                        qn_expr_concat(b, (qn_expr[]){words, dash, qn_expr_repeat(b, no_a, 0, 2)}, 3),
                        qn_expr_repeat(b, qn_expr_concat2(b, qn_expr_repeat(b, word, 1, 4), dash), 1, 3),
                        qn_expr_concat2(b, qn_expr_repeat(b, word, 2, 6), qn_expr_optional(b, dash)),
                        qn_expr_choice(b, (qn_expr[]){words, qn_expr_repeat(b, no_a, 0, 5)}, 2)};
    assert_int_equal(sizeof bodies / sizeof *bodies, TEXT_GRAMMARS);
    qn_expr string = qn_expr_concat(b, (qn_expr[]){q, bodies[kind], q}, 3);
    qn_expr more = qn_expr_repeat(b, qn_expr_concat2(b, qn_expr_text(b, "\n"), string), 0, 3);
    return mask_rig_build(b, qn_expr_concat2(b, string, more));
}

static void masks_of_text_are_exact(void **state)
{
    (void)state;
    for (size_t kind = 0; kind < TEXT_GRAMMARS; kind++) {
        qn_grammar *g = text_grammar(kind);
        for (uint64_t seed = 1; seed <= 6; seed++) {
            mask_vocabulary v;
            make_text_vocabulary(&v, seed);
            qn_vocabulary_trie *trie = mask_rig_trie(&v);
            qn_mask_cache *cache = mask_rig_cache(g, trie);
            for (uint64_t round = 0; round < 3; round++)
                check_along(g, cache, &v, seed + 1000 * round, 12);
            qn_mask_cache_free(cache);
            qn_vocabulary_trie_free(trie);
        }
        qn_grammar_free(g);
    }
}

typedef struct job {
    const qn_grammar *g;
    qn_mask_cache *cache;
    const mask_vocabulary *v;
    uint64_t seed;
    bool right;
} job;

static void *fill_along(void *argument)
{
    job *j = argument;
    qn_error failure;
    qn_matcher *m;
    if (qn_matcher_new(j->g, &m, &failure))
        return NULL;
    j->right = true;
    for (int i = 0; i < 40; i++) {
        uint64_t mask[RIG_WORDS] = {0}, again[RIG_WORDS] = {0};
        j->right &= !qn_mask_fill(j->cache, m, mask, &failure) && !qn_mask_fill(j->cache, m, again, &failure);
        j->right &= memcmp(mask, again, sizeof mask) == 0;
        if (!take_random(m, j->v, mask, &j->seed))
            break;
    }
    qn_matcher_free(m);
    return NULL;
}

static void threads_share_a_cache(void **state)
{
    (void)state;
    mask_vocabulary v;
    make_vocabulary(&v, "ab\"{}[],:", 3);
    qn_grammar *g = object_grammar();
    qn_vocabulary_trie *trie = mask_rig_trie(&v);
    qn_mask_cache *cache = mask_rig_cache(g, trie);
    pthread_t threads[THREADS];
    job jobs[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        jobs[i] = (job){g, cache, &v, i, false};
        assert_int_equal(pthread_create(&threads[i], NULL, fill_along, &jobs[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_true(jobs[i].right);
    }
    qn_mask_cache_free(cache);
    qn_vocabulary_trie_free(trie);
    qn_grammar_free(g);
}

/* (a|aa|aaa){0,1000} with itself behind it: many readings, a bounded answer. */
static void ambiguous_grammars_end(void **state)
{
    (void)state;
    qn_grammar_builder *b = mask_rig_builder();
    qn_rule r = qn_rule_declare(b, "r");
    qn_expr a = qn_expr_text(b, "a"), self = qn_expr_rule(b, r);
    qn_expr more = qn_expr_concat(
        b, (qn_expr[]){a, qn_expr_repeat(b, self, 0, 1000), qn_expr_repeat(b, self, 0, 999), qn_expr_optional(b, a)},
        4);
    qn_rule_define(b, r, qn_expr_choice(b, (qn_expr[]){more, a}, 2));
    qn_grammar *g = mask_rig_build(b, self);
    mask_vocabulary v;
    make_vocabulary(&v, "a", 1);
    qn_vocabulary_trie *trie = mask_rig_trie(&v);
    qn_mask_cache *cache = mask_rig_cache(g, trie);
    qn_matcher *m;
    assert_int_equal(qn_matcher_new(g, &m, &err), QN_OK);
    for (int i = 0; i < 4; i++) {
        uint64_t mask[RIG_WORDS] = {0};
        qn_status status = qn_mask_fill(cache, m, mask, &err);
        assert_true(status == QN_OK || status == QN_USAGE);
        qn_matcher_bytes(m, "a", 1);
    }
    qn_matcher_free(m);
    qn_mask_cache_free(cache);
    qn_vocabulary_trie_free(trie);
    qn_grammar_free(g);
}

/* After any allocation that failed the same cache goes on with right masks. */
static void memory_runs_out(void **state)
{
    (void)state;
    mask_vocabulary v;
    make_vocabulary(&v, "ab\"{}[],:", 5);
    qn_grammar *g = object_grammar();
    bool failed = true;
    for (long n = 1; failed; n++) {
        qn_vocabulary_trie *trie = NULL;
        qn_mask_cache *cache = NULL;
        qn_matcher *m;
        assert_int_equal(qn_matcher_new(g, &m, &err), QN_OK);
        assert_int_equal(qn_matcher_bytes(m, "{\"abc\":\"", 8), 8);
        uint64_t mask[RIG_WORDS] = {0}, slow[RIG_WORDS];
        qn_fault_arm(QN_FAULT_ALLOC, n);
        qn_status status = qn_vocabulary_trie_new(RIG_TOKENS, mask_rig_bytes, &v, &trie, &err);
        if (!status)
            status = qn_mask_cache_new(g, trie, &cache, &err);
        if (!status)
            status = qn_mask_fill(cache, m, mask, &err);
        failed = qn_fault_seen(QN_FAULT_ALLOC) >= n;
        qn_fault_disarm();
        if (status)
            assert_int_equal(status, QN_RESOURCE);
        if (cache) {
            bool exhausted = false;
            memset(mask, 0, sizeof mask);
            assert_int_equal(qn_mask_fill(cache, m, mask, &err), QN_OK);
            mask_rig_fill(m, &v, slow, &exhausted);
            assert_memory_equal(mask, slow, sizeof mask);
        }
        qn_matcher_free(m);
        qn_mask_cache_free(cache);
        qn_vocabulary_trie_free(trie);
        assert_true(n < 10000);
    }
    qn_grammar_free(g);
}

static const char *long_token(void *context, int32_t token, size_t *length)
{
    (void)token;
    *length = 5000;
    return context;
}

static const char *no_token(void *context, int32_t token, size_t *length)
{
    (void)context;
    (void)token;
    *length = 0;
    return NULL;
}

static void vocabularies_are_bounded(void **state)
{
    (void)state;
    static char bytes[5000];
    qn_vocabulary_trie *trie;
    assert_int_equal(qn_vocabulary_trie_new(1, long_token, bytes, &trie, &err), QN_BAD_INPUT);
    assert_int_equal(qn_vocabulary_trie_new((size_t)INT32_MAX + 1, no_token, NULL, &trie, &err), QN_USAGE);
    assert_int_equal(qn_vocabulary_trie_new(3, no_token, NULL, &trie, &err), QN_OK);
    qn_grammar *g = object_grammar();
    qn_mask_cache *cache = mask_rig_cache(g, trie);
    qn_matcher *m;
    assert_int_equal(qn_matcher_new(g, &m, &err), QN_OK);
    uint64_t mask[1] = {0};
    assert_int_equal(qn_mask_fill(cache, m, mask, &err), QN_OK);
    assert_int_equal(mask[0], 0);
    qn_matcher_free(m);
    qn_mask_cache_free(cache);
    qn_vocabulary_trie_free(trie);
    qn_grammar_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_of_random_grammars_are_exact),
        cmocka_unit_test(masks_of_objects_are_exact),
        cmocka_unit_test(masks_of_text_are_exact),
        cmocka_unit_test(threads_share_a_cache),
        cmocka_unit_test(ambiguous_grammars_end),
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(vocabularies_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
