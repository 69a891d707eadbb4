/* What a bench's own server is started with, for each point of its grid. */
#ifndef QN_BENCH_SERVE_SETTING_H
#define QN_BENCH_SERVE_SETTING_H

#include <stddef.h>

#include "bench/serve_process.h"

enum { QN_SETTING_DEFAULT = -1 }; /* no flag: what the server does by itself */

typedef struct qn_serve_setting {
    int prefix_caching; /* 0, 1 */
    int speculation;    /* num_speculative_tokens */
} qn_serve_setting;

/* As qn_serve_process_start, with the model's folder, the setting's flags, --enable-prompt-tokens-details, and then the
 * user's flags, so that these win. QN_USAGE: they name a host or a port, which are the bench's. */
qn_status qn_serve_setting_start(const qn_serve_setting *setting, const char *model_dir, const char *const *flags,
                                 size_t flag_count, const atomic_bool *stop, qn_serve_process *out, qn_error *err);

#endif
