/* Weights on their way from the mapping into memory: the same bits at every moment, whatever fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/packed_bf16.h"
#include "checkpoint/view_map.h"
#include "model/residence.h"
#include "model/residence_plan.h"

enum { MOST_MATRICES = 4096, SMALL_REQUEST = 4096, PATH_BYTES = 256 };

static const char *const CHECKPOINTS[] = {
    "tests/data/oracle/tiny-sharded",
    "tests/data/oracle/tiny-mtp",
    "tests/data/oracle/tiny-sparse-mxfp4-ct",
    "tests/data/oracle/tiny-sparse-mxfp4-fused",
    "tests/data/oracle/tiny-sparse-mxfp4-quark",
    "models/quern-tiny",
};

static pthread_mutex_t log_mutex = PTHREAD_MUTEX_INITIALIZER;
static char log_text[1 << 16];

static void keep_line(void *context, const char *line)
{
    (void)context;
    pthread_mutex_lock(&log_mutex);
    size_t used = strlen(log_text);
    snprintf(log_text + used, sizeof log_text - used, "%s\n", line);
    pthread_mutex_unlock(&log_mutex);
}

typedef struct opened {
    qn_checkpoint *checkpoint;
    qn_weights weights;
    qn_matrix *slot[MOST_MATRICES];
    qn_matrix from[MOST_MATRICES];
    bool packs[MOST_MATRICES]; /* whether it is one to be packed */
    size_t count;
} opened;

static opened o;

static void add_matrix(void *context, qn_matrix *matrix, qn_matrix_kind kind)
{
    (void)context;
    assert_true(o.count < MOST_MATRICES);
    o.slot[o.count] = matrix;
    o.packs[o.count] = qn_load_packs(matrix, kind);
    o.from[o.count++] = *matrix;
}

static void open_weights(const char *dir)
{
    qn_error err;
    o.count = 0;
    log_text[0] = '\0';
    assert_int_equal(qn_checkpoint_open(dir, &o.checkpoint, &err), QN_OK);
    assert_int_equal(qn_weights_take(o.checkpoint, &o.weights, &err), QN_OK);
    qn_weights_each_matrix(&o.weights, add_matrix, NULL);
}

static void close_weights(void)
{
    qn_weights_free(&o.weights);
    qn_checkpoint_close(o.checkpoint);
}

static qn_status start(size_t request_bytes, bool pack_dense, qn_residence **out, qn_error *err)
{
    const qn_residence_options options = {.in_background = true,
                                          .request_bytes = request_bytes,
                                          .pack_dense = pack_dense};
    return qn_residence_start(o.checkpoint, &o.weights, &options, out, err);
}

static void check_packed(const qn_matrix *now, const qn_matrix *from)
{
    static float a[QN_PACKED_MAX_COLS], b[QN_PACKED_MAX_COLS];
    assert_true(now->dtype == QN_DTYPE_PACKED_BF16 && now->sides && now->rows == from->rows);
    assert_true(now->cols == from->cols && now->data != from->data);
    for (size_t row = 0; row < from->rows; row++) {
        qn_matrix_row_to_f32(now, row, a);
        qn_matrix_row_to_f32(from, row, b);
        assert_memory_equal(a, b, from->cols * sizeof *a);
    }
}

/* Every matrix is wholly here or wholly there, with the same bits. Returns how many have moved. */
static size_t check_matrices(void)
{
    size_t moved = 0;
    for (size_t i = 0; i < o.count; i++) {
        const qn_matrix *now = o.slot[i], *from = &o.from[i];
        size_t data = from->rows * qn_matrix_row_bytes(from);
        if (o.packs[i] && now->dtype != from->dtype) {
            check_packed(now, from);
            moved++;
            continue;
        }
        assert_true(now->dtype == from->dtype && now->rows == from->rows && now->cols == from->cols);
        assert_true((now->data == from->data) == (now->scales == from->scales) || !from->scales);
        assert_memory_equal(now->data, from->data, data);
        if (from->scales)
            assert_memory_equal(now->scales, from->scales, qn_matrix_bytes(from) - data);
        moved += now->data != from->data;
    }
    return moved;
}

static size_t count_packed(void)
{
    size_t count = 0;
    for (size_t i = 0; i < o.count; i++)
        count += o.slot[i]->dtype == QN_DTYPE_PACKED_BF16;
    return count;
}

