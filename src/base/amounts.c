#include "base/amounts.h"

#include <stdio.h>

const char *qn_memory_text(size_t bytes, char *text)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024.0 && unit + 1 < sizeof units / sizeof *units) {
        value /= 1024.0;
        unit++;
    }
    snprintf(text, QN_MEMORY_TEXT_BYTES, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return text;
}

const char *qn_count_text(uint64_t count, char *text)
{
    static const char *const units[] = {"", " k", " M", " B", " T"};
    double value = (double)count;
    size_t unit = 0;
    while (value >= 1000 && unit + 1 < sizeof units / sizeof *units) {
        value /= 1000;
        unit++;
    }
    snprintf(text, QN_COUNT_TEXT_BYTES, "%.*f%s", unit == 0 ? 0 : value < 10 ? 2 : 1, value, units[unit]);
    return text;
}
