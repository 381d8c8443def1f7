/* Options of the converter that change the layout of weights, but not their values: every pack
 * opens, verifies, and computes the logits of the same weights in the plain layout. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "tests/support/convert_fixture.h"
#include "tests/support/tiny_engine.h"

enum { PROMPT = 24 };

/* Logits of the model after a fixed prompt; free(). */
static float *logits_of(const char *path, int32_t vocab)
{
    struct tiny_engine e;
    int32_t ids[PROMPT];
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = path, .kv_type = DGL_KV_F32});
    tiny_ids(ids, PROMPT, vocab, 7);
    tiny_sync(e.session, ids, PROMPT);
    float *logits = tiny_logits(e.session);
    tiny_engine_close(&e);
    return logits;
}

static void assert_same_logits(const char *got, const char *want, int32_t vocab)
{
    float *a = logits_of(got, vocab), *b = logits_of(want, vocab);
    assert_at_most(tiny_nmse(a, b, (size_t)vocab), 1e-12);
    free(a);
    free(b);
}

struct layout_row {
    const char *name;
    int32_t hidden, intermediate, head_dim;
    struct dgl_convert_params params;
    bool lossy; /* blocks are others than in rows: compared with the same values as f16 */
    const char *manifest[2];
};

static const struct layout_row layout_rows[] = {
    {"floats in columns",
     64,
     96,
     16,
     {.quantize = "f16", .transpose_weights = true},
     false,
     {"\"shape\": [\n        64,\n        96\n      ],\n      \"originalShape\": [\n        96,\n",
      "\"layout\": \"column\""}},
    {"stored floats in columns",
     80,
     100,
     16,
     {.transpose_weights = true},
     false,
     {"\"layout\": \"column\"", "\"originalShape\""}},
    {"gate and up as one",
     64,
     96,
     16,
     {.quantize = "f32", .fuse_gate_up = true},
     false,
     {"\"model.layers.1.mlp.gate_up_proj.weight\"", "\"fuseGateUp\": true"}},
    {"gate and up as one in blocks",
     64,
     96,
     16,
     {.quantize = "q4_k_m", .fuse_gate_up = true, .q4k_layout = "row"},
     false,
     {"gate_up_proj", "\"layout\": \"row\""}},
    {"gate and up as one in columns",
     80,
     100,
     16,
     {.quantize = "f16", .fuse_gate_up = true, .transpose_weights = true},
     false,
     {"gate_up_proj", "\"layout\": \"column\""}},
    {"flat rows of whole blocks",
     256,
     512,
     64,
     {.quantize = "q4_k_m", .q4k_layout = "flat"},
     false,
     {"\"layout\": \"flat\"", NULL}},
    {"flat across rows",
     80,
     300,
     16,
     {.quantize = "q4_k_m", .q4k_layout = "flat"},
     true,
     {"\"layout\": \"flat\"", NULL}},
    {"blocks in columns",
     80,
     300,
     16,
     {.quantize = "q4_k_m", .q4k_layout = "column"},
     true,
     {"\"layout\": \"column\"", NULL}},
    {"blocks in columns, gate and up as one",
     64,
     300,
     16,
     {.quantize = "q4_k_m", .q4k_layout = "column", .fuse_gate_up = true},
     true,
     {"gate_up_proj", "\"layout\": \"column\""}},
};

static void assert_verifies(const char *pack)
{
    struct dgl_verify_result result = {.size = sizeof(result)};
    struct dgl_verify_params params = {.path = pack};
    assert_int_equal(dgl_verify(NULL, &params, &result), DGL_OK);
    assert_true(result.files > 0);
}

/* Every matrix of `got` that `want` has under the same name is near it. */
static void assert_near_source(const char *got, const char *want)
{
    struct dgl_model_file *a = open_model(got), *b = open_model(want);
    for (size_t i = 0; i < tensor_source_count(a->tensors); i++) {
        const char *name = tensor_source_at(a->tensors, i)->name;
        if (tensor_source_find(b->tensors, name) >= 0)
            assert_at_most(tensor_nmse(a->tensors, b->tensors, name), 1e-2);
    }
    model_file_close(&a);
    model_file_close(&b);
}

