/* Masks of answers that have a form, held against a check of every token of the vocabulary with a fresh matcher. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "constraint_rig.h"
#include "unit/random_grammar.h"

enum { GRAMMARS = 150, WALKS = 3, THREADS = 3, LONG = 70 };

/* Draws on until the end; each mask is the slow check's, and the end comes behind a word only. */
static void walk(const qn_constraint_options *o, const random_grammar *judge, random_stream *random, size_t most)
{
    qn_constraint *c = constrain(o);
    qn_tokens answer = {0};
    char what[64];
    snprintf(what, sizeof what, "seed %llu", (unsigned long long)random->seed);
    for (size_t i = 0; i < most; i++) {
        uint64_t expected[MASK_WORDS] = {0};
        if (!expect_word(o, answer.ids, answer.count, expected)) {
            break;
        }
        check_mask(c, &answer, expected, what);
        qn_buffer text = {0};
        mask_text(o->tokenizer, &answer, 0, &text);
        if (judge != NULL && text.size <= RANDOM_LONGEST_WORD) {
            assert_int_equal(mask_has(expected, o->eos[0]), random_grammar_has(judge, text.data, text.size));
        }
        qn_buffer_free(&text);
        int32_t token = mask_draw(o->tokenizer, expected, random);
        assert_true(token >= 0);
        assert_true(qn_tokens_add(&answer, token));
        if (token == o->eos[0] || token == o->eos[1]) {
            break;
        }
    }
    qn_tokens_free(&answer);
    qn_constraint_free(c);
}

static void masks_of_random_grammars_are_exact(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= GRAMMARS; seed++) {
        random_grammar r;
        random_stream random = {.seed = seed};
        qn_constraint_options o = small_options();
        qn_grammar_builder *b = new_builder();
        qn_expr root = random_grammar_make(seed, b, &r);
        hold_to(&o, b, root);
        for (int i = 0; i < WALKS; i++) {
            walk(&o, &r, &random, 12);
        }
        let_go(&o);
    }
}

static void masks_of_json_are_exact(void **state)
{
    (void)state;
    qn_constraint_options o = tiny_options();
    hold_to_json(&o);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        walk(&o, NULL, &(random_stream){.seed = seed}, 25);
    }
    let_go(&o);
}

/* A word of `count` tokens or fewer. */
static void draw_word(const qn_constraint_options *o, size_t count, random_stream *random, qn_tokens *out)
{
    qn_constraint *c = constrain(o);
    mask_walk(c, o, count, random, out);
    qn_constraint_free(c);
}

/* As drafts are asked for: beginnings of several answers in turn, near and far, some wrong from a place on. */
static void the_order_of_questions_changes_no_mask(void **state)
{
    (void)state;
    qn_constraint_options o = tiny_options();
    hold_to_json(&o);
    for (uint64_t seed = 1; seed <= 4; seed++) {
        random_stream random = {.seed = seed};
        qn_tokens answers[2] = {{0}, {0}};
        draw_word(&o, LONG, &random, &answers[0]);
        assert_true(qn_tokens_append(&answers[1], answers[0].ids, answers[0].count / 2));
        draw_word(&o, LONG, &random, &answers[1]);
        qn_constraint *c = constrain(&o);
        for (int i = 0; i < 120; i++) {
            const qn_tokens *from = &answers[random_word(&random) % 2];
            size_t last = from->count < 8 || random_word(&random) % 3 == 0 ? 0 : from->count - 8;
            qn_tokens asked = {0};
            assert_true(qn_tokens_append(&asked, from->ids, last + random_word(&random) % (from->count - last + 1)));
            if (asked.count > 0 && random_word(&random) % 4 == 0) {
                asked.ids[asked.count - 1] = (int32_t)(random_word(&random) % o.vocab_size);
            }
            uint64_t expected[MASK_WORDS];
            qn_constraint *fresh = constrain(&o);
            mask_fill(fresh, &asked, expected);
            check_mask(c, &asked, expected, "asked in another order");
            qn_constraint_free(fresh);
            qn_tokens_free(&asked);
        }
        qn_constraint_free(c);
        qn_tokens_free(&answers[0]);
        qn_tokens_free(&answers[1]);
    }
    let_go(&o);
}

