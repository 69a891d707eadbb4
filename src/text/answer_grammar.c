#include "text/answer_grammar.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "grammar/choice.h"
#include "grammar/gbnf.h"
#include "grammar/json_schema.h"
#include "grammar/lark.h"
#include "grammar/regex.h"

struct qn_answer_grammar {
    atomic_uint users;
    qn_grammar *grammar;
    qn_mask_cache *masks;
};

static const char *text_of(void *context, int32_t token, size_t *length)
{
    const qn_tokenizer *tokenizer = context;
    if ((size_t)token >= qn_tokenizer_size(tokenizer)) {
        return NULL;
    }
    return qn_tokenizer_is_added(tokenizer, token) ? NULL : qn_tokenizer_token_bytes(tokenizer, token, length);
}

qn_status qn_tokenizer_trie(const qn_tokenizer *tokenizer, qn_vocabulary_trie **out, qn_error *err)
{
    return qn_tokenizer_padded_trie(tokenizer, qn_tokenizer_size(tokenizer), out, err);
}

qn_status qn_tokenizer_padded_trie(const qn_tokenizer *tokenizer, size_t rows, qn_vocabulary_trie **out, qn_error *err)
{
    return qn_vocabulary_trie_new(rows, text_of, (void *)tokenizer, out, err);
}

static qn_status choices_expr(qn_grammar_builder *b, const json_t *choices, qn_expr *out, qn_error *err)
{
    size_t count = json_array_size(choices);
    const char **texts = qn_alloc(count, sizeof *texts);
    if (texts == NULL) {
        return qn_fail_memory(err, "choice", count * sizeof *texts);
    }
    for (size_t i = 0; i < count; i++) {
        texts[i] = json_string_value(json_array_get(choices, i));
    }
    *out = qn_choice_expr(b, texts, count);
    qn_free(texts);
    return qn_grammar_builder_status(b, err);
}

static qn_expr any_text(qn_grammar_builder *b)
{
    return qn_expr_repeat(b, qn_expr_chars_except(b, NULL, 0), 0, QN_UNBOUNDED);
}

static qn_status format_expr(qn_grammar_builder *b, const qn_answer_format *format, qn_expr *out, qn_error *err)
{
    const qn_schema_options spelling = {.any_whitespace = !format->compact};
    const char *text = json_string_value(format->value);
    size_t bytes = json_string_length(format->value);
    switch (format->kind) {
    case QN_FORMAT_TEXT:
        *out = any_text(b);
        return qn_grammar_builder_status(b, err);
    case QN_FORMAT_JSON_OBJECT:
        *out = qn_json_object_expr(b, &spelling);
        return qn_grammar_builder_status(b, err);
    case QN_FORMAT_JSON_SCHEMA:
        return qn_json_schema_expr(b, format->value, format->value, QN_SCHEMA_JSON, &spelling, format->field, out, err);
    case QN_FORMAT_REGEX:
        return qn_regex_expr(b, text, bytes, false, NULL, out, err);
    case QN_FORMAT_CHOICE:
        return choices_expr(b, format->value, out, err);
    case QN_FORMAT_GBNF:
        return qn_gbnf_expr(b, text, bytes, out, err);
    case QN_FORMAT_LARK:
        return qn_lark_expr(b, text, bytes, out, err);
    }
    return qn_fail(err, QN_INTERNAL, "%s: no such format", format->field);
}

/* Beside calls, a form that no text has would only leave these: it is refused here as it is alone. */
static qn_status check_has_words(const qn_answer_format *format, qn_error *err)
{
    bool checked = format->kind != QN_FORMAT_REGEX && format->kind != QN_FORMAT_GBNF && format->kind != QN_FORMAT_LARK;
    if (checked) {
        return QN_OK; /* by its own reader */
    }
    qn_grammar_builder *b = NULL; /* of its own: a builder builds one grammar */
    qn_grammar *alone = NULL;
    qn_expr text;
    qn_status status = qn_grammar_builder_new(&b, err);
    if (status == QN_OK) {
        status = format_expr(b, format, &text, err);
    }
    if (status == QN_OK) {
        status = qn_grammar_build(b, text, &alone, err);
    }
    qn_grammar_free(alone);
    qn_grammar_builder_free(b);
    return status;
}

