/* `quern text VERB`: what happens to text on its way in and out, one step at a time.
 *
 * With --jsonl a line of JSON in gives a line of JSON out, in order, so that a file of cases goes through in one call
 * and another program can keep the command open and talk to it. Output is flushed whenever more input would have to be
 * waited for: line by line in a conversation, in large pieces from a file. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_wide.h"
#include "base/memory.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/text_parse.h"
#include "cli/text_verbs.h"

enum { INPUT_MAX_BYTES = 256 << 20, READ_BYTES = 64 << 10 };

/* ---- lines ---- */

/* An error is an answer too: whoever sent the line gets a line. */
static void answer_line(qn_text_tool *tool, const qn_text_verb *verb, const char *line, size_t bytes, qn_status early,
                        qn_error *err)
{
    json_t *input = NULL;
    qn_buffer_clear(&tool->out);
    qn_status status = early;
    if (status == QN_OK) {
        status = qn_json_parse_wide(line, bytes, "line", &input, err);
    }
    if (status == QN_OK) {
        status = verb->answer(tool, input, err);
    }
    json_decref(input);
    if (status != QN_OK) {
        qn_buffer_clear(&tool->out);
        qn_buffer_text(&tool->out, "{\"error\":");
        qn_buffer_json_string(&tool->out, err->message, strlen(err->message));
        qn_buffer_char(&tool->out, '}');
    }
    qn_buffer_char(&tool->out, '\n');
    fwrite(qn_buffer_string(&tool->out), 1, tool->out.size, stdout);
}

/* Lines of standard input; one that is too long is an error, and the lines behind it go on. */
typedef struct line_reader {
    qn_buffer line;
    char piece[READ_BYTES];
    size_t at, bytes;
    bool over;
} line_reader;

/* More bytes in piece; false at the end. */
static qn_status refill(line_reader *r, qn_error *err)
{
    qn_status status = qn_stdout_check(err); /* nobody may wait for an answer that lies in a buffer */
    if (status != QN_OK) {
        return status;
    }
    ssize_t got;
    do {
        got = read(STDIN_FILENO, r->piece, sizeof r->piece);
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
        return qn_fail(err, QN_RESOURCE, "standard input: %s: give a file or a pipe", strerror(errno));
    }
    r->at = 0;
    r->bytes = (size_t)got;
    r->over = got == 0;
    return QN_OK;
}

/* *found false: the input is over. The line is without its newline. */
static qn_status next_line(line_reader *r, bool *found, qn_error *err)
{
    qn_buffer_clear(&r->line);
    r->line.limit = INPUT_MAX_BYTES;
    *found = false;
    while (!r->over) {
        if (r->at == r->bytes) {
            qn_status status = refill(r, err);
            if (status != QN_OK) {
                return status;
            }
            continue;
        }
        const char *start = r->piece + r->at;
        const char *newline = memchr(start, '\n', r->bytes - r->at);
        size_t taken = newline != NULL ? (size_t)(newline - start) : r->bytes - r->at;
        qn_buffer_append(&r->line, start, taken);
        r->at += taken + (newline != NULL);
        *found = true;
        if (newline != NULL) {
            return QN_OK;
        }
    }
    return QN_OK;
}

static qn_status answer_lines(qn_text_tool *tool, const qn_text_verb *verb, qn_error *err)
{
    line_reader *r = qn_alloc_zero(1, sizeof *r);
    if (r == NULL) {
        return qn_fail_memory(err, "standard input", sizeof *r);
    }
    bool found = true;
    qn_status status = QN_OK;
    while (status == QN_OK && found) {
        status = next_line(r, &found, err);
        if (status == QN_OK && found) {
            qn_error of_line;
            qn_status early = r->line.failed ? qn_fail(&of_line, QN_USAGE, "line: longer than %d bytes: send less",
                                                       INPUT_MAX_BYTES)
                                             : QN_OK;
            answer_line(tool, verb, qn_buffer_string(&r->line), r->line.size, early, &of_line);
            status = tool->out.failed ? qn_fail_memory(err, "answer", tool->out.size) : QN_OK;
        }
    }
    qn_buffer_free(&r->line);
    qn_free(r);
    return status;
}

