/* A tokenizer.json is read twice: once to find its sections, since the vocabulary comes last but is needed first, and
 * once section by section. The vocabulary and the merges, nearly all of the file, are read in place; the small sections
 * go through jansson. A section or field that is not known is an error: it might change results. */
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "text/tokenizer_fields.h"
#include "text/tokenizer_internal.h"
#include "text/tokenizer_json.h"

typedef enum section {
    VERSION,
    TRUNCATION,
    PADDING,
    ADDED_TOKENS,
    NORMALIZER,
    PRE_TOKENIZER,
    POST_PROCESSOR,
    DECODER,
    MODEL,
    SECTIONS
} section;

static const char *const section_names[SECTIONS] = {"version",        "truncation", "padding",
                                                    "added_tokens",   "normalizer", "pre_tokenizer",
                                                    "post_processor", "decoder",    "model"};

typedef enum model_field {
    TYPE,
    DROPOUT,
    UNK_TOKEN,
    CONTINUING_SUBWORD_PREFIX,
    END_OF_WORD_SUFFIX,
    FUSE_UNK,
    BYTE_FALLBACK,
    IGNORE_MERGES,
    VOCAB,
    MERGES,
    MODEL_FIELDS
} model_field;

static const char *const model_field_names[MODEL_FIELDS] = {"type",
                                                            "dropout",
                                                            "unk_token",
                                                            "continuing_subword_prefix",
                                                            "end_of_word_suffix",
                                                            "fuse_unk",
                                                            "byte_fallback",
                                                            "ignore_merges",
                                                            "vocab",
                                                            "merges"};

typedef struct loader {
    qn_json_slice document;
    qn_error *err;
    qn_json_slice sections[SECTIONS], model[MODEL_FIELDS]; /* NULL text: absent */
    qn_tokenizer *tokenizer;
    qn_buffer first, second; /* for strings with escapes */
} loader;

/* ---- finding the sections ---- */

static qn_json_cursor cursor_over(const loader *l, qn_json_slice slice)
{
    size_t start = (size_t)(slice.text - l->document.text); /* of the whole: errors tell the line in the file */
    return (qn_json_cursor){.text = l->document.text, .at = start, .bytes = start + slice.bytes, .err = l->err};
}

static qn_status find_members(loader *l, qn_json_cursor *c, const char *const *names, size_t count,
                              qn_json_slice *members);

static qn_status find_member(loader *l, qn_json_cursor *c, qn_json_slice key, const char *const *names, size_t count,
                             qn_json_slice *members)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(names[i]) != key.bytes || memcmp(names[i], key.text, key.bytes) != 0)
            continue;
        if (members[i].text)
            return qn_fail(l->err, QN_BAD_INPUT, "\"%s\" is given twice: the file is damaged", names[i]);
        if (names == section_names && i == MODEL) { /* the bulk of the file: not to be gone over twice */
            members[i] = (qn_json_slice){c->text + c->at, 0};
            return find_members(l, c, model_field_names, MODEL_FIELDS, l->model);
        }
        return qn_json_cursor_skip(c, &members[i]);
    }
    return qn_fail(l->err, QN_BAD_INPUT, "\"%.*s\" is not known: quern cannot use this tokenizer",
                   (int)(key.bytes < 80 ? key.bytes : 80), key.text);
}

/* Records where the members of an object lie. */
static qn_status find_members(loader *l, qn_json_cursor *c, const char *const *names, size_t count,
                              qn_json_slice *members)
{
    qn_status status = qn_json_cursor_open(c, '{');
    while (status == QN_OK) {
        bool more;
        qn_json_slice key;
        status = qn_json_cursor_member(c, &more, &key, &l->first);
        if (status != QN_OK || !more)
            break;
        status = find_member(l, c, key, names, count, members);
    }
    return status;
}

/* Parses a section by jansson: *out is NULL when it is absent or null. */
static qn_status parse_slice(const loader *l, qn_json_slice slice, const char *name, json_t **out)
{
    *out = NULL;
    if (!slice.text)
        return QN_OK;
    qn_status status = qn_json_parse(slice.text, slice.bytes, name, out, l->err);
    if (status != QN_OK)
        return status;
    if (json_is_null(*out)) {
        json_decref(*out);
        *out = NULL;
    }
    return QN_OK;
}

