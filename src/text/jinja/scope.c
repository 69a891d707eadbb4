/* Two passes over each scope, as in Jinja2: the first finds the names it stores and loads, without going into the
 * scopes inside it; the second resolves its names and goes into those scopes.
 *
 * A symbol's references form a stack, the innermost scope's on top, since scopes are entered and left in order. */
#include "text/jinja/scope.h"

#include <string.h>

#include "text/jinja/walk.h"

typedef struct function {
    struct function *outer;
    uint32_t slots;
    struct qn_slot *newest;
    size_t loops; /* around the place at work, within this function */
} function;

typedef struct scope {
    function *function;
    unsigned level;
    struct qn_reference *first, **last; /* its references in the order of their first use */
    size_t count;
    unsigned branches; /* `if`s around the place at work */
} scope;

/* A variable of a scope. */
typedef struct qn_reference {
    scope *scope;
    qn_symbol *symbol;
    qn_load_kind load;
    uint32_t slot;
    struct qn_reference *outer; /* the symbol's reference further out */
    struct qn_reference *next;  /* in the scope */
} qn_reference;

/* Scopes of one level within a function share the variable of a name: one slot. */
typedef struct qn_slot {
    function *function;
    qn_symbol *symbol;
    unsigned level;
    uint32_t slot;
    struct qn_slot *next;  /* of the symbol; those of the innermost function come first */
    struct qn_slot *older; /* of the function */
} qn_slot;

typedef struct resolver {
    qn_compiler *compiler;
    function *function;
    scope *scope;
    unsigned level;
    size_t for_depth; /* for loops around, through macros too */
    qn_symbol *loop, *caller, *kwargs, *varargs, *self;
} resolver;

static qn_status slot_of(resolver *v, qn_symbol *symbol, uint32_t *out)
{
    for (qn_slot *at = symbol->slots; at && at->function == v->function; at = at->next) {
        if (at->level == v->level) {
            *out = at->slot;
            return QN_OK;
        }
    }
    qn_slot *slot = qn_compile_alloc(v->compiler, 1, sizeof *slot);
    if (!slot)
        return qn_compile_status(v->compiler);
    *slot = (qn_slot){v->function, symbol, v->level, v->function->slots++, symbol->slots, v->function->newest};
    symbol->slots = v->function->newest = slot;
    *out = slot->slot;
    return QN_OK;
}

static bool is_own(const resolver *v, const qn_symbol *symbol)
{
    return symbol->references && symbol->references->scope == v->scope;
}

static qn_status define(resolver *v, qn_symbol *symbol, qn_load_kind load)
{
    if (is_own(v, symbol)) {
        symbol->references->load = load;
        return QN_OK;
    }
    qn_reference *reference = qn_compile_alloc(v->compiler, 1, sizeof *reference);
    if (!reference)
        return qn_compile_status(v->compiler);
    *reference = (qn_reference){.scope = v->scope, .symbol = symbol, .load = load, .outer = symbol->references};
    QN_TRY(slot_of(v, symbol, &reference->slot));
    symbol->references = reference;
    *v->scope->last = reference;
    v->scope->last = &reference->next;
    ++v->scope->count;
    return QN_OK;
}

static qn_status note_load(resolver *v, qn_symbol *symbol)
{
    return symbol->references ? QN_OK : define(v, symbol, QN_LOAD_CONTEXT);
}

/* A name that only some branch sets may be read after it: then it is the context's, if it was not set. */
static qn_status note_store(resolver *v, qn_symbol *symbol)
{
    if (is_own(v, symbol))
        return QN_OK;
    if (symbol->references)
        return define(v, symbol, QN_LOAD_OUTER);
    return define(v, symbol, v->scope->branches > 0 ? QN_LOAD_CONTEXT : QN_LOAD_NOTHING);
}

/* ---- first pass ---- */

static qn_status note_expression(void *context, qn_node *node)
{
    resolver *v = context;
    if (node->kind == QN_NODE_NAME || node->kind == QN_NODE_NAMESPACE_NAME)
        return note_load(v, node->name.symbol);
    return qn_walk_parts(node, note_expression, v);
}

static qn_status note_target(resolver *v, qn_node *target, bool parameter)
{
    if (target->kind == QN_NODE_NAME)
        return parameter ? define(v, target->name.symbol, QN_LOAD_PARAMETER) : note_store(v, target->name.symbol);
    if (target->kind == QN_NODE_NAMESPACE_NAME)
        return note_load(v, target->name.symbol);
    for (size_t i = 0; i < target->items.count; ++i)
        QN_TRY(note_target(v, target->items.items[i], parameter));
    return QN_OK;
}

