#include "text/chat_continue.h"

#include <stdbool.h>
#include <string.h>

static const char field[] = "continue_final_message";

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static qn_status check_final(const json_t *final, qn_error *err)
{
    const char *role = json_string_value(json_object_get(final, "role"));
    if (role == NULL || strcmp(role, "assistant") != 0) {
        return qn_fail_field(err, QN_USAGE, field,
                             "continue_final_message: the last message is not the assistant's: leave it out");
    }
    if (json_array_size(json_object_get(final, "tool_calls")) > 0) {
        return qn_fail_field(err, QN_USAGE, field,
                             "continue_final_message: the last message ends in tool calls: leave them out");
    }
    return QN_OK;
}

/* Where the needle was last written by the request; the text's size when nowhere. What the template wrote may well
 * contain a short needle. */
static size_t find_last(const qn_buffer *text, const qn_span_list *spans, const char *needle, size_t bytes)
{
    for (size_t at = text->size >= bytes ? text->size - bytes + 1 : 0; at-- > 0;) {
        if (memcmp(text->data + at, needle, bytes) == 0 && qn_span_list_covers(spans, at, at + bytes)) {
            return at;
        }
    }
    return text->size;
}

static void cut(qn_buffer *text, qn_span_list *spans, size_t end)
{
    text->size = end;
    text->data[end] = '\0';
    while (spans->count > 0 && spans->items[spans->count - 1].start >= end) {
        spans->count--;
    }
    if (spans->count > 0 && spans->items[spans->count - 1].end > end) {
        spans->items[spans->count - 1].end = end;
    }
}

qn_status qn_chat_cut_after_final(const json_t *messages, qn_buffer *text, qn_span_list *spans, qn_error *err)
{
    const json_t *final = json_array_get(messages, json_array_size(messages) - 1);
    qn_status status = check_final(final, err);
    if (status != QN_OK) {
        return status;
    }
    const json_t *content = json_object_get(final, "content");
    const char *needle = json_is_string(content) ? json_string_value(content) : "";
    size_t bytes = json_string_length(content);
    while (bytes > 0 && is_space(needle[0])) {
        needle++;
        bytes--;
    }
    size_t kept = bytes; /* without white space behind */
    while (kept > 0 && is_space(needle[kept - 1])) {
        kept--;
    }
    if (kept == 0) {
        return qn_fail_field(err, QN_USAGE, field,
                             "continue_final_message: the last message has no text to go on from: leave it out");
    }
    size_t at = find_last(text, spans, needle, kept);
    if (at == text->size) {
        return qn_fail_field(
            err, QN_USAGE, field,
            "continue_final_message: the chat template does not show the last message's text as it is: "
            "leave it out");
    }
    size_t end = at + kept;
    while (end < text->size && end - at < bytes && text->data[end] == needle[end - at]) {
        end++;
    }
    cut(text, spans, end);
    return QN_OK;
}
