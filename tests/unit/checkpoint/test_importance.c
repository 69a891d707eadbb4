/* Importance files of the shipped model's shape: the weights as the header's formula has them, and every way in which a
 * file can be wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "checkpoint/importance.h"
#include "checkpoint/safetensors_writer.h"

enum { FIRST = 1, MTP = 7, EXPERTS = 16, HIDDEN = 128, INNER = 64 };

static qn_config config;
static char path[] = "/tmp/quern-importance-XXXXXX";
static char last_line[512];

static void keep_line(void *context, const char *line)
{
    (void)context;
    snprintf(last_line, sizeof last_line, "%s", line);
}

/* What the file holds at a place: expert 3 has no token, expert 5 few. */
static float tokens_of(size_t expert)
{
    return expert == 3 ? 0.0f : expert == 5 ? 2.0f : 100.0f + (float)expert;
}

static float value_of(size_t layer, qn_importance_tensor which, size_t expert, size_t i)
{
    float level = 1.0f + (float)((i * 7 + layer + expert * 3) % 11) + (which == QN_IMPORTANCE_DOWN ? 0.5f : 0.0f);
    return which == QN_IMPORTANCE_TOKENS ? tokens_of(expert) : tokens_of(expert) * level;
}

/* How a file differs from a good one. */
typedef struct change {
    const char *leave_out, *add;      /* names of tensors */
    const char *tensor;               /* of the rest: has ... */
    const float *first;               /* ... this first value, */
    qn_dtype dtype;                   /* ... this dtype (F32 is none), */
    size_t more_rows, more_cols;      /* ... so many more */
    bool without_mtp, without_tokens; /* tokens: all counts 0 */
} change;

static bool is(const char *name, const char *other)
{
    return other != NULL && strcmp(name, other) == 0;
}

static void write_tensor(qn_safetensors_writer *w, const change *c, size_t layer, qn_importance_tensor which,
                         bool declare)
{
    char name[QN_IMPORTANCE_NAME_BYTES];
    qn_error err;
    qn_importance_name(layer, which, name);
    if (is(name, c->leave_out)) {
        return;
    }
    bool changed = is(name, c->tensor);
    size_t cols = which == QN_IMPORTANCE_TOKENS ? 1 : qn_importance_cols(&config, which);
    size_t shape[] = {EXPERTS + (changed ? c->more_rows : 0), cols + (changed ? c->more_cols : 0)};
    qn_dtype dtype = changed ? c->dtype : QN_DTYPE_F32;
    if (declare) {
        size_t dims = which == QN_IMPORTANCE_TOKENS && !(changed && c->more_cols > 0) ? 1 : 2;
        assert_int_equal(qn_safetensors_writer_declare(w, name, dtype, dims, shape, &err), QN_OK);
        return;
    }
    for (size_t i = 0; i < shape[0] * shape[1]; i++) {
        float value = value_of(layer, which, i / cols % EXPERTS, i % cols);
        value = which == QN_IMPORTANCE_TOKENS && c->without_tokens ? 0.0f : value;
        value = changed && c->first != NULL && i == 0 ? *c->first : value;
        assert_int_equal(qn_safetensors_writer_append(w, &value, qn_dtype_bits(dtype) / 8, &err), QN_OK);
    }
}

static void write_file(const change *c)
{
    qn_safetensors_writer *w;
    qn_error err;
    assert_int_equal(qn_safetensors_writer_new(&w, &err), QN_OK);
    for (int declare = 1; declare >= 0; declare--) {
        for (size_t layer = FIRST; layer <= (c->without_mtp ? MTP - 1 : MTP); layer++) {
            for (size_t which = 0; which < QN_IMPORTANCE_TENSORS; which++) {
                write_tensor(w, c, layer, (qn_importance_tensor)which, declare);
            }
        }
        if (c->add != NULL && declare) {
            const size_t none = 0;
            assert_int_equal(qn_safetensors_writer_declare(w, c->add, QN_DTYPE_F32, 1, &none, &err), QN_OK);
        }
        if (declare) {
            assert_int_equal(qn_safetensors_writer_begin(w, path, &err), QN_OK);
        }
    }
    assert_int_equal(qn_safetensors_writer_finish(w, &err), QN_OK);
    qn_safetensors_writer_free(w);
}

static qn_importance *open_file(void)
{
    qn_importance *importance;
    qn_error err;
    if (qn_importance_open(path, &config, &importance, &err) != QN_OK) {
        fail_msg("%s", err.message);
    }
    return importance;
}

