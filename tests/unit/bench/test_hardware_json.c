/* Figures to JSON and back, and what is not such a document. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "bench/hardware.h"

static qn_hardware example(void)
{
    qn_hardware h = {.cpu = "Some CPU", .isa = "avx2", .threads = 3, .region_bytes = 1 << 20, .read_count = 2};
    for (size_t i = 0; i < h.read_count; i++) {
        h.read[i] = (qn_read_rate){.threads = 1 + 2 * i,
                                   .huge_pages = {.min = 1, .median = 2.5, .max = 3, .samples = 4},
                                   .small_pages = {.min = 1, .median = 1.25, .max = 3, .samples = 5}};
    }
    for (qn_figure i = 0; i < QN_FIGURES; i++)
        if (i != QN_FIGURE_BF16)
            h.figure[i] = (qn_statistic){
                .min = 1.0 + (double)i, .median = 2.0 + (double)i, .max = 3.0 + (double)i, .samples = 7};
    return h;
}

static void there_and_back(void **state)
{
    (void)state;
    qn_hardware h = example(), back;
    qn_error err;
    json_t *root = qn_hardware_to_json(&h);
    assert_non_null(root);
    assert_int_equal(qn_hardware_from_json(root, "x", &back, &err), QN_OK);
    assert_string_equal(back.cpu, h.cpu);
    assert_string_equal(back.isa, h.isa);
    assert_int_equal(back.threads, 3);
    assert_int_equal(back.region_bytes, 1 << 20);
    assert_int_equal(back.read_count, 2);
    assert_int_equal(back.read[1].threads, 3);
    assert_true(back.read[1].small_pages.median == 1.25);
    for (qn_figure i = 0; i < QN_FIGURES; i++)
        assert_true(back.figure[i].samples == h.figure[i].samples && back.figure[i].median == h.figure[i].median);
    json_decref(root);
}

/* Puts a value (stolen) at a dotted path and expects an error that names `field`. */
static void refuse(const char *object, const char *key, json_t *value, const char *field)
{
    qn_hardware h = example(), back;
    qn_error err;
    json_t *root = qn_hardware_to_json(&h);
    json_t *at = strcmp(object, "") == 0 ? root : json_object_get(root, object);
    if (json_is_array(at))
        at = json_array_get(at, 1);
    if (value)
        json_object_set_new(at, key, value);
    else
        json_object_del(at, key);
    assert_int_equal(qn_hardware_from_json(root, "some.json", &back, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "some.json"));
    assert_non_null(strstr(err.message, field));
    json_decref(root);
}

static void what_is_no_such_document(void **state)
{
    (void)state;
    static const char good[] = "{s:f, s:f, s:f, s:i}";
    refuse("", "form", json_string("quern-hw-0"), "form");
    refuse("", "form", NULL, "form");
    refuse("", "cpu", json_integer(3), "cpu");
    refuse("", "cpu", json_string(""), "cpu");
    refuse("", "isa", json_string("a name that is much longer than any table's"), "isa");
    refuse("", "threads", json_integer(0), "threads");
    refuse("", "threads", json_integer(1 << 20), "threads");
    refuse("", "threads", json_real(2.5), "threads");
    refuse("", "region_bytes", NULL, "region_bytes");
    refuse("", "memory_read", json_array(), "memory_read");
    refuse("", "memory_read", json_object(), "memory_read");
    refuse("memory_read", "threads", json_integer(-1), "memory_read");
    refuse("memory_read", "huge_pages", json_null(), "memory_read");
    refuse("figures", "loop", json_null(), "loop");
    refuse("figures", "loop", json_pack(good, "min", 1.0, "median", -2.0, "max", 3.0, "samples", 1), "loop");
    refuse("figures", "loop", json_pack(good, "min", 2.0, "median", 1.0, "max", 3.0, "samples", 1), "loop");
    refuse("figures", "loop", json_pack(good, "min", 1.0, "median", 1.0, "max", 3.0, "samples", 0), "loop");
    qn_hardware back;
    qn_error err;
    json_t *list = json_array();
    assert_int_equal(qn_hardware_from_json(list, "x", &back, &err), QN_BAD_INPUT);
    json_decref(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_and_back),
        cmocka_unit_test(what_is_no_such_document),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
