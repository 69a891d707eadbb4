/* Places of the grammar are kept for the last positions of the answer: drafts are masked before they are verified, and
 * those that follow a rejected one begin again a few tokens earlier. */
#include "text/constraint.h"

#include <pthread.h>
#include <string.h>

#include "base/memory.h"

enum {
    KEPT_PLACES = 32,      /* more than the drafts of a step */
    LONGEST_CHARACTER = 4, /* bytes of UTF-8 */
    WORD_BITS = 64
};

/* Where the grammar is behind `length` tokens of its word. */
typedef struct place {
    qn_matcher *matcher; /* NULL: no word begins so, or the word has ended */
    size_t length;
    unsigned users; /* who reads it without the mutex, and the list */
} place;

struct qn_constraint {
    qn_constraint_options options;
    int32_t think_begin, think_end; /* -1: the tokenizer has none */
    pthread_mutex_t mutex;          /* of what follows */
    qn_tokens word;                 /* tokens that the latest place has behind it */
    place *places[KEPT_PLACES];     /* by length, the latest last */
    size_t place_count;
};

static void release_place(place *p)
{
    if (--p->users == 0) {
        qn_matcher_free(p->matcher);
        qn_free(p);
    }
}

static place *new_place(qn_matcher *matcher, size_t length)
{
    place *p = qn_alloc_zero(1, sizeof *p);
    if (p == NULL) {
        qn_matcher_free(matcher);
        return NULL;
    }
    *p = (place){.matcher = matcher, .length = length, .users = 1};
    return p;
}

/* As the latest; the oldest but the first goes where there is no room. */
static void keep_place(qn_constraint *c, place *p)
{
    if (c->place_count == KEPT_PLACES) {
        release_place(c->places[1]);
        memmove(&c->places[1], &c->places[2], (KEPT_PLACES - 2) * sizeof(place *));
        c->place_count--;
    }
    c->places[c->place_count++] = p;
}

static void allow(uint64_t *allowed, int32_t token)
{
    allowed[(size_t)token / WORD_BITS] |= UINT64_C(1) << ((size_t)token % WORD_BITS);
}

static void allow_all(const qn_constraint *c, uint64_t *allowed)
{
    size_t words = c->options.vocab_size / WORD_BITS, rest = c->options.vocab_size % WORD_BITS;
    memset(allowed, 0xFF, words * sizeof *allowed);
    if (rest > 0) {
        allowed[words] = (UINT64_C(1) << rest) - 1;
    }
}

static size_t mask_words(const qn_constraint *c)
{
    return (c->options.vocab_size + WORD_BITS - 1) / WORD_BITS;
}

qn_status qn_thought_mask_new(const qn_tokenizer *tokenizer, size_t vocab_size, uint64_t **out, qn_error *err)
{
    size_t words = (vocab_size + WORD_BITS - 1) / WORD_BITS;
    uint64_t *mask = qn_alloc_zero(words, sizeof *mask);
    if (mask == NULL) {
        return qn_fail_memory(err, "grammar", words * sizeof *mask);
    }
    for (size_t token = 0; token < vocab_size && token < qn_tokenizer_size(tokenizer); token++) {
        if (!qn_tokenizer_is_added(tokenizer, (int32_t)token)) {
            allow(mask, (int32_t)token);
        }
    }
    int32_t think_end = qn_tokenizer_find_added(tokenizer, "</think>");
    if (think_end >= 0 && (size_t)think_end < vocab_size) {
        allow(mask, think_end);
    }
    *out = mask;
    return QN_OK;
}

static qn_status start_grammar(qn_constraint *c, qn_error *err)
{
    qn_matcher *matcher = NULL;
    qn_status status = qn_matcher_new(c->options.grammar, &matcher, err);
    if (status != QN_OK) {
        return status;
    }
    place *p = new_place(matcher, 0);
    if (p == NULL) {
        return qn_fail_memory(err, "grammar", sizeof *p);
    }
    keep_place(c, p);
    return QN_OK;
}

