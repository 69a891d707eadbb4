/* Compiling and rendering: where errors are told, bounds, what a template reads, failed allocations, threads. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/fault.h"
#include "base/memory.h"
#include "template_cases.h"

static qn_status compile(const char *source, qn_template **t, qn_error *err)
{
    *t = NULL;
    return qn_template_compile(source, strlen(source), "NAME", t, err);
}

/* Renders with the given request (a JSON text) and limits; `text` may be NULL. */
static qn_status render(const char *source, const char *request_text, const qn_template_limits *limits, qn_buffer *text,
                        qn_error *err)
{
    qn_template *t;
    qn_buffer own = {0};
    json_t *request = json_loads(request_text, 0, NULL);
    qn_status status = compile(source, &t, err);
    assert_int_equal(status, QN_OK);
    status = qn_template_render(t, request, NULL, limits, text ? text : &own, NULL, err);
    if (status != QN_OK)
        assert_int_equal(own.size, 0);
    qn_buffer_free(&own);
    qn_template_free(t);
    json_decref(request);
    return status;
}

static void errors_tell_their_place(void **state)
{
    (void)state;
    static const struct {
        const char *source, *message;
    } at_load[] = {
        {"{% if %}", "NAME line 1, column 7: expected an expression, got 'end of statement block'"},
        {"a\nb{{ 1 | nofilter }}", "NAME line 2, column 9: no filter named 'nofilter'"},
        {"é{{ é.}}", "NAME line 1, column 7: expected name or number"},
        {"{% for x in y %}\n", "NAME line 1, column 15: this block is not closed: 'endfor' is missing"},
        {"{% include 'x' %}", "NAME line 1, column 4: the tag 'include' is not supported"},
        {"{{ 'x' | pprint }}", "NAME line 1, column 10: the filter 'pprint' is not supported"},
        {"\r\n\r{{ $ }}", "NAME line 3, column 4: unexpected char '$'"},
        {"{{ self }}", "NAME line 1, column 1: 'self' is not supported"},
        {"{{ '\\ud800' }}", "NAME line 1, column 5: U+D800 in a string is a surrogate, or no character: write the "
                            "character itself"},
    };
    static const struct {
        const char *source, *message;
    } at_render[] = {
        {"{{ 1 +\n a.b.c }}", "NAME line 2, column 2: 'dict object' has no attribute 'b'"},
        {"{% macro m() %}\n {{ 1 / 0 }}{% endmacro %}{{ m() }}", "NAME line 2, column 5: division by zero"},
        {"{% for x, y in [1] %}{% endfor %}", "NAME line 1, column 8: 'int' object is not iterable"},
        {"{{ raise_exception('no ' ~ 'way') }}", "NAME line 1, column 4: no way"},
        {"{{ ''.__class__() }}", "NAME line 1, column 4: access to attribute '__class__' of 'str' object is unsafe"},
        {"{{ a | items | last }}", "NAME line 1, column 16: 'generator' object is not reversible"},
    };
    for (size_t i = 0; i < sizeof at_load / sizeof at_load[0]; ++i) {
        qn_template *t;
        qn_error err;
        assert_int_equal(compile(at_load[i].source, &t, &err), QN_BAD_INPUT);
        assert_string_equal(err.message, at_load[i].message);
    }
    for (size_t i = 0; i < sizeof at_render / sizeof at_render[0]; ++i) {
        qn_error err;
        assert_int_equal(render(at_render[i].source, "{\"a\": {}}", NULL, NULL, &err), QN_USAGE);
        assert_string_equal(err.message, at_render[i].message);
    }
}

