/* Sorted by their bytes, tokens come in the order of the walk: each shares a path with the one before and adds its own
 * nodes behind it. */
#include "grammar/vocabulary_trie.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/size.h"
#include "grammar/char_kinds.h"

typedef struct spellings {
    qn_spelling *list;
    size_t count;
    char *bytes;
    size_t byte_count, byte_capacity;
} spellings;

/* Where a byte of UTF-8 leads from: 0 between characters, 1 to 3 that many bytes short of one, 4 to 7 behind a byte
 * that narrows the next one down (E0, ED, F0, F4). INVALID: nowhere. Unicode, table 3-7. */
enum { STATES = 8, INVALID = STATES };

static unsigned next_utf8(unsigned state, uint8_t byte)
{
    static const struct {
        uint8_t first, last, to;
    } second[STATES] = {[1] = {0x80, 0xBF, 0}, [2] = {0x80, 0xBF, 1}, [3] = {0x80, 0xBF, 2}, [4] = {0xA0, 0xBF, 1},
                        [5] = {0x80, 0x9F, 1}, [6] = {0x90, 0xBF, 2}, [7] = {0x80, 0x8F, 2}};
    if (state > 0)
        return byte >= second[state].first && byte <= second[state].last ? second[state].to : INVALID;
    if (byte < 0x80)
        return 0;
    if (byte < 0xC2 || byte > 0xF4)
        return INVALID;
    if (byte < 0xE0)
        return 1;
    if (byte < 0xF0)
        return byte == 0xE0 ? 4 : byte == 0xED ? 5 : 2;
    return byte == 0xF0 ? 6 : byte == 0xF4 ? 7 : 3;
}

/* The characters of a plain token, else 0. */
static uint32_t count_plain(const char *bytes, size_t count)
{
    unsigned state = 0;
    uint32_t chars = 0;
    for (size_t i = 0; i < count; i++) {
        uint8_t byte = (uint8_t)bytes[i];
        chars += state == 0;
        state = next_utf8(state, byte);
        if (state == INVALID || (byte < 0x80 && !qn_is_plain_ascii(byte)))
            return 0;
    }
    return chars <= QN_PLAIN_MAX_CHARS ? chars : 0;
}

static int by_bytes(const void *a, const void *b)
{
    const qn_spelling *x = a, *y = b;
    if ((x->chars > 0) != (y->chars > 0))
        return x->chars > 0 ? 1 : -1;
    int order = memcmp(x->bytes, y->bytes, qn_min_size(x->count, y->count));
    if (order == 0)
        order = (x->count > y->count) - (x->count < y->count);
    return order ? order : (x->token > y->token) - (x->token < y->token);
}

static bool add_spelling(spellings *s, const char *bytes, size_t count, int32_t token)
{
    if (s->byte_count + count > s->byte_capacity) {
        size_t capacity = qn_max_size(2 * s->byte_capacity, qn_max_size(1 << 16, s->byte_count + count));
        char *grown = qn_realloc(s->bytes, capacity, 1);
        if (!grown)
            return false;
        s->bytes = grown;
        s->byte_capacity = capacity;
    }
    memcpy(s->bytes + s->byte_count, bytes, count);
    s->list[s->count++] = (qn_spelling){
        .start = s->byte_count, .count = count, .token = token, .chars = count_plain(bytes, count)};
    s->byte_count += count;
    return true;
}

