#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "small_tokenizer.h"

static void test_merges_in_order_of_rank(void **state)
{
    (void)state;
    qn_tokenizer *t = small_open(&(small_spec){.tokens = "\"ab\":256,\"bc\":257,\"abc\":258,\"aa\":259,\"aaaa\":260",
                                               .merges = "[\"b c\",\"a b\",\"a bc\",\"ab c\",\"a a\",\"aa aa\"]"});
    assert_string_equal(small_ids(t, "abc", 3), "258"); /* bc first, then a + bc */
    assert_string_equal(small_ids(t, "ab", 2), "256");
    assert_string_equal(small_ids(t, "abab", 4), "256 256");
    assert_string_equal(small_ids(t, "aaa", 3), "259 97"); /* the leftmost of equals */
    assert_string_equal(small_ids(t, "aaaaaa", 6), "260 259");
    assert_string_equal(small_ids(t, "aab", 3), "97 256"); /* a b has the lower rank */
    qn_tokenizer_free(t);
}

static void test_a_pair_that_comes_again_takes_its_later_place(void **state)
{
    (void)state;
    static const char tokens[] = "\"ab\":256,\"bc\":257";
    qn_tokenizer *t = small_open(&(small_spec){.tokens = tokens, .merges = "[\"a b\",\"b c\"]"});
    assert_string_equal(small_ids(t, "abc", 3), "256 99");
    qn_tokenizer_free(t);
    t = small_open(&(small_spec){.tokens = tokens, .merges = "[\"a b\",\"b c\",\"a b\"]"});
    assert_string_equal(small_ids(t, "abc", 3), "97 257");
    qn_tokenizer_free(t);
}

static void test_ignore_merges_takes_whole_pieces(void **state)
{
    (void)state;
    small_spec spec = {.tokens = "\"ab\":256,\"abc\":257", .merges = "[\"a b\"]"};
    qn_tokenizer *t = small_open(&spec);
    assert_string_equal(small_ids(t, "abc", 3), "256 99"); /* no merge leads there */
    qn_tokenizer_free(t);
    spec.model = "\"ignore_merges\":true";
    t = small_open(&spec);
    assert_string_equal(small_ids(t, "abc", 3), "257");
    assert_string_equal(small_ids(t, "abcd", 4), "256 99 100");
    qn_tokenizer_free(t);
}

static void test_merges_of_no_use(void **state)
{
    (void)state;
    static const char tokens[] = "\"ab\":256";
    small_refused(&(small_spec){.tokens = tokens, .merges = "[\"a c\"]"}, "merge 0: \"ac\"");
    small_refused(&(small_spec){.tokens = tokens, .merges = "[\"a b\",\"x! yz\"]"}, "merge 1: \"x!\"");
    small_refused(&(small_spec){.tokens = tokens, .merges = "[\"a yz\"]"}, "\"yz\"");
    small_refused(&(small_spec){.tokens = "\"\":256,\"aa\":257", .merges = "[[\"\",\"a\"]]"}, "empty");
}

/* ---- against the definition ---- */

enum { LETTERS = 3, MOST_TOKENS = 40, MOST_MERGES = 60, LONGEST_TEXT = 40 };

typedef struct model {
    char tokens[MOST_TOKENS][32]; /* the first LETTERS are single letters */
    int count;
    int merges[MOST_MERGES][3]; /* left, right, joined */
    int merge_count;
} model;

static uint32_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

static int find_token(const model *m, const char *text)
{
    for (int i = 0; i < m->count; i++) {
        if (strcmp(m->tokens[i], text) == 0)
            return i;
    }
    return -1;
}

