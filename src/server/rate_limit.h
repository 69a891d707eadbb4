/* How many requests a client may send: a token bucket for each, in a table of fixed size.
 *
 * A bucket holds `burst` requests and fills at `per_minute` a minute; a client that is not in the table has a full one,
 * so that buckets that have filled up again need not be kept. Where more clients come at once than the table has room
 * for, the fullest bucket of eight gives way: who sends most is remembered longest. Safe from any thread. */
#ifndef QN_SERVER_RATE_LIMIT_H
#define QN_SERVER_RATE_LIMIT_H

#include <stdint.h>

#include "base/error.h"

typedef struct qn_rate_limit qn_rate_limit;

qn_status qn_rate_limit_new(unsigned per_minute, unsigned burst, qn_rate_limit **out, qn_error *err); /* both >= 1 */
void qn_rate_limit_free(qn_rate_limit *limit);                                                        /* NULL is fine */

/* Takes a request from the client's bucket at this time (qn_now_us). 0: taken; else the seconds, rounded up, until
 * there is one. */
unsigned qn_rate_limit_take(qn_rate_limit *limit, uint64_t client, uint64_t now_us);

#endif
