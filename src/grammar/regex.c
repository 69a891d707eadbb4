/* A parsed regex as an expression.
 *
 * Anchors are what makes it more than a walk: ^ matches where nothing stands before it in the whole text, so what a
 * part means depends on its neighbours. Each part is built for its place: at the text's end on either side, inside the
 * text, or unknown, where a neighbour may be empty or not; there an anchor is refused. Parts without anchors mean the
 * same everywhere and are built once. */
#include "grammar/regex.h"

#include "base/buffer.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "grammar/regex_tree.h"

typedef enum side { SIDE_END, SIDE_INSIDE, SIDE_UNKNOWN } side; /* of a part: what lies beyond it */

typedef struct piece {
    qn_expr expr;
    bool never; /* no text matches */
} piece;

typedef struct builder {
    qn_grammar_builder *b;
    const qn_regex_letters *letters;
    qn_regex_parser *parser; /* for errors */
    qn_expr *stack;
    size_t stack_count, stack_capacity;
    qn_buffer run; /* of literal characters, not yet on the stack */
} builder;

static bool push(builder *w, qn_expr expr)
{
    if (w->stack_count == w->stack_capacity) {
        size_t capacity = w->stack_capacity > 0 ? w->stack_capacity * 2 : 64;
        qn_expr *grown = qn_realloc(w->stack, capacity, sizeof *grown);
        if (grown == NULL) {
            qn_regex_out_of_memory(w->parser);
            return false;
        }
        w->stack = grown;
        w->stack_capacity = capacity;
    }
    w->stack[w->stack_count++] = expr;
    return true;
}

static qn_expr spell(const builder *w, const qn_char_range *ranges, size_t count)
{
    if (count == 0) {
        return qn_expr_never(w->b);
    }
    return w->letters != NULL ? w->letters->chars(w->letters->context, w->b, ranges, count)
                              : qn_expr_chars(w->b, ranges, count);
}

static bool build(builder *w, qn_regex_node *node, side left, side right, piece *out);

static bool build_anchor(builder *w, const qn_regex_node *node, side beyond, piece *out)
{
    if (beyond == SIDE_UNKNOWN) {
        qn_regex_refuse(w->parser, node->at,
                        node->kind == QN_REGEX_START ? "^ behind what may be empty cannot be enforced: move it forward"
                                                     : "$ before what may be empty cannot be enforced: move it back");
        return false;
    }
    out->never = beyond != SIDE_END;
    out->expr = out->never ? qn_expr_never(w->b) : qn_expr_empty(w->b);
    return true;
}

/* What lies beyond a part, once another part stands between it and what lay there before. */
static side beyond(side outer, const qn_regex_node *between)
{
    if (between->only_empty) {
        return outer;
    }
    return outer == SIDE_INSIDE || !between->nullable ? SIDE_INSIDE : SIDE_UNKNOWN;
}

/* As beyond, for all the parts behind parts[i]. */
static side right_of(const qn_regex_node *node, size_t i, side outer)
{
    for (size_t j = node->count - 1; j > i; j--) {
        outer = beyond(outer, node->parts[j]);
    }
    return outer;
}

static bool end_run(builder *w)
{
    bool pushed = w->run.size == 0 || push(w, qn_expr_bytes(w->b, w->run.data, w->run.size));
    qn_buffer_clear(&w->run);
    return pushed;
}

static bool is_literal(const builder *w, const qn_regex_node *node)
{
    return w->letters == NULL && node->kind == QN_REGEX_SET && node->count == 1 &&
           node->ranges[0].first == node->ranges[0].last;
}

static bool add_to_run(builder *w, uint32_t code)
{
    char bytes[4];
    qn_buffer_append(&w->run, bytes, qn_utf8_encode(code, bytes));
    if (w->run.failed) {
        qn_regex_out_of_memory(w->parser);
    }
    return !w->run.failed;
}

static bool build_concat(builder *w, qn_regex_node *node, side left, side right, piece *out)
{
    size_t base = w->stack_count;
    out->never = false;
    for (size_t i = 0; i < node->count; i++) {
        qn_regex_node *part = node->parts[i];
        piece built = {0};
        if (is_literal(w, part)) {
            if (!add_to_run(w, part->ranges[0].first)) {
                return false;
            }
        } else if (!end_run(w) ||
                   !build(w, part, left, part->has_anchor ? right_of(node, i, right) : SIDE_INSIDE, &built) ||
                   !push(w, built.expr)) {
            return false;
        }
        out->never = out->never || built.never;
        left = beyond(left, part);
    }
    if (!end_run(w)) {
        return false;
    }
    out->expr = out->never ? qn_expr_never(w->b) : qn_expr_concat(w->b, w->stack + base, w->stack_count - base);
    w->stack_count = base;
    return true;
}

static bool build_choice(builder *w, qn_regex_node *node, side left, side right, piece *out)
{
    size_t base = w->stack_count;
    for (size_t i = 0; i < node->count; i++) {
        piece built = {0};
        if (!build(w, node->parts[i], left, right, &built) || (!built.never && !push(w, built.expr))) {
            return false;
        }
    }
    size_t count = w->stack_count - base;
    out->never = count == 0;
    out->expr = count == 0 ? qn_expr_never(w->b) : qn_expr_choice(w->b, w->stack + base, count);
    w->stack_count = base;
    return true;
}

