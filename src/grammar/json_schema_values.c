/* The values of enum and const: which of them the other keywords allow, and their spellings.
 *
 * Texts are arranged as a trie, so that ten thousand of them are followed along one path at a time; of many, those that
 * are only spelt in one way are a choice of texts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "grammar/choice.h"
#include "grammar/json_schema_compiler.h"

enum {
    MOST_ESCAPED = 4096, /* bytes of an enum for whose characters every escape is accepted; of those strings that need
                            one, if they are no more */
    MOST_NESTED = 1000   /* arrays and objects in an enum: they are followed all at once */
};

/* Which values are allowed */

void schema_check_blocked(compiler *c, const shape *s, unsigned types)
{
    for (const keyword_use *use = s->blocked; use; use = use->next)
        if (schema_keyword_types(use->keyword) & types)
            schema_fail(c, use->node, use->keyword, "cannot be enforced: leave it out, or say it another way");
}

typedef struct value_search {
    const json_t *value;
    bool found;
} value_search;

static void try_shape(compiler *c, void *context, const shape *s)
{
    value_search *search = context;
    if (!search->found)
        search->found = schema_value_fits(c, s, search->value);
}

bool schema_part_fits(compiler *c, const node_set *set, const json_t *value)
{
    value_search search = {value, set->count == 0};
    if (set->count > 0)
        schema_shapes(c, set, try_shape, &search);
    return search.found && !c->failed;
}

static bool object_fits(compiler *c, const shape *s, const json_t *value)
{
    size_t count = json_object_size(value), length;
    bool fits = count >= s->min_members && count <= s->max_members;
    const char *key;
    json_t *member;
    for (const keyword_use *use = s->required; use && fits; use = use->next)
        fits = json_object_getn(value, json_string_value(use->value), json_string_length(use->value)) != NULL;
    json_object_keylen_foreach((json_t *)value, key, length, member)
    {
        if (!fits)
            break;
        node_set set = {0};
        schema_member_set(c, s, key, length, &set);
        fits = schema_name_fits(c, s, key, length) && schema_part_fits(c, &set, member);
    }
    return fits;
}

static size_t character_count(const json_t *string)
{
    size_t count = 0;
    const char *text = json_string_value(string);
    for (size_t i = 0; i < json_string_length(string); i++)
        count += ((unsigned char)text[i] & 0xC0) != 0x80;
    return count;
}

bool schema_listed_value_fits(compiler *c, const shape *s, const json_t *value)
{
    unsigned type = schema_value_type(value);
    if (c->failed || !(type & s->types) || schema_is_excluded(s, value))
        return false;
    schema_check_blocked(c, s, type);
    if (c->failed)
        return false;
    if (type & TYPE_NUMBER)
        return schema_number_fits(s, value);
    if (type == TYPE_ARRAY)
        return schema_array_fits(c, s, value);
    if (type == TYPE_OBJECT)
        return object_fits(c, s, value);
    if (type != TYPE_STRING)
        return true;
    size_t length = character_count(value);
    return length >= s->min_length && length <= s->max_length && schema_texts_fit(c, s, value);
}

bool schema_value_fits(compiler *c, const shape *s, const json_t *value)
{
    bool listed = s->values == NULL;
    for (size_t i = 0; i < s->value_count && !listed; i++)
        listed = schema_values_equal(s->values[i], value);
    return listed && schema_listed_value_fits(c, s, value);
}

/* Listed values */

typedef struct value_list {
    json_t *values;
    bool endless;
} value_list;

static void list_value(compiler *c, value_list *list, const json_t *value)
{
    bool known = false;
    for (size_t i = 0; i < json_array_size(list->values) && !known; i++)
        known = schema_values_equal(json_array_get(list->values, i), value);
    list->endless |= json_array_size(list->values) > QN_GRAMMAR_MAX_ITEMS;
    if (!known && !list->endless)
        schema_made_add(c, list->values, value);
}

