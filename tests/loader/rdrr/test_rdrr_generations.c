/* Packs of every generation of the format: the same model from every writer, or a refusal that
 * names the unsupported part. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "loader/hf/hf_model.h"
#include "loader/model/model_file.h"
#include "loader/model/rdrr_config.h"
#include "loader/rdrr/rdrr_reader.h"
#include "tests/support/convert_fixture.h"
#include "tests/support/desc_text.h"
#include "tests/support/family.h"
#include "tests/support/tiny_model.h"

/* ---- generations ---- */

/* Every occurrence of `find` in a file. */
static void replace_all(const char *dir, const char *name, const char *find, const char *replace)
{
    size_t len, count = 0;
    char *text = tiny_file_read(dir, name, &len);
    struct dgl_buf out = {0};
    const char *from = text;
    for (const char *at; (at = strstr(from, find)); from = at + strlen(find), count++) {
        dgl_buf_append(&out, from, (size_t)(at - from));
        dgl_buf_puts(&out, replace);
    }
    dgl_buf_puts(&out, from);
    if (count == 0)
        fail_msg("%s has no \"%s\"", name, find);
    test_write_file(dir, name, out.p, out.len);
    dgl_buf_finish(&out);
    free(text);
}

/* Moves "tensors" out of the manifest, each with a group. */
static void tensors_move(const char *dir, const char *name)
{
    size_t len;
    char *text = tiny_file_read(dir, "manifest.json", &len);
    char *at = strstr(text, "\"tensors\": {");
    struct dgl_buf manifest = {0};
    assert_non_null(at);
    char *map = at + strlen("\"tensors\": "), *end = strrchr(map, '}');
    dgl_buf_append(&manifest, text, (size_t)(at - text));
    dgl_buf_printf(&manifest, "\"tensorsFile\": \"%s\"}", name);
    test_write_file(dir, "manifest.json", manifest.p, manifest.len);
    test_write_file(dir, "tensors.json", map, (size_t)(end - map));
    replace_all(dir, "tensors.json", "\"dtype\"", "\"group\": \"layer.0\", \"dtype\"");
    replace_all(dir, "tensors.json", "\"role\"", "\"note\"");
    dgl_buf_finish(&manifest);
    free(text);
}

struct edit {
    const char *find, *replace; /* replace NULL: MOVED */
};

struct generation {
    const char *name;
    enum dgl_hash_kind hash;
    struct edit edits[12];
    const char *notice; /* in the log */
};

#define NOT_OURS                                                                                   \
    {                                                                                              \
        "\"tool\": \"dopplergl\"", "\"converterVersion\": \"1.0.0\""                               \
    }
#define NO_FILES                                                                                   \
    {                                                                                              \
        "\"files\": {", "\"metadata\": {"                                                          \
    }
#define NO_INFERENCE                                                                               \
    {                                                                                              \
        "\"inference\": {", "\"ignored\": {"                                                       \
    }
#define NO_CONFIG                                                                                  \
    {                                                                                              \
        "\"config\": {", "\"origin\": {"                                                           \
    }
#define TEXT_ARCHITECTURE                                                                          \
    {                                                                                              \
        "\"architecture\": {", "\"architecture\": \"LlamaForCausalLM\", \"unused\": {"             \
    }

/* The tensors in a file of their own. */
#define MOVED                                                                                      \
    {                                                                                              \
        "\"tensors\": {", NULL                                                                     \
    }
/* Members put in: into an object, into each tensor, beside the version, beside the shards. */
#define IN(object, members)                                                                        \
    {                                                                                              \
        "\"" object "\": {", "\"" object "\": {" members ", "                                      \
    }
#define IN_TENSORS(members)                                                                        \
    {                                                                                              \
        "\"dtype\": \"BF16\"", members ", \"dtype\": \"BF16\""                                     \
    }
#define BESIDE_VERSION(members)                                                                    \
    {                                                                                              \
        "\"version\": 1,", "\"version\": 1, " members ","                                          \
    }
#define BESIDE_SHARDS(members)                                                                     \
    {                                                                                              \
        "\"shards\": [", members ", \"shards\": ["                                                 \
    }

