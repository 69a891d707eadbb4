#include "grammar/words.h"

qn_expr qn_words_concat(qn_grammar_builder *b, const qn_expr *parts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (parts[i] == QN_NO_WORDS)
            return QN_NO_WORDS;
    return qn_expr_concat(b, parts, count);
}

qn_expr qn_words_concat2(qn_grammar_builder *b, qn_expr first, qn_expr second)
{
    return first == QN_NO_WORDS || second == QN_NO_WORDS ? QN_NO_WORDS : qn_expr_concat2(b, first, second);
}

qn_expr qn_words_choice(qn_grammar_builder *b, qn_expr *options, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (options[i] != QN_NO_WORDS)
            options[kept++] = options[i];
    if (kept == 0)
        return QN_NO_WORDS;
    return kept == 1 ? options[0] : qn_expr_choice(b, options, kept);
}

qn_expr qn_words_shared(qn_grammar_builder *b, const char *name, qn_expr expr)
{
    if (expr == QN_NO_WORDS)
        return expr;
    qn_rule rule = qn_rule_declare(b, name);
    qn_rule_define(b, rule, expr);
    return qn_expr_rule(b, rule);
}
