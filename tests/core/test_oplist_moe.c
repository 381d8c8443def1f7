/* The operations of a layer of experts, without a device: their order, inputs and outputs. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/mem.h"
#include "core/plan/oplist_moe.h"
#include "tests/support/oplist_look.h"

/* One layer of 6 experts in numbers only. */
struct fake {
    struct model_desc desc;
    struct layer_desc layer;
    struct model_weights weights;
    struct layer_weights layer_weights;
    struct weight_band router, gate_up[2], down;
    struct oplist_params p;
    struct oplist list;
};

static void fake_init(struct fake *f)
{
    *f = (struct fake){.desc = {.layers = 1,
                                .hidden = 64,
                                .vocab = 300,
                                .norm_eps = 1e-5,
                                .residual_scale = 0.5,
                                .act = MODEL_ACT_SWIGLU_CLAMP,
                                .act_alpha = 1.5,
                                .act_limit = 7,
                                .moe = {6, 2, 48, MOE_SOFTMAX_TOPK}}};
    f->router = (struct weight_band){.dtype = DGL_BF16, .rows = 6, .row_words = 32};
    f->gate_up[0] = (struct weight_band){
        .dtype = DGL_Q8_0, .rows = 400, .row_words = 17, .place = {.size = 6000}};
    f->gate_up[1] =
        (struct weight_band){.dtype = DGL_Q8_0, .row0 = 400, .rows = 176, .row_words = 17};
    f->down = (struct weight_band){.dtype = DGL_F16, .rows = 384, .row_words = 24};
    f->layer_weights.router = (struct weight){
        .rows = 6, .cols = 64, .bands = &f->router, .num_bands = 1, .has_norm = true, .vector = 77};
    f->layer_weights.expert_gate_up = (struct weight){
        .rows = 576, .cols = 64, .bands = f->gate_up, .num_bands = 2, .band_bias = 0};
    f->layer_weights.expert_down = (struct weight){
        .rows = 384, .cols = 48, .bands = &f->down, .num_bands = 1, .band_bias = TENSOR_NONE};
    f->desc.layer = &f->layer;
    f->weights.layer = &f->layer_weights;
    f->p = (struct oplist_params){.desc = &f->desc, .weights = &f->weights};
}

static int setup(void **state)
{
    *state = checked(dgl_new(struct fake));
    fake_init(*state);
    return 0;
}

static int teardown(void **state)
{
    struct fake *f = *state;
    oplist_finish(&f->list);
    free(f);
    return 0;
}

static void test_order(void **state)
{
    (void)state;
    struct fake f;
    struct oplist decode = {0}, prefill = {0};
    fake_init(&f);
    oplist_moe(&decode, &f.p, DGL_PHASE_DECODE, 0, BUF_X);
    look_at_labels(&decode,
                   "ffn_norm router moe_route experts_gate_up experts_gate_up experts_down");
    oplist_moe(&prefill, &f.p, DGL_PHASE_PREFILL, 0, BUF_X);
    look_at_labels(&prefill, "ffn_norm router moe_route moe_group experts_gate_up experts_gate_up "
                             "experts_down moe_combine");
    oplist_finish(&decode);
    oplist_finish(&prefill);
}

static void test_route(void **state)
{
    static const char *const words[] = {"topk_softmax", "softmax_topk", "softmax_topk_norm"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct fake f;
        fake_init(&f);
        f.desc.moe.scoring = (enum moe_scoring)(MOE_TOPK_SOFTMAX + i);
        oplist_moe(&f.list, &f.p, DGL_PHASE_DECODE, 0, BUF_X);
        const struct op *route = look_op(&f.list, "moe_route", 0, 0),
                        *router = look_op(&f.list, "router", 0, 0);
        assert_string_equal(look_attr(route, "scoring"), words[i]);
        assert_int_equal(look_const(route, "E"), 6);
        assert_int_equal(look_const(route, "TOP_K"), 2);
        assert_int_equal(look_const(route, "L_STRIDE"), 8); /* a multiple of 4 */
        assert_int_equal(look_const(router, "Y_STRIDE"), 8);
        assert_string_equal(look_attr(router, "pre"), "none");
        look_at_buffer(router, "X", BUF_NORMED);
        look_at_buffer(router, "Y", BUF_ROUTER);
        assert_int_equal(op_find_bind(look_op(&f.list, "ffn_norm", 0, 0), "G")->ref.id, 77);
        oplist_finish(&f.list);
    }
}

