/* What the tests of the engine share: engines of small models, runs. */
#ifndef QN_TESTS_ENGINE_SUPPORT_H
#define QN_TESTS_ENGINE_SUPPORT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"
#include "unit/random_stream.h"

/* Sanitized builds compute some twenty times slower: tests take smaller shares of their work there. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

qn_engine_options shipped_model(void); /* models/quern-tiny, two threads */

/* "What is 2 + 2?" in the chat format, as the first reference case has it: of 27 tokens of the shipped model's answer
 * 19 are thoughts. */
typedef struct question {
    int32_t *ids; /* to be released with free */
    size_t count;
} question;
question read_question(void);

/* Fails the test when the engine doesn't open. isa: NULL for the best there is. Log lines are dropped. */
qn_engine *open_engine(const qn_engine_options *options, const char *isa);

/* Runs to the end; fails the test when that fails. Release with qn_result_free. */
qn_result run_engine(qn_engine *engine, const qn_request *request, const qn_listener *listener);

json_t *read_json(const char *path);
json_t *read_json_lines(const char *path); /* an array of the lines' values */

/* A JSON array of integers; *count values, to be released with free. */
int32_t *read_ids(const json_t *array, size_t *count);

/* Log lines since the last clear, newlines between. */
const char *logged_lines(void);
void clear_log(void);

#endif
