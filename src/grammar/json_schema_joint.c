/* Objects of many shapes, as an anyOf of hundreds of them has: one group of all their members (grammar.h,
 * qn_joint_groups), so that a text that may still be any of them is at one place and not at hundreds.
 *
 * An item is a name with a value; shapes that have both alike share it. Where a shape allows other members than it
 * declares, a name that other shapes declare is an item that may be repeated, and all names that none declares are one.
 * The tree of items is that of the names' characters, and for values that are one string, of theirs. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "grammar/json_schema_object.h"

enum {
    FEW = 8,               /* objects that are followed side by side */
    MOST_OTHERS = 16,      /* different values of undeclared members */
    MOST_TEXT_BYTES = 1000 /* of a value that is one string */
};

typedef struct listed_object {
    shape s;
    const schema_node *current;
    object_members members;
    qn_expr other; /* value of undeclared members; QN_NO_WORDS: there are none */
    struct listed_object *next;
} listed_object;

bool schema_objects_take(compiler *c, object_list *list, const shape *s)
{
    if (schema_is_free_object(s) || schema_names_matter(s))
        return false;
    for (const keyword_use *use = s->excluded; use; use = use->next)
        if (schema_value_type(use->value) == TYPE_OBJECT)
            return false;
    schema_check_blocked(c, s, TYPE_OBJECT);
    listed_object *object = schema_alloc(c, 1, sizeof *object);
    if (!object)
        return false;
    object->s = *s;
    object->current = c->current;
    if (!list->end)
        list->end = &list->first;
    *list->end = object;
    list->end = &object->next;
    list->count++;
    return true;
}

/* Items */

typedef struct joint_item {
    const schema_text *name; /* NULL: any that is not declared */
    const json_t *text;
    qn_expr value;
    bool repeated;
} joint_item;

