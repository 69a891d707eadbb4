#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "cli/options.h"

/* One of each kind, as a command would declare them. */
typedef struct values {
    bool verbose;
    const char *host;
    int64_t seed;
    size_t length;
    double temperature;
    json_t *config;
    const char *mode;
    qn_string_list names;
} values;

static const char *const modes[] = {"fast", "exact", NULL};
static const char *const dtypes[] = {"auto", "bfloat16", NULL};
static const char *const one[] = {"1", NULL};

static void make_table(qn_option_table *table, values *v)
{
    *v = (values){.host = "127.0.0.1", .temperature = 1};
    *table = (qn_option_table){
        .command = "try", .arguments = "DIR", .summary = "tries", .min_arguments = 1, .max_arguments = 1};
    const qn_option options[] = {
        {.name = "verbose", .letter = 'v', .kind = QN_OPTION_FLAG, .value = &v->verbose, .help = "talk"},
        {.name = "host", .kind = QN_OPTION_STRING, .value = &v->host, .value_name = "HOST", .help = "address"},
        {.name = "seed", .letter = 's', .kind = QN_OPTION_INTEGER, .value = &v->seed, .value_name = "N", .help = "n"},
        {.name = "max-model-len",
         .kind = QN_OPTION_SIZE,
         .value = &v->length,
         .value_name = "N",
         .help = "tokens",
         .min = 1,
         .max = 1 << 20},
        {.name = "temperature",
         .kind = QN_OPTION_NUMBER,
         .value = &v->temperature,
         .value_name = "T",
         .help = "heat",
         .number_min = 0,
         .number_max = 2},
        {.name = "config", .kind = QN_OPTION_JSON, .value = &v->config, .value_name = "JSON", .help = "object"},
        {.name = "mode", .kind = QN_OPTION_CHOICE, .value = &v->mode, .value_name = "M", .help = "m", .choices = modes},
        {.name = "name", .kind = QN_OPTION_LIST, .value = &v->names, .value_name = "NAME", .help = "names"},
        {.name = "dtype", .kind = QN_OPTION_NOTICE, .value_name = "D", .help = "it is BF16", .choices = dtypes},
        {.name = "trust-remote-code", .kind = QN_OPTION_NOTICE, .help = "no code runs"},
        {.name = "tensor-parallel-size",
         .kind = QN_OPTION_REFUSED,
         .value_name = "N",
         .help = "not in this version",
         .choices = one},
        {.name = "enable-lora", .kind = QN_OPTION_REFUSED, .help = "not in this version"},
    };
    qn_options_add(table, options, sizeof options / sizeof options[0]);
}

static char log_lines[1024];

static void keep_line(void *context, const char *line)
{
    (void)context;
    size_t used = strlen(log_lines);
    snprintf(log_lines + used, sizeof log_lines - used, "%s\n", line);
}

enum { MAX_WORDS = 80 };

static qn_status parse(qn_option_table *table, values *v, qn_error *err, const char *const *words)
{
    char *argv[MAX_WORDS + 1];
    int argc = 1;
    make_table(table, v);
    static char command[] = "try";
    argv[0] = command;
    for (; words[argc - 1] != NULL; argc++) {
        argv[argc] = (char *)(uintptr_t)words[argc - 1];
    }
    argv[argc] = NULL;
    log_lines[0] = '\0';
    return qn_options_parse(table, argc, argv, err);
}

#define PARSE(...) parse(&table, &v, &err, (const char *const[]){__VA_ARGS__, NULL})

static void assert_refused(qn_status status, const qn_error *err, const char *field, const char *part)
{
    assert_int_equal(status, QN_USAGE);
    assert_string_equal(err->field, field);
    if (strstr(err->message, part) == NULL) {
        fail_msg("'%s' does not say '%s'", err->message, part);
    }
}

static void test_every_kind(void **state)
{
    (void)state;
    qn_option_table table;
    values v;
    qn_error err;
    assert_int_equal(PARSE("-v", "--host", "::1", "--seed=-5", "dir", "--max_model_len", "32k", "--temperature", ".5",
                           "--config", "{\"a\": 1}", "--mode", "exact", "--name", "x", "y", "--name=z"),
                     QN_OK);
    assert_true(v.verbose);
    assert_string_equal(v.host, "::1");
    assert_int_equal(v.seed, -5);
    assert_int_equal(v.length, 32000);
    assert_true(v.temperature == 0.5);
    assert_int_equal(json_integer_value(json_object_get(v.config, "a")), 1);
    assert_string_equal(v.mode, "exact");
    assert_int_equal(v.names.count, 3);
    assert_string_equal(v.names.items[2], "z");
    assert_int_equal(table.argument_count, 1);
    assert_string_equal(table.argument[0], "dir");
    assert_true(qn_options_given(&table, "host"));
    assert_false(qn_options_given(&table, "dtype"));
    assert_string_equal(log_lines, "");
    json_decref(v.config);
}

