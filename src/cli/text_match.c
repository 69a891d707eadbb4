#include "cli/text_match.h"

#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "grammar/choice.h"
#include "grammar/gbnf.h"
#include "grammar/json_schema.h"
#include "grammar/lark.h"
#include "grammar/matcher.h"
#include "grammar/regex.h"

enum { FILE_MAX_BYTES = 16 << 20 };

static size_t count_sources(const qn_text_match *match)
{
    return (size_t)(match->regex != NULL) + (match->gbnf_path != NULL) + (match->lark_path != NULL) +
           (match->choice_path != NULL) + (match->schema_path != NULL);
}

bool qn_text_match_is_set(const qn_text_match *match)
{
    return count_sources(match) > 0;
}

/* What is wrong in a file is the file's fault, and told with its name. */
static qn_status blame_file(const char *path, qn_status status, qn_error *err)
{
    if (status != QN_USAGE) {
        return status;
    }
    err->status = QN_BAD_INPUT;
    return qn_error_prefix(err, "%s", path);
}

typedef qn_status grammar_reader(qn_grammar_builder *b, const char *text, size_t bytes, qn_expr *out, qn_error *err);

static qn_status read_grammar(qn_grammar_builder *b, const char *path, grammar_reader *reader, qn_expr *out,
                              qn_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    qn_status status = qn_file_read(path, FILE_MAX_BYTES, &text, &bytes, err);
    if (status == QN_OK) {
        status = blame_file(path, reader(b, text, bytes, out, err), err);
    }
    qn_free(text);
    return status;
}

static qn_status choice_of_array(qn_grammar_builder *b, const json_t *array, qn_expr *out, qn_error *err)
{
    size_t count = json_array_size(array);
    if (count == 0) {
        return qn_fail(err, QN_USAGE, "%s: give an array of strings, at least one", qn_json_type_name(array));
    }
    const char **texts = qn_alloc(count, sizeof *texts);
    if (texts == NULL) {
        return qn_fail_memory(err, "choice", count * sizeof *texts);
    }
    qn_status status = QN_OK;
    for (size_t i = 0; i < count && status == QN_OK; i++) {
        const json_t *item = json_array_get(array, i);
        texts[i] = json_string_value(item);
        if (texts[i] == NULL || strlen(texts[i]) != json_string_length(item)) {
            status = qn_fail(err, QN_USAGE, "item %zu is no string, or has a NUL: give strings without", i);
        }
    }
    if (status == QN_OK) {
        *out = qn_choice_expr(b, texts, count);
        status = qn_grammar_builder_status(b, err);
    }
    qn_free(texts);
    return status;
}

static qn_status read_choice(qn_grammar_builder *b, const char *path, qn_expr *out, qn_error *err)
{
    json_t *array = NULL;
    qn_status status = qn_json_parse_file(path, FILE_MAX_BYTES, &array, err);
    if (status == QN_OK) {
        status = blame_file(path, choice_of_array(b, array, out, err), err);
    }
    json_decref(array);
    return status;
}

static qn_status read_schema(qn_grammar_builder *b, const char *path, qn_expr *out, qn_error *err)
{
    const qn_schema_options options = {.any_whitespace = true};
    json_t *schema = NULL;
    qn_status status = qn_json_parse_file(path, FILE_MAX_BYTES, &schema, err);
    if (status == QN_OK) {
        status = qn_json_schema_expr(b, schema, schema, QN_SCHEMA_JSON, &options, "schema", out, err);
        status = blame_file(path, status, err);
    }
    json_decref(schema);
    return status;
}

static qn_status compile(qn_text_match *match, qn_grammar_builder *b, qn_error *err)
{
    qn_expr root = 0;
    const char *path = NULL;
    qn_status status;
    if (match->regex != NULL) {
        status = qn_regex_expr(b, match->regex, strlen(match->regex), false, NULL, &root, err);
    } else if (match->gbnf_path != NULL) {
        path = match->gbnf_path;
        status = read_grammar(b, path, qn_gbnf_expr, &root, err);
    } else if (match->lark_path != NULL) {
        path = match->lark_path;
        status = read_grammar(b, path, qn_lark_expr, &root, err);
    } else if (match->schema_path != NULL) {
        path = match->schema_path;
        status = read_schema(b, path, &root, err);
    } else {
        path = match->choice_path;
        status = read_choice(b, path, &root, err);
    }
    if (status != QN_OK) {
        return status;
    }
    status = qn_grammar_build(b, root, &match->grammar, err);
    return path != NULL ? blame_file(path, status, err) : status;
}

qn_status qn_text_match_open(qn_text_match *match, qn_error *err)
{
    if (count_sources(match) != 1) {
        return qn_fail(err, QN_USAGE, "text match: %s: give one of --schema, --regex, --gbnf, --lark and --choice",
                       qn_text_match_is_set(match) ? "several grammars" : "no grammar");
    }
    qn_grammar_builder *b = NULL;
    qn_status status = qn_grammar_builder_new(&b, err);
    if (status == QN_OK) {
        status = compile(match, b, err);
    }
    qn_grammar_builder_free(b);
    return status;
}

void qn_text_match_close(qn_text_match *match)
{
    qn_grammar_free(match->grammar);
    match->grammar = NULL;
}

qn_status qn_text_match_answer(const qn_text_match *match, const char *text, size_t bytes, qn_buffer *out,
                               qn_error *err)
{
    qn_matcher *matcher = NULL;
    qn_status status = qn_matcher_new(match->grammar, &matcher, err);
    if (status != QN_OK) {
        return status;
    }
    size_t taken = qn_matcher_bytes(matcher, text, bytes);
    if (qn_matcher_exhausted(matcher)) {
        status = qn_fail(err, QN_RESOURCE,
                         "text match: byte %zu: more ways to read the text than are followed, or too deep: make the "
                         "grammar less ambiguous",
                         taken);
    } else if (taken == bytes && qn_matcher_can_end(matcher)) {
        qn_buffer_text(out, "true");
    } else {
        qn_buffer_format(out, "{\"match\":false,\"byte\":%zu}", taken);
    }
    qn_matcher_free(matcher);
    return status == QN_OK && out->failed ? qn_fail_memory(err, "answer", out->size) : status;
}