static const struct generation generations[] = {
    {"first: version as text, fileName, shardIndex, no offsets",
     DGL_HASH_SHA256,
     {NOT_OURS,
      NO_FILES,
      NO_INFERENCE,
      TEXT_ARCHITECTURE,
      {"\"version\": 1,", "\"version\": \"1.0\","},
      {"\"filename\"", "\"fileName\""},
      {"{\"shard\": ", "{\"shardIndex\": "},
      {"\"size\": 16384, \"offset\": ", "\"size\": 16384, \"unused\": "},
      {"\"role\"", "\"note\""},
      {"\"eos_token_id\": [1, 2],", ""}},
     NULL},
    {"first: hashed with blake3, called sha256",
     DGL_HASH_BLAKE3,
     {NOT_OURS,
      NO_FILES,
      NO_INFERENCE,
      TEXT_ARCHITECTURE,
      {"\"version\": 1,", "\"version\": \"1.0\","},
      {"\"hashAlgorithm\": \"blake3\"", "\"hashAlgorithm\": \"sha256\""}},
     "is its blake3"},
    {"second: tensors.json with groups",
     DGL_HASH_SHA256,
     {MOVED,
      NOT_OURS,
      NO_FILES,
      NO_INFERENCE,
      {"\"filename\"", "\"fileName\""},
      BESIDE_SHARDS("\"groups\": {\"layer.0\": {}}, \"moeConfig\": null")},
     NULL},
    {"third: no config, blake3 keys",
     DGL_HASH_BLAKE3,
     {NOT_OURS, NO_FILES, NO_CONFIG, {"\"hash\"", "\"blake3\""}, {"\"kernelHints\"", "\"old\""}},
     NULL},
    {"third: sha256, said by the shards only",
     DGL_HASH_SHA256,
     {NOT_OURS,
      NO_FILES,
      NO_CONFIG,
      {"\"hashAlgorithm\": \"sha256\",", ""},
      {"\"filename\"", "\"hashAlgorithm\": \"sha256\", \"filename\""}},
     NULL},
    {"third: no algorithm at all",
     DGL_HASH_SHA256,
     {NOT_OURS, NO_FILES, NO_CONFIG, {"\"hashAlgorithm\": \"sha256\",", ""}},
     NULL},
    {"words of another vocabulary",
     DGL_HASH_SHA256,
     {NOT_OURS,
      {"\"modelType\": \"transformer\"", "\"modelType\": \"mixtral\""},
      {"\"quantization\": \"BF16\"", "\"quantization\": \"W4A16\""},
      {"\"role\": \"embedding\"", "\"role\": \"matmul\""},
      {"\"role\": \"norm\"", "\"role\": \"other\""}},
     NULL},
    {"no modelType", DGL_HASH_SHA256, {NOT_OURS, {"\"modelType\": \"transformer\",", ""}}, NULL},
    {"tensors described by storage",
     DGL_HASH_SHA256,
     {NOT_OURS,
      {"\"dtype\": \"BF16\"",
       "\"storage\": {\"packing\": \"dense\", \"companions\": []}, \"sourceTransform\": null, "
       "\"dtype\": \"BF16\""}},
     NULL},
};

static void pack_edit(const char *dir, const struct edit *edits, size_t count)
{
    for (size_t i = 0; i < count && edits[i].find; i++)
        if (edits[i].replace)
            replace_all(dir, "manifest.json", edits[i].find, edits[i].replace);
        else
            tensors_move(dir, "tensors.json");
}

static struct dgl_model_file *open_logged(const char *dir, struct test_log *log)
{
    struct dgl_model_file *file = NULL;
    test_log_init(log, DGL_LOG_WARN);
    struct model_open_params params = {.path = dir, .verify = true};
    if (model_file_open(&log->log, &params, &file) != DGL_OK)
        fail_msg("%s: %s", dir, log->text);
    return file;
}

/* Without the fields that only the names of families determine. */
static char *desc_string(const struct dgl_model_file *file)
{
    struct dgl_buf text = {0};
    desc_text(&file->desc, &text);
    assert_false(text.failed);
    return dgl_buf_take(&text);
}

