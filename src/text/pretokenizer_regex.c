/* PCRE2 bounds the backtracking of one match attempt but not how far attempts read ahead: `a*b` on a text of n letters
 * a fails n times after reading to the end. So quern makes the attempts itself, one a position, each in a window of the
 * text that is doubled when PCRE2 reports (PARTIAL_HARD) that it would have liked to see more. The bytes of enlarged
 * windows are counted against a budget linear in the text, and backtracking in a window against one linear in the
 * window. Patterns in use consume what they read, and stay far below both. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pretokenizer_regex.h"

#include <pcre2.h>
#include <stdint.h>

#include "base/log.h"
#include "base/memory.h"

enum {
    FIRST_WINDOW_BYTES = 256,
    STEPS_PER_BYTE = 16,
    LEAST_STEPS = 1000,
    READ_AHEAD_PER_BYTE = 64,
    LEAST_READ_AHEAD_BYTES = 1 << 16,
    FIRST_STACK_BYTES = 32 << 10,
    LARGEST_STACK_BYTES = 8 << 20
};

struct qn_regex {
    pcre2_general_context *memory;
    pcre2_code *code;
};

struct qn_regex_search {
    pcre2_general_context *memory;
    pcre2_match_context *context;
    pcre2_match_data *match;
    pcre2_jit_stack *stack;
    const char *text;
    size_t bytes, from, last_end; /* last_end: SIZE_MAX before the first match */
    size_t read_ahead_left;       /* bytes of enlarged windows still allowed on this text */
};

static void *allocate(PCRE2_SIZE bytes, void *context)
{
    (void)context;
    return qn_alloc(bytes, 1);
}

static void release(void *block, void *context)
{
    (void)context;
    qn_free(block);
}

static qn_status fail_compile(int code, PCRE2_SIZE offset, size_t bytes, qn_error *err)
{
    if (code == PCRE2_ERROR_HEAP_FAILED)
        return qn_fail_memory(err, "split pattern", bytes);
    PCRE2_UCHAR message[160];
    if (pcre2_get_error_message(code, message, sizeof message) < 0)
        message[0] = '\0';
    return qn_fail(err, QN_BAD_INPUT,
                   "split pattern: PCRE2 does not accept it at byte %zu of its translation (%s): "
                   "quern cannot use this tokenizer",
                   (size_t)offset, (const char *)message);
}

/* Some systems let no process make machine code: then the matches are the same, only slower. */
static void translate_to_machine_code(qn_regex *regex)
{
    int code = pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
    if (code != 0)
        qn_log("tokenizer: the split pattern is interpreted, since PCRE2 cannot make machine code here (error %d): "
               "encoding is slower",
               code);
}

qn_status qn_regex_compile(const char *pattern, size_t bytes, qn_regex_engine engine, qn_regex **out, qn_error *err)
{
    qn_regex *regex = qn_alloc_zero(1, sizeof *regex);
    if (!regex)
        return qn_fail_memory(err, "split pattern", sizeof *regex);
    regex->memory = pcre2_general_context_create(allocate, release, NULL);
    pcre2_compile_context *context = regex->memory ? pcre2_compile_context_create(regex->memory) : NULL;
    qn_status status = QN_OK;
    if (!context) {
        status = qn_fail_memory(err, "split pattern", bytes);
    } else {
        int code = 0;
        PCRE2_SIZE offset = 0;
        regex->code = pcre2_compile((PCRE2_SPTR)pattern, bytes,
                                    PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED | PCRE2_NO_AUTO_CAPTURE, &code, &offset,
                                    context);
        if (!regex->code)
            status = fail_compile(code, offset, bytes, err);
        else if (engine == QN_REGEX_JIT)
            translate_to_machine_code(regex);
        pcre2_compile_context_free(context);
    }
    if (status != QN_OK) {
        qn_regex_free(regex);
        return status;
    }
    *out = regex;
    return QN_OK;
}

void qn_regex_free(qn_regex *regex)
{
    if (!regex)
        return;
    pcre2_code_free(regex->code);
    pcre2_general_context_free(regex->memory);
    qn_free(regex);
}