static void bounds_hold(void **state)
{
    (void)state;
    static const char endless[] = "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}";
    static const struct {
        const char *source, *message;
        qn_template_limits limits;
    } cases[] = {
        {endless, "more than 1000 steps", {.steps = 1000}},
        {endless, "more than 200000 steps", {.steps = 200000}},
        {"{{ 'x' * 10000000 }}", "grows beyond 1048576 bytes", {.memory_bytes = 1 << 20}},
        {"{{ 'x' * 9000000000000000000 }}", "grows beyond", {0}},
        {"{{ [1] * 4000000000000000000 }}", "bytes of memory", {0}},
        {"{{ [0] * 100000 * 100000 }}", "bytes of memory", {0}},
        {"{{ '%2000000000d' % 1 }}", "is too wide", {0}},
        {"{{ 'ab'.center(2000000000) }}", "grows beyond", {.memory_bytes = 1 << 26}},
        {"{{ 'x' * 2000 }}", "grows beyond 1000 bytes", {.output_bytes = 1000}},
        {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "nested more than 2000 levels", {0}},
        {"{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}", "nested more than 2000 levels", {0}},
        {"{% set ns = namespace(a=1) %}{% for i in range(5000) %}{% set ns.a = [ns.a] %}{% endfor %}{{ ns.a }}",
         "nested more than 2000 levels",
         {0}},
        {"{% set ns = namespace(a=1, b=1) %}{% for i in range(5000) %}{% set ns.a = [ns.a] %}{% set ns.b = [ns.b] %}"
         "{% endfor %}{{ ns.a == ns.b }}",
         "nested more than 2000 levels",
         {0}},
        {"{% set ns = namespace(a=1) %}{% for i in range(5000) %}{% set ns.a = (ns.a,) %}{% endfor %}{{ {ns.a: 1} }}",
         "nested more than 2000 levels",
         {0}},
        {"{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}", "nested more than 2000 levels", {0}},
        {"{% set ns = namespace(a=[1]) %}{% for i in range(50000) %}{% set ns.a = ns.a | select %}{% endfor %}"
         "{{ ns.a | list }}",
         "nested more than 2000 levels",
         {0}},
        {"{{ range(100001) }}", "range too big", {0}},
        {"{{ range(-9000000000000000000, 9000000000000000000) }}", "range too big", {0}},
        {"{{ 7 ** 9999 }}", "beyond 4096 bits", {0}},
        {"{{ 2 ** (2 ** 70) }}", "beyond 4096 bits", {0}},
        {"{{ '{:.2000f}'.format(1.5) }}", "precision beyond 1000 is not supported", {0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        qn_error err;
        assert_int_equal(render(cases[i].source, "{}", &cases[i].limits, NULL, &err), QN_USAGE);
        if (!strstr(err.message, cases[i].message))
            fail_msg("%s: %s", cases[i].source, err.message);
    }
}

/* `count` copies of `open`, `middle`, and as many of `close`. */
static char *nested(const char *open, const char *middle, const char *close, size_t count)
{
    qn_buffer text = {0};
    for (size_t i = 0; i < count; ++i)
        qn_buffer_text(&text, open);
    qn_buffer_text(&text, middle);
    for (size_t i = 0; i < count; ++i)
        qn_buffer_text(&text, close);
    assert_false(text.failed);
    return text.data;
}

static void deep_sources_are_refused(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"{{ ((", "1", "))"},
        {"{{ [[", "1", "]]"},
        {"{{ 1", " + 1", ""},
        {"{{ - -", "1", ""},
        {"{% if 1 %}", "x", "{% endif %}"},
        {"{{ 'a' | ", "upper", ""},
        {"{{ not ", "1", ""},
        {"{{ {1:{", "", ""},
        {"{% for a in b %}", "x", "{% endfor %}"},
        {"{{ 1 if ", "1", ""},
        {"{{ a.b", ".c", ""},
        {"{{ a is b ", "", ""},
    };
    qn_template *t;
    qn_error err;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        /* Only the first copy opens the tag. */
        const char *open = strncmp(cases[i][0], "{{ ", 3) == 0 ? cases[i][0] + 3 : cases[i][0];
        char *body = nested(open, cases[i][1], cases[i][2], 20000), *source;
        qn_buffer text = {0};
        qn_buffer_format(&text, "%s%s%s", open != cases[i][0] ? "{{ " : "", body, open != cases[i][0] ? " }}" : "");
        source = text.data;
        assert_int_equal(compile(source, &t, &err), QN_BAD_INPUT);
        qn_free(source);
        qn_free(body);
    }
    for (int i = 0; i < 2; ++i) {
        qn_buffer text = {0};
        qn_buffer_text(&text, i ? "{{ dict(" : "{% macro m(");
        for (int j = 0; j < 300; ++j)
            qn_buffer_format(&text, "a%d%s,", j, i ? "=1" : "");
        qn_buffer_text(&text, i ? "b=1) }}" : "b) %}{% endmacro %}");
        assert_int_equal(compile(text.data, &t, &err), QN_BAD_INPUT);
        assert_non_null(strstr(err.message, "more than 250"));
        qn_buffer_free(&text);
    }
    /* Chains with a hundred links are fine. */
    char *sum = nested("1 + ", "1", "", 100);
    qn_buffer text = {0}, source = {0};
    qn_buffer_format(&source, "{{ %s }}", sum);
    assert_int_equal(render(source.data, "{}", NULL, &text, &err), QN_OK);
    assert_string_equal(text.data, "101");
    qn_buffer_free(&text);
    qn_buffer_free(&source);
    qn_free(sum);
}

