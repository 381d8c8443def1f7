/* The operations of a layer of experts, without any device: which they are, in which order, from
 * where to where. */
#include "core/oplist_moe.h"
#include "tests/support/test.h"

/* One layer of 6 experts in numbers only. */
struct fake {
    struct model_desc desc;
    struct layer_desc layer;
    struct model_weights weights;
    struct layer_weights layer_weights;
    struct weight_band router, gate_up[2], down;
    struct weight_layouts layouts;
    struct oplist_params p;
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
    for (int i = 0; i < DGL_DTYPE_COUNT; i++)
        strcpy(f->layouts.name[i], "native");
    f->router = (struct weight_band){.dtype = DGL_BF16, .rows = 6, .row_words = 32};
    f->gate_up[0] = (struct weight_band){
        .dtype = DGL_Q8_0, .rows = 400, .row_words = 17, .range = {.offset = 256, .size = 6000}};
    f->gate_up[1] =
        (struct weight_band){.dtype = DGL_Q8_0, .row0 = 400, .rows = 176, .row_words = 17};
    f->down = (struct weight_band){.dtype = DGL_F16, .rows = 384, .row_words = 24};
    f->layer_weights.router = (struct weight){.rows = 6,
                                              .cols = 64,
                                              .bands = &f->router,
                                              .num_bands = 1,
                                              .has_gain = true,
                                              .vectors = {.offset = 77}};
    f->layer_weights.expert_gate_up = (struct weight){
        .rows = 576, .cols = 64, .bands = f->gate_up, .num_bands = 2, .bias_behind = true};
    f->layer_weights.expert_down =
        (struct weight){.rows = 384, .cols = 48, .bands = &f->down, .num_bands = 1};
    f->desc.layer = &f->layer;
    f->weights.layer = &f->layer_weights;
    f->p = (struct oplist_params){.desc = &f->desc, .weights = &f->weights, .layouts = &f->layouts};
}

static const char *attr(const struct op *op, const char *key)
{
    for (uint32_t i = 0; i < op->request.num_attrs; i++)
        if (strcmp(op->request.attrs[i].key, key) == 0)
            return op->request.attrs[i].word;
    return "(none)";
}

static int64_t constant(const struct op *op, const char *name)
{
    for (uint32_t i = 0; i < op->request.num_consts; i++)
        if (strcmp(op->request.consts[i].name, name) == 0)
            return op->request.consts[i].value;
    return -1;
}

static const struct op *find(const struct oplist *list, const char *label, int n)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->ops[i].label, label) == 0 && n-- == 0)
            return &list->ops[i];
    fail_msg("no operation %s", label);
    return NULL;
}

static void check_labels(const struct oplist *list, const char *want)
{
    char got[512] = "";
    for (size_t i = 0, len = 0; i < list->count; i++)
        len += (size_t)snprintf(got + len, sizeof(got) - len, "%s%s", i ? " " : "",
                                list->ops[i].label);
    assert_string_equal(got, want);
}

static void test_order(void **state)
{
    (void)state;
    struct fake f;
    struct oplist decode = {0}, prefill = {0};
    fake_init(&f);
    oplist_moe(&decode, &f.p, DGL_PHASE_DECODE, 0);
    check_labels(&decode, "ffn_norm router moe_route experts_gate_up experts_gate_up experts_down");
    oplist_moe(&prefill, &f.p, DGL_PHASE_PREFILL, 0);
    check_labels(&prefill, "ffn_norm router moe_route moe_group experts_gate_up experts_gate_up "
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
        struct oplist list = {0};
        fake_init(&f);
        f.desc.moe.scoring = (enum moe_scoring)(MOE_TOPK_SOFTMAX + i);
        oplist_moe(&list, &f.p, DGL_PHASE_DECODE, 0);
        const struct op *route = find(&list, "moe_route", 0), *router = find(&list, "router", 0);
        assert_string_equal(attr(route, "scoring"), words[i]);
        assert_int_equal(constant(route, "E"), 6);
        assert_int_equal(constant(route, "TOP_K"), 2);
        assert_int_equal(constant(route, "L_STRIDE"), 8); /* a multiple of 4 */
        assert_int_equal(constant(router, "Y_STRIDE"), 8);
        assert_string_equal(attr(router, "pre"), "none");
        assert_int_equal(op_find_bind(router, "X")->slot, SLOT_NORMED);
        assert_int_equal(op_find_bind(router, "Y")->slot, SLOT_ROUTER);
        assert_int_equal(op_find_bind(find(&list, "ffn_norm", 0), "G")->fixed.offset, 77);
        oplist_finish(&list);
    }
}

