/* The steps before ByteLevel only choose where to cut, so between them a piece is a pair of offsets into one text: a
 * step turns one list of pieces into the next. ByteLevel may put a space before a piece, which is why it is the last
 * step and works on a text of its own then. How matches become pieces ("behavior") is `tokenizers`' own definition,
 * oddities included: docs/tokenizer.md. */
#include "text/pretokenizer.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "text/pretokenizer_pattern.h"
#include "text/pretokenizer_regex.h"
#include "text/tokenizer_fields.h"
#include "text/unicode.h"

enum { MOST_STEPS = 16, DEEPEST_SEQUENCE = 8 };

typedef enum behavior { ISOLATED, REMOVED, MERGED_WITH_PREVIOUS, MERGED_WITH_NEXT, CONTIGUOUS } behavior;

typedef struct split_step {
    qn_regex *regex; /* NULL: numbers are the matches */
    behavior behavior;
    bool invert;
} split_step;

struct qn_pretokenizer {
    split_step splits[MOST_STEPS];
    size_t split_count;
    bool has_byte_level, add_prefix_space;
    qn_regex *words; /* ByteLevel's own pattern, NULL when it is not used */
};

typedef struct piece {
    uint32_t start, end;
    bool is_match;
} piece;

typedef struct piece_list {
    piece *items;
    size_t count, capacity;
} piece_list;

struct qn_pretokenizer_scratch {
    qn_regex_search *search;
    piece_list pieces, next, matches;
    qn_buffer prefixed;
};

/* The pattern of GPT-2 (OpenAI, encoder.py), which ByteLevel uses by default. */
static const char words_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/* ---- reading ---- */

static qn_status compile(const char *pattern, size_t bytes, bool is_regex, const char *what, qn_regex **out,
                         qn_error *err)
{
    qn_buffer translated = {0};
    qn_status status = QN_OK;
    if (is_regex)
        status = qn_pattern_translate(pattern, bytes, &translated, err);
    else
        qn_pattern_literal(pattern, bytes, &translated);
    if (status == QN_OK && translated.failed)
        status = qn_fail_memory(err, "split pattern", bytes);
    if (status == QN_OK)
        status = qn_regex_compile(qn_buffer_string(&translated), translated.size, QN_REGEX_JIT, out, err);
    qn_buffer_free(&translated);
    return status == QN_OK ? status : qn_error_prefix(err, "%s", what);
}

static qn_status read_pattern(const json_t *spec, const char *what, qn_regex **out, qn_error *err)
{
    const json_t *pattern = json_object_get(spec, "pattern");
    const json_t *regex = json_object_get(pattern, "Regex"), *string = json_object_get(pattern, "String");
    if (json_object_size(pattern) != 1 || !(json_is_string(regex) || json_is_string(string)))
        return qn_fail(err, QN_BAD_INPUT,
                       "%s: the pattern is neither {\"Regex\": ...} nor {\"String\": ...}: quern "
                       "cannot use this tokenizer",
                       what);
    const json_t *text = regex ? regex : string;
    return compile(json_string_value(text), json_string_length(text), regex != NULL, what, out, err);
}

static qn_status read_behavior(const json_t *spec, const char *what, behavior *out, qn_error *err)
{
    static const char *const names[] = {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    const json_t *field;
    qn_status status = qn_section_string(spec, what, "behavior", &field, err);
    if (status != QN_OK)
        return status;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], json_string_value(field)) == 0) {
            *out = (behavior)i;
            return QN_OK;
        }
    }
    return qn_fail(err, QN_BAD_INPUT, "%s: the behavior \"%s\" is not supported: quern cannot use this tokenizer", what,
                   json_string_value(field));
}