static void generation_is_the_same_model(void **state)
{
    const struct generation *row = *state;
    struct test_log log;
    char *dir = test_tmpdir(), *plain = test_tmpdir();
    struct tiny_pack pack = tiny_pack_default();
    tiny_pack_write(plain, &pack);
    pack.hash = row->hash;
    tiny_pack_write(dir, &pack);
    pack_edit(dir, row->edits, sizeof(row->edits) / sizeof(row->edits[0]));
    struct dgl_model_file *file = open_logged(dir, &log), *want = open_logged(plain, &log);
    char *a = desc_string(file), *b = desc_string(want);
    assert_string_equal(a, b);
    assert_int_equal(file->desc.num_stop_ids, want->desc.num_stop_ids);
    free(a);
    free(b);
    model_file_close(&file);
    model_file_close(&want);
    assert_same_values(dir, plain);
    file = open_logged(dir, &log);
    if (row->notice)
        assert_contains(log.text, row->notice);
    model_file_close(&file);
    test_tmpdir_remove(dir);
    test_tmpdir_remove(plain);
}

/* ---- refusals ---- */

struct refusal {
    const char *name;
    struct edit edits[5];
    enum dgl_status status;
    const char *parts[2];
};

static const struct refusal refusals[] = {
    {"blake3 called sha256 in a newer pack",
     {NOT_OURS, {"\"hashAlgorithm\": \"sha256\"", "\"hashAlgorithm\": \"blake3\""}},
     DGL_ERR_INTEGRITY,
     {"blake3 is"}},
    {"algorithms that disagree",
     {NOT_OURS, {"\"filename\"", "\"hashAlgorithm\": \"blake3\", \"filename\""}},
     DGL_ERR_FORMAT,
     {"shards[0].hashAlgorithm", "\"sha256\""}},
    {"version 2 as text",
     {{"\"version\": 1,", "\"version\": \"2.0\","}},
     DGL_ERR_UNSUPPORTED,
     {"version is 2"}},
    {"an adapter by its type",
     {{"\"modelType\": \"transformer\"", "\"modelType\": \"lora\""}},
     DGL_ERR_UNSUPPORTED,
     {"modelType is lora"}},
    {"a model of another kind",
     {NOT_OURS, {"\"modelType\": \"transformer\"", "\"modelType\": \"rwkv\""}},
     DGL_ERR_UNSUPPORTED,
     {"modelType is rwkv", "supported: transformers"}},
    {"a norm that is a matrix",
     {NOT_OURS, {"\"role\": \"matmul\"", "\"role\": \"norm\""}},
     DGL_ERR_FORMAT,
     {"role", "\"norm\", but the name makes it \"matmul\""}},
    {"a matrix that is a norm",
     {NOT_OURS, {"\"role\": \"norm\"", "\"role\": \"embedding\""}},
     DGL_ERR_FORMAT,
     {"role", "\"embedding\", but the name makes it \"norm\""}},
    {"weights elsewhere",
     {BESIDE_VERSION("\"artifactIdentity\": {\"artifactCompleteness\": \"weights-ref\"}")},
     DGL_ERR_UNSUPPORTED,
     {"artifactIdentity.artifactCompleteness is weights-ref"}},
    {"names of GGUF",
     {NOT_OURS, {"\"model.norm.weight\"", "\"blk.0.attn_q.weight\""}},
     DGL_ERR_UNSUPPORTED,
     {"tensors.blk.0.attn_q.weight", "GGUF"}},
    {"config of GGUF",
     {NOT_OURS, IN("config", "\"blockCount\": 2")},
     DGL_ERR_UNSUPPORTED,
     {"config.blockCount", "GGUF"}},
    {"tensors' file that climbs",
     {MOVED, NOT_OURS, {"\"tensors.json\"", "\"../tensors.json\""}},
     DGL_ERR_FORMAT,
     {"tensorsFile", "not a plain file name"}},
    {"tensors' file that is missing",
     {MOVED, NOT_OURS, {"\"tensors.json\"", "\"other.json\""}},
     DGL_ERR_IO,
     {"other.json"}},
    {"neither config nor inference",
     {NOT_OURS, NO_CONFIG, NO_INFERENCE},
     DGL_ERR_FORMAT,
     {"config is missing"}},
    {"transformed at load",
     {IN_TENSORS("\"sourceTransform\": {\"kind\": 1}")},
     DGL_ERR_UNSUPPORTED,
     {"sourceTransform"}},
    {"companions",
     {IN_TENSORS("\"storage\": {\"companions\": [{}]}")},
     DGL_ERR_UNSUPPORTED,
     {"storage.companions"}},
    {"packing of another type",
     {IN_TENSORS("\"storage\": {\"packing\": \"w4a16\"}")},
     DGL_ERR_UNSUPPORTED,
     {"storage.packing is w4a16"}},
    {"experts that the config has not",
     {NOT_OURS, BESIDE_SHARDS("\"moeConfig\": {\"numExperts\": 4, \"numExpertsPerToken\": 2}")},
     DGL_ERR_FORMAT,
     {"moeConfig.numExperts is 4", "0"}},
    {"more experts chosen than there are",
     {NOT_OURS, BESIDE_SHARDS("\"moeConfig\": {\"numExperts\": 4, \"numExpertsPerToken\": 5}")},
     DGL_ERR_FORMAT,
     {"moeConfig.numExpertsPerToken is 5"}},
    {"experts of an unknown format",
     {NOT_OURS,
      {"\"shards\": [", "\"moeConfig\": {\"numExperts\": 4, \"numExpertsPerToken\": 2, "
                        "\"expertFormat\": \"gemma4\"}, \"shards\": ["}},
     DGL_ERR_UNSUPPORTED,
     {"expertFormat is \"gemma4\""}},
    {"pairs of dimensions that interleave",
     {NOT_OURS, IN("rope", "\"ropeInterleaved\": true")},
     DGL_ERR_UNSUPPORTED,
     {"inference.rope.ropeInterleaved is true"}},
    {"sections of positions",
     {NOT_OURS, IN("rope", "\"mropeSection\": [8, 8]")},
     DGL_ERR_UNSUPPORTED,
     {"inference.rope.mropeSection is [8"}},
    {"layers that share keys",
     {NOT_OURS, IN("architecture", "\"numKvSharedLayers\": 2")},
     DGL_ERR_UNSUPPORTED,
     {"architecture.numKvSharedLayers is 2"}},
    {"a pipeline of its own",
     {NOT_OURS, IN("inference", "\"pipeline\": {\"steps\": []}")},
     DGL_ERR_UNSUPPORTED,
     {"inference.pipeline"}},
    {"a gate on attention's output",
     {NOT_OURS, NO_CONFIG, {"\"attentionOutputGate\": false", "\"attentionOutputGate\": true"}},
     DGL_ERR_FORMAT,
     {"attentionOutputGate is true", "false"}},
    {"activation without a config",
     {NOT_OURS, NO_CONFIG, {"\"activation\": \"silu\"", "\"activation\": \"relu\""}},
     DGL_ERR_UNSUPPORTED,
     {"inference.ffn.activation is \"relu\""}},
    {"rope without a config",
     {NOT_OURS, NO_CONFIG, {"\"ropeScalingType\": null", "\"ropeScalingType\": \"longrope\""}},
     DGL_ERR_UNSUPPORTED,
     {"inference.rope.ropeScalingType is \"longrope\""}},
    {"layout of the pack that is none",
     {NOT_OURS, BESIDE_VERSION("\"defaultWeightLayout\": \"diagonal\"")},
     DGL_ERR_FORMAT,
     {"defaultWeightLayout"}},
};