/* Integers between two bounds that are not far from each other. */
static void list_integers(compiler *c, value_list *list, const shape *s)
{
    long long ends[2];
    const qn_number_bound *bounds[] = {&s->low, &s->high};
    for (int i = 0; i < 2; i++) {
        const qn_decimal *d = &bounds[i]->value;
        list->endless |= !bounds[i]->present || !qn_decimal_is_integer(d) || d->point > 6;
        long long number = 0;
        for (int k = 0; k < d->point && !list->endless; k++)
            number = 10 * number + ((unsigned)k < d->count ? d->digits[k] - '0' : 0);
        ends[i] = d->negative ? -number : number;
    }
    list->endless |= !list->endless && ends[1] - ends[0] > 2LL * QN_GRAMMAR_MAX_ITEMS;
    for (long long i = ends[0]; !list->endless && i <= ends[1] && !c->failed; i++) {
        const json_t *value = schema_made_integer(c, i);
        if (value && schema_listed_value_fits(c, s, value))
            list_value(c, list, value);
    }
}

static void list_shape(compiler *c, void *context, const shape *s)
{
    value_list *list = context;
    const json_t *const simple[] = {json_null(), json_true(), json_false()};
    if (list->endless)
        return;
    for (size_t i = 0; i < s->value_count && !c->failed; i++)
        if (schema_listed_value_fits(c, s, s->values[i]))
            list_value(c, list, s->values[i]);
    if (s->values)
        return;
    schema_check_blocked(c, s, s->types);
    for (size_t i = 0; i < 3; i++)
        if (schema_listed_value_fits(c, s, simple[i]))
            list_value(c, list, simple[i]);
    if (s->types & TYPE_INTEGER)
        list_integers(c, list, s);
    list->endless |= (s->types & ~(unsigned)(TYPE_NULL | TYPE_BOOLEAN | TYPE_INTEGER)) != 0;
}

json_t *schema_finite_values(compiler *c, const node_set *set)
{
    value_list list = {schema_made_list(c), set->count == 0};
    if (list.values && !list.endless)
        schema_shapes(c, set, list_shape, &list);
    return list.endless || c->failed ? NULL : list.values;
}

/* Tries */

typedef struct trie {
    compiler *c;
    const schema_text *texts; /* sorted, each once */
    bool bare;                /* characters as they are, not as JSON strings spell them */
    bool escapes;             /* every spelling of a character */
} trie;

static int by_text(const void *a, const void *b)
{
    const schema_text *x = a, *y = b;
    size_t shorter = x->bytes < y->bytes ? x->bytes : y->bytes;
    int order = shorter ? memcmp(x->data, y->data, shorter) : 0;
    return order ? order : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Sorts and keeps each once; returns how many are left. */
static size_t sort_texts(schema_text *texts, size_t count)
{
    size_t kept = 0;
    if (count > 1)
        qsort(texts, count, sizeof *texts, by_text);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || by_text(&texts[kept - 1], &texts[i]) != 0)
            texts[kept++] = texts[i];
    return kept;
}

/* The character of text i at a byte; its length in bytes, 0 at the end. */
static size_t character_at(const trie *t, size_t i, size_t at, uint32_t *code)
{
    return qn_utf8_decode(t->texts[i].data + at, t->texts[i].bytes - at, code);
}

static qn_expr spell_code(const trie *t, uint32_t code)
{
    qn_grammar_builder *b = t->c->b;
    bool plain = code >= 0x20 && code < 0x7F && code != '"' && code != '\\';
    if (t->bare || (plain && !t->escapes))
        return qn_expr_chars(b, &(qn_char_range){code, code}, 1);
    return qn_json_char(&t->c->spelling, code);
}

static size_t group_end(const trie *t, size_t first, size_t last, size_t at)
{
    uint32_t code, other;
    size_t end = first + 1;
    character_at(t, first, at, &code);
    while (end < last && character_at(t, end, at, &other) > 0 && other == code)
        end++;
    return end;
}

