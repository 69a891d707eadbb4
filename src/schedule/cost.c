/* The fit is small: a few dozen slots, twenty terms. The normal equations are set up afresh after every step, which
 * costs microseconds and leaves nothing to drift, and solved by coordinate descent from the last solution: each
 * coordinate's best value, cut off at zero, lowers the error, whatever the conditioning.
 *
 * Errors are relative (a weight of 1 / us^2), so that a decode step of 50 ms counts as much as a chunk of 5 s. Weak
 * penalties decide what the slots leave open: neighbouring slopes are equal, the first row beyond the first costs a
 * quarter of a single row's step, decode rows have no surcharge. Octaves beyond the most rows seen go on with the last
 * slope. */
#include "schedule/cost.h"

#include <math.h>
#include <string.h>

#include "base/size.h"

enum {
    SLOPE = 1, /* first of the slopes among the terms */
    DECODE = SLOPE + QN_COST_OCTAVES,
    SCAN,
    MEMORY = 48,     /* steps that a slot's means reach back */
    HALF_LIFE = 256, /* steps after which a slot that isn't seen counts half */
    SWEEPS = 30,
    STREAK = 3,
    FRESH = 4, /* steps that a slot counts for when the machine's speed has changed */
};

static const double OUTLIER = 3;          /* times what is expected: not believed at first */
static const double CHANGE = 1.3;         /* of the machine's speed that all slots follow */
static const double LEAST_AGE = 1.0 / 64; /* what an old slot keeps of its weight */
static const double SMOOTH = 0.3, FIRST_SLOPE = 0.003, NO_SURCHARGE = 0.003, NO_SCAN = 1e-5; /* penalties */
static const double FIRST_SLOPE_PART = 0.25;

static size_t octave(double value)
{
    int exponent = value >= 1 ? ilogb(value) : 0;
    return qn_min_size((size_t)exponent, QN_COST_OCTAVES - 1);
}

static size_t kind_of(double decode_rows, double prefill_rows)
{
    return prefill_rows <= 0 ? 0 : decode_rows > 0 ? 1 : 2;
}

static size_t depth_of(double mean_position)
{
    size_t depth = 0;
    while (depth + 1 < QN_COST_DEPTHS && mean_position >= ldexp(1024, 2 * (int)depth))
        depth++;
    return depth;
}

static size_t part_of(double rows)
{
    return (size_t)(fmin(ldexp(rows, -(int)octave(rows)) - 1, 0.999) * QN_COST_PARTS);
}

static qn_cost_slot *slot_of(qn_cost *cost, const qn_step_shape *shape)
{
    double rows = (double)shape->decode_rows + (double)shape->prefill_rows;
    return &cost->slots[kind_of((double)shape->decode_rows, (double)shape->prefill_rows)][octave(rows)][part_of(rows)]
                       [depth_of(shape->scanned_keys / rows)];
}

static void features_of(double rows, double decode_rows, double scanned_keys, double features[QN_COST_TERMS])
{
    features[0] = 1;
    for (size_t k = 0; k < QN_COST_OCTAVES; k++) {
        double start = (double)(1u << k), beyond = rows > start ? rows - start : 0;
        features[SLOPE + k] = beyond > start && k + 1 < QN_COST_OCTAVES ? start : beyond;
    }
    features[DECODE] = decode_rows;
    features[SCAN] = scanned_keys;
}

static double predict(const qn_cost *cost, double rows, double decode_rows, double scanned_keys)
{
    double features[QN_COST_TERMS], us = 0;
    features_of(rows, decode_rows, scanned_keys, features);
    for (size_t i = 0; i < QN_COST_TERMS; i++)
        us += cost->terms[i] * features[i];
    return us;
}

void qn_cost_start(qn_cost *cost)
{
    memset(cost, 0, sizeof *cost);
    for (size_t i = 0; i < QN_COST_RATIOS; i++)
        cost->ratios[i] = 1;
}

double qn_cost_predict_us(const qn_cost *cost, const qn_step_shape *shape)
{
    double decode_rows = (double)shape->decode_rows;
    return predict(cost, decode_rows + (double)shape->prefill_rows, decode_rows, fmax(shape->scanned_keys, 0));
}

