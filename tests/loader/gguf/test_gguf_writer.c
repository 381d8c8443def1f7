/* Models written as GGUF and read back: the same description, the same rotation, the same weights.
 * Also models that a GGUF file cannot store. */
#include "tests/support/convert_fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "loader/convert/convert.h"
#include "loader/desc/rope_freq.h"
#include "loader/quant/quant.h"
#include "tests/support/desc_text.h"

static struct dgl_model_file *open_quietly(const char *path)
{
    struct test_log log;
    struct dgl_model_file *file = NULL;
    test_log_init(&log, DGL_LOG_ERROR);
    if (model_file_open(&log.log, &(struct model_open_params){.path = path}, &file) != DGL_OK)
        fail_msg("%s", log.text);
    return file;
}

/* The text of a description without the line on rotation. Rotations are compared as numbers,
 * because GGUF has other names for some kinds. */
static char *text_of(const struct model_desc *desc)
{
    struct dgl_buf text = {0};
    desc_text(desc, &text);
    assert_false(text.failed);
    char *rope = strstr(text.p, "rope ");
    assert_non_null(rope);
    char *end = strchr(rope, '\n');
    assert_non_null(end);
    memmove(rope, end, text.len - (size_t)(end - text.p) + 1);
    return text.p;
}

static void check_rope(const struct rope_desc *a, const struct rope_desc *b, int64_t tokens)
{
    size_t n = (size_t)a->dims / 2;
    double *x = calloc(n, sizeof(*x)), *y = calloc(n, sizeof(*y));
    assert_int_equal(a->dims, b->dims);
    assert_near(a->scale, b->scale, 1e-6);
    rope_inv_freq(a, tokens, x);
    rope_inv_freq(b, tokens, y);
    for (size_t i = 0; i < n; i++)
        assert_near(x[i], y[i], 1e-6 * fabs(x[i]));
    free(x);
    free(y);
}

static uint64_t values_of(const struct tensor_info *t)
{
    uint64_t count = 1;
    for (uint32_t i = 0; i < t->rank; i++)
        count *= t->shape[i];
    return count;
}

/* All values of a tensor; rows are whole blocks in these tests. */
static float *read_values(const struct tensor_source *src, size_t index)
{
    const struct tensor_info *t = tensor_source_at(src, index);
    uint64_t count = values_of(t), cols = t->shape[t->rank - 1];
    uint64_t row_bytes = t->bytes / (count / cols);
    uint8_t *bytes = malloc((size_t)t->bytes);
    float *values = malloc((size_t)count * sizeof(*values));
    assert_int_equal(tensor_source_read(NULL, src, index, 0, bytes, (size_t)t->bytes), DGL_OK);
    for (uint64_t r = 0; r < count / cols; r++)
        assert_true(dgl_row_decode(t->dtype, bytes + r * row_bytes, cols, values + r * cols));
    free(bytes);
    return values;
}

/* Largest difference of any value; fails where names or shapes differ. */
static double compare_values(const struct dgl_model_file *a, const struct dgl_model_file *b)
{
    double worst = 0;
    assert_int_equal(tensor_source_count(a->tensors), tensor_source_count(b->tensors));
    for (size_t i = 0; i < tensor_source_count(a->tensors); i++) {
        const struct tensor_info *t = tensor_source_at(a->tensors, i);
        long j = tensor_source_find(b->tensors, t->name);
        if (j < 0)
            fail_msg("%s is not in the GGUF file", t->name);
        const struct tensor_info *u = tensor_source_at(b->tensors, (size_t)j);
        assert_int_equal(t->rank, u->rank);
        assert_memory_equal(t->shape, u->shape, t->rank * sizeof(t->shape[0]));
        float *x = read_values(a->tensors, i), *y = read_values(b->tensors, (size_t)j);
        for (uint64_t k = 0; k < values_of(t); k++)
            worst = fmax(worst, fabs((double)x[k] - (double)y[k]));
        free(x);
        free(y);
    }
    return worst;
}

/* ---- every family ---- */