/* Texts first..last-1 behind the `at` bytes that they share. */
static qn_expr trie_from(const trie *t, size_t first, size_t last, size_t at)
{
    compiler *c = t->c;
    uint32_t code;
    qn_expr *options = schema_alloc(c, last - first, sizeof *options);
    size_t n = 0;
    while (options && first < last) {
        size_t bytes = character_at(t, first, at, &code);
        if (bytes == 0) {
            options[n++] = t->texts[first++].tail;
            continue;
        }
        size_t end = group_end(t, first, last, at), from = at;
        qn_expr prefix = QN_NO_WORDS;
        do { /* as far as the whole group agrees */
            bytes = character_at(t, first, at, &code);
            qn_expr next = spell_code(t, code);
            prefix = prefix == QN_NO_WORDS ? next : qn_words_concat2(c->b, prefix, next);
            at += bytes;
        } while (character_at(t, first, at, &code) > 0 && group_end(t, first, end, at) == end);
        options[n++] = qn_words_concat2(c->b, prefix, trie_from(t, first, end, at));
        at = from;
        first = end;
    }
    return options ? qn_words_choice(c->b, options, n) : QN_NO_WORDS;
}

qn_expr schema_spelt_expr(compiler *c, const char *text, size_t bytes)
{
    schema_text one = {text, bytes, qn_expr_empty(c->b)};
    trie t = {c, &one, false, true};
    return trie_from(&t, 0, 1, 0);
}

qn_expr schema_name_expr(compiler *c, const char *name, size_t bytes)
{
    schema_text text = {name, bytes, c->spelling.quote};
    trie t = {c, &text, false, true};
    return qn_words_concat2(c->b, c->spelling.quote, trie_from(&t, 0, 1, 0));
}

/* Spellings of values */

/* Whether a string without its first quote is one text only, escapes not being asked for. */
static bool has_one_spelling(const json_t *string, bool bare)
{
    const char *text = json_string_value(string);
    size_t bytes = json_string_length(string), i = 0;
    while (i < bytes &&
           (bare ? text[i] != '\0' : text[i] >= 0x20 && text[i] < 0x7F && text[i] != '"' && text[i] != '\\'))
        i++;
    return i == bytes;
}

/* The letter of the character's short escape; NUL: it has none. */
static char escape_letter(char character)
{
    static const char escaped[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *at = character ? strchr(escaped, character) : NULL;
    return at ? letters[at - escaped] : '\0';
}

/* A string without its first quote as serialisers write it: characters as they are, and escaped where they have to. */
static const char *usual_spelling(compiler *c, const json_t *string, bool bare)
{
    const char *from = json_string_value(string);
    size_t bytes = json_string_length(string), more = 0, n = 0;
    if (bare)
        return from;
    for (size_t i = 0; i < bytes; i++)
        more += escape_letter(from[i]) ? 1 : (unsigned char)from[i] < 0x20 ? 5 : 0;
    char *text = schema_alloc(c, bytes + more + 2, 1);
    for (size_t i = 0; text && i < bytes; i++) {
        char letter = escape_letter(from[i]);
        if (letter || (unsigned char)from[i] < 0x20)
            text[n++] = '\\';
        if (letter)
            text[n++] = letter;
        else if ((unsigned char)from[i] < 0x20)
            n += (size_t)snprintf(text + n, 6, "u%04x", (unsigned)from[i]);
        else
            text[n++] = from[i];
    }
    if (text)
        text[n] = '"';
    return text;
}

/* Bytes of the strings; `odd`: only of those that are spelt in several ways. */
static size_t string_bytes(const json_t *const *values, size_t count, bool bare, bool odd)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        if (json_is_string(values[i]) && !(odd && has_one_spelling(values[i], bare)))
            bytes += json_string_length(values[i]);
    return bytes;
}

