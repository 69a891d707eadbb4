/* All bytes begin as one class; each set that the automaton reads a byte by cuts in two what lies partly in it. */
#include "grammar/byte_classes.h"

#include <string.h>

enum { BYTES = 256, MOST_SETS = 4096 };

/* Of one cut: the members of each class inside the set, and the class they become. */
static void cut(qn_byte_classes *c, uint16_t sizes[BYTES], const qn_byte_set *set)
{
    uint16_t inside[BYTES] = {0}, become[BYTES] = {0};
    for (size_t b = 0; b < BYTES; b++)
        inside[c->of[b]] += qn_bit_get(set->bits, b);
    for (size_t b = 0; b < BYTES; b++) {
        uint8_t from = c->of[b];
        if (!qn_bit_get(set->bits, b) || inside[from] == sizes[from])
            continue;
        if (become[from] == 0) {
            become[from] = c->count++;
            sizes[become[from]] = inside[from];
        }
        c->of[b] = (uint8_t)become[from];
    }
    for (size_t i = 0; i < BYTES; i++)
        if (become[i] > 0)
            sizes[i] = (uint16_t)(sizes[i] - inside[i]);
}

static void tell_all_apart(qn_byte_classes *c)
{
    c->count = BYTES;
    for (size_t b = 0; b < BYTES; b++)
        c->of[b] = (uint8_t)b;
}

void qn_byte_classes_find(const qn_grammar *grammar, qn_byte_classes *out)
{
    uint64_t done[(MOST_SETS + BYTES) / 64] = {0};
    uint16_t sizes[BYTES] = {BYTES};
    memset(out, 0, sizeof *out);
    out->count = 1;
    for (size_t i = 0; i < grammar->state_count && out->count < BYTES; i++) {
        const qn_state *s = &grammar->states[i];
        if (s->kind != QN_STATE_SET)
            continue;
        if (s->a >= MOST_SETS + BYTES) {
            tell_all_apart(out);
            return;
        }
        if (!qn_bit_get(done, s->a))
            cut(out, sizes, &grammar->sets[s->a]);
        qn_bit_set(done, s->a);
    }
}
