/* A row is packed in two looks at it, the second one in the L1 cache: the counts of its exponents tell the window and
 * how many exceptions there will be, whose places in the list are then taken with one atomic addition; a group at a
 * time is encoded by loops that compilers turn into vector instructions. */
#include "base/packed_bf16.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "base/size.h"

enum {
    WINDOW = 15, /* exponents */
    ZERO_CODE = 15,
    EXPONENTS = 256,
    QUARTER = QN_PACKED_GROUP / 4, /* elements that share the words of a line: 0..3 of a group */
    GROUP_WORDS = QN_PACKED_GROUP_BYTES / 2,
    REST = 0x807F, /* sign and mantissa of a BF16 */
    COUNTERS = 4   /* that take turns, so that equal neighbours do not wait for each other */
};

_Static_assert(sizeof(qn_packed_side) == 8 && sizeof(qn_packed_exception) == 4, "as the header says");

static unsigned exponent_of(uint16_t bits)
{
    return bits >> 7 & 0xFF;
}

size_t qn_packed_row_bytes(size_t cols)
{
    return qn_ceil_div(cols, QN_PACKED_GROUP) * QN_PACKED_GROUP_BYTES;
}

static uint16_t swap_bytes(uint16_t word)
{
    return (uint16_t)(word << 8 | word >> 8);
}

static void decode_group(uint16_t out[QN_PACKED_GROUP], const uint8_t *data, unsigned window)
{
    uint16_t words[GROUP_WORDS];
    memcpy(words, data, sizeof words);
    for (size_t i = 0; i < QN_PACKED_GROUP; i++) {
        size_t quarter = i / QUARTER, l = i % QUARTER;
        unsigned code = words[l] >> 4 * quarter & 15;
        uint16_t rest = words[QUARTER * (1 + quarter / 2) + l];
        rest = (quarter % 2 == 0 ? rest : swap_bytes(rest)) & REST;
        out[i] = (uint16_t)(rest | (code == ZERO_CODE ? 0 : window + code) << 7);
    }
}

