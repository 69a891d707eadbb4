/* Word number i of a part is drawn by the counter (i / 4, cell, index) under the seed as key: no state, so that a
 * prompt of 100,000 words needs none of those before it. */
#include "bench/serve_prompt.h"

#include <inttypes.h>
#include <string.h>

#include "base/random.h"

/* 128 words, so that a draw takes 7 bits evenly. */
static const char *const words[] = {
    "river",  "stone",    "garden", "window",  "yellow",  "quiet",    "bridge", "market", "winter", "copper", "letter",
    "silver", "engine",   "forest", "candle",  "morning", "paper",    "harbor", "island", "music",  "blue",   "carry",
    "follow", "answer",   "before", "behind",  "between", "bring",    "build",  "butter", "castle", "chair",  "circle",
    "clear",  "cloud",    "corner", "cotton",  "count",   "cover",    "dance",  "deep",   "desert", "dinner", "door",
    "dream",  "early",    "earth",  "evening", "field",   "finger",   "fire",   "flower", "friend", "glass",  "gold",
    "grass",  "green",    "ground", "hammer",  "hand",    "heavy",    "hill",   "honey",  "horse",  "house",  "iron",
    "kettle", "kitchen",  "ladder", "lamp",    "large",   "leaf",     "lemon",  "light",  "listen", "little", "machine",
    "meadow", "metal",    "milk",   "mirror",  "moon",    "mountain", "narrow", "needle", "north",  "ocean",  "office",
    "orange", "oven",     "pencil", "people",  "picture", "pillow",   "planet", "pocket", "pond",   "quick",  "rain",
    "red",    "ribbon",   "road",   "roof",    "round",   "salt",     "sand",   "school", "second", "seven",  "shadow",
    "ship",   "shoulder", "simple", "sister",  "slow",    "small",    "snow",   "soft",   "song",   "south",  "spring",
    "square", "station",  "street", "summer",  "table",   "thread",   "tower",
};
_Static_assert(sizeof words / sizeof *words == QN_SERVE_WORDS && QN_SERVE_WORDS == 128, "a draw takes 7 bits");

static void add_word(size_t number, qn_buffer *out)
{
    if (out->size > 0)
        qn_buffer_char(out, ' ');
    qn_buffer_text(out, words[number % QN_SERVE_WORDS]);
}

static void add_words(uint64_t seed, uint32_t cell, uint32_t index, size_t count, qn_buffer *out)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t draw[4] = {0};
    for (size_t i = 0; i < count && !out->failed; i++) {
        if (i % 4 == 0) {
            const uint32_t counter[4] = {(uint32_t)(i / 4), cell, index, 0};
            qn_philox4x32_10(counter, key, draw);
        }
        add_word(draw[i % 4], out);
    }
}

void qn_serve_prompt_text(const qn_serve_prompt *p, qn_buffer *out)
{
    add_words(p->seed, p->cell, UINT32_MAX, p->shared_words, out);
    add_words(p->seed, p->cell, p->index, p->own_words, out);
}

void qn_serve_all_words(size_t times, qn_buffer *out)
{
    for (size_t i = 0; i < times * QN_SERVE_WORDS && !out->failed; i++)
        add_word(i, out);
}

void qn_serve_body_text(const qn_serve_body *body, const qn_buffer *text, qn_buffer *out)
{
    out->failed = out->failed || text->failed;
    qn_buffer_text(out, "{\"model\":");
    qn_buffer_json_string(out, body->model, strlen(body->model));
    qn_buffer_text(out, ",\"messages\":[{\"role\":\"user\",\"content\":\"");
    qn_buffer_append(out, qn_buffer_string(text), text->size);
    qn_buffer_format(out,
                     "\"}],\"stream\":true,\"stream_options\":{\"include_usage\":true},\"max_tokens\":%zu,"
                     "\"ignore_eos\":true,\"temperature\":%.6g,\"seed\":%" PRId64 "}",
                     body->max_tokens, body->temperature, body->seed);
}
