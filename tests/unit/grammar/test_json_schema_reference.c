#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "unit/grammar/schema_check.h"

static void test_resources(void **state)
{
    (void)state;
    static const schema_example examples[] = {
        {"{\"$id\":\"http://h/a/b.json\",\"$ref\":\"c.json\",\"$defs\":{\"x\":{\"$id\":\"c.json\",\"$ref\":\"#/$defs/"
         "y\","
         "\"$defs\":{\"y\":{\"type\":\"null\"}}}}}",
         {"null"},
         {"1"}},
        {"{\"$id\":\"http://h/a/b.json\",\"$defs\":{\"x\":{\"$id\":\"d/e.json\",\"properties\":{\"p\":{\"$ref\":\"../"
         "f.json\"}},"
         "\"required\":[\"p\"],\"type\":\"object\"},\"f\":{\"$id\":\"/a/f.json\",\"type\":\"null\"}},\"$ref\":"
         "\"http://h/a/d/e.json\"}",
         {"{\"p\":null}"},
         {"{\"p\":1}", "{}"}},
        {"{\"$id\":\"urn:a:b\",\"properties\":{\"p\":{\"$ref\":\"urn:a:b#/$defs/"
         "n\"}},\"$defs\":{\"n\":{\"type\":\"null\"}},"
         "\"type\":\"object\"}",
         {"{\"p\":null}"},
         {"{\"p\":1}"}},
        {"{\"$defs\":{\"x\":{\"$id\":\"x\",\"$defs\":{\"n\":{\"$anchor\":\"here\",\"type\":\"null\"}}},\"n\":{\"$"
         "anchor\":"
         "\"here\",\"type\":\"string\"}},\"anyOf\":[{\"$ref\":\"x#here\"},{\"$ref\":\"#here\"}]}",
         {"null", "\"\""},
         {"1"}},
        {"{\"$dynamicRef\":\"#n\",\"$defs\":{\"a\":{\"$dynamicAnchor\":\"n\",\"type\":\"null\"}}}", {"null"}, {"1"}},
        {"{\"enum\":[{\"$id\":\"x\",\"type\":\"null\"},1],\"$defs\":{\"x\":{\"$id\":\"x\",\"type\":\"integer\"}},\"$"
         "ref\":"
         "\"x\"}",
         {"1"},
         {"null"}},
    };
    SCHEMA_CHECK(examples);
}

static void test_uris(void **state)
{
    (void)state;
    static const char *const uris[][3] = {
        /* base, reference, what it comes to: RFC 3986, section 5.4 */
        {"http://a/b/c/d;p?q", "g:h", "g:h"},
        {"http://a/b/c/d;p?q", "g", "http://a/b/c/g"},
        {"http://a/b/c/d;p?q", "./g", "http://a/b/c/g"},
        {"http://a/b/c/d;p?q", "g/", "http://a/b/c/g/"},
        {"http://a/b/c/d;p?q", "/g", "http://a/g"},
        {"http://a/b/c/d;p?q", "//g", "http://g"},
        {"http://a/b/c/d;p?q", "g?y", "http://a/b/c/g?y"},
        {"http://a/b/c/d;p?q", ".", "http://a/b/c/"},
        {"http://a/b/c/d;p?q", "..", "http://a/b/"},
        {"http://a/b/c/d;p?q", "../g", "http://a/b/g"},
        {"http://a/b/c/d;p?q", "../../g", "http://a/g"},
        {"http://a/b/c/d;p?q", "../../../g", "http://a/g"},
        {"http://a/b/c/d;p?q", "/./g", "http://a/g"},
        {"http://a/b/c/d;p?q", "g;x=1/../y", "http://a/b/c/y"},
        {"http://a", "g", "http://a/g"},
        {"", "g", "g"},
    };
    for (size_t i = 0; i < sizeof uris / sizeof *uris; i++) {
        char text[400];
        snprintf(text, sizeof text,
                 "{\"$id\":\"%s\",\"$ref\":\"%s\",\"$defs\":{\"x\":{\"$id\":\"%s\",\"type\":\"null\"}}}", uris[i][0],
                 uris[i][1], uris[i][2]);
        if (uris[i][0][0] == '\0')
            snprintf(text, sizeof text, "{\"$ref\":\"%s\",\"$defs\":{\"x\":{\"$id\":\"%s\",\"type\":\"null\"}}}",
                     uris[i][1], uris[i][2]);
        schema_check_example(&(schema_example){text, {"null"}, {"1"}}, QN_SCHEMA_JSON, false);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    static const schema_refusal refusals[] = {
        {"{\"$ref\":\"http://x/y\"}", "schema: /$ref: \"http://x/y\" cannot be resolved"},
        {"{\"$id\":\"http://x/\",\"$ref\":\"y\",\"$defs\":{\"y\":{\"$id\":\"http://z/y\"}}}",
         "\"y\" cannot be resolved"},
        {"{\"$id\":\"http://x/y\",\"$ref\":\"#a\",\"$defs\":{\"a\":{\"$id\":\"z\",\"$anchor\":\"a\"}}}",
         "no $anchor \"a\""},
        {"{\"$dynamicRef\":\"#n\",\"$defs\":{\"a\":{\"$id\":\"x\",\"$dynamicAnchor\":\"n\"}}}",
         "schema: /$dynamicRef: cannot be enforced in a document with several"},
        {"{\"$ref\":\"x\",\"default\":{\"$id\":\"x\"}}", "\"x\" cannot be resolved"},
        {"{\"$ref\":\"x\",\"$defs\":{\"a\":{\"$id\":\"x\",\"$ref\":\"x\"}}}", "leads back to itself"},
    };
    SCHEMA_CHECK_REFUSALS(refusals);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resources),
        cmocka_unit_test(test_uris),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, schema_init_json, NULL);
}
