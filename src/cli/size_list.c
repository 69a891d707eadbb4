#include "cli/size_list.h"

#include <stdint.h>
#include <string.h>

#include "cli/option_internal.h"

enum { LONGEST_NUMBER = 32 };

static qn_status bad_list(const char *option, const char *text, size_t least, size_t most, size_t room, qn_error *err)
{
    return qn_fail_field(err, QN_USAGE, option,
                         "--%s: '%.200s': give 1 to %zu numbers from %zu to %zu with commas between", option, text,
                         room, least, most);
}

qn_status qn_size_list_read(const char *option, const char *text, size_t least, size_t most, size_t room, size_t *out,
                            size_t *count, qn_error *err)
{
    qn_option one = {
        .name = option, .kind = QN_OPTION_SIZE, .value_name = "N", .min = (int64_t)least, .max = (int64_t)most};
    *count = 0;
    for (const char *at = text;; at++) {
        char number[LONGEST_NUMBER];
        size_t length = strcspn(at, ",");
        if (length == 0 || length >= sizeof number || *count == room)
            return bad_list(option, text, least, most, room, err);
        memcpy(number, at, length);
        number[length] = '\0';
        one.value = &out[*count];
        if (qn_option_read(&one, number, false, err) != QN_OK)
            return bad_list(option, text, least, most, room, err);
        ++*count;
        at += length;
        if (*at == '\0')
            return QN_OK;
    }
}
