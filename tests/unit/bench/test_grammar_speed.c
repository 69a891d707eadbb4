/* What the bench of grammars counts, with the tiny model's tokenizer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/fault.h"
#include "base/json.h"
#include "bench/grammar_speed.h"

static qn_tokenizer *tokenizer;
static qn_error err;

static qn_grammar_bench *new_bench(size_t walks)
{
    qn_grammar_bench *bench;
    const qn_grammar_speed_options options = {tokenizer, walks, 8, 1, 0};
    assert_int_equal(qn_grammar_bench_new(&options, &bench, &err), QN_OK);
    return bench;
}

static qn_status bench_line(qn_grammar_bench *bench, const char *text)
{
    json_t *line;
    assert_int_equal(qn_json_parse(text, strlen(text), "line", &line, &err), QN_OK);
    qn_status status = qn_grammar_bench_line(bench, line, "line", &err);
    json_decref(line);
    return status;
}

static size_t token_count(const char *text)
{
    qn_tokens tokens = {0};
    assert_int_equal(qn_tokenizer_encode(tokenizer, text, strlen(text), NULL, 0, &tokens, &err), QN_OK);
    size_t count = tokens.count;
    qn_tokens_free(&tokens);
    return count;
}

static void every_token_of_a_text_and_its_end_has_a_mask(void **state)
{
    (void)state;
    qn_grammar_bench *bench = new_bench(0);
    assert_int_equal(bench_line(bench,
                                "{\"name\":\"n\",\"schema\":{\"type\":\"string\"},\"accept\":[\"\\\"ab cd\\\"\"],"
                                "\"tests\":[{\"data\":\"x\",\"valid\":true},{\"data\":1,\"valid\":false}]}"),
                     QN_OK);
    qn_grammar_speed speed = qn_grammar_bench_speed(bench);
    size_t masks = token_count("\"ab cd\"") + 1 + token_count("\"x\"") + 1;
    assert_int_equal(speed.count, 1);
    assert_int_equal(speed.refused, 0);
    assert_int_equal(speed.compile.samples, 1);
    assert_int_equal(speed.tokens, qn_tokenizer_size(tokenizer));
    assert_string_equal(speed.all[0].name, "n");
    assert_int_equal(speed.all[0].longer, 0);
    assert_int_equal(speed.all[0].first.samples, masks);
    assert_int_equal(speed.all[0].again.samples, masks);
    assert_int_equal(speed.first.samples, masks);
    assert_int_equal(speed.again.samples, masks);
    qn_grammar_bench_free(bench);
}

static void texts_that_leave_their_grammar_are_told(void **state)
{
    (void)state;
    qn_grammar_bench *bench = new_bench(0);
    assert_int_equal(bench_line(bench, "{\"kind\":\"regex\",\"grammar\":\"ab*\",\"accept\":[\"ac\",\"abb\"]}"), QN_OK);
    qn_grammar_speed speed = qn_grammar_bench_speed(bench);
    assert_int_equal(speed.all[0].longer, 1);
    assert_string_equal(speed.all[0].name, "line");
    qn_grammar_bench_free(bench);
}

static void made_up_texts_end_with_the_grammar(void **state)
{
    (void)state;
    qn_grammar_bench *bench = new_bench(3);
    assert_int_equal(bench_line(bench, "{\"kind\":\"choice\",\"grammar\":[\"yes\",\"no\"]}"), QN_OK);
    qn_grammar_speed speed = qn_grammar_bench_speed(bench);
    assert_in_range(speed.first.samples, 3 * 2, 3 * 4);
    assert_int_equal(speed.again.samples, speed.first.samples);
    qn_grammar_bench_free(bench);
}

static void refused_grammars_are_counted(void **state)
{
    (void)state;
    qn_grammar_bench *bench = new_bench(1);
    assert_int_equal(bench_line(bench, "{\"schema\":{\"type\":\"strange\"}}"), QN_OK);
    assert_int_equal(bench_line(bench, "{\"kind\":\"lark\",\"grammar\":\"start: \"}"), QN_OK);
    assert_int_equal(bench_line(bench, "{\"kind\":\"gbnf\",\"grammar\":\"root ::= missing\"}"), QN_OK);
    qn_grammar_speed speed = qn_grammar_bench_speed(bench);
    assert_int_equal(speed.compile.samples, 3);
    assert_in_range(speed.refused, 2, 3);
    qn_grammar_bench_free(bench);
}

static void lines_without_a_grammar_are_refused(void **state)
{
    (void)state;
    static const char *const lines[] = {"{}", "[]", "{\"kind\":\"regex\"}", "{\"kind\":\"choice\",\"grammar\":[]}",
                                        "{\"kind\":\"choice\",\"grammar\":[\"a\",1]}"};
    qn_grammar_bench *bench = new_bench(0);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        assert_int_equal(bench_line(bench, lines[i]), QN_BAD_INPUT);
        assert_non_null(strstr(err.message, "line: no grammar"));
    }
    qn_grammar_bench_free(bench);
}

static void memory_runs_out(void **state)
{
    (void)state;
    const char *text = "{\"schema\":{\"type\":\"boolean\"},\"accept\":[\"true\"]}";
    json_t *line;
    assert_int_equal(qn_json_parse(text, strlen(text), "line", &line, &err), QN_OK);
    bool failed = true;
    for (long n = 1; failed; n++) {
        const qn_grammar_speed_options options = {tokenizer, 1, 4, 1, 0};
        qn_grammar_bench *bench = NULL;
        qn_fault_arm(QN_FAULT_ALLOC, n);
        qn_status status = qn_grammar_bench_new(&options, &bench, &err);
        if (!status)
            status = qn_grammar_bench_line(bench, line, "line", &err);
        failed = qn_fault_seen(QN_FAULT_ALLOC) >= n;
        qn_fault_disarm();
        assert_true(status == QN_OK || (failed && status == QN_RESOURCE)); /* a matcher takes it for a refusal */
        qn_grammar_bench_free(bench);
    }
    json_decref(line);
}

static int open_tokenizer(void **state)
{
    (void)state;
    qn_json_init();
    return qn_tokenizer_open("models/quern-tiny", &tokenizer, &err) == QN_OK ? 0 : -1;
}

static int close_tokenizer(void **state)
{
    (void)state;
    qn_tokenizer_free(tokenizer);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_token_of_a_text_and_its_end_has_a_mask),
        cmocka_unit_test(texts_that_leave_their_grammar_are_told),
        cmocka_unit_test(made_up_texts_end_with_the_grammar),
        cmocka_unit_test(refused_grammars_are_counted),
        cmocka_unit_test(lines_without_a_grammar_are_refused),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, open_tokenizer, close_tokenizer);
}
