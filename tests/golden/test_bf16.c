/* Every backend that rounds to BF16: the mean KL divergence from the float32 goldens over all kept rows of all cases is
 * no larger than that of transformers' own bfloat16 run (`logits_bf16`). Single cases may differ, since a hard top-k
 * flips near ties; the table shows them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/memory.h"
#include "golden/goldens.h"
#include "golden/rig.h"

typedef struct kl_sum {
    double ours, reference;
    size_t rows;
} kl_sum;

/* log(sum(exp(x))) */
static double log_sum_exp(const float *x, size_t count)
{
    double largest = -INFINITY, sum = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, (double)x[i]);
    for (size_t i = 0; i < count; i++)
        sum += exp((double)x[i] - largest);
    return largest + log(sum);
}

/* KL(softmax(p) || softmax(q)) */
static double kl_divergence(const float *p, const float *q, size_t count)
{
    double p_norm = log_sum_exp(p, count), q_norm = log_sum_exp(q, count), kl = 0;
    for (size_t i = 0; i < count; i++) {
        double log_p = (double)p[i] - p_norm;
        kl += exp(log_p) * (log_p - ((double)q[i] - q_norm));
    }
    return kl;
}

static kl_sum case_kl(rig *r, const golden_case *g)
{
    size_t rows, vocab;
    float *golden = golden_floats(g, "logits", &rows, &vocab), *bf16 = golden_floats(g, "logits_bf16", &rows, &vocab);
    assert_true(golden && bf16 && rows == g->n - g->first && vocab == r->vocab_size);
    float *hidden = rig_alloc(g->n * r->hidden_size, sizeof *hidden), *logits = rig_alloc(rows * vocab, sizeof *logits);
    qn_kv_sequence sequence = rig_sequence(r);
    rig_forward(r, &sequence, g->ids, 0, g->n, 0, hidden, NULL);
    rig_logits(r, hidden + g->first * r->hidden_size, rows, logits);
    kl_sum sum = {.rows = rows};
    for (size_t i = 0; i < rows; i++) {
        sum.ours += kl_divergence(golden + i * vocab, logits + i * vocab, vocab);
        sum.reference += kl_divergence(golden + i * vocab, bf16 + i * vocab, vocab);
    }
    qn_kv_sequence_free(&sequence);
    qn_free(hidden);
    qn_free(logits);
    qn_free(golden);
    qn_free(bf16);
    return sum;
}

static void add_checkpoint(const char *isa, const char *checkpoint, kl_sum *total)
{
    golden_set set = golden_open(checkpoint);
    for (size_t i = 0; i < set.count; i++) {
        char dir[128];
        if (set.cases[i].n > RIG_LONGEST_PROMPT) {
            printf("%s, %zu tokens: too long for this build\n", set.name, set.cases[i].n);
            continue;
        }
        snprintf(dir, sizeof dir, ORACLE "%s", set.name);
        rig r = rig_open(dir, (rig_options){.isa = isa, .max_context_tokens = set.cases[i].n});
        kl_sum sum = case_kl(&r, &set.cases[i]);
        printf("%-10s %-22s %5zu tokens: mean KL %.6f, transformers %.6f\n", isa, set.name, set.cases[i].n,
               sum.ours / (double)sum.rows, sum.reference / (double)sum.rows);
        total->ours += sum.ours;
        total->reference += sum.reference;
        total->rows += sum.rows;
        rig_close(&r);
    }
    golden_close(&set);
}

static void test_mean_kl(void **state)
{
    (void)state;
    size_t count;
    const qn_kernels *const *kernels = qn_kernels_all(&count);
    for (size_t i = 0; i < count; i++) {
        if (kernels[i]->kv_dtype != QN_DTYPE_BF16)
            continue;
        if (!qn_kernels_supported(kernels[i])) {
            printf("%-10s not on this CPU\n", kernels[i]->name);
            continue;
        }
        kl_sum total = {0};
        for (size_t k = 0; k < golden_checkpoint_count; k++)
            add_checkpoint(kernels[i]->name, golden_checkpoints[k], &total);
        double ours = total.ours / (double)total.rows, reference = total.reference / (double)total.rows;
        printf("%-10s %zu rows of all cases: mean KL %.6f, transformers %.6f\n", kernels[i]->name, total.rows, ours,
               reference);
        if (!(ours <= reference))
            fail_msg("%s: mean KL %g is above transformers' %g", kernels[i]->name, ours, reference);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mean_kl)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