static qn_status collect(size_t token_count, const char *(*bytes)(void *context, int32_t token, size_t *length),
                         void *context, spellings *s, qn_error *err)
{
    if (token_count > INT32_MAX)
        return qn_fail(err, QN_USAGE, "vocabulary: %zu tokens: at most 2^31 - 1 can be told apart", token_count);
    s->list = qn_alloc(token_count, sizeof *s->list);
    if (!s->list)
        return qn_fail_memory(err, "vocabulary", token_count * sizeof *s->list);
    for (size_t t = 0; t < token_count; t++) {
        size_t count = 0;
        const char *text = bytes(context, (int32_t)t, &count);
        if (!text || count == 0)
            continue;
        if (count > QN_TRIE_MAX_TOKEN_BYTES)
            return qn_fail(err, QN_BAD_INPUT, "vocabulary: token %zu has %zu bytes: at most %d are supported", t, count,
                           QN_TRIE_MAX_TOKEN_BYTES);
        if (!add_spelling(s, text, count, (int32_t)t))
            return qn_fail_memory(err, "vocabulary", s->byte_count + count);
    }
    for (size_t i = 0; i < s->count; i++)
        s->list[i].bytes = s->bytes + s->list[i].start;
    qsort(s->list, s->count, sizeof *s->list, by_bytes);
    return QN_OK;
}

static size_t shared_bytes(const qn_spelling *a, const qn_spelling *b)
{
    size_t most = qn_min_size(a->count, b->count), shared = 0;
    if ((a->chars > 0) != (b->chars > 0))
        return 0;
    while (shared < most && a->bytes[shared] == b->bytes[shared])
        shared++;
    return shared;
}

static size_t count_nodes(const spellings *s)
{
    size_t nodes = 1;
    for (size_t i = 0; i < s->count; i++)
        nodes += s->list[i].count - (i > 0 ? shared_bytes(&s->list[i - 1], &s->list[i]) : 0);
    return nodes;
}

static bool begins_char(uint8_t byte)
{
    return (byte & 0xC0) != 0x80;
}

/* Tells the nodes of token i, which are open, what it has below them. */
static void tell_nodes(qn_vocabulary_trie *trie, const qn_spelling *token, size_t i, const uint32_t *open)
{
    const uint8_t *bytes = (const uint8_t *)token->bytes;
    const uint64_t cut = UINT64_C(1) << QN_KIND_CUT;
    uint64_t below = token->chars > 0 ? 0 : cut;
    size_t last = token->count - 1;
    while (last > 0 && !begins_char(bytes[last]))
        last--;
    bool whole = token->chars > 0 && qn_char_kind(bytes + last, token->count - last) != QN_KIND_CUT;
    for (size_t d = token->count; d > 0; d--) {
        bool between = d < token->count ? begins_char(bytes[d]) : whole;
        qn_trie_node *node = &trie->nodes[open[d]];
        trie->kinds[open[d]] |= between ? below : cut;
        node->height = (uint8_t)qn_max_size(node->height, qn_min_size(token->count - d, QN_TRIE_TALL));
        if (d <= QN_TRIE_TAILS)
            trie->tails[d][i] = between ? below : cut;
        if (begins_char(bytes[d - 1])) {
            below |= UINT64_C(1) << qn_char_kind(bytes + d - 1, token->count - d + 1);
            for (size_t within = d; within < token->count && !begins_char(bytes[within]); within++)
                trie->kinds[open[within]] |= below;
        }
    }
}

static void lay_out(qn_vocabulary_trie *trie, const spellings *s, uint32_t *open)
{
    size_t depth = 0, nodes = 1;
    open[0] = 0;
    trie->nodes[0] = (qn_trie_node){0};
    for (size_t i = 0; i < s->count; i++) {
        const qn_spelling *token = &s->list[i];
        size_t shared = i > 0 ? shared_bytes(token - 1, token) : 0;
        while (depth > shared)
            trie->nodes[open[depth--]].skip = (uint32_t)nodes;
        if (token->chars > 0 && trie->first_plain == 0)
            trie->first_plain = nodes;
        while (depth < token->count) {
            uint8_t byte = (uint8_t)token->bytes[depth++];
            open[depth] = (uint32_t)nodes;
            trie->nodes[nodes++] = (qn_trie_node){0, (uint32_t)i, (uint16_t)depth, byte, 0};
        }
        trie->max_depth = qn_max_size(trie->max_depth, depth);
        trie->tokens[i] = token->token;
        tell_nodes(trie, token, i, open);
    }
    for (size_t d = 0; d <= depth; d++)
        trie->nodes[open[d]].skip = (uint32_t)nodes;
    trie->nodes[nodes] = (qn_trie_node){.first_token = (uint32_t)s->count};
    trie->node_count = nodes;
    if (trie->first_plain == 0)
        trie->first_plain = nodes;
}

