#include "text/tool_list.h"

#include <stdint.h>
#include <string.h>

#include "base/json.h"
#include "base/json_wide.h"
#include "base/memory.h"

enum {
    BUDGET = 200000, /* schemas and enum values of one list: milliseconds */
    MAX_HOPS = 8     /* of $ref from the parameters to the object that has the properties */
};

typedef struct parameter {
    const char *name;
    size_t bytes;
    qn_argument_type type;
} parameter;

struct qn_tool_parameters {
    size_t count;
    bool has_others;
    qn_argument_type others; /* additionalProperties */
    parameter items[];
};

struct qn_tool_list {
    json_t *tools; /* owns names and schemas */
    size_t count;
    qn_tool items[];
};

static bool is_name(const json_t *value)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.";
    const char *name = json_string_value(value);
    size_t bytes = json_string_length(value);
    return name != NULL && bytes > 0 && bytes <= QN_TOOL_NAME_MAX_BYTES && strspn(name, allowed) == bytes;
}

static void free_parameters(struct qn_tool_parameters *parameters)
{
    if (parameters != NULL) {
        for (size_t i = 0; i < parameters->count; i++) {
            qn_argument_type_free(&parameters->items[i].type);
        }
        qn_argument_type_free(&parameters->others);
        qn_free(parameters);
    }
}

const json_t *qn_tool_object_schema(const json_t *parameters)
{
    const json_t *at = parameters;
    for (int hop = 0; hop < MAX_HOPS && json_object_get(at, "properties") == NULL; hop++) {
        const char *reference = json_string_value(json_object_get(at, "$ref"));
        const json_t *target = reference != NULL ? qn_schema_at(parameters, reference) : NULL;
        if (!qn_json_is_object(target)) {
            break;
        }
        at = target;
    }
    return at;
}

static qn_status read_properties(qn_tool *tool, const json_t *properties, size_t *budget, qn_error *err)
{
    const char *name;
    size_t bytes;
    json_t *schema;
    json_object_keylen_foreach((json_t *)(uintptr_t)properties, name, bytes, schema)
    {
        parameter *p = &tool->types->items[tool->types->count];
        if (qn_argument_type_read(schema, tool->parameters, budget, &p->type, err) != QN_OK) {
            return qn_error_prefix(err, "properties.%s", name);
        }
        p->name = name;
        p->bytes = bytes;
        tool->types->count++;
    }
    return QN_OK;
}

static qn_status read_parameters(qn_tool *tool, size_t *budget, qn_error *err)
{
    const json_t *type = json_object_get(tool->parameters, "type");
    if (!qn_json_is_object(tool->parameters)) {
        return qn_fail(err, QN_USAGE, "%s: give a JSON Schema of type object", qn_json_type_name(tool->parameters));
    }
    if (type != NULL && (!json_is_string(type) || strcmp(json_string_value(type), "object") != 0)) {
        return qn_fail(err, QN_USAGE, "type: %s: the parameters of a function are an object",
                       json_is_string(type) ? json_string_value(type) : qn_json_type_name(type));
    }
    const json_t *object = qn_tool_object_schema(tool->parameters);
    const json_t *properties = json_object_get(object, "properties"),
                 *others = json_object_get(object, "additionalProperties");
    if (properties != NULL && !qn_json_is_object(properties)) {
        return qn_fail(err, QN_USAGE, "properties: %s: give an object of schemas", qn_json_type_name(properties));
    }
    size_t bytes = sizeof *tool->types + json_object_size(properties) * sizeof *tool->types->items;
    tool->types = qn_alloc_zero(bytes, 1);
    if (tool->types == NULL) {
        return qn_fail_memory(err, "tools", bytes);
    }
    qn_status status = read_properties(tool, properties, budget, err);
    if (status == QN_OK && qn_json_is_object(others)) {
        status = qn_argument_type_read(others, tool->parameters, budget, &tool->types->others, err);
        tool->types->has_others = status == QN_OK;
        return status == QN_OK ? status : qn_error_prefix(err, "additionalProperties");
    }
    return status;
}