static int compare_bytes(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    size_t shorter = a_bytes < b_bytes ? a_bytes : b_bytes;
    int order = shorter ? memcmp(a, b, shorter) : 0;
    return order ? order : (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

static int by_name(const void *a, const void *b)
{
    const schema_text *x = a, *y = b;
    return compare_bytes(x->data, x->bytes, y->data, y->bytes);
}

/* By name, undeclared ones last; those that are one string first, by it. */
static int by_item(const void *a, const void *b)
{
    const joint_item *x = a, *y = b;
    int order = !x->name || !y->name ? !x->name - !y->name : by_name(x->name, y->name);
    if (order)
        return order;
    if (!x->text != !y->text)
        return !x->text - !y->text;
    if (x->text)
        return compare_bytes(json_string_value(x->text), json_string_length(x->text), json_string_value(y->text),
                             json_string_length(y->text));
    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return x->repeated - y->repeated;
}

typedef struct joint {
    compiler *c;
    listed_object **objects;
    size_t count;
    schema_text *names;
    size_t name_count;
    qn_expr others[MOST_OTHERS];
    size_t other_count;
    joint_item *items;
    size_t item_count;
} joint;

static size_t sort_unique(void *all, size_t count, size_t size, int (*by)(const void *, const void *))
{
    char *at = all;
    size_t kept = 0;
    if (count > 1)
        qsort(all, count, size, by);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || by(at + (kept - 1) * size, at + i * size) != 0)
            memmove(at + kept++ * size, at + i * size, size);
    return kept;
}

static bool collect_names(joint *j)
{
    size_t most = 1;
    for (size_t i = 0; i < j->count; i++)
        most += j->objects[i]->members.name_count;
    j->names = schema_alloc(j->c, most, sizeof *j->names);
    for (size_t i = 0; j->names && i < j->count; i++) {
        const object_members *m = &j->objects[i]->members;
        if (m->name_count > 0)
            memcpy(j->names + j->name_count, m->names, m->name_count * sizeof *m->names);
        j->name_count += m->name_count;
    }
    if (j->names)
        j->name_count = sort_unique(j->names, j->name_count, sizeof *j->names, by_name);
    return j->names != NULL;
}

static const schema_text *find_name(const joint *j, const schema_text *name)
{
    return bsearch(name, j->names, j->name_count, sizeof *j->names, by_name);
}

static bool collect_others(joint *j)
{
    for (size_t i = 0; i < j->count; i++) {
        size_t k = 0;
        qn_expr other = j->objects[i]->other;
        while (k < j->other_count && j->others[k] != other)
            k++;
        if (other == QN_NO_WORDS || k < j->other_count)
            continue;
        if (k == MOST_OTHERS)
            return false;
        j->others[j->other_count++] = other;
    }
    return j->other_count == 0 || j->name_count <= QN_GRAMMAR_MAX_ITEMS; /* the other names are an automaton */
}

static joint_item item_of(const joint *j, const listed_object *object, size_t i)
{
    const object_item *item = &object->members.items[i];
    bool spelt = item->text && json_string_length(item->text) <= MOST_TEXT_BYTES;
    return (joint_item){find_name(j, &object->members.names[item->name]), spelt ? item->text : NULL, item->value,
                        false};
}

/* The flags of the names that the object declares. */
static void mark_declared(const joint *j, const listed_object *object, bool *declared)
{
    memset(declared, 0, j->name_count * sizeof *declared);
    for (size_t i = 0; i < object->members.name_count; i++)
        declared[find_name(j, &object->members.names[i]) - j->names] = true;
}

/* Of each undeclared value: the names that not all of its objects declare. */
static void add_others(joint *j, bool *declared, bool *lacking)
{
    for (size_t k = 0; k < j->other_count; k++) {
        memset(lacking, 0, j->name_count * sizeof *lacking);
        for (size_t i = 0; i < j->count; i++) {
            if (j->objects[i]->other != j->others[k])
                continue;
            mark_declared(j, j->objects[i], declared);
            for (size_t n = 0; n < j->name_count; n++)
                lacking[n] |= !declared[n];
        }
        for (size_t n = 0; n < j->name_count; n++)
            if (lacking[n])
                j->items[j->item_count++] = (joint_item){&j->names[n], NULL, j->others[k], true};
        j->items[j->item_count++] = (joint_item){NULL, NULL, j->others[k], true};
    }
}

static bool collect_items(joint *j, bool *declared, bool *lacking)
{
    size_t most = j->other_count * (j->name_count + 1) + 1;
    for (size_t i = 0; i < j->count; i++)
        most += j->objects[i]->members.item_count;
    j->items = schema_alloc(j->c, most, sizeof *j->items);
    if (!j->items)
        return false;
    for (size_t i = 0; i < j->count; i++)
        for (size_t k = 0; k < j->objects[i]->members.item_count; k++)
            j->items[j->item_count++] = item_of(j, j->objects[i], k);
    add_others(j, declared, lacking);
    j->item_count = sort_unique(j->items, j->item_count, sizeof *j->items, by_item);
    return j->item_count <= QN_GRAMMAR_MAX_JOINT_ITEMS;
}

static uint32_t number_of(const joint *j, const joint_item *item)
{
    const joint_item *found = bsearch(item, j->items, j->item_count, sizeof *j->items, by_item);
    return (uint32_t)(found - j->items);
}

static void fill_option(joint *j, const listed_object *object, bool *declared, qn_joint_option *out)
{
    const object_members *m = &object->members;
    size_t most = m->item_count + (object->other == QN_NO_WORDS ? 0 : j->name_count + 1);
    uint32_t *items = schema_alloc(j->c, most + 1, sizeof *items);
    bool *required = schema_alloc(j->c, most + 1, sizeof *required);
    size_t n = 0;
    if (!items || !required)
        return;
    for (size_t i = 0; i < m->item_count; i++) {
        joint_item item = item_of(j, object, i);
        required[n] = m->items[i].required;
        items[n++] = number_of(j, &item);
    }
    if (object->other != QN_NO_WORDS) {
        mark_declared(j, object, declared);
        for (size_t i = 0; i < j->name_count; i++)
            if (!declared[i])
                items[n++] = number_of(j, &(joint_item){&j->names[i], NULL, object->other, true});
        items[n++] = number_of(j, &(joint_item){NULL, NULL, object->other, true});
    }
    *out = (qn_joint_option){items, required, n, m->min > 1 ? m->min : 1, m->max};
}

/* The tree */

typedef enum tree_stage { IN_NAME, AT_VALUE, IN_TEXT } tree_stage;

/* Items low..high-1 behind what they share: `at` bytes of their names or texts. */
typedef struct tree_node {
    size_t low, high, at;
    tree_stage stage;
} tree_node;

typedef struct item_tree {
    const joint *j;
    tree_node *nodes;
    size_t node_count;
    qn_joint_edge *edges;
    size_t edge_count;
} item_tree;

static void text_of(const joint_item *item, tree_stage stage, const char **data, size_t *bytes)
{
    *data = stage == IN_NAME ? item->name->data : json_string_value(item->text);
    *bytes = stage == IN_NAME ? item->name->bytes : json_string_length(item->text);
}

/* How far the texts of items low..high-1 agree, in whole characters; they are in order. */
static size_t agreement(const item_tree *t, const tree_node *n)
{
    const char *first, *last;
    size_t first_bytes, last_bytes, at = n->at, length;
    uint32_t code;
    text_of(&t->j->items[n->low], n->stage, &first, &first_bytes);
    text_of(&t->j->items[n->high - 1], n->stage, &last, &last_bytes);
    while (at < first_bytes && (length = qn_utf8_decode(first + at, first_bytes - at, &code)) > 0 &&
           length <= last_bytes - at && memcmp(first + at, last + at, length) == 0)
        at += length;
    return at;
}

static void add_edge(item_tree *t, size_t from, const tree_node *to, qn_expr label)
{
    bool leaf = to->high - to->low == 1 && to->stage == AT_VALUE;
    if (leaf)
        label = qn_words_concat2(t->j->c->b, label, t->j->items[to->low].value);
    t->edges[t->edge_count++] = (qn_joint_edge){(uint32_t)from, leaf ? 0 : (uint32_t)t->node_count, (uint32_t)to->low,
                                                (uint32_t)to->high - 1, label};
    if (!leaf)
        t->nodes[t->node_count++] = *to;
}

/* The edge to items low..high-1 of a node, which have the next character, or the end, in common. */
static void add_text_edge(item_tree *t, size_t from, tree_node to)
{
    compiler *c = t->j->c;
    size_t start = to.at, bytes, last_bytes;
    const char *text, *last;
    text_of(&t->j->items[to.low], to.stage, &text, &bytes);
    text_of(&t->j->items[to.high - 1], to.stage, &last, &last_bytes);
    to.at = agreement(t, &to);
    qn_expr label = schema_spelt_expr(c, text + start, to.at - start);
    if (to.at == bytes && to.at == last_bytes) {
        label = qn_words_concat2(c->b, label, c->spelling.quote);
        if (to.stage == IN_NAME) {
            label = qn_words_concat2(c->b, label, c->spelling.colon);
            to.stage = AT_VALUE;
        } else { /* texts are each there once */
            t->edges[t->edge_count++] = (qn_joint_edge){(uint32_t)from, 0, (uint32_t)to.low, (uint32_t)to.low, label};
            return;
        }
    }
    add_edge(t, from, &to, label);
}

static void spread_texts(item_tree *t, size_t from)
{
    tree_node n = t->nodes[from];
    const joint_item *items = t->j->items;
    for (size_t i = n.low, end; i < n.high; i = end) {
        tree_node to = {i, i + 1, n.at, n.stage};
        const char *text, *other;
        size_t bytes, other_bytes;
        end = i + 1;
        if (n.stage == IN_NAME && !items[i].name) { /* any other name */
            compiler *c = t->j->c;
            qn_expr label = schema_other_names_expr(c, t->j->names, t->j->name_count);
            while (end < n.high)
                end++;
            to = (tree_node){i, end, 0, AT_VALUE};
            add_edge(t, from, &to, qn_words_concat2(c->b, label, c->spelling.colon));
            continue;
        }
        text_of(&items[i], n.stage, &text, &bytes);
        uint32_t code, next;
        size_t length = qn_utf8_decode(text + n.at, bytes - n.at, &code);
        for (; end < n.high && (n.stage == IN_TEXT || items[end].name); end++) {
            text_of(&items[end], n.stage, &other, &other_bytes);
            size_t other_length = qn_utf8_decode(other + n.at, other_bytes - n.at, &next);
            if (other_length != length || (length > 0 && next != code))
                break;
        }
        to.high = end;
        add_text_edge(t, from, to);
    }
}

/* Values of one name: those that are a string share its beginning. */
static void spread_values(item_tree *t, size_t from)
{
    tree_node n = t->nodes[from];
    compiler *c = t->j->c;
    size_t texts = n.low;
    while (texts < n.high && t->j->items[texts].text)
        texts++;
    if (texts > n.low)
        add_edge(t, from, &(tree_node){n.low, texts, 0, IN_TEXT}, c->spelling.quote);
    for (size_t i = texts; i < n.high; i++)
        add_edge(t, from, &(tree_node){i, i + 1, 0, AT_VALUE}, qn_expr_empty(c->b));
}

static qn_expr joint_expr(joint *j, const qn_joint_option *options)
{
    compiler *c = j->c;
    item_tree t = {.j = j,
                   .nodes = schema_alloc(c, 4 * j->item_count + 2, sizeof(tree_node)),
                   .edges = schema_alloc(c, 4 * j->item_count + 2, sizeof(qn_joint_edge))};
    bool *repeated = schema_alloc(c, j->item_count + 1, sizeof *repeated);
    if (!t.nodes || !t.edges || !repeated)
        return QN_NO_WORDS;
    for (size_t i = 0; i < j->item_count; i++)
        repeated[i] = j->items[i].repeated;
    tree_node all = {0, j->item_count, 0, IN_NAME};
    t.nodes[t.node_count++] = all;
    add_edge(&t, 0, &all, c->spelling.quote);
    for (size_t i = 1; i < t.node_count && !c->failed; i++) {
        if (t.nodes[i].stage == AT_VALUE)
            spread_values(&t, i);
        else
            spread_texts(&t, i);
    }
    qn_joint_groups groups = {repeated, j->item_count, options,      j->count,
                              t.edges,  t.edge_count,  t.node_count, c->spelling.comma};
    return qn_expr_joint_groups(c->b, &groups);
}

/* The objects low..high-1 as one group, or where they are too many or too different, as several. */
static qn_expr join(compiler *c, listed_object **objects, size_t count)
{
    joint j = {.c = c, .objects = objects, .count = count};
    if (count == 0 || c->failed)
        return QN_NO_WORDS;
    bool fits = collect_names(&j) && collect_others(&j);
    bool *declared = schema_alloc(c, j.name_count + 1, sizeof *declared),
         *lacking = schema_alloc(c, j.name_count + 1, sizeof *lacking);
    if (declared && lacking && fits && collect_items(&j, declared, lacking)) {
        qn_joint_option *options = schema_alloc(c, count, sizeof *options);
        for (size_t i = 0; options && i < count; i++)
            fill_option(&j, objects[i], declared, &options[i]);
        return c->failed || j.item_count == 0 ? QN_NO_WORDS : joint_expr(&j, options);
    }
    if (count == 1 || c->failed)
        return QN_NO_WORDS;
    size_t half = count / 2;
    qn_expr parts[2] = {join(c, objects, half), join(c, objects + half, count - half)};
    return qn_words_choice(c->b, parts, 2);
}

void schema_objects_each(compiler *c, const object_list *list, expr_sink *add, void *context)
{
    const schema_node *around = c->current;
    listed_object **kept = schema_alloc(c, list->count + 1, sizeof(listed_object *));
    size_t n = 0;
    bool may_be_empty = false;
    for (listed_object *object = list->first; kept && object && !c->failed; object = object->next) {
        c->current = object->current;
        if (list->count <= FEW) {
            add(c, context, schema_object_expr(c, &object->s));
            continue;
        }
        object_members *m = &object->members;
        if (!schema_object_members(c, &object->s, m))
            continue;
        object->other = m->closed ? QN_NO_WORDS : schema_other_value_expr(c, &object->s);
        if (!schema_object_can_be(c, &object->s, m, object->other != QN_NO_WORDS))
            continue;
        if (m->closed)
            object->other = QN_NO_WORDS;
        may_be_empty |= m->min == 0 && m->required_count == 0;
        if (m->max > 0)
            kept[n++] = object;
    }
    c->current = around;
    if (c->failed || list->count <= FEW)
        return;
    add(c, context, qn_json_enclosed(&c->spelling, '{', join(c, kept, n), may_be_empty, '}'));
}
