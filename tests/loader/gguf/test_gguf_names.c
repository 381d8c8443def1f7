/* Messages about GGUF files name the keys of the file, with the found and the expected value,
 * although the file is read like a Hugging Face folder. */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/file.h"
#include "loader/convert/convert.h"
#include "loader/gguf/gguf_model.h"
#include "loader/model/model_file.h"
#include "tests/support/gguf_build.h"

/* ---- a model to change ---- */

/* Changes of a row; 0 = unchanged. */
struct change {
    const char *arch;  /* NULL = llama */
    uint32_t kv_heads; /* 1 */
    uint32_t hidden;   /* 8 */
    uint32_t width;    /* of the MLP, 12 */
    uint32_t layers;   /* 1 */
    uint32_t dims;     /* rope.dimension_count, not there */
    uint32_t used;     /* expert_used_count of 4 experts, dense */
    float eps;         /* 1e-5 */
    float theta;       /* not there */
    const char *drop;  /* tensor to leave out */
    const char *wide;  /* tensor with 4 columns more */
    const char *add;   /* a tensor that no model uses */
    uint32_t eos;      /* 2 */
    uint32_t vocab;    /* vocab_size; 0 = absent */
    uint32_t list;     /* elements of head_count_kv as a list; 0 = a number */
    bool uneven;       /* the list has different numbers */
};

static void put_u32(struct gguf_build *b, const struct change *c, const char *suffix,
                    uint32_t value)
{
    char key[128];
    snprintf(key, sizeof(key), "%s.%s", c->arch ? c->arch : "llama", suffix);
    gb_u32(b, key, value);
}

static void put_f32(struct gguf_build *b, const struct change *c, const char *suffix, float value)
{
    char key[128];
    snprintf(key, sizeof(key), "%s.%s", c->arch ? c->arch : "llama", suffix);
    gb_f32(b, key, value);
}

static bool is(const char *name, const char *other)
{
    return other && strcmp(name, other) == 0;
}

static void put_tensor(struct gguf_build *b, const struct change *c, const char *name,
                       uint64_t rows, uint64_t cols)
{
    if (!is(name, c->drop))
        gb_matrix(b, name, rows, cols + (is(name, c->wide) ? 4 : 0), 0, 0.01f);
}

static void put_stack(struct gguf_build *b, const struct change *c, const char *name, uint64_t rows,
                      uint64_t cols)
{
    uint64_t dims[3] = {cols + (is(name, c->wide) ? 4 : 0), rows, 4};
    size_t bytes = (size_t)(dims[0] * dims[1] * dims[2]) * sizeof(float);
    void *zeros = calloc(1, bytes);
    if (!is(name, c->drop))
        gb_tensor(b, name, GB_F32, 3, dims, zeros, bytes);
    free(zeros);
}

static void put_mlp(struct gguf_build *b, const struct change *c)
{
    bool fused = is("phi3", c->arch);
    if (!c->used) {
        if (!fused)
            put_tensor(b, c, "blk.0.ffn_gate.weight", 12, 8);
        put_tensor(b, c, "blk.0.ffn_up.weight", fused ? 24 : 12, 8);
        put_tensor(b, c, "blk.0.ffn_down.weight", 8, 12);
        return;
    }
    put_u32(b, c, "expert_count", 4);
    put_u32(b, c, "expert_used_count", c->used);
    put_tensor(b, c, "blk.0.ffn_gate_inp.weight", 4, 8);
    put_stack(b, c, "blk.0.ffn_gate_exps.weight", 12, 8);
    put_stack(b, c, "blk.0.ffn_up_exps.weight", 12, 8);
    put_stack(b, c, "blk.0.ffn_down_exps.weight", 8, 12);
}