static size_t count_to_pack(void)
{
    size_t count = 0;
    for (size_t i = 0; i < o.count; i++)
        count += o.packs[i];
    assert_true(count > 0);
    return count;
}

static void matrices_move_whole_and_keep_their_bits(void **state)
{
    (void)state;
    static const size_t requests[] = {0, SMALL_REQUEST, (size_t)5 * SMALL_REQUEST};
    const size_t request_count = sizeof requests / sizeof *requests;
    for (size_t i = 0; i < sizeof CHECKPOINTS / sizeof *CHECKPOINTS; i++) {
        for (size_t k = 0; k < 2 * request_count; k++) {
            bool pack = k >= request_count;
            qn_residence *residence;
            qn_error err;
            open_weights(CHECKPOINTS[i]);
            assert_int_equal(start(requests[k % request_count], pack, &residence, &err), QN_OK);
            size_t before = 0, moved = 0;
            for (bool ended = false; !ended; before = moved) {
                ended = qn_residence_get_state(residence).ended;
                qn_residence_publish(residence);
                moved = check_matrices();
                assert_true(moved >= before);
            }
            assert_int_equal(moved, o.count);
            assert_true(count_packed() == (pack ? count_to_pack() : 0));
            const qn_residence_state end = qn_residence_get_state(residence);
            assert_true(end.loaded_bytes == end.total_bytes && end.total_bytes > 0);
            assert_non_null(strstr(log_text, " of weights in memory after "));
            qn_residence_free(residence);
            close_weights();
        }
    }
}

static void nothing_moves_but_when_published(void **state)
{
    (void)state;
    qn_residence *residence;
    qn_error err;
    open_weights(CHECKPOINTS[0]);
    assert_int_equal(start(SMALL_REQUEST, true, &residence, &err), QN_OK);
    qn_residence_wait(residence);
    assert_int_equal(check_matrices(), 0);
    qn_residence_publish(residence);
    assert_int_equal(check_matrices(), o.count);
    qn_residence_free(residence);
    close_weights();
}

/* Whoever waits for the load of a flag that is set is not kept waiting for the rest of the reads. */
static void a_stopped_load_ends_and_leaves_the_weights_mapped(void **state)
{
    (void)state;
    const atomic_bool stop = true;
    qn_residence *residence;
    qn_error err;
    open_weights(CHECKPOINTS[0]);
    const qn_residence_options options = {.request_bytes = SMALL_REQUEST, .stop = &stop};
    assert_int_equal(qn_residence_start(o.checkpoint, &o.weights, &options, &residence, &err), QN_OK);
    qn_residence_wait(residence);
    qn_residence_publish(residence);
    assert_int_equal(check_matrices(), 0);
    const qn_residence_state end = qn_residence_get_state(residence);
    assert_true(end.ended && end.loaded_bytes == 0);
    qn_residence_free(residence);
    close_weights();
}

/* How many descriptors of this process are of the checkpoint's files. */
static size_t count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    size_t count = 0;
    assert_non_null(dir);
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        char link[PATH_BYTES], target[PATH_BYTES];
        snprintf(link, sizeof link, "/proc/self/fd/%.20s", entry->d_name);
        ssize_t length = readlink(link, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        count += strstr(target, ".safetensors") != NULL;
    }
    closedir(dir);
    return count;
}

/* A server of a model in 100 files would keep 100 descriptors that nothing uses. */
static void files_are_closed_when_all_is_taken_over(void **state)
{
    (void)state;
    qn_residence *residence;
    qn_error err;
    open_weights(CHECKPOINTS[0]);
    assert_int_equal(count_descriptors(), 0);
    assert_int_equal(start(0, true, &residence, &err), QN_OK);
    qn_residence_wait(residence);
    assert_true(count_descriptors() > 1); /* until what was read is taken over */
    qn_residence_publish(residence);
    while (count_descriptors() > 0)
        sched_yield();
    qn_residence_free(residence);
    close_weights();
}

