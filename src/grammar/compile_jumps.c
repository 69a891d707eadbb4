/* An automaton as it was made is full of states that only lead on. Here whoever leads to one leads to where it leads.
 */
#include "grammar/compile_internal.h"

#include <string.h>

/* Where a state that does nothing leads; `calls`: a call whose return does nothing but return is a jump. */
static bool is_jump(const qn_grammar *g, uint32_t state, bool calls, uint32_t *to)
{
    const qn_state *s = &g->states[state];
    if (s->kind == QN_STATE_SPLIT && s->b == 1)
        *to = g->targets[s->a];
    else if (calls && s->kind == QN_STATE_CALL && s->b == COMPILE_RETURN)
        *to = s->a;
    else
        return false;
    return true;
}

/* The end of the chain of jumps, noted along it. A chain never closes: that would be recursion on the left. */
static uint32_t follow(qn_grammar *g, uint32_t *ends, uint32_t state, bool calls)
{
    uint32_t end = state, to;
    while (ends[end] == UINT32_MAX && is_jump(g, end, calls, &to))
        end = to;
    end = ends[end] == UINT32_MAX ? end : ends[end];
    while (state != end && ends[state] == UINT32_MAX) {
        if (!is_jump(g, state, calls, &to))
            break;
        ends[state] = end;
        state = to;
    }
    return end;
}

void compile_straighten(qn_grammar *g, uint32_t *ends, bool calls)
{
    memset(ends, 0xFF, g->state_count * sizeof *ends);
    for (size_t i = 0; i < g->state_count; i++) {
        qn_state *s = &g->states[i];
        if (s->kind == QN_STATE_SET || s->kind == QN_STATE_TOKEN || s->kind == QN_STATE_CALL)
            s->b = follow(g, ends, s->b, calls);
        if (s->kind == QN_STATE_CALL && (calls ? s->b != COMPILE_RETURN : true))
            s->a = follow(g, ends, s->a, calls);
    }
    for (size_t i = 0; i < g->target_count; i++)
        g->targets[i] = follow(g, ends, g->targets[i], calls);
    for (size_t i = 0; i < g->repeat_count; i++) {
        g->repeats[i].body = follow(g, ends, g->repeats[i].body, calls);
        g->repeats[i].exit = follow(g, ends, g->repeats[i].exit, calls);
    }
    for (size_t i = 0; i < g->group_count; i++) {
        g->groups[i].separator = follow(g, ends, g->groups[i].separator, calls);
        g->groups[i].exit = follow(g, ends, g->groups[i].exit, calls);
    }
    for (size_t i = 0; i < g->branch_count; i++)
        g->branches[i].entry = follow(g, ends, g->branches[i].entry, calls);
    g->start = follow(g, ends, g->start, calls);
}