struct family {
    const char *name, *archive, *inside;
    const char *refusal; /* of the export, or NULL */
    const char *warning; /* part of it, or NULL */
};
#define FIXTURE(name) name, "fixtures/visible.tar.xz", "visible/" name
static const struct family families[] = {
    {FIXTURE("gemma2"), NULL, "gemma2.attention.scale, which llama.cpp does not read"},
    {FIXTURE("gemma3"), NULL, NULL},
    {FIXTURE("gpt-oss-mxfp4"), NULL, NULL},
    {FIXTURE("granite"), NULL, NULL},
    {FIXTURE("llama-linear-f32"), NULL, NULL},
    {FIXTURE("llama2-f16"), NULL, NULL},
    {FIXTURE("llama3"), NULL, NULL},
    {FIXTURE("mistral"), NULL, "sliding window of 24"},
    {FIXTURE("mixtral"), NULL, NULL},
    {FIXTURE("olmo2"), NULL, NULL},
    {FIXTURE("phi3"), NULL, "sliding window of 29"},
    {FIXTURE("phi3-longrope"), NULL, "sliding window of 200"},
    {FIXTURE("qwen2"), NULL, NULL},
    {FIXTURE("qwen2-yarn"), NULL, NULL},
    {FIXTURE("qwen3"), NULL, NULL},
    {FIXTURE("qwen3-moe"), NULL, NULL},
    {FIXTURE("smollm3"),
     "no_rope_layers: the layers without rotation are 2, but in a GGUF file of architecture "
     "smollm3, which has no key for them, they are none; keep the model as a pack",
     NULL},
    {"story-llama", "models/story-llama.tar.xz", "story-llama", NULL, NULL},
    {"story-gemma3", "models/story-gemma3.tar.xz", "story-gemma3", NULL, NULL},
    {"story-moe", "models/story-moe.tar.xz", "story-moe", NULL, NULL},
};

/* Without a recipe, every block and every half is unchanged; norms and biases become f32. */
static void reads_back(void **state)
{
    const struct family *row = *state;
    const char *dir = test_unpacked(row->archive, row->inside);
    if (!dir)
        SKIP("%s is not in the test data", row->archive);
    char *tmp = test_tmpdir(), *path = dgl_path_join(tmp, "m.gguf");
    struct test_log log;
    struct dgl_convert_result result = {.size = sizeof(result)};
    test_log_init(&log, DGL_LOG_WARN);
    struct dgl_convert_params params = {.in = dir, .out = path, .to = "gguf", .threads = 2};
    assert_int_equal(convert_model(&log.log, &params, &result),
                     row->refusal ? DGL_ERR_UNSUPPORTED : DGL_OK);
    if (row->warning || row->refusal)
        assert_contains(log.text, row->warning ? row->warning : row->refusal);
    else
        assert_string_equal(log.text, "");
    if (!row->refusal) {
        struct dgl_model_file *a = open_quietly(dir), *b = open_quietly(path);
        char *x = text_of(&a->desc), *y = text_of(&b->desc);
        assert_string_equal(x, y);
        check_rope(&a->desc.rope[ROPE_GLOBAL], &b->desc.rope[ROPE_GLOBAL], 8);
        check_rope(&a->desc.rope[ROPE_GLOBAL], &b->desc.rope[ROPE_GLOBAL], a->desc.context_max);
        /* 1 + w and back rounds to the precision of a float. */
        assert_at_most(compare_values(a, b), a->desc.norm_plus_one ? 1.2e-7 : 0);
        assert_int_equal(a->desc.num_stop_ids,
                         b->info.has_tokenizer ? b->desc.num_stop_ids : a->desc.num_stop_ids);
        free(x);
        free(y);
        model_file_close(&a);
        model_file_close(&b);
    } else {
        assert_false(dgl_path_exists(path));
    }
    free(path);
    test_tmpdir_remove(tmp);
}

/* ---- packs that have gate and up as one ---- */

struct joined {
    const char *name;
    struct dgl_convert_params pack;
};

/* Layers of 96 + 96 rows: column and flat blocks contain values of both parts. */
static const struct joined joined_packs[] = {
    {"floats", {.fuse_gate_up = true}},
    {"floats in columns", {.quantize = "f16", .fuse_gate_up = true, .transpose_weights = true}},
    {"blocks in rows", {.quantize = "q8_0", .fuse_gate_up = true}},
    {"padded blocks in rows", {.quantize = "q4_k_m", .fuse_gate_up = true}},
    {"blocks in columns", {.quantize = "q4_k_m", .fuse_gate_up = true, .q4k_layout = "column"}},
    {"flat blocks", {.quantize = "q4_k_m", .fuse_gate_up = true, .q4k_layout = "flat"}},
};

