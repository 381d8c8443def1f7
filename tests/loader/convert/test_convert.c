/* The converter: the types that each recipe stores, the manifest, reproducible bytes, the quality
 * of the bundled pack. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "tests/support/convert_fixture.h"

/* ---- recipes ---- */

struct recipe_row {
    const char *name;
    enum dgl_dtype source;
    const char *quantize;
    enum dgl_dtype matrix, table, norm;
    double nmse; /* of every tensor */
};

static const struct recipe_row recipe_rows[] = {
    {"bf16 as stored", DGL_BF16, NULL, DGL_BF16, DGL_BF16, DGL_BF16, 0},
    {"f32 as stored", DGL_F32, NULL, DGL_F32, DGL_F32, DGL_F32, 0},
    {"bf16 to f32", DGL_BF16, "f32", DGL_F32, DGL_F32, DGL_F32, 0},
    {"bf16 to bf16", DGL_BF16, "bf16", DGL_BF16, DGL_BF16, DGL_F32, 0},
    {"f32 to bf16", DGL_F32, "bf16", DGL_BF16, DGL_BF16, DGL_F32, 1e-5},
    {"f32 to f16", DGL_F32, "f16", DGL_F16, DGL_F16, DGL_F32, 1e-7},
    {"f16 to f16", DGL_F16, "f16", DGL_F16, DGL_F16, DGL_F32, 0},
    {"bf16 to q8_0", DGL_BF16, "q8_0", DGL_Q8_0, DGL_Q8_0, DGL_F32, 5e-5},
    {"f16 to q8_0", DGL_F16, "q8_0", DGL_Q8_0, DGL_Q8_0, DGL_F32, 5e-5},
    {"f32 to q4_k_m", DGL_F32, "q4_k_m", DGL_Q4_K, DGL_Q8_0, DGL_F32, 8e-3},
    {"bf16 to q4_k_m", DGL_BF16, "q4_k_m", DGL_Q4_K, DGL_Q8_0, DGL_F32, 8e-3},
    {"bf16 to q6_k", DGL_BF16, "q6_k", DGL_Q6_K, DGL_Q6_K, DGL_F32, 5e-4},
    {"bf16 to mxfp4", DGL_BF16, "mxfp4", DGL_MXFP4, DGL_Q8_0, DGL_F32, 2e-2},
    {"bf16 to q5_1", DGL_BF16, "q5_1", DGL_Q5_1, DGL_Q5_1, DGL_F32, 2e-3},
    {"bf16 to q5_0", DGL_BF16, "q5_0", DGL_Q5_0, DGL_Q5_0, DGL_F32, 3e-3},
    {"bf16 to q4_1", DGL_BF16, "q4_1", DGL_Q4_1, DGL_Q8_0, DGL_F32, 8e-3},
    {"bf16 to q4_0", DGL_BF16, "q4_0", DGL_Q4_0, DGL_Q8_0, DGL_F32, 1e-2},
    {"bf16 to iq4_nl", DGL_BF16, "IQ4_NL", DGL_IQ4_NL, DGL_Q8_0, DGL_F32, 8e-3},
    {"bf16 to iq4_xs", DGL_BF16, "iq4_xs", DGL_IQ4_XS, DGL_Q8_0, DGL_F32, 8e-3},
};

static enum dgl_dtype wanted_type(const struct recipe_row *row, const struct tensor_info *t)
{
    bool table = strcmp(t->role, "embedding") == 0 || strcmp(t->role, "lm_head") == 0;
    return t->rank == 1 ? row->norm : table ? row->table : row->matrix;
}

/* The tiny model's rows of 64 and 96 values are shorter than a Q4_K block: padding is part of
 * this. */
static void recipe_stores_what_it_says(void **state)
{
    const struct recipe_row *row = *state;
    void *holder = NULL;
    fixture_setup(&holder);
    struct fixture *f = holder;
    f->tiny.dtype = row->source;
    f->tiny.tied = false;
    fixture_write(f);
    assert_converts(f, f->in, f->out, row->quantize);
    struct dgl_model_file *in = open_model(f->in), *out = open_model(f->out);
    assert_int_equal(tensor_source_count(out->tensors), tensor_source_count(in->tensors));
    for (size_t i = 0; i < tensor_source_count(out->tensors); i++) {
        const struct tensor_info *t = tensor_source_at(out->tensors, i);
        assert_string_equal(dgl_dtype_get(t->dtype)->name,
                            dgl_dtype_get(wanted_type(row, t))->name);
        assert_at_most(tensor_nmse(out->tensors, in->tensors, t->name), row->nmse);
    }
    if (dgl_dtype_get(row->matrix)->block > 64)
        assert_contains(f->log.text, "q8_0, which is also more precise");
    else
        assert_string_equal(f->log.len ? f->log.text : "", "");
    model_file_close(&in);
    model_file_close(&out);
    fixture_teardown(&holder);
}

