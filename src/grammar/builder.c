/* Expressions are numbered nodes in one array, parts before wholes, so that what follows can go over them in order and
 * needs no recursion however deep they nest. The simplest cases are resolved here: what is no choice or no sequence
 * becomes its only part. */
#include <string.h>

#include "base/memory.h"
#include "base/size.h"
#include "grammar/grammar_internal.h"

enum { EMPTY = 0, NEVER = 1, LONGEST_NAME = 200, FIRST_SLOTS = 1024 };
enum { MAX_RULES = QN_GRAMMAR_MAX_EXPRESSIONS, MAX_WORDS = QN_GRAMMAR_MAX_PARTS };
#define LARGEST_COUNT ((size_t)1 << 30) /* larger bounds of repetitions are refused */

bool qn_builder_reserve(qn_grammar_builder *b, void *block, size_t *capacity, size_t count, size_t more, size_t most,
                        size_t size, const char *what)
{
    if (b->failed)
        return false;
    if (more > most - qn_min_size(count, most)) {
        b->failed = true;
        qn_fail(&b->error, QN_USAGE, "grammar: more than %zu %s: make it smaller", most, what);
        return false;
    }
    if (qn_reserve(block, capacity, count + more, size))
        return true;
    b->failed = true;
    qn_fail_memory(&b->error, "grammar", (unsigned long long)(count + more) * size);
    return false;
}

static void misuse(qn_grammar_builder *b, const char *what)
{
    if (!b->failed)
        qn_fail(&b->error, QN_USAGE, "grammar: %s", what);
    b->failed = true;
}

static bool known(qn_grammar_builder *b, qn_expr expr)
{
    if (expr < b->node_count)
        return true;
    misuse(b, "an expression of another builder");
    return false;
}

static qn_expr add_node(qn_grammar_builder *b, const qn_expr_node *node)
{
    if (!qn_builder_reserve(b, &b->nodes, &b->node_capacity, b->node_count, 1, QN_GRAMMAR_MAX_EXPRESSIONS,
                            sizeof *b->nodes, "expressions"))
        return NEVER;
    b->nodes[b->node_count] = *node;
    return (qn_expr)b->node_count++;
}

/* The parts are copied behind the others; false: b failed. */
static bool add_parts(qn_grammar_builder *b, const qn_expr *parts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!known(b, parts[i]))
            return false;
    if (!qn_builder_reserve(b, &b->parts, &b->part_capacity, b->part_count, count, QN_GRAMMAR_MAX_PARTS,
                            sizeof *b->parts, "parts of expressions"))
        return false;
    for (size_t i = 0; i < count; i++)
        b->parts[b->part_count++] = parts[i];
    return true;
}

static size_t hash_set(const qn_byte_set *set)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < 4; i++) {
        hash = (hash ^ set->bits[i]) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 31;
    }
    return (size_t)hash;
}

static uint32_t *find_set_slot(const qn_grammar_builder *b, const qn_byte_set *set)
{
    size_t at = hash_set(set) & (b->set_slot_count - 1);
    while (b->set_slots[at] && memcmp(&b->sets[b->set_slots[at] - 1], set, sizeof *set) != 0)
        at = (at + 1) & (b->set_slot_count - 1);
    return &b->set_slots[at];
}

/* Room in the hash table of sets for one more. */
static bool grow_set_slots(qn_grammar_builder *b)
{
    if (b->failed || 2 * b->set_count < b->set_slot_count)
        return !b->failed;
    size_t count = b->set_slot_count ? 2 * b->set_slot_count : FIRST_SLOTS;
    uint32_t *slots = qn_alloc_zero(count, sizeof *slots);
    if (!slots) {
        b->failed = true;
        qn_fail_memory(&b->error, "grammar", count * sizeof *slots);
        return false;
    }
    qn_free(b->set_slots);
    b->set_slots = slots;
    b->set_slot_count = count;
    for (size_t i = 0; i < b->set_count; i++)
        *find_set_slot(b, &b->sets[i]) = (uint32_t)i + 1;
    return true;
}