static void test_experts(void **state)
{
    (void)state;
    struct fake f;
    struct oplist list = {0};
    fake_init(&f);
    oplist_moe(&list, &f.p, DGL_PHASE_DECODE, 0);
    const struct op *first = find(&list, "experts_gate_up", 0);
    const struct op *second = find(&list, "experts_gate_up", 1);
    const struct op *down = find(&list, "experts_down", 0);
    assert_string_equal(attr(first, "act"), "swiglu_clamp");
    assert_string_equal(attr(first, "bias"), "row");
    assert_string_equal(attr(first, "weight"), "q8_0");
    assert_string_equal(attr(first, "post"), "glu");
    assert_int_equal(constant(first, "EXPERT_ROWS"), 96);
    assert_int_equal(constant(first, "Y_STRIDE"), 48);
    assert_int_equal(op_find_param(second, "row0")->u, 400);
    assert_int_equal(op_find_param(second, "rows")->u, 176);
    assert_near(op_find_param(first, "act_alpha")->f, 1.5, 0);
    assert_near(op_find_param(first, "act_limit")->f, 7, 0);
    assert_int_equal(first->bytes, 2000); /* two experts' part of the band */
    assert_string_equal(attr(down, "post"), "combine");
    assert_string_equal(attr(down, "bias"), "none");
    assert_string_equal(attr(down, "act"), "none");
    assert_int_equal(constant(down, "EXPERT_ROWS"), 64);
    assert_int_equal(op_find_bind(down, "X")->slot, SLOT_ACT);
    assert_int_equal(op_find_bind(down, "Y")->slot, SLOT_X);
    assert_near(op_find_param(down, "scale")->f, 0.5, 0);
    oplist_finish(&list);
}

static void test_prefill(void **state)
{
    (void)state;
    struct fake f;
    struct oplist list = {0};
    fake_init(&f);
    f.desc.act = MODEL_ACT_SILU;
    oplist_moe(&list, &f.p, DGL_PHASE_PREFILL, 0);
    const struct op *gate_up = find(&list, "experts_gate_up", 0);
    const struct op *down = find(&list, "experts_down", 0);
    const struct op *combine = find(&list, "moe_combine", 0);
    assert_string_equal(attr(gate_up, "act"), "silu");
    assert_string_equal(attr(gate_up, "phase"), "prefill");
    assert_int_equal(op_find_bind(gate_up, "LIST")->slot, SLOT_LIST);
    assert_null(op_find_bind(gate_up, "ROUTE"));
    assert_int_equal(gate_up->bytes, 6000);
    assert_string_equal(attr(down, "post"), "store");
    assert_int_equal(op_find_bind(down, "Y")->slot, SLOT_EXPERTS);
    assert_int_equal(op_find_bind(combine, "Y")->slot, SLOT_EXPERTS);
    assert_int_equal(op_find_bind(combine, "X")->slot, SLOT_X);
    assert_near(op_find_param(combine, "scale")->f, 0.5, 0);
    oplist_finish(&list);
}

static void test_without_norm(void **state)
{
    (void)state;
    struct fake f;
    struct oplist list = {0};
    fake_init(&f);
    f.layer_weights.router.has_gain = false;
    oplist_moe(&list, &f.p, DGL_PHASE_DECODE, 0);
    check_labels(&list, "router moe_route experts_gate_up experts_gate_up experts_down");
    assert_int_equal(op_find_bind(find(&list, "router", 0), "X")->slot, SLOT_X);
    assert_int_equal(op_find_bind(find(&list, "experts_gate_up", 0), "X")->slot, SLOT_X);
    oplist_finish(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),        cmocka_unit_test(test_route),
        cmocka_unit_test(test_experts),      cmocka_unit_test(test_prefill),
        cmocka_unit_test(test_without_norm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
