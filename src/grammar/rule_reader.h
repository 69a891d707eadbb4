/* What the readers of GBNF and Lark have in common: where they stand, white space, quoted text, and rules made of
 * alternatives made of sequences of items with quantifiers. What differs is a qn_rule_notation.
 *
 * All functions that return bool: false when reading failed, and r->err tells why. */
#ifndef QN_GRAMMAR_RULE_READER_H
#define QN_GRAMMAR_RULE_READER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "grammar/char_set.h"
#include "grammar/rule_table.h"
#include "grammar/source.h"

typedef struct qn_rule_reader qn_rule_reader;

typedef struct qn_rule_notation {
    const char *blanks;                    /* white space besides ends of lines */
    bool slash_comments;                   /* a comment may begin with // as well as with # */
    const char *quoted;                    /* what text in quotes is called */
    char bounds;                           /* the quantifier that counts follow */
    bool (*ends)(const qn_rule_reader *r); /* does the sequence end here? */
    /* *name: the rule that is used, for the caller to see a rule that begins with itself; NULL: something else. */
    bool (*read_item)(qn_rule_reader *r, qn_expr *out, const char **name, size_t *bytes);
    /* Behind `bounds`, which is at `start`. */
    bool (*read_bounds)(qn_rule_reader *r, size_t start, size_t *min, size_t *max);
    bool (*end_sequence)(qn_rule_reader *r); /* reads what may stand behind a sequence; NULL: nothing may */
} qn_rule_notation;

/* Start from {0} with notation, source, b and err; release with qn_rule_reader_free. */
struct qn_rule_reader {
    const qn_rule_notation *notation;
    qn_source source;
    qn_grammar_builder *b;
    qn_rule_table rules;
    qn_expr_list exprs;           /* parts and alternatives of what is being read */
    qn_alternatives alternatives; /* of the rule being read */
    qn_buffer literal;            /* UTF-8, after escapes */
    qn_char_set set;              /* the class being read */
    unsigned depth;               /* of parentheses */
    qn_error *err;
};

/* False, with the place and a sentence. */
#define QN_RULE_FAIL(r, at, ...) (qn_source_fail(&(r)->source, at, (r)->err, __VA_ARGS__), false)

bool qn_rule_no_memory(qn_rule_reader *r); /* false */

/* Blanks and comments, over the ends of lines if they mean nothing here. */
void qn_rule_skip_space(qn_rule_reader *r, bool lines);

/* Text in quotes, at the first of them, into r->literal. */
bool qn_rule_read_quoted(qn_rule_reader *r);

/* At the end of a line, outside parentheses: goes to a | that begins one of the next lines. */
void qn_rule_join_next_line(qn_rule_reader *r);

/* Adds each alternative to r->alternatives, as those of the rule `own`; without one, pushes each on r->exprs. */
bool qn_rule_read_alternatives(qn_rule_reader *r, const qn_named_rule *own);

void qn_rule_reader_free(qn_rule_reader *r);

#endif
