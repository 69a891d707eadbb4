#include "server/openai_fields.h"

#include "base/json.h"
#include "base/json_wide.h"

static const qn_field fields[] = {
    {.name = "model"},
    {.name = "max_tokens"},
    {.name = "max_completion_tokens"},
    {.name = "temperature"},
    {.name = "top_p"},
    {.name = "stop"},
    {.name = "stream"},
    {.name = "stream_options"},
    {.name = "n"},
    {.name = "prompt_logprobs"},
    {.name = "return_token_ids"},
    /* About the caller, never about the answer. */
    {.name = "user", .rule = QN_FIELD_FREE},
    {.name = "metadata", .rule = QN_FIELD_FREE},
};

const qn_field_table qn_openai_field_table = {.fields = fields, .count = sizeof fields / sizeof fields[0]};

qn_status qn_openai_read_streaming(const json_t *document, qn_openai_streaming *out, qn_unknown_fields *unknown,
                                   qn_error *err)
{
    static const qn_field option_fields[] = {
        {.name = "include_usage"},
        {.name = "continuous_usage_stats"},
        {.name = "include_obfuscation", .rule = QN_FIELD_NEUTRAL, .neutral = "false"},
    };
    qn_status status = qn_field_boolean(document, "stream", &out->stream, err);
    const json_t *options = qn_field_get(document, "stream_options");
    if (status != QN_OK || options == NULL) {
        return status;
    }
    if (!out->stream) {
        return qn_fail_field(err, QN_USAGE, "stream_options", "stream_options: only with stream: true: leave it out");
    }
    if (!qn_json_is_object(options)) {
        return qn_fail_field(err, QN_USAGE, "stream_options", "stream_options: %s given: send an object",
                             qn_json_type_name(options));
    }
    qn_error inner;
    status = qn_members_check(options, "stream_options", option_fields, sizeof option_fields / sizeof option_fields[0],
                              unknown, &inner);
    if (status == QN_OK) {
        status = qn_field_boolean(options, "include_usage", &out->include_usage, &inner);
    }
    if (status == QN_OK) {
        status = qn_field_boolean(options, "continuous_usage_stats", &out->continuous_usage, &inner);
    }
    return status == QN_OK ? QN_OK : qn_fail_field(err, status, "stream_options", "stream_options: %s", inner.message);
}

qn_status qn_openai_read_prompt_end(const json_t *document, qn_prompt_end *out, qn_error *err)
{
    bool continues = false;
    qn_status status = qn_field_boolean(document, "continue_final_message", &continues, err);
    bool opens = !continues;
    if (status == QN_OK) {
        status = qn_field_boolean(document, "add_generation_prompt", &opens, err);
    }
    if (status == QN_OK && continues && opens) {
        return qn_fail_field(err, QN_USAGE, "continue_final_message",
                             "continue_final_message: add_generation_prompt begins a new message: send one of them");
    }
    *out = continues ? QN_PROMPT_CONTINUES : opens ? QN_PROMPT_OPENS_MESSAGE : QN_PROMPT_IS_CLOSED;
    return status;
}