/* Types by tensor of the two-layer untied model. */
static void assert_type(struct fixture *f, const char *name, enum dgl_dtype want)
{
    struct dgl_model_file *out = open_model(f->out);
    long index = tensor_source_find(out->tensors, name);
    assert_true(index >= 0);
    assert_string_equal(dgl_dtype_get(tensor_source_at(out->tensors, (size_t)index)->dtype)->name,
                        dgl_dtype_get(want)->name);
    model_file_close(&out);
}

static void q5_k_m_spends_more_on_v_and_down(void **state)
{
    struct fixture *f = *state;
    f->tiny.tied = false;
    fixture_write(f);
    assert_converts(f, f->in, f->out, "q5_k_m");
    assert_type(f, "model.embed_tokens.weight", DGL_Q6_K);
    assert_type(f, "lm_head.weight", DGL_Q6_K);
    assert_type(f, "model.layers.0.self_attn.q_proj.weight", DGL_Q5_K);
    assert_type(f, "model.layers.0.self_attn.v_proj.weight", DGL_Q5_K);
    assert_type(f, "model.layers.1.self_attn.v_proj.weight", DGL_Q6_K);
    assert_type(f, "model.layers.1.mlp.down_proj.weight", DGL_Q6_K);
    assert_type(f, "model.layers.1.mlp.up_proj.weight", DGL_Q5_K);
}

static void q3_k_m_and_q2_k_spend_more_on_v_and_down(void **state)
{
    struct fixture *f = *state;
    f->tiny.tied = false;
    fixture_write(f);
    assert_converts(f, f->in, f->out, "q3_k");
    assert_type(f, "model.embed_tokens.weight", DGL_Q6_K);
    assert_type(f, "model.layers.0.self_attn.q_proj.weight", DGL_Q3_K);
    assert_type(f, "model.layers.1.self_attn.v_proj.weight", DGL_Q4_K);
    assert_int_equal(convert(f, .quantize = "q2_k", .force = true), DGL_OK);
    assert_type(f, "lm_head.weight", DGL_Q6_K);
    assert_type(f, "model.layers.0.self_attn.q_proj.weight", DGL_Q2_K);
    assert_type(f, "model.layers.1.mlp.down_proj.weight", DGL_Q3_K);
}

/* Rows of 64 and 96 values are padded to 256. */
static void padding_that_makes_tensors_larger_is_reported(void **state)
{
    struct fixture *f = *state;
    f->tiny.dtype = DGL_BF16;
    fixture_write(f);
    assert_converts(f, f->in, f->out, "q4_k_m");
    assert_contains(f->log.text, "rows of 96 values, such as those of model.layers.0.mlp.down");
    assert_contains(f->log.text, "are padded by 160 values to whole blocks of q4_k; such tensors "
                                 "become larger than they are: 129024 bytes, 122880 now, 65280");
    assert_contains(f->log.text, " as q8_0, which is also more precise");
}

struct read_only {
    const char *name, *quantize, *embed;
    const char *part;
};

static const struct read_only read_only[] = {
    {"iq1_s", "iq1_s", NULL, "quantize is \"iq1_s\": files of this type are read, but not written"},
    {"iq2_m, a mix", "IQ2_M", NULL, "quantize is \"IQ2_M\": files of this type are read"},
    {"iq3_xxs", "iq3_xxs", NULL, "files of this type are read, but not written"},
    {"tq1_0", "tq1_0", NULL, "files of this type are read, but not written"},
    {"tq2_0", "TQ2_0", NULL, "files of this type are read, but not written"},
    {"q1_0", "q1_0", NULL, "the smallest types that are written are q3_k_m, iq4_xs and q2_k"},
    {"q2_0", "q2_0", NULL, "files of this type are read, but not written"},
    {"a role", "q8_0", "iq3_s", "embed is \"iq3_s\": files of this type are read"},
    {"an unknown name", "q2", NULL, "quantize is \"q2\", wanted one of f32, f16, bf16, q8_0"},
    {"a role of an unknown type", NULL, "q2", "wanted one of f32, f16, bf16, q8_0, q4_k"},
};

