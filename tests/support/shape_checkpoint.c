/* Writing random checkpoints of full size, a piece at a time. Names and shapes are those that the
 * loader demands; that these are the published ones is what the families' fixtures show. */
#include "tests/support/shape_checkpoint.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "loader/desc/bind_rules.h"
#include "loader/quant/quant.h"
#include "tests/support/test.h"

enum {
    PIECE = 1 << 19, /* values written at once */
    CODES = 1 << 16  /* different values of a tensor */
};

struct shape_tensor {
    char name[96];
    uint32_t rank;
    uint64_t shape[2], count; /* count: values */
    double deviation, middle;
};

struct shape_tensors {
    struct shape_tensor *items;
    size_t count, cap;
    const struct model_desc *desc;
    uint64_t dims[DIM_COUNT];
};

/* ---- which tensors --------------------------------------------------------------------------- */

static bool has(const char *name, const char *part)
{
    return strstr(name, part) != NULL;
}

/* So that activations stay near 1 whatever the sizes, and every tensor matters to the logits. */
static void choose_values(const struct model_desc *d, struct shape_tensor *t)
{
    if (has(t->name, "embed_tokens") || has(t->name, "lm_head"))
        t->deviation = 0.02;
    else if (t->rank == 2)
        t->deviation = 1.0 / sqrt((double)t->shape[1]);
    else if (has(t->name, "norm"))
        t->deviation = 0.2;
    else
        t->deviation = 0.5;
    t->middle = has(t->name, "norm") && !d->norm_plus_one ? 1.0 : 0.0;
}

static enum dgl_status add_tensor(const struct dgl_log *log, struct shape_tensors *list,
                                  const struct bind_rule *rule, int32_t layer)
{
    if (!dgl_grow((void **)&list->items, &list->cap, list->count + 1, sizeof(*list->items)))
        return dgl_fail_memory(log, "list of tensors", list->count * sizeof(*list->items));
    struct shape_tensor *t = &list->items[list->count++];
    *t = (struct shape_tensor){.rank = bind_rule_rank(rule), .count = 1};
    if (layer < 0)
        snprintf(t->name, sizeof(t->name), "%s", rule->name);
    else
        snprintf(t->name, sizeof(t->name), "model.layers.%d.%s", (int)layer, rule->name);
    for (uint32_t i = 0; i < t->rank; i++) {
        t->shape[i] = list->dims[rule->dims[i]];
        t->count *= t->shape[i];
    }
    choose_values(list->desc, t);
    return DGL_OK;
}

static enum dgl_status list_tensors(const struct dgl_log *log, struct shape_tensors *list)
{
    const struct model_desc *d = list->desc;
    enum dgl_status st = DGL_OK;
    if (d->moe.experts > 0)
        return dgl_fail(log, DGL_ERR_UNSUPPORTED, "a %s model has experts; wanted a dense one",
                        d->family);
    bind_dims_fill(d, list->dims);
    for (size_t i = 0; i < bind_num_model_rules && st == DGL_OK; i++)
        if (!d->tied_head || bind_model_rules[i].slot != offsetof(struct model_desc, head))
            st = add_tensor(log, list, &bind_model_rules[i], -1);
    for (int32_t layer = 0; layer < d->layers; layer++)
        for (size_t i = 0; i < bind_num_layer_rules && st == DGL_OK; i++)
            if (!bind_layer_rules[i].optional && bind_rule_holds(&bind_layer_rules[i], d, layer))
                st = add_tensor(log, list, &bind_layer_rules[i], layer);
    return st;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* The 8 bytes of its length and the header, padded to 8. */
static void append_header(const struct shape_tensors *list, struct dgl_buf *out)
{
    struct dgl_buf header = {0};
    uint64_t at = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct shape_tensor *t = &list->items[i];
        dgl_buf_printf(&header, "%s\"%s\":{\"dtype\":\"BF16\",\"shape\":[%" PRIu64, i ? "," : "{",
                       t->name, t->shape[0]);
        if (t->rank == 2)
            dgl_buf_printf(&header, ",%" PRIu64, t->shape[1]);
        dgl_buf_printf(&header, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at,
                       at + 2 * t->count);
        at += 2 * t->count;
    }
    dgl_buf_putc(&header, '}');
    while (header.len % 8 != 0)
        dgl_buf_putc(&header, ' ');
    for (unsigned i = 0; i < 8; i++)
        dgl_buf_putc(out, (char)(unsigned char)((uint64_t)header.len >> 8 * i));
    dgl_buf_append(out, header.p, header.len);
    out->failed = out->failed || header.failed;
    dgl_buf_finish(&header);
}

