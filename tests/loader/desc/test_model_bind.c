/* Tensors -> model_desc: every one is bound, skipped for a reason, or an error that names it. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/mem.h"
#include "loader/desc/model_bind.h"
#include "loader/desc/model_desc.h"
#include "tests/support/desc_text.h"
#include "tests/support/tiny_model.h"

/* Tensors that exist only as descriptions. Reads return the byte 1, or the tensor's index if
 * `distinct` is set. */
struct fake_source {
    bool distinct;
};

static enum dgl_status fake_read(void *impl, const struct dgl_log *log, size_t index,
                                 uint64_t offset, void *dst, size_t size)
{
    (void)log;
    (void)offset;
    memset(dst, ((struct fake_source *)impl)->distinct ? (int)index : 1, size);
    return DGL_OK;
}

static void fake_destroy(void *impl)
{
    free(impl);
}

/* A tensor taken out of, put into, or changed in the list of a tiny model. */
struct bind_case {
    const char *name;
    const char *drop;       /* tensor to leave out */
    struct tensor_info add; /* name NULL: no tensor */
    bool distinct;
    bool untied;
    enum dgl_status status;
    const char *parts[3];
    /* of base_cases */
    const char *rename; /* replaces the prefix "model." of names; NULL: none */
    bool no_head;
};

#define VEC(n, type)    .rank = 1, .shape = {n}, .dtype = type
#define MAT(r, c, type) .rank = 2, .shape = {r, c}, .dtype = type

static const struct bind_case bind_cases[] = {
    {"complete", NULL, {0}, false, false, DGL_OK, {0}, NULL, false},
    {"complete, untied", NULL, {0}, false, true, DGL_OK, {0}, NULL, false},
    {"embedding is missing",
     "model.embed_tokens.weight",
     {0},
     false,
     false,
     DGL_ERR_FORMAT,
     {"fake: tensor model.embed_tokens.weight is missing", "config.json", "[320, 64]"},
     NULL,
     false},
    {"layer tensor is missing",
     "model.layers.1.mlp.up_proj.weight",
     {0},
     false,
     false,
     DGL_ERR_FORMAT,
     {"model.layers.1.mlp.up_proj.weight is missing", "it with shape [96, 64]",
      "(or model.layers.1.mlp.gate_up_proj.weight with shape [192, 64])"},
     NULL,
     false},
    {"head is missing though untied",
     "lm_head.weight",
     {0},
     false,
     true,
     DGL_ERR_FORMAT,
     {"lm_head.weight is missing", "with shape [320, 64]"},
     NULL,
     false},
    {"unused tensor",
     NULL,
     {.name = "model.layers.0.self_attn.q_norm.weight", VEC(16, DGL_F32)},
     false,
     false,
     DGL_ERR_UNSUPPORTED,
     {"model.layers.0.self_attn.q_norm.weight", "llama", "refusing"},
     NULL,
     false},
    {"bias that the config denies",
     NULL,
     {.name = "model.layers.0.self_attn.q_proj.bias", VEC(64, DGL_F32)},
     false,
     false,
     DGL_ERR_UNSUPPORTED,
     {"model.layers.0.self_attn.q_proj.bias"},
     NULL,
     false},
    {"layer beyond the last",
     NULL,
     {.name = "model.layers.2.input_layernorm.weight", VEC(64, DGL_F32)},
     false,
     false,
     DGL_ERR_UNSUPPORTED,
     {"model.layers.2.input_layernorm.weight", "2 layers"},
     NULL,
     false},
    {"layer number with a leading zero",
     NULL,
     {.name = "model.layers.01.input_layernorm.weight", VEC(64, DGL_F32)},
     false,
     false,
     DGL_ERR_UNSUPPORTED,
     {"model.layers.01.input_layernorm.weight"},
     NULL,
     false},
    {"layer number of 20 digits",
     NULL,
     {.name = "model.layers.99999999999999999999.input_layernorm.weight", VEC(64, DGL_F32)},
     false,
     false,
     DGL_ERR_UNSUPPORTED,
     {"99999999999999999999"},
     NULL,
     false},
    {"matrix of the wrong shape",
     "model.layers.0.self_attn.k_proj.weight",
     {.name = "model.layers.0.self_attn.k_proj.weight", MAT(64, 64, DGL_BF16)},
     false,
     false,
     DGL_ERR_FORMAT,
     {"model.layers.0.self_attn.k_proj.weight", "[64, 64]", "[32, 64]"},
     NULL,
     false},
    {"matrix that is transposed",
     "model.layers.0.mlp.down_proj.weight",
     {.name = "model.layers.0.mlp.down_proj.weight", MAT(96, 64, DGL_BF16)},
     false,
     false,
     DGL_ERR_FORMAT,
     {"[96, 64]", "[64, 96]"},
     NULL,
     false},
    {"vector of the wrong length",
     "model.norm.weight",
     {.name = "model.norm.weight", VEC(65, DGL_BF16)},
     false,
     false,
     DGL_ERR_FORMAT,
     {"model.norm.weight", "[65]", "[64]"},
     NULL,
     false},
    {"vector stored as a matrix",
     "model.norm.weight",
     {.name = "model.norm.weight", MAT(64, 1, DGL_BF16)},
     false,
     false,
     DGL_ERR_FORMAT,
     {"[64, 1]", "[64]"},
     NULL,
     false},
    {"vocabulary mismatch",
     "model.embed_tokens.weight",
     {.name = "model.embed_tokens.weight", MAT(321, 64, DGL_BF16)},
     false,
     false,
     DGL_ERR_FORMAT,
     {"model.embed_tokens.weight", "[321, 64]", "[320, 64]"},
     NULL,
     false},
    {"norm of integers",
     "model.norm.weight",
     {.name = "model.norm.weight", VEC(64, DGL_I64)},
     false,
     false,
     DGL_ERR_UNSUPPORTED,
     {"model.norm.weight is i64", "bf16"},
     NULL,
     false},
    {"quantised norm",
     "model.norm.weight",
     {.name = "model.norm.weight", VEC(64, DGL_Q8_0)},
     false,
     false,
     DGL_ERR_UNSUPPORTED,
     {"model.norm.weight is q8_0"},
     NULL,
     false},
    {"matrix of bytes",
     "model.layers.0.mlp.up_proj.weight",
     {.name = "model.layers.0.mlp.up_proj.weight", MAT(96, 64, DGL_U8)},
     false,
     false,
     DGL_ERR_UNSUPPORTED,
     {"mlp.up_proj.weight is u8", "bf16"},
     NULL,
     false},
    {"derived rope buffer is skipped",
     NULL,
     {.name = "model.layers.0.self_attn.rotary_emb.inv_freq", VEC(8, DGL_F32)},
     false,
     false,
     DGL_OK,
     {"model.layers.0.self_attn.rotary_emb.inv_freq: derived buffer"},
     NULL,
     false},
    {"masked_bias is skipped",
     NULL,
     {.name = "model.layers.1.attn.masked_bias", VEC(1, DGL_F32)},
     false,
     false,
     DGL_OK,
     {"model.layers.1.attn.masked_bias: derived buffer"},
     NULL,
     false},
    {"equal head of tied embeddings is skipped",
     NULL,
     {.name = "lm_head.weight", MAT(320, 64, DGL_BF16)},
     false,
     false,
     DGL_OK,
     {"lm_head.weight: equal to the tied embeddings"},
     NULL,
     false},
    {"different head of tied embeddings",
     NULL,
     {.name = "lm_head.weight", MAT(320, 64, DGL_BF16)},
     true,
     false,
     DGL_ERR_FORMAT,
     {"lm_head.weight", "tie_word_embeddings", "differs"},
     NULL,
     false},
    {"head of another type than tied embeddings",
     NULL,
     {.name = "lm_head.weight", MAT(320, 64, DGL_F32)},
     false,
     false,
     DGL_ERR_FORMAT,
     {"lm_head.weight", "differs"},
     NULL,
     false},
};