static void types_without_an_encoder_are_refused(void **state)
{
    const struct read_only *row = *state;
    struct test_log log;
    test_log_init(&log, DGL_LOG_ERROR);
    const enum dgl_status status = dgl_convert_check(
        &log.log,
        dgl_convert_params(.in = "a", .out = "b", .quantize = row->quantize, .embed = row->embed));
    assert_int_equal(status, DGL_ERR_INVALID_ARG);
    assert_contains(log.text, row->part);
}

static void roles_can_be_given_types(void **state)
{
    struct fixture *f = *state;
    f->tiny.tied = false;
    fixture_write(f);
    assert_int_equal(convert(f, .quantize = "q4_k_m", .embed = "f16", .head = "q6_k"), DGL_OK);
    assert_type(f, "model.embed_tokens.weight", DGL_F16);
    assert_type(f, "lm_head.weight", DGL_Q6_K);
    assert_type(f, "model.layers.0.self_attn.q_proj.weight", DGL_Q4_K);
}

static void a_role_can_change_alone(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(convert(f, .embed = "q4_0"), DGL_OK);
    assert_type(f, "model.embed_tokens.weight", DGL_Q4_0);
    assert_type(f, "model.layers.0.self_attn.q_proj.weight", f->tiny.dtype);
    assert_type(f, "model.norm.weight", f->tiny.dtype);
}

static void fast_packs_are_less_exact(void **state)
{
    struct fixture *f = *state;
    static const char name[] = "model.layers.0.mlp.down_proj.weight";
    char *fast = dgl_path_join(f->dir, "fast");
    assert_int_equal(convert(f, .quantize = "q6_k"), DGL_OK);
    assert_int_equal(convert(f, .quantize = "q6_k", .fast = true, .out = fast), DGL_OK);
    struct dgl_model_file *in = open_model(f->in), *slow = open_model(f->out);
    struct dgl_model_file *quick = open_model(fast);
    double best = tensor_nmse(slow->tensors, in->tensors, name);
    double nmse = tensor_nmse(quick->tensors, in->tensors, name);
    if (!(nmse > best && nmse < 2 * best))
        fail_msg("NMSE %g fast, %g with the search", nmse, best);
    model_file_close(&in);
    model_file_close(&slow);
    model_file_close(&quick);
    free(fast);
}

/* ---- manifest, shards, copies ---- */

static void headline_names_the_matrices(void **state)
{
    struct fixture *f = *state;
    assert_converts(f, f->in, f->out, "q4_k_m");
    char *manifest = read_text(f->out, "manifest.json");
    assert_contains(manifest, "\"modelId\": \"in-q4_k_m\"");
    assert_contains(manifest, "\"quantization\": \"Q4_K_M\"");
    assert_contains(manifest, "\"weights\": \"q4k\"");
    assert_contains(manifest, "\"embeddings\": \"q8_0\"");
    assert_contains(manifest, "\"kernelHintsOrigin\": \"default\"");
    assert_contains(manifest, "\"tool\": \"dopplergl\"");
    assert_null(strstr(manifest, "lmHead"));
    free(manifest);
}

static void manifest_names_no_path(void **state)
{
    struct fixture *f = *state;
    assert_converts(f, f->in, f->out, "q8_0");
    char *manifest = read_text(f->out, "manifest.json");
    assert_null(strstr(manifest, f->dir));
    free(manifest);
}

static void pack_verifies(void **state)
{
    struct fixture *f = *state;
    struct dgl_verify_result result = {0};
    assert_converts(f, f->in, f->out, "q4_k_m");
    struct dgl_verify_params params = {.path = f->out};
    assert_int_equal(dgl_verify(&f->log.log, &params, &result), DGL_OK);
    assert_true(result.files >= 2); /* the shard, generation_config.json */
}

static void pack_of_a_pack_is_named_by_the_last_recipe(void **state)
{
    struct fixture *f = *state;
    char *again = dgl_path_join(f->dir, "again");
    assert_converts(f, f->in, f->out, "bf16");
    assert_converts(f, f->out, again, "q8_0");
    char *manifest = read_text(again, "manifest.json");
    assert_contains(manifest, "\"modelId\": \"in-q8_0\"");
    free(manifest);
    free(again);
}

static void tensors_span_small_shards(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(convert(f, .quantize = "f32", .shard_bytes = 8192), DGL_OK);
    assert_same_values(f->out, f->in);
    char *manifest = read_text(f->out, "manifest.json");
    assert_contains(manifest, "\"spans\"");
    assert_contains(manifest, "shard_00009.bin");
    free(manifest);
    size_t len;
    free(tiny_file_read(f->out, "shard_00000.bin", &len));
    assert_int_equal(len, 8192);
}