static qn_status note_expressions(resolver *v, const qn_nodes *nodes)
{
    for (size_t i = 0; i < nodes->count; ++i)
        QN_TRY(note_expression(v, nodes->items[i]));
    return QN_OK;
}

static qn_status note_statements(resolver *v, const qn_nodes *nodes);

static qn_status note_branches(resolver *v, const qn_node *node)
{
    QN_TRY(note_expression(v, node->branch.branches[0].test));
    ++v->scope->branches;
    for (size_t i = 0; i < node->branch.count; ++i) {
        if (i > 0)
            QN_TRY(note_expression(v, node->branch.branches[i].test));
        QN_TRY(note_statements(v, &node->branch.branches[i].body));
    }
    QN_TRY(note_statements(v, &node->branch.otherwise));
    --v->scope->branches;
    return QN_OK;
}

static qn_status note_statement(resolver *v, qn_node *node)
{
    switch (node->kind) {
    case QN_NODE_OUTPUT:
        return note_expressions(v, &node->items);
    case QN_NODE_FOR:
        return note_expression(v, node->loop->iterable);
    case QN_NODE_IF:
        return note_branches(v, node);
    case QN_NODE_MACRO:
        return note_store(v, node->macro.symbol);
    case QN_NODE_CALL_BLOCK:
        return node->macro.call ? note_expression(v, node->macro.call) : QN_OK;
    case QN_NODE_FILTER_BLOCK:
        return note_expression(v, node->block.filter);
    case QN_NODE_WITH:
        return note_expressions(v, &node->with.values);
    case QN_NODE_SET:
        QN_TRY(note_expression(v, node->set.value));
        return note_target(v, node->set.target, false);
    case QN_NODE_SET_BLOCK: /* not its filter: Jinja2 overlooks it */
        return note_target(v, node->block.target, false);
    default:
        return QN_OK;
    }
}

static qn_status note_statements(resolver *v, const qn_nodes *nodes)
{
    for (size_t i = 0; i < nodes->count; ++i)
        QN_TRY(note_statement(v, nodes->items[i]));
    return QN_OK;
}

/* ---- entering and leaving ---- */

static void enter_scope(resolver *v, scope *inner, scope **held)
{
    *held = v->scope;
    *inner = (scope){.function = v->function, .level = ++v->level};
    inner->last = &inner->first;
    v->scope = inner;
}

static qn_variable variable_of(const resolver *v, const qn_reference *reference)
{
    qn_variable variable = {.slot = reference->slot};
    for (const function *at = v->function; at != reference->scope->function; at = at->outer)
        ++variable.hops;
    return variable;
}

/* What entering the scope does, once its names are known. */
static qn_status scope_entry(resolver *v, qn_scope_entry *out)
{
    qn_load *loads = qn_compile_alloc(v->compiler, v->scope->count, sizeof *loads);
    size_t count = 0;
    if (!loads)
        return qn_compile_status(v->compiler);
    for (qn_reference *at = v->scope->first; at; at = at->next) {
        qn_load *load = &loads[count++];
        *load = (qn_load){.kind = at->load, .slot = at->slot, .name = &at->symbol->name};
        if (at->load == QN_LOAD_OUTER)
            load->outer = variable_of(v, at->outer);
        at->symbol->read = at->symbol->read || at->load == QN_LOAD_CONTEXT;
    }
    *out = (qn_scope_entry){.count = count, .loads = loads};
    return QN_OK;
}

static void leave_scope(resolver *v, scope *held)
{
    for (qn_reference *at = v->scope->first; at; at = at->next)
        at->symbol->references = at->outer;
    v->scope = held;
    --v->level;
}

static void enter_function(resolver *v, function *inner)
{
    *inner = (function){.outer = v->function};
    v->function = inner;
}

static void leave_function(resolver *v)
{
    for (qn_slot *slot = v->function->newest; slot; slot = slot->older)
        slot->symbol->slots = slot->next;
    v->function = v->function->outer;
}

/* ---- second pass ---- */

typedef struct place {
    resolver *resolver;
    bool soft; /* within an `if`, where Jinja2 forgives unknown filters until they are reached */
} place;

static qn_status resolve_expression(void *context, qn_node *node);
static qn_status resolve_statements(resolver *v, const qn_nodes *nodes, bool soft);

