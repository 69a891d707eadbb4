/* The plan as people read it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "configs.h"
#include "plan/plan.h"

static qn_plan plan;
static qn_hardware hardware;

static void expect(const char *path, uint64_t memory_bytes, bool predict, const char *const *wanted)
{
    qn_plan_options o = {.path = path,
                         .root = "",
                         .memory_bytes = memory_bytes,
                         .threads = 2,
                         .max_num_batched_tokens = 512,
                         .acceptance = 0.8};
    qn_error err;
    qn_buffer text = {0};
    make_hardware(20, &hardware);
    o.hardware = predict ? &hardware : NULL;
    assert_int_equal(qn_kernels_select(NULL, &o.kernels, &err), QN_OK);
    assert_int_equal(qn_plan_make(&o, &plan, &err), QN_OK);
    qn_plan_to_text(&plan, &text);
    assert_false(text.failed);
    for (; *wanted; wanted++)
        if (!strstr(qn_buffer_string(&text), *wanted))
            fail_msg("no \"%s\" in:\n%s", *wanted, qn_buffer_string(&text));
    qn_buffer_free(&text);
}

static void a_large_machine(void **state)
{
    (void)state;
    static const char *const wanted[] = {"753329921024 weights, 19456 router biases",
                                         "398.6 GiB",
                                         "47616 values a token (576 x 78 + 128 x 21), 93.0 KiB",
                                         "with the MTP layer 48320",
                                         "BF16: weights 1.4 TiB",
                                         "does not fit",
                                         "fits, with",
                                         "####====",
                                         "EP 4 x TP 2",
                                         "fewest that fit",
                                         "decode, 1 stream, 131072 tokens of context",
                                         "MTP, acceptance 0.80",
                                         "--disk DIR measures",
                                         NULL};
    expect(GLM_CONFIG, (uint64_t)512 << 30, true, wanted);
}

static void a_small_machine(void **state)
{
    (void)state;
    static const char *const wanted[] = {"no number of ranks up to 64 fits", NULL};
    expect(GLM_CONFIG, (uint64_t)1 << 30, false, wanted);
}

static void a_small_model(void **state)
{
    (void)state;
    static const char *const wanted[] = {"model: 4.35 M parameters", "MTP layer", "BF16: weights",
                                         "prompt of 512 tokens", NULL};
    expect(TINY_MODEL, (uint64_t)1 << 30, true, wanted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_machine),
        cmocka_unit_test(a_small_machine),
        cmocka_unit_test(a_small_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
