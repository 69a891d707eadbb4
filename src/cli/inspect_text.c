/* The picture: what it is, its sizes, a grid with a column a layer, a table with a line a kind. A real model has 79
 * layers, so that a line each would bury the rest. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/amounts.h"
#include "base/hash.h"
#include "base/size.h"
#include "base/utf8.h"
#include "cli/chart.h"
#include "cli/inspect.h"

enum { TEXT_BYTES = 32, LAYERS_A_LINE = 50, LAYERS_A_GROUP = 10, BAR_CELLS = 12, FILE_LINES = 8, NAME_BYTES = 1100 };

/* Names of files and paths may hold anything. Returns out. */
static const char *printable(const char *name, char out[NAME_BYTES])
{
    qn_utf8_printable(name, strlen(name), out, NAME_BYTES);
    return out;
}

static const char *plural(size_t count)
{
    return count == 1 ? "" : "s";
}

static size_t count_files(const qn_listing *l, qn_file_state state)
{
    size_t count = 0;
    for (size_t i = 0; i < l->file_count; i++)
        count += l->files[i].state == state;
    return count;
}

static void print_title(const qn_inspection *in)
{
    const qn_listing *l = in->listing;
    char path[NAME_BYTES];
    printf("%s: ", printable(l->path, path));
    size_t missing = count_files(l, QN_FILE_MISSING), cut = count_files(l, QN_FILE_CUT);
    if (!in->problem)
        printf("a whole GLM-5 checkpoint");
    else if (l->kind == QN_LISTING_WEIGHTS)
        printf("one file of weights");
    else if (l->file_count == 0 && !l->converting)
        printf("a config without weights");
    else if (l->converting && !l->has_config)
        printf("an unfinished conversion");
    else if (missing + cut > 0)
        printf("a checkpoint that is not all there");
    else
        printf("weights that quern does not run");
    if (in->summary->files > 0)
        printf(", %zu tensor%s in %zu file%s", in->summary->total.tensors, plural(in->summary->total.tensors),
               in->summary->files, plural(in->summary->files));
    printf("\n");
}

static void print_conversion(const qn_listing *l)
{
    if (!l->converting)
        return;
    printf("\n  conversion   %zu", l->converted_files);
    if (l->planned_files > 0)
        printf(" of %zu", l->planned_files);
    printf(" file%s of weights written, %zu begun\n",
           plural(l->planned_files > 0 ? l->planned_files : l->converted_files), l->started_files);
}

static void print_config(const qn_listing *l)
{
    const qn_config *c = &l->config;
    if (!l->has_config)
        return;
    printf("\n  hidden       %zu, %zu layers%s, vocabulary %zu\n", c->hidden_size, c->num_hidden_layers,
           c->num_nextn_predict_layers ? " and an MTP layer" : "", c->vocab_size);
    printf("  attention    %zu heads: nope %zu, RoPE %zu, value %zu; ranks: query %zu, KV %zu\n",
           c->num_attention_heads, c->qk_nope_head_dim, c->qk_rope_head_dim, c->v_head_dim, c->q_lora_rank,
           c->kv_lora_rank);
    printf("  indexer      %zu heads of %zu, top %zu keys\n", c->index_n_heads, c->index_head_dim, c->index_topk);
    printf("  experts      %zu, of which %zu a token", c->n_routed_experts, c->num_experts_per_tok);
    if (c->n_group > 1)
        printf(" from %zu of %zu groups", c->topk_group, c->n_group);
    printf(", and %zu shared; inner %zu (dense layers %zu)\n", c->n_shared_experts, c->moe_intermediate_size,
           c->intermediate_size);
    printf("  positions    %zu, RoPE theta %.10g", c->max_position_embeddings, c->rope.rope_theta);
    if (c->rope.rope_type == QN_ROPE_YARN)
        printf(", YaRN factor %g from %zu", c->rope.factor, c->rope.original_max_position_embeddings);
    printf("\n");
    if (l->quantization[0] != '\0') {
        char text[NAME_BYTES];
        printf("  quantised    %s\n", printable(l->quantization, text));
    }
}