static qn_status add_split(qn_pretokenizer *p, const json_t *spec, const char *what, qn_error *err)
{
    static const char *const known[] = {"type", "pattern", "behavior", "invert", NULL};
    split_step step = {0};
    qn_status status = qn_section_check(spec, what, known, err);
    if (status == QN_OK)
        status = qn_section_bool(spec, what, "invert", &step.invert, err);
    if (status == QN_OK)
        status = read_behavior(spec, what, &step.behavior, err);
    if (status == QN_OK)
        status = read_pattern(spec, what, &step.regex, err);
    if (status == QN_OK)
        p->splits[p->split_count++] = step;
    return status;
}

static qn_status add_digits(qn_pretokenizer *p, const json_t *spec, const char *what, qn_error *err)
{
    static const char *const known[] = {"type", "individual_digits", NULL};
    bool individual = false;
    qn_status status = qn_section_check(spec, what, known, err);
    if (status == QN_OK)
        status = qn_section_bool(spec, what, "individual_digits", &individual, err);
    if (status == QN_OK)
        p->splits[p->split_count++] = (split_step){.behavior = individual ? ISOLATED : CONTIGUOUS};
    return status;
}

static qn_status set_byte_level(qn_pretokenizer *p, const json_t *spec, const char *what, qn_error *err)
{
    static const char *const known[] = {"type", "add_prefix_space", "trim_offsets", "use_regex", NULL};
    bool use_regex = true, ignored; /* trim_offsets moves offsets, which quern does not give */
    qn_status status = qn_section_check(spec, what, known, err);
    if (status == QN_OK)
        status = qn_section_bool(spec, what, "add_prefix_space", &p->add_prefix_space, err);
    if (status == QN_OK)
        status = qn_section_bool(spec, what, "trim_offsets", &ignored, err);
    if (status == QN_OK)
        status = qn_section_bool_or(spec, what, "use_regex", true, &use_regex, err);
    if (status == QN_OK && use_regex)
        status = compile(words_pattern, strlen(words_pattern), true, what, &p->words, err);
    p->has_byte_level = status == QN_OK;
    return status;
}

static qn_status add_step(qn_pretokenizer *p, const json_t *spec, const char *what, unsigned depth, qn_error *err);

static qn_status add_sequence(qn_pretokenizer *p, const json_t *spec, const char *what, unsigned depth, qn_error *err)
{
    static const char *const known[] = {"type", "pretokenizers", NULL};
    const json_t *steps = NULL;
    qn_status status = qn_section_check(spec, what, known, err);
    if (status == QN_OK)
        status = qn_section_array(spec, what, "pretokenizers", &steps, err);
    for (size_t i = 0; status == QN_OK && i < json_array_size(steps); i++)
        status = add_step(p, json_array_get(steps, i), what, depth + 1, err);
    return status;
}

static qn_status add_step(qn_pretokenizer *p, const json_t *spec, const char *what, unsigned depth, qn_error *err)
{
    const char *type = NULL;
    qn_status status = qn_section_type(spec, what, &type, err);
    if (status != QN_OK)
        return status;
    if (strcmp(type, "Sequence") == 0 && depth < DEEPEST_SEQUENCE)
        return add_sequence(p, spec, what, depth, err);
    if (p->has_byte_level)
        return qn_fail(err, QN_BAD_INPUT,
                       "%s: the step \"%s\" after ByteLevel is not supported: quern cannot use this "
                       "tokenizer",
                       what, type);
    if (p->split_count == MOST_STEPS)
        return qn_fail(err, QN_BAD_INPUT, "%s: more than %d steps are not supported: quern cannot use this tokenizer",
                       what, MOST_STEPS);
    if (strcmp(type, "Split") == 0)
        return add_split(p, spec, what, err);
    if (strcmp(type, "Digits") == 0)
        return add_digits(p, spec, what, err);
    if (strcmp(type, "ByteLevel") == 0)
        return set_byte_level(p, spec, what, err);
    return qn_section_unsupported(what, type, err);
}