static float *values_by_name(const struct dgl_model_file *m, const char *format, int layer)
{
    char name[96];
    snprintf(name, sizeof(name), format, layer);
    long index = tensor_source_find(m->tensors, name);
    if (index < 0)
        fail_msg("there is no %s", name);
    return read_values(m->tensors, (size_t)index);
}

static void check_parts(const struct dgl_model_file *pack, const struct dgl_model_file *gguf,
                        int layer)
{
    size_t half = (size_t)pack->desc.intermediate * (size_t)pack->desc.hidden;
    float *both = values_by_name(pack, "model.layers.%d.mlp.gate_up_proj.weight", layer),
          *gate = values_by_name(gguf, "model.layers.%d.mlp.gate_proj.weight", layer),
          *up = values_by_name(gguf, "model.layers.%d.mlp.up_proj.weight", layer);
    assert_memory_equal(both, gate, half * sizeof(*gate));
    assert_memory_equal(both + half, up, half * sizeof(*up));
    free(both);
    free(gate);
    free(up);
}

static void joined_rows_come_apart(void **state)
{
    const struct joined *row = *state;
    void *place = NULL;
    assert_int_equal(fixture_setup(&place), 0);
    struct fixture *f = place;
    char *path = dgl_path_join(f->dir, "m.gguf");
    assert_int_equal(convert_with(f, row->pack), DGL_OK);
    if (convert(f, .in = f->out, .out = path, .to = "gguf", .quantize = "f32") != DGL_OK)
        fail_msg("%s", f->log.text);
    struct dgl_model_file *pack = open_quietly(f->out), *gguf = open_quietly(path);
    for (int layer = 0; layer < pack->desc.layers; layer++)
        check_parts(pack, gguf, layer);
    model_file_close(&pack);
    model_file_close(&gguf);
    free(path);
    fixture_teardown(&place);
}

/* ---- the converter's manners ---- */

static char *gguf_path(const struct fixture *f)
{
    return dgl_path_join(f->dir, "m.gguf");
}

static const struct tensor_info *info_of(const struct dgl_model_file *m, const char *name)
{
    long index = tensor_source_find(m->tensors, name);
    assert_true(index >= 0);
    return tensor_source_at(m->tensors, (size_t)index);
}

/* Rows of 64 are no whole blocks of 256. */
static void rows_that_are_no_whole_blocks_fall_back(void **state)
{
    struct fixture *f = *state;
    char *path = gguf_path(f);
    assert_int_equal(convert(f, .out = path, .to = "gguf", .quantize = "q4_k_m"), DGL_OK);
    assert_contains(f->log.text,
                    "rows of 64 values are not whole blocks of q4_k, which GGUF cannot hold: it "
                    "becomes q5_0"); /* as in llama-quantize */
    /* One warning for all tensors. */
    assert_int_equal(test_occurrences(f->log.text, "are not whole blocks"), 1);
    assert_contains(f->log.text, "more tensors change type for this reason)");
    struct dgl_model_file *m = open_quietly(path);
    assert_int_equal(info_of(m, "model.layers.0.self_attn.q_proj.weight")->dtype, DGL_Q5_0);
    assert_int_equal(info_of(m, "model.layers.0.input_layernorm.weight")->dtype, DGL_F32);
    model_file_close(&m);
    free(path);
}

static void bytes_are_the_same_every_time(void **state)
{
    struct fixture *f = *state;
    char *a = dgl_path_join(f->dir, "a.gguf"), *b = dgl_path_join(f->dir, "b.gguf");
    assert_int_equal(convert(f, .out = a, .to = "gguf", .quantize = "q8_0", .threads = 1), DGL_OK);
    assert_int_equal(convert(f, .out = b, .to = "gguf", .quantize = "q8_0", .threads = 3), DGL_OK);
    size_t a_len, b_len;
    char *x = NULL, *y = NULL;
    assert_int_equal(dgl_file_slurp(NULL, a, 1u << 24, &x, &a_len), DGL_OK);
    assert_int_equal(dgl_file_slurp(NULL, b, 1u << 24, &y, &b_len), DGL_OK);
    assert_int_equal(a_len, b_len);
    assert_memory_equal(x, y, a_len);
    free(x);
    free(y);
    free(a);
    free(b);
}

