/* Times are the thread's own, for one slow mask counts and a machine that does something else would make some. Only the
 * mask itself is timed: the matcher's step belongs to the one who takes a token. */
#include "bench/grammar_speed.h"

#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/size.h"
#include "text/answer_grammar.h"

typedef struct samples {
    double *us;
    size_t count, capacity;
} samples;

struct qn_grammar_bench {
    qn_grammar_speed_options options;
    qn_vocabulary_trie *trie;
    double trie_us;
    qn_grammar_times *all;
    size_t count, capacity, refused;
    samples compile, first, again; /* of all */
    uint64_t *mask;
    size_t words;
    qn_tokens text;
};

/* One grammar as it is measured. */
typedef struct subject {
    qn_answer_grammar *grammar;
    qn_grammar_times *times;
    samples *masks;
} subject;

static qn_status out_of_memory(qn_error *err)
{
    return qn_fail_memory(err, "grammar bench", sizeof(qn_grammar_bench));
}

static bool add_sample(samples *s, double us)
{
    if (!qn_reserve(&s->us, &s->capacity, s->count + 1, sizeof *s->us))
        return false;
    s->us[s->count++] = us;
    return true;
}

static double us_since(uint64_t start_ns)
{
    return (double)(qn_thread_ns() - start_ns) / 1e3;
}

qn_status qn_grammar_bench_new(const qn_grammar_speed_options *options, qn_grammar_bench **out, qn_error *err)
{
    size_t own = qn_tokenizer_size(options->tokenizer), vocab = options->vocab ? options->vocab : own;
    if (vocab < own)
        return qn_fail(err, QN_USAGE, "--vocab: %zu: the tokenizer has %zu tokens: give at least as many", vocab, own);
    qn_grammar_bench *b = qn_alloc_zero(1, sizeof *b);
    if (!b)
        return out_of_memory(err);
    b->options = *options;
    b->options.vocab = vocab;
    b->words = qn_ceil_div(vocab, 64);
    b->mask = qn_alloc(b->words, sizeof *b->mask);
    uint64_t start = qn_thread_ns();
    qn_status status = b->mask ? qn_tokenizer_padded_trie(options->tokenizer, vocab, &b->trie, err)
                               : out_of_memory(err);
    b->trie_us = us_since(start);
    if (status)
        qn_grammar_bench_free(b);
    else
        *out = b;
    return status;
}

void qn_grammar_bench_free(qn_grammar_bench *b)
{
    if (!b)
        return;
    qn_vocabulary_trie_free(b->trie);
    qn_tokens_free(&b->text);
    qn_free(b->mask);
    qn_free(b->all);
    qn_free(b->compile.us);
    qn_free(b->first.us);
    qn_free(b->again.us);
    qn_free(b);
}

static qn_status make_mask(qn_grammar_bench *b, const subject *s, const qn_matcher *m, qn_error *err)
{
    memset(b->mask, 0, b->words * sizeof *b->mask);
    uint64_t start = qn_thread_ns();
    qn_status status = qn_mask_fill(qn_answer_grammar_masks(s->grammar), m, b->mask, err);
    double us = us_since(start);
    if (!status && !add_sample(s->masks, us))
        status = out_of_memory(err);
    return status;
}

static bool take(qn_grammar_bench *b, qn_matcher *m, int32_t token)
{
    size_t bytes = 0;
    const char *text = qn_tokenizer_token_bytes(b->options.tokenizer, token, &bytes);
    if (!text || qn_tokenizer_is_added(b->options.tokenizer, token))
        return qn_matcher_token(m, token);
    return qn_matcher_bytes(m, text, bytes) == bytes;
}

