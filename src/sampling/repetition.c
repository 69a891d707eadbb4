/* A text ends with n-gram times r exactly when its last n * (r - 1) tokens each equal the token n before. So one
 * counter for each n says it all: it grows with each such token and falls to 0 with any other. */
#include "sampling/repetition.h"

#include <string.h>

#include "base/size.h"

static qn_status refuse(const char *flag, const char *text, qn_error *err)
{
    return qn_fail_field(err, QN_USAGE, flag,
                         "%s: %s is not REPEATS or REPEATS:NGRAM: give 2 to %d repeats of up to %d tokens, as in 8:64",
                         flag, text, QN_REPETITION_MAX_REPEATS, QN_REPETITION_MAX_NGRAM);
}

/* Digits up to `end`; false when there are none or the number is far beyond all limits. */
static bool read_count(const char **text, size_t *out)
{
    const char *at = *text;
    size_t value = 0;
    while (*at >= '0' && *at <= '9' && value < 1000000) {
        value = 10 * value + (size_t)(*at++ - '0');
    }
    bool any = at != *text;
    *text = at;
    *out = value;
    return any;
}

static bool in_range(qn_repetition_limits limits)
{
    return limits.repeats >= 2 && limits.repeats <= QN_REPETITION_MAX_REPEATS && limits.max_ngram >= 1 &&
           limits.max_ngram <= QN_REPETITION_MAX_NGRAM;
}

qn_status qn_repetition_limits_parse(const char *text, const char *flag, qn_repetition_limits *out, qn_error *err)
{
    qn_repetition_limits limits = {.max_ngram = QN_REPETITION_NGRAM};
    const char *at = text;
    bool good = read_count(&at, &limits.repeats);
    if (good && *at == ':') {
        at++;
        good = read_count(&at, &limits.max_ngram);
    }
    if (!good || *at != '\0' || !in_range(limits)) {
        return refuse(flag, text, err);
    }
    *out = limits;
    return QN_OK;
}

qn_status qn_repetition_limits_check(const qn_repetition_limits *limits, const char *flag, qn_error *err)
{
    if (limits->repeats != 0 && !in_range(*limits)) {
        return qn_fail_field(
            err, QN_USAGE, flag,
            "%s: %zu repeats of up to %zu tokens are out of range: give 2 to %d repeats of up to 1 to %d tokens", flag,
            limits->repeats, limits->max_ngram, QN_REPETITION_MAX_REPEATS, QN_REPETITION_MAX_NGRAM);
    }
    return QN_OK;
}

void qn_repetition_start(qn_repetition *guard, qn_repetition_limits limits)
{
    memset(guard, 0, sizeof *guard);
    guard->limits = limits;
}

bool qn_repetition_add(qn_repetition *guard, int32_t token)
{
    const size_t longest = guard->limits.max_ngram, repeats = guard->limits.repeats;
    if (repeats == 0) {
        return false;
    }
    bool loops = false;
    size_t place = (size_t)(guard->count % longest), earlier = place;
    for (size_t n = 1; n <= longest && n <= guard->count; n++) {
        earlier = earlier == 0 ? longest - 1 : earlier - 1;
        bool same = guard->recent[earlier] == token;
        guard->matches[n - 1] = same ? guard->matches[n - 1] + (guard->matches[n - 1] < UINT32_MAX) : 0;
        loops |= guard->matches[n - 1] + n >= qn_max_size(n * repeats, QN_REPETITION_LEAST_TOKENS);
    }
    guard->recent[place] = token;
    guard->count++;
    return loops;
}