/* Shard boundaries have no influence on the stream: the shards in a row are the one large shard. */
static void small_shards_hold_the_same_stream(void **state)
{
    struct fixture *f = *state;
    char *small = dgl_path_join(f->dir, "small"), name[32];
    assert_int_equal(convert(f, .quantize = "q8_0"), DGL_OK);
    assert_int_equal(convert(f, .quantize = "q8_0", .out = small, .shard_bytes = 4096), DGL_OK);
    size_t len, at = 0, part;
    char *whole = tiny_file_read(f->out, "shard_00000.bin", &len);
    for (unsigned i = 0; at < len; i++, at += part) {
        snprintf(name, sizeof(name), "shard_%05u.bin", i);
        char *bytes = tiny_file_read(small, name, &part);
        assert_true(part > 0 && part <= len - at);
        assert_memory_equal(bytes, whole + at, part);
        free(bytes);
    }
    free(whole);
    free(small);
}

static void blake3_is_offered(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(convert(f, .quantize = "bf16", .hash = "blake3"), DGL_OK);
    char *manifest = read_text(f->out, "manifest.json");
    assert_contains(manifest, "\"hashAlgorithm\": \"blake3\"");
    free(manifest);
    struct dgl_model_file *model = open_model(f->out); /* verifies */
    model_file_close(&model);
}

static void text_files_are_copied_verbatim(void **state)
{
    struct fixture *f = *state;
    static const char jinja[] = "{{ messages }}\n\xc3\xa9", other[] = "not part of a model\n";
    test_write_file(f->in, "chat_template.jinja", jinja, sizeof(jinja) - 1);
    test_write_file(f->in, "README.md", other, sizeof(other) - 1);
    assert_converts(f, f->in, f->out, "bf16");
    assert_same_file(f->in, f->out, "chat_template.jinja");
    assert_same_file(f->in, f->out, "generation_config.json");
    char *readme = dgl_path_join(f->out, "README.md");
    assert_false(dgl_path_exists(readme));
    free(readme);
}

/* A checkpoint with a buffer that follows from the config: it is read, reported and not copied. */
static void skipped_tensors_are_left_out(void **state)
{
    struct fixture *f = *state;
    static const float zeros[8] = {0};
    f->tiny.files = 2;
    fixture_write(f);
    tiny_safetensors_write(f->in, "extra.safetensors",
                           "{\"model.layers.0.self_attn.rotary_emb.inv_freq\":{\"dtype\":\"F32\","
                           "\"shape\":[8],\"data_offsets\":[0,32]}}",
                           zeros, sizeof(zeros));
    tiny_file_replace(f->in, "model.safetensors.index.json", "\"weight_map\": {",
                      "\"weight_map\": {\"model.layers.0.self_attn.rotary_emb.inv_freq\": "
                      "\"extra.safetensors\", ");
    assert_converts(f, f->in, f->out, "f32");
    struct dgl_model_file *in = open_model(f->in), *out = open_model(f->out);
    assert_int_equal(in->skipped.count, 1);
    assert_int_equal(tensor_source_count(out->tensors), tensor_source_count(in->tensors) - 1);
    assert_int_equal(out->skipped.count, 1); /* the manifest tells */
    assert_string_equal(out->skipped.lines[0], in->skipped.lines[0]);
    model_file_close(&in);
    model_file_close(&out);
}

static void pinned_hints_are_left_out_loudly(void **state)
{
    struct fixture *f = *state;
    char *again = dgl_path_join(f->dir, "again");
    assert_converts(f, f->in, f->out, "q8_0");
    tiny_file_replace(f->out, "manifest.json", "\"kernelHintsOrigin\": \"default\"",
                      "\"kernelHintsOrigin\": \"author\"");
    assert_converts(f, f->out, again, "f32");
    assert_contains(f->log.text, "pinned kernel hints");
    char *manifest = read_text(again, "manifest.json");
    assert_contains(manifest, "\"kernelHintsOrigin\": \"default\"");
    free(manifest);
    free(again);
}

/* ---- repeatable bytes ---- */

static void same_input_gives_the_same_bytes(void **state)
{
    struct fixture *f = *state;
    char *again = dgl_path_join(f->dir, "again");
    assert_int_equal(convert(f, .quantize = "q4_k_m", .threads = 1), DGL_OK);
    assert_int_equal(convert(f, .quantize = "q4_k_m", .threads = 3, .out = again), DGL_OK);
    assert_same_file(f->out, again, "shard_00000.bin");
    assert_same_file(f->out, again, "manifest.json");
    free(again);
}

