/* Tensors of every family with other names, missing, twice, or together with tensors of another
 * part: miniature checkpoints with changed headers. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "loader/convert/convert.h"
#include "loader/model/model_file.h"
#include "tests/support/desc_text.h"
#include "tests/support/family.h"
#include "tests/support/tiny_model.h"

/* Text for text, wherever it occurs. */
struct edit {
    const char *from, *to;
};
enum { MAX_EDITS = 3 };

static char *text_edit(const char *text, const struct edit *edits)
{
    char *now = strdup(text);
    for (int i = 0; i < MAX_EDITS && edits[i].from; i++) {
        struct dgl_buf out = {0};
        const char *at = now, *hit;
        if (!strstr(now, edits[i].from))
            fail_msg("no \"%s\" to replace", edits[i].from);
        for (; (hit = strstr(at, edits[i].from)) != NULL; at = hit + strlen(edits[i].from)) {
            dgl_buf_append(&out, at, (size_t)(hit - at));
            dgl_buf_puts(&out, edits[i].to);
        }
        dgl_buf_puts(&out, at);
        free(now);
        now = dgl_buf_take(&out);
    }
    return now;
}

/* A fixture with changed names, and tensors added at the end. */
struct change {
    struct edit header[MAX_EDITS], config[MAX_EDITS];
    const char *added[3]; /* names of bf16 vectors of 4 values */
};

static void weights_write(const char *dir, const char *source, const struct change *change)
{
    size_t len;
    char *bytes = tiny_file_read(source, "model.safetensors", &len);
    uint64_t header_len = 0;
    for (int i = 7; i >= 0; i--)
        header_len = header_len << 8 | (unsigned char)bytes[i];
    char *header = strndup(bytes + 8, header_len), *edited = text_edit(header, change->header);
    struct dgl_buf text = {0}, data = {0};
    dgl_buf_append(&data, bytes + 8 + header_len, len - 8 - header_len);
    dgl_buf_append(&text, edited, (size_t)(strrchr(edited, '}') - edited));
    for (int i = 0; i < 3 && change->added[i]; i++) {
        dgl_buf_printf(&text,
                       ", \"%s\": {\"dtype\": \"BF16\", \"shape\": [4], \"data_offsets\": [%zu, "
                       "%zu]}",
                       change->added[i], data.len, data.len + 8);
        dgl_buf_append(&data, "\0\0\0\0\0\0\0\0", 8);
    }
    dgl_buf_putc(&text, '}');
    tiny_safetensors_write(dir, "model.safetensors", text.p, data.p, data.len);
    dgl_buf_finish(&text);
    dgl_buf_finish(&data);
    free(edited);
    free(header);
    free(bytes);
}

/* Writes the changed fixture into a new folder. */
static char *checkpoint_write(const char *fixture, const struct change *change)
{
    size_t len;
    const char *source = family_dir(fixture);
    char *dir = test_tmpdir();
    char *config = tiny_file_read(source, "config.json", &len);
    char *edited = text_edit(config, change->config);
    test_write_file(dir, "config.json", edited, strlen(edited));
    weights_write(dir, source, change);
    free(edited);
    free(config);
    return dir;
}

struct refusal {
    const char *name;
    const char *fixture;
    struct change change;
    enum dgl_status status;
    const char *parts[2]; /* of the message */
};

#define UNUSED ".rotary_emb.inv_freq\"" /* a name that is left out: the tensor is gone */

