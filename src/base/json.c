/* jansson does the parsing; what is added are a bound on nesting checked before it recurses, one form of error, and its
 * allocations sent through memory.h.
 *
 * jansson's lexer goes on without the bytes for which its text buffer could not grow, to an assertion or past the end
 * of what it saved. So an allocation that fails in a parse never returns to jansson: the parse is left by longjmp, and
 * all that it had allocated, kept in a list per thread meanwhile, is released. */
#include "base/json.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/json_wide.h"
#include "base/memory.h"

enum { DEEPEST_NESTING = 512 };

/* In front of each of jansson's blocks; a ring around `parse.ring` while its parse runs, alone (NULL) ever after. */
typedef struct block {
    _Alignas(max_align_t) struct block *previous;
    struct block *next;
} block;

static _Thread_local struct {
    bool running;
    block ring;
    jmp_buf out_of_memory;
} parse;

static void *allocate(size_t bytes)
{
    size_t with_head;
    block *b = qn_size_add(bytes, sizeof *b, &with_head) ? qn_alloc(with_head, 1) : NULL;
    if (!b) {
        if (parse.running)
            longjmp(parse.out_of_memory, 1);
        return NULL;
    }
    *b = (block){NULL, NULL};
    if (parse.running) {
        *b = (block){parse.ring.previous, &parse.ring};
        b->previous->next = b->next->previous = b;
    }
    return b + 1;
}

static void release(void *data)
{
    if (!data)
        return;
    block *b = (block *)data - 1;
    if (b->next) {
        b->previous->next = b->next;
        b->next->previous = b->previous;
    }
    qn_free(b);
}

static void begin_parse(void)
{
    parse.ring = (block){&parse.ring, &parse.ring};
    parse.running = true;
}

/* Ends the parse; its blocks are the value's from here, or released. */
static void end_parse(bool keep)
{
    parse.running = false;
    for (block *b = parse.ring.next, *next; b != &parse.ring; b = next) {
        next = b->next;
        *b = (block){NULL, NULL};
        if (!keep)
            qn_free(b);
    }
}

void qn_json_init(void)
{
    json_set_alloc_funcs(allocate, release);
    json_object_seed(0);
}

/* The value, or NULL with a place whose text is empty when memory was short. */
static json_t *load(const char *text, size_t bytes, json_error_t *place)
{
    begin_parse();
    if (setjmp(parse.out_of_memory) != 0) {
        end_parse(false);
        place->text[0] = '\0';
        return NULL;
    }
    json_t *value = json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, place);
    end_parse(true);
    return value;
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
    json_error_t place;
    place.text[0] = '\0';
    *out = load(text, bytes, &place);
    if (*out)
        return QN_OK;
    if (place.text[0] == '\0')
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

static int append(const char *text, size_t bytes, void *buffer)
{
    qn_buffer_append(buffer, text, bytes);
    return ((qn_buffer *)buffer)->failed ? -1 : 0;
}

/* False when out of memory. */
static bool dump(const json_t *value, size_t digits, qn_buffer *out)
{
    qn_buffer_clear(out);
    return json_dump_callback(value, append, out, JSON_REAL_PRECISION(digits) | JSON_INDENT(2) | JSON_ENCODE_ANY) == 0;
}

/* One precision holds for a whole document: 15 digits unless some number is another one then. */
static bool dump_shortest(const json_t *value, qn_buffer *out)
{
    json_error_t place;
    json_t *again = dump(value, 15, out) ? load(qn_buffer_string(out), out->size, &place) : NULL;
    bool exact = again && json_equal(value, again);
    json_decref(again);
    return exact || (again && dump(value, 17, out));
}

qn_status qn_json_text(const json_t *value, const char *what, char **out, qn_error *err)
{
    qn_buffer text = {0};
    bool dumped = dump_shortest(value, &text);
    qn_buffer_char(&text, '\n');
    if (!dumped || text.failed) {
        size_t bytes = text.size;
        qn_buffer_free(&text);
        return qn_fail_memory(err, what, bytes);
    }
    *out = text.data;
    return QN_OK;
}

const char *qn_json_type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return qn_json_wide_digits(value) != NULL ? "integer beyond 64 bits" : "object";
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
