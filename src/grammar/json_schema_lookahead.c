/* Patterns as Zod writes them for addresses and Pydantic for decimals, "^(?!A)(?=B)R": what is ahead of the beginning
 * is the whole text, so such a text matches ^R and ^(?:B), and does not match ^(?:A). */
#include <string.h>

#include "base/buffer.h"
#include "grammar/json_schema_expansion.h"

typedef struct scan {
    const char *text;
    size_t bytes, at;
} scan;

/* Moves behind one character, escape or class; false at the end. */
static bool skip_one(scan *s)
{
    if (s->at >= s->bytes)
        return false;
    char c = s->text[s->at++];
    if (c == '\\' && s->at < s->bytes)
        s->at++;
    while (c == '[' && s->at < s->bytes && s->text[s->at] != ']')
        s->at += s->text[s->at] == '\\' && s->at + 1 < s->bytes ? 2 : 1;
    if (c == '[')
        s->at++;
    return true;
}

/* Moves behind the parenthesis that closes the group whose inside begins here; false: there is none. */
static bool skip_group(scan *s)
{
    size_t depth = 1;
    while (s->at < s->bytes) {
        char c = s->text[s->at];
        skip_one(s);
        depth += c == '(';
        depth -= c == ')';
        if (depth == 0)
            return true;
    }
    return false;
}

static bool is_lookahead(const scan *s)
{
    return s->bytes - s->at > 3 && memcmp(s->text + s->at, "(?", 2) == 0 &&
           (s->text[s->at + 2] == '!' || s->text[s->at + 2] == '=');
}

/* Whether what follows has a choice outside groups: the lookahead is part of its first way alone. */
static bool has_choice(scan s)
{
    while (s.at < s.bytes) {
        char c = s.text[s.at];
        if (c == '|')
            return true;
        skip_one(&s);
        if (c == '(' && !skip_group(&s))
            return true;
    }
    return false;
}

static void use_pattern(expansion *e, const schema_node *node, const char *before, const char *text, size_t bytes,
                        const char *after, bool negated)
{
    qn_buffer whole = {0};
    qn_buffer_text(&whole, before);
    qn_buffer_append(&whole, text, bytes);
    qn_buffer_text(&whole, after);
    if (whole.failed)
        schema_fail_memory(e->c);
    const json_t *pattern = schema_made_text(e->c, qn_buffer_string(&whole), whole.size);
    qn_buffer_free(&whole);
    if (pattern)
        schema_use(e, &e->s.texts, node, "pattern", pattern, negated);
}

bool schema_split_lookahead(expansion *e, const schema_node *node, const json_t *pattern)
{
    scan s = {json_string_value(pattern), json_string_length(pattern), 1};
    if (s.bytes == 0 || s.text[0] != '^' || !is_lookahead(&s))
        return false;
    scan rest = s;
    while (is_lookahead(&rest)) {
        rest.at += 3;
        if (!skip_group(&rest))
            return false;
    }
    if (has_choice(rest))
        return false;
    while (is_lookahead(&s) && !e->c->failed) {
        size_t inside = s.at + 3;
        s.at = inside;
        skip_group(&s);
        use_pattern(e, node, "^(?:", s.text + inside, s.at - 1 - inside, ")", s.text[inside - 1] == '!');
    }
    use_pattern(e, node, "^", s.text + s.at, s.bytes - s.at, "", false);
    return true;
}
