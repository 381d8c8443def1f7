/* Operation lists of a described model, without a device: the operations, their order, their inputs
 * and outputs. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/mem.h"
#include "core/plan/oplist_sample.h"
#include "tests/support/oplist_look.h"

/* A model of 2 layers without data. Weights are identified by their ids. */
struct fake {
    struct model_desc desc;
    struct model_weights weights;
    struct layer_weights layer[2];
    struct layer_desc layers[2];
    struct weight_band embed[3], qkv[2], one[6];
    struct kv_layout kv;
    struct oplist_params p;
    struct oplist list;
};

static struct weight weight_of(struct weight_band *bands, uint32_t num_bands, uint64_t rows,
                               uint64_t cols, enum dgl_dtype dtype)
{
    static uint32_t id;
    for (uint32_t i = 0; i < num_bands; i++) {
        uint32_t take = (uint32_t)(rows / num_bands);
        bands[i] = (struct weight_band){
            .dtype = dtype,
            .row0 = i * take,
            .rows = i + 1 < num_bands ? take : (uint32_t)rows - i * take,
            .row_words = (uint32_t)cols / 2,
            .layout = weight_layout_find(dtype, dtype == DGL_Q8_0 ? "split" : "native"),
            .place = {.size = rows * cols * 2}};
    }
    return (struct weight){.id = id++,
                           .rows = rows,
                           .cols = cols,
                           .bands = bands,
                           .num_bands = num_bands,
                           .band_bias = TENSOR_NONE};
}

static void fake_init(struct fake *f, uint32_t embed_bands)
{
    *f =
        (struct fake){.desc = {.layers = 2,
                               .hidden = 64,
                               .intermediate = 96,
                               .vocab = 300,
                               .heads = 4,
                               .kv_heads = 2,
                               .head_dim = 16,
                               .norm_eps = 1e-5,
                               .attn_scale = 0.25,
                               .embed_scale = 1,
                               .residual_scale = 1,
                               .logit_scale = 1,
                               .rope = {[ROPE_GLOBAL] = {.dims = 16, .theta = 10000, .scale = 1}}}};
    f->weights.layer = f->layer;
    f->weights.num_layers = 2;
    f->weights.embed = weight_of(f->embed, embed_bands, 300, 64, DGL_BF16);
    f->weights.head = f->weights.embed;
    f->weights.head.vector = 77;
    f->weights.head.has_norm = true;
    f->desc.layer = f->layers;
    for (int i = 0; i < 2; i++) {
        f->layer[i].qkv = weight_of(&f->qkv[i], 1, 128, 64, DGL_BF16);
        f->layer[i].o = weight_of(&f->one[3 * i], 1, 64, 64, DGL_F16);
        f->layer[i].gate_up = weight_of(&f->one[3 * i + 1], 1, 192, 64, DGL_Q4_K);
        f->layer[i].down = weight_of(&f->one[3 * i + 2], 1, 64, 96, DGL_Q8_0);
        f->layer[i].qkv.vector = 100 + (uint32_t)i;
        f->layer[i].gate_up.vector = 200 + (uint32_t)i;
        f->layer[i].qkv.has_norm = f->layer[i].gate_up.has_norm = true;
    }
    kv_layout_init(&f->kv, &f->desc, DGL_KV_F16, false);
    f->p =
        (struct oplist_params){.desc = &f->desc, .weights = &f->weights, .kv = &f->kv, .splits = 1};
}

static int setup(void **state)
{
    *state = checked(dgl_new(struct fake));
    fake_init(*state, 1);
    return 0;
}

static int teardown(void **state)
{
    struct fake *f = *state;
    oplist_finish(&f->list);
    free(f);
    return 0;
}

/* ---- order ----------------------------------------------------------------------------------- */

#define PREFILL_LAYER " attn_norm qkv rope_kv attn_prefill o ffn_norm gate_up down"
#define DECODE_LAYER  " qkv attn_decode o gate_up down"
#define SPLIT_LAYER   " qkv attn_decode attn_merge o gate_up down"

static void test_prefill_order(void **state)
{
    struct fake *f = *state;
    oplist_prefill_body(&f->list, &f->p);
    look_at_labels(&f->list, "embed" PREFILL_LAYER PREFILL_LAYER);
}

static void test_decode_order(void **state)
{
    struct fake *f = *state;
    oplist_decode_body(&f->list, &f->p);
    oplist_head(&f->list, &f->p, DGL_PHASE_DECODE);
    look_at_labels(&f->list, "embed" DECODE_LAYER DECODE_LAYER " head");
}

