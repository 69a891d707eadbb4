/* The tokens are kept sorted; all that begin with the text read so far are then neighbours, and reading one more byte
 * narrows their range. What happens around a match (single words, stripping, and the order in which they are applied)
 * follows `tokenizers` to the letter: after a match the search goes on behind the token itself, even where the token
 * took white space along; the ordinary text goes on where the last match, whichever it was, ended; and a token of which
 * an earlier one has taken all the text is dropped. */
#include "text/tokenizer_added.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "text/unicode.h"

qn_status qn_added_set_add(qn_added_set *set, const qn_added_token *token, qn_error *err)
{
    if (set->count == set->capacity) {
        size_t capacity = set->capacity ? set->capacity * 2 : 32;
        qn_added_token *tokens = qn_realloc(set->tokens, capacity, sizeof *tokens);
        if (!tokens)
            return qn_fail_memory(err, "added tokens", capacity * sizeof *tokens);
        set->tokens = tokens;
        set->capacity = capacity;
    }
    qn_added_token copy = *token;
    copy.content = qn_strndup(token->content, token->bytes);
    if (!copy.content)
        return qn_fail_memory(err, "added tokens", token->bytes);
    set->tokens[set->count++] = copy;
    set->begins[(uint8_t)copy.content[0]] = true;
    return QN_OK;
}

