/* The mapping is a page larger than asked for, so that a multiple of 2 MiB lies in it to start at. */
#include "base/huge_memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/size.h"

enum { SMAPS_LIMIT_BYTES = 256 << 20 };

qn_status qn_huge_memory_new(size_t bytes, bool huge, const char *what, qn_huge_memory *out, qn_error *err)
{
    size_t mapped;
    *out = (qn_huge_memory){0};
    if (!qn_size_add(bytes, QN_HUGE_PAGE_BYTES, &mapped))
        return qn_fail_memory(err, what, bytes);
    void *mapping = qn_fault_hit(QN_FAULT_ALLOC)
                        ? MAP_FAILED
                        : mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED)
        return qn_fail_memory(err, what, bytes);
    uint8_t *data = mapping;
    size_t past = (uintptr_t)mapping % QN_HUGE_PAGE_BYTES;
    data += past == 0 ? 0 : QN_HUGE_PAGE_BYTES - past;
    *out = (qn_huge_memory){.data = data, .bytes = bytes, .mapping = mapping, .mapping_bytes = mapped};
    /* a wish: a system without huge pages refuses it */
    (void)madvise(data, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    return QN_OK;
}

void qn_huge_memory_free(qn_huge_memory *memory)
{
    if (memory->mapping)
        munmap(memory->mapping, memory->mapping_bytes);
    *memory = (qn_huge_memory){0};
}

/* The bytes that a range of addresses, a line "7f00-7fff rw-p ..." of smaps, has in common with the memory. */
static size_t shared_with(const qn_huge_memory *memory, const char *line)
{
    char *dash, *space;
    uintptr_t first = (uintptr_t)strtoull(line, &dash, 16);
    if (dash == line || *dash != '-')
        return 0;
    uintptr_t last = (uintptr_t)strtoull(dash + 1, &space, 16);
    uintptr_t start = (uintptr_t)memory->data, end = start + memory->bytes;
    if (*space != ' ' || last <= start || first >= end)
        return 0;
    return qn_min_size(last, end) - qn_max_size(first, start);
}

size_t qn_huge_memory_in_huge_pages(const qn_huge_memory *memory)
{
    static const char key[] = "AnonHugePages:";
    char *text, *rest = NULL;
    size_t bytes, shared = 0, found = 0;
    qn_error err;
    if (memory->bytes == 0 || qn_file_read("/proc/self/smaps", SMAPS_LIMIT_BYTES, &text, &bytes, &err) != QN_OK)
        return 0;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        /* the lines of a range begin with a capital letter, its own with a lower-case digit */
        if (strncmp(line, key, sizeof key - 1) == 0)
            found += qn_min_size((size_t)strtoull(line + sizeof key - 1, NULL, 10) << 10, shared);
        else if (line[0] < 'A' || line[0] > 'Z')
            shared = shared_with(memory, line);
    }
    qn_free(text);
    return found;
}
