/* Thoughts before a form, optional ones, and what a budget makes of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "constraint_rig.h"
#include "small_tokenizer.h"
#include "text/answer_grammar.h"

static void thoughts_of_a_form_are_text_until_their_end(void **state)
{
    (void)state;
    qn_constraint_options o = small_options();
    o.thoughts = QN_THOUGHTS_OPEN;
    hold_to_text(&o, "ab");
    qn_constraint *c = constrain(&o);
    qn_tokens answer = {0};
    uint64_t thinking[MASK_WORDS] = {0};
    expect_text(&o, THINK_END, thinking);
    check_mask(c, &answer, thinking, "the first thought");
    add_text(o.tokenizer, "abba", &answer);
    check_mask(c, &answer, thinking, "a thought");
    assert_true(qn_tokens_add(&answer, THINK_END));
    check_only(c, &answer, (int32_t[]){'a', 256}, 2);
    add_text(o.tokenizer, "ab", &answer);
    check_only(c, &answer, small_eos, 2);
    qn_constraint_free(c);
    let_go(&o);
    qn_tokens_free(&answer);
}

static void optional_thoughts_begin_with_their_tag(void **state)
{
    (void)state;
    qn_constraint_options o = small_options();
    o.thoughts = QN_THOUGHTS_OPTIONAL;
    hold_to_text(&o, "ab");
    qn_constraint *c = constrain(&o);
    uint64_t thinking[MASK_WORDS] = {0};
    expect_text(&o, THINK_END, thinking);
    check_only(c, &(qn_tokens){0}, (int32_t[]){'a', 256, THINK}, 3);
    check_only(c, &(qn_tokens){.ids = (int32_t[]){'a'}, .count = 1}, (int32_t[]){'b'}, 1);
    check_mask(c, &(qn_tokens){.ids = (int32_t[]){THINK}, .count = 1}, thinking, "behind <think>");
    check_only(c, &(qn_tokens){.ids = (int32_t[]){THINK, 'x', THINK_END}, .count = 3}, (int32_t[]){'a', 256}, 2);
    check_only(c, &(qn_tokens){.ids = (int32_t[]){'a', THINK}, .count = 2}, small_eos, 2);
    qn_constraint_free(c);
    let_go(&o);
}

static void without_a_form_everything_is_free(void **state)
{
    (void)state;
    static const int32_t answer[] = {THINK, 'x', THINK_END, 'y', CALL, END, SMALL_SIZE + 3};
    for (int thoughts = QN_THOUGHTS_NONE; thoughts <= QN_THOUGHTS_OPTIONAL; thoughts++) {
        qn_constraint_options o = small_options();
        o.thoughts = (qn_thoughts)thoughts;
        qn_constraint *c = constrain(&o);
        uint64_t all[MASK_WORDS] = {0};
        expect_all(&o, all);
        for (size_t count = 0; count <= sizeof answer / sizeof *answer; count++) {
            check_mask(c, &(qn_tokens){.ids = (int32_t *)(uintptr_t)answer, .count = count}, all, "free");
        }
        qn_constraint_free(c);
    }
}

static void a_tokenizer_without_tags_has_no_thoughts(void **state)
{
    (void)state;
    qn_tokenizer *plain = small_open(&(small_spec){0});
    qn_vocabulary_trie *trie = NULL;
    qn_error err;
    assert_int_equal(qn_tokenizer_trie(plain, &trie, &err), QN_OK);
    for (int thoughts = QN_THOUGHTS_OPEN; thoughts <= QN_THOUGHTS_OPTIONAL; thoughts++) {
        static const int32_t eos[] = {0};
        qn_constraint_options o = {.tokenizer = plain,
                                   .vocab_size = 256,
                                   .eos = eos,
                                   .eos_count = 1,
                                   .thoughts = (qn_thoughts)thoughts,
                                   .has_budget = true};
        hold_to_text(&o, "ab");
        qn_mask_cache_free(o.cache);
        assert_int_equal(qn_mask_cache_new(o.grammar, trie, &o.cache, &err), QN_OK);
        qn_constraint *c = constrain(&o);
        check_only(c, &(qn_tokens){0}, (int32_t[]){'a'}, 1);
        qn_constraint_free(c);
        let_go(&o);
    }
    qn_vocabulary_trie_free(trie);
    qn_tokenizer_free(plain);
}

/* With and without a form, open and behind their tag. */
static void a_budget_closes_thoughts(void **state)
{
    (void)state;
    static const size_t budgets[] = {0, 1, 5};
    for (size_t i = 0; i < 12; i++) {
        qn_constraint_options o = small_options();
        bool optional = i & 1;
        o.thoughts = optional ? QN_THOUGHTS_OPTIONAL : QN_THOUGHTS_OPEN;
        o.has_budget = true;
        o.budget = budgets[i / 4];
        if (i & 2) {
            hold_to_text(&o, "ab");
        }
        qn_constraint *c = constrain(&o);
        qn_tokens answer = {0};
        uint64_t free[MASK_WORDS] = {0};
        if (o.grammar != NULL) {
            expect_text(&o, THINK_END, free);
        } else {
            expect_all(&o, free);
        }
        assert_true(!optional || qn_tokens_add(&answer, THINK));
        for (size_t thought = 0; thought < o.budget; thought++) {
            check_mask(c, &answer, free, "within the budget");
            assert_true(qn_tokens_add(&answer, 'x'));
        }
        check_only(c, &answer, (int32_t[]){THINK_END}, 1);
        assert_true(qn_tokens_add(&answer, 'x')); /* a draft beyond */
        check_only(c, &answer, (int32_t[]){THINK_END}, 1);
        answer.ids[answer.count - 1] = THINK_END;
        uint64_t behind[MASK_WORDS] = {0};
        if (o.grammar != NULL) {
            assert_true(expect_word(&o, NULL, 0, behind));
        } else {
            expect_all(&o, behind);
        }
        check_mask(c, &answer, behind, "behind the thoughts");
        qn_constraint_free(c);
        let_go(&o);
        qn_tokens_free(&answer);
    }
}

