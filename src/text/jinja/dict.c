/* Few entries are compared one by one; from nine on there is a hash table of their positions. */
#include "text/jinja/dict.h"

#include <string.h>

#include "text/jinja/compare.h"
#include "text/jinja/hash.h"
#include "text/jinja/str.h"

enum { LINEAR_ENTRIES = 8 };

qn_status qn_dict_new(qn_render *r, size_t capacity, qn_dict **out)
{
    qn_dict *dict = qn_render_alloc(r, 1, sizeof *dict);
    if (!dict)
        return qn_render_status(r);
    if (capacity > 0) {
        dict->entries = qn_render_alloc(r, capacity, sizeof *dict->entries);
        if (!dict->entries)
            return qn_render_status(r);
        dict->capacity = capacity;
    }
    *out = dict;
    return QN_OK;
}

qn_status qn_dict_copy(qn_render *r, const qn_dict *from, qn_dict **out)
{
    QN_TRY(qn_render_work(r, from->count));
    QN_TRY(qn_dict_new(r, from->count, out));
    for (size_t i = 0; i < from->count; ++i)
        QN_TRY(qn_dict_set(r, *out, from->entries[i].key, from->entries[i].value));
    return QN_OK;
}

static void put_slot(qn_dict *dict, size_t entry)
{
    size_t slot = dict->entries[entry].hash & dict->slot_mask;
    while (dict->slots[slot] != 0)
        slot = (slot + 1) & dict->slot_mask;
    dict->slots[slot] = (uint32_t)entry + 1;
}

/* A table at most half full for the dictionary's capacity. */
static qn_status build_slots(qn_render *r, qn_dict *dict)
{
    size_t slots = 32;
    while (slots < 2 * dict->capacity)
        slots *= 2;
    dict->slots = qn_render_alloc(r, slots, sizeof *dict->slots);
    if (!dict->slots)
        return qn_render_status(r);
    dict->slot_mask = slots - 1;
    for (size_t i = 0; i < dict->count; ++i)
        put_slot(dict, i);
    return QN_OK;
}

static qn_status grow(qn_render *r, qn_dict *dict)
{
    size_t capacity = dict->capacity ? dict->capacity * 2 : 4;
    if (capacity >= UINT32_MAX / 2)
        return qn_render_fail(r, "a dictionary grows beyond %u entries", UINT32_MAX / 2);
    qn_dict_entry *entries = qn_render_alloc(r, capacity, sizeof *entries);
    if (!entries)
        return qn_render_status(r);
    if (dict->count > 0)
        memcpy(entries, dict->entries, dict->count * sizeof *entries);
    dict->entries = entries;
    dict->capacity = capacity;
    return capacity > LINEAR_ENTRIES ? build_slots(r, dict) : QN_OK;
}

/* Entry of the key, or -1. */
static qn_status find(qn_render *r, const qn_dict *dict, qn_value key, uint64_t hash, ptrdiff_t *out)
{
    bool equal = false;
    *out = -1;
    if (!dict->slots) {
        for (size_t i = 0; i < dict->count; ++i) {
            if (dict->entries[i].hash == hash)
                QN_TRY(qn_value_equal(r, dict->entries[i].key, key, &equal));
            if (equal) {
                *out = (ptrdiff_t)i;
                return QN_OK;
            }
        }
        return QN_OK;
    }
    for (size_t slot = hash & dict->slot_mask; dict->slots[slot] != 0; slot = (slot + 1) & dict->slot_mask) {
        size_t entry = dict->slots[slot] - 1;
        if (dict->entries[entry].hash == hash)
            QN_TRY(qn_value_equal(r, dict->entries[entry].key, key, &equal));
        if (equal) {
            *out = (ptrdiff_t)entry;
            return QN_OK;
        }
    }
    return QN_OK;
}

qn_status qn_dict_set(qn_render *r, qn_dict *dict, qn_value key, qn_value value)
{
    uint64_t hash;
    ptrdiff_t entry;
    QN_TRY(qn_value_hash(r, key, &hash));
    QN_TRY(find(r, dict, key, hash, &entry));
    if (entry >= 0) {
        dict->entries[entry].value = value;
        return QN_OK;
    }
    if (dict->count == dict->capacity)
        QN_TRY(grow(r, dict));
    if (!dict->slots && dict->count == LINEAR_ENTRIES)
        QN_TRY(build_slots(r, dict));
    dict->entries[dict->count] = (qn_dict_entry){key, value, hash};
    if (dict->slots)
        put_slot(dict, dict->count);
    ++dict->count;
    return QN_OK;
}

qn_status qn_dict_get(qn_render *r, const qn_dict *dict, qn_value key, qn_value *out)
{
    uint64_t hash;
    ptrdiff_t entry;
    QN_TRY(qn_value_hash(r, key, &hash));
    QN_TRY(find(r, dict, key, hash, &entry));
    *out = entry >= 0 ? dict->entries[entry].value : qn_missing();
    return QN_OK;
}

static bool is_key(const qn_dict_entry *entry, const qn_str *key, uint64_t hash)
{
    return entry->hash == hash && qn_is_string(entry->key) && qn_str_equal(entry->key.string, key);
}

qn_value qn_dict_get_str(const qn_render *r, const qn_dict *dict, const qn_str *key)
{
    uint64_t hash = qn_str_hash(r, key);
    if (!dict->slots) {
        for (size_t i = 0; i < dict->count; ++i) {
            if (is_key(&dict->entries[i], key, hash))
                return dict->entries[i].value;
        }
        return qn_missing();
    }
    for (size_t slot = hash & dict->slot_mask; dict->slots[slot] != 0; slot = (slot + 1) & dict->slot_mask) {
        const qn_dict_entry *entry = &dict->entries[dict->slots[slot] - 1];
        if (is_key(entry, key, hash))
            return entry->value;
    }
    return qn_missing();
}
