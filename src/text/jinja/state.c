/* Memory, steps and errors of a rendering (render.h). */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/memory.h"
#include "text/jinja/render.h"

qn_status qn_render_fail(qn_render *r, const char *format, ...)
{
    char reason[QN_ERROR_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    return qn_fail(r->err, QN_USAGE, "%s", reason);
}

void *qn_render_alloc(qn_render *r, size_t count, size_t size)
{
    void *block = qn_arena_alloc(r->arena, count, size);
    if (block)
        return block;
    size_t bytes, total; /* as the arena counts: it rounds up to its alignment */
    bool sums = qn_size_mul(count, size, &bytes) && qn_size_add(bytes, qn_arena_used_bytes(r->arena), &total) &&
                qn_size_add(total, 16, &total);
    if (!sums || total > r->limits.memory_bytes)
        qn_render_fail(r, "rendering needs more than %zu bytes of memory", r->limits.memory_bytes);
    else
        qn_fail_memory(r->err, "rendering a chat template", bytes);
    return NULL;
}

qn_status qn_render_work(qn_render *r, uint64_t steps)
{
    if (steps > r->steps_left) {
        r->steps_left = 0;
        return qn_render_fail(r, "rendering takes more than %" PRIu64 " steps", r->limits.steps);
    }
    r->steps_left -= steps;
    return QN_OK;
}

qn_status qn_render_enter(qn_render *r)
{
    if (r->depth >= r->limits.depth)
        return qn_render_fail(r, "nested more than %u levels deep", (unsigned)r->limits.depth);
    ++r->depth;
    return QN_OK;
}

void qn_render_leave(qn_render *r)
{
    --r->depth;
}
