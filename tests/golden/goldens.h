/* The reference checkpoints' goldens: goldens.json and golden-N.safetensors, as tests/data/oracle/README.md names
 * them. Everything here fails the running test when a file is not as it should be. */
#ifndef QN_TESTS_GOLDENS_H
#define QN_TESTS_GOLDENS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "checkpoint/safetensors.h"

#define ORACLE "tests/data/oracle/"

/* All checkpoints with goldens of their own; the other MXFP4 layouts share those of -ct. */
extern const char *const golden_checkpoints[];
extern const size_t golden_checkpoint_count;

typedef struct golden_case {
    json_t *json; /* owned by the set */
    qn_safetensors *file;
    int32_t *ids, *next_ids; /* [n]; next_ids NULL without MTP: the token after each position */
    size_t n, first;         /* rows [first, n) are kept */
} golden_case;

typedef struct golden_set {
    char name[64];
    json_t *json;
    golden_case *cases;
    size_t count;
} golden_set;

golden_set golden_open(const char *checkpoint);
void golden_close(golden_set *set);

/* The tensor's kept rows and its width, or NULL. Data may be unaligned on disk: these copy. Released with qn_free. */
float *golden_floats(const golden_case *c, const char *name, size_t *rows, size_t *width);
int32_t *golden_ints(const golden_case *c, const char *name, size_t *rows, size_t *width);

/* An array of the case's JSON. */
int32_t *golden_json_ints(json_t *object, const char *name, size_t *count);
double *golden_json_numbers(json_t *object, const char *name, size_t *count);

#endif