/* The number of the set; equal ones are kept once. */
static uint32_t add_set(qn_grammar_builder *b, const qn_byte_set *set)
{
    if (!grow_set_slots(b))
        return 0;
    uint32_t *slot = find_set_slot(b, set);
    if (*slot)
        return *slot - 1;
    if (!qn_builder_reserve(b, &b->sets, &b->set_capacity, b->set_count, 1, QN_GRAMMAR_MAX_EXPRESSIONS + 256,
                            sizeof *b->sets, "sets of bytes"))
        return 0;
    b->sets[b->set_count] = *set;
    *slot = (uint32_t)++b->set_count;
    return (uint32_t)b->set_count - 1;
}

qn_status qn_grammar_builder_new(qn_grammar_builder **out, qn_error *err)
{
    qn_grammar_builder *b = qn_alloc_zero(1, sizeof *b);
    if (!b)
        return qn_fail_memory(err, "grammar", sizeof *b);
    for (size_t byte = 0; byte < 256; byte++) {
        qn_byte_set set = {{0}};
        qn_bit_set(set.bits, byte);
        add_set(b, &set);
    }
    add_node(b, &(qn_expr_node){.kind = QN_EXPR_EMPTY});
    add_node(b, &(qn_expr_node){.kind = QN_EXPR_NEVER});
    if (b->failed) {
        *err = b->error;
        qn_grammar_builder_free(b);
        return err->status;
    }
    *out = b;
    return QN_OK;
}

void qn_grammar_builder_free(qn_grammar_builder *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < b->rule_count; i++)
        qn_free(b->rules[i].name);
    qn_free(b->nodes);
    qn_free(b->parts);
    qn_free(b->bytes);
    qn_free(b->sets);
    qn_free(b->set_slots);
    for (size_t i = 0; i < QN_MADE_CHARS; i++)
        qn_free(b->made_chars[i].ranges);
    qn_free(b->words);
    qn_free(b->joints);
    qn_free(b->edges);
    qn_free(b->rules);
    qn_free(b);
}

qn_status qn_grammar_builder_fail(qn_grammar_builder *b, const qn_error *err)
{
    if (!b->failed)
        b->error = *err;
    b->failed = true;
    return b->error.status;
}

qn_status qn_grammar_builder_status(const qn_grammar_builder *b, qn_error *err)
{
    if (!b->failed)
        return QN_OK;
    *err = b->error;
    return b->error.status;
}

qn_expr qn_expr_empty(qn_grammar_builder *b)
{
    (void)b;
    return EMPTY;
}

qn_expr qn_expr_never(qn_grammar_builder *b)
{
    (void)b;
    return NEVER;
}

qn_expr qn_expr_bytes(qn_grammar_builder *b, const void *bytes, size_t count)
{
    if (count == 0)
        return EMPTY;
    if (!qn_builder_reserve(b, &b->bytes, &b->byte_capacity, b->byte_count, count, QN_GRAMMAR_MAX_BYTES, 1,
                            "bytes of literals"))
        return NEVER;
    memcpy(b->bytes + b->byte_count, bytes, count);
    qn_expr_node node = {.kind = QN_EXPR_BYTES, .first = (uint32_t)b->byte_count, .count = (uint32_t)count};
    b->byte_count += count;
    return add_node(b, &node);
}

qn_expr qn_expr_text(qn_grammar_builder *b, const char *text)
{
    return qn_expr_bytes(b, text, strlen(text));
}

qn_expr qn_expr_byte_set(qn_grammar_builder *b, const uint64_t set[4])
{
    qn_byte_set copy;
    memcpy(copy.bits, set, sizeof copy.bits);
    if (!(set[0] | set[1] | set[2] | set[3]))
        return NEVER;
    return add_node(b, &(qn_expr_node){.kind = QN_EXPR_SET, .first = add_set(b, &copy)});
}

qn_expr qn_expr_token(qn_grammar_builder *b, int32_t token)
{
    if (token < 0) {
        misuse(b, "a token below 0");
        return NEVER;
    }
    return add_node(b, &(qn_expr_node){.kind = QN_EXPR_TOKEN, .first = (uint32_t)token});
}

