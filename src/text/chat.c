/* Finds the template, and dresses a request in the variables that templates expect. */
#include "text/chat.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json.h"
#include "base/json_wide.h"
#include "base/memory.h"
#include "text/jinja/template.h"

enum { CONFIG_MAX_BYTES = 64 << 20 };

struct qn_chat {
    qn_template *template;
    json_t *special_tokens; /* variables of the server's own: an object */
};

static bool file_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 || errno != ENOENT;
}

static qn_status compile_file(const char *path, qn_template **out, qn_error *err)
{
    char *source = NULL;
    size_t bytes = 0;
    qn_status status = qn_file_read(path, QN_TEMPLATE_MAX_BYTES, &source, &bytes, err);
    if (status == QN_OK)
        status = qn_template_compile(source, bytes, path, out, err);
    qn_free(source);
    return status;
}

/* The text of tokenizer_config.json's chat_template; NULL when it has none. */
static const json_t *configured_template(const json_t *config)
{
    const json_t *value = json_object_get(config, "chat_template"), *chosen = NULL;
    if (!json_is_array(value))
        return json_is_string(value) ? value : NULL;
    for (size_t i = 0; i < json_array_size(value); ++i) {
        const json_t *entry = json_array_get(value, i);
        const char *name = json_string_value(json_object_get(entry, "name"));
        if (name && strcmp(name, "default") == 0)
            chosen = json_object_get(entry, "template");
    }
    return json_is_string(chosen) ? chosen : NULL;
}

/* The template of a model directory, whose tokenizer_config.json (NULL: not there) has been read. */
static qn_status compile_model_template(const char *model_dir, const json_t *config, qn_template **out, qn_error *err)
{
    char *path = qn_path_join(model_dir, "chat_template.jinja");
    if (!path)
        return qn_fail_memory(err, "a path", strlen(model_dir));
    qn_status status;
    const json_t *text = configured_template(config);
    if (file_exists(path))
        status = compile_file(path, out, err);
    else if (text)
        status = qn_template_compile(json_string_value(text), json_string_length(text),
                                     "chat_template of tokenizer_config.json", out, err);
    else
        status = qn_fail(err, QN_BAD_INPUT, "%s: no chat template: name one with --chat-template", model_dir);
    qn_free(path);
    return status;
}

/* A special token's text: a string, or an object with `content`. */
static json_t *token_text(json_t *value)
{
    json_t *text = json_is_object(value) ? json_object_get(value, "content") : value;
    return json_is_string(text) ? text : NULL;
}

static qn_status add_token_list(qn_chat *chat, const char *name, const json_t *list, qn_error *err)
{
    json_t *texts = json_array();
    bool fine = texts != NULL;
    for (size_t i = 0; fine && i < json_array_size(list); ++i) {
        json_t *text = token_text(json_array_get(list, i));
        fine = !text || json_array_append(texts, text) == 0;
    }
    if (fine && json_object_set(chat->special_tokens, name, texts) == 0) {
        json_decref(texts);
        return QN_OK;
    }
    json_decref(texts);
    return qn_fail_memory(err, "special tokens", json_array_size(list));
}

static qn_status read_special_tokens(qn_chat *chat, const json_t *config, qn_error *err)
{
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
        json_t *text = token_text(json_object_get(config, names[i]));
        if (text && json_object_set(chat->special_tokens, names[i], text) != 0)
            return qn_fail_memory(err, "special tokens", json_string_length(text));
    }
    const json_t *list = json_object_get(config, "additional_special_tokens");
    return json_is_array(list) ? add_token_list(chat, "additional_special_tokens", list, err) : QN_OK;
}

/* *out stays NULL when the directory has no tokenizer_config.json. */
static qn_status read_config(const char *model_dir, json_t **out, qn_error *err)
{
    char *path = qn_path_join(model_dir, "tokenizer_config.json");
    if (!path)
        return qn_fail_memory(err, "a path", strlen(model_dir));
    qn_status status = QN_OK;
    if (file_exists(path))
        status = qn_json_parse_file(path, CONFIG_MAX_BYTES, out, err);
    if (status == QN_OK && *out && !json_is_object(*out))
        status = qn_fail(err, QN_BAD_INPUT, "%s: must be a JSON object, not %s", path, qn_json_type_name(*out));
    qn_free(path);
    return status;
}