static void a_word_that_cannot_go_on_only_ends(void **state)
{
    (void)state;
    qn_constraint_options o = small_options();
    hold_to_text(&o, "abab");
    qn_constraint *c = constrain(&o);
    qn_tokens answer = {0};
    check_only(c, &answer, (int32_t[]){'a', 256, 261}, 3);
    assert_true(qn_tokens_add(&answer, 256));
    check_only(c, &answer, (int32_t[]){'a', 256}, 2);
    assert_true(qn_tokens_add(&answer, 256));
    check_only(c, &answer, small_eos, 2);
    assert_true(qn_tokens_add(&answer, END)); /* behind the end as well */
    check_only(c, &answer, small_eos, 2);
    assert_true(qn_tokens_add(&answer, 'a'));
    check_only(c, &answer, small_eos, 2);
    qn_constraint_free(c);
    let_go(&o);
    qn_tokens_free(&answer);
}

/* Whoever goes on behind end tokens asks for a mask without them, and gets none at all. */
static void without_end_tokens_a_complete_word_allows_nothing(void **state)
{
    (void)state;
    qn_constraint_options o = small_options();
    o.eos_count = 0;
    hold_to_text(&o, "ab");
    qn_constraint *c = constrain(&o);
    qn_tokens answer = {0};
    add_text(o.tokenizer, "ab", &answer);
    check_only(c, &answer, NULL, 0);
    qn_constraint_free(c);
    let_go(&o);
    qn_tokens_free(&answer);
}

static void a_token_that_may_not_come_leaves_the_end(void **state)
{
    (void)state;
    qn_constraint_options o = small_options();
    hold_to_text(&o, "baab");
    qn_constraint *c = constrain(&o);
    static const int32_t wrong[] = {'a', BAAB, CALL, THINK, SMALL_SIZE, SMALL_VOCAB - 1};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        check_only(c, &(qn_tokens){.ids = (int32_t[]){wrong[i]}, .count = 1}, small_eos, 2);
        check_only(c, &(qn_tokens){0}, (int32_t[]){'b', 257}, 2);
    }
    qn_constraint_free(c);
    let_go(&o);
}

/* Each "a" doubles the readings. What comes behind more of them than a matcher follows is not known: never an end. */
static void too_many_readings_are_told(void **state)
{
    (void)state;
    qn_constraint_options o = small_options();
    qn_grammar_builder *b = new_builder();
    qn_rule rule = qn_rule_declare(b, "r");
    qn_expr a = qn_expr_text(b, "a"), self = qn_expr_rule(b, rule);
    qn_expr first = qn_expr_concat(b, (qn_expr[]){a, self, qn_expr_text(b, "b")}, 3);
    qn_expr second = qn_expr_concat(b, (qn_expr[]){a, self, qn_expr_text(b, "c")}, 3);
    qn_rule_define(b, rule, qn_expr_choice(b, (qn_expr[]){first, second, qn_expr_text(b, "d")}, 3));
    hold_to(&o, b, self);
    qn_constraint *c = constrain(&o);
    qn_tokens answer = {0};
    bool filled = true;
    add_text(o.tokenizer, "aa", &answer);
    for (size_t i = 0; i < 40; i++) {
        uint64_t mask[MASK_WORDS] = {0};
        qn_status status = qn_constraint_fill(c, answer.ids, answer.count, mask);
        assert_true(status == QN_OK || status == QN_USAGE);
        filled = status == QN_OK;
        assert_false(mask_has(mask, END));
        assert_true(!filled || (mask_has(mask, 'a') && mask_has(mask, 'd'))); /* none of both is left out */
        assert_true(qn_tokens_add(&answer, 'a'));
    }
    assert_false(filled);
    qn_constraint_free(c);
    let_go(&o);
    qn_tokens_free(&answer);
}
/* ---- threads and memory ---- */

