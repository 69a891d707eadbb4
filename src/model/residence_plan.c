/* Every matrix is one range of a file, or two with its scales. Sorted and joined, the ranges become the runs that are
 * read, and each range remembers its run. One that is to be packed is a run by itself. */
#include "model/residence_plan.h"

#include <assert.h>
#include <stdlib.h>

#include "base/direct_reader.h"
#include "base/memory.h"
#include "base/packed_bf16.h"
#include "base/size.h"

enum { SMALL_GAP_BYTES = 1 << 20 };

typedef struct range {
    size_t file;
    uint64_t offset, end;
    size_t owner;           /* where it stands in planner.ranges */
    const qn_matrix *packs; /* the matrix that it is, if that is to be packed; else NULL */
} range;

typedef struct run {
    range covers;         /* offset a multiple of QN_DIRECT_ALIGNMENT, if not of a packing */
    size_t at;            /* in the memory */
    size_t first_request; /* of its own */
    size_t packing;       /* or QN_NOT_PACKED */
} run;

typedef struct planner {
    const qn_view_map *map;
    qn_load_plan *plan;
    qn_load_wishes wishes;
    range *ranges; /* two for each move: of data and of scales, the latter empty where there are none */
    size_t range_count;
    run *runs;
    size_t run_count;
    size_t *run_of; /* [range_count]; of an empty range of no meaning */
} planner;

bool qn_load_packs(const qn_matrix *matrix, qn_matrix_kind kind)
{
    return kind == QN_MATRIX_DENSE && matrix->dtype == QN_DTYPE_BF16 &&
           qn_packed_bf16_most_bytes(matrix->rows, matrix->cols) > 0;
}

typedef struct saving {
    const qn_matrix *head;
    size_t bytes;
} saving;

/* Only the head's tensor may be that of another matrix too. */
static void add_saving(void *context, qn_matrix *matrix, qn_matrix_kind kind)
{
    saving *s = context;
    bool counted = matrix != s->head && matrix->data == s->head->data;
    if (!counted && qn_load_packs(matrix, kind))
        s->bytes += qn_matrix_data_bytes(matrix) - qn_packed_bf16_most_bytes(matrix->rows, matrix->cols);
}

size_t qn_load_saving(qn_weights *weights)
{
    saving s = {.head = &weights->lm_head};
    qn_weights_each_matrix(weights, add_saving, &s);
    return s.bytes;
}

static void count_matrix(void *context, qn_matrix *matrix, qn_matrix_kind kind)
{
    (void)matrix;
    (void)kind;
    ++*(size_t *)context;
}

static void add_range(planner *p, const uint8_t *data, size_t bytes, const qn_matrix *packs)
{
    range found = {.owner = p->range_count, .packs = packs};
    bool known = qn_view_map_find(p->map, data, &found.file, &found.offset);
    assert(known);
    (void)known;
    found.end = found.offset + bytes;
    p->ranges[p->range_count++] = found;
}

static void add_matrix(void *context, qn_matrix *matrix, qn_matrix_kind kind)
{
    planner *p = context;
    if (kind == QN_MATRIX_EXPERT && p->wishes.without_experts)
        return;
    bool packs = p->wishes.pack_dense && qn_load_packs(matrix, kind);
    add_range(p, matrix->data, qn_matrix_data_bytes(matrix), packs ? matrix : NULL);
    if (matrix->scales)
        add_range(p, matrix->scales, qn_matrix_scale_bytes(matrix), NULL);
    else
        p->ranges[p->range_count++] = (range){0};
    p->plan->moves[p->plan->move_count++] = (qn_load_move){.matrix = matrix, .from = *matrix};
}

static int compare_ranges(const void *a, const void *b)
{
    const range *x = a, *y = b;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (y->packs != NULL) - (x->packs != NULL); /* first the one whose run the others take */
}

static int compare_moves(const void *a, const void *b)
{
    const qn_load_move *x = a, *y = b;
    return x->needs < y->needs ? -1 : x->needs > y->needs;
}

/* A range that begins near the last run's end, or inside of it, makes that longer; one that is the last run's packed
 * matrix once more is in it. */