static void put_keys(struct gguf_build *b, const struct change *c)
{
    static const char *const tokens[] = {"a", "b", "</s>", "d"};
    static const float scores[] = {0, 0, 0, 0};
    static const int32_t even[] = {1, 1, 1}, uneven[] = {1, 1, 2};
    gb_str(b, "general.architecture", c->arch ? c->arch : "llama");
    put_u32(b, c, "block_count", c->layers ? c->layers : 1);
    put_u32(b, c, "context_length", 64);
    put_u32(b, c, "embedding_length", c->hidden ? c->hidden : 8);
    put_u32(b, c, "feed_forward_length", c->width ? c->width : 12);
    put_u32(b, c, "attention.head_count", 2);
    if (c->list)
        gb_i32s(b, "llama.attention.head_count_kv", c->uneven ? uneven : even, c->list);
    else
        put_u32(b, c, "attention.head_count_kv", c->kv_heads ? c->kv_heads : 1);
    put_u32(b, c, "attention.key_length", 4);
    put_f32(b, c, "attention.layer_norm_rms_epsilon", c->eps > 0 ? c->eps : 1e-5f);
    if (c->dims)
        put_u32(b, c, "rope.dimension_count", c->dims);
    if (c->vocab)
        put_u32(b, c, "vocab_size", c->vocab);
    if (c->theta > 0)
        put_f32(b, c, "rope.freq_base", c->theta);
    if (!c->eos)
        return;
    gb_str(b, "tokenizer.ggml.model", "llama");
    gb_strs(b, "tokenizer.ggml.tokens", tokens, 4);
    gb_f32s(b, "tokenizer.ggml.scores", scores, 4);
    gb_u32(b, "tokenizer.ggml.eos_token_id", c->eos);
}

static void put_model(struct gguf_build *b, const struct change *c)
{
    put_keys(b, c);
    put_tensor(b, c, "token_embd.weight", 3, 8);
    put_tensor(b, c, "blk.0.attn_norm.weight", 0, 8);
    put_tensor(b, c, "blk.0.attn_q.weight", 8, 8);
    put_tensor(b, c, "blk.0.attn_k.weight", 4, 8);
    put_tensor(b, c, "blk.0.attn_v.weight", 4, 8);
    put_tensor(b, c, "blk.0.attn_output.weight", 8, 8);
    put_tensor(b, c, "blk.0.ffn_norm.weight", 0, 8);
    put_mlp(b, c);
    put_tensor(b, c, "output_norm.weight", 0, 8);
    if (c->add)
        put_tensor(b, c, c->add, 8, 8);
}

struct message {
    const char *name;
    struct change change;
    const char *parts[3]; /* of the line */
};

static const struct message messages[] = {
    {"heads that do not divide",
     {.arch = "qwen2", .kv_heads = 3},
     {"qwen2.attention.head_count is 2, not a multiple of qwen2.attention.head_count_kv 3"}},
    {"rows that are not the heads'",
     {.kv_heads = 3},
     {"blk.0.attn_k.weight has shape [4, 8], wanted 12 rows: 3 heads * key_length 4"}},
    {"width that no kernel takes",
     {.width = 6},
     {"llama.feed_forward_length is 6; supported: multiples of 4"}},
    {"too many layers",
     {.layers = 5000},
     {"llama.block_count is 5000, wanted an integer from 1 to 1024"}},
    {"epsilon out of range",
     {.eps = 2},
     {"llama.attention.layer_norm_rms_epsilon is 2, wanted a number from 1e-30 to 1"}},
    {"base out of range",
     {.theta = 1e20f},
     {"llama.rope.freq_base is 1e+20, wanted a number from 0.001 to"}},
    {"odd part of a head", {.dims = 3}, {"llama.rope.dimension_count is 3", "even", "from 2 to 4"}},
    {"part of a head where all is rotated",
     {.dims = 2},
     {"llama.rope.dimension_count is 2; supported: 4"}},
    {"more experts than there are",
     {.used = 5},
     {"llama.expert_used_count is 5, but llama.expert_count is 4"}},
    {"another vocabulary",
     {.vocab = 4},
     {"llama.vocab_size is 4, but token_embd.weight has 3 rows", "convert it again"}},
    {"list of another length",
     {.list = 2},
     {"llama.attention.head_count_kv has 2 elements, wanted one number or a list of 1"}},
    {"list of different numbers",
     {.list = 3, .uneven = true, .layers = 3},
     {"llama.attention.head_count_kv differs between layer 0 and layer 2; supported: the same"}},
    {"query is missing",
     {.drop = "blk.0.attn_q.weight"},
     {"tensor blk.0.attn_q.weight is missing", "that has it with shape [8, 8]\n"}},
    {"norm is missing",
     {.drop = "output_norm.weight"},
     {"tensor output_norm.weight is missing", "with shape [8]"}},
    {"embedding is missing",
     {.drop = "token_embd.weight"},
     {"tensor token_embd.weight is missing", "a row of llama.embedding_length values"}},
    {"MLP is missing",
     {.drop = "blk.0.ffn_down.weight"},
     {"tensor blk.0.ffn_down.weight is missing", "with shape [8, 12]"}},
    {"output has another shape",
     {.wide = "blk.0.attn_output.weight"},
     {"tensor blk.0.attn_output.weight has shape [8, 12]", "metadata makes it [8, 8]"}},
    {"embedding has another shape",
     {.wide = "token_embd.weight"},
     {"tensor token_embd.weight has shape [3, 12]", "metadata makes it [3, 8]"}},
    {"experts are missing",
     {.used = 2, .drop = "blk.0.ffn_up_exps.weight"},
     {"tensor blk.0.ffn_up_exps.weight (expert 0) is missing", "with shape [12, 8]"}},
    {"experts have another shape",
     {.used = 2, .wide = "blk.0.ffn_down_exps.weight"},
     {"tensor blk.0.ffn_down_exps.weight (expert 0) has shape [8, 16]", "makes it [8, 12]"}},
    {"router is missing",
     {.used = 2, .drop = "blk.0.ffn_gate_inp.weight"},
     {"tensor blk.0.ffn_gate_inp.weight is missing", "with shape [4, 8]"}},
    {"norm that the family lacks",
     {.add = "blk.0.attn_q_norm.weight"},
     {"tensor blk.0.attn_q_norm.weight is not part of a llama model"}},
    {"fused halves are missing",
     {.arch = "phi3", .drop = "blk.0.ffn_up.weight"},
     {"tensor blk.0.ffn_up.weight is missing", "that has it with shape [24, 8]\n"}},
    {"queries of fused halves are missing",
     {.arch = "phi3", .drop = "blk.0.attn_q.weight"},
     {"tensor blk.0.attn_q.weight is missing", "(or blk.0.attn_qkv.weight with shape [16, 8])"}},
};