static const struct refusal refusals[] = {
    {"expert is missing",
     "mixtral",
     {.header = {{"layers.1.block_sparse_moe.experts.3.w1.weight\"", UNUSED}}},
     DGL_ERR_FORMAT,
     {"model.layers.1.block_sparse_moe.experts.3.w1.weight is missing"}},
    {"expert beyond the last",
     "mixtral",
     {.header = {{"layers.1.block_sparse_moe.experts.3.w1",
                  "layers.1.block_sparse_moe.experts.8.w1"}}},
     DGL_ERR_UNSUPPORTED,
     {"experts.8.w1.weight is not part of a mixtral model"}},
    {"expert with a leading zero",
     "qwen3-moe",
     {.header = {{"layers.0.mlp.experts.3.up", "layers.0.mlp.experts.03.up"}}},
     DGL_ERR_UNSUPPORTED,
     {"experts.03.up_proj.weight is not part"}},
    {"expert of another family",
     "mixtral",
     {.header = {{"layers.2.block_sparse_moe.experts.3.w3", "layers.2.mlp.experts.3.up_proj"}}},
     DGL_ERR_UNSUPPORTED,
     {"mlp.experts.3.up_proj.weight is not part of a mixtral model"}},
    {"router is missing",
     "qwen3-moe",
     {.header = {{"layers.2.mlp.gate.weight\"", UNUSED}}},
     DGL_ERR_FORMAT,
     {"model.layers.2.mlp.gate.weight is missing"}},
    {"dense layer where experts are promised",
     "qwen3-moe",
     {.config = {{"\"mlp_only_layers\": []", "\"mlp_only_layers\": [1]"}}},
     DGL_ERR_UNSUPPORTED,
     {"model.layers.1.mlp.experts.", "is not part of a qwen3_moe model"}},
    {"more experts than the router has",
     "mixtral",
     {.config = {{"\"num_local_experts\": 8", "\"num_local_experts\": 9"}}},
     DGL_ERR_FORMAT,
     {"block_sparse_moe.gate.weight has shape [8, 64]", "[9, 64]"}},
    {"bias that the config promises is missing",
     "qwen2",
     {.header = {{"layers.1.self_attn.k_proj.bias\"", UNUSED}}},
     DGL_ERR_FORMAT,
     {"model.layers.1.self_attn.k_proj.bias is missing"}},
    {"bias that the config denies",
     "llama-linear-f32",
     {.config = {{"\"mlp_bias\": true", "\"mlp_bias\": false"}}},
     DGL_ERR_UNSUPPORTED,
     {"mlp.", "_proj.bias is not part of a llama model"}},
    {"norm of queries is missing",
     "olmo2",
     {.header = {{"layers.0.self_attn.q_norm.weight\"", UNUSED}}},
     DGL_ERR_FORMAT,
     {"model.layers.0.self_attn.q_norm.weight is missing"}},
    {"norm before the MLP is missing",
     "gemma2",
     {.header = {{"layers.2.pre_feedforward_layernorm.weight\"", UNUSED}}},
     DGL_ERR_FORMAT,
     {"model.layers.2.pre_feedforward_layernorm.weight is missing"}},
    {"sinks are missing",
     "gpt-oss-mxfp4",
     {.header = {{"layers.0.self_attn.sinks\"", UNUSED}}},
     DGL_ERR_FORMAT,
     {"model.layers.0.self_attn.sinks is missing"}},
    {"scales are missing",
     "gpt-oss-mxfp4",
     {.header = {{"layers.1.mlp.experts.down_proj_scales\"", UNUSED}}},
     DGL_ERR_FORMAT,
     {"model.layers.1.mlp.experts.down_proj_blocks is there, but",
      "down_proj_scales is missing, wanted as u8 with shape ["}},
    {"blocks are missing",
     "gpt-oss-mxfp4",
     {.header = {{"layers.1.mlp.experts.down_proj_blocks\"", UNUSED}}},
     DGL_ERR_UNSUPPORTED,
     {"down_proj_scales is not part of a gpt_oss model"}},
    {"queries twice",
     "phi3",
     {.header = {{"layers.0.self_attn.o_proj", "layers.0.self_attn.q_proj"}}},
     DGL_ERR_FORMAT,
     {"model.layers.0.self_attn.qkv_proj.weight and model.layers.0.self_attn.q_proj.weight are the "
      "same part"}},
    {"prefix of another kind of checkpoint",
     "gemma3",
     {.header = {{"\"model.norm", "\"language_model.model.norm"}}},
     DGL_ERR_UNSUPPORTED,
     {"language_model.model.norm.weight is not part of a gemma3_text model"}},
    {"images beside a plain text model",
     "gemma3",
     {.added = {"vision_tower.a"}},
     DGL_ERR_UNSUPPORTED,
     {"vision_tower.a is not part of a gemma3_text model"}},
};