static qn_status walk_text(qn_grammar_bench *b, const subject *s, qn_error *err)
{
    qn_matcher *m = NULL;
    qn_status status = qn_matcher_new(qn_answer_grammar_of(s->grammar), &m, err);
    bool inside = true;
    for (size_t i = 0; i < b->text.count && inside && !status; i++) {
        status = make_mask(b, s, m, err);
        inside = take(b, m, b->text.ids[i]);
    }
    if (!status && inside)
        status = make_mask(b, s, m, err);
    s->times->longer += !inside;
    qn_matcher_free(m);
    return status;
}

/* One of the mask's tokens by the random number; -1 when it has none. */
static int32_t pick(const qn_grammar_bench *b, uint32_t random)
{
    size_t count = 0;
    for (size_t w = 0; w < b->words; w++)
        count += (size_t)__builtin_popcountll(b->mask[w]);
    size_t left = count ? random % count : 0;
    for (size_t w = 0; w < b->words; w++) {
        for (uint64_t bits = b->mask[w]; bits; bits &= bits - 1)
            if (left-- == 0)
                return (int32_t)(64 * w + (size_t)__builtin_ctzll(bits));
    }
    return -1;
}

static qn_status walk_freely(qn_grammar_bench *b, const subject *s, uint32_t number, qn_error *err)
{
    qn_matcher *m = NULL;
    qn_status status = qn_matcher_new(qn_answer_grammar_of(s->grammar), &m, err);
    for (uint32_t i = 0; i < b->options.walk_tokens && !status; i++) {
        uint32_t random[4];
        status = make_mask(b, s, m, err);
        qn_philox4x32_10((uint32_t[4]){i, number}, (uint32_t[2]){b->options.seed}, random);
        int32_t token = status ? -1 : pick(b, random[0]);
        if (token < 0 || !take(b, m, token))
            break;
    }
    qn_matcher_free(m);
    return status;
}

static int append(const char *text, size_t bytes, void *buffer)
{
    qn_buffer_append(buffer, text, bytes);
    return 0;
}

static qn_status encode_value(qn_grammar_bench *b, const json_t *value, qn_error *err)
{
    qn_buffer text = {0};
    bool whole = json_dump_callback(value, append, &text, JSON_ENCODE_ANY) == 0 && !text.failed;
    qn_status status = whole ? qn_tokenizer_encode(b->options.tokenizer, qn_buffer_string(&text), text.size, NULL, 0,
                                                   &b->text, err)
                             : out_of_memory(err);
    qn_buffer_free(&text);
    return status;
}

static qn_status walk_all(qn_grammar_bench *b, const subject *s, const json_t *line, qn_error *err)
{
    const json_t *texts = json_object_get(line, "accept"), *tests = json_object_get(line, "tests"), *value;
    qn_status status = QN_OK;
    size_t i;
    json_array_foreach(texts, i, value)
    {
        qn_tokens_clear(&b->text);
        if (!status && json_is_string(value))
            status = qn_tokenizer_encode(b->options.tokenizer, json_string_value(value), json_string_length(value),
                                         NULL, 0, &b->text, err);
        if (!status)
            status = walk_text(b, s, err);
    }
    json_array_foreach(tests, i, value)
    {
        if (status || !json_is_true(json_object_get(value, "valid")))
            continue;
        qn_tokens_clear(&b->text);
        status = encode_value(b, json_object_get(value, "data"), err);
        if (!status)
            status = walk_text(b, s, err);
    }
    for (uint32_t walk = 0; walk < b->options.walks && !status; walk++)
        status = walk_freely(b, s, walk, err);
    return status;
}

