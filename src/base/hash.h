/* Checksums: XXH3 with 128 bits, of bytes at once or in pieces. They find damage; they do not resist an attacker. */
#ifndef QN_BASE_HASH_H
#define QN_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct qn_hash {
    uint64_t high, low;
} qn_hash;

enum { QN_HASH_TEXT_BYTES = 33 }; /* 32 hexadecimal digits and a NUL */

qn_hash qn_hash_bytes(const void *data, size_t bytes);
bool qn_hash_equal(qn_hash a, qn_hash b);

/* Lower-case digits, the high half first, as xxhsum prints them. Returns out. */
const char *qn_hash_text(qn_hash hash, char out[QN_HASH_TEXT_BYTES]);
/* Exactly such a text of `bytes` bytes; false for any other. */
bool qn_hash_parse(const char *text, size_t bytes, qn_hash *out);

/* In pieces: new, update any number of times, finish; the split has no influence. Finish may be called at any point and
 * changes nothing; reset begins anew. One thread at a time. */
typedef struct qn_hasher qn_hasher;
qn_hasher *qn_hasher_new(void);         /* NULL when out of memory */
void qn_hasher_free(qn_hasher *hasher); /* NULL is fine */
void qn_hasher_reset(qn_hasher *hasher);
void qn_hasher_update(qn_hasher *hasher, const void *data, size_t bytes);
qn_hash qn_hasher_finish(const qn_hasher *hasher);

/* Two numbers into one for a hash table in memory: quick, and never kept or compared beyond this process. */
static inline uint64_t qn_hash_mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a ^ (b + UINT64_C(0x9E3779B97F4A7C15))) * UINT64_C(0xBF58476D1CE4E5B9);
    return x ^ x >> 29;
}

#endif
