#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "cli/security_options.h"
#include "cli/vllm_options.h"

static char log_lines[4096];

static void keep_line(void *context, const char *line)
{
    (void)context;
    size_t used = strlen(log_lines);
    snprintf(log_lines + used, sizeof log_lines - used, "%s\n", line);
}

static qn_option_table make_table(void)
{
    return (qn_option_table){.command = "try", .arguments = "DIR", .summary = "tries", .max_arguments = 1};
}

static void test_each_is_named_once_and_says_why(void **state)
{
    (void)state;
    qn_option_table table = make_table();
    qn_security_flags honoured; /* those of vLLM's among them are left out */
    qn_security_flags_add(&honoured, &table);
    size_t honoured_count = table.option_count;
    qn_vllm_options_add(&table);
    assert_true(table.option_count > 80);
    for (size_t i = honoured_count; i < table.option_count; i++) {
        const qn_option *option = &table.options[i];
        assert_true(option->kind == QN_OPTION_NOTICE || option->kind == QN_OPTION_REFUSED);
        assert_true(strlen(option->help) > 0);
        assert_true(option->choices == NULL || option->value_name != NULL);
    }
}

static void test_honoured_options_come_first(void **state)
{
    (void)state;
    qn_option_table table = make_table();
    const char *key = NULL;
    const qn_option honoured = {
        .name = "api-key", .kind = QN_OPTION_STRING, .value = &key, .value_name = "KEY", .help = "key"};
    qn_options_add(&table, &honoured, 1);
    qn_vllm_options_add(&table);
    char name[] = "try", flag[] = "--api-key=x";
    char *argv[] = {name, flag, NULL};
    qn_error err;
    assert_int_equal(qn_options_parse(&table, 2, argv, &err), QN_OK);
    assert_string_equal(key, "x");
}

static void assert_parses(qn_status wanted, const char *flag, const char *told)
{
    qn_option_table table = make_table();
    qn_vllm_options_add(&table);
    char name[] = "try", text[64];
    snprintf(text, sizeof text, "%s", flag);
    char *argv[] = {name, text, NULL};
    qn_error err;
    log_lines[0] = '\0';
    assert_int_equal(qn_options_parse(&table, 2, argv, &err), wanted);
    assert_non_null(strstr(wanted == QN_OK ? log_lines : err.message, told));
}

static void test_what_changes_no_result_is_accepted(void **state)
{
    (void)state;
    assert_parses(QN_OK, "--reasoning-parser=glm45", "quern: --reasoning-parser: ");
    assert_parses(QN_OK, "--reasoning-parser=glm47", "quern: --reasoning-parser: ");
    assert_parses(QN_USAGE, "--reasoning-parser=deepseek_r1", "--reasoning-parser: 'deepseek_r1'");
    assert_parses(QN_USAGE, "--reasoning-parser=deepseek_r1", "glm45, glm47");
    assert_parses(QN_OK, "--tool-call-parser=glm45", "quern: --tool-call-parser: ");
    assert_parses(QN_OK, "--tool-call-parser=glm47", "quern: --tool-call-parser: ");
    assert_parses(QN_USAGE, "--tool-call-parser=hermes", "--tool-call-parser: 'hermes'");
    assert_parses(QN_USAGE, "--tool-call-parser=hermes", "glm45, glm47");
    assert_parses(QN_OK, "--enable-auto-tool-choice", "quern: --enable-auto-tool-choice: ");
    assert_parses(QN_OK, "--exclude-tools-when-tool-choice-none", "quern: --exclude-tools-when-tool-choice-none: ");
    assert_parses(QN_OK, "--guided-decoding-backend=xgrammar", "quern: --guided-decoding-backend: ");
    assert_parses(QN_OK, "--enable-reasoning", "quern: --enable-reasoning: ");
    assert_parses(QN_USAGE, "--tool-parser-plugin=x.py", "--tool-parser-plugin: ");
    assert_parses(QN_USAGE, "--tool-server=demo", "--tool-server: ");
    assert_parses(QN_USAGE, "--response-role=user", "--response-role: ");
    assert_parses(QN_OK, "--async-scheduling", "quern: --async-scheduling: ");
    assert_parses(QN_OK, "--no-async-scheduling", "async-scheduling: ");
    assert_parses(QN_OK, "--model-impl=vllm", "quern: --model-impl: ");
    assert_parses(QN_USAGE, "--model-impl=transformers", "give one of auto, vllm");
    assert_parses(QN_USAGE, "--api-server-count=2", "--api-server-count: one process answers");
    assert_parses(QN_OK, "--compilation-config.level=3", "quern: --compilation-config: ");
    assert_parses(QN_USAGE, "--structured-outputs-config.backend=xgrammar", "--structured-outputs-config: ");
    assert_parses(QN_OK, "--gpu-memory-utilization=0.9", "quern: --gpu-memory-utilization: ");
}

static void test_environment_is_told(void **state)
{
    (void)state;
    log_lines[0] = '\0';
    setenv("VLLM_SKIP_WARMUP", "secret", 1);
    setenv("GLM_MXK", "1", 1);
    setenv("PT_HPU_LAZY_MODE", "1", 1);
    setenv("QUERN_SOMETHING", "1", 1);
    qn_vllm_environment_notice();
    assert_non_null(strstr(log_lines, "quern: VLLM_SKIP_WARMUP: "));
    assert_non_null(strstr(log_lines, "quern: GLM_MXK: "));
    assert_non_null(strstr(log_lines, "quern: PT_HPU_LAZY_MODE: "));
    assert_null(strstr(log_lines, "QUERN_SOMETHING"));
    assert_null(strstr(log_lines, "secret"));
}

int main(void)
{
    qn_log_set_sink(keep_line, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_is_named_once_and_says_why),
        cmocka_unit_test(test_honoured_options_come_first),
        cmocka_unit_test(test_what_changes_no_result_is_accepted),
        cmocka_unit_test(test_environment_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
