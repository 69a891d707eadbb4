/* The document names its form, so that a later quern can tell an old file from a broken one. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/pool.h"
#include "bench/hardware.h"

static const char FORM[] = "quern-hw-1";

static json_t *statistic_json(const qn_statistic *s)
{
    return json_pack("{s:f, s:f, s:f, s:I}", "min", s->min, "median", s->median, "max", s->max, "samples",
                     (json_int_t)s->samples);
}

static json_t *figure_json(const qn_statistic *s, const char *unit)
{
    json_t *value = statistic_json(s);
    if (json_object_set_new(value, "unit", json_string(unit)) != 0) {
        json_decref(value);
        return NULL;
    }
    return value;
}

static json_t *read_json(const qn_hardware *h)
{
    json_t *list = json_array();
    int failed = list == NULL;
    for (size_t i = 0; i < h->read_count; i++) {
        const qn_read_rate *rate = &h->read[i];
        failed |= json_array_append_new(list, json_pack("{s:I, s:o, s:o}", "threads", (json_int_t)rate->threads,
                                                        "huge_pages", figure_json(&rate->huge_pages, "GB/s"),
                                                        "small_pages", figure_json(&rate->small_pages, "GB/s")));
    }
    if (failed) {
        json_decref(list);
        return NULL;
    }
    return list;
}

json_t *qn_hardware_to_json(const qn_hardware *h)
{
    json_t *figures = json_object();
    int failed = figures == NULL;
    for (qn_figure i = 0; i < QN_FIGURES; i++) {
        qn_figure_info info = qn_figure_describe(i);
        if (h->figure[i].samples > 0)
            failed |= json_object_set_new(figures, info.name, figure_json(&h->figure[i], info.unit));
    }
    if (failed) {
        json_decref(figures);
        return NULL;
    }
    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:o, s:o}", "form", FORM, "cpu", h->cpu, "isa", h->isa, "threads",
                     (json_int_t)h->threads, "region_bytes", (json_int_t)h->region_bytes, "memory_read", read_json(h),
                     "figures", figures);
}

static qn_status bad(const char *what, const char *field, qn_error *err)
{
    return qn_fail(err, QN_BAD_INPUT,
                   "%s: '%s' is missing or not what it should be: write it with quern bench hw --out", what, field);
}

static bool positive(const json_t *value, double *out)
{
    *out = json_number_value(value);
    return json_is_number(value) && isfinite(*out) && *out > 0;
}

static bool read_statistic(const json_t *value, qn_statistic *out)
{
    double samples;
    bool good = positive(json_object_get(value, "min"), &out->min) &&
                positive(json_object_get(value, "median"), &out->median) &&
                positive(json_object_get(value, "max"), &out->max) &&
                positive(json_object_get(value, "samples"), &samples) && samples < 1e9;
    out->samples = good ? (size_t)samples : 0;
    return good && out->samples > 0 && out->min <= out->median && out->median <= out->max;
}

static bool read_size(const json_t *value, size_t most, size_t *out)
{
    json_int_t number = json_integer_value(value);
    *out = number > 0 ? (size_t)number : 0;
    return json_is_integer(value) && number > 0 && *out <= most;
}

static bool read_name(const json_t *value, char *out, size_t bytes)
{
    return json_is_string(value) && json_string_length(value) < bytes && json_string_length(value) > 0 &&
           snprintf(out, bytes, "%s", json_string_value(value)) > 0;
}

static bool read_rates(const json_t *list, qn_hardware *out)
{
    size_t count = json_array_size(list);
    if (count < 1 || count > QN_THREAD_COUNTS)
        return false;
    for (size_t i = 0; i < count; i++) {
        const json_t *entry = json_array_get(list, i);
        qn_read_rate *rate = &out->read[i];
        if (!read_size(json_object_get(entry, "threads"), QN_POOL_MAX_THREADS, &rate->threads) ||
            !read_statistic(json_object_get(entry, "huge_pages"), &rate->huge_pages) ||
            !read_statistic(json_object_get(entry, "small_pages"), &rate->small_pages))
            return false;
    }
    out->read_count = count;
    return true;
}

qn_status qn_hardware_from_json(const json_t *root, const char *what, qn_hardware *out, qn_error *err)
{
    *out = (qn_hardware){0};
    const char *form = json_string_value(json_object_get(root, "form"));
    if (!form || strcmp(form, FORM) != 0)
        return qn_fail(err, QN_BAD_INPUT, "%s: 'form' is not \"%s\": write the file with quern bench hw --out", what,
                       FORM);
    if (!read_name(json_object_get(root, "cpu"), out->cpu, sizeof out->cpu))
        return bad(what, "cpu", err);
    if (!read_name(json_object_get(root, "isa"), out->isa, sizeof out->isa))
        return bad(what, "isa", err);
    if (!read_size(json_object_get(root, "threads"), QN_POOL_MAX_THREADS, &out->threads))
        return bad(what, "threads", err);
    if (!read_size(json_object_get(root, "region_bytes"), (size_t)1 << 40, &out->region_bytes))
        return bad(what, "region_bytes", err);
    if (!read_rates(json_object_get(root, "memory_read"), out))
        return bad(what, "memory_read", err);
    const json_t *figures = json_object_get(root, "figures");
    for (qn_figure i = 0; i < QN_FIGURES; i++) {
        qn_figure_info info = qn_figure_describe(i);
        const json_t *value = json_object_get(figures, info.name);
        if (value && !read_statistic(value, &out->figure[i]))
            return bad(what, info.name, err);
    }
    return QN_OK;
}
