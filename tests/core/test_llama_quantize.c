/* Files from llama.cpp's own quantiser have the logits of their dequantised weights, for every type
 * that is read, except IQ3_XXS, IQ2_* and IQ1_*, which need an importance matrix
 * (tests/loader/gguf/test_gguf_types.c has them). Mixtures of experts are the most sensitive to
 * rounded weights, because close router choices change. */
#include "tests/support/process.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "loader/convert/convert.h"
#include "tests/support/reference.h"
#include "tests/support/tiny_engine.h"

#define PEERS "peers/llama.cpp-linux-x86_64.tar.xz"

struct model {
    const char *archive, *folder;
    size_t prompt; /* of its reference */
};

/* Rows of gpt-oss are not multiples of 256: llama.cpp uses Q4_0, Q5_0, Q5_1, Q8_0 and IQ4_NL
 * instead of the K types. */
static const struct model gpt_oss = {"fixtures/visible.tar.xz", "visible/gpt-oss-mxfp4", 2};
static const struct model story_moe = {"models/story-moe.tar.xz", "story-moe", 5};

struct row {
    const char *name;
    const struct model *model;
    const char *type;
    bool mix; /* of types, as llama.cpp likes it; else one for all matrices */
};

static const struct row rows[] = {
    {"gpt-oss F16", &gpt_oss, "F16", false},
    {"gpt-oss BF16", &gpt_oss, "BF16", false},
    {"gpt-oss Q4_0", &gpt_oss, "Q4_0", false},
    {"gpt-oss Q4_1", &gpt_oss, "Q4_1", false},
    {"gpt-oss Q5_0", &gpt_oss, "Q5_0", false},
    {"gpt-oss Q5_1", &gpt_oss, "Q5_1", false},
    {"gpt-oss Q8_0", &gpt_oss, "Q8_0", false},
    {"gpt-oss IQ4_NL", &gpt_oss, "IQ4_NL", false},
    {"gpt-oss IQ4_NL mix", &gpt_oss, "IQ4_NL", true},
    {"gpt-oss MXFP4", &gpt_oss, "MXFP4_MOE", true},
    {"story-moe Q2_K", &story_moe, "Q2_K", false},
    {"story-moe Q2_K mix", &story_moe, "Q2_K", true},
    {"story-moe Q3_K", &story_moe, "Q3_K_M", false},
    {"story-moe Q4_K", &story_moe, "Q4_K_M", false},
    {"story-moe Q5_K", &story_moe, "Q5_K_M", false},
    {"story-moe Q6_K", &story_moe, "Q6_K", false},
    {"story-moe IQ4_XS", &story_moe, "IQ4_XS", false},
    {"story-moe IQ3_S", &story_moe, "IQ3_S", false},
    {"story-moe TQ1_0", &story_moe, "TQ1_0", false},
    {"story-moe TQ2_0", &story_moe, "TQ2_0", false},
    {"story-moe Q1_0", &story_moe, "Q1_0", false},
    {"story-moe Q2_0", &story_moe, "Q2_0", false},
};

static void to_f32(const char *in, const char *out)
{
    struct dgl_convert_result result = {.size = sizeof(result)};
    struct dgl_convert_params params = {
        .in = in, .out = out, .to = "gguf", .quantize = "f32", .threads = 1};
    assert_int_equal(convert_model(NULL, &params, &result), DGL_OK);
}

static void llama_quantize(const char *peers, const struct row *row, const char *in,
                           const char *out)
{
    char *program = dgl_path_join(peers, "llama-quantize"), library[4200];
    struct process_result r;
    snprintf(library, sizeof(library), "LD_LIBRARY_PATH=%s", peers);
    const char *const args[] = {"--pure", in, out, row->type, "1", NULL};
    const char *const env[] = {library, NULL};
    process_run(&(struct process_params){.args = args + row->mix, .program = program, .env = env},
                &r);
    assert_code(&r, 0);
    process_finish(&r);
    free(program);
}

/* All logits of a prompt; dgl_free(). */
static float *logits_of(const char *path, const struct reference_prompt *p)
{
    struct tiny_engine e;
    float *logits = NULL;
    size_t count = 0;
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = path, .kv_type = DGL_KV_F32});
    assert_int_equal(
        dgl_logits(e.session, dgl_logits_params(.ids = p->ids, .num_ids = p->num_ids, .all = true),
                   &logits, &count),
        DGL_OK);
    assert_int_equal(count, p->num_ids);
    tiny_engine_close(&e);
    return logits;
}

static void check_file(const char *typed, const char *plain, const char *reference, size_t prompt)
{
    struct reference ref;
    reference_load(reference, &ref);
    const struct reference_prompt *p = &ref.prompt[prompt];
    assert_true(prompt < ref.count);
    float *got = logits_of(typed, p), *want = logits_of(plain, p);
    double nmse = tiny_nmse(got, want, p->num_ids * ref.vocab);
    assert_at_most(nmse, 1e-9); /* no value is rounded: only sums differ */
    dgl_free(got);
    dgl_free(want);
    reference_finish(&ref);
}

static void logits_are_those_of_the_dequantised_weights(void **state)
{
    const struct row *row = *state;
    if (!test_data(PEERS) || !test_data(row->model->archive))
        SKIP("%s: no " PEERS " or no %s in the test data", row->name, row->model->archive);
#ifndef __x86_64__
    SKIP("%s: " PEERS " is for x86_64", row->name);
#endif
    char *peers = strdup(test_unpacked(PEERS, "peers"));
    char *folder = strdup(test_unpacked(row->model->archive, row->model->folder));
    char *dir = test_tmpdir(), *source = dgl_path_join(dir, "source.gguf");
    char *typed = dgl_path_join(dir, "typed.gguf"), *plain = dgl_path_join(dir, "plain.gguf");
    to_f32(folder, source);
    llama_quantize(peers, row, source, typed);
    to_f32(typed, plain);
    check_file(typed, plain, folder, row->model->prompt);
    test_tmpdir_remove(dir);
    free(peers);
    free(folder);
    free(source);
    free(typed);
    free(plain);
}

int main(void)
{
    return test_run_table_sample("llama-quantize", logits_are_those_of_the_dequantised_weights,
                                 rows, 4);
}