/* The same with other prefixes of names: checkpoints of base models have none. */
static const struct bind_case base_cases[] = {
    {.name = "base model", .rename = ""},
    {.name = "base model with a head of its own", .untied = true, .rename = ""},
    {.name = "base model without a head",
     .drop = "lm_head.weight",
     .untied = true,
     .rename = "",
     .no_head = true},
    {.name = "base model without a norm",
     .drop = "model.norm.weight",
     .status = DGL_ERR_FORMAT,
     .parts = {"model.norm.weight is missing"},
     .rename = ""},
    {.name = "names of a base model and of a whole model",
     .add = {.name = "norm.weight", VEC(64, DGL_BF16)},
     .status = DGL_ERR_FORMAT,
     .parts = {"model.norm.weight and norm.weight are the same part"}},
    {.name = "unknown prefix",
     .status = DGL_ERR_UNSUPPORTED,
     .parts = {"transformer.embed_tokens.weight"},
     .rename = "transformer."},
};

static struct tensor_source *fake_create(const struct bind_case *row, const struct tiny_llama *m)
{
    static const struct tensor_source_ops ops = {.read = fake_read, .destroy = fake_destroy};
    struct tiny_tensor tiny[TINY_MAX_TENSORS];
    struct tensor_info infos[TINY_MAX_TENSORS + 1];
    static char names[TINY_MAX_TENSORS][80];
    size_t count = 0, total = tiny_llama_tensors(m, tiny);
    for (size_t i = 0; i < total; i++) {
        if (row->drop && strcmp(tiny[i].name, row->drop) == 0)
            continue;
        const bool renamed = row->rename && strncmp(tiny[i].name, "model.", 6) == 0;
        snprintf(names[i], sizeof(names[i]), "%.12s%.60s", renamed ? row->rename : "",
                 tiny[i].name + (renamed ? 6 : 0));
        infos[count++] = (struct tensor_info){.name = names[i],
                                              .dtype = DGL_BF16,
                                              .role = "other",
                                              .rank = tiny[i].rank,
                                              .shape = {tiny[i].shape[0], tiny[i].shape[1]},
                                              .bytes = 2 * tiny[i].count};
    }
    if (row->add.name) {
        infos[count] = row->add;
        infos[count].role = "other";
        assert_true(dgl_dtype_tensor_bytes(row->add.dtype, row->add.rank, row->add.shape,
                                           &infos[count].bytes));
        count++;
    }
    struct fake_source *impl = dgl_new(struct fake_source);
    struct tensor_source *src = NULL;
    impl->distinct = row->distinct;
    assert_int_equal(tensor_source_create(NULL, "fake", &ops, impl, infos, count, &src), DGL_OK);
    return src;
}