bool qn_cost_known(const qn_cost *cost, const qn_step_shape *shape)
{
    return cost->steps > 0 && (shape->decode_rows + shape->prefill_rows) / 2 <= cost->most_rows &&
           shape->scanned_keys / 2 <= cost->most_scanned_keys;
}

static double age_of(const qn_cost *cost, const qn_cost_slot *slot)
{
    return exp2(-(double)(cost->steps - slot->last_step) / HALF_LIFE);
}

double qn_cost_evidence(const qn_cost *cost, const qn_step_shape *shape)
{
    double rows = (double)shape->decode_rows + (double)shape->prefill_rows, steps = 0;
    if (rows <= 0)
        return 0;
    const qn_cost_slot *slots =
        cost->slots[kind_of((double)shape->decode_rows, (double)shape->prefill_rows)][octave(rows)][part_of(rows)];
    for (size_t depth = 0; depth < QN_COST_DEPTHS; depth++)
        steps += fmin((double)slots[depth].count, MEMORY) * age_of(cost, &slots[depth]);
    return steps;
}

typedef struct normal {
    double matrix[QN_COST_TERMS][QN_COST_TERMS], vector[QN_COST_TERMS];
} normal;

/* One more equation: features * terms = value, counted weight times. */
static void add_equation(normal *n, const double features[QN_COST_TERMS], double value, double weight)
{
    for (size_t i = 0; i < QN_COST_TERMS; i++) {
        if (features[i] == 0)
            continue;
        for (size_t j = 0; j < QN_COST_TERMS; j++)
            n->matrix[i][j] += weight * features[i] * features[j];
        n->vector[i] += weight * features[i] * value;
    }
}

/* Says that factor * terms[a] - terms[b] is about 0, where a unit of terms[b] adds `unit` to a step of us. */
static void add_penalty(normal *n, size_t a, double factor, size_t b, double unit, double us, double weight)
{
    double features[QN_COST_TERMS] = {0};
    features[a] = factor * unit / us;
    features[b] -= unit / us;
    add_equation(n, features, 0, weight);
}

/* The slots' equations; least and most become the least and the most time of a slot. */
static void add_slots(const qn_cost *cost, normal *n, double *least, double *most)
{
    const qn_cost_slot *slots = &cost->slots[0][0][0][0];
    *least = INFINITY;
    *most = 0;
    for (size_t i = 0; i < sizeof cost->slots / sizeof *slots; i++) {
        const qn_cost_slot *slot = &slots[i];
        if (slot->count == 0)
            continue;
        double features[QN_COST_TERMS];
        double weight = fmin((double)slot->count, MEMORY) * fmax(age_of(cost, slot), LEAST_AGE);
        features_of(slot->rows, slot->decode_rows, slot->scanned_keys, features);
        add_equation(n, features, slot->us, weight / (slot->us * slot->us));
        *least = fmin(*least, slot->us);
        *most = fmax(*most, slot->us);
    }
}

static void add_penalties(const qn_cost *cost, normal *n, double least, double most)
{
    add_penalty(n, 0, FIRST_SLOPE_PART, SLOPE, 1, fmax(predict(cost, 2, 0, 0), least), FIRST_SLOPE);
    for (size_t k = 0; k < octave((double)cost->most_rows); k++) {
        double start = ldexp(1, (int)k);
        add_penalty(n, SLOPE + k + 1, 1, SLOPE + k, start, fmax(predict(cost, 2 * start, 0, 0), least), SMOOTH);
    }
    add_penalty(n, DECODE, 0, DECODE, 8, fmax(predict(cost, 8, 0, 0), least), NO_SURCHARGE);
    add_penalty(n, SCAN, 0, SCAN, fmax(cost->most_scanned_keys, 1), most, NO_SCAN);
}

static void fit(qn_cost *cost)
{
    normal n = {0};
    double least, most;
    add_slots(cost, &n, &least, &most);
    add_penalties(cost, &n, least, most);
    size_t seen[QN_COST_TERMS], count = 0; /* without the slopes of octaves never seen */
    for (size_t i = 0; i < QN_COST_TERMS; i++)
        if (n.matrix[i][i] > 0)
            seen[count++] = i;
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        for (size_t i = 0; i < count; i++) {
            const double *row = n.matrix[seen[i]];
            double gradient = n.vector[seen[i]];
            for (size_t j = 0; j < count; j++)
                gradient -= row[seen[j]] * cost->terms[seen[j]];
            cost->terms[seen[i]] = fmax(cost->terms[seen[i]] + gradient / row[seen[i]], 0);
        }
    }
    size_t last = SLOPE + octave((double)cost->most_rows);
    for (size_t i = last + 1; i < SLOPE + QN_COST_OCTAVES; i++)
        cost->terms[i] = cost->terms[last];
}

