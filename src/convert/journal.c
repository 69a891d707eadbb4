/* A line that was torn off is followed by the next one without a line's end between: both fail their checks, which
 * costs a tensor written once more and nothing else. To lose no more than that, an end is put behind a torn line at
 * open. */
#include "convert/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/memory.h"

static const size_t LIMIT_BYTES = (size_t)256 << 20; /* two lines for each of a million tensors */
static const char HEADER_KEY[] = "header";
enum { KEY_BYTES = 24, CHECK_DIGITS = 16, LINE_BYTES = KEY_BYTES + QN_HASH_TEXT_BYTES + CHECK_DIGITS + 4 };

struct qn_journal {
    char *path;
    int fd;
};

static void append_line(qn_buffer *out, const char *key, qn_hash hash)
{
    char text[LINE_BYTES], digits[QN_HASH_TEXT_BYTES];
    int bytes = snprintf(text, sizeof text, "%s %s", key, qn_hash_text(hash, digits));
    qn_buffer_format(out, "%s %016" PRIx64 "\n", text, qn_hash_bytes(text, (size_t)bytes).low);
}

/* The key and hash of a line without its end; false for one that is not whole. */
static bool parse_line(const char *line, size_t bytes, char key[KEY_BYTES], qn_hash *hash)
{
    enum { BEHIND_KEY = 1 + (QN_HASH_TEXT_BYTES - 1) + 1 + CHECK_DIGITS };
    if (bytes <= BEHIND_KEY || bytes >= BEHIND_KEY + KEY_BYTES)
        return false;
    size_t key_bytes = bytes - BEHIND_KEY, checked = bytes - CHECK_DIGITS - 1;
    char check[CHECK_DIGITS + 1];
    snprintf(check, sizeof check, "%016" PRIx64, qn_hash_bytes(line, checked).low);
    if (memcmp(check, line + checked + 1, CHECK_DIGITS) != 0 || line[checked] != ' ' || line[key_bytes] != ' ')
        return false;
    memcpy(key, line, key_bytes);
    key[key_bytes] = '\0';
    return qn_hash_parse(line + key_bytes + 1, QN_HASH_TEXT_BYTES - 1, hash);
}

/* Hands out the lines of a journal that begins with this header; false when it begins otherwise. */
static bool read_lines(const char *text, size_t bytes, qn_hash header, size_t count, qn_journal_entry entry,
                       void *context)
{
    char key[KEY_BYTES];
    qn_hash hash;
    const char *at = text, *end = text + bytes, *stop = memchr(at, '\n', bytes);
    if (!stop || !parse_line(at, (size_t)(stop - at), key, &hash) || strcmp(key, HEADER_KEY) != 0 ||
        !qn_hash_equal(hash, header))
        return false;
    for (at = stop + 1; at < end && (stop = memchr(at, '\n', (size_t)(end - at))); at = stop + 1) {
        char *rest;
        if (!parse_line(at, (size_t)(stop - at), key, &hash))
            continue;
        unsigned long long tensor = strtoull(key, &rest, 10);
        if (*rest == '\0' && tensor < count)
            entry(context, (size_t)tensor, hash);
    }
    return true;
}

static qn_status write_text(qn_journal *journal, const qn_buffer *text, qn_error *err)
{
    if (text->failed)
        return qn_fail_memory(err, journal->path, text->size);
    ssize_t written = qn_fault_hit(QN_FAULT_WRITE) ? (errno = ENOSPC, -1) : write(journal->fd, text->data, text->size);
    if (written == (ssize_t)text->size)
        return QN_OK;
    return qn_fail_errno(err, journal->path, "write", written < 0 ? errno : ENOSPC);
}

static qn_status begin(qn_journal *journal, qn_hash header, qn_error *err)
{
    bool cut = qn_fault_hit(QN_FAULT_WRITE) ? (errno = EIO, false) : ftruncate(journal->fd, 0) == 0;
    if (!cut)
        return qn_fail_errno(err, journal->path, "empty", errno);
    qn_buffer line = {0};
    append_line(&line, HEADER_KEY, header);
    qn_status status = write_text(journal, &line, err);
    qn_buffer_free(&line);
    return status;
}

/* Ends a line that was torn off. */
static qn_status end_line(qn_journal *journal, const char *text, size_t bytes, qn_error *err)
{
    if (bytes == 0 || text[bytes - 1] == '\n')
        return QN_OK;
    qn_buffer end = {0};
    qn_buffer_char(&end, '\n');
    qn_status status = write_text(journal, &end, err);
    qn_buffer_free(&end);
    return status;
}

qn_status qn_journal_open(const char *path, qn_hash header, size_t count, qn_journal_entry entry, void *context,
                          qn_journal **out, bool *fresh, qn_error *err)
{
    qn_journal *journal = qn_alloc_zero(1, sizeof *journal);
    if (!journal || !(journal->path = qn_strdup(path))) {
        qn_free(journal);
        return qn_fail_memory(err, path, sizeof *journal);
    }
    journal->fd = qn_fault_hit(QN_FAULT_WRITE) ? (errno = ENOSPC, -1)
                                               : open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
    qn_status status = journal->fd < 0 ? qn_fail_errno(err, path, "open", errno) : QN_OK;
    char *text = NULL;
    size_t bytes = 0;
    if (status == QN_OK)
        status = qn_fd_read(journal->fd, path, LIMIT_BYTES, &text, &bytes, err);
    if (status == QN_OK) {
        *fresh = !read_lines(text, bytes, header, count, entry, context);
        status = *fresh ? begin(journal, header, err) : end_line(journal, text, bytes, err);
    }
    qn_free(text);
    if (status != QN_OK) {
        qn_journal_close(journal);
        return status;
    }
    *out = journal;
    return QN_OK;
}

void qn_journal_close(qn_journal *journal)
{
    if (!journal)
        return;
    if (journal->fd >= 0)
        close(journal->fd);
    qn_free(journal->path);
    qn_free(journal);
}

qn_status qn_journal_append(qn_journal *journal, size_t first, size_t count, const qn_hash *hashes, qn_error *err)
{
    qn_buffer text = {0};
    for (size_t i = 0; i < count; i++) {
        char key[KEY_BYTES];
        snprintf(key, sizeof key, "%zu", first + i);
        append_line(&text, key, hashes[i]);
    }
    qn_status status = write_text(journal, &text, err);
    qn_buffer_free(&text);
    return status;
}
