#include "unit/engine/support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"

enum { FILE_LIMIT_BYTES = 1 << 26, LOG_BYTES = 1 << 16 };

static char logged[LOG_BYTES];

static pthread_mutex_t logging = PTHREAD_MUTEX_INITIALIZER; /* engines log from threads of their own */

static void collect_log(void *context, const char *line)
{
    (void)context;
    pthread_mutex_lock(&logging);
    size_t used = strlen(logged);
    snprintf(logged + used, sizeof logged - used, "%s\n", line);
    pthread_mutex_unlock(&logging);
}

const char *logged_lines(void)
{
    return logged;
}

void clear_log(void)
{
    qn_log_set_sink(collect_log, NULL);
    pthread_mutex_lock(&logging);
    logged[0] = '\0';
    pthread_mutex_unlock(&logging);
}

qn_engine *open_engine(const qn_engine_options *options, const char *isa)
{
    if (isa != NULL) {
        setenv("QUERN_ISA", isa, 1);
    } else {
        unsetenv("QUERN_ISA");
    }
    clear_log();
    qn_engine *engine = NULL;
    qn_error err;
    if (qn_engine_open(options, &engine, &err) != QN_OK) {
        fail_msg("%s: %s", options->model_dir, err.message);
    }
    return engine;
}

qn_result run_engine(qn_engine *engine, const qn_request *request, const qn_listener *listener)
{
    qn_result result;
    qn_error err;
    if (qn_engine_generate(engine, request, listener, &result, &err) != QN_OK) {
        fail_msg("%s", err.message);
    }
    return result;
}

json_t *read_json(const char *path)
{
    json_t *value = NULL;
    qn_error err;
    if (qn_json_parse_file(path, FILE_LIMIT_BYTES, &value, &err) != QN_OK) {
        fail_msg("%s", err.message);
    }
    return value;
}

json_t *read_json_lines(const char *path)
{
    char *text;
    size_t bytes;
    qn_error err;
    if (qn_file_read(path, FILE_LIMIT_BYTES, &text, &bytes, &err) != QN_OK) {
        fail_msg("%s", err.message);
    }
    json_t *lines = json_array();
    for (char *line = text, *end; line < text + bytes; line = end + 1) {
        end = strchr(line, '\n');
        end = end == NULL ? text + bytes : end;
        json_t *value;
        if (end > line && qn_json_parse(line, (size_t)(end - line), path, &value, &err) != QN_OK) {
            fail_msg("%s", err.message);
        } else if (end > line) {
            json_array_append_new(lines, value);
        }
    }
    qn_free(text);
    return lines;
}

int32_t *read_ids(const json_t *array, size_t *count)
{
    *count = json_array_size(array);
    int32_t *ids = malloc((*count + 1) * sizeof *ids);
    assert_non_null(ids);
    for (size_t i = 0; i < *count; i++) {
        ids[i] = (int32_t)json_integer_value(json_array_get(array, i));
    }
    return ids;
}

qn_engine_options shipped_model(void)
{
    return (qn_engine_options){.model_dir = "models/quern-tiny", .threads = 2, .max_model_len = 4096};
}

question read_question(void)
{
    json_t *cases = read_json_lines("models/quern-tiny/eval/greedy_hf.jsonl");
    question q;
    q.ids = read_ids(json_object_get(json_array_get(cases, 0), "prompt_ids"), &q.count);
    json_decref(cases);
    return q;
}