/* One input, the argument or all of standard input. */
static qn_status answer_once(qn_text_tool *tool, const qn_text_verb *verb, const char *argument, qn_error *err)
{
    char *read_text = NULL;
    size_t bytes = argument != NULL ? strlen(argument) : 0;
    qn_status status = QN_OK;
    if (argument == NULL) {
        status = qn_fd_read(STDIN_FILENO, "standard input", INPUT_MAX_BYTES, &read_text, &bytes, err);
    }
    if (status == QN_OK) {
        status = verb->answer_plain(tool, argument != NULL ? argument : read_text, bytes, err);
    }
    if (status == QN_OK) {
        fwrite(qn_buffer_string(&tool->out), 1, tool->out.size, stdout);
        if (!verb->answers_bytes) {
            putchar('\n');
        }
    }
    qn_free(read_text);
    return status;
}

/* ---- the command ---- */

static qn_status open_template(qn_text_tool *tool, qn_error *err)
{
    char *source = NULL;
    size_t bytes = 0;
    qn_status status = qn_file_read(tool->template_path, QN_TEMPLATE_MAX_BYTES, &source, &bytes, err);
    if (status == QN_OK) {
        status = qn_template_compile(source, bytes, tool->template_path, &tool->template, err);
    }
    qn_free(source);
    return status;
}

/* Flags that only some verbs have. */
static qn_status check_flags(const qn_text_tool *tool, const qn_text_verb *verb, qn_error *err)
{
    if (tool->skip_special && !verb->decodes) {
        return qn_fail_field(err, QN_USAGE, "skip-special", "text %s: --skip-special: only for decode: leave it out",
                             verb->name);
    }
    if (tool->stream && !verb->decodes && !verb->parses) {
        return qn_fail_field(err, QN_USAGE, "stream", "text %s: --stream: only for decode and parse: leave it out",
                             verb->name);
    }
    if ((tool->tools_path != NULL || tool->chunk > 0) && !verb->parses) {
        return qn_fail(err, QN_USAGE, "text %s: --tools and --chunk: only for parse: leave them out", verb->name);
    }
    if (tool->stream && verb->decodes && !tool->jsonl) {
        return qn_fail_field(err, QN_USAGE, "stream", "text decode: --stream: only with --jsonl: add it");
    }
    return QN_OK;
}

static qn_status open_tool(qn_text_tool *tool, const qn_text_verb *verb, qn_error *err)
{
    if (verb->needs_tokenizer != (tool->tokenizer_path != NULL)) {
        return qn_fail_field(err, QN_USAGE, "tokenizer", "text %s: %s", verb->name,
                             verb->needs_tokenizer ? "--tokenizer is missing: give a tokenizer.json or a model's folder"
                                                   : "--tokenizer: has no use here: leave it out");
    }
    if (verb->needs_template != (tool->template_path != NULL)) {
        return qn_fail_field(err, QN_USAGE, "template", "text %s: %s", verb->name,
                             verb->needs_template ? "--template is missing: give a Jinja file"
                                                  : "--template: has no use here: leave it out");
    }
    if (!verb->needs_grammar && qn_text_match_is_set(&tool->match)) {
        return qn_fail(err, QN_USAGE,
                       "text %s: --schema, --regex, --gbnf, --lark and --choice: only for match: leave them out",
                       verb->name);
    }
    qn_status status = check_flags(tool, verb, err);
    if (status != QN_OK) {
        return status;
    }
    if (verb->needs_tokenizer) {
        status = qn_tokenizer_open(tool->tokenizer_path, &tool->tokenizer, err);
        return status == QN_OK && tool->tools_path != NULL ? qn_text_parse_tools(tool->tools_path, &tool->tools, err)
                                                           : status;
    }
    return verb->needs_grammar ? qn_text_match_open(&tool->match, err) : open_template(tool, err);
}

