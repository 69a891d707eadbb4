/* A request's tools: what is refused, by place, and how parameters are typed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/fault.h"
#include "base/json.h"
#include "text/tool_list.h"

static json_t *parse(const char *text)
{
    json_t *value = NULL;
    qn_error err;
    if (qn_json_parse(text, strlen(text), "test", &value, &err) != QN_OK) {
        fail_msg("%s", err.message);
    }
    return value;
}

/* One function with these parameters. */
static qn_status make(const char *parameters, qn_tool_list **out, qn_error *err)
{
    qn_buffer text = {0};
    qn_buffer_format(&text, "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":%s}}]", parameters);
    json_t *tools = parse(qn_buffer_string(&text));
    qn_status status = qn_tool_list_new(tools, out, err);
    json_decref(tools);
    qn_buffer_free(&text);
    return status;
}

static void refuses_with_the_place(void **state)
{
    (void)state;
    static const struct {
        const char *tools, *place;
    } cases[] = {
        {"{}", "tools: object"},
        {"[]", "tools: there are none"},
        {"[1]", "tools[0].type"},
        {"[{\"type\":\"web_search\"}]", "tools[0].type"},
        {"[{\"type\":\"function\"}]", "tools[0].function:"},
        {"[{\"type\":\"function\",\"function\":{}}]", "tools[0].function.name"},
        {"[{\"type\":\"function\",\"function\":{\"name\":\"\"}}]", "tools[0].function.name"},
        {"[{\"type\":\"function\",\"function\":{\"name\":\"a b<\"}}]", "tools[0].function.name"},
        {"[{\"type\":\"function\",\"function\":{\"name\":\"a\\u0000\"}}]", "tools[0].function.name"},
        {"[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":1}}]", "tools[0].function.description"},
        {"[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"strict\":1}}]", "tools[0].function.strict"},
        {"[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":[]}}]", "tools[0].function.parameters: "},
        {"[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"objekt\"}}}]",
         "tools[0].function.parameters: type: objekt"},
        {"[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":[]}}}]",
         "tools[0].function.parameters: properties"},
        {"[{\"type\":\"function\",\"function\":{\"name\":\"f\"}},{\"type\":\"function\",\"function\":{\"name\":\"f\"}}"
         "]",
         "tools[1].function.name: f is there twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *tools = parse(cases[i].tools);
        qn_tool_list *list;
        qn_error err;
        assert_int_equal(qn_tool_list_new(tools, &list, &err), QN_USAGE);
        assert_string_equal(err.field, "tools");
        if (strncmp(err.message, cases[i].place, strlen(cases[i].place)) != 0) {
            fail_msg("%s: %s", cases[i].tools, err.message);
        }
        json_decref(tools);
    }
}

static void refuses_bad_schemas(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *place;
    } cases[] = {
        {"1", "properties.a: integer"},
        {"{\"type\":\"text\"}", "properties.a: type: text"},
        {"{\"type\":[\"string\",1]}", "properties.a: type: integer"},
        {"{\"enum\":1}", "properties.a: enum"},
        {"{\"anyOf\":{}}", "properties.a: anyOf"},
        {"{\"anyOf\":[{},{\"type\":\"x\"}]}", "properties.a: anyOf: [1]: type: x"},
        {"{\"allOf\":[{\"oneOf\":[3]}]}", "properties.a: allOf: [0]: oneOf: [0]: integer"},
        {"{\"$ref\":\"#/properties/a\"}", "properties.a: $ref: $ref"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qn_buffer text = {0};
        qn_tool_list *list;
        qn_error err;
        qn_buffer_format(&text, "{\"properties\":{\"a\":%s}}", cases[i].schema);
        assert_int_equal(make(qn_buffer_string(&text), &list, &err), QN_USAGE);
        if (strstr(err.message, cases[i].place) == NULL) {
            fail_msg("%s: %s", cases[i].schema, err.message);
        }
        qn_buffer_free(&text);
    }
}

/* Schemas that double at each level are refused, not followed. */
static void hostile_schemas_are_bounded(void **state)
{
    (void)state;
    qn_buffer text = {0};
    qn_tool_list *list;
    qn_error err;
    qn_buffer_text(&text, "{\"properties\":{\"a\":{\"$ref\":\"#/$defs/d0\"}},\"$defs\":{");
    for (int i = 0; i < 30; i++) {
        qn_buffer_format(&text, "\"d%d\":{\"anyOf\":[{\"$ref\":\"#/$defs/d%d\"},{\"$ref\":\"#/$defs/d%d\"}]},", i,
                         i + 1, i + 1);
    }
    qn_buffer_text(&text, "\"d30\":{}}}");
    assert_int_equal(make(qn_buffer_string(&text), &list, &err), QN_USAGE);
    qn_buffer_clear(&text);
    qn_buffer_text(&text, "{\"properties\":{\"a\":{\"enum\":[0");
    for (int i = 1; i < 1000; i++) {
        qn_buffer_format(&text, ",%d", i);
    }
    qn_buffer_text(&text, "],\"anyOf\":[{\"$ref\":\"#/properties/b\"}]},\"b\":{\"enum\":[0");
    for (int i = 1; i < 1000; i++) {
        qn_buffer_format(&text, ",%d", i);
    }
    qn_buffer_text(&text, "]}}}");
    assert_int_equal(make(qn_buffer_string(&text), &list, &err), QN_USAGE);
    assert_non_null(strstr(err.message, "too large"));
    qn_buffer_free(&text);
}

