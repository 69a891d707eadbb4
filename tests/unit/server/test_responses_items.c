#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/fault.h"
#include "base/json.h"
#include "base/memory.h"
#include "server/responses_input.h"
#include "server/responses_items.h"
#include "unit/server/api_texts.h"

static const char conversation[] =
    "[{'role':'developer','content':'a\\u0000b'},{'type':'message','role':'user','content':[{'type':'input_text',"
    "'text':']}'},{'type':'text','text':'\\\\'}],'id':'not an id'},"
    "{'type':'reasoning','id':'rs_1','summary':[{'type':'summary_text','text':'s'}],'content':[{'type':"
    "'reasoning_text','text':'t'}],'encrypted_content':'secret'},"
    "{'role':'assistant','content':'x'},{'type':'function_call','call_id':'c','name':'f','arguments':'{}'},"
    "{'type':'function_call_output','call_id':'c','output':'y'},"
    "{'type':'function_call_output','call_id':'d','output':[{'type':'input_text','text':'z'}]}]";

static qn_stored_text text_of(const qn_buffer *buffer)
{
    return (qn_stored_text){.text = qn_buffer_string(buffer), .bytes = buffer->size};
}

static json_t *messages_of(const json_t *history, const json_t *input)
{
    json_t *messages = json_array();
    qn_unknown_fields unknown = {0};
    qn_error err;
    if (qn_responses_input_translate(history, input, messages, &unknown, &err) != QN_OK) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(unknown.total, 0);
    return messages;
}

static void test_kept_items_say_what_was_sent(void **state)
{
    (void)state;
    static const char *const inputs[] = {conversation, "'Hi'", "[{'role':'user','content':''}]"};
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
        json_t *input = quoted_json(inputs[i]), *kept = NULL;
        qn_buffer out = {0};
        qn_error err;
        qn_responses_items_write(input, "resp_0123456789abcdef0123456789abcdef", &out);
        assert_null(strstr(qn_buffer_string(&out), "secret"));
        qn_stored_text array = text_of(&out);
        assert_int_equal(qn_responses_items_parse(&array, 1, &kept, &err), QN_OK);
        json_t *sent = messages_of(NULL, input), *again = messages_of(NULL, kept);
        assert_true(json_equal(sent, again));
        json_t *next = quoted_json("[{'role':'user','content':'next'}]"), *continued = messages_of(kept, next);
        assert_int_equal(json_array_size(continued), json_array_size(sent) + 1);
        json_decref(continued);
        json_decref(next);
        json_decref(again);
        json_decref(sent);
        json_decref(kept);
        json_decref(input);
        qn_buffer_free(&out);
    }
}

static void test_items_are_walked_without_being_parsed(void **state)
{
    (void)state;
    json_t *input = quoted_json(conversation), *all = NULL;
    qn_buffer out = {0};
    qn_error err;
    qn_responses_items_write(input, "resp_0123456789abcdef0123456789abcdef", &out);
    qn_stored_text array = text_of(&out), item, id;
    assert_int_equal(qn_responses_items_parse(&array, 1, &all, &err), QN_OK);
    size_t at = 0, count = 0;
    while (qn_responses_items_next(array, &at, &item, &id)) {
        json_t *one = json_loadb(item.text, item.bytes, JSON_ALLOW_NUL, NULL);
        assert_true(json_equal(one, json_array_get(all, count)));
        const char *told = json_string_value(json_object_get(one, "id"));
        assert_int_equal(id.bytes, strlen(told));
        assert_memory_equal(id.text, told, id.bytes);
        json_decref(one);
        count++;
    }
    assert_int_equal(count, json_array_size(input));
    at = 0;
    assert_false(qn_responses_items_next((qn_stored_text){.text = "[]", .bytes = 2}, &at, &item, &id));
    json_decref(all);
    json_decref(input);
    qn_buffer_free(&out);
}

static qn_stored_response *keep(qn_response_store *store, const char *id, qn_stored_response *previous)
{
    static const char input[] = "[{\"id\":\"i\",\"role\":\"user\",\"content\":\"a\"}]";
    static const char body[] = "{\"output\":[{\"id\":\"o\",\"role\":\"assistant\",\"content\":\"b\"}]}";
    qn_stored_response *opened = qn_response_store_open(store, -1, id, previous,
                                                        (qn_stored_text){.text = input, .bytes = strlen(input)});
    assert_non_null(opened);
    assert_true(qn_response_store_keep(store, opened, (qn_stored_text){.text = body, .bytes = strlen(body)}, 10,
                                       strlen(body) - 11));
    return qn_response_store_get(store, -1, id);
}

static void test_a_conversation_from_its_beginning(void **state)
{
    (void)state;
    qn_response_store *store = NULL;
    qn_error err;
    assert_int_equal(qn_response_store_new(1 << 16, &store, &err), QN_OK);
    qn_stored_response *first = keep(store, "resp_1", NULL), *second = keep(store, "resp_2", first);
    qn_stored_text *arrays = NULL;
    size_t count = 0;
    assert_int_equal(qn_responses_items_before(second, &arrays, &count, &err), QN_OK);
    assert_int_equal(count, 4);
    json_t *all = NULL;
    assert_int_equal(qn_responses_items_parse(arrays, count, &all, &err), QN_OK);
    json_t *wanted = quoted_json("[{'id':'i','role':'user','content':'a'},{'id':'o','role':'assistant','content':'b'},"
                                 "{'id':'i','role':'user','content':'a'},{'id':'o','role':'assistant','content':'b'}]");
    assert_true(json_equal(all, wanted));
    json_decref(wanted);
    json_decref(all);
    qn_free(arrays);
    assert_int_equal(qn_responses_items_before(NULL, &arrays, &count, &err), QN_OK);
    assert_int_equal(count, 0);
    qn_free(arrays);
    qn_fault_arm(QN_FAULT_ALLOC, 1);
    assert_int_equal(qn_responses_items_before(second, &arrays, &count, &err), QN_RESOURCE);
    qn_fault_disarm();
    qn_response_store_release(store, first);
    qn_response_store_release(store, second);
    qn_response_store_free(store);
}

static void test_short_of_memory(void **state)
{
    (void)state;
    qn_buffer out = {0};
    json_t *input = quoted_json(conversation);
    qn_responses_items_write(input, "resp_0123456789abcdef0123456789abcdef", &out);
    qn_stored_text array = text_of(&out);
    qn_status status = QN_RESOURCE;
    for (long nth = 1; status != QN_OK; nth++) {
        json_t *all = NULL;
        qn_error err;
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        status = qn_responses_items_parse(&array, 1, &all, &err);
        qn_fault_disarm();
        assert_true(status == QN_OK || status == QN_RESOURCE);
        json_decref(all);
    }
    json_decref(input);
    qn_buffer_free(&out);
}

int main(void)
{
    qn_json_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept_items_say_what_was_sent),
        cmocka_unit_test(test_items_are_walked_without_being_parsed),
        cmocka_unit_test(test_a_conversation_from_its_beginning),
        cmocka_unit_test(test_short_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
