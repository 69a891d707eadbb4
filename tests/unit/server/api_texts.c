#include "unit/server/api_texts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

char *double_quoted(const char *text)
{
    char *copy = strdup(text);
    assert_non_null(copy);
    for (char *c = copy; *c != '\0'; c++) {
        *c = *c == '\'' ? '"' : *c;
    }
    return copy;
}

json_t *quoted_json(const char *text)
{
    char *copy = double_quoted(text);
    json_t *value = json_loads(copy, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (value == NULL) {
        fail_msg("no JSON: %s", copy);
    }
    free(copy);
    return value;
}

void assert_error_is(const char *body, const qn_error *err, const char *field, const char *part)
{
    if (strcmp(err->field, field) != 0) {
        fail_msg("%s: names '%s', not '%s' (%s)", body, err->field, field, err->message);
    }
    if (strstr(err->message, part) == NULL) {
        fail_msg("%s: '%s' does not say '%s'", body, err->message, part);
    }
}

json_t *named_events(qn_buffer *out)
{
    json_t *events = json_array();
    const char *at = qn_buffer_string(out);
    while (*at != '\0') {
        char name[64];
        int used = 0;
        assert_int_equal(sscanf(at, "event: %63s\ndata: %n", name, &used), 1);
        const char *end = strstr(at, "\n\n");
        assert_non_null(end);
        json_t *data = json_loadb(at + used, (size_t)(end - at) - (size_t)used, 0, NULL);
        assert_non_null(data);
        assert_string_equal(json_string_value(json_object_get(data, "type")), name);
        assert_int_equal(json_array_append_new(events, data), 0);
        at = end + 2;
    }
    qn_buffer_free(out);
    return events;
}