static void split_checkpoints_give_the_same_weights(void **state)
{
    struct fixture *f = *state;
    char *again = dgl_path_join(f->dir, "again");
    assert_converts(f, f->in, f->out, "q8_0");
    f->tiny.files = 3;
    fixture_write(f);
    assert_converts(f, f->in, again, "q8_0");
    assert_same_values(again, f->out);
    free(again);
}

static void converting_a_pack_to_its_own_type_copies(void **state)
{
    struct fixture *f = *state;
    char *again = dgl_path_join(f->dir, "again");
    assert_converts(f, f->in, f->out, "q4_k_m");
    test_log_clear(&f->log);
    assert_converts(f, f->out, again, "q4_k_m");
    assert_same_file(f->out, again, "shard_00000.bin");
    assert_int_equal(f->log.len, 0);
    free(again);
}

static void quantised_packs_convert_back_to_floats(void **state)
{
    struct fixture *f = *state;
    char *again = dgl_path_join(f->dir, "again");
    assert_converts(f, f->in, f->out, "q8_0");
    assert_converts(f, f->out, again, "f32");
    assert_same_values(again, f->out);
    free(again);
}

static void quantising_twice_warns(void **state)
{
    struct fixture *f = *state;
    char *again = dgl_path_join(f->dir, "again");
    assert_converts(f, f->in, f->out, "q8_0");
    assert_converts(f, f->out, again, "q4_k_m");
    assert_contains(f->log.text, "is q8_0 already");
    free(again);
}

/* ---- real models ---- */

#define BUNDLED "tests/models/story-llama-q4_k_m"

static void bundled_pack_verifies(void **state)
{
    (void)state;
    struct dgl_verify_result result = {0};
    struct dgl_verify_params params = {.path = BUNDLED};
    assert_int_equal(dgl_verify(NULL, &params, &result), DGL_OK);
    assert_int_equal(result.files, 4);
}

static void bundled_pack_is_what_the_converter_makes(void **state)
{
    struct fixture *f = *state;
    const char *in = test_unpacked("models/story-llama.tar.xz", "story-llama");
    if (!in)
        SKIP("models/story-llama.tar.xz is not there");
    assert_converts(f, in, f->out, "q4_k_m");
    assert_same_file(BUNDLED, f->out, "shard_00000.bin");
    assert_same_file(BUNDLED, f->out, "tokenizer.json");
}

int main(void)
{
    static const struct CMUnitTest cases[] = {
        FIXTURE_CASE(q5_k_m_spends_more_on_v_and_down),
        FIXTURE_CASE(q3_k_m_and_q2_k_spend_more_on_v_and_down),
        FIXTURE_CASE(padding_that_makes_tensors_larger_is_reported),
        FIXTURE_CASE(roles_can_be_given_types),
        FIXTURE_CASE(a_role_can_change_alone),
        FIXTURE_CASE(fast_packs_are_less_exact),
        FIXTURE_CASE(headline_names_the_matrices),
        FIXTURE_CASE(manifest_names_no_path),
        FIXTURE_CASE(pack_verifies),
        FIXTURE_CASE(pack_of_a_pack_is_named_by_the_last_recipe),
        FIXTURE_CASE(tensors_span_small_shards),
        FIXTURE_CASE(small_shards_hold_the_same_stream),
        FIXTURE_CASE(blake3_is_offered),
        FIXTURE_CASE(text_files_are_copied_verbatim),
        FIXTURE_CASE(skipped_tensors_are_left_out),
        FIXTURE_CASE(pinned_hints_are_left_out_loudly),
        FIXTURE_CASE(same_input_gives_the_same_bytes),
        FIXTURE_CASE(split_checkpoints_give_the_same_weights),
        FIXTURE_CASE(converting_a_pack_to_its_own_type_copies),
        FIXTURE_CASE(quantised_packs_convert_back_to_floats),
        FIXTURE_CASE(quantising_twice_warns),
        FIXTURE_CASE(bundled_pack_verifies),
        FIXTURE_CASE(bundled_pack_is_what_the_converter_makes),
    };
    int failed = test_run_table("recipes", recipe_stores_what_it_says, recipe_rows);
    failed += test_run_table("read only", types_without_an_encoder_are_refused, read_only);
    return failed + cmocka_run_group_tests_name("convert", cases, NULL, NULL);
}
