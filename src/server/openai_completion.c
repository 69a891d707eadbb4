#include "server/openai_completion.h"

#include <string.h>

#include "base/json.h"
#include "base/size.h"
#include "server/request_body.h"

static const qn_field fields[] = {
    {.name = "prompt"},
    {.name = "best_of"},
    {.name = "logprobs"},
    {.name = "echo"},
    /* About the caller, never about the answer; and no checkpoint that quern runs has tokens to add around a prompt. */
    {.name = "add_special_tokens", .rule = QN_FIELD_FREE},
    /* OpenAI's. */
    {.name = "suffix", .rule = QN_FIELD_NEUTRAL},
    /* vLLM's and SGLang's. */
    {.name = "prompt_embeds", .rule = QN_FIELD_NEUTRAL},
};
static const qn_field_table *const also[] = {&qn_openai_field_table, &qn_steering_fields, &qn_format_field_table, NULL};

const qn_field_table qn_completion_fields = {.fields = fields, .count = sizeof fields / sizeof fields[0], .also = also};

static qn_status bad_prompt(qn_error *err)
{
    return qn_fail_field(err, QN_USAGE, "prompt",
                         "prompt: no text and no ids: send a string, a list of strings, of token ids, or of lists of "
                         "token ids, none of them empty");
}

static qn_status check_ids(const json_t *list, size_t vocab_size, qn_error *err)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *id = json_array_get(list, i);
        if (!json_is_integer(id)) {
            return bad_prompt(err);
        }
        if (json_integer_value(id) < 0 || (uint64_t)json_integer_value(id) >= vocab_size) {
            return qn_fail_field(err, QN_USAGE, "prompt", "prompt: entry %zu of a list is no token: send ids below %zu",
                                 i, vocab_size);
        }
    }
    return json_array_size(list) > 0 ? QN_OK : bad_prompt(err);
}

static qn_status check_prompts(const json_t *list, size_t vocab_size, qn_error *err)
{
    json_type type = json_typeof(json_array_get(list, 0));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        if (json_typeof(item) != type || (json_is_string(item) && json_string_length(item) == 0)) {
            return bad_prompt(err);
        }
        qn_status status = json_is_array(item) ? check_ids(item, vocab_size, err) : QN_OK;
        if (status != QN_OK) {
            return status;
        }
    }
    return QN_OK;
}

static qn_status read_prompt(qn_completion_request *request, const qn_generation_limits *limits, qn_error *err)
{
    const json_t *prompt = qn_field_get(request->document, "prompt");
    const json_t *first = json_array_get(prompt, 0);
    request->prompt = prompt;
    request->prompt_count = 1;
    if (json_is_string(prompt)) {
        return json_string_length(prompt) > 0 ? QN_OK : bad_prompt(err);
    }
    if (json_is_string(first) || json_is_array(first)) {
        request->prompt_count = json_array_size(prompt);
        return check_prompts(prompt, limits->vocab_size, err);
    }
    return json_is_array(prompt) ? check_ids(prompt, limits->vocab_size, err) : bad_prompt(err);
}

static qn_status check_choices(const qn_completion_request *request, const qn_generation_limits *limits, qn_error *err)
{
    size_t n = request->generation.n, most = QN_REQUEST_MAX_CHOICES;
    if (limits->max_choices > 0) {
        most = qn_min_size(most, limits->max_choices);
    }
    if (request->prompt_count > most / n) {
        return qn_fail_field(err, QN_USAGE, "prompt",
                             "prompt: %zu prompts of %zu choices each: send at most %zu in all", request->prompt_count,
                             n, most);
    }
    int64_t best_of = (int64_t)n;
    qn_status status = qn_field_integer(request->document, "best_of", 1, INT64_MAX, &best_of, err);
    if (status == QN_OK && best_of != (int64_t)n) {
        return qn_fail_field(err, QN_USAGE, "best_of",
                             "best_of: all choices are told, none is dropped: leave it out, or send n");
    }
    return status;
}

static qn_status read_form(qn_completion_request *request, qn_error *err)
{
    return qn_format_fields_read(request->document, &request->form, err);
}

