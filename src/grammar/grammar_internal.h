/* What the parts of a grammar know of each other: the expressions of a builder, and the compiled automaton.
 *
 * builder.c makes expressions, expr_chars.c those of characters, analysis.c looks what can match, what can be empty and
 * what is recursive, compile*.c make the automaton, stacks.c runs it. */
#ifndef QN_GRAMMAR_GRAMMAR_INTERNAL_H
#define QN_GRAMMAR_GRAMMAR_INTERNAL_H

#include "grammar/grammar.h"

typedef enum qn_expr_kind {
    QN_EXPR_EMPTY,
    QN_EXPR_NEVER,
    QN_EXPR_BYTES, /* `count` bytes at `first` of the builder's bytes; never none */
    QN_EXPR_SET,   /* set number `first`; never the empty one */
    QN_EXPR_TOKEN, /* token `first` */
    QN_EXPR_CONCAT,
    QN_EXPR_CHOICE,
    QN_EXPR_REPEAT,
    QN_EXPR_GROUP, /* parts: the items, the separator, the extra if there is one */
    QN_EXPR_JOINT, /* parts: the labels of the edges, the separator; joint number `items` */
    QN_EXPR_RULE   /* rule number `first` */
} qn_expr_kind;

typedef struct qn_expr_node {
    qn_expr_kind kind;
    uint32_t first, count; /* parts `first` to first + count - 1 of the builder's; parts have lower numbers */
    uint32_t items;        /* of a group; the number of joint groups */
    uint32_t required;     /* of a group: the index of its first word of bits */
    size_t min, max;       /* of a repetition or a group */
} qn_expr_node;

typedef struct qn_rule_entry {
    char *name;
    bool defined, used;
    qn_expr expr;
} qn_rule_entry;

/* Groups that are followed as one. Their words: the bits of the items that may be repeated; then for each option the
 * bits of its items, those of the required ones, and its least and most items (QN_UNBOUNDED: no end). */
typedef struct qn_joint_entry {
    uint32_t items, options, nodes;
    uint32_t first_word, first_edge, edge_count;
} qn_joint_entry;

enum { QN_JOINT_WORDS = QN_GRAMMAR_MAX_JOINT_ITEMS / 64 };

typedef struct qn_byte_set {
    uint64_t bits[4];
} qn_byte_set;

enum { QN_MADE_CHARS = 16 };

/* The expression that ranges of characters became. */
typedef struct qn_made_chars {
    qn_char_range *ranges; /* as they were given */
    size_t count;
    bool except;
    qn_expr expr;
} qn_made_chars;

struct qn_grammar_builder {
    qn_error error;
    bool failed;
    qn_expr_node *nodes;
    size_t node_count, node_capacity;
    qn_expr *parts;
    size_t part_count, part_capacity;
    unsigned char *bytes;
    size_t byte_count, byte_capacity;
    qn_byte_set *sets; /* the first 256: each byte alone; no two alike */
    size_t set_count, set_capacity;
    uint32_t *set_slots; /* hash table of set numbers + 1 */
    size_t set_slot_count;
    qn_made_chars made_chars[QN_MADE_CHARS]; /* the last large ones; the next goes to made_char_count % QN_MADE_CHARS */
    size_t made_char_count;
    uint64_t *words; /* bits of what groups require */
    size_t word_count, word_capacity;
    qn_joint_entry *joints;
    size_t joint_count, joint_capacity;
    qn_joint_edge *edges;
    size_t edge_count, edge_capacity;
    qn_rule_entry *rules;
    size_t rule_count, rule_capacity;
};

/* Makes room for `count` + `more` elements; false when out of memory or past `most`, b is failed then. */
bool qn_builder_reserve(qn_grammar_builder *b, void *block, size_t *capacity, size_t count, size_t more, size_t most,
                        size_t size, const char *what);

static inline bool qn_bit_get(const uint64_t *bits, size_t i)
{
    return bits[i / 64] >> (i % 64) & 1;
}