qn_status qn_pretokenizer_parse(const json_t *spec, const char *what, qn_pretokenizer **out, qn_error *err)
{
    qn_pretokenizer *p = qn_alloc_zero(1, sizeof *p);
    if (!p)
        return qn_fail_memory(err, what, sizeof *p);
    qn_status status = add_step(p, spec, what, 0, err);
    if (status == QN_OK && !p->has_byte_level)
        status = qn_fail(err, QN_BAD_INPUT, "%s: there is no ByteLevel step: only byte-level tokenizers are supported",
                         what);
    if (status != QN_OK) {
        qn_pretokenizer_free(p);
        return status;
    }
    *out = p;
    return QN_OK;
}

void qn_pretokenizer_free(qn_pretokenizer *pretokenizer)
{
    if (!pretokenizer)
        return;
    for (size_t i = 0; i < pretokenizer->split_count; i++)
        qn_regex_free(pretokenizer->splits[i].regex);
    qn_regex_free(pretokenizer->words);
    qn_free(pretokenizer);
}

qn_status qn_pretokenizer_scratch_new(qn_pretokenizer_scratch **out, qn_error *err)
{
    qn_pretokenizer_scratch *scratch = qn_alloc_zero(1, sizeof *scratch);
    if (!scratch)
        return qn_fail_memory(err, "split scratch", sizeof *scratch);
    qn_status status = qn_regex_search_new(&scratch->search, err);
    if (status != QN_OK) {
        qn_free(scratch);
        return status;
    }
    *out = scratch;
    return QN_OK;
}

void qn_pretokenizer_scratch_free(qn_pretokenizer_scratch *scratch)
{
    if (!scratch)
        return;
    qn_regex_search_free(scratch->search);
    qn_free(scratch->pieces.items);
    qn_free(scratch->next.items);
    qn_free(scratch->matches.items);
    qn_buffer_free(&scratch->prefixed);
    qn_free(scratch);
}

/* ---- cutting ---- */

static qn_status add_piece(piece_list *list, size_t start, size_t end, bool is_match, qn_error *err)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 64;
        piece *items = qn_realloc(list->items, capacity, sizeof *items);
        if (!items)
            return qn_fail_memory(err, "pieces of text", capacity * sizeof *items);
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = (piece){(uint32_t)start, (uint32_t)end, is_match};
    return QN_OK;
}

/* Fills `matches` with the matches in text[0..bytes) and what lies between them: they cover the text. */
static qn_status find_matches(const qn_regex *regex, qn_pretokenizer_scratch *s, const char *text, size_t bytes,
                              qn_error *err)
{
    size_t last = 0, start, end;
    bool found;
    s->matches.count = 0;
    qn_regex_begin(s->search, text, bytes);
    for (;;) {
        qn_status status = qn_regex_next(regex, s->search, &found, &start, &end, err);
        if (status != QN_OK)
            return status;
        if (!found)
            break;
        if (last != start)
            status = add_piece(&s->matches, last, start, false, err);
        if (status == QN_OK)
            status = add_piece(&s->matches, start, end, true, err);
        if (status != QN_OK)
            return status;
        last = end;
    }
    return last != bytes ? add_piece(&s->matches, last, bytes, false, err) : QN_OK;
}

static qn_status find_numbers(qn_pretokenizer_scratch *s, const char *text, size_t bytes, qn_error *err)
{
    size_t last = 0, length;
    s->matches.count = 0;
    for (size_t at = 0; at < bytes; at += length) {
        uint32_t code = 0;
        length = qn_utf8_decode(text + at, bytes - at, &code);
        if (!qn_unicode_is_number(code))
            continue;
        qn_status status = last < at ? add_piece(&s->matches, last, at, false, err) : QN_OK;
        if (status == QN_OK)
            status = add_piece(&s->matches, at, at + length, true, err);
        if (status != QN_OK)
            return status;
        last = at + length;
    }
    return last < bytes ? add_piece(&s->matches, last, bytes, false, err) : QN_OK;
}

/* Whether a match joins the piece before it (seen in reading direction). */
static bool joins(behavior how, const piece *match, bool previous_is_match)
{
    if (how == CONTIGUOUS)
        return match->is_match == previous_is_match;
    return (how == MERGED_WITH_PREVIOUS || how == MERGED_WITH_NEXT) && match->is_match && !previous_is_match;
}

