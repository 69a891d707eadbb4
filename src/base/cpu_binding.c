/* hwloc is loaded only where threads are to be bound: it reads some hundred files of /sys. It is kept from trying out
 * each CPU by moving there, as it would on some machines, and from what is of no use here. */
#include "base/cpu_binding.h"

#include <errno.h>
#include <hwloc.h>
#include <sched.h>
#include <string.h>

#include "base/control_group.h"
#include "base/cpu_plan.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/memory.h"

enum { LIST_TEXT_BYTES = 256, LARGEST_CPU_SET = 1 << 16 };

struct qn_cpu_binding {
    hwloc_topology_t topology; /* NULL: nothing is bound, and no more was looked at */
    hwloc_bitmap_t allowed;
    qn_cpu_plan plan;
};

/* And the CPUs that this thread may use: the system leaves out those that are switched off or another control group's.
 * It is asked for them even where it hides what it tells of the machine, as in some containers. */
static qn_status read_machine(qn_cpu_binding *b, qn_error *err)
{
    static const unsigned long flags = HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING | HWLOC_TOPOLOGY_FLAG_NO_DISTANCES |
                                       HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS | HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS;
    errno = 0;
    if (hwloc_topology_init(&b->topology) != 0) {
        b->topology = NULL;
        return qn_fail_memory(err, "description of the machine", sizeof *b);
    }
    b->allowed = hwloc_bitmap_alloc();
    if (!b->allowed || hwloc_topology_set_flags(b->topology, flags) != 0 || hwloc_topology_load(b->topology) != 0 ||
        hwloc_get_cpubind(b->topology, b->allowed, HWLOC_CPUBIND_THREAD) != 0 || hwloc_bitmap_iszero(b->allowed))
        return qn_fail(err, QN_RESOURCE,
                       "--cpu-binding: the system does not tell which CPUs may be used (%s): leave it out",
                       strerror(errno));
    return QN_OK;
}

static void tell_plan(const qn_cpu_binding *b)
{
    const qn_cpu_plan *plan = &b->plan;
    char text[LIST_TEXT_BYTES];
    if (!plan->cpu) {
        qn_log("cpu-binding: threads are not bound: %zu are to compute, and there are cores for %zu: give --threads "
               "%zu, or a list of CPUs",
               plan->threads, plan->most, plan->most);
        return;
    }
    hwloc_bitmap_t used = hwloc_bitmap_alloc();
    for (size_t i = 0; used && i < plan->threads; i++)
        (void)hwloc_bitmap_set(used, plan->cpu[i]);
    if (used) {
        hwloc_bitmap_list_snprintf(text, sizeof text, used);
        qn_log("cpu-binding: threads that compute: %zu, one on each of these CPUs: %s", plan->threads, text);
    }
    hwloc_bitmap_free(used);
}

/* 0, or why not. */
static int bind_to(const qn_cpu_binding *b, unsigned cpu, pthread_t thread)
{
    hwloc_bitmap_t one = hwloc_bitmap_alloc();
    errno = ENOMEM;
    bool bound = !qn_fault_hit(QN_FAULT_ALLOC) && one && hwloc_bitmap_only(one, cpu) == 0 &&
                 hwloc_set_thread_cpubind(b->topology, thread, one, HWLOC_CPUBIND_STRICT) == 0;
    int code = errno;
    hwloc_bitmap_free(one);
    return bound ? 0 : code;
}

/* A container may forbid it, which whoever asked for it is to know before a long load: this thread tries it out. */
static qn_status try_out(const qn_cpu_binding *b, qn_error *err)
{
    if (!b->plan.cpu)
        return QN_OK;
    int code = bind_to(b, b->plan.cpu[0], pthread_self());
    if (code != 0)
        return qn_fail_field(
            err, QN_RESOURCE, "cpu-binding",
            "--cpu-binding: the system binds no thread to CPU %u (%s): let it, or leave the option out", b->plan.cpu[0],
            strerror(code));
    qn_cpu_binding_release(b, pthread_self());
    return QN_OK;
}

static qn_status plan_and_try(qn_cpu_binding *b, const char *how, size_t threads, qn_error *err)
{
    qn_status status = read_machine(b, err);
    if (status != QN_OK)
        return status;
    size_t quota = qn_cpu_quota("");
    status = strcmp(how, "auto") == 0 ? qn_cpu_plan_cores(b->topology, b->allowed, quota, threads, &b->plan, err)
                                      : qn_cpu_plan_list(how, b->allowed, quota, threads, &b->plan, err);
    if (status == QN_OK)
        status = try_out(b, err);
    if (status == QN_OK)
        tell_plan(b);
    return status;
}

qn_status qn_cpu_binding_new(const char *how, size_t threads, qn_cpu_binding **out, qn_error *err)
{
    qn_status status = QN_OK;
    qn_cpu_binding *b = qn_alloc_zero(1, sizeof *b);
    if (!b)
        return qn_fail_memory(err, "CPUs of the threads", sizeof *b);
    b->plan.threads = threads;
    if (how && strcmp(how, "none") != 0)
        status = plan_and_try(b, how, threads, err);
    if (status != QN_OK) {
        qn_cpu_binding_free(b);
        return status;
    }
    *out = b;
    return QN_OK;
}

void qn_cpu_binding_free(qn_cpu_binding *binding)
{
    if (!binding)
        return;
    qn_cpu_plan_free(&binding->plan);
    hwloc_bitmap_free(binding->allowed);
    if (binding->topology)
        hwloc_topology_destroy(binding->topology);
    qn_free(binding);
}

size_t qn_cpu_binding_threads(const qn_cpu_binding *binding)
{
    return binding->plan.threads;
}

static bool add_allowed(hwloc_bitmap_t set)
{
    unsigned long words[LARGEST_CPU_SET / (8 * sizeof(unsigned long))] = {0};
    cpu_set_t *cpus = (cpu_set_t *)words;
    if (sched_getaffinity(0, sizeof words, cpus) != 0)
        return true; /* the system does not tell: none are known */
    for (size_t cpu = 0; cpu < LARGEST_CPU_SET; cpu++) {
        if (CPU_ISSET_S(cpu, sizeof words, cpus) && hwloc_bitmap_set(set, (unsigned)cpu) != 0)
            return false;
    }
    return true;
}

qn_status qn_cpu_binding_cpus(const qn_cpu_binding *binding, hwloc_bitmap_t out, qn_error *err)
{
    const qn_cpu_plan *plan = &binding->plan;
    hwloc_bitmap_zero(out);
    bool room = plan->cpu || add_allowed(out);
    for (size_t i = 0; room && plan->cpu && i < plan->threads; i++)
        room = hwloc_bitmap_set(out, plan->cpu[i]) == 0;
    return room ? QN_OK : qn_fail_memory(err, "set of CPUs", sizeof out);
}

bool qn_cpu_binding_bind(const qn_cpu_binding *binding, size_t worker, pthread_t thread)
{
    if (!binding->plan.cpu)
        return true;
    int code = bind_to(binding, binding->plan.cpu[worker], thread);
    if (code != 0)
        qn_log("cpu-binding: thread %zu: the system does not bind it to CPU %u (%s): it runs where the system puts it",
               worker, binding->plan.cpu[worker], strerror(code));
    return code == 0;
}

void qn_cpu_binding_release(const qn_cpu_binding *binding, pthread_t thread)
{
    if (binding->plan.cpu)
        (void)hwloc_set_thread_cpubind(binding->topology, thread, binding->allowed, 0);
}
