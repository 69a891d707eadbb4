#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <ctype.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "engine/metrics.h"

/* ---- a reader of the exposition format, strict about what quern writes ---- */

enum { MAX_SERIES = 1024, MAX_NAME = 96, MAX_LABELS = 400 };

typedef struct series {
    char name[MAX_NAME];
    char labels[MAX_LABELS]; /* as written, without the braces */
    double value;
} series;

typedef struct page {
    series items[MAX_SERIES];
    size_t count;
} page;

static bool name_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == ':';
}

static const char *read_name(const char *at, char out[MAX_NAME])
{
    size_t n = 0;
    while (name_char(at[n])) {
        assert_true(n + 1 < MAX_NAME);
        out[n] = at[n];
        n++;
    }
    out[n] = '\0';
    assert_true(n > 0 && !isdigit((unsigned char)out[0]));
    return at + n;
}

/* One or more name="value", with what the format escapes in values. */
static const char *read_labels(const char *at, char out[MAX_LABELS])
{
    const char *begin = at;
    for (;;) {
        char name[MAX_NAME];
        at = read_name(at, name);
        assert_memory_equal(at, "=\"", 2);
        for (at += 2; *at != '"'; at++) {
            assert_true(*at != '\n' && *at != '\0');
            if (*at == '\\') {
                at++;
                assert_non_null(strchr("\\\"n", *at));
            }
        }
        at++;
        if (*at == '}') {
            break;
        }
        assert_int_equal(*at++, ',');
    }
    assert_true((size_t)(at - begin) < MAX_LABELS);
    memcpy(out, begin, (size_t)(at - begin));
    out[at - begin] = '\0';
    return at + 1;
}

static void read_series(page *p, const char *line, const char *family, const char *type)
{
    assert_true(p->count < MAX_SERIES);
    series *s = &p->items[p->count++];
    const char *at = read_name(line, s->name);
    size_t length = strlen(family);
    assert_memory_equal(s->name, family, length);
    if (strcmp(type, "histogram") == 0) {
        const char *suffix = s->name + length;
        assert_true(strcmp(suffix, "_bucket") == 0 || strcmp(suffix, "_sum") == 0 || strcmp(suffix, "_count") == 0);
    } else {
        assert_string_equal(s->name, family);
        assert_true(strcmp(type, "counter") != 0 || strcmp(family + length - 6, "_total") == 0);
    }
    assert_int_equal(*at++, '{');
    at = read_labels(at, s->labels);
    assert_int_equal(*at++, ' ');
    char *end = NULL;
    s->value = strtod(at, &end);
    assert_true(end != at && *end == '\0');
}

