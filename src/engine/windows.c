#include "engine/windows.h"

#include "base/size.h"

qn_status qn_windows_start(size_t count, size_t context, size_t stride, size_t longest, qn_windows *out, qn_error *err)
{
    if (context < 2 || context > longest) {
        return qn_fail_field(err, QN_USAGE, "context", "--context: %zu is out of range: give 2 to %zu", context,
                             longest);
    }
    if (stride < 1 || stride >= context) {
        return qn_fail_field(err, QN_USAGE, "stride", "--stride: %zu is out of range: give 1 to %zu", stride,
                             context - 1);
    }
    if (count < 2) {
        return qn_fail(err, QN_BAD_INPUT, "text: %zu tokens can't be scored: give at least two", count);
    }
    *out = (qn_windows){.count = count, .context = context, .stride = stride, .scored_to = 1};
    return QN_OK;
}

bool qn_windows_next(qn_windows *windows, qn_window *out)
{
    if (windows->scored_to >= windows->count) {
        return false;
    }
    *out = (qn_window){.begin = windows->begin,
                       .count = qn_min_size(windows->context, windows->count - windows->begin),
                       .first_row = windows->scored_to - windows->begin - 1};
    windows->scored_to = out->begin + out->count;
    windows->begin += windows->stride;
    return true;
}

uint64_t qn_windows_work(const qn_windows *windows)
{
    qn_windows walk = *windows;
    qn_window window;
    uint64_t work = 0;
    while (qn_windows_next(&walk, &window)) {
        work += window.count;
    }
    return work;
}
