#include "log_lines.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"

static char text[1 << 14];
static size_t count;

static void sink(void *context, const char *line)
{
    (void)context;
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, "%s\n", line);
    count++;
}

void log_lines_start(void)
{
    text[0] = '\0';
    count = 0;
    qn_log_set_sink(sink, NULL);
}

size_t log_lines_stop(void)
{
    qn_log_set_sink(NULL, NULL);
    return count;
}

const char *log_lines_text(void)
{
    return text;
}
