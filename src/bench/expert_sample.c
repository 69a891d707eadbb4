#include "bench/expert_sample.h"

#include "model/expert_forecast.h"

qn_expert_counts qn_expert_counts_now(const qn_model *model)
{
    const qn_expert_cache *cache = qn_model_expert_cache(model);
    if (!cache)
        return (qn_expert_counts){{0}};
    const qn_expert_cache_figures *c = qn_expert_cache_figures_of(cache);
    const qn_expert_forecast_figures *f = qn_expert_forecast_figures_of(qn_model_expert_forecast(model));
    return (qn_expert_counts){{[QN_EXPERTS_NEEDED] = (double)(c->hits + c->late + c->misses),
                               [QN_EXPERTS_HIT] = (double)c->hits,
                               [QN_EXPERTS_GUESSED] = (double)f->guessed,
                               [QN_EXPERTS_RIGHT] = (double)f->right,
                               [QN_EXPERTS_AHEAD] = (double)c->ahead,
                               [QN_EXPERTS_AHEAD_USED] = (double)c->ahead_used,
                               [QN_EXPERTS_BYTES_READ] = (double)c->bytes_read,
                               [QN_EXPERTS_BYTES_MISSED] = (double)c->bytes_missed,
                               [QN_EXPERTS_WAITED_NS] = (double)c->waited_ns}};
}

qn_expert_counts qn_expert_counts_add(qn_expert_counts a, double factor, qn_expert_counts b)
{
    for (size_t i = 0; i < QN_EXPERT_COUNTS; i++)
        a.of[i] += factor * b.of[i];
    return a;
}
