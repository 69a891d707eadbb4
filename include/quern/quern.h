/* quern as a library: open a model directory, generate, close.
 *
 * Small and stable: programs built against it keep working across versions of the same major number. Everything is
 * UTF-8. A qn_quern may be used from several threads: their generations are computed together, up to max_num_seqs at
 * once, and each gets what it would get alone.
 *
 *     qn_quern_error error;
 *     qn_quern *quern = qn_quern_open("models/quern-tiny", NULL, &error);
 *     if (quern == NULL) { fputs(error.message, stderr); return error.status; }
 *     qn_quern_request request = QN_QUERN_REQUEST_INIT;
 *     request.prompt = "What is 2 + 2?";
 *     qn_quern_generate(quern, &request, on_text, context, NULL, &error);
 *     qn_quern_close(quern);
 *
 * Words for people (what a run will hold, notices) go to stderr as "quern: ..." lines, or where qn_quern_set_log says.
 */
#ifndef QUERN_QUERN_H
#define QUERN_QUERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What went wrong, as the exit codes of the quern command: 0 nothing; 1 the work failed; 2 the caller asked for what
 * can't be; 3 a bad file; 4 out of memory or another resource; 5 a fault of quern's own. */
typedef struct qn_quern_error {
    int status;
    char message[1024]; /* one line: thing, reason, what to do */
} qn_quern_error;

typedef struct qn_quern qn_quern;

/* Zero means the default everywhere, so start from {0}. */
typedef struct qn_quern_options {
    size_t threads;             /* 0: as many as CPUs */
    size_t max_model_len;       /* tokens of context; 0: the model's, or what memory holds */
    int num_speculative_tokens; /* drafts a step by the MTP layer; 0: off. Never changes an answer */
    const char *chat_template;  /* file in place of the checkpoint's own; NULL: that */
    size_t max_num_seqs; /* generations at once, each with a cache of max_model_len where memory holds it; 0: 1 */
} qn_quern_options;

/* NULL on failure, with *error filled. options may be NULL. */
qn_quern *qn_quern_open(const char *model_dir, const qn_quern_options *options, qn_quern_error *error);
/* NULL is fine. No generation may be running. */
void qn_quern_close(qn_quern *quern);

/* A field with its INIT value takes what the checkpoint's generation_config.json says. */
typedef struct qn_quern_request {
    const char *prompt;   /* the user's message; with raw, text that the model goes on with */
    const char *system;   /* system message; NULL: none */
    const char *messages; /* instead of prompt and system: a JSON array of OpenAI chat messages; NULL: none */
    bool raw;             /* no chat template; prompt may spell special tokens; the answer is not split */
    double temperature;   /* < 0: default; 0: greedy */
    double top_p;         /* <= 0: default */
    double min_p;         /* < 0: default */
    int top_k;            /* < 0: default; 0: off */
    bool has_seed;        /* false: a random one below 2^53 */
    uint64_t seed;
    size_t max_tokens;       /* 0: up to the context's end */
    const char *const *stop; /* stop strings */
    size_t stop_count;
} qn_quern_request;

#define QN_QUERN_REQUEST_INIT                                                         \
    {                                                                                 \
        .prompt = NULL, .temperature = -1.0, .top_p = 0.0, .min_p = -1.0, .top_k = -1 \
    }

typedef enum qn_quern_channel { QN_QUERN_CONTENT, QN_QUERN_REASONING } qn_quern_channel;

/* Text as it is generated: whole characters, `bytes` of them in bytes, a NUL behind. Return false to end the answer.
 * Called on the thread that called qn_quern_generate; it must not call quern. */
typedef bool (*qn_quern_on_text)(void *context, qn_quern_channel channel, const char *text, size_t bytes);

typedef enum qn_quern_finish { QN_QUERN_STOP, QN_QUERN_LENGTH, QN_QUERN_CANCELLED } qn_quern_finish;

typedef struct qn_quern_result {
    qn_quern_finish finish;
    size_t prompt_tokens, completion_tokens, reasoning_tokens;
    size_t drafts_proposed, drafts_accepted;
    uint64_t seed; /* that was used */
    uint64_t prefill_us, decode_us;
} qn_quern_result;

/* Returns the status, 0 on success; an answer that on_text ended is a success. on_text and result may be NULL. */
int qn_quern_generate(qn_quern *quern, const qn_quern_request *request, qn_quern_on_text on_text, void *context,
                      qn_quern_result *result, qn_quern_error *error);

/* Sends the lines, without their newlines, to `sink` instead of stderr; NULL: back to stderr. For the whole process;
 * before other threads use quern. */
void qn_quern_set_log(void (*sink)(void *context, const char *line), void *context);

/* "0.1.0" */
const char *qn_quern_version(void);

#ifdef __cplusplus
}
#endif

#endif
