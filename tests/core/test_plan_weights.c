/* Types, layouts and bands of weights by kernels and hints, without a device: mixed checkpoints,
 * and weights shared by two placements of one model. */
#include "tests/support/kernel_sets.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "tests/support/oplist_look.h"
#include "tests/support/planned.h"

#define CONFIG "tests/models/configs/llama-3.2-1b.json"
enum { HIDDEN = 2048, INNER = 8192, Q_ROWS = 2048, KV_ROWS = 512 };

static struct kernel_set *builtin;

/* ---- mixed checkpoints ----------------------------------------------------------------------- */

struct mixed_band {
    enum dgl_dtype dtype;
    const char *layout;
    uint32_t rows;
};

struct mixed {
    const char *name;
    struct shape_type types[4];
    const char *label; /* of the operation */
    size_t weight;     /* offset in struct layer_weights */
    struct mixed_band bands[3];
    const char *notice;
};

#define QKV     "qkv", offsetof(struct layer_weights, qkv)
#define GATE_UP "gate_up", offsetof(struct layer_weights, gate_up)
#define DOWN    "down", offsetof(struct layer_weights, down)
#define Q       "q_proj.weight"
#define K       "k_proj.weight"
#define V       "v_proj.weight"
#define GATE    "gate_proj.weight"
#define UP      "up_proj.weight"

static const struct mixed mixed[] = {
    {"one type, one band",
     {{Q, DGL_Q4_K}, {K, DGL_Q4_K}, {V, DGL_Q4_K}},
     QKV,
     {{DGL_Q4_K, "split", Q_ROWS + 2 * KV_ROWS}},
     NULL},
    {"v more precise",
     {{Q, DGL_Q4_K}, {K, DGL_Q4_K}, {V, DGL_Q6_K}},
     QKV,
     {{DGL_Q4_K, "split", Q_ROWS + KV_ROWS}, {DGL_Q6_K, "split", KV_ROWS}},
     NULL},
    {"three types",
     {{Q, DGL_Q4_0}, {K, DGL_Q5_K}, {V, DGL_Q8_0}},
     QKV,
     {{DGL_Q4_0, "split", Q_ROWS}, {DGL_Q5_K, "native", KV_ROWS}, {DGL_Q8_0, "split", KV_ROWS}},
     NULL},
    {"types of blocks of 32",
     {{Q, DGL_Q5_0}, {K, DGL_Q8_0}, {V, DGL_Q4_1}},
     QKV,
     {{DGL_Q5_0, "split", Q_ROWS}, {DGL_Q8_0, "split", KV_ROWS}, {DGL_Q4_1, "split", KV_ROWS}},
     NULL},
    {"q and v of one type, k of another",
     {{Q, DGL_Q4_K}, {K, DGL_Q6_K}, {V, DGL_Q4_K}},
     QKV,
     {{DGL_Q4_K, "split", Q_ROWS}, {DGL_Q6_K, "split", KV_ROWS}, {DGL_Q4_K, "split", KV_ROWS}},
     NULL},
    {"gate and up of one type",
     {{GATE, DGL_Q4_K}, {UP, DGL_Q4_K}},
     GATE_UP,
     {{DGL_Q4_K, "split", 2 * INNER}},
     NULL},
    {"gate and up differ: f16",
     {{GATE, DGL_Q4_K}, {UP, DGL_Q6_K}},
     GATE_UP,
     {{DGL_F16, "native", 2 * INNER}},
     "gate_proj.weight and model.layers.15.mlp.up_proj.weight have different formats: both are "
     "expanded to f16"},
    {"gate and up of type iq4_xs",
     {{GATE, DGL_IQ4_XS}, {UP, DGL_IQ4_XS}},
     GATE_UP,
     {{DGL_IQ4_XS, "split", 2 * INNER}},
     NULL},
    {"down", {{"down_proj.weight", DGL_Q2_K}}, DOWN, {{DGL_Q2_K, "split", HIDDEN}}, NULL},
};

static void check_band(const struct weight_band *got, const struct mixed_band *want, uint32_t row0)
{
    const char *got_type = dgl_dtype_get(got->dtype)->name;
    const char *want_type = dgl_dtype_get(want->dtype)->name;
    if (got->dtype != want->dtype || strcmp(got->layout->name, want->layout) != 0 ||
        got->row0 != row0 || got->rows != want->rows)
        fail_msg("band of %s %s, rows %u + %u; wanted %s %s, rows %u + %u", got_type,
                 got->layout->name, got->row0, got->rows, want_type, want->layout, row0,
                 want->rows);
}

