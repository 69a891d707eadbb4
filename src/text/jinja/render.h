/* The state of one rendering, and what every part of the interpreter needs of it: memory, errors, bounds.
 *
 * Functions of the interpreter return a status and, on failure, have filled render->err with the reason; the
 * evaluation that was at work then puts template, line and column before it. One thread owns a rendering. */
#ifndef QN_TEXT_JINJA_RENDER_H
#define QN_TEXT_JINJA_RENDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "text/jinja/template.h"
#include "text/jinja/value.h"

/* How statements were left before their end. */
typedef enum qn_signal { QN_SIGNAL_NONE, QN_SIGNAL_BREAK, QN_SIGNAL_CONTINUE } qn_signal;

typedef struct qn_render {
    const qn_template *template;
    qn_arena *arena;
    qn_template_limits limits; /* none of them 0 */
    uint64_t steps_left;
    uint32_t depth;
    uint64_t hash_key[2];     /* of dictionaries: hash.h */
    const qn_dict *variables; /* what names that the template does not set mean */
    qn_error *err;
    bool placed; /* err already tells line and column */

    /* Where the evaluation is; evaluate.h and execute.h. */
    struct qn_activation *activation;
    struct qn_builder *output;
    qn_signal signal;
    qn_value block_text; /* of the filter block at work, until its filter takes it */
} qn_render;

/* Leaves the calling function when the call fails: half the interpreter's lines would be this test otherwise. */
#define QN_TRY(call)                      \
    do {                                  \
        qn_status qn_try_status = (call); \
        if (qn_try_status != QN_OK)       \
            return qn_try_status;         \
    } while (0)

/* Fills render->err with the reason; returns QN_USAGE. */
qn_status qn_render_fail(qn_render *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The status of the error that is there. */
static inline qn_status qn_render_status(const qn_render *r)
{
    return r->err->status != QN_OK ? r->err->status : QN_INTERNAL;
}

/* count * size zeroed bytes of the rendering's arena. On failure fills render->err (QN_USAGE past the limit,
 * QN_RESOURCE out of memory) and returns NULL: callers go on with `return qn_render_status(r)`. */
void *qn_render_alloc(qn_render *r, size_t count, size_t size);

/* Spends steps; fails when none are left. */
qn_status qn_render_work(qn_render *r, uint64_t steps);

/* Around a nested evaluation: fails past the depth limit. Each successful enter has its leave. */
qn_status qn_render_enter(qn_render *r);
void qn_render_leave(qn_render *r);

#endif
