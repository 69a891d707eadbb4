#include "store_support.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "kv/store_file.h"

char test_folder[64], test_lines[16384];

static size_t file_count, temporary_count;
static void (*file_visit)(const char *path);

int test_folder_make(void **state)
{
    (void)state;
    strcpy(test_folder, "/tmp/quern-store-XXXXXX");
    return mkdtemp(test_folder) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *ftw)
{
    (void)info, (void)kind, (void)ftw;
    return remove(path);
}

int test_folder_remove(void **state)
{
    (void)state;
    return nftw(test_folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int visit_one(const char *path, const struct stat *info, int kind, struct FTW *ftw)
{
    (void)info;
    if (kind != FTW_F || strcmp(path + ftw->base, QN_KV_LOCK_NAME) == 0)
        return 0;
    file_count++;
    temporary_count += strcmp(path + ftw->base, QN_KV_TEMPORARY_NAME) == 0;
    if (file_visit)
        file_visit(path);
    return 0;
}

size_t test_files(void (*visit)(const char *path))
{
    file_count = temporary_count = 0;
    file_visit = visit;
    assert_int_equal(nftw(test_folder, visit_one, 16, FTW_PHYS), 0);
    return file_count;
}

size_t test_temporaries(void)
{
    test_files(NULL);
    return temporary_count;
}

qn_hash test_key(uint64_t chain, uint64_t index)
{
    const uint64_t numbers[2] = {chain, index};
    return qn_hash_bytes(numbers, sizeof numbers);
}

qn_hash test_parent(uint64_t chain, uint64_t index)
{
    return index == 0 ? (qn_hash){.high = 1, .low = 2} : test_key(chain, index - 1);
}

void test_ids(uint64_t chain, uint64_t index, int32_t ids[TEST_BLOCK_TOKENS])
{
    for (int32_t i = 0; i < TEST_BLOCK_TOKENS; i++)
        ids[i] = (int32_t)(chain * 1000 + index * TEST_BLOCK_TOKENS) + i;
}

void test_fill(uint64_t chain, uint64_t index, uint8_t block[TEST_BLOCK_BYTES])
{
    qn_hash key = test_key(chain, index);
    uint64_t state = key.low | 1;
    for (size_t i = 0; i < TEST_BLOCK_BYTES; i++) {
        state = state * 6364136223846793005u + key.high;
        block[i] = (uint8_t)(state >> 56);
    }
}

bool test_is_filled(uint64_t chain, uint64_t index, const uint8_t block[TEST_BLOCK_BYTES])
{
    uint8_t expected[TEST_BLOCK_BYTES];
    test_fill(chain, index, expected);
    return memcmp(block, expected, sizeof expected) == 0;
}

qn_kv_header test_header(uint64_t chain, uint64_t index)
{
    return (qn_kv_header){.block_bytes = TEST_BLOCK_BYTES,
                          .block_tokens = TEST_BLOCK_TOKENS,
                          .fingerprint = {.high = 11, .low = 22},
                          .parent = test_parent(chain, index),
                          .key = test_key(chain, index)};
}

char *test_path(uint64_t chain, uint64_t index)
{
    qn_kv_header header = test_header(chain, index);
    char *path = qn_kv_file_path(test_folder, qn_kv_header_id(&header));
    assert_non_null(path);
    return path;
}

void test_waker_init(test_waker *waker)
{
    *waker = (test_waker){.allowed = SIZE_MAX};
    pthread_mutex_init(&waker->mutex, NULL);
    pthread_cond_init(&waker->changed, NULL);
}

void test_waker_hold(test_waker *waker)
{
    pthread_mutex_lock(&waker->mutex);
    waker->allowed = waker->calls;
    pthread_mutex_unlock(&waker->mutex);
}

void test_waker_release(test_waker *waker)
{
    pthread_mutex_lock(&waker->mutex);
    waker->allowed = SIZE_MAX;
    pthread_cond_broadcast(&waker->changed);
    pthread_mutex_unlock(&waker->mutex);
}

void test_wake(void *context)
{
    test_waker *waker = context;
    pthread_mutex_lock(&waker->mutex);
    waker->calls++;
    pthread_cond_broadcast(&waker->changed);
    while (waker->calls > waker->allowed)
        pthread_cond_wait(&waker->changed, &waker->mutex);
    pthread_mutex_unlock(&waker->mutex);
}

qn_kv_store_options test_options(test_waker *waker, size_t max_blocks)
{
    test_waker_init(waker);
    return (qn_kv_store_options){.dir = test_folder,
                                 .fingerprint = test_header(0, 0).fingerprint,
                                 .block_bytes = TEST_BLOCK_BYTES,
                                 .block_tokens = TEST_BLOCK_TOKENS,
                                 .max_bytes = max_blocks * TEST_FILE_BYTES,
                                 .wake = test_wake,
                                 .wake_context = waker};
}

qn_kv_store *test_open(test_waker *waker, size_t max_blocks)
{
    qn_kv_store_options options = test_options(waker, max_blocks);
    qn_kv_store *store = NULL;
    qn_error err;
    if (qn_kv_store_open(&options, &store, &err) != QN_OK)
        fail_msg("%s", err.message);
    return store;
}

qn_kv_store_done test_wait(qn_kv_store *store, test_waker *waker)
{
    qn_kv_store_done done;
    for (;;) {
        pthread_mutex_lock(&waker->mutex);
        size_t calls = waker->calls;
        pthread_mutex_unlock(&waker->mutex);
        if (qn_kv_store_take_done(store, &done, 1) == 1)
            return done;
        pthread_mutex_lock(&waker->mutex);
        while (waker->calls == calls)
            pthread_cond_wait(&waker->changed, &waker->mutex);
        pthread_mutex_unlock(&waker->mutex);
    }
}

int test_write(qn_kv_store *store, test_waker *waker, uint64_t chain, uint64_t index)
{
    uint8_t block[TEST_BLOCK_BYTES];
    int32_t ids[TEST_BLOCK_TOKENS];
    test_fill(chain, index, block);
    test_ids(chain, index, ids);
    if (!qn_kv_store_write(store, test_parent(chain, index), test_key(chain, index), ids, block, block))
        return -1;
    qn_kv_store_done done = test_wait(store, waker);
    assert_ptr_equal(done.tag, block);
    assert_false(done.is_read);
    return done.ok;
}

int test_read(qn_kv_store *store, test_waker *waker, uint64_t chain, uint64_t index)
{
    uint8_t block[TEST_BLOCK_BYTES] = {0}, zeros[TEST_BLOCK_BYTES] = {0};
    int32_t ids[TEST_BLOCK_TOKENS];
    test_ids(chain, index, ids);
    if (!qn_kv_store_read(store, test_parent(chain, index), test_key(chain, index), ids, block, block))
        return -1;
    qn_kv_store_done done = test_wait(store, waker);
    assert_ptr_equal(done.tag, block);
    assert_true(done.is_read);
    assert_true(done.ok ? test_is_filled(chain, index, block) : memcmp(block, zeros, sizeof block) == 0);
    return done.ok;
}

bool test_has(qn_kv_store *store, uint64_t chain, uint64_t index)
{
    qn_hash key = test_key(chain, index);
    return qn_kv_store_find(store, &key, 1) == 1;
}

qn_kv_store_state test_state(qn_kv_store *store)
{
    qn_kv_store_state state;
    qn_kv_store_get_state(store, &state);
    return state;
}

static pthread_mutex_t lines_mutex = PTHREAD_MUTEX_INITIALIZER;

static void keep_line(void *context, const char *line)
{
    (void)context;
    pthread_mutex_lock(&lines_mutex);
    size_t used = strlen(test_lines);
    snprintf(test_lines + used, sizeof test_lines - used, "%s\n", line);
    pthread_mutex_unlock(&lines_mutex);
}

void test_lines_begin(void)
{
    test_lines[0] = '\0';
    qn_log_set_sink(keep_line, NULL);
}

void test_lines_end(void)
{
    qn_log_set_sink(NULL, NULL);
}
