#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "convert/model_card.h"

static const qn_card_facts FACTS = {.expert_matrices = 58368,
                                    .other_tensors = 1234,
                                    .expert_source_bytes = UINT64_C(1469000000000),
                                    .expert_bytes = UINT64_C(390200000000),
                                    .other_source_bytes = UINT64_C(37660000000),
                                    .other_bytes = UINT64_C(37660000000)};

static qn_buffer card(const qn_card_facts *facts, const char *readme, const char *licence)
{
    qn_manifest *manifest = NULL;
    qn_error err;
    assert_int_equal(qn_manifest_new(&manifest, &err), QN_OK);
    const qn_manifest_file file = {.name = licence};
    if (licence)
        assert_int_equal(qn_manifest_add(manifest, &file, &err), QN_OK);
    qn_buffer out = {0};
    qn_model_card(facts, readme, readme ? strlen(readme) : 0, manifest, &out);
    qn_manifest_free(manifest);
    assert_false(out.failed);
    return out;
}

static void test_front_matter_takes_licence_and_base_model_over(void **state)
{
    (void)state;
    qn_buffer out = card(
        &FACTS,
        "---\r\nlanguage:\n- en\n- zh\nlicense: other\r\nlicense_name: glm-5.3\nlibrary_name: x\n"
        "base_model:\n  - zai-org/GLM-5.3\n# remark\n- stray\nlicense_link: LICENSE\n---\nlicense: no\n",
        "LICENSE");
    static const char expected[] = "---\nlicense: other\nlicense_name: glm-5.3\nbase_model:\n  - zai-org/GLM-5.3\n"
                                   "license_link: LICENSE\nbase_model_relation: quantized\n"
                                   "tags:\n- mxfp4\n- compressed-tensors\n---\n\n# MXFP4 experts";
    assert_memory_equal(out.data, expected, sizeof expected - 1);
    assert_non_null(strstr(out.data, "derivative of the release and stays under the release's licence: `LICENSE`"));
    qn_buffer_free(&out);
}

static void test_readme_without_front_matter_gives_none_of_it(void **state)
{
    (void)state;
    static const char *const readmes[] = {NULL,
                                          "",
                                          "# GLM\nlicense: mit\n",
                                          "---\nlicense: mit\n",
                                          "---\nlicense: m\x1b[0mit\n---\n",
                                          "---\nlicense: m\xffit\n---\n",
                                          "--- \nlicense: mit\n---\n"};
    for (size_t i = 0; i < sizeof readmes / sizeof *readmes; i++) {
        qn_buffer out = card(&FACTS, readmes[i], NULL);
        static const char expected[] = "---\ntags:\n- mxfp4\n";
        assert_memory_equal(out.data, expected, sizeof expected - 1);
        assert_null(strstr(out.data, "license:"));
        assert_non_null(strstr(out.data, "The folder that was converted had no\nfile of it"));
        qn_buffer_free(&out);
    }
}

static void test_overlong_front_matter_is_left_alone(void **state)
{
    (void)state;
    qn_buffer readme = {0};
    qn_buffer_text(&readme, "---\nlicense: mit\n");
    for (int i = 0; i < 600; i++)
        qn_buffer_text(&readme, "- x\n");
    qn_buffer_text(&readme, "---\n");
    qn_buffer out = card(&FACTS, readme.data, NULL);
    assert_null(strstr(out.data, "license: mit"));
    qn_buffer_free(&out);
    qn_buffer_free(&readme);
}

static void test_card_says_what_was_done(void **state)
{
    (void)state;
    qn_card_facts facts = FACTS;
    qn_buffer out = card(&facts, NULL, NULL);
    assert_non_null(strstr(out.data, "the one with the least squared error, and"));
    assert_non_null(strstr(out.data, "byte for byte"));
    assert_non_null(strstr(out.data, "| routed experts | 58368 | 1469.0 GB | 390.2 GB |"));
    assert_non_null(strstr(out.data, "| together | 59602 | 1506.7 GB | 427.9 GB |"));
    assert_non_null(strstr(out.data, "quern serve DIR\nvllm serve DIR\n"));
    qn_buffer_free(&out);

    facts.importance = true;
    out = card(&facts, NULL, NULL);
    assert_non_null(strstr(out.data, "weighted by the second moments"));
    qn_buffer_free(&out);

    facts.round_to_nearest = facts.lossy_source = true;
    facts.other_bytes = 999949;
    facts.expert_bytes = 999950;
    out = card(&facts, NULL, NULL);
    assert_non_null(strstr(out.data, "OCP Microscaling rule"));
    assert_non_null(strstr(out.data, "of an FP8 release"));
    assert_non_null(strstr(out.data, "itself a lossy copy"));
    assert_non_null(strstr(out.data, "| 999.9 kB |"));
    assert_non_null(strstr(out.data, "| 1000.0 kB |"));
    qn_buffer_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_front_matter_takes_licence_and_base_model_over),
        cmocka_unit_test(test_readme_without_front_matter_gives_none_of_it),
        cmocka_unit_test(test_overlong_front_matter_is_left_alone),
        cmocka_unit_test(test_card_says_what_was_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
