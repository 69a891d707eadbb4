#include "tables.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/ref/ref.h"
#include "unit/kernels/support.h"

#ifdef QUERN_HAVE_EMULATED
extern const qn_kernels qn_kernels_avx512bf16_emulated;
void qn_avx512bf16_emulated_set_form(qn_dot_form form);
#endif

/* A CPU whose vdpbf16ps has bits of its own is given no choice: there is one form then. */
static void (*form_setter(const qn_kernels *kernels))(qn_dot_form)
{
    return kernels == &qn_kernels_avx512bf16 && qn_avx512bf16_forms_agree() ? qn_avx512bf16_set_form : NULL;
}

size_t tested_tables(tested_table out[TESTED_TABLES_MAX])
{
    size_t count, used = 0;
    const qn_kernels *const *all = qn_kernels_all(&count);
    for (size_t i = count; i-- > 0;)
        if (qn_kernels_supported(all[i]))
            out[used++] = (tested_table){all[i], all[i]->name, form_setter(all[i])};
#ifdef QUERN_HAVE_EMULATED
    out[used++] = (tested_table){&qn_kernels_avx512bf16_emulated, "avx512bf16-emulated",
                                 qn_avx512bf16_emulated_set_form};
#endif
    return used;
}

void print_tested_tables(void)
{
    size_t count;
    const qn_kernels *const *all = qn_kernels_all(&count);
    for (size_t i = 0; i < count; i++)
        printf("table %s: %s\n", all[i]->name,
               qn_kernels_supported(all[i]) ? "tested natively" : "NOT RUN natively: this CPU does not have it");
    if (qn_kernels_supported(&qn_kernels_avx512bf16) && !qn_avx512bf16_forms_agree())
        printf("table avx512bf16: its products have one form here: vdpbf16ps has other bits than two FMAs\n");
#ifdef QUERN_HAVE_EMULATED
    printf("table avx512bf16: tested emulated, its sources compiled through SIMDe\n");
#else
    printf("table avx512bf16: NOT RUN emulated: built without SIMDe\n");
#endif
}

const void *packed_row(const qn_kernels *kernels, const float *x, size_t cols, qn_dtype weight_dtype)
{
    void *packed = guarded(kernels->packed_bytes(cols, weight_dtype), 1);
    kernels->pack(packed, x, cols, weight_dtype);
    return packed;
}

bool rounds_activations(const qn_kernels *kernels)
{
    return kernels->kv_dtype == QN_DTYPE_BF16;
}

/* Errors of rounding add up like a random walk along the longest chain, here with room to spare. */
float sum_tolerance(size_t terms, double magnitude)
{
    double chain = (double)terms / QN_GROUP + 32.0;
    return (float)(0x1p-23 * sqrt(chain) * magnitude) + 1e-37f;
}