/* Every layer has the bands, and one operation per band that requests its type and layout. */
static void test_mixed(void **state)
{
    const struct mixed *row = *state;
    struct planned p;
    uint32_t num_bands = 0;
    planned_open(&p, &(struct shape_model_params){.config = CONFIG, .types = row->types}, MADE_GPU,
                 builtin);
    while (num_bands < 3 && row->bands[num_bands].rows)
        num_bands++;
    for (int32_t layer = 0; layer < p.model.desc.layers; layer++) {
        const struct weight *weight =
            (const void *)((const char *)&p.weights.layer[layer] + row->weight);
        uint32_t row0 = 0;
        assert_int_equal(weight->num_bands, num_bands);
        for (uint32_t i = 0; i < num_bands; i++) {
            const struct weight_band *band = &weight->bands[i];
            check_band(band, &row->bands[i], row0);
            row0 += band->rows;
            for (int s = 0; s < 2; s++) {
                const struct pass_shape shape = s ? PASS_DECODE : PASS_PREFILL;
                const struct op *op =
                    look_op(&plan_body(&p.plan, shape)->ops, row->label, layer, (int)i);
                assert_string_equal(look_attr(op, "weight"), dgl_dtype_get(band->dtype)->name);
                assert_string_equal(look_attr(op, "layout"), band->layout->name);
                assert_int_equal(look_const(op, "W_STRIDE"), band->row_words);
                assert_int_equal(look_ref(op, "W").id, weight->id);
                assert_int_equal(look_ref(op, "W").part, i);
                assert_int_equal(op_weight_rows(op), band->rows);
            }
        }
        assert_int_equal(row0, weight->rows);
    }
    if (row->notice)
        assert_contains(p.log.text, row->notice);
    else
        assert_string_equal(p.log.text, "");
    planned_close(&p);
}

/* ---- narrow bindings ------------------------------------------------------------------------- */

enum { ROW_BYTES = HIDDEN / 256 * 144 }; /* of gate and up in q4_k */

struct narrow {
    const char *name;
    uint64_t binding;
    uint32_t num_bands, rows; /* of gate_up; the last band has the rest */
    const char *parts[1];     /* of a refusal */
};

static const struct narrow narrows[] = {
    {"all rows fit", 2 * INNER *ROW_BYTES, 1, 2 * INNER, {NULL}},
    {"a pair too many", 2 * INNER *ROW_BYTES - 16, 2, 2 * INNER - 2, {NULL}},
    {"an odd number fits: one less", 4097 * ROW_BYTES, 4, 4096, {NULL}},
    {"no row of the embedding fits",
     HIDDEN / 32 * 34 - 16,
     0,
     0,
     {"1 weight rows of 2176 bytes exceed the device's binding of 2160 bytes"}},
};

/* Bands of gate and up never part a pair. */
static void test_narrow(void **state)
{
    const struct narrow *row = *state;
    struct planned p;
    struct model_weights weights;
    planned_open(&p, &(struct shape_model_params){.config = CONFIG, .quantize = "q4_k_m"}, MADE_GPU,
                 builtin);
    p.device.limits.max_ssbo_bytes = row->binding;
    const struct plan_params place = planned_place_params(&p, builtin);
    enum dgl_status status = weights_place(&weights, &place);
    if (row->parts[0]) {
        assert_refusal(&p.log, status, DGL_ERR_UNSUPPORTED, row->parts);
    } else {
        const struct weight *m = &weights.layer[0].gate_up;
        uint32_t left = 2 * INNER;
        assert_int_equal(status, DGL_OK);
        assert_int_equal(m->num_bands, row->num_bands);
        for (uint32_t i = 0; i < m->num_bands; i++) {
            assert_int_equal(m->bands[i].rows, left < row->rows ? left : row->rows);
            left -= m->bands[i].rows;
        }
        assert_int_equal(left, 0);
    }
    weights_finish(&weights);
    planned_close(&p);
}

/* ---- neighbours ------------------------------------------------------------------------------ */

/* Weights that one operation reads in all layers share a buffer if they fit into one, even if other
 * weights are between them in the order of use. */
