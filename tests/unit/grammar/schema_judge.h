/* A plain validator of JSON Schema, for comparison with the grammars of schemas: it looks at a value at a time, knows
 * nothing of automata, and is as slow as it likes.
 *
 * It knows the keywords that random_schema.h writes, references to "#/$defs/NAME" alone, and of patterns those that
 * judge_patterns lists. */
#ifndef SCHEMA_JUDGE_H
#define SCHEMA_JUDGE_H

#include <jansson.h>
#include <stdbool.h>

bool schema_judge(const json_t *root, const json_t *schema, const json_t *value);

/* The patterns, each with what it says in C. */
extern const char *const judge_patterns[];
enum { JUDGE_PATTERNS = 5 };

#endif
