/* Each text is a literal; the compiler of choices makes the tree of their bytes, and joins what ends alike. */
#include "grammar/choice.h"

#include <string.h>

#include "base/memory.h"

qn_expr qn_choice_expr(qn_grammar_builder *b, const char *const *texts, size_t count)
{
    qn_expr *options = qn_alloc(count, sizeof *options);
    if (options == NULL) {
        qn_error err;
        qn_fail_memory(&err, "choice", count * sizeof *options);
        qn_grammar_builder_fail(b, &err);
        return qn_expr_never(b);
    }
    for (size_t i = 0; i < count; i++) {
        options[i] = qn_expr_bytes(b, texts[i], strlen(texts[i]));
    }
    qn_expr out = qn_expr_choice(b, options, count);
    qn_free(options);
    return out;
}