static void an_existing_file_needs_force(void **state)
{
    struct fixture *f = *state;
    char *path = gguf_path(f);
    test_write_file(f->dir, "m.gguf", "keep me", 7);
    assert_int_equal(convert(f, .out = path, .to = "gguf"), DGL_ERR_INVALID_ARG);
    assert_contains(f->log.text, "--force");
    char *text = NULL;
    size_t len;
    assert_int_equal(dgl_file_slurp(NULL, path, 100, &text, &len), DGL_OK);
    assert_string_equal(text, "keep me");
    free(text);
    assert_int_equal(remove(path), 0);
    assert_int_equal(convert(f, .out = path, .to = "gguf"), DGL_OK);
    assert_int_equal(convert(f, .out = path, .to = "gguf", .force = true), DGL_OK);
    assert_int_equal(convert(f, .out = f->in, .to = "gguf", .force = true), DGL_ERR_INVALID_ARG);
    assert_contains(f->log.text, "is a folder");
    free(path);
}

/* Converts "in" over `path`, which must stay as it is, byte for byte. */
static void assert_spared(struct fixture *f, const char *path, const char *words)
{
    char *before = NULL, *after = NULL;
    size_t len, len_after;
    assert_int_equal(dgl_file_slurp(NULL, path, 1u << 24, &before, &len), DGL_OK);
    assert_int_equal(convert(f, .out = path, .to = "gguf", .force = true), DGL_ERR_INVALID_ARG);
    assert_contains(f->log.text, path);
    assert_contains(f->log.text, words);
    assert_int_equal(dgl_file_slurp(NULL, path, 1u << 24, &after, &len_after), DGL_OK);
    assert_int_equal(len, len_after);
    assert_memory_equal(before, after, len);
    free(before);
    free(after);
}

static void force_spares_what_is_no_gguf_file(void **state)
{
    struct fixture *f = *state;
    char *weights = dgl_path_join(f->in, "model.safetensors"), *path = gguf_path(f);
    test_write_file(f->dir, "m.gguf", "GGU", 3);
    assert_spared(f, weights, "is not a GGUF file");
    assert_spared(f, path, "is not a GGUF file");
    free(weights);
    free(path);
}

static void force_spares_a_file_of_a_split_model(void **state)
{
    struct fixture *f = *state;
    char *path = dgl_path_join(f->dir, "m-00002-of-00003.gguf");
    test_write_file(f->dir, "m-00002-of-00003.gguf", "GGUF", 4);
    assert_spared(f, path, "one file of a split GGUF model");
    free(path);
}

static void force_replaces_the_input_itself(void **state)
{
    struct fixture *f = *state;
    char *path = gguf_path(f);
    assert_int_equal(convert(f, .out = path, .to = "gguf"), DGL_OK);
    assert_int_equal(convert(f, .in = path, .out = path, .to = "gguf", .force = true), DGL_OK);
    struct dgl_model_file *a = open_quietly(f->in), *b = open_quietly(path);
    assert_at_most(compare_values(a, b), 0);
    model_file_close(&a);
    model_file_close(&b);
    free(path);
}

struct unsaid {
    const char *name;
    const char *config; /* in place of model_type's line */
    const char *part;
};

static const struct unsaid unsaids[] = {
    {"layers without rotation",
     "\"model_type\": \"smollm3\", \"no_rope_layers\": [1,1,1,1,1,1,1,1,1,1,1,1],",
     "the layers without rotation are none, but in a GGUF file of architecture smollm3, which has "
     "no key for them, they are 3, 7, 11; keep the model as a pack: leave out --to gguf"},
    {"many layers without rotation",
     "\"model_type\": \"smollm3\", \"no_rope_layers\": [0,0,0,0,0,0,0,0,0,0,0,0],",
     "are 0, 1, 2, 3, 4, 5, 6, 7, ... (12 in all), but in"},
    {"windows in some layers",
     "\"model_type\": \"mistral\", \"sliding_window\": 16, \"layer_types\": "
     "[\"full_attention\",\"full_attention\",\"full_attention\",\"full_attention\","
     "\"full_attention\",\"sliding_attention\",\"full_attention\",\"full_attention\","
     "\"full_attention\",\"full_attention\",\"full_attention\",\"full_attention\"],",
     "sliding_window is 16 in layers 5 of 12, but a GGUF file of architecture llama has it in all "
     "or none; keep the model as a pack"},
    {"dynamic rotation",
     "\"model_type\": \"llama\", \"rope_parameters\": {\"rope_type\": \"dynamic\", "
     "\"factor\": 2.0},",
     "rope_type is \"dynamic\", but GGUF has none, linear, yarn and longrope; keep the model"},
};

