/* The number that names a cache's contents: another one for whatever changes a bit of them, the same for all else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/memory.h"
#include "engine/fingerprint.h"
#include "unit/engine/support.h"

enum { PATH_BYTES = 256, FILE_LIMIT = 1 << 26 };

/* A copy of a checkpoint that may be changed. */
typedef struct fixture {
    char dir[PATH_BYTES / 2], config[PATH_BYTES], weights[PATH_BYTES];
    qn_kernels kernels;
} fixture;

static void write_file(const char *path, const char *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static void copy_file(const char *from, const char *to)
{
    char *data;
    size_t bytes;
    qn_error err;
    assert_int_equal(qn_file_read(from, FILE_LIMIT, &data, &bytes, &err), QN_OK);
    write_file(to, data, bytes);
    qn_free(data);
}

static void set_time(const fixture *f, long seconds)
{
    const struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
    assert_int_equal(utimensat(AT_FDCWD, f->weights, times, 0), 0);
}

static fixture make_fixture(void)
{
    fixture f = {.dir = "/tmp/quern-fingerprint-XXXXXX"};
    const qn_kernels *kernels;
    qn_error err;
    assert_non_null(mkdtemp(f.dir));
    snprintf(f.config, sizeof f.config, "%s/config.json", f.dir);
    snprintf(f.weights, sizeof f.weights, "%s/model.safetensors", f.dir);
    copy_file("tests/data/oracle/tiny-dense/config.json", f.config);
    copy_file("tests/data/oracle/tiny-dense/model.safetensors", f.weights);
    set_time(&f, 1000000);
    assert_int_equal(qn_kernels_select("scalar", &kernels, &err), QN_OK);
    f.kernels = *kernels;
    return f;
}

static void remove_fixture(const fixture *f)
{
    unlink(f->config);
    unlink(f->weights);
    rmdir(f->dir);
}

static qn_status fingerprint(const fixture *f, const qn_engine_options *options, size_t block_tokens, qn_hash *out)
{
    qn_checkpoint *checkpoint;
    qn_error err;
    if (qn_checkpoint_open(f->dir, &checkpoint, &err) != QN_OK) {
        fail_msg("%s", err.message);
    }
    qn_status status = qn_fingerprint(checkpoint, &f->kernels, options, block_tokens, out, &err);
    qn_checkpoint_close(checkpoint);
    return status;
}

static qn_hash hash_of(const fixture *f, qn_engine_options options, size_t block_tokens)
{
    qn_hash hash;
    assert_int_equal(fingerprint(f, &options, block_tokens, &hash), QN_OK);
    return hash;
}

static void differs_where_contents_may(void **state)
{
    (void)state;
    fixture f = make_fixture();
    const qn_engine_options plain = {.mla_norm_eps = 1e-6F};
    qn_engine_options other = plain;
    qn_hash want = hash_of(&f, plain, 16);
    assert_true(qn_hash_equal(want, hash_of(&f, plain, 16)));

    assert_false(qn_hash_equal(want, hash_of(&f, plain, 32)));
    other.mla_norm_eps = 1e-5F;
    assert_false(qn_hash_equal(want, hash_of(&f, other, 16)));
    other = plain;
    other.dsa_dense_below = 100;
    assert_false(qn_hash_equal(want, hash_of(&f, other, 16)));
    other = plain;
    other.num_speculative_tokens = 1; /* its blocks hold the MTP layer's entries */
    qn_hash drafting = hash_of(&f, other, 16);
    assert_false(qn_hash_equal(want, drafting));
    other.num_speculative_tokens = 3;
    assert_true(qn_hash_equal(drafting, hash_of(&f, other, 16)));

    fixture g = f;
    g.kernels.name = "other";
    assert_false(qn_hash_equal(want, hash_of(&g, plain, 16)));
    set_time(&f, 1000001);
    assert_false(qn_hash_equal(want, hash_of(&f, plain, 16)));
    set_time(&f, 1000000);
    assert_true(qn_hash_equal(want, hash_of(&f, plain, 16)));

    char *text;
    size_t bytes;
    qn_error err;
    assert_int_equal(qn_file_read(f.config, FILE_LIMIT, &text, &bytes, &err), QN_OK);
    char *spaced = malloc(bytes + 1);
    assert_non_null(spaced);
    memcpy(spaced, text, bytes);
    spaced[bytes] = '\n';
    write_file(f.config, spaced, bytes + 1);
    assert_false(qn_hash_equal(want, hash_of(&f, plain, 16)));
    free(spaced);
    qn_free(text);
    remove_fixture(&f);
}

static void is_the_same_for_what_changes_no_bit(void **state)
{
    (void)state;
    fixture f = make_fixture();
    const qn_engine_options plain = {.mla_norm_eps = 1e-6F};
    const qn_engine_options other = {.mla_norm_eps = 1e-6F,
                                     .threads = 3,
                                     .max_model_len = 99,
                                     .max_num_seqs = 7,
                                     .max_num_batched_tokens = 13,
                                     .kv_cache_bytes = 1 << 20,
                                     .trace_drafts = true,
                                     .prefault = true,
                                     .repetition = {.max_ngram = 4, .repeats = 9}};
    assert_true(qn_hash_equal(hash_of(&f, plain, 16), hash_of(&f, other, 16)));
    remove_fixture(&f);
}

static void tells_what_it_cannot_look_at(void **state)
{
    (void)state;
    fixture f = make_fixture();
    const qn_engine_options options = {.mla_norm_eps = 1e-6F};
    qn_checkpoint *checkpoint;
    qn_hash hash;
    qn_error err;
    assert_int_equal(qn_checkpoint_open(f.dir, &checkpoint, &err), QN_OK);
    unlink(f.weights);
    assert_int_equal(qn_fingerprint(checkpoint, &f.kernels, &options, 16, &hash, &err), QN_RESOURCE);
    assert_non_null(strstr(err.message, "model.safetensors"));
    unlink(f.config);
    assert_int_not_equal(qn_fingerprint(checkpoint, &f.kernels, &options, 16, &hash, &err), QN_OK);
    assert_non_null(strstr(err.message, "config.json"));
    qn_checkpoint_close(checkpoint);
    remove_fixture(&f);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    fixture f = make_fixture();
    const qn_engine_options options = {.mla_norm_eps = 1e-6F};
    qn_checkpoint *checkpoint;
    qn_hash want = hash_of(&f, options, 16), hash;
    qn_error err;
    assert_int_equal(qn_checkpoint_open(f.dir, &checkpoint, &err), QN_OK);
    for (long n = 1;; n++) {
        qn_fault_arm(QN_FAULT_ALLOC, n);
        qn_status status = qn_fingerprint(checkpoint, &f.kernels, &options, 16, &hash, &err);
        bool failed = qn_fault_seen(QN_FAULT_ALLOC) >= n;
        qn_fault_disarm();
        if (!failed) {
            assert_int_equal(status, QN_OK);
            assert_true(n > 3 && qn_hash_equal(hash, want));
            break;
        }
        assert_int_equal(status, QN_RESOURCE);
    }
    qn_checkpoint_close(checkpoint);
    remove_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(differs_where_contents_may),
        cmocka_unit_test(is_the_same_for_what_changes_no_bit),
        cmocka_unit_test(tells_what_it_cannot_look_at),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