static inline void qn_bit_set(uint64_t *bits, size_t i)
{
    bits[i / 64] |= UINT64_C(1) << (i % 64);
}

/* The words of an option of joint groups, of `words` words of items. */
static inline size_t qn_joint_option_word(size_t first_word, size_t words, size_t option)
{
    return first_word + words + option * (2 * words + 2);
}

/* What is true of the expressions of a builder, by number. */
typedef struct qn_analysis {
    bool *productive; /* has words */
    bool *nullable;   /* has the empty word */
} qn_analysis;

/* QN_USAGE: undefined or left-recursive rules, a root without words. */
qn_status qn_analysis_make(const qn_grammar_builder *b, qn_expr root, qn_analysis *out, qn_error *err);
void qn_analysis_free(qn_analysis *analysis);

/* Of joint groups: the bits of the items for all of whose edges `holds` is true; and whether the option has a word of
 * these items. */
void qn_joint_items(const qn_grammar_builder *b, const qn_expr_node *node, const bool *holds,
                    uint64_t items[QN_JOINT_WORDS]);
bool qn_joint_option_holds(const qn_grammar_builder *b, const qn_joint_entry *joint, size_t option,
                           const uint64_t *items, bool separator);

/* The automaton. A state has one instruction; a stack's top is a state, below it lie frames. */
typedef enum qn_state_kind {
    QN_STATE_RETURN,       /* to the frame's state; at the bottom: a word has ended */
    QN_STATE_SET,          /* a byte of set a, then b */
    QN_STATE_TOKEN,        /* token a, then b */
    QN_STATE_SPLIT,        /* any of targets[a .. a + b) */
    QN_STATE_CALL,         /* pushes a return to b, then a */
    QN_STATE_REPEAT_ENTER, /* pushes a frame of repeat a, then its head */
    QN_STATE_REPEAT_HEAD,  /* of repeat a: the body again, or out */
    QN_STATE_REPEAT_NEXT,  /* of repeat a: counts, then its head */
    QN_STATE_GROUP_ENTER,  /* pushes a frame of group a, then its head */
    QN_STATE_GROUP_HEAD,   /* of group a: the separator, or out */
    QN_STATE_GROUP_CHOOSE, /* of group a: any item that may come */
    QN_STATE_GROUP_DONE,   /* of group a: item b is through, then its head */
    QN_STATE_JOINT_BRANCH  /* of group a: any of branches[b ..] up to the last of them that leads to an item that may
                              come */
} qn_state_kind;

typedef struct qn_state {
    uint32_t kind, a, b;
} qn_state;

typedef struct qn_repeat {
    uint32_t min, max; /* QN_COUNT_UNBOUNDED: no end; a count is kept no further than it matters */
    uint32_t body, exit, head;
    bool nullable; /* an empty round does not count: min is 0 then */
} qn_repeat;

typedef struct qn_group {
    uint32_t items, words; /* words of bits in a frame */
    uint32_t first_item;   /* entries of the items at targets[first_item ..], and of the extra behind them */
    uint32_t required;     /* the index of its first word of bits */
    uint32_t required_count;
    uint32_t min, max, cap; /* counts stop at cap */
    uint32_t separator, choose, head, exit;
    bool has_extra;
    uint32_t options,
        first_word; /* of joint groups (qn_joint_entry), whose required, min and max are those of options */
} qn_group;

typedef struct qn_branch {
    uint32_t first, last; /* items */
    uint32_t entry;
    bool more; /* another of the same node follows */
} qn_branch;

#define QN_COUNT_UNBOUNDED UINT32_MAX

struct qn_grammar {
    qn_state *states; /* 0: the return */
    size_t state_count;
    uint32_t *targets;
    size_t target_count;
    qn_byte_set *sets;
    size_t set_count;
    qn_repeat *repeats;
    size_t repeat_count;
    qn_group *groups;
    size_t group_count;
    qn_branch *branches;
    size_t branch_count;
    uint64_t *words;
    size_t word_count;
    uint32_t start;
};

#endif
