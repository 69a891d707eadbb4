/* `quern run`: one answer to a prompt from the command line or stdin, or a chat on a terminal. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/json_result.h"
#include "cli/run_options.h"

enum { STDIN_LIMIT_BYTES = 64 << 20 };

static void add_options(qn_run_options *o)
{
    const qn_option own[] = {
        {.name = "prompt",
         .letter = 'p',
         .kind = QN_OPTION_STRING,
         .value = &o->prompt,
         .value_name = "TEXT",
         .help = "the message to answer (default: stdin; a chat when stdin and stdout are a terminal)"},
        {.name = "system",
         .kind = QN_OPTION_STRING,
         .value = &o->system,
         .value_name = "TEXT",
         .help = "a system message before it"},
        {.name = "raw",
         .kind = QN_OPTION_FLAG,
         .value = &o->raw,
         .help = "no chat template: the model goes on with the text, which may spell special tokens; the answer is "
                 "printed as it is"},
        {.name = "temperature",
         .kind = QN_OPTION_NUMBER,
         .value = &o->temperature,
         .value_name = "T",
         .help = "0: the likeliest token each time (default of this and the next three: the checkpoint's "
                 "generation_config.json)"},
        {.name = "top-p",
         .kind = QN_OPTION_NUMBER,
         .value = &o->top_p,
         .value_name = "P",
         .help = "sample among the likeliest tokens that reach this share, above 0, up to 1"},
        {.name = "top-k",
         .kind = QN_OPTION_INTEGER,
         .value = &o->top_k,
         .value_name = "K",
         .help = "sample among so many of the likeliest tokens; 0 or -1: all",
         .min = -1,
         .max = INT32_MAX},
        {.name = "min-p",
         .kind = QN_OPTION_NUMBER,
         .value = &o->min_p,
         .value_name = "P",
         .help = "drop tokens less likely than this share of the likeliest, 0 to 1"},
        {.name = "seed",
         .kind = QN_OPTION_INTEGER,
         .value = &o->seed,
         .value_name = "N",
         .help = "the same seed gives the same answer (default: drawn by lot, and told)"},
        {.name = "max-tokens",
         .kind = QN_OPTION_SIZE,
         .value = &o->max_tokens,
         .value_name = "N",
         .help = "tokens of the answer at most, thinking included (default: up to --max-model-len)",
         .min = 1,
         .max = INT32_MAX},
        {.name = "stop",
         .kind = QN_OPTION_REPEATED,
         .value = &o->stop,
         .value_name = "TEXT",
         .help = "ends the answer before this text; give it once for each such text"},
        {.name = "show-thinking",
         .kind = QN_OPTION_FLAG,
         .value = &o->show_thinking,
         .help = "prints the thinking before the answer (default: a single answer leaves it out, a chat folds it into "
                 "a line)"},
        {.name = "json",
         .kind = QN_OPTION_FLAG,
         .value = &o->json,
         .help = "prints one JSON object at the end: content, reasoning, finish_reason, usage, timings"},
        {.name = "history",
         .kind = QN_OPTION_STRING,
         .value = &o->history,
         .value_name = "FILE",
         .help = "keeps the lines typed in a chat in this file (default: not kept)"},
    };
    qn_options_add(&o->table, own, sizeof own / sizeof *own);
    qn_engine_flags_add(&o->engine, &o->table, true);
}

qn_status qn_run_sampling(const qn_run_options *options, const qn_engine *engine, qn_sampling *out, qn_error *err)
{
    const qn_option_table *table = &options->table;
    *out = qn_engine_default_sampling(engine);
    if (qn_options_given(table, "temperature")) {
        out->temperature = (float)options->temperature;
    }
    if (qn_options_given(table, "top-p")) {
        out->top_p = (float)options->top_p;
    }
    if (qn_options_given(table, "min-p")) {
        out->min_p = (float)options->min_p;
    }
    if (qn_options_given(table, "top-k")) {
        out->top_k = (int32_t)options->top_k;
    }
    out->seed = qn_options_given(table, "seed") ? (uint64_t)options->seed : qn_random_told_seed();
    return qn_sampling_check(out, err);
}

qn_status qn_run_prompt(const qn_run_options *options, const qn_engine *engine, const json_t *messages, qn_tokens *out,
                        qn_error *err)
{
    return qn_engine_chat_prompt(engine, messages, NULL, options->engine.default_chat_template_kwargs, out, err);
}

qn_request qn_run_request(const qn_run_options *options, const qn_engine *engine, const qn_tokens *prompt)
{
    return (qn_request){.prompt_ids = prompt->ids,
                        .prompt_count = prompt->count,
                        .max_tokens = options->max_tokens,
                        .stop = options->stop.items,
                        .stop_count = options->stop.count,
                        .raw_text = options->raw,
                        .in_reasoning = !options->raw && qn_engine_opens_reasoning(engine, prompt->ids, prompt->count),
                        .show_progress = true};
}

qn_status qn_run_add_message(json_t *messages, const char *role, const char *text, size_t bytes, qn_error *err)
{
    json_t *content = json_stringn(text, bytes);
    if (content == NULL) {
        return qn_fail(err, QN_USAGE, "%s message: it is not valid UTF-8: convert it first", role);
    }
    json_t *message = json_pack("{s:s, s:o}", "role", role, "content", content);
    if (json_array_append_new(messages, message) != 0) {
        return qn_fail_memory(err, "messages", bytes);
    }
    return QN_OK;
}

static json_t *text_value(const qn_buffer *text)
{
    return text->size > 0 ? json_stringn_nocheck(text->data, text->size) : json_null();
}

static json_t *usage_value(const qn_result *r)
{
    json_int_t prompt = (json_int_t)r->prompt_tokens, completion = (json_int_t)r->completion_tokens;
    return json_pack("{s:I, s:I, s:I, s:{s:I}}", "prompt_tokens", prompt, "completion_tokens", completion,
                     "total_tokens", prompt + completion, "completion_tokens_details", "reasoning_tokens",
                     (json_int_t)r->reasoning_tokens);
}

static json_t *timings_value(const qn_result *r, uint64_t load_us)
{
    return json_pack("{s:f, s:f, s:f, s:I, s:I, s:I}", "load_seconds", (double)load_us / 1e6, "prompt_seconds",
                     (double)r->timings.prefill_us / 1e6, "decode_seconds", (double)r->timings.decode_us / 1e6,
                     "decode_steps", (json_int_t)r->timings.steps, "drafts", (json_int_t)r->timings.drafts_proposed,
                     "drafts_accepted", (json_int_t)r->timings.drafts_accepted);
}

static qn_status print_json(const qn_run_options *options, const qn_shown_answer *answer, const qn_result *result,
                            const qn_sampling *sampling, uint64_t load_us, qn_error *err)
{
    json_t *root = json_object();
    int failed = 0;
    if (options->raw) {
        failed |= json_object_set_new(root, "text",
                                      json_stringn_nocheck(qn_buffer_string(&answer->content), answer->content.size));
    } else {
        failed |= json_object_set_new(root, "reasoning", text_value(&answer->reasoning));
        failed |= json_object_set_new(root, "content", text_value(&answer->content));
    }
    failed |= json_object_set_new(root, "finish_reason", json_string(qn_finish_name(result->finish)));
    failed |= json_object_set_new(root, "stop_reason",
                                  result->stop_matched != NULL ? json_string(result->stop_matched) : json_null());
    failed |= json_object_set_new(root, "usage", usage_value(result));
    failed |= json_object_set_new(
        root, "seed", sampling->temperature > 0.0F ? json_integer((json_int_t)sampling->seed) : json_null());
    failed |= json_object_set_new(root, "timings", timings_value(result, load_us));
    if (failed != 0) {
        json_decref(root);
        root = NULL;
    }
    return qn_print_json(root, JSON_REAL_PRECISION(6), err);
}

/* The text to answer: --prompt, or stdin to its end (a chat message loses its last newline). Released with qn_free. */
static qn_status read_text(const qn_run_options *options, char **text, size_t *bytes, qn_error *err)
{
    if (options->prompt != NULL) {
        *bytes = strlen(options->prompt);
        *text = qn_strndup(options->prompt, *bytes);
        return *text != NULL ? QN_OK : qn_fail_memory(err, "prompt", *bytes);
    }
    if (isatty(STDIN_FILENO)) {
        qn_log("reading the text from the terminal: Ctrl-D ends it");
    }
    qn_status status = qn_fd_read(STDIN_FILENO, "standard input", STDIN_LIMIT_BYTES, text, bytes, err);
    if (status == QN_OK && !options->raw && *bytes > 0 && (*text)[*bytes - 1] == '\n') {
        --*bytes;
    }
    return status;
}

