#include "mask_walk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

bool mask_has(const uint64_t *mask, int32_t token)
{
    return mask[token / 64] >> (token % 64) & 1;
}

void mask_set(uint64_t *mask, int32_t token)
{
    mask[token / 64] |= UINT64_C(1) << (token % 64);
}

size_t mask_count(const uint64_t *mask)
{
    size_t count = 0;
    for (size_t i = 0; i < MASK_WORDS; i++) {
        count += (size_t)__builtin_popcountll(mask[i]);
    }
    return count;
}

int32_t mask_at(const uint64_t *mask, size_t n)
{
    for (int32_t token = 0; token < MASK_WORDS * 64; token++) {
        if (mask_has(mask, token) && n-- == 0) {
            return token;
        }
    }
    return -1;
}

int32_t mask_draw(const qn_tokenizer *tokenizer, const uint64_t *mask, random_stream *random)
{
    uint64_t added[MASK_WORDS] = {0};
    for (int32_t token = 0; (size_t)token < qn_tokenizer_size(tokenizer); token++) {
        if (mask_has(mask, token) && qn_tokenizer_is_added(tokenizer, token)) {
            mask_set(added, token);
        }
    }
    size_t count = mask_count(added);
    if (count > 0 && random_word(random) % 4 == 0) {
        return mask_at(added, random_word(random) % count);
    }
    count = mask_count(mask);
    return count > 0 ? mask_at(mask, random_word(random) % count) : -1;
}

void mask_fill(qn_constraint *constraint, const qn_tokens *answer, uint64_t mask[MASK_WORDS])
{
    static const int32_t none[1];
    memset(mask, 0, MASK_WORDS * sizeof *mask);
    assert_int_equal(qn_constraint_fill(constraint, answer->count > 0 ? answer->ids : none, answer->count, mask),
                     QN_OK);
}

bool mask_walk(qn_constraint *constraint, const qn_constraint_options *options, size_t most, random_stream *random,
               qn_tokens *answer)
{
    for (size_t i = 0; i < most; i++) {
        uint64_t mask[MASK_WORDS];
        mask_fill(constraint, answer, mask);
        int32_t token = mask_draw(options->tokenizer, mask, random);
        assert_true(token >= 0);
        for (size_t k = 0; k < options->eos_count; k++) {
            if (token == options->eos[k]) {
                return true;
            }
        }
        assert_true(qn_tokens_add(answer, token));
    }
    return false;
}

void mask_text(const qn_tokenizer *tokenizer, const qn_tokens *answer, size_t from, qn_buffer *out)
{
    for (size_t i = from; i < answer->count; i++) {
        size_t bytes = 0;
        const char *text = qn_tokenizer_token_bytes(tokenizer, answer->ids[i], &bytes);
        assert_non_null(text);
        qn_buffer_append(out, text, bytes);
    }
}
