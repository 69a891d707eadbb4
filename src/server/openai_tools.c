#include "server/openai_tools.h"

#include <string.h>

#include "base/json.h"
#include "base/json_wide.h"

/* OpenAI's own bound; other APIs allow longer names (text/tool_list.h). */
enum { NAME_BYTES = 64 };

/* What is said of the function of a tool, or of one that a choice names; NULL: nothing. */
static const json_t *function_of(const json_t *entry, bool nested)
{
    return nested ? json_object_get(entry, "function") : entry;
}

static bool is_type(const json_t *entry, const char *type)
{
    const char *given = json_string_value(json_object_get(entry, "type"));
    return given != NULL && strcmp(given, type) == 0;
}

/* ---- tools ---- */

static qn_status check_tool(size_t index, const json_t *tool, bool nested, qn_unknown_fields *unknown, qn_error *err)
{
    static const qn_field outer_fields[] = {{.name = "type"}, {.name = "function"}};
    static const qn_field fields[] = {
        {.name = "type"},        {.name = "name"},
        {.name = "description"}, {.name = "parameters"},
        {.name = "strict"},      {.name = "defer_loading", .rule = QN_FIELD_NEUTRAL, .neutral = "false"}};
    const json_t *type = json_object_get(tool, "type");
    if (!is_type(tool, "function")) {
        return qn_fail_field(err, QN_USAGE, "tools",
                             "tools[%zu].type: %.40s: only function is supported: send such tools alone", index,
                             json_is_string(type) ? json_string_value(type) : "missing or not a string");
    }
    const json_t *function = function_of(tool, nested);
    if (!qn_json_is_object(function)) {
        return qn_fail_field(err, QN_USAGE, "tools",
                             "tools[%zu].function: missing or no object: send {\"name\": ..., \"parameters\": {...}}",
                             index);
    }
    qn_error inner;
    qn_status status = nested ? qn_fields_check(tool, outer_fields, 2, unknown, &inner) : QN_OK;
    if (status == QN_OK) {
        status = qn_fields_check(function, fields, sizeof fields / sizeof *fields, unknown, &inner);
    }
    return status == QN_OK ? QN_OK : qn_fail_field(err, QN_USAGE, "tools", "tools[%zu].%s", index, inner.message);
}

static bool good_name(const json_t *name)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.";
    size_t bytes = json_string_length(name);
    return bytes > 0 && bytes <= NAME_BYTES && strspn(json_string_value(name), letters) == bytes;
}

static qn_status add_tool(size_t index, const json_t *tool, bool nested, qn_tool_choice *out,
                          qn_unknown_fields *unknown, qn_error *err)
{
    qn_status status = check_tool(index, tool, nested, unknown, err);
    if (status != QN_OK) {
        return status;
    }
    const json_t *function = function_of(tool, nested);
    const json_t *name = json_object_get(function, "name");
    const json_t *description = qn_field_get(function, "description");
    const json_t *parameters = qn_field_get(function, "parameters");
    const json_t *strict = qn_field_get(function, "strict");
    if (!good_name(name)) {
        return qn_fail_field(err, QN_USAGE, "tools", "tools[%zu]%s.name: give 1 to %d letters, digits, '_', '-' or '.'",
                             index, nested ? ".function" : "", NAME_BYTES);
    }
    if ((description != NULL && !json_is_string(description)) ||
        (parameters != NULL && !qn_json_is_object(parameters)) || (strict != NULL && !json_is_boolean(strict))) {
        return qn_fail_field(err, QN_USAGE, "tools",
                             "tools[%zu]: send a description as text, parameters as an object, strict true or false",
                             index);
    }
    return qn_tool_choice_add(out, name, description, parameters, json_is_true(strict), err);
}

static qn_status read_tools(const json_t *tools, bool nested, qn_tool_choice *out, qn_unknown_fields *unknown,
                            qn_error *err)
{
    if (tools != NULL && !json_is_array(tools)) {
        return qn_fail_field(err, QN_USAGE, "tools", "tools: %s given: send a list", qn_json_type_name(tools));
    }
    qn_status status = QN_OK;
    for (size_t i = 0; i < json_array_size(tools) && status == QN_OK; i++) {
        status = add_tool(i, json_array_get(tools, i), nested, out, unknown, err);
    }
    return status;
}