static void check_weights(const qn_importance *importance, size_t layer, size_t expert, qn_importance_tensor which)
{
    size_t cols = qn_importance_cols(&config, which);
    double all_tokens = 0.0, k = QN_IMPORTANCE_PRIOR_TOKENS, wanted[HIDDEN], mean = 0.0;
    float got[HIDDEN];
    for (size_t e = 0; e < EXPERTS; e++) {
        all_tokens += (double)tokens_of(e);
    }
    for (size_t i = 0; i < cols; i++) {
        double layer_sum = 0.0;
        for (size_t e = 0; e < EXPERTS; e++) {
            layer_sum += (double)value_of(layer, which, e, i);
        }
        wanted[i] = ((double)value_of(layer, which, expert, i) + k * layer_sum / all_tokens) /
                    ((double)tokens_of(expert) + k);
        mean += wanted[i] / (double)cols;
    }
    qn_importance_weights(importance, layer, expert, which, got);
    for (size_t i = 0; i < cols; i++) {
        assert_true(fabs((double)got[i] - wanted[i] / mean) < 1e-6 * wanted[i] / mean);
    }
}

static void weights_follow_the_formula(void **state)
{
    (void)state;
    write_file(&(change){0});
    qn_importance *importance = open_file();
    for (size_t layer = FIRST; layer <= MTP; layer++) {
        for (size_t expert = 0; expert < EXPERTS; expert++) {
            check_weights(importance, layer, expert, QN_IMPORTANCE_GATE_UP);
            check_weights(importance, layer, expert, QN_IMPORTANCE_DOWN);
        }
    }
    qn_importance_close(importance);
}

static void the_hash_is_that_of_the_file(void **state)
{
    (void)state;
    char *text;
    size_t bytes;
    qn_error err;
    write_file(&(change){0});
    assert_int_equal(qn_file_read(path, 1 << 20, &text, &bytes, &err), QN_OK);
    qn_importance *importance = open_file();
    assert_true(qn_hash_equal(qn_importance_hash(importance), qn_hash_bytes(text, bytes)));
    qn_importance_close(importance);
    qn_free(text);
}

static void a_missing_mtp_layer_is_told_and_counts_alike(void **state)
{
    (void)state;
    float weights[HIDDEN];
    write_file(&(change){.without_mtp = true});
    last_line[0] = '\0';
    qn_importance *importance = open_file();
    assert_non_null(strstr(last_line, "MTP layer (layer 7)"));
    qn_importance_weights(importance, MTP, 4, QN_IMPORTANCE_GATE_UP, weights);
    for (size_t i = 0; i < HIDDEN; i++) {
        assert_true(weights[i] == 1.0f);
    }
    check_weights(importance, MTP - 1, 4, QN_IMPORTANCE_DOWN);
    qn_importance_close(importance);
}

static void inputs_that_never_fired_weigh_nothing_or_alike(void **state)
{
    (void)state;
    qn_config one = config;
    float weights[2 * HIDDEN];
    /* A layer whose inputs are all zero says nothing about which matters: made by a config of one expert's file. */
    static const float sums[2][4] = {{0, 0, 0, 0}, {3, 0, 0, 1}};
    one.num_hidden_layers = 2;
    one.num_nextn_predict_layers = 0;
    one.n_routed_experts = 1;
    one.hidden_size = one.moe_intermediate_size = 4;
    one.layer_is_sparse[0] = one.layer_is_sparse[1] = true;
    const size_t shape[] = {1, 4};
    const float tokens = 10;
    char name[QN_IMPORTANCE_NAME_BYTES];
    qn_safetensors_writer *w;
    qn_error err;
    assert_int_equal(qn_safetensors_writer_new(&w, &err), QN_OK);
    for (size_t i = 0; i < 6; i++) {
        qn_importance_name(i / 3, (qn_importance_tensor)(i % 3), name);
        assert_int_equal(qn_safetensors_writer_declare(w, name, QN_DTYPE_F32, i % 3 == 2 ? 1 : 2, shape, &err), QN_OK);
    }
    assert_int_equal(qn_safetensors_writer_begin(w, path, &err), QN_OK);
    for (size_t i = 0; i < 6; i++) {
        const void *data = i % 3 == 2 ? (const void *)&tokens : sums[i / 3];
        assert_int_equal(qn_safetensors_writer_append(w, data, i % 3 == 2 ? 4 : 16, &err), QN_OK);
    }
    assert_int_equal(qn_safetensors_writer_finish(w, &err), QN_OK);
    qn_safetensors_writer_free(w);

    qn_importance *importance;
    assert_int_equal(qn_importance_open(path, &one, &importance, &err), QN_OK);
    qn_importance_weights(importance, 0, 0, QN_IMPORTANCE_GATE_UP, weights);
    static const float alike[] = {1, 1, 1, 1}, uneven[] = {3, 0, 0, 1};
    assert_memory_equal(weights, alike, sizeof alike);
    qn_importance_weights(importance, 1, 0, QN_IMPORTANCE_DOWN, weights);
    assert_memory_equal(weights, uneven, sizeof uneven);
    qn_importance_close(importance);
}