/* Names that no GGUF file has. */
static const char *const foreign[] = {
    "model.layers",      "self_attn",    "_proj",       "num_",    "hidden_size",
    "intermediate_size", "rms_norm_eps", "config.json", "lm_head", "embed_tokens"};

static void file_is_named(void **state)
{
    const struct message *row = *state;
    struct gguf_build b = {0};
    struct dgl_buf bytes;
    struct test_log log;
    struct dgl_model_file *file = NULL;
    test_log_init(&log, DGL_LOG_ERROR);
    put_model(&b, &row->change);
    char *dir = test_tmpdir();
    gb_finish(&b, &bytes);
    test_write_file(dir, "m.gguf", bytes.p, bytes.len);
    char *path = dgl_path_join(dir, "m.gguf");
    enum dgl_status status =
        model_file_open(&log.log, &(struct model_open_params){.path = path}, &file);
    assert_int_not_equal(status, DGL_OK);
    assert_int_equal(log.errors, 1);
    assert_contains(log.text, path);
    for (size_t i = 0; i < 3 && row->parts[i]; i++)
        assert_contains(log.text, row->parts[i]);
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
        if (strstr(log.text, foreign[i]))
            fail_msg("%s in: %s", foreign[i], log.text);
    }
    dgl_buf_finish(&bytes);
    free(path);
    test_tmpdir_remove(dir);
}

/* A value that the new type cannot represent is found while converting. */
static void value_is_named_by_the_file(void **state)
{
    (void)state;
    const struct change c = {.drop = "blk.0.attn_output.weight"};
    struct gguf_build b = {0};
    struct dgl_buf bytes;
    struct test_log log;
    struct dgl_convert_result result = {.size = sizeof(result)};
    test_log_init(&log, DGL_LOG_ERROR);
    put_model(&b, &c);
    gb_matrix(&b, c.drop, 8, 8, NAN, 0);
    gb_finish(&b, &bytes);
    char *dir = test_tmpdir(), *path = dgl_path_join(dir, "m.gguf");
    char *out = dgl_path_join(dir, "out");
    test_write_file(dir, "m.gguf", bytes.p, bytes.len);
    struct dgl_convert_params params = {.in = path, .out = out, .quantize = "q8_0", .threads = 1};
    assert_int_not_equal(convert_model(&log.log, &params, &result), DGL_OK);
    assert_int_equal(log.errors, 1);
    assert_contains(log.text, path);
    assert_contains(log.text, ": tensor blk.0.attn_output.weight: value [0, 0] is nan, which q8_0");
    dgl_buf_finish(&bytes);
    free(out);
    free(path);
    test_tmpdir_remove(dir);
}

