/* malloc and its kin behind one door, so that sizes are checked and failures can be injected in one place.
 *
 * Aligned blocks come from aligned_alloc, whose blocks free() takes as well: one qn_free serves all. */
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/size.h"

enum { ALIGNMENT = 64, FIRST_CAPACITY = 16 /* of an array that grows */ };

bool qn_size_mul(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

bool qn_size_add(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

/* The bytes to ask malloc for, at least one so that empty blocks are unique; false when they cannot be had. */
static bool block_bytes(size_t count, size_t size, size_t *bytes)
{
    if (qn_fault_hit(QN_FAULT_ALLOC) || !qn_size_mul(count, size, bytes) || *bytes > PTRDIFF_MAX)
        return false;
    if (*bytes == 0)
        *bytes = 1;
    return true;
}

void *qn_alloc(size_t count, size_t size)
{
    size_t bytes;
    return block_bytes(count, size, &bytes) ? malloc(bytes) : NULL;
}

void *qn_alloc_zero(size_t count, size_t size)
{
    size_t bytes;
    return block_bytes(count, size, &bytes) ? calloc(1, bytes) : NULL;
}

void *qn_alloc_aligned(size_t count, size_t size)
{
    size_t bytes;
    if (!block_bytes(count, size, &bytes) || bytes > PTRDIFF_MAX - (ALIGNMENT - 1))
        return NULL;
    /* aligned_alloc wants a multiple of the alignment */
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    void *block = aligned_alloc(ALIGNMENT, bytes);
    if (block)
        memset(block, 0, bytes);
    return block;
}

void *qn_realloc(void *block, size_t count, size_t size)
{
    size_t bytes;
    return block_bytes(count, size, &bytes) ? realloc(block, bytes) : NULL;
}

bool qn_reserve(void *block, size_t *capacity, size_t wanted, size_t size)
{
    if (wanted <= *capacity)
        return true;
    size_t doubled;
    if (!qn_size_mul(*capacity, 2, &doubled))
        return false;
    size_t more = qn_max_size(qn_max_size(doubled, FIRST_CAPACITY), wanted);
    void *old, *grown; /* *block is a pointer of another type: moved by its bytes */
    memcpy(&old, block, sizeof old);
    grown = qn_realloc(old, more, size);
    if (!grown)
        return false;
    memcpy(block, &grown, sizeof grown);
    *capacity = more;
    return true;
}

void qn_free(void *block)
{
    free(block);
}

char *qn_strndup(const char *text, size_t bytes)
{
    size_t with_nul;
    if (!qn_size_add(bytes, 1, &with_nul))
        return NULL;
    char *copy = qn_alloc(with_nul, 1);
    if (!copy)
        return NULL;
    if (bytes > 0)
        memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    return copy;
}

char *qn_strdup(const char *text)
{
    return qn_strndup(text, strlen(text));
}