/* With echo, `logprobs` is about the prompt too. */
static qn_status read_logprobs(qn_completion_request *request, qn_error *err)
{
    int64_t logprobs = -1;
    int *of_prompt = &request->generation.prompt_logprobs;
    qn_status status = qn_field_integer(request->document, "logprobs", 0, QN_MAX_LOGPROBS, &logprobs, err);
    if (status != QN_OK) {
        return status;
    }
    request->logprobs = (int)logprobs;
    if (request->streaming.stream && *of_prompt >= 0) {
        return qn_fail_field(err, QN_USAGE, "prompt_logprobs",
                             "prompt_logprobs: not in a stream: leave one of them out");
    }
    if (request->echo && logprobs >= 0) {
        if (*of_prompt >= 0 && *of_prompt != request->logprobs) {
            return qn_fail_field(err, QN_USAGE, "prompt_logprobs",
                                 "prompt_logprobs: with echo, logprobs says how many: send the same number, or one");
        }
        *of_prompt = request->logprobs;
    }
    return QN_OK;
}

static qn_status read_echo(qn_completion_request *request, qn_error *err)
{
    const qn_generation_fields *generation = &request->generation;
    qn_status status = qn_field_boolean(request->document, "echo", &request->echo, err);
    if (status == QN_OK && generation->max_tokens_field != NULL && generation->max_tokens == 0 && !request->echo) {
        return qn_fail_field(err, QN_USAGE, generation->max_tokens_field,
                             "%s: 0 asks for nothing: send 1 or more, or echo: true", generation->max_tokens_field);
    }
    return status;
}

/* Each check alone; the first that fails is the answer. */
static qn_status read_request(qn_completion_request *request, const qn_generation_limits *limits, qn_error *err)
{
    const json_t *document = request->document;
    qn_generation_limits own = *limits;
    own.may_be_empty = true;
    qn_status status = qn_field_table_check(document, &qn_completion_fields, &request->unknown, err);
    if (status == QN_OK) {
        status = qn_field_string(document, "model", &request->model, err);
    }
    if (status == QN_OK) {
        status = qn_field_boolean(document, "return_token_ids", &request->return_token_ids, err);
    }
    if (status == QN_OK) {
        status = qn_generation_fields_read(document, &own, &request->generation, err);
    }
    if (status == QN_OK) {
        status = qn_openai_read_streaming(document, &request->streaming, &request->unknown, err);
    }
    static qn_status (*const reads[])(qn_completion_request *, qn_error *) = {read_form, read_echo, read_logprobs};
    for (size_t i = 0; i < sizeof reads / sizeof reads[0] && status == QN_OK; i++) {
        status = reads[i](request, err);
    }
    if (status == QN_OK) {
        status = read_prompt(request, limits, err);
    }
    return status == QN_OK ? check_choices(request, limits, err) : status;
}

qn_status qn_completion_request_parse(const char *body, size_t bytes, const qn_generation_limits *limits,
                                      qn_completion_request *out, qn_error *err)
{
    *out = (qn_completion_request){0};
    qn_status status = qn_request_body_parse(body, bytes, &out->document, err);
    if (status == QN_OK) {
        status = read_request(out, limits, err);
    }
    if (status != QN_OK) {
        qn_completion_request_free(out);
    }
    return status;
}

void qn_completion_request_free(qn_completion_request *request)
{
    qn_generation_fields_free(&request->generation);
    qn_format_fields_free(&request->form);
    json_decref(request->document);
    *request = (qn_completion_request){0};
}

static qn_status read_ids(const json_t *list, qn_tokens *out, qn_error *err)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (!qn_tokens_add(out, (int32_t)json_integer_value(json_array_get(list, i)))) {
            return qn_fail_memory(err, "prompt", json_array_size(list) * sizeof *out->ids);
        }
    }
    return QN_OK;
}

static qn_status encode(const qn_tokenizer *tokenizer, const json_t *text, qn_tokens *out, qn_error *err)
{
    qn_status status = qn_tokenizer_encode(tokenizer, json_string_value(text), json_string_length(text), NULL, 0, out,
                                           err);
    if (status == QN_USAGE || status == QN_BAD_INPUT) {
        qn_error cause = *err;
        return qn_fail_field(err, status, "prompt", "%s", cause.message);
    }
    return status == QN_OK && out->count == 0 ? bad_prompt(err) : status;
}

qn_status qn_completion_prompts(const qn_completion_request *request, const qn_tokenizer *tokenizer, qn_tokens *prompts,
                                qn_error *err)
{
    const json_t *first = json_array_get(request->prompt, 0);
    bool several = json_is_string(first) || json_is_array(first);
    for (size_t i = 0; i < request->prompt_count; i++) {
        const json_t *prompt = several ? json_array_get(request->prompt, i) : request->prompt;
        qn_status status = json_is_string(prompt) ? encode(tokenizer, prompt, &prompts[i], err)
                                                  : read_ids(prompt, &prompts[i], err);
        if (status != QN_OK) {
            return status;
        }
    }
    return QN_OK;
}
