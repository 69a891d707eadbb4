#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "grammar/token_mask_internal.h"
#include "unit/grammar/mask_rig.h"

static qn_error err;

/* a r b | a r c | d: each "a" doubles the readings. */
static qn_grammar *doubling_grammar(void)
{
    qn_grammar_builder *b = mask_rig_builder();
    qn_rule r = qn_rule_declare(b, "r");
    qn_expr a = qn_expr_text(b, "a"), self = qn_expr_rule(b, r);
    qn_expr first = qn_expr_concat(b, (qn_expr[]){a, self, qn_expr_text(b, "b")}, 3);
    qn_expr second = qn_expr_concat(b, (qn_expr[]){a, self, qn_expr_text(b, "c")}, 3);
    qn_rule_define(b, r, qn_expr_choice(b, (qn_expr[]){first, second, qn_expr_text(b, "d")}, 3));
    return mask_rig_build(b, self);
}

/* Behind ever more of "a": whether the mask is told not to be known, or else is the slow way's. */
static size_t count_known(const char *const *texts, size_t count)
{
    mask_vocabulary v;
    mask_rig_list(&v, texts, count);
    qn_grammar *g = doubling_grammar();
    qn_vocabulary_trie *trie = mask_rig_trie(&v);
    qn_mask_cache *cache = mask_rig_cache(g, trie);
    qn_matcher *m;
    assert_int_equal(qn_matcher_new(g, &m, &err), QN_OK);
    size_t known = 0;
    bool exhausted = false;
    for (; known < 40; known++) {
        uint64_t mask[RIG_WORDS] = {0}, again[RIG_WORDS] = {0}, slow[RIG_WORDS];
        mask_rig_fill(m, &v, slow, &exhausted);
        qn_status status = qn_mask_fill(cache, m, mask, &err);
        assert_int_equal(qn_mask_fill(cache, m, again, &err), status);
        if (status) {
            assert_int_equal(status, QN_USAGE);
            break;
        }
        assert_memory_equal(mask, slow, sizeof mask);
        assert_memory_equal(again, slow, sizeof mask);
        if (qn_matcher_bytes(m, "a", 1) < 1)
            break;
    }
    assert_true(exhausted);
    assert_true(known < 40);
    qn_matcher_free(m);
    qn_mask_cache_free(cache);
    qn_vocabulary_trie_free(trie);
    qn_grammar_free(g);
    return known;
}

static void a_mask_without_what_ran_out_is_none(void **state)
{
    (void)state;
    size_t bytes = count_known((const char *const[]){"a", "b", "c", "d"}, 4);
    assert_in_range(bytes, 4, 20);
    /* a token that is too long for the bound can be written with shorter ones, up to where the bound is */
    assert_int_equal(count_known((const char *const[]){"aaaaaaaaaaaaaa", "a", "b", "c", "d", "aaa"}, 6), bytes);
    assert_int_equal(count_known((const char *const[]){"aaaaaaaaaaaaaa\n", "aaaaaaaaaaaaaa", "a", "d", "aa\n"}, 5),
                     bytes);
    /* but where there are none, nothing else writes it */
    assert_int_equal(count_known((const char *const[]){"aaaaaaaaaaaaaa", "b", "c", "d"}, 4), 0);
    assert_int_equal(count_known((const char *const[]){"aaaaaaaaaaaaaa\n", "b", "c", "d"}, 4), 0);
}

/* Text of letters, or E4 and then as many optional bytes as are more than a matcher follows. */
static qn_grammar *wide_behind_e4(void)
{
    enum { MORE = QN_MATCHER_MAX_STACKS + 100 };
    qn_grammar_builder *b = mask_rig_builder();
    const uint64_t lead[4] = {0, 0, 0, UINT64_C(1) << (0xE4 - 192)}, more[4] = {0, 0, UINT64_MAX, 0};
    qn_char_range letters = {'a', 'z'};
    qn_expr optional = qn_expr_optional(b, qn_expr_byte_set(b, more)), wide = qn_expr_byte_set(b, lead);
    for (int i = 0; i < MORE; i++)
        wide = qn_expr_concat2(b, wide, optional);
    qn_expr one = qn_expr_choice(b, (qn_expr[]){qn_expr_chars(b, &letters, 1), wide}, 2);
    return mask_rig_build(b, qn_expr_repeat(b, one, 0, QN_UNBOUNDED));
}

/* Of the vocabulary's characters only one that lacks its end begins with E4. */
static void a_part_of_a_character_that_runs_out_is_not_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"a", "b", "xyz", "ab\xE4\xBD", "\xE4\xBD"};
    mask_vocabulary v;
    qn_grammar *g = wide_behind_e4();
    for (size_t count = 4; count <= 5; count++) {
        mask_rig_list(&v, texts, count);
        qn_vocabulary_trie *trie = mask_rig_trie(&v);
        qn_mask_cache *cache = mask_rig_cache(g, trie);
        qn_matcher *m;
        assert_int_equal(qn_matcher_new(g, &m, &err), QN_OK);
        for (int again = 0; again < 2; again++) {
            uint64_t mask[RIG_WORDS] = {0};
            if (count == 5) { /* nothing else writes the last one */
                assert_int_equal(qn_mask_fill(cache, m, mask, &err), QN_USAGE);
                continue;
            }
            assert_int_equal(qn_mask_fill(cache, m, mask, &err), QN_OK);
            assert_int_equal(mask[0], 7);
        }
        assert_int_equal(qn_matcher_bytes(m, "\xE4", 1), 0);
        assert_true(qn_matcher_exhausted(m));
        qn_matcher_free(m);
        qn_mask_cache_free(cache);
        qn_vocabulary_trie_free(trie);
    }
    qn_grammar_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_of_a_character_that_runs_out_is_not_refused),
        cmocka_unit_test(a_mask_without_what_ran_out_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
