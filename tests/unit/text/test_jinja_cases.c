/* Every template case renders to what transformers' Jinja2 renders, byte for byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/memory.h"
#include "template_cases.h"
#include "unit/shared_files.h"

static void check(const char *path, const qn_template *t)
{
    size_t count, differing = template_cases_differ(path, t, &count);
    printf("%s: %zu cases\n", path, count);
    assert_int_equal(differing, 0);
    assert_true(count > 0);
}

static void small_templates(void **state)
{
    (void)state;
    check("tests/data/chat_template/jinja.jsonl", NULL);
    check("tests/data/chat_template/own.jsonl", NULL); /* tools/make_template_cases.py */
}

static void own_model(void **state)
{
    (void)state;
    qn_template *t = template_from_file("models/quern-tiny/chat_template.jinja");
    check("tests/data/chat_template/quern-tiny.jsonl", t);
    qn_template_free(t);
}

static void released_models(void **state)
{
    (void)state;
    static const char *const names[][2] = {
        {"cases/chat_template/glm-5.3.jinja", "cases/chat_template/glm-5.3.jsonl"},
        {"cases/chat_template/glm-4.6.jinja", "cases/chat_template/glm-4.6.jsonl"},
        {"cases/chat_template/glm-4.7-flash.jinja", "cases/chat_template/glm-4.7-flash.jsonl"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
        char *source = shared_file(names[i][0]), *cases = shared_file(names[i][1]);
        if (source && cases) {
            qn_template *t = template_from_file(source);
            check(cases, t);
            qn_template_free(t);
        }
        qn_free(source);
        qn_free(cases);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_templates),
        cmocka_unit_test(own_model),
        cmocka_unit_test(released_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
