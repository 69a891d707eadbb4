#include "grammar/rule_table.h"

#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

static size_t find_slot(const qn_rule_table *table, const char *name, size_t bytes)
{
    size_t mask = table->slot_count - 1;
    size_t slot = (size_t)qn_hash_bytes(name, bytes).low & mask;
    for (; table->slots[slot] != 0; slot = (slot + 1) & mask) {
        const qn_named_rule *rule = &table->rules[table->slots[slot] - 1];
        if (rule->bytes == bytes && memcmp(rule->name, name, bytes) == 0) {
            break;
        }
    }
    return slot;
}

/* Room for one more, the slots at most half full. */
static bool grow(qn_rule_table *table)
{
    if (table->count < table->capacity) {
        return true;
    }
    size_t capacity = table->capacity > 0 ? table->capacity * 2 : 32;
    qn_named_rule *rules = qn_realloc(table->rules, capacity, sizeof *rules);
    if (rules == NULL) {
        return false;
    }
    table->rules = rules;
    size_t *slots = qn_alloc_zero(capacity * 2, sizeof *slots);
    if (slots == NULL) {
        return false;
    }
    qn_free(table->slots);
    table->slots = slots;
    table->slot_count = capacity * 2;
    table->capacity = capacity;
    for (size_t i = 0; i < table->count; i++) {
        table->slots[find_slot(table, table->rules[i].name, table->rules[i].bytes)] = i + 1;
    }
    return true;
}

qn_named_rule *qn_rule_table_find(const qn_rule_table *table, const char *name, size_t bytes)
{
    size_t index = table->slot_count > 0 ? table->slots[find_slot(table, name, bytes)] : 0;
    return index > 0 ? &table->rules[index - 1] : NULL;
}

qn_named_rule *qn_rule_table_get(qn_rule_table *table, qn_grammar_builder *b, const char *name, size_t bytes, size_t at)
{
    qn_named_rule *known = qn_rule_table_find(table, name, bytes);
    if (known != NULL) {
        return known;
    }
    char copy[QN_RULE_NAME_MAX_BYTES + 1];
    if (!grow(table)) {
        return NULL;
    }
    size_t length = bytes < QN_RULE_NAME_MAX_BYTES ? bytes : QN_RULE_NAME_MAX_BYTES;
    memcpy(copy, name, length);
    copy[length] = '\0';
    size_t slot = find_slot(table, name, bytes);
    qn_named_rule *rule = &table->rules[table->count++];
    table->slots[slot] = table->count;
    *rule = (qn_named_rule){.name = name, .bytes = bytes, .at = at, .rule = qn_rule_declare(b, copy)};
    return rule;
}

const qn_named_rule *qn_rule_table_undefined(const qn_rule_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        if (!table->rules[i].defined) {
            return &table->rules[i];
        }
    }
    return NULL;
}

void qn_rule_table_free(qn_rule_table *table)
{
    qn_free(table->rules);
    qn_free(table->slots);
    *table = (qn_rule_table){0};
}

/* ---- expressions ---- */

void qn_expr_list_add(qn_expr_list *list, qn_expr expr)
{
    if (list->failed) {
        return;
    }
    if (list->count == list->capacity) {
        size_t capacity = list->capacity > 0 ? list->capacity * 2 : 64;
        qn_expr *grown = qn_realloc(list->items, capacity, sizeof *grown);
        if (grown == NULL) {
            list->failed = true;
            return;
        }
        list->items = grown;
        list->capacity = capacity;
    }
    list->items[list->count++] = expr;
}

/* How many items lie on the list from base on, which leave it now; a list that failed may have fewer than base. */
static size_t take(qn_expr_list *list, size_t base)
{
    size_t count = list->count > base ? list->count - base : 0;
    list->count -= count;
    return count;
}

qn_expr qn_expr_list_concat(qn_expr_list *list, size_t base, qn_grammar_builder *b)
{
    size_t count = take(list, base);
    if (count == 0) {
        return qn_expr_empty(b);
    }
    return count == 1 ? list->items[base] : qn_expr_concat(b, list->items + base, count);
}

qn_expr qn_expr_list_choice(qn_expr_list *list, size_t base, qn_grammar_builder *b)
{
    size_t count = take(list, base);
    if (count == 0) {
        return qn_expr_never(b);
    }
    return count == 1 ? list->items[base] : qn_expr_choice(b, list->items + base, count);
}

void qn_expr_list_free(qn_expr_list *list)
{
    qn_free(list->items);
    *list = (qn_expr_list){0};
}

qn_expr qn_alternatives_finish(qn_alternatives *alternatives, qn_grammar_builder *b)
{
    bool recursive = alternatives->recursive.count > 0;
    qn_expr first = qn_expr_list_choice(&alternatives->plain, 0, b);
    if (!recursive) {
        return first;
    }
    qn_expr rest = qn_expr_list_choice(&alternatives->recursive, 0, b);
    return qn_expr_concat2(b, first, qn_expr_repeat(b, rest, 0, QN_UNBOUNDED));
}