static bool joins_last(planner *p, const range *r)
{
    run *last = p->run_count > 0 ? &p->runs[p->run_count - 1] : NULL;
    if (!last || last->covers.file != r->file)
        return false;
    if (last->packing != QN_NOT_PACKED)
        return r->offset == last->covers.offset && r->end == last->covers.end;
    if (r->packs || r->offset > last->covers.end + SMALL_GAP_BYTES)
        return false;
    last->covers.end = r->end > last->covers.end ? r->end : last->covers.end;
    return true;
}

static void add_to_runs(planner *p, const range *r)
{
    if (!joins_last(p, r)) {
        run *next = &p->runs[p->run_count++];
        *next = (run){.covers = *r, .packing = r->packs ? p->plan->packing_count++ : QN_NOT_PACKED};
        if (!r->packs)
            next->covers.offset = r->offset / QN_DIRECT_ALIGNMENT * QN_DIRECT_ALIGNMENT;
    }
    p->run_of[r->owner] = p->run_count - 1;
}

static size_t rows_of_request(const planner *p, const qn_matrix *m)
{
    return qn_min_size(qn_max_size(p->wishes.request_bytes / qn_matrix_row_bytes(m), 1), m->rows);
}

/* Where the runs go, and how many requests they take. */
static void place_runs(planner *p)
{
    qn_load_plan *plan = p->plan;
    for (size_t i = 0; i < p->run_count; i++) {
        run *r = &p->runs[i];
        const qn_matrix *m = r->covers.packs;
        size_t bytes = (size_t)(r->covers.end - r->covers.offset), room = bytes;
        r->at = plan->memory_bytes;
        r->first_request = plan->request_count;
        if (m) {
            room = qn_packed_bf16_most_bytes(m->rows, m->cols);
            plan->request_count += qn_ceil_div(m->rows, rows_of_request(p, m));
            plan->piece_bytes = qn_max_size(plan->piece_bytes, rows_of_request(p, m) * qn_matrix_row_bytes(m));
        } else {
            plan->request_count += qn_ceil_div(bytes, p->wishes.request_bytes);
        }
        plan->memory_bytes += qn_ceil_div(room, QN_DIRECT_ALIGNMENT) * QN_DIRECT_ALIGNMENT;
        plan->read_bytes += bytes;
    }
}

static void list_verbatim(const planner *p, const run *r)
{
    qn_load_request *request = p->plan->requests + r->first_request;
    size_t left = (size_t)(r->covers.end - r->covers.offset);
    for (size_t done = 0; left > 0; done += request[-1].bytes, left -= request[-1].bytes)
        *request++ = (qn_load_request){.file = r->covers.file,
                                       .offset = r->covers.offset + done,
                                       .bytes = qn_min_size(left, p->wishes.request_bytes),
                                       .at = r->at + done,
                                       .packing = QN_NOT_PACKED};
}

static void list_packed(const planner *p, const run *r)
{
    qn_load_request *request = p->plan->requests + r->first_request;
    const qn_matrix *m = r->covers.packs;
    const size_t row_bytes = qn_matrix_row_bytes(m), step = rows_of_request(p, m);
    for (size_t row = 0; row < m->rows; row += step) {
        size_t rows = qn_min_size(step, m->rows - row);
        *request++ = (qn_load_request){.file = r->covers.file,
                                       .offset = r->covers.offset + row * row_bytes,
                                       .bytes = rows * row_bytes,
                                       .packing = r->packing,
                                       .first_row = row,
                                       .row_end = row + rows};
    }
    p->plan->packings[r->packing] = (qn_load_packing){.from = *m,
                                                      .at = r->at,
                                                      .request_count = qn_ceil_div(m->rows, step)};
}

static void list_requests(const planner *p)
{
    for (size_t i = 0; i < p->run_count; i++) {
        const run *r = &p->runs[i];
        if (r->packing == QN_NOT_PACKED)
            list_verbatim(p, r);
        else
            list_packed(p, r);
    }
}

