/* One system call for many pages; where the kernel does not know it, a write to each. Memory that is merely allocated
 * may be promised to several processes at once: only a page that was written is really there. */
#include "base/prefault.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fault.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; older C libraries do not name it */
#endif

/* What the kernel answers when it knows the call and lacks the memory. */
static bool is_lack_of_memory(int error)
{
    return error == ENOMEM || error == EFAULT || error == EHWPOISON;
}

static int populate(void *start, size_t bytes)
{
    if (qn_fault_hit(QN_FAULT_WRITE))
        return ENOMEM;
    while (madvise(start, bytes, MADV_POPULATE_WRITE) != 0) {
        if (errno != EINTR)
            return errno;
    }
    return 0;
}

void qn_touch_pages(void *start, size_t bytes)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    volatile uint8_t *at = start;
    for (size_t i = 0; i < bytes; i += page_bytes)
        at[i] = at[i];
    if (bytes > 0)
        at[bytes - 1] = at[bytes - 1];
}

qn_status qn_prefault(void *start, size_t bytes, const char *what, qn_error *err)
{
    /* the calls want whole pages; the neighbours that come along are pages of the same allocator */
    size_t before = (uintptr_t)start % (size_t)sysconf(_SC_PAGESIZE);
    void *first_page = (uint8_t *)start - before;
    (void)madvise(first_page, bytes + before, MADV_HUGEPAGE); /* a wish: kernels without huge pages refuse it */
    int error = populate(first_page, bytes + before);
    if (is_lack_of_memory(error))
        return qn_fail(err, QN_RESOURCE, "%s: making %zu bytes resident: %s: use a smaller one", what, bytes,
                       strerror(error));
    if (error != 0)
        qn_touch_pages(start, bytes);
    return QN_OK;
}