static void pack_is_refused(void **state)
{
    const struct refusal *row = *state;
    struct test_log log;
    struct dgl_model_file *file = NULL;
    char *dir = test_tmpdir();
    struct tiny_pack pack = tiny_pack_default();
    test_log_init(&log, DGL_LOG_ERROR);
    tiny_pack_write(dir, &pack);
    pack_edit(dir, row->edits, sizeof(row->edits) / sizeof(row->edits[0]));
    struct model_open_params params = {.path = dir, .verify = true};
    enum dgl_status status = model_file_open(&log.log, &params, &file);
    assert_refusal(&log, status, row->status, row->parts);
    test_tmpdir_remove(dir);
}

/* ---- configs that are made ---- */

struct made {
    const char *name;
    const char *architecture, *inference; /* contents of the objects */
    const char *family;
    /* of layer 0 (0 = absent), and the first layer without one (-1 = no such layer) */
    int32_t window, global_layer;
    const char *refused; /* instead of a family */
};

#define SIZES                                                                                      \
    "\"numLayers\": 8, \"hiddenSize\": 64, \"intermediateSize\": 96, \"numAttentionHeads\": 4, "   \
    "\"numKeyValueHeads\": 2, \"headDim\": 16, \"vocabSize\": 320, \"maxSeqLen\": 1024"
