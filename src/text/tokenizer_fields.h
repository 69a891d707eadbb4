/* Reading the small sections of a tokenizer.json: typed fields, and no field that is not known.
 *
 * `what` names the section in errors ("tokenizer.json: pre_tokenizer"). All errors are QN_BAD_INPUT. */
#ifndef QN_TEXT_TOKENIZER_FIELDS_H
#define QN_TEXT_TOKENIZER_FIELDS_H

#include <stdbool.h>

#include "base/error.h"
#include "base/json.h"

/* `value` must be an object whose keys are all in `known`, a list that ends with NULL. */
qn_status qn_section_check(const json_t *value, const char *what, const char *const *known, qn_error *err);

/* The object's field "type"; *type lives as long as the object. */
qn_status qn_section_type(const json_t *object, const char *what, const char **type, qn_error *err);

qn_status qn_section_bool(const json_t *object, const char *what, const char *key, bool *out, qn_error *err);

/* The same, but an absent field is `otherwise`. */
qn_status qn_section_bool_or(const json_t *object, const char *what, const char *key, bool otherwise, bool *out,
                             qn_error *err);

/* The string `key`, as jansson's value: its text may hold NUL. */
qn_status qn_section_string(const json_t *object, const char *what, const char *key, const json_t **out, qn_error *err);

qn_status qn_section_array(const json_t *object, const char *what, const char *key, const json_t **out, qn_error *err);

/* "what: TYPE is not supported: ..." */
qn_status qn_section_unsupported(const char *what, const char *type, qn_error *err);

#endif
