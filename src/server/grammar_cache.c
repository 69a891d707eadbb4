#include "server/grammar_cache.h"

#include <pthread.h>
#include <string.h>

#include "base/buffer.h"
#include "base/hash.h"
#include "base/json_wide.h"
#include "base/memory.h"
#include "base/size.h"

typedef struct entry {
    qn_hash hash; /* of the key, to find it by */
    char *key;    /* all of it, for a hash can be forged; NULL: the entry is free */
    size_t key_bytes;
    qn_answer_grammar *grammar;
    uint64_t used; /* when, by the cache's own count */
} entry;

struct qn_grammar_cache {
    const qn_tokenizer *tokenizer;
    const qn_vocabulary_trie *trie;
    pthread_mutex_t mutex; /* of what follows */
    entry entries[QN_GRAMMAR_CACHE_ENTRIES];
    uint64_t clock;
    size_t hits, compiled;
};

qn_status qn_grammar_cache_new(const qn_tokenizer *tokenizer, const qn_vocabulary_trie *trie, qn_grammar_cache **out,
                               qn_error *err)
{
    qn_grammar_cache *cache = qn_alloc_zero(1, sizeof *cache);
    if (cache == NULL) {
        return qn_fail_memory(err, "grammars", sizeof *cache);
    }
    cache->tokenizer = tokenizer;
    cache->trie = trie;
    pthread_mutex_init(&cache->mutex, NULL);
    *out = cache;
    return QN_OK;
}

static void release_entry(entry *e)
{
    qn_free(e->key);
    qn_answer_grammar_release(e->grammar);
    *e = (entry){0};
}

void qn_grammar_cache_free(qn_grammar_cache *cache)
{
    if (cache == NULL) {
        return;
    }
    for (size_t i = 0; i < QN_GRAMMAR_CACHE_ENTRIES; i++) {
        release_entry(&cache->entries[i]);
    }
    pthread_mutex_destroy(&cache->mutex);
    qn_free(cache);
}

/* ---- keys: all that a grammar depends on, as text ---- */

static void append_flags(qn_buffer *key, const char *name, const bool *flags, size_t count)
{
    qn_buffer_format(key, "\n%s ", name);
    for (size_t i = 0; flags != NULL && i < count; i++) {
        qn_buffer_char(key, flags[i] ? '1' : '0');
    }
    qn_buffer_text(key, flags == NULL ? "all" : "");
}

/* False: it has none, being too large. */
static bool write_key(const qn_answer_format *format, qn_calls_place place, const qn_call_rules *rules, qn_buffer *key)
{
    qn_buffer_format(key, "%d %d %d ", (int)format->kind, (int)format->compact, (int)place);
    if (format->value != NULL && !qn_json_wide_write(format->value, QN_GRAMMAR_CACHE_MAX_KEY_BYTES, key)) {
        return false;
    }
    if (place != QN_CALLS_NONE) {
        size_t count = json_array_size(rules->tools);
        append_flags(key, "callable", rules->callable, count);
        append_flags(key, "held", rules->held, count);
        qn_buffer_format(key, "\n%zu %zu %d ", rules->min, rules->max, (int)rules->line_breaks);
        if (!qn_json_wide_write(rules->tools, QN_GRAMMAR_CACHE_MAX_KEY_BYTES, key)) {
            return false;
        }
    }
    return !key->failed;
}

/* ---- the cache ---- */

/* With the mutex held. */
static entry *find(qn_grammar_cache *cache, qn_hash hash, const qn_buffer *key)
{
    for (size_t i = 0; i < QN_GRAMMAR_CACHE_ENTRIES; i++) {
        entry *e = &cache->entries[i];
        if (e->key != NULL && qn_hash_equal(e->hash, hash) && e->key_bytes == key->size &&
            memcmp(e->key, key->data, key->size) == 0) {
            return e;
        }
    }
    return NULL;
}

