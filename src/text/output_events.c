/* Events lie in one buffer and their text in another, so that a step that brings many small pieces allocates nothing
 * once both have grown. Text moves while it grows: an event learns where its text lies when it is read. */
#include "text/output_events.h"

static qn_output_event *last_event(const qn_output_events *list)
{
    return list->events.size > 0 ? (qn_output_event *)(void *)(list->events.data + list->events.size) - 1 : NULL;
}

void qn_output_events_add(qn_output_events *list, qn_output_kind kind, size_t call, const char *text, size_t bytes)
{
    if (bytes == 0 && kind != QN_OUTPUT_CALL_END) {
        return;
    }
    qn_output_event *last = last_event(list);
    if (last != NULL && last->kind == kind && last->call == call && list->text.size > 0) {
        list->text.size--; /* the NUL between them */
        last->bytes += bytes;
        last->reasoning_tokens = list->reasoning_tokens;
    } else {
        const qn_output_event event = {
            .kind = kind, .call = call, .bytes = bytes, .reasoning_tokens = list->reasoning_tokens};
        qn_buffer_append(&list->events, &event, sizeof event);
    }
    qn_buffer_append(&list->text, text, bytes);
    qn_buffer_char(&list->text, '\0');
}

void qn_output_events_set_reasoning_tokens(qn_output_events *list, size_t tokens)
{
    list->reasoning_tokens = tokens;
}

bool qn_output_events_failed(const qn_output_events *list)
{
    return list->events.failed || list->text.failed;
}

const qn_output_event *qn_output_events_read(qn_output_events *list, size_t *count)
{
    qn_output_event *events = (void *)list->events.data;
    const char *text = list->text.data;
    *count = list->events.size / sizeof *events;
    for (size_t i = 0; i < *count; i++) {
        events[i].text = text;
        text += events[i].bytes + 1;
    }
    return events;
}

void qn_output_events_clear(qn_output_events *list)
{
    qn_buffer_clear(&list->events);
    qn_buffer_clear(&list->text);
}

void qn_output_events_free(qn_output_events *list)
{
    qn_buffer_free(&list->events);
    qn_buffer_free(&list->text);
}
