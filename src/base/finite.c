#include "base/finite.h"

#include <stdint.h>
#include <string.h>

bool qn_all_finite(const float *values, size_t count)
{
    /* An exponent of all ones. Written without a branch so that it is vectorised. */
    uint32_t bad = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        bad |= (bits & 0x7f800000u) == 0x7f800000u;
    }
    return bad == 0;
}