static qn_expr add_list(qn_grammar_builder *b, qn_expr_kind kind, const qn_expr *parts, size_t count)
{
    size_t first = b->part_count;
    if (!add_parts(b, parts, count))
        return NEVER;
    return add_node(b, &(qn_expr_node){.kind = kind, .first = (uint32_t)first, .count = (uint32_t)count});
}

qn_expr qn_expr_concat(qn_grammar_builder *b, const qn_expr *parts, size_t count)
{
    if (count == 0)
        return EMPTY;
    return count == 1 && known(b, parts[0]) ? parts[0] : add_list(b, QN_EXPR_CONCAT, parts, count);
}

qn_expr qn_expr_concat2(qn_grammar_builder *b, qn_expr first, qn_expr second)
{
    if (first == EMPTY)
        return second;
    return second == EMPTY ? first : qn_expr_concat(b, (qn_expr[]){first, second}, 2);
}

qn_expr qn_expr_choice(qn_grammar_builder *b, const qn_expr *options, size_t count)
{
    if (count == 0)
        return NEVER;
    return count == 1 && known(b, options[0]) ? options[0] : add_list(b, QN_EXPR_CHOICE, options, count);
}

qn_expr qn_expr_optional(qn_grammar_builder *b, qn_expr expr)
{
    return qn_expr_repeat(b, expr, 0, 1);
}

static bool counts_fit(qn_grammar_builder *b, size_t min, size_t max)
{
    if (min <= LARGEST_COUNT && (max <= LARGEST_COUNT || max == QN_UNBOUNDED))
        return true;
    misuse(b, "a repetition of more than 2^30 times: leave its bound out");
    return false;
}

qn_expr qn_expr_repeat(qn_grammar_builder *b, qn_expr expr, size_t min, size_t max)
{
    if (!known(b, expr) || !counts_fit(b, min, max) || min > max)
        return NEVER;
    if (max == 0 || expr == EMPTY)
        return EMPTY;
    if (min == 1 && max == 1)
        return expr;
    size_t first = b->part_count;
    if (!add_parts(b, &expr, 1))
        return NEVER;
    return add_node(
        b, &(qn_expr_node){.kind = QN_EXPR_REPEAT, .first = (uint32_t)first, .count = 1, .min = min, .max = max});
}

qn_expr qn_expr_each_once(qn_grammar_builder *b, const qn_each_once *group)
{
    if (group->count > QN_GRAMMAR_MAX_ITEMS) {
        misuse(b, "more than 512 items of which each comes once: use fewer");
        return NEVER;
    }
    if (!counts_fit(b, group->min, group->max) || group->min > group->max)
        return NEVER;
    size_t first = b->part_count, words = qn_ceil_div(group->count, 64), required = b->word_count;
    if (!add_parts(b, group->items, group->count) || !add_parts(b, &group->separator, 1) ||
        (group->extra && !add_parts(b, group->extra, 1)) ||
        !qn_builder_reserve(b, &b->words, &b->word_capacity, b->word_count, words, MAX_WORDS, sizeof *b->words,
                            "required items"))
        return NEVER;
    for (size_t i = 0; i < words; i++)
        b->words[b->word_count++] = 0;
    for (size_t i = 0; i < group->count; i++)
        if (group->required[i])
            qn_bit_set(b->words + required, i);
    return add_node(b, &(qn_expr_node){.kind = QN_EXPR_GROUP,
                                       .first = (uint32_t)first,
                                       .count = (uint32_t)(group->count + 1 + (group->extra != NULL)),
                                       .items = (uint32_t)group->count,
                                       .required = (uint32_t)required,
                                       .min = group->min,
                                       .max = group->max});
}