static qn_expr strings_expr(compiler *c, const json_t *const *values, size_t count, bool bare)
{
    schema_text *texts = schema_alloc(c, count + 1, sizeof *texts);
    const char **plain = schema_alloc(c, count + 1, sizeof *plain);
    size_t text_count = 0, plain_count = 0;
    qn_expr tail = bare ? qn_expr_empty(c->b) : c->spelling.quote, options[2];
    bool escapes = string_bytes(values, count, bare, false) <= MOST_ESCAPED;
    bool odd = bare || string_bytes(values, count, bare, true) <= MOST_ESCAPED;
    for (size_t i = 0; texts && plain && i < count && !c->failed; i++) {
        if (!json_is_string(values[i]))
            continue;
        if (!odd || ((bare || !escapes) && has_one_spelling(values[i], bare)))
            plain[plain_count++] = usual_spelling(c, values[i], bare);
        else
            texts[text_count++] = (schema_text){json_string_value(values[i]), json_string_length(values[i]), tail};
    }
    if (c->failed)
        return QN_NO_WORDS;
    trie t = {c, texts, bare, escapes};
    options[0] = text_count > 0 ? trie_from(&t, 0, sort_texts(texts, text_count), 0) : QN_NO_WORDS;
    options[1] = plain_count > 0 ? qn_choice_expr(c->b, plain, plain_count) : QN_NO_WORDS;
    qn_expr inside = qn_words_choice(c->b, options, 2);
    return bare ? inside : qn_words_concat2(c->b, c->spelling.quote, inside);
}

/* The digits of d as serialisers write numbers that are neither very large nor very small. */
static const char *plain_text(compiler *c, const qn_decimal *d, size_t *bytes)
{
    size_t whole = d->point > 0 ? (size_t)d->point : 1, lead = d->point > 0 ? 0 : (size_t)(1 - d->point);
    size_t total = lead + d->count > whole ? lead + d->count : whole, n = 0;
    char *text = schema_alloc(c, total + 3, 1);
    if (!text)
        return NULL;
    if (d->negative)
        text[n++] = '-';
    for (size_t i = 0; i < total; i++) {
        if (i == whole)
            text[n++] = '.';
        text[n++] = i >= lead && i - lead < d->count ? d->digits[i - lead] : '0';
    }
    *bytes = n;
    return text;
}

static bool is_plain(const qn_decimal *d)
{
    return d->point > -20 && d->point < 40;
}

static qn_expr numbers_expr(compiler *c, const json_t *const *values, size_t count)
{
    qn_grammar_builder *b = c->b;
    schema_text *texts = schema_alloc(c, count + 1, sizeof *texts);
    qn_expr *options = schema_alloc(c, 2 * count + 1, sizeof *options);
    qn_expr zeros = qn_expr_repeat(b, qn_expr_text(b, "0"), 0, QN_JSON_MOST_SPACES);
    qn_expr fraction = qn_expr_optional(b, qn_expr_concat(b, (qn_expr[]){qn_expr_text(b, ".0"), zeros}, 2));
    qn_expr behind = qn_words_shared(b, "zeros of a number", zeros);
    qn_expr behind_integer = qn_words_shared(b, "zeros of an integer", fraction);
    size_t n = 0, extreme = 0;
    for (size_t i = 0; texts && options && i < count; i++) {
        qn_number_bound self = {.present = true};
        if (!qn_decimal_of(values[i], &self.value))
            continue;
        if (is_plain(&self.value)) {
            texts[n].data = plain_text(c, &self.value, &texts[n].bytes);
            texts[n].tail = qn_decimal_is_integer(&self.value) ? behind_integer : behind;
            n += texts[n].data != NULL;
        }
        if (self.value.point < -3 || self.value.point > 15) {
            if (++extreme > MOST_NESTED)
                break;
            options[extreme] = qn_json_number_range(b, &self, &self, false);
        }
    }
    if (!texts || !options || extreme > MOST_NESTED) {
        schema_fail(c, NULL, NULL, "cannot be enforced: more than %d very large or small numbers in an enum",
                    MOST_NESTED);
        return QN_NO_WORDS;
    }
    n = sort_texts(texts, n);
    for (size_t i = 0; i < n; i++)
        options[extreme + 1 + i] = qn_expr_concat2(b, qn_expr_bytes(b, texts[i].data, texts[i].bytes), texts[i].tail);
    options[0] = QN_NO_WORDS;
    return qn_words_choice(b, options, extreme + 1 + n);
}

