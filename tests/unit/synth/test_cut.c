#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/fault.h"
#include "base/memory.h"
#include "synth/cut.h"

static const char GLM[] = "tests/data/glm-5.3/config.json", GROUPED[] = "tests/data/oracle/tiny-grouped/config.json";

typedef struct cutting {
    json_t *document;
    qn_config config;
    qn_error err;
} cutting;

static void parse(const json_t *document, qn_config *out)
{
    char *text = NULL;
    qn_error err;
    assert_int_equal(qn_json_text(document, "config.json", &text, &err), QN_OK);
    if (qn_config_parse(text, strlen(text), "config.json", out, &err) != QN_OK)
        fail_msg("%s", err.message);
    qn_free(text);
}

static cutting open_config(const char *path)
{
    cutting c = {0};
    assert_int_equal(qn_json_parse_file(path, 1 << 20, &c.document, &c.err), QN_OK);
    parse(c.document, &c.config);
    return c;
}

/* What the document says is what the config holds. */
static void check_agreement(const cutting *c)
{
    qn_config again;
    parse(c->document, &again);
    const qn_config *a = &again, *b = &c->config;
    assert_int_equal(a->vocab_size, b->vocab_size);
    assert_int_equal(a->num_hidden_layers, b->num_hidden_layers);
    assert_int_equal(a->num_nextn_predict_layers, b->num_nextn_predict_layers);
    assert_int_equal(a->n_routed_experts, b->n_routed_experts);
    assert_int_equal(a->num_experts_per_tok, b->num_experts_per_tok);
    assert_int_equal(a->n_group, b->n_group);
    assert_int_equal(a->topk_group, b->topk_group);
    assert_memory_equal(a->layer_is_sparse, b->layer_is_sparse, sizeof a->layer_is_sparse);
    assert_memory_equal(a->layer_has_indexer, b->layer_has_indexer, sizeof a->layer_has_indexer);
    assert_int_equal(a->eos_count, b->eos_count);
    assert_memory_equal(a->eos_token_id, b->eos_token_id, sizeof a->eos_token_id);
}

static cutting cut_of(const char *path, const qn_synth_cut *cut)
{
    cutting c = open_config(path);
    if (qn_synth_cut_apply(cut, c.document, &c.config, &c.err) != QN_OK)
        fail_msg("%s", c.err.message);
    check_agreement(&c);
    return c;
}

static void test_no_cut_changes_nothing(void **state)
{
    (void)state;
    cutting before = open_config(GLM), after = cut_of(GLM, &(qn_synth_cut){0});
    assert_true(json_equal(before.document, after.document));
    json_decref(before.document);
    json_decref(after.document);
}

static void test_layers_and_their_lists(void **state)
{
    (void)state;
    cutting c = cut_of(GLM, &(qn_synth_cut){.layers = 5});
    assert_int_equal(c.config.num_hidden_layers, 5);
    assert_true(!c.config.layer_is_sparse[2] && c.config.layer_is_sparse[3] && !c.config.layer_is_sparse[5]);
    assert_true(c.config.layer_has_indexer[2] && !c.config.layer_has_indexer[4]);
    assert_int_equal(json_array_size(json_object_get(c.document, "indexer_types")), 5);
    json_decref(c.document);

    c = open_config(GLM);
    json_object_del(c.document, "indexer_types");
    json_object_set_new(c.document, "index_topk_pattern", json_stringn("FSFSFSFS", 8));
    json_object_set_new(c.document, "num_hidden_layers", json_integer(8));
    json_object_del(c.document, "mlp_layer_types");
    parse(c.document, &c.config);
    assert_int_equal(qn_synth_cut_apply(&(qn_synth_cut){.layers = 3}, c.document, &c.config, &c.err), QN_OK);
    check_agreement(&c);
    assert_string_equal(json_string_value(json_object_get(c.document, "index_topk_pattern")), "FSF");
    json_decref(c.document);
}

static void test_first_sparse_layer_moves(void **state)
{
    (void)state;
    cutting c = cut_of(GLM, &(qn_synth_cut){.layers = 1, .moves_sparse = true, .sparse_from = 0});
    assert_true(c.config.layer_is_sparse[0]);
    json_decref(c.document);
    c = cut_of(GLM, &(qn_synth_cut){.layers = 6, .moves_sparse = true, .sparse_from = 6});
    assert_false(c.config.layer_is_sparse[5]);
    json_decref(c.document);
}

