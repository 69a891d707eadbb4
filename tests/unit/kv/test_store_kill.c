/* A process with threads that writes and reads blocks is killed at random moments: whatever the store claims to have
 * afterwards is whole. Half of the kills come after a random time, half right after a completion. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/random.h"
#include "store_support.h"

enum { KILLS = 50, BOUND_BLOCKS = 24, CHAINS = 6, CHAIN_BLOCKS = 16, MAX_PAUSE_US = 20000, MAX_COMPLETIONS = 64 };

static uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* Keeps several writes and reads queued until it is killed; tells each completion by a byte. */
static void work_until_killed(uint64_t seed, int progress_fd)
{
    enum { SLOTS = 8 };
    static uint8_t blocks[SLOTS][TEST_BLOCK_BYTES];
    bool busy[SLOTS] = {false};
    test_waker waker;
    qn_kv_store *store = test_open(&waker, BOUND_BLOCKS);
    for (;;) {
        size_t pending = 0;
        for (size_t i = 0; i < SLOTS; i++) {
            uint64_t chain = next_random(&seed) % CHAINS, index = next_random(&seed) % CHAIN_BLOCKS;
            int32_t ids[TEST_BLOCK_TOKENS];
            qn_hash parent = test_parent(chain, index), key = test_key(chain, index);
            test_ids(chain, index, ids);
            if (!busy[i] && next_random(&seed) % 3 == 0) {
                busy[i] = qn_kv_store_read(store, parent, key, ids, blocks[i], &busy[i]);
            } else if (!busy[i]) {
                test_fill(chain, index, blocks[i]);
                busy[i] = qn_kv_store_write(store, parent, key, ids, blocks[i], &busy[i]);
            }
            pending += busy[i];
        }
        if (pending == 0)
            continue;
        qn_kv_store_done done = test_wait(store, &waker);
        *(bool *)done.tag = false;
        if (write(progress_fd, ".", 1) != 1)
            _exit(1);
    }
}

static void kill_at_random(uint64_t *seed, pid_t child, int progress_fd)
{
    char byte;
    if (next_random(seed) % 2 == 0) {
        const struct timespec pause = {.tv_nsec = (long)(next_random(seed) % MAX_PAUSE_US) * 1000};
        nanosleep(&pause, NULL);
    } else {
        for (uint32_t i = next_random(seed) % MAX_COMPLETIONS + 1; i > 0; i--)
            assert_int_equal(read(progress_fd, &byte, 1), 1);
    }
    assert_int_equal(kill(child, SIGKILL), 0);
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
}

/* Returns how many blocks there are. */
static size_t check_all(void)
{
    test_waker waker;
    qn_kv_store *store = test_open(&waker, BOUND_BLOCKS);
    size_t claimed = 0;
    assert_int_equal(test_temporaries(), 0);
    for (uint64_t chain = 0; chain < CHAINS; chain++) {
        for (uint64_t index = 0; index < CHAIN_BLOCKS; index++) {
            if (!test_has(store, chain, index))
                continue;
            claimed++;
            assert_int_equal(test_read(store, &waker, chain, index), 1);
        }
    }
    qn_kv_store_state state = test_state(store);
    assert_int_equal(state.blocks, claimed);
    assert_int_equal(state.bytes, claimed * TEST_FILE_BYTES);
    assert_int_equal(state.failed_reads, 0);
    assert_int_equal(test_files(NULL), claimed);
    qn_kv_store_close(store);
    return claimed;
}

static void test_a_kill_at_any_moment_leaves_whole_blocks(void **state)
{
    (void)state;
    const char *given = getenv("QUERN_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : qn_random_seed();
    printf("seed %llu (QUERN_TEST_SEED)\n", (unsigned long long)seed);
    fflush(stdout);
    test_lines_begin();
    size_t most = 0;
    for (int i = 0; i < KILLS; i++) {
        int progress[2];
        assert_int_equal(pipe(progress), 0);
        uint64_t child_seed = seed + (uint64_t)i;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            close(progress[0]);
            work_until_killed(child_seed, progress[1]);
        }
        close(progress[1]);
        kill_at_random(&seed, child, progress[0]);
        close(progress[0]);
        test_lines[0] = '\0';
        size_t blocks = check_all();
        most = blocks > most ? blocks : most;
        assert_null(strstr(test_lines, "removed")); /* a process that is killed damages nothing */
    }
    test_lines_end();
    assert_true(most > 0 && most <= BOUND_BLOCKS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_kill_at_any_moment_leaves_whole_blocks, test_folder_make,
                                        test_folder_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
