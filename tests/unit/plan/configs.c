#include "configs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "base/file.h"
#include "base/memory.h"

enum { LIMIT = 1 << 20 };

void read_config(const char *path, qn_config *out)
{
    char *text;
    size_t bytes;
    qn_error err;
    assert_int_equal(qn_file_read(path, LIMIT, &text, &bytes, &err), QN_OK);
    assert_int_equal(qn_config_parse(text, bytes, path, out, &err), QN_OK);
    qn_free(text);
}

void make_hardware(double rate, qn_hardware *out)
{
    qn_statistic same = {.min = rate, .median = rate, .max = rate, .samples = 3};
    *out = (qn_hardware){.cpu = "made up", .isa = "avx2", .threads = 2, .region_bytes = 1 << 20, .read_count = 1};
    out->read[0] = (qn_read_rate){.threads = 2, .huge_pages = same, .small_pages = same};
    for (qn_figure i = QN_FIGURE_MXFP4_ROWS; i < QN_FIGURE_LOOP; i++)
        out->figure[i] = same;
    out->figure[QN_FIGURE_TOPK] = out->figure[QN_FIGURE_ROW_WORK] = (qn_statistic){
        .min = 1e12, .median = 1e12, .max = 1e12, .samples = 3};
    out->figure[QN_FIGURE_LOOP] = (qn_statistic){.min = 1e-12, .median = 1e-12, .max = 1e-12, .samples = 3};
}
