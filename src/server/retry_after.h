/* When a refused client should try again. */
#ifndef QN_SERVER_RETRY_AFTER_H
#define QN_SERVER_RETRY_AFTER_H

#include <stddef.h>

enum { QN_RETRY_AFTER_MAX_S = 60 };

/* Whole seconds, 1 to QN_RETRY_AFTER_MAX_S: about when those that wait now will have been answered, at the pace of the
 * last requests. seconds_per_request 0: not known yet. */
unsigned qn_retry_after_s(size_t waiting, double seconds_per_request);

#endif
