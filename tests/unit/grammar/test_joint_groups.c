#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "grammar/matcher_internal.h"
#include "grammar/token_mask_internal.h"
#include "unit/grammar/front_end.h"
#include "unit/grammar/mask_rig.h"
#include "unit/random_stream.h"

enum { ITEMS = 6, OPTIONS = 5, GRAMMARS = 400, WORDS_EACH = 60, LONGEST = 14 };

/* Items over a and b, of which some begin alike. The tree: "a" leads to 0 "a", 1 "ab", 2 "ac" in two levels. */
static const char *const items[ITEMS] = {"a", "ab", "ac", "b", "c", "cc"};

typedef struct case_option {
    uint32_t own[ITEMS];
    bool required[ITEMS];
    size_t count, min, max;
} case_option;

typedef struct joint_case {
    bool repeated[ITEMS];
    case_option options[OPTIONS];
    size_t count;
} joint_case;

static void random_case(random_stream *r, joint_case *out)
{
    *out = (joint_case){.count = 1 + random_word(r) % OPTIONS};
    for (size_t i = 0; i < ITEMS; i++)
        out->repeated[i] = random_word(r) % 4 == 0;
    for (size_t o = 0; o < out->count; o++) {
        case_option *option = &out->options[o];
        for (uint32_t i = 0; i < ITEMS; i++) {
            if (random_word(r) % 2)
                continue;
            option->required[option->count] = !out->repeated[i] && random_word(r) % 3 == 0;
            option->own[option->count++] = i;
        }
        option->min = 1 + random_word(r) % 3;
        option->max = random_word(r) % 3 ? QN_UNBOUNDED : option->min + random_word(r) % 3;
    }
}

static qn_expr joint_of(qn_grammar_builder *b, const joint_case *c)
{
    qn_joint_option options[OPTIONS];
    qn_expr empty = qn_expr_empty(b);
    const qn_joint_edge edges[] = {
        {0, 1, 0, 2, qn_expr_text(b, "a")},
        {0, 0, 3, 3, qn_expr_text(b, "b")},
        {0, 2, 4, 5, qn_expr_text(b, "c")},
        {1, 0, 0, 0, empty},
        {1, 0, 1, 1, qn_expr_text(b, "b")},
        {1, 0, 2, 2, qn_expr_text(b, "c")},
        {2, 0, 4, 4, empty},
        {2, 0, 5, 5, qn_expr_text(b, "c")},
    };
    for (size_t o = 0; o < c->count; o++) {
        const case_option *option = &c->options[o];
        options[o] = (qn_joint_option){option->own, option->required, option->count, option->min, option->max};
    }
    qn_joint_groups groups = {c->repeated,         ITEMS, options, c->count, edges, sizeof edges / sizeof *edges, 3,
                              qn_expr_text(b, ",")};
    return qn_expr_joint_groups(b, &groups);
}

/* The same, each option a group by itself. */
static qn_expr choice_of(qn_grammar_builder *b, const joint_case *c)
{
    qn_expr groups[OPTIONS];
    for (size_t o = 0; o < c->count; o++) {
        const case_option *option = &c->options[o];
        qn_expr own[ITEMS], again[ITEMS], extra;
        bool required[ITEMS];
        size_t count = 0, repeated = 0;
        for (size_t i = 0; i < option->count; i++) {
            qn_expr item = qn_expr_text(b, items[option->own[i]]);
            if (c->repeated[option->own[i]]) {
                again[repeated++] = item;
            } else {
                required[count] = option->required[i];
                own[count++] = item;
            }
        }
        extra = qn_expr_choice(b, again, repeated);
        qn_each_once group = {own,         required,   count, repeated ? &extra : NULL, qn_expr_text(b, ","),
                              option->min, option->max};
        groups[o] = qn_expr_each_once(b, &group);
    }
    return qn_expr_choice(b, groups, c->count);
}

static qn_grammar *grammar_of(const joint_case *c, bool joint)
{
    qn_grammar_builder *b;
    qn_grammar *grammar = NULL;
    qn_error err;
    assert_int_equal(qn_grammar_builder_new(&b, &err), QN_OK);
    if (qn_grammar_build(b, joint ? joint_of(b, c) : choice_of(b, c), &grammar, &err) != QN_OK) {
        if (!strstr(err.message, "no text can match"))
            fail_msg("%s", err.message);
        grammar = NULL;
    }
    qn_grammar_builder_free(b);
    return grammar;
}