static qn_status resolve_name(resolver *v, qn_node *node)
{
    const qn_reference *reference = node->name.symbol->references;
    if (!reference)
        return qn_compile_fail(v->compiler, node->offset, "'%.*s' cannot be used here", (int)node->name.text->bytes,
                               node->name.text->data);
    node->name.variable = variable_of(v, reference);
    return QN_OK;
}

static qn_status resolve_filter(const place *at, qn_node *node)
{
    qn_compiler *c = at->resolver->compiler;
    const qn_str *name = node->call.name;
    bool is_filter = node->kind == QN_NODE_FILTER;
    if (is_filter)
        node->call.filter = qn_filter_find(name);
    else
        node->call.test = qn_test_find(name);
    bool found = is_filter ? node->call.filter != NULL : node->call.test != NULL;
    if (found && is_filter && node->call.filter->unsupported)
        return qn_compile_fail(c, node->offset, "the filter '%.*s' is not supported", (int)name->bytes, name->data);
    if (!found && !at->soft)
        return qn_compile_fail(c, node->offset, "no %s named '%.*s'", is_filter ? "filter" : "test",
                               (int)(name->bytes < 60 ? name->bytes : 60), name->data);
    return QN_OK;
}

static qn_status resolve_expression(void *context, qn_node *node)
{
    const place *at = context;
    if (node->kind == QN_NODE_NAME)
        return resolve_name(at->resolver, node);
    if (node->kind == QN_NODE_FILTER || node->kind == QN_NODE_TEST)
        QN_TRY(resolve_filter(at, node));
    place inner = *at;
    inner.soft = at->soft || node->kind == QN_NODE_CONDITIONAL;
    return qn_walk_parts(node, resolve_expression, &inner);
}

static qn_status resolve(resolver *v, qn_node *node, bool soft)
{
    return resolve_expression(&(place){v, soft}, node);
}

static qn_status resolve_all(resolver *v, const qn_nodes *nodes, bool soft)
{
    for (size_t i = 0; i < nodes->count; ++i)
        QN_TRY(resolve(v, nodes->items[i], soft));
    return QN_OK;
}

static qn_status resolve_target(resolver *v, qn_node *target)
{
    if (target->kind == QN_NODE_TUPLE) {
        for (size_t i = 0; i < target->items.count; ++i)
            QN_TRY(resolve_target(v, target->items.items[i]));
        return QN_OK;
    }
    if (target->kind == QN_NODE_NAME && target->name.symbol == v->loop && v->for_depth > 0)
        return qn_compile_fail(v->compiler, target->offset,
                               "can't assign to the special variable 'loop' in a for loop");
    return resolve_name(v, target);
}

static qn_status clone_target(resolver *v, const qn_node *target, qn_node **out)
{
    *out = qn_compile_alloc(v->compiler, 1, sizeof **out);
    if (!*out)
        return qn_compile_status(v->compiler);
    **out = *target;
    if (target->kind != QN_NODE_TUPLE)
        return QN_OK;
    (*out)->items.items = qn_compile_alloc(v->compiler, target->items.count, sizeof *(*out)->items.items);
    if (!(*out)->items.items)
        return qn_compile_status(v->compiler);
    for (size_t i = 0; i < target->items.count; ++i)
        QN_TRY(clone_target(v, target->items.items[i], &(*out)->items.items[i]));
    return QN_OK;
}

/* The test of a for loop is a function of its own, with the target as its variables. */
static qn_status resolve_for_test(resolver *v, qn_for *loop)
{
    scope inner, *held;
    function own;
    QN_TRY(clone_target(v, loop->target, &loop->test_target));
    enter_function(v, &own);
    enter_scope(v, &inner, &held);
    QN_TRY(note_target(v, loop->target, true));
    QN_TRY(note_expression(v, loop->test));
    QN_TRY(scope_entry(v, &loop->test_entry));
    QN_TRY(resolve_target(v, loop->test_target));
    QN_TRY(resolve(v, loop->test, false));
    loop->test_slots = own.slots;
    leave_scope(v, held);
    leave_function(v);
    return QN_OK;
}

