/* Every automaton here reads the same classes of characters, and its state tells all about the digits so far. What can
 * no longer be right leads to a state of its own that nothing leaves. */
#include "grammar/json_number_automaton.h"

#include <string.h>

enum { OTHER, MINUS, POINT, ZERO, CLASSES = ZERO + 10, INTERVALS = 15 };

/* An automaton with room for its states; all moves lead to the last state, `dead`, until they are set. */
typedef struct table {
    qn_automaton *a;
    uint32_t *next;
    bool *accepting;
    uint32_t dead;
} table;

static bool new_table(qn_automaton_room *room, size_t states, table *t, qn_error *err)
{
    static const uint32_t firsts[INTERVALS] = {0,   '-', '.', '/', '0', '1', '2',    '3',
                                               '4', '5', '6', '7', '8', '9', '9' + 1};
    static const uint32_t class_of[INTERVALS] = {OTHER,    MINUS,    POINT,    OTHER,    ZERO,
                                                 ZERO + 1, ZERO + 2, ZERO + 3, ZERO + 4, ZERO + 5,
                                                 ZERO + 6, ZERO + 7, ZERO + 8, ZERO + 9, OTHER};
    if (states >= QN_AUTOMATON_MOST_STATES) {
        qn_fail(err, QN_USAGE, "too large to combine with others: use smaller numbers, or ones with fewer digits");
        return false;
    }
    states++;
    t->a = qn_arena_alloc(room->arena, 1, sizeof *t->a);
    t->next = qn_arena_alloc(room->arena, states * CLASSES, sizeof *t->next);
    t->accepting = qn_arena_alloc(room->arena, states, sizeof *t->accepting);
    if (!t->a || !t->next || !t->accepting) {
        qn_fail_memory(err, "number", states * CLASSES * sizeof *t->next);
        return false;
    }
    room->work += states * CLASSES;
    t->dead = (uint32_t)states - 1;
    for (size_t i = 0; i < states * CLASSES; i++)
        t->next[i] = t->dead;
    *t->a = (qn_automaton){states, CLASSES, INTERVALS, firsts, class_of, t->next, t->accepting};
    return true;
}

static void go(table *t, size_t from, uint32_t class, size_t to)
{
    t->next[from * CLASSES + class] = (uint32_t)to;
}

static void go_digits(table *t, size_t from, uint32_t first, size_t to)
{
    for (uint32_t d = first; d <= 9; d++)
        go(t, from, ZERO + d, to);
}

/* Form */

const qn_automaton *qn_number_form_automaton(qn_automaton_room *room, const qn_number_form *form, qn_error *err)
{
    enum { START, SIGN, NOTHING, FIRST }; /* then a state for each number of digits, the */
    size_t whole = FIRST, point = whole + form->digits,
           places = point + 1;             /* point, and two for each of places: only */
    size_t broken = places + form->places; /* zeros so far, or not */
    table t;
    if (!new_table(room, broken + form->places, &t, err))
        return NULL;
    go(&t, START, MINUS, SIGN);
    for (size_t from = START; from <= SIGN; from++) {
        go(&t, from, ZERO, NOTHING);
        go_digits(&t, from, 1, whole);
    }
    for (size_t i = 0; i + 1 < form->digits; i++)
        go_digits(&t, whole + i, 0, whole + i + 1);
    for (size_t from = NOTHING; from < point; from++) {
        t.accepting[from] = form->integers;
        if (form->fractions)
            go(&t, from, POINT, point);
    }
    bool apart = form->integers != form->fractions;
    for (uint32_t d = 0; d <= 9 && form->endless; d++)
        go(&t, point - 1, ZERO + d, point - 1);
    if (form->places > 0) {
        go(&t, point, ZERO, apart ? places : broken);
        go_digits(&t, point, 1, broken);
    }
    for (size_t i = 0; i < form->places; i++) {
        t.accepting[places + i] = form->integers;
        t.accepting[broken + i] = true;
        if (i + 1 == form->places)
            break;
        go(&t, places + i, ZERO, places + i + 1);
        go_digits(&t, places + i, 1, broken + i + 1);
        go_digits(&t, broken + i, 0, broken + i + 1);
    }
    return t.a;
}

/* Order. The magnitudes are compared while the digits come; what the order of the magnitudes says of the numbers
 * depends on their signs. */

