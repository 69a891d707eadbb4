/* The languages of the terminals of Lark's module `common`, each as one regex. */
#include <string.h>

#include "grammar/lark.h"

#define SIGN "[+\\-]?"
#define DECIMAL "([0-9]+\\.[0-9]*|\\.[0-9]+)"
#define EXPONENT "[eE]" SIGN "[0-9]+"
#define FLOAT "([0-9]+" EXPONENT "|" DECIMAL "(" EXPONENT ")?)"

static const struct {
    const char *name, *regex;
} terminals[] = {
    {"DIGIT", "[0-9]"},
    {"HEXDIGIT", "[0-9a-fA-F]"},
    {"INT", "[0-9]+"},
    {"SIGNED_INT", SIGN "[0-9]+"},
    {"DECIMAL", DECIMAL},
    {"FLOAT", FLOAT},
    {"SIGNED_FLOAT", SIGN FLOAT},
    {"NUMBER", "(" FLOAT "|[0-9]+)"},
    {"SIGNED_NUMBER", SIGN "(" FLOAT "|[0-9]+)"},
    {"ESCAPED_STRING", "\"([^\"\\\\\\n]|\\\\[^\\n])*\""},
    {"LCASE_LETTER", "[a-z]"},
    {"UCASE_LETTER", "[A-Z]"},
    {"LETTER", "[a-zA-Z]"},
    {"WORD", "[a-zA-Z]+"},
    {"CNAME", "[_a-zA-Z][_a-zA-Z0-9]*"},
    {"WS_INLINE", "[ \\t]+"},
    {"WS", "[ \\t\\f\\r\\n]+"},
    {"CR", "\\r"},
    {"LF", "\\n"},
    {"NEWLINE", "(\\r?\\n)+"},
    {"SH_COMMENT", "#[^\\n]*"},
    {"CPP_COMMENT", "//[^\\n]*"},
    {"SQL_COMMENT", "--[^\\n]*"},
    {"C_COMMENT", "/\\*([^*]|\\*+[^*/])*\\*+/"},
};

const char *qn_lark_common(const char *name, size_t bytes)
{
    for (size_t i = 0; i < sizeof terminals / sizeof terminals[0]; i++) {
        if (strlen(terminals[i].name) == bytes && memcmp(terminals[i].name, name, bytes) == 0) {
            return terminals[i].regex;
        }
    }
    return NULL;
}
