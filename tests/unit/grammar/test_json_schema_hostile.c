#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/buffer.h"
#include "base/json_wide.h"
#include "grammar/grammar_internal.h"
#include "unit/grammar/schema_check.h"

/* Schemas that would be exponential if they were taken apart naively, or are plainly large: small grammars, or refused
 * with place and reason. What they cost is told by the size of the grammar, not by a clock. */
typedef struct hostile {
    /* then `each` for 0..count-1, %1 for the number, %0 for the one before, %h for 16 digits that look random; then
     * last */
    const char *first;
    const char *each;
    int count;
    const char *last;
    const char *message; /* of the refusal; NULL: it is compiled, */
    const char *word;    /* accepts this, */
    size_t states;       /* and has at most so many states */
} hostile;

static void write_each(qn_buffer *out, const char *each, int i)
{
    const char *from = each;
    for (; *each; each++) {
        if (*each == '%' && each[1] == 'h')
            qn_buffer_format(out, "%016llx",
                             (unsigned long long)(((unsigned)i * 64U + (unsigned)(each++ - from) + 1U) *
                                                  UINT64_C(0x9E3779B97F4A7C15)));
        else if (*each == '%' && (each[1] == '0' || each[1] == '1'))
            qn_buffer_format(out, "%d", i - (*++each == '0'));
        else
            qn_buffer_char(out, *each);
    }
}

