/* Counting is one atomic operation and a look at the clock; the rest is for the thread that finds a report due and
 * nobody else at it. The rate is a quotient of two sums that fade alike, so that it starts as the plain average and
 * needs no first guess. */
#include "base/progress.h"

#include <math.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"

enum {
    BAR_CELLS = 24,
    LEAST_CELLS = 4,
    USUAL_COLUMNS = 80,
    LINE_BYTES = 256,
    STATE_BYTES = 128,
    TEXT_BYTES = 48,
    SECOND_US = 1000000,
    REDRAW_US = 100000,
    SAMPLE_US = 500000, /* and the distance of JSON lines */
    FIRST_LINE_S = 10,
    NEXT_LINE_S = 30
};

static const double FADE_S = 30.0, LONGEST_LEFT_S = 3600.0 * 1000;

/* One write per picture: a bar that is torn by another thread's line is put right by the next. */
static void put(const char *text)
{
    ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
    (void)ignored;
}

static uint64_t now_us(const qn_progress *p)
{
    return p->setup.now_us ? p->setup.now_us(p->setup.clock) : qn_now_us();
}

void qn_progress_begin(qn_progress *p, const qn_progress_setup *setup)
{
    *p = (qn_progress){.setup = *setup, .reporting = ATOMIC_FLAG_INIT};
    atomic_init(&p->done, setup->done);
    atomic_init(&p->next_us, 0);
    if (setup->style == QN_PROGRESS_AUTO)
        p->setup.style = setup->json ? QN_PROGRESS_JSON : isatty(STDERR_FILENO) ? QN_PROGRESS_BAR : QN_PROGRESS_LINES;
    p->started_us = p->sampled_us = now_us(p);
    p->sampled_done = setup->done;
    p->line_us = p->started_us + (uint64_t)FIRST_LINE_S * SECOND_US;
}

void qn_progress_start(qn_progress *p, const char *label, const char *unit, uint64_t total)
{
    qn_progress_begin(p, &(qn_progress_setup){.label = label, .unit = unit, .total = total});
}

static double rate_of(const qn_progress *p)
{
    return p->recent_s > 0 ? p->recent_done / p->recent_s : 0.0;
}

static void sample(qn_progress *p, uint64_t now, uint64_t done)
{
    double seconds = now > p->sampled_us ? (double)(now - p->sampled_us) / SECOND_US : 0.0;
    double fade = exp(-seconds / FADE_S);
    p->recent_done = p->recent_done * fade + (double)(done - p->sampled_done);
    p->recent_s = p->recent_s * fade + seconds;
    p->sampled_us = now;
    p->sampled_done = done;
}

/* Seconds left; below 0 when nobody knows. */
static double seconds_left(const qn_progress *p, uint64_t done)
{
    if (done >= p->setup.total)
        return 0.0;
    double rate = rate_of(p);
    return rate > 0 ? (double)(p->setup.total - done) / rate : -1.0;
}

/* "5.0 tokens/s", "340.1 MB/s". Returns out. */
static const char *rate_text(const qn_progress *p, char out[TEXT_BYTES])
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB"};
    double rate = rate_of(p);
    const char *unit = p->setup.unit;
    if (strcmp(unit, units[0]) == 0) {
        size_t at = 0;
        for (; rate >= 1000 && at + 1 < sizeof units / sizeof *units; at++)
            rate /= 1000;
        unit = units[at];
    }
    snprintf(out, TEXT_BYTES, "%.1f %.16s/s", rate, unit);
    return out;
}

/* "0:30", "1:02:03". Returns out. */
static const char *time_text(double seconds, char out[TEXT_BYTES])
{
    unsigned s = (unsigned)(seconds + 0.5);
    if (s < 3600)
        snprintf(out, TEXT_BYTES, "%u:%02u", s / 60, s % 60);
    else
        snprintf(out, TEXT_BYTES, "%u:%02u:%02u", s / 3600, s / 60 % 60, s % 60);
    return out;
}

static double share_of(const qn_progress *p, uint64_t done)
{
    return done >= p->setup.total ? 1.0 : (double)done / (double)p->setup.total;
}

/* " 25 %, 5.0 tokens/s, 0:30 left". Returns out. */
static const char *state_text(const qn_progress *p, uint64_t done, char out[STATE_BYTES])
{
    char rate[TEXT_BYTES], time[TEXT_BYTES], left[TEXT_BYTES + 8] = "";
    double left_s = seconds_left(p, done);
    if (left_s >= 0.5 && left_s <= LONGEST_LEFT_S)
        snprintf(left, sizeof left, ", %s left", time_text(left_s, time));
    snprintf(out, STATE_BYTES, "%3d %%, %s%s", (int)(share_of(p, done) * 100), rate_text(p, rate), left);
    return out;
}

static size_t columns(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : USUAL_COLUMNS;
}

