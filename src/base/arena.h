/* An arena: many small allocations with one lifetime, released together.
 *
 * For parsed documents and requests. Not thread-safe: one owner at a time. A limit bounds the total, so
 * that hostile input cannot take all memory; past it allocations return NULL like any failed one. */
#ifndef QN_BASE_ARENA_H
#define QN_BASE_ARENA_H

#include <stddef.h>

typedef struct qn_arena qn_arena;

qn_arena *qn_arena_new(size_t limit_bytes); /* NULL when out of memory */
void qn_arena_free(qn_arena *arena);        /* NULL is fine */

/* count * size bytes, zeroed, aligned to 16; NULL past the limit, on overflow or out of memory. */
void *qn_arena_alloc(qn_arena *arena, size_t count, size_t size);
char *qn_arena_strndup(qn_arena *arena, const char *text, size_t bytes); /* with a NUL behind */
size_t qn_arena_used_bytes(const qn_arena *arena);

#endif