static void test_experts(void **state)
{
    struct fake *f = *state;
    oplist_moe(&f->list, &f->p, DGL_PHASE_DECODE, 0, BUF_X);
    const struct op *first = look_op(&f->list, "experts_gate_up", 0, 0);
    const struct op *second = look_op(&f->list, "experts_gate_up", 0, 1);
    const struct op *down = look_op(&f->list, "experts_down", 0, 0);
    assert_string_equal(look_attr(first, "act"), "swiglu_clamp");
    assert_string_equal(look_attr(first, "bias"), "row");
    assert_string_equal(look_attr(first, "weight"), "q8_0");
    assert_string_equal(look_attr(first, "post"), "glu");
    assert_int_equal(look_const(first, "EXPERT_ROWS"), 96);
    assert_int_equal(look_const(first, "Y_STRIDE"), 48);
    assert_int_equal(op_find_param(second, "row0")->u, 400);
    assert_int_equal(op_find_param(second, "rows")->u, 176);
    assert_near(op_find_param(first, "act_alpha")->f, 1.5, 0);
    assert_near(op_find_param(first, "act_limit")->f, 7, 0);
    assert_int_equal(first->bytes, 2000); /* two experts' part of the band */
    assert_string_equal(look_attr(down, "post"), "combine");
    assert_string_equal(look_attr(down, "bias"), "none");
    assert_string_equal(look_attr(down, "act"), "none");
    assert_int_equal(look_const(down, "EXPERT_ROWS"), 64);
    look_at_buffer(down, "X", BUF_ACT);
    look_at_buffer(down, "Y", BUF_X);
    assert_near(op_find_param(down, "scale")->f, 0.5, 0);
}

static void test_prefill(void **state)
{
    struct fake *f = *state;
    f->desc.act = MODEL_ACT_SILU;
    oplist_moe(&f->list, &f->p, DGL_PHASE_PREFILL, 0, BUF_X);
    const struct op *gate_up = look_op(&f->list, "experts_gate_up", 0, 0);
    const struct op *down = look_op(&f->list, "experts_down", 0, 0);
    const struct op *combine = look_op(&f->list, "moe_combine", 0, 0);
    assert_string_equal(look_attr(gate_up, "act"), "silu");
    assert_string_equal(look_attr(gate_up, "phase"), "prefill");
    look_at_buffer(gate_up, "LIST", BUF_EXPERT_ROWS);
    assert_null(op_find_bind(gate_up, "ROUTE"));
    assert_int_equal(gate_up->bytes, 6000);
    assert_string_equal(look_attr(down, "post"), "store");
    look_at_buffer(down, "Y", BUF_EXPERTS);
    look_at_buffer(combine, "Y", BUF_EXPERTS);
    look_at_buffer(combine, "X", BUF_X);
    assert_near(op_find_param(combine, "scale")->f, 0.5, 0);
}

static void test_without_norm(void **state)
{
    struct fake *f = *state;
    f->layer_weights.router.has_norm = false;
    oplist_moe(&f->list, &f->p, DGL_PHASE_DECODE, 0, BUF_X);
    look_at_labels(&f->list, "router moe_route experts_gate_up experts_gate_up experts_down");
    look_at_buffer(look_op(&f->list, "router", 0, 0), "X", BUF_X);
    look_at_buffer(look_op(&f->list, "experts_gate_up", 0, 0), "X", BUF_X);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order), cmocka_unit_test(test_route), CASE(test_experts),
        CASE(test_prefill),           CASE(test_without_norm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
