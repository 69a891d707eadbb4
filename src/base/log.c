/* A line is built whole and handed to one write(2), so that lines of several threads never mix. */
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"

static const char PREFIX[] = "quern: ", CUT_MARK[] = "...";
enum { PREFIX_BYTES = sizeof PREFIX - 1, CUT_MARK_BYTES = sizeof CUT_MARK - 1 };

/* Set before threads start, read by all of them: the header's one condition stands in for a lock. */
static qn_log_sink current_sink;
static void *current_context;

void qn_log_set_sink(qn_log_sink sink, void *context)
{
    current_sink = sink;
    current_context = context;
}

static void write_all(const char *data, size_t bytes)
{
    while (bytes > 0) {
        ssize_t written = write(STDERR_FILENO, data, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return; /* a closed stderr leaves nobody to tell */
        data += written;
        bytes -= (size_t)written;
    }
}

/* Prints the message behind the prefix, escaped, on one line. */
static void emit(const char *message, size_t bytes)
{
    char line[PREFIX_BYTES + QN_LOG_LINE_BYTES + CUT_MARK_BYTES + 2];
    memcpy(line, PREFIX, PREFIX_BYTES);
    if (qn_utf8_printable(message, bytes, line + PREFIX_BYTES, QN_LOG_LINE_BYTES + 1) < bytes)
        strcat(line, CUT_MARK);
    if (current_sink) {
        current_sink(current_context, line);
        return;
    }
    size_t length = strlen(line);
    line[length] = '\n';
    write_all(line, length + 1);
}

void qn_log(const char *format, ...)
{
    /* one byte more than a line holds, so that a longer message shows as cut */
    char message[QN_LOG_LINE_BYTES + 2];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    emit(message, strlen(message));
}

void qn_log_error(const qn_error *err)
{
    emit(err->message, strlen(err->message));
}
