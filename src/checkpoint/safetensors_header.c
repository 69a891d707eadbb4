/* Strict where a writer could hide something: every key of a tensor exactly once and no other, plain integers, names
 * that print. No recursion: the header is an object of objects and no deeper. */
#include "checkpoint/safetensors_header.h"

#include <stdbool.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"

typedef struct cursor {
    const qn_header_text *header;
    const char *at, *end;
    qn_error *err;
} cursor;

static qn_status fail_syntax(const cursor *c, const char *expected)
{
    return qn_fail(c->err, QN_BAD_INPUT,
                   "%s: its header is damaged at byte %zu (expected %s): fetch or write the file again",
                   c->header->what, 8 + (size_t)(c->at - c->header->text), expected);
}

static qn_status fail_tensor(const cursor *c, const char *name, const char *reason)
{
    return qn_fail(c->err, QN_BAD_INPUT, "%s: tensor %s: %s: fetch or write the file again", c->header->what, name,
                   reason);
}

static void skip_space(cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\r' || *c->at == '\t'))
        c->at++;
}

/* Takes the next character if it is `wanted`, white space before it skipped. */
static bool accept(cursor *c, char wanted)
{
    skip_space(c);
    if (c->at == c->end || *c->at != wanted)
        return false;
    c->at++;
    return true;
}

static bool hex4(cursor *c, uint32_t *out)
{
    if (c->end - c->at < 4)
        return false;
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) {
        char digit = *c->at++;
        if (digit >= '0' && digit <= '9')
            value = value << 4 | (uint32_t)(digit - '0');
        else if ((digit | 0x20) >= 'a' && (digit | 0x20) <= 'f')
            value = value << 4 | (uint32_t)((digit | 0x20) - 'a' + 10);
        else
            return false;
    }
    *out = value;
    return true;
}

