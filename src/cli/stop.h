/* Long work that may be interrupted: SIGINT and SIGTERM ask it to stop, a second one ends the process. */
#ifndef QN_CLI_STOP_H
#define QN_CLI_STOP_H

#include <stdatomic.h>

/* From now on; the flag is set by the first signal and lives as long as the process. */
const atomic_bool *qn_stop_on_signals(void);

#endif
