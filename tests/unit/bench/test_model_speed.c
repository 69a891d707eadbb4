/* What tests/api/test_bench_model.py does not reach: stopping, points that are left out, a model that is absent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/memory.h"
#include "bench/model_speed.h"

static const char MODEL[] = "models/quern-tiny";
static const qn_speed_point points[] = {{.context = 0, .count = 2}, {.context = 1 << 23, .count = 1}};

static qn_model_speed_options options_of(size_t point_count)
{
    return (qn_model_speed_options){
        .model_dir = MODEL, .points = points, .point_count = point_count, .repeats = 2, .threads = 1, .max_rows = 16};
}

static qn_model_speed *make(void)
{
    qn_model_speed *speed = qn_alloc(1, sizeof *speed);
    assert_non_null(speed);
    return speed;
}

static void points_beyond_the_context(void **state)
{
    (void)state;
    qn_model_speed *speed = make();
    qn_error err;
    qn_model_speed_options options = options_of(2);
    assert_int_equal(qn_model_speed_measure(&options, speed, &err), QN_USAGE);
    assert_string_equal(err.field, "context");
    options.leaves_out = true;
    assert_int_equal(qn_model_speed_measure(&options, speed, &err), QN_OK);
    assert_int_equal(speed->point_count, 1);
    assert_int_equal(speed->point[0].ms.samples, 2);
    qn_free(speed);
}

static void stopped(void **state)
{
    (void)state;
    qn_model_speed *speed = make();
    qn_error err;
    atomic_bool stop = true;
    qn_model_speed_options options = options_of(1);
    options.stop = &stop;
    assert_int_equal(qn_model_speed_measure(&options, speed, &err), QN_CANCELLED);
    qn_free(speed);
}

static void a_model_that_is_not_there(void **state)
{
    (void)state;
    qn_model_speed *speed = make();
    qn_error err;
    qn_model_speed_options options = options_of(1);
    options.model_dir = "models/absent";
    assert_int_equal(qn_model_speed_measure(&options, speed, &err), QN_BAD_INPUT);
    qn_free(speed);
}

/* A document has every part of every point; nothing that was measured is zero. */
static void json_of_points(void **state)
{
    (void)state;
    qn_model_speed *speed = make();
    qn_error err;
    qn_model_speed_options options = options_of(1);
    options.kind = QN_SPEED_PREFILL;
    assert_int_equal(qn_model_speed_measure(&options, speed, &err), QN_OK);
    json_t *root = qn_model_speed_to_json(speed);
    assert_non_null(root);
    json_t *point = json_array_get(json_object_get(root, "points"), 0), *parts = json_object_get(point, "parts");
    assert_string_equal(json_string_value(json_object_get(root, "bench")), "prefill");
    assert_int_equal(json_integer_value(json_object_get(point, "prompt")), 2);
    assert_int_equal(json_object_size(parts), QN_PARTS);
    assert_true(json_number_value(json_object_get(json_object_get(parts, "experts"), "read_share")) > 0);
    const json_t *pool = json_object_get(point, "pool");
    assert_true(json_number_value(json_object_get(pool, "loops")) > 0 || speed->threads == 1);
    for (int i = 0; i < 2; i++) {
        double share = json_number_value(json_object_get(pool, i == 0 ? "alone_share" : "idle_share"));
        assert_true(share >= 0 && share <= 1);
    }
    json_decref(root);
    qn_free(speed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_beyond_the_context),
        cmocka_unit_test(stopped),
        cmocka_unit_test(a_model_that_is_not_there),
        cmocka_unit_test(json_of_points),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
