/* Chat templates: a sandboxed interpreter of the Jinja2 subset they are written in.
 *
 * It renders what transformers renders with Jinja2 3.1's ImmutableSandboxedEnvironment (trim_blocks, lstrip_blocks,
 * loop controls, its own `tojson`, `raise_exception`, `strftime_now`), byte for byte; docs/templates.md lists what is
 * supported. What is not, is an error at load with line and column, never another text. A template can read nothing but
 * what it is given and the clock, and changes nothing: there is no I/O in the language.
 *
 * Every string remembers byte by byte whether it came from the request, through every operation, so that the caller
 * can encode request text as ordinary text and only the template's own text as special tokens (docs/templates.md).
 *
 * Threads: a compiled template never changes; any number of threads may render it at once. */
#ifndef QN_TEXT_JINJA_TEMPLATE_H
#define QN_TEXT_JINJA_TEMPLATE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "text/span.h"

typedef struct qn_template qn_template;

/* Bounds of one rendering; 0 takes the default. */
typedef struct qn_template_limits {
    uint64_t steps;      /* nodes evaluated and, in blocks of some bytes, text copied or searched: 100 million */
    size_t memory_bytes; /* all values made while rendering: 512 MiB */
    size_t output_bytes; /* 64 MiB */
    uint32_t depth;      /* nested evaluations, macro calls among them: 2,000 (under 2 MiB of stack) */
} qn_template_limits;

enum {
    QN_TEMPLATE_MAX_BYTES = 1 << 20,  /* longest source */
    QN_TEMPLATE_MAX_NESTING = 200,    /* blocks, brackets and operators within each other */
    QN_TEMPLATE_MAX_PARAMETERS = 250, /* of a macro, and keywords of a call */
    QN_TEMPLATE_MAX_RANGE = 100000    /* items of range(), as Jinja2's sandbox has it */
};

/* Compiles `source` (UTF-8, copied). `name` stands for it in messages: "NAME line 3, column 7: ...".
 * QN_BAD_INPUT for what is not a template or not supported, QN_RESOURCE for want of memory. */
qn_status qn_template_compile(const char *source, size_t bytes, const char *name, qn_template **out, qn_error *err);
void qn_template_free(qn_template *t); /* NULL is fine */

/* Renders. `request` is an object of variables whose strings, keys included, all came from the request; `trusted` one
 * of the server's own (bos_token), or NULL; a name in both is the request's. Both only need to live during the call.
 * `limits` may be NULL. Appends to `text`, and to `request_spans` (empty, or NULL when not wanted) the ranges of `text`
 * that came from the request.
 *
 * QN_USAGE when the template refuses the request (raise_exception, whose message is the sentence's end) or the
 * request's values do not suit it or a limit is passed; QN_RESOURCE for want of memory. On failure `text` and
 * `request_spans` are as before. */
qn_status qn_template_render(const qn_template *t, const json_t *request, const json_t *trusted,
                             const qn_template_limits *limits, qn_buffer *text, qn_span_list *request_spans,
                             qn_error *err);

/* Whether some expression may read the variable `name` from the context (rather than one the template itself set). */
bool qn_template_reads(const qn_template *t, const char *name);

#endif
