/* Writers for small random models. */
#include "tests/support/tiny_model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/mem.h"
#include "loader/quant/quant.h"
#include "loader/tensor/tensor_source.h"
#include "tests/support/test.h"

struct tiny_llama tiny_llama_default(void)
{
    return (struct tiny_llama){
        .layers = 2,
        .hidden = 64,
        .intermediate = 96,
        .vocab = 320,
        .heads = 4,
        .kv_heads = 2,
        .head_dim = 16,
        .context = 128,
        .dtype = DGL_BF16,
        .tied = true,
        .files = 1,
        .seed = 1,
    };
}

static void tensor_add(struct tiny_tensor *out, size_t *count, const char *name, int32_t rows,
                       int32_t cols)
{
    struct tiny_tensor *t = &out[(*count)++];
    assert_true(*count <= TINY_MAX_TENSORS);
    *t = (struct tiny_tensor){.rank = cols ? 2 : 1, .norm = cols == 0};
    snprintf(t->name, sizeof(t->name), "%s", name);
    t->shape[0] = (uint64_t)rows;
    t->shape[1] = (uint64_t)cols;
    t->count = t->shape[0] * (cols ? t->shape[1] : 1);
}

size_t tiny_llama_tensors(const struct tiny_llama *m, struct tiny_tensor out[TINY_MAX_TENSORS])
{
    const int32_t q = m->heads * m->head_dim, kv = m->kv_heads * m->head_dim;
    const struct {
        const char *name;
        int32_t rows, cols;
    } layer[] = {
        {"input_layernorm", m->hidden, 0},
        {"mlp.down_proj", m->hidden, m->intermediate},
        {"mlp.gate_proj", m->intermediate, m->hidden},
        {"mlp.up_proj", m->intermediate, m->hidden},
        {"post_attention_layernorm", m->hidden, 0},
        {"self_attn.k_proj", kv, m->hidden},
        {"self_attn.o_proj", m->hidden, q},
        {"self_attn.q_proj", q, m->hidden},
        {"self_attn.v_proj", kv, m->hidden},
    };
    size_t count = 0;
    char name[96];
    tensor_add(out, &count, "model.embed_tokens.weight", m->vocab, m->hidden);
    for (int32_t l = 0; l < m->layers; l++) {
        for (size_t i = 0; i < sizeof(layer) / sizeof(layer[0]); i++) {
            snprintf(name, sizeof(name), "model.layers.%d.%s.weight", (int)l, layer[i].name);
            tensor_add(out, &count, name, layer[i].rows, layer[i].cols);
        }
    }
    tensor_add(out, &count, "model.norm.weight", m->hidden, 0);
    if (!m->tied)
        tensor_add(out, &count, "lm_head.weight", m->vocab, m->hidden);
    return count;
}

float *tiny_llama_values(const struct tiny_llama *m, size_t index)
{
    struct tiny_tensor tensors[TINY_MAX_TENSORS];
    assert_true(index < tiny_llama_tensors(m, tensors));
    const struct tiny_tensor *t = &tensors[index];
    uint64_t state = m->seed * 1000003 + index;
    float *values = dgl_new_array(float, t->count);
    assert_non_null(values);
    for (uint64_t i = 0; i < t->count; i++)
        values[i] =
            t->norm ? 1.0f + 0.1f * test_rand_float(&state) : 0.1f * test_rand_float(&state);
    return values;
}

unsigned char *tiny_llama_bytes(const struct tiny_llama *m, size_t index, size_t *len)
{
    struct tiny_tensor tensors[TINY_MAX_TENSORS];
    tiny_llama_tensors(m, tensors);
    uint64_t count = tensors[index].count;
    float *values = tiny_llama_values(m, index);
    *len = (size_t)(count * dgl_dtype_get(m->dtype)->block_bytes);
    unsigned char *bytes = dgl_calloc(1, *len);
    assert_non_null(bytes);
    for (uint64_t i = 0; i < count; i++) {
        uint16_t half =
            m->dtype == DGL_F16 ? dgl_f32_to_f16(values[i]) : dgl_f32_to_bf16(values[i]);
        if (m->dtype == DGL_F32)
            memcpy(bytes + 4 * i, &values[i], 4);
        else
            memcpy(bytes + 2 * i, &half, 2);
    }
    free(values);
    return bytes;
}

static const char *hf_dtype(enum dgl_dtype dtype)
{
    return dtype == DGL_F32 ? "float32" : dtype == DGL_F16 ? "float16" : "bfloat16";
}

