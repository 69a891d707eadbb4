/* Sources: RFC 3339 (date, time, date-time, and duration in its appendix A), RFC 4122 (uuid), RFC 2673 (ipv4), RFC 4291
 * (ipv6), RFC 1123 (hostname), RFC 5321 (email, without quoted names and address literals), RFC 3986 (uri, without
 * address literals), RFC 6901 (json-pointer). Each describes valid texts only; a leap second is not among them. */
#include "grammar/json_schema_format.h"

#include <stddef.h>
#include <string.h>

#define DATE                                                                                                           \
    "([0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8])" \
    ")"                                                                                                                \
    "|([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29)"
#define TIME "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#define OCTET "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4 OCTET "(\\." OCTET "){3}"
#define H16 "[0-9A-Fa-f]{1,4}"
#define LS32 "(" H16 ":" H16 "|" IPV4 ")"
#define LABEL "[0-9A-Za-z]([0-9A-Za-z-]{0,61}[0-9A-Za-z])?"
#define HOST LABEL "(\\." LABEL ")*"
#define ATOM "[0-9A-Za-z!#$%&'*+/=?^_`{|}~-]+"
#define ESCAPED "%[0-9A-Fa-f]{2}"
#define PCHAR "([0-9A-Za-z._~!$&'()*+,;=:@-]|" ESCAPED ")"
#define DURATION_TIME "T([0-9]+H([0-9]+M([0-9]+S)?)?|[0-9]+M([0-9]+S)?|[0-9]+S)"

static const struct {
    const char *name, *regex;
} formats[] = {
    {"date", DATE},
    {"time", TIME},
    {"date-time", DATE "[Tt]" TIME},
    {"duration",
     "P([0-9]+W|([0-9]+Y([0-9]+M([0-9]+D)?)?|[0-9]+M([0-9]+D)?|[0-9]+D)(" DURATION_TIME ")?|" DURATION_TIME ")"},
    {"uuid", "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"},
    {"ipv4", IPV4},
    {"ipv6",
     "((" H16 ":){6}" LS32 "|::(" H16 ":){5}" LS32 "|(" H16 ")?::(" H16 ":){4}" LS32 "|((" H16 ":){0,1}" H16 ")?::(" H16
     ":){3}" LS32 "|((" H16 ":){0,2}" H16 ")?::(" H16 ":){2}" LS32 "|((" H16 ":){0,3}" H16 ")?::" H16 ":" LS32 "|((" H16
     ":){0,4}" H16 ")?::" LS32 "|((" H16 ":){0,5}" H16 ")?::" H16 "|((" H16 ":){0,6}" H16 ")?::)"},
    {"hostname", HOST},
    {"email", ATOM "(\\." ATOM ")*@" HOST},
    {"uri", "[A-Za-z][0-9A-Za-z+.-]*:(//(([0-9A-Za-z._~!$&'()*+,;=:-]|" ESCAPED
            ")*@)?([0-9A-Za-z._~!$&'()*+,;=-]|" ESCAPED ")*(:[0-9]*)?(/" PCHAR "*)*|/(" PCHAR "+(/" PCHAR "*)*)?|" PCHAR
            "+(/" PCHAR "*)*)?(\\?(" PCHAR "|[/?])*)?(#(" PCHAR "|[/?])*)?"},
    {"json-pointer", "(/([^~/]|~[01])*)*"},
};

const char *schema_format_regex(const char *name)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(name, formats[i].name) == 0)
            return formats[i].regex;
    return NULL;
}
