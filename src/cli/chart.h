/* Small charts of text: in the block characters of Unicode, which have eighths, or in ASCII. */
#ifndef QN_CLI_CHART_H
#define QN_CLI_CHART_H

#include <stdbool.h>
#include <stddef.h>

enum { QN_BAR_MAX_CELLS = 40, QN_BAR_BYTES = 3 * QN_BAR_MAX_CELLS + 1 };

/* A horizontal bar over `share` (0 to 1) of `cells` columns, filled up with spaces. What is above 0 shows. Returns out.
 */
const char *qn_chart_bar(double share, size_t cells, bool blocks, char out[QN_BAR_BYTES]);

/* One column's height: " " for 0, then an eighth and more as a block or as a digit 1 to 8. */
const char *qn_chart_level(double share, bool blocks);

/* Does this process's locale have UTF-8, by the environment (LC_ALL, LC_CTYPE, LANG)? */
bool qn_locale_has_utf8(void);

#endif