/* ---- model ---- */

static qn_status unsupported_model(const loader *l, model_field field, const char *reason)
{
    return qn_fail(l->err, QN_BAD_INPUT, "model.%s: %s: quern cannot use this tokenizer", model_field_names[field],
                   reason);
}

static bool is_empty_or_null(const json_t *value)
{
    return !value || (json_is_string(value) && json_string_length(value) == 0);
}

/* What a field's value may be. With a token for every byte, unk_token, fuse_unk and byte_fallback never come into play:
 * they may be anything. */
static qn_status check_model_value(const loader *l, model_field field, const json_t *value, bool *ignore_merges)
{
    switch (field) {
    case TYPE:
        if (!json_is_string(value) || strcmp(json_string_value(value), "BPE") != 0)
            return unsupported_model(l, field, "only \"BPE\" is supported");
        return QN_OK;
    case DROPOUT:
        if (value && !(json_is_number(value) && json_number_value(value) == 0.0))
            return unsupported_model(l, field, "only null and 0 are supported");
        return QN_OK;
    case CONTINUING_SUBWORD_PREFIX:
    case END_OF_WORD_SUFFIX:
        if (!is_empty_or_null(value))
            return unsupported_model(l, field, "only null and \"\" are supported");
        return QN_OK;
    case IGNORE_MERGES:
        if (value && !json_is_boolean(value))
            return unsupported_model(l, field, "it is not a boolean");
        *ignore_merges = json_is_true(value);
        return QN_OK;
    default:
        return QN_OK;
    }
}

static qn_status check_model_fields(const loader *l, bool *ignore_merges)
{
    for (model_field field = 0; field < VOCAB; field++) {
        json_t *value;
        qn_status status = parse_slice(l, l->model[field], model_field_names[field], &value);
        if (status == QN_OK)
            status = check_model_value(l, field, value, ignore_merges);
        json_decref(value);
        if (status != QN_OK)
            return status;
    }
    for (model_field field = VOCAB; field <= MERGES; field++) {
        if (!l->model[field].text)
            return unsupported_model(l, field, "it is missing");
    }
    return QN_OK;
}

static qn_status read_vocabulary(loader *l, qn_vocabulary *vocabulary)
{
    qn_json_cursor c = cursor_over(l, l->model[VOCAB]);
    qn_status status = qn_json_cursor_open(&c, '{');
    while (status == QN_OK) {
        bool more;
        qn_json_slice spelling;
        int64_t id;
        status = qn_json_cursor_member(&c, &more, &spelling, &l->first);
        if (status != QN_OK || !more)
            break;
        status = qn_json_cursor_integer(&c, &id);
        if (status == QN_OK)
            status = qn_vocabulary_add(vocabulary, spelling.text, spelling.bytes, id, l->err);
    }
    return status == QN_OK ? qn_vocabulary_seal(vocabulary, l->err) : status;
}

/* ["left", "right"] */
static qn_status read_merge_pair(loader *l, qn_json_cursor *c, qn_json_slice parts[2])
{
    bool more = true;
    qn_status status = qn_json_cursor_open(c, '[');
    for (int i = 0; i < 2 && status == QN_OK; i++) {
        status = qn_json_cursor_element(c, &more);
        if (status == QN_OK && !more)
            return qn_json_cursor_fail(c, "a merge needs two parts");
        if (status == QN_OK)
            status = qn_json_cursor_string(c, &parts[i], i == 0 ? &l->first : &l->second);
    }
    if (status == QN_OK)
        status = qn_json_cursor_element(c, &more);
    return status == QN_OK && more ? qn_json_cursor_fail(c, "a merge has only two parts") : status;
}

