#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/random_grammar.h"
#include "unit/grammar/schema_check.h"

static void test_multiples(void **state)
{
    (void)state;
    static const schema_example examples[] = {
        {"{\"multipleOf\":1.5}",
         {"0", "-0", "1.5", "-4.5", "3.00", "30", "\"\""},
         {"1", "1.51", "1.500001", "1e0", "02"}},
        {"{\"multipleOf\":0.0001}", {"0.0075", "-12", "1.0"}, {"0.00751", "0.00075"}},
        {"{\"type\":\"integer\",\"multipleOf\":1e-8}", {"12391239123"}, {"0.5", "1.0"}},
        {"{\"type\":\"integer\",\"multipleOf\":1000}", {"0", "1000", "-21000", "7000000"}, {"100", "1500", "10001"}},
        {"{\"type\":\"integer\",\"multipleOf\":15000}",
         {"15000", "30000", "150000"},
         {"5000", "15001", "40000", "1500"}},
        {"{\"type\":\"integer\",\"multipleOf\":4096}", {"4096", "40960", "12288"}, {"4095", "2048", "40"}},
        {"{\"type\":\"integer\",\"multipleOf\":1e15}", {"0", "7000000000000000"}, {"1", "700000000000000"}},
        {"{\"type\":\"integer\",\"multipleOf\":5,\"minimum\":-7,\"exclusiveMaximum\":15}",
         {"-5", "0", "10"},
         {"-10", "15", "3"}},
        {"{\"type\":\"number\",\"multipleOf\":0.25,\"exclusiveMinimum\":0.25,\"maximum\":1}",
         {"0.5", "0.75", "1", "1.00"},
         {"0.25", "0", "1.25", "-0.5", "0.6"}},
        {"{\"allOf\":[{\"multipleOf\":4},{\"multipleOf\":6}],\"type\":\"integer\"}", {"12", "-24"}, {"4", "6", "18"}},
        {"{\"enum\":[1,1.5,3e2,\"x\"],\"multipleOf\":1.5}", {"1.5", "300", "\"x\""}, {"1"}},
    };
    SCHEMA_CHECK(examples);
}

static void test_refusals(void **state)
{
    (void)state;
    static const schema_refusal refusals[] = {
        {"{\"multipleOf\":0}", "schema: /multipleOf: must be a number above zero"},
        {"{\"multipleOf\":-2}", "schema: /multipleOf: must be a number above zero"},
        {"{\"multipleOf\":\"2\"}", "schema: /multipleOf: must be a number above zero"},
        {"{\"multipleOf\":0.12345678987654321}", "schema: /multipleOf: cannot be enforced: too large"},
        {"{\"multipleOf\":1e300}", "schema: /multipleOf: cannot be enforced: too large"},
        {"{\"multipleOf\":12345678987654321987}", "schema: /multipleOf: cannot be enforced: a number of more than 18"},
        {"{\"multipleOf\":4093,\"allOf\":[{\"multipleOf\":4091}]}", "multipleOf: cannot be enforced: too large"},
        {"{\"type\":\"integer\",\"multipleOf\":7,\"minimum\":1,\"maximum\":6}", "no value can satisfy it"},
    };
    SCHEMA_CHECK_REFUSALS(refusals);
}

static uint64_t seed = 20260707;

static long below(long n)
{
    return (long)(random_next(&seed) % (uint64_t)n);
}

/* Hundredths as a decimal, with zeros that say nothing now and then. */
static void write_number(long hundredths, char out[32])
{
    const char *sign = hundredths < 0 ? "-" : "";
    long magnitude = labs(hundredths);
    if (magnitude % 100 == 0 && below(4))
        snprintf(out, 32, "%s%ld", sign, magnitude / 100);
    else if (magnitude % 10 == 0 && below(2))
        snprintf(out, 32, "%s%ld.%ld", sign, magnitude / 100, magnitude / 10 % 10);
    else
        snprintf(out, 32, "%s%ld.%02ld", sign, magnitude / 100, magnitude % 100);
}

/* Bounds, divisors and an excluded value in hundredths, against arithmetic. */
static void test_random_numbers(void **state)
{
    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 60; round++) {
        long low = below(4000) - 2000, high = low + 200 + below(3000), of = 1 + below(round % 2 ? 40 : 900);
        long not = low + below(high - low);
        bool open = below(2), excluded = below(2);
        char text[256], a[32], b[32], m[32], x[32];
        write_number(low, a);
        write_number(high, b);
        write_number(of, m);
        write_number(not, x);
        snprintf(text, sizeof text, "{\"type\":\"number\",\"%s\":%s,\"maximum\":%s,\"multipleOf\":%s%s%s%s}",
                 open ? "exclusiveMinimum" : "minimum", a, b, m, excluded ? ",\"not\":{\"const\":" : "",
                 excluded ? x : "", excluded ? "}" : "");
        json_t *schema = schema_of(text);
        qn_error err = {0};
        qn_grammar *grammar = schema_grammar(schema, QN_SCHEMA_JSON, false, &err);
        for (long value = low - 150; grammar && value < high + 150; value++) {
            char number[32];
            write_number(value, number);
            bool valid = (open ? value > low : value >= low) && value <= high && value % of == 0 &&
                         !(excluded && value == not );
            /* a divisor without places leaves one, one of tenths two */
            bool places = strchr(number, '.') && strlen(strchr(number, '.')) > (of % 100 == 0 ? 2U : 3U);
            if (schema_matches(grammar, number, strlen(number)) != (valid && !places))
                fail_msg("%s: %s", text, number);
        }
        if (!grammar && !strstr(err.message, "no value can satisfy"))
            fail_msg("%s: %s", text, err.message);
        qn_grammar_free(grammar);
        json_decref(schema);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_multiples),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_random_numbers),
    };
    return cmocka_run_group_tests(tests, schema_init_json, NULL);
}
