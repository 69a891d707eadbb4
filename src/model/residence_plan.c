/* Every matrix is one range of a file, or two with its scales. Sorted and joined, the ranges become the runs that are
 * read; then each matrix looks its runs up again. */
#include "model/residence_plan.h"

#include <assert.h>
#include <stdlib.h>

#include "base/direct_reader.h"
#include "base/memory.h"
#include "base/size.h"

enum { SMALL_GAP_BYTES = 1 << 20 };

typedef struct range {
    size_t file;
    uint64_t offset, end;
} range;

typedef struct run {
    range covers;         /* offset a multiple of QN_DIRECT_ALIGNMENT */
    size_t at;            /* in the memory */
    size_t first_request; /* of its own */
} run;

typedef struct planner {
    const qn_view_map *map;
    qn_load_plan *plan;
    qn_load_wishes wishes;
    range *ranges; /* two for each move: of data and of scales, the latter empty where there are none */
    size_t range_count;
    run *runs;
    size_t run_count;
} planner;

static void count_matrix(void *context, qn_matrix *matrix, qn_matrix_kind kind)
{
    (void)matrix;
    (void)kind;
    ++*(size_t *)context;
}

static range find_range(const planner *p, const uint8_t *data, size_t bytes)
{
    range found = {0};
    bool known = qn_view_map_find(p->map, data, &found.file, &found.offset);
    assert(known);
    (void)known;
    found.end = found.offset + bytes;
    return found;
}

static void add_matrix(void *context, qn_matrix *matrix, qn_matrix_kind kind)
{
    planner *p = context;
    if (kind == QN_MATRIX_EXPERT && p->wishes.without_experts)
        return;
    p->ranges[p->range_count++] = find_range(p, matrix->data, qn_matrix_data_bytes(matrix));
    p->ranges[p->range_count++] = matrix->scales ? find_range(p, matrix->scales, qn_matrix_scale_bytes(matrix))
                                                 : (range){0};
    p->plan->moves[p->plan->move_count++] = (qn_load_move){.matrix = matrix, .from = *matrix};
}

static int compare_ranges(const void *a, const void *b)
{
    const range *x = a, *y = b;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return 0;
}

static int compare_moves(const void *a, const void *b)
{
    const qn_load_move *x = a, *y = b;
    return x->needs < y->needs ? -1 : x->needs > y->needs;
}

/* A range that begins near the last run's end, or inside of it, makes that longer. */
static void add_range(planner *p, const range *r)
{
    range *last = p->run_count > 0 ? &p->runs[p->run_count - 1].covers : NULL;
    if (last && last->file == r->file && r->offset <= last->end + SMALL_GAP_BYTES) {
        last->end = r->end > last->end ? r->end : last->end;
        return;
    }
    uint64_t start = r->offset / QN_DIRECT_ALIGNMENT * QN_DIRECT_ALIGNMENT;
    p->runs[p->run_count++].covers = (range){.file = r->file, .offset = start, .end = r->end};
}

/* Where the runs go, and how many requests they take. */
static void place_runs(planner *p)
{
    qn_load_plan *plan = p->plan;
    for (size_t i = 0; i < p->run_count; i++) {
        run *r = &p->runs[i];
        size_t bytes = (size_t)(r->covers.end - r->covers.offset);
        r->at = plan->memory_bytes;
        r->first_request = plan->request_count;
        plan->memory_bytes += qn_ceil_div(bytes, QN_DIRECT_ALIGNMENT) * QN_DIRECT_ALIGNMENT;
        plan->request_count += qn_ceil_div(bytes, p->wishes.request_bytes);
        plan->read_bytes += bytes;
    }
}

static void list_requests(const planner *p)
{
    for (size_t i = 0; i < p->run_count; i++) {
        const run *r = &p->runs[i];
        qn_load_request *request = p->plan->requests + r->first_request;
        size_t left = (size_t)(r->covers.end - r->covers.offset);
        for (size_t done = 0; left > 0; done += request[-1].bytes, left -= request[-1].bytes)
            *request++ = (qn_load_request){.file = r->covers.file,
                                           .offset = r->covers.offset + done,
                                           .bytes = qn_min_size(left, p->wishes.request_bytes),
                                           .at = r->at + done};
    }
}

/* The last run that begins at or before the range: it covers it. */
static const run *run_of(const planner *p, const range *r)
{
    size_t low = 0, high = p->run_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (compare_ranges(&p->runs[middle].covers, r) <= 0)
            low = middle;
        else
            high = middle;
    }
    return &p->runs[low];
}

/* Returns where the range lies in the memory; *needs grows to the requests that it takes. */
static size_t place_range(const planner *p, const range *r, size_t *needs)
{
    const run *in = run_of(p, r);
    assert(r->offset >= in->covers.offset && r->end <= in->covers.end);
    size_t last = (size_t)(r->end - 1 - in->covers.offset) / p->wishes.request_bytes;
    *needs = qn_max_size(*needs, in->first_request + last + 1);
    return in->at + (size_t)(r->offset - in->covers.offset);
}

static qn_status join_ranges(planner *p, qn_error *err)
{
    range *sorted = qn_alloc(p->range_count, sizeof *sorted);
    p->runs = qn_alloc_zero(p->range_count, sizeof *p->runs);
    qn_status status = sorted && p->runs ? QN_OK
                                         : qn_fail_memory(err, "plan of the load",
                                                          p->range_count * (sizeof *sorted + sizeof *p->runs));
    size_t count = 0;
    for (size_t i = 0; i < p->range_count && status == QN_OK; i++) {
        if (p->ranges[i].end > p->ranges[i].offset)
            sorted[count++] = p->ranges[i];
    }
    if (count > 0)
        qsort(sorted, count, sizeof *sorted, compare_ranges);
    for (size_t i = 0; i < count; i++)
        add_range(p, &sorted[i]);
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
    if (!plan->requests)
        return qn_fail_memory(err, "plan of the load", plan->request_count * sizeof *plan->requests);
    list_requests(p);
    for (size_t i = 0; i < plan->move_count; i++) {
        qn_load_move *move = &plan->moves[i];
        move->data_at = place_range(p, &p->ranges[2 * i], &move->needs);
        if (move->matrix->scales)
            move->scales_at = place_range(p, &p->ranges[2 * i + 1], &move->needs);
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
    if (status != QN_OK)
        qn_load_plan_free(out);
    return status;
}

void qn_load_plan_free(qn_load_plan *plan)
{
    qn_free(plan->requests);
    qn_free(plan->moves);
    *plan = (qn_load_plan){0};
}
