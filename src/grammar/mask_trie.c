/* At each depth of the walk stands the set of stacks behind the bytes down to there. */
#include "base/memory.h"
#include "base/size.h"
#include "grammar/plain_run.h"
#include "grammar/plain_text.h"
#include "grammar/token_mask_internal.h"

uint32_t mask_part_begin(const qn_mask_cache *c, qn_trie_part part)
{
    return part == QN_TRIE_PLAIN ? (uint32_t)c->trie->first_plain : 1;
}

uint32_t mask_part_end(const qn_mask_cache *c, qn_trie_part part)
{
    return (uint32_t)(part == QN_TRIE_PLAIN ? c->trie->node_count : c->trie->first_plain);
}

bool mask_reserve(qn_mask_cache *c, void *block, size_t *capacity, size_t wanted, size_t size)
{
    if (qn_reserve(block, capacity, wanted, size))
        return true;
    c->table.failed = true;
    return false;
}

void mask_allow_tokens(const qn_vocabulary_trie *trie, size_t node, size_t end, uint64_t *mask)
{
    for (uint32_t i = trie->nodes[node].first_token; i < trie->nodes[end].first_token; i++)
        qn_bit_set(mask, (size_t)trie->tokens[i]);
}

/* Of the tokens from the node on and before the other those whose characters below the node are all of the kinds;
 * false: that cannot be told at once. */
static bool allow_kinds(const qn_vocabulary_trie *trie, uint32_t node, uint32_t end, uint64_t kinds, uint64_t *mask)
{
    if (kinds == trie->kinds[node]) {
        mask_allow_tokens(trie, node, end, mask);
        return true;
    }
    uint32_t first = trie->nodes[node].first_token;
    size_t depth = qn_min_size(trie->nodes[node].depth, QN_TRIE_TAILS);
    const uint64_t *tails = trie->tails[depth];
    if (depth < trie->nodes[node].depth && (tails[first] & ~kinds)) /* what lies between may be of another kind */
        return false;
    for (uint32_t i = first; i < trie->nodes[end].first_token; i++) {
        size_t token = (size_t)trie->tokens[i];
        mask[token / 64] |= (uint64_t)((tails[i] & ~kinds) == 0) << (token % 64);
    }
    return true;
}

uint32_t mask_allow_node(qn_mask_cache *c, uint32_t node, uint32_t set, bool is_top, uint64_t *mask)
{
    uint32_t skip = c->trie->nodes[node].skip;
    uint64_t kinds;
    if (skip > node + 1 && qn_plain_run_find(&c->table, c->trie, node, set, is_top, &kinds) &&
        allow_kinds(c->trie, node, skip, kinds, mask))
        return skip;
    mask_allow_tokens(c->trie, node, node + 1, mask);
    return node + 1;
}

/* Whether one of the nodes that stand one after the other, none below another, ends a token of this byte. */
static bool ends_token(const qn_trie_node *nodes, uint32_t begin, uint32_t end, uint8_t byte)
{
    uint32_t i = begin;
    while (i < end && nodes[i].byte != byte)
        i = nodes[i].skip;
    return i < end && nodes[i].first_token < nodes[i + 1].first_token;
}

/* A token below the node, at whose byte the stacks ran out, can be written with shorter ones when its first byte alone
 * is taken and is a token: then what becomes of it is told where that byte is the next. */
static bool is_written_otherwise(const qn_mask_cache *c, uint32_t node)
{
    const qn_trie_node *nodes = c->trie->nodes;
    bool is_plain = node >= c->trie->first_plain;
    uint32_t first = mask_part_begin(c, is_plain ? QN_TRIE_PLAIN : QN_TRIE_OTHERS);
    while (nodes[first].skip <= node)
        first = nodes[first].skip;
    return first != node &&
           (ends_token(nodes, mask_part_begin(c, QN_TRIE_OTHERS), mask_part_end(c, QN_TRIE_OTHERS),
                       nodes[first].byte) ||
            ends_token(nodes, mask_part_begin(c, QN_TRIE_PLAIN), mask_part_end(c, QN_TRIE_PLAIN), nodes[first].byte));
}

/* Where the node's byte leads from the set above it. */
static uint32_t step_to(qn_mask_cache *c, uint32_t node)
{
    const qn_trie_node *n = &c->trie->nodes[node];
    uint32_t to = qn_set_table_next(&c->table, c->path[n->depth - 1], n->byte);
    c->path[n->depth] = to;
    if (to == QN_SET_EMPTY && c->table.exhausted) {
        c->table.exhausted = false;
        c->cut = true;
        c->lost = c->lost || !is_written_otherwise(c, node);
    }
    return to;
}

void mask_walk_trie(qn_mask_cache *c, uint32_t begin, uint32_t end, uint64_t *mask)
{
    const qn_trie_node *nodes = c->trie->nodes;
    c->table.exhausted = false;
    for (uint32_t i = begin; i < end && !c->lost;) {
        uint32_t to = step_to(c, i);
        if (to == QN_SET_EMPTY) {
            i = nodes[i].skip;
            continue;
        }
        i = mask_allow_node(c, i, to, false, mask);
    }
}

static bool is_member(const qn_plain_reach *reach, uint32_t set)
{
    for (uint32_t i = 0; i < reach->count; i++)
        if (reach->members[i] == set)
            return true;
    return false;
}

/* Allows those plain tokens with odd characters that are taken from the set. */
static void walk_odd(qn_mask_cache *c, uint32_t set, const qn_plain_reach *reach, uint64_t *mask)
{
    const qn_trie_node *nodes = c->trie->nodes;
    uint32_t end = mask_part_end(c, QN_TRIE_PLAIN);
    c->path[0] = set;
    c->table.exhausted = false;
    for (uint32_t i = mask_part_begin(c, QN_TRIE_PLAIN); i < end && !c->lost;) {
        uint32_t to = step_to(c, i);
        bool within_char = i + 1 < nodes[i].skip && (nodes[i + 1].byte & 0xC0) == 0x80;
        if (to != QN_SET_EMPTY && (within_char || is_member(reach, to))) {
            i = c->trie->kinds[i] & reach->odd ? i + 1 : nodes[i].skip;
            continue;
        }
        if (to != QN_SET_EMPTY) { /* behind the first odd one */
            mask_allow_tokens(c->trie, i, i + 1, mask);
            mask_walk_trie(c, i + 1, nodes[i].skip, mask);
        }
        i = nodes[i].skip;
    }
}

bool mask_allow_plain(qn_mask_cache *c, uint32_t set, bool is_top, uint64_t *mask)
{
    qn_plain_reach reach;
    if (!qn_plain_text_reach(&c->table, c->trie, set, is_top, &reach))
        return false;
    qn_plain_text_allow(c->trie, &reach, mask, c->room);
    if (reach.odd)
        walk_odd(c, set, &reach, mask);
    return true;
}
