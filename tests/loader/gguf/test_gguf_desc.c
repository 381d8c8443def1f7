/* GGUF keys and tensors as a Hugging Face model: one case for each difference between the two, with
 * values computed by hand, and refusals of files that would be misread. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "loader/gguf/gguf_model.h"
#include "tests/support/gguf_build.h"

/* ---- a model to change ---- */

static void put_u32(struct gguf_build *b, const char *arch, const char *suffix, uint32_t value)
{
    char key[128];
    snprintf(key, sizeof(key), "%s.%s", arch, suffix);
    gb_u32(b, key, value);
}

static void put_f32(struct gguf_build *b, const char *arch, const char *suffix, float value)
{
    char key[128];
    snprintf(key, sizeof(key), "%s.%s", arch, suffix);
    gb_f32(b, key, value);
}

/* One layer, hidden 8, 2 heads over 1 of 4, vocabulary 3. */
static void base(struct gguf_build *b, const char *arch)
{
    gb_str(b, "general.architecture", arch);
    put_u32(b, arch, "block_count", 1);
    put_u32(b, arch, "context_length", 64);
    put_u32(b, arch, "embedding_length", 8);
    put_u32(b, arch, "feed_forward_length", 12);
    put_u32(b, arch, "attention.head_count", 2);
    put_u32(b, arch, "attention.head_count_kv", 1);
    put_u32(b, arch, "attention.key_length", 4);
    put_f32(b, arch, "attention.layer_norm_rms_epsilon", 1e-5f);
    gb_matrix(b, "token_embd.weight", 3, 8, 0, 1);
}

struct opened {
    char *dir;
    struct gguf_parts parts;
    struct dgl_buf config; /* as conversions write it */
    struct test_log log;
};

static void open_built(struct gguf_build *b, enum dgl_status want, struct opened *o)
{
    struct dgl_buf bytes;
    test_log_init(&o->log, DGL_LOG_WARN);
    o->dir = test_tmpdir();
    gb_finish(b, &bytes);
    test_write_file(o->dir, "m.gguf", bytes.p, bytes.len);
    dgl_buf_finish(&bytes);
    char *path = dgl_path_join(o->dir, "m.gguf");
    enum dgl_status status = gguf_model_open(&o->log.log, &blob_files, path, NULL, &o->parts);
    if (status != want)
        fail_msg("status %d: %s", status, o->log.text);
    o->config = (struct dgl_buf){0};
    struct dgl_json_writer w = dgl_json_writer(&o->config, 2);
    fields_write(&o->parts.config, &w);
    free(path);
}

static void close_built(struct opened *o)
{
    gguf_parts_finish(&o->parts);
    dgl_buf_finish(&o->config);
    test_tmpdir_remove(o->dir);
}

static float value_at(const struct opened *o, const char *name, uint64_t index)
{
    float value = -1;
    long i = tensor_source_find(o->parts.tensors, name);
    if (i < 0)
        fail_msg("no tensor %s", name);
    assert_int_equal(tensor_source_read(NULL, o->parts.tensors, (size_t)i, index * 4, &value, 4),
                     DGL_OK);
    return value;
}

static const struct tensor_info *info_of(const struct opened *o, const char *name)
{
    long i = tensor_source_find(o->parts.tensors, name);
    if (i < 0)
        fail_msg("no tensor %s", name);
    return tensor_source_at(o->parts.tensors, (size_t)i);
}

#define Q "model.layers.0.self_attn.q_proj.weight"
#define K "model.layers.0.self_attn.k_proj.weight"

/* ---- rows of q and k ---- */

struct order_case {
    const char *name; /* the architecture */
    bool permuted;
};
static const struct order_case order_cases[] = {
    {"llama", true},  {"granite", true}, {"smollm3", true}, {"qwen2", false},
    {"qwen3", false}, {"gemma2", false}, {"phi3", false},   {"olmo2", false},
};

