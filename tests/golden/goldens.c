/* Reading of goldens; see goldens.h. */
#include "golden/goldens.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/memory.h"

const char *const golden_checkpoints[] = {"tiny-dense",   "tiny-sparse", "tiny-sparse-mxfp4-ct",
                                          "tiny-grouped", "tiny-mtp",    "tiny-sharded",
                                          "tiny-long"};
const size_t golden_checkpoint_count = sizeof golden_checkpoints / sizeof golden_checkpoints[0];

enum { JSON_LIMIT = 8 << 20 };

int32_t *golden_json_ints(json_t *object, const char *name, size_t *count)
{
    json_t *array = json_object_get(object, name);
    *count = 0;
    if (!array)
        return NULL;
    *count = json_array_size(array);
    int32_t *out = qn_alloc(*count, sizeof *out);
    assert_non_null(out);
    for (size_t i = 0; i < *count; i++)
        out[i] = (int32_t)json_integer_value(json_array_get(array, i));
    return out;
}

double *golden_json_numbers(json_t *object, const char *name, size_t *count)
{
    json_t *array = json_object_get(object, name);
    assert_non_null(array);
    *count = json_array_size(array);
    double *out = qn_alloc(*count, sizeof *out);
    assert_non_null(out);
    for (size_t i = 0; i < *count; i++)
        out[i] = json_number_value(json_array_get(array, i));
    return out;
}

static void open_case(const char *dir, json_t *json, golden_case *out)
{
    char path[256];
    qn_error err;
    size_t next_count;
    snprintf(path, sizeof path, "%s/%s", dir, json_string_value(json_object_get(json, "file")));
    if (qn_safetensors_open(path, &out->file, &err) != QN_OK)
        fail_msg("%s", err.message);
    out->json = json;
    out->ids = golden_json_ints(json, "ids", &out->n);
    out->next_ids = golden_json_ints(json, "mtp_next_ids", &next_count);
    assert_true(out->n > 0 && (!out->next_ids || next_count == out->n));
    out->first = (size_t)json_integer_value(json_array_get(json_object_get(json, "positions"), 0));
}

golden_set golden_open(const char *checkpoint)
{
    golden_set set = {0};
    char dir[192], path[256];
    qn_error err;
    snprintf(set.name, sizeof set.name, "%s", checkpoint);
    snprintf(dir, sizeof dir, ORACLE "%s", checkpoint);
    snprintf(path, sizeof path, "%s/goldens.json", dir);
    if (qn_json_parse_file(path, JSON_LIMIT, &set.json, &err) != QN_OK)
        fail_msg("%s", err.message);
    json_t *cases = json_object_get(set.json, "cases");
    set.count = json_array_size(cases);
    assert_true(set.count > 0);
    set.cases = qn_alloc_zero(set.count, sizeof *set.cases);
    assert_non_null(set.cases);
    for (size_t i = 0; i < set.count; i++)
        open_case(dir, json_array_get(cases, i), &set.cases[i]);
    return set;
}

void golden_close(golden_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        qn_safetensors_close(set->cases[i].file);
        qn_free(set->cases[i].ids);
        qn_free(set->cases[i].next_ids);
    }
    qn_free(set->cases);
    json_decref(set->json);
}

static const qn_tensor *find(const golden_case *c, const char *name, size_t *rows, size_t *width)
{
    const qn_tensor *t = qn_safetensors_find(c->file, name);
    if (!t)
        return NULL;
    assert_true(t->dims == 1 || t->dims == 2);
    *rows = t->shape[0];
    *width = t->dims == 2 ? t->shape[1] : 1;
    return t;
}

float *golden_floats(const golden_case *c, const char *name, size_t *rows, size_t *width)
{
    const qn_tensor *t = find(c, name, rows, width);
    if (!t)
        return NULL;
    size_t count = *rows * *width;
    float *out = qn_alloc(count, sizeof *out);
    assert_non_null(out);
    if (t->dtype == QN_DTYPE_F32) {
        memcpy(out, t->data, count * sizeof *out);
        return out;
    }
    assert_int_equal(t->dtype, QN_DTYPE_BF16);
    for (size_t i = 0; i < count; i++) {
        uint16_t bits;
        memcpy(&bits, t->data + 2 * i, sizeof bits);
        out[i] = qn_bf16_to_f32(bits);
    }
    return out;
}

int32_t *golden_ints(const golden_case *c, const char *name, size_t *rows, size_t *width)
{
    const qn_tensor *t = find(c, name, rows, width);
    if (!t)
        return NULL;
    assert_int_equal(t->dtype, QN_DTYPE_I32);
    int32_t *out = qn_alloc(*rows * *width, sizeof *out);
    assert_non_null(out);
    memcpy(out, t->data, *rows * *width * sizeof *out);
    return out;
}