static qn_expr array_literal(compiler *c, const json_t *value)
{
    qn_expr inside = QN_NO_WORDS;
    for (size_t i = 0; i < json_array_size(value) && !c->failed; i++) {
        const json_t *element = json_array_get(value, i);
        qn_expr one = schema_values_expr(c, &element, 1, false);
        inside = i == 0 ? one : qn_words_concat(c->b, (qn_expr[]){inside, c->spelling.comma, one}, 3);
    }
    return qn_json_enclosed(&c->spelling, '[', inside, json_array_size(value) == 0, ']');
}

static qn_expr object_literal(compiler *c, const json_t *value)
{
    size_t count = json_object_size(value), n = 0, length;
    const char *key;
    json_t *member;
    qn_expr *items = schema_alloc(c, count + 1, sizeof *items);
    bool *required = schema_alloc(c, count + 1, sizeof *required);
    if (!items || !required)
        return QN_NO_WORDS;
    if (count > QN_GRAMMAR_MAX_ITEMS) {
        schema_fail(c, NULL, NULL, "cannot be enforced: an object with more than %d members in an enum",
                    QN_GRAMMAR_MAX_ITEMS);
        return QN_NO_WORDS;
    }
    json_object_keylen_foreach((json_t *)value, key, length, member)
    {
        const json_t *one = member;
        items[n] = qn_words_concat(
            c->b,
            (qn_expr[]){schema_name_expr(c, key, length), c->spelling.colon, schema_values_expr(c, &one, 1, false)}, 3);
        if (items[n] == QN_NO_WORDS)
            return QN_NO_WORDS;
        required[n++] = true;
    }
    qn_each_once group = {items, required, n, NULL, c->spelling.comma, n, n};
    return qn_json_enclosed(&c->spelling, '{', n ? qn_expr_each_once(c->b, &group) : QN_NO_WORDS, n == 0, '}');
}

qn_expr schema_values_expr(compiler *c, const json_t *const *values, size_t count, bool bare)
{
    qn_grammar_builder *b = c->b;
    qn_expr *options = schema_alloc(c, count + 6, sizeof *options);
    size_t n = 0, nested = 0;
    unsigned simple = 0;
    for (size_t i = 0; options && i < count && !c->failed; i++) {
        if (json_is_array(values[i]) || (json_is_object(values[i]) && schema_value_type(values[i]) == TYPE_OBJECT)) {
            if (++nested > MOST_NESTED)
                schema_fail(c, NULL, NULL, "cannot be enforced: more than %d arrays and objects in an enum",
                            MOST_NESTED);
            options[n++] = json_is_array(values[i]) ? array_literal(c, values[i]) : object_literal(c, values[i]);
        } else if (json_is_null(values[i]) || json_is_boolean(values[i])) {
            simple |= json_is_null(values[i]) ? 1U : json_is_true(values[i]) ? 2U : 4U;
        }
    }
    if (!options)
        return QN_NO_WORDS;
    static const char *const names[] = {"null", "true", "false"};
    for (unsigned i = 0; i < 3; i++)
        if (simple & (1U << i))
            options[n++] = qn_expr_text(b, names[i]);
    options[n++] = strings_expr(c, values, count, bare);
    options[n++] = numbers_expr(c, values, count);
    return qn_words_choice(b, options, n);
}
