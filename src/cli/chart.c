#include "cli/chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { EIGHTHS = 8 };

/* Eighths of `whole` eighths, rounded, but at least one of what is there and all of nothing else than the whole. */
static size_t eighths_of(double share, size_t whole)
{
    if (!(share > 0))
        return 0;
    double filled = floor(share * (double)whole + 0.5);
    return filled < 1 ? 1 : filled > (double)whole ? whole : (size_t)filled;
}

const char *qn_chart_bar(double share, size_t cells, bool blocks, char out[QN_BAR_BYTES])
{
    static const char *const parts[EIGHTHS] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    size_t unit = blocks ? EIGHTHS : 1, filled = eighths_of(share, cells * unit), used = filled / unit;
    char *at = out;
    for (size_t i = 0; i < used; i++)
        at = stpcpy(at, blocks ? "█" : "#");
    if (filled % unit) {
        at = stpcpy(at, parts[filled % unit]);
        used++;
    }
    memset(at, ' ', cells - used);
    at[cells - used] = '\0';
    return out;
}

const char *qn_chart_level(double share, bool blocks)
{
    static const char *const lower[EIGHTHS + 1] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const digits[EIGHTHS + 1] = {" ", "1", "2", "3", "4", "5", "6", "7", "8"};
    return (blocks ? lower : digits)[eighths_of(share, EIGHTHS)];
}

bool qn_locale_has_utf8(void)
{
    static const char *const variables[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i]);
        if (value && *value)
            return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
    }
    return false;
}