static void what_gguf_cannot_say_is_refused_with_values(void **state)
{
    const struct unsaid *row = *state;
    void *place = NULL;
    assert_int_equal(fixture_setup(&place), 0);
    struct fixture *f = place;
    f->tiny.layers = 12;
    fixture_write(f);
    tiny_file_replace(f->in, "config.json", "\"model_type\": \"llama\",", row->config);
    assert_int_equal(convert(f, .to = "gguf"), DGL_ERR_UNSUPPORTED);
    assert_contains(f->log.text, row->part);
    assert_only(f, "in", NULL);
    fixture_teardown(&place);
}

static void an_unknown_format_is_refused(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(convert(f, .to = "onnx"), DGL_ERR_INVALID_ARG);
    assert_contains(f->log.text, "to is \"onnx\", wanted rdrr or gguf");
    assert_only(f, "in", NULL);
}

/* GGUF -> pack -> GGUF: no information is lost. */
static void packs_are_made_of_it_and_it_of_packs(void **state)
{
    struct fixture *f = *state;
    char *path = gguf_path(f), *again = dgl_path_join(f->dir, "again.gguf");
    assert_int_equal(convert(f, .out = path, .to = "gguf"), DGL_OK);
    assert_int_equal(convert(f, .in = path, .out = f->out), DGL_OK);
    assert_int_equal(convert(f, .in = f->out, .out = again, .to = "gguf"), DGL_OK);
    struct dgl_model_file *a = open_quietly(f->in), *b = open_quietly(f->out),
                          *c = open_quietly(again);
    assert_at_most(compare_values(a, b), 0);
    assert_at_most(compare_values(a, c), 0);
    model_file_close(&a);
    model_file_close(&b);
    model_file_close(&c);
    free(path);
    free(again);
}

static void it_has_no_hashes_to_verify(void **state)
{
    struct fixture *f = *state;
    char *path = gguf_path(f);
    struct dgl_verify_result result = {.size = sizeof(result)};
    assert_int_equal(convert(f, .out = path, .to = "gguf"), DGL_OK);
    assert_int_equal(dgl_verify(&f->log.log, &(struct dgl_verify_params){.path = path}, &result),
                     DGL_ERR_UNSUPPORTED);
    assert_contains(f->log.text, "a GGUF file carries no hashes");
    free(path);
}

static void the_public_door_tells_about_it(void **state)
{
    struct fixture *f = *state;
    char *path = gguf_path(f);
    struct dgl_model_file *file;
    assert_int_equal(convert(f, .out = path, .to = "gguf", .quantize = "q8_0"), DGL_OK);
    assert_int_equal(dgl_inspect(&f->log.log, dgl_inspect_params(.path = path), &file), DGL_OK);
    const struct dgl_model_info *info = dgl_model_file_info(file);
    assert_string_equal(info->name, "m");
    assert_string_equal(info->family, "llama");
    assert_string_equal(info->quantization, "q8_0");
    dgl_model_file_destroy(&file);
    free(path);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        FIXTURE_CASE(rows_that_are_no_whole_blocks_fall_back),
        FIXTURE_CASE(bytes_are_the_same_every_time),
        FIXTURE_CASE(an_existing_file_needs_force),
        FIXTURE_CASE(force_spares_what_is_no_gguf_file),
        FIXTURE_CASE(force_spares_a_file_of_a_split_model),
        FIXTURE_CASE(force_replaces_the_input_itself),
        FIXTURE_CASE(an_unknown_format_is_refused),
        FIXTURE_CASE(packs_are_made_of_it_and_it_of_packs),
        FIXTURE_CASE(it_has_no_hashes_to_verify),
        FIXTURE_CASE(the_public_door_tells_about_it),
    };
    int failed = test_run_table("families", reads_back, families);
    failed += test_run_table("gate and up", joined_rows_come_apart, joined_packs);
    failed += test_run_table("not in GGUF", what_gguf_cannot_say_is_refused_with_values, unsaids);
    return failed + cmocka_run_group_tests_name("converter", cases, NULL, NULL);
}