static void test_split_decode_order(void **state)
{
    struct fake *f = *state;
    f->p.splits = 8;
    oplist_decode_body(&f->list, &f->p);
    look_at_labels(&f->list, "embed" SPLIT_LAYER SPLIT_LAYER);
    assert_int_equal(look_const(look_op(&f->list, "attn_decode", 0, 0), "SPLITS"), 8);
    assert_int_equal(look_const(look_op(&f->list, "attn_merge", 1, 0), "SPLITS"), 8);
    look_at_buffer(look_op(&f->list, "attn_merge", 1, 0), "P", BUF_ATT);
    look_at_buffer(look_op(&f->list, "attn_merge", 1, 0), "O", BUF_MERGED);
    look_at_buffer(look_op(&f->list, "o", 1, 0), "X", BUF_MERGED);
}

static void test_split_prefill_has_no_merge(void **state)
{
    struct fake *f = *state;
    f->p.splits = 8;
    oplist_prefill_body(&f->list, &f->p);
    look_at_labels(&f->list, "embed" PREFILL_LAYER PREFILL_LAYER);
    look_at_buffer(look_op(&f->list, "o", 0, 0), "X", BUF_ATT);
}

static void test_score_order(void **state)
{
    struct fake *f = *state;
    oplist_hidden(&f->list, &f->p);
    oplist_score(&f->list, &f->p);
    look_at_labels(&f->list, "final_norm head_all");
    look_at_buffer(&f->list.ops[0], "Y", BUF_NORMED);
    look_at_buffer(&f->list.ops[1], "X", BUF_NORMED);
    look_at_buffer(&f->list.ops[1], "Y", BUF_ALL_LOGITS);
    assert_string_equal(look_attr(&f->list.ops[1], "phase"), "prefill");
    assert_int_equal(look_const(&f->list.ops[1], "X_LAST"), 0);
}

struct sampler {
    const char *name;
    enum sample_kind kind;
    const char *labels, *kind_word;
};

static const struct sampler samplers[] = {
    {"greedy", SAMPLE_GREEDY, "sample_max sample_pick", "greedy"},
    {"top-k", SAMPLE_TOPK, "sample_topk sample_pick", "topk"},
    {"full", SAMPLE_FULL,
     "sample_max sample_hist sample_hist sample_hist sample_mass sample_find sample_pick", "full"},
};

static void test_sampler(void **state)
{
    const struct sampler *row = *state;
    struct fake f;
    fake_init(&f, 1);
    oplist_sample(&f.list, &f.p, row->kind);
    look_at_labels(&f.list, row->labels);
    for (size_t i = 0; i < f.list.count; i++) {
        assert_string_equal(look_attr(&f.list.ops[i], "kind"), row->kind_word);
        assert_int_equal(look_const(&f.list.ops[i], "VOCAB"), 300);
        assert_int_equal(f.list.ops[i].phase, DGL_PHASE_SAMPLE);
    }
    oplist_finish(&f.list);
}

static void test_histogram_levels(void **state)
{
    struct fake *f = *state;
    oplist_sample(&f->list, &f->p, SAMPLE_FULL);
    for (int i = 0; i < 3; i++)
        assert_int_equal(look_const(look_op(&f->list, "sample_hist", -1, i), "LEVEL"), i);
    assert_int_equal(look_const(look_op(&f->list, "sample_max", -1, 0), "LEVEL"), -1);
}

static void test_adjustments_and_idle(void **state)
{
    struct fake *f = *state;
    oplist_adjust(&f->list, &f->p);
    oplist_early_exit(&f->list);
    look_at_labels(&f->list, "sample_adjust sample_args");
    assert_true(op_find_param(&f->list.ops[1], "count")->is_op_count);
    look_at_buffer(&f->list.ops[1], "ARGS", BUF_ARGS);
}

/* ---- inputs of an operation ---------------------------------------------------------------------
 */

struct product {
    const char *name, *label;
    bool prefill;
    const char *weight, *pre, *post;
    int64_t k, n, x_stride, y_stride;
    enum plan_buffer x, y;
};

static const struct product products[] = {
    {"qkv in decode", "qkv", false, "bf16", "norm", "store", 64, 128, 64, 128, BUF_X, BUF_QKV},
    {"o in decode", "o", false, "f16", "none", "add", 64, 64, 64, 64, BUF_ATT, BUF_X},
    {"gate_up in decode", "gate_up", false, "q4_k", "norm", "glu", 64, 192, 64, 96, BUF_X, BUF_ACT},
    {"down in decode", "down", false, "q8_0", "none", "add", 96, 64, 96, 64, BUF_ACT, BUF_X},
    {"qkv in prefill", "qkv", true, "bf16", "none", "store", 64, 128, 64, 128, BUF_NORMED, BUF_QKV},
    {"o in prefill", "o", true, "f16", "none", "add", 64, 64, 64, 64, BUF_ATT, BUF_X},
    {"gate_up in prefill", "gate_up", true, "q4_k", "none", "glu", 64, 192, 64, 96, BUF_NORMED,
     BUF_ACT},
    {"down in prefill", "down", true, "q8_0", "none", "add", 96, 64, 96, 64, BUF_ACT, BUF_X},
};

