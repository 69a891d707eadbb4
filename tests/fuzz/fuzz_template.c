/* room: text */
/* covers: src/text/jinja */
/* max_len: 2048 */

/* A template, and behind a NUL its context as JSON; without one, a context with something of every kind. Rendering is
 * bounded tightly. Held besides the sanitizers: the text is UTF-8, its spans are in order and within it, an error has a
 * sentence. */
#include <stdlib.h>
#include <string.h>

#include "base/json_wide.h"
#include "base/utf8.h"
#include "text/jinja/template.h"

static const char default_context[] =
    "{\"s\":\"Hello, World\",\"u\":\"h\xc3\xa9y\xf0\x9f\x98\x80 \xc3\x9f \xce\xa3\xce\xb1\xcf\x82\",\"e\":\"\","
    "\"ws\":\"  a\\tb \\n c  \",\"n\":null,\"t\":true,\"f\":false,\"i\":7,\"fl\":2.5,\"l\":[1,2,3,4,5],"
    "\"ls\":[\"b\",\"A\",\"c\",\"a\"],\"m\":[1,\"a\",null,2.5,[1],{\"k\":1}],"
    "\"d\":{\"b\":1,\"a\":\"x\",\"items\":5,\"c\":[1,2]},\"de\":{},\"big\":123456789012345678901234567890,"
    "\"users\":[{\"name\":\"Bob\",\"age\":3,\"tags\":[\"x\"]},{\"name\":\"alice\",\"age\":7},"
    "{\"name\":\"Carl\",\"age\":3,\"tags\":[]}],\"nl\":\"line1\\nline2\\r\\nline3\\n\","
    "\"q\":\"it's \\\"q\\\" \\\\ \\u0001\\u007f\\u200b\\u00a0\",\"html\":\"<b>&\\\"'</b>\","
    "\"messages\":[{\"role\":\"user\",\"content\":\"<|user|>\"},{\"role\":\"tool\",\"content\":[]}]}";

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void check_output(const qn_buffer *text, const qn_span_list *spans)
{
    size_t last = 0;
    require(qn_utf8_valid(qn_buffer_string(text), text->size));
    for (size_t i = 0; i < spans->count; ++i) {
        require(spans->items[i].start >= last && spans->items[i].start < spans->items[i].end);
        last = spans->items[i].end;
    }
    require(last <= text->size);
}

static void render(const qn_template *t, const char *context, size_t bytes)
{
    const qn_template_limits limits = {.steps = 20000, .memory_bytes = 2 << 20, .output_bytes = 1 << 18, .depth = 300};
    json_t *request = NULL, *trusted = json_pack("{s:s, s:s}", "bos_token", "<s>", "s", "trusted");
    qn_buffer text = {0};
    qn_span_list spans = {0};
    qn_error err = {0};
    if (qn_json_parse_wide(context, bytes, "context", &request, &err) == QN_OK) {
        if (qn_template_render(t, request, trusted, &limits, &text, &spans, &err) == QN_OK)
            check_output(&text, &spans);
        else
            require(err.message[0] != '\0' && text.size == 0 && spans.count == 0);
    }
    json_decref(request);
    json_decref(trusted);
    qn_buffer_free(&text);
    qn_span_list_free(&spans);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const char *source = (const char *)data;
    const char *end = bytes > 0 ? memchr(source, '\0', bytes) : NULL;
    size_t source_bytes = end ? (size_t)(end - source) : bytes;
    qn_template *t = NULL;
    qn_error err = {0};
    if (qn_template_compile(source, source_bytes, "fuzz", &t, &err) != QN_OK) {
        require(err.message[0] != '\0');
        return 0;
    }
    if (end)
        render(t, end + 1, bytes - source_bytes - 1);
    else
        render(t, default_context, sizeof default_context - 1);
    qn_template_reads(t, "messages");
    qn_template_free(t);
    return 0;
}