/* How far a word is taken, and whether it may end there. */
static size_t taken(const qn_grammar *grammar, const char *word, size_t bytes, bool *ends)
{
    qn_error err;
    qn_matcher *m;
    assert_int_equal(qn_matcher_new(grammar, &m, &err), QN_OK);
    size_t count = qn_matcher_bytes(m, word, bytes);
    assert_false(qn_matcher_exhausted(m));
    *ends = qn_matcher_can_end(m);
    qn_matcher_free(m);
    return count;
}

static const char *token_bytes(void *context, int32_t token, size_t *length)
{
    (void)context;
    static const char *const tokens[] = {"a",   "b",  "c",   ",",  "ab",  "a,",   "ac,c",
                                         "c,a", ",b", "b,c", "cc", ",a,", "c,cc,"};
    *length = strlen(tokens[token]);
    return tokens[token];
}

enum { TOKENS = 13 };

/* Along a random word, the mask has the tokens that the matcher takes. */
static void check_masks(const qn_grammar *grammar, random_stream *r)
{
    qn_error err;
    qn_vocabulary_trie *trie;
    qn_mask_cache *cache;
    qn_matcher *m;
    assert_int_equal(qn_vocabulary_trie_new(TOKENS, token_bytes, NULL, &trie, &err), QN_OK);
    assert_int_equal(qn_mask_cache_new(grammar, trie, &cache, &err), QN_OK);
    assert_int_equal(qn_matcher_new(grammar, &m, &err), QN_OK);
    for (int step = 0; step < 5; step++) {
        uint64_t mask = 0, expected = 0;
        assert_int_equal(qn_mask_fill(cache, m, &mask, &err), QN_OK);
        for (int32_t t = 0; t < TOKENS; t++) {
            size_t length;
            const char *bytes = token_bytes(NULL, t, &length);
            qn_matcher *copy;
            assert_int_equal(qn_matcher_clone(m, &copy, &err), QN_OK);
            if (qn_matcher_bytes(copy, bytes, length) == length)
                expected |= UINT64_C(1) << t;
            qn_matcher_free(copy);
        }
        assert_int_equal(mask, expected);
        assert_true(mask != 0 || qn_matcher_can_end(m)); /* no dead end */
        int32_t next = (int32_t)(random_word(r) % TOKENS);
        size_t length;
        for (int i = 0; i < TOKENS && !(mask >> next & 1); i++)
            next = (next + 1) % TOKENS;
        if (!(mask >> next & 1))
            break;
        const char *bytes = token_bytes(NULL, next, &length);
        assert_int_equal(qn_matcher_bytes(m, bytes, length), length);
    }
    qn_matcher_free(m);
    qn_mask_cache_free(cache);
    qn_vocabulary_trie_free(trie);
}

static void test_random_groups_as_one_and_side_by_side(void **state)
{
    (void)state;
    size_t compiled = 0, words = 0;
    for (uint64_t seed = 1; seed <= GRAMMARS; seed++) {
        random_stream r = {.seed = seed};
        joint_case c;
        random_case(&r, &c);
        qn_grammar *one = grammar_of(&c, true), *many = grammar_of(&c, false);
        if (!one != !many)
            fail_msg("seed %u: %s has no words", (unsigned)seed, one ? "the choice" : "the joint");
        for (int i = 0; one && i < WORDS_EACH; i++) {
            char word[64] = "";
            for (size_t n = 1 + random_word(&r) % 5; n > 0; n--) {
                strcat(word, items[random_word(&r) % ITEMS]);
                strcat(word, n > 1 ? "," : "");
            }
            bool ends, as;
            size_t count = taken(one, word, strlen(word), &ends);
            if (count != taken(many, word, strlen(word), &as) || ends != as)
                fail_msg("seed %u: %s is taken up to %zu, %d", (unsigned)seed, word, count, ends);
            words += count == strlen(word) && ends;
        }
        if (one)
            check_masks(one, &r);
        compiled += one != NULL;
        qn_grammar_free(one);
        qn_grammar_free(many);
    }
    assert_true(compiled > GRAMMARS / 2 && words > GRAMMARS);
}