/* Even values from middle - sqrt(3) deviations to middle + sqrt(3) deviations. */
static void fill_codes(const struct shape_tensor *t, uint16_t codes[CODES])
{
    double step = t->deviation * sqrt(12.0) / CODES;
    for (int i = 0; i < CODES; i++)
        codes[i] = dgl_f32_to_bf16((float)(t->middle + step * (i - CODES / 2 + 0.5)));
}

/* `codes` and `piece` are the caller's room: [CODES], [PIECE]. */
static bool write_values(FILE *file, const struct shape_tensor *t, uint64_t seed, uint16_t *codes,
                         uint16_t *piece)
{
    fill_codes(t, codes);
    for (uint64_t left = t->count; left > 0;) {
        size_t n = left < PIECE ? (size_t)left : PIECE;
        for (size_t i = 0; i < n; i += 4) {
            uint64_t random = test_rand(&seed);
            for (size_t j = i; j < i + 4; j++, random >>= 16)
                piece[j] = codes[random & 0xffff];
        }
        if (fwrite(piece, sizeof(*piece), n, file) != n)
            return false;
        left -= n;
    }
    return true;
}

static enum dgl_status write_tensors(const struct dgl_log *log, const struct shape_tensors *list,
                                     const char *path, uint64_t *parameters)
{
    struct dgl_buf header = {0};
    uint16_t *codes = dgl_new_array(uint16_t, CODES), *piece = dgl_new_array(uint16_t, PIECE);
    FILE *file = fopen(path, "wb");
    append_header(list, &header);
    bool ok = file && codes && piece && !header.failed &&
              fwrite(header.p, 1, header.len, file) == header.len;
    for (size_t i = 0; i < list->count && ok; i++) {
        ok = write_values(file, &list->items[i], i * 1000003 + 1, codes, piece);
        *parameters += list->items[i].count;
    }
    enum dgl_status st = ok ? DGL_OK : dgl_fail_errno(log, "write", path);
    if (file && fclose(file) != 0 && st == DGL_OK)
        st = dgl_fail_errno(log, "write", path);
    free(codes);
    free(piece);
    dgl_buf_finish(&header);
    return st;
}

/* ---- the folder ------------------------------------------------------------------------------ */

static enum dgl_status read_desc(const struct dgl_log *log, const char *path,
                                 struct model_desc *out)
{
    struct dgl_json_doc *doc = NULL;
    struct model_skipped skipped = {0};
    enum dgl_status st = dgl_json_load(log, path, 1 << 20, &doc);
    if (st == DGL_OK) {
        const struct fields fields = {.name = path, .base = dgl_json_root(doc)};
        st = model_desc_init(
            log, &(struct model_desc_input){.config = &fields, .config_only = true}, out, &skipped);
    }
    dgl_json_destroy(&doc);
    model_skipped_finish(&skipped);
    return st;
}

static enum dgl_status copy_config(const struct dgl_log *log, const char *from, const char *to)
{
    struct dgl_atomic_file *file = NULL;
    char *text = NULL;
    size_t len;
    enum dgl_status st = dgl_file_slurp(log, from, 1 << 20, &text, &len);
    if (st == DGL_OK)
        st = dgl_atomic_create(log, to, &file);
    if (st == DGL_OK)
        st = dgl_atomic_write(file, text, len);
    if (st == DGL_OK)
        st = dgl_atomic_commit(&file);
    dgl_atomic_abort(&file);
    free(text);
    return st;
}

enum dgl_status shape_checkpoint_write(const struct dgl_log *log, const char *config,
                                       const char *dir, uint64_t *parameters)
{
    struct model_desc desc = {0};
    struct shape_tensors list = {.desc = &desc};
    char *config_path = dgl_path_join(dir, "config.json");
    char *weights_path = dgl_path_join(dir, "model.safetensors");
    *parameters = 0;
    enum dgl_status st =
        config_path && weights_path ? DGL_OK : dgl_fail_memory(log, "path", strlen(dir));
    if (st == DGL_OK)
        st = read_desc(log, config, &desc);
    if (st == DGL_OK)
        st = list_tensors(log, &list);
    if (st == DGL_OK)
        st = copy_config(log, config, config_path);
    if (st == DGL_OK)
        st = write_tensors(log, &list, weights_path, parameters);
    model_desc_finish(&desc);
    free(list.items);
    free(config_path);
    free(weights_path);
    return st;
}