/* Turns the matches into pieces in place. */
static void join_matches(behavior how, piece_list *matches)
{
    bool backwards = how == MERGED_WITH_NEXT, previous_is_match = false;
    size_t kept = 0, count = matches->count;
    piece *items = matches->items;
    for (size_t i = 0; i < count; i++) {
        piece match = items[backwards ? count - 1 - i : i];
        piece *last = kept == 0 ? NULL : &items[backwards ? count - kept : kept - 1];
        bool join = last && joins(how, &match, previous_is_match);
        previous_is_match = match.is_match;
        if (how == REMOVED && match.is_match)
            continue;
        if (!join) {
            kept++;
            items[backwards ? count - kept : kept - 1] = match;
        } else if (backwards) {
            last->start = match.start;
        } else {
            last->end = match.end;
        }
    }
    if (backwards && kept > 0)
        memmove(items, items + (count - kept), kept * sizeof *items);
    matches->count = kept;
}

/* Cuts the piece at `start` by one step and adds what comes out to `next`. */
static qn_status cut(const split_step *step, qn_pretokenizer_scratch *s, const char *text, size_t start, size_t end,
                     qn_error *err)
{
    qn_status status = step->regex ? find_matches(step->regex, s, text + start, end - start, err)
                                   : find_numbers(s, text + start, end - start, err);
    if (status != QN_OK)
        return status;
    for (size_t i = 0; step->invert && i < s->matches.count; i++)
        s->matches.items[i].is_match = !s->matches.items[i].is_match;
    join_matches(step->behavior, &s->matches);
    for (size_t i = 0; status == QN_OK && i < s->matches.count; i++) {
        const piece *p = &s->matches.items[i];
        if (p->start < p->end)
            status = add_piece(&s->next, start + p->start, start + p->end, false, err);
    }
    return status;
}

/* ByteLevel on one piece; the bytes themselves are the tokens' alphabet, so there is nothing to map. */
static qn_status give_bytes(const qn_pretokenizer *p, qn_pretokenizer_scratch *s, const char *text, size_t bytes,
                            qn_piece_sink sink, void *context, qn_error *err)
{
    if (p->add_prefix_space && text[0] != ' ') {
        qn_buffer_clear(&s->prefixed);
        qn_buffer_char(&s->prefixed, ' ');
        qn_buffer_append(&s->prefixed, text, bytes);
        if (s->prefixed.failed)
            return qn_fail_memory(err, "pieces of text", bytes);
        text = s->prefixed.data;
        bytes++;
    }
    if (!p->words)
        return sink(context, text, bytes, err);
    qn_status status = find_matches(p->words, s, text, bytes, err);
    for (size_t i = 0; status == QN_OK && i < s->matches.count; i++) {
        const piece *word = &s->matches.items[i];
        if (word->start < word->end)
            status = sink(context, text + word->start, word->end - word->start, err);
    }
    return status;
}

qn_status qn_pretokenizer_run(const qn_pretokenizer *p, qn_pretokenizer_scratch *s, const char *text, size_t bytes,
                              qn_piece_sink sink, void *context, qn_error *err)
{
    if (bytes == 0)
        return QN_OK;
    s->pieces.count = 0;
    qn_status status = add_piece(&s->pieces, 0, bytes, false, err);
    for (size_t k = 0; status == QN_OK && k < p->split_count; k++) {
        s->next.count = 0;
        for (size_t i = 0; status == QN_OK && i < s->pieces.count; i++)
            status = cut(&p->splits[k], s, text, s->pieces.items[i].start, s->pieces.items[i].end, err);
        piece_list done = s->pieces;
        s->pieces = s->next;
        s->next = done;
    }
    for (size_t i = 0; status == QN_OK && i < s->pieces.count; i++)
        status = give_bytes(p, s, text + s->pieces.items[i].start, s->pieces.items[i].end - s->pieces.items[i].start,
                            sink, context, err);
    return status;
}