typedef struct typed {
    const char *schema, *text;
    bool json;
} typed;

static const char definitions[] = "\"$defs\":{\"t\":{\"type\":\"string\"},\"a/b~\":{\"type\":\"integer\"},"
                                  "\"l\":[{\"const\":\"x\"}]}";

static void check_typed(const typed *t)
{
    qn_buffer text = {0};
    qn_tool_list *list;
    qn_error err;
    bool json;
    qn_buffer_format(&text, "{\"type\":\"object\",\"properties\":{\"p\":%s},%s}", t->schema, definitions);
    if (make(qn_buffer_string(&text), &list, &err) != QN_OK) {
        fail_msg("%s: %s", t->schema, err.message);
    }
    const qn_argument_type *type = qn_tool_argument_type(qn_tool_list_at(list, 0), "p", 1);
    assert_non_null(type);
    assert_int_equal(qn_argument_is_json(type, t->text, strlen(t->text), &json, &err), QN_OK);
    if (json != t->json) {
        fail_msg("%s: %s", t->schema, t->text);
    }
    qn_tool_list_free(list);
    qn_buffer_free(&text);
}

static void types_decide(void **state)
{
    (void)state;
    static const typed cases[] = {
        {"{}", "1", true},
        {"true", "1", true},
        {"false", "1", true},
        {"{}", "one", false},
        {"{\"description\":\"d\"}", "{\"a\":1}", true},
        {"{\"type\":\"string\"}", "1", false},
        {"{\"type\":\"integer\"}", "1", true},
        {"{\"type\":\"integer\"}", "12345678901234567890123", true},
        {"{\"type\":\"number\"}", "1e400", false},
        {"{\"type\":\"number\"}", "NaN", false},
        {"{\"type\":\"boolean\"}", "True", false},
        {"{\"type\":[\"string\",\"null\"]}", "null", true},
        {"{\"type\":[\"string\",\"null\"]}", "1", false},
        {"{\"type\":\"string\",\"nullable\":true}", "null", true},
        {"{\"type\":\"string\",\"nullable\":false}", "null", false},
        {"{\"type\":[\"string\",\"integer\"]}", "1", false},
        {"{\"type\":[\"string\",\"integer\"]}", "null", false},
        {"{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}", "null", true},
        {"{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"number\"}]}", "1", false},
        {"{\"oneOf\":[{\"type\":\"object\"},{\"type\":\"number\"}]}", "1", true},
        {"{\"anyOf\":[{\"type\":\"string\"},{}]}", "1", true},
        {"{\"allOf\":[{\"type\":\"string\"},{\"minLength\":1}]}", "1", false},
        {"{\"allOf\":[{\"type\":[\"string\",\"integer\"]},{\"type\":\"integer\"}]}", "1", true},
        {"{\"$ref\":\"#/$defs/t\"}", "1", false},
        {"{\"$ref\":\"#/$defs/a~1b~0\"}", "1", true},
        {"{\"$ref\":\"#/$defs/l/0\"}", "1", false},
        {"{\"$ref\":\"#/$defs/nowhere\"}", "1", true},
        {"{\"$ref\":\"http://example.com\"}", "1", true},
        {"{\"enum\":[\"1\",\"2\"]}", "1", false},
        {"{\"enum\":[\"1\",\"2\"],\"type\":\"string\"}", "5", false},
        {"{\"enum\":[1,\"1\",null]}", "1", false},
        {"{\"enum\":[1,\"1\",null]}", "null", true},
        {"{\"enum\":[1,\"1\",null]}", "2", false},
        {"{\"enum\":[1,2,\"auto\"]}", "2", true},
        {"{\"enum\":[1,2,\"auto\"]}", "2.0", true},
        {"{\"enum\":[1,2.0,\"auto\"]}", "2", true},
        {"{\"enum\":[1,2,\"auto\"]}", "2.5", false},
        {"{\"enum\":[[1,{\"a\":2}],\"auto\"]}", "[1.0, {\"a\": 2}]", true},
        {"{\"enum\":[[1,{\"a\":2}],\"auto\"]}", "[1.0, {\"a\": 2, \"b\": 0}]", false},
        {"{\"enum\":[[1],\"auto\"]}", "[1, 1]", false},
        {"{\"anyOf\":[{\"type\":\"integer\"},{\"enum\":[\"auto\"]}]}", "2.0", true},
        {"{\"anyOf\":[{\"type\":\"integer\"},{\"enum\":[\"auto\"]}]}", "2.5", false},
        {"{\"enum\":[1,2,\"auto\"]}", "auto", false},
        {"{\"enum\":[1,2,\"auto\"],\"type\":\"integer\"}", "auto", false},
        {"{\"enum\":[\"a\",null]}", "null", true},
        {"{\"enum\":[\"null\",null]}", "null", false},
        {"{\"anyOf\":[{\"const\":\"auto\"},{\"type\":\"integer\"}]}", "7", true},
        {"{\"anyOf\":[{\"const\":\"auto\"},{\"type\":\"integer\"}]}", "7.5", false},
        {"{\"const\":true}", "true", true},
        {"{\"allOf\":[{\"enum\":[1,\"a\"]},{\"enum\":[\"a\",2]}]}", "1", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_typed(&cases[i]);
    }
}

static void finds_tools_and_parameters(void **state)
{
    (void)state;
    qn_tool_list *list;
    qn_error err;
    assert_int_equal(
        make("{\"$ref\":\"#/$defs/P\",\"$defs\":{\"P\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":"
             "\"string\"}},\"additionalProperties\":{\"type\":\"string\"}}}}",
             &list, &err),
        QN_OK);
    const qn_tool *f = qn_tool_list_find(list, "f", 1);
    assert_int_equal(qn_tool_list_count(list), 1);
    assert_ptr_equal(f, qn_tool_list_at(list, 0));
    assert_null(qn_tool_list_find(list, "ff", 2));
    assert_null(qn_tool_list_find(list, "", 0));
    assert_true(qn_tool_declares(f, "a", 1));
    assert_false(qn_tool_declares(f, "b", 1));
    assert_int_equal(qn_tool_argument_type(f, "b", 1)->kind, QN_ARGUMENT_STRING);
    assert_null(qn_tool_argument_type(NULL, "a", 1));
    qn_tool_list_free(list);

    json_t *tools = parse("[{\"type\":\"function\",\"function\":{\"name\":\"g.h-i_1\",\"strict\":true,"
                          "\"parameters\":null,\"description\":null}}]");
    assert_int_equal(qn_tool_list_new(tools, &list, &err), QN_OK);
    json_decref(tools);
    assert_string_equal(qn_tool_list_at(list, 0)->name, "g.h-i_1");
    assert_null(qn_tool_list_at(list, 0)->parameters);
    assert_null(qn_tool_argument_type(qn_tool_list_at(list, 0), "a", 1));
    qn_tool_list_free(list);
}

static qn_status list_of_a_name(size_t bytes, qn_error *err)
{
    char name[256], text[512];
    memset(name, 'a', bytes);
    name[bytes] = '\0';
    snprintf(text, sizeof text, "[{\"type\":\"function\",\"function\":{\"name\":\"%s\"}}]", name);
    json_t *tools = parse(text);
    qn_tool_list *list = NULL;
    qn_status status = qn_tool_list_new(tools, &list, err);
    qn_tool_list_free(list);
    json_decref(tools);
    return status;
}

static void names_are_bounded(void **state)
{
    (void)state;
    qn_error err;
    assert_int_equal(list_of_a_name(QN_TOOL_NAME_MAX_BYTES, &err), QN_OK);
    assert_int_equal(list_of_a_name(QN_TOOL_NAME_MAX_BYTES + 1, &err), QN_USAGE);
    assert_non_null(strstr(err.message, "tools[0].function.name: give 1 to 128"));
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    json_t *tools = parse(
        "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":{\"a\":{\"anyOf\":"
        "[{\"enum\":[1,\"x\"]},{\"const\":2}],\"allOf\":[{\"enum\":[1,2,\"x\"]}]},\"b\":{\"type\":\"string\"}},"
        "\"additionalProperties\":{\"type\":\"string\"}}}}]");
    bool done = false;
    for (long n = 1; !done; n++) {
        qn_tool_list *list = NULL;
        qn_error err;
        qn_fault_arm(QN_FAULT_ALLOC, n);
        qn_status status = qn_tool_list_new(tools, &list, &err);
        bool hit = qn_fault_seen(QN_FAULT_ALLOC) >= n;
        qn_fault_disarm();
        assert_int_equal(status, hit ? QN_RESOURCE : QN_OK);
        qn_tool_list_free(list);
        done = !hit;
        assert_true(!done || n > 10);
    }
    json_decref(tools);
}

static int start(void **state)
{
    (void)state;
    qn_json_init();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_with_the_place),      cmocka_unit_test(refuses_bad_schemas),
        cmocka_unit_test(hostile_schemas_are_bounded), cmocka_unit_test(types_decide),
        cmocka_unit_test(finds_tools_and_parameters),  cmocka_unit_test(names_are_bounded),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
