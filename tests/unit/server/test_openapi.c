#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "server/anthropic_request.h"
#include "server/openai_chat.h"
#include "server/openai_completion.h"
#include "server/openapi.h"
#include "server/responses_request.h"
#include "server/server_internal.h"

static int load(void **state)
{
    json_t *document = NULL;
    qn_error err;
    assert_int_equal(qn_json_parse(qn_openapi_text, qn_openapi_bytes, "openapi.json", &document, &err), QN_OK);
    *state = document;
    return 0;
}

static int unload(void **state)
{
    json_decref(*state);
    return 0;
}

/* The member of the document that a reference like #/components/schemas/Error leads to. */
static const json_t *follow(const json_t *document, const char *reference)
{
    char path[128];
    assert_true(strncmp(reference, "#/", 2) == 0 && strlen(reference) < sizeof path);
    strcpy(path, reference + 2);
    const json_t *at = document;
    for (char *rest = NULL, *name = strtok_r(path, "/", &rest); name != NULL; name = strtok_r(NULL, "/", &rest)) {
        at = json_object_get(at, name);
    }
    if (at == NULL) {
        fail_msg("%s leads nowhere", reference);
    }
    return at;
}

static void check_references(const json_t *document, const json_t *value)
{
    const char *reference = json_string_value(json_object_get(value, "$ref"));
    if (reference != NULL) {
        follow(document, reference);
    }
    const char *name;
    json_t *member;
    json_object_foreach((json_t *)(uintptr_t)value, name, member)
    {
        check_references(document, member);
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        check_references(document, json_array_get(value, i));
    }
}

static void test_it_is_of_this_version_and_refers_to_what_it_has(void **state)
{
    const json_t *document = *state;
    assert_string_equal(json_string_value(json_object_get(document, "openapi")), "3.1.0");
    const json_t *info = json_object_get(document, "info");
    assert_string_equal(json_string_value(json_object_get(info, "version")), QUERN_VERSION);
    check_references(document, document);
}

/* ---- paths ---- */

/* What follows a prefix route's path is a part in braces, and what the route has below it. */
static bool is_documented_as(const qn_http_route *route, const char *path, const char *method)
{
    size_t bytes = route->prefix ? strcspn(path, "{") : strlen(path);
    const char *behind = strchr(path, '}') != NULL ? strchr(path, '}') + 1 : "";
    return bytes == strlen(route->path) && strncmp(route->path, path, bytes) == 0 &&
           (path[bytes] == '{') == route->prefix && strcmp(behind, route->below != NULL ? route->below : "") == 0 &&
           strcasecmp(route->method, method) == 0;
}

static void test_its_operations_are_the_routes(void **state)
{
    size_t count, operations = 0;
    const qn_http_route *routes = qn_server_routes(&count);
    bool *seen = calloc(count, sizeof *seen);
    assert_non_null(seen);
    const char *path, *method;
    json_t *item, *operation;
    json_object_foreach(json_object_get(*state, "paths"), path, item)
    {
        json_object_foreach(item, method, operation)
        {
            size_t at = 0;
            while (at < count && !is_documented_as(&routes[at], path, method)) {
                at++;
            }
            if (at == count) {
                fail_msg("%s %s is no route", method, path);
            }
            const json_t *security = json_object_get(operation, "security");
            assert_int_equal(security != NULL && json_array_size(security) == 0, routes[at].open);
            seen[at] = true;
            operations++;
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (!seen[i]) {
            fail_msg("%s %s is missing", routes[i].method, routes[i].path);
        }
    }
    assert_int_equal(operations, count);
    free(seen);
}

/* ---- bodies ---- */

/* Adds the properties of a schema and of all that it is put together from. */
static void collect(const json_t *document, const json_t *schema, json_t *properties)
{
    const char *reference = json_string_value(json_object_get(schema, "$ref"));
    if (reference != NULL) {
        collect(document, follow(document, reference), properties);
    }
    const json_t *parts = json_object_get(schema, "allOf");
    for (size_t i = 0; i < json_array_size(parts); i++) {
        collect(document, json_array_get(parts, i), properties);
    }
    json_t *own = json_object_get(schema, "properties");
    assert_int_equal(own == NULL ? 0 : json_object_update(properties, own), 0);
}

static void check_neutral(const char *body, const qn_field *field, const json_t *schema)
{
    const json_t *values = json_object_get(schema, "enum");
    bool good;
    if (field->neutral == NULL) {
        const char *type = json_string_value(json_object_get(schema, "type"));
        good = type != NULL && strcmp(type, "null") == 0;
    } else if (strcmp(field->neutral, "[]") == 0) {
        const json_t *most = json_object_get(schema, "maxItems");
        good = json_is_integer(most) && json_integer_value(most) == 0;
    } else {
        json_t *neutral = json_loads(field->neutral, JSON_DECODE_ANY, NULL);
        good = json_array_size(values) == 2 && json_equal(json_array_get(values, 0), neutral) &&
               json_is_null(json_array_get(values, 1));
        json_decref(neutral);
    }
    if (!good) {
        fail_msg("%s: %s: only %s and null are accepted", body, field->name,
                 field->neutral == NULL ? "nothing" : field->neutral);
    }
}

/* Takes the table's fields off the properties. */
static void check_table(const char *body, const qn_field_table *table, json_t *properties)
{
    for (size_t i = 0; i < table->count; i++) {
        const qn_field *field = &table->fields[i];
        const json_t *schema = json_object_get(properties, field->name);
        if (schema == NULL) {
            fail_msg("%s: %s is read and not documented, or is in two tables", body, field->name);
        }
        if (field->rule == QN_FIELD_NEUTRAL) {
            check_neutral(body, field, schema);
        }
        json_object_del(properties, field->name);
    }
    for (size_t i = 0; table->also != NULL && table->also[i] != NULL; i++) {
        assert_null(table->also[i]->also);
        check_table(body, table->also[i], properties);
    }
}

static void check_body(const json_t *document, const char *body, const qn_field_table *table)
{
    char reference[128];
    snprintf(reference, sizeof reference, "#/components/schemas/%s", body);
    json_t *properties = json_object();
    collect(document, follow(document, reference), properties);
    check_table(body, table, properties);
    const char *name = json_object_iter_key(json_object_iter(properties));
    if (name != NULL) {
        fail_msg("%s: %s is documented and not read", body, name);
    }
    json_decref(properties);
}

static void test_its_bodies_have_the_fields_that_are_read(void **state)
{
    check_body(*state, "ChatCompletionRequest", &qn_chat_fields);
    check_body(*state, "CompletionRequest", &qn_completion_fields);
    check_body(*state, "ResponsesRequest", &qn_responses_fields);
    check_body(*state, "MessagesRequest", &qn_anthropic_fields);
    check_body(*state, "CountTokensRequest", &qn_anthropic_fields);
    check_body(*state, "TokenizeRequest", &qn_tokenize_fields);
    check_body(*state, "DetokenizeRequest", &qn_detokenize_fields);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_of_this_version_and_refers_to_what_it_has),
        cmocka_unit_test(test_its_operations_are_the_routes),
        cmocka_unit_test(test_its_bodies_have_the_fields_that_are_read),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
