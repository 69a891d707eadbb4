/* A regex is read by its own front-end into a builder of its own, with tokens for sets of characters; the expressions
 * there become an automaton with empty moves, and that a deterministic one (automaton_subsets.c). */
#include "grammar/automaton.h"

#include <string.h>

#include "base/utf8.h"
#include "grammar/automaton_internal.h"
#include "grammar/grammar_internal.h"
#include "grammar/words.h"

enum { MOST_MOVES = 1 << 17, LAST_CODE = 0x10FFFF, MOST_SETS = 4096 };

void automaton_fail_bound(automaton_nfa *n)
{
    if (!n->failed)
        qn_fail(n->err, QN_USAGE, "too large to combine with others: use smaller patterns and bounds");
    n->failed = true;
}

void automaton_work(automaton_nfa *n, size_t steps)
{
    n->room->work += steps;
    if (n->room->work > QN_AUTOMATON_MOST_WORK)
        automaton_fail_bound(n);
}

void *automaton_take(automaton_nfa *n, size_t count, size_t size)
{
    void *data = n->failed ? NULL : qn_arena_alloc(n->room->arena, count, size);
    if (!data && !n->failed) {
        n->failed = true;
        qn_fail_memory(n->err, "pattern", count * size);
    }
    return data;
}

void *automaton_grown(automaton_nfa *n, void *block, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity)
        return block;
    size_t more = *capacity ? 2 * *capacity : 64;
    void *data = automaton_take(n, more, size);
    if (!data)
        return NULL;
    if (count > 0)
        memcpy(data, block, count * size);
    *capacity = more;
    return data;
}

static uint32_t add_set(automaton_nfa *n, const qn_char_range *ranges, size_t count)
{
    for (size_t i = 0; i < n->set_count; i++)
        if (n->sets[i].count == count && (count == 0 || memcmp(n->sets[i].ranges, ranges, count * sizeof *ranges) == 0))
            return (uint32_t)i;
    if (n->set_count == MOST_SETS)
        automaton_fail_bound(n);
    automaton_set *sets = automaton_grown(n, n->sets, n->set_count, &n->set_capacity, sizeof *n->sets);
    qn_char_range *copy = automaton_take(n, count + 1, sizeof *copy);
    if (!sets || !copy)
        return 0;
    if (count > 0)
        memcpy(copy, ranges, count * sizeof *copy);
    n->sets = sets;
    n->sets[n->set_count] = (automaton_set){copy, count};
    return (uint32_t)n->set_count++;
}

static void add_move(automaton_nfa *n, uint32_t from, uint32_t to, uint32_t set)
{
    if (n->move_count == MOST_MOVES)
        automaton_fail_bound(n);
    automaton_move *moves = automaton_grown(n, n->moves, n->move_count, &n->move_capacity, sizeof *n->moves);
    if (!moves)
        return;
    n->moves = moves;
    n->moves[n->move_count++] = (automaton_move){from, to, set};
}

static uint32_t new_state(automaton_nfa *n)
{
    if (n->state_count >= MOST_MOVES)
        automaton_fail_bound(n);
    return (uint32_t)n->state_count++;
}

/* From expressions to moves */

static void add_expr(automaton_nfa *n, const qn_grammar_builder *b, qn_expr expr, uint32_t from, uint32_t to);

static void add_repeat(automaton_nfa *n, const qn_grammar_builder *b, const qn_expr_node *node, uint32_t from,
                       uint32_t to)
{
    qn_expr part = b->parts[node->first];
    uint32_t at = from;
    for (size_t i = 0; i < node->min && !n->failed; i++) {
        uint32_t next = new_state(n);
        add_expr(n, b, part, at, next);
        at = next;
    }
    if (node->max == QN_UNBOUNDED) {
        uint32_t loop = new_state(n), end = new_state(n);
        add_move(n, at, loop, AUTOMATON_NO_SET);
        add_expr(n, b, part, loop, end);
        add_move(n, end, loop, AUTOMATON_NO_SET);
        add_move(n, loop, to, AUTOMATON_NO_SET);
        return;
    }
    for (size_t i = node->min; i < node->max && !n->failed; i++) {
        uint32_t next = new_state(n);
        add_move(n, at, to, AUTOMATON_NO_SET);
        add_expr(n, b, part, at, next);
        at = next;
    }
    add_move(n, at, to, AUTOMATON_NO_SET);
}