static qn_status make_prompt(const qn_run_options *options, const qn_engine *engine, const char *text, size_t bytes,
                             qn_tokens *out, qn_error *err)
{
    if (options->raw) {
        return qn_tokenizer_encode(qn_engine_tokenizer(engine), text, bytes, NULL, 0, out, err);
    }
    json_t *messages = json_array();
    qn_status status = QN_OK;
    if (options->system != NULL) {
        status = qn_run_add_message(messages, "system", options->system, strlen(options->system), err);
    }
    if (status == QN_OK) {
        status = qn_run_add_message(messages, "user", text, bytes, err);
    }
    if (status == QN_OK) {
        status = qn_run_prompt(options, engine, messages, out, err);
    }
    json_decref(messages);
    return status;
}

static qn_status answer_once(const qn_run_options *options, qn_engine *engine, const qn_tokens *prompt, qn_error *err)
{
    qn_request request = qn_run_request(options, engine, prompt);
    qn_shown_answer answer = {.thinking = options->show_thinking ? QN_THINKING_SHOW : QN_THINKING_HIDE,
                              .collect_only = options->json};
    qn_result result;
    qn_status status = qn_run_sampling(options, engine, &request.sampling, err);
    if (status == QN_OK) {
        status = qn_shown_answer_run(&answer, engine, &request, &result, err);
    }
    if (status == QN_OK) {
        uint64_t load_us = qn_engine_load_us(engine);
        if (options->json) {
            status = print_json(options, &answer, &result, &request.sampling, load_us, err);
        }
        qn_shown_answer_log_timings(&result, &request.sampling, load_us);
        qn_result_free(&result);
    }
    qn_shown_answer_free(&answer);
    return status;
}

