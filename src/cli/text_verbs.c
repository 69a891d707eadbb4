#include "cli/text_verbs.h"

#include <string.h>

#include "base/json.h"
#include "base/json_wide.h"
#include "cli/options.h"
#include "cli/text_parse.h"
#include "text/detokenizer.h"

static qn_status check_out(const qn_text_tool *tool, qn_error *err)
{
    return tool->out.failed ? qn_fail_memory(err, "answer", tool->out.size) : QN_OK;
}

static void write_ids(qn_text_tool *tool)
{
    qn_buffer_char(&tool->out, '[');
    for (size_t i = 0; i < tool->tokens.count; i++) {
        qn_buffer_format(&tool->out, i > 0 ? ",%d" : "%d", (int)tool->tokens.ids[i]);
    }
    qn_buffer_char(&tool->out, ']');
}

static qn_status encode_plain(qn_text_tool *tool, const char *input, size_t bytes, qn_error *err)
{
    qn_tokens_clear(&tool->tokens);
    qn_status status = qn_tokenizer_encode(tool->tokenizer, input, bytes, NULL, 0, &tool->tokens, err);
    if (status == QN_OK) {
        write_ids(tool);
        status = check_out(tool, err);
    }
    return status;
}

static qn_status encode(qn_text_tool *tool, const json_t *input, qn_error *err)
{
    if (!json_is_string(input)) {
        return qn_fail(err, QN_USAGE, "line: %s: send a string", qn_json_type_name(input));
    }
    return encode_plain(tool, json_string_value(input), json_string_length(input), err);
}

static qn_status read_ids(qn_text_tool *tool, const json_t *input, qn_error *err)
{
    qn_tokens_clear(&tool->tokens);
    if (!json_is_array(input)) {
        return qn_fail(err, QN_USAGE, "line: %s: send an array of token ids", qn_json_type_name(input));
    }
    for (size_t i = 0; i < json_array_size(input); i++) {
        const json_t *id = json_array_get(input, i);
        json_int_t value = json_integer_value(id);
        if (!json_is_integer(id) || value < 0 || value > INT32_MAX) {
            return qn_fail(err, QN_USAGE, "line: item %zu is no token id: send integers from 0 on", i);
        }
        if (!qn_tokens_add(&tool->tokens, (int32_t)value)) {
            return qn_fail_memory(err, "token ids", (i + 1) * sizeof(int32_t));
        }
    }
    return QN_OK;
}

/* The piece of text after each id, and what is left at the end when there is something. */
static qn_status decode_pieces(qn_text_tool *tool, qn_buffer *piece, qn_error *err)
{
    qn_detokenizer detokenizer;
    qn_detokenizer_start(&detokenizer, tool->tokenizer, tool->skip_special);
    qn_buffer_char(&tool->out, '[');
    qn_status status = QN_OK;
    for (size_t i = 0; i <= tool->tokens.count && status == QN_OK; i++) {
        qn_buffer_clear(piece);
        status = i < tool->tokens.count ? qn_detokenizer_feed(&detokenizer, &tool->tokens.ids[i], 1, piece, err)
                                        : qn_detokenizer_flush(&detokenizer, piece, err);
        if (i < tool->tokens.count || piece->size > 0) {
            qn_buffer_text(&tool->out, i > 0 ? "," : "");
            qn_buffer_json_string(&tool->out, qn_buffer_string(piece), piece->size);
        }
    }
    qn_buffer_char(&tool->out, ']');
    return status;
}

static qn_status decode(qn_text_tool *tool, const json_t *input, qn_error *err)
{
    qn_buffer text = {0};
    qn_status status = read_ids(tool, input, err);
    if (status == QN_OK && tool->stream) {
        status = decode_pieces(tool, &text, err);
    } else if (status == QN_OK) {
        status = qn_tokenizer_decode(tool->tokenizer, tool->tokens.ids, tool->tokens.count, tool->skip_special, &text,
                                     err);
        qn_buffer_json_string(&tool->out, qn_buffer_string(&text), text.size);
    }
    if (status == QN_OK && text.failed) {
        status = qn_fail_memory(err, "text", text.size);
    }
    qn_buffer_free(&text);
    return status == QN_OK ? check_out(tool, err) : status;
}

static qn_status parse_plain(const char *input, size_t bytes, json_t **out, qn_error *err)
{
    return qn_json_parse_wide(input, bytes, "input", out, err);
}