static void test_defaults_stay(void **state)
{
    (void)state;
    qn_option_table table;
    values v;
    qn_error err;
    assert_int_equal(PARSE("dir"), QN_OK);
    assert_string_equal(v.host, "127.0.0.1");
    assert_false(v.verbose);
    assert_int_equal(PARSE("--verbose", "--no-verbose", "dir"), QN_OK);
    assert_false(v.verbose);
    assert_non_null(strstr(log_lines, "--verbose: given more than once"));
}

static void test_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t value; /* 0: refused */
    } cases[] = {{"4096", 4096},    {"1K", 1024},
                 {"1k", 1000},      {"1.5k", 1500},
                 {"0.25m", 250000}, {"1M", 1 << 20},
                 {"1.5K", 0},       {"1m1", 0},
                 {"", 0},           {"k", 0},
                 {"-1", 0},         {"0", 0},
                 {"2M", 0},         {"1e3", 0},
                 {" 1", 0},         {"1.", 0},
                 {"1b", 0},         {"0x10", 0},
                 {"99999999t", 0},  {"9999999T", 0},
                 {"9999999.5t", 0}, {"9999999999999999999", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        qn_option_table table;
        values v;
        qn_error err;
        qn_status status = PARSE("--max-model-len", cases[i].text, "dir");
        if (cases[i].value == 0) {
            assert_refused(status, &err, "max-model-len", "--max-model-len");
        } else {
            assert_int_equal(status, QN_OK);
            assert_int_equal(v.length, cases[i].value);
        }
    }
}

static void words_may_leave_a_size_to_the_program(void **state)
{
    (void)state;
    static const char *const words[] = {"auto", "-1", NULL};
    static const struct {
        char *given[4];
        size_t value;
    } cases[] = {{{"try", "--length", "auto"}, 0},
                 {{"try", "--length", "-1"}, 0},
                 {{"try", "--length=-1"}, 0},
                 {{"try", "--length", "2k"}, 2000}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t length = 7;
        const qn_option option = {.name = "length",
                                  .kind = QN_OPTION_SIZE,
                                  .value = &length,
                                  .value_name = "N",
                                  .help = "n",
                                  .min = 2,
                                  .max = 4000,
                                  .choices = words};
        qn_option_table table = {.command = "try", .arguments = "", .summary = "tries"};
        qn_error err;
        qn_options_add(&table, &option, 1);
        assert_int_equal(qn_options_parse(&table, cases[i].given[2] != NULL ? 3 : 2, (char **)cases[i].given, &err),
                         QN_OK);
        assert_int_equal(length, cases[i].value);
        char *others[] = {"try", "--length", "most"};
        assert_refused(qn_options_parse(&table, 3, others, &err), &err, "length", "'most' is not a number");
    }
}

static void test_bad_values(void **state)
{
    (void)state;
    qn_option_table table;
    values v;
    qn_error err;
    assert_refused(PARSE("d", "--seed", "x"), &err, "seed", "'x' is not a whole number: give --seed N");
    assert_refused(PARSE("d", "--seed", "1.5"), &err, "seed", "not a whole number");
    assert_refused(PARSE("d", "--seed", ""), &err, "seed", "not a whole number");
    assert_refused(PARSE("d", "--seed", "9223372036854775808"), &err, "seed", "64 bits");
    assert_int_equal(PARSE("d", "--seed", "-9223372036854775808"), QN_OK);
    assert_true(v.seed == INT64_MIN);
    assert_refused(PARSE("d", "--temperature", "nan"), &err, "temperature", "not a number");
    assert_refused(PARSE("d", "--temperature", "inf"), &err, "temperature", "not a number");
    assert_refused(PARSE("d", "--temperature", "2.5"), &err, "temperature", "0 to 2");
    assert_refused(PARSE("d", "--config", "[1]"), &err, "config", "not a JSON object but array");
    assert_refused(PARSE("d", "--config", "{"), &err, "config", "--config: value");
    assert_refused(PARSE("d", "--mode", "slow"), &err, "mode", "one of fast, exact");
    assert_refused(PARSE("d", "--host"), &err, "host", "a value is missing");
    assert_refused(PARSE("d", "--host", "--seed", "3"), &err, "host", "missing before --seed");
    assert_refused(PARSE("d", "--verbose=yes"), &err, "verbose", "takes no value");
    assert_refused(PARSE("d", "--no-host"), &err, "host", "can't be negated");
}

static void assert_json(const json_t *value, const char *wanted)
{
    char *text = json_dumps(value, JSON_COMPACT);
    assert_string_equal(text, wanted);
    free(text);
}

