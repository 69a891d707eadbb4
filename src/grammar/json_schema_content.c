/* Schemas that say the same, wherever they stand: generators of schemas write a member's schema anew in each object
 * that has it. Such schemas are one set (json_schema.c), and so one expression, which objects then share.
 *
 * A schema's content is a number, equal for equal ones: it is looked up by a hash of its keywords, where schemas below
 * it count by their own numbers. So each is hashed once, and comparing two goes no deeper than their keywords.
 * Annotations do not count, nor definitions, for a reference to one is the same wherever it stands. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/json_wide.h"
#include "grammar/json_schema_compiler.h"

enum {
    FIRST_SLOTS = 256,
    MOST_ALIKE = 8 /* of one hash and different content: only a hostile schema has more */
};
#define NO_NUMBER 0

/* A number, and what was given it. */
typedef struct content {
    const json_t *schema; /* the first of them */
    uint64_t hash;
    const schema_node *node; /* the first one of which a set was made */
} content;

typedef struct numbered {
    const json_t *schema;
    uint32_t number;
} numbered;

struct schema_contents {
    content *all; /* by number; 0 is none */
    size_t count;
    numbered *by_address; /* hash tables, open addressing */
    uint32_t *by_hash;    /* numbers */
    size_t numbered_count, slots;
    bool full; /* there are so many that the rest are as if all were different */
};

/* Keywords */

typedef enum keyword_part { OF_VALUES, OF_SCHEMAS, OF_NAMED_SCHEMAS, OF_NOTHING } keyword_part;

typedef struct named_part {
    const char *keyword;
    keyword_part part;
} named_part;

static const named_part parts[] = {
    /* sorted; all others are of values */
    {"$comment", OF_NOTHING},
    {"$defs", OF_NOTHING},
    {"additionalItems", OF_SCHEMAS},
    {"additionalProperties", OF_SCHEMAS},
    {"allOf", OF_SCHEMAS},
    {"anyOf", OF_SCHEMAS},
    {"contains", OF_SCHEMAS},
    {"default", OF_NOTHING},
    {"definitions", OF_NOTHING},
    {"dependencies", OF_NAMED_SCHEMAS},
    {"dependentSchemas", OF_NAMED_SCHEMAS},
    {"deprecated", OF_NOTHING},
    {"description", OF_NOTHING},
    {"else", OF_SCHEMAS},
    {"example", OF_NOTHING},
    {"examples", OF_NOTHING},
    {"if", OF_SCHEMAS},
    {"items", OF_SCHEMAS},
    {"not", OF_SCHEMAS},
    {"oneOf", OF_SCHEMAS},
    {"patternProperties", OF_NAMED_SCHEMAS},
    {"prefixItems", OF_SCHEMAS},
    {"properties", OF_NAMED_SCHEMAS},
    {"propertyNames", OF_SCHEMAS},
    {"readOnly", OF_NOTHING},
    {"then", OF_SCHEMAS},
    {"title", OF_NOTHING},
    {"unevaluatedItems", OF_SCHEMAS},
    {"unevaluatedProperties", OF_SCHEMAS},
    {"writeOnly", OF_NOTHING},
};

static int by_keyword(const void *keyword, const void *part)
{
    return strcmp(keyword, ((const named_part *)part)->keyword);
}

static keyword_part part_of(const char *keyword)
{
    const named_part *found = bsearch(keyword, parts, sizeof parts / sizeof *parts, sizeof *parts, by_keyword);
    return found ? found->part : OF_VALUES;
}

/* Hashes */

static uint64_t hash_text(const char *text, size_t bytes)
{
    return qn_hash_bytes(text, bytes).low;
}

/* 2 and 2.0 are one number; beyond 64 bits all are alike. */
static uint64_t hash_number(const json_t *value)
{
    double number = json_is_integer(value) ? (double)json_integer_value(value) : json_real_value(value);
    uint64_t bits = 0;
    if (number != 0 && number > -9e18 && number < 9e18)
        memcpy(&bits, &number, sizeof bits);
    return qn_hash_mix(bits, JSON_REAL);
}

