/* Writer for models whose experts are all the same. */
#include "tests/support/tiny_moe.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/base/str.h"
#include "tests/support/test.h"

/* Names of the MLP's matrices in the dense model and in an expert of Mixtral. */
static const char *const mlp_names[][2] = {
    {"mlp.gate_proj", "w1"}, {"mlp.up_proj", "w3"}, {"mlp.down_proj", "w2"}};

struct file {
    struct dgl_buf header, data;
};

static void add_tensor(struct file *f, const char *name, const char *dtype, uint64_t rows,
                       uint64_t cols, const void *bytes, size_t len)
{
    dgl_buf_printf(&f->header, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%" PRIu64, name, dtype, rows);
    if (cols)
        dgl_buf_printf(&f->header, ",%" PRIu64, cols);
    dgl_buf_printf(&f->header, "],\"data_offsets\":[%zu,%zu]}", f->data.len, f->data.len + len);
    dgl_buf_append(&f->data, bytes, len);
}

static void add_router(struct file *f, const struct tiny_moe *m, int32_t layer)
{
    size_t count = (size_t)m->experts * (size_t)m->dense.hidden;
    uint64_t seed = m->dense.seed + 77u * (uint64_t)(layer + 1);
    char name[96];
    float *values = dgl_new_array(float, count);
    assert_non_null(values);
    for (size_t i = 0; i < count && !m->zero_router; i++)
        values[i] = 0.2f * test_rand_float(&seed);
    snprintf(name, sizeof(name), "model.layers.%d.block_sparse_moe.gate.weight", (int)layer);
    add_tensor(f, name, "F32", (uint64_t)m->experts, (uint64_t)m->dense.hidden, values,
               count * sizeof(*values));
    free(values);
}

/* A tensor of the dense model: as it is, or once for each expert. */
static void add_dense(struct file *f, const struct tiny_moe *m, const struct tiny_tensor *t,
                      size_t index)
{
    const char *dtype = dgl_dtype_get(m->dense.dtype)->safetensors, *of_expert = NULL;
    size_t len;
    unsigned char *bytes = tiny_llama_bytes(&m->dense, index, &len);
    for (size_t i = 0; i < 3; i++)
        if (strstr(t->name, mlp_names[i][0]))
            of_expert = mlp_names[i][1];
    uint64_t cols = t->rank == 2 ? t->shape[1] : 0;
    if (!of_expert)
        add_tensor(f, t->name, dtype, t->shape[0], cols, bytes, len);
    for (int32_t e = 0; e < m->experts && of_expert; e++) {
        char name[96];
        int layer = 0;
        assert_int_equal(sscanf(t->name, "model.layers.%d.", &layer), 1);
        snprintf(name, sizeof(name), "model.layers.%d.block_sparse_moe.experts.%d.%s.weight", layer,
                 (int)e, of_expert);
        add_tensor(f, name, dtype, t->shape[0], cols, bytes, len);
    }
    free(bytes);
}

static void write_config(const char *dir, const struct tiny_moe *m)
{
    char text[64], *config = tiny_llama_config(&m->dense, false);
    test_write_file(dir, "config.json", config, strlen(config));
    free(config);
    tiny_file_replace(dir, "config.json", "\"llama\"", "\"mixtral\"");
    tiny_file_replace(dir, "config.json", "  \"attention_bias\": false,\n", "");
    tiny_file_replace(dir, "config.json", "  \"pretraining_tp\": 1,\n", "");
    snprintf(text, sizeof(text), "\"num_local_experts\": %d, \"num_experts_per_tok\": %d",
             (int)m->experts, (int)m->top_k);
    tiny_file_replace(dir, "config.json", "\"mlp_bias\": false", text);
}

void tiny_moe_write(const char *dir, const struct tiny_moe *m)
{
    struct tiny_tensor tensors[TINY_MAX_TENSORS];
    struct file f = {0};
    size_t count = tiny_llama_tensors(&m->dense, tensors);
    dgl_buf_puts(&f.header, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (size_t i = 0; i < count; i++)
        add_dense(&f, m, &tensors[i], i);
    for (int32_t layer = 0; layer < m->dense.layers; layer++)
        add_router(&f, m, layer);
    dgl_buf_putc(&f.header, '}');
    assert_false(f.header.failed || f.data.failed);
    tiny_safetensors_write(dir, "model.safetensors", f.header.p, f.data.p, f.data.len);
    dgl_buf_finish(&f.header);
    dgl_buf_finish(&f.data);
    write_config(dir, m);
}