static void add_expr(automaton_nfa *n, const qn_grammar_builder *b, qn_expr expr, uint32_t from, uint32_t to)
{
    const qn_expr_node *node = &b->nodes[expr];
    if (n->failed)
        return;
    switch (node->kind) {
    case QN_EXPR_EMPTY:
        add_move(n, from, to, AUTOMATON_NO_SET);
        break;
    case QN_EXPR_TOKEN:
        add_move(n, from, to, node->first);
        break;
    case QN_EXPR_CHOICE:
        for (uint32_t i = 0; i < node->count; i++)
            add_expr(n, b, b->parts[node->first + i], from, to);
        break;
    case QN_EXPR_CONCAT:
        for (uint32_t i = 0; i < node->count; i++) {
            uint32_t next = i + 1 < node->count ? new_state(n) : to;
            add_expr(n, b, b->parts[node->first + i], from, next);
            from = next;
        }
        break;
    case QN_EXPR_REPEAT:
        add_repeat(n, b, node, from, to);
        break;
    case QN_EXPR_NEVER:
        break;
    default: /* a regex is built of nothing else */
        automaton_fail_bound(n);
        break;
    }
}

/* Sources */

static qn_expr token_for_set(void *context, qn_grammar_builder *b, const qn_char_range *ranges, size_t count)
{
    return qn_expr_token(b, (int32_t)add_set(context, ranges, count));
}

const qn_automaton *qn_automaton_of_regex(qn_automaton_room *room, const char *regex, size_t bytes, bool search,
                                          qn_error *err)
{
    automaton_nfa n = {.room = room, .err = err, .state_count = 2};
    qn_grammar_builder *b;
    qn_expr expr;
    if (qn_grammar_builder_new(&b, err) != QN_OK)
        return NULL;
    qn_regex_letters letters = {&n, token_for_set};
    qn_status status = qn_regex_expr(b, regex, bytes, search, &letters, &expr, err);
    if (status == QN_OK && !n.failed && qn_grammar_builder_status(b, err) == QN_OK)
        add_expr(&n, b, expr, 0, 1);
    else
        n.failed = true;
    qn_grammar_builder_free(b);
    return n.failed ? NULL : automaton_determine(&n);
}

const qn_automaton *qn_automaton_of_texts(qn_automaton_room *room, const qn_automaton_text *texts, size_t count,
                                          qn_error *err)
{
    automaton_nfa n = {.room = room, .err = err, .state_count = 2};
    for (size_t i = 0; i < count && !n.failed; i++) {
        uint32_t from = 0, code;
        for (size_t at = 0, length; at < texts[i].bytes && !n.failed; at += length) {
            length = qn_utf8_decode(texts[i].data + at, texts[i].bytes - at, &code);
            if (length == 0)
                break;
            uint32_t next = new_state(&n);
            add_move(&n, from, next, add_set(&n, &(qn_char_range){code, code}, 1));
            from = next;
        }
        add_move(&n, from, 1, AUTOMATON_NO_SET);
    }
    return n.failed ? NULL : automaton_determine(&n);
}