static qn_status words_of_cases(qn_grammar_builder *b, const char *text, size_t bytes, qn_expr *out, qn_error *err)
{
    (void)bytes;
    random_stream r = {.seed = (uint64_t)(text[0] - '0')};
    joint_case c;
    random_case(&r, &c);
    *out = joint_of(b, &c);
    return qn_grammar_builder_status(b, err);
}

static void test_no_memory(void **state)
{
    (void)state;
    front_end_walks_faults(words_of_cases, "3");
    qn_error err;
    qn_grammar *grammar = front_end_grammar(words_of_cases, "3", 1, &err);
    assert_non_null(grammar);
    qn_matcher *m = NULL;
    for (long nth = 1; !m; nth++) {
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        qn_status status = qn_matcher_new(grammar, &m, &err);
        qn_fault_disarm();
        assert_int_equal(status, m ? QN_OK : QN_RESOURCE);
        if (status != QN_OK)
            m = NULL;
    }
    qn_matcher_free(m);
    qn_grammar_free(grammar);
}

/* An item that can never end is in no text, nor is a group that asks for it. */
static qn_status endless(qn_grammar_builder *b, const char *text, size_t bytes, qn_expr *out, qn_error *err)
{
    (void)bytes;
    qn_rule rule = qn_rule_declare(b, "endless");
    qn_rule_define(b, rule, qn_expr_concat2(b, qn_expr_text(b, "x"), qn_expr_rule(b, rule)));
    const qn_joint_edge edges[] = {{0, 0, 0, 0, qn_expr_text(b, "a")},
                                   {0, 1, 1, 2, qn_expr_rule(b, rule)},
                                   {1, 0, 1, 1, qn_expr_text(b, "b")},
                                   {1, 0, 2, 2, qn_expr_text(b, "c")}};
    const uint32_t own[] = {0, 1};
    const bool none[3] = {false}, both[] = {true, true};
    qn_joint_option options[] = {{own, none, 2, 1, QN_UNBOUNDED}, {own, both, 2, 1, QN_UNBOUNDED}};
    qn_joint_groups groups = {none,
                              3,
                              options + (text[0] == '1'),
                              text[0] == '2' ? 2 : 1,
                              edges,
                              4,
                              2,
                              text[1] == '-' ? qn_expr_never(b) : qn_expr_text(b, ",")};
    *out = qn_expr_joint_groups(b, &groups);
    return qn_grammar_builder_status(b, err);
}

static void test_what_never_ends_is_left_out(void **state)
{
    (void)state;
    static const char *const accept[] = {"a", NULL}, *const reject[] = {"", "x", "a,", "ax", NULL};
    front_end_check(endless, "0", accept, reject);
    front_end_check(endless, "2", accept, reject);
    front_end_check(endless, "2-", accept, reject);
    front_end_refuses(endless, "1", "no text can match");
}

/* "items" groups within their own items: a list of lists. */
static qn_status nested(qn_grammar_builder *b, const char *text, size_t bytes, qn_expr *out, qn_error *err)
{
    (void)bytes;
    qn_rule rule = qn_rule_declare(b, "nested");
    qn_expr inner = qn_expr_concat(b, (qn_expr[]){qn_expr_text(b, "("), qn_expr_rule(b, rule), qn_expr_text(b, ")")},
                                   3);
    const qn_joint_edge edges[] = {{0, 0, 0, 0, inner},
                                   {0, 0, 1, 1, text[0] == 'l' ? qn_expr_rule(b, rule) : qn_expr_text(b, "b")},
                                   {0, 0, 2, 2, qn_expr_text(b, "c")}};
    const uint32_t first[] = {0, 1}, second[] = {0, 2};
    const bool none[3] = {false};
    const qn_joint_option options[] = {{first, none, 2, 1, QN_UNBOUNDED}, {second, none, 2, text[0] == 'l' ? 1 : 2, 2}};
    qn_joint_groups groups = {none, 3, options, 2, edges, 3, 1, qn_expr_text(b, ",")};
    *out = qn_expr_joint_groups(b, &groups);
    qn_rule_define(b, rule, *out);
    return qn_grammar_builder_status(b, err);
}