static int run_text(int argc, char **argv)
{
    qn_text_tool tool = {0};
    const qn_option options[] = {
        {.name = "jsonl",
         .kind = QN_OPTION_FLAG,
         .value = &tool.jsonl,
         .help =
             "read a JSON value a line on stdin, answer one a line: encode and match take a string, decode an array "
             "of ids, render an object of template variables, parse one with output, thinking_prompt and finish; "
             "{\"error\": ...} where a line fails"},
        {.name = "tokenizer",
         .kind = QN_OPTION_STRING,
         .value = &tool.tokenizer_path,
         .value_name = "PATH",
         .help = "encode, decode, parse: a tokenizer.json or a model's folder"},
        {.name = "template",
         .kind = QN_OPTION_STRING,
         .value = &tool.template_path,
         .value_name = "FILE",
         .help = "render: the chat template"},
        {.name = "schema",
         .kind = QN_OPTION_STRING,
         .value = &tool.match.schema_path,
         .value_name = "FILE",
         .help = "match: a JSON Schema; the text is JSON"},
        {.name = "regex",
         .kind = QN_OPTION_STRING,
         .value = &tool.match.regex,
         .value_name = "REGEX",
         .help = "match: a regular expression for the whole text"},
        {.name = "gbnf",
         .kind = QN_OPTION_STRING,
         .value = &tool.match.gbnf_path,
         .value_name = "FILE",
         .help = "match: a grammar in GBNF, llama.cpp's notation"},
        {.name = "lark",
         .kind = QN_OPTION_STRING,
         .value = &tool.match.lark_path,
         .value_name = "FILE",
         .help = "match: a grammar in Lark's notation"},
        {.name = "choice",
         .kind = QN_OPTION_STRING,
         .value = &tool.match.choice_path,
         .value_name = "FILE",
         .help = "match: a JSON array of texts, of which one has to come"},
        {.name = "skip-special",
         .kind = QN_OPTION_FLAG,
         .value = &tool.skip_special,
         .help = "decode: leave special tokens out"},
        {.name = "stream",
         .kind = QN_OPTION_FLAG,
         .value = &tool.stream,
         .help = "decode --jsonl: answer an array with the text that each id completes, as a stream gives it; parse: "
                 "an array of deltas"},
        {.name = "tools",
         .kind = QN_OPTION_STRING,
         .value = &tool.tools_path,
         .value_name = "FILE",
         .help = "parse: the request's tools, a JSON list; without them markup of tool calls is text"},
        {.name = "chunk",
         .kind = QN_OPTION_SIZE,
         .value = &tool.chunk,
         .value_name = "BYTES",
         .min = 1,
         .max = INPUT_MAX_BYTES,
         .help = "parse: cut text into pieces of so many bytes, each by itself turned into tokens"},
    };
    qn_option_table table = {
        .command = "text",
        .arguments = "render|encode|decode|parse|match [INPUT]",
        .summary = "Looks into what happens to text: render a chat template, encode text to token ids (none are added "
                   "around it), decode ids to text, parse what a model emitted, match text against a regex or a "
                   "grammar. The input is INPUT or stdin.",
        .min_arguments = 1,
        .max_arguments = 2,
    };
    qn_options_add(&table, options, sizeof options / sizeof options[0]);
    qn_error err;
    qn_status status = qn_options_parse(&table, argc, argv, &err);
    if (status != QN_OK || table.help_shown) {
        return status != QN_OK ? qn_command_fail(&err) : QN_OK;
    }
    const char *input = table.argument_count > 1 ? table.argument[1] : NULL;
    const qn_text_verb *verb = NULL;
    status = qn_text_verb_find(table.argument[0], &verb, &err);
    if (status == QN_OK && tool.jsonl && input != NULL) {
        status = qn_fail(&err, QN_USAGE, "text %s: --jsonl reads stdin: leave %s out", verb->name, input);
    }
    if (status == QN_OK) {
        status = open_tool(&tool, verb, &err);
    }
    if (status == QN_OK) {
        status = tool.jsonl ? answer_lines(&tool, verb, &err) : answer_once(&tool, verb, input, &err);
    }
    qn_tokenizer_free(tool.tokenizer);
    qn_template_free(tool.template);
    qn_text_match_close(&tool.match);
    qn_tool_list_free(tool.tools);
    qn_tokens_free(&tool.tokens);
    qn_buffer_free(&tool.out);
    return status != QN_OK ? qn_command_fail(&err) : QN_OK;
}

const qn_command qn_text_command = {
    .name = "text",
    .summary = "look into templates, tokens, model output: render, encode, decode, parse, match",
    .run = run_text};
