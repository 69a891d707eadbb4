/* Made-up prompts: the same for the same seed, alike only where they should be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "bench/serve_prompt.h"

static qn_buffer text_of(uint64_t seed, uint32_t cell, uint32_t index, size_t shared, size_t own)
{
    qn_buffer text = {0};
    const qn_serve_prompt prompt = {seed, cell, index, shared, own};
    qn_serve_prompt_text(&prompt, &text);
    assert_false(text.failed);
    return text;
}

static size_t words_in(const qn_buffer *text)
{
    size_t words = text->size > 0;
    for (size_t i = 0; i < text->size; i++)
        words += text->data[i] == ' ';
    return words;
}

static size_t alike(const qn_buffer *a, const qn_buffer *b)
{
    size_t i = 0;
    while (i < a->size && i < b->size && a->data[i] == b->data[i])
        i++;
    return i;
}

static void same_seed_gives_the_same_text(void **state)
{
    (void)state;
    qn_buffer a = text_of(7, 1, 2, 5, 95), b = text_of(7, 1, 2, 5, 95);
    assert_string_equal(a.data, b.data);
    assert_int_equal(words_in(&a), 100);
    qn_buffer_free(&a);
    qn_buffer_free(&b);
}

static void prompts_of_a_cell_share_their_beginning_alone(void **state)
{
    (void)state;
    qn_buffer shared = text_of(7, 1, 0, 50, 0), a = text_of(7, 1, 0, 50, 50), b = text_of(7, 1, 1, 50, 50);
    assert_true(alike(&a, &b) >= shared.size && alike(&a, &b) < shared.size + 40);
    qn_buffer other_cell = text_of(7, 2, 0, 50, 50), other_seed = text_of(8, 1, 0, 50, 50);
    assert_true(alike(&a, &other_cell) < 40 && alike(&a, &other_seed) < 40);
    qn_buffer_free(&shared);
    qn_buffer_free(&a);
    qn_buffer_free(&b);
    qn_buffer_free(&other_cell);
    qn_buffer_free(&other_seed);
}

static void every_word_comes_as_often(void **state)
{
    (void)state;
    qn_buffer once = {0}, twice = {0};
    qn_serve_all_words(1, &once);
    qn_serve_all_words(2, &twice);
    assert_int_equal(words_in(&once), QN_SERVE_WORDS);
    assert_int_equal(twice.size, 2 * once.size + 1);
    assert_memory_equal(twice.data, once.data, once.size);
    assert_string_equal(twice.data + once.size + 1, once.data);
    qn_buffer_free(&once);
    qn_buffer_free(&twice);
}

static void body_is_the_request(void **state)
{
    (void)state;
    const qn_serve_body body = {.model = "a \"b\"", .max_tokens = 12, .temperature = 0.5, .seed = 99};
    qn_buffer text = text_of(1, 1, 1, 2, 3), out = {0};
    qn_serve_body_text(&body, &text, &out);
    json_t *root;
    qn_error err;
    assert_int_equal(qn_json_parse(out.data, out.size, "body", &root, &err), QN_OK);
    assert_string_equal(json_string_value(json_object_get(root, "model")), "a \"b\"");
    assert_int_equal(json_integer_value(json_object_get(root, "max_tokens")), 12);
    assert_int_equal(json_integer_value(json_object_get(root, "seed")), 99);
    assert_true(json_real_value(json_object_get(root, "temperature")) == 0.5);
    assert_true(json_is_true(json_object_get(root, "stream")) && json_is_true(json_object_get(root, "ignore_eos")));
    assert_true(json_is_true(json_object_get(json_object_get(root, "stream_options"), "include_usage")));
    json_t *message = json_array_get(json_object_get(root, "messages"), 0);
    assert_string_equal(json_string_value(json_object_get(message, "content")), text.data);
    json_decref(root);
    qn_buffer_clear(&out);
    text.failed = true; /* a text that is not whole makes no request */
    qn_serve_body_text(&body, &text, &out);
    assert_true(out.failed);
    qn_buffer_free(&text);
    qn_buffer_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_seed_gives_the_same_text),
        cmocka_unit_test(prompts_of_a_cell_share_their_beginning_alone),
        cmocka_unit_test(every_word_comes_as_often),
        cmocka_unit_test(body_is_the_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
