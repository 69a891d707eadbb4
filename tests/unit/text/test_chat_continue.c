#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "text/chat_continue.h"

typedef struct rendered {
    qn_buffer text;
    qn_span_list spans;
} rendered;

/* Text in brackets came from the request; the brackets are left out. */
static rendered render(const char *marked)
{
    rendered r = {.text = {0}};
    size_t start = 0;
    for (; *marked != '\0'; marked++) {
        if (*marked == '[') {
            start = r.text.size;
        } else if (*marked == ']') {
            assert_true(qn_span_list_add(&r.spans, start, r.text.size));
        } else {
            qn_buffer_char(&r.text, *marked);
        }
    }
    return r;
}

static qn_status cut(rendered *r, const char *messages, qn_error *err)
{
    json_t *list = json_loads(messages, 0, NULL);
    assert_non_null(list);
    qn_status status = qn_chat_cut_after_final(list, &r->text, &r->spans, err);
    json_decref(list);
    return status;
}

static void assert_cut(const char *marked, const char *messages, const char *expected, size_t span_count)
{
    rendered r = render(marked);
    qn_error err;
    assert_int_equal(cut(&r, messages, &err), QN_OK);
    assert_string_equal(qn_buffer_string(&r.text), expected);
    assert_int_equal(r.text.size, strlen(expected));
    assert_int_equal(r.spans.count, span_count);
    if (span_count > 0) {
        assert_true(r.spans.items[span_count - 1].end <= r.text.size);
    }
    qn_buffer_free(&r.text);
    qn_span_list_free(&r.spans);
}

#define FINAL(content) "[{\"role\":\"user\",\"content\":\"e\"},{\"role\":\"assistant\",\"content\":\"" content "\"}]"

static void test_cuts_after_the_requests_last_text(void **state)
{
    (void)state;
    assert_cut("<u>[Hi]<a>[Sure]<end>", FINAL("Sure"), "<u>Hi<a>Sure", 2);
    assert_cut("<u>[e]<a>[e]<end>", FINAL("e"), "<u>e<a>e", 2);       /* not the one in <end> */
    assert_cut("<u>[e]<a>[e]<end>[tail]", FINAL("e"), "<u>e<a>e", 2); /* a span behind it goes */
    assert_cut("<a>[x Sure x]<end>", FINAL("Sure"), "<a>x Sure", 1);  /* a span is cut */
}

static void test_white_space_is_as_the_template_has_it(void **state)
{
    (void)state;
    assert_cut("<a>[Sure]<end>", FINAL(" Sure \\n"), "<a>Sure", 1); /* trimmed */
    assert_cut("<a>[ Sure \n]<end>", FINAL(" Sure \\n"), "<a> Sure \n", 1);
    assert_cut("<a>[Sure ]<end>", FINAL("Sure \\n"), "<a>Sure ", 1);
}

static void test_what_can_not_be_continued_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "[]",
        "[{\"role\":\"user\",\"content\":\"Sure\"}]",
        "[{\"role\":\"assistant\",\"content\":null}]",
        "[{\"role\":\"assistant\"}]",
        FINAL(""),
        FINAL(" \\n"),
        FINAL("Sure thing"),
        FINAL("end"), /* the template's own */
        "[{\"role\":\"assistant\",\"content\":\"Sure\",\"tool_calls\":[{}]}]",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        rendered r = render("<a>[Sure]<end>");
        qn_error err;
        assert_int_equal(cut(&r, bad[i], &err), QN_USAGE);
        assert_string_equal(err.field, "continue_final_message");
        qn_buffer_free(&r.text);
        qn_span_list_free(&r.spans);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuts_after_the_requests_last_text),
        cmocka_unit_test(test_white_space_is_as_the_template_has_it),
        cmocka_unit_test(test_what_can_not_be_continued_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
