/* Random values for the tensors of a checkpoint, with the statistics that matter to what is done with them.
 *
 * What a tensor holds, and why:
 * - A matrix: Student's t with 5 degrees of freedom (cut at 1 in 65,536), times a log-normal scale for each row and
 * each column. Trained weights have tails heavier than a normal distribution's, and rows and columns of unlike size:
 * both decide how well blocks of 32 share a scale, so quantising normal noise would look better than it is.
 * - Its standard deviation is 1 / sqrt(columns), so that a normed input gives outputs near 1 whatever the sizes:
 *   attention scores, gates and activations stay where a trained model's are. What is added to the residual stream
 *   (o_proj, down_proj) is a tenth of that, since a hundred layers add up: the stream stays finite and every layer
 *   still shows in the logits. The head's is twice that: logits with a standard deviation of 2.
 * - The embedding has a standard deviation of 0.02, as a model's first values.
 * - The router: rows of unlike size (log-normal, sigma 0.15), so that experts are taken unevenly but all are; its
 * biases are normal with 0.01, as big as the gap between neighbours in the ranking.
 * - Norms are log-normal around 1 with sigma 0.15, the bias of the indexer's LayerNorm normal with 0.05.
 *
 * A value depends on the seed, the tensor's name and inputs and its row and column, on nothing else: a checkpoint with
 * fewer layers, experts or tokens has the very values of the whole one in what it keeps. Only additions,
 * multiplications, divisions and square roots are used, so that every machine gives the same bytes. */
#ifndef QN_SYNTH_VALUES_H
#define QN_SYNTH_VALUES_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "checkpoint/catalogue.h"

typedef struct qn_values qn_values;

/* Some 128 KiB of tables, read by any number of threads. */
qn_status qn_values_new(uint64_t seed, qn_values **out, qn_error *err);
void qn_values_free(qn_values *values); /* NULL is fine */

/* The scales of a tensor's columns, out [cols]; a vector (dims 1) has none. Costs about as much as a row. */
void qn_values_columns(const qn_values *values, const qn_catalogue_tensor *tensor, float *out);

/* Row `row` of a matrix: out [cols], with the scales of qn_values_columns. All values are finite, and none is so small
 * or large that BF16 could not hold it. */
void qn_values_row(const qn_values *values, const qn_catalogue_tensor *tensor, size_t row, const float *columns,
                   float *out);

/* Elements first .. first + count - 1 of a vector. */
void qn_values_vector(const qn_values *values, const qn_catalogue_tensor *tensor, size_t first, size_t count,
                      float *out);

#endif