static qn_status resolve_for_body(resolver *v, qn_for *loop)
{
    scope inner, *held;
    enter_scope(v, &inner, &held);
    loop->has_loop = loop->recursive || qn_reads_undeclared(&loop->body, &v->loop, 1) != 0;
    if (loop->has_loop) {
        QN_TRY(define(v, v->loop, QN_LOAD_PARAMETER));
        loop->loop_slot = v->loop->references->slot;
    }
    QN_TRY(note_target(v, loop->target, true));
    QN_TRY(note_statements(v, &loop->body));
    QN_TRY(scope_entry(v, &loop->entry));
    QN_TRY(resolve_target(v, loop->target));
    ++v->function->loops;
    QN_TRY(resolve_statements(v, &loop->body, false));
    --v->function->loops;
    leave_scope(v, held);
    return QN_OK;
}

static qn_status resolve_for_otherwise(resolver *v, qn_for *loop)
{
    scope inner, *held;
    enter_scope(v, &inner, &held);
    QN_TRY(note_statements(v, &loop->otherwise));
    QN_TRY(scope_entry(v, &loop->otherwise_entry));
    QN_TRY(resolve_statements(v, &loop->otherwise, false));
    leave_scope(v, held);
    return QN_OK;
}

static qn_status resolve_for(resolver *v, qn_for *loop, bool soft)
{
    function own;
    QN_TRY(resolve(v, loop->iterable, soft));
    ++v->for_depth;
    if (loop->test)
        QN_TRY(resolve_for_test(v, loop));
    if (loop->recursive)
        enter_function(v, &own);
    QN_TRY(resolve_for_body(v, loop));
    QN_TRY(resolve_for_otherwise(v, loop));
    loop->slots = v->function->slots;
    if (loop->recursive)
        leave_function(v);
    --v->for_depth;
    return QN_OK;
}

/* `caller`, `kwargs` and `varargs` are parameters of a macro that reads them without having set them. */
static qn_status declare_specials(resolver *v, const qn_node *node, qn_macro_code *code)
{
    unsigned read = qn_reads_undeclared(&code->body, (qn_symbol *const[]){v->caller, v->kwargs, v->varargs}, 3);
    size_t required = code->parameters.count - code->defaults.count;
    code->takes_caller = read & 1;
    code->takes_keywords = read & 2;
    code->takes_rest = read & 4;
    for (size_t i = 0; i < code->parameters.count; ++i) {
        const qn_symbol *parameter = code->parameters.items[i]->name.symbol;
        if (parameter == v->caller && code->takes_caller && i < required)
            return qn_compile_fail(v->compiler, node->offset,
                                   "the parameter 'caller' must be omitted or have a default");
        code->takes_keywords = code->takes_keywords && parameter != v->kwargs;
        code->takes_rest = code->takes_rest && parameter != v->varargs;
    }
    if (code->takes_caller && !code->names_caller) {
        QN_TRY(define(v, v->caller, QN_LOAD_PARAMETER));
        code->caller_slot = v->caller->references->slot;
    }
    if (code->takes_keywords) {
        QN_TRY(define(v, v->kwargs, QN_LOAD_PARAMETER));
        code->keywords_slot = v->kwargs->references->slot;
    }
    if (code->takes_rest) {
        QN_TRY(define(v, v->varargs, QN_LOAD_PARAMETER));
        code->rest_slot = v->varargs->references->slot;
    }
    return QN_OK;
}

static qn_status resolve_macro_code(resolver *v, const qn_node *node)
{
    qn_macro_code *code = node->macro.code;
    scope inner, *held;
    function own;
    enter_function(v, &own);
    enter_scope(v, &inner, &held);
    for (size_t i = 0; i < code->parameters.count; ++i)
        QN_TRY(note_target(v, code->parameters.items[i], true));
    QN_TRY(note_expressions(v, &code->defaults));
    QN_TRY(note_statements(v, &code->body));
    QN_TRY(declare_specials(v, node, code));
    QN_TRY(scope_entry(v, &code->entry));
    for (size_t i = 0; i < code->parameters.count; ++i)
        QN_TRY(resolve_name(v, code->parameters.items[i]));
    QN_TRY(resolve_all(v, &code->defaults, false));
    QN_TRY(resolve_statements(v, &code->body, false));
    code->slots = own.slots;
    leave_scope(v, held);
    leave_function(v);
    return QN_OK;
}

static qn_status resolve_macro(resolver *v, qn_node *node, bool soft)
{
    QN_TRY(resolve_macro_code(v, node));
    if (node->kind == QN_NODE_CALL_BLOCK)
        return node->macro.call ? resolve(v, node->macro.call, soft) : QN_OK;
    node->macro.variable = variable_of(v, node->macro.symbol->references);
    return QN_OK;
}