/* One token a byte: thoughts close where the next byte begins a character. */
static void a_budget_waits_for_the_end_of_a_character(void **state)
{
    (void)state;
    static const char text[] = "a\xC3\xA9z\xE2\x82\xAC\xF0\x9F\x98\x80\xF0\x9F\x98\x81q";
    int32_t bytes[sizeof text];
    for (size_t i = 0; i < sizeof text; i++) {
        bytes[i] = (unsigned char)text[i];
    }
    for (size_t budget = 0; budget < sizeof text - 1; budget++) {
        qn_constraint_options o = small_options();
        o.thoughts = QN_THOUGHTS_OPEN;
        o.has_budget = true;
        o.budget = budget;
        qn_constraint *c = constrain(&o);
        for (size_t count = budget; count < sizeof text - 1; count++) {
            uint64_t mask[MASK_WORDS];
            bool within = (bytes[count] & 0xC0) == 0x80;
            mask_fill(c, &(qn_tokens){.ids = bytes, .count = count}, mask);
            assert_true(mask_has(mask, THINK_END));
            assert_int_equal(mask_count(mask) > 1, within);
            if (!within) {
                break;
            }
        }
        qn_constraint_free(c);
    }
}

/* Beginnings of characters that never end, and bytes that are no text at all. */
static void a_budget_waits_for_three_tokens_at_most(void **state)
{
    (void)state;
    static const unsigned char bad[] = {0xF0, 0xE2, 0xC3, 0x80, 0xFF};
    for (size_t i = 0; i < sizeof bad; i++) {
        qn_constraint_options o = small_options();
        o.thoughts = QN_THOUGHTS_OPEN;
        o.has_budget = true;
        o.budget = 2;
        qn_constraint *c = constrain(&o);
        qn_tokens answer = {0};
        for (size_t k = 0; k < 2 + 8; k++) {
            uint64_t mask[MASK_WORDS];
            mask_fill(c, &answer, mask);
            if (k >= 2 + 3) {
                assert_int_equal(mask_count(mask), 1);
            }
            assert_true(mask_has(mask, THINK_END));
            assert_true(qn_tokens_add(&answer, bad[i]));
        }
        qn_constraint_free(c);
        qn_tokens_free(&answer);
    }
}
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thoughts_of_a_form_are_text_until_their_end),
        cmocka_unit_test(optional_thoughts_begin_with_their_tag),
        cmocka_unit_test(without_a_form_everything_is_free),
        cmocka_unit_test(a_tokenizer_without_tags_has_no_thoughts),
        cmocka_unit_test(a_budget_closes_thoughts),
        cmocka_unit_test(a_budget_waits_for_the_end_of_a_character),
        cmocka_unit_test(a_budget_waits_for_three_tokens_at_most),
    };
    return cmocka_run_group_tests(tests, constraint_rig_open, constraint_rig_close);
}