static const hostile cases[] = {
    /* references that double */
    {"{\"$ref\":\"#/$defs/a40\",\"$defs\":{\"a0\":{\"type\":\"integer\"}",
     ",\"a%1\":{\"allOf\":[{\"$ref\":\"#/$defs/a%0\"},{\"$ref\":\"#/$defs/a%0\"}]}", 40, "}}", NULL, "12", 2000},
    {"{\"$ref\":\"#/$defs/a40\",\"$defs\":{\"a0\":{\"type\":\"integer\"}",
     ",\"a%1\":{\"anyOf\":[{\"$ref\":\"#/$defs/a%0\"},{\"$ref\":\"#/$defs/a%0\"}]}", 40, "}}", NULL, "12", 2000},
    {"{\"$ref\":\"#/$defs/a40\",\"$defs\":{\"a0\":{\"type\":\"integer\"}",
     ",\"a%1\":{\"type\":\"object\",\"properties\":{\"l\":{\"$ref\":\"#/$defs/a%0\"},\"r\":{\"$ref\":\"#/$defs/"
     "a%0\"}}}",
     40, "}}", NULL, "{\"l\":{\"r\":{}}}", 60000},
    {"{\"type\":\"integer\",\"$ref\":\"#/$defs/a40\",\"$defs\":{\"a0\":{\"type\":\"integer\"}",
     ",\"a%1\":{\"anyOf\":[{\"$ref\":\"#/$defs/a%0\"},{\"$ref\":\"#/$defs/a%0\"}]}", 40, "}}", "too many combinations",
     NULL, 0},
    {"{\"$ref\":\"#/$defs/a30\",\"$defs\":{\"a0\":{\"type\":\"integer\"}",
     ",\"a%1\":{\"oneOf\":[{\"$ref\":\"#/$defs/a%0\"},{\"$ref\":\"#/$defs/a%0\"}]}", 30, "}}",
     "/oneOf/0: too many combinations", NULL, 0},
    {"{\"$ref\":\"#/$defs/a30\",\"$defs\":{\"a0\":{\"type\":\"integer\"}",
     ",\"a%1\":{\"not\":{\"anyOf\":[{\"$ref\":\"#/$defs/a%0\"},{\"type\":\"null\",\"$ref\":\"#/$defs/a%0\"}]}}", 30,
     "}}", "too many combinations", NULL, 0},
    /* choices that multiply */
    {"{\"allOf\":[true", ",{\"anyOf\":[{\"minLength\":%1},{\"minItems\":%1},{\"required\":[\"a%1\"]}]}", 30, "]}",
     "/anyOf/2: too many combinations", NULL, 0},
    {"{\"type\":\"object\",\"allOf\":[true", ",{\"if\":{\"required\":[\"a%1\"]},\"then\":{\"required\":[\"b%1\"]}}", 30,
     "]}", ": too many combinations", NULL, 0},
    {"{\"type\":\"object\",\"dependentRequired\":{\"a\":[\"b\"]", ",\"a%1\":[\"b%1\"]", 40, "}}",
     "too many combinations", NULL, 0},
    {"{\"type\":\"object\",\"oneOf\":[{\"required\":[\"a\"]}", ",{\"required\":[\"a%1\"]}", 300, "]}",
     "too many combinations", NULL, 0},
    {"{\"oneOf\":[{\"const\":\"a\"}", ",{\"const\":\"a%1\"}", 1001, "]}", "/oneOf: cannot be enforced: more than 1000",
     NULL, 0},
    {"{\"oneOf\":[{\"const\":\"a\"}", ",{\"const\":\"a%1\",\"title\":\"t\"}", 400, "]}", NULL, "\"a399\"", 20000},
    {"{\"allOf\":[true", ",{\"anyOf\":[{\"title\":\"%1\"}]}", 600, "]}", "/anyOf: more than 300 choices that meet",
     NULL, 0},
    {"{\"allOf\":[true", ",{\"anyOf\":[{\"title\":\"%1\"}]}", 60000, "]}", "too many combinations", NULL, 0},
    /* depth */
    {"{\"$ref\":\"#/$defs/d149\",\"$defs\":{\"d-1\":{}",
     ",\"d%1\":{\"items\":{\"$ref\":\"#/$defs/"
     "d%0\"},\"allOf\":[{\"anyOf\":[true]},{\"anyOf\":[{}]},{\"anyOf\":[true]}]}",
     150, "}}", "more than 300 choices that meet", NULL, 0},
    {"", "{\"items\":", 500, "{}", NULL, "[[[3]]]", 60000},
    {"", "{\"not\":", 241, "{\"type\":\"null\"}", NULL, "12", 20000},
    {"{\"$ref\":\"#/$defs/d9999\",\"$defs\":{\"d-1\":{}", ",\"d%1\":{\"items\":{\"$ref\":\"#/$defs/d%0\"}}", 10000,
     "}}", "nested deeper than 512 levels", NULL, 0},
    {"{\"$ref\":\"#/$defs/d9999\",\"$defs\":{\"d-1\":{}", ",\"d%1\":{\"$ref\":\"#/$defs/d%0\"}", 10000, "}}",
     "/$ref: more than 1000 schemas that lead to each other", NULL, 0},
    {"{\"$ref\":\"#/$defs/d9999\",\"$defs\":{\"d-1\":{}", ",\"d%1\":{\"not\":{\"$ref\":\"#/$defs/d%0\"}}", 10000, "}}",
     "more than 1000 schemas that lead to each other", NULL, 0},
    /* lists */
    {"{\"enum\":[0", ",\"%1-value of some length\"", 100000, "]}", NULL, "\"99999-value of some length\"", 300000},
    {"{\"enum\":[0", ",\"\u00e9%1-\\\"value\\\"\"", 100000, "]}", NULL, "\"\u00e999999-\\\"value\\\"\"", 300000},
    {"{\"enum\":[0", ",\"\\u001f%1\\n\"", 30000, "]}", NULL, "\"\\u001f29999\\n\"", 100000},
    {"{\"enum\":[0", ",\"%h-%h\"", 100000, "]}", NULL, "0", 3200000},
    {"{\"enum\":[0", ",1%13%1.25", 100000, "]}", NULL, "1123431234.2500", 1000000},
    {"{\"enum\":[0", ",\"%h%h%h%h\"", 100000, "]}", "in which no other text of a choice shares", NULL, 0},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"enum\":[\"\u00e9\"", ",\"%1-value of some length\"", 100000,
     "]},\"b\":{\"type\":\"null\"}},\"required\":[\"a\"]}", NULL, "{\"b\":null,\"a\":\"\\u00E9\"}", 300000},
    {"{\"enum\":[\"x\"", ",%1", 100000, "]}", NULL, "99999", 300000},
    {"{\"enum\":[7", ",\"%1-value\"", 10000, "]}", NULL, "\"9999-value\"", 100000},
    {"{\"type\":\"string\",\"not\":{\"enum\":[0", ",\"%1-value\"", 20000, "]}}",
     "/not/enum: cannot be enforced: too large", NULL, 0},
    {"{\"type\":\"integer\",\"not\":{\"enum\":[0", ",%1", 3000, "]}}", "too large", NULL, 0},
    {"{\"type\":\"object\",\"propertyNames\":{\"enum\":[\"x\"", ",\"n%1\"", 100000, "]}}", "more than 512 properties",
     NULL, 0},
    {"{\"$ref\":\"#a\",\"$defs\":{\"x\":{\"$anchor\":\"a\",\"allOf\":[true", ",{\"$ref\":\"#a%1\",\"$anchor\":\"b%1\"}",
     3000, "]}}}", "no $anchor", NULL, 0},
    {"{\"allOf\":[true", ",{\"$ref\":\"#a%1\"},{\"$anchor\":\"a%1\"}", 3000, "]}", "too many references", NULL, 0},
    /* bounds */
    {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":1000000}", "", 0, "", NULL, NULL, 5000},
    {"{\"type\":\"array\",\"minItems\":10000000000}", "", 0, "", "/minItems: cannot be enforced: a lower bound", NULL,
     0},
    {"{\"type\":\"string\",\"maxLength\":1000000000000}", "", 0, "", NULL, "\"a\"", 5000},
    {"{\"type\":\"string\",\"maxLength\":1000000,\"pattern\":\"^[a-z]+$\"}", "", 0, "",
     "/pattern: cannot be enforced: too large", NULL, 0},
    {"{\"type\":\"array\",\"contains\":{\"const\":1},\"minContains\":5000}", "", 0, "",
     "/contains: cannot be enforced: the bounds", NULL, 0},
    /* patterns */
    {"{\"type\":\"string\",\"pattern\":\"^(((a{1000}){1000}){1000}){1000}$\"}", "", 0, "", NULL, NULL, 5000},
    {"{\"type\":\"string\",\"pattern\":\"^(a{1000}){1000}$\",\"minLength\":3}", "", 0, "",
     "/pattern: cannot be enforced: too large", NULL, 0},
    {"{\"type\":\"string\",\"pattern\":\"a{1000}{1000}\"}", "", 0, "", "/pattern: cannot be enforced: regex: byte 8",
     NULL, 0},
    {"{\"type\":\"string\",\"pattern\":\"a[ab]{400}$\",\"minLength\":3}", "", 0, "",
     "/pattern: cannot be enforced: too large to combine", NULL, 0},
    {"{\"type\":\"string\",\"pattern\":\"a[ab]{400}$\",\"not\":{\"pattern\":\"b\"}}", "", 0, "",
     "cannot be enforced: too large to combine", NULL, 0},
    {"{\"type\":\"object\",\"patternProperties\":{\"^b\":true", ",\"^x%1_\":{\"type\":\"integer\"}", 64, "}}",
     "/patternProperties: cannot be enforced", NULL, 0},
    /* numbers */
    {"{\"multipleOf\":1e-300}", "", 0, "", NULL, "3.00", 5000},
    {"{\"multipleOf\":1e300}", "", 0, "", "/multipleOf: cannot be enforced: too large", NULL, 0},
    {"{\"type\":\"integer\",\"allOf\":[true", ",{\"multipleOf\":1%13}", 40, "]}",
     "/multipleOf: cannot be enforced: too large", NULL, 0},
    {"{\"allOf\":[true", ",{\"minimum\":%1}", 3000, "]}", NULL, "3000", 5000},
    {"{\"type\":\"array\",\"uniqueItems\":true,\"items\":false,\"prefixItems\":[true", ",{\"type\":\"boolean\"}", 400,
     "]}", "/uniqueItems: cannot be enforced", NULL, 0},
};

