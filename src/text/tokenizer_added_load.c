/* Reading added_tokens of a tokenizer.json. Each is a token of the vocabulary that the text names literally, or a
 * further one behind it; where the normalizer changes its content, it is looked for as changed in texts that are
 * normalized. */
#include <string.h>

#include "base/memory.h"
#include "text/tokenizer_fields.h"
#include "text/tokenizer_internal.h"
#include "text/tokenizer_nfc.h"

/* The id must be what `tokenizers` gives, which does not read it: the vocabulary's own, or else the next free one. */
static qn_status place_added(qn_tokenizer *tokenizer, const qn_added_token *token, const char *spelling, size_t bytes,
                             qn_error *err)
{
    qn_vocabulary *vocabulary = qn_bpe_vocabulary(tokenizer->bpe);
    char scratch[QN_ADDED_MAX_BYTES];
    int32_t own = qn_vocabulary_find(vocabulary, token->content, token->bytes, scratch);
    size_t expected = own >= 0 ? (size_t)own : qn_vocabulary_count(vocabulary);
    if ((size_t)token->id != expected)
        return qn_fail(err, QN_BAD_INPUT,
                       "added token \"%s\": its id is %d where `tokenizers` would give it %zu: the "
                       "file is damaged",
                       token->content, (int)token->id, expected);
    bool changes = bytes != token->bytes || memcmp(spelling, token->content, bytes) != 0;
    if (own >= 0 && changes)
        return qn_fail(err, QN_BAD_INPUT,
                       "added token \"%s\": a token of the vocabulary that normalization changes "
                       "is not supported: quern cannot use this tokenizer",
                       token->content);
    return own >= 0 ? QN_OK : qn_vocabulary_append(vocabulary, spelling, bytes, err);
}

typedef struct added_fields {
    qn_added_token token;
    bool is_normalized, is_special;
} added_fields;

static qn_status read_added(const json_t *spec, added_fields *out, qn_error *err)
{
    static const char what[] = "added token";
    static const char *const known[] = {"id",     "content",    "single_word", "lstrip",
                                        "rstrip", "normalized", "special",     NULL};
    const json_t *content = NULL, *id = json_object_get(spec, "id");
    qn_status status = qn_section_check(spec, what, known, err);
    if (status == QN_OK)
        status = qn_section_string(spec, what, "content", &content, err);
    if (status == QN_OK)
        status = qn_section_bool(spec, what, "single_word", &out->token.single_word, err);
    if (status == QN_OK)
        status = qn_section_bool(spec, what, "lstrip", &out->token.lstrip, err);
    if (status == QN_OK)
        status = qn_section_bool(spec, what, "rstrip", &out->token.rstrip, err);
    if (status == QN_OK)
        status = qn_section_bool(spec, what, "normalized", &out->is_normalized, err);
    if (status == QN_OK)
        status = qn_section_bool(spec, what, "special", &out->is_special, err);
    if (status != QN_OK)
        return status;
    if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= QN_VOCABULARY_MAX_TOKENS)
        return qn_fail(err, QN_BAD_INPUT, "%s: its id is not an integer from 0 to %d: the file is damaged", what,
                       QN_VOCABULARY_MAX_TOKENS - 1);
    size_t bytes = json_string_length(content);
    if (bytes == 0 || bytes > QN_ADDED_MAX_BYTES)
        return qn_fail(err, QN_BAD_INPUT, "%s %d: its content has %zu bytes: 1 to %d are supported", what,
                       (int)json_integer_value(id), bytes, QN_ADDED_MAX_BYTES);
    out->token.id = (int32_t)json_integer_value(id);
    out->token.content = (char *)json_string_value(content);
    out->token.bytes = bytes;
    return QN_OK;
}

static qn_status add_to_sets(qn_tokenizer *tokenizer, const added_fields *fields, const qn_buffer *spelling,
                             qn_error *err)
{
    qn_status status = qn_added_set_add(&tokenizer->added, &fields->token, err);
    if (status != QN_OK)
        return status;
    if (!fields->is_normalized)
        return qn_added_set_add(&tokenizer->plain, &fields->token, err);
    qn_added_token normalized = fields->token;
    normalized.content = spelling->data;
    normalized.bytes = spelling->size;
    return qn_added_set_add(&tokenizer->normalized, &normalized, err);
}

static qn_status add_token(qn_tokenizer *tokenizer, const json_t *spec, qn_nfc_scratch *nfc, qn_buffer *spelling,
                           uint8_t *kind, int32_t *id, qn_error *err)
{
    added_fields fields = {0};
    qn_status status = read_added(spec, &fields, err);
    if (status != QN_OK)
        return status;
    const qn_added_token *token = &fields.token;
    qn_buffer_clear(spelling);
    if (fields.is_normalized && tokenizer->is_nfc)
        status = qn_nfc_normalize(nfc, token->content, token->bytes, NULL, 0, spelling, NULL, err);
    else
        qn_buffer_append(spelling, token->content, token->bytes);
    if (status == QN_OK && spelling->failed)
        status = qn_fail_memory(err, "added tokens", token->bytes);
    if (status == QN_OK)
        status = place_added(tokenizer, token, spelling->data, spelling->size, err);
    if (status == QN_OK)
        status = add_to_sets(tokenizer, &fields, spelling, err);
    /* as `tokenizers` has it, a special token that normalization changes is shown when special ones are left out */
    bool is_changed = spelling->size != token->bytes || memcmp(spelling->data, token->content, token->bytes) != 0;
    *kind = fields.is_special && !is_changed ? QN_TOKEN_ADDED | QN_TOKEN_SPECIAL : QN_TOKEN_ADDED;
    *id = token->id;
    return status;
}

qn_status qn_tokenizer_load_added(qn_tokenizer *tokenizer, const json_t *list, qn_error *err)
{
    size_t model_tokens = qn_vocabulary_count(qn_bpe_tokens(tokenizer->bpe));
    if (list && !json_is_array(list))
        return qn_fail(err, QN_BAD_INPUT, "added_tokens: it is %s: an array is expected", qn_json_type_name(list));
    tokenizer->kinds = qn_alloc_zero(model_tokens + json_array_size(list), 1);
    if (!tokenizer->kinds)
        return qn_fail_memory(err, "added tokens", model_tokens);
    qn_nfc_scratch nfc = {0};
    qn_buffer spelling = {0};
    qn_status status = QN_OK;
    for (size_t i = 0; i < json_array_size(list) && status == QN_OK; i++) {
        uint8_t kind;
        int32_t id;
        status = add_token(tokenizer, json_array_get(list, i), &nfc, &spelling, &kind, &id, err);
        if (status == QN_OK)
            tokenizer->kinds[id] = kind;
    }
    qn_nfc_scratch_free(&nfc);
    qn_buffer_free(&spelling);
    qn_added_set *sets[] = {&tokenizer->added, &tokenizer->plain, &tokenizer->normalized};
    for (size_t i = 0; i < 3 && status == QN_OK; i++)
        status = qn_added_set_seal(sets[i], err);
    return status;
}