typedef struct job {
    qn_constraint *c;
    const qn_tokens *answer;
    const uint64_t (*expected)[MASK_WORDS];
    uint64_t seed;
    size_t wrong;
} job;

static void *ask(void *argument)
{
    job *j = argument;
    random_stream random = {.seed = j->seed};
    for (int i = 0; i < 150; i++) {
        uint64_t mask[MASK_WORDS] = {0};
        size_t count = random_word(&random) % (j->answer->count + 1);
        bool filled = qn_constraint_fill(j->c, j->answer->ids, count, mask) == QN_OK;
        j->wrong += !filled || memcmp(mask, j->expected[count], sizeof mask) != 0;
    }
    return NULL;
}

static void threads_may_ask_at_once(void **state)
{
    (void)state;
    static uint64_t expected[2][LONG + 1][MASK_WORDS];
    qn_constraint_options o = tiny_options();
    hold_to_json(&o);
    qn_tokens answers[2] = {{0}, {0}};
    random_stream random = {.seed = 5};
    for (size_t i = 0; i < 2; i++) {
        draw_word(&o, LONG, &random, &answers[i]);
        for (size_t count = 0; count <= answers[i].count; count++) {
            qn_constraint *fresh = constrain(&o);
            mask_fill(fresh, &(qn_tokens){.ids = answers[i].ids, .count = count}, expected[i][count]);
            qn_constraint_free(fresh);
        }
    }
    qn_constraint *c = constrain(&o);
    pthread_t threads[THREADS];
    job jobs[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        jobs[i] = (job){.c = c, .answer = &answers[i % 2], .expected = (const void *)expected[i % 2], .seed = i};
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &jobs[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(jobs[i].wrong, 0);
    }
    qn_constraint_free(c);
    qn_tokens_free(&answers[0]);
    qn_tokens_free(&answers[1]);
    let_go(&o);
}

/* A mask is right or there is none; and once there is memory again, it is right. */
static void memory_runs_out(void **state)
{
    (void)state;
    qn_constraint_options o = tiny_options();
    hold_to_json(&o);
    qn_tokens answer = {0};
    add_text(o.tokenizer, "{\"a\": [1, {\"b\": \"c\"}], \"de\": \"f", &answer);
    uint64_t expected[MASK_WORDS] = {0};
    assert_true(expect_word(&o, answer.ids, answer.count, expected));
    bool failed = true;
    for (long n = 1; failed; n++) {
        qn_error err;
        qn_constraint *c = NULL;
        uint64_t mask[MASK_WORDS] = {0};
        qn_fault_arm(QN_FAULT_ALLOC, n);
        qn_status status = qn_constraint_new(&o, &c, &err);
        qn_status fill_status = status == QN_OK ? qn_constraint_fill(c, answer.ids, answer.count, mask) : status;
        bool filled = fill_status == QN_OK;
        failed = qn_fault_seen(QN_FAULT_ALLOC) >= n;
        qn_fault_disarm();
        assert_true(filled || fill_status == QN_RESOURCE);
        if (status != QN_OK) {
            continue;
        }
        if (filled && memcmp(mask, expected, sizeof mask) != 0) {
            fail_msg("allocation %ld failed, and the mask is wrong", n);
        }
        assert_true(filled || failed);
        check_mask(c, &answer, expected, "memory is there again");
        qn_constraint_free(c);
        assert_true(n < 100000);
    }
    qn_tokens_free(&answer);
    let_go(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_of_random_grammars_are_exact),
        cmocka_unit_test(masks_of_json_are_exact),
        cmocka_unit_test(the_order_of_questions_changes_no_mask),
        cmocka_unit_test(a_word_that_cannot_go_on_only_ends),
        cmocka_unit_test(without_end_tokens_a_complete_word_allows_nothing),
        cmocka_unit_test(a_token_that_may_not_come_leaves_the_end),
        cmocka_unit_test(too_many_readings_are_told),
        cmocka_unit_test(threads_may_ask_at_once),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, constraint_rig_open, constraint_rig_close);
}