/* "left right" */
static qn_status read_merge_line(loader *l, qn_json_cursor *c, qn_json_slice parts[2], bool *is_comment)
{
    qn_json_slice line;
    qn_status status = qn_json_cursor_string(c, &line, &l->first);
    if (status != QN_OK)
        return status;
    static const char comment[] = "#version"; /* the first line of a merges.txt */
    *is_comment = line.bytes >= strlen(comment) && memcmp(line.text, comment, strlen(comment)) == 0;
    if (*is_comment)
        return QN_OK;
    const char *space = memchr(line.text, ' ', line.bytes), *end = line.text + line.bytes;
    if (!space || memchr(space + 1, ' ', (size_t)(end - (space + 1))))
        return qn_json_cursor_fail(c, "a merge needs two parts with one space between");
    parts[0] = (qn_json_slice){line.text, (size_t)(space - line.text)};
    parts[1] = (qn_json_slice){space + 1, (size_t)(end - (space + 1))};
    return QN_OK;
}

static qn_status read_merges(loader *l, qn_bpe *bpe)
{
    qn_json_cursor c = cursor_over(l, l->model[MERGES]);
    qn_status status = qn_json_cursor_open(&c, '[');
    while (status == QN_OK) {
        bool more, is_comment = false;
        qn_json_slice parts[2];
        status = qn_json_cursor_element(&c, &more);
        if (status != QN_OK || !more)
            break;
        status = qn_json_cursor_peek(&c) == '[' ? read_merge_pair(l, &c, parts)
                                                : read_merge_line(l, &c, parts, &is_comment);
        if (status == QN_OK && !is_comment)
            status = qn_bpe_add_merge(bpe, parts[0].text, parts[0].bytes, parts[1].text, parts[1].bytes, l->err);
    }
    return status == QN_OK ? qn_bpe_seal(bpe, l->err) : status;
}

static qn_status load_model(loader *l)
{
    bool ignore_merges = false;
    qn_vocabulary *vocabulary = NULL;
    qn_status status = check_model_fields(l, &ignore_merges);
    if (status == QN_OK)
        status = qn_vocabulary_new(&vocabulary, l->err);
    if (status == QN_OK)
        status = read_vocabulary(l, vocabulary);
    if (status == QN_OK)
        status = qn_bpe_new(vocabulary, ignore_merges, &l->tokenizer->bpe, l->err);
    if (status != QN_OK) {
        qn_vocabulary_free(vocabulary);
        return status;
    }
    return read_merges(l, l->tokenizer->bpe);
}

/* ---- normalizer, decoder, post_processor ---- */

static qn_status read_normalizer(loader *l, const json_t *spec, unsigned depth)
{
    static const char what[] = "normalizer";
    static const char *const nfc_fields[] = {"type", NULL}, *const sequence_fields[] = {"type", "normalizers", NULL};
    const char *type;
    qn_status status = qn_section_type(spec, what, &type, l->err);
    if (status != QN_OK)
        return status;
    if (strcmp(type, "NFC") == 0) {
        l->tokenizer->is_nfc = true;
        return qn_section_check(spec, what, nfc_fields, l->err);
    }
    if (strcmp(type, "Sequence") != 0 || depth > 4)
        return qn_section_unsupported(what, type, l->err);
    const json_t *steps = NULL;
    status = qn_section_check(spec, what, sequence_fields, l->err);
    if (status == QN_OK)
        status = qn_section_array(spec, what, "normalizers", &steps, l->err);
    for (size_t i = 0; status == QN_OK && i < json_array_size(steps); i++)
        status = read_normalizer(l, json_array_get(steps, i), depth + 1);
    return status;
}

static qn_status check_decoder(loader *l, const json_t *spec)
{
    static const char what[] = "decoder";
    static const char *const known[] = {"type", "add_prefix_space", "trim_offsets", "use_regex", NULL};
    const char *type;
    if (!spec)
        return qn_fail(l->err, QN_BAD_INPUT, "%s: it is missing: only ByteLevel is supported", what);
    qn_status status = qn_section_type(spec, what, &type, l->err);
    if (status == QN_OK && strcmp(type, "ByteLevel") != 0)
        status = qn_section_unsupported(what, type, l->err);
    return status == QN_OK ? qn_section_check(spec, what, known, l->err) : status; /* the fields mean nothing here */
}

/* Post-processors put tokens around a text, which quern never asks for, or move offsets, which it does not have. One of
 * a kind that does something else must not go unnoticed. */