/* The first exception of a sorted list at or behind a column. */
static size_t first_from(const qn_packed_exception *list, size_t count, size_t col)
{
    size_t low = 0;
    while (low < count) {
        size_t middle = low + (count - low) / 2;
        if (list[middle].col < col)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

void qn_packed_put_exceptions(const qn_packed_side *side, size_t at, size_t count, uint16_t *out)
{
    if (side->count == 0)
        return;
    const qn_packed_exception *list = qn_packed_exceptions(side);
    for (size_t e = first_from(list, side->count, at); e < side->count && list[e].col < at + count; e++)
        out[list[e].col - at] = list[e].bits;
}

void qn_packed_row_to_bf16(const qn_matrix *packed, size_t row, size_t at, size_t count, uint16_t *out)
{
    assert(row < packed->rows && at % QN_PACKED_GROUP == 0 && at + count <= packed->cols);
    const qn_packed_side *side = &packed->sides[row];
    const uint8_t *data = packed->data + row * qn_packed_row_bytes(packed->cols) +
                          at / QN_PACKED_GROUP * QN_PACKED_GROUP_BYTES;
    for (size_t i = 0; i < count; i += QN_PACKED_GROUP, data += QN_PACKED_GROUP_BYTES) {
        uint16_t group[QN_PACKED_GROUP];
        decode_group(group, data, side->window);
        memcpy(out + i, group, qn_min_size(QN_PACKED_GROUP, count - i) * sizeof *out);
    }
    qn_packed_put_exceptions(side, at, count, out);
}

static size_t most_exceptions(size_t rows, size_t cols)
{
    return rows * cols / QN_PACKED_RARE;
}

size_t qn_packed_bf16_most_bytes(size_t rows, size_t cols)
{
    size_t elements, row, fixed, all;
    if (rows == 0 || cols == 0 || cols > QN_PACKED_MAX_COLS || !qn_size_mul(rows, cols, &elements))
        return 0;
    row = qn_packed_row_bytes(cols) + sizeof(qn_packed_side);
    if (row * 100 > cols * 2 * 85)
        return 0;
    size_t exceptions = most_exceptions(rows, cols);
    /* a distance has 32 bits: at most from the first side to behind the last exception */
    if (!qn_size_mul(rows, row, &fixed) || rows * 2 + exceptions > UINT32_MAX ||
        !qn_size_add(fixed, exceptions * sizeof(qn_packed_exception), &all))
        return 0;
    return all;
}

void qn_bf16_packing_start(qn_bf16_packing *p, size_t rows, size_t cols, void *block)
{
    assert(qn_packed_bf16_most_bytes(rows, cols) > 0);
    uint8_t *data = block;
    p->rows = rows;
    p->cols = cols;
    p->data = data;
    p->sides = (qn_packed_side *)(void *)(data + rows * qn_packed_row_bytes(cols));
    p->exceptions = (qn_packed_exception *)(p->sides + rows);
    p->most_exceptions = most_exceptions(rows, cols);
    atomic_init(&p->exception_count, 0);
}

static uint16_t element(const uint8_t *row, size_t i)
{
    uint16_t bits;
    memcpy(&bits, row + 2 * i, sizeof bits);
    return bits;
}

static void count_exponents(uint32_t counts[EXPONENTS], const uint8_t *row, size_t cols)
{
    uint32_t counters[COUNTERS][EXPONENTS];
    memset(counters, 0, sizeof counters);
    size_t i = 0;
    for (; i + COUNTERS <= cols; i += COUNTERS)
        for (size_t k = 0; k < COUNTERS; k++)
            counters[k][exponent_of(element(row, i + k))]++;
    for (; i < cols; i++)
        counters[0][exponent_of(element(row, i))]++;
    for (size_t e = 0; e < EXPONENTS; e++)
        counts[e] = counters[0][e] + counters[1][e] + counters[2][e] + counters[3][e];
}

/* The window that holds the most elements, the lowest of equals; *held: how many. */
static unsigned find_window(const uint32_t counts[EXPONENTS], size_t *held)
{
    size_t sum = 0, most;
    unsigned window = 1;
    for (unsigned e = 1; e < 1 + WINDOW; e++)
        sum += counts[e];
    most = sum;
    for (unsigned first = 2; first + WINDOW <= EXPONENTS; first++) {
        sum += counts[first + WINDOW - 1];
        sum -= counts[first - 1];
        if (sum > most) {
            most = sum;
            window = first;
        }
    }
    *held = most;
    return window;
}

/* Returns whether there are exceptions among the elements. */
static bool encode_group(uint8_t *out, const uint16_t in[QN_PACKED_GROUP], unsigned window)
{
    uint16_t codes[QN_PACKED_GROUP], rest[QN_PACKED_GROUP], words[GROUP_WORDS], missed = 0;
    for (size_t i = 0; i < QN_PACKED_GROUP; i++) {
        uint16_t exponent = in[i] >> 7 & 0xFF, code = (uint16_t)(exponent - window);
        codes[i] = code < ZERO_CODE ? code : ZERO_CODE;
        missed |= (uint16_t)(code < ZERO_CODE ? 0 : exponent);
        rest[i] = in[i] & REST;
    }
    const size_t q = QUARTER;
    for (size_t l = 0; l < q; l++) {
        words[l] = (uint16_t)(codes[l] | codes[q + l] << 4 | codes[2 * q + l] << 8 | codes[3 * q + l] << 12);
        words[q + l] = rest[l] | swap_bytes(rest[q + l]);
        words[2 * q + l] = rest[2 * q + l] | swap_bytes(rest[3 * q + l]);
    }
    memcpy(out, words, sizeof words);
    return missed != 0;
}

/* Adds the group's exceptions to the list. */
static qn_packed_exception *list_exceptions(qn_packed_exception *list, const uint16_t in[QN_PACKED_GROUP], size_t at,
                                            unsigned window)
{
    for (size_t i = 0; i < QN_PACKED_GROUP; i++) {
        unsigned exponent = exponent_of(in[i]);
        if (exponent != 0 && (exponent < window || exponent >= window + WINDOW))
            *list++ = (qn_packed_exception){.col = (uint16_t)(at + i), .bits = in[i]};
    }
    return list;
}

static bool pack_row(qn_bf16_packing *p, size_t row, const uint8_t *from)
{
    const size_t cols = p->cols;
    uint8_t *to = p->data + row * qn_packed_row_bytes(cols);
    uint32_t counts[EXPONENTS];
    size_t held;
    count_exponents(counts, from, cols);
    unsigned window = find_window(counts, &held);
    size_t count = cols - counts[0] - held, at = atomic_fetch_add(&p->exception_count, count);
    if (at > p->most_exceptions || count > p->most_exceptions - at)
        return false;
    qn_packed_exception *list = p->exceptions + at;
    /* both are in units of 4 bytes */
    size_t distance = (size_t)(list - (const qn_packed_exception *)(const void *)&p->sides[row]);
    p->sides[row] = (qn_packed_side){.distance = (uint32_t)distance,
                                     .count = (uint16_t)count,
                                     .window = (uint8_t)window};
    for (size_t i = 0; i < cols; i += QN_PACKED_GROUP, to += QN_PACKED_GROUP_BYTES) {
        uint16_t group[QN_PACKED_GROUP] = {0};
        memcpy(group, from + 2 * i, qn_min_size(QN_PACKED_GROUP, cols - i) * sizeof *group);
        if (encode_group(to, group, window))
            list = list_exceptions(list, group, i, window);
    }
    assert(list == p->exceptions + at + count);
    return true;
}

bool qn_bf16_packing_pays(const qn_bf16_packing *p)
{
    return atomic_load(&p->exception_count) <= p->most_exceptions;
}

bool qn_bf16_packing_rows(qn_bf16_packing *p, size_t first, size_t last, const uint8_t *data)
{
    if (!qn_bf16_packing_pays(p))
        return false;
    for (size_t row = first; row < last; row++, data += p->cols * 2)
        if (!pack_row(p, row, data))
            return false;
    return true;
}

bool qn_bf16_packing_finish(const qn_bf16_packing *p, qn_matrix *out, size_t *bytes)
{
    size_t exceptions = atomic_load(&p->exception_count);
    if (exceptions > p->most_exceptions)
        return false;
    *out = (qn_matrix){
        .dtype = QN_DTYPE_PACKED_BF16, .rows = p->rows, .cols = p->cols, .data = p->data, .sides = p->sides};
    *bytes = (size_t)((const uint8_t *)(p->exceptions + exceptions) - p->data);
    return true;
}