static void refuse(const change *c, const char *part)
{
    qn_importance *importance;
    qn_error err;
    write_file(c);
    assert_int_equal(qn_importance_open(path, &config, &importance, &err), QN_BAD_INPUT);
    if (strstr(err.message, part) == NULL || strstr(err.message, path) == NULL) {
        fail_msg("'%s' does not tell '%s' and the file", err.message, part);
    }
}

static void bad_files_are_refused(void **state)
{
    (void)state;
    static const float bad[] = {-1.0f, INFINITY, NAN};
    static const char *const names[] = {"model.layers.3.mlp.experts.gate_up.input_sq_sum",
                                        "model.layers.7.mlp.experts.down.input_sq_sum",
                                        "model.layers.6.mlp.experts.tokens"};
    for (size_t i = 0; i < 3; i++) {
        for (size_t k = 0; k < 3; k++) {
            refuse(&(change){.tensor = names[i], .first = &bad[k]}, names[i]);
        }
        refuse(&(change){.leave_out = names[i]}, names[i]);
        refuse(&(change){.tensor = names[i], .more_rows = 1}, "[17");
        refuse(&(change){.tensor = names[i], .more_cols = 1}, names[i]);
        refuse(&(change){.tensor = names[i], .dtype = QN_DTYPE_BF16}, "BF16");
    }
    refuse(&(change){.add = "model.layers.0.mlp.experts.tokens"}, "model.layers.0.mlp.experts.tokens"); /* dense */
    refuse(&(change){.add = "model.layers.8.mlp.experts.tokens"}, "no such experts");
    refuse(&(change){.without_tokens = true}, "no token reached");
}

static void files_that_are_none(void **state)
{
    (void)state;
    qn_importance *importance;
    qn_error err;
    assert_int_equal(qn_file_write(path, "no safetensors file", 19, &err), QN_OK);
    assert_int_equal(qn_importance_open(path, &config, &importance, &err), QN_BAD_INPUT);
    assert_int_equal(qn_file_write(path, "", 0, &err), QN_OK);
    assert_int_equal(qn_importance_open(path, &config, &importance, &err), QN_BAD_INPUT);
    assert_int_equal(qn_importance_open("/nonexistent", &config, &importance, &err), QN_BAD_INPUT);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    write_file(&(change){0});
    for (long n = 1;; n++) {
        qn_importance *importance;
        qn_error err;
        qn_fault_arm(QN_FAULT_ALLOC, n);
        qn_status status = qn_importance_open(path, &config, &importance, &err);
        qn_fault_disarm();
        if (status == QN_OK) {
            assert_true(n > 5);
            qn_importance_close(importance);
            break;
        }
        assert_int_equal(status, QN_RESOURCE);
    }
}

static int set_up(void **state)
{
    (void)state;
    char *text;
    size_t bytes;
    qn_error err;
    int fd = mkstemp(path);
    close(fd);
    qn_log_set_sink(keep_line, NULL);
    if (fd < 0 || qn_file_read("models/quern-tiny/config.json", 1 << 20, &text, &bytes, &err) != QN_OK) {
        return -1;
    }
    qn_status status = qn_config_parse(text, bytes, "config.json", &config, &err);
    qn_free(text);
    return status == QN_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_follow_the_formula),
        cmocka_unit_test(the_hash_is_that_of_the_file),
        cmocka_unit_test(a_missing_mtp_layer_is_told_and_counts_alike),
        cmocka_unit_test(inputs_that_never_fired_weigh_nothing_or_alike),
        cmocka_unit_test(bad_files_are_refused),
        cmocka_unit_test(files_that_are_none),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
