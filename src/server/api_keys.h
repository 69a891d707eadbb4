/* The keys that a server takes from its clients.
 *
 * A key is 1 to QN_API_KEY_BYTES visible ASCII characters without spaces, as a header carries it. Neither errors nor
 * the log ever show one. */
#ifndef QN_SERVER_API_KEYS_H
#define QN_SERVER_API_KEYS_H

#include <stddef.h>

#include "base/error.h"

enum { QN_API_KEY_BYTES = 256, QN_API_KEYS_MAX = 4096 };

typedef struct qn_api_keys qn_api_keys;

qn_status qn_api_keys_new(qn_api_keys **out, qn_error *err);
void qn_api_keys_free(qn_api_keys *keys); /* wipes them; NULL is fine */

/* `source` names where the key comes from in errors ("--api-key"). QN_USAGE: no key, or one too many. */
qn_status qn_api_keys_add(qn_api_keys *keys, const char *key, size_t bytes, const char *source, qn_error *err);

/* One key a line; empty lines and those that begin with # are none. A file without a key is an error; one that others
 * may read gets a line in the log. */
qn_status qn_api_keys_add_file(qn_api_keys *keys, const char *path, qn_error *err);

size_t qn_api_keys_count(const qn_api_keys *keys);

enum { QN_API_KEY_NONE = -1 };

/* The index of this key, else QN_API_KEY_NONE. Takes as long for any text: every byte of every key is compared. */
long qn_api_keys_find(const qn_api_keys *keys, const char *text, size_t bytes);

#endif
