/* Finding a checkpoint's template, and dressing conversations for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/memory.h"
#include "text/chat.h"

static char folder[] = "/tmp/quern-test-chat-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static void write_file(const char *name, const char *text)
{
    char *path = qn_path_join(folder, name);
    qn_error err;
    if (qn_file_write(path, text, strlen(text), &err) != QN_OK)
        fail_msg("%s", err.message);
    qn_free(path);
}

static void remove_file(const char *name)
{
    char *path = qn_path_join(folder, name);
    unlink(path);
    qn_free(path);
}

static int empty_folder(void **state)
{
    (void)state;
    remove_file("chat_template.jinja");
    remove_file("tokenizer_config.json");
    remove_file("other.jinja");
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static qn_chat *open_chat(const char *template_name)
{
    qn_chat *chat = NULL;
    qn_error err;
    char *path = template_name ? qn_path_join(folder, template_name) : NULL;
    if (qn_chat_open(folder, path, &chat, &err) != QN_OK)
        fail_msg("%s", err.message);
    qn_free(path);
    return chat;
}

/* Renders messages, tools and kwargs given as JSON; NULL for none. */
static qn_status render(const qn_chat *chat, const char *messages_text, const char *tools_text, const char *kwargs_text,
                        qn_buffer *text, qn_span_list *spans, qn_error *err)
{
    json_t *messages = json_loads(messages_text, 0, NULL), *before = json_deep_copy(messages);
    json_t *tools = tools_text ? json_loads(tools_text, 0, NULL) : NULL;
    json_t *kwargs = kwargs_text ? json_loads(kwargs_text, 0, NULL) : NULL;
    qn_status status = qn_chat_render(chat, messages, tools, kwargs, true, text, spans, err);
    assert_true(json_equal(messages, before)); /* what the caller gave is only read */
    json_decref(before);
    json_decref(messages);
    json_decref(tools);
    json_decref(kwargs);
    return status;
}

static void expect(const qn_chat *chat, const char *messages, const char *tools, const char *kwargs,
                   const char *expected)
{
    qn_buffer text = {0};
    qn_error err;
    if (render(chat, messages, tools, kwargs, &text, NULL, &err) != QN_OK)
        fail_msg("%s", err.message);
    assert_string_equal(qn_buffer_string(&text), expected);
    qn_buffer_free(&text);
}

static void expect_failure(const qn_chat *chat, const char *messages, const char *kwargs, const char *field,
                           const char *message)
{
    qn_buffer text = {0};
    qn_error err;
    assert_int_equal(render(chat, messages, NULL, kwargs, &text, NULL, &err), QN_USAGE);
    assert_string_equal(err.field, field);
    if (!strstr(err.message, message))
        fail_msg("%s", err.message);
    assert_int_equal(text.size, 0);
    qn_buffer_free(&text);
}

static void shipped_model(void **state)
{
    (void)state;
    qn_chat *chat = NULL;
    qn_error err;
    qn_buffer text = {0};
    qn_span_list spans = {0};
    assert_int_equal(qn_chat_open("models/quern-tiny", NULL, &chat, &err), QN_OK);
    assert_int_equal(render(chat, "[{\"role\": \"user\", \"content\": \"<|user|>\"}]", NULL, NULL, &text, &spans, &err),
                     QN_OK);
    static const char before[] = "[gMASK]<sop><|system|>Reasoning Effort: Max<|user|>";
    assert_string_equal(text.data, "[gMASK]<sop><|system|>Reasoning Effort: Max<|user|><|user|><|assistant|><think>");
    assert_int_equal(spans.count, 1);
    assert_int_equal(spans.items[0].start, strlen(before));
    assert_int_equal(spans.items[0].end, strlen(before) + 8);
    assert_true(qn_chat_reads(chat, "clear_thinking"));
    assert_true(qn_chat_reads(chat, "messages"));
    assert_false(qn_chat_reads(chat, "documents"));
    qn_buffer_free(&text);
    qn_span_list_free(&spans);
    qn_chat_free(chat);
    qn_chat_free(NULL);
}