static void test_groups_in_their_own_items(void **state)
{
    (void)state;
    static const char *const accept[] = {"b", "(b)", "b,((c,(b)))", "((b),c)", NULL};
    static const char *const reject[] = {"c", "b,c", "b,b", "(c)", "((c)", "(b),(b)", NULL};
    front_end_check(nested, "", accept, reject);
    front_end_refuses(nested, "l", "recursive on its left");
}

static qn_status misused(qn_grammar_builder *b, const char *text, size_t bytes, qn_expr *out, qn_error *err)
{
    (void)bytes;
    const bool none[1] = {false};
    const uint32_t own[] = {text[0] == 'i'};
    qn_joint_edge edge = {0, text[0] == 't', 0, text[0] == 'l', qn_expr_text(b, "a")};
    qn_joint_option option = {own, none, 1, 1, text[0] == 'c' ? (size_t)1 << 31 : 1};
    qn_joint_groups groups = {
        none, text[0] == 'm' ? QN_GRAMMAR_MAX_JOINT_ITEMS + 1 : 1, &option, 1, &edge, 1, 1, qn_expr_empty(b)};
    *out = qn_expr_joint_groups(b, &groups);
    return qn_grammar_builder_status(b, err);
}

static void test_misuse(void **state)
{
    (void)state;
    static const char *const accept[] = {"a", NULL}, *const reject[] = {"aa", "", NULL};
    front_end_check(misused, "", accept, reject);
    for (const char *how = "itlm"; *how; how++)
        front_end_refuses(misused, how, "groups that are followed as one");
    front_end_refuses(misused, "c", "2^30");
}

/* What is kept of one place must not be told of another. */
static void test_kept_answers_are_those_of_their_place(void **state)
{
    (void)state;
    qn_error err;
    qn_grammar *grammar = front_end_grammar(words_of_cases, "3", 1, &err);
    qn_joint_looks kept;
    assert_non_null(grammar);
    assert_true(qn_joint_looks_init(&kept, grammar));
    const qn_group *group = grammar->groups;
    random_stream r = {.seed = 5};
    for (int i = 0; i < 2000; i++) {
        uint64_t came = random_word(&r) % (1U << ITEMS);
        uint32_t count = (uint32_t)random_word(&r) % 5;
        qn_joint_looks fresh;
        assert_true(qn_joint_looks_init(&fresh, grammar));
        const qn_joint_look *a = qn_joint_groups_look(&kept, grammar, group, &came, count);
        const qn_joint_look *b = qn_joint_groups_look(&fresh, grammar, group, &came, count);
        assert_int_equal(a->next[0], b->next[0]);
        assert_int_equal(a->may_end, b->may_end);
        assert_int_equal(a->may_go_on, b->may_go_on);
        qn_joint_looks_free(&fresh);
    }
    qn_joint_looks_free(&kept);
    qn_grammar_free(grammar);
}

/* Two places in turn, as two readings of a text are. */
static void test_places_in_turn_are_looked_through_once(void **state)
{
    (void)state;
    qn_error err;
    qn_grammar *grammar = front_end_grammar(words_of_cases, "3", 1, &err);
    qn_joint_looks looks;
    uint64_t costs[2];
    assert_non_null(grammar);
    assert_true(qn_joint_looks_init(&looks, grammar));
    for (int i = 0; i < 100; i++) {
        uint64_t came = 1U + (unsigned)i % 2;
        costs[i % 2] = qn_joint_groups_look(&looks, grammar, grammar->groups, &came, 1)->cost;
    }
    assert_int_equal(looks.looked, 100 + costs[0] + costs[1]);
    qn_joint_looks_free(&looks);
    qn_grammar_free(grammar);
}

/* Hundreds of groups of thousands of items, and pairs of items that are written alike: each pair that came doubles the
 * readings, and each reading is to be looked through by itself. */
enum { PAIRS = 12, FILLERS = 8000, WIDE_ITEMS = 2 * PAIRS + FILLERS, WIDE_OPTIONS = 400 };

