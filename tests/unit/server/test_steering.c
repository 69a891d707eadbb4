#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "server/steering.h"

static const qn_steering_name names[] = {{"most", "max_tokens"}, {"ends", "stop"}, {"top_p", "top_p"}};

static qn_status read_fields(const char *text, json_t **document, json_t **fields, qn_generation_fields *out,
                             qn_error *err)
{
    const qn_generation_limits limits = {.sampling = {.temperature = 0.5f, .top_p = 1, .top_k = -1}, .vocab_size = 10};
    *document = json_loads(text, 0, NULL);
    assert_non_null(*document);
    return qn_steering_read(*document, names, sizeof names / sizeof names[0], &limits, fields, out, err);
}

static void release(json_t *document, json_t *fields, qn_generation_fields *out)
{
    qn_generation_fields_free(out);
    json_decref(fields);
    json_decref(document);
}

static void test_names(void **state)
{
    (void)state;
    json_t *document, *fields;
    qn_generation_fields out;
    qn_error err;
    assert_int_equal(read_fields("{\"most\":7,\"ends\":[\"x\"],\"top_p\":0.5,\"seed\":3,\"max_tokens\":9,\"n\":4,"
                                 "\"temperature\":1}",
                                 &document, &fields, &out, &err),
                     QN_OK);
    assert_int_equal(out.max_tokens, 7); /* the other name is none of this API's */
    assert_int_equal(out.n, 1);
    assert_int_equal(out.stop_count, 1);
    assert_true(out.seed_given && out.sampling.top_p == 0.5f && out.sampling.temperature == 0.5f);
    release(document, fields, &out);
}

static void assert_refused(const char *text, const char *field, const char *message)
{
    json_t *document, *fields;
    qn_generation_fields out;
    qn_error err;
    assert_int_equal(read_fields(text, &document, &fields, &out, &err), QN_USAGE);
    assert_string_equal(err.field, field);
    if (strncmp(err.message, message, strlen(message)) != 0) {
        fail_msg("'%s' does not begin with '%s'", err.message, message);
    }
    release(document, fields, &out);
}

static void test_errors_have_the_requests_names(void **state)
{
    (void)state;
    assert_refused("{\"most\":0}", "most", "most: 0 is too small");
    assert_refused("{\"ends\":[3]}", "ends", "ends: integer in the list");
    assert_refused("{\"top_p\":2}", "top_p", "top_p: 2 is out of range");
    assert_refused("{\"seed\":\"x\"}", "seed", "seed: ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_errors_have_the_requests_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