static void odd_sources(void **state)
{
    (void)state;
    qn_template *t;
    qn_error err;
    assert_int_equal(qn_template_compile("a\xff", 2, "NAME", &t, &err), QN_BAD_INPUT);
    assert_string_equal(err.message, "NAME: not valid UTF-8: save the template as UTF-8");
    char *large = qn_alloc_zero(QN_TEMPLATE_MAX_BYTES + 1, 1);
    assert_int_equal(qn_template_compile(large, QN_TEMPLATE_MAX_BYTES + 1, "NAME", &t, &err), QN_BAD_INPUT);
    memset(large, 'x', QN_TEMPLATE_MAX_BYTES);
    assert_int_equal(qn_template_compile(large, QN_TEMPLATE_MAX_BYTES, "NAME", &t, &err), QN_OK);
    qn_template_free(t);
    qn_free(large);
    qn_template_free(NULL);
    /* A NUL is a character of the text. */
    qn_buffer text = {0};
    json_t *request = json_object();
    assert_int_equal(qn_template_compile("a\0{{ 1 }}", 9, "NAME", &t, &err), QN_OK);
    assert_int_equal(qn_template_render(t, request, NULL, NULL, &text, NULL, &err), QN_OK);
    assert_int_equal(text.size, 3);
    assert_memory_equal(text.data,
                        "a\0"
                        "1",
                        3);
    json_t *list = json_array();
    assert_int_equal(qn_template_render(t, list, NULL, NULL, &text, NULL, &err), QN_USAGE);
    assert_int_equal(text.size, 3);
    json_decref(list);
    json_decref(request);
    qn_buffer_free(&text);
    qn_template_free(t);
}

static void output_is_appended(void **state)
{
    (void)state;
    qn_template *t;
    qn_error err;
    qn_buffer text = {0};
    qn_span_list spans = {0};
    json_t *request = json_pack("{s:s}", "x", "X");
    qn_buffer_text(&text, "before");
    assert_int_equal(compile("-{{ x }}", &t, &err), QN_OK);
    assert_int_equal(qn_template_render(t, request, NULL, NULL, &text, &spans, &err), QN_OK);
    assert_string_equal(text.data, "before-X");
    assert_int_equal(spans.count, 1);
    assert_int_equal(spans.items[0].start, 7);
    assert_int_equal(spans.items[0].end, 8);
    qn_template_free(t);
    qn_buffer_free(&text);
    qn_span_list_free(&spans);
    json_decref(request);
}

static void reads_are_known(void **state)
{
    (void)state;
    qn_template *t;
    qn_error err;
    assert_int_equal(compile("{{ a }}{% set b = 1 %}{{ b }}{% for c in d %}{{ c }}{{ e.f }}{% endfor %}"
                             "{% macro m(g) %}{{ g }}{{ h }}{% endmacro %}{% if i %}{% set j = 1 %}{% endif %}{{ j }}"
                             "{% set k | replace(a, a) %}x{% endset %}",
                             &t, &err),
                     QN_OK);
    for (const char *name = "adehij"; *name; ++name)
        assert_true(qn_template_reads(t, (char[]){*name, '\0'}));
    for (const char *name = "bcfgkmz"; *name; ++name)
        assert_false(qn_template_reads(t, (char[]){*name, '\0'}));
    qn_template_free(t);
}

static const char everything[] =
    "{% macro m(a, b=1) %}{{ a }}{{ varargs }}{{ kwargs }}{{ caller() if caller }}{% endmacro %}"
    "{% set ns = namespace(n=[], s='') %}{% for k, v in d.items() if k != 'q' recursive %}{{ loop.index }}{{ k ~ v }}"
    "{% set ns.n = ns.n + [k] %}{% set ns.s = ns.s + k * 300 %}{{ loop.cycle(1, 2) }}{% else %}none{% endfor %}"
    "{% call m(x[::-1], 2, 3, c=4) %}{{ l | map('upper') | sort | join(',') }}{% endcall %}"
    "{% set b | upper %}{{ d | tojson(indent=1) }}{{ '%s %5.2f' % (x, 1.5) }}{{ '{:>9}'.format(x) }}{% endset %}{{ b }}"
    "{{ 2 ** 70 }}{{ (x ~ 'é').title().split('|') }}{{ d | dictsort }}{{ users | groupby('a') }}{{ range(9)[::2] | "
    "list }}"
    "{% with q = dict(a=1, **d) %}{{ q | items | list }}{% endwith %}{{ cycler(1, 2).next() }}{{ joiner()() }}"
    "{{ undefined_a }}{{ x.replace('u', x) | e }}{{ l | unique | list | tojson }}{{ 'a\\n\\u00e9' 'b' }}{{ d is sameas "
    "d }}";