char *tiny_llama_config(const struct tiny_llama *m, bool new_dialect)
{
    struct dgl_buf b = {0};
    dgl_buf_printf(&b,
                   "{\n  \"attention_bias\": false,\n"
                   "  \"bos_token_id\": 0,\n  \"eos_token_id\": 1,\n  \"head_dim\": %d,\n"
                   "  \"hidden_act\": \"silu\",\n  \"hidden_size\": %d,\n"
                   "  \"initializer_range\": 0.02,\n  \"intermediate_size\": %d,\n"
                   "  \"max_position_embeddings\": %d,\n  \"mlp_bias\": false,\n"
                   "  \"model_type\": \"llama\",\n  \"num_attention_heads\": %d,\n"
                   "  \"num_hidden_layers\": %d,\n  \"num_key_value_heads\": %d,\n"
                   "  \"pretraining_tp\": 1,\n  \"rms_norm_eps\": 1e-05,\n",
                   (int)m->head_dim, (int)m->hidden, (int)m->intermediate, (int)m->context,
                   (int)m->heads, (int)m->layers, (int)m->kv_heads);
    if (new_dialect)
        dgl_buf_printf(&b,
                       "  \"rope_parameters\": {\"rope_theta\": 10000.0, \"rope_type\": "
                       "\"default\"},\n  \"dtype\": \"%s\",\n",
                       hf_dtype(m->dtype));
    else
        dgl_buf_printf(&b,
                       "  \"rope_theta\": 10000.0,\n  \"rope_scaling\": null,\n"
                       "  \"torch_dtype\": \"%s\",\n",
                       hf_dtype(m->dtype));
    dgl_buf_printf(&b,
                   "  \"tie_word_embeddings\": %s,\n  \"use_cache\": true,\n"
                   "  \"vocab_size\": %d\n}\n",
                   m->tied ? "true" : "false", (int)m->vocab);
    char *text = dgl_buf_take(&b);
    assert_non_null(text);
    return text;
}

static const char generation_config[] = "{\"bos_token_id\": 0, \"eos_token_id\": [1, 2]}\n";

void tiny_safetensors_write(const char *dir, const char *name, const char *header, const void *data,
                            size_t data_len)
{
    struct dgl_buf b = {0};
    uint64_t len = strlen(header);
    unsigned char prefix[8];
    for (int i = 0; i < 8; i++)
        prefix[i] = (unsigned char)(len >> (8 * i));
    dgl_buf_append(&b, prefix, sizeof(prefix));
    dgl_buf_append(&b, header, len);
    void *zeros = data ? NULL : dgl_calloc(1, data_len + 1);
    dgl_buf_append(&b, data ? data : zeros, data_len);
    assert_false(b.failed);
    test_write_file(dir, name, b.p, b.len);
    free(zeros);
    dgl_buf_finish(&b);
}