typedef struct comparison {
    const qn_decimal *value;
    size_t whole, places; /* digits of the value before and behind the point */
    unsigned orders;
    table t;
    size_t side; /* states for one sign */
} comparison;

static uint32_t value_digit(const comparison *k, size_t i)
{
    const qn_decimal *v = k->value;
    size_t lead = v->point > 0 ? 0 : (size_t)(1 - v->point);
    return i >= lead && i - lead < v->count ? (uint32_t)(v->digits[i - lead] - '0') : 0;
}

static unsigned compare_digits(uint32_t a, uint32_t b)
{
    return a < b ? QN_NUMBER_LESS : a > b ? QN_NUMBER_GREATER : QN_NUMBER_EQUAL;
}

static bool accepts(const comparison *k, bool negative, unsigned magnitude)
{
    unsigned order = magnitude;
    bool zero = k->value->count == 0;
    if (!zero && negative != k->value->negative)
        order = negative ? QN_NUMBER_LESS : QN_NUMBER_GREATER;
    else if (negative && magnitude != QN_NUMBER_EQUAL)
        order = magnitude == QN_NUMBER_LESS ? QN_NUMBER_GREATER : QN_NUMBER_LESS;
    return (k->orders & order) != 0;
}

/* States of a side: for i digits before the point and their order; the order decided, less or greater; and j places
 * that are equal. */
static size_t whole_state(size_t i, unsigned order)
{
    return 3 * i + (order == QN_NUMBER_EQUAL ? 0 : order == QN_NUMBER_LESS ? 1 : 2);
}

static size_t decided_state(const comparison *k, unsigned order)
{
    return 3 * (k->whole + 1) + (order == QN_NUMBER_GREATER);
}

static size_t place_state(const comparison *k, size_t j)
{
    return 3 * (k->whole + 1) + 2 + j;
}

static void compare_whole(comparison *k, size_t base, bool negative, size_t i, unsigned order)
{
    size_t from = base + whole_state(i, order);
    for (uint32_t d = 0; d <= 9; d++) {
        unsigned now = order == QN_NUMBER_EQUAL && i < k->whole ? compare_digits(d, value_digit(k, i)) : order;
        go(&k->t, from, ZERO + d,
           base + (i < k->whole ? whole_state(i + 1, now) : decided_state(k, QN_NUMBER_GREATER)));
    }
    unsigned shorter = i < k->whole ? QN_NUMBER_LESS : order;
    go(&k->t, from, POINT, base + (shorter == QN_NUMBER_EQUAL ? place_state(k, 0) : decided_state(k, shorter)));
    k->t.accepting[from] = accepts(k, negative, shorter == QN_NUMBER_EQUAL && k->places > 0 ? QN_NUMBER_LESS : shorter);
}

static void compare_places(comparison *k, size_t base, bool negative)
{
    for (size_t j = 0; j <= k->places; j++) {
        size_t from = base + place_state(k, j);
        for (uint32_t d = 0; d <= 9; d++) {
            unsigned order = compare_digits(d, j < k->places ? value_digit(k, k->whole + j) : 0);
            size_t equal = place_state(k, j < k->places ? j + 1 : j);
            go(&k->t, from, ZERO + d, base + (order == QN_NUMBER_EQUAL ? equal : decided_state(k, order)));
        }
        k->t.accepting[from] = accepts(k, negative, j < k->places ? QN_NUMBER_LESS : QN_NUMBER_EQUAL);
    }
}

const qn_automaton *qn_number_order_automaton(qn_automaton_room *room, const qn_decimal *value, unsigned orders,
                                              qn_error *err)
{
    static const unsigned each[] = {QN_NUMBER_EQUAL, QN_NUMBER_LESS, QN_NUMBER_GREATER};
    comparison k = {.value = value, .orders = orders, .whole = value->point > 0 ? (size_t)value->point : 1};
    long places = (long)value->count - value->point;
    k.places = places > 0 ? (size_t)places : 0;
    k.side = place_state(&k, k.places) + 1;
    if (!new_table(room, 2 * k.side, &k.t, err))
        return NULL;
    for (int negative = 0; negative < 2; negative++) {
        size_t base = negative ? k.side : 0;
        for (size_t i = 0; i <= k.whole; i++)
            for (size_t o = 0; o < 3; o++)
                compare_whole(&k, base, negative, i, each[o]);
        for (size_t o = 1; o < 3; o++) {
            size_t from = base + decided_state(&k, each[o]);
            go_digits(&k.t, from, 0, from);
            go(&k.t, from, POINT, from);
            k.t.accepting[from] = accepts(&k, negative, each[o]);
            if (!k.t.accepting[from]) {
                go_digits(&k.t, from, 0, k.t.dead);
                go(&k.t, from, POINT, k.t.dead);
            }
        }
        compare_places(&k, base, negative);
    }
    go(&k.t, 0, MINUS, k.side);
    return k.t.a;
}

