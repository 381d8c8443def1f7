/* Writing random checkpoints of full size, a piece at a time. */
#include "tests/support/shape_checkpoint.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "loader/quant/quant.h"
#include "tests/support/shape_tensors.h"
#include "tests/support/test.h"

enum {
    PIECE = 1 << 19, /* values written at once */
    CODES = 1 << 16  /* different values of a tensor */
};

/* ---- values ---------------------------------------------------------------------------------- */

static bool has(const char *name, const char *part)
{
    return strstr(name, part) != NULL;
}

/* Uniform values from middle - sqrt(3) deviations to middle + sqrt(3) deviations, so that
 * activations stay near 1 for any sizes, and every tensor matters to the logits. */
static void fill_codes(const struct model_desc *d, const struct shape_tensor *t,
                       uint16_t codes[CODES])
{
    double deviation = 0.5, middle = has(t->name, "norm") && !d->norm_plus_one ? 1.0 : 0.0;
    if (has(t->name, "embed_tokens") || has(t->name, "lm_head"))
        deviation = 0.02;
    else if (t->rank == 2)
        deviation = 1.0 / sqrt((double)t->shape[1]);
    else if (has(t->name, "norm"))
        deviation = 0.2;
    double step = deviation * sqrt(12.0) / CODES;
    for (int i = 0; i < CODES; i++)
        codes[i] = dgl_f32_to_bf16((float)(middle + step * (i - CODES / 2 + 0.5)));
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

/* `codes` and `piece` are the caller's room: [CODES], [PIECE]. */
static bool write_values(FILE *file, const struct shape_tensor *t, uint64_t seed,
                         const uint16_t *codes, uint16_t *piece)
{
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

static enum dgl_status write_tensors(const struct dgl_log *log, const struct model_desc *desc,
                                     const struct shape_tensors *list, const char *path,
                                     uint64_t *parameters)
{
    struct dgl_buf header = {0};
    uint16_t *codes = dgl_new_array(uint16_t, CODES), *piece = dgl_new_array(uint16_t, PIECE);
    FILE *file = fopen(path, "wb");
    append_header(list, &header);
    bool ok = file && codes && piece && !header.failed &&
              fwrite(header.p, 1, header.len, file) == header.len;
    for (size_t i = 0; i < list->count && ok; i++) {
        fill_codes(desc, &list->items[i], codes);
        ok = write_values(file, &list->items[i], i * 1000003 + 1, codes, piece);
        *parameters += list->items[i].count;
    }
    enum dgl_status status = ok ? DGL_OK : dgl_fail_errno(log, "write", path);
    if (file && fclose(file) != 0 && status == DGL_OK)
        status = dgl_fail_errno(log, "write", path);
    free(codes);
    free(piece);
    dgl_buf_finish(&header);
    return status;
}

/* ---- the folder ------------------------------------------------------------------------------ */

static enum dgl_status copy_config(const struct dgl_log *log, const char *from, const char *to)
{
    struct dgl_atomic_file *file = NULL;
    char *text = NULL;
    size_t len;
    enum dgl_status status = dgl_file_slurp(log, from, 1 << 20, &text, &len);
    if (status == DGL_OK)
        status = dgl_atomic_create(log, to, &file);
    if (status == DGL_OK)
        status = dgl_atomic_write(file, text, len);
    if (status == DGL_OK)
        status = dgl_atomic_commit(&file);
    dgl_atomic_abort(&file);
    free(text);
    return status;
}

enum dgl_status shape_checkpoint_write(const struct dgl_log *log, const char *config,
                                       const char *dir, uint64_t *parameters)
{
    struct model_desc desc = {0};
    struct shape_tensors list = {0};
    char *config_path = dgl_path_join(dir, "config.json");
    char *weights_path = dgl_path_join(dir, "model.safetensors");
    *parameters = 0;
    enum dgl_status status =
        config_path && weights_path ? DGL_OK : dgl_fail_memory(log, "path", strlen(dir));
    if (status == DGL_OK)
        status = shape_desc_read(log, config, &desc);
    if (status == DGL_OK && desc.moe.experts > 0)
        status = dgl_fail(log, DGL_ERR_UNSUPPORTED, "a %s model has experts; wanted a dense one",
                          desc.family);
    if (status == DGL_OK)
        status = shape_tensors_list(log, &desc, &list);
    if (status == DGL_OK)
        status = copy_config(log, config, config_path);
    if (status == DGL_OK)
        status = write_tensors(log, &desc, &list, weights_path, parameters);
    model_desc_finish(&desc);
    free(list.items);
    free(config_path);
    free(weights_path);
    return status;
}