static void checkpoint_is_refused(void **state)
{
    const struct refusal *row = *state;
    struct test_log log;
    struct dgl_model_file *file = NULL;
    test_log_init(&log, DGL_LOG_ERROR);
    char *dir = checkpoint_write(row->fixture, &row->change);
    enum dgl_status status =
        model_file_open(&log.log, &(struct model_open_params){.path = dir}, &file);
    assert_refusal(&log, status, row->status, row->parts);
    test_tmpdir_remove(dir);
}

/* ---- a text model inside a checkpoint that also sees ---- */

struct outer {
    const char *name;
    struct change change;
    const char *skipped[2];
};

#define OUTER_CONFIG                                                                               \
    {"\"_sliding_window_pattern\"", "\"model_type\": \"gemma3\", \"vision_config\": "              \
                                    "{\"hidden_size\": 4}, \"mm_tokens_per_image\": 4, "           \
                                    "\"text_config\": {\"_sliding_window_pattern\""},              \
    {                                                                                              \
        "\"torch_dtype\": \"bfloat16\"", "\"torch_dtype\": \"bfloat16\"}"                          \
    }

#define UNTIED                                                                                     \
    {                                                                                              \
        "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false"                          \
    }

static const struct outer outers[] = {
    {"as first published",
     {.header = {{"\"model.", "\"language_model.model."}},
      .config = {OUTER_CONFIG},
      .added = {"vision_tower.a", "vision_tower.b", "multi_modal_projector.c"}},
     {"vision_tower.*: not part of the text model (tensors: 2)",
      "multi_modal_projector.*: not part of the text model (tensors: 1)"}},
    {"as saved later",
     {.header = {{"\"model.", "\"model.language_model."}},
      .config = {OUTER_CONFIG},
      .added = {"model.vision_tower.a", "model.multi_modal_projector.b",
                "model.multi_modal_projector.c"}},
     {"model.vision_tower.*: not part of the text model (tensors: 1)",
      "model.multi_modal_projector.*: not part of the text model (tensors: 2)"}},
    {"with the text model's names as they are", {.config = {OUTER_CONFIG}}, {0}},
};

static void check_outer(const struct outer *row, const char *path, const char *plain,
                        size_t skipped)
{
    struct test_log log;
    struct dgl_model_file *file = NULL;
    struct dgl_buf text = {0};
    test_log_init(&log, DGL_LOG_NOTICE);
    enum dgl_status status =
        model_file_open(&log.log, &(struct model_open_params){.path = path}, &file);
    if (status != DGL_OK)
        fail_msg("%s", log.text);
    desc_text(&file->desc, &text);
    assert_string_equal(text.p, plain);
    assert_int_equal(file->skipped.count, skipped);
    for (size_t i = 0; i < skipped; i++) {
        assert_string_equal(file->skipped.lines[i], row->skipped[i]);
        assert_contains(log.text, row->skipped[i]);
    }
    dgl_buf_finish(&text);
    model_file_close(&file);
}

/* With text_only, a pack has the config and the names of the text model. */
static void check_text_only(const struct outer *row, const char *dir, const char *plain,
                            size_t skipped)
{
    struct dgl_convert_result result = {.size = sizeof(result)};
    size_t len;
    char *pack = dgl_path_join(dir, "text");
    struct dgl_convert_params params = {.in = dir, .out = pack, .threads = 1, .text_only = true};
    assert_int_equal(convert_model(NULL, &params, &result), DGL_OK);
    check_outer(row, pack, plain, skipped);
    char *manifest = tiny_file_read(pack, "manifest.json", &len);
    assert_contains(manifest, "\"model_type\": \"gemma3_text\"");
    assert_contains(manifest, "\"model.norm.weight\": {");
    assert_null(strstr(manifest, "text_config"));
    assert_null(strstr(manifest, "language_model"));
    free(manifest);
    free(pack);
}

/* A pack converted from the pack, with another type, still lists the tensors of the checkpoint. */
static void check_again(const struct outer *row, const char *dir, const char *from,
                        const char *plain, size_t skipped)
{
    struct dgl_convert_result result = {.size = sizeof(result)};
    char *pack = dgl_path_join(dir, "again");
    assert_int_equal(convert_model(NULL,
                                   &(struct dgl_convert_params){
                                       .in = from, .out = pack, .quantize = "f32", .threads = 1},
                                   &result),
                     DGL_OK);
    check_outer(row, pack, plain, skipped);
    free(pack);
}

