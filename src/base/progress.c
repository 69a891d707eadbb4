#include "base/progress.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

enum { BAR_CELLS = 24, REDRAW_US = 100000, LINE_BYTES = 256 };

/* One write per picture: a bar that is torn by another thread's line is put right by the next. */
static void put(const char *text)
{
    ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
    (void)ignored; /* a bar that cannot be drawn is no failure of the work */
}

void qn_progress_start(qn_progress *p, const char *label, const char *unit, uint64_t total)
{
    *p = (qn_progress){.label = label, .unit = unit, .total = total, .active = isatty(STDERR_FILENO)};
    p->started_us = qn_now_us();
}

static void draw(const qn_progress *p, uint64_t done, uint64_t now_us)
{
    double share = p->total > 0 ? (double)done / (double)p->total : 1.0;
    if (share > 1.0)
        share = 1.0;
    double seconds = (double)(now_us - p->started_us) / 1e6;
    double rate = seconds > 0 ? (double)done / seconds : 0;

    char bar[BAR_CELLS + 1];
    int full = (int)(share * BAR_CELLS);
    for (int i = 0; i < BAR_CELLS; i++)
        bar[i] = i < full ? '#' : '.';
    bar[BAR_CELLS] = '\0';

    char left[32] = "";
    if (rate > 0 && done < p->total) {
        uint64_t left_s = (uint64_t)((double)(p->total - done) / rate + 0.5);
        snprintf(left, sizeof left, ", %llu:%02u left", (unsigned long long)(left_s / 60), (unsigned)(left_s % 60));
    }
    char line[LINE_BYTES];
    snprintf(line, sizeof line, "\r%.40s [%s] %3d %%, %.1f %.16s/s%s\x1b[K", p->label, bar, (int)(share * 100), rate,
             p->unit, left);
    put(line);
}

void qn_progress_update(qn_progress *p, uint64_t done)
{
    if (!p->active)
        return;
    uint64_t now_us = qn_now_us();
    if (p->drawn_us != 0 && now_us - p->drawn_us < REDRAW_US)
        return;
    draw(p, done, now_us);
    p->drawn_us = now_us;
}

void qn_progress_finish(qn_progress *p)
{
    if (p->active && p->drawn_us != 0)
        put("\r\x1b[K");
    p->active = 0;
}
