/* Random numbers for tests of every room: the same seed gives the same numbers everywhere. */
#ifndef QN_TESTS_RANDOM_STREAM_H
#define QN_TESTS_RANDOM_STREAM_H

#include <stdint.h>

typedef struct random_stream {
    uint64_t seed, next;
} random_stream;

uint32_t random_word(random_stream *r);
double random_unit(random_stream *r);   /* in (0, 1) */
double random_normal(random_stream *r); /* mean 0, deviation 1 */

#endif
