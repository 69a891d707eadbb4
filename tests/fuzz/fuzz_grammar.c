/* room: grammar */
/* clang-format off */
/* covers: src/grammar/regex*.c src/grammar/gbnf.c src/grammar/lark*.c src/grammar/rule_reader.c src/grammar/char_[ps]*.c src/grammar/source.c */
/* clang-format on */
/* max_len: 512 */

/* A grammar in one of the notations, and a text for it: the grammar is refused with a sentence, or it is compiled and
 * the text followed; what it takes is UTF-8, and taking it in pieces is the same.
 *
 * The input is a byte for the notation, one that makes that allocation fail unless it is 0, the grammar, NUL, the text.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/utf8.h"
#include "grammar/choice.h"
#include "grammar/gbnf.h"
#include "grammar/lark.h"
#include "grammar/matcher.h"
#include "grammar/regex.h"

static void hold(bool condition)
{
    if (!condition)
        abort();
}

/* As a JSON string would be spelled, but for the escapes: enough to go the way of letters. */
static qn_expr quoted(void *context, qn_grammar_builder *b, const qn_char_range *ranges, size_t count)
{
    hold(context == NULL && count > 0);
    for (size_t i = 0; i < count; i++)
        hold(ranges[i].first <= ranges[i].last && (i == 0 || ranges[i].first > ranges[i - 1].last + 1));
    return qn_expr_chars(b, ranges, count);
}

/* The lines of the text. */
static qn_expr choose(qn_grammar_builder *b, char *text)
{
    enum { MOST = 1024 };
    static const char *choices[MOST];
    size_t count = 0;
    for (char *at = text, *end; at != NULL && count < MOST; at = end) {
        end = strchr(at, '\n');
        choices[count++] = at;
        if (end != NULL)
            *end++ = '\0';
    }
    return qn_choice_expr(b, choices, count);
}

static qn_status read_grammar(qn_grammar_builder *b, uint8_t notation, char *text, size_t bytes, qn_expr *root,
                              qn_error *err)
{
    const qn_regex_letters letters = {.chars = quoted};
    switch (notation % 6) {
    case 0:
        return qn_regex_expr(b, text, bytes, false, NULL, root, err);
    case 1:
        return qn_regex_expr(b, text, bytes, true, &letters, root, err);
    case 2:
        return qn_regex_part_expr(b, text, bytes, notation / 6 % 8, root, err);
    case 3:
        return qn_gbnf_expr(b, text, bytes, root, err);
    case 4:
        return qn_lark_expr(b, text, bytes, root, err);
    default:
        *root = choose(b, text);
        return qn_grammar_builder_status(b, err);
    }
}

static void follow(const qn_grammar *grammar, const char *text, size_t bytes)
{
    qn_matcher *whole = NULL, *pieces = NULL;
    qn_error err = {0};
    if (qn_matcher_new(grammar, &whole, &err) == QN_OK && qn_matcher_new(grammar, &pieces, &err) == QN_OK) {
        size_t taken = qn_matcher_bytes(whole, text, bytes), again = 0;
        while (again < taken && qn_matcher_bytes(pieces, text + again, 1) == 1)
            again++;
        hold(taken <= bytes && again == taken);
        hold(qn_matcher_can_end(whole) == qn_matcher_can_end(pieces));
        hold(!qn_matcher_can_end(whole) || qn_utf8_valid(text, taken));
    }
    qn_matcher_free(whole);
    qn_matcher_free(pieces);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static char copy[1 << 16];
    if (bytes < 2 || bytes > sizeof copy)
        return 0;
    memcpy(copy, data + 2, bytes - 2);
    copy[bytes - 2] = '\0';
    const char *end = memchr(copy, '\0', bytes - 1);
    size_t grammar_bytes = (size_t)(end - copy);
    /* a choice takes any bytes as they are: what it is made of has to be UTF-8 */
    if (data[0] % 6 == 5 && !qn_utf8_valid(copy, grammar_bytes))
        return 0;
    qn_grammar_builder *b = NULL;
    qn_grammar *grammar = NULL;
    qn_error err = {0};
    qn_expr root = 0;
    if (data[1] > 0)
        qn_fault_arm(QN_FAULT_ALLOC, data[1]);
    qn_status status = qn_grammar_builder_new(&b, &err);
    if (status == QN_OK)
        status = read_grammar(b, data[0], copy, grammar_bytes, &root, &err);
    if (status == QN_OK)
        status = qn_grammar_build(b, root, &grammar, &err);
    qn_fault_disarm();
    if (status == QN_OK)
        follow(grammar, end + (bytes > grammar_bytes + 2), bytes > grammar_bytes + 2 ? bytes - 3 - grammar_bytes : 0);
    else
        hold(status == err.status && err.message[0] != '\0' && (status == QN_USAGE || status == QN_RESOURCE));
    qn_grammar_free(grammar);
    qn_grammar_builder_free(b);
    return 0;
}