static qn_status resolve_block(resolver *v, qn_node *node)
{
    scope inner, *held;
    enter_scope(v, &inner, &held);
    QN_TRY(note_statements(v, &node->block.body));
    if (node->kind == QN_NODE_FILTER_BLOCK)
        QN_TRY(note_expression(v, node->block.filter));
    QN_TRY(scope_entry(v, &node->block.entry));
    QN_TRY(resolve_statements(v, &node->block.body, false));
    if (node->block.filter)
        QN_TRY(resolve(v, node->block.filter, false));
    leave_scope(v, held);
    return node->block.target ? resolve_target(v, node->block.target) : QN_OK;
}

static qn_status resolve_with(resolver *v, qn_node *node, bool soft)
{
    scope inner, *held;
    QN_TRY(resolve_all(v, &node->with.values, soft));
    enter_scope(v, &inner, &held);
    for (size_t i = 0; i < node->with.targets.count; ++i)
        QN_TRY(note_target(v, node->with.targets.items[i], true));
    QN_TRY(note_statements(v, &node->with.body));
    QN_TRY(scope_entry(v, &node->with.entry));
    for (size_t i = 0; i < node->with.targets.count; ++i) {
        size_t loops = v->for_depth; /* a `with` may name its variable `loop` */
        v->for_depth = 0;
        QN_TRY(resolve_target(v, node->with.targets.items[i]));
        v->for_depth = loops;
    }
    QN_TRY(resolve_statements(v, &node->with.body, false));
    leave_scope(v, held);
    return QN_OK;
}

static qn_status resolve_branches(resolver *v, const qn_node *node)
{
    for (size_t i = 0; i < node->branch.count; ++i) {
        QN_TRY(resolve(v, node->branch.branches[i].test, true));
        QN_TRY(resolve_statements(v, &node->branch.branches[i].body, true));
    }
    return resolve_statements(v, &node->branch.otherwise, true);
}

static qn_status resolve_statement(resolver *v, qn_node *node, bool soft)
{
    switch (node->kind) {
    case QN_NODE_OUTPUT:
        return resolve_all(v, &node->items, soft);
    case QN_NODE_FOR:
        return resolve_for(v, node->loop, soft);
    case QN_NODE_IF:
        return resolve_branches(v, node);
    case QN_NODE_MACRO:
    case QN_NODE_CALL_BLOCK:
        return resolve_macro(v, node, soft);
    case QN_NODE_FILTER_BLOCK:
    case QN_NODE_SET_BLOCK:
        return resolve_block(v, node);
    case QN_NODE_WITH:
        return resolve_with(v, node, soft);
    case QN_NODE_SET:
        QN_TRY(resolve(v, node->set.value, soft));
        return resolve_target(v, node->set.target);
    default: /* BREAK, CONTINUE */
        if (v->function->loops == 0)
            return qn_compile_fail(v->compiler, node->offset, "'%s' outside of a loop",
                                   node->kind == QN_NODE_BREAK ? "break" : "continue");
        return QN_OK;
    }
}

static qn_status resolve_statements(resolver *v, const qn_nodes *nodes, bool soft)
{
    for (size_t i = 0; i < nodes->count; ++i)
        QN_TRY(resolve_statement(v, nodes->items[i], soft));
    return QN_OK;
}

static qn_status find_specials(resolver *v)
{
    struct {
        const char *name;
        qn_symbol **symbol;
    } specials[] = {{"loop", &v->loop},
                    {"caller", &v->caller},
                    {"kwargs", &v->kwargs},
                    {"varargs", &v->varargs},
                    {"self", &v->self}};
    for (size_t i = 0; i < sizeof specials / sizeof specials[0]; ++i) {
        *specials[i].symbol = qn_compile_symbol(v->compiler, specials[i].name, strlen(specials[i].name));
        if (!*specials[i].symbol)
            return qn_compile_status(v->compiler);
    }
    return QN_OK;
}

qn_status qn_resolve_names(qn_compiler *c, const qn_nodes *body, qn_scope_entry *entry, uint32_t *slots)
{
    function own = {0};
    scope root, *held;
    resolver v = {.compiler = c, .function = &own};
    QN_TRY(find_specials(&v));
    if (qn_reads_undeclared(body, &v.self, 1) != 0)
        return qn_compile_fail(c, 0, "'self' is not supported");
    enter_scope(&v, &root, &held);
    QN_TRY(note_statements(&v, body));
    QN_TRY(scope_entry(&v, entry));
    QN_TRY(resolve_statements(&v, body, false));
    *slots = own.slots;
    return QN_OK;
}