qn_status qn_regex_search_new(qn_regex_search **out, qn_error *err)
{
    qn_regex_search *search = qn_alloc_zero(1, sizeof *search);
    if (!search)
        return qn_fail_memory(err, "split pattern search", sizeof *search);
    search->memory = pcre2_general_context_create(allocate, release, NULL);
    if (search->memory) {
        search->context = pcre2_match_context_create(search->memory);
        search->match = pcre2_match_data_create(1, search->memory);
        search->stack = pcre2_jit_stack_create(FIRST_STACK_BYTES, LARGEST_STACK_BYTES, search->memory);
    }
    if (!search->context || !search->match || !search->stack) {
        qn_regex_search_free(search);
        return qn_fail_memory(err, "split pattern search", FIRST_STACK_BYTES);
    }
    pcre2_jit_stack_assign(search->context, NULL, search->stack);
    *out = search;
    return QN_OK;
}

void qn_regex_search_free(qn_regex_search *search)
{
    if (!search)
        return;
    pcre2_jit_stack_free(search->stack);
    pcre2_match_data_free(search->match);
    pcre2_match_context_free(search->context);
    pcre2_general_context_free(search->memory);
    qn_free(search);
}

void qn_regex_begin(qn_regex_search *search, const char *text, size_t bytes)
{
    search->text = text;
    search->bytes = bytes;
    search->from = 0;
    search->last_end = SIZE_MAX;
    search->read_ahead_left = bytes * READ_AHEAD_PER_BYTE + LEAST_READ_AHEAD_BYTES;
}

/* The end of a window of about `bytes` from `at`, moved to the border of a character. */
static size_t window_end(const qn_regex_search *search, size_t at, size_t bytes)
{
    if (search->bytes - at <= bytes)
        return search->bytes;
    size_t end = at + bytes;
    while (end < search->bytes && ((uint8_t)search->text[end] & 0xC0) == 0x80)
        end++;
    return end;
}

static qn_status fail_match(int code, size_t at, qn_error *err)
{
    switch (code) {
    case PCRE2_ERROR_MATCHLIMIT:
    case PCRE2_ERROR_DEPTHLIMIT:
    case PCRE2_ERROR_HEAPLIMIT:
    case PCRE2_ERROR_JIT_STACKLIMIT:
    case PCRE2_ERROR_PARTIAL: /* the window may not grow any more */
        return qn_fail(err, QN_BAD_INPUT,
                       "split pattern: it needs more than linear work on this text at byte %zu (PCRE2 error %d): the "
                       "tokenizer's pattern is not usable on such text",
                       at, code);
    case PCRE2_ERROR_NOMEMORY:
        return qn_fail_memory(err, "split pattern search", at);
    default:
        return qn_fail(err, QN_INTERNAL, "split pattern: PCRE2 error %d at byte %zu: please report it", code, at);
    }
}

/* Tries to match at exactly `at`. */
static qn_status attempt(const qn_regex *regex, qn_regex_search *search, size_t at, bool *found, size_t *end,
                         qn_error *err)
{
    size_t window = FIRST_WINDOW_BYTES;
    for (;;) {
        size_t limit = window_end(search, at, window);
        uint32_t options = PCRE2_NO_UTF_CHECK | (limit < search->bytes ? PCRE2_PARTIAL_HARD : 0u);
        size_t steps = (limit - at) * STEPS_PER_BYTE + LEAST_STEPS;
        pcre2_set_match_limit(search->context, steps < UINT32_MAX ? (uint32_t)steps : UINT32_MAX);
        int code = pcre2_match(regex->code, (PCRE2_SPTR)search->text, limit, at, options, search->match,
                               search->context);
        *found = code > 0;
        if (code > 0) {
            *end = pcre2_get_ovector_pointer(search->match)[1];
            return QN_OK;
        }
        if (code == PCRE2_ERROR_NOMATCH)
            return QN_OK;
        if (code != PCRE2_ERROR_PARTIAL || search->read_ahead_left < 2 * window)
            return fail_match(code, at, err);
        window *= 2;
        search->read_ahead_left -= window;
    }
}

static size_t next_position(const qn_regex_search *search, size_t at)
{
    at++;
    while (at < search->bytes && ((uint8_t)search->text[at] & 0xC0) == 0x80)
        at++;
    return at;
}

qn_status qn_regex_next(const qn_regex *regex, qn_regex_search *search, bool *found, size_t *start, size_t *end,
                        qn_error *err)
{
    *found = false;
    size_t at = search->from;
    while (at <= search->bytes) {
        qn_status status = attempt(regex, search, at, found, end, err);
        if (status != QN_OK)
            return status;
        if (*found && !(*end == at && at == search->last_end)) {
            *start = at;
            search->from = search->last_end = *end;
            return QN_OK;
        }
        at = next_position(search, at);
    }
    *found = false;
    search->from = search->bytes + 1;
    return QN_OK;
}
