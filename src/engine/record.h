/* Keeps what the model's observer sees, one array a tensor, to be written to a safetensors file. Internal to this
 * room. */
#ifndef QN_ENGINE_RECORD_H
#define QN_ENGINE_RECORD_H

#include <stdbool.h>
#include <stddef.h>

#include "checkpoint/safetensors_writer.h"
#include "model/model.h"

typedef struct qn_record qn_record;

/* Room for `rows` rows of every tensor of the decoder layers (mtp false), or of the MTP layer, with the names that
 * engine/dump.h tells. */
qn_status qn_record_new(const qn_config *config, size_t rows, bool mtp, qn_record **out, qn_error *err);
void qn_record_free(qn_record *record); /* NULL is fine */
size_t qn_record_bytes(const qn_record *record);

/* Appends rows to the tensors as the model computes them; more rows than there is room for are a bug and asserted. */
qn_observer qn_record_observer(qn_record *record);

qn_status qn_record_declare(const qn_record *record, qn_safetensors_writer *writer, qn_error *err);
qn_status qn_record_append(const qn_record *record, qn_safetensors_writer *writer, qn_error *err);

#endif
