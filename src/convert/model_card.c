/* The front matter is read line by line: a key at the start of a line, and the lines below it that are indented or
 * items of a list. That is no YAML parser; it copies what it recognises without looking into it. */
#include "convert/model_card.h"

#include <inttypes.h>
#include <string.h>

#include "base/utf8.h"
#include "convert/carry.h"

enum { FRONT_MATTER_LINES = 512, FRONT_MATTER_BYTES = 64 << 10 };

typedef struct line {
    const char *text;
    size_t bytes;
} line;

/* Cuts the next line off the text, its line end (LF or CR LF) not counted. */
static bool next_line(const char **at, const char *end, line *out)
{
    if (*at == end)
        return false;
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));
    const char *next = stop ? stop + 1 : end;
    if (!stop)
        stop = end;
    if (stop > *at && stop[-1] == '\r')
        stop--;
    *out = (line){*at, (size_t)(stop - *at)};
    *at = next;
    return true;
}

static bool line_is(const line *l, const char *text)
{
    return l->bytes == strlen(text) && memcmp(l->text, text, l->bytes) == 0;
}

static bool prints(const line *l)
{
    for (size_t i = 0; i < l->bytes; i++) {
        unsigned char c = (unsigned char)l->text[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return false;
    }
    return qn_utf8_valid(l->text, l->bytes);
}

static bool is_wanted_key(const line *l)
{
    static const char *const keys[] = {"license:", "license_name:", "license_link:", "base_model:"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (l->bytes >= strlen(keys[i]) && memcmp(l->text, keys[i], strlen(keys[i])) == 0)
            return true;
    }
    return false;
}

/* The lines between the first "---" and the next, or false: no front matter, or none that can be copied. */
static bool find_front_matter(const char *readme, size_t bytes, const char **start, const char **end)
{
    if (!readme)
        return false;
    const char *at = readme, *stop = readme + (bytes < FRONT_MATTER_BYTES ? bytes : FRONT_MATTER_BYTES);
    line l;
    if (!next_line(&at, stop, &l) || !line_is(&l, "---"))
        return false;
    *start = at;
    for (size_t i = 0; i < FRONT_MATTER_LINES && next_line(&at, stop, &l) && prints(&l); i++) {
        if (line_is(&l, "---")) {
            *end = l.text;
            return true;
        }
    }
    return false;
}

typedef struct front_matter {
    bool license, base_model;
} front_matter;

static front_matter copy_front_matter(const char *readme, size_t bytes, qn_buffer *out)
{
    front_matter found = {false, false};
    const char *at = NULL, *end = NULL;
    if (!find_front_matter(readme, bytes, &at, &end))
        return found;
    bool copying = false;
    for (line l; next_line(&at, end, &l);) {
        bool goes_on = l.bytes > 0 && (l.text[0] == ' ' || l.text[0] == '\t' || l.text[0] == '-');
        if (!goes_on)
            copying = is_wanted_key(&l);
        if (!copying)
            continue;
        found.license = found.license || l.text[0] == 'l';
        found.base_model = found.base_model || l.text[0] == 'b';
        qn_buffer_append(out, l.text, l.bytes);
        qn_buffer_char(out, '\n');
    }
    return found;
}

static void append_size(qn_buffer *out, uint64_t bytes)
{
    static const char *const units[] = {"kB", "MB", "GB"};
    uint64_t unit = 1000;
    size_t i = 0;
    while (i < 2 && bytes >= unit * 1000) { /* GB is the largest: 1505.9 GB next to 428.2 GB */
        unit *= 1000;
        i++;
    }
    uint64_t tenths = bytes / (unit / 10) + (bytes % (unit / 10) >= unit / 20);
    qn_buffer_format(out, "%" PRIu64 ".%" PRIu64 " %s", tenths / 10, tenths % 10, units[i]);
}

static void append_row(qn_buffer *out, const char *name, uint64_t count, uint64_t before, uint64_t after)
{
    qn_buffer_format(out, "| %s | %" PRIu64 " | ", name, count);
    append_size(out, before);
    qn_buffer_text(out, " | ");
    append_size(out, after);
    qn_buffer_text(out, " |\n");
}

static const char *rule_text(const qn_card_facts *facts)
{
    if (facts->round_to_nearest)
        return "the scale of each block follows from its largest magnitude by the OCP Microscaling rule, and elements\n"
               "are rounded to the nearest";
    return facts->importance ? "the scale of each block is the one with the least squared error, weighted by the "
                               "second moments of the\n"
                               "inputs measured on a text, and elements are rounded to the nearest"
                             : "the scale of each block is the one with the least squared error, and elements are "
                               "rounded to the nearest";
}

static void append_what_was_done(const qn_card_facts *facts, qn_buffer *out)
{
    qn_buffer_format(
        out,
        "# MXFP4 experts, the rest in BF16\n\n"
        "A conversion of %s release of the GLM-5 family (`GlmMoeDsaForCausalLM`) by `quern convert`.\n\n"
        "- The routed experts, those of the MTP layer included, are in MXFP4: E2M1 elements with one E8M0\n"
        "  scale per 32 inputs; %s.\n",
        facts->lossy_source ? "an FP8" : "a BF16", rule_text(facts));
    qn_buffer_text(out,
                   facts->lossy_source
                       ? "- The source was FP8, itself a lossy copy: the errors of both add up. All other matrices "
                         "were turned\n  into BF16.\n"
                       : "- All other tensors are the release's own, byte for byte.\n");
    qn_buffer_text(out, "- Activations are not quantised.\n\n"
                        "| tensors | number | before | after |\n|---|--:|--:|--:|\n");
    append_row(out, "routed experts", facts->expert_matrices, facts->expert_source_bytes, facts->expert_bytes);
    append_row(out, "all others", facts->other_tensors, facts->other_source_bytes, facts->other_bytes);
    append_row(out, "together", facts->expert_matrices + facts->other_tensors,
               facts->expert_source_bytes + facts->other_source_bytes, facts->expert_bytes + facts->other_bytes);
}

static void append_serving(qn_buffer *out)
{
    qn_buffer_text(out, "\nThe form is compressed-tensors' `mxfp4-pack-quantized`. `" QN_MANIFEST_NAME
                        "` has a checksum of every file\nand tensor; `quern convert --verify DIR` holds the folder "
                        "against it.\n\n"
                        "## Serving\n\n"
                        "```\nquern serve DIR\nvllm serve DIR\n```\n\n"
                        "DIR is this folder. vLLM needs a version that loads GLM-5 and MXFP4 experts of "
                        "compressed-tensors.\n");
}

static void append_licence(const qn_manifest *manifest, bool in_front, qn_buffer *out)
{
    qn_buffer_text(out, "\n## Licence\n\nThis is a derivative of the release and stays under the release's licence");
    size_t found = 0;
    for (size_t i = 0; i < qn_manifest_count(manifest); i++) {
        const char *name = qn_manifest_at(manifest, i)->name;
        if (!qn_carry_is_licence(name))
            continue;
        qn_buffer_format(out, "%s`%s`", found++ ? ", " : ": ", name);
    }
    if (found > 0)
        qn_buffer_text(out, ", carried\nalong unchanged.\n");
    else
        qn_buffer_text(out, in_front
                                ? ", named above.\n"
                                : ". The folder that was converted had no\nfile of it: see where the release comes "
                                  "from.\n");
}

void qn_model_card(const qn_card_facts *facts, const char *readme, size_t readme_bytes, const qn_manifest *manifest,
                   qn_buffer *out)
{
    qn_buffer_text(out, "---\n");
    front_matter found = copy_front_matter(readme, readme_bytes, out);
    if (found.base_model)
        qn_buffer_text(out, "base_model_relation: quantized\n");
    qn_buffer_text(out, "tags:\n- mxfp4\n- compressed-tensors\n---\n\n");
    append_what_was_done(facts, out);
    append_serving(out);
    append_licence(manifest, found.license, out);
}