static void tensors_are_bound_or_reported(void **state)
{
    const struct bind_case *row = *state;
    struct tiny_llama m = tiny_llama_default();
    m.tied = !row->untied;
    struct tensor_source *src = fake_create(row, &m);
    struct model_desc d;
    struct model_skipped skipped = {0};
    struct test_log log;
    test_log_init(&log, DGL_LOG_ERROR);
    char *config = tiny_llama_config(&m, false);
    assert_int_equal(desc_from_config(NULL, "config.json", config, NULL, &d), DGL_OK);
    enum dgl_status status = model_bind(&log.log, src, "config.json", &d, &skipped);
    if (status != row->status)
        print_error("%s\n", log.text);
    assert_int_equal(status, row->status);
    assert_int_equal(log.errors, status == DGL_OK ? 0 : 1);
    for (size_t i = 0; i < 3 && row->parts[i]; i++)
        assert_contains(status == DGL_OK ? skipped.lines[i] : log.text, row->parts[i]);
    if (status == DGL_OK) {
        assert_int_equal(skipped.count, row->parts[0] ? 1 : 0);
        const bool own_head = row->untied && !row->no_head;
        assert_int_equal(d.layer[1].down,
                         tensor_source_find(src, row->rename
                                                     ? "layers.1.mlp.down_proj.weight"
                                                     : "model.layers.1.mlp.down_proj.weight"));
        assert_int_equal(d.no_head, row->no_head);
        assert_int_equal(d.head, own_head ? tensor_source_find(src, "lm_head.weight") : d.embed);
        uint64_t params = 320 * 64 * (own_head ? 2 : 1) + 64 +
                          2 * (2 * 64 + 2 * 64 * 64 + 2 * 32 * 64 + 3 * 96 * 64);
        assert_int_equal(d.parameters, params);
        assert_int_equal(d.weight_bytes, 2 * params);
    }
    model_skipped_finish(&skipped);
    model_desc_finish(&d);
    tensor_source_destroy(&src);
    free(config);
}

static void duplicate_names_are_refused_by_the_source(void **state)
{
    (void)state;
    static const struct tensor_source_ops ops = {.read = fake_read, .destroy = fake_destroy};
    const struct tensor_info infos[] = {{.name = "a", .role = "x"}, {.name = "a", .role = "x"}};
    struct tensor_source *src = NULL;
    struct test_log log;
    test_log_init(&log, DGL_LOG_ERROR);
    struct fake_source *impl = dgl_new(struct fake_source);
    assert_int_equal(tensor_source_create(&log.log, "fake", &ops, impl, infos, 2, &src),
                     DGL_ERR_FORMAT);
    assert_null(src);
    assert_contains(log.text, "fake: tensor a occurs twice");
}

static void source_finds_many_names(void **state)
{
    (void)state;
    static const struct tensor_source_ops ops = {.read = fake_read, .destroy = fake_destroy};
    enum { COUNT = 5000 };
    struct tensor_info *infos = dgl_new_array(struct tensor_info, COUNT);
    char(*names)[16] = dgl_calloc(COUNT, 16);
    for (int i = 0; i < COUNT; i++) {
        snprintf(names[i], 16, "t%d", i);
        infos[i] = (struct tensor_info){.name = names[i], .role = "other"};
    }
    struct tensor_source *src = NULL;
    assert_int_equal(
        tensor_source_create(NULL, "fake", &ops, dgl_new(struct fake_source), infos, COUNT, &src),
        DGL_OK);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(tensor_source_find(src, names[i]), i);
    assert_int_equal(tensor_source_find(src, "t5000"), -1);
    assert_int_equal(tensor_source_find(src, ""), -1);
    tensor_source_destroy(&src);
    free(infos);
    free(names);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(duplicate_names_are_refused_by_the_source),
        cmocka_unit_test(source_finds_many_names),
    };
    int failures = cmocka_run_group_tests(cases, NULL, NULL);
    failures += test_run_table("binding", tensors_are_bound_or_reported, bind_cases);
    failures += test_run_table("names", tensors_are_bound_or_reported, base_cases);
    return failures;
}