static bool joint_groups_are_whole(qn_grammar_builder *b, const qn_joint_groups *g)
{
    bool whole = g->item_count <= QN_GRAMMAR_MAX_JOINT_ITEMS &&
                 g->edge_count <= 4 * (size_t)QN_GRAMMAR_MAX_JOINT_ITEMS && g->node_count <= g->edge_count;
    for (size_t e = 0; e < g->edge_count && whole; e++)
        whole = g->edges[e].from < g->node_count && g->edges[e].to < g->node_count &&
                g->edges[e].first <= g->edges[e].last && g->edges[e].last < g->item_count;
    for (size_t o = 0; o < g->option_count && whole; o++)
        for (size_t i = 0; i < g->options[o].count && whole; i++)
            whole = g->options[o].items[i] < g->item_count;
    if (!whole)
        misuse(b, "groups that are followed as one have too many items, or a tree that is none");
    return whole;
}

/* As grammar_internal.h lays them out. */
static void write_joint_words(qn_grammar_builder *b, const qn_joint_groups *g, size_t words)
{
    uint64_t *at = b->words + b->word_count;
    size_t all = qn_joint_option_word(0, words, g->option_count);
    memset(at, 0, all * sizeof *at);
    for (size_t i = 0; i < g->item_count; i++)
        if (g->repeated[i])
            qn_bit_set(at, i);
    for (size_t o = 0; o < g->option_count; o++) {
        const qn_joint_option *option = &g->options[o];
        uint64_t *own = at + qn_joint_option_word(0, words, o);
        for (size_t i = 0; i < option->count; i++) {
            qn_bit_set(own, option->items[i]);
            if (option->required[i])
                qn_bit_set(own + words, option->items[i]);
        }
        own[2 * words] = option->min;
        own[2 * words + 1] = option->max;
    }
    b->word_count += all;
}

qn_expr qn_expr_joint_groups(qn_grammar_builder *b, const qn_joint_groups *g)
{
    size_t first = b->part_count, words = qn_ceil_div(g->item_count, 64);
    if (b->failed || !joint_groups_are_whole(b, g))
        return NEVER;
    for (size_t o = 0; o < g->option_count; o++)
        if (!counts_fit(b, g->options[o].min, g->options[o].max))
            return NEVER;
    for (size_t e = 0; e < g->edge_count; e++)
        if (!add_parts(b, &g->edges[e].label, 1))
            return NEVER;
    if (!add_parts(b, &g->separator, 1) ||
        !qn_builder_reserve(b, &b->words, &b->word_capacity, b->word_count,
                            qn_joint_option_word(0, words, g->option_count), MAX_WORDS, sizeof *b->words,
                            "required items") ||
        !qn_builder_reserve(b, &b->joints, &b->joint_capacity, b->joint_count, 1, QN_GRAMMAR_MAX_EXPRESSIONS,
                            sizeof *b->joints, "groups") ||
        !qn_builder_reserve(b, &b->edges, &b->edge_capacity, b->edge_count, g->edge_count, QN_GRAMMAR_MAX_PARTS,
                            sizeof *b->edges, "items"))
        return NEVER;
    b->joints[b->joint_count] = (qn_joint_entry){.items = (uint32_t)g->item_count,
                                                 .options = (uint32_t)g->option_count,
                                                 .nodes = (uint32_t)g->node_count,
                                                 .first_word = (uint32_t)b->word_count,
                                                 .first_edge = (uint32_t)b->edge_count,
                                                 .edge_count = (uint32_t)g->edge_count};
    write_joint_words(b, g, words);
    if (g->edge_count > 0)
        memcpy(b->edges + b->edge_count, g->edges, g->edge_count * sizeof *g->edges);
    b->edge_count += g->edge_count;
    return add_node(b, &(qn_expr_node){.kind = QN_EXPR_JOINT,
                                       .first = (uint32_t)first,
                                       .count = (uint32_t)g->edge_count + 1,
                                       .items = (uint32_t)b->joint_count++});
}