static void test_one_operation_one_buffer(void **state)
{
    (void)state;
    struct planned p;
    struct model_weights w;
    uint64_t end = 0;
    planned_open(&p, &(struct shape_model_params){.config = CONFIG, .quantize = "q4_k_m"}, MADE_GPU,
                 builtin);
    for (uint32_t i = 0; i < p.weights.num_layers; i++)
        end += p.weights.layer[i].gate_up.bands[0].place.size + 256;
    p.device.limits.max_ssbo_bytes = end; /* all of gate_up, but not all weights */
    const struct plan_params place = planned_place_params(&p, builtin);
    assert_int_equal(weights_place(&w, &place), DGL_OK);
    assert_true(w.num_buffers > 1);
    for (uint32_t i = 1; i < w.num_layers; i++) {
        const struct layer_weights *a = &w.layer[i - 1], *b = &w.layer[i];
        assert_int_equal(b->gate_up.bands[0].place.buffer, a->gate_up.bands[0].place.buffer);
        assert_int_equal(b->o.bands[0].place.buffer, a->o.bands[0].place.buffer);
        assert_true(b->gate_up.bands[0].place.offset >=
                    a->gate_up.bands[0].place.offset + a->gate_up.bands[0].place.size);
    }
    for (size_t i = 0; i < w.num_buffers; i++)
        assert_true(w.buffer_bytes[i] <= p.device.limits.max_ssbo_bytes);
    weights_finish(&w);
    planned_close(&p);
}

/* ---- the hint of q4_k ------------------------------------------------------------------------ */

struct held {
    const char *name, *hints;
    enum dgl_dtype dtype;
};

static const struct held held[] = {
    {"by default", NULL, DGL_Q4_K},
    {"packed", "{\"q4kMatmul\":\"fused_q4k\"}", DGL_Q4_K},
    {"as f16", "{\"q4kMatmul\":\"dequant_f16\"}", DGL_F16},
    {"as f32", "{\"q4kMatmul\":\"dequant_f32\"}", DGL_F32},
};

/* Matrices in q4_k change their type and bytes, all else keeps both. */
static void test_held(void **state)
{
    const struct held *row = *state;
    struct planned p;
    struct kernel_set *set = loaded_set(dgl_kernels_params(.hints = row->hints));
    planned_open(&p, &(struct shape_model_params){.config = CONFIG, .quantize = "q4_k_m"}, MADE_GPU,
                 set);
    for (size_t i = 0; i < p.weights.num_matrices; i++) {
        const struct weight *m = p.weights.matrices[i];
        const long tensor = p.weights.slices[m->first_slice].tensor;
        enum dgl_dtype stored = tensor_source_at(p.model.tensors, (size_t)tensor)->dtype;
        enum dgl_dtype want = stored == DGL_Q4_K ? row->dtype : stored;
        uint64_t row_bytes;
        assert_true(dgl_dtype_row_bytes(want, m->cols, &row_bytes));
        assert_int_equal(m->num_bands, 1);
        assert_string_equal(dgl_dtype_get(m->bands[0].dtype)->name, dgl_dtype_get(want)->name);
        assert_int_equal(m->bands[0].place.size, m->rows * row_bytes);
    }
    planned_close(&p);
    kernel_set_destroy(&set);
}

/* ---- two placements -------------------------------------------------------------------------- */

struct swap {
    const char *name, *before, *after; /* hints */
    size_t changed, kept;              /* buffers of the second placement */
};

/* q4_k apart from the rest; f16 in more buffers of 2 GiB. */
static const struct swap swaps[] = {
    {"as before", NULL, NULL, 0, 2},
    {"a hint that changes no weight", NULL, "{\"attentionPrefill\":\"tiled_small\"}", 0, 2},
    {"expanded to f16", NULL, "{\"q4kMatmul\":\"dequant_f16\"}", 1, 1},
    {"expanded to f32", NULL, "{\"q4kMatmul\":\"dequant_f32\"}", 2, 1},
    {"packed again", "{\"q4kMatmul\":\"dequant_f32\"}", NULL, 1, 1},
    {"from f16 to f32", "{\"q4kMatmul\":\"dequant_f16\"}", "{\"q4kMatmul\":\"dequant_f32\"}", 2, 1},
};

/* Buffers of q4_k change as a whole, all others are the same. */
static void test_swap(void **state)
{
    const struct swap *row = *state;
    struct planned p;
    struct model_weights then;
    struct kernel_set *before = loaded_set(dgl_kernels_params(.hints = row->before));
    struct kernel_set *after = loaded_set(dgl_kernels_params(.hints = row->after));
    planned_open(&p, &(struct shape_model_params){.config = CONFIG, .quantize = "q4_k_m"}, MADE_GPU,
                 before);
    const struct plan_params place = planned_place_params(&p, after);
    assert_int_equal(weights_place(&then, &place), DGL_OK);
    size_t kept = 0;
    for (size_t i = 0; i < then.num_buffers; i++) {
        size_t same = weights_same_buffer(&p.weights, &then, i);
        kept += same != SIZE_MAX;
        if (same != SIZE_MAX) {
            assert_true(same < p.weights.num_buffers);
            assert_int_equal(weights_same_buffer(&then, &p.weights, same), i);
        }
    }
    assert_int_equal(kept, row->kept);
    assert_int_equal(then.num_buffers - kept, row->changed);
    weights_finish(&then);
    planned_close(&p);
    kernel_set_destroy(&before);
    kernel_set_destroy(&after);
}