static void test_product(void **state)
{
    const struct product *row = *state;
    struct fake f;
    fake_init(&f, 1);
    if (row->prefill)
        oplist_prefill_body(&f.list, &f.p);
    else
        oplist_decode_body(&f.list, &f.p);
    for (int32_t layer = 0; layer < 2; layer++) {
        const struct op *op = look_op(&f.list, row->label, layer, 0);
        assert_string_equal(op->request.op, "matmul");
        assert_string_equal(look_attr(op, "weight"), row->weight);
        assert_string_equal(look_attr(op, "phase"), row->prefill ? "prefill" : "decode");
        assert_string_equal(look_attr(op, "pre"), row->pre);
        assert_string_equal(look_attr(op, "post"), row->post);
        assert_string_equal(look_attr(op, "act"),
                            strcmp(row->post, "glu") == 0 ? "silu" : "(none)");
        assert_int_equal(look_const(op, "K"), row->k);
        assert_int_equal(look_const(op, "N"), row->n);
        assert_int_equal(look_const(op, "X_STRIDE"), row->x_stride);
        assert_int_equal(look_const(op, "Y_STRIDE"), row->y_stride);
        look_at_buffer(op, "X", row->x);
        look_at_buffer(op, "Y", row->y);
        assert_int_equal(op_find_param(op, "row0")->u, 0);
        assert_int_equal(op_find_param(op, "rows")->u, row->n);
        assert_int_equal(op->bytes, (uint64_t)row->n * (uint64_t)row->k * 2);
        assert_int_equal(look_ref(op, "W").kind, REF_WEIGHT);
    }
    oplist_finish(&f.list);
}

static void test_gains_go_to_their_products(void **state)
{
    struct fake *f = *state;
    oplist_decode_body(&f->list, &f->p);
    oplist_head(&f->list, &f->p, DGL_PHASE_DECODE);
    for (int32_t i = 0; i < 2; i++) {
        assert_int_equal(op_find_bind(look_op(&f->list, "qkv", i, 0), "A")->ref.id, 100 + i);
        assert_int_equal(op_find_bind(look_op(&f->list, "gate_up", i, 0), "A")->ref.id, 200 + i);
    }
    assert_int_equal(op_find_bind(look_op(&f->list, "head", -1, 0), "A")->ref.id, 77);
    assert_near(op_find_param(look_op(&f->list, "head", -1, 0), "eps")->f, 1e-5, 1e-12);
}

static void test_head_takes_the_last_row(void **state)
{
    struct fake *f = *state;
    oplist_head(&f->list, &f->p, DGL_PHASE_DECODE);
    assert_int_equal(look_const(&f->list.ops[0], "X_LAST"), 1);
    assert_string_equal(look_attr(&f->list.ops[0], "phase"), "decode");
    look_at_buffer(&f->list.ops[0], "Y", BUF_LOGITS);
}

static void test_attention(void **state)
{
    (void)state;
    static const enum dgl_kv_type types[] = {DGL_KV_F16, DGL_KV_F32};
    for (int i = 0; i < 2; i++) {
        struct fake f;
        fake_init(&f, 1);
        kv_layout_init(&f.kv, &f.desc, types[i], false);
        oplist_decode_body(&f.list, &f.p);
        oplist_prefill_body(&f.list, &f.p);
        static const char *const labels[] = {"attn_decode", "rope_kv", "attn_prefill"};
        for (int j = 0; j < 3; j++) {
            const struct op *op = look_op(&f.list, labels[j], 1, 0);
            assert_string_equal(look_attr(op, "kv_k"), types[i] == DGL_KV_F16 ? "f16" : "f32");
            assert_string_equal(look_attr(op, "kv_v"), types[i] == DGL_KV_F16 ? "f16" : "f32");
            assert_int_equal(look_const(op, "HEADS"), 4);
            assert_int_equal(look_const(op, "KV_HEADS"), 2);
            assert_int_equal(look_const(op, "HEAD_DIM"), 16);
            assert_int_equal(look_const(op, "CONTEXT"), -1); /* no session has its own programs */
            assert_int_equal(look_ref(op, "KV").kind, REF_KV);
            assert_int_equal(look_ref(op, "KV").id, 1); /* of its layer */
        }
        oplist_finish(&f.list);
    }
}