static void test_members_of_an_object(void **state)
{
    (void)state;
    qn_option_table table;
    values v;
    qn_error err;
    assert_int_equal(PARSE("d", "--config.method", "mtp", "--config.count=2", "--config.a_b.deep", "[true]"), QN_OK);
    assert_json(v.config, "{\"method\":\"mtp\",\"count\":2,\"a_b\":{\"deep\":[true]}}");
    assert_true(qn_options_given(&table, "config"));
    assert_string_equal(log_lines, "");
    json_decref(v.config);
    assert_int_equal(PARSE("d", "--config", "{\"a\": 1}", "--config.a", "x", "--config.b", "{"), QN_OK);
    assert_json(v.config, "{\"a\":\"x\",\"b\":\"{\"}");
    assert_string_equal(log_lines, "quern: --config.a: given more than once: the last one counts\n");
    json_decref(v.config);
    static const char *const misplaced[] = {"--config.", "--config..a", "--config.a.", "--config.a.b"};
    for (size_t i = 0; i < sizeof misplaced / sizeof misplaced[0]; i++) {
        assert_refused(PARSE("d", "--config.a", "1", misplaced[i], "2"), &err, "config", misplaced[i]);
        json_decref(v.config);
    }
    assert_refused(PARSE("d", "--config.a"), &err, "config", "a value is missing");
    assert_refused(PARSE("d", "--host", "--config.a", "1"), &err, "host", "missing before --config.a");
    assert_refused(PARSE("d", "--host.a", "1"), &err, "host.a", "no such option");
    assert_refused(PARSE("d", "--config.a", "\xff"), &err, "config", "not UTF-8");
    json_decref(v.config);
}

static void test_three_classes(void **state)
{
    (void)state;
    qn_option_table table;
    values v;
    qn_error err;
    assert_int_equal(PARSE("d", "--trust-remote-code", "--dtype", "bfloat16"), QN_OK);
    assert_string_equal(log_lines, "quern: --trust-remote-code: has no effect: no code runs\n"
                                   "quern: --dtype: has no effect: it is BF16\n");
    assert_refused(PARSE("d", "--dtype", "float16"), &err, "dtype", "one of auto, bfloat16");
    assert_int_equal(PARSE("d", "--tensor-parallel-size", "1"), QN_OK);
    assert_refused(PARSE("d", "--tensor-parallel-size", "8"), &err, "tensor-parallel-size", "not in this version");
    assert_refused(PARSE("d", "--enable-lora"), &err, "enable-lora", "not in this version");
    assert_int_equal(PARSE("d", "--no-enable-lora"), QN_OK);
    assert_refused(PARSE("d", "--temprature", "1"), &err, "temprature", "did you mean --temperature?");
    assert_refused(PARSE("d", "--enable-dora"), &err, "enable-dora", "see quern try --help");
    assert_refused(PARSE("d", "--frobnicate"), &err, "frobnicate", "see quern try --help");
    assert_refused(PARSE("d", "-x"), &err, "", "-x: no such option");
}

static void test_arguments(void **state)
{
    (void)state;
    qn_option_table table;
    values v;
    qn_error err;
    assert_refused(PARSE("-v"), &err, "", "DIR is missing");
    assert_refused(PARSE("a", "b"), &err, "", "b: one argument too many for quern try DIR: see quern try --help");
    assert_int_equal(PARSE("--", "--verbose"), QN_OK);
    assert_string_equal(table.argument[0], "--verbose");
    assert_int_equal(PARSE("-"), QN_OK);
    assert_string_equal(table.argument[0], "-");
    assert_int_equal(PARSE("d", "-s7"), QN_OK);
    assert_int_equal(v.seed, 7);
    assert_int_equal(PARSE("d", "-s", "-7"), QN_OK);
    assert_int_equal(v.seed, -7);
}

static void test_list_is_bounded(void **state)
{
    (void)state;
    qn_option_table table;
    values v;
    qn_error err;
    const char *words[MAX_WORDS] = {"dir", "--name"};
    for (size_t i = 0; i < QN_STRING_LIST_MAX + 1; i++) {
        words[2 + i] = "x";
    }
    assert_refused(parse(&table, &v, &err, words), &err, "name", "more than 64");
}

static void test_nearest(void **state)
{
    (void)state;
    static const char *const names[] = {"run", "serve", "inspect"};
    assert_string_equal(qn_nearest_name("serv", names, 3), "serve");
    assert_string_equal(qn_nearest_name("inspct", names, 3), "inspect");
    assert_null(qn_nearest_name("zzzzzz", names, 3));
    assert_null(qn_nearest_name("", names, 3));
    char lengthy[200];
    memset(lengthy, 'r', sizeof lengthy - 1);
    lengthy[sizeof lengthy - 1] = '\0';
    assert_null(qn_nearest_name(lengthy, names, 3));
}

int main(void)
{
    qn_log_set_sink(keep_line, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind),      cmocka_unit_test(test_defaults_stay),
        cmocka_unit_test(test_sizes),           cmocka_unit_test(words_may_leave_a_size_to_the_program),
        cmocka_unit_test(test_bad_values),      cmocka_unit_test(test_members_of_an_object),
        cmocka_unit_test(test_three_classes),   cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_list_is_bounded), cmocka_unit_test(test_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
