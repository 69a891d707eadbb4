#include "server/openai_fields.h"

#include "base/json.h"

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
    if (!json_is_object(options)) {
        return qn_fail_field(err, QN_USAGE, "stream_options", "stream_options: %s given: send an object",
                             qn_json_type_name(options));
    }
    qn_error inner;
    status = qn_fields_check(options, option_fields, sizeof option_fields / sizeof option_fields[0], unknown, &inner);
    if (status == QN_OK) {
        status = qn_field_boolean(options, "include_usage", &out->include_usage, &inner);
    }
    if (status == QN_OK) {
        status = qn_field_boolean(options, "continuous_usage_stats", &out->continuous_usage, &inner);
    }
    return status == QN_OK ? QN_OK : qn_fail_field(err, status, "stream_options", "stream_options: %s", inner.message);
}
