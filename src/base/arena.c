/* Chunks in a list, each filled from its front. A block that does not fit the newest chunk starts another; what is left
 * of the old one is given up, which wastes at most one chunk's end per chunk. Chunks double, so that a large document
 * costs few of them.
 *
 * Under AddressSanitizer the unused part of a chunk is poisoned and each block has a poisoned gap behind it, so that an
 * overrun inside an arena is found like one on the heap. */
#include "base/arena.h"

#include <stdint.h>
#include <string.h>

#include "base/memory.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_ASAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define ARENA_ASAN 1
#endif

#ifdef ARENA_ASAN
#include <sanitizer/asan_interface.h>
enum { GAP_BYTES = 16 };
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) ((void)0)
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) ((void)0)
enum { GAP_BYTES = 0 };
#endif

enum { ALIGNMENT = 16, FIRST_CHUNK_BYTES = 4096, LARGEST_CHUNK_BYTES = 1 << 20 };

typedef struct chunk {
    struct chunk *next;
    size_t capacity, filled; /* bytes of data */
    _Alignas(ALIGNMENT) uint8_t data[];
} chunk;

struct qn_arena {
    chunk *newest;
    size_t limit, used;      /* bytes handed out, rounded up to the alignment */
    size_t next_chunk_bytes; /* capacity of the next ordinary chunk */
};

qn_arena *qn_arena_new(size_t limit_bytes)
{
    qn_arena *arena = qn_alloc_zero(1, sizeof *arena);
    if (!arena)
        return NULL;
    arena->limit = limit_bytes;
    arena->next_chunk_bytes = FIRST_CHUNK_BYTES;
    return arena;
}

void qn_arena_free(qn_arena *arena)
{
    if (!arena)
        return;
    chunk *at = arena->newest;
    while (at) {
        chunk *next = at->next;
        ASAN_UNPOISON_MEMORY_REGION(at->data, at->capacity);
        qn_free(at);
        at = next;
    }
    qn_free(arena);
}

/* A chunk with room for at least `bytes`, made the newest; NULL when out of memory. */
static chunk *add_chunk(qn_arena *arena, size_t bytes)
{
    size_t capacity = bytes > arena->next_chunk_bytes ? bytes : arena->next_chunk_bytes, total;
    if (!qn_size_add(capacity, sizeof(chunk), &total))
        return NULL;
    chunk *added = qn_alloc_zero(total, 1);
    if (!added)
        return NULL;
    added->capacity = capacity;
    ASAN_POISON_MEMORY_REGION(added->data, capacity);
    added->next = arena->newest;
    arena->newest = added;
    if (arena->next_chunk_bytes < LARGEST_CHUNK_BYTES)
        arena->next_chunk_bytes *= 2;
    return added;
}

void *qn_arena_alloc(qn_arena *arena, size_t count, size_t size)
{
    size_t bytes, rounded, with_gap;
    if (!qn_size_mul(count, size, &bytes))
        return NULL;
    if (bytes == 0)
        bytes = 1;
    if (!qn_size_add(bytes, ALIGNMENT - 1, &rounded))
        return NULL;
    rounded -= rounded % ALIGNMENT;
    if (rounded > arena->limit - arena->used || !qn_size_add(rounded, GAP_BYTES, &with_gap))
        return NULL;

    chunk *from = arena->newest;
    if (!from || from->capacity - from->filled < with_gap) {
        from = add_chunk(arena, with_gap);
        if (!from)
            return NULL;
    }
    void *block = from->data + from->filled;
    from->filled += with_gap;
    arena->used += rounded;
    ASAN_UNPOISON_MEMORY_REGION(block, bytes);
    return block;
}

char *qn_arena_strndup(qn_arena *arena, const char *text, size_t bytes)
{
    size_t with_nul;
    if (!qn_size_add(bytes, 1, &with_nul))
        return NULL;
    char *copy = qn_arena_alloc(arena, with_nul, 1);
    if (copy && bytes > 0)
        memcpy(copy, text, bytes);
    return copy;
}

size_t qn_arena_used_bytes(const qn_arena *arena)
{
    return arena->used;
}