#define NORMS(plus, post, pre, feed)                                                               \
    "\"normalization\": {\"rmsNormEps\": 1e-6, \"rmsNormWeightOffset\": " #plus                    \
    ", \"postAttentionNorm\": " #post ", \"preFeedforwardNorm\": " #pre                            \
    ", \"postFeedforwardNorm\": " #feed "}, "
#define ATTENTION(scalar, window, norm, bias)                                                      \
    "\"attention\": {\"queryPreAttnScalar\": " #scalar ", \"slidingWindow\": " #window             \
    ", \"queryKeyNorm\": " #norm ", \"attentionBias\": " #bias ", \"causal\": true}, "
#define ROPE   "\"rope\": {\"ropeTheta\": 10000, \"ropeLocalTheta\": null}, "
#define SILU   "\"ffn\": {\"activation\": \"silu\", \"gatedActivation\": true}, "
#define GELU   "\"ffn\": {\"activation\": \"gelu\", \"gatedActivation\": true}, "
#define OUTPUT "\"output\": {\"tieWordEmbeddings\": true, \"scaleEmbeddings\": false}, "
#define SCALED "\"output\": {\"tieWordEmbeddings\": true, \"scaleEmbeddings\": true}, "
#define EVERY6                                                                                     \
    "\"layerPattern\": {\"type\": \"every_n\", \"globalPattern\": null, \"period\": 6, "           \
    "\"offset\": 5, \"layerTypes\": null}"
#define UNIFORM "\"layerPattern\": {\"type\": \"uniform\"}"

static const struct made mades[] = {
    {"plain", SIZES,
     ATTENTION(16, null, false, false) NORMS(false, false, false, false) ROPE SILU OUTPUT UNIFORM,
     "llama", 0, 0, NULL},
    {"norms of queries and keys", SIZES,
     ATTENTION(16, null, true, false) NORMS(false, false, false, false) ROPE SILU OUTPUT UNIFORM,
     "qwen3", 0, 0, NULL},
    {"biases", SIZES,
     ATTENTION(16, null, false, true) NORMS(false, false, false, false) ROPE SILU OUTPUT UNIFORM,
     "qwen2", 0, 0, NULL},
    {"a window", SIZES,
     ATTENTION(16, 128, false, false) NORMS(false, false, false, false) ROPE SILU OUTPUT UNIFORM,
     "mistral", 128, -1, NULL},
    {"every sixth layer sees all", SIZES,
     ATTENTION(256, 512, true, false)
         NORMS(true, true, true, true) "\"rope\": {\"ropeTheta\": 1000000, \"ropeLocalTheta\": "
                                       "10000, \"ropeScalingFactor\": 1}, " GELU SCALED EVERY6,
     "gemma3_text", 512, 5, NULL},
    {"every other layer sees all, capped", SIZES,
     "\"attention\": {\"queryPreAttnScalar\": 256, \"slidingWindow\": 64, \"queryKeyNorm\": false, "
     "\"attnLogitSoftcapping\": 50}, " NORMS(true, true, true, true) ROPE GELU
     "\"output\": {\"tieWordEmbeddings\": true, \"scaleEmbeddings\": true, "
     "\"finalLogitSoftcapping\": 30}, "
     "\"layerPattern\": {\"type\": \"alternating\", \"globalPattern\": \"odd\"}",
     "gemma2", 64, 1, NULL},
    {"layers by name", SIZES,
     ATTENTION(256, 512, true, false) NORMS(
         true, true, true,
         true) "\"rope\": {\"ropeTheta\": 1000000, \"ropeLocalTheta\": 10000}, " GELU SCALED
               "\"layerPattern\": {\"type\": \"custom\", \"layerTypes\": [\"sliding_attention\", "
               "\"sliding_attention\", \"full_attention\", \"sliding_attention\", "
               "\"sliding_attention\", "
               "\"sliding_attention\", \"full_attention\", \"full_attention\"]}",
     "gemma3_text", 512, 2, NULL},
    {"pattern without a period", SIZES,
     ATTENTION(256, 512, true, false) NORMS(true, true, true, true) ROPE GELU SCALED
     "\"layerPattern\": {\"type\": \"every_n\", \"period\": 0}",
     NULL, 0, 0, "inference.layerPattern.type is \"every_n\""},
    {"offset norms alone", SIZES,
     ATTENTION(16, null, false, false) NORMS(true, false, false, false) ROPE GELU SCALED UNIFORM,
     NULL, 0, 0, "inference.normalization.rmsNormWeightOffset is true"},
    {"scores scaled as no such family does", SIZES,
     ATTENTION(64, null, false, false) NORMS(false, false, false, false) ROPE SILU OUTPUT UNIFORM,
     NULL, 0, 0, "queryPreAttnScalar is 64"},
    {"partial rotation", SIZES,
     ATTENTION(16, null, false, false)
         NORMS(false, false, false,
               false) "\"rope\": {\"ropeTheta\": 10000, \"partialRotaryFactor\": 0.5}, " SILU OUTPUT
             UNIFORM,
     NULL, 0, 0, "inference.rope.partialRotaryFactor is 0.5"},
    {"no layers", "\"hiddenSize\": 64", OUTPUT UNIFORM, NULL, 0, 0, "numLayers is missing"},
    {"layers without end", "\"numLayers\": 1000000000", OUTPUT UNIFORM, NULL, 0, 0,
     "numLayers is 1000000000"},
};

