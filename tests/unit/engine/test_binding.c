/* Which threads of an engine that binds are bound: those that compute, and no other. On whatever CPUs there are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/perplexity.h"
#include "unit/engine/support.h"

enum { NAME_BYTES = 32, PATH_BYTES = 64 };

static qn_engine *open_bound(const char *how)
{
    const qn_engine_options options = {
        .model_dir = "models/quern-tiny", .cpu_binding = how, .max_model_len = 256, .without_text = true};
    clear_log();
    return open_engine(&options, NULL);
}

static void answer(qn_engine *engine)
{
    question q = read_question();
    const qn_request request = {.prompt_ids = q.ids,
                                .prompt_count = q.count,
                                .sampling = qn_engine_default_sampling(engine),
                                .max_tokens = 4,
                                .raw_text = true};
    qn_result result = run_engine(engine, &request, NULL);
    qn_result_free(&result);
    free(q.ids);
}

static cpu_set_t cpus_of(int thread)
{
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(thread, sizeof set, &set), 0);
    return set;
}

/* False: the thread has ended meanwhile, as those of a load may. */
static bool look_at(int thread, char name[NAME_BYTES], cpu_set_t *cpus)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", thread);
    FILE *file = fopen(path, "r");
    bool there = file && fgets(name, NAME_BYTES, file) && sched_getaffinity(thread, sizeof *cpus, cpus) == 0;
    if (file)
        fclose(file);
    return there;
}

/* Threads that compute, the engine's own among them; the CPUs that they may use go into *together. All others may use
 * what this thread may. */
static size_t count_computing(cpu_set_t *together, bool bound)
{
    const cpu_set_t all = cpus_of(0);
    size_t computing = 0;
    DIR *threads = opendir("/proc/self/task");
    assert_non_null(threads);
    CPU_ZERO(together);
    for (struct dirent *entry; (entry = readdir(threads)) != NULL;) {
        char name[NAME_BYTES];
        int thread = (int)strtol(entry->d_name, NULL, 10);
        cpu_set_t cpus;
        if (thread == 0 || !look_at(thread, name, &cpus))
            continue;
        bool computes = strncmp(name, "compute-", 8) == 0 || strncmp(name, "quern-engine", 12) == 0;
        if (computes) {
            computing++;
            CPU_OR(together, together, &cpus);
        }
        if (computes && bound)
            assert_int_equal(CPU_COUNT(&cpus), 1);
        else if (!CPU_EQUAL(&cpus, &all))
            fail_msg("thread %s is bound", name);
    }
    closedir(threads);
    return computing;
}

static void test_a_thread_that_computes_is_not_bound(void **state)
{
    (void)state;
    cpu_set_t together;
    qn_engine *engine = open_bound("auto");
    answer(engine);
    size_t computing = count_computing(&together, true);
    assert_in_range(computing, 1, qn_cpu_count());
    assert_int_equal(CPU_COUNT(&together), computing); /* each has its own */
    qn_engine_close(engine);
    assert_non_null(strstr(logged_lines(), "cpu-binding: threads that compute: "));
}

static void test_threads_are_bound_unasked(void **state)
{
    (void)state;
    cpu_set_t together;
    qn_engine *engine = open_bound(NULL);
    answer(engine);
    assert_int_equal(count_computing(&together, false), qn_cpu_count());
    qn_engine_close(engine);
    assert_null(strstr(logged_lines(), "cpu-binding"));
}

/* It computes on the caller's thread. */
static void test_measuring_leaves_its_caller_bound(void **state)
{
    (void)state;
    static const int32_t ids[] = {5, 6, 7, 8, 9, 10};
    const cpu_set_t before = cpus_of(0);
    qn_engine *engine = open_bound("auto");
    qn_perplexity perplexity;
    qn_error err;
    assert_int_equal(qn_measure_perplexity(engine, ids, 6, 6, 1, NULL, &perplexity, &err), QN_OK);
    cpu_set_t after = cpus_of(0);
    assert_true(CPU_EQUAL(&before, &after));
    qn_engine_close(engine);
}

static void test_a_wrong_list_shows_after_the_load(void **state)
{
    (void)state;
    const qn_engine_options options = {.model_dir = "no such folder", .cpu_binding = "0-"};
    qn_engine *engine = NULL;
    qn_error err;
    assert_int_equal(qn_engine_open(&options, &engine, &err), QN_USAGE);
    assert_string_equal(err.field, "cpu-binding");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_thread_that_computes_is_not_bound),
        cmocka_unit_test(test_threads_are_bound_unasked),
        cmocka_unit_test(test_measuring_leaves_its_caller_bound),
        cmocka_unit_test(test_a_wrong_list_shows_after_the_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
