/* Strings that know where their bytes came from.
 *
 * Text is UTF-8; lengths and positions that a template sees count code points, as in Python. A string is immutable and
 * may share its bytes with others. */
#ifndef QN_TEXT_JINJA_STR_H
#define QN_TEXT_JINJA_STR_H

#include "text/jinja/render.h"

typedef enum qn_origin {
    QN_ORIGIN_TEMPLATE, /* the template's own text, or the server's */
    QN_ORIGIN_REQUEST,
    QN_ORIGIN_MIXED /* request bytes are those in `spans` */
} qn_origin;

/* Free bytes behind a string that was built: whoever appends to that string first may have them. So a template that
 * makes a text longer and longer copies each of its bytes but a few times. */
typedef struct qn_room {
    char *end;
    size_t left;
    qn_span *spans; /* the string's, with free places behind them too */
    size_t span_capacity;
} qn_room;

struct qn_str {
    const char *data; /* not NUL-terminated */
    size_t bytes;
    size_t length; /* code points */
    qn_origin origin;
    bool markup;          /* Python's Markup: made by `safe` and `escape` */
    size_t span_count;    /* 0 unless MIXED */
    const qn_span *spans; /* ascending, disjoint, not touching; the last one may reach beyond the string, into what was
                             appended to it */
    qn_room *room;        /* NULL: none */
};

enum { QN_NOT_FOUND = -1 };

/* Code points of valid UTF-8. */
size_t qn_utf8_length(const char *data, size_t bytes);

/* A string over bytes that outlive the rendering (not copied) / over a copy. A literal is the template's. */
qn_status qn_str_wrap(qn_render *r, const char *data, size_t bytes, qn_origin origin, const qn_str **out);
qn_status qn_str_copy(qn_render *r, const char *data, size_t bytes, qn_origin origin, const qn_str **out);
qn_status qn_str_literal(qn_render *r, const char *text, qn_value *out);

/* The bytes from..to-1, which must be whole characters; shares the text. Never Markup. */
qn_status qn_str_slice(qn_render *r, const qn_str *s, size_t from, size_t to, const qn_str **out);

/* The same text with the Markup mark set or not. */
qn_status qn_str_mark(qn_render *r, const qn_str *s, bool markup, const qn_str **out);

/* Byte offset of code point `index` (at most s->length), and back. */
size_t qn_str_offset(const qn_str *s, size_t index);
size_t qn_str_index(const qn_str *s, size_t offset);

bool qn_str_equal(const qn_str *a, const qn_str *b);
int qn_str_compare(const qn_str *a, const qn_str *b); /* by code points: <0, 0, >0 */
bool qn_str_is(const qn_str *s, const char *text);
bool qn_str_starts(const qn_str *s, const qn_str *prefix);
bool qn_str_ends(const qn_str *s, const qn_str *suffix);

/* First and last place of `needle` within the bytes from..to-1, as a byte offset; QN_NOT_FOUND when there is none. */
ptrdiff_t qn_str_find(const qn_str *s, const qn_str *needle, size_t from, size_t to);
ptrdiff_t qn_str_find_last(const qn_str *s, const qn_str *needle, size_t from, size_t to);

/* Spends the steps that going once through `bytes` of text costs. */
qn_status qn_text_work(qn_render *r, size_t bytes);

/* Builds a string piece by piece. Start with qn_builder_start; appends may be made freely, a failure is kept and
 * returned by qn_builder_finish. The memory is the arena's: a builder may simply be dropped. */
typedef struct qn_builder {
    qn_render *render;
    char *data;
    size_t bytes, capacity;
    size_t length; /* code points */
    size_t limit;  /* bytes */
    qn_span *spans;
    size_t span_count, span_capacity;
    qn_status status;
} qn_builder;

qn_builder qn_builder_start(qn_render *r);
qn_builder qn_builder_extend(qn_render *r, const qn_str *s);                           /* one that holds s already */
void qn_builder_text(qn_builder *b, const char *data, size_t bytes, qn_origin origin); /* not MIXED */
void qn_builder_literal(qn_builder *b, const char *text);                              /* the template's */
void qn_builder_code(qn_builder *b, uint32_t code, qn_origin origin);
void qn_builder_str(qn_builder *b, const qn_str *s);
void qn_builder_part(qn_builder *b, const qn_str *s, size_t from, size_t to);
void qn_builder_repeat(qn_builder *b, const qn_str *s, size_t times);
qn_status qn_builder_finish(qn_builder *b, const qn_str **out);
qn_status qn_builder_value(qn_builder *b, qn_value *out); /* finish, as a value */

/* Walks a string character by character, telling each one's origin. Start from {.string = s}; false at the end. */
typedef struct qn_walk {
    const qn_str *string;
    size_t offset; /* of the next character */
    size_t span;   /* index of the span at or behind it */
    uint32_t code; /* the character just read */
    qn_origin origin;
} qn_walk;

bool qn_walk_next(qn_walk *walk);

#endif