/* What the shape should take by what was seen of its kind, or else by the fit; 0: no idea. */
static double expected_us(const qn_cost *cost, const qn_cost_slot *slot, const qn_step_shape *shape)
{
    double predicted = qn_cost_predict_us(cost, shape);
    if (slot->count == 0)
        return cost->steps > STREAK && qn_cost_known(cost, shape) ? predicted : 0;
    double at_mean = predict(cost, slot->rows, slot->decode_rows, slot->scanned_keys);
    return at_mean > 0 ? slot->us * predicted / at_mean : slot->us;
}

/* Whether what is expected of the shape stands on enough to see the machine's speed by it. */
static bool tells_speed(const qn_cost *cost, const qn_cost_slot *slot, const qn_step_shape *shape)
{
    bool within = shape->decode_rows + shape->prefill_rows <= cost->most_rows &&
                  shape->scanned_keys <= cost->most_scanned_keys;
    return slot->count >= STREAK || (slot->count == 0 && within && cost->steps >= MEMORY);
}

static double median_ratio(const qn_cost *cost)
{
    double sorted[QN_COST_RATIOS];
    for (size_t i = 0; i < QN_COST_RATIOS; i++) {
        size_t at = i;
        for (; at > 0 && sorted[at - 1] > cost->ratios[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = cost->ratios[i];
    }
    return sorted[QN_COST_RATIOS / 2];
}

/* Takes the step's time by what was expected into the machine's speed. Returns the factor by which all has changed. */
static double follow_speed(qn_cost *cost, double ratio)
{
    memmove(cost->ratios, cost->ratios + 1, sizeof cost->ratios - sizeof *cost->ratios);
    cost->ratios[QN_COST_RATIOS - 1] = ratio;
    double factor = median_ratio(cost);
    if (factor < CHANGE && factor * CHANGE > 1)
        return 1;
    qn_cost_slot *slots = &cost->slots[0][0][0][0];
    for (size_t i = 0; i < sizeof cost->slots / sizeof *slots; i++) {
        slots[i].us *= factor;
        slots[i].count = slots[i].count < FRESH ? slots[i].count : FRESH;
        slots[i].slow_streak = 0;
    }
    for (size_t i = 0; i < QN_COST_TERMS; i++)
        cost->terms[i] *= factor;
    for (size_t i = 0; i < QN_COST_RATIOS; i++)
        cost->ratios[i] = 1;
    return factor;
}

void qn_cost_learn(qn_cost *cost, const qn_step_shape *shape, uint64_t us)
{
    double rows = (double)shape->decode_rows + (double)shape->prefill_rows, time = (double)us;
    if (rows <= 0 || us == 0 || !(shape->scanned_keys >= 0))
        return;
    qn_cost_slot *slot = slot_of(cost, shape);
    double expected = expected_us(cost, slot, shape);
    if (tells_speed(cost, slot, shape))
        expected *= follow_speed(cost, time / expected);
    bool slow = expected > 0 && time > OUTLIER * expected, fast = time * OUTLIER < expected;
    slot->slow_streak = slow ? slot->slow_streak + 1 : 0;
    if (slow && slot->slow_streak < STREAK)
        return;
    /* A level that has changed: what this kind took before says nothing any more. */
    if (slow || fast)
        slot->count = 0;
    slot->slow_streak = 0;
    cost->steps++;
    slot->count++;
    slot->last_step = cost->steps;
    double part = 1 / fmin((double)slot->count, MEMORY);
    slot->rows += (rows - slot->rows) * part;
    slot->decode_rows += ((double)shape->decode_rows - slot->decode_rows) * part;
    slot->scanned_keys += (shape->scanned_keys - slot->scanned_keys) * part;
    slot->us += (time - slot->us) * part;
    cost->most_rows = qn_max_size(cost->most_rows, shape->decode_rows + shape->prefill_rows);
    cost->most_scanned_keys = fmax(cost->most_scanned_keys, shape->scanned_keys);
    fit(cost);
}
