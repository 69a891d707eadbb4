/* `quern bench serve` in parts: bench_serve.c runs it, bench_serve_options.c reads its command line, bench_serve_text.c
 * prints for people. */
#ifndef QN_CLI_BENCH_SERVE_H
#define QN_CLI_BENCH_SERVE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "bench/serve_load.h"
#include "bench/serve_overload.h"
#include "bench/serve_setting.h"
#include "bench/serve_stress.h"

enum { QN_BENCH_MAX_POINTS = 16, QN_BENCH_MAX_SETTINGS = 64 };

typedef enum qn_bench_mode { QN_BENCH_TABLE, QN_BENCH_STRESS, QN_BENCH_OVERLOAD } qn_bench_mode;

typedef struct qn_serve_bench {
    bool help_shown; /* nothing more to do */
    qn_bench_mode mode;
    const char *base_url, *model;    /* a running server; NULL */
    const char *model_dir;           /* a server of its own; NULL */
    const char *const *server_flags; /* [server_flag_count], into argv */
    size_t server_flag_count;
    qn_serve_setting settings[QN_BENCH_MAX_SETTINGS]; /* one at least */
    size_t setting_count;
    qn_serve_workload workload;
    size_t concurrency[QN_BENCH_MAX_POINTS], concurrency_count;
    qn_stress_options stress;
    qn_overload_options overload;
    double max_gap_ms; /* 0: no bound */
    double patience_s;
    const char *out;
    bool json;
} qn_serve_bench;

/* argv[0] is "serve". QN_USAGE. */
qn_status qn_bench_serve_parse(int argc, char **argv, qn_serve_bench *out, qn_error *err);

/* "server's default", "prefix caching on, 2 drafts". */
enum { QN_SETTING_TEXT_BYTES = 64 };
const char *qn_bench_setting_text(const qn_serve_setting *setting, char out[QN_SETTING_TEXT_BYTES]);

/* What is measured, in a line or two; then of each setting a table, a stress run or an overload. */
void qn_bench_print_workload(const qn_serve_bench *bench, const qn_serve_target *target);
void qn_bench_print_head(void);
void qn_bench_print_cell(size_t clients, qn_serve_tally *tally);
void qn_bench_print_stress(const qn_serve_bench *bench, qn_stress_result *result);
void qn_bench_print_overload(const qn_serve_bench *bench, qn_overload_result *result);

#endif
