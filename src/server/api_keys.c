#include "server/api_keys.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"

enum { FILE_BYTES = 2 << 20 };

/* Padded with zeros, which no key has, so that all compare alike. */
typedef struct padded_key {
    uint64_t words[QN_API_KEY_BYTES / sizeof(uint64_t)];
} padded_key;

struct qn_api_keys {
    padded_key *keys;
    size_t count, capacity;
};

qn_status qn_api_keys_new(qn_api_keys **out, qn_error *err)
{
    qn_api_keys *keys = qn_alloc_zero(1, sizeof *keys);
    if (keys == NULL) {
        return qn_fail_memory(err, "API keys", sizeof *keys);
    }
    *out = keys;
    return QN_OK;
}

static void wipe_and_free(padded_key *keys, size_t count)
{
    if (keys != NULL) {
        explicit_bzero(keys, count * sizeof *keys);
        qn_free(keys);
    }
}

void qn_api_keys_free(qn_api_keys *keys)
{
    if (keys != NULL) {
        wipe_and_free(keys->keys, keys->count);
        qn_free(keys);
    }
}

static bool is_key(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] <= ' ' || text[i] > '~') {
            return false;
        }
    }
    return bytes > 0 && bytes <= QN_API_KEY_BYTES;
}

static padded_key pad(const char *key, size_t bytes)
{
    padded_key padded = {{0}};
    memcpy(padded.words, key, bytes);
    return padded;
}

/* Room for one more. No realloc, which would leave a copy of the keys behind. */
static bool make_room(qn_api_keys *keys)
{
    if (keys->count < keys->capacity) {
        return true;
    }
    size_t capacity = keys->capacity > 0 ? 2 * keys->capacity : 4;
    padded_key *grown = qn_alloc(capacity, sizeof *grown);
    if (grown == NULL) {
        return false;
    }
    if (keys->count > 0) {
        memcpy(grown, keys->keys, keys->count * sizeof *grown);
    }
    wipe_and_free(keys->keys, keys->count);
    keys->keys = grown;
    keys->capacity = capacity;
    return true;
}

qn_status qn_api_keys_add(qn_api_keys *keys, const char *key, size_t bytes, const char *source, qn_error *err)
{
    if (!is_key(key, bytes)) {
        return qn_fail(err, QN_USAGE, "%s: not a key: give 1 to %d visible ASCII characters without spaces", source,
                       QN_API_KEY_BYTES);
    }
    if (keys->count == QN_API_KEYS_MAX) {
        return qn_fail(err, QN_USAGE, "%s: more than %d keys: give fewer", source, QN_API_KEYS_MAX);
    }
    if (!make_room(keys)) {
        return qn_fail_memory(err, "API keys", 2 * keys->count * sizeof *keys->keys);
    }
    keys->keys[keys->count++] = pad(key, bytes);
    return QN_OK;
}

/* The line without spaces around it. */
static const char *trim(const char *line, size_t *bytes)
{
    static const char blanks[] = " \t\r";
    size_t first = strspn(line, blanks);
    first = first < *bytes ? first : *bytes;
    size_t end = *bytes;
    while (end > first && strchr(blanks, line[end - 1]) != NULL) {
        end--;
    }
    *bytes = end - first;
    return line + first;
}

static qn_status add_lines(qn_api_keys *keys, const char *path, const char *text, size_t size, qn_error *err)
{
    size_t number = 0;
    for (size_t at = 0; at < size;) {
        const char *newline = memchr(text + at, '\n', size - at);
        size_t bytes = newline != NULL ? (size_t)(newline - (text + at)) : size - at;
        size_t next = at + bytes + 1;
        const char *line = trim(text + at, &bytes);
        number++;
        at = next;
        if (bytes == 0 || line[0] == '#') {
            continue;
        }
        qn_status status = qn_api_keys_add(keys, line, bytes, "key", err);
        if (status != QN_OK) {
            return qn_error_prefix(err, "%s line %zu", path, number);
        }
    }
    return QN_OK;
}

static void warn_of_readers(const char *path)
{
    struct stat file;
    if (stat(path, &file) == 0 && (file.st_mode & (S_IRGRP | S_IROTH)) != 0) {
        qn_log("%s: others on this machine may read these keys: chmod 600 keeps them out", path);
    }
}

qn_status qn_api_keys_add_file(qn_api_keys *keys, const char *path, qn_error *err)
{
    char *text = NULL;
    size_t bytes = 0, before = keys->count;
    qn_status status = qn_file_read(path, FILE_BYTES, &text, &bytes, err);
    if (status != QN_OK) {
        return status;
    }
    warn_of_readers(path);
    status = add_lines(keys, path, text, bytes, err);
    explicit_bzero(text, bytes);
    qn_free(text);
    if (status == QN_OK && keys->count == before) {
        status = qn_fail(err, QN_BAD_INPUT, "%s: has no key: write one a line", path);
    }
    return status;
}

size_t qn_api_keys_count(const qn_api_keys *keys)
{
    return keys->count;
}

/* 1 when equal, else 0; no branch on what is compared. */
static long equal(const padded_key *a, const padded_key *b)
{
    volatile uint64_t difference = 0;
    for (size_t i = 0; i < QN_API_KEY_BYTES / sizeof(uint64_t); i++) {
        difference = difference | (a->words[i] ^ b->words[i]);
    }
    uint64_t d = difference;
    return (long)(((d | (0 - d)) >> 63) ^ 1);
}

long qn_api_keys_find(const qn_api_keys *keys, const char *text, size_t bytes)
{
    bool fits = bytes > 0 && bytes <= QN_API_KEY_BYTES;
    padded_key asked = fits ? pad(text, bytes) : (padded_key){{0}}; /* which equals no key */
    long found = 0;                                                 /* index + 1 */
    for (size_t i = 0; i < keys->count; i++) {
        long taken = -equal(&keys->keys[i], &asked);
        found = (found & ~taken) | ((long)(i + 1) & taken);
    }
    explicit_bzero(&asked, sizeof asked);
    return found - 1;
}
