/* Numbers: a range where that is all that is asked; automata where multiples are, or what must not be. */
#include "grammar/json_number_automaton.h"
#include "grammar/json_schema_expansion.h"

enum {
    MOST_DIGITS = 20, /* before the point */
    LEAST_DIGITS = 10,
    MOST_PRODUCT = 4000 /* states: these digits times the remainders */
};

void schema_apply_multiple(expansion *e, const pending *p, const char *keyword, const json_t *value)
{
    qn_decimal d;
    uint64_t significand;
    int exponent;
    if (!qn_decimal_of(value, &d) || d.negative || d.count == 0)
        schema_fail(e->c, p->node, keyword, "must be a number above zero");
    else if (!qn_decimal_significand(&d, &significand, &exponent))
        schema_fail(e->c, p->node, keyword, "cannot be enforced: a number of more than 18 digits");
    else
        schema_use(e, &e->s.multiples, p->node, keyword, value, false);
}

static bool is_in_range(const shape *s, const qn_decimal *value)
{
    qn_number_bound self = {true, false, *value};
    return !qn_number_range_is_empty(&s->low, &self, false) && !qn_number_range_is_empty(&self, &s->high, false);
}

bool schema_number_fits(const shape *s, const json_t *value)
{
    qn_decimal self, of;
    bool fits = qn_decimal_of(value, &self) && is_in_range(s, &self);
    for (const keyword_use *use = s->multiples; use && fits; use = use->next)
        fits = qn_decimal_of(use->value, &of) && qn_decimal_is_multiple(&self, &of) != use->negated;
    return fits;
}

typedef struct numbers {
    compiler *c;
    const qn_automaton *all;
} numbers;

/* Takes what is inside (or outside) the automaton, just made; NULL: it could not be. */
static void take(numbers *n, const qn_automaton *a, bool inside, const keyword_use *use, qn_error *err)
{
    if (a && n->all && !n->c->failed)
        n->all = qn_automaton_both(&n->c->room, n->all, a, inside, err);
    if (n->c->failed || (a && n->all))
        return;
    if (err->status == QN_RESOURCE)
        schema_fail_memory(n->c);
    else
        schema_fail(n->c, use ? use->node : NULL, use ? use->keyword : NULL, "cannot be enforced: %s", err->message);
}

static void take_bound(numbers *n, const qn_number_bound *bound, unsigned order, const keyword_use *use)
{
    qn_error err = {0};
    if (bound->present && !n->c->failed)
        take(n,
             qn_number_order_automaton(&n->c->room, &bound->value, bound->exclusive ? order : order | QN_NUMBER_EQUAL,
                                       &err),
             true, use, &err);
}

/* The form of these numbers: so many digits as leave the automaton small (or any number of them, where there are many
 * remainders), and all places that a multiple can have. */
static qn_number_form form_of(const shape *s)
{
    size_t remainders = 1, least = 1;
    qn_number_form form = {.integers = s->types & TYPE_INTEGER,
                           .fractions = s->types & TYPE_FRACTION,
                           .places = MOST_DIGITS};
    for (const keyword_use *use = s->multiples; use; use = use->next) {
        qn_decimal d;
        uint64_t m;
        int exponent;
        if (!qn_decimal_of(use->value, &d) || !qn_decimal_significand(&d, &m, &exponent))
            continue;
        size_t places = exponent < 0 ? (size_t)-exponent : 0, whole = d.point > 0 ? (size_t)d.point : 1;
        if (!use->negated && places < form.places)
            form.places = places + 1;
        least = whole > least ? whole : least;
        remainders = m < MOST_PRODUCT && remainders < MOST_PRODUCT ? remainders * m : MOST_PRODUCT;
    }
    form.endless = MOST_PRODUCT / remainders < LEAST_DIGITS;
    form.digits = form.endless ? 1 : MOST_PRODUCT / remainders;
    form.digits = form.digits < MOST_DIGITS ? form.digits : MOST_DIGITS;
    form.digits = form.endless || form.digits > least ? form.digits : least;
    const qn_number_bound *bounds[] = {&s->low, &s->high};
    for (int i = 0; i < 2; i++)
        if (!form.endless && bounds[i]->present && bounds[i]->value.point >= 0 &&
            (size_t)bounds[i]->value.point > form.digits)
            form.digits = (size_t)bounds[i]->value.point;
    return form;
}

qn_expr schema_number_expr(compiler *c, const shape *s)
{
    bool integer = !(s->types & TYPE_FRACTION);
    const keyword_use *some = s->multiples;
    for (const keyword_use *use = s->excluded; use; use = use->next)
        if (schema_value_type(use->value) & s->types & TYPE_NUMBER)
            some = use;
    if (!some && (s->types & TYPE_INTEGER)) {
        if (s->low.present || s->high.present)
            return qn_json_number_range(c->b, &s->low, &s->high, integer);
        return integer ? c->spelling.any_integer : c->spelling.any_number;
    }
    qn_number_form form = form_of(s);
    qn_error err = {0};
    numbers n = {c, qn_number_form_automaton(&c->room, &form, &err)};
    if (!n.all)
        take(&n, NULL, true, some, &err);
    take_bound(&n, &s->low, QN_NUMBER_GREATER, some);
    take_bound(&n, &s->high, QN_NUMBER_LESS, some);
    for (const keyword_use *use = s->multiples; use && !c->failed; use = use->next) {
        qn_decimal of;
        qn_decimal_of(use->value, &of);
        take(&n, qn_number_multiple_automaton(&c->room, &of, &err), !use->negated, use, &err);
    }
    for (const keyword_use *use = s->excluded; use && !c->failed; use = use->next) {
        qn_decimal value;
        if (qn_decimal_of(use->value, &value) && is_in_range(s, &value))
            take(&n, qn_number_order_automaton(&c->room, &value, QN_NUMBER_LESS | QN_NUMBER_GREATER, &err), true, use,
                 &err);
    }
    return c->failed ? QN_NO_WORDS : qn_automaton_expr(&c->room, c->b, n.all, NULL);
}
