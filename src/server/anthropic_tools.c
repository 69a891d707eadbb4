#include "server/anthropic_tools.h"

#include <stdint.h>
#include <string.h>

#include "base/json.h"
#include "base/json_wide.h"
#include "text/tool_list.h"

static qn_status bad_tool(size_t index, const char *reason, qn_error *err)
{
    return qn_fail_field(err, QN_USAGE, "tools", "tools[%zu]%s", index, reason);
}

static bool good_name(const json_t *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    size_t bytes = json_string_length(name);
    return json_is_string(name) && bytes > 0 && bytes <= QN_TOOL_NAME_MAX_BYTES &&
           strspn(json_string_value(name), letters) == bytes;
}

/* Tools that Anthropic knows by their type have no schema in the request, and this model never heard of them. */
static qn_status check_type(size_t index, const json_t *tool, qn_error *err)
{
    const json_t *type = qn_field_get(tool, "type");
    if (type == NULL || (json_is_string(type) && strcmp(json_string_value(type), "custom") == 0)) {
        return QN_OK;
    }
    return qn_fail_field(err, QN_USAGE, "tools",
                         "tools[%zu].type: %.40s: only custom tools are supported: send such tools alone", index,
                         json_is_string(type) ? json_string_value(type) : qn_json_type_name(type));
}

static qn_status check_tool(size_t index, const json_t *tool, qn_unknown_fields *unknown, qn_error *err)
{
    static const qn_field tool_fields[] = {
        {.name = "name"},
        {.name = "type"},
        {.name = "description"},
        {.name = "input_schema"},
        {.name = "strict"},
        {.name = "cache_control", .rule = QN_FIELD_FREE},
        {.name = "eager_input_streaming", .rule = QN_FIELD_FREE}, /* arguments always come as they are made */
        {.name = "defer_loading", .rule = QN_FIELD_NEUTRAL, .neutral = "false"},
    };
    if (!qn_json_is_object(tool)) {
        return bad_tool(index, ": send {\"name\": ..., \"description\": ..., \"input_schema\": {...}}", err);
    }
    qn_status status = check_type(index, tool, err);
    if (status != QN_OK) {
        return status;
    }
    qn_error inner;
    if (qn_fields_check(tool, tool_fields, sizeof tool_fields / sizeof tool_fields[0], unknown, &inner) != QN_OK) {
        return qn_fail_field(err, QN_USAGE, "tools", "tools[%zu].%s", index, inner.message);
    }
    const json_t *description = qn_field_get(tool, "description");
    const json_t *strict = qn_field_get(tool, "strict");
    if (!good_name(json_object_get(tool, "name"))) {
        return bad_tool(index, ".name: send 1 to 128 letters, digits, _ and -", err);
    }
    if (description != NULL && !json_is_string(description)) {
        return bad_tool(index, ".description: send a string", err);
    }
    if (!qn_json_is_object(json_object_get(tool, "input_schema"))) {
        return bad_tool(index, ".input_schema: missing or not an object: send a JSON schema", err);
    }
    return strict == NULL || json_is_boolean(strict) ? QN_OK : bad_tool(index, ".strict: send true or false", err);
}

/* `names` holds those of the tools so far as keys. */
static qn_status add_tool(size_t index, const json_t *tool, json_t *names, qn_tool_choice *out, qn_error *err)
{
    const json_t *name = json_object_get(tool, "name");
    if (json_object_get(names, json_string_value(name)) != NULL) {
        return qn_fail_field(err, QN_USAGE, "tools", "tools[%zu].name: %s: there is one of this name already", index,
                             json_string_value(name));
    }
    if (json_object_set_new(names, json_string_value(name), json_true()) != 0) {
        return qn_fail_memory(err, "tools", sizeof(json_t));
    }
    return qn_tool_choice_add(out, name, qn_field_get(tool, "description"), json_object_get(tool, "input_schema"),
                              json_is_true(json_object_get(tool, "strict")), err);
}

