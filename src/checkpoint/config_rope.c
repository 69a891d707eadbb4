/* RoPE: type default, and YaRN with the keys and defaults of transformers' modeling_rope_utils. */
#include "checkpoint/config_parts.h"

static const double LARGEST_THETA = 1e15, LARGEST_FACTOR = 1e6;

/* "rope_type", which once was called "type". */
static qn_rope_type read_type(qn_fields *f)
{
    qn_rope_type type = QN_ROPE_DEFAULT;
    static const char *const names[] = {"rope_type", "type"};
    json_t *values[2] = {qn_fields_take(f, names[0]), qn_fields_take(f, names[1])};
    for (int i = 0; i < 2; i++) {
        if (qn_value_is(values[i], "yarn"))
            type = QN_ROPE_YARN;
        else if (values[i] && !qn_value_is(values[i], "default"))
            qn_fields_refuse(f, names[i], values[i],
                             "quern supports \"default\" and \"yarn\", use a checkpoint with one of these");
    }
    if (values[0] && values[1] && !json_equal(values[0], values[1]))
        qn_fields_refuse(f, names[1], values[1], "it disagrees with rope_type, remove one of them");
    json_decref(values[0]);
    json_decref(values[1]);
    return type;
}

/* transformers takes 0 like an absent value here ("or"): the default holds. */
static void read_or_default(qn_fields *f, const char *name, double fallback, double *out)
{
    double value = 0;
    qn_fields_number(f, name, false, 0, LARGEST_FACTOR, &value);
    *out = value != 0 ? value : fallback;
}

static void read_yarn(qn_fields *f, size_t max_position_embeddings, qn_rope_parameters *out)
{
    out->original_max_position_embeddings = max_position_embeddings;
    qn_fields_size(f, "original_max_position_embeddings", false, 1, QN_MAX_POSITIONS,
                   &out->original_max_position_embeddings);
    out->factor = (double)max_position_embeddings / (double)out->original_max_position_embeddings;
    qn_fields_number(f, "factor", false, 1, LARGEST_FACTOR, &out->factor);
    if (f->status == QN_OK && out->factor < 1)
        qn_fields_fail(f, "factor",
                       "is absent: max_position_embeddings is below original_max_position_embeddings, so it "
                       "must be given");
    read_or_default(f, "beta_fast", 32, &out->beta_fast);
    read_or_default(f, "beta_slow", 1, &out->beta_slow);
    out->attention_factor = -1;
    qn_fields_number(f, "attention_factor", false, 0, LARGEST_FACTOR, &out->attention_factor);
    qn_fields_number(f, "mscale", false, 0, LARGEST_FACTOR, &out->mscale);
    qn_fields_number(f, "mscale_all_dim", false, 0, LARGEST_FACTOR, &out->mscale_all_dim);
    out->truncate = true;
    qn_fields_bool(f, "truncate", false, &out->truncate);
}

static void expect_whole_rotation(qn_fields *f)
{
    double share = 1;
    if (qn_fields_number(f, "partial_rotary_factor", false, 0, 1, &share) && share < 1)
        qn_fields_fail(f, "partial_rotary_factor",
                       "is below 1: quern rotates the whole of qk_rope_head_dim, use a GLM-5 checkpoint");
}

/* One object of parameters; `theta` is what stands beside it in the old form, 0 for nothing. */
static void read_parameters(qn_fields *outer, const char *prefix, json_t *object, double theta, qn_config *out)
{
    qn_fields f = {.object = object,
                   .what = outer->what,
                   .prefix = prefix,
                   .err = outer->err,
                   .status = outer->status,
                   .quiet = outer->quiet};
    qn_rope_parameters *rope = &out->rope;
    double inner = theta;
    bool given = qn_fields_number(&f, "rope_theta", theta == 0, 1, LARGEST_THETA, &inner);
    if (given && theta != 0 && inner != theta)
        qn_fields_fail(&f, "rope_theta", "is %g: the rope_theta outside of it is %g, remove one of them", inner, theta);
    rope->rope_theta = inner;
    rope->rope_type = read_type(&f);
    expect_whole_rotation(&f);
    if (rope->rope_type == QN_ROPE_YARN)
        read_yarn(&f, out->max_position_embeddings, rope);
    if (f.status == QN_OK)
        qn_fields_log_rest(&f);
    outer->status = f.status;
}

void qn_config_read_rope(qn_fields *f, qn_config *out)
{
    double theta = 0;
    qn_fields_number(f, "rope_theta", false, 1, LARGEST_THETA, &theta);
    expect_whole_rotation(f);
    static const char *const names[] = {"rope_parameters", "rope_scaling"};
    static const char *const prefixes[] = {"rope_parameters.", "rope_scaling."};
    json_t *objects[2] = {qn_fields_take(f, names[0]), qn_fields_take(f, names[1])};
    size_t which = objects[0] ? 0 : 1;
    json_t *chosen = objects[which];
    if (objects[0] && objects[1] && !json_equal(objects[0], objects[1]))
        qn_fields_refuse(f, names[1], objects[1], "it disagrees with rope_parameters, remove one of them");
    else if (chosen && !json_is_object(chosen))
        qn_fields_refuse(f, names[which], chosen, "it must be an object, correct the file");
    else if (chosen)
        read_parameters(f, prefixes[which], chosen, theta, out);
    else if (theta == 0)
        qn_fields_fail(f, names[0],
                       "is absent: it must be an object with rope_theta and rope_type, use the config.json "
                       "that came with the checkpoint");
    else
        out->rope = (qn_rope_parameters){.rope_type = QN_ROPE_DEFAULT, .rope_theta = theta};
    json_decref(objects[0]);
    json_decref(objects[1]);
}