static qn_status check_post_processor(loader *l, const json_t *spec, unsigned depth)
{
    static const char what[] = "post_processor";
    const char *type;
    qn_status status = qn_section_type(spec, what, &type, l->err);
    if (status != QN_OK || strcmp(type, "ByteLevel") == 0 || strcmp(type, "TemplateProcessing") == 0)
        return status;
    if (strcmp(type, "Sequence") != 0 || depth > 4)
        return qn_section_unsupported(what, type, l->err);
    const json_t *steps = NULL;
    status = qn_section_array(spec, what, "processors", &steps, l->err);
    for (size_t i = 0; status == QN_OK && i < json_array_size(steps); i++)
        status = check_post_processor(l, json_array_get(steps, i), depth + 1);
    return status;
}

/* ---- the whole ---- */

static qn_status check_version(loader *l, const json_t *version)
{
    if (!json_is_string(version) || strcmp(json_string_value(version), "1.0") != 0)
        return qn_fail(l->err, QN_BAD_INPUT, "version: only \"1.0\" is supported: quern cannot use this tokenizer");
    return QN_OK;
}

static qn_status load_value(loader *l, section which, const json_t *value)
{
    switch (which) {
    case VERSION:
        return check_version(l, value);
    case TRUNCATION:
    case PADDING:
        return value ? qn_fail(l->err, QN_BAD_INPUT,
                               "%s: only null is supported: quern encodes the whole text and "
                               "nothing else",
                               section_names[which])
                     : QN_OK;
    case NORMALIZER:
        return value ? read_normalizer(l, value, 0) : QN_OK;
    case ADDED_TOKENS:
        if (!value && l->sections[which].text)
            return qn_fail(l->err, QN_BAD_INPUT, "added_tokens: it is null: an array is expected");
        return qn_tokenizer_load_added(l->tokenizer, value, l->err);
    case PRE_TOKENIZER:
        return qn_pretokenizer_parse(value, section_names[which], &l->tokenizer->pretokenizer, l->err);
    case POST_PROCESSOR:
        return value ? check_post_processor(l, value, 0) : QN_OK;
    case DECODER:
        return check_decoder(l, value);
    case MODEL:
    case SECTIONS:
        break;
    }
    return QN_OK;
}

static qn_status load_section(loader *l, section which)
{
    json_t *value;
    qn_status status = parse_slice(l, l->sections[which], section_names[which], &value);
    if (status != QN_OK)
        return status;
    status = load_value(l, which, value);
    json_decref(value);
    return status;
}

static qn_status load(loader *l)
{
    qn_json_cursor c = cursor_over(l, l->document);
    qn_status status = find_members(l, &c, section_names, SECTIONS, l->sections);
    if (status == QN_OK)
        status = qn_json_cursor_end(&c);
    if (status == QN_OK && !l->sections[MODEL].text)
        status = qn_fail(l->err, QN_BAD_INPUT, "it has no \"model\": the file is damaged");
    if (status == QN_OK)
        status = load_section(l, VERSION);
    if (status == QN_OK)
        status = load_model(l);
    /* the normalizer before the added tokens, which it changes */
    static const section rest[] = {NORMALIZER, ADDED_TOKENS, PRE_TOKENIZER, POST_PROCESSOR,
                                   DECODER,    TRUNCATION,   PADDING};
    for (size_t i = 0; i < sizeof rest / sizeof *rest && status == QN_OK; i++)
        status = load_section(l, rest[i]);
    return status;
}

qn_status qn_tokenizer_parse(const char *json, size_t bytes, const char *what, qn_tokenizer **out, qn_error *err)
{
    loader l = {.document = {json, bytes}, .err = err};
    l.tokenizer = qn_alloc_zero(1, sizeof *l.tokenizer);
    if (!l.tokenizer)
        return qn_fail_memory(err, what, sizeof *l.tokenizer);
    qn_status status = load(&l);
    qn_buffer_free(&l.first);
    qn_buffer_free(&l.second);
    if (status != QN_OK) {
        qn_tokenizer_free(l.tokenizer);
        return qn_error_prefix(err, "%s", what);
    }
    *out = l.tokenizer;
    return QN_OK;
}