/* Tensors with index % files == file, in order. */
static void weights_file_write(const char *dir, const char *name, const struct tiny_llama *m,
                               int file)
{
    struct tiny_tensor tensors[TINY_MAX_TENSORS];
    size_t count = tiny_llama_tensors(m, tensors);
    struct dgl_buf header = {0}, data = {0};
    dgl_buf_puts(&header, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (size_t i = 0; i < count; i++) {
        if ((int)(i % (size_t)m->files) != file)
            continue;
        size_t len;
        unsigned char *bytes = tiny_llama_bytes(m, i, &len);
        const struct tiny_tensor *t = &tensors[i];
        dgl_buf_printf(&header, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%" PRIu64, t->name,
                       dgl_dtype_get(m->dtype)->safetensors, t->shape[0]);
        if (t->rank == 2)
            dgl_buf_printf(&header, ",%" PRIu64, t->shape[1]);
        dgl_buf_printf(&header, "],\"data_offsets\":[%zu,%zu]}", data.len, data.len + len);
        dgl_buf_append(&data, bytes, len);
        free(bytes);
    }
    dgl_buf_putc(&header, '}');
    assert_false(header.failed || data.failed);
    tiny_safetensors_write(dir, name, header.p, data.p, data.len);
    dgl_buf_finish(&header);
    dgl_buf_finish(&data);
}

static void index_write(const char *dir, const struct tiny_llama *m)
{
    struct tiny_tensor tensors[TINY_MAX_TENSORS];
    size_t count = tiny_llama_tensors(m, tensors);
    struct dgl_buf b = {0};
    dgl_buf_puts(&b, "{\"metadata\": {\"total_size\": 0}, \"weight_map\": {");
    for (size_t i = 0; i < count; i++)
        dgl_buf_printf(&b, "%s\n  \"%s\": \"model-%05d-of-%05d.safetensors\"", i ? "," : "",
                       tensors[i].name, (int)(i % (size_t)m->files) + 1, m->files);
    dgl_buf_puts(&b, "\n}}\n");
    assert_false(b.failed);
    test_write_file(dir, "model.safetensors.index.json", b.p, b.len);
    dgl_buf_finish(&b);
}

void tiny_llama_write(const char *dir, const struct tiny_llama *m)
{
    char *config = tiny_llama_config(m, false);
    test_write_file(dir, "config.json", config, strlen(config));
    test_write_file(dir, "generation_config.json", generation_config, strlen(generation_config));
    free(config);
    if (m->files == 1) {
        weights_file_write(dir, "model.safetensors", m, 0);
        return;
    }
    index_write(dir, m);
    for (int f = 0; f < m->files; f++) {
        char name[64];
        snprintf(name, sizeof(name), "model-%05d-of-%05d.safetensors", f + 1, m->files);
        weights_file_write(dir, name, m, f);
    }
}

void tiny_windows_write(const char *dir, const struct tiny_llama *m, int window)
{
    struct dgl_buf config = {0};
    dgl_buf_printf(&config,
                   "\"model_type\": \"mistral\", \"sliding_window\": %d, "
                   "\"layer_types\": [",
                   window);
    for (int32_t i = 0; i < m->layers; i++)
        dgl_buf_printf(&config, "%s\"%s_attention\"", i ? ", " : "", i % 2 ? "full" : "sliding");
    dgl_buf_puts(&config, "]");
    tiny_llama_write(dir, m);
    tiny_file_replace(dir, "config.json", "\"model_type\": \"llama\"", config.p);
    dgl_buf_finish(&config);
}

void make_tiny_llama(const char *dir, uint64_t seed, const struct tiny_llama *sizes)
{
    struct tiny_llama m = sizes ? *sizes : tiny_llama_default();
    m.seed = seed;
    tiny_llama_write(dir, &m);
}

struct tiny_pack tiny_pack_default(void)
{
    return (struct tiny_pack){tiny_llama_default(), DGL_HASH_SHA256, 16384};
}

/* Builds the stream of all tensors, each at a multiple of 4096; offsets[i] is the start of tensor
 * i. */
static void stream_build(const struct tiny_llama *m, size_t count, uint64_t *offsets,
                         struct dgl_buf *out)
{
    for (size_t i = 0; i < count; i++) {
        while (out->len % 4096)
            dgl_buf_putc(out, 0);
        offsets[i] = out->len;
        size_t len;
        unsigned char *bytes = tiny_llama_bytes(m, i, &len);
        dgl_buf_append(out, bytes, len);
        free(bytes);
    }
    assert_false(out->failed);
}

static void shards_write(const char *dir, const struct tiny_pack *pack,
                         const struct dgl_buf *stream, struct dgl_buf *json)
{
    char name[32], hash[65];
    unsigned index = 0;
    dgl_buf_puts(json, "  \"shards\": [");
    for (uint64_t at = 0; at < stream->len; at += pack->shard_bytes, index++) {
        uint64_t size = stream->len - at < pack->shard_bytes ? stream->len - at : pack->shard_bytes;
        snprintf(name, sizeof(name), "shard_%05u.bin", index);
        test_write_file(dir, name, stream->p + at, (size_t)size);
        assert_true(dgl_hash_bytes(pack->hash, stream->p + at, (size_t)size, hash));
        dgl_buf_printf(json,
                       "%s\n    {\"index\": %u, \"filename\": \"%s\", \"size\": %" PRIu64
                       ", \"offset\": %" PRIu64 ", \"hash\": \"%s\"}",
                       index ? "," : "", index, name, size, at, hash);
    }
    dgl_buf_printf(json, "],\n  \"totalSize\": %zu,\n", stream->len);
}

static void entry_write(const struct tiny_pack *pack, const struct tiny_tensor *t, uint64_t at,
                        uint64_t size, struct dgl_buf *json)
{
    uint64_t shard = at / pack->shard_bytes, offset = at % pack->shard_bytes;
    dgl_buf_printf(json, "\"%s\": {", t->name);
    if (offset + size <= pack->shard_bytes) {
        dgl_buf_printf(json, "\"shard\": %" PRIu64 ", \"offset\": %" PRIu64, shard, offset);
    } else {
        dgl_buf_puts(json, "\"spans\": [");
        for (uint64_t done = 0; done < size; shard++, offset = 0) {
            uint64_t room = pack->shard_bytes - offset;
            uint64_t part = size - done < room ? size - done : room;
            dgl_buf_printf(json,
                           "%s{\"shardIndex\": %" PRIu64 ", \"offset\": %" PRIu64
                           ", \"size\": %" PRIu64 "}",
                           done ? ", " : "", shard, offset, part);
            done += part;
        }
        dgl_buf_putc(json, ']');
    }
    dgl_buf_printf(json, ", \"size\": %" PRIu64 ", \"shape\": [%" PRIu64, size, t->shape[0]);
    if (t->rank == 2)
        dgl_buf_printf(json, ", %" PRIu64, t->shape[1]);
    dgl_buf_printf(json, "], \"dtype\": \"%s\", \"role\": \"%s\"%s}",
                   dgl_dtype_get(pack->model.dtype)->rdrr, tensor_role_from_name(t->name),
                   t->rank == 2 ? ", \"layout\": \"row\"" : "");
}

/* "architecture" and "inference", spelled out here so that the reader is not tested against its
 * own writer. */
static void semantics_write(const struct tiny_llama *m, struct dgl_buf *json)
{
    dgl_buf_printf(json,
                   "  \"architecture\": {\"numLayers\": %d, \"hiddenSize\": %d, "
                   "\"intermediateSize\": %d, \"numAttentionHeads\": %d, \"numKeyValueHeads\": %d, "
                   "\"headDim\": %d, \"vocabSize\": %d, \"maxSeqLen\": %d, \"ropeTheta\": 10000, "
                   "\"rmsNormEps\": 1e-05},\n",
                   (int)m->layers, (int)m->hidden, (int)m->intermediate, (int)m->heads,
                   (int)m->kv_heads, (int)m->head_dim, (int)m->vocab, (int)m->context);
    dgl_buf_printf(
        json,
        "  \"inference\": {\n"
        "    \"attention\": {\"queryPreAttnScalar\": %d, \"attnLogitSoftcapping\": null, "
        "\"slidingWindow\": null, \"queryKeyNorm\": false, \"valueNorm\": false, \"causal\": true, "
        "\"attentionBias\": false, \"attentionOutputGate\": false},\n"
        "    \"normalization\": {\"type\": \"rmsnorm\", \"rmsNormEps\": 1e-05, "
        "\"rmsNormWeightOffset\": false, \"postAttentionNorm\": false, \"preFeedforwardNorm\": "
        "false, \"postFeedforwardNorm\": false},\n"
        "    \"ffn\": {\"activation\": \"silu\", \"gatedActivation\": true, \"branchMode\": "
        "\"auto\", \"useDoubleWideMlp\": false, \"swigluLimit\": null},\n"
        "    \"rope\": {\"ropeTheta\": 10000, \"ropeLocalTheta\": null, \"ropeScalingType\": null, "
        "\"ropeScalingFactor\": 1, \"partialRotaryFactor\": 1},\n"
        "    \"output\": {\"finalLogitSoftcapping\": null, \"tieWordEmbeddings\": %s, "
        "\"scaleEmbeddings\": false, \"embeddingVocabSize\": null},\n"
        "    \"layerPattern\": {\"type\": \"uniform\", \"globalPattern\": null, \"period\": null, "
        "\"offset\": null}},\n",
        (int)m->head_dim, m->tied ? "true" : "false");
}

void tiny_pack_write(const char *dir, const struct tiny_pack *pack)
{
    struct tiny_tensor tensors[TINY_MAX_TENSORS];
    uint64_t offsets[TINY_MAX_TENSORS];
    size_t count = tiny_llama_tensors(&pack->model, tensors);
    struct dgl_buf stream = {0}, json = {0};
    char hash[65];
    stream_build(&pack->model, count, offsets, &stream);
    assert_true(
        dgl_hash_bytes(DGL_HASH_SHA256, generation_config, strlen(generation_config), hash));
    char *config = tiny_llama_config(&pack->model, false);
    dgl_buf_printf(&json,
                   "{\n  \"version\": 1,\n  \"modelId\": \"tiny-pack\",\n"
                   "  \"modelType\": \"transformer\",\n  \"quantization\": \"%s\",\n"
                   "  \"hashAlgorithm\": \"%s\",\n  \"eos_token_id\": [1, 2],\n",
                   dgl_dtype_get(pack->model.dtype)->rdrr, dgl_hash_name(pack->hash));
    semantics_write(&pack->model, &json);
    dgl_buf_printf(&json,
                   "  \"config\": %s,\n  \"optimizations\": {\"kernelHints\": "
                   "{\"computePrecision\": \"f32\"}, \"kernelHintsOrigin\": \"default\"},\n"
                   "  \"files\": {\"generation_config.json\": {\"size\": %zu, \"sha256\": "
                   "\"%s\"}},\n  \"conversion\": {\"tool\": \"dopplergl\"},\n",
                   config, strlen(generation_config), hash);
    shards_write(dir, pack, &stream, &json);
    dgl_buf_printf(&json, "  \"tensorCount\": %zu,\n  \"tensors\": {", count);
    for (size_t i = 0; i < count; i++) {
        dgl_buf_puts(&json, i ? ",\n    " : "\n    ");
        entry_write(pack, &tensors[i], offsets[i],
                    tensors[i].count * dgl_dtype_get(pack->model.dtype)->block_bytes, &json);
    }
    dgl_buf_puts(&json, "}\n}\n");
    assert_false(json.failed);
    test_write_file(dir, "manifest.json", json.p, json.len);
    test_write_file(dir, "generation_config.json", generation_config, strlen(generation_config));
    free(config);
    dgl_buf_finish(&stream);
    dgl_buf_finish(&json);
}

char *tiny_file_read(const char *dir, const char *name, size_t *len)
{
    char *path = dgl_path_join(dir, name), *text = NULL;
    assert_int_equal(dgl_file_slurp(NULL, path, SIZE_MAX / 2, &text, len), DGL_OK);
    free(path);
    return text;
}

void tiny_file_replace(const char *dir, const char *name, const char *find, const char *replace)
{
    size_t len;
    char *text = tiny_file_read(dir, name, &len);
    char *at = strstr(text, find);
    if (!at)
        fail_msg("%s has no \"%s\": %s", name, find, text);
    struct dgl_buf b = {0};
    dgl_buf_append(&b, text, (size_t)(at - text));
    dgl_buf_puts(&b, replace);
    dgl_buf_puts(&b, at + strlen(find));
    assert_false(b.failed);
    test_write_file(dir, name, b.p, b.len);
    free(text);
    dgl_buf_finish(&b);
}

void tiny_tokenizer_write(const char *dir)
{
    struct dgl_buf json = {0};
    int id = 0;
    dgl_buf_puts(&json,
                 "{\"added_tokens\":[{\"id\":1,\"content\":\"<s>\",\"special\":true}],"
                 "\"decoder\":{\"type\":\"Fuse\"},\"post_processor\":{\"type\":"
                 "\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}},"
                 "{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"<s>\":{\"ids\":[1]}}},"
                 "\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"vocab\":{");
    dgl_buf_printf(&json, "\"<unk>\":%d", id++);
    dgl_buf_printf(&json, ",\"<s>\":%d", id++);
    dgl_buf_printf(&json, ",\" \":%d", id++);
    for (char c = 'a'; c <= 'z'; c++)
        dgl_buf_printf(&json, ",\"%c\":%d", c, id++);
    dgl_buf_printf(&json, ",\"th\":%d,\"the\":%d},\"merges\":[\"t h\",\"th e\"]}}", id, id + 1);
    assert_false(json.failed);
    test_write_file(dir, "tokenizer.json", json.p, json.len);
    dgl_buf_finish(&json);
}

char *tiny_pack_links(const char *pack)
{
    char *dir = test_tmpdir(), cwd[4096], **names = NULL;
    size_t num_names = 0, len;
    assert_non_null(getcwd(cwd, sizeof(cwd)));
    assert_int_equal(dgl_dir_list(NULL, pack, &names, &num_names), DGL_OK);
    for (size_t i = 0; i < num_names; i++) {
        char *path = dgl_path_join(pack, names[i]), *full = dgl_path_join(cwd, path);
        char *link = dgl_path_join(dir, names[i]);
        if (strcmp(names[i], "manifest.json") == 0) {
            char *manifest = tiny_file_read(pack, names[i], &len);
            test_write_file(dir, names[i], manifest, len);
            free(manifest);
        } else {
            assert_int_equal(symlink(full, link), 0);
        }
        free(path);
        free(full);
        free(link);
    }
    dgl_names_free(names, num_names);
    return dir;
}