static void a_failing_read_leaves_the_rest_mapped(void **state)
{
    (void)state;
    bool failed = true;
    size_t kept_going = 0;
    for (long nth = 1; failed; nth += nth < 40 ? 1 : 7) {
        qn_residence *residence = NULL;
        qn_error err;
        open_weights(CHECKPOINTS[0]);
        qn_fault_arm(QN_FAULT_READ, nth);
        qn_status status = start(SMALL_REQUEST, nth % 2, &residence, &err);
        if (status == QN_OK) {
            qn_residence_wait(residence);
            qn_residence_publish(residence);
        }
        failed = qn_fault_seen(QN_FAULT_READ) >= nth;
        qn_fault_disarm();
        assert_true(status == QN_OK || (status == QN_RESOURCE && failed && !residence));
        size_t moved = check_matrices();
        if (strstr(log_text, "cannot read") || strstr(log_text, "mapped")) {
            assert_true(moved < o.count);
            assert_non_null(strstr(log_text, "the others are used where their files are mapped"));
            kept_going++;
        } else if (status == QN_OK) {
            assert_int_equal(moved, o.count);
        }
        qn_residence_free(residence);
        close_weights();
    }
    print_message("%zu loads went on without what could not be read\n", kept_going);
    assert_true(kept_going > 10);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    bool failed = true;
    size_t failures = 0;
    for (long nth = 1; failed; nth++) {
        qn_residence *residence = NULL;
        qn_error err;
        open_weights(CHECKPOINTS[2]);
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        qn_status status = start(SMALL_REQUEST, true, &residence, &err);
        if (status == QN_OK) {
            qn_residence_wait(residence);
            qn_residence_publish(residence);
        }
        failed = qn_fault_seen(QN_FAULT_ALLOC) >= nth;
        qn_fault_disarm();
        assert_true(status == QN_OK || (status == QN_RESOURCE && failed));
        assert_int_equal(check_matrices(), status == QN_OK ? o.count : 0);
        failures += status != QN_OK;
        qn_residence_free(residence);
        close_weights();
    }
    print_message("%zu allocations failed in turn\n", failures);
    assert_true(failures > 8);
}

static void closing_in_the_middle_ends_the_load(void **state)
{
    (void)state;
    for (int publish = 0; publish < 2; publish++) {
        qn_residence *residence;
        qn_error err;
        open_weights("models/quern-tiny");
        assert_int_equal(start(SMALL_REQUEST, publish, &residence, &err), QN_OK);
        if (publish)
            qn_residence_publish(residence);
        check_matrices();
        qn_residence_free(residence);
        close_weights();
    }
    qn_residence_free(NULL);
}

static void count_call(void *context)
{
    ++*(_Atomic int *)context;
}

static void the_end_of_a_load_is_called_out_once(void **state)
{
    (void)state;
    _Atomic int calls = 0;
    qn_residence *residence;
    qn_error err;
    open_weights(CHECKPOINTS[0]);
    const qn_residence_options options = {.in_background = true, .wake = count_call, .wake_context = (void *)&calls};
    assert_int_equal(qn_residence_start(o.checkpoint, &o.weights, &options, &residence, &err), QN_OK);
    qn_residence_wait(residence);
    qn_residence_free(residence);
    assert_int_equal(calls, 1);
    close_weights();
}

static void copy_file(const char *from_dir, const char *to_dir, const char *name)
{
    char path[PATH_BYTES], piece[1 << 14];
    size_t bytes;
    snprintf(path, sizeof path, "%s/%s", from_dir, name);
    FILE *in = fopen(path, "rb");
    snprintf(path, sizeof path, "%s/%s", to_dir, name);
    FILE *out = fopen(path, "wb");
    assert_true(in && out);
    while ((bytes = fread(piece, 1, sizeof piece, in)) > 0)
        assert_int_equal(fwrite(piece, 1, bytes, out), bytes);
    fclose(in);
    assert_int_equal(fclose(out), 0);
}

static void remove_copy(const char *dir)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    unlink(path);
    snprintf(path, sizeof path, "%s/config.json", dir);
    unlink(path);
    assert_int_equal(rmdir(dir), 0);
}

/* What replaced the mapped file is not what was checked, though it has the same size. */
static void an_exchanged_file_is_refused(void **state)
{
    (void)state;
    char dir[] = "/tmp/quern-residence-XXXXXX", path[PATH_BYTES];
    qn_residence *residence = NULL;
    qn_error err;
    assert_non_null(mkdtemp(dir));
    copy_file("models/quern-tiny", dir, "config.json");
    copy_file("models/quern-tiny", dir, "model.safetensors");
    open_weights(dir);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    assert_int_equal(unlink(path), 0);
    copy_file("models/quern-tiny", dir, "model.safetensors");
    assert_int_equal(start(0, false, &residence, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, path));
    assert_int_equal(check_matrices(), 0);
    close_weights();
    remove_copy(dir);
}