static json_t *write_case(const hostile *h, char start[80])
{
    qn_buffer text = {0};
    qn_error err;
    json_t *schema;
    qn_buffer_text(&text, h->first);
    for (int i = 0; i < h->count; i++)
        write_each(&text, h->each, i + (h->first[0] && strstr(h->each, "%0") && !strstr(h->first, "d-1")));
    qn_buffer_text(&text, h->last);
    for (int i = 0; i < h->count && !h->first[0]; i++)
        qn_buffer_char(&text, '}');
    strncpy(start, qn_buffer_string(&text), 79);
    start[79] = '\0';
    if (qn_json_parse_wide(text.data, text.size, "schema", &schema, &err) != QN_OK)
        fail_msg("%s: %s", start, err.message);
    qn_buffer_free(&text);
    return schema;
}

static void test_hostile_schemas(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const hostile *h = &cases[i];
        char start[80];
        qn_error err = {0};
        json_t *schema = write_case(h, start);
        qn_grammar *grammar = schema_grammar(schema, QN_SCHEMA_JSON, false, &err);
        if (!grammar != (h->message != NULL))
            fail_msg("%s %s: %s", start, grammar ? "is compiled" : "is refused", err.message);
        if (!grammar && (err.status != QN_USAGE || !strstr(err.message, h->message)))
            fail_msg("%s: \"%s\" instead of \"%s\"", start, err.message, h->message);
        if (grammar && grammar->state_count > h->states)
            fail_msg("%s: %zu states", start, (size_t)grammar->state_count);
        if (grammar && h->word && !schema_matches(grammar, h->word, strlen(h->word)))
            fail_msg("%s rejects %s", start, h->word);
        qn_grammar_free(grammar);
        json_decref(schema);
    }
}

/* As deep as the reader of JSON lets a schema be. */
static void test_members_in_members(void **state)
{
    (void)state;
    enum { LEVELS = 250 };
    qn_buffer text = {0}, word = {0};
    qn_error err = {0};
    for (int i = 0; i < LEVELS; i++) {
        qn_buffer_text(&text,
                       "{\"type\":\"object\",\"required\":[\"a\"],\"properties\":{\"b\":{\"maxLength\":3},\"a\":");
        qn_buffer_text(&word, "{\"a\":");
    }
    qn_buffer_text(&text, "{\"type\":\"integer\"}");
    qn_buffer_text(&word, "7");
    for (int i = 0; i < LEVELS; i++) {
        qn_buffer_text(&text, "}}");
        qn_buffer_text(&word, ",\"b\":\"x\"}");
    }
    json_t *schema = schema_of(qn_buffer_string(&text));
    qn_grammar *grammar = schema_grammar(schema, QN_SCHEMA_JSON, false, &err);
    if (!grammar)
        fail_msg("%s", err.message);
    assert_true(schema_matches(grammar, qn_buffer_string(&word), word.size));
    word.data[word.size - 3] = '\\';
    assert_false(schema_matches(grammar, qn_buffer_string(&word), word.size));
    qn_grammar_free(grammar);
    json_decref(schema);
    qn_buffer_free(&text);
    qn_buffer_free(&word);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_hostile_schemas),
                                       cmocka_unit_test(test_members_in_members)};
    return cmocka_run_group_tests(tests, schema_init_json, NULL);
}
