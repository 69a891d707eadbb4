#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "server/template_kwargs.h"
#include "unit/server/api_texts.h"

static qn_status read_all(const json_t *document, const json_t *defaults, qn_template_kwargs *out, qn_error *err)
{
    qn_unknown_fields unknown = {0};
    qn_status status = qn_template_kwargs_read(document, defaults, out, err);
    return status == QN_OK ? qn_template_thinking_read(document, out, &unknown, err) : status;
}

static void assert_read(const char *body, const char *defaults, const char *expected)
{
    json_t *document = quoted_json(body), *below = defaults != NULL ? quoted_json(defaults) : NULL;
    json_t *wanted = quoted_json(expected);
    qn_template_kwargs kwargs;
    qn_error err;
    if (read_all(document, below, &kwargs, &err) != QN_OK) {
        fail_msg("%s: %s", body, err.message);
    }
    if (!json_equal(kwargs.values, wanted)) {
        fail_msg("%s: %s", body, json_dumps(kwargs.values, 0));
    }
    qn_template_kwargs_free(&kwargs);
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
    json_t *document = quoted_json(body);
    qn_template_kwargs kwargs;
    qn_error err;
    if (read_all(document, NULL, &kwargs, &err) != QN_USAGE) {
        fail_msg("%s: accepted", body);
    }
    assert_error_is(body, &err, field, part);
    qn_template_kwargs_free(&kwargs);
    json_decref(document);
}

static void what_no_template_can_have_is_refused(void **state)
{
    (void)state;
    assert_refused("{'chat_template_kwargs':[]}", "chat_template_kwargs", "array given");
    assert_refused("{'chat_template_kwargs':{'tools':[]}}", "chat_template_kwargs", "set by the server");
    assert_refused("{'chat_template_kwargs':{'reasoning_effort':'huge'}}", "chat_template_kwargs",
                   "chat_template_kwargs.reasoning_effort: unknown effort huge");
    assert_refused("{'reasoning_effort':3}", "reasoning_effort", "unknown effort integer");
    assert_refused("{'reasoning_effort':'low','chat_template_kwargs':{'reasoning_effort':'max'}}", "reasoning_effort",
                   "chat_template_kwargs.reasoning_effort says otherwise");
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

/* An API's own field for an effort, read after the fields of all APIs. part: NULL where it is fine. */
static void assert_effort(const char *body, const char *word, qn_effort_of of, const char *expected, const char *part)
{
    json_t *document = quoted_json(body), *effort = quoted_json(word);
    qn_template_kwargs kwargs;
    qn_error err;
    if (read_all(document, NULL, &kwargs, &err) != QN_OK) {
        fail_msg("%s: %s", body, err.message);
    }
    qn_status status = qn_template_effort_set(&kwargs, "own", "own.effort", effort, of, &err);
    if (status != (part == NULL ? QN_OK : QN_USAGE)) {
        fail_msg("%s beside %s: status %d", word, body, status);
    }
    if (part != NULL) {
        assert_error_is(body, &err, "own", part);
    } else {
        json_t *wanted = quoted_json(expected);
        assert_true(json_equal(kwargs.values, wanted));
        json_decref(wanted);
    }
    qn_template_kwargs_free(&kwargs);
    json_decref(effort);
    json_decref(document);
}

static void an_apis_own_effort_says_the_same_or_is_refused(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        qn_effort_of of = (qn_effort_of)i;
        assert_effort("{}", "'medium'", of, "{'reasoning_effort':'high'}", NULL);
        assert_effort("{}", "'none'", of, "{'enable_thinking':false}", NULL);
        assert_effort("{'reasoning_effort':'high'}", "'medium'", of, "{'reasoning_effort':'high'}", NULL);
        assert_effort("{'reasoning_effort':'none'}", "'none'", of, "{'enable_thinking':false}", NULL);
        assert_effort("{'reasoning_effort':'low'}", "'max'", of, NULL, "own.effort: reasoning_effort says otherwise");
        assert_effort("{'reasoning_effort':'low'}", "'none'", of, NULL, "own.effort: reasoning_effort says otherwise");
        assert_effort("{'reasoning_effort':'none'}", "'low'", of, NULL, "own.effort: reasoning_effort says otherwise");
        assert_effort("{'chat_template_kwargs':{'reasoning_effort':'low'}}", "'max'", of, NULL,
                      "own.effort: chat_template_kwargs.reasoning_effort says otherwise");
        assert_effort("{'thinking':{'type':'enabled'}}", "'none'", of, NULL,
                      "own.effort: thinking.type says otherwise: send one of them");
        assert_effort("{}", "'huge'", of, NULL, "own.effort: unknown effort huge");
        assert_effort("{}", "[]", of, NULL, "own.effort: unknown effort array");
    }
}