/* What stands behind a backslash, as UTF-8. */
static bool escape(cursor *c, char out[4], size_t *bytes)
{
    static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    if (c->at == c->end)
        return false;
    char letter = *c->at++;
    const char *found = letter ? strchr(letters, letter) : NULL;
    if (found) {
        out[0] = values[found - letters];
        *bytes = 1;
        return true;
    }
    uint32_t code, low;
    if (letter != 'u' || !hex4(c, &code))
        return false;
    if (code >= 0xD800 && code < 0xDC00) {
        if (c->end - c->at < 2 || c->at[0] != '\\' || c->at[1] != 'u')
            return false;
        c->at += 2;
        if (!hex4(c, &low) || low < 0xDC00 || low > 0xDFFF)
            return false;
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    *bytes = qn_utf8_encode(code, out);
    return *bytes > 0;
}

/* A string. Its text, cut to capacity, goes to out with a NUL behind; *bytes is the whole length. out may be NULL. */
static qn_status parse_string(cursor *c, char *out, size_t capacity, size_t *bytes)
{
    if (!accept(c, '"'))
        return fail_syntax(c, "a string");
    size_t length = 0;
    while (c->at < c->end && *c->at != '"') {
        char text[4];
        size_t count = 1;
        if ((unsigned char)*c->at < 0x20)
            return fail_syntax(c, "no raw control byte in a string");
        text[0] = *c->at++;
        if (text[0] == '\\' && !escape(c, text, &count))
            return fail_syntax(c, "a valid escape in a string");
        for (size_t i = 0; out && i < count && length + i + 1 < capacity; i++)
            out[length + i] = text[i];
        length += count;
    }
    if (c->at == c->end)
        return fail_syntax(c, "the end of a string");
    c->at++;
    if (out)
        out[length < capacity ? length : capacity - 1] = '\0';
    *bytes = length;
    return QN_OK;
}

/* Whether a string of `bytes` is the literal; a string may hold NULs, so strcmp alone cannot tell. */
static bool is(const char *text, size_t bytes, const char *literal)
{
    return bytes == strlen(literal) && memcmp(text, literal, bytes) == 0;
}

static qn_status parse_integer(cursor *c, uint64_t *out)
{
    skip_space(c);
    const char *first = c->at;
    uint64_t value = 0;
    while (c->at < c->end && *c->at >= '0' && *c->at <= '9') {
        unsigned digit = (unsigned)(*c->at - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return fail_syntax(c, "an integer of at most 64 bits");
        value = value * 10 + digit;
        c->at++;
    }
    bool leading_zero = c->at - first > 1 && *first == '0';
    bool fraction = c->at < c->end && (*c->at == '.' || (*c->at | 0x20) == 'e');
    if (c->at == first || leading_zero || fraction)
        return fail_syntax(c, "a plain non-negative integer");
    *out = value;
    return QN_OK;
}

/* "[1, 2, ...]": at most `capacity` integers; *count is what is there, capacity + 1 for more. */
static qn_status parse_integers(cursor *c, uint64_t *out, size_t capacity, size_t *count)
{
    *count = 0;
    if (!accept(c, '['))
        return fail_syntax(c, "a list of integers");
    if (accept(c, ']'))
        return QN_OK;
    do {
        uint64_t value = 0;
        qn_status status = parse_integer(c, &value);
        if (status != QN_OK)
            return status;
        if (*count < capacity)
            out[*count] = value;
        if (*count <= capacity)
            ++*count;
    } while (accept(c, ','));
    return accept(c, ']') ? QN_OK : fail_syntax(c, "',' or ']'");
}

/* "__metadata__": strings by name, checked and dropped. */
static qn_status parse_metadata(cursor *c)
{
    if (!accept(c, '{'))
        return fail_syntax(c, "an object of strings as __metadata__");
    if (accept(c, '}'))
        return QN_OK;
    do {
        size_t bytes;
        qn_status status = parse_string(c, NULL, 0, &bytes);
        if (status == QN_OK && !accept(c, ':'))
            status = fail_syntax(c, "':'");
        if (status == QN_OK)
            status = parse_string(c, NULL, 0, &bytes);
        if (status != QN_OK)
            return status;
    } while (accept(c, ','));
    return accept(c, '}') ? QN_OK : fail_syntax(c, "',' or '}' in __metadata__");
}

/* The three keys of a tensor's entry, as they stand. */
static qn_status parse_entry(cursor *c, const char *name, char dtype[QN_HEADER_DTYPE_BYTES], qn_header_entry *out)
{
    enum { DTYPE = 1, SHAPE = 2, OFFSETS = 4, ALL = 7 };
    unsigned seen = 0;
    if (!accept(c, '{'))
        return fail_syntax(c, "'{'");
    do {
        char key[16];
        size_t bytes;
        qn_status status = parse_string(c, key, sizeof key, &bytes);
        if (status != QN_OK)
            return status;
        if (!accept(c, ':'))
            return fail_syntax(c, "':'");
        unsigned which = is(key, bytes, "dtype")          ? DTYPE
                         : is(key, bytes, "shape")        ? SHAPE
                         : is(key, bytes, "data_offsets") ? OFFSETS
                                                          : 0;
        if (which == 0 || seen & which)
            return fail_tensor(c, name, "its header entry has an unknown or repeated key");
        seen |= which;
        if (which == DTYPE)
            status = parse_string(c, dtype, QN_HEADER_DTYPE_BYTES, &out->dtype_bytes);
        else if (which == SHAPE)
            status = parse_integers(c, out->shape, QN_TENSOR_MAX_DIMS, &out->dims);
        else
            status = parse_integers(c, out->offsets, 2, &out->offset_count);
        if (status != QN_OK)
            return status;
    } while (accept(c, ','));
    if (!accept(c, '}'))
        return fail_syntax(c, "',' or '}'");
    return seen == ALL ? QN_OK : fail_tensor(c, name, "its header entry lacks dtype, shape or data_offsets");
}

static qn_status check_name(const cursor *c, const char *name, size_t bytes)
{
    bool prints = bytes > 0 && bytes <= QN_TENSOR_NAME_BYTES;
    for (size_t i = 0; prints && i < bytes; i++)
        prints = (unsigned char)name[i] >= 0x20 && name[i] != 0x7f;
    if (prints)
        return QN_OK;
    return qn_fail(c->err, QN_BAD_INPUT,
                   "%s: its header has a tensor name that is empty, has control bytes or more than %d bytes (at byte "
                   "%zu): fetch or write the file again",
                   c->header->what, QN_TENSOR_NAME_BYTES, 8 + (size_t)(c->at - c->header->text));
}

typedef struct walker {
    cursor c;
    qn_header_visit visit;
    void *context;
} walker;

static qn_status walk_member(walker *w, bool *has_metadata)
{
    cursor *c = &w->c;
    char name[QN_TENSOR_NAME_BYTES + 1], dtype[QN_HEADER_DTYPE_BYTES] = "";
    size_t bytes;
    qn_status status = parse_string(c, name, sizeof name, &bytes);
    if (status != QN_OK)
        return status;
    if (!accept(c, ':'))
        return fail_syntax(c, "':'");
    if (is(name, bytes, "__metadata__") && !*has_metadata) {
        *has_metadata = true;
        return parse_metadata(c);
    }
    qn_header_entry entry = {.name = name, .name_bytes = bytes, .dtype = dtype};
    status = check_name(c, name, bytes);
    if (status == QN_OK)
        status = parse_entry(c, name, dtype, &entry);
    return status == QN_OK ? w->visit(w->context, &entry, c->err) : status;
}

static qn_status walk_members(walker *w)
{
    cursor *c = &w->c;
    bool has_metadata = false;
    if (!accept(c, '{'))
        return fail_syntax(c, "'{'");
    if (!accept(c, '}')) {
        do {
            qn_status status = walk_member(w, &has_metadata);
            if (status != QN_OK)
                return status;
        } while (accept(c, ','));
        if (!accept(c, '}'))
            return fail_syntax(c, "',' or '}'");
    }
    skip_space(c);
    return c->at == c->end ? QN_OK : fail_syntax(c, "nothing but spaces behind the last '}'");
}

qn_status qn_safetensors_header_walk(const qn_header_text *header, qn_header_visit visit, void *context, qn_error *err)
{
    if (!qn_utf8_valid(header->text, header->bytes))
        return qn_fail(err, QN_BAD_INPUT, "%s: its header is not UTF-8 text: fetch or write the file again",
                       header->what);
    walker w = {.c = {.header = header, .at = header->text, .end = header->text + header->bytes, .err = err},
                .visit = visit,
                .context = context};
    return walk_members(&w);
}

/* What a strict reading makes of the entries. */
typedef struct tensor_list {
    const qn_header_text *header;
    qn_arena *names;
    qn_tensor *tensors;
    size_t count, capacity;
} tensor_list;

static qn_status fail_entry(const tensor_list *list, const qn_header_entry *e, const char *reason, qn_error *err)
{
    return qn_fail(err, QN_BAD_INPUT, "%s: tensor %s: %s: fetch or write the file again", list->header->what, e->name,
                   reason);
}

static qn_status find_dtype(const tensor_list *list, const qn_header_entry *e, qn_dtype *out, qn_error *err)
{
    for (qn_dtype dtype = 0; dtype < QN_DTYPE_COUNT; dtype++) {
        bool on_disk = dtype != QN_DTYPE_MXFP4 && (dtype != QN_DTYPE_F8_E4M3 || list->header->takes_fp8);
        if (on_disk && is(e->dtype, e->dtype_bytes, qn_dtype_name(dtype))) {
            *out = dtype;
            return QN_OK;
        }
    }
    return qn_fail(err, QN_BAD_INPUT,
                   "%s: tensor %s: its dtype is %s, and quern reads BF16, F16, F32, U8 and I32: use a checkpoint in "
                   "BF16 or with MXFP4 experts",
                   list->header->what, e->name, e->dtype);
}

/* Shape and bytes must agree, and the bytes must lie in the data section. */
static qn_status check_entry(const tensor_list *list, const qn_header_entry *e, qn_tensor *out, qn_error *err)
{
    const qn_header_text *header = list->header;
    if (e->dims > QN_TENSOR_MAX_DIMS)
        return fail_entry(list, e, "it has more than 8 dimensions", err);
    if (e->offset_count != 2 || e->offsets[0] > e->offsets[1])
        return fail_entry(list, e, "its data_offsets are not a begin and an end behind it", err);
    if (e->offsets[1] > header->data_bytes)
        return qn_fail(err, QN_BAD_INPUT,
                       "%s: tensor %s: its data end at byte %llu of the data section, which has %zu: the file is "
                       "truncated or damaged, fetch it again",
                       header->what, e->name, (unsigned long long)e->offsets[1], header->data_bytes);
    size_t elements = 1, bytes = 0;
    bool fits = true;
    for (size_t i = 0; i < e->dims; i++) {
        fits = fits && qn_size_mul(elements, e->shape[i], &elements);
        out->shape[i] = e->shape[i];
    }
    fits = fits && qn_size_mul(elements, qn_dtype_bits(out->dtype) / 8, &bytes);
    if (!fits || bytes != e->offsets[1] - e->offsets[0])
        return qn_fail(err, QN_BAD_INPUT,
                       "%s: tensor %s: its shape and dtype need %s%zu bytes, its data_offsets give %llu: fetch or "
                       "write the file again",
                       header->what, e->name, fits ? "" : "more than ", fits ? bytes : SIZE_MAX,
                       (unsigned long long)(e->offsets[1] - e->offsets[0]));
    out->dims = e->dims;
    out->data = header->data ? header->data + e->offsets[0] : NULL;
    out->offset = header->data_offset + e->offsets[0];
    out->bytes = bytes;
    return QN_OK;
}

static qn_status grow(tensor_list *list, qn_error *err)
{
    if (list->count < list->capacity)
        return QN_OK;
    if (list->count == QN_SAFETENSORS_MAX_TENSORS)
        return qn_fail(err, QN_BAD_INPUT, "%s: has more than %d tensors: split the file", list->header->what,
                       QN_SAFETENSORS_MAX_TENSORS);
    size_t capacity = list->capacity ? 2 * list->capacity : 64;
    qn_tensor *grown = qn_realloc(list->tensors, capacity, sizeof *grown);
    if (!grown)
        return qn_fail_memory(err, list->header->what, capacity * sizeof *grown);
    list->tensors = grown;
    list->capacity = capacity;
    return QN_OK;
}

static qn_status keep_tensor(void *context, const qn_header_entry *e, qn_error *err)
{
    tensor_list *list = context;
    qn_status status = grow(list, err);
    if (status != QN_OK)
        return status;
    qn_tensor *tensor = &list->tensors[list->count];
    *tensor = (qn_tensor){0};
    status = find_dtype(list, e, &tensor->dtype, err);
    if (status == QN_OK)
        status = check_entry(list, e, tensor, err);
    if (status != QN_OK)
        return status;
    tensor->name = qn_arena_strndup(list->names, e->name, e->name_bytes);
    if (!tensor->name)
        return qn_fail_memory(err, list->header->what, e->name_bytes);
    list->count++;
    return QN_OK;
}

qn_status qn_safetensors_header_parse(const qn_header_text *header, qn_arena *names, qn_tensor **out, size_t *count,
                                      qn_error *err)
{
    tensor_list list = {.header = header, .names = names};
    qn_status status = qn_safetensors_header_walk(header, keep_tensor, &list, err);
    if (status != QN_OK) {
        qn_free(list.tensors);
        return status;
    }
    *out = list.tensors;
    *count = list.count;
    return QN_OK;
}
