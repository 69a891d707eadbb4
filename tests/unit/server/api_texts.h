/* JSON in tests of the APIs: written with ' for ", and the events of a stream read back. */
#ifndef API_TEXTS_H
#define API_TEXTS_H

#include <jansson.h>

#include "base/buffer.h"
#include "base/error.h"

char *double_quoted(const char *text); /* a copy with " for ', released with free */
json_t *quoted_json(const char *text); /* the value of such a text; fails the test when it is no JSON */

/* The error that a body got names the field and says the part. */
void assert_error_is(const char *body, const qn_error *err, const char *field, const char *part);

/* The events of a stream as a list; each has to carry its own name as its type. Empties the buffer. */
json_t *named_events(qn_buffer *out);

#endif
