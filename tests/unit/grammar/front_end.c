#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/fault.h"
#include "unit/grammar/front_end.h"
#include "grammar/matcher.h"
#include "grammar/regex.h"

qn_status regex_front_end(qn_grammar_builder *b, const char *text, size_t bytes, qn_expr *out, qn_error *err)
{
    return qn_regex_expr(b, text, bytes, false, NULL, out, err);
}

qn_status search_front_end(qn_grammar_builder *b, const char *text, size_t bytes, qn_expr *out, qn_error *err)
{
    return qn_regex_expr(b, text, bytes, true, NULL, out, err);
}

qn_grammar *front_end_grammar(front_end *read, const char *text, size_t bytes, qn_error *err)
{
    qn_grammar_builder *b = NULL;
    qn_grammar *grammar = NULL;
    qn_expr root = 0;
    if (qn_grammar_builder_new(&b, err) == QN_OK && read(b, text, bytes, &root, err) == QN_OK) {
        qn_grammar_build(b, root, &grammar, err);
    }
    qn_grammar_builder_free(b);
    return grammar;
}

bool grammar_matches(const qn_grammar *grammar, const char *text, size_t bytes)
{
    qn_matcher *matcher = NULL;
    qn_error err;
    assert_int_equal(qn_matcher_new(grammar, &matcher, &err), QN_OK);
    size_t taken = qn_matcher_bytes(matcher, text, bytes);
    assert_false(qn_matcher_exhausted(matcher));
    bool matches = taken == bytes && qn_matcher_can_end(matcher);
    qn_matcher_free(matcher);
    return matches;
}

void front_end_check(front_end *read, const char *grammar, const char *const *accept, const char *const *reject)
{
    qn_error err = {0};
    qn_grammar *compiled = front_end_grammar(read, grammar, strlen(grammar), &err);
    if (compiled == NULL) {
        fail_msg("%s: %s", grammar, err.message);
    }
    for (; *accept != NULL; accept++) {
        if (!grammar_matches(compiled, *accept, strlen(*accept))) {
            fail_msg("%s: should take \"%s\"", grammar, *accept);
        }
    }
    for (; *reject != NULL; reject++) {
        if (grammar_matches(compiled, *reject, strlen(*reject))) {
            fail_msg("%s: should not take \"%s\"", grammar, *reject);
        }
    }
    qn_grammar_free(compiled);
}

void front_end_refuses_bytes(front_end *read, const char *grammar, size_t bytes, const char *part)
{
    qn_error err = {0};
    qn_grammar *compiled = front_end_grammar(read, grammar, bytes, &err);
    if (compiled != NULL || err.status != QN_USAGE || strstr(err.message, part) == NULL) {
        fail_msg("%s: \"%s\" does not tell \"%s\"", grammar, compiled != NULL ? "(fine)" : err.message, part);
    }
}

void front_end_refuses(front_end *read, const char *grammar, const char *part)
{
    front_end_refuses_bytes(read, grammar, strlen(grammar), part);
}

void front_end_walks_faults(front_end *read, const char *grammar)
{
    qn_grammar *compiled = NULL;
    for (long nth = 1; compiled == NULL; nth++) {
        qn_error err = {0};
        assert_true(nth < 5000);
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        compiled = front_end_grammar(read, grammar, strlen(grammar), &err);
        qn_fault_disarm();
        if (compiled == NULL && err.status != QN_RESOURCE) {
            fail_msg("allocation %ld of %s: status %d: %s", nth, grammar, err.status, err.message);
        }
    }
    qn_grammar_free(compiled);
}