/* Readers of notations tell what they read; not every API has a place beside the sentence for where that came from. */
static void name_field(const char *field, qn_error *err)
{
    size_t bytes = strlen(field);
    if (strncmp(err->message, field, bytes) != 0 || err->message[bytes] != ':') {
        qn_error_prefix(err, "%s", field);
    }
    snprintf(err->field, sizeof err->field, "%s", field);
}

static qn_status root_expr(qn_grammar_builder *b, const qn_tokenizer *tokenizer, const qn_answer_format *format,
                           qn_calls_place place, const qn_call_rules *rules, qn_expr *out, qn_error *err)
{
    qn_expr text = qn_expr_empty(b), called = qn_expr_empty(b);
    qn_status status = place != QN_CALLS_ONLY ? format_expr(b, format, &text, err) : QN_OK;
    if (status == QN_OK && place == QN_CALLS_EITHER) {
        status = check_has_words(format, err);
    }
    if (status == QN_USAGE && err->field[0] == '\0') {
        name_field(format->field, err);
    }
    if (status == QN_OK && place != QN_CALLS_NONE) {
        status = qn_tool_calls_expr(b, tokenizer, rules, &called, err);
    }
    if (status != QN_OK) {
        return status;
    }
    if (place == QN_CALLS_EITHER && format->kind == QN_FORMAT_TEXT) {
        *out = qn_expr_concat2(b, text, qn_expr_optional(b, called));
    } else if (place == QN_CALLS_EITHER) {
        *out = qn_expr_choice(b, (qn_expr[]){text, called}, 2);
    } else {
        *out = place == QN_CALLS_ONLY ? called : text;
    }
    return QN_OK;
}

qn_status qn_answer_grammar_new(const qn_tokenizer *tokenizer, const qn_vocabulary_trie *trie,
                                const qn_answer_format *format, qn_calls_place place, const qn_call_rules *rules,
                                qn_answer_grammar **out, qn_error *err)
{
    qn_grammar_builder *b = NULL;
    qn_expr root;
    qn_answer_grammar *grammar = qn_alloc_zero(1, sizeof *grammar);
    qn_status status = grammar != NULL ? qn_grammar_builder_new(&b, err)
                                       : qn_fail_memory(err, "grammar", sizeof *grammar);
    if (status == QN_OK) {
        status = root_expr(b, tokenizer, format, place, rules, &root, err);
    }
    if (status == QN_OK) {
        status = qn_grammar_build(b, root, &grammar->grammar, err);
        if (status == QN_USAGE && err->field[0] == '\0') {
            snprintf(err->field, sizeof err->field, "%s", place == QN_CALLS_ONLY ? "tools" : format->field);
        }
    }
    if (status == QN_OK) {
        status = qn_mask_cache_new(grammar->grammar, trie, &grammar->masks, err);
    }
    qn_grammar_builder_free(b);
    if (grammar != NULL) {
        atomic_init(&grammar->users, 1);
    }
    if (status != QN_OK) {
        qn_answer_grammar_release(grammar);
        return status;
    }
    *out = grammar;
    return QN_OK;
}

qn_answer_grammar *qn_answer_grammar_share(qn_answer_grammar *grammar)
{
    atomic_fetch_add(&grammar->users, 1);
    return grammar;
}

void qn_answer_grammar_release(qn_answer_grammar *grammar)
{
    if (grammar == NULL || atomic_fetch_sub(&grammar->users, 1) > 1) {
        return;
    }
    qn_mask_cache_free(grammar->masks);
    qn_grammar_free(grammar->grammar);
    qn_free(grammar);
}

const qn_grammar *qn_answer_grammar_of(const qn_answer_grammar *grammar)
{
    return grammar->grammar;
}

qn_mask_cache *qn_answer_grammar_masks(const qn_answer_grammar *grammar)
{
    return grammar->masks;
}
