/* A table by code tells the number of each character; what lacks its end has codes behind all others. */
#include "grammar/vocabulary_chars.h"

#include <string.h>

#include "base/memory.h"

enum {
    CODES = 0x110000,
    CUT_ONE = CODES,
    CUT_TWO = CUT_ONE + 64,
    CUT_THREE = CUT_TWO + 4096,
    KEYS = CUT_THREE + 32768
};

static size_t length_by_lead(uint8_t byte)
{
    return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

/* The key of the character at the bytes, which are valid but may end too early; *used: its bytes. */
static size_t key_at(const uint8_t *bytes, size_t count, size_t *used)
{
    static const uint8_t lead_bits[QN_CHAR_BYTES + 1] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    static const size_t cut[QN_CHAR_BYTES] = {0, CUT_ONE, CUT_TWO, CUT_THREE};
    size_t length = length_by_lead(bytes[0]);
    bool whole = length <= count;
    *used = whole ? length : count;
    size_t code = bytes[0] & (whole ? lead_bits[length] : *used == 3 ? 0x07 : 0x3F);
    for (size_t i = 1; i < *used; i++)
        code = code << 6 | (bytes[i] & 0x3F);
    return whole ? code : cut[*used] + code;
}

static size_t bytes_of_key(size_t key, uint8_t bytes[QN_CHAR_BYTES])
{
    static const uint8_t leads[QN_CHAR_BYTES + 1] = {0, 0, 0xC0, 0xE0, 0xF0};
    size_t length, code = key;
    uint8_t lead;
    if (key < CODES) {
        length = key < 0x80 ? 1 : key < 0x800 ? 2 : key < 0x10000 ? 3 : 4;
        lead = leads[length];
    } else {
        length = key < CUT_TWO ? 1 : key < CUT_THREE ? 2 : 3;
        code = key - (key < CUT_TWO ? CUT_ONE : key < CUT_THREE ? CUT_TWO : CUT_THREE);
        lead = length == 3 ? 0xF0 : 0xC0;
    }
    for (size_t i = length; i-- > 1; code >>= 6)
        bytes[i] = (uint8_t)(0x80 | (code & 0x3F));
    bytes[0] = (uint8_t)(lead | code);
    return length;
}

static bool is_alone(unsigned kind)
{
    return kind < QN_KIND_DIGIT || kind == QN_KIND_SPACE || kind == QN_KIND_UNDERSCORE;
}

/* How often each character occurs. */
static size_t count_keys(const qn_spelling *tokens, size_t count, uint32_t *table)
{
    size_t found = 0, used;
    for (size_t i = 0; i < count; i++)
        for (size_t at = 0; tokens[i].chars > 0 && at < tokens[i].count; at += used) {
            uint32_t *n = &table[key_at((const uint8_t *)tokens[i].bytes + at, tokens[i].count - at, &used)];
            found += *n == 0;
            ++*n;
        }
    return found;
}

/* Numbers the characters; the table tells them then. The tokens there will be. */
static uint32_t number_keys(qn_vocabulary_chars *c, uint32_t *table)
{
    uint32_t number = 0, all = 0;
    for (size_t key = 0; key < KEYS; key++) {
        uint32_t occurs = table[key];
        if (key == CODES)
            c->whole = number;
        if (occurs == 0)
            continue;
        c->lengths[number] = (uint8_t)bytes_of_key(key, c->bytes[number]);
        c->kinds[number] = (uint8_t)(key < CODES ? qn_char_kind(c->bytes[number], c->lengths[number]) : QN_KIND_CUT);
        c->first_token[number] = all;
        all += is_alone(c->kinds[number]) ? 0 : occurs;
        table[key] = number++;
    }
    c->count = number;
    c->first_token[number] = all;
    return all;
}

/* Adds each token to its characters. Their first_token are moved on by that. */
static void list_tokens(qn_vocabulary_chars *c, const qn_spelling *tokens, size_t count, const uint32_t *table)
{
    size_t used;
    for (size_t i = 0; i < count; i++)
        for (size_t at = 0; tokens[i].chars > 0 && at < tokens[i].count; at += used) {
            uint32_t n = table[key_at((const uint8_t *)tokens[i].bytes + at, tokens[i].count - at, &used)];
            size_t token = (size_t)tokens[i].token;
            c->kind_tokens[c->kinds[n] * c->words + token / 64] |= UINT64_C(1) << (token % 64);
            if (!is_alone(c->kinds[n]))
                c->tokens[c->first_token[n]++] = (uint32_t)token;
        }
    memmove(c->first_token + 1, c->first_token, c->count * sizeof *c->first_token);
    c->first_token[0] = 0;
}

static void lay_out(qn_vocabulary_chars *c)
{
    uint32_t open[QN_CHAR_BYTES] = {0}, nodes = 0;
    size_t depth = 0;
    for (uint32_t i = 0; i < c->whole; i++) {
        size_t shared = 0;
        while (shared < depth && c->nodes[open[shared]].byte == c->bytes[i][shared])
            shared++;
        while (depth > shared)
            c->nodes[open[--depth]].skip = nodes;
        for (; depth < c->lengths[i]; depth++) {
            open[depth] = nodes;
            c->nodes[nodes++] = (qn_char_node){.first = i,
                                               .byte = c->bytes[i][depth],
                                               .left = (uint8_t)(c->lengths[i] - depth - 1)};
        }
        for (size_t d = 0; d < depth; d++)
            c->nodes[open[d]].kinds |= UINT64_C(1) << c->kinds[i];
    }
    while (depth > 0)
        c->nodes[open[--depth]].skip = nodes;
    c->nodes[nodes] = (qn_char_node){.first = (uint32_t)c->whole};
    c->node_count = nodes;
}

qn_status qn_vocabulary_chars_make(const qn_spelling *tokens, size_t count, size_t words, qn_vocabulary_chars *out,
                                   qn_error *err)
{
    qn_vocabulary_chars *c = out;
    uint32_t *table = qn_alloc_zero(KEYS, sizeof *table);
    *c = (qn_vocabulary_chars){.words = words};
    size_t found = table ? count_keys(tokens, count, table) : 0;
    c->nodes = qn_alloc(QN_CHAR_BYTES * found + 1, sizeof *c->nodes);
    c->bytes = qn_alloc_zero(found + 1, sizeof *c->bytes);
    c->lengths = qn_alloc(found + 1, 1);
    c->kinds = qn_alloc(found + 1, 1);
    c->first_token = qn_alloc(found + 1, sizeof *c->first_token);
    c->kind_tokens = qn_alloc_zero(QN_KINDS * words + 1, sizeof *c->kind_tokens);
    bool whole = table && c->nodes && c->bytes && c->lengths && c->kinds && c->first_token && c->kind_tokens;
    if (whole) {
        c->tokens = qn_alloc((size_t)number_keys(c, table) + 1, sizeof *c->tokens);
        whole = c->tokens != NULL;
    }
    if (whole) {
        list_tokens(c, tokens, count, table);
        lay_out(c);
    }
    qn_free(table);
    return whole ? QN_OK : qn_fail_memory(err, "vocabulary", KEYS * sizeof *table);
}

void qn_vocabulary_chars_free(qn_vocabulary_chars *c)
{
    qn_free(c->nodes);
    qn_free(c->bytes);
    qn_free(c->lengths);
    qn_free(c->kinds);
    qn_free(c->first_token);
    qn_free(c->tokens);
    qn_free(c->kind_tokens);
    *c = (qn_vocabulary_chars){0};
}