static qn_status read_format(const json_t *line, const char *what, qn_answer_format *format, qn_error *err)
{
    static const struct {
        const char *name;
        qn_format_kind kind;
    } kinds[] = {{"regex", QN_FORMAT_REGEX},
                 {"choice", QN_FORMAT_CHOICE},
                 {"gbnf", QN_FORMAT_GBNF},
                 {"ebnf", QN_FORMAT_GBNF},
                 {"lark", QN_FORMAT_LARK}};
    const char *kind = json_string_value(json_object_get(line, "kind"));
    *format = (qn_answer_format){QN_FORMAT_JSON_SCHEMA, json_object_get(line, "schema"), "schema", false};
    for (size_t i = 0; kind && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kind, kinds[i].name) == 0)
            *format = (qn_answer_format){kinds[i].kind, json_object_get(line, "grammar"), "grammar", false};
    bool is_choice = format->kind == QN_FORMAT_CHOICE;
    bool fits = format->kind == QN_FORMAT_JSON_SCHEMA
                    ? format->value != NULL
                    : (is_choice ? json_array_size(format->value) > 0 : json_is_string(format->value));
    const json_t *choice;
    size_t i;
    if (is_choice)
        json_array_foreach(format->value, i, choice) fits = fits && json_is_string(choice);
    return fits ? QN_OK
                : qn_fail(err, QN_BAD_INPUT,
                          "%s: no grammar: give an object with \"schema\", or with \"kind\" and \"grammar\"", what);
}

/* Moves one grammar's samples behind those of all. */
static bool summarise(samples *own, samples *all, qn_statistic *out)
{
    bool kept = qn_reserve(&all->us, &all->capacity, all->count + own->count, sizeof *all->us);
    if (kept && own->count > 0)
        memcpy(all->us + all->count, own->us, own->count * sizeof *own->us);
    all->count += kept ? own->count : 0;
    *out = qn_statistic_of(own->us, own->count);
    qn_free(own->us);
    return kept;
}

static qn_status measure(qn_grammar_bench *b, subject *s, const json_t *line, qn_error *err)
{
    samples first = {0}, again = {0};
    s->masks = &first;
    qn_status status = walk_all(b, s, line, err);
    size_t longer = s->times->longer;
    s->masks = &again;
    if (!status)
        status = walk_all(b, s, line, err);
    s->times->longer = longer;
    bool kept = summarise(&first, &b->first, &s->times->first);
    kept = summarise(&again, &b->again, &s->times->again) && kept;
    return status || kept ? status : out_of_memory(err);
}

static const char *name_of(const json_t *line, const char *what)
{
    static const char *const keys[] = {"name", "description"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_is_string(json_object_get(line, keys[i])))
            return json_string_value(json_object_get(line, keys[i]));
    return what;
}

qn_status qn_grammar_bench_line(qn_grammar_bench *b, const json_t *line, const char *what, qn_error *err)
{
    qn_answer_format format;
    qn_status status = read_format(line, what, &format, err);
    if (status)
        return status;
    if (!qn_reserve(&b->all, &b->capacity, b->count + 1, sizeof *b->all))
        return out_of_memory(err);
    subject s = {.times = &b->all[b->count]};
    uint64_t start = qn_thread_ns();
    status = qn_answer_grammar_new(b->options.tokenizer, b->trie, &format, QN_CALLS_NONE, NULL, &s.grammar, err);
    double us = us_since(start);
    if (status && status != QN_USAGE)
        return status;
    if (!add_sample(&b->compile, us)) {
        status = out_of_memory(err);
    } else if (status) {
        b->refused++;
        status = QN_OK;
    } else {
        *s.times = (qn_grammar_times){.compile = us};
        snprintf(s.times->name, sizeof s.times->name, "%s", name_of(line, what));
        status = measure(b, &s, line, err);
        b->count++;
    }
    qn_answer_grammar_release(s.grammar);
    return status;
}

qn_grammar_speed qn_grammar_bench_speed(qn_grammar_bench *b)
{
    return (qn_grammar_speed){.tokens = b->options.vocab,
                              .trie = b->trie_us,
                              .all = b->all,
                              .count = b->count,
                              .refused = b->refused,
                              .compile = qn_statistic_of(b->compile.us, b->compile.count),
                              .first = qn_statistic_of(b->first.us, b->first.count),
                              .again = qn_statistic_of(b->again.us, b->again.count)};
}
