/* Which tables this build has and which of them this CPU can run. */
#include "kernels/kernels.h"

#include <cpuid.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ref/ref.h"
#include "kernels/x86/avx2.h"
#include "kernels/x86/avx512bf16.h"

static const qn_kernels *const tables[] = {&qn_kernels_avx512bf16, &qn_kernels_avx2, &qn_kernels_scalar};

enum { TABLE_COUNT = sizeof tables / sizeof tables[0] };

const qn_kernels *const *qn_kernels_all(size_t *count)
{
    *count = TABLE_COUNT;
    return tables;
}

/* The compilers' own check covers the operating system's part (saved registers) but not F16C in each of them. */
static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

/* Every flag that the build gives these files. */
static bool has_avx512bf16(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bf16");
}

bool qn_kernels_supported(const qn_kernels *kernels)
{
    if (kernels == &qn_kernels_avx512bf16)
        return has_avx512bf16();
    if (kernels == &qn_kernels_avx2)
        return has_avx2();
    return kernels == &qn_kernels_scalar;
}

/* "avx2, scalar": the tables that this CPU can run. */
static void list_supported(char *out, size_t bytes)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < TABLE_COUNT; i++) {
        size_t length = strlen(tables[i]->name);
        if (!qn_kernels_supported(tables[i]) || used + length + 3 > bytes)
            continue;
        if (used > 0) {
            memcpy(out + used, ", ", 2);
            used += 2;
        }
        memcpy(out + used, tables[i]->name, length + 1);
        used += length;
    }
}

qn_status qn_kernels_select(const char *name, const qn_kernels **out, qn_error *err)
{
    char supported[128];
    for (size_t i = 0; i < TABLE_COUNT; i++) {
        if (name == NULL && qn_kernels_supported(tables[i])) {
            *out = tables[i];
            return QN_OK;
        }
        if (name == NULL || strcmp(name, tables[i]->name) != 0)
            continue;
        if (qn_kernels_supported(tables[i])) {
            *out = tables[i];
            return QN_OK;
        }
        list_supported(supported, sizeof supported);
        return qn_fail(err, QN_USAGE, "instruction set %s: this CPU does not have it: choose one of %s", name,
                       supported);
    }
    list_supported(supported, sizeof supported);
    return qn_fail(err, QN_USAGE, "instruction set %s: unknown: choose one of %s", name, supported);
}

qn_status qn_kernels_from_environment(const qn_kernels **out, qn_error *err)
{
    const char *name = getenv("QUERN_ISA");
    if (qn_kernels_select(name, out, err) != QN_OK)
        return qn_error_prefix(err, "QUERN_ISA");
    return QN_OK;
}
