/* Random schemas and values over few names and words, small enough that values often satisfy schemas. */
#ifndef RANDOM_SCHEMA_H
#define RANDOM_SCHEMA_H

#include <jansson.h>
#include <stdint.h>

#include "base/buffer.h"

/* A document with "$defs", or now and then only true or false, as JSON text. */
void random_schema(uint64_t *seed, qn_buffer *out);
/* A value as JSON text, compact. */
void random_value(uint64_t *seed, int depth, qn_buffer *out);

#endif