/* Row r of the file begins with 8 r. In a head of 4 rows, ggml's order is 0 2 1 3 of Hugging
 * Face's: the pairs (0, 2) and (1, 3) are adjacent. */
static void rows_of_q_and_k_are_put_in_order(void **state)
{
    static const float want[2][8] = {{0, 1, 2, 3, 4, 5, 6, 7}, {0, 2, 1, 3, 4, 6, 5, 7}};
    const struct order_case *row = *state;
    struct gguf_build b = {0};
    struct opened o;
    base(&b, row->name);
    gb_matrix(&b, "blk.0.attn_q.weight", 8, 8, 0, 1);
    gb_matrix(&b, "blk.0.attn_k.weight", 4, 8, 0, 1);
    gb_matrix(&b, "blk.0.attn_v.weight", 4, 8, 0, 1);
    gb_matrix(&b, "blk.0.attn_q.bias", 0, 8, 0, 1);
    open_built(&b, DGL_OK, &o);
    for (uint64_t r = 0; r < 8; r++) {
        float expected = want[row->permuted][r];
        assert_true(value_at(&o, Q, r * 8) == expected * 8);
        assert_true(value_at(&o, Q, r * 8 + 7) == expected * 8 + 7);
        assert_true(value_at(&o, "model.layers.0.self_attn.q_proj.bias", r) == expected);
        if (r < 4)
            assert_true(value_at(&o, K, r * 8) == expected * 8);
        if (r < 4)
            assert_true(value_at(&o, "model.layers.0.self_attn.v_proj.weight", r * 8) ==
                        (float)r * 8);
    }
    /* A read that begins and ends inside rows. */
    float part[10];
    long q = tensor_source_find(o.parts.tensors, Q);
    assert_int_equal(
        tensor_source_read(NULL, o.parts.tensors, (size_t)q, 4 * 6, part, sizeof(part)), DGL_OK);
    assert_true(part[0] == 6);
    assert_true(part[2] == want[row->permuted][1] * 8);
    close_built(&o);
}

/* ---- norms, heads, experts ---- */

static void gemma_norms_lose_the_one_they_store(void **state)
{
    (void)state;
    static const char *const archs[] = {"gemma2", "gemma3", "llama"};
    for (size_t i = 0; i < 3; i++) {
        struct gguf_build b = {0};
        struct opened o;
        base(&b, archs[i]);
        gb_matrix(&b, "blk.0.attn_norm.weight", 0, 8, 1.0f, 0.5f);
        open_built(&b, DGL_OK, &o);
        float minus = i < 2 ? 1.0f : 0.0f;
        assert_true(value_at(&o, "model.layers.0.input_layernorm.weight", 0) == 1.0f - minus);
        assert_true(value_at(&o, "model.layers.0.input_layernorm.weight", 3) == 2.5f - minus);
        close_built(&o);
    }
}