/* Files in one state, neighbours together: "model-00003-of-00282.safetensors and 77 that follow". */
static void print_missing(const qn_listing *l)
{
    size_t lines = 0, told = 0, total = count_files(l, QN_FILE_MISSING);
    for (size_t i = 0; i < l->file_count && lines < FILE_LINES; i++) {
        if (l->files[i].state != QN_FILE_MISSING)
            continue;
        size_t run = 1;
        while (i + run < l->file_count && l->files[i + run].state == QN_FILE_MISSING)
            run++;
        char name[NAME_BYTES];
        printf("  %-12s %s", lines++ == 0 ? "missing" : "", printable(l->files[i].name, name));
        if (run > 1)
            printf(" and the %zu after it", run - 1);
        printf("\n");
        told += run;
        i += run - 1;
    }
    if (told < total)
        printf("  %-12s and %zu more\n", "", total - told);
}

static void print_wrong_files(const qn_listing *l, qn_file_state state)
{
    size_t lines = 0, total = count_files(l, state);
    for (size_t i = 0; i < l->file_count && lines < FILE_LINES; i++) {
        const qn_listed_file *file = &l->files[i];
        if (file->state != state)
            continue;
        char name[NAME_BYTES], has[QN_MEMORY_TEXT_BYTES], whole[QN_MEMORY_TEXT_BYTES];
        printf("  %-12s ", lines++ == 0 ? qn_file_state_name(state) : "");
        if (state == QN_FILE_CUT)
            printf("%s: has %s of %s\n", printable(file->name, name), qn_memory_text(file->bytes, has),
                   qn_memory_text(file->whole_bytes, whole));
        else
            printf("%s\n", state == QN_FILE_UNREADABLE ? file->problem : printable(file->name, name));
    }
    if (lines < total)
        printf("  %-12s and %zu more\n", "", total - lines);
}

static void print_arrived(const qn_listing *l)
{
    char here[QN_MEMORY_TEXT_BYTES], whole[QN_MEMORY_TEXT_BYTES];
    uint64_t bytes = 0;
    for (size_t i = 0; i < l->file_count; i++)
        bytes += l->files[i].state == QN_FILE_STRAY ? 0 : l->files[i].bytes;
    if (l->has_index_bytes && bytes < l->index_bytes)
        printf("  arrived      %s of %s\n", qn_memory_text(bytes, here), qn_memory_text(l->index_bytes, whole));
}

/* Only where something is amiss with them; a whole checkpoint's files are in the title. */
static void print_files(const qn_listing *l)
{
    static const qn_file_state states[] = {QN_FILE_WHOLE, QN_FILE_CUT, QN_FILE_MISSING, QN_FILE_UNREADABLE,
                                           QN_FILE_STRAY};
    if (count_files(l, QN_FILE_WHOLE) == l->file_count)
        return;
    printf("\n  files        ");
    bool first = true;
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        size_t count = count_files(l, states[i]);
        if (count > 0)
            printf("%s%zu %s", first ? "" : ", ", count, qn_file_state_name(states[i]));
        first = first && count == 0;
    }
    printf("\n");
    print_arrived(l);
    print_missing(l);
    print_wrong_files(l, QN_FILE_CUT);
    print_wrong_files(l, QN_FILE_UNREADABLE);
    print_wrong_files(l, QN_FILE_STRAY);
}

static const char *type_mark(const qn_layer_summary *layer)
{
    return layer->mtp ? "M" : layer->sparse ? "E" : "d";
}

static const char *indexer_mark(const qn_layer_summary *layer)
{
    return layer->indexer ? "I" : "-";
}

typedef struct dtype_mark {
    const char *dtype, *mark;
} dtype_mark;

static const dtype_mark dtype_marks[] = {
    {"MXFP4", "4"}, {"BF16", "b"}, {"F16", "h"}, {"F32", "f"}, {"F8_E4M3", "8"}, {"F8_E5M2", "8"},
};
enum { DTYPE_MARKS = sizeof dtype_marks / sizeof *dtype_marks };

/* FP8 weights come with scales in F32, so what has most of the bytes speaks for the rest if that is little. */
static const char *expert_dtype(const qn_kind_summary *experts)
{
    for (size_t i = 0; i < experts->dtypes; i++) {
        if ((double)experts->dtype[i].bytes > 0.95 * (double)experts->bytes)
            return experts->dtype[i].name;
    }
    return NULL;
}

