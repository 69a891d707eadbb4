/* For people: the widths suit a terminal of 100 columns. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/amounts.h"
#include "plan/plan.h"

enum { BAR_CELLS = 50 };

/* "12.3 GiB", right-aligned in `width`, between two texts. */
static void text_of(qn_buffer *out, const char *before, int width, uint64_t bytes, const char *after)
{
    char text[QN_MEMORY_TEXT_BYTES];
    qn_buffer_format(out, "%s%*s%s", before, width, qn_memory_text((size_t)bytes, text), after);
}

static void kind_line(const char *name, const qn_plan_kind *k, qn_buffer *out)
{
    char count[QN_COUNT_TEXT_BYTES];
    qn_buffer_format(out, "  %-16s %12s", name, qn_count_text(k->parameters, count));
    text_of(out, " ", 12, k->bytes[QN_PLAN_BF16], "");
    text_of(out, " ", 16, k->bytes[QN_PLAN_MXFP4], "\n");
}

static void sizes_text(const qn_plan *p, qn_buffer *out)
{
    const qn_plan_sizes *s = &p->sizes;
    char count[QN_COUNT_TEXT_BYTES], active[QN_COUNT_TEXT_BYTES];
    qn_buffer_format(out,
                     "model: %s parameters, %s of them for a token; %" PRIu64 " weights, %" PRIu64 " router biases\n\n",
                     qn_count_text(s->total.parameters, count), qn_count_text(s->active_parameters, active), s->weights,
                     s->router_biases);
    qn_buffer_format(out, "  %-16s %12s %12s %16s\n", "", "parameters", "BF16", "MXFP4 experts");
    for (qn_tensor_kind kind = 0; kind < QN_TENSOR_KINDS; kind++)
        if (s->kind[kind].tensors > 0)
            kind_line(kind == QN_KIND_MTP ? "MTP layer" : qn_tensor_kind_name(kind), &s->kind[kind], out);
    kind_line("total", &s->total, out);
    const qn_config *c = &p->config;
    qn_buffer_format(out, "\nKV cache: %" PRIu64 " values a token (%zu x %zu + %zu x %zu)", s->kv_values_per_token,
                     c->kv_lora_rank + c->qk_rope_head_dim, c->num_hidden_layers, c->index_head_dim, s->indexer_layers);
    text_of(out, ", ", 0, 2 * s->kv_values_per_token, "");
    if (c->num_nextn_predict_layers > 0) {
        qn_buffer_format(out, "; with the MTP layer %" PRIu64, s->kv_values_per_token_with_mtp);
        text_of(out, ", ", 0, 2 * s->kv_values_per_token_with_mtp, "");
    }
    qn_buffer_char(out, '\n');
}

static void machine_text(const qn_plan *p, qn_buffer *out)
{
    const qn_machine *m = &p->machine;
    qn_buffer_text(out, "\nmemory:");
    text_of(out, " ", 0, p->memory_bytes, " to plan with");
    text_of(out, " (", 0, m->available_bytes, " available here");
    if (m->node_count > 0)
        qn_buffer_format(out, "; %zu NUMA node%s:", m->node_count, m->node_count > 1 ? "s" : "");
    for (size_t i = 0; i < m->node_count; i++)
        text_of(out, i > 0 ? ", " : " ", 0, m->node[i].total_bytes, "");
    qn_buffer_text(out, "); a tenth stays free\n");
    text_of(out, "disk: ", 0, p->disk.free_bytes, " free");
    qn_buffer_format(out, " at %s;", p->disk_folder);
    uint64_t both = p->sizes.total.bytes[QN_PLAN_BF16] + p->sizes.total.bytes[QN_PLAN_MXFP4];
    text_of(out, " a conversion holds source and output, ", 0, both, "");
    text_of(out, "; less, down to about ", 0, p->sizes.total.bytes[QN_PLAN_BF16],
            ", when source shards are deleted as it goes\n");
}

static void bar_text(const qn_plan *p, const qn_plan_fit *f, qn_buffer *out)
{
    double all = (double)p->memory_bytes, weights = (double)f->weight_bytes;
    double cells = all > 0 ? BAR_CELLS / all : 0;
    size_t w = (size_t)(weights * cells + 0.5), k = (size_t)((double)(p->usable_bytes) * cells + 0.5);
    w = w > BAR_CELLS ? BAR_CELLS : w;
    k = !f->fits || k < w ? w : k;
    qn_buffer_text(out, "  [");
    for (size_t i = 0; i < BAR_CELLS; i++)
        qn_buffer_char(out, i < w ? '#' : i < k ? '=' : '.');
    qn_buffer_text(out, "]  # weights  = KV cache and step  . free\n");
}

static void fit_text(const qn_plan *p, qn_plan_form form, qn_buffer *out)
{
    const qn_plan_fit *f = &p->fit[form];
    qn_buffer_format(out, "\n%s: ", qn_plan_form_name(form));
    text_of(out, "weights ", 0, f->weight_bytes, "");
    text_of(out, ", step buffers ", 0, f->step_bytes, ": ");
    if (f->fits)
        qn_buffer_format(out, "fits, with %" PRIu64 " tokens of KV: %.2f requests of %zu tokens\n", f->kv_tokens,
                         f->requests, p->max_model_len);
    else
        qn_buffer_format(out,
                         "does not fit: about %.0f %% of the weights stay in memory, the rest is read from disk "
                         "again and again\n",
                         100 * f->resident_share);
    bar_text(p, f, out);
}

