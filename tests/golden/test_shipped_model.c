/* models/quern-tiny against transformers' greedy decoding of it (eval/greedy_hf.jsonl), token by token: the scalar
 * backend throughout, the others up to a step whose two best logits are closer than 0.2 and which goes the other way.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "golden/continuation.h"
#include "golden/goldens.h"
#include "golden/rig.h"

#define MODEL "models/quern-tiny"
enum { FILE_LIMIT = 1 << 20, MAX_CONTEXT = 2200, MAX_ENTRIES = 64 };

/* transformers with a cache is itself off by up to 1e-4 (the model's README). */
static const double SCALAR_NEAR_TIE = 1e-4, BF16_NEAR_TIE = 0.2;

typedef struct entries {
    json_t *json[MAX_ENTRIES];
    size_t count;
} entries;

static entries read_entries(void)
{
    entries all = {.count = 0};
    char *text;
    size_t bytes;
    qn_error err;
    if (qn_file_read(MODEL "/eval/greedy_hf.jsonl", FILE_LIMIT, &text, &bytes, &err) != QN_OK)
        fail_msg("%s", err.message);
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        assert_true(all.count < MAX_ENTRIES);
        if (qn_json_parse(line, (size_t)(end - line), "greedy_hf.jsonl", &all.json[all.count++], &err) != QN_OK)
            fail_msg("%s", err.message);
    }
    qn_free(text);
    assert_true(all.count > 0);
    return all;
}

static void check_entry(rig *r, json_t *entry, double near_tie, size_t *agreed, size_t *total)
{
    size_t n, margin_count;
    char what[64];
    snprintf(what, sizeof what, "%s, %s", json_string_value(json_object_get(entry, "id")), r->kernels->name);
    expected_tokens expected = {.what = what, .near_tie = near_tie};
    int32_t *prompt = golden_json_ints(entry, "prompt_ids", &n);
    int32_t *tokens = golden_json_ints(entry, "output_ids", &expected.count);
    double *margins = golden_json_numbers(entry, "margins", &margin_count);
    assert_true(n > 0 && expected.count > 0 && margin_count == expected.count);
    expected.tokens = tokens;
    expected.margins = margins;
    *total += expected.count;
    if (n <= RIG_LONGEST_PROMPT) {
        qn_kv_sequence sequence = rig_sequence(r);
        float *hidden = rig_alloc(n * r->hidden_size, sizeof *hidden);
        rig_forward(r, &sequence, prompt, 0, n, 0, hidden, NULL);
        *agreed += continue_greedily(r, &sequence, n, hidden + (n - 1) * r->hidden_size, &expected);
        qn_kv_sequence_free(&sequence);
        qn_free(hidden);
    } else {
        printf("%s: %zu tokens are too long for this build\n", what, n);
    }
    qn_free(prompt);
    qn_free(tokens);
    qn_free(margins);
}

static void check_backend(const qn_kernels *kernels, const entries *all, double near_tie)
{
    size_t agreed = 0, total = 0;
    rig r = rig_open(MODEL, (rig_options){.isa = kernels->name, .max_context_tokens = MAX_CONTEXT});
    for (size_t i = 0; i < all->count; i++)
        check_entry(&r, all->json[i], near_tie, &agreed, &total);
    printf("%-10s %zu of %zu tokens\n", kernels->name, agreed, total);
    rig_close(&r);
}

static void test_greedy_tokens(void **state)
{
    (void)state;
    entries all = read_entries();
    size_t count;
    const qn_kernels *const *kernels = qn_kernels_all(&count);
    for (size_t i = 0; i < count; i++) {
        if (!qn_kernels_supported(kernels[i]))
            printf("%-10s not on this CPU\n", kernels[i]->name);
        else
            check_backend(kernels[i], &all, kernels[i]->kv_dtype == QN_DTYPE_F32 ? SCALAR_NEAR_TIE : BF16_NEAR_TIE);
    }
    for (size_t i = 0; i < all.count; i++)
        json_decref(all.json[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_greedy_tokens)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
