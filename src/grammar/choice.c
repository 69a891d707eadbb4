/* The sorted texts are the leaves of a trie in order, and the bytes that neighbours share say how deep their inner
 * nodes lie. So the trie is walked from leaf to leaf with a stack of open nodes, without recursion: a text of a
 * megabyte may have a thousand others as beginnings. */
#include "grammar/choice.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "grammar/rule_table.h"

typedef struct open_node {
    size_t depth;        /* bytes before it */
    size_t first_option; /* on the list; the options of the last open node end it */
} open_node;

typedef struct walk {
    qn_grammar_builder *b;
    qn_expr_list options;
    open_node *nodes;
    size_t node_count;
} walk;

static int compare_texts(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static size_t shared_bytes(const char *a, const char *b)
{
    size_t count = 0;
    while (a[count] != '\0' && a[count] == b[count]) {
        count++;
    }
    return count;
}

/* Ends open nodes deeper than `depth`, all on the way to `text`; opens one at `depth` if none is there. */
static void close_to(walk *w, const char *text, size_t depth)
{
    while (w->nodes[w->node_count - 1].depth > depth) {
        open_node node = w->nodes[--w->node_count];
        size_t outer = w->nodes[w->node_count - 1].depth;
        size_t from = outer > depth ? outer : depth;
        qn_expr inner = qn_expr_list_choice(&w->options, node.first_option, w->b);
        qn_expr_list_add(&w->options,
                         qn_expr_concat2(w->b, qn_expr_bytes(w->b, text + from, node.depth - from), inner));
        if (outer < depth) {
            w->nodes[w->node_count++] = (open_node){depth, node.first_option};
        }
    }
}

static qn_expr walk_texts(walk *w, const char **texts, size_t count)
{
    w->nodes[w->node_count++] = (open_node){0, 0};
    for (size_t i = 0; i < count; i++) {
        size_t next = i + 1 < count ? shared_bytes(texts[i], texts[i + 1]) : 0;
        if (next > w->nodes[w->node_count - 1].depth) {
            w->nodes[w->node_count++] = (open_node){next, w->options.count};
        }
        const char *rest = texts[i] + w->nodes[w->node_count - 1].depth;
        qn_expr_list_add(&w->options, qn_expr_bytes(w->b, rest, strlen(rest)));
        close_to(w, texts[i], next);
    }
    return qn_expr_list_choice(&w->options, 0, w->b);
}

qn_expr qn_choice_expr(qn_grammar_builder *b, const char *const *texts, size_t count)
{
    walk w = {.b = b};
    qn_error err;
    qn_expr out = 0;
    const char **sorted = qn_alloc(count, sizeof *sorted);
    w.nodes = qn_alloc(count + 1, sizeof *w.nodes);
    if (sorted != NULL && w.nodes != NULL) {
        size_t kept = 0;
        for (size_t i = 0; i < count; i++) {
            sorted[i] = texts[i];
        }
        qsort(sorted, count, sizeof *sorted, compare_texts);
        for (size_t i = 0; i < count; i++) {
            if (kept == 0 || strcmp(sorted[i], sorted[kept - 1]) != 0) {
                sorted[kept++] = sorted[i];
            }
        }
        out = walk_texts(&w, sorted, kept);
    }
    if (sorted == NULL || w.nodes == NULL || w.options.failed) {
        qn_fail_memory(&err, "choice", count * sizeof *sorted);
        qn_grammar_builder_fail(b, &err);
    }
    qn_free(sorted);
    qn_free(w.nodes);
    qn_expr_list_free(&w.options);
    return out;
}
