/* Experts that are not quantised: one tensor per expert and projection, as released, or all experts of a layer in one
 * tensor, as transformers 5 holds them: gate_up_proj [E, 2I, H] (gate's rows, then up's) and down_proj [E, H, I]. */
#include <stdio.h>

#include "checkpoint/layout.h"

static bool plain_present(const qn_checkpoint *checkpoint, const char *prefix)
{
    const qn_tensor *first = qn_layout_first_projection(checkpoint, prefix, ".weight");
    return first && first->dtype != QN_DTYPE_U8;
}

static qn_status take_projection(const qn_expert_request *request, const char *base, size_t rows, size_t cols,
                                 qn_matrix *out, qn_error *err)
{
    char name[QN_NAME_BUFFER_BYTES];
    snprintf(name, sizeof name, "%s.weight", base);
    return qn_checkpoint_take_matrix(request->checkpoint, name, rows, cols, out, err);
}

static qn_status plain_take(const qn_expert_request *request, qn_error *err)
{
    return qn_layout_each_projection(request, take_projection, err);
}

const qn_expert_layout qn_layout_plain = {
    .name = "plain", .format = QN_EXPERTS_PLAIN, .present = plain_present, .take = plain_take};

static bool fused_present(const qn_checkpoint *checkpoint, const char *prefix)
{
    char up[QN_NAME_BUFFER_BYTES], down[QN_NAME_BUFFER_BYTES];
    snprintf(up, sizeof up, "%s.gate_up_proj", prefix);
    snprintf(down, sizeof down, "%s.down_proj", prefix);
    return qn_checkpoint_find(checkpoint, up) || qn_checkpoint_find(checkpoint, down);
}

static qn_status take_fused(const qn_expert_request *request, const char *projection, size_t rows, size_t cols,
                            const qn_tensor **out, qn_error *err)
{
    char name[QN_NAME_BUFFER_BYTES];
    snprintf(name, sizeof name, "%s.%s", request->prefix, projection);
    qn_expected expected = {.dtypes = QN_WEIGHT_DTYPES, .dims = 3, .shape = {request->experts, rows, cols}};
    return qn_checkpoint_take_tensor(request->checkpoint, name, &expected, out, err);
}

/* Expert e's [rows, cols]. */
static qn_matrix expert_of(const qn_tensor *t, size_t e, size_t rows, size_t cols)
{
    return (qn_matrix){
        .dtype = t->dtype, .rows = rows, .cols = cols, .data = t->data + e * rows * cols * qn_dtype_bits(t->dtype) / 8};
}

static qn_status fused_take(const qn_expert_request *request, qn_error *err)
{
    size_t hidden = request->hidden, inner = request->inner;
    const qn_tensor *gate_up = NULL, *down = NULL;
    qn_status status = take_fused(request, "gate_up_proj", 2 * inner, hidden, &gate_up, err);
    if (status == QN_OK)
        status = take_fused(request, "down_proj", hidden, inner, &down, err);
    for (size_t e = 0; e < request->experts && status == QN_OK; e++) {
        qn_matrix both = expert_of(gate_up, e, 2 * inner, hidden);
        request->gate[e] = qn_matrix_rows(&both, 0, inner);
        request->up[e] = qn_matrix_rows(&both, inner, inner);
        request->down[e] = expert_of(down, e, hidden, inner);
    }
    return status;
}

const qn_expert_layout qn_layout_fused = {
    .name = "fused", .format = QN_EXPERTS_PLAIN, .present = fused_present, .take = fused_take};