/* One difference in one band. */
static void test_what_differs_is_not_the_same(void **state)
{
    (void)state;
    static const struct weight_layout turned = {.dtype = DGL_Q4_K, .name = "turned"};
    struct planned p;
    struct model_weights then;
    planned_open(&p, &(struct shape_model_params){.config = CONFIG, .quantize = "q4_k_m"}, MADE_GPU,
                 builtin);
    const struct plan_params place = planned_place_params(&p, builtin);
    assert_int_equal(weights_place(&then, &place), DGL_OK);
    struct weight_band *band = then.layer[7].gate_up.bands;
    struct weight_vector *vector = &then.vectors[then.num_vectors - 1];
    const size_t in = band->place.buffer, vectors = vector->place.buffer;
    assert_int_equal(weights_same_buffer(&p.weights, &then, in), in);
    const struct weight_layout *layout = band->layout;
    band->layout = &turned;
    assert_true(weights_same_buffer(&p.weights, &then, in) == SIZE_MAX);
    band->layout = layout;
    band->place.offset += 256;
    assert_true(weights_same_buffer(&p.weights, &then, in) == SIZE_MAX);
    band->place.offset -= 256;
    band->place.buffer = (uint32_t)vectors; /* at another place: neither buffer is the same */
    assert_true(weights_same_buffer(&p.weights, &then, in) == SIZE_MAX);
    assert_true(weights_same_buffer(&p.weights, &then, vectors) == SIZE_MAX);
    band->place.buffer = (uint32_t)in;
    vector->place.offset += 16;
    assert_true(weights_same_buffer(&p.weights, &then, vectors) == SIZE_MAX);
    vector->place.offset -= 16;
    assert_int_equal(weights_same_buffer(&p.weights, &then, in), in);
    assert_int_equal(weights_same_buffer(&p.weights, &then, vectors), vectors);
    weights_finish(&then);
    planned_close(&p);
}

/* A kernel with a LAYOUT that no type can be packed in is refused: it would be chosen, and its
 * weights could not be placed. */
static void test_unknown_layout_is_refused(void **state)
{
    (void)state;
    static const char *const parts[] = {"mine.comp: LAYOUT planes", "weights cannot be packed so",
                                        "known: split"};
    struct planned p;
    struct dgl_buf text = {0};
    const char *builtin_text = kernel_set_find(builtin, "matmul_decode")->text;
    const char *at = strstr(builtin_text, "//! PREFER 10");
    char *dir = test_tmpdir(), *path = checked(dgl_path_join(dir, "mine.comp"));
    assert_non_null(at);
    dgl_buf_append(&text, builtin_text, (size_t)(at - builtin_text));
    dgl_buf_puts(&text, "//! LAYOUT planes\n//! PREFER 99");
    dgl_buf_puts(&text, at + strlen("//! PREFER 10"));
    test_write_file(dir, "mine.comp", text.p, text.len);
    struct kernel_set *set =
        loaded_set(dgl_kernels_params(.files = (const char *const *)&path, .num_files = 1));
    planned_open(&p, &(struct shape_model_params){.config = CONFIG, .quantize = "q4_k_m"}, MADE_GPU,
                 builtin);
    const struct plan_params place = planned_place_params(&p, set);
    struct model_weights then;
    assert_refusal(&p.log, weights_place(&then, &place), DGL_ERR_UNSUPPORTED, parts);
    weights_finish(&then);
    planned_close(&p);
    kernel_set_destroy(&set);
    dgl_buf_finish(&text);
    free(path);
    test_tmpdir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_operation_one_buffer),
        cmocka_unit_test(test_what_differs_is_not_the_same),
        cmocka_unit_test(test_unknown_layout_is_refused),
    };
    builtin = loaded_set(NULL);
    int failures = test_run_table("mixed", test_mixed, mixed);
    failures += test_run_table("narrow bindings", test_narrow, narrows);
    failures += test_run_table("held", test_held, held);
    failures += test_run_table("swaps", test_swap, swaps);
    failures += cmocka_run_group_tests(tests, NULL, NULL);
    kernel_set_destroy(&builtin);
    return failures;
}