static void layout_keeps_the_model(void **state)
{
    const struct layout_row *row = *state;
    void *holder = NULL;
    fixture_setup(&holder);
    struct fixture *f = holder;
    f->tiny.hidden = row->hidden;
    f->tiny.intermediate = row->intermediate;
    f->tiny.head_dim = row->head_dim;
    fixture_write(f);
    char *plain = dgl_path_join(f->dir, "plain");
    if (convert_with(f, row->params) != DGL_OK)
        fail_msg("%s", f->log.text);
    struct dgl_convert_params same = {.out = plain, .quantize = row->params.quantize};
    if (row->lossy)
        same = (struct dgl_convert_params){
            .in = f->out, .out = plain, .quantize = "f16", .embed = "q8_0"};
    if (convert_with(f, same) != DGL_OK)
        fail_msg("%s", f->log.text);
    assert_verifies(f->out);
    assert_near_source(f->out, f->in);
    if (!row->params.fuse_gate_up)
        assert_same_values(f->out, plain);
    char *manifest = read_text(f->out, "manifest.json");
    for (size_t i = 0; i < 2 && row->manifest[i]; i++)
        assert_contains(manifest, row->manifest[i]);
    assert_same_logits(f->out, plain, f->tiny.vocab);
    free(manifest);
    free(plain);
    fixture_teardown(&holder);
}

/* ---- packs of packs ---- */

static void pack_in_columns_becomes_rows(void **state)
{
    struct fixture *f = *state;
    char *again = dgl_path_join(f->dir, "rows");
    assert_int_equal(convert(f, .quantize = "q4_k_m", .q4k_layout = "column"), DGL_OK);
    assert_converts(f, f->out, again, "q4_k_m");
    assert_quantization(again, "q4_k_m");
    assert_near_source(again, f->out);
    free(again);
}

/* Such a pack needs more memory: a notice reports it, not a warning. */
static void pack_in_columns_is_noticed(void **state)
{
    struct fixture *f = *state;
    struct test_log log;
    struct dgl_model_file *file = NULL;
    assert_int_equal(convert(f, .quantize = "q4_k_m", .q4k_layout = "column"), DGL_OK);
    test_log_init(&log, DGL_LOG_NOTICE);
    assert_int_equal(model_file_open(&log.log, &(struct model_open_params){.path = f->out}, &file),
                     DGL_OK);
    assert_contains(log.text, "are used as f16: ");
    assert_contains(log.text, "layout column");
    model_file_close(&file);
}

static void pack_with_joined_tensors_converts(void **state)
{
    struct fixture *f = *state;
    char *again = dgl_path_join(f->dir, "again");
    assert_int_equal(convert(f, .quantize = "f32", .fuse_gate_up = true), DGL_OK);
    assert_converts(f, f->out, again, "q8_0");
    assert_near_source(again, f->out);
    free(again);
}

static void row_layout_is_the_default(void **state)
{
    struct fixture *f = *state;
    char *other = dgl_path_join(f->dir, "row");
    assert_converts(f, f->in, f->out, "q4_k_m");
    assert_int_equal(convert(f, .out = other, .quantize = "q4_k_m", .q4k_layout = "row"), DGL_OK);
    assert_same_file(f->out, other, "manifest.json");
    assert_same_file(f->out, other, "shard_00000.bin");
    free(other);
}

/* ---- refusals ---- */

struct refusal {
    const char *name;
    bool joined; /* the source has gate and up as one already */
    struct dgl_convert_params params;
    const char *part;
};