/* Alike for what schema_values_equal calls equal. */
static uint64_t hash_value(const json_t *value)
{
    const char *key;
    json_t *member;
    size_t length;
    if (json_is_string(value))
        return qn_hash_mix(hash_text(json_string_value(value), json_string_length(value)), JSON_STRING);
    if (json_is_number(value) || qn_json_wide_digits(value))
        return hash_number(value);
    uint64_t hash = qn_hash_mix(0, (uint64_t)json_typeof(value));
    for (size_t i = 0; i < json_array_size(value); i++)
        hash = qn_hash_mix(hash, hash_value(json_array_get(value, i)));
    json_object_keylen_foreach((json_t *)(uintptr_t)value, key, length, member)
        hash += qn_hash_mix(hash_text(key, length), hash_value(member));
    return hash;
}

static uint32_t number_of(compiler *c, const json_t *schema);

/* A schema, or an array of schemas. */
static uint64_t hash_schemas(compiler *c, const json_t *value)
{
    if (qn_json_is_object(value))
        return qn_hash_mix(number_of(c, value), JSON_OBJECT);
    uint64_t hash = qn_hash_mix(json_array_size(value), JSON_ARRAY);
    for (size_t i = 0; i < json_array_size(value); i++)
        hash = qn_hash_mix(hash, hash_schemas(c, json_array_get(value, i)));
    return json_is_array(value) ? hash : hash_value(value);
}

static uint64_t hash_keyword(compiler *c, const char *keyword, const json_t *value)
{
    const char *name;
    json_t *schema;
    size_t length;
    keyword_part part = part_of(keyword);
    if (part == OF_VALUES || (part == OF_NAMED_SCHEMAS && !qn_json_is_object(value)))
        return hash_value(value);
    if (part == OF_SCHEMAS)
        return hash_schemas(c, value);
    uint64_t hash = 0;
    json_object_keylen_foreach((json_t *)(uintptr_t)value, name, length, schema)
        hash += qn_hash_mix(hash_text(name, length), hash_schemas(c, schema));
    return hash;
}

static uint64_t hash_schema(compiler *c, const json_t *schema)
{
    const char *keyword;
    json_t *value;
    size_t length;
    uint64_t hash = 0;
    json_object_keylen_foreach((json_t *)(uintptr_t)schema, keyword, length, value)
    {
        if (part_of(keyword) != OF_NOTHING)
            hash += qn_hash_mix(hash_text(keyword, length), hash_keyword(c, keyword, value));
    }
    return hash;
}

/* Whether two are the same */

static bool same_schemas(compiler *c, const json_t *a, const json_t *b)
{
    if (qn_json_is_object(a) && qn_json_is_object(b))
        return number_of(c, a) == number_of(c, b);
    if (!json_is_array(a) || !json_is_array(b))
        return schema_values_equal(a, b);
    bool same = json_array_size(a) == json_array_size(b);
    for (size_t i = 0; same && i < json_array_size(a); i++)
        same = same_schemas(c, json_array_get(a, i), json_array_get(b, i));
    return same;
}

static bool same_keyword(compiler *c, const char *keyword, const json_t *a, const json_t *b)
{
    const char *name;
    json_t *schema;
    size_t length;
    keyword_part part = part_of(keyword);
    if (part == OF_VALUES || (part == OF_NAMED_SCHEMAS && !(qn_json_is_object(a) && qn_json_is_object(b))))
        return schema_values_equal(a, b);
    if (part == OF_SCHEMAS)
        return same_schemas(c, a, b);
    bool same = json_object_size(a) == json_object_size(b);
    json_object_keylen_foreach((json_t *)(uintptr_t)a, name, length, schema)
    {
        const json_t *other = same ? json_object_getn(b, name, length) : NULL;
        same = other && same_schemas(c, schema, other);
    }
    return same;
}

static size_t keyword_count(const json_t *schema)
{
    const char *keyword;
    json_t *value;
    size_t count = 0;
    json_object_foreach((json_t *)(uintptr_t)schema, keyword, value) count += part_of(keyword) != OF_NOTHING;
    return count;
}

