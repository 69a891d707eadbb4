/* Names, units and labels of the figures. */
#include <stdio.h>
#include <string.h>

#include "bench/hardware.h"

static const struct {
    const char *name, *unit, *label;
} single[QN_FIGURES] = {
    [QN_FIGURE_FP32_ONE_THREAD] = {"fp32_one_thread", "GFLOP/s", "float32 from registers, one thread"},
    [QN_FIGURE_FP32] = {"fp32", "GFLOP/s", "float32 from registers"},
    [QN_FIGURE_BF16_ONE_THREAD] = {"bf16_one_thread", "GFLOP/s", "BF16 dot products from registers, one thread"},
    [QN_FIGURE_BF16] = {"bf16", "GFLOP/s", "BF16 dot products from registers"},
    [QN_FIGURE_TRANSPOSED_1] = {"transposed_rows_1", "GB/s", "transposed BF16 weights, 1 row"},
    [QN_FIGURE_TRANSPOSED_8] = {"transposed_rows_8", "GFLOP/s", "transposed BF16 weights, 8 rows"},
    [QN_FIGURE_ATTENTION_FEW] = {"attention_64_keys", "GFLOP/s", "attention core, 64 keys"},
    [QN_FIGURE_ATTENTION] = {"attention_2048_keys", "GFLOP/s", "attention core, 2048 keys"},
    [QN_FIGURE_INDEXER] = {"indexer", "GFLOP/s", "indexer's scores"},
    [QN_FIGURE_TOPK] = {"topk", "M/s", "choosing 2048 of 32768 scores, one thread"},
    [QN_FIGURE_ROW_WORK] = {"row_work", "M/s", "packing activations, values, one thread"},
    [QN_FIGURE_LOOP] = {"loop", "us", "starting and ending a loop"},
    [QN_FIGURE_DISK_SEQUENTIAL] = {"disk_sequential", "GB/s", "disk, reading in order"},
    [QN_FIGURE_DISK_RANDOM] = {"disk_random", "GB/s", "disk, an expert's matrix at a time (6.7 MB)"},
    [QN_FIGURE_DISK_WRITE] = {"disk_write", "GB/s", "disk, writing"},
};

static const char *const mxfp4_labels[QN_ROW_POINTS] = {
    "MXFP4 weights, 1 row",   "MXFP4 weights, 2 rows",  "MXFP4 weights, 4 rows",   "MXFP4 weights, 8 rows",
    "MXFP4 weights, 16 rows", "MXFP4 weights, 64 rows", "MXFP4 weights, 512 rows",
};
static const char *const bf16_labels[QN_ROW_POINTS] = {
    "BF16 weights, 1 row",   "BF16 weights, 2 rows",  "BF16 weights, 4 rows",   "BF16 weights, 8 rows",
    "BF16 weights, 16 rows", "BF16 weights, 64 rows", "BF16 weights, 512 rows",
};

qn_figure_info qn_figure_describe(qn_figure figure)
{
    qn_figure_info info = {.name = ""};
    if (single[figure].name) {
        snprintf(info.name, sizeof info.name, "%s", single[figure].name);
        info.unit = single[figure].unit;
        info.label = single[figure].label;
        return info;
    }
    bool bf16 = figure >= QN_FIGURE_BF16_ROWS;
    size_t point = figure - (size_t)(bf16 ? QN_FIGURE_BF16_ROWS : QN_FIGURE_MXFP4_ROWS);
    snprintf(info.name, sizeof info.name, "%s_rows_%zu", bf16 ? "bf16" : "mxfp4", qn_row_points[point]);
    info.unit = qn_row_points[point] == 1 ? "GB/s" : "GFLOP/s";
    info.label = (bf16 ? bf16_labels : mxfp4_labels)[point];
    return info;
}