static void second_norms_have_the_names_of_their_family(void **state)
{
    static const struct {
        const char *arch, *gguf, *hf;
    } names[] = {
        {"llama", "ffn_norm", "post_attention_layernorm"},
        {"gemma2", "ffn_norm", "pre_feedforward_layernorm"},
        {"gemma2", "post_attention_norm", "post_attention_layernorm"},
        {"gemma3", "post_ffw_norm", "post_feedforward_layernorm"},
        {"olmo2", "post_attention_norm", "post_attention_layernorm"},
        {"olmo2", "post_ffw_norm", "post_feedforward_layernorm"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct gguf_build b = {0};
        struct opened o;
        char name[96];
        base(&b, names[i].arch);
        snprintf(name, sizeof(name), "blk.0.%s.weight", names[i].gguf);
        gb_matrix(&b, name, 0, 8, 0, 1);
        open_built(&b, DGL_OK, &o);
        snprintf(name, sizeof(name), "model.layers.0.%s.weight", names[i].hf);
        assert_int_equal(info_of(&o, name)->shape[0], 8);
        close_built(&o);
    }
}

static void a_missing_output_is_a_tied_one(void **state)
{
    (void)state;
    for (int own = 0; own < 2; own++) {
        struct gguf_build b = {0};
        struct opened o;
        base(&b, "llama");
        if (own)
            gb_matrix(&b, "output.weight", 3, 8, 0, 1);
        open_built(&b, DGL_OK, &o);
        assert_contains(o.config.p,
                        own ? "\"tie_word_embeddings\": false" : "\"tie_word_embeddings\": true");
        assert_int_equal(tensor_source_find(o.parts.tensors, "lm_head.weight") >= 0, own);
        close_built(&o);
    }
}

static void tensor_3d(struct gguf_build *b, const char *name, uint64_t cols, uint64_t rows,
                      uint64_t depth, float first)
{
    uint64_t dims[3] = {cols, rows, depth};
    float *values = malloc((size_t)(cols * rows * depth) * sizeof(*values));
    for (uint64_t i = 0; i < cols * rows * depth; i++)
        values[i] = first + (float)i;
    gb_tensor(b, name, GB_F32, 3, dims, values, (size_t)(cols * rows * depth) * sizeof(*values));
    free(values);
}

static void stacked_experts_come_one_by_one(void **state)
{
    (void)state;
    struct gguf_build b = {0};
    struct opened o;
    base(&b, "llama");
    put_u32(&b, "llama", "expert_count", 3);
    put_u32(&b, "llama", "expert_used_count", 2);
    tensor_3d(&b, "blk.0.ffn_gate_exps.weight", 8, 2, 3, 0);
    open_built(&b, DGL_OK, &o);
    assert_contains(o.config.p, "\"model_type\": \"mixtral\"");
    assert_contains(o.config.p, "\"num_local_experts\": 3");
    const struct tensor_info *t =
        info_of(&o, "model.layers.0.block_sparse_moe.experts.2.w1.weight");
    assert_int_equal(t->rank, 2);
    assert_int_equal(t->shape[0], 2);
    assert_int_equal(t->shape[1], 8);
    assert_string_equal(t->role, "expert");
    assert_true(value_at(&o, t->name, 0) == 32);
    assert_true(value_at(&o, t->name, 15) == 47);
    close_built(&o);
}

static void gpt_oss_base(struct gguf_build *b)
{
    base(b, "gpt-oss");
    put_u32(b, "gpt-oss", "expert_count", 2);
    put_u32(b, "gpt-oss", "expert_used_count", 1);
    put_u32(b, "gpt-oss", "expert_feed_forward_length", 3);
    put_u32(b, "gpt-oss", "attention.sliding_window", 16);
}

/* gate and up are two tensors there and rows in turn here. */
static void gate_and_up_of_gpt_oss_alternate(void **state)
{
    (void)state;
    struct gguf_build b = {0};
    struct opened o;
    static const uint64_t bias_dims[2] = {3, 2};
    static const float gate_bias[6] = {1, 2, 3, 4, 5, 6}, up_bias[6] = {11, 12, 13, 14, 15, 16};
    static const float want[12] = {1, 11, 2, 12, 3, 13, 4, 14, 5, 15, 6, 16};
    gpt_oss_base(&b);
    tensor_3d(&b, "blk.0.ffn_gate_exps.weight", 8, 3, 2, 0);
    tensor_3d(&b, "blk.0.ffn_up_exps.weight", 8, 3, 2, 1000);
    gb_tensor(&b, "blk.0.ffn_gate_exps.bias", GB_F32, 2, bias_dims, gate_bias, sizeof(gate_bias));
    gb_tensor(&b, "blk.0.ffn_up_exps.bias", GB_F32, 2, bias_dims, up_bias, sizeof(up_bias));
    open_built(&b, DGL_OK, &o);
    const char *name = "model.layers.0.mlp.experts.gate_up_proj.weight";
    const struct tensor_info *t = info_of(&o, name);
    assert_int_equal(t->shape[0], 2);
    assert_int_equal(t->shape[1], 6);
    assert_int_equal(t->shape[2], 8);
    assert_true(value_at(&o, name, 0) == 0);                 /* expert 0: gate 0 */
    assert_true(value_at(&o, name, 8) == 1000);              /* up 0 */
    assert_true(value_at(&o, name, 16) == 8);                /* gate 1 */
    assert_true(value_at(&o, name, 48) == 24);               /* expert 1: gate 0 */
    assert_true(value_at(&o, name, 48 + 5 * 8 + 7) == 1047); /* its last up */
    for (uint64_t i = 0; i < 12; i++)
        assert_true(value_at(&o, "model.layers.0.mlp.experts.gate_up_proj_bias", i) == want[i]);
    close_built(&o);
}

/* GGUF's nibbles are in the order of DGL_MXFP4, so they are copied unchanged. */
static void mxfp4_blocks_are_handed_on_as_they_are(void **state)
{
    (void)state;
    struct gguf_build b = {0};
    struct opened o;
    static const uint64_t dims[3] = {32, 1, 2};
    uint8_t blocks[2 * 17], got[2 * 17];
    for (size_t i = 0; i < sizeof(blocks); i++)
        blocks[i] = (uint8_t)(i * 7 + 1);
    gpt_oss_base(&b);
    gb_tensor(&b, "blk.0.ffn_down_exps.weight", GB_MXFP4, 3, dims, blocks, sizeof(blocks));
    open_built(&b, DGL_OK, &o);
    long i = tensor_source_find(o.parts.tensors, "model.layers.0.mlp.experts.down_proj.weight");
    assert_true(i >= 0);
    assert_int_equal(tensor_source_at(o.parts.tensors, (size_t)i)->dtype, DGL_MXFP4);
    assert_int_equal(tensor_source_read(NULL, o.parts.tensors, (size_t)i, 0, got, sizeof(got)),
                     DGL_OK);
    assert_memory_equal(got, blocks, sizeof(got));
    close_built(&o);
}

/* ---- rotation, windows, scales ---- */

/* A key of the architecture, or a tensor, beside those of base(). */
struct addition {
    enum { KEY_NONE, KEY_U32, KEY_F32, KEY_STR, KEY_NOT, KEY_NOTS, TENSOR_F32, TENSOR_3D } kind;
    const char *name, *text;
    double number[4];
};
#define NOTHING                                                                                    \
    {                                                                                              \
        .kind = KEY_NONE                                                                           \
    }
#define U32(key, value)                                                                            \
    {                                                                                              \
        .kind = KEY_U32, .name = key, .number = { value }                                          \
    }
#define F32(key, value)                                                                            \
    {                                                                                              \
        .kind = KEY_F32, .name = key, .number = { value }                                          \
    }
#define STR(key, value)                                                                            \
    {                                                                                              \
        .kind = KEY_STR, .name = key, .text = value                                                \
    }
#define NOT(key)                                                                                   \
    {                                                                                              \
        .kind = KEY_NOT, .name = key                                                               \
    }
#define NOT_IN_ANY_LAYER(key)                                                                      \
    {                                                                                              \
        .kind = KEY_NOTS, .name = key                                                              \
    }
#define VECTOR(tensor, cols, first, step)                                                          \
    {                                                                                              \
        .kind = TENSOR_F32, .name = tensor, .number = { 0, cols, first, step }                     \
    }
#define MATRIX(tensor, rows, cols)                                                                 \
    {                                                                                              \
        .kind = TENSOR_F32, .name = tensor, .number = { rows, cols, 0, 1 }                         \
    }
#define STACK(tensor, cols, rows, experts)                                                         \
    {                                                                                              \
        .kind = TENSOR_3D, .name = tensor, .number = { cols, rows, experts }                       \
    }

static void add(struct gguf_build *b, const char *arch, const struct addition *a)
{
    static const bool no[1] = {false};
    const double *n = a->number;
    char key[128];
    snprintf(key, sizeof(key), "%s.%s", arch, a->name);
    switch (a->kind) {
    case KEY_NONE:
        break;
    case KEY_U32:
        gb_u32(b, key, (uint32_t)n[0]);
        break;
    case KEY_F32:
        gb_f32(b, key, (float)n[0]);
        break;
    case KEY_STR:
        gb_str(b, key, a->text);
        break;
    case KEY_NOT:
        gb_bool(b, key, false);
        break;
    case KEY_NOTS:
        gb_bools(b, key, no, 1);
        break;
    case TENSOR_F32:
        gb_matrix(b, a->name, (uint64_t)n[0], (uint64_t)n[1], (float)n[2], (float)n[3]);
        break;
    case TENSOR_3D:
        tensor_3d(b, a->name, (uint64_t)n[0], (uint64_t)n[1], (uint64_t)n[2], 0);
        break;
    }
}

static void add_all(struct gguf_build *b, const char *arch, const struct addition added[4])
{
    for (int i = 0; i < 4; i++)
        add(b, arch, &added[i]);
}

struct config_case {
    const char *name, *arch;
    struct addition added[4];
    const char *parts[4]; /* of config.json */
};

static const struct config_case config_cases[] = {
    {"rope_freqs become factors of every length",
     "llama",
     {VECTOR("rope_freqs.weight", 2, 1, 7), F32("rope.freq_base", 500000)},
     {"\"rope_theta\": 500000", "\"rope_type\": \"longrope\"", "\"attention_factor\": 1",
      "\"original_max_position_embeddings\": 64"}},
    {"rope_factors become longrope",
     "phi3",
     {VECTOR("rope_factors_long.weight", 2, 2, 1), VECTOR("rope_factors_short.weight", 2, 1.1, 0),
      U32("rope.scaling.original_context_length", 16), F32("rope.scaling.attn_factor", 1.19)},
     {"\"rope_type\": \"longrope\"", "\"attention_factor\": 1.19",
      "\"original_max_position_embeddings\": 16", "1.1,"}},
    {"linear scaling",
     "llama",
     {STR("rope.scaling.type", "linear"), F32("rope.scaling.factor", 4)},
     {"\"rope_type\": \"linear\"", "\"factor\": 4"}},
    {"yarn",
     "qwen2",
     {STR("rope.scaling.type", "yarn"), F32("rope.scaling.factor", 4),
      U32("rope.scaling.original_context_length", 16)},
     {"\"rope_type\": \"yarn\"", "\"beta_fast\": 32", "\"beta_slow\": 1",
      "\"original_max_position_embeddings\": 16"}},
    {"part of a head is rotated",
     "phi3",
     {U32("rope.dimension_count", 2)},
     {"\"partial_rotary_factor\": 0.5"}},
    {"llama with a window is Mistral",
     "llama",
     {U32("attention.sliding_window", 24)},
     {"\"model_type\": \"mistral\"", "\"sliding_window\": 24"}},
    {"Gemma 3 alternates by itself",
     "gemma3",
     {U32("attention.sliding_window", 24), F32("rope.freq_base", 1e6)},
     {"\"model_type\": \"gemma3_text\"", "\"sliding_attention\"", "\"rope_local_base_freq\": 10000",
      "\"query_pre_attn_scalar\": 4"}},
    {"a pattern by layer",
     "gemma3",
     {U32("attention.sliding_window", 24), NOT_IN_ANY_LAYER("attention.sliding_window_pattern")},
     {"\"full_attention\"", "\"sliding_window\": 24"}},
    {"caps of Gemma 2",
     "gemma2",
     {U32("attention.sliding_window", 24), F32("attn_logit_softcapping", 50),
      F32("final_logit_softcapping", 30)},
     {"\"attn_logit_softcapping\": 50", "\"final_logit_softcapping\": 30",
      "\"hidden_activation\": \"gelu_pytorch_tanh\""}},
    {"scales of Granite",
     "granite",
     {F32("attention.scale", 0.3), F32("embedding_scale", 3), F32("residual_scale", 0.8),
      F32("logit_scale", 4)},
     {"\"attention_multiplier\": 0.3", "\"embedding_multiplier\": 3",
      "\"residual_multiplier\": 0.8", "\"logits_scaling\": 4"}},
    {"SmolLM3 does not rotate every fourth layer",
     "smollm3",
     {NOTHING},
     {"\"no_rope_layer_interval\": 4", "\"no_rope_layers\""}},
    {"experts of Qwen 3",
     "qwen3moe",
     {U32("expert_count", 4), U32("expert_used_count", 2), U32("expert_feed_forward_length", 16)},
     {"\"num_experts\": 4", "\"num_experts_per_tok\": 2", "\"moe_intermediate_size\": 16",
      "\"norm_topk_prob\": true"}},
    {"GPT-OSS without scaling has none, whatever its class in Hugging Face says",
     "gpt-oss",
     {U32("expert_count", 4), U32("expert_used_count", 2), U32("expert_feed_forward_length", 12)},
     {"\"rope_scaling\": {\n    \"rope_type\": \"default\"\n  }", "\"attention_bias\": false"}},
    {"biases of GPT-OSS are there where their tensors are",
     "gpt-oss",
     {U32("expert_count", 4), U32("expert_used_count", 2), U32("expert_feed_forward_length", 12),
      VECTOR("blk.0.attn_q.bias", 8, 0, 1)},
     {"\"attention_bias\": true"}},
    {"any bias of attention promises all",
     "qwen3",
     {VECTOR("blk.0.attn_output.bias", 8, 0, 1)},
     {"\"attention_bias\": true"}},
    {"any bias of the MLP promises all",
     "llama",
     {VECTOR("blk.0.ffn_up.bias", 12, 0, 1)},
     {"\"attention_bias\": false", "\"mlp_bias\": true"}},
    {"an f32 is the decimal it was", "llama", {NOTHING}, {"\"rms_norm_eps\": 1e-05"}},
};

static void config_says_so(void **state)
{
    const struct config_case *row = *state;
    struct gguf_build b = {0};
    struct opened o;
    base(&b, row->arch);
    add_all(&b, row->arch, row->added);
    open_built(&b, DGL_OK, &o);
    for (size_t i = 0; i < 4 && row->parts[i]; i++)
        assert_contains(o.config.p, row->parts[i]);
    close_built(&o);
}

/* ---- refusals ---- */

struct refusal {
    const char *name, *arch;
    struct addition added[4];
    enum dgl_status status;
    const char *part;
};

static const struct refusal refusals[] = {
    {"architecture is unknown",
     "mamba",
     {NOTHING},
     DGL_ERR_UNSUPPORTED,
     "\"mamba\"; supported: llama"},
    {"architecture has experts where it should not",
     "qwen2",
     {U32("expert_count", 4)},
     DGL_ERR_UNSUPPORTED,
     "\"qwen2\" with experts; supported: llama"},
    {"number of experts is missing",
     "gpt-oss",
     {NOTHING},
     DGL_ERR_FORMAT,
     "gpt-oss.expert_count is missing"},
    {"number of experts is zero",
     "qwen3moe",
     {U32("expert_count", 0)},
     DGL_ERR_FORMAT,
     "qwen3moe.expert_count is 0"},
    {"key of the architecture is unknown",
     "llama",
     {U32("attention.clamp_kqv", 8)},
     DGL_ERR_UNSUPPORTED,
     "llama.attention.clamp_kqv"},
    {"tensor is unknown",
     "llama",
     {MATRIX("blk.0.attn_gate.weight", 8, 8)},
     DGL_ERR_UNSUPPORTED,
     "blk.0.attn_gate.weight"},
    {"layer is beyond block_count",
     "llama",
     {VECTOR("blk.1.attn_norm.weight", 8, 0, 1)},
     DGL_ERR_UNSUPPORTED,
     "blk.1.attn_norm.weight"},
    {"layer number has zeros in front",
     "llama",
     {VECTOR("blk.00.attn_norm.weight", 8, 0, 1)},
     DGL_ERR_UNSUPPORTED,
     "blk.00."},
    {"rows of q are no heads",
     "llama",
     {MATRIX("blk.0.attn_q.weight", 6, 8)},
     DGL_ERR_FORMAT,
     "blk.0.attn_q.weight has shape [6, 8]"},
    {"factors are not half a head",
     "llama",
     {VECTOR("rope_freqs.weight", 3, 1, 1)},
     DGL_ERR_FORMAT,
     "rope_freqs.weight is f32 [3]"},
    {"factor is zero",
     "llama",
     {VECTOR("rope_freqs.weight", 2, 0, 1)},
     DGL_ERR_FORMAT,
     "value 0 of tensor rope_freqs.weight"},
    {"one list of factors is missing",
     "phi3",
     {STR("rope.scaling.type", "longrope"), VECTOR("rope_factors_long.weight", 2, 2, 1)},
     DGL_ERR_FORMAT,
     "rope_factors_short.weight is missing"},
    {"scaling is unknown",
     "llama",
     {STR("rope.scaling.type", "banana")},
     DGL_ERR_UNSUPPORTED,
     "\"banana\"; supported: none"},
    {"linear without a factor",
     "llama",
     {STR("rope.scaling.type", "linear")},
     DGL_ERR_FORMAT,
     "\"linear\", and rope.scaling.factor is 0 or missing"},
    {"yarn without a factor",
     "llama",
     {STR("rope.scaling.type", "yarn"), VECTOR("rope_freqs.weight", 2, 1, 7)},
     DGL_ERR_FORMAT,
     "\"yarn\", and rope.scaling.factor is 0 or missing"},
    {"both factors by frequency and one for all",
     "llama",
     {F32("rope.scaling.factor", 2), VECTOR("rope_freqs.weight", 2, 1, 7)},
     DGL_ERR_UNSUPPORTED,
     "\"linear\" with factor 2"},
    {"a reranker",
     "llama",
     {U32("pooling_type", 4)},
     DGL_ERR_UNSUPPORTED,
     "llama.pooling_type is 4 (a reranker, which has no embeddings)"},
    {"an unknown pooling",
     "llama",
     {U32("pooling_type", 5)},
     DGL_ERR_UNSUPPORTED,
     "llama.pooling_type is 5; supported: 0 (none), 1 (mean), 2 (cls) and 3 (last)"},
    {"attention looks ahead",
     "llama",
     {NOT("attention.causal")},
     DGL_ERR_UNSUPPORTED,
     "attention.causal is false"},
    {"Granite without rotation",
     "granite",
     {NOT("rope.scaling.finetuned")},
     DGL_ERR_UNSUPPORTED,
     "finetuned is false"},
    {"stack has fewer experts",
     "llama",
     {U32("expert_count", 4), U32("expert_used_count", 2),
      STACK("blk.0.ffn_gate_exps.weight", 8, 2, 3)},
     DGL_ERR_FORMAT,
     "[expert_count, rows, cols]"},
    {"Mistral with windows in some layers",
     "llama",
     {U32("attention.sliding_window", 24), NOT_IN_ANY_LAYER("attention.sliding_window_pattern")},
     DGL_ERR_UNSUPPORTED,
     "llama.attention.sliding_window_pattern is an array of bool"},
    {"Mixtral whose weights are not normalised",
     "llama",
     {U32("expert_count", 4), U32("expert_used_count", 2), NOT("expert_weights_norm")},
     DGL_ERR_UNSUPPORTED,
     "llama.expert_weights_norm is 0"},
    {"gate has no up",
     "gpt-oss",
     {U32("expert_count", 2), U32("expert_used_count", 1), U32("expert_feed_forward_length", 3),
      STACK("blk.0.ffn_gate_exps.weight", 8, 3, 2)},
     DGL_ERR_FORMAT,
     "ffn_up_exps.weight is missing"},
};

static void refuses(void **state)
{
    const struct refusal *row = *state;
    struct gguf_build b = {0};
    struct opened o;
    base(&b, row->arch);
    add_all(&b, row->arch, row->added);
    open_built(&b, row->status, &o);
    assert_int_equal(o.log.errors, 1);
    assert_contains(o.log.text, row->part);
    close_built(&o);
}

/* ---- keys of which only some values are implemented ---- */

struct value_case {
    const char *name; /* the key */
    const char *arch;
    float refused, passes;
    bool whole; /* the value is u32, else f32 */
};
static const struct value_case value_cases[] = {
    {"logit_scale", "qwen2", 0.5f, 1, false},
    {"final_logit_softcapping", "qwen2", 30, 0, false},
    {"attention.scale", "qwen2", 0.3f, 0, false},
    {"embedding_scale", "qwen2", 12, 1, false},
    {"residual_scale", "qwen2", 0.2f, 1, false},
    {"attention.sliding_window", "qwen2", 16, 64, true},
    {"attention.sliding_window", "olmo2", 16, 0, true},
    {"attention.sliding_window", "qwen3", 63, 4096, true},
    {"final_logit_softcapping", "qwen3", 30, 0, false},
    {"attn_logit_softcapping", "gemma3", 50, 0, false},
    {"logit_scale", "llama", 0.5f, 0, false},
    {"residual_scale", "llama", 0.2f, 0, false},
    {"rope.freq_base_swa", "gemma2", 1e6f, 10000, false},
    {"attention.value_length", "llama", 8, 4, true},
    {"expert_gating_func", "llama", 2, 1, true},
};

static void open_with(const struct value_case *row, float value, enum dgl_status want,
                      struct opened *o)
{
    struct gguf_build b = {0};
    base(&b, row->arch);
    if (row->whole)
        put_u32(&b, row->arch, row->name, (uint32_t)value);
    else
        put_f32(&b, row->arch, row->name, value);
    open_built(&b, want, o);
}

static void a_key_has_a_value_that_passes(void **state)
{
    const struct value_case *row = *state;
    struct opened o;
    char words[128];
    open_with(row, row->passes, DGL_OK, &o);
    close_built(&o);
    open_with(row, row->refused, DGL_ERR_UNSUPPORTED, &o);
    snprintf(words, sizeof(words), "%s.%s is %g", row->arch, row->name, (double)row->refused);
    assert_contains(o.log.text, words);
    assert_int_equal(o.log.errors, 1);
    close_built(&o);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(gemma_norms_lose_the_one_they_store),
        cmocka_unit_test(second_norms_have_the_names_of_their_family),
        cmocka_unit_test(a_missing_output_is_a_tied_one),
        cmocka_unit_test(stacked_experts_come_one_by_one),
        cmocka_unit_test(gate_and_up_of_gpt_oss_alternate),
        cmocka_unit_test(mxfp4_blocks_are_handed_on_as_they_are),
    };
    int failed = test_run_table("order of rows", rows_of_q_and_k_are_put_in_order, order_cases);
    failed += test_run_table("config", config_says_so, config_cases);
    failed += test_run_table("refusals", refuses, refusals);
    failed += test_run_table("values of keys", a_key_has_a_value_that_passes, value_cases);
    return failed + cmocka_run_group_tests_name("tensors", cases, NULL, NULL);
}