/* The config that a manifest gets, read and compared with the manifest. */
static enum dgl_status made_read(const struct dgl_log *log, const struct made *row,
                                 struct model_desc *desc)
{
    struct dgl_buf text = {0};
    struct dgl_json_doc *doc = NULL;
    struct fields fields = {.name = "manifest.json config"};
    struct model_skipped skipped = {0};
    dgl_buf_printf(&text,
                   "{\"architecture\": {%s}, \"inference\": {%s}, \"eos_token_id\": [1, 106]}",
                   row->architecture, row->inference);
    assert_int_equal(dgl_json_parse(log, "manifest.json", text.p, text.len, &doc), DGL_OK);
    struct dgl_json_reader r = {.log = log, .doc = doc};
    enum dgl_status status = rdrr_config_read(r, dgl_json_root(doc), false, &fields);
    if (status == DGL_OK)
        status =
            model_desc_init(log, &(struct model_desc_input){.config = &fields, .config_only = true},
                            desc, &skipped);
    if (status == DGL_OK)
        status = rdrr_inference_check(r, dgl_json_root(doc), desc, false);
    model_skipped_finish(&skipped);
    fields_finish(&fields);
    dgl_json_destroy(&doc);
    dgl_buf_finish(&text);
    return status;
}

static void config_is_made(void **state)
{
    const struct made *row = *state;
    struct test_log log;
    struct model_desc desc = {0};
    int32_t global = -1;
    test_log_init(&log, DGL_LOG_ERROR);
    enum dgl_status status = made_read(&log.log, row, &desc);
    if (row->refused) {
        assert_int_not_equal(status, DGL_OK);
        assert_contains(log.text, row->refused);
        model_desc_finish(&desc);
        return;
    }
    if (status != DGL_OK)
        fail_msg("%s", log.text);
    assert_string_equal(desc.family, row->family);
    for (int32_t i = desc.layers - 1; i >= 0; i--)
        global = desc.layer[i].window == 0 ? i : global;
    assert_int_equal(desc.layer[0].window, row->window);
    assert_int_equal(global, row->global_layer);
    assert_int_equal(desc.num_stop_ids, 2);
    model_desc_finish(&desc);
}

/* ---- checkpoints of families, packed as others do ---- */

/* Tensors as stored, back to back in one shard. */
static void tensors_pack(const struct tensor_source *src, struct dgl_buf *bytes,
                         struct dgl_json_writer *w)
{
    dgl_jw_field_object(w, "tensors");
    for (size_t i = 0; i < tensor_source_count(src); i++) {
        const struct tensor_info *t = tensor_source_at(src, i);
        unsigned char *piece = dgl_calloc(1, (size_t)t->bytes);
        assert_non_null(piece);
        assert_int_equal(tensor_source_read(NULL, src, i, 0, piece, (size_t)t->bytes), DGL_OK);
        dgl_jw_field_object(w, t->name);
        dgl_jw_field_u64(w, "shard", 0);
        dgl_jw_field_u64(w, "offset", bytes->len);
        dgl_jw_field_u64(w, "size", t->bytes);
        dgl_jw_field_array(w, "shape");
        for (uint32_t d = 0; d < t->rank; d++)
            dgl_jw_u64(w, t->shape[d]);
        dgl_jw_end_array(w);
        dgl_jw_field_cstr(w, "dtype", dgl_dtype_get(t->dtype)->rdrr);
        dgl_jw_end_object(w);
        dgl_buf_append(bytes, piece, (size_t)t->bytes);
        free(piece);
    }
    dgl_jw_end_object(w);
}

