/* Compiling and rendering from end to end. */
#include "text/jinja/template.h"

#include <string.h>

#include "base/arena.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/utf8.h"
#include "text/jinja/context.h"
#include "text/jinja/execute.h"
#include "text/jinja/parser.h"
#include "text/jinja/scope.h"
#include "text/jinja/source.h"
#include "text/jinja/str.h"

/* A tree takes some hundred bytes for each token, and a token is at least one byte. */
enum { BYTES_PER_SOURCE_BYTE = 1024, LEAST_ARENA_BYTES = 1 << 20 };

struct qn_template {
    qn_arena *arena; /* all that follows lives in it */
    const char *name, *source;
    size_t bytes;
    qn_nodes body;
    qn_scope_entry entry;
    uint32_t slots;
    const qn_str **read; /* the names that it takes from the context */
    size_t read_count;
};

void qn_template_place(const qn_template *t, size_t offset, qn_error *err)
{
    size_t line, column;
    qn_source_position(t->source, t->bytes, offset, &line, &column);
    qn_error_prefix(err, "%s line %zu, column %zu", t->name, line, column);
}

static qn_status list_read_names(qn_compiler *c, qn_template *t)
{
    size_t count = 0;
    for (size_t i = 0; i < QN_SYMBOL_BUCKETS; ++i) {
        for (const qn_symbol *symbol = c->buckets[i]; symbol; symbol = symbol->next)
            count += symbol->read;
    }
    t->read = qn_compile_alloc(c, count, sizeof *t->read);
    if (!t->read)
        return qn_compile_status(c);
    for (size_t i = 0; i < QN_SYMBOL_BUCKETS; ++i) {
        for (const qn_symbol *symbol = c->buckets[i]; symbol; symbol = symbol->next) {
            if (symbol->read)
                t->read[t->read_count++] = &symbol->name;
        }
    }
    return QN_OK;
}

static qn_status compile(qn_template *t, const char *source, size_t bytes, const char *name, qn_error *err)
{
    t->name = qn_arena_strndup(t->arena, name, strlen(name));
    qn_compiler *c = t->name ? qn_arena_alloc(t->arena, 1, sizeof *c) : NULL;
    if (!c)
        return qn_fail_memory(err, "compiling a chat template", bytes);
    QN_TRY(qn_normalize_source(t->arena, source, bytes, &t->source, &t->bytes, err));
    *c = (qn_compiler){.name = t->name, .source = t->source, .bytes = t->bytes, .arena = t->arena, .err = err};
    QN_TRY(qn_parse(c, &t->body));
    QN_TRY(qn_resolve_names(c, &t->body, &t->entry, &t->slots));
    return list_read_names(c, t);
}

qn_status qn_template_compile(const char *source, size_t bytes, const char *name, qn_template **out, qn_error *err)
{
    if (bytes > QN_TEMPLATE_MAX_BYTES)
        return qn_fail(err, QN_BAD_INPUT, "%s: longer than %d bytes: use a shorter template", name,
                       QN_TEMPLATE_MAX_BYTES);
    if (!qn_utf8_valid(source, bytes))
        return qn_fail(err, QN_BAD_INPUT, "%s: not valid UTF-8: save the template as UTF-8", name);
    qn_template *t = qn_alloc_zero(1, sizeof *t);
    if (t)
        t->arena = qn_arena_new(LEAST_ARENA_BYTES + bytes * BYTES_PER_SOURCE_BYTE);
    qn_status status = t && t->arena ? compile(t, source, bytes, name, err)
                                     : qn_fail_memory(err, "compiling a chat template", bytes);
    if (status != QN_OK) {
        qn_template_free(t);
        return status;
    }
    *out = t;
    return QN_OK;
}

void qn_template_free(qn_template *t)
{
    if (!t)
        return;
    qn_arena_free(t->arena);
    qn_free(t);
}

bool qn_template_reads(const qn_template *t, const char *name)
{
    for (size_t i = 0; i < t->read_count; ++i) {
        if (qn_str_is(t->read[i], name))
            return true;
    }
    return false;
}

static qn_template_limits with_defaults(const qn_template_limits *given)
{
    qn_template_limits limits = given ? *given : (qn_template_limits){0};
    if (!limits.steps)
        limits.steps = UINT64_C(100000000);
    if (!limits.memory_bytes)
        limits.memory_bytes = (size_t)512 << 20;
    if (!limits.output_bytes)
        limits.output_bytes = (size_t)64 << 20;
    if (!limits.depth)
        limits.depth = 2000;
    return limits;
}

/* The text of the template, in the rendering's arena. */
static qn_status run(qn_render *r, const json_t *request, const json_t *trusted, const qn_str **out)
{
    const qn_template *t = r->template;
    qn_builder output = qn_builder_start(r);
    output.limit = r->limits.output_bytes;
    QN_TRY(qn_context_variables(r, request, trusted, &r->variables));
    QN_TRY(qn_activation_new(r, NULL, t->slots, &r->activation));
    r->output = &output;
    qn_enter_scope(r, &t->entry);
    QN_TRY(qn_execute(r, &t->body));
    return qn_builder_finish(&output, out);
}

/* Gives the text to the caller; all of it or nothing. */
static qn_status hand_over(const qn_str *made, qn_buffer *text, qn_span_list *spans, qn_error *err)
{
    size_t start = text->size, count = spans ? spans->count : 0;
    bool kept = true;
    if (spans && made->origin == QN_ORIGIN_REQUEST)
        kept = qn_span_list_add(spans, start, start + made->bytes);
    for (size_t i = 0; spans && kept && i < made->span_count; ++i) {
        size_t end = made->spans[i].end < made->bytes ? made->spans[i].end : made->bytes;
        kept = qn_span_list_add(spans, start + made->spans[i].start, start + end);
    }
    if (kept)
        qn_buffer_append(text, made->data, made->bytes);
    if (kept && !text->failed)
        return QN_OK;
    if (spans)
        spans->count = count;
    return qn_fail_memory(err, "the text of a prompt", made->bytes);
}

qn_status qn_template_render(const qn_template *t, const json_t *request, const json_t *trusted,
                             const qn_template_limits *limits, qn_buffer *text, qn_span_list *request_spans,
                             qn_error *err)
{
    qn_render r = {
        .template = t, .limits = with_defaults(limits), .err = err, .hash_key = {qn_random_seed(), qn_random_seed()}};
    r.steps_left = r.limits.steps;
    r.arena = qn_arena_new(r.limits.memory_bytes);
    if (!r.arena)
        return qn_fail_memory(err, "rendering a chat template", sizeof r);
    const qn_str *made;
    qn_status status = run(&r, request, trusted, &made);
    if (status == QN_OK)
        status = hand_over(made, text, request_spans, err);
    qn_arena_free(r.arena);
    return status;
}
