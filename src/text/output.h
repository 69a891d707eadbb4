/* From generated token ids to what a reader sees: reasoning, content and tool calls apart and in order, cut at stop
 * strings, whole characters only, while the tokens arrive.
 *
 * Markup is recognised by its tokens' ids (<think>, <tool_call>, ...), never by its spelling, so text that quotes it
 * stays text; in reasoning only </think> is markup. How the ids are grouped changes nothing: the text of each kind,
 * concatenated, is the same. Tool calls: text/tool_call.h.
 *
 * One thread at a time; the tokenizer and the tools must outlive the stream. */
#ifndef QN_TEXT_OUTPUT_H
#define QN_TEXT_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "text/output_events.h"
#include "text/tokenizer.h"
#include "text/tool_list.h"

typedef struct qn_output_options {
    bool split; /* true: chat; <think> and </think> switch channels and give no text (out of place too), and white
                   space around reasoning and content is trimmed. false: everything is content, as it is */
    bool in_reasoning; /* split: the prompt ended inside of a <think> block */
    bool mid_text;     /* split: the prompt ended within text, which goes on: white space that begins it is kept */
    const char *const *stop; /* stop strings (text/stop.h); they are looked for in each stretch of reasoning or content,
                                not in tool calls */
    size_t stop_count;
    size_t min_tokens;         /* the text of so many first tokens, markup not counted, is no place to look for them */
    const qn_tool_list *tools; /* split: content may hold calls, and markup of calls that is out of place gives no text.
                                  NULL: <tool_call> and the like are text as any other */
} qn_output_options;

typedef struct qn_output_stream qn_output_stream;

/* QN_USAGE: stop strings that text/stop.h refuses. */
qn_status qn_output_stream_new(const qn_tokenizer *tokenizer, const qn_output_options *options, qn_output_stream **out,
                               qn_error *err);
void qn_output_stream_free(qn_output_stream *stream); /* NULL is fine */

/* The next token. Special tokens, and ids beyond the tokenizer's, give no text. After a stop string matched nothing
 * more may be fed. On failure (QN_RESOURCE) the stream is broken. */
qn_status qn_output_stream_feed(qn_output_stream *stream, int32_t token, qn_error *err);

/* No more tokens: what was held back for a stop string or an unfinished character is given out (unless a stop string
 * matched). Trailing white space is not, when trimming. An open call ends as if it were closed, but not when the answer
 * was `cut` by a limit: then its arguments stay the beginning that they are, and it gets no CALL_END. */
qn_status qn_output_stream_finish(qn_output_stream *stream, bool cut, qn_error *err);

/* The index of the stop string that matched, -1 while none has. */
int qn_output_stream_stopped(const qn_output_stream *stream);

/* What became ready since the last clear, in order; neighbours of one kind are one event. Valid until the next call on
 * the stream. */
const qn_output_event *qn_output_stream_events(qn_output_stream *stream, size_t *count);
void qn_output_stream_clear(qn_output_stream *stream);

/* Tokens fed while reasoning, the markup not counted. */
size_t qn_output_stream_reasoning_tokens(const qn_output_stream *stream);

#endif