static bool same_schema(compiler *c, const json_t *a, const json_t *b)
{
    const char *keyword;
    json_t *value;
    size_t length;
    bool same = keyword_count(a) == keyword_count(b);
    json_object_keylen_foreach((json_t *)(uintptr_t)a, keyword, length, value)
    {
        if (!same || part_of(keyword) == OF_NOTHING)
            continue;
        const json_t *other = json_object_getn(b, keyword, length);
        same = other && same_keyword(c, keyword, value, other);
    }
    return same;
}

/* Numbers */

static size_t address_slot(const struct schema_contents *k, const json_t *schema)
{
    size_t at = (size_t)qn_hash_mix((uint64_t)(uintptr_t)schema, 0) & (k->slots - 1);
    while (k->by_address[at].schema && k->by_address[at].schema != schema)
        at = (at + 1) & (k->slots - 1);
    return at;
}

/* Room for one more schema, and one more content. */
static bool make_room(compiler *c, struct schema_contents *k)
{
    if (2 * (k->numbered_count + 1) <= k->slots)
        return true;
    struct schema_contents old = *k;
    size_t slots = old.slots ? 2 * old.slots : FIRST_SLOTS;
    numbered *by_address = schema_alloc(c, slots, sizeof *by_address);
    uint32_t *by_hash = schema_alloc(c, slots, sizeof *by_hash);
    content *all = schema_alloc(c, slots, sizeof *all);
    if (!by_address || !by_hash || !all)
        return false;
    k->slots = slots;
    k->by_address = by_address;
    k->by_hash = by_hash;
    k->all = all;
    for (size_t i = 0; i < old.slots; i++)
        if (old.by_address[i].schema)
            k->by_address[address_slot(k, old.by_address[i].schema)] = old.by_address[i];
    for (uint32_t n = 1; n <= old.count; n++) {
        size_t at = old.all[n].hash & (k->slots - 1);
        k->all[n] = old.all[n];
        while (k->by_hash[at])
            at = (at + 1) & (k->slots - 1);
        k->by_hash[at] = n;
    }
    return true;
}

/* One of another resource is never the same: references lead elsewhere from it. */
static uint32_t find_content(compiler *c, struct schema_contents *k, const json_t *schema, uint64_t hash)
{
    size_t at = hash & (k->slots - 1), alike = schema_own_id(schema) ? MOST_ALIKE : 0;
    for (; k->by_hash[at]; at = (at + 1) & (k->slots - 1)) {
        const content *known = &k->all[k->by_hash[at]];
        if (known->hash == hash && alike++ < MOST_ALIKE && same_schema(c, schema, known->schema))
            return k->by_hash[at];
    }
    k->all[++k->count] = (content){schema, hash, NULL};
    k->by_hash[at] = (uint32_t)k->count;
    return (uint32_t)k->count;
}

static uint32_t number_of(compiler *c, const json_t *schema)
{
    struct schema_contents *k = c->contents;
    size_t at = k->slots ? address_slot(k, schema) : 0;
    if (k->slots && k->by_address[at].schema)
        return k->by_address[at].number;
    uint64_t hash = k->full ? 0 : hash_schema(c, schema);
    k->full |= k->numbered_count >= SCHEMA_MOST_NODES;
    if (k->full || c->failed || !make_room(c, k))
        return NO_NUMBER;
    uint32_t number = find_content(c, k, schema, hash);
    k->numbered_count++;
    k->by_address[address_slot(k, schema)] = (numbered){schema, number};
    return number;
}

const schema_node *schema_first_like(compiler *c, const schema_node *node)
{
    if (!c->contents)
        c->contents = schema_alloc(c, 1, sizeof *c->contents);
    if (!node || !c->contents || !qn_json_is_object(node->schema) || c->contents->full)
        return node;
    uint32_t number = number_of(c, node->schema);
    if (number == NO_NUMBER || c->contents->full)
        return node;
    content *own = &c->contents->all[number];
    if (!own->node)
        own->node = node;
    return own->node->resource == node->resource ? own->node : node;
}