static void an_effort_of_the_answer_goes_without_thoughts(void **state)
{
    (void)state;
    static const char off[] = "{'thinking':{'type':'disabled'}}";
    assert_effort(off, "'max'", QN_EFFORT_OF_ANSWER, "{'enable_thinking':false,'reasoning_effort':'max'}", NULL);
    assert_effort(off, "'max'", QN_EFFORT_OF_THOUGHTS, NULL, "own.effort: thinking.type says otherwise");
}

static void two_fields_that_contradict_are_both_named(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"'reasoning_effort':'none','chat_template_kwargs':{'reasoning_effort':'low'}", "reasoning_effort",
         "reasoning_effort: chat_template_kwargs.reasoning_effort says otherwise: send one of them"},
        {"'reasoning_effort':'none','chat_template_kwargs':{'enable_thinking':true}", "reasoning_effort",
         "reasoning_effort: chat_template_kwargs.enable_thinking says otherwise"},
        {"'reasoning_effort':'low','chat_template_kwargs':{'enable_thinking':false}", "reasoning_effort",
         "reasoning_effort: chat_template_kwargs.enable_thinking says otherwise"},
        {"'reasoning_effort':'low','chat_template_kwargs':{'enable_thinking':'no'}", "reasoning_effort",
         "reasoning_effort: chat_template_kwargs.enable_thinking says otherwise"},
        {"'thinking':{'type':'enabled'},'reasoning_effort':'none'", "thinking",
         "thinking.type: reasoning_effort says otherwise"},
        {"'thinking':{'type':'disabled'},'reasoning_effort':'max'", "thinking",
         "thinking.type: reasoning_effort says otherwise"},
        {"'thinking':{'type':'disabled'},'chat_template_kwargs':{'enable_thinking':true}", "thinking",
         "thinking.type: chat_template_kwargs.enable_thinking says otherwise"},
        {"'thinking':{'type':'enabled'},'chat_template_kwargs':{'enable_thinking':false}", "thinking",
         "thinking.type: chat_template_kwargs.enable_thinking says otherwise"},
        {"'thinking':{'type':'disabled'},'chat_template_kwargs':{'reasoning_effort':'low'}", "thinking",
         "thinking.type: chat_template_kwargs.reasoning_effort says otherwise"},
        {"'thinking':{'clear_thinking':true},'chat_template_kwargs':{'clear_thinking':false}", "thinking",
         "thinking.clear_thinking: chat_template_kwargs.clear_thinking says otherwise"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char body[256];
        snprintf(body, sizeof body, "{%s}", cases[i][0]);
        assert_refused(body, cases[i][1], cases[i][2]);
    }
}

static void thinking_is_what_its_type_says(void **state)
{
    (void)state;
    assert_read("{'thinking':{'type':'disabled'}}", NULL, "{'enable_thinking':false}");
    assert_read("{'thinking':{'type':'disabled'},'reasoning_effort':'none'}", NULL, "{'enable_thinking':false}");
    assert_read("{'thinking':{'type':'enabled'}}", NULL, "{}");
    assert_read("{'thinking':{'type':'enabled'}}", "{'enable_thinking':false}", "{'enable_thinking':true}");
    assert_read("{'reasoning_effort':'low'}", "{'enable_thinking':false}",
                "{'enable_thinking':true,'reasoning_effort':'low'}");
    assert_read("{'thinking':{'type':'enabled'},'reasoning_effort':'high'}", NULL, "{'reasoning_effort':'high'}");
    assert_read("{'thinking':{'type':'enabled','clear_thinking':false}}", "{'clear_thinking':true}",
                "{'clear_thinking':false}");
    assert_read("{'thinking':{'clear_thinking':true},'chat_template_kwargs':{'clear_thinking':true}}", NULL,
                "{'clear_thinking':true}");
    assert_read("{'thinking':{}}", NULL, "{}");
    assert_read("{'thinking':null}", NULL, "{}");
    assert_refused("{'thinking':true}", "thinking", "thinking: boolean given: send an object");
    assert_refused("{'thinking':{'type':'often'}}", "thinking", "thinking.type: often: send enabled or disabled");
    assert_refused("{'thinking':{'type':1}}", "thinking", "thinking.type: integer: send enabled or disabled");
    assert_refused("{'thinking':{'clear_thinking':1}}", "thinking",
                   "thinking.clear_thinking: integer given: send true");
    assert_refused("{'thinking':{'type':'enabled','budget_tokens':2048}}", "thinking", "send thinking_token_budget");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_come_over_defaults),
        cmocka_unit_test(what_no_template_can_have_is_refused),
        cmocka_unit_test(every_word_of_the_apis_means_an_effort),
        cmocka_unit_test(an_apis_own_effort_says_the_same_or_is_refused),
        cmocka_unit_test(an_effort_of_the_answer_goes_without_thoughts),
        cmocka_unit_test(two_fields_that_contradict_are_both_named),
        cmocka_unit_test(thinking_is_what_its_type_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