static int compare_content(const void *left, const void *right)
{
    const qn_added_token *a = left, *b = right;
    size_t common = a->bytes < b->bytes ? a->bytes : b->bytes;
    int order = memcmp(a->content, b->content, common);
    return order != 0 ? order : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

qn_status qn_added_set_seal(qn_added_set *set, qn_error *err)
{
    if (set->count > 0)
        qsort(set->tokens, set->count, sizeof *set->tokens, compare_content);
    for (size_t i = 1; i < set->count; i++) {
        if (compare_content(&set->tokens[i - 1], &set->tokens[i]) == 0)
            return qn_fail(err, QN_BAD_INPUT, "added tokens %d and %d: both stand for \"%s\": remove one of them",
                           (int)set->tokens[i - 1].id, (int)set->tokens[i].id, set->tokens[i].content);
    }
    return QN_OK;
}

void qn_added_set_free(qn_added_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        qn_free(set->tokens[i].content);
    qn_free(set->tokens);
    *set = (qn_added_set){0};
}

/* The first token in [low, high) whose byte at `depth` is not below `byte`; all of them are longer than `depth`. */
static size_t first_not_below(const qn_added_set *set, size_t low, size_t high, size_t depth, unsigned byte)
{
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((uint8_t)set->tokens[middle].content[depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The longest token that text[0..bytes) begins with, or NULL. */
static const qn_added_token *longest_at(const qn_added_set *set, const char *text, size_t bytes)
{
    const qn_added_token *longest = NULL;
    size_t low = 0, high = set->count;
    for (size_t depth = 0; low < high; depth++) {
        if (set->tokens[low].bytes == depth)
            longest = &set->tokens[low++]; /* sorted: the shorter comes first */
        if (low == high || depth == bytes)
            break;
        unsigned byte = (uint8_t)text[depth];
        if ((uint8_t)set->tokens[low].content[depth] == byte && (uint8_t)set->tokens[high - 1].content[depth] == byte)
            continue;
        low = first_not_below(set, low, high, depth, byte);
        high = first_not_below(set, low, high, depth, byte + 1);
    }
    return longest;
}

const qn_added_token *qn_added_set_get(const qn_added_set *set, const char *content, size_t bytes)
{
    const qn_added_token *longest = longest_at(set, content, bytes);
    return longest && longest->bytes == bytes ? longest : NULL;
}

/* The start of the character that ends before `at`. */
static size_t character_before(const char *text, size_t at)
{
    at--;
    while (at > 0 && ((uint8_t)text[at] & 0xC0) == 0x80)
        at--;
    return at;
}

static bool is_word_at(const char *text, size_t bytes, size_t at)
{
    uint32_t code = 0;
    qn_utf8_decode(text + at, bytes - at, &code);
    return qn_unicode_is_word(code);
}

/* Where the white space before `at` begins, no earlier than `floor`. */
static size_t space_before(const char *text, size_t at, size_t floor)
{
    while (at > floor) {
        size_t start = character_before(text, at);
        uint32_t code = 0;
        qn_utf8_decode(text + start, at - start, &code);
        if (!qn_unicode_is_space(code))
            break;
        at = start;
    }
    return at;
}

static size_t space_behind(const char *text, size_t bytes, size_t at)
{
    while (at < bytes) {
        uint32_t code = 0;
        size_t length = qn_utf8_decode(text + at, bytes - at, &code);
        if (!qn_unicode_is_space(code))
            break;
        at += length;
    }
    return at;
}

/* One walk over a text. */
typedef struct walk {
    const qn_added_set *set;
    const char *text;
    size_t bytes;
    size_t done;                   /* where the last part ends */
    size_t space_start, space_end; /* the white space last looked at behind a token: not read again */
    qn_added_parts *parts;
    qn_error *err;
} walk;

static qn_status add_part(walk *w, size_t start, size_t end, int32_t id)
{
    qn_added_parts *parts = w->parts;
    if (parts->count == parts->capacity) {
        size_t capacity = parts->capacity ? parts->capacity * 2 : 64;
        qn_added_part *items = qn_realloc(parts->items, capacity, sizeof *items);
        if (!items)
            return qn_fail_memory(w->err, "parts of the text", capacity * sizeof *items);
        parts->items = items;
        parts->capacity = capacity;
    }
    parts->items[parts->count++] = (qn_added_part){start, end, id};
    return QN_OK;
}

static qn_status take_match(walk *w, const qn_added_token *token, size_t start)
{
    size_t end = start + token->bytes;
    if (token->single_word && ((start > 0 && is_word_at(w->text, w->bytes, character_before(w->text, start))) ||
                               (end < w->bytes && is_word_at(w->text, w->bytes, end))))
        return QN_OK;
    if (token->lstrip)
        start = start > w->done ? space_before(w->text, start, w->done) : w->done;
    if (token->rstrip) {
        if (end < w->space_start || end > w->space_end) {
            w->space_start = end;
            w->space_end = space_behind(w->text, w->bytes, end);
        }
        end = w->space_end;
    }
    qn_status status = w->done < start ? add_part(w, w->done, start, -1) : QN_OK;
    if (status == QN_OK && start < end)
        status = add_part(w, start, end, token->id);
    w->done = end;
    return status;
}

/* Looks for tokens that lie wholly in start..end-1. */
static qn_status find_between(walk *w, size_t start, size_t end)
{
    for (size_t at = start; at < end;) {
        const qn_added_token *token = w->set->begins[(uint8_t)w->text[at]] ? longest_at(w->set, w->text + at, end - at)
                                                                           : NULL;
        if (!token) {
            at++;
            continue;
        }
        qn_status status = take_match(w, token, at);
        if (status != QN_OK)
            return status;
        at += token->bytes;
    }
    return QN_OK;
}

qn_status qn_added_set_find(const qn_added_set *set, const char *text, size_t bytes, const qn_span *spans,
                            size_t span_count, qn_added_parts *parts, qn_error *err)
{
    walk w = {.set = set, .text = text, .bytes = bytes, .parts = parts, .err = err, .space_start = 1};
    parts->count = 0;
    size_t start = 0;
    qn_status status = QN_OK;
    for (size_t i = 0; status == QN_OK && i < span_count && set->count > 0; i++) {
        if (spans[i].start == spans[i].end)
            continue;
        status = find_between(&w, start, spans[i].start);
        start = spans[i].end;
    }
    if (status == QN_OK && set->count > 0)
        status = find_between(&w, start, bytes);
    if (status == QN_OK && w.done != bytes)
        status = add_part(&w, w.done, bytes, -1);
    return status;
}
