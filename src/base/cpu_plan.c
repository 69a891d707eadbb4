/* hwloc's sets of CPUs have no bound, and its cores are in the order wanted: a NUMA node is a child of an object whose
 * cores are neighbours in the tree. */
#include "base/cpu_plan.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/pool.h"
#include "base/size.h"

enum { LIST_TEXT_BYTES = 256, LARGEST_CPU = 1 << 20, DIGITS_MAX = 7 };

static const char field[] = "cpu-binding";

/* The first allowed CPU of a core, or -1. */
static int first_allowed(hwloc_const_cpuset_t core, hwloc_const_cpuset_t allowed)
{
    int cpu = hwloc_bitmap_first(core);
    while (cpu >= 0 && !hwloc_bitmap_isset(allowed, (unsigned)cpu))
        cpu = hwloc_bitmap_next(core, cpu);
    return cpu;
}

static qn_status make_room(qn_cpu_plan *plan, qn_error *err)
{
    plan->cpu = qn_alloc(plan->threads, sizeof *plan->cpu);
    return plan->cpu ? QN_OK : qn_fail_memory(err, "CPUs of the threads", plan->threads * sizeof *plan->cpu);
}

/* Thread i gets the i-th CPU of a set that has as many at least. */
static void take_in_order(qn_cpu_plan *plan, hwloc_const_cpuset_t set)
{
    int cpu = -1;
    for (size_t i = 0; i < plan->threads; i++) {
        cpu = hwloc_bitmap_next(set, cpu);
        plan->cpu[i] = (unsigned)cpu;
    }
}

qn_status qn_cpu_plan_cores(hwloc_topology_t topology, hwloc_const_cpuset_t allowed, size_t quota, size_t threads,
                            qn_cpu_plan *out, qn_error *err)
{
    hwloc_obj_type_t kind = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
    size_t described = 0;
    for (hwloc_obj_t o = NULL; (o = hwloc_get_next_obj_by_type(topology, kind, o)) != NULL;)
        described += first_allowed(o->cpuset, allowed) >= 0;
    size_t cores = described > 0 ? described : (size_t)hwloc_bitmap_weight(allowed);
    *out = (qn_cpu_plan){.most = qn_min_size(qn_min_size(cores, quota), QN_POOL_MAX_THREADS), .threads = threads};
    if (threads > out->most)
        return QN_OK;
    out->threads = threads > 0 ? threads : out->most;
    qn_status status = make_room(out, err);
    if (status == QN_OK && described == 0)
        take_in_order(out, allowed);
    hwloc_obj_t o = NULL;
    for (size_t i = 0; status == QN_OK && described > 0 && i < out->threads;) {
        o = hwloc_get_next_obj_by_type(topology, kind, o);
        int cpu = first_allowed(o->cpuset, allowed);
        if (cpu >= 0)
            out->cpu[i++] = (unsigned)cpu;
    }
    return status;
}

static bool read_number(const char **at, unsigned *out)
{
    size_t digits = strspn(*at, "0123456789");
    if (digits == 0 || digits > DIGITS_MAX)
        return false;
    *out = (unsigned)strtoul(*at, NULL, 10);
    *at += digits;
    return *out <= LARGEST_CPU;
}

/* "0-3,8" into a set; hwloc's own reader takes nearly anything. False: it is no list. */
static bool read_list(const char *at, hwloc_cpuset_t set)
{
    for (;; at++) {
        unsigned first, last;
        if (!read_number(&at, &first))
            return false;
        last = first;
        if (*at == '-' && (at++, !read_number(&at, &last)))
            return false;
        if (last < first || hwloc_bitmap_set_range(set, first, (int)last) != 0)
            return false;
        if (*at != ',')
            return *at == '\0';
    }
}

static qn_status take_list(hwloc_const_cpuset_t wanted, hwloc_const_cpuset_t allowed, size_t quota, size_t threads,
                           qn_cpu_plan *out, qn_error *err)
{
    char text[LIST_TEXT_BYTES];
    size_t count = (size_t)hwloc_bitmap_weight(wanted);
    if (!hwloc_bitmap_isincluded(wanted, allowed)) {
        char may[LIST_TEXT_BYTES];
        hwloc_bitmap_t others = hwloc_bitmap_alloc();
        if (!others || hwloc_bitmap_andnot(others, wanted, allowed) != 0) {
            hwloc_bitmap_free(others);
            return qn_fail_memory(err, "set of CPUs", sizeof others);
        }
        hwloc_bitmap_list_snprintf(text, sizeof text, others);
        hwloc_bitmap_list_snprintf(may, sizeof may, allowed);
        hwloc_bitmap_free(others);
        return qn_fail_field(err, QN_USAGE, field,
                             "--cpu-binding: %s: not among the CPUs that this process may use: give some of %s", text,
                             may);
    }
    if (count < threads || count > QN_POOL_MAX_THREADS)
        return qn_fail_field(err, QN_USAGE, field,
                             "--cpu-binding: CPUs named: %zu, threads: %zu: name one for each, %d at most", count,
                             threads, QN_POOL_MAX_THREADS);
    *out = (qn_cpu_plan){.most = count, .threads = threads > 0 ? threads : qn_min_size(count, quota)};
    qn_status status = make_room(out, err);
    if (status == QN_OK)
        take_in_order(out, wanted);
    return status;
}

qn_status qn_cpu_plan_list(const char *list, hwloc_const_cpuset_t allowed, size_t quota, size_t threads,
                           qn_cpu_plan *out, qn_error *err)
{
    *out = (qn_cpu_plan){0};
    hwloc_bitmap_t wanted = hwloc_bitmap_alloc();
    if (!wanted)
        return qn_fail_memory(err, "set of CPUs", sizeof wanted);
    qn_status status = read_list(list, wanted)
                           ? take_list(wanted, allowed, quota, threads, out, err)
                           : qn_fail_field(err, QN_USAGE, field,
                                           "--cpu-binding: %s: no list of CPUs: give auto, none, or CPUs such as 0-3,8",
                                           list);
    hwloc_bitmap_free(wanted);
    return status;
}

void qn_cpu_plan_free(qn_cpu_plan *plan)
{
    qn_free(plan->cpu);
    *plan = (qn_cpu_plan){0};
}
