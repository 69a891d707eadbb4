/* Catches what qn_log says, for the tests of this room. */
#ifndef LOG_LINES_H
#define LOG_LINES_H

#include <stddef.h>

void log_lines_start(void);
size_t log_lines_stop(void);      /* how many lines came since the start */
const char *log_lines_text(void); /* those lines, each with a newline */

#endif
