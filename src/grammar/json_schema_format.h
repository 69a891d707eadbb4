/* The values of "format" that are enforced, as regular expressions for the whole string. */
#ifndef QN_GRAMMAR_JSON_SCHEMA_FORMAT_H
#define QN_GRAMMAR_JSON_SCHEMA_FORMAT_H

/* NULL for a format that is not enforced: an annotation, as the standard has it. */
const char *schema_format_regex(const char *name);

#endif
