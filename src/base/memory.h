/* Allocation with checked sizes and one injector for faults.
 *
 * Every allocation of quern goes through here, so that tests can make the n-th one fail (fault.h) and
 * sizes that come from input are multiplied with a check. All return NULL on failure or overflow and
 * set no error: the caller says what the memory was for (qn_fail_memory). Released by qn_free only. */
#ifndef QN_BASE_MEMORY_H
#define QN_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* count * size bytes, uninitialised / zeroed. count or size 0 gives a unique pointer, never NULL. */
void *qn_alloc(size_t count, size_t size);
void *qn_alloc_zero(size_t count, size_t size);

/* 64-byte aligned and zeroed: what kernels read and write. */
void *qn_alloc_aligned(size_t count, size_t size);

/* Grows or shrinks; on failure the old block stays valid and NULL is returned. Not for aligned blocks. */
void *qn_realloc(void *block, size_t count, size_t size);

/* For an array that grows: makes room for `wanted` elements in all where *capacity is less, at least twice as many as
 * before. `block` is the address of the pointer to it, which may be NULL. False: out of memory, all as it was. */
bool qn_reserve(void *block, size_t *capacity, size_t wanted, size_t size);

void qn_free(void *block); /* NULL is fine; takes blocks of all the functions above */

char *qn_strndup(const char *text, size_t bytes); /* copy with a NUL behind */
char *qn_strdup(const char *text);

/* *out = a * b, *out = a + b; false on overflow, *out then unspecified. */
bool qn_size_mul(size_t a, size_t b, size_t *out);
bool qn_size_add(size_t a, size_t b, size_t *out);

#endif
