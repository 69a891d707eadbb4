/* Which threads' memory lies as --numa has it: those that load and compute, and no other. The machine tells of two
 * nodes, and the system's calls are true ones, over the nodes that there are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/perplexity.h"
#include "unit/engine/support.h"

enum { PATH_BYTES = 64, LINE_BYTES = 512, MASK_WORDS = 16, MASK_BITS = 1025 };

static char root[PATH_BYTES];

static int get_policy(int *mode)
{
    return syscall(SYS_get_mempolicy, mode, NULL, 0ul, NULL, 0ul) == 0 ? 0 : errno;
}

/* Over the nodes that this process may use, in place of those that it was told of. */
static int set_policy(int mode, const unsigned long *node_mask)
{
    unsigned long own[MASK_WORDS + 1] = {0};
    if (syscall(SYS_get_mempolicy, NULL, own, (unsigned long)MASK_BITS, NULL, (unsigned long)MPOL_F_MEMS_ALLOWED) != 0)
        return errno;
    unsigned long bits = node_mask ? MASK_BITS : 0;
    return syscall(SYS_set_mempolicy, mode, node_mask ? own : NULL, bits) == 0 ? 0 : errno;
}

static const qn_numa_system two_nodes = {.root = root, .get_policy = get_policy, .set_policy = set_policy};

static int make_machine(void **state)
{
    (void)state;
    char path[PATH_BYTES * 2];
    snprintf(root, sizeof root, "/tmp/quern-nodes-XXXXXX");
    if (!mkdtemp(root))
        return -1;
    snprintf(path, sizeof path, "%s/proc", root);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/proc/self", root);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/proc/self/status", root);
    FILE *file = fopen(path, "w");
    if (!file)
        return -1;
    fputs("Mems_allowed_list:\t0-1\n", file);
    return fclose(file);
}

static int remove_machine(void **state)
{
    (void)state;
    char command[PATH_BYTES * 2];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

/* Here, by a thread that has none: a container may forbid it, and there may be no such calls. */
static void skip_unless_allowed(void)
{
    int mode = -1;
    if (get_policy(&mode) != 0 || mode != MPOL_DEFAULT || set_policy(MPOL_INTERLEAVE, (unsigned long[MASK_WORDS]){1}) ||
        set_policy(MPOL_DEFAULT, NULL) || access("/proc/self/numa_maps", R_OK) != 0) {
        print_message("SKIPPED: the system lets no policy of memory be set\n");
        skip();
    }
}

static bool read_first(const char *file_of_task, int thread, char line[LINE_BYTES])
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "/proc/self/task/%d/%s", thread, file_of_task);
    FILE *file = fopen(path, "r");
    bool there = file && fgets(line, LINE_BYTES, file);
    if (file)
        fclose(file);
    return there;
}

/* Threads that load and compute all interleave, and the one that opened them doesn't. Returns the number of those that
 * do. */
static size_t count_interleaving(bool wanted)
{
    size_t count = 0;
    DIR *threads = opendir("/proc/self/task");
    assert_non_null(threads);
    for (struct dirent *entry; (entry = readdir(threads)) != NULL;) {
        char name[LINE_BYTES], maps[LINE_BYTES];
        int thread = (int)strtol(entry->d_name, NULL, 10);
        /* a thread that ends meanwhile is of no interest: memory that a load leaves behind is not asked */
        if (thread == 0 || !read_first("comm", thread, name) || !read_first("numa_maps", thread, maps))
            continue;
        bool ours = strncmp(name, "compute-", 8) == 0 || strncmp(name, "quern-", 6) == 0;
        if (!ours && thread != getpid())
            continue; /* a sanitizer's own, which it starts with the first of ours */
        bool interleaves = strstr(maps, " interleave") != NULL;
        if (interleaves != (ours && wanted))
            fail_msg("thread %s: %s", name, maps);
        count += interleaves;
    }
    closedir(threads);
    return count;
}

static qn_engine *open_placed(qn_numa numa)
{
    qn_engine_options options = shipped_model();
    options.numa = numa;
    options.numa_system = &two_nodes;
    options.without_text = true;
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

static void test_a_thread_that_computes_fills_its_own_node(void **state)
{
    (void)state;
    static const qn_numa ways[] = {QN_NUMA_AUTO, QN_NUMA_INTERLEAVE};
    skip_unless_allowed();
    for (size_t i = 0; i < 2; i++) {
        qn_engine *engine = open_placed(ways[i]);
        assert_non_null(strstr(logged_lines(), "numa: memory is interleaved over nodes 0-1"));
        assert_in_range(count_interleaving(true), 1, 2); /* compute-1; the load's thread, if it has not ended */
        answer(engine);
        assert_in_range(count_interleaving(true), 2, 3); /* and the engine's own */
        qn_engine_close(engine);
    }
}

static void test_memory_is_interleaved_unasked(void **state)
{
    (void)state;
    skip_unless_allowed();
    qn_engine *engine = open_placed(QN_NUMA_OFF);
    answer(engine);
    assert_int_equal(count_interleaving(false), 0);
    qn_engine_close(engine);
    assert_null(strstr(logged_lines(), "numa"));
}

/* It computes on the caller's thread. */
static void test_callers_keep_a_policy(void **state)
{
    (void)state;
    static const int32_t ids[] = {5, 6, 7, 8, 9, 10};
    qn_perplexity perplexity;
    qn_error err;
    int mode = -1;
    skip_unless_allowed();
    qn_engine *engine = open_placed(QN_NUMA_INTERLEAVE);
    assert_int_equal(qn_measure_perplexity(engine, ids, 6, 6, 1, NULL, &perplexity, &err), QN_OK);
    assert_int_equal(get_policy(&mode), 0);
    assert_int_equal(mode, MPOL_DEFAULT);
    qn_engine_close(engine);
    const qn_engine_options wrong = {.model_dir = "no such folder",
                                     .numa = QN_NUMA_INTERLEAVE,
                                     .numa_system = &two_nodes};
    assert_int_not_equal(qn_engine_open(&wrong, &engine, &err), QN_OK);
    assert_int_equal(get_policy(&mode), 0);
    assert_int_equal(mode, MPOL_DEFAULT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_thread_that_computes_fills_its_own_node),
        cmocka_unit_test(test_memory_is_interleaved_unasked),
        cmocka_unit_test(test_callers_keep_a_policy),
    };
    return cmocka_run_group_tests(tests, make_machine, remove_machine);
}