static bool is_shown(const qn_plan *p, qn_plan_form form, size_t i, size_t smallest)
{
    size_t ranks = p->layout[form][i].ranks;
    bool power = (ranks & (ranks - 1)) == 0;
    bool smallest_ranks = smallest != SIZE_MAX && ranks == p->layout[form][smallest].ranks;
    return p->layout[form][i].expert_parts <= 2 && (power || smallest_ranks);
}

static void ranks_text(const qn_plan *p, qn_plan_form form, qn_buffer *out)
{
    size_t smallest = qn_plan_smallest(p, form);
    qn_buffer_format(out, "\nranks, %s, each with", qn_plan_form_name(form));
    text_of(out, " ", 0, p->memory_bytes, " (for planning: this version has one rank)\n");
    qn_buffer_format(out, "  %5s %16s %14s %14s %12s\n", "ranks", "experts", "bytes a rank", "replicated", "KV tokens");
    for (size_t i = 0; i < p->layout_count[form]; i++) {
        const qn_rank_layout *l = &p->layout[form][i];
        if (!is_shown(p, form, i, smallest))
            continue;
        char experts[QN_COUNT_TEXT_BYTES];
        snprintf(experts, sizeof experts, "EP %zu x TP %zu", l->expert_groups, l->expert_parts);
        qn_buffer_format(out, "  %5zu %16s", l->ranks, experts);
        text_of(out, " ", 14, l->bytes, "");
        text_of(out, " ", 14, l->replicated_bytes, "");
        if (p->layout_kv_tokens[form][i] > 0)
            qn_buffer_format(out, " %12" PRIu64 "%s\n", p->layout_kv_tokens[form][i],
                             i == smallest ? "  fewest that fit" : "");
        else
            qn_buffer_format(out, " %12s\n", "-");
    }
    if (smallest == SIZE_MAX)
        qn_buffer_text(out, "  no number of ranks up to 64 fits\n");
}

static void rate_line(const char *what, size_t number, const char *unit, const qn_plan *p,
                      double (*rate)(const qn_plan_speed *, size_t), size_t i, qn_buffer *out)
{
    char label[64];
    snprintf(label, sizeof label, "%s %zu %s", what, number, unit);
    qn_buffer_format(out, "  %-44s %10.2f %16.2f\n", label, rate(&p->speed[QN_PLAN_BF16], i),
                     rate(&p->speed[QN_PLAN_MXFP4], i));
}

static double decode_rate(const qn_plan_speed *s, size_t i)
{
    return 1 / s->decode[i].total;
}

static double batch_rate(const qn_plan_speed *s, size_t i)
{
    return (double)qn_plan_batches[i] / s->batch[i].total;
}

static double prefill_rate(const qn_plan_speed *s, size_t i)
{
    return (double)qn_plan_prompts[i] / s->prefill[i].total;
}

static void disk_text(const qn_plan *p, qn_plan_form form, qn_buffer *out)
{
    if (p->fit[form].fits)
        return;
    if (p->speed[form].disk_bound_tokens > 0)
        qn_buffer_format(out, "  %s: the weights don't fit: the disk bounds decoding to about %.3f tokens/s\n",
                         qn_plan_form_name(form), p->speed[form].disk_bound_tokens);
    else
        qn_buffer_format(out,
                         "  %s: the weights don't fit: these are rates of this machine's speed with memory enough; "
                         "--disk DIR measures what the disk would bound them to\n",
                         qn_plan_form_name(form));
}

static void speed_text(const qn_plan *p, qn_buffer *out)
{
    qn_buffer_format(out, "\npredicted here, tokens/s %31s %16s\n", "BF16", "MXFP4 experts");
    for (size_t i = 0; i < QN_PLAN_CONTEXTS; i++)
        if (qn_plan_contexts[i] < p->max_model_len)
            rate_line("decode, 1 stream,", qn_plan_contexts[i], "tokens of context", p, decode_rate, i, out);
    for (size_t i = 0; i < QN_PLAN_BATCHES; i++)
        rate_line("decode,", qn_plan_batches[i], "streams of 4096 tokens, all", p, batch_rate, i, out);
    if (p->config.num_nextn_predict_layers > 0) {
        char label[64];
        double tokens = qn_tokens_per_step(p->acceptance, 1);
        snprintf(label, sizeof label, "decode, 1 stream, MTP, acceptance %.2f, 4096", p->acceptance);
        qn_buffer_format(out, "  %-44s %10.2f %16.2f\n", label, tokens / p->speed[QN_PLAN_BF16].mtp.total,
                         tokens / p->speed[QN_PLAN_MXFP4].mtp.total);
    }
    for (size_t i = 0; i < QN_PLAN_PROMPTS; i++)
        if (qn_plan_prompts[i] <= p->max_model_len)
            rate_line("prompt of", qn_plan_prompts[i], "tokens", p, prefill_rate, i, out);
    disk_text(p, QN_PLAN_BF16, out);
    disk_text(p, QN_PLAN_MXFP4, out);
}

void qn_plan_to_text(const qn_plan *p, qn_buffer *out)
{
    sizes_text(p, out);
    machine_text(p, out);
    for (qn_plan_form form = 0; form < QN_PLAN_FORMS; form++)
        fit_text(p, form, out);
    for (qn_plan_form form = 0; form < QN_PLAN_FORMS; form++)
        ranks_text(p, form, out);
    if (p->predicts)
        speed_text(p, out);
}