/* A copy of quern-tiny in whose head exponents of all sizes stand side by side. */
static void make_unpackable(char *dir)
{
    char path[PATH_BYTES];
    qn_view_map map;
    qn_error err;
    size_t file;
    uint64_t offset, random = 1;
    assert_non_null(mkdtemp(dir));
    copy_file("models/quern-tiny", dir, "config.json");
    copy_file("models/quern-tiny", dir, "model.safetensors");
    open_weights(dir);
    assert_int_equal(qn_view_map_make(o.checkpoint, &map, &err), QN_OK);
    assert_true(qn_view_map_find(&map, o.weights.lm_head.data, &file, &offset));
    size_t bytes = qn_matrix_data_bytes(&o.weights.lm_head);
    qn_view_map_free(&map);
    close_weights();
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    FILE *out = fopen(path, "r+b");
    assert_non_null(out);
    assert_int_equal(fseek(out, (long)offset, SEEK_SET), 0);
    for (size_t i = 0; i < bytes; i += 2) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const uint16_t finite = (uint16_t)(random >> 48 & 0xBFFF);
        assert_int_equal(fwrite(&finite, sizeof finite, 1, out), 1);
    }
    assert_int_equal(fclose(out), 0);
}

/* Packing it would not pay: it is in memory all the same, and its neighbours are packed. */
static void a_matrix_of_rare_exponents_stays_bf16(void **state)
{
    (void)state;
    static const size_t requests[] = {0, SMALL_REQUEST};
    char dir[] = "/tmp/quern-residence-XXXXXX";
    make_unpackable(dir);
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        qn_residence *residence;
        qn_error err;
        open_weights(dir);
        assert_int_equal(start(requests[i], true, &residence, &err), QN_OK);
        qn_residence_wait(residence);
        qn_residence_publish(residence);
        assert_int_equal(check_matrices(), o.count);
        assert_int_equal(o.weights.lm_head.dtype, QN_DTYPE_BF16);
        assert_true(count_packed() > 0 && count_packed() < count_to_pack());
        assert_non_null(strstr(log_text, "pack-dense: 1 matrices of "));
        assert_non_null(strstr(log_text, " stay BF16"));
        qn_residence_free(residence);
        close_weights();
    }
    remove_copy(dir);
}

/* Nor does a failure while that matrix is read again leave half of anything. */
static void a_matrix_that_is_not_packed_may_fail_to_come(void **state)
{
    (void)state;
    char dir[] = "/tmp/quern-residence-XXXXXX";
    make_unpackable(dir);
    for (int kind = 0; kind < 2; kind++) {
        const qn_fault_kind what = kind == 0 ? QN_FAULT_ALLOC : QN_FAULT_READ;
        bool failed = true;
        size_t stayed = 0;
        for (long nth = 1; failed; nth++) {
            qn_residence *residence = NULL;
            qn_error err;
            open_weights(dir);
            qn_fault_arm(what, nth);
            if (start(0, true, &residence, &err) == QN_OK) {
                qn_residence_wait(residence);
                qn_residence_publish(residence);
            }
            failed = qn_fault_seen(what) >= nth;
            qn_fault_disarm();
            stayed += residence && check_matrices() < o.count;
            assert_int_equal(o.weights.lm_head.dtype, QN_DTYPE_BF16);
            qn_residence_free(residence);
            close_weights();
        }
        assert_true(stayed > 0);
    }
    remove_copy(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrices_move_whole_and_keep_their_bits),
        cmocka_unit_test(nothing_moves_but_when_published),
        cmocka_unit_test(a_stopped_load_ends_and_leaves_the_weights_mapped),
        cmocka_unit_test(files_are_closed_when_all_is_taken_over),
        cmocka_unit_test(a_failing_read_leaves_the_rest_mapped),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(closing_in_the_middle_ends_the_load),
        cmocka_unit_test(the_end_of_a_load_is_called_out_once),
        cmocka_unit_test(a_matrix_of_rare_exponents_stays_bf16),
        cmocka_unit_test(a_matrix_that_is_not_packed_may_fail_to_come),
        cmocka_unit_test(an_exchanged_file_is_refused),
    };
    qn_log_set_sink(keep_line, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