static const struct refusal refusals[] = {
    {"layout that is none",
     false,
     {.quantize = "q4_k_m", .q4k_layout = "diagonal"},
     "q4k-layout is \"diagonal\", wanted row, column or flat"},
    {"layout of blocks without blocks",
     false,
     {.quantize = "q8_0", .q4k_layout = "column"},
     "q4k-layout is \"column\", but no matrix becomes q4_k"},
    {"columns of floats without floats",
     false,
     {.quantize = "q8_0", .transpose_weights = true},
     "transpose-weights was given, but"},
    {"nothing to join",
     true,
     {.quantize = "q8_0", .fuse_gate_up = true},
     "fuse-gate-up was given, but no layer"},
    {"layouts of packs in a GGUF file",
     false,
     {.to = "gguf", .quantize = "q8_0", .fuse_gate_up = true},
     "fuse-gate-up is for packs, and a GGUF file has one layout; leave it out, or make"},
    {"hash of a GGUF file",
     false,
     {.to = "gguf", .hash = "sha256"},
     "hash is for packs, and a GGUF file carries no hashes"},
    {"shards of a GGUF file",
     false,
     {.to = "gguf", .shard_bytes = 64u << 20},
     "shard-size is for packs, and a GGUF file has no shards"},
    {"text model of a text model", false, {.text_only = true}, "text-only was given, but "},
    {"text model of a text model as GGUF",
     false,
     {.to = "gguf", .text_only = true},
     "is a text model already"},
    {"no search without types",
     false,
     {.fast = true},
     "fast was given, but there is no search to leave out: quantize was not given"},
    {"no search in floats",
     false,
     {.quantize = "f16", .fast = true},
     "quantize is f16, and no role gets a block format"},
    {"no search in floats of a GGUF file",
     false,
     {.to = "gguf", .quantize = "bf16", .fast = true},
     "quantize is bf16"},
};

static void option_is_refused(void **state)
{
    const struct refusal *row = *state;
    void *holder = NULL;
    fixture_setup(&holder);
    struct fixture *f = holder;
    char *joined = dgl_path_join(f->dir, "joined");
    struct dgl_convert_params params = row->params;
    if (row->joined) {
        assert_int_equal(convert(f, .out = joined, .fuse_gate_up = true), DGL_OK);
        params.in = joined;
    }
    assert_int_equal(convert_with(f, params), DGL_ERR_INVALID_ARG);
    assert_contains(f->log.text, row->part);
    assert_false(dgl_path_exists(f->out));
    free(joined);
    fixture_teardown(&holder);
}

/* Copied blocks need no search, so --fast has no effect there. The plan shows this for packs and
 * GGUF files. */
static void fast_copies_are_refused(void **state)
{
    struct fixture *f = *state;
    char *again = dgl_path_join(f->dir, "again");
    static const char *const kinds[] = {"rdrr", "gguf"};
    assert_converts(f, f->in, f->out, "q8_0");
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        assert_int_equal(convert(f, .in = f->out, .out = again, .to = kinds[i], .quantize = "q8_0",
                                 .fast = true),
                         DGL_ERR_INVALID_ARG);
        assert_contains(f->log.text, "no tensor of this model becomes a block format");
        assert_only(f, "in", "out");
        test_log_init(&f->log, DGL_LOG_WARN);
    }
    free(again);
}

/* The same block format in another layout is encoded anew. */
static void fast_blocks_in_columns_are_encoded(void **state)
{
    struct fixture *f = *state;
    char *again = dgl_path_join(f->dir, "again");
    assert_converts(f, f->in, f->out, "q4_k_m");
    if (convert(f, .in = f->out, .out = again, .quantize = "q4_k_m", .q4k_layout = "column",
                .fast = true) != DGL_OK)
        fail_msg("%s", f->log.text);
    free(again);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        FIXTURE_CASE(pack_in_columns_becomes_rows),
        FIXTURE_CASE(pack_in_columns_is_noticed),
        FIXTURE_CASE(pack_with_joined_tensors_converts),
        FIXTURE_CASE(row_layout_is_the_default),
        FIXTURE_CASE(fast_copies_are_refused),
        FIXTURE_CASE(fast_blocks_in_columns_are_encoded),
    };
    int failures = cmocka_run_group_tests(cases, NULL, NULL);
    failures += test_run_table("refused", option_is_refused, refusals);
    return failures + test_run_table("layouts", layout_keeps_the_model, layout_rows);
}