static void test_bands_become_operations(void **state)
{
    struct fake *f = *state;
    fake_init(f, 3);
    oplist_decode_body(&f->list, &f->p);
    oplist_head(&f->list, &f->p, DGL_PHASE_DECODE);
    look_at_labels(&f->list, "embed embed embed" DECODE_LAYER DECODE_LAYER " head head head");
    for (int i = 0; i < 3; i++) {
        const struct op *embed = look_op(&f->list, "embed", -1, i),
                        *head = look_op(&f->list, "head", -1, i);
        assert_int_equal(op_find_param(embed, "row0")->u, 100 * i);
        assert_int_equal(op_find_param(embed, "rows")->u, 100);
        assert_int_equal(op_find_param(head, "row0")->u, 100 * i);
        assert_int_equal(op_find_bind(head, "W")->ref.id,
                         op_find_bind(embed, "W")->ref.id); /* tied */
        assert_int_equal(look_const(head, "N"), 300);       /* of all bands */
    }
}

static void test_embed_reads_one_row(void **state)
{
    struct fake *f = *state;
    oplist_decode_body(&f->list, &f->p);
    assert_int_equal(f->list.ops[0].bytes, 64 * 2);
    look_at_buffer(&f->list.ops[0], "IDS", BUF_IDS);
    assert_near(op_find_param(&f->list.ops[0], "scale")->f, 1, 0);
}

static void test_layout_is_asked_for(void **state)
{
    struct fake *f = *state;
    oplist_decode_body(&f->list, &f->p);
    assert_string_equal(look_attr(look_op(&f->list, "down", 0, 0), "layout"), "split");
    assert_string_equal(look_attr(look_op(&f->list, "qkv", 0, 0), "layout"), "native");
}

static void test_unknown_names(void **state)
{
    struct fake *f = *state;
    oplist_decode_body(&f->list, &f->p);
    assert_null(op_find_bind(&f->list.ops[0], "Q"));
    assert_null(op_find_param(&f->list.ops[0], "row"));
    oplist_finish(&f->list);
    assert_int_equal(f->list.count, 0);
}

/* ---- parts that only some families have ------------------------------------------------------ */

/* Norms around attention and MLP, as Gemma has them. */
static void test_sandwich_norms(void **state)
{
    struct fake *f = *state;
    for (int i = 0; i < 2; i++) {
        f->layer[i].attn_post_norm = 300;
        f->layer[i].ffn_post_norm = 400;
    }
    oplist_decode_body(&f->list, &f->p);
#define SANDWICH " qkv attn_decode o attn_post_norm gate_up down ffn_post_norm"
    look_at_labels(&f->list, "embed" SANDWICH SANDWICH);
    const struct op *o = look_op(&f->list, "o", 0, 0),
                    *norm = look_op(&f->list, "attn_post_norm", 0, 0);
    assert_string_equal(look_attr(o, "post"), "store");
    look_at_buffer(o, "Y", BUF_NORMED);
    assert_string_equal(look_attr(norm, "post"), "add");
    look_at_buffer(norm, "X", BUF_NORMED);
    look_at_buffer(norm, "Y", BUF_X);
    assert_int_equal(op_find_bind(norm, "G")->ref.id, 300);
}

/* Without a norm before a block, as in OLMo 2, products read the residual stream. */
static void test_no_norm_in_front(void **state)
{
    struct fake *f = *state;
    f->layer[0].qkv.has_norm = f->layer[1].qkv.has_norm = false;
    oplist_prefill_body(&f->list, &f->p);
    const struct op *qkv = look_op(&f->list, "qkv", 0, 0);
    assert_string_equal(look_attr(qkv, "pre"), "none");
    look_at_buffer(qkv, "X", BUF_X);
    assert_string_equal(f->list.ops[1].label, "qkv");
}

static void test_biases_lie_behind_gains(void **state)
{
    struct fake *f = *state;
    f->layer[0].qkv.has_bias = f->layer[0].o.has_bias = true;
    f->layer[0].o.vector = 500;
    oplist_prefill_body(&f->list, &f->p);
    const struct op *qkv = look_op(&f->list, "qkv", 0, 0), *o = look_op(&f->list, "o", 0, 0);
    assert_string_equal(look_attr(qkv, "bias"), "row");
    assert_int_equal(look_const(qkv, "BIAS_AT"), 64);
    assert_int_equal(op_find_bind(qkv, "A")->ref.id, 100);
    assert_int_equal(look_const(o, "BIAS_AT"), 0);
    assert_int_equal(op_find_bind(o, "A")->ref.id, 500);
    assert_string_equal(look_attr(look_op(&f->list, "qkv", 1, 0), "bias"), "none");
}