static qn_status read_tools(const json_t *tools, qn_tool_choice *out, qn_unknown_fields *unknown, qn_error *err)
{
    if (!json_is_array(tools)) {
        return qn_fail_field(err, QN_USAGE, "tools", "tools: %s given: send a list", qn_json_type_name(tools));
    }
    if (json_array_size(tools) == 0) {
        return QN_OK;
    }
    json_t *names = json_object();
    qn_status status = names != NULL ? QN_OK : qn_fail_memory(err, "tools", sizeof(json_t));
    for (size_t i = 0; i < json_array_size(tools) && status == QN_OK; i++) {
        const json_t *tool = json_array_get(tools, i);
        status = check_tool(i, tool, unknown, err);
        if (status == QN_OK) {
            status = add_tool(i, tool, names, out, err);
        }
    }
    json_decref(names);
    return status;
}

static qn_status read_named(const json_t *choice, qn_tool_choice *out, qn_error *err)
{
    const char *name = NULL;
    bool found = false;
    qn_error inner;
    if (qn_field_string(choice, "name", &name, &inner) != QN_OK || name == NULL) {
        return qn_fail_field(err, QN_USAGE, "tool_choice", "tool_choice.name: missing or not a string: send a tool's");
    }
    qn_status status = qn_tool_choice_allow(out, name, &found, err);
    return status != QN_OK || found
               ? status
               : qn_fail_field(err, QN_USAGE, "tool_choice",
                               "tool_choice.name: %.128s is none of the tools: send the name of one that tools has",
                               name);
}

static qn_status read_choice(const json_t *choice, qn_tool_choice *out, qn_unknown_fields *unknown, qn_error *err)
{
    static const qn_field choice_fields[] = {{.name = "type"}, {.name = "name"}, {.name = "disable_parallel_tool_use"}};
    static const char *const types[] = {"auto", "none", "any", "tool"};
    static const qn_tool_demand demands[] = {QN_TOOLS_AUTO, QN_TOOLS_NONE, QN_TOOLS_CALL, QN_TOOLS_CALL};
    const json_t *type = json_object_get(choice, "type");
    size_t at = 0;
    while (json_is_string(type) && at < 4 && strcmp(types[at], json_string_value(type)) != 0) {
        at++;
    }
    if (!json_is_string(type) || at == 4) {
        return qn_fail_field(err, QN_USAGE, "tool_choice",
                             "tool_choice: send {\"type\": ...} with auto, any, tool or none");
    }
    out->demand = demands[at];
    qn_fields_check(choice, choice_fields, sizeof choice_fields / sizeof choice_fields[0], unknown, err);
    bool named = strcmp(types[at], "tool") == 0, one_at_a_time = out->demand == QN_TOOLS_CALL;
    qn_error inner;
    if (qn_field_boolean(choice, "disable_parallel_tool_use", &one_at_a_time, &inner) != QN_OK) {
        return qn_fail_field(err, QN_USAGE, "tool_choice", "tool_choice.%s", inner.message);
    }
    if (out->list == NULL && out->demand != QN_TOOLS_NONE) {
        return qn_fail_field(err, QN_USAGE, "tool_choice", "tool_choice: there are no tools: leave it out");
    }
    out->several = !one_at_a_time && !named;
    return named ? read_named(choice, out, err) : QN_OK;
}

qn_status qn_anthropic_tools_read(const json_t *document, qn_tool_choice *out, qn_unknown_fields *unknown,
                                  qn_error *err)
{
    const json_t *tools = qn_field_get(document, "tools");
    const json_t *choice = qn_field_get(document, "tool_choice");
    out->several = true;
    out->parameters_name = ".input_schema";
    qn_status status = tools != NULL ? read_tools(tools, out, unknown, err) : QN_OK;
    return status == QN_OK && choice != NULL ? read_choice(choice, out, unknown, err) : status;
}