static void read_page(page *p, const char *text)
{
    char family[MAX_NAME] = "", type[16] = "";
    char *copy = strdup(text);
    assert_int_equal(copy[strlen(copy) - 1], '\n');
    for (char *save = NULL, *line = strtok_r(copy, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
        if (strncmp(line, "# HELP ", 7) == 0) {
            const char *help = read_name(line + 7, family);
            assert_int_equal(*help, ' ');
            assert_true(strlen(help) > 8);
            type[0] = '\0';
        } else if (strncmp(line, "# TYPE ", 7) == 0) {
            char name[MAX_NAME];
            const char *at = read_name(line + 7, name);
            assert_string_equal(name, family);
            assert_int_equal(sscanf(at, " %15s", type), 1);
        } else {
            assert_true(type[0] != '\0');
            read_series(p, line, family, type);
        }
    }
    free(copy);
}

/* The series of this name whose labels contain `label`. */
static double value_of(const page *p, const char *name, const char *label)
{
    for (size_t i = 0; i < p->count; i++) {
        if (strcmp(p->items[i].name, name) == 0 && strstr(p->items[i].labels, label) != NULL) {
            return p->items[i].value;
        }
    }
    fail_msg("no %s with %s", name, label);
    return NAN;
}

static void write_page(const qn_metrics *metrics, const char *model, page *out)
{
    qn_buffer text = {0};
    memset(out, 0, sizeof *out);
    qn_metrics_write(metrics, model, &text);
    assert_false(text.failed);
    read_page(out, qn_buffer_string(&text));
    qn_buffer_free(&text);
}

/* ---- tests ---- */

static page now; /* large */

static qn_metrics *new_metrics(void)
{
    qn_error err;
    qn_metrics *metrics = NULL;
    assert_int_equal(qn_metrics_new(&metrics, &err), QN_OK);
    return metrics;
}

static void test_each_number_lands_where_vllm_has_it(void **state)
{
    (void)state;
    qn_metrics *metrics = new_metrics();
    const qn_metrics_config config = {
        .block_size = 128, .blocks = 77, .max_model_len = 8192, .max_num_seqs = 16, .prefix_caching = true};
    qn_metrics_describe(metrics, &config);
    qn_metrics_on_admission(metrics, 1000, 256, 128, 400000);
    qn_metrics_on_first_token(metrics, 700000);
    qn_metrics_on_token_gap(metrics, 30000, 3);
    const qn_metrics_step step = {
        .step_us = 30000,
        .host_us = 500,
        .prefill_tokens = 744,
        .decode_rows = 2,
        .draft_rows = 5,
        .emitted_tokens = 6,
        .running = 2,
        .waiting = 4,
        .drafting_requests = 2,
        .accepted_at = {2, 1, 1},
        .kv_usage = 0.25,
    };
    qn_metrics_on_step(metrics, &step);
    qn_metrics_on_preemption(metrics);
    qn_metrics_on_refusal(metrics);
    const qn_metrics_request ended = {.finished_reason = "length",
                                      .e2e_us = 2000000,
                                      .prefill_us = 300000,
                                      .decode_us = 1300000,
                                      .prompt_tokens = 1000,
                                      .completion_tokens = 14,
                                      .max_tokens = 14};
    qn_metrics_on_finish(metrics, &ended);

    write_page(metrics, "tiny", &now);
    static const struct {
        const char *name, *label;
        double value;
    } expected[] = {
        {"vllm:num_requests_running", "model_name=\"tiny\"", 2},
        {"vllm:num_requests_waiting", "", 4},
        {"vllm:kv_cache_usage_perc", "", 0.25},
        {"vllm:num_preemptions_total", "", 1},
        {"vllm:prompt_tokens_total", "", 1000},
        {"vllm:generation_tokens_total", "", 6},
        {"vllm:prefix_cache_queries_total", "", 1000},
        {"vllm:prefix_cache_hits_total", "", 256},
        {"quern:kv_store_hits_total", "", 128},
        {"quern:prefill_tokens_total", "", 744},
        {"quern:decode_rows_total", "", 2},
        {"quern:steps_total", "", 1},
        {"quern:host_seconds_total", "", 0.0005},
        {"quern:requests_refused_total", "", 1},
        {"vllm:spec_decode_num_drafts_total", "", 2},
        {"vllm:spec_decode_num_draft_tokens_total", "", 5},
        {"vllm:spec_decode_num_accepted_tokens_total", "", 4},
        {"vllm:spec_decode_num_accepted_tokens_per_pos_total", "position=\"0\"", 2},
        {"vllm:spec_decode_num_accepted_tokens_per_pos_total", "position=\"2\"", 1},
        {"vllm:request_success_total", "finished_reason=\"length\"", 1},
        {"vllm:request_success_total", "finished_reason=\"stop\"", 0},
        {"vllm:time_to_first_token_seconds_bucket", "le=\"0.5\"", 0},
        {"vllm:time_to_first_token_seconds_bucket", "le=\"0.75\"", 1},
        {"vllm:inter_token_latency_seconds_bucket", "le=\"0.025\"", 0},
        {"vllm:inter_token_latency_seconds_bucket", "le=\"0.05\"", 1},
        {"vllm:request_time_per_output_token_seconds_sum", "", 0.1},
        {"vllm:e2e_request_latency_seconds_sum", "", 2},
        {"vllm:request_queue_time_seconds_sum", "", 0.4},
        {"vllm:request_prefill_time_seconds_sum", "", 0.3},
        {"vllm:request_decode_time_seconds_sum", "", 1.3},
        {"vllm:request_prompt_tokens_bucket", "le=\"1000.0\"", 1},
        {"vllm:request_prompt_tokens_bucket", "le=\"500.0\"", 0},
        {"vllm:request_generation_tokens_sum", "", 14},
        {"vllm:request_params_max_tokens_count", "", 1},
        {"vllm:iteration_tokens_total_sum", "", 750},
        {"quern:step_seconds_bucket", "le=\"0.05\"", 1},
        {"quern:step_seconds_count", "", 1},
        {"quern:tokens_at_once_sum", "", 3},
        {"vllm:cache_config_info", "num_gpu_blocks=\"77\"", 1},
    };
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        double value = value_of(&now, expected[i].name, expected[i].label);
        if (fabs(value - expected[i].value) > 1e-12) {
            fail_msg("%s{%s}: %g, not %g", expected[i].name, expected[i].label, value, expected[i].value);
        }
    }
    qn_metrics_free(metrics);
}

static void test_buckets_only_grow_and_end_in_the_count(void **state)
{
    (void)state;
    qn_metrics *metrics = new_metrics();
    for (uint64_t us = 1; us < 10000000000; us *= 3) {
        qn_metrics_on_token_gap(metrics, us, 1 + us % 20);
        qn_metrics_on_first_token(metrics, us);
        qn_metrics_on_step(metrics, &(qn_metrics_step){.step_us = us, .prefill_tokens = us % 30000});
    }
    write_page(metrics, "m", &now);
    double last = 0;
    size_t ends = 0;
    for (size_t i = 0; i < now.count; i++) {
        const series *s = &now.items[i];
        if (strstr(s->name, "_bucket") != NULL) {
            assert_true(s->value >= last);
            last = s->value;
            if (strstr(s->labels, "le=\"+Inf\"") != NULL) {
                assert_true(i + 2 < now.count && now.items[i + 2].value == last);
                last = 0;
                ends++;
            }
        }
    }
    assert_true(ends > 10);
    qn_metrics_free(metrics);
}