/* The folder `from` as a pack of the first generation in `to`. */
static void folder_pack(const char *from, const char *to)
{
    struct dgl_buf text = {0}, bytes = {0};
    struct dgl_json_writer w = dgl_json_writer(&text, 0);
    struct tensor_source *src = NULL;
    char hash[65];
    size_t len;
    char *config = tiny_file_read(from, "config.json", &len);
    assert_int_equal(hf_tensors_open(NULL, &blob_files, from, &src), DGL_OK);
    dgl_jw_object(&w);
    tensors_pack(src, &bytes, &w);
    assert_true(dgl_hash_bytes(DGL_HASH_SHA256, bytes.p, bytes.len, hash));
    test_write_file(to, "shard_00000.bin", bytes.p, bytes.len);
    dgl_buf_printf(&text,
                   ",\"version\": \"1.0\", \"modelId\": \"m\", \"quantization\": \"F32\", "
                   "\"architecture\": \"X\", \"totalSize\": %zu, \"shards\": [{\"fileName\": "
                   "\"shard_00000.bin\", \"size\": %zu, \"hash\": \"%s\"}], \"config\": %s}",
                   bytes.len, bytes.len, hash, config);
    assert_false(text.failed || bytes.failed);
    test_write_file(to, "manifest.json", text.p, text.len);
    tensor_source_destroy(&src);
    dgl_buf_finish(&text);
    dgl_buf_finish(&bytes);
    free(config);
}

static void assert_same_bytes(const struct tensor_source *a, const struct tensor_source *b)
{
    assert_int_equal(tensor_source_count(a), tensor_source_count(b));
    for (size_t i = 0; i < tensor_source_count(b); i++) {
        const struct tensor_info *want = tensor_source_at(b, i);
        long at = tensor_source_find(a, want->name);
        assert_true(at >= 0);
        const struct tensor_info *got = tensor_source_at(a, (size_t)at);
        assert_int_equal(got->dtype, want->dtype);
        assert_int_equal(got->bytes, want->bytes);
        unsigned char *x = dgl_calloc(2, (size_t)want->bytes), *y = x + want->bytes;
        assert_non_null(x);
        assert_int_equal(tensor_source_read(NULL, a, (size_t)at, 0, x, want->bytes), DGL_OK);
        assert_int_equal(tensor_source_read(NULL, b, i, 0, y, want->bytes), DGL_OK);
        if (memcmp(x, y, (size_t)want->bytes) != 0)
            fail_msg("%s differs", want->name);
        free(x);
    }
}

struct family {
    const char *name;
};
static const struct family families[] = {
    {"llama3"},  {"qwen3"}, {"gemma2"},    {"gemma3"},        {"phi3"},
    {"mixtral"}, {"olmo2"}, {"qwen3-moe"}, {"gpt-oss-mxfp4"}, {"granite"},
};

/* GPT-OSS's experts are pairs of U8 tensors in such a pack, as in the checkpoint. */
static void family_is_packed(void **state)
{
    const struct family *row = *state;
    struct test_log log;
    const char *folder = family_dir(row->name);
    char *dir = test_tmpdir();
    folder_pack(folder, dir);
    struct dgl_model_file *got = open_logged(dir, &log), *want = open_logged(folder, &log);
    char *a = desc_string(got), *b = desc_string(want);
    assert_string_equal(a, b);
    assert_same_bytes(got->tensors, want->tensors);
    free(a);
    free(b);
    model_file_close(&got);
    model_file_close(&want);
    test_tmpdir_remove(dir);
}

int main(void)
{
    int failures = test_run_table("generations", generation_is_the_same_model, generations);
    failures += test_run_table("refused", pack_is_refused, refusals);
    failures += test_run_table("configs", config_is_made, mades);
    return failures + test_run_table("families", family_is_packed, families);
}