/* As GGUF, from the checkpoint and from its pack: only the text model. */
static void check_gguf(const struct outer *row, const char *dir, const char *from,
                       const char *plain)
{
    struct test_log log;
    struct dgl_convert_result result = {.size = sizeof(result)};
    char *path = dgl_path_join(dir, "text.gguf");
    struct dgl_convert_params params = {
        .in = from, .out = path, .to = "gguf", .threads = 1, .force = true};
    test_log_init(&log, DGL_LOG_ERROR);
    if (convert_model(&log.log, &params, &result) != DGL_OK)
        fail_msg("%s", log.text);
    check_outer(row, path, plain, 0);
    free(path);
}

static void text_model_is_found(void **state)
{
    const struct outer *row = *state;
    struct dgl_model_file *file = NULL;
    struct dgl_buf plain = {0};
    struct dgl_convert_result result = {.size = sizeof(result)};
    size_t skipped = row->skipped[0] ? 2 : 0, len;
    char *dir = checkpoint_write("gemma3", &row->change);
    const char *inner = family_dir("gemma3");
    assert_int_equal(model_file_open(NULL, &(struct model_open_params){.path = inner}, &file),
                     DGL_OK);
    desc_text(&file->desc, &plain);
    model_file_close(&file);
    check_outer(row, dir, plain.p, skipped);

    char *pack = dgl_path_join(dir, "pack");
    assert_int_equal(
        convert_model(NULL, &(struct dgl_convert_params){.in = dir, .out = pack, .threads = 1},
                      &result),
        DGL_OK);
    check_outer(row, pack, plain.p, skipped);
    char *manifest = tiny_file_read(pack, "manifest.json", &len);
    for (size_t i = 0; i < skipped; i++)
        assert_contains(manifest, row->skipped[i]);
    assert_null(strstr(manifest, "\"vision_tower.a\""));
    free(manifest);
    check_again(row, dir, pack, plain.p, skipped);
    check_text_only(row, dir, plain.p, skipped);
    check_gguf(row, dir, dir, plain.p);
    check_gguf(row, dir, pack, plain.p);
    free(pack);
    dgl_buf_finish(&plain);
    test_tmpdir_remove(dir);
}

/* ---- a base model inside such a checkpoint, which has no head ---- */

static const struct outer headless[] = {
    {"names without model.",
     {.header = {{"\"model.", "\"language_model."}},
      .config = {OUTER_CONFIG, UNTIED},
      .added = {"vision_tower.a"}},
     {0}},
    {"names of the text model",
     {.header = {{"\"model.", "\""}},
      .config = {OUTER_CONFIG, UNTIED},
      .added = {"vision_tower.a"}},
     {0}},
};

/* The text model alone lacks the head, too, and its pack opens. */
static void text_model_without_a_head_opens(void **state)
{
    const struct outer *row = *state;
    struct test_log log;
    struct dgl_model_file *file = NULL;
    struct dgl_convert_result result = {.size = sizeof(result)};
    char *dir = checkpoint_write("gemma3", &row->change), *pack = dgl_path_join(dir, "text");
    struct dgl_convert_params params = {.in = dir, .out = pack, .threads = 1, .text_only = true};
    test_log_init(&log, DGL_LOG_ERROR);
    if (convert_model(&log.log, &params, &result) != DGL_OK ||
        model_file_open(&log.log, &(struct model_open_params){.path = pack}, &file) != DGL_OK)
        fail_msg("%s", log.text);
    assert_true(file->desc.no_head);
    assert_string_equal(file->desc.family, "gemma3_text");
    assert_true(tensor_source_find(file->tensors, "embed_tokens.weight") >= 0);
    model_file_close(&file);
    free(pack);
    test_tmpdir_remove(dir);
}

int main(void)
{
    int failures = test_run_table("refused", checkpoint_is_refused, refusals);
    failures += test_run_table("text models", text_model_is_found, outers);
    return failures + test_run_table("no head", text_model_without_a_head_opens, headless);
}