/* One entry. The error's sentence begins with the place within it. */
static qn_status read_tool(const json_t *entry, qn_tool *tool, size_t *budget, qn_error *err)
{
    const json_t *function = json_object_get(entry, "function"), *type = json_object_get(entry, "type");
    const json_t *parameters = json_object_get(function, "parameters"),
                 *description = json_object_get(function, "description"), *strict = json_object_get(function, "strict");
    if (!json_is_string(type) || strcmp(json_string_value(type), "function") != 0) {
        return qn_fail(err, QN_USAGE, ".type: only functions are known: give \"function\"");
    }
    if (!qn_json_is_object(function)) {
        return qn_fail(err, QN_USAGE, ".function: missing or no object: give name, description and parameters");
    }
    if (!is_name(json_object_get(function, "name"))) {
        return qn_fail(err, QN_USAGE, ".function.name: give 1 to %d letters, digits, '_', '-' or '.'",
                       QN_TOOL_NAME_MAX_BYTES);
    }
    if (description != NULL && !json_is_string(description) && !json_is_null(description)) {
        return qn_fail(err, QN_USAGE, ".function.description: %s: give a string", qn_json_type_name(description));
    }
    if (strict != NULL && !json_is_boolean(strict) && !json_is_null(strict)) {
        return qn_fail(err, QN_USAGE, ".function.strict: %s: give true or false", qn_json_type_name(strict));
    }
    tool->name = json_string_value(json_object_get(function, "name"));
    tool->parameters = json_is_null(parameters) ? NULL : parameters;
    if (tool->parameters != NULL && read_parameters(tool, budget, err) != QN_OK) {
        return qn_error_prefix(err, ".function.parameters");
    }
    return QN_OK;
}

/* A private deep copy would cost as much as the request; a reference keeps the values alive. */
static qn_status read_list(qn_tool_list *list, qn_error *err)
{
    size_t budget = BUDGET, count = json_array_size(list->tools);
    for (size_t i = 0; i < count; i++) {
        qn_tool *tool = &list->items[list->count++];
        qn_error why;
        qn_status status = read_tool(json_array_get(list->tools, i), tool, &budget, &why);
        if (status == QN_OK && qn_tool_list_find(list, tool->name, strlen(tool->name)) != tool) {
            status = qn_fail(&why, QN_USAGE, ".function.name: %s is there twice: give each tool its own", tool->name);
        }
        if (status == QN_USAGE) {
            return qn_fail_field(err, status, "tools", "tools[%zu]%s", i, why.message);
        }
        if (status != QN_OK) {
            *err = why;
            return status;
        }
    }
    return QN_OK;
}

qn_status qn_tool_list_new(const json_t *tools, qn_tool_list **out, qn_error *err)
{
    size_t count = json_array_size(tools);
    if (!json_is_array(tools) || count == 0 || count > QN_TOOL_MAX_COUNT) {
        return qn_fail_field(err, QN_USAGE, "tools", "tools: %s: give a list of 1 to %d functions, or leave it out",
                             !json_is_array(tools) ? qn_json_type_name(tools)
                             : count == 0          ? "there are none"
                                                   : "there are too many",
                             QN_TOOL_MAX_COUNT);
    }
    qn_tool_list *list = qn_alloc_zero(sizeof *list + count * sizeof *list->items, 1);
    if (list == NULL) {
        return qn_fail_memory(err, "tools", count * sizeof *list->items);
    }
    list->tools = json_incref((json_t *)(uintptr_t)tools);
    qn_status status = read_list(list, err);
    if (status != QN_OK) {
        qn_tool_list_free(list);
        return status;
    }
    *out = list;
    return QN_OK;
}

void qn_tool_list_free(qn_tool_list *list)
{
    if (list != NULL) {
        for (size_t i = 0; i < list->count; i++) {
            free_parameters(list->items[i].types);
        }
        json_decref(list->tools);
        qn_free(list);
    }
}

size_t qn_tool_list_count(const qn_tool_list *list)
{
    return list->count;
}

const qn_tool *qn_tool_list_at(const qn_tool_list *list, size_t index)
{
    return &list->items[index];
}

const qn_tool *qn_tool_list_find(const qn_tool_list *list, const char *name, size_t bytes)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strlen(list->items[i].name) == bytes && memcmp(list->items[i].name, name, bytes) == 0) {
            return &list->items[i];
        }
    }
    return NULL;
}

static const parameter *find_parameter(const qn_tool *tool, const char *name, size_t bytes)
{
    for (size_t i = 0; tool->types != NULL && i < tool->types->count; i++) {
        const parameter *p = &tool->types->items[i];
        if (p->bytes == bytes && memcmp(p->name, name, bytes) == 0) {
            return p;
        }
    }
    return NULL;
}

bool qn_tool_declares(const qn_tool *tool, const char *name, size_t bytes)
{
    return find_parameter(tool, name, bytes) != NULL;
}

const qn_argument_type *qn_tool_argument_type(const qn_tool *tool, const char *name, size_t bytes)
{
    if (tool == NULL) {
        return NULL;
    }
    const parameter *p = find_parameter(tool, name, bytes);
    if (p != NULL) {
        return &p->type;
    }
    return tool->types != NULL && tool->types->has_others ? &tool->types->others : NULL;
}