static qn_grammar *wide_grammar(void)
{
    static qn_joint_edge edges[WIDE_ITEMS + 1];
    static uint32_t own[WIDE_ITEMS];
    static bool none[WIDE_ITEMS];
    static qn_joint_option options[WIDE_OPTIONS];
    qn_grammar_builder *b = mask_rig_builder();
    size_t count = 0;
    for (uint32_t i = 0; i < WIDE_ITEMS; i++)
        own[i] = i;
    for (uint32_t i = 0; i < 2 * PAIRS; i++)
        edges[count++] = (qn_joint_edge){0, 0, i, i, qn_expr_bytes(b, &"abcdefghijkl"[i / 2], 1)};
    edges[count++] = (qn_joint_edge){0, 1, 2 * PAIRS, WIDE_ITEMS - 1, qn_expr_text(b, "z")};
    for (uint32_t i = 2 * PAIRS; i < WIDE_ITEMS; i++) {
        char text[16];
        snprintf(text, sizeof text, "%u", i);
        edges[count++] = (qn_joint_edge){1, 0, i, i, qn_expr_text(b, text)};
    }
    for (size_t o = 0; o < WIDE_OPTIONS; o++)
        options[o] = (qn_joint_option){own, none, WIDE_ITEMS - o, 1, QN_UNBOUNDED};
    qn_joint_groups groups = {none, WIDE_ITEMS, options, WIDE_OPTIONS, edges, count, 2, qn_expr_text(b, ",")};
    return mask_rig_build(b, qn_expr_joint_groups(b, &groups));
}

static void test_looking_through_groups_is_bounded_work(void **state)
{
    (void)state;
    static const char *const texts[] = {"a", "b", "c", "d", "e", ",", "a,b,c,d,e,f,g,h,i,j", ",b,c,d,e,f,g,h,i,j,k"};
    static const char text[] = "a,b,c,d,e,f,g,h,i,j,k,l";
    qn_error err;
    mask_vocabulary v;
    mask_rig_list(&v, texts, sizeof texts / sizeof *texts);
    qn_grammar *g = wide_grammar();
    size_t each = WIDE_OPTIONS * (1 + 3 * (size_t)g->groups->words); /* at most, of one look */
    qn_vocabulary_trie *trie = mask_rig_trie(&v);
    qn_mask_cache *cache = mask_rig_cache(g, trie);
    const uint64_t *looked = &cache->table.store.joint.looked;
    qn_matcher *m;
    assert_int_equal(qn_matcher_new(g, &m, &err), QN_OK);
    size_t at = 0, unknown = 0;
    for (uint64_t before = 0; text[at]; at++) {
        uint64_t mask[RIG_WORDS] = {0}, slow[RIG_WORDS];
        bool exhausted = false;
        uint64_t masked = *looked;
        qn_status status = qn_mask_fill(cache, m, mask, &err);
        assert_true(*looked - masked <= (uint64_t)QN_SET_TABLE_WORK * QN_WORDS_A_STACK + QN_STEP_WORDS + 2 * each);
        assert_true(status == QN_OK || status == QN_USAGE);
        unknown += status == QN_USAGE;
        if (status == QN_OK && at < 2) {
            mask_rig_fill(m, &v, slow, &exhausted);
            assert_memory_equal(mask, slow, sizeof mask);
        }
        before = m->store.joint.looked;
        if (qn_matcher_bytes(m, text + at, 1) < 1)
            break;
        assert_true(m->store.joint.looked - before <= QN_STEP_WORDS + 2 * each);
    }
    assert_in_range(at, 4, sizeof text - 2); /* some readings are followed, and then they are too much */
    assert_true(qn_matcher_exhausted(m));
    assert_true(unknown > 0);
    qn_matcher_free(m);
    qn_mask_cache_free(cache);
    qn_vocabulary_trie_free(trie);
    qn_grammar_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_groups_as_one_and_side_by_side),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_what_never_ends_is_left_out),
        cmocka_unit_test(test_groups_in_their_own_items),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_kept_answers_are_those_of_their_place),
        cmocka_unit_test(test_places_in_turn_are_looked_through_once),
        cmocka_unit_test(test_looking_through_groups_is_bounded_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