static void test_windows_sinks_and_positions(void **state)
{
    struct fake *f = *state;
    f->p.splits = 2;
    f->desc.rope[ROPE_LOCAL] = (struct rope_desc){.dims = 8, .scale = 1.5};
    f->desc.attn_softcap = 50;
    f->layers[0] = (struct layer_desc){.window = 20, .rope = ROPE_LOCAL};
    f->layers[1] = (struct layer_desc){.rope = ROPE_NONE};
    f->layer[1].sinks = 600;
    oplist_decode_body(&f->list, &f->p);
    const struct op *local = look_op(&f->list, "attn_decode", 0, 0);
    const struct op *none = look_op(&f->list, "attn_decode", 1, 0);
    assert_int_equal(look_const(local, "WINDOW"), 20);
    assert_int_equal(look_const(local, "SOFTCAP"), 1);
    assert_int_equal(look_const(local, "ROPE_DIMS"), 8);
    look_at_buffer(local, "ROPE", BUF_ROPE_LOCAL);
    assert_near(op_find_param(local, "rope_scale")->f, 1.5, 0);
    assert_int_equal(look_const(none, "WINDOW"), 0);
    assert_int_equal(look_const(none, "ROPE_DIMS"), 0);
    assert_string_equal(look_attr(look_op(&f->list, "attn_merge", 0, 0), "sinks"), "none");
    assert_string_equal(look_attr(look_op(&f->list, "attn_merge", 1, 0), "sinks"), "head");
}

static void test_scales_and_caps(void **state)
{
    struct fake *f = *state;
    f->desc.residual_scale = 0.25;
    f->desc.logit_scale = 0.5;
    f->desc.logit_softcap = 30;
    f->desc.act = MODEL_ACT_GELU_TANH;
    oplist_decode_body(&f->list, &f->p);
    oplist_head(&f->list, &f->p, DGL_PHASE_DECODE);
    const struct op *down = look_op(&f->list, "down", 0, 0),
                    *head = look_op(&f->list, "head", -1, 0);
    assert_int_equal(look_const(down, "SCALED"), 1);
    assert_near(op_find_param(down, "out_scale")->f, 0.25, 0);
    assert_int_equal(look_const(look_op(&f->list, "qkv", 0, 0), "SCALED"), 0);
    assert_string_equal(look_attr(look_op(&f->list, "gate_up", 0, 0), "act"), "gelu");
    assert_string_equal(look_attr(head, "post"), "softcap");
    assert_near(op_find_param(head, "out_scale")->f, 0.5, 0);
    assert_near(op_find_param(head, "softcap")->f, 30, 0);
}

static void test_query_and_key_norms(void **state)
{
    struct fake *f = *state;
    struct weight_vector vectors[] = {{0}, {.count = 2 * 16}, {.count = (4 + 2) * 16}};
    f->weights.vectors = vectors;
    f->layer[0].qk_norm = 1;
    f->layer[1].qk_norm = 2;
    oplist_prefill_body(&f->list, &f->p);
    assert_string_equal(look_attr(look_op(&f->list, "qk_norm", 0, 0), "span"), "head");
    assert_string_equal(look_attr(look_op(&f->list, "qk_norm", 1, 0), "span"), "all");
    assert_string_equal(f->list.ops[3].label, "qk_norm");
    assert_string_equal(f->list.ops[4].label, "rope_kv");
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_prefill_order),
        CASE(test_decode_order),
        CASE(test_split_decode_order),
        CASE(test_split_prefill_has_no_merge),
        CASE(test_score_order),
        CASE(test_histogram_levels),
        CASE(test_adjustments_and_idle),
        CASE(test_gains_go_to_their_products),
        CASE(test_head_takes_the_last_row),
        cmocka_unit_test(test_attention),
        CASE(test_bands_become_operations),
        CASE(test_embed_reads_one_row),
        CASE(test_layout_is_asked_for),
        CASE(test_unknown_names),
        CASE(test_sandwich_norms),
        CASE(test_no_norm_in_front),
        CASE(test_biases_lie_behind_gains),
        CASE(test_windows_sinks_and_positions),
        CASE(test_scales_and_caps),
        CASE(test_query_and_key_norms),
    };
    int failures = test_run_table("samplers", test_sampler, samplers);
    failures += test_run_table("products", test_product, products);
    return failures + cmocka_run_group_tests(tests, NULL, NULL);
}