/* What is wider than the terminal would wrap, and the next picture start a line too low: the bar gives way first. */
static void draw(const qn_progress *p, uint64_t done)
{
    char state[STATE_BYTES], bar[BAR_CELLS + 4] = "", line[LINE_BYTES];
    state_text(p, done, state);
    size_t room = columns() - 1, taken = strlen(p->setup.label) + 4 + strlen(state);
    size_t cells = room > taken ? room - taken : 0;
    if (cells > BAR_CELLS)
        cells = BAR_CELLS;
    if (cells >= LEAST_CELLS) {
        size_t full = (size_t)(share_of(p, done) * (double)cells);
        bar[0] = '[';
        memset(bar + 1, '#', full);
        memset(bar + 1 + full, '.', cells - full);
        memcpy(bar + 1 + cells, "] ", 3);
    }
    snprintf(line, sizeof line, "%.40s %s%s", p->setup.label, bar, state);
    char picture[LINE_BYTES + 16];
    snprintf(picture, sizeof picture, "\r%.*s\x1b[K", (int)room, line);
    put(picture);
}

static void print_json(const qn_progress *p, uint64_t done)
{
    qn_buffer line = {0};
    qn_buffer_text(&line, "{\"progress\":{\"label\":");
    qn_buffer_json_string(&line, p->setup.label, strlen(p->setup.label));
    qn_buffer_text(&line, ",\"unit\":");
    qn_buffer_json_string(&line, p->setup.unit, strlen(p->setup.unit));
    qn_buffer_format(&line, ",\"done\":%llu,\"total\":%llu,\"rate\":%.1f,\"eta_s\":", (unsigned long long)done,
                     (unsigned long long)p->setup.total, rate_of(p));
    double left = seconds_left(p, done);
    if (left < 0)
        qn_buffer_text(&line, "null}}\n");
    else
        qn_buffer_format(&line, "%.0f}}\n", left);
    if (!line.failed) {
        fwrite(line.data, 1, line.size, p->setup.json);
        fflush(p->setup.json);
    }
    qn_buffer_free(&line);
}

static void print_line(qn_progress *p, uint64_t now, uint64_t done)
{
    char state[STATE_BYTES];
    const char *text = state_text(p, done, state);
    qn_log("%.40s: %s", p->setup.label, text + strspn(text, " "));
    p->line_us = now + (uint64_t)NEXT_LINE_S * SECOND_US;
}

static void report(qn_progress *p, uint64_t now, uint64_t done)
{
    switch (p->setup.style) {
    case QN_PROGRESS_BAR:
        draw(p, done);
        break;
    case QN_PROGRESS_JSON:
        print_json(p, done);
        break;
    case QN_PROGRESS_LINES:
        if (now < p->line_us)
            return;
        print_line(p, now, done);
        break;
    case QN_PROGRESS_AUTO: /* resolved at start */
    case QN_PROGRESS_OFF:
        return;
    }
    p->reported = true;
    p->reported_done = done;
}

/* Reports when it is time and no other thread is at it. */
static void look(qn_progress *p)
{
    if (p->setup.style == QN_PROGRESS_OFF)
        return;
    uint64_t now = now_us(p);
    if (now < atomic_load(&p->next_us) || atomic_flag_test_and_set(&p->reporting))
        return;
    if (now >= atomic_load(&p->next_us)) { /* another thread may have reported since */
        uint64_t done = atomic_load(&p->done);
        sample(p, now, done);
        report(p, now, done);
        atomic_store(&p->next_us, now + (p->setup.style == QN_PROGRESS_BAR ? REDRAW_US : SAMPLE_US));
    }
    atomic_flag_clear(&p->reporting);
}

void qn_progress_update(qn_progress *p, uint64_t done)
{
    uint64_t before = atomic_load(&p->done);
    while (done > before && !atomic_compare_exchange_weak(&p->done, &before, done))
        ;
    look(p);
}

void qn_progress_add(qn_progress *p, uint64_t count)
{
    atomic_fetch_add(&p->done, count);
    look(p);
}

static void tell_end(qn_progress *p)
{
    char rate[TEXT_BYTES], time[TEXT_BYTES];
    uint64_t now = now_us(p), done = atomic_load(&p->done);
    /* in the end the whole of this run counts alike */
    p->recent_done = (double)(done - p->setup.done);
    p->recent_s = (double)(now - p->started_us) / SECOND_US;
    qn_log("%.40s: %d %% after %s, %s on average", p->setup.label, (int)(share_of(p, done) * 100),
           time_text(p->recent_s, time), rate_text(p, rate));
}

void qn_progress_finish(qn_progress *p)
{
    uint64_t done = atomic_load(&p->done);
    if (p->setup.style == QN_PROGRESS_BAR && p->reported)
        put("\r\x1b[K");
    if (p->setup.style == QN_PROGRESS_LINES && p->reported)
        tell_end(p);
    if (p->setup.style == QN_PROGRESS_JSON && (!p->reported || p->reported_done != done)) {
        sample(p, now_us(p), done);
        print_json(p, done);
    }
    p->setup.style = QN_PROGRESS_OFF;
}