static qn_status decode_plain(qn_text_tool *tool, const char *input, size_t bytes, qn_error *err)
{
    json_t *ids = NULL;
    qn_status status = parse_plain(input, bytes, &ids, err);
    if (status != QN_OK) {
        return status;
    }
    status = read_ids(tool, ids, err);
    if (status == QN_OK) {
        status = qn_tokenizer_decode(tool->tokenizer, tool->tokens.ids, tool->tokens.count, tool->skip_special,
                                     &tool->out, err);
    }
    json_decref(ids);
    return status == QN_OK ? check_out(tool, err) : status;
}

static qn_status render(qn_text_tool *tool, const json_t *input, qn_error *err)
{
    if (!qn_json_is_object(input)) {
        return qn_fail(err, QN_USAGE, "line: %s: send an object of template variables", qn_json_type_name(input));
    }
    qn_buffer text = {0};
    qn_status status = qn_template_render(tool->template, input, NULL, NULL, &text, NULL, err);
    if (status == QN_OK) {
        qn_buffer_text(&tool->out, "{\"text\":");
        qn_buffer_json_string(&tool->out, qn_buffer_string(&text), text.size);
        qn_buffer_char(&tool->out, '}');
        status = check_out(tool, err);
    }
    qn_buffer_free(&text);
    return status;
}

static qn_status render_plain(qn_text_tool *tool, const char *input, size_t bytes, qn_error *err)
{
    json_t *context = NULL;
    qn_status status = parse_plain(input, bytes, &context, err);
    if (status != QN_OK) {
        return status;
    }
    if (!qn_json_is_object(context)) {
        status = qn_fail(err, QN_BAD_INPUT, "input: %s: give an object of template variables",
                         qn_json_type_name(context));
    } else {
        status = qn_template_render(tool->template, context, NULL, NULL, &tool->out, NULL, err);
    }
    json_decref(context);
    return status == QN_OK ? check_out(tool, err) : status;
}

static qn_status match_plain(qn_text_tool *tool, const char *input, size_t bytes, qn_error *err)
{
    return qn_text_match_answer(&tool->match, input, bytes, &tool->out, err);
}

static qn_status match(qn_text_tool *tool, const json_t *input, qn_error *err)
{
    if (!json_is_string(input)) {
        return qn_fail(err, QN_USAGE, "line: %s: send a string", qn_json_type_name(input));
    }
    return match_plain(tool, json_string_value(input), json_string_length(input), err);
}

static qn_status parse(qn_text_tool *tool, const json_t *input, qn_error *err)
{
    const qn_text_parse how = {
        .tokenizer = tool->tokenizer, .tools = tool->tools, .chunk = tool->chunk, .stream = tool->stream};
    return qn_text_parse_line(&how, input, &tool->out, err);
}

static qn_status parse_output_plain(qn_text_tool *tool, const char *input, size_t bytes, qn_error *err)
{
    json_t *value = NULL;
    qn_status status = parse_plain(input, bytes, &value, err);
    if (status == QN_OK) {
        status = parse(tool, value, err);
    }
    json_decref(value);
    return status;
}

static const qn_text_verb verbs[] = {
    {.name = "render", .needs_template = true, .answer = render, .answer_plain = render_plain, .answers_bytes = true},
    {.name = "encode", .needs_tokenizer = true, .answer = encode, .answer_plain = encode_plain},
    {.name = "decode", .needs_tokenizer = true, .answer = decode, .answer_plain = decode_plain, .decodes = true},
    {.name = "match", .needs_grammar = true, .answer = match, .answer_plain = match_plain},
    {.name = "parse", .needs_tokenizer = true, .answer = parse, .answer_plain = parse_output_plain, .parses = true},
};
enum { VERB_COUNT = sizeof verbs / sizeof verbs[0] };

qn_status qn_text_verb_find(const char *name, const qn_text_verb **out, qn_error *err)
{
    const char *names[VERB_COUNT];
    for (size_t i = 0; i < VERB_COUNT; i++) {
        names[i] = verbs[i].name;
        if (strcmp(verbs[i].name, name) == 0) {
            *out = &verbs[i];
            return QN_OK;
        }
    }
    const char *near = qn_nearest_name(name, names, VERB_COUNT);
    return near != NULL ? qn_fail(err, QN_USAGE, "text %s: no such verb: did you mean '%s'?", name, near)
                        : qn_fail(err, QN_USAGE,
                                  "text %s: no such verb: there are render, encode, decode, parse and match", name);
}