static void test_experts_and_groups(void **state)
{
    (void)state;
    cutting c = cut_of(GLM, &(qn_synth_cut){.experts = 5, .without_mtp = true});
    assert_int_equal(c.config.n_routed_experts, 5);
    assert_int_equal(c.config.num_experts_per_tok, 5);
    assert_int_equal(c.config.num_nextn_predict_layers, 0);
    json_decref(c.document);

    c = open_config(GROUPED);
    size_t experts = c.config.n_routed_experts, groups = c.config.n_group;
    json_decref(c.document);
    assert_true(groups == 2 && experts > 4);
    c = cut_of(GROUPED, &(qn_synth_cut){.experts = 4});
    assert_true(c.config.num_experts_per_tok <= 2); /* one of the two groups is taken */
    json_decref(c.document);
    for (size_t bad = 1; bad < 4; bad++) {
        c = open_config(GROUPED);
        assert_int_equal(qn_synth_cut_apply(&(qn_synth_cut){.experts = bad}, c.document, &c.config, &c.err), QN_USAGE);
        assert_string_equal(c.err.field, "experts");
        json_decref(c.document);
    }
}

static void test_tokens_beyond_the_vocabulary_go(void **state)
{
    (void)state;
    cutting c = cut_of(GLM, &(qn_synth_cut){.vocab = 154828});
    assert_int_equal(c.config.vocab_size, 154828);
    assert_int_equal(c.config.eos_count, 2);
    assert_int_equal(json_array_size(json_object_get(c.document, "eos_token_id")), 2);
    assert_true(json_is_integer(json_object_get(c.document, "pad_token_id")));
    json_decref(c.document);
    c = cut_of(GLM, &(qn_synth_cut){.vocab = 4096});
    assert_int_equal(c.config.eos_count, 0);
    assert_true(json_is_null(json_object_get(c.document, "pad_token_id")));
    json_decref(c.document);

    c = open_config(GLM);
    json_object_set_new(c.document, "eos_token_id", json_integer(5));
    parse(c.document, &c.config);
    assert_int_equal(qn_synth_cut_apply(&(qn_synth_cut){.vocab = 6}, c.document, &c.config, &c.err), QN_OK);
    check_agreement(&c);
    assert_int_equal(c.config.eos_count, 1);
    assert_int_equal(qn_synth_cut_apply(&(qn_synth_cut){.vocab = 5}, c.document, &c.config, &c.err), QN_OK);
    check_agreement(&c);
    assert_int_equal(c.config.eos_count, 0);
    json_decref(c.document);
}

static void test_more_than_there_is_is_refused(void **state)
{
    (void)state;
    const struct {
        const char *field;
        qn_synth_cut cut;
    } cases[] = {
        {"layers", {.layers = 79}},
        {"experts", {.experts = 257}},
        {"vocab", {.vocab = 154881}},
        {"sparse-from", {.layers = 4, .moves_sparse = true, .sparse_from = 5}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cutting c = open_config(GLM);
        assert_int_equal(qn_synth_cut_apply(&cases[i].cut, c.document, &c.config, &c.err), QN_USAGE);
        assert_string_equal(c.err.field, cases[i].field);
        json_decref(c.document);
    }
}

static void test_each_failing_allocation(void **state)
{
    (void)state;
    const qn_synth_cut cut = {
        .layers = 4, .moves_sparse = true, .sparse_from = 1, .experts = 4, .vocab = 100, .without_mtp = true};
    qn_status status = QN_RESOURCE;
    for (long nth = 1; status != QN_OK; nth++) {
        cutting c = open_config(GLM);
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        status = qn_synth_cut_apply(&cut, c.document, &c.config, &c.err);
        qn_fault_disarm();
        if (status == QN_OK)
            check_agreement(&c);
        else
            assert_int_equal(status, QN_RESOURCE);
        json_decref(c.document);
    }
}

int main(void)
{
    qn_json_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_cut_changes_nothing),          cmocka_unit_test(test_layers_and_their_lists),
        cmocka_unit_test(test_first_sparse_layer_moves),        cmocka_unit_test(test_experts_and_groups),
        cmocka_unit_test(test_tokens_beyond_the_vocabulary_go), cmocka_unit_test(test_more_than_there_is_is_refused),
        cmocka_unit_test(test_each_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