/* Random merges of tokens that exist, so that tokens are reached by several ways. */
static void make_model(model *m, uint64_t *seed)
{
    m->merge_count = 0;
    for (m->count = 0; m->count < LETTERS; m->count++)
        snprintf(m->tokens[m->count], sizeof m->tokens[0], "%c", 'a' + m->count);
    for (int i = 0; i < MOST_MERGES; i++) {
        int left = (int)(next_random(seed) % (uint32_t)m->count), right = (int)(next_random(seed) % (uint32_t)m->count);
        char joined[64];
        snprintf(joined, sizeof joined, "%s%s", m->tokens[left], m->tokens[right]);
        int id = find_token(m, joined);
        bool known = false;
        for (int k = 0; k < m->merge_count; k++)
            known = known || (m->merges[k][0] == left && m->merges[k][1] == right);
        if (known || strlen(joined) > 12 || (id < 0 && m->count == MOST_TOKENS))
            continue;
        if (id < 0) {
            id = m->count++;
            memcpy(m->tokens[id], joined, strlen(joined) + 1);
        }
        int *merge = m->merges[m->merge_count++];
        merge[0] = left;
        merge[1] = right;
        merge[2] = id;
    }
}

/* The definition, word for word: the pair of the lowest rank, the leftmost of equals, until there is none. */
static int merge_slowly(const model *m, int *ids, int count)
{
    for (;;) {
        int best = m->merge_count, at = 0;
        for (int i = 0; i + 1 < count; i++) {
            for (int k = 0; k < best; k++) {
                if (m->merges[k][0] == ids[i] && m->merges[k][1] == ids[i + 1]) {
                    best = k;
                    at = i;
                }
            }
        }
        if (best == m->merge_count)
            return count;
        ids[at] = m->merges[best][2];
        memmove(ids + at + 1, ids + at + 2, (size_t)(count - at - 2) * sizeof *ids);
        count--;
    }
}

/* Token i of the model has id 'a' + i when it is a letter, else 256 + i - LETTERS. */
static int file_id(int token)
{
    return token < LETTERS ? 'a' + token : 256 + token - LETTERS;
}

static qn_tokenizer *open_model(const model *m)
{
    qn_buffer tokens = {0}, merges = {0};
    for (int i = LETTERS; i < m->count; i++)
        qn_buffer_format(&tokens, "%s\"%s\":%d", i > LETTERS ? "," : "", m->tokens[i], file_id(i));
    qn_buffer_char(&merges, '[');
    for (int k = 0; k < m->merge_count; k++)
        qn_buffer_format(&merges, "%s[\"%s\",\"%s\"]", k ? "," : "", m->tokens[m->merges[k][0]],
                         m->tokens[m->merges[k][1]]);
    qn_buffer_char(&merges, ']');
    qn_tokenizer *t = small_open(&(small_spec){.tokens = tokens.data, .merges = merges.data});
    qn_buffer_free(&tokens);
    qn_buffer_free(&merges);
    return t;
}

static void test_random_models_follow_the_definition(void **state)
{
    (void)state;
    uint64_t seed = (uint64_t)time(NULL);
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 60; round++) {
        static model m;
        make_model(&m, &seed);
        qn_tokenizer *t = open_model(&m);
        for (int k = 0; k < 60; k++) {
            int ids[LONGEST_TEXT], count = 1 + (int)(next_random(&seed) % LONGEST_TEXT);
            char text[LONGEST_TEXT + 1], expected[LONGEST_TEXT * 5] = "";
            for (int i = 0; i < count; i++) {
                ids[i] = (int)(next_random(&seed) % (k % 4 == 0 ? 1 : LETTERS));
                text[i] = (char)('a' + ids[i]);
            }
            text[count] = '\0';
            int left = merge_slowly(&m, ids, count);
            for (int i = 0, at = 0; i < left; i++)
                at += snprintf(expected + at, sizeof expected - (size_t)at, i ? " %d" : "%d", file_id(ids[i]));
            assert_string_equal(small_ids(t, text, (size_t)count), expected);
        }
        qn_tokenizer_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merges_in_order_of_rank),
        cmocka_unit_test(test_a_pair_that_comes_again_takes_its_later_place),
        cmocka_unit_test(test_ignore_merges_takes_whole_pieces),
        cmocka_unit_test(test_merges_of_no_use),
        cmocka_unit_test(test_random_models_follow_the_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
