/* Hashes of values, for dictionaries.
 *
 * Keys come from requests, so the function is one whose collisions cannot be found without its key, which is drawn anew
 * for each rendering: SipHash-1-3 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012). */
#ifndef QN_TEXT_JINJA_HASH_H
#define QN_TEXT_JINJA_HASH_H

#include "text/jinja/render.h"

/* SipHash-1-3 of the bytes. */
uint64_t qn_siphash_1_3(const uint64_t key[2], const void *data, size_t bytes);

uint64_t qn_str_hash(const qn_render *r, const qn_str *s);

/* Equal values have equal hashes. Fails for what Python calls unhashable. */
qn_status qn_value_hash(qn_render *r, qn_value value, uint64_t *out);

#endif