static const char everything_request[] =
    "{\"x\": \"<|user|>\", \"l\": [\"b\", \"a\"], \"d\": {\"k\": \"v\", \"n\": [1, 2.5, null]},"
    " \"users\": [{\"a\": 1}, {\"a\": 2}, {\"a\": 1}]}";

static void failed_allocations_are_told(void **state)
{
    (void)state;
    json_t *request = json_loads(everything_request, 0, NULL);
    for (long nth = 1;; ++nth) {
        qn_template *t = NULL;
        qn_buffer text = {0};
        qn_span_list spans = {0};
        qn_error err;
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        qn_status status = compile(everything, &t, &err);
        if (status == QN_OK)
            status = qn_template_render(t, request, NULL, NULL, &text, &spans, &err);
        bool reached = qn_fault_seen(QN_FAULT_ALLOC) >= nth;
        qn_fault_disarm();
        assert_int_equal(status, reached ? QN_RESOURCE : QN_OK);
        if (reached)
            assert_true(text.size == 0 && spans.count == 0);
        qn_template_free(t);
        qn_buffer_free(&text);
        qn_span_list_free(&spans);
        if (!reached)
            break;
    }
    json_decref(request);
}

/* The same walk with ever smaller arenas: every place that wants memory is refused once. */
static void any_memory_limit_is_an_error(void **state)
{
    (void)state;
    qn_error err;
    size_t refused = 0;
    for (size_t bytes = 64; bytes < (1 << 20); bytes += bytes < 40000 ? 307 : 8192) {
        const qn_template_limits limits = {.memory_bytes = bytes};
        qn_status status = render(everything, everything_request, &limits, NULL, &err);
        assert_true(status == QN_OK || status == QN_USAGE);
        refused += status != QN_OK;
    }
    assert_true(refused > 50);
    for (uint64_t steps = 1; steps < 5000; steps += 19) {
        const qn_template_limits limits = {.steps = steps};
        qn_status status = render(everything, everything_request, &limits, NULL, &err);
        assert_true(status == QN_OK || status == QN_USAGE);
    }
}

typedef struct job {
    const qn_template *template;
    const char *expected;
    int wrong;
} job;

static void *render_many(void *context)
{
    job *j = context;
    json_t *request = json_loads(everything_request, 0, NULL);
    for (int i = 0; i < 50; ++i) {
        qn_buffer text = {0};
        qn_error err;
        if (qn_template_render(j->template, request, NULL, NULL, &text, NULL, &err) != QN_OK ||
            strcmp(text.data, j->expected) != 0)
            ++j->wrong;
        qn_buffer_free(&text);
    }
    json_decref(request);
    return NULL;
}

static void threads_share_a_template(void **state)
{
    (void)state;
    qn_template *t;
    qn_error err;
    qn_buffer text = {0};
    json_t *request = json_loads(everything_request, 0, NULL);
    assert_int_equal(compile(everything, &t, &err), QN_OK);
    assert_int_equal(qn_template_render(t, request, NULL, NULL, &text, NULL, &err), QN_OK);
    pthread_t threads[4];
    job jobs[4];
    for (size_t i = 0; i < 4; ++i) {
        jobs[i] = (job){t, text.data, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, render_many, &jobs[i]), 0);
    }
    for (size_t i = 0; i < 4; ++i) {
        pthread_join(threads[i], NULL);
        assert_int_equal(jobs[i].wrong, 0);
    }
    qn_buffer_free(&text);
    json_decref(request);
    qn_template_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_tell_their_place),     cmocka_unit_test(bounds_hold),
        cmocka_unit_test(deep_sources_are_refused),    cmocka_unit_test(odd_sources),
        cmocka_unit_test(output_is_appended),          cmocka_unit_test(reads_are_known),
        cmocka_unit_test(failed_allocations_are_told), cmocka_unit_test(any_memory_limit_is_an_error),
        cmocka_unit_test(threads_share_a_template),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
