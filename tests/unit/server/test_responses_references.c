#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/fault.h"
#include "base/json.h"
#include "server/responses_references.h"
#include "unit/server/api_texts.h"

#define STEM "0123456789abcdef0123456789abcdef"

enum { ALICE, BOB };

static qn_stored_text text_of(const char *text)
{
    return (qn_stored_text){.text = text, .bytes = strlen(text)};
}

/* A response of Alice's with an item of input and one of output. */
static int open_store(void **state)
{
    qn_response_store *store = NULL;
    qn_error err;
    qn_response_store_new(1 << 16, &store, &err);
    static const char body[] = "{\"output\":[{\"id\":\"msg_" STEM
                               "0000\",\"role\":\"assistant\",\"content\":\"out\"}]}";
    qn_stored_response *opened = qn_response_store_open(
        store, ALICE, "resp_" STEM, NULL,
        text_of("[{\"id\":\"msg_" STEM "i0000\",\"role\":\"user\",\"content\":\"in\"},{\"id\":\"mine\"}]"));
    bool kept = qn_response_store_keep(store, opened, text_of(body), 10, sizeof body - 1 - 11);
    *state = store;
    return kept ? 0 : -1;
}

static int close_store(void **state)
{
    qn_response_store_free(*state);
    return 0;
}

static void test_items_take_the_place_of_references(void **state)
{
    json_t *input = quoted_json("[{'role':'user','content':'a'},{'type':'item_reference','id':'msg_" STEM "0000'},"
                                "{'type':'item_reference','id':'msg_" STEM "i0000'}]");
    json_t *wanted = quoted_json("[{'role':'user','content':'a'},"
                                 "{'id':'msg_" STEM "0000','role':'assistant','content':'out'},"
                                 "{'id':'msg_" STEM "i0000','role':'user','content':'in'}]");
    qn_references references;
    bool unknown = true;
    qn_error err;
    json_t *out = NULL;
    assert_true(qn_references_has(input));
    assert_false(qn_references_has(wanted));
    assert_int_equal(qn_references_find(*state, ALICE, input, &references, &unknown, &err), QN_OK);
    assert_false(unknown);
    assert_int_equal(references.count, 2);
    assert_true(references.cost > 0);
    qn_response_store_delete(*state, ALICE, "resp_" STEM); /* they are held */
    assert_int_equal(qn_references_read(&references, input, &out, &err), QN_OK);
    assert_true(json_equal(out, wanted));
    json_decref(out);
    json_decref(wanted);
    json_decref(input);
    qn_references_free(&references);
}

static void assert_unknown(qn_response_store *store, long owner, const char *id)
{
    json_t *input = json_pack("[{s:s, s:s}]", "type", "item_reference", "id", id);
    qn_references references;
    bool unknown = false;
    qn_error err;
    if (qn_references_find(store, owner, input, &references, &unknown, &err) != QN_USAGE || !unknown) {
        fail_msg("%s is known", id);
    }
    assert_string_equal(err.field, "input");
    qn_references_free(&references);
    json_decref(input);
}

static void test_what_is_unknown(void **state)
{
    assert_unknown(*state, BOB, "msg_" STEM "0000");
    assert_unknown(NULL, ALICE, "msg_" STEM "0000");
    assert_unknown(*state, ALICE, "msg_" STEM "0001");
    assert_unknown(*state, ALICE, "msg_" STEM);
    assert_unknown(*state, ALICE,
                   "msg_00000000000000000000000000000000"
                   "0000");
    assert_unknown(*state, ALICE, "mine");
    assert_unknown(*state, ALICE, "");
    assert_unknown(*state, ALICE, "_");
    assert_unknown(*state, ALICE, "resp_" STEM);
}

static void test_short_of_memory(void **state)
{
    json_t *input = quoted_json("[{'role':'user','content':'a'},{'type':'item_reference','id':'msg_" STEM "0000'}]");
    qn_status status = QN_RESOURCE;
    for (long nth = 1; status != QN_OK; nth++) {
        qn_references references;
        bool unknown = false;
        qn_error err;
        json_t *out = NULL;
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        status = qn_references_find(*state, ALICE, input, &references, &unknown, &err);
        if (status == QN_OK) {
            status = qn_references_read(&references, input, &out, &err);
        }
        qn_fault_disarm();
        assert_true(status == QN_OK || status == QN_RESOURCE);
        qn_references_free(&references);
        json_decref(out);
    }
    json_decref(input);
}

int main(void)
{
    qn_json_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_items_take_the_place_of_references, open_store, close_store),
        cmocka_unit_test_setup_teardown(test_what_is_unknown, open_store, close_store),
        cmocka_unit_test_setup_teardown(test_short_of_memory, open_store, close_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