/* Returns where the range lies in the memory, if it is not packed; *needs grows to the requests that it takes. */
static size_t place_range(const planner *p, const range *r, size_t *packing, size_t *needs)
{
    const run *in = &p->runs[p->run_of[r->owner]];
    assert(r->offset >= in->covers.offset && r->end <= in->covers.end);
    *packing = in->packing;
    if (in->packing != QN_NOT_PACKED) {
        *needs = in->first_request + p->plan->packings[in->packing].request_count;
        return 0;
    }
    size_t last = (size_t)(r->end - 1 - in->covers.offset) / p->wishes.request_bytes;
    *needs = qn_max_size(*needs, in->first_request + last + 1);
    return in->at + (size_t)(r->offset - in->covers.offset);
}

static qn_status join_ranges(planner *p, qn_error *err)
{
    range *sorted = qn_alloc(p->range_count, sizeof *sorted);
    p->runs = qn_alloc_zero(p->range_count, sizeof *p->runs);
    p->run_of = qn_alloc_zero(p->range_count, sizeof *p->run_of);
    qn_status status = sorted && p->runs && p->run_of
                           ? QN_OK
                           : qn_fail_memory(err, "plan of the load",
                                            p->range_count * (sizeof *sorted + sizeof *p->runs + sizeof *p->run_of));
    size_t count = 0;
    for (size_t i = 0; i < p->range_count && status == QN_OK; i++) {
        if (p->ranges[i].end > p->ranges[i].offset)
            sorted[count++] = p->ranges[i];
    }
    if (count > 0)
        qsort(sorted, count, sizeof *sorted, compare_ranges);
    for (size_t i = 0; i < count; i++)
        add_to_runs(p, &sorted[i]);
    qn_free(sorted);
    return status;
}

static qn_status make_plan(planner *p, qn_error *err)
{
    qn_load_plan *plan = p->plan;
    qn_status status = join_ranges(p, err);
    if (status != QN_OK)
        return status;
    place_runs(p);
    plan->requests = qn_alloc(plan->request_count, sizeof *plan->requests);
    plan->packings = qn_alloc_zero(qn_max_size(plan->packing_count, 1), sizeof *plan->packings);
    if (!plan->requests || !plan->packings)
        return qn_fail_memory(err, "plan of the load",
                              plan->request_count * sizeof *plan->requests +
                                  plan->packing_count * sizeof *plan->packings);
    list_requests(p);
    for (size_t i = 0; i < plan->move_count; i++) {
        qn_load_move *move = &plan->moves[i];
        size_t unpacked;
        move->data_at = place_range(p, &p->ranges[2 * i], &move->packing, &move->needs);
        if (move->matrix->scales)
            move->scales_at = place_range(p, &p->ranges[2 * i + 1], &unpacked, &move->needs);
    }
    qsort(plan->moves, plan->move_count, sizeof *plan->moves, compare_moves);
    return QN_OK;
}

qn_status qn_load_plan_make(qn_weights *weights, const qn_view_map *map, qn_load_wishes wishes, qn_load_plan *out,
                            qn_error *err)
{
    size_t count = 0;
    qn_status status = QN_OK;
    *out = (qn_load_plan){0};
    qn_weights_each_matrix(weights, count_matrix, &count);
    planner p = {.map = map, .plan = out, .wishes = wishes, .ranges = qn_alloc(2 * count, sizeof *p.ranges)};
    out->moves = qn_alloc(count, sizeof *out->moves);
    if (!p.ranges || !out->moves) {
        status = qn_fail_memory(err, "plan of the load", count * (2 * sizeof *p.ranges + sizeof *out->moves));
    } else {
        qn_weights_each_matrix(weights, add_matrix, &p);
        status = make_plan(&p, err);
    }
    qn_free(p.ranges);
    qn_free(p.runs);
    qn_free(p.run_of);
    if (status != QN_OK)
        qn_load_plan_free(out);
    return status;
}

void qn_load_plan_free(qn_load_plan *plan)
{
    qn_free(plan->requests);
    qn_free(plan->moves);
    qn_free(plan->packings);
    *plan = (qn_load_plan){0};
}
