/* Numbers hash as doubles and tuples as the run of their items' hashes, so that what compares equal hashes the same. */
#include "text/jinja/hash.h"

#include <string.h>

#include "text/jinja/compare.h"
#include "text/jinja/number.h"
#include "text/jinja/str.h"

static uint64_t rotate(uint64_t word, unsigned bits)
{
    return word << bits | word >> (64 - bits);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[0] = rotate(v[0], 32);
    v[2] += v[3];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[2] = rotate(v[2], 32);
}

static void take_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
}

uint64_t qn_siphash_1_3(const uint64_t key[2], const void *data, size_t bytes)
{
    const unsigned char *at = data;
    uint64_t v[4] = {key[0] ^ UINT64_C(0x736F6D6570736575), key[1] ^ UINT64_C(0x646F72616E646F6D),
                     key[0] ^ UINT64_C(0x6C7967656E657261), key[1] ^ UINT64_C(0x7465646279746573)};
    uint64_t last = (uint64_t)bytes << 56;
    for (size_t rest = bytes; rest >= 8; rest -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        take_word(v, word);
    }
    for (size_t i = 0; i < bytes % 8; ++i)
        last |= (uint64_t)at[i] << (8 * i);
    take_word(v, last);
    v[2] ^= 0xFF;
    for (int i = 0; i < 3; ++i)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint64_t qn_str_hash(const qn_render *r, const qn_str *s)
{
    return qn_siphash_1_3(r->hash_key, s->data, s->bytes);
}

/* Numbers that compare equal are the same double at least, so that is what is hashed. */
static uint64_t number_hash(const qn_render *r, qn_value value)
{
    double real = qn_number_to_double(value);
    if (real == 0)
        real = 0; /* -0 == 0 */
    return qn_siphash_1_3(r->hash_key, &real, sizeof real);
}

static qn_status hash_items(qn_render *r, const qn_list *list, uint64_t *out)
{
    uint64_t run[2] = {list->count, 0};
    for (size_t i = 0; i < list->count; ++i) {
        QN_TRY(qn_render_work(r, 1));
        QN_TRY(qn_value_hash(r, list->items[i], &run[1]));
        run[0] = qn_siphash_1_3(r->hash_key, run, sizeof run);
    }
    *out = run[0];
    return QN_OK;
}

qn_status qn_value_hash(qn_render *r, qn_value value, uint64_t *out)
{
    qn_status status;
    switch (value.kind) {
    case QN_VALUE_STRING:
        QN_TRY(qn_text_work(r, value.string->bytes));
        *out = qn_str_hash(r, value.string);
        return QN_OK;
    case QN_VALUE_TUPLE:
        QN_TRY(qn_render_enter(r));
        status = hash_items(r, value.list, out);
        qn_render_leave(r);
        return status;
    case QN_VALUE_RANGE:
        *out = (uint64_t)value.range->count;
        return QN_OK;
    case QN_VALUE_LIST:
    case QN_VALUE_DICT:
    case QN_VALUE_VIEW:
        return qn_render_fail(r, "unhashable type: '%s'", qn_type_name(value));
    case QN_VALUE_MISSING:
    case QN_VALUE_UNDEFINED:
    case QN_VALUE_NONE:
    case QN_VALUE_METHOD:
        *out = (uint64_t)value.kind;
        return QN_OK;
    default: /* numbers, and what is equal only to itself */
        *out = qn_is_number(value) ? number_hash(r, value) : (uint64_t)(uintptr_t)value.names;
        return QN_OK;
    }
}