/* ---- tool_choice ---- */

static qn_status bad_choice(qn_error *err)
{
    return qn_fail_field(err, QN_USAGE, "tool_choice",
                         "tool_choice: send auto, none, required, a function to call, or allowed_tools with a mode "
                         "and tools");
}

static qn_status allow(const json_t *entry, bool nested, qn_tool_choice *out, qn_error *err)
{
    const char *name = json_string_value(json_object_get(function_of(entry, nested), "name"));
    bool found = false;
    if (!is_type(entry, "function") || name == NULL) {
        return bad_choice(err);
    }
    qn_status status = qn_tool_choice_allow(out, name, &found, err);
    return status != QN_OK || found
               ? status
               : qn_fail_field(err, QN_USAGE, "tool_choice",
                               "tool_choice: %.64s is none of the tools: send the name of one that tools has", name);
}

/* "auto", "none" or "required". */
static qn_status read_word(const json_t *choice, qn_tool_choice *out, qn_error *err)
{
    static const char *const words[] = {"auto", "none", "required"}; /* in the order of qn_tool_demand */
    const char *word = json_string_value(choice);
    for (size_t i = 0; word != NULL && i < sizeof words / sizeof *words; i++) {
        if (strcmp(word, words[i]) == 0) {
            out->demand = (qn_tool_demand)i;
            return QN_OK;
        }
    }
    return bad_choice(err);
}

static qn_status read_allowed(const json_t *choice, bool nested, qn_tool_choice *out, qn_error *err)
{
    const json_t *allowed = nested ? json_object_get(choice, "allowed_tools") : choice;
    const json_t *tools = json_object_get(allowed, "tools");
    qn_status status = read_word(json_object_get(allowed, "mode"), out, err);
    if (status == QN_OK && (out->demand == QN_TOOLS_NONE || json_array_size(tools) == 0)) {
        status = bad_choice(err);
    }
    for (size_t i = 0; i < json_array_size(tools) && status == QN_OK; i++) {
        status = allow(json_array_get(tools, i), nested, out, err);
    }
    return status;
}

static qn_status read_choice(const json_t *choice, bool nested, qn_tool_choice *out, bool *named, qn_error *err)
{
    if (is_type(choice, "allowed_tools")) {
        return read_allowed(choice, nested, out, err);
    }
    if (is_type(choice, "function")) {
        out->demand = QN_TOOLS_CALL;
        *named = true;
        return allow(choice, nested, out, err);
    }
    return read_word(choice, out, err);
}

/* OpenAI refuses a choice without tools; auto and none ask for nothing then. */
static qn_status check_tools_exist(const json_t *tools, const json_t *choice, const qn_tool_choice *out, qn_error *err)
{
    const char *word = json_string_value(choice);
    bool harmless = choice == NULL || (word != NULL && (strcmp(word, "auto") == 0 || strcmp(word, "none") == 0));
    if (out->list != NULL || harmless) {
        return QN_OK;
    }
    return tools != NULL
               ? qn_fail_field(err, QN_USAGE, "tools", "tools: none to choose from: send some, or no tool_choice")
               : qn_fail_field(err, QN_USAGE, "tool_choice", "tool_choice: there are no tools: leave it out");
}

qn_status qn_openai_tools_read(const json_t *document, bool nested, qn_tool_choice *out, qn_unknown_fields *unknown,
                               qn_error *err)
{
    out->parameters_name = nested ? NULL : ".parameters";
    const json_t *tools = qn_field_get(document, "tools");
    const json_t *choice = qn_field_get(document, "tool_choice");
    bool named = false;
    qn_status status = read_tools(tools, nested, out, unknown, err);
    if (status == QN_OK) {
        status = check_tools_exist(tools, choice, out, err);
    }
    if (status == QN_OK && choice != NULL) {
        status = read_choice(choice, nested, out, &named, err);
    }
    out->several = out->demand == QN_TOOLS_AUTO;
    if (status == QN_OK) {
        status = qn_field_boolean(document, "parallel_tool_calls", &out->several, err);
    }
    out->several = out->several && !named;
    return status;
}