/* ---- files that are no models ---- */

struct companion {
    const char *name; /* the value */
    const char *key;
    const char *parts[2];
};

static const struct companion companions[] = {
    {"adapter", "general.type", {"an adapter (LoRA)", "; give the model that it was made for"}},
    {"mmproj",
     "general.type",
     {"the eyes of a model", "; give the GGUF file of the language model"}},
    {"clip-vision", "general.type", {"the eyes of a model", "; give the GGUF file"}},
    {"imatrix", "general.type", {"an importance matrix", "; give the model that it was made of"}},
    {"clip", "general.architecture", {"the eyes of a model", "; give the GGUF file"}},
    {"controlvector", "general.architecture", {"a control vector", "; give the model"}},
    {"banana", "general.type", {"supported: \"model\", or no such key", ""}},
};

/* The type is checked before missing keys: an adapter has an architecture and no layers. */
static void companion_is_refused(void **state)
{
    const struct companion *row = *state;
    struct gguf_build b = {0};
    struct dgl_buf bytes;
    struct test_log log;
    struct dgl_model_file *file = NULL;
    char said[64];
    test_log_init(&log, DGL_LOG_ERROR);
    if (strcmp(row->key, "general.type") == 0)
        gb_str(&b, "general.architecture", "llama");
    gb_str(&b, row->key, row->name);
    gb_finish(&b, &bytes);
    char *dir = test_tmpdir(), *path = dgl_path_join(dir, "m.gguf");
    test_write_file(dir, "m.gguf", bytes.p, bytes.len);
    assert_int_equal(model_file_open(&log.log, &(struct model_open_params){.path = path}, &file),
                     DGL_ERR_UNSUPPORTED);
    assert_int_equal(log.errors, 1);
    snprintf(said, sizeof(said), "m.gguf: %s is \"%s\"", row->key, row->name);
    assert_contains(log.text, said);
    assert_contains(log.text, row->parts[0]);
    assert_contains(log.text, row->parts[1]);
    dgl_buf_finish(&bytes);
    free(path);
    test_tmpdir_remove(dir);
}

/* A list of equal numbers, one per layer; keys and tensors of images; a stop id without a row. */
static void text_part_is_loaded(void **state)
{
    (void)state;
    const struct change c = {.list = 1, .eos = 3};
    struct gguf_build b = {0};
    struct dgl_buf bytes;
    struct test_log log;
    struct dgl_model_file *file = NULL;
    test_log_init(&log, DGL_LOG_NOTICE);
    gb_u32(&b, "llama.vision.block_count", 27);
    gb_u32(&b, "llama.mm.tokens_per_image", 256);
    put_model(&b, &c);
    gb_matrix(&b, "v.blk.0.attn_q.weight", 8, 8, 0, 0.01f);
    gb_matrix(&b, "v.patch_embedding.weight", 8, 8, 0, 0.01f);
    gb_matrix(&b, "mm.mm_input_projection.weight", 8, 8, 0, 0.01f);
    gb_finish(&b, &bytes);
    char *dir = test_tmpdir(), *path = dgl_path_join(dir, "m.gguf");
    test_write_file(dir, "m.gguf", bytes.p, bytes.len);
    enum dgl_status status =
        model_file_open(&log.log, &(struct model_open_params){.path = path}, &file);
    if (status != DGL_OK)
        fail_msg("%s", log.text);
    assert_int_equal(file->desc.kv_heads, 1);
    assert_int_equal(file->desc.num_stop_ids, 0);
    assert_contains(log.text, "tokenizer.ggml.eos_token_id[0]: is 3, but rows of token_embd.weight "
                              "is 3: the id is left out");
    assert_int_equal(file->skipped.count, 2);
    assert_string_equal(file->skipped.lines[0], "v.*: not part of the text model (tensors: 2)");
    assert_string_equal(file->skipped.lines[1], "mm.*: not part of the text model (tensors: 1)");
    assert_contains(log.text, "left out: v.*: not part of the text model (tensors: 2), mm.*");
    model_file_close(&file);
    dgl_buf_finish(&bytes);
    free(path);
    test_tmpdir_remove(dir);
}

