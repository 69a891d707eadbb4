/* What the tests of the KV store share: a folder for each test, blocks whose contents follow from their key, and
 * waiting for completions. Blocks of a chain build on each other; `chain` and `index` tell a block. */
#ifndef STORE_SUPPORT_H
#define STORE_SUPPORT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kv/store.h"
#include "kv/store_header.h"

enum { TEST_BLOCK_BYTES = 4096 + 96, TEST_BLOCK_TOKENS = 16, TEST_FILE_BYTES = 3 * 4096 };

extern char test_folder[64]; /* of the test that runs */
int test_folder_make(void **state);
int test_folder_remove(void **state);
/* Calls visit for every regular file below the test's folder but the lock; returns how many. */
size_t test_files(void (*visit)(const char *path));
size_t test_temporaries(void);

qn_hash test_key(uint64_t chain, uint64_t index);
qn_hash test_parent(uint64_t chain, uint64_t index);
void test_ids(uint64_t chain, uint64_t index, int32_t ids[TEST_BLOCK_TOKENS]);
void test_fill(uint64_t chain, uint64_t index, uint8_t block[TEST_BLOCK_BYTES]);
bool test_is_filled(uint64_t chain, uint64_t index, const uint8_t block[TEST_BLOCK_BYTES]);
qn_kv_header test_header(uint64_t chain, uint64_t index);
char *test_path(uint64_t chain, uint64_t index); /* of its file; to be released with qn_free */

/* Counts calls of wake. A call beyond `allowed` waits, which holds the thread that makes it. */
typedef struct test_waker {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    size_t calls, allowed;
} test_waker;
void test_waker_init(test_waker *waker);
void test_waker_hold(test_waker *waker); /* allows no more calls than there were */
void test_waker_release(test_waker *waker);
void test_wake(void *waker);

qn_kv_store_options test_options(test_waker *waker, size_t max_blocks);
qn_kv_store *test_open(test_waker *waker, size_t max_blocks);

/* Queue and wait for it: -1 not queued, 0 not ok, 1 ok. */
int test_write(qn_kv_store *store, test_waker *waker, uint64_t chain, uint64_t index);
int test_read(qn_kv_store *store, test_waker *waker, uint64_t chain, uint64_t index); /* and checks the contents */
/* Waits for one completion. */
qn_kv_store_done test_wait(qn_kv_store *store, test_waker *waker);
bool test_has(qn_kv_store *store, uint64_t chain, uint64_t index);
qn_kv_store_state test_state(qn_kv_store *store);

/* Lines logged since start are kept in test_lines, as "line\nline\n"; test_lines_end lets them go to stderr again. */
extern char test_lines[16384];
void test_lines_begin(void);
void test_lines_end(void);

#endif
