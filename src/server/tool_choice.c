#include "server/tool_choice.h"

#include <string.h>

#include "base/memory.h"

static qn_status no_memory(qn_error *err)
{
    return qn_fail_memory(err, "tools", sizeof(json_t));
}

qn_status qn_tool_choice_add(qn_tool_choice *choice, const json_t *name, const json_t *description,
                             const json_t *parameters, bool strict, qn_error *err)
{
    size_t count = json_array_size(choice->list);
    if (count == QN_TOOL_MAX_COUNT) {
        return qn_fail_field(err, QN_USAGE, "tools", "tools: more than %d: send fewer", QN_TOOL_MAX_COUNT);
    }
    if (choice->list == NULL && (choice->list = json_array()) == NULL) {
        return no_memory(err);
    }
    if (!qn_reserve(&choice->strict, &choice->capacity, count + 1, sizeof *choice->strict)) {
        return no_memory(err);
    }
    choice->strict[count] = strict;
    json_t *tool = json_pack("{s:s, s:{s:O, s:O*, s:O*}}", "type", "function", "function", "name", name, "description",
                             description, "parameters", parameters);
    return tool != NULL && json_array_append_new(choice->list, tool) == 0 ? QN_OK : no_memory(err);
}

qn_status qn_tool_choice_allow(qn_tool_choice *choice, const char *name, bool *found, qn_error *err)
{
    size_t count = json_array_size(choice->list);
    *found = false;
    if (choice->callable == NULL && count > 0) {
        choice->callable = qn_alloc_zero(count, sizeof *choice->callable);
        if (choice->callable == NULL) {
            return no_memory(err);
        }
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *function = json_object_get(json_array_get(choice->list, i), "function");
        if (strcmp(json_string_value(json_object_get(function, "name")), name) == 0) {
            choice->callable[i] = true;
            *found = true;
        }
    }
    return QN_OK;
}

void qn_tool_choice_free(qn_tool_choice *choice)
{
    json_decref(choice->list);
    qn_free(choice->strict);
    qn_free(choice->callable);
    *choice = (qn_tool_choice){0};
}

const json_t *qn_tool_choice_shown(const qn_tool_choice *choice)
{
    return choice->demand == QN_TOOLS_NONE ? NULL : choice->list;
}

/* Errors about schemas name the place in the list's shape; the client sent another. */
static qn_status tell_place(const qn_tool_choice *choice, qn_status status, qn_error *err)
{
    static const char ours[] = "].function.parameters";
    const char *at = status == QN_USAGE && strcmp(err->field, "tools") == 0 ? strstr(err->message, ours) : NULL;
    if (at == NULL || choice->parameters_name == NULL) {
        return status;
    }
    const qn_error told = *err;
    int before = (int)(at - err->message) + 1;
    return qn_fail_field(err, status, "tools", "%.*s%s%s", before, told.message, choice->parameters_name,
                         told.message + before + strlen(ours) - 1);
}

qn_status qn_tool_choice_tools(const qn_tool_choice *choice, qn_tool_list **out, qn_error *err)
{
    const json_t *shown = qn_tool_choice_shown(choice);
    *out = NULL;
    return shown != NULL ? tell_place(choice, qn_tool_list_new(shown, out, err), err) : QN_OK;
}

static qn_calls_place place_of(const qn_tool_choice *choice)
{
    if (qn_tool_choice_shown(choice) == NULL) {
        return QN_CALLS_NONE;
    }
    return choice->demand == QN_TOOLS_CALL ? QN_CALLS_ONLY : QN_CALLS_EITHER;
}

qn_status qn_tool_choice_grammar(const qn_server *server, const qn_tool_choice *choice, const qn_answer_format *format,
                                 qn_answer_grammar **out, qn_error *err)
{
    *out = NULL;
    if (choice->list == NULL && format->kind == QN_FORMAT_TEXT) {
        return QN_OK;
    }
    const qn_call_rules rules = {.tools = choice->list,
                                 .callable = choice->callable,
                                 .held = choice->demand == QN_TOOLS_CALL ? NULL : choice->strict,
                                 .min = 1,
                                 .max = choice->several ? QN_UNBOUNDED : 1,
                                 .line_breaks = server->call_line_breaks};
    return tell_place(choice, qn_grammar_cache_get(server->grammars, format, place_of(choice), &rules, out, err), err);
}

/* A conversation with a call, rendered. Templates that know no calls have no line breaks. */
static bool render_call(const qn_engine *engine, qn_tokens *out)
{
    json_error_t ignored;
    qn_error err;
    json_t *messages = json_loads("[{\"role\":\"user\",\"content\":\"a\"},"
                                  "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"type\":\"function\","
                                  "\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":{\"k\":\"v\"}}}]},"
                                  "{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"b\"}]",
                                  0, &ignored);
    bool rendered = messages != NULL && qn_engine_chat_prompt(engine, messages, NULL, NULL, out, &err) == QN_OK;
    json_decref(messages);
    return rendered;
}

bool qn_tool_choice_line_breaks(const qn_engine *engine)
{
    const qn_tokenizer *tokenizer = qn_engine_tokenizer(engine);
    int32_t key_end = qn_tokenizer_find_added(tokenizer, "</arg_key>");
    qn_tokens ids = {0};
    bool breaks = false;
    if (key_end >= 0 && render_call(engine, &ids)) {
        for (size_t i = 0; i + 1 < ids.count; i++) {
            size_t bytes = 0;
            const char *next = qn_tokenizer_token_bytes(tokenizer, ids.ids[i + 1], &bytes);
            breaks = breaks || (ids.ids[i] == key_end && bytes > 0 && next[0] == '\n');
        }
    }
    qn_tokens_free(&ids);
    return breaks;
}