static void model_is_a_type(void **state)
{
    (void)state;
    const struct change c = {0};
    struct gguf_build b = {0};
    struct dgl_buf bytes;
    struct dgl_model_file *file = NULL;
    gb_str(&b, "general.type", "model");
    put_model(&b, &c);
    gb_finish(&b, &bytes);
    char *dir = test_tmpdir(), *path = dgl_path_join(dir, "m.gguf");
    test_write_file(dir, "m.gguf", bytes.p, bytes.len);
    assert_int_equal(model_file_open(NULL, &(struct model_open_params){.path = path}, &file),
                     DGL_OK);
    model_file_close(&file);
    dgl_buf_finish(&bytes);
    free(path);
    test_tmpdir_remove(dir);
}

/* ---- every field ---- */

/* Fields that GGUF does not store, or stores by the presence of a tensor: each has one value, which
 * is never refused. */
static const char *const unsaid[] = {
    "tie_word_embeddings",   "attention_bias",    "mlp_bias",
    "use_sliding_window",    "hidden_activation", "swiglu_limit",
    "decoder_sparse_step",   "no_rope_layers",    "no_rope_layer_interval",
    "rope_scaling.truncate",
};

static void check_fields(const char *arch, const struct fields *fields)
{
    for (size_t n = 0; n < fields->count; n++) {
        const struct field_entry *e = &fields->entries[n];
        bool known = e->where != NULL;
        for (size_t i = 0; i < sizeof(unsaid) / sizeof(unsaid[0]); i++)
            known = known || strcmp(unsaid[i], e->path) == 0;
        if (!known)
            fail_msg("%s: %s has no name of GGUF", arch, e->path);
    }
}

struct arch_case {
    const char *name;
    const char *rope; /* type of scaling */
};

static const struct arch_case archs[] = {
    {"llama", "linear"},  {"qwen2", "yarn"},   {"qwen3", "yarn"},    {"gemma2", NULL},
    {"gemma3", "linear"}, {"phi3", NULL},      {"olmo2", "linear"},  {"smollm3", "yarn"},
    {"granite", NULL},    {"gpt-oss", "yarn"}, {"qwen3moe", "yarn"},
};

static void composed_fields_have_names(void **state)
{
    const struct arch_case *row = *state;
    const struct change c = {.arch = row->name, .theta = 1e4f, .dims = 4};
    bool experts = strcmp(row->name, "gpt-oss") == 0 || strcmp(row->name, "qwen3moe") == 0;
    struct gguf_build b = {0};
    struct dgl_buf bytes;
    struct gguf_parts parts;
    char key[128];
    put_keys(&b, &c);
    snprintf(key, sizeof(key), "%s.rope.scaling.type", row->name);
    if (row->rope)
        gb_str(&b, key, row->rope);
    if (row->rope)
        put_f32(&b, &c, "rope.scaling.factor", 4);
    if (experts) {
        put_u32(&b, &c, "expert_count", 4);
        put_u32(&b, &c, "expert_used_count", 2);
        put_u32(&b, &c, "expert_feed_forward_length", 12);
    }
    put_tensor(&b, &c, "token_embd.weight", 3, 8);
    gb_finish(&b, &bytes);
    char *dir = test_tmpdir(), *path = dgl_path_join(dir, "m.gguf");
    test_write_file(dir, "m.gguf", bytes.p, bytes.len);
    assert_int_equal(gguf_model_open(NULL, &blob_files, path, NULL, &parts), DGL_OK);
    check_fields(row->name, &parts.config);
    gguf_parts_finish(&parts);
    dgl_buf_finish(&bytes);
    free(path);
    test_tmpdir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest singles[] = {cmocka_unit_test(model_is_a_type),
                                         cmocka_unit_test(text_part_is_loaded),
                                         cmocka_unit_test(value_is_named_by_the_file)};
    int failures = test_run_table("messages", file_is_named, messages);
    failures += test_run_table("no models", companion_is_refused, companions);
    failures += cmocka_run_group_tests(singles, NULL, NULL);
    return failures + test_run_table("fields", composed_fields_have_names, archs);
}