qn_status qn_constraint_new(const qn_constraint_options *options, qn_constraint **out, qn_error *err)
{
    qn_constraint *c = qn_alloc_zero(1, sizeof *c);
    if (c == NULL) {
        return qn_fail_memory(err, "grammar", sizeof *c);
    }
    c->options = *options;
    c->think_begin = qn_tokenizer_find_added(options->tokenizer, "<think>");
    c->think_end = qn_tokenizer_find_added(options->tokenizer, "</think>");
    if (c->think_end < 0 || (c->think_begin < 0 && options->thoughts == QN_THOUGHTS_OPTIONAL)) {
        c->options.thoughts = QN_THOUGHTS_NONE;
    }
    pthread_mutex_init(&c->mutex, NULL);
    qn_status status = options->grammar != NULL ? start_grammar(c, err) : QN_OK;
    if (status != QN_OK) {
        qn_constraint_free(c);
        return status;
    }
    *out = c;
    return QN_OK;
}

void qn_constraint_free(qn_constraint *c)
{
    if (c == NULL) {
        return;
    }
    for (size_t i = 0; i < c->place_count; i++) {
        release_place(c->places[i]);
    }
    qn_tokens_free(&c->word);
    pthread_mutex_destroy(&c->mutex);
    qn_free(c);
}

static void allow_end(const qn_constraint *c, uint64_t *allowed)
{
    for (size_t i = 0; i < c->options.eos_count; i++) {
        allow(allowed, c->options.eos[i]);
    }
}

/* Does the text of the tokens end inside of a character? */
static bool inside_character(const qn_tokenizer *tokenizer, const int32_t *tokens, size_t count)
{
    size_t continuing = 0;
    for (size_t i = count; i-- > 0;) {
        size_t bytes = 0;
        const char *text = qn_tokenizer_token_bytes(tokenizer, tokens[i], &bytes);
        for (size_t k = bytes; text != NULL && k-- > 0;) {
            unsigned char byte = (unsigned char)text[k];
            if (byte < 0x80 || continuing == LONGEST_CHARACTER) {
                return false;
            }
            if (byte >= 0xC0) {
                size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
                return continuing + 1 < length;
            }
            continuing++;
        }
    }
    return false;
}

static void fill_thoughts(const qn_constraint *c, const int32_t *thoughts, size_t count, uint64_t *allowed)
{
    const qn_constraint_options *o = &c->options;
    bool spent = o->has_budget && count >= o->budget;
    bool finishes = spent && count - o->budget < LONGEST_CHARACTER - 1 &&
                    inside_character(o->tokenizer, thoughts, count);
    if (spent && !finishes) {
        allow(allowed, c->think_end);
    } else if (o->grammar != NULL) {
        memcpy(allowed, o->thought_mask, mask_words(c) * sizeof *allowed);
    } else {
        allow_all(c, allowed);
    }
}

static qn_status out_of_memory(qn_error *err)
{
    return qn_fail_memory(err, "grammar", sizeof(place));
}

static qn_status too_many_readings(qn_error *err)
{
    return qn_fail(err, QN_USAGE, "grammar: too many readings of the answer at once: make it simpler");
}

/* Behind one more token; without a matcher when no word goes on so. NULL when out of memory, or of a matcher's bounds.
 */
static place *step_on(const qn_constraint *c, const place *from, int32_t token, qn_error *err)
{
    qn_matcher *matcher = NULL;
    if (from->matcher != NULL) {
        if (qn_matcher_clone(from->matcher, &matcher, err) != QN_OK) {
            return NULL;
        }
        size_t bytes = 0;
        const qn_tokenizer *tokenizer = c->options.tokenizer;
        const char *text = qn_tokenizer_token_bytes(tokenizer, token, &bytes);
        bool taken = qn_tokenizer_is_added(tokenizer, token)
                         ? qn_matcher_token(matcher, token)
                         : text != NULL && bytes > 0 && qn_matcher_bytes(matcher, text, bytes) == bytes;
        if (!taken) {
            bool unknown = qn_matcher_exhausted(matcher), no_memory = qn_matcher_short_of_memory(matcher);
            qn_matcher_free(matcher);
            matcher = NULL;
            if (unknown) {
                (void)(no_memory ? out_of_memory(err) : too_many_readings(err));
                return NULL;
            }
        }
    }
    place *next = new_place(matcher, from->length + 1);
    if (next == NULL) {
        (void)out_of_memory(err);
    }
    return next;
}

