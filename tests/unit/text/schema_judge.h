/* A plain judge of what tests' schemas accept: type, enum, const, anyOf, bounds, items, properties, and $ref of one
 * kind, "#/$defs/short". */
#ifndef SCHEMA_JUDGE_H
#define SCHEMA_JUDGE_H

#include <jansson.h>
#include <stdbool.h>

/* No undeclared members. */
bool schema_accepts_members(const json_t *root, const json_t *schema, const json_t *object);

#endif
