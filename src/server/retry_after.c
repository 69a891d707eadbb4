#include "server/retry_after.h"

unsigned qn_retry_after_s(size_t waiting, double seconds_per_request)
{
    double seconds = (double)waiting * seconds_per_request;
    if (!(seconds > 1)) {
        return 1;
    }
    return seconds < QN_RETRY_AFTER_MAX_S ? (unsigned)seconds : QN_RETRY_AFTER_MAX_S;
}
