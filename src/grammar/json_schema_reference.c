/* References, by RFC 3986: a schema with an "$id" is a resource of its own, whose URI is that of the one around it with
 * the $id resolved against it. All of them are in the document: nothing is fetched. */
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "grammar/json_schema_compiler.h"

enum {
    MOST_SEARCHED = 1 << 21, /* values looked at for anchors and resources, over a whole schema */
    MOST_RESOURCES = 1000,
    MOST_URI_BYTES = 4096
};

struct schema_resource {
    const json_t *schema;
    const char *uri; /* without a fragment; "" for a document without one */
    struct schema_resource *next;
};

/* URIs */

/* The bytes of "scheme:", or 0. */
static size_t scheme_bytes(const char *uri)
{
    size_t n = strspn(uri, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+.-");
    return n > 0 && uri[n] == ':' ? n + 1 : 0;
}

/* The bytes of "//authority" at this place. */
static size_t authority_bytes(const char *uri)
{
    return uri[0] == '/' && uri[1] == '/' ? 2 + strcspn(uri + 2, "/?#") : 0;
}

/* Appends the path (with what follows it) without its "." and ".." segments; `root` is where it starts in out. */
static void append_path(qn_buffer *out, size_t root, const char *path)
{
    while (*path && *path != '?') {
        size_t slash = *path == '/', n = strcspn(path + slash, "/?");
        const char *segment = path + slash;
        bool last = segment[n] != '/';
        bool dot = n == 1 && segment[0] == '.', dots = n == 2 && segment[0] == '.' && segment[1] == '.';
        if (dots)
            while (out->size > root && out->data[--out->size] != '/')
                ;
        if ((dot || dots) && last)
            qn_buffer_char(out, '/');
        else if (!dot && !dots)
            qn_buffer_append(out, path, slash + n);
        path = segment + n;
    }
    qn_buffer_text(out, path);
}

/* `reference` (without a fragment) as seen from base; NULL when memory is short. */
static const char *resolve_uri(compiler *c, const char *base, const char *reference, size_t bytes)
{
    char *text = qn_arena_strndup(c->arena, reference, bytes);
    if (!text || bytes == 0 || scheme_bytes(text) > 0)
        return text && bytes == 0 ? base : text;
    qn_buffer out = {0};
    size_t scheme = scheme_bytes(base), authority = authority_bytes(base + scheme);
    size_t path = scheme + authority, folder = path;
    for (size_t i = path; base[i] && base[i] != '?'; i++)
        if (base[i] == '/')
            folder = i + 1;
    if (authority_bytes(text) > 0) {
        qn_buffer_append(&out, base, scheme);
        qn_buffer_text(&out, text);
    } else {
        qn_buffer whole = {0};
        if (text[0] != '/')
            qn_buffer_append(&whole, base + path, folder - path);
        if (text[0] != '/' && folder == path && authority > 0)
            qn_buffer_char(&whole, '/');
        qn_buffer_text(&whole, text);
        qn_buffer_append(&out, base, path);
        append_path(&out, path, qn_buffer_string(&whole));
        out.failed |= whole.failed;
        qn_buffer_free(&whole);
    }
    const char *uri = out.failed ? NULL : qn_arena_strndup(c->arena, out.data, out.size);
    qn_buffer_free(&out);
    return uri;
}

/* Resources */

static size_t without_fragment(const char *uri)
{
    return strcspn(uri, "#");
}

static bool is_data(const char *keyword)
{
    static const char *const data[] = {"const", "enum", "default", "examples"};
    for (size_t i = 0; i < sizeof data / sizeof *data; i++)
        if (strcmp(keyword, data[i]) == 0)
            return true;
    return false;
}

static void add_resource(compiler *c, const json_t *schema, const char *uri)
{
    struct schema_resource *resource = schema_alloc(c, 1, sizeof *resource);
    if (resource && !uri)
        schema_fail_memory(c);
    if (!resource || c->failed)
        return;
    if (++c->resource_count > MOST_RESOURCES || strlen(uri) > MOST_URI_BYTES) {
        schema_fail(c, NULL, NULL, "more than %d schemas with an $id, or one that is too long", MOST_RESOURCES);
        return;
    }
    *resource = (struct schema_resource){schema, uri, c->resources};
    c->resources = resource;
}

static bool search(compiler *c)
{
    if (++c->searched > MOST_SEARCHED)
        schema_fail(c, NULL, NULL,
                    "too many references into too large a schema: refer to places, as in \"#/$defs/name\"");
    return !c->failed;
}

static void find_resources(compiler *c, const json_t *value, const char *base)
{
    const char *key, *id = json_is_object(value) ? schema_own_id(value) : NULL;
    json_t *part;
    if (!search(c))
        return;
    if (id && value != c->root) {
        base = resolve_uri(c, base, id, without_fragment(id));
        add_resource(c, value, base);
    }
    json_object_foreach((json_t *)value, key, part)
    {
        if (!c->failed && !is_data(key))
            find_resources(c, part, base);
    }
    for (size_t i = 0; i < json_array_size(value) && !c->failed; i++)
        find_resources(c, json_array_get(value, i), base);
}

static const char *uri_of(compiler *c, const json_t *resource)
{
    for (const struct schema_resource *r = c->resources; r; r = r->next)
        if (r->schema == resource)
            return r->uri;
    return "";
}

static void find_all_resources(compiler *c)
{
    if (c->resources)
        return;
    const char *id = json_is_object(c->root) ? schema_own_id(c->root) : NULL;
    const char *uri = id ? qn_arena_strndup(c->arena, id, without_fragment(id)) : "";
    add_resource(c, c->root, uri);
    if (!c->failed)
        find_resources(c, c->root, uri);
}

bool schema_is_one_resource(compiler *c)
{
    find_all_resources(c);
    return c->resource_count == 1;
}

/* The resource that the URI part of a reference names; NULL when there is none. */
static const json_t *find_resource(compiler *c, const schema_node *from, const char *reference, size_t bytes)
{
    find_all_resources(c);
    const char *uri = c->failed ? NULL : resolve_uri(c, uri_of(c, from->resource), reference, bytes);
    if (!uri)
        schema_fail_memory(c);
    for (const struct schema_resource *r = c->resources; r && uri; r = r->next)
        if (strcmp(r->uri, uri) == 0)
            return r->schema;
    return NULL;
}

/* Fragments */

static int hex_value(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    char lower = (char)(digit | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* A URI fragment without its percent signs; NULL when memory is short. */
static char *decode_fragment(compiler *c, const char *text)
{
    char *out = schema_alloc(c, strlen(text) + 1, 1), *to = out;
    if (!out)
        return NULL;
    for (; *text; text++) {
        int high = *text == '%' ? hex_value(text[1]) : -1, low = high >= 0 ? hex_value(text[2]) : -1;
        if (low >= 0) {
            *to++ = (char)(high * 16 + low);
            text += 2;
        } else {
            *to++ = *text;
        }
    }
    *to = '\0';
    return out;
}

/* Takes the next token, unescaped, off the pointer; false at its end. */
static bool next_token(const char **pointer, char *token)
{
    const char *at = *pointer;
    if (*at++ != '/')
        return false;
    for (; *at && *at != '/'; at++) {
        if (*at == '~' && (at[1] == '0' || at[1] == '1'))
            *token++ = *++at == '0' ? '~' : '/';
        else
            *token++ = *at;
    }
    *token = '\0';
    *pointer = at;
    return true;
}

static const json_t *step(const json_t *value, const char *token)
{
    if (json_is_object(value))
        return json_object_get(value, token);
    if (!json_is_array(value) || *token == '\0' || strlen(token) > 9)
        return NULL;
    size_t index = 0;
    for (; *token; token++) {
        if (*token < '0' || *token > '9')
            return NULL;
        index = 10 * index + (size_t)(*token - '0');
    }
    return json_array_get(value, index);
}

static const schema_node *follow_pointer(compiler *c, const schema_node *from, const json_t *resource, char *pointer)
{
    const char *at = pointer;
    const json_t *value = resource;
    char *token = schema_alloc(c, strlen(pointer) + 1, 1);
    while (token && value && next_token(&at, token)) {
        value = step(value, token);
        if (value && schema_own_id(value))
            resource = value;
    }
    if (!token || c->failed)
        return NULL;
    if (!value || *at) {
        schema_fail(c, from, "$ref", "nothing is at \"#%s\" in the schema", pointer);
        return NULL;
    }
    const schema_node *known = schema_find_node(c, value);
    return known ? known : schema_new_node(c, value, pointer, resource);
}

/* The schema with this anchor in the resource, others inside it not counted. */
static const json_t *find_anchor(compiler *c, const json_t *value, const char *name)
{
    const json_t *found = NULL;
    if (!search(c))
        return NULL;
    if (json_is_object(value)) {
        const char *anchor = json_string_value(json_object_get(value, "$anchor"));
        const char *dynamic = json_string_value(json_object_get(value, "$dynamicAnchor"));
        if ((anchor && strcmp(anchor, name) == 0) || (dynamic && strcmp(dynamic, name) == 0))
            return value;
        const char *key;
        json_t *part;
        json_object_foreach((json_t *)value, key, part)
        {
            bool data = is_data(key);
            if (!found && !data && !schema_own_id(part))
                found = find_anchor(c, part, name);
        }
        return found;
    }
    for (size_t i = 0; i < json_array_size(value) && !found; i++)
        if (!schema_own_id(json_array_get(value, i)))
            found = find_anchor(c, json_array_get(value, i), name);
    return found;
}

const schema_node *schema_resolve(compiler *c, const schema_node *from, const char *reference)
{
    size_t bytes = without_fragment(reference);
    const json_t *resource = bytes > 0 ? find_resource(c, from, reference, bytes) : from->resource;
    if (!resource)
        schema_fail(c, from, "$ref",
                    "\"%.200s\" cannot be resolved: refer to a place inside the schema, as in \"#/$defs/name\"",
                    reference);
    char *fragment = c->failed ? NULL : decode_fragment(c, reference[bytes] ? reference + bytes + 1 : "");
    if (!fragment)
        return NULL;
    if (*fragment == '\0' || *fragment == '/')
        return follow_pointer(c, from, resource, fragment);
    const json_t *found = find_anchor(c, resource, fragment);
    if (!found || c->failed) {
        schema_fail(c, from, "$ref", "no $anchor \"%.200s\" is in the schema", fragment);
        return NULL;
    }
    const schema_node *known = schema_find_node(c, found);
    qn_buffer place = {0};
    qn_buffer_format(&place, "#%s", fragment);
    const char *copy = place.failed ? NULL : qn_arena_strndup(c->arena, place.data, place.size);
    qn_buffer_free(&place);
    return known ? known : schema_new_node(c, found, copy, resource);
}
