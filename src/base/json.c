/* jansson does the parsing; what is added are a bound on nesting checked before it recurses, one form of error, and its
 * allocations sent through memory.h.
 *
 * jansson's lexer drops bytes without a word when its text buffer cannot grow, so a parse during which any allocation
 * failed is not to be trusted even if it seems to have succeeded: the allocator remembers that per thread. */
#include "base/json.h"

#include <stdbool.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"

enum { DEEPEST_NESTING = 512 };

static _Thread_local bool allocation_failed;

static void *allocate(size_t bytes)
{
    void *block = qn_alloc(bytes, 1);
    if (!block)
        allocation_failed = true;
    return block;
}

void qn_json_init(void)
{
    json_set_alloc_funcs(allocate, qn_free);
    json_object_seed(0);
}

/* Where the text first nests deeper than the bound; `bytes` when it never does. In a malformed text the count may be
 * wrong, but only past the first error, where the parser stops. */
static size_t too_deep_at(const char *text, size_t bytes)
{
    size_t depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < bytes; i++) {
        char c = text[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            if (++depth > DEEPEST_NESTING)
                return i;
        } else if ((c == ']' || c == '}') && depth > 0) {
            depth--;
        }
    }
    return bytes;
}

static qn_status fail_too_deep(const char *text, size_t at, const char *what, qn_error *err)
{
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at; i++) {
        if (text[i] == '\n') {
            line++;
            column = 1;
        } else if ((text[i] & 0xC0) != 0x80) { /* characters, not bytes: as the parser counts */
            column++;
        }
    }
    return qn_fail(err, QN_BAD_INPUT, "%s: nested deeper than %d levels at line %zu, column %zu: flatten the document",
                   what, DEEPEST_NESTING, line, column);
}

qn_status qn_json_parse(const char *text, size_t bytes, const char *what, json_t **out, qn_error *err)
{
    size_t deep = too_deep_at(text, bytes);
    if (deep < bytes)
        return fail_too_deep(text, deep, what, err);
    allocation_failed = false;
    json_error_t place;
    place.text[0] = '\0';
    json_t *value = json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &place);
    if (value && !allocation_failed) {
        *out = value;
        return QN_OK;
    }
    json_decref(value);
    if (allocation_failed || place.text[0] == '\0')
        return qn_fail_memory(err, what, bytes);
    return qn_fail(err, QN_BAD_INPUT, "%s: invalid JSON at line %d, column %d (%s): correct the document there", what,
                   place.line, place.column, place.text);
}

qn_status qn_json_parse_file(const char *path, size_t limit_bytes, json_t **out, qn_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    qn_status status = qn_file_read(path, limit_bytes, &text, &bytes, err);
    if (status != QN_OK)
        return status;
    status = qn_json_parse(text, bytes, path, out, err);
    qn_free(text);
    return status;
}

/* json_dumps, which like the lexer leaves out bytes when its buffer cannot grow. NULL when out of memory. */
static char *dump(const json_t *value, size_t digits)
{
    allocation_failed = false;
    char *text = json_dumps(value, JSON_REAL_PRECISION(digits) | JSON_INDENT(2) | JSON_ENCODE_ANY);
    if (!allocation_failed)
        return text;
    qn_free(text);
    return NULL;
}

/* One precision holds for a whole document: 15 digits unless some number is another one then. */
static char *dump_shortest(const json_t *value)
{
    char *text = dump(value, 15);
    json_t *again = text ? json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;
    bool known = text && !allocation_failed, exact = known && json_equal(value, again);
    json_decref(again);
    if (exact)
        return text;
    qn_free(text);
    return known ? dump(value, 17) : NULL;
}

qn_status qn_json_text(const json_t *value, const char *what, char **out, qn_error *err)
{
    char *text = dump_shortest(value);
    size_t bytes = text ? strlen(text) : 0;
    char *ended = text ? qn_realloc(text, bytes + 2, 1) : NULL;
    if (!ended) {
        qn_free(text);
        return qn_fail_memory(err, what, bytes + 2);
    }
    memcpy(ended + bytes, "\n", 2);
    *out = ended;
    return QN_OK;
}

const char *qn_json_type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "object";
    case JSON_ARRAY:
        return "array";
    case JSON_STRING:
        return "string";
    case JSON_INTEGER:
        return "integer";
    case JSON_REAL:
        return "number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "boolean";
    case JSON_NULL:
        return "null";
    }
    return "null";
}