static void template_is_found(void **state)
{
    (void)state;
    qn_chat *chat;
    write_file("tokenizer_config.json", "{\"chat_template\": \"config {{ bos_token }}\", \"bos_token\": \"<s>\"}");
    chat = open_chat(NULL);
    expect(chat, "[]", NULL, NULL, "config <s>");
    qn_chat_free(chat);

    write_file("tokenizer_config.json", "{\"chat_template\": [{\"name\": \"rag\", \"template\": \"rag\"},"
                                        " {\"name\": \"default\", \"template\": \"list\"}]}");
    chat = open_chat(NULL);
    expect(chat, "[]", NULL, NULL, "list");
    qn_chat_free(chat);

    write_file("chat_template.jinja", "file");
    write_file("other.jinja", "other");
    chat = open_chat(NULL);
    expect(chat, "[]", NULL, NULL, "file");
    qn_chat_free(chat);
    chat = open_chat("other.jinja");
    expect(chat, "[]", NULL, NULL, "other");
    qn_chat_free(chat);

    remove_file("tokenizer_config.json");
    chat = open_chat(NULL);
    expect(chat, "[]", NULL, NULL, "file");
    qn_chat_free(chat);
}

static void expect_no_chat(const char *message)
{
    qn_chat *chat = NULL;
    qn_error err;
    assert_int_equal(qn_chat_open(folder, NULL, &chat, &err), QN_BAD_INPUT);
    if (!strstr(err.message, message))
        fail_msg("%s", err.message);
    assert_null(chat);
}

static void bad_directories_are_refused(void **state)
{
    (void)state;
    expect_no_chat("no chat template: name one with --chat-template");
    write_file("tokenizer_config.json", "{\"chat_template\": [{\"name\": \"rag\", \"template\": \"rag\"}, 5]}");
    expect_no_chat("no chat template");
    write_file("tokenizer_config.json", "{\"chat_template\": \"{% if %}\"}");
    expect_no_chat("chat_template of tokenizer_config.json line 1, column 7");
    write_file("tokenizer_config.json", "[]");
    expect_no_chat("must be a JSON object, not array");
    write_file("tokenizer_config.json", "{");
    expect_no_chat("invalid JSON");
    remove_file("tokenizer_config.json");
    write_file("chat_template.jinja", "a\n{{ b | nofilter }}");
    expect_no_chat("chat_template.jinja line 2, column 8: no filter named 'nofilter'");
}

static void special_tokens_are_variables(void **state)
{
    (void)state;
    write_file(
        "tokenizer_config.json",
        "{\"bos_token\": \"<s>\", \"eos_token\": {\"content\": \"</s>\", \"lstrip\": false}, \"pad_token\": null,"
        " \"unk_token\": 5, \"additional_special_tokens\": [\"<a>\", {\"content\": \"<b>\"}]}");
    write_file("chat_template.jinja",
               "{{ bos_token }}{{ eos_token }}{{ pad_token is defined }}{{ unk_token is defined }}"
               "{{ additional_special_tokens }}");
    qn_chat *chat = open_chat(NULL);
    qn_buffer text = {0};
    qn_span_list spans = {0};
    qn_error err;
    assert_int_equal(render(chat, "[]", NULL, NULL, &text, &spans, &err), QN_OK);
    assert_string_equal(text.data, "<s></s>FalseFalse['<a>', '<b>']");
    assert_int_equal(spans.count, 0);
    qn_buffer_free(&text);
    qn_span_list_free(&spans);
    qn_chat_free(chat);
}

static void variables_of_a_request(void **state)
{
    (void)state;
    write_file("chat_template.jinja",
               "{{ messages | length }}{{ tools }}{{ documents }}{{ add_generation_prompt }}{{ extra }}");
    qn_chat *chat = open_chat(NULL);
    expect(chat, "[{}]", NULL, NULL, "1NoneNoneTrue");
    expect(chat, "[{}]", "[{\"name\": \"f\"}]", "{\"extra\": 5, \"documents\": []}", "1[{'name': 'f'}][]True5");
    expect_failure(chat, "[]", "{\"messages\": []}", "chat_template_kwargs", "chat_template_kwargs.messages");
    expect_failure(chat, "[]", "{\"add_generation_prompt\": false}", "chat_template_kwargs", "leave it out");
    expect_failure(chat, "[]", "[]", "chat_template_kwargs", "must be an object, not array");
    expect_failure(chat, "{}", NULL, "messages", "must be an array");
    qn_chat_free(chat);
}