static qn_status open_chat(qn_chat *chat, const char *model_dir, const char *template_path, qn_error *err)
{
    json_t *config = NULL;
    chat->special_tokens = json_object();
    if (!chat->special_tokens)
        return qn_fail_memory(err, "special tokens", 0);
    qn_status status = read_config(model_dir, &config, err);
    if (status == QN_OK)
        status = read_special_tokens(chat, config, err);
    if (status == QN_OK)
        status = template_path ? compile_file(template_path, &chat->template, err)
                               : compile_model_template(model_dir, config, &chat->template, err);
    json_decref(config);
    return status;
}

qn_status qn_chat_open(const char *model_dir, const char *template_path, qn_chat **out, qn_error *err)
{
    qn_chat *chat = qn_alloc_zero(1, sizeof *chat);
    if (!chat)
        return qn_fail_memory(err, "a chat template", sizeof *chat);
    qn_status status = open_chat(chat, model_dir, template_path, err);
    if (status == QN_OK)
        *out = chat;
    else
        qn_chat_free(chat);
    return status;
}

void qn_chat_free(qn_chat *chat)
{
    if (!chat)
        return;
    qn_template_free(chat->template);
    json_decref(chat->special_tokens);
    qn_free(chat);
}

bool qn_chat_reads(const qn_chat *chat, const char *name)
{
    return qn_template_reads(chat->template, name);
}

static qn_status fail_wrapping(qn_error *err)
{
    return qn_fail_memory(err, "the variables of a chat template", 0);
}

/* A reference to a value that is only read. */
static json_t *shared(const json_t *value)
{
    return json_incref((json_t *)(uintptr_t)value);
}

/* Whether the arguments of a call must be replaced before a template sees them. */
static bool needs_parsing(const json_t *call)
{
    const json_t *function = json_object_get(call, "function"), *arguments = json_object_get(function, "arguments");
    return json_is_object(function) && (!arguments || json_is_string(arguments) || json_is_null(arguments));
}

static qn_status parse_arguments(const json_t *arguments, size_t message, size_t call, json_t **out, qn_error *err)
{
    if (json_string_length(arguments) == 0) {
        *out = json_object();
        return *out ? QN_OK : fail_wrapping(err);
    }
    qn_error inner;
    qn_status status = qn_json_parse_wide(json_string_value(arguments), json_string_length(arguments), "arguments", out,
                                          &inner);
    if (status == QN_RESOURCE) {
        *err = inner;
        return status;
    }
    if (status != QN_OK)
        return qn_fail_field(err, QN_USAGE, "messages",
                             "messages[%zu].tool_calls[%zu].function.arguments: not JSON: %s", message, call,
                             inner.message);
    if (qn_json_is_object(*out))
        return QN_OK;
    const char *type = qn_json_type_name(*out);
    json_decref(*out);
    *out = NULL;
    return qn_fail_field(
        err, QN_USAGE, "messages",
        "messages[%zu].tool_calls[%zu].function.arguments: must be the text of a JSON object, not of %s", message, call,
        type);
}

/* A copy of the call with its arguments parsed. */
static qn_status parsed_call(const json_t *call, size_t message, size_t index, json_t **out, qn_error *err)
{
    const json_t *given = json_object_get(call, "function");
    json_t *arguments = NULL, *function = NULL;
    qn_status status = parse_arguments(json_object_get(given, "arguments"), message, index, &arguments, err);
    if (status != QN_OK)
        return status;
    *out = json_copy((json_t *)(uintptr_t)call);
    function = json_copy((json_t *)(uintptr_t)given);
    bool fine = *out && function && json_object_set(function, "arguments", arguments) == 0 &&
                json_object_set(*out, "function", function) == 0;
    json_decref(arguments);
    json_decref(function);
    if (fine)
        return QN_OK;
    json_decref(*out);
    *out = NULL;
    return fail_wrapping(err);
}