static bool build_repeat(builder *w, const qn_regex_node *node, side left, side right, piece *out)
{
    piece part = {0};
    if (node->has_anchor && node->max > 1) {
        qn_regex_refuse(w->parser, node->at, "an anchor inside a repetition cannot be enforced: move it out");
        return false;
    }
    if (!build(w, node->parts[0], left, right, &part)) {
        return false;
    }
    out->never = part.never && node->min > 0;
    if (part.never) {
        out->expr = out->never ? part.expr : qn_expr_empty(w->b);
    } else {
        out->expr = node->min == 0 && node->max == 1 ? qn_expr_optional(w->b, part.expr)
                                                     : qn_expr_repeat(w->b, part.expr, node->min, node->max);
    }
    return true;
}

static bool build_by_kind(builder *w, qn_regex_node *node, side left, side right, piece *out)
{
    switch (node->kind) {
    case QN_REGEX_EMPTY:
        *out = (piece){.expr = qn_expr_empty(w->b)};
        return true;
    case QN_REGEX_SET:
        *out = (piece){.expr = spell(w, node->ranges, node->count), .never = node->count == 0};
        return true;
    case QN_REGEX_START:
        return build_anchor(w, node, left, out);
    case QN_REGEX_END:
        return build_anchor(w, node, right, out);
    case QN_REGEX_CONCAT:
        return build_concat(w, node, left, right, out);
    case QN_REGEX_CHOICE:
        return build_choice(w, node, left, right, out);
    default:
        return build_repeat(w, node, left, right, out);
    }
}

/* False: the parser's error tells why. */
static bool build(builder *w, qn_regex_node *node, side left, side right, piece *out)
{
    if (node->built) {
        *out = (piece){.expr = node->expr};
        return true;
    }
    if (!build_by_kind(w, node, left, right, out)) {
        return false;
    }
    if (!node->has_anchor && !out->never) {
        node->built = true;
        node->expr = out->expr;
    }
    return true;
}

/* Any text before and behind, where the match does not begin or end with the whole: of the four ways to lie in it,
 * those that an anchor allows. */
static bool build_search(builder *w, qn_regex_node *node, piece *out)
{
    const qn_char_range all[] = {{0, QN_SURROGATE_FIRST - 1}, {QN_SURROGATE_LAST + 1, QN_CHAR_MAX}};
    qn_expr any = qn_expr_repeat(w->b, spell(w, all, 2), 0, QN_UNBOUNDED);
    qn_expr options[4];
    size_t count = 0;
    for (unsigned i = node->has_anchor ? 0 : 3; i < 4; i++) {
        bool before = (i & 1) != 0, behind = (i & 2) != 0;
        piece match = {0};
        if (!build(w, node, before ? SIDE_INSIDE : SIDE_END, behind ? SIDE_INSIDE : SIDE_END, &match)) {
            return false;
        }
        if (!match.never) {
            qn_expr parts[3];
            size_t parts_count = 0;
            if (before) {
                parts[parts_count++] = any;
            }
            parts[parts_count++] = match.expr;
            if (behind) {
                parts[parts_count++] = any;
            }
            options[count++] = qn_expr_concat(w->b, parts, parts_count);
        }
    }
    out->never = count == 0;
    out->expr = count == 0 ? qn_expr_never(w->b) : qn_expr_choice(w->b, options, count);
    return true;
}

static qn_status parse_and_build(builder *w, bool search, qn_expr *out, qn_error *err)
{
    qn_regex_parser *p = w->parser;
    piece whole = {0};
    p->arena = qn_arena_new(QN_REGEX_MAX_MEMORY);
    if (p->arena == NULL) {
        return qn_fail_memory(err, "regex", QN_REGEX_MAX_MEMORY);
    }
    qn_regex_node *root = qn_regex_parse(p);
    bool built = root != NULL && (search ? build_search(w, root, &whole) : build(w, root, SIDE_END, SIDE_END, &whole));
    qn_status status = built ? qn_grammar_builder_status(w->b, err) : err->status;
    *out = whole.expr;
    qn_free(w->stack);
    qn_buffer_free(&w->run);
    qn_free(p->stack);
    qn_char_set_free(&p->set);
    qn_arena_free(p->arena);
    return status;
}

qn_status qn_regex_expr(qn_grammar_builder *b, const char *regex, size_t bytes, bool search,
                        const qn_regex_letters *letters, qn_expr *out, qn_error *err)
{
    qn_regex_parser parser = {.text = regex, .bytes = bytes, .err = err};
    builder w = {.b = b, .letters = letters, .parser = &parser};
    return parse_and_build(&w, search, out, err);
}

qn_status qn_regex_part_expr(qn_grammar_builder *b, const char *regex, size_t bytes, unsigned flags, qn_expr *out,
                             qn_error *err)
{
    qn_regex_parser parser = {.text = regex, .bytes = bytes, .flags = flags, .refuse_anchors = true, .err = err};
    builder w = {.b = b, .parser = &parser};
    return parse_and_build(&w, false, out, err);
}
