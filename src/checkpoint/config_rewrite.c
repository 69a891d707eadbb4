/* The text is checked by the JSON parser first; then a scan that only knows strings and nesting finds where the
 * members of the outermost object lie. */
#include "checkpoint/config_rewrite.h"

#include <stdbool.h>
#include <string.h>

#include "base/json.h"
#include "base/json_wide.h"

static const char FIELD[] = "quantization_config";

/* Two spaces a level. The ignore list works by names alone: "re:" patterns match from the start of a module's name;
 * gate_up_proj is vLLM's name for the two of a dense MLP. */
static const char *const QUANTIZATION[] = {
    "{",
    "  \"config_groups\": {",
    "    \"group_0\": {",
    "      \"targets\": [",
    "        \"Linear\"",
    "      ],",
    "      \"weights\": {",
    "        \"num_bits\": 4,",
    "        \"type\": \"float\",",
    "        \"symmetric\": true,",
    "        \"group_size\": 32,",
    "        \"strategy\": \"group\",",
    "        \"dynamic\": false,",
    "        \"scale_dtype\": \"torch.uint8\"",
    "      },",
    "      \"input_activations\": null,",
    "      \"output_activations\": null,",
    "      \"format\": \"mxfp4-pack-quantized\"",
    "    }",
    "  },",
    "  \"quant_method\": \"compressed-tensors\",",
    "  \"kv_cache_scheme\": null,",
    "  \"format\": \"mxfp4-pack-quantized\",",
    "  \"quantization_status\": \"compressed\",",
    "  \"global_compression_ratio\": null,",
    "  \"ignore\": [",
    "    \"lm_head\",",
    "    \"re:.*embed_tokens$\",",
    "    \"re:.*self_attn.*\",",
    "    \"re:.*mlp\\\\.gate$\",",
    "    \"re:.*mlp\\\\.(gate|up|gate_up|down)_proj$\",",
    "    \"re:.*shared_experts.*\",",
    "    \"re:.*eh_proj$\",",
    "    \"re:.*shared_head\\\\.head$\"",
    "  ],",
    "  \"moe_sparsity_config\": null",
    "}",
};

typedef struct span {
    const char *start, *end;
} span;

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static const char *skip_space(const char *at)
{
    while (is_space(*at))
        at++;
    return at;
}

/* Behind the string that starts at `at`. */
static const char *skip_string(const char *at)
{
    for (at++; *at != '"'; at++)
        at += *at == '\\';
    return at + 1;
}

/* Behind the value that starts at `at`: at the ',' or '}' that ends it, white space included. */
static const char *skip_value(const char *at)
{
    size_t depth = 0;
    for (;;) {
        if (*at == '"') {
            at = skip_string(at);
            continue;
        }
        if (depth == 0 && (*at == ',' || *at == '}'))
            return at;
        depth += *at == '{' || *at == '[';
        depth -= *at == '}' || *at == ']';
        at++;
    }
}

static const char *without_space_behind(const char *start, const char *end)
{
    while (end > start && is_space(end[-1]))
        end--;
    return end;
}

/* Whether the key's literal spells FIELD, escapes in it undone. */
static qn_status is_field(span key, const char *what, bool *out, qn_error *err)
{
    json_t *value = NULL;
    qn_status status = qn_json_parse(key.start, (size_t)(key.end - key.start), what, &value, err);
    if (status != QN_OK)
        return status;
    *out = json_string_length(value) == sizeof FIELD - 1 && strcmp(json_string_value(value), FIELD) == 0;
    json_decref(value);
    return QN_OK;
}

static void append_span(qn_buffer *out, span s)
{
    qn_buffer_append(out, s.start, (size_t)(s.end - s.start));
}

/* The new field, its lines indented as deep as those of the other fields. */
static void append_field(qn_buffer *out, span lead)
{
    static const char own_lead[] = "\n  ";
    const char *line_break = lead.end;
    while (line_break > lead.start && line_break[-1] != '\n')
        line_break--;
    if (line_break == lead.start) { /* all on one line */
        lead = (span){own_lead, own_lead + sizeof own_lead - 1};
        line_break = own_lead + 1;
    }
    append_span(out, lead);
    qn_buffer_format(out, "\"%s\": ", FIELD);
    for (size_t i = 0; i < sizeof QUANTIZATION / sizeof *QUANTIZATION; i++) {
        if (i > 0) {
            qn_buffer_char(out, '\n');
            qn_buffer_append(out, line_break, (size_t)(lead.end - line_break));
        }
        qn_buffer_text(out, QUANTIZATION[i]);
    }
}

/* The members of the object whose '{' lies before `at`, but for FIELD, then FIELD, then what follows the last. */
static qn_status rewrite_members(const char *at, const char *what, qn_buffer *out, qn_error *err)
{
    span lead = {at, at}, tail = {at, at};
    bool first = true;
    bool more = *skip_space(at) != '}';
    while (more) {
        span before = {at, skip_space(at)};
        span key = {before.end, skip_string(before.end)};
        const char *stop = skip_value(skip_space(key.end) + 1);
        span member = {key.start, without_space_behind(key.start, stop)};
        bool is_old = false;
        qn_status status = is_field(key, what, &is_old, err);
        if (status != QN_OK)
            return status;
        if (!is_old) {
            qn_buffer_text(out, first ? "" : ",");
            append_span(out, before);
            append_span(out, member);
            first = false;
        }
        lead = before;
        tail = (span){member.end, stop};
        more = *stop == ',';
        at = stop + 1;
    }
    qn_buffer_text(out, first ? "" : ",");
    append_field(out, lead);
    append_span(out, tail);
    if (tail.start == tail.end)
        qn_buffer_char(out, '\n');
    qn_buffer_text(out, "}\n");
    return QN_OK;
}

qn_status qn_config_rewrite(const char *text, size_t bytes, const char *what, qn_buffer *out, qn_error *err)
{
    json_t *root = NULL;
    qn_status status = qn_json_parse_wide(text, bytes, what, &root, err);
    if (status != QN_OK)
        return status;
    bool is_object = qn_json_is_object(root);
    json_decref(root);
    if (!is_object)
        return qn_fail(err, QN_BAD_INPUT, "%s: is no JSON object: fetch the file again", what);
    qn_buffer_char(out, '{');
    status = rewrite_members(skip_space(text) + 1, what, out, err);
    if (status == QN_OK && out->failed)
        status = qn_fail_memory(err, what, bytes);
    return status;
}
