#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "unit/grammar/front_end.h"
#include "grammar/choice.h"

typedef const char *const texts[];

/* The text is the choices, a line each. */
static qn_status choice_front_end(qn_grammar_builder *b, const char *text, size_t bytes, qn_expr *out, qn_error *err)
{
    enum { MOST = 64 };
    const char *choices[MOST];
    char copy[1024];
    size_t count = 0;
    assert_true(bytes < sizeof copy);
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    for (char *at = copy, *end; at != NULL && count < MOST; at = end) {
        end = strchr(at, '\n');
        choices[count++] = at;
        if (end != NULL) {
            *end++ = '\0';
        }
    }
    *out = qn_choice_expr(b, choices, count);
    return qn_grammar_builder_status(b, err);
}

static void test_choices(void **state)
{
    (void)state;
    front_end_check(choice_front_end, "red\ngreen\nred-green\nred", (texts){"red", "green", "red-green", NULL},
                    (texts){"", "r", "blue", "red-", "greenred", NULL});
    front_end_check(choice_front_end, "\na\nab\nabc\nb", (texts){"", "a", "ab", "abc", "b", NULL},
                    (texts){"abcd", "bc", "c", NULL});
    front_end_check(choice_front_end, "abcx\nabcy\nabd\nae\nzz\nzy",
                    (texts){"abcx", "abcy", "abd", "ae", "zz", "zy", NULL}, (texts){"abc", "z", "abdx", NULL});
    front_end_check(choice_front_end, "é\nè\n你", (texts){"é", "è", "你", NULL}, (texts){"\xC3", "e", NULL});
    front_end_check(choice_front_end, "", (texts){"", NULL}, (texts){"a", NULL});
}

static qn_status no_choice(qn_grammar_builder *b, const char *text, size_t bytes, qn_expr *out, qn_error *err)
{
    (void)text;
    (void)bytes;
    *out = qn_choice_expr(b, NULL, 0);
    return qn_grammar_builder_status(b, err);
}

static void test_no_choice(void **state)
{
    (void)state;
    front_end_refuses(no_choice, "", "no text can match");
}

/* Each a beginning of the next, and numbers that share theirs. */
static void test_many(void **state)
{
    (void)state;
    enum { COUNT = 10000, LONGEST = 2000 };
    char **choices = qn_alloc(COUNT, sizeof *choices);
    qn_grammar_builder *b = NULL;
    qn_grammar *grammar = NULL;
    qn_error err;
    assert_non_null(choices);
    for (size_t i = 0; i < COUNT; i++) {
        choices[i] = qn_alloc_zero(LONGEST + 16, 1);
        assert_non_null(choices[i]);
        if (i < LONGEST) {
            memset(choices[i], 'a', i + 1);
        } else {
            snprintf(choices[i], 16, "%zu", i * 7919);
        }
    }
    assert_int_equal(qn_grammar_builder_new(&b, &err), QN_OK);
    qn_expr root = qn_choice_expr(b, (const char *const *)choices, COUNT);
    if (qn_grammar_build(b, root, &grammar, &err) != QN_OK) {
        fail_msg("%s", err.message);
    }
    for (size_t i = 0; i < COUNT; i += i < LONGEST ? 97 : 13) {
        assert_true(grammar_matches(grammar, choices[i], strlen(choices[i])));
        strcat(choices[i], "b");
        assert_false(grammar_matches(grammar, choices[i], strlen(choices[i])));
    }
    qn_grammar_free(grammar);
    qn_grammar_builder_free(b);
    for (size_t i = 0; i < COUNT; i++) {
        qn_free(choices[i]);
    }
    qn_free(choices);
}

static void test_no_memory(void **state)
{
    (void)state;
    front_end_walks_faults(choice_front_end, "abcx\nabcy\nabd\nae\nzz\nzy\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_no_choice),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