/* A copy of the message with all arguments of its calls parsed. */
static qn_status parsed_message(const json_t *message, size_t index, json_t **out, qn_error *err)
{
    const json_t *calls = json_object_get(message, "tool_calls");
    json_t *parsed = json_array();
    qn_status status = parsed ? QN_OK : fail_wrapping(err);
    for (size_t i = 0; status == QN_OK && i < json_array_size(calls); ++i) {
        const json_t *call = json_array_get(calls, i);
        json_t *item = NULL;
        if (needs_parsing(call))
            status = parsed_call(call, index, i, &item, err);
        else
            item = shared(call);
        if (status == QN_OK && json_array_append_new(parsed, item) != 0)
            status = fail_wrapping(err);
    }
    if (status == QN_OK) {
        *out = json_copy((json_t *)(uintptr_t)message);
        if (!*out || json_object_set(*out, "tool_calls", parsed) != 0) {
            json_decref(*out);
            *out = NULL;
            status = fail_wrapping(err);
        }
    }
    json_decref(parsed);
    return status;
}

static bool has_calls_to_parse(const json_t *message)
{
    const json_t *calls = json_object_get(message, "tool_calls");
    for (size_t i = 0; i < json_array_size(calls); ++i) {
        if (needs_parsing(json_array_get(calls, i)))
            return true;
    }
    return false;
}

/* The messages as templates expect them; those that need no change are shared. */
static qn_status parsed_messages(const json_t *messages, json_t **out, qn_error *err)
{
    json_t *parsed = json_array();
    qn_status status = parsed ? QN_OK : fail_wrapping(err);
    for (size_t i = 0; status == QN_OK && i < json_array_size(messages); ++i) {
        const json_t *message = json_array_get(messages, i);
        json_t *item = NULL;
        if (has_calls_to_parse(message))
            status = parsed_message(message, i, &item, err);
        else
            item = shared(message);
        if (status == QN_OK && json_array_append_new(parsed, item) != 0)
            status = fail_wrapping(err);
    }
    if (status == QN_OK)
        *out = parsed;
    else
        json_decref(parsed);
    return status;
}

static qn_status check_kwargs(const json_t *kwargs, qn_error *err)
{
    static const char *const taken[] = {"messages", "tools", "add_generation_prompt"};
    if (kwargs && !qn_json_is_object(kwargs))
        return qn_fail_field(err, QN_USAGE, "chat_template_kwargs", "chat_template_kwargs: must be an object, not %s",
                             qn_json_type_name(kwargs));
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; ++i) {
        if (json_object_get(kwargs, taken[i]))
            return qn_fail_field(err, QN_USAGE, "chat_template_kwargs",
                                 "chat_template_kwargs.%s: is set by the request itself: leave it out", taken[i]);
    }
    return QN_OK;
}

/* The variables of the request. */
static qn_status request_variables(const json_t *messages, const json_t *tools, const json_t *kwargs,
                                   bool add_generation_prompt, json_t **out, qn_error *err)
{
    json_t *parsed = NULL;
    qn_status status = parsed_messages(messages, &parsed, err);
    if (status != QN_OK)
        return status;
    *out = json_object();
    bool fine = *out && json_object_set_new(*out, "documents", json_null()) == 0 &&
                (!kwargs || json_object_update(*out, (json_t *)(uintptr_t)kwargs) == 0) &&
                json_object_set(*out, "messages", parsed) == 0 &&
                json_object_set_new(*out, "tools", tools ? shared(tools) : json_null()) == 0 &&
                json_object_set_new(*out, "add_generation_prompt", json_boolean(add_generation_prompt)) == 0;
    json_decref(parsed);
    if (fine)
        return QN_OK;
    json_decref(*out);
    *out = NULL;
    return fail_wrapping(err);
}

qn_status qn_chat_render(const qn_chat *chat, const json_t *messages, const json_t *tools, const json_t *kwargs,
                         bool add_generation_prompt, qn_buffer *text, qn_span_list *request_spans, qn_error *err)
{
    json_t *variables = NULL;
    if (!json_is_array(messages))
        return qn_fail_field(err, QN_USAGE, "messages", "messages: must be an array");
    qn_status status = check_kwargs(kwargs, err);
    if (status == QN_OK)
        status = request_variables(messages, tools, kwargs, add_generation_prompt, &variables, err);
    if (status == QN_OK)
        status = qn_template_render(chat->template, variables, chat->special_tokens, NULL, text, request_spans, err);
    if (status == QN_USAGE && err->field[0] == '\0')
        strcpy(err->field, "messages"); /* what a template refuses is a conversation */
    json_decref(variables);
    return status;
}
