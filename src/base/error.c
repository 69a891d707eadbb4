/* Sentences are formatted aside first, since their arguments may point into the very error that is filled, and then
 * copied through the escape of qn_utf8_printable: a message may quote any input and still be one line of UTF-8. */
#include "base/error.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

static const char CUT_MARK[] = "...";

/* Copies text, escaped, into the error's message; a sentence that does not fit ends in "...". */
static void set_message(qn_error *err, const char *text, size_t bytes)
{
    if (qn_utf8_printable(text, bytes, err->message, sizeof err->message) == bytes)
        return;
    size_t room = sizeof err->message - (sizeof CUT_MARK - 1);
    qn_utf8_printable(text, bytes, err->message, room);
    strcat(err->message, CUT_MARK);
}

/* Formats into err->message; the text is bounded to twice the message, of which the copy keeps what fits. */
__attribute__((format(printf, 2, 0))) static void format_message(qn_error *err, const char *format, va_list arguments)
{
    char text[2 * QN_ERROR_MESSAGE_BYTES];
    int length = vsnprintf(text, sizeof text, format, arguments);
    size_t bytes = length < 0 ? 0 : (size_t)length;
    if (bytes >= sizeof text)
        bytes = sizeof text - 1;
    set_message(err, text, bytes);
}

qn_status qn_fail(qn_error *err, qn_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    format_message(err, format, arguments);
    va_end(arguments);
    err->status = status;
    err->field[0] = '\0';
    return status;
}

qn_status qn_fail_field(qn_error *err, qn_status status, const char *field, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    format_message(err, format, arguments);
    va_end(arguments);
    err->status = status;
    /* aside first: field may be err->field itself */
    char copy[QN_ERROR_FIELD_BYTES];
    qn_utf8_printable(field, strlen(field), copy, sizeof copy);
    memcpy(err->field, copy, sizeof copy);
    return status;
}

qn_status qn_error_prefix(qn_error *err, const char *format, ...)
{
    char sentence[QN_ERROR_MESSAGE_BYTES];
    memcpy(sentence, err->message, sizeof sentence);
    va_list arguments;
    va_start(arguments, format);
    format_message(err, format, arguments);
    va_end(arguments);

    char text[2 * QN_ERROR_MESSAGE_BYTES];
    int length = snprintf(text, sizeof text, "%s: %s", err->message, sentence);
    set_message(err, text, (size_t)length);
    return err->status;
}

qn_status qn_fail_memory(qn_error *err, const char *what, unsigned long long bytes)
{
    return qn_fail(err, QN_RESOURCE, "%s: out of memory (%llu bytes asked for): free memory or ask for less", what,
                   bytes);
}