/* The text is read before the model is loaded, so that a pipe's writer need not wait, and its faults show at once. */
static qn_status run_once(const qn_run_options *options, const qn_engine_options *engine_options, qn_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    qn_engine *engine = NULL;
    qn_tokens prompt = {0};
    qn_status status = read_text(options, &text, &bytes, err);
    if (status == QN_OK) {
        status = qn_engine_open(engine_options, &engine, err);
    }
    if (status == QN_OK) {
        qn_engine_flags_tell_unread(&options->engine, engine);
        status = make_prompt(options, engine, text, bytes, &prompt, err);
    }
    if (status == QN_OK) {
        status = answer_once(options, engine, &prompt, err);
    }
    qn_tokens_free(&prompt);
    qn_engine_close(engine);
    qn_free(text);
    return status;
}

static qn_status run_chat(const qn_run_options *options, const qn_engine_options *engine_options, qn_error *err)
{
    qn_engine *engine = NULL;
    qn_status status = qn_engine_open(engine_options, &engine, err);
    if (status == QN_OK) {
        qn_engine_flags_tell_unread(&options->engine, engine);
        status = qn_run_chat(options, engine, err);
    }
    qn_engine_close(engine);
    return status;
}

/* Options that shape a conversation mean nothing to a bare text. */
static qn_status refuse_with_raw(const qn_run_options *options, qn_error *err)
{
    static const char *const names[] = {"system", "show-thinking", "chat-template", "default-chat-template-kwargs",
                                        "trust-content-tokens"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (qn_options_given(&options->table, names[i])) {
            return qn_fail_field(err, QN_USAGE, names[i], "--%s: --raw has no messages: leave one of the two out",
                                 names[i]);
        }
    }
    return QN_OK;
}

static qn_status run(qn_run_options *options, qn_error *err)
{
    qn_engine_options engine_options;
    bool interactive = options->prompt == NULL && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    qn_status status = qn_engine_flags_options(&options->engine, &options->table, &engine_options, err);
    if (status != QN_OK) {
        return status;
    }
    if (options->raw) {
        engine_options.without_chat = true;
        status = refuse_with_raw(options, err);
    }
    if (status == QN_OK && options->json && options->show_thinking) {
        status = qn_fail_field(err, QN_USAGE, "show-thinking", "--show-thinking: --json tells it anyway: leave it out");
    }
    if (status != QN_OK) {
        return status;
    }
    if (interactive && (options->raw || options->json)) {
        return qn_fail(err, QN_USAGE, "%s: a chat has no such form: give the text with -p or on standard input",
                       options->raw ? "--raw" : "--json");
    }
    if (!interactive && options->history != NULL) {
        return qn_fail_field(err, QN_USAGE, "history", "--history: is for a chat: leave it out");
    }
    return interactive ? run_chat(options, &engine_options, err) : run_once(options, &engine_options, err);
}

static int command_main(int argc, char **argv)
{
    static const char summary[] = "Answers a prompt with a model of the GLM-5 family, or chats when run on a terminal.";
    qn_run_options options = {.table = {.command = "run",
                                        .arguments = "MODEL_DIR",
                                        .summary = summary,
                                        .min_arguments = 1,
                                        .max_arguments = 1,
                                        .surplus = "give the prompt with -p"}};
    qn_error err;
    add_options(&options);
    qn_status status = qn_options_parse(&options.table, argc, argv, &err);
    if (status == QN_OK && !options.table.help_shown) {
        status = run(&options, &err);
    }
    qn_engine_flags_free(&options.engine);
    return status == QN_OK ? QN_OK : qn_command_fail(&err);
}

const qn_command qn_run_command = {.name = "run", .summary = "answer a prompt, or chat", .run = command_main};
