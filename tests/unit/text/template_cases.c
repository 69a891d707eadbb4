#include "template_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/file.h"
#include "base/json_wide.h"
#include "base/memory.h"

enum { MAX_BYTES = 64 << 20 };

qn_template *template_from_file(const char *path)
{
    char *source;
    size_t bytes;
    qn_error err;
    qn_template *t = NULL;
    if (qn_file_read(path, QN_TEMPLATE_MAX_BYTES, &source, &bytes, &err) != QN_OK ||
        qn_template_compile(source, bytes, path, &t, &err) != QN_OK)
        fail_msg("%s", err.message);
    qn_free(source);
    return t;
}

/* What the case renders to: text, or with *failed the error. */
static void render_case(const json_t *item, const qn_template *t, qn_buffer *text, bool *failed)
{
    const json_t *own = json_object_get(item, "template");
    qn_template *compiled = NULL;
    qn_error err;
    qn_status status = QN_OK;
    if (own)
        status = qn_template_compile(json_string_value(own), json_string_length(own), "case", &compiled, &err);
    if (status == QN_OK)
        status = qn_template_render(own ? compiled : t, json_object_get(item, "context"), NULL, NULL, text, NULL, &err);
    qn_template_free(compiled);
    *failed = status != QN_OK;
    if (*failed)
        qn_buffer_text(text, err.message);
}

static bool case_differs(const json_t *item, const qn_template *t)
{
    const json_t *expected = json_object_get(item, "expected");
    qn_buffer text = {0};
    bool failed, differs;
    render_case(item, t, &text, &failed);
    if (expected)
        differs = failed || text.size != json_string_length(expected) ||
                  memcmp(qn_buffer_string(&text), json_string_value(expected), text.size) != 0;
    else
        differs = !failed;
    if (differs)
        printf("%s:\n  expected %s\n  got %s%s\n", json_string_value(json_object_get(item, "name")),
               expected ? json_string_value(expected) : json_string_value(json_object_get(item, "error")),
               failed ? "the error " : "", qn_buffer_string(&text));
    qn_buffer_free(&text);
    return differs;
}

size_t template_cases_differ(const char *path, const qn_template *t, size_t *count)
{
    char *lines;
    size_t bytes, differing = 0;
    qn_error err;
    if (qn_file_read(path, MAX_BYTES, &lines, &bytes, &err) != QN_OK)
        fail_msg("%s", err.message);
    *count = 0;
    for (char *line = lines, *end; *line; line = end + 1) {
        json_t *item;
        end = strchr(line, '\n');
        assert_non_null(end);
        if (qn_json_parse_wide(line, (size_t)(end - line), path, &item, &err) != QN_OK)
            fail_msg("%s", err.message);
        differing += case_differs(item, t);
        ++*count;
        json_decref(item);
    }
    qn_free(lines);
    return differing;
}
