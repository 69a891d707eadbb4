/* The three layouts of MXFP4 experts on disk hold the same numbers: every backend gives the same bits from each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "golden/goldens.h"
#include "golden/rig.h"

static const char *const layouts[] = {ORACLE "tiny-sparse-mxfp4-ct", ORACLE "tiny-sparse-mxfp4-fused",
                                      ORACLE "tiny-sparse-mxfp4-quark"};
enum { LAYOUTS = sizeof layouts / sizeof layouts[0] };

/* Logits and MTP logits of every position, one behind the other: [2 * n, vocab_size]. */
static float *run_prompt(const char *dir, const char *isa, const golden_case *g, size_t *count)
{
    rig r = rig_open(dir, (rig_options){.isa = isa, .max_context_tokens = g->n});
    float *hidden = rig_alloc(g->n * r.hidden_size, sizeof *hidden),
          *out = rig_alloc(g->n * r.hidden_size, sizeof *out);
    *count = 2 * g->n * r.vocab_size;
    float *logits = rig_alloc(*count, sizeof *logits);
    qn_kv_sequence sequence = rig_sequence(&r);
    rig_forward(&r, &sequence, g->ids, 0, g->n, 0, hidden, NULL);
    rig_logits(&r, hidden, g->n, logits);
    rig_mtp(&r, &sequence, g->next_ids, hidden, 0, g->n, 0, out, NULL, NULL);
    rig_mtp_logits(&r, out, g->n, logits + g->n * r.vocab_size);
    qn_kv_sequence_free(&sequence);
    qn_free(hidden);
    qn_free(out);
    rig_close(&r);
    return logits;
}

static void check_backend(const char *isa, const golden_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        const golden_case *g = &set->cases[i];
        size_t count, other_count;
        if (g->n > RIG_LONGEST_PROMPT)
            continue;
        float *first = run_prompt(layouts[0], isa, g, &count);
        for (size_t k = 1; k < LAYOUTS; k++) {
            float *other = run_prompt(layouts[k], isa, g, &other_count);
            if (other_count != count || memcmp(first, other, count * sizeof *first) != 0)
                fail_msg("%s, %zu tokens: %s and %s differ", isa, g->n, layouts[0], layouts[k]);
            qn_free(other);
        }
        qn_free(first);
    }
}

static void test_layouts_give_the_same_bits(void **state)
{
    (void)state;
    golden_set set = golden_open("tiny-sparse-mxfp4-ct");
    size_t count;
    const qn_kernels *const *kernels = qn_kernels_all(&count);
    for (size_t i = 0; i < count; i++)
        if (qn_kernels_supported(kernels[i]))
            check_backend(kernels[i]->name, &set);
    golden_close(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_layouts_give_the_same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