static const char *experts_mark(const qn_layer_summary *layer)
{
    if (layer->experts.tensors == 0)
        return layer->sparse ? "?" : ".";
    const char *dtype = expert_dtype(&layer->experts);
    for (size_t i = 0; dtype && i < DTYPE_MARKS; i++) {
        if (strcmp(dtype, dtype_marks[i].dtype) == 0)
            return dtype_marks[i].mark;
    }
    return dtype ? "x" : "m";
}

static const char *missing_mark(const qn_layer_summary *layer)
{
    return layer->missing == 0 ? "." : layer->all.tensors == 0 ? "0" : "!";
}

typedef const char *(*layer_mark)(const qn_layer_summary *layer);

static void print_marks(const qn_summary *s, const char *label, layer_mark mark, size_t first, size_t last)
{
    printf("  %-13s", label);
    for (size_t i = first; i < last; i++)
        printf("%s%s", i > first && i % LAYERS_A_GROUP == 0 ? " " : "", mark(&s->layers[i]));
    printf("\n");
}

static void print_levels(const qn_summary *s, size_t first, size_t last, uint64_t largest, bool blocks)
{
    printf("  %-13s", "");
    for (size_t i = first; i < last; i++)
        printf("%s%s", i > first && i % LAYERS_A_GROUP == 0 ? " " : "",
               qn_chart_level((double)s->layers[i].all.bytes / (double)largest, blocks));
    printf("\n");
}

/* The marks that the grid uses, told. */
static void print_legend(const qn_summary *s, uint64_t largest, bool missing)
{
    bool used[DTYPE_MARKS] = {false}, mixed = false, mtp = false;
    for (size_t i = 0; i < s->layer_count; i++) {
        const char *mark = experts_mark(&s->layers[i]);
        for (size_t k = 0; k < DTYPE_MARKS; k++)
            used[k] = used[k] || strcmp(mark, dtype_marks[k].mark) == 0;
        mixed = mixed || strcmp(mark, "m") == 0;
        mtp = mtp || s->layers[i].mtp;
    }
    printf("\n  layers       E experts, d dense%s\n", mtp ? ", M the MTP layer" : "");
    printf("               I an indexer of its own, - shares the one before\n");
    if (largest == 0)
        return;
    printf("               ");
    for (size_t k = 0; k < DTYPE_MARKS; k++) {
        if (used[k] && strcmp(dtype_marks[k].dtype, "F8_E5M2") != 0)
            printf("%s experts in %s, ", dtype_marks[k].mark, k == 4 ? "FP8" : dtype_marks[k].dtype);
    }
    char bytes[QN_MEMORY_TEXT_BYTES];
    printf("%sheight: size, at most %s\n", mixed ? "m mixed, " : "", qn_memory_text(largest, bytes));
    if (missing)
        printf("               ! some tensors of the layer are missing, 0 all of them\n");
}

static void print_layers(const qn_summary *s, bool blocks)
{
    uint64_t largest = 0;
    size_t missing = 0;
    bool experts = false;
    for (size_t i = 0; i < s->layer_count; i++) {
        largest = s->layers[i].all.bytes > largest ? s->layers[i].all.bytes : largest;
        missing += s->layers[i].missing;
        experts = experts || s->layers[i].experts.tensors > 0;
    }
    if (s->layer_count == 0)
        return;
    print_legend(s, largest, missing > 0);
    for (size_t first = 0; first < s->layer_count; first += LAYERS_A_LINE) {
        size_t last = qn_min_size(first + LAYERS_A_LINE, s->layer_count);
        char label[TEXT_BYTES];
        snprintf(label, sizeof label, "%4zu to %zu", first, last - 1);
        print_marks(s, label, type_mark, first, last);
        print_marks(s, "", indexer_mark, first, last);
        if (experts)
            print_marks(s, "", experts_mark, first, last);
        if (largest > 0)
            print_levels(s, first, last, largest, blocks);
        if (missing > 0)
            print_marks(s, "", missing_mark, first, last);
    }
}