qn_rule qn_rule_declare(qn_grammar_builder *b, const char *name)
{
    if (!qn_builder_reserve(b, &b->rules, &b->rule_capacity, b->rule_count, 1, MAX_RULES, sizeof *b->rules, "rules"))
        return 0;
    char *copy = qn_strndup(name, qn_min_size(strlen(name), LONGEST_NAME));
    if (!copy) {
        b->failed = true;
        qn_fail_memory(&b->error, "grammar", strlen(name));
        return 0;
    }
    b->rules[b->rule_count] = (qn_rule_entry){.name = copy};
    return (qn_rule)b->rule_count++;
}

void qn_rule_define(qn_grammar_builder *b, qn_rule rule, qn_expr expr)
{
    if (b->failed || !known(b, expr))
        return;
    if (rule >= b->rule_count || b->rules[rule].defined) {
        misuse(b, rule >= b->rule_count ? "a rule of another builder" : "a rule is defined twice");
        return;
    }
    b->rules[rule].defined = true;
    b->rules[rule].expr = expr;
}

qn_expr qn_expr_rule(qn_grammar_builder *b, qn_rule rule)
{
    if (b->failed)
        return NEVER;
    if (rule >= b->rule_count) {
        misuse(b, "a rule of another builder");
        return NEVER;
    }
    b->rules[rule].used = true;
    return add_node(b, &(qn_expr_node){.kind = QN_EXPR_RULE, .first = rule});
}

/* The rule of a state is the choice of its edges, each going on with the rule of where it leads. */
static void define_state(qn_grammar_builder *b, const qn_graph_edge *edges, size_t edge_count, size_t state,
                         qn_rule first, bool accepting, qn_expr *options)
{
    size_t count = 0;
    if (accepting)
        options[count++] = EMPTY;
    for (size_t e = 0; e < edge_count; e++)
        options[count++] = qn_expr_concat2(b, edges[e].label, qn_expr_rule(b, first + edges[e].to));
    qn_rule_define(b, first + (qn_rule)state, qn_expr_choice(b, options, count));
}

/* Edges by where they come from: counting sort, so that any order costs the same. */
static bool sort_edges(qn_grammar_builder *b, const qn_graph_edge *edges, size_t count, size_t states, size_t *starts,
                       qn_graph_edge *sorted)
{
    for (size_t e = 0; e < count; e++) {
        if (edges[e].from >= states || edges[e].to >= states || !known(b, edges[e].label)) {
            misuse(b, "an edge of a graph leads to no state of it");
            return false;
        }
        starts[edges[e].from + 1]++;
    }
    for (size_t s = 0; s < states; s++)
        starts[s + 1] += starts[s];
    for (size_t e = 0; e < count; e++)
        sorted[starts[edges[e].from]++] = edges[e];
    return true; /* starts[s] is where the edges of s end */
}

qn_expr qn_expr_graph(qn_grammar_builder *b, const qn_graph_edge *edges, size_t edge_count, const bool *accepting,
                      size_t state_count)
{
    if (b->failed || state_count == 0)
        return NEVER;
    if (state_count > MAX_RULES || edge_count > QN_GRAMMAR_MAX_PARTS) {
        misuse(b, "a graph of too many states or edges: make it smaller");
        return NEVER;
    }
    size_t *ends = qn_alloc_zero(state_count + 1, sizeof *ends);
    qn_graph_edge *sorted = qn_alloc(edge_count, sizeof *sorted);
    qn_expr *options = qn_alloc(edge_count + 1, sizeof *options);
    qn_expr start = NEVER;
    if (!ends || !sorted || !options) {
        b->failed = true;
        qn_fail_memory(&b->error, "grammar", edge_count * sizeof *sorted);
    } else if (sort_edges(b, edges, edge_count, state_count, ends, sorted)) {
        qn_rule first = qn_rule_declare(b, "state of a pattern");
        for (size_t s = 1; s < state_count && !b->failed; s++)
            qn_rule_declare(b, "state of a pattern");
        for (size_t s = 0, from = 0; s < state_count && !b->failed; from = ends[s++])
            define_state(b, sorted + from, ends[s] - from, s, first, accepting[s], options);
        start = qn_expr_rule(b, first);
    }
    qn_free(ends);
    qn_free(sorted);
    qn_free(options);
    return start;
}