/* The place behind the word, to be released; NULL when it cannot be found. With the mutex held. */
static place *find_place(qn_constraint *c, const int32_t *word, size_t length, qn_error *err)
{
    size_t same = 0;
    while (same < length && same < c->word.count && word[same] == c->word.ids[same]) {
        same++;
    }
    size_t from = c->place_count - 1;
    while (c->places[from]->length > same) {
        from--;
    }
    if (c->places[from]->length < length) {
        /* what follows is not what came before: the later places are of another word */
        while (c->place_count > from + 1) {
            release_place(c->places[--c->place_count]);
        }
        c->word.count = c->places[from]->length;
        for (size_t at = c->word.count; at < length; at++) {
            place *next = step_on(c, c->places[c->place_count - 1], word[at], err);
            if (next == NULL) {
                return NULL;
            }
            if (!qn_tokens_add(&c->word, word[at])) {
                (void)out_of_memory(err);
                release_place(next);
                return NULL;
            }
            keep_place(c, next);
        }
        from = c->place_count - 1;
    }
    c->places[from]->users++;
    return c->places[from];
}

static bool allows_any(const qn_constraint *c, const uint64_t *allowed)
{
    for (size_t i = 0; i * WORD_BITS < c->options.vocab_size; i++) {
        if (allowed[i] != 0) {
            return true;
        }
    }
    return false;
}

static qn_status fill_word(qn_constraint *c, const int32_t *word, size_t length, uint64_t *allowed)
{
    pthread_mutex_lock(&c->mutex);
    qn_error err;
    place *p = find_place(c, word, length, &err);
    pthread_mutex_unlock(&c->mutex);
    if (p == NULL) {
        return err.status;
    }
    qn_status status = p->matcher == NULL ? QN_OK : qn_mask_fill(c->options.cache, p->matcher, allowed, &err);
    if (p->matcher == NULL || qn_matcher_can_end(p->matcher)) {
        allow_end(c, allowed);
    } else if (status == QN_OK && !allows_any(c, allowed)) {
        status = too_many_readings(&err);
    }
    pthread_mutex_lock(&c->mutex);
    release_place(p);
    pthread_mutex_unlock(&c->mutex);
    return status;
}

static qn_status fill_content(qn_constraint *c, const int32_t *word, size_t length, uint64_t *allowed)
{
    if (c->options.grammar != NULL) {
        return fill_word(c, word, length, allowed);
    }
    allow_all(c, allowed);
    return QN_OK;
}

qn_status qn_constraint_fill(void *constraint, const int32_t *answer, size_t count, uint64_t *allowed)
{
    qn_constraint *c = constraint;
    size_t at = 0; /* where thoughts begin */
    bool thinks = c->options.thoughts == QN_THOUGHTS_OPEN;
    bool may_begin = c->options.thoughts == QN_THOUGHTS_OPTIONAL && count == 0;
    if (c->options.thoughts == QN_THOUGHTS_OPTIONAL && count > 0 && answer[0] == c->think_begin) {
        thinks = true;
        at = 1;
    }
    size_t end = at;
    while (thinks && end < count && answer[end] != c->think_end) {
        end++;
    }
    if (thinks && end == count) {
        fill_thoughts(c, answer + at, count - at, allowed);
        return QN_OK;
    }
    end += thinks;
    qn_status status = fill_content(c, answer + end, count - end, allowed);
    if (may_begin) {
        allow(allowed, c->think_begin);
    }
    return status;
}
