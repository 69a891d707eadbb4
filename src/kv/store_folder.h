/* A store's folder as it is found at start. */
#ifndef QN_KV_STORE_FOLDER_H
#define QN_KV_STORE_FOLDER_H

#include "kv/store_header.h"
#include "kv/store_index.h"

/* Makes dir unless it is there. */
qn_status qn_kv_folder_make(const char *dir, qn_error *err);

/* Removes a temporary file, reads the header of every block file into index, and removes what is damaged. `own` gives
 * the fingerprint and sizes that are not foreign. Files with other names, and what is no regular file, are left alone.
 * Logs a line each about removed files, others that it could not read, and blocks of this model in another layout.
 * QN_RESOURCE: no memory. */
qn_status qn_kv_folder_read(const char *dir, const qn_kv_header *own, qn_kv_index *index, qn_error *err);

#endif
