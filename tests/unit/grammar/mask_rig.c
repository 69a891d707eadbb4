#include "unit/grammar/mask_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "grammar/regex.h"

void mask_rig_list(mask_vocabulary *v, const char *const *texts, size_t count)
{
    memset(v, 0, sizeof *v);
    assert_true(count <= RIG_TOKENS);
    for (size_t t = 0; t < RIG_TOKENS; t++) {
        v->no_text[t] = t >= count;
        v->lengths[t] = t < count ? strlen(texts[t]) : 0;
        assert_true(v->lengths[t] <= RIG_BYTES);
        memcpy(v->bytes[t], t < count ? texts[t] : "", v->lengths[t]);
    }
}

const char *mask_rig_bytes(void *context, int32_t token, size_t *length)
{
    const mask_vocabulary *v = context;
    *length = v->lengths[token];
    return v->no_text[token] ? NULL : v->bytes[token];
}

qn_vocabulary_trie *mask_rig_trie(mask_vocabulary *v)
{
    qn_error err;
    qn_vocabulary_trie *trie;
    assert_int_equal(qn_vocabulary_trie_new(RIG_TOKENS, mask_rig_bytes, v, &trie, &err), QN_OK);
    return trie;
}

qn_grammar_builder *mask_rig_builder(void)
{
    qn_error err;
    qn_grammar_builder *b;
    assert_int_equal(qn_grammar_builder_new(&b, &err), QN_OK);
    return b;
}

qn_grammar *mask_rig_build(qn_grammar_builder *b, qn_expr root)
{
    qn_error err;
    qn_grammar *g = NULL;
    if (qn_grammar_build(b, root, &g, &err))
        fail_msg("%s", err.message);
    qn_grammar_builder_free(b);
    return g;
}

qn_grammar *mask_rig_regex(const char *regex)
{
    qn_error err;
    qn_expr root;
    qn_grammar_builder *b = mask_rig_builder();
    if (qn_regex_expr(b, regex, strlen(regex), false, NULL, &root, &err))
        fail_msg("%s", err.message);
    return mask_rig_build(b, root);
}

qn_mask_cache *mask_rig_cache(const qn_grammar *g, const qn_vocabulary_trie *trie)
{
    qn_error err;
    qn_mask_cache *cache;
    assert_int_equal(qn_mask_cache_new(g, trie, &cache, &err), QN_OK);
    return cache;
}

void mask_rig_fill(const qn_matcher *m, const mask_vocabulary *v, uint64_t mask[RIG_WORDS], bool *exhausted)
{
    qn_error err;
    memset(mask, 0, RIG_WORDS * sizeof *mask);
    for (size_t t = 0; t < RIG_TOKENS; t++) {
        qn_matcher *next;
        assert_int_equal(qn_matcher_clone(m, &next, &err), QN_OK);
        bool text = !v->no_text[t] && v->lengths[t] > 0;
        bool takes = text && qn_matcher_bytes(next, v->bytes[t], v->lengths[t]) == v->lengths[t];
        *exhausted |= qn_matcher_exhausted(next);
        qn_matcher_free(next);
        assert_int_equal(qn_matcher_clone(m, &next, &err), QN_OK);
        takes |= qn_matcher_token(next, (int32_t)t);
        qn_matcher_free(next);
        if (takes)
            mask[t / 64] |= UINT64_C(1) << (t % 64);
    }
}