static void count_kinds(qn_vocabulary_trie *trie)
{
    for (size_t i = trie->first_plain; i < trie->node_count; i++)
        for (uint64_t kinds = trie->kinds[i]; kinds; kinds &= kinds - 1)
            trie->kind_nodes[__builtin_ctzll(kinds)]++;
}

static void mark_plain(qn_vocabulary_trie *trie, const spellings *s)
{
    size_t words = qn_ceil_div(trie->token_count, 64);
    for (size_t i = 0; i < s->count; i++) {
        size_t token = (size_t)s->list[i].token;
        for (size_t n = s->list[i].chars; n > 0 && n <= QN_PLAIN_MAX_CHARS; n++)
            trie->plain[n * words + token / 64] |= UINT64_C(1) << (token % 64);
    }
}

qn_status qn_vocabulary_trie_new(size_t token_count, const char *(*bytes)(void *context, int32_t token, size_t *length),
                                 void *context, qn_vocabulary_trie **out, qn_error *err)
{
    spellings s = {0};
    uint32_t *open = qn_alloc(QN_TRIE_MAX_TOKEN_BYTES + 1, sizeof *open);
    qn_vocabulary_trie *trie = qn_alloc_zero(1, sizeof *trie);
    qn_status status = open && trie ? QN_OK : qn_fail_memory(err, "vocabulary", sizeof *trie);
    if (!status)
        status = collect(token_count, bytes, context, &s, err);
    size_t nodes = status ? 0 : count_nodes(&s);
    if (!status && nodes > QN_TRIE_MAX_NODES)
        status = qn_fail(err, QN_BAD_INPUT, "vocabulary: its tokens are too long together: at most 2^28 bytes");
    if (!status) {
        trie->token_count = token_count;
        trie->nodes = qn_alloc(nodes + 1, sizeof *trie->nodes);
        trie->tokens = qn_alloc(s.count, sizeof *trie->tokens);
        trie->kinds = qn_alloc_zero(nodes, sizeof *trie->kinds);
        bool whole = trie->kinds != NULL;
        for (size_t d = 1; d <= QN_TRIE_TAILS; d++) {
            trie->tails[d] = qn_alloc_zero(s.count, sizeof *trie->tails[d]);
            whole = whole && trie->tails[d];
        }
        trie->plain = qn_alloc_zero((QN_PLAIN_MAX_CHARS + 1) * qn_ceil_div(token_count, 64), sizeof *trie->plain);
        if (trie->nodes && trie->tokens && whole && trie->plain) {
            lay_out(trie, &s, open);
            count_kinds(trie);
            mark_plain(trie, &s);
        } else
            status = qn_fail_memory(err, "vocabulary", nodes * sizeof *trie->nodes);
        if (!status)
            status = qn_vocabulary_chars_make(s.list, s.count, qn_ceil_div(token_count, 64), &trie->chars, err);
    }
    qn_free(open);
    qn_free(s.list);
    qn_free(s.bytes);
    if (status)
        qn_vocabulary_trie_free(trie);
    else
        *out = trie;
    return status;
}

void qn_vocabulary_trie_free(qn_vocabulary_trie *trie)
{
    if (!trie)
        return;
    qn_free(trie->nodes);
    qn_free(trie->kinds);
    for (size_t d = 1; d <= QN_TRIE_TAILS; d++)
        qn_free(trie->tails[d]);
    qn_free(trie->plain);
    qn_vocabulary_chars_free(&trie->chars);
    qn_free(trie->tokens);
    qn_free(trie);
}