static size_t mask_bytes(const entry *e)
{
    return e->key != NULL ? qn_mask_cache_bytes(qn_answer_grammar_masks(e->grammar)) : 0;
}

/* The entry to be used next: a free one, else the oldest. */
static entry *oldest_of(qn_grammar_cache *cache, bool taken_only)
{
    entry *oldest = NULL;
    for (size_t i = 0; i < QN_GRAMMAR_CACHE_ENTRIES; i++) {
        entry *e = &cache->entries[i];
        if ((e->key != NULL || !taken_only) && (oldest == NULL || e->used < oldest->used)) {
            oldest = e;
        }
    }
    return oldest;
}

/* Masks grow while answers are made. With the mutex held. */
static void trim(qn_grammar_cache *cache)
{
    size_t bytes = 0;
    for (size_t i = 0; i < QN_GRAMMAR_CACHE_ENTRIES; i++) {
        bytes += mask_bytes(&cache->entries[i]);
    }
    while (bytes > QN_GRAMMAR_CACHE_BYTES) {
        entry *oldest = oldest_of(cache, true);
        if (oldest == NULL) {
            return;
        }
        bytes -= qn_min_size(bytes, mask_bytes(oldest));
        release_entry(oldest);
    }
}

static qn_answer_grammar *look_up(qn_grammar_cache *cache, qn_hash hash, const qn_buffer *key)
{
    qn_answer_grammar *grammar = NULL;
    pthread_mutex_lock(&cache->mutex);
    trim(cache);
    entry *e = find(cache, hash, key);
    if (e != NULL) {
        e->used = ++cache->clock;
        cache->hits++;
        grammar = qn_answer_grammar_share(e->grammar);
    }
    pthread_mutex_unlock(&cache->mutex);
    return grammar;
}

/* Where memory is short, it is not kept, which costs time only. */
static void keep(qn_grammar_cache *cache, qn_hash hash, const qn_buffer *key, qn_answer_grammar *grammar)
{
    char *copy = qn_strndup(key->data, key->size);
    pthread_mutex_lock(&cache->mutex);
    cache->compiled++;
    if (copy != NULL && find(cache, hash, key) == NULL) {
        entry *e = oldest_of(cache, false);
        release_entry(e);
        *e = (entry){.hash = hash,
                     .key = copy,
                     .key_bytes = key->size,
                     .grammar = qn_answer_grammar_share(grammar),
                     .used = ++cache->clock};
        copy = NULL;
    }
    pthread_mutex_unlock(&cache->mutex);
    qn_free(copy);
}

qn_status qn_grammar_cache_get(qn_grammar_cache *cache, const qn_answer_format *format, qn_calls_place place,
                               const qn_call_rules *rules, qn_answer_grammar **out, qn_error *err)
{
    qn_buffer key = {0};
    qn_hash hash = {0};
    bool has_key = write_key(format, place, rules, &key);
    *out = NULL;
    if (has_key) {
        hash = qn_hash_bytes(key.data, key.size);
        *out = look_up(cache, hash, &key);
    }
    qn_status status = QN_OK;
    if (*out == NULL) {
        status = qn_answer_grammar_new(cache->tokenizer, cache->trie, format, place, rules, out, err);
        if (status == QN_OK && has_key) {
            keep(cache, hash, &key, *out);
        }
    }
    qn_buffer_free(&key);
    return status;
}

qn_grammar_counts qn_grammar_cache_counts(qn_grammar_cache *cache)
{
    pthread_mutex_lock(&cache->mutex);
    qn_grammar_counts counts = {.hits = cache->hits, .compiled = cache->compiled};
    for (size_t i = 0; i < QN_GRAMMAR_CACHE_ENTRIES; i++) {
        counts.kept += cache->entries[i].key != NULL;
        counts.bytes += mask_bytes(&cache->entries[i]);
    }
    pthread_mutex_unlock(&cache->mutex);
    return counts;
}
