#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "cli/options.h"
#include "cli/other_names.h"

static qn_option_table make_table(const char *command)
{
    static size_t length;
    static const char *system;
    qn_option_table table = {.command = command, .arguments = "DIR", .summary = "tries", .max_arguments = 1};
    const qn_option length_option = {
        .name = "max-model-len", .kind = QN_OPTION_SIZE, .value = &length, .value_name = "TOKENS", .help = "tokens"};
    const qn_option others[] = {
        {.name = "system", .kind = QN_OPTION_STRING, .value = &system, .value_name = "TEXT", .help = "text"},
        {.name = "model", .kind = QN_OPTION_REFUSED, .value_name = "DIR", .help = "refused"}};
    if (strcmp(command, "text") != 0) {
        qn_options_add(&table, &length_option, 1);
    }
    if (strcmp(command, "run") == 0) {
        qn_options_add(&table, others, sizeof others / sizeof others[0]);
    }
    return table;
}

static void assert_told(const char *command, const char *word, const char *wanted)
{
    qn_option_table table = make_table(command);
    char name[] = "try", typed[64];
    strncpy(typed, word, sizeof typed - 1);
    typed[sizeof typed - 1] = '\0';
    char *argv[] = {name, typed, NULL};
    qn_error err;
    assert_int_equal(qn_options_parse(&table, 2, argv, &err), QN_USAGE);
    assert_string_equal(err.message, wanted);
}

static void test_an_option_that_means_the_same_is_named(void **state)
{
    (void)state;
    assert_told("serve", "-c", "-c: no such option of serve: give --max-model-len TOKENS");
    assert_told("serve", "--ctx-size=4096", "--ctx-size: no such option of serve: give --max-model-len TOKENS");
    assert_told("serve", "--context-length", "--context-length: no such option of serve: give --max-model-len TOKENS");
    assert_told("serve", "--ctx_size", "--ctx-size: no such option of serve: give --max-model-len TOKENS");
    assert_told("run", "-sys", "-sys: no such option of run: give --system TEXT");
}

static void test_where_there_is_none_the_reason_is_told(void **state)
{
    (void)state;
    assert_told("serve", "-ngl", "-ngl: no such option of serve: all layers run on CPUs: leave it out");
    assert_told("serve", "-m",
                "-m: no such option of serve: the model's folder is the first argument: quern COMMAND MODEL_DIR");
    assert_told("serve", "-n", "-n: no such option of serve: requests to quern serve say it: see docs/api.md");
}

static void test_what_means_nothing_here_has_the_usual_error(void **state)
{
    (void)state;
    assert_told("serve", "-sys", "-sys: no such option of serve: see quern serve --help");
    assert_told("serve", "-mm", "-mm: no such option of serve: see quern serve --help");
    assert_told("text", "-c", "-c: no such option of text: see quern text --help");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_option_that_means_the_same_is_named),
        cmocka_unit_test(test_where_there_is_none_the_reason_is_told),
        cmocka_unit_test(test_what_means_nothing_here_has_the_usual_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