static void test_model_names_are_escaped(void **state)
{
    (void)state;
    qn_metrics *metrics = new_metrics();
    write_page(metrics, "a\"b\\c\nd", &now);
    assert_non_null(strstr(now.items[0].labels, "model_name=\"a\\\"b\\\\c\\nd\""));
    qn_metrics_free(metrics);
}

static void test_token_buckets_end_at_the_context(void **state)
{
    (void)state;
    qn_metrics *metrics = new_metrics();
    qn_metrics_describe(metrics, &(qn_metrics_config){.max_model_len = 100});
    write_page(metrics, "m", &now);
    size_t buckets = 0;
    for (size_t i = 0; i < now.count; i++) {
        buckets += strcmp(now.items[i].name, "vllm:request_prompt_tokens_bucket") == 0;
    }
    assert_int_equal(buckets, 8); /* 1 2 5 10 20 50 100 +Inf */
    qn_metrics_free(metrics);
}

static void test_no_queries_without_a_prefix_cache(void **state)
{
    (void)state;
    qn_metrics *metrics = new_metrics();
    qn_metrics_describe(metrics, &(qn_metrics_config){.max_model_len = 100});
    qn_metrics_on_admission(metrics, 10, 0, 0, 0);
    write_page(metrics, "m", &now);
    assert_true(value_of(&now, "vllm:prefix_cache_queries_total", "") == 0);
    assert_true(value_of(&now, "vllm:prompt_tokens_total", "") == 10);
    qn_metrics_free(metrics);
}

static void test_load_tells_what_is_and_the_pace(void **state)
{
    (void)state;
    qn_metrics *metrics = new_metrics();
    assert_true(qn_metrics_read_load(metrics).seconds_per_request == 0);
    const qn_metrics_request ended = {.finished_reason = "stop"};
    for (int i = 0; i < 200; i++) {
        for (int step = 0; step < 4; step++) {
            qn_metrics_on_step(metrics, &(qn_metrics_step){.step_us = 500000, .running = 3, .waiting = 9});
        }
        qn_metrics_on_finish(metrics, &ended);
    }
    qn_metrics_load load = qn_metrics_read_load(metrics);
    assert_int_equal(load.running, 3);
    assert_int_equal(load.waiting, 9);
    assert_true(fabs(load.seconds_per_request - 2) < 1e-9);
    qn_metrics_on_load(metrics, 0, 0, 0);
    load = qn_metrics_read_load(metrics);
    assert_int_equal(load.running + load.waiting, 0);
    qn_metrics_free(metrics);
}

static void test_unknown_reason_counts_as_an_error(void **state)
{
    (void)state;
    qn_metrics *metrics = new_metrics();
    qn_metrics_on_finish(metrics, &(qn_metrics_request){.finished_reason = "melted"});
    write_page(metrics, "m", &now);
    assert_true(value_of(&now, "vllm:request_success_total", "\"error\"") == 1);
    qn_metrics_free(metrics);
}

static void *count_steps(void *context)
{
    for (int i = 0; i < 1000; i++) {
        qn_metrics_on_step(context, &(qn_metrics_step){.emitted_tokens = 1});
    }
    return NULL;
}

static void test_counts_from_two_threads_all_count(void **state)
{
    (void)state;
    qn_metrics *metrics = new_metrics();
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, count_steps, metrics), 0);
    }
    for (int i = 0; i < 20; i++) {
        write_page(metrics, "m", &now);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    write_page(metrics, "m", &now);
    assert_true(value_of(&now, "vllm:generation_tokens_total", "") == 2000);
    qn_metrics_free(metrics);
}

static void test_failed_allocations_are_told(void **state)
{
    (void)state;
    qn_error err;
    qn_metrics *metrics = NULL;
    qn_fault_arm(QN_FAULT_ALLOC, 1);
    assert_int_equal(qn_metrics_new(&metrics, &err), QN_RESOURCE);
    qn_fault_disarm();
    metrics = new_metrics();
    for (long n = 1;; n++) {
        qn_buffer text = {0};
        qn_fault_arm(QN_FAULT_ALLOC, n);
        qn_metrics_write(metrics, "m", &text);
        bool walked = qn_fault_seen(QN_FAULT_ALLOC) < n;
        qn_fault_disarm();
        assert_true(text.failed == !walked);
        qn_buffer_free(&text);
        if (walked) {
            break;
        }
    }
    qn_metrics_free(metrics);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_number_lands_where_vllm_has_it),
        cmocka_unit_test(test_buckets_only_grow_and_end_in_the_count),
        cmocka_unit_test(test_model_names_are_escaped),
        cmocka_unit_test(test_token_buckets_end_at_the_context),
        cmocka_unit_test(test_no_queries_without_a_prefix_cache),
        cmocka_unit_test(test_load_tells_what_is_and_the_pace),
        cmocka_unit_test(test_unknown_reason_counts_as_an_error),
        cmocka_unit_test(test_counts_from_two_threads_all_count),
        cmocka_unit_test(test_failed_allocations_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