/* Multiples */

bool qn_decimal_significand(const qn_decimal *d, uint64_t *significand, int *exponent)
{
    if (d->count > 18)
        return false;
    *significand = 0;
    for (unsigned i = 0; i < d->count; i++)
        *significand = 10 * *significand + (uint64_t)(d->digits[i] - '0');
    *exponent = d->point - (int)d->count;
    return true;
}

static uint64_t shift(uint64_t value, size_t places, uint64_t modulus)
{
    for (size_t i = 0; i < places && value > 0; i++)
        value = (uint64_t)((unsigned __int128)value * 10 % modulus);
    return value;
}

bool qn_decimal_is_multiple(const qn_decimal *value, const qn_decimal *of)
{
    uint64_t m, r = 0;
    int exponent;
    if (value->count == 0 || !qn_decimal_significand(of, &m, &exponent))
        return value->count == 0;
    long zeros = (long)value->point - (long)value->count - exponent;
    if (zeros < 0) /* its last digit, no zero, stands behind every digit of a multiple */
        return false;
    for (unsigned i = 0; i < value->count; i++)
        r = (uint64_t)(((unsigned __int128)r * 10 + (unsigned)(value->digits[i] - '0')) % m);
    return shift(r, (size_t)zeros, m) == 0;
}

/* Digits before the point: how many zeros they end with, up to those of `of`, and the remainder of what is before
 * these zeros. Places behind the point: their number, up to those of `of`, and the remainder of all digits. */
const qn_automaton *qn_number_multiple_automaton(qn_automaton_room *room, const qn_decimal *of, qn_error *err)
{
    uint64_t m = 0;
    int exponent;
    table t;
    bool few = qn_decimal_significand(of, &m, &exponent) && m <= QN_NUMBER_MOST_REMAINDERS;
    size_t zeros = few && exponent > 0 ? (size_t)exponent : 0, places = few && exponent < 0 ? (size_t)-exponent : 0;
    size_t behind = few ? (zeros + 1) * (size_t)m : QN_AUTOMATON_MOST_STATES; /* the first state behind the point */
    size_t left = places > 0 ? (size_t)m : 1;                                 /* remainders there */
    if (!new_table(room, few ? behind + (places + 1) * left : QN_AUTOMATON_MOST_STATES, &t, err))
        return NULL;
    for (size_t z = 0; z <= zeros; z++) {
        for (uint64_t r = 0; r < m; r++) {
            size_t from = (zeros - z) * m + r;
            bool multiple = z == zeros && shift(r, places, m) == 0;
            uint64_t shifted = shift(r, z + 1, m);
            t.accepting[from] = multiple;
            go(&t, from, ZERO, z < zeros ? (zeros - z - 1) * m + r : shift(r, 1, m));
            for (uint32_t d = 1; d <= 9; d++)
                go(&t, from, ZERO + d, zeros * m + (shifted + d) % m);
            if (places > 0 || multiple)
                go(&t, from, POINT, behind + r);
        }
    }
    for (size_t j = 0; j <= places; j++) {
        for (uint64_t r = 0; r < left; r++) {
            size_t from = behind + j * m + r;
            t.accepting[from] = shift(r, places - j, m) == 0;
            go(&t, from, ZERO, j < places ? behind + (j + 1) * m + shift(r, 1, m) : from);
            for (uint32_t d = 1; d <= 9 && j < places; d++)
                go(&t, from, ZERO + d, behind + (j + 1) * m + (shift(r, 1, m) + d) % m);
        }
    }
    go(&t, 0, MINUS, 0); /* the start, whose digits so far are zero */
    return t.a;
}