static void print_kind(const char *name, const qn_kind_summary *k, uint64_t whole, bool blocks)
{
    char bytes[QN_MEMORY_TEXT_BYTES], parameters[QN_COUNT_TEXT_BYTES], bar[QN_BAR_BYTES];
    printf("  %-14s %7zu %10s %10s %s ", name, k->tensors, qn_count_text(k->parameters, parameters),
           qn_memory_text(k->bytes, bytes),
           qn_chart_bar(whole > 0 ? (double)k->bytes / (double)whole : 0, BAR_CELLS, blocks, bar));
    for (size_t i = 0; i < k->dtypes; i++)
        printf("%s%s", i ? ", " : "", k->dtype[i].name);
    printf("\n");
}

/* "MXFP4 98.1 %": nothing that is there shows as 0, nothing partial as 100. */
static void print_share(const char *name, uint64_t part, uint64_t whole, bool first)
{
    double share = 100.0 * (double)part / (double)whole;
    printf("%s%s", first ? "" : ", ", name);
    if (part != whole && share < 0.1)
        printf(" <0.1 %%");
    else if (part != whole && share > 99.9)
        printf(" >99.9 %%");
    else if (part != whole)
        printf(" %.1f %%", share);
}

/* MXFP4 first, since it is what is asked for; the rest as met. */
static void print_shares(const char *label, const qn_kind_summary *total, bool of_parameters)
{
    uint64_t whole = of_parameters ? total->parameters : total->bytes;
    bool first = true;
    printf("  %-12s ", label);
    for (int rest = 0; rest < 2; rest++) {
        for (size_t i = 0; i < total->dtypes; i++) {
            const qn_dtype_share *share = &total->dtype[i];
            uint64_t part = of_parameters ? share->parameters : share->bytes;
            if ((strcmp(share->name, "MXFP4") != 0) != (rest == 1) || part == 0)
                continue;
            print_share(share->name, part, whole, first);
            first = false;
        }
    }
    printf("\n");
}

static void print_tensors(const qn_summary *s, bool blocks)
{
    if (s->total.tensors == 0)
        return;
    printf("\n  %-14s %7s %10s %10s %-*s dtypes\n", "kind", "tensors", "parameters", "size", BAR_CELLS, "");
    for (qn_tensor_kind kind = 0; kind < QN_TENSOR_KINDS; kind++) {
        if (s->kind[kind].tensors > 0)
            print_kind(qn_tensor_kind_name(kind), &s->kind[kind], s->total.bytes, blocks);
    }
    print_kind("total", &s->total, 0, blocks);
    printf("\n");
    print_shares("bytes", &s->total, false);
    print_shares("parameters", &s->total, true);
}

static void print_kv(const qn_summary *s)
{
    char both[QN_MEMORY_TEXT_BYTES];
    if (s->latent_bytes_per_token > 0)
        printf("  KV cache     %s a token in BF16: latent %" PRIu64 " and index keys %" PRIu64 " bytes\n",
               qn_memory_text(s->latent_bytes_per_token + s->index_bytes_per_token, both), s->latent_bytes_per_token,
               s->index_bytes_per_token);
}

/* Last, since a real model has 100,000 of them. */
static void print_checksums(const qn_inspection *in)
{
    const qn_listing *l = in->listing;
    char text[QN_HASH_TEXT_BYTES], name[NAME_BYTES];
    if (!in->checksums)
        return;
    printf("\n  manifest     %s\n", in->manifest ? in->manifest : "none");
    printf("\n  XXH3-128 of headers and tensors\n");
    for (size_t i = 0; i < l->file_count; i++) {
        const qn_listed_file *file = &l->files[i];
        if (file->header_bytes == 0)
            continue;
        printf("%s  %s\n", qn_hash_text(file->header_hash, text), printable(file->name, name));
        for (size_t k = file->first_tensor; k < file->first_tensor + file->tensors; k++)
            printf("%-32s  %s\n", l->tensors[k].whole ? qn_hash_text(l->tensors[k].hash, text) : "cut off",
                   l->tensors[k].name);
    }
}

void qn_inspect_print_text(const qn_inspection *in, bool blocks)
{
    const qn_listing *l = in->listing;
    if (l->file_count == 0 && !l->has_config && !l->converting)
        return; /* there is nothing to see; the error tells the rest */
    print_title(in);
    print_conversion(l);
    print_config(l);
    print_files(l);
    print_layers(in->summary, blocks);
    print_tensors(in->summary, blocks);
    print_kv(in->summary);
    print_checksums(in);
}
