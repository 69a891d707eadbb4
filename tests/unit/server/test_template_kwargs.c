#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "server/template_kwargs.h"
#include "unit/server/api_texts.h"

static void assert_read(const char *body, const char *defaults, const char *expected)
{
    json_t *document = quoted_json(body), *below = defaults != NULL ? quoted_json(defaults) : NULL;
    json_t *wanted = quoted_json(expected), *kwargs = NULL;
    qn_error err;
    assert_int_equal(qn_template_kwargs_read(document, below, &kwargs, &err), QN_OK);
    assert_true(json_equal(kwargs, wanted));
    json_decref(kwargs);
    json_decref(wanted);
    json_decref(below);
    json_decref(document);
}

static void requests_come_over_defaults(void **state)
{
    (void)state;
    assert_read("{}", NULL, "{}");
    assert_read("{}", "{'a':1}", "{'a':1}");
    assert_read("{'chat_template_kwargs':{'a':2,'b':3}}", "{'a':1,'c':4}", "{'a':2,'b':3,'c':4}");
    assert_read("{'reasoning_effort':'low'}", "{'reasoning_effort':'max'}", "{'reasoning_effort':'low'}");
    assert_read("{'reasoning_effort':'low','chat_template_kwargs':{'reasoning_effort':'low'}}", NULL,
                "{'reasoning_effort':'low'}");
    assert_read("{'reasoning_effort':null,'chat_template_kwargs':null}", NULL, "{}");
}

static void assert_refused(const char *body, const char *field, const char *part)
{
    json_t *document = quoted_json(body), *kwargs = NULL;
    qn_error err;
    assert_int_equal(qn_template_kwargs_read(document, NULL, &kwargs, &err), QN_USAGE);
    assert_null(kwargs);
    assert_error_is(body, &err, field, part);
    json_decref(document);
}

static void what_no_template_can_have_is_refused(void **state)
{
    (void)state;
    assert_refused("{'chat_template_kwargs':[]}", "chat_template_kwargs", "array given");
    assert_refused("{'chat_template_kwargs':{'tools':[]}}", "chat_template_kwargs", "set by the server");
    assert_refused("{'chat_template_kwargs':{'reasoning_effort':'huge'}}", "chat_template_kwargs",
                   "unknown effort huge");
    assert_refused("{'reasoning_effort':3}", "reasoning_effort", "unknown effort integer");
    assert_refused("{'reasoning_effort':'low','chat_template_kwargs':{'reasoning_effort':'max'}}", "reasoning_effort",
                   "chat_template_kwargs.reasoning_effort says otherwise");
}

static void assert_set(const char *body, const char *name, const char *value, const char *part)
{
    json_t *document = quoted_json(body), *kwargs = json_object();
    qn_error err;
    qn_status status = qn_template_kwargs_set(kwargs, document, "own", name, quoted_json(value), &err);
    if (part == NULL) {
        json_t *expected = quoted_json(value);
        assert_int_equal(status, QN_OK);
        assert_true(json_equal(json_object_get(kwargs, name), expected));
        json_decref(expected);
    } else {
        assert_int_equal(status, QN_USAGE);
        assert_int_equal(json_object_size(kwargs), 0);
        assert_error_is(body, &err, "own", part);
    }
    json_decref(kwargs);
    json_decref(document);
}

static void an_apis_own_field_says_the_same_or_is_refused(void **state)
{
    (void)state;
    assert_set("{}", "x", "true", NULL);
    assert_set("{'chat_template_kwargs':{'x':true}}", "x", "true", NULL);
    assert_set("{'chat_template_kwargs':{'x':true}}", "x", "false", "own: chat_template_kwargs.x says otherwise");
    assert_set("{'x':false}", "x", "true", NULL); /* no field of ours */
    json_t *kwargs = json_object();
    qn_error err;
    assert_int_equal(qn_template_kwargs_set(kwargs, NULL, "own", "x", NULL, &err), QN_RESOURCE);
    json_decref(kwargs);
}

static void every_word_of_the_apis_means_an_effort(void **state)
{
    (void)state;
    static const char *const words[][2] = {{"minimal", "low"}, {"low", "low"},   {"medium", "high"},
                                           {"high", "high"},   {"xhigh", "max"}, {"max", "max"}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        char body[64], expected[64];
        snprintf(body, sizeof body, "{'reasoning_effort':'%s'}", words[i][0]);
        snprintf(expected, sizeof expected, "{'reasoning_effort':'%s'}", words[i][1]);
        assert_read(body, NULL, expected);
    }
    assert_read("{'reasoning_effort':'none'}", NULL, "{'enable_thinking':false}");
    assert_read("{'reasoning_effort':'medium','chat_template_kwargs':{'reasoning_effort':'high'}}", NULL,
                "{'reasoning_effort':'high'}");
    assert_refused("{'reasoning_effort':'galactic'}", "reasoning_effort",
                   "unknown effort galactic: send none, minimal, low, medium, high, xhigh or max");
    assert_refused("{'reasoning_effort':'none','chat_template_kwargs':{'enable_thinking':true}}", "reasoning_effort",
                   "chat_template_kwargs.enable_thinking says otherwise");
    assert_refused("{'chat_template_kwargs':{'reasoning_effort':'medium'}}", "chat_template_kwargs",
                   "unknown effort medium: send low, high or max");
}

static void assert_effort(const char *body, const char *word, const char *expected, const char *part)
{
    json_t *document = quoted_json(body), *kwargs = json_object(), *effort = quoted_json(word);
    qn_error err;
    qn_status status = qn_template_effort_set(kwargs, document, "own", "own.effort", effort, &err);
    json_t *wanted = quoted_json(expected);
    assert_int_equal(status, part == NULL ? QN_OK : QN_USAGE);
    assert_true(json_equal(kwargs, wanted));
    if (part != NULL) {
        assert_error_is(body, &err, "own", part);
    }
    json_decref(wanted);
    json_decref(effort);
    json_decref(kwargs);
    json_decref(document);
}

static void an_apis_own_effort_says_the_same_or_is_refused(void **state)
{
    (void)state;
    assert_effort("{}", "'medium'", "{'reasoning_effort':'high'}", NULL);
    assert_effort("{'reasoning_effort':'high'}", "'medium'", "{'reasoning_effort':'high'}", NULL);
    assert_effort("{'reasoning_effort':'low'}", "'max'", "{}", "own: reasoning_effort says otherwise");
    assert_effort("{'reasoning_effort':'low'}", "'none'", "{}", "own: reasoning_effort says otherwise");
    assert_effort("{}", "'huge'", "{}", "own.effort: unknown effort huge");
    assert_effort("{}", "[]", "{}", "own.effort: unknown effort array");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_come_over_defaults),
        cmocka_unit_test(what_no_template_can_have_is_refused),
        cmocka_unit_test(an_apis_own_field_says_the_same_or_is_refused),
        cmocka_unit_test(every_word_of_the_apis_means_an_effort),
        cmocka_unit_test(an_apis_own_effort_says_the_same_or_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