const qn_automaton *qn_automaton_of_length(qn_automaton_room *room, size_t min, size_t max, qn_error *err)
{
    automaton_nfa n = {.room = room, .err = err};
    size_t last = max == QN_UNBOUNDED ? min : max; /* a state for each length; the one behind takes the rest */
    if (last >= QN_AUTOMATON_MOST_STATES - 1)
        automaton_fail_bound(&n);
    size_t count = max == QN_UNBOUNDED ? last + 1 : last + 2;
    uint32_t *next = automaton_take(&n, count, sizeof *next), *zero = automaton_take(&n, 1, sizeof *zero);
    bool *accepting = automaton_take(&n, count, sizeof *accepting);
    qn_automaton *a = automaton_take(&n, 1, sizeof *a);
    if (n.failed)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        next[i] = (uint32_t)(i + 1 < count ? i + 1 : i);
        accepting[i] = i >= min && i <= last;
    }
    *a = (qn_automaton){count, 1, 1, zero, zero, next, accepting};
    return a;
}

/* Uses */

bool qn_automaton_is_empty(const qn_automaton *a)
{
    for (size_t i = 0; i < a->state_count; i++)
        if (a->accepting[i])
            return false;
    return true;
}

static uint32_t class_of_code(const qn_automaton *a, uint32_t code)
{
    size_t low = 0, high = a->interval_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (a->firsts[middle] <= code)
            low = middle;
        else
            high = middle;
    }
    return a->class_of[low];
}

bool qn_automaton_matches(const qn_automaton *a, const char *text, size_t bytes)
{
    uint32_t state = 0, code;
    for (size_t at = 0, length; at < bytes; at += length) {
        length = qn_utf8_decode(text + at, bytes - at, &code);
        if (length == 0)
            return false;
        state = a->next[state * a->class_count + class_of_code(a, code)];
    }
    return a->accepting[state];
}

/* The characters that lead from one state to another. */
static size_t label_ranges(const qn_automaton *a, size_t from, uint32_t to, qn_char_range *out)
{
    size_t count = 0;
    for (size_t i = 0; i < a->interval_count; i++) {
        uint32_t last = i + 1 < a->interval_count ? a->firsts[i + 1] - 1 : LAST_CODE;
        if (a->next[from * a->class_count + a->class_of[i]] != to)
            continue;
        if (count > 0 && out[count - 1].last + 1 == a->firsts[i])
            out[count - 1].last = last;
        else
            out[count++] = (qn_char_range){a->firsts[i], last};
    }
    return count;
}

qn_expr qn_automaton_expr(qn_automaton_room *room, qn_grammar_builder *b, const qn_automaton *a,
                          const qn_regex_letters *letters)
{
    qn_error err;
    automaton_nfa n = {.room = room, .err = &err};
    const bool *live = automaton_live(&n, a, true);
    qn_graph_edge *edges = NULL;
    size_t count = 0, capacity = 0;
    qn_char_range *ranges = automaton_take(&n, a->interval_count, sizeof *ranges);
    uint32_t *seen = automaton_take(&n, a->state_count,
                                    sizeof *seen); /* the last state with an edge to this one, plus 1 */
    if (!n.failed && !live[0])
        return QN_NO_WORDS;
    for (size_t from = 0; from < a->state_count && !n.failed; from++) {
        for (size_t k = 0; live[from] && k < a->class_count && !n.failed; k++) {
            uint32_t to = a->next[from * a->class_count + k];
            if (!live[to] || seen[to] == from + 1)
                continue;
            seen[to] = (uint32_t)from + 1;
            automaton_work(&n, a->interval_count);
            size_t range_count = label_ranges(a, from, to, ranges);
            qn_expr label = letters ? letters->chars(letters->context, b, ranges, range_count)
                                    : qn_expr_chars(b, ranges, range_count);
            edges = automaton_grown(&n, edges, count, &capacity, sizeof *edges);
            if (edges && label != QN_NO_WORDS)
                edges[count++] = (qn_graph_edge){(uint32_t)from, to, label};
        }
    }
    if (n.failed) {
        qn_grammar_builder_fail(b, &err);
        return QN_NO_WORDS;
    }
    return qn_expr_graph(b, edges, count, a->accepting, a->state_count);
}
