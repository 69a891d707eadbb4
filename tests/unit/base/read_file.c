#include "read_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fault.h"

char read_file_path[40];
uint8_t read_file_content[READ_FILE_BYTES];

int make_read_file(void **state)
{
    (void)state;
    for (size_t i = 0; i < READ_FILE_BYTES; i++)
        read_file_content[i] = (uint8_t)(i * 7 + i / 251);
    strcpy(read_file_path, "/tmp/quern-read-XXXXXX");
    int fd = mkstemp(read_file_path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, read_file_content, READ_FILE_BYTES), READ_FILE_BYTES);
    close(fd);
    return 0;
}

int remove_read_file(void **state)
{
    (void)state;
    return unlink(read_file_path);
}

qn_direct_reader *open_read_file(bool buffered)
{
    qn_direct_reader *reader = NULL;
    qn_error err;
    if (buffered)
        qn_fault_arm(QN_FAULT_READ, 1);
    qn_status status = qn_direct_reader_open(read_file_path, &reader, &err);
    qn_fault_disarm();
    assert_int_equal(status, QN_OK);
    if (buffered)
        assert_true(qn_direct_reader_is_buffered(reader));
    return reader;
}