static void arguments_of_calls_are_parsed(void **state)
{
    (void)state;
    write_file("chat_template.jinja",
               "{% for m in messages %}{% for c in m.tool_calls or [] %}{% set f = c.function or c %}"
               "{{ c.id }}{{ f.name }}{{ f.arguments }};{% endfor %}{% endfor %}"
               "{{ raise_exception('refused') if messages | length > 5 }}");
    qn_chat *chat = open_chat(NULL);
    expect(
        chat,
        "[{\"role\": \"assistant\", \"tool_calls\": [{\"id\": 1, \"function\": {\"name\": \"f\", \"arguments\": "
        "\"{\\\"a\\\": "
        "[1, 12345678901234567890]}\"}}, {\"function\": {\"name\": \"g\", \"arguments\": {\"b\": 2}}}]},"
        " {\"tool_calls\": [{\"function\": {\"name\": \"h\", \"arguments\": \"\"}}, {\"function\": {\"name\": \"i\"}},"
        " {\"function\": {\"name\": \"j\", \"arguments\": null}}, {\"name\": \"k\"}, 5]}, {\"tool_calls\": null}, 7]",
        NULL, NULL, "1f{'a': [1, 12345678901234567890]};g{'b': 2};h{};i{};j{};k;;");
    static const char broken[] =
        "[{}, {\"tool_calls\": [{\"function\": {\"arguments\": {}}}, {\"function\": {\"arguments\": "
        "\"{a}\"}}]}]";
    static const char number[] = "[{\"tool_calls\": [{\"function\": {\"arguments\": \"[1]\"}}]}]";
    expect_failure(chat, broken, NULL, "messages", "messages[1].tool_calls[1].function.arguments: not JSON:");
    expect_failure(chat, number, NULL, "messages",
                   "messages[0].tool_calls[0].function.arguments: must be the text of a JSON object, not of array");
    expect_failure(chat, "[1, 2, 3, 4, 5, 6]", NULL, "messages", "refused");
    qn_chat_free(chat);
}

static void failed_allocations_are_told(void **state)
{
    (void)state;
    write_file("tokenizer_config.json", "{\"bos_token\": \"<s>\", \"additional_special_tokens\": [\"<a>\"]}");
    write_file("chat_template.jinja", "{{ messages }}{{ tools }}{{ x }}");
    json_t *messages = json_loads(
        "[{\"tool_calls\": [{\"function\": {\"arguments\": \"{\\\"a\\\": 12345678901234567890}\"}}, 1]}]", 0, NULL);
    json_t *tools = json_loads("[1]", 0, NULL), *kwargs = json_loads("{\"x\": 5}", 0, NULL);
    for (long nth = 1;; ++nth) {
        qn_chat *chat = NULL;
        qn_buffer text = {0};
        qn_span_list spans = {0};
        qn_error err;
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        qn_status status = qn_chat_open(folder, NULL, &chat, &err);
        if (status == QN_OK)
            status = qn_chat_render(chat, messages, tools, kwargs, true, &text, &spans, &err);
        bool reached = qn_fault_seen(QN_FAULT_ALLOC) >= nth;
        qn_fault_disarm();
        assert_int_equal(status, reached ? QN_RESOURCE : QN_OK);
        qn_chat_free(chat);
        qn_buffer_free(&text);
        qn_span_list_free(&spans);
        if (!reached)
            break;
    }
    json_decref(messages);
    json_decref(tools);
    json_decref(kwargs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shipped_model),
        cmocka_unit_test_teardown(template_is_found, empty_folder),
        cmocka_unit_test_teardown(bad_directories_are_refused, empty_folder),
        cmocka_unit_test_teardown(special_tokens_are_variables, empty_folder),
        cmocka_unit_test_teardown(variables_of_a_request, empty_folder),
        cmocka_unit_test_teardown(arguments_of_calls_are_parsed, empty_folder),
        cmocka_unit_test_teardown(failed_allocations_are_told, empty_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
