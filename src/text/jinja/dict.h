/* Dictionaries in the order of their insertion, as Python's. They also hold namespaces and a rendering's variables. */
#ifndef QN_TEXT_JINJA_DICT_H
#define QN_TEXT_JINJA_DICT_H

#include "text/jinja/render.h"

typedef struct qn_dict_entry {
    qn_value key, value;
    uint64_t hash;
} qn_dict_entry;

struct qn_dict {
    size_t count, capacity;
    qn_dict_entry *entries; /* in order */
    uint32_t *slots;        /* open addressing: entry + 1, or 0; NULL while there are few entries */
    size_t slot_mask;
};

/* An empty dictionary with room for `capacity` entries (it grows beyond). */
qn_status qn_dict_new(qn_render *r, size_t capacity, qn_dict **out);
qn_status qn_dict_copy(qn_render *r, const qn_dict *from, qn_dict **out);

/* Sets or replaces; the key keeps its place. Fails for a key that is not hashable. */
qn_status qn_dict_set(qn_render *r, qn_dict *dict, qn_value key, qn_value value);

/* The value, or MISSING. Fails for a key that is not hashable. */
qn_status qn_dict_get(qn_render *r, const qn_dict *dict, qn_value key, qn_value *out);

/* The same for a string, which cannot fail. */
qn_value qn_dict_get_str(const qn_render *r, const qn_dict *dict, const qn_str *key);

#endif
