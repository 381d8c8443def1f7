/* View of expert tensors: joins or transposes some of them when they are read. */
#include "loader/tensor/expert_view.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "loader/tensor/tensor_transpose.h"

#define BLOCKS "_blocks"
#define SCALES "_scales"
#define WEIGHT ".weight"

enum {
    BLOCK_VALUES = 32,
    BLOCK_NIBBLES = 16,              /* bytes of a block's values */
    BLOCK_BYTES = 1 + BLOCK_NIBBLES, /* with its scale */
    PIECE_BLOCKS = 4096              /* of a pair, per read */
};

enum view_kind { AS_STORED, PAIR, TURNED };

struct view_tensor {
    enum view_kind kind;
    size_t index;  /* in the source below; of the blocks */
    size_t scales; /* of a pair */
};

struct view {
    struct tensor_source *below;
    struct view_tensor *tensors;
};

/* ---- reading --------------------------------------------------------------------------------- */

/* One block after the other: [nibbles, scales, joined]. */
struct pair_piece {
    uint8_t nibbles[PIECE_BLOCKS * BLOCK_NIBBLES];
    uint8_t scales[PIECE_BLOCKS];
    uint8_t joined[PIECE_BLOCKS * BLOCK_BYTES];
};

static enum dgl_status pair_read(const struct dgl_log *log, const struct view *view,
                                 const struct view_tensor *t, const struct tensor_window *w)
{
    struct pair_piece *piece = dgl_new(struct pair_piece);
    if (!piece)
        return dgl_fail_memory(log, "MXFP4 blocks", sizeof(*piece));
    enum dgl_status status = DGL_OK;
    uint64_t block = w->offset / BLOCK_BYTES;
    uint64_t end = (w->offset + w->size + BLOCK_BYTES - 1) / BLOCK_BYTES;
    while (block < end) {
        size_t count = end - block < PIECE_BLOCKS ? (size_t)(end - block) : PIECE_BLOCKS;
        TRY(tensor_source_read(log, view->below, t->index, block * BLOCK_NIBBLES, piece->nibbles,
                               count * BLOCK_NIBBLES));
        TRY(tensor_source_read(log, view->below, t->scales, block, piece->scales, count));
        for (size_t i = 0; i < count; i++) {
            /* Byte j of a stored block has values 2j and 2j + 1, of the result j and j + 16. */
            const uint8_t *from = piece->nibbles + i * BLOCK_NIBBLES;
            uint8_t *to = piece->joined + i * BLOCK_BYTES;
            to[0] = piece->scales[i];
            for (int j = 0; j < BLOCK_NIBBLES; j++) {
                int shift = (j & 1) * 4, low = from[j / 2] >> shift & 15;
                int high = from[BLOCK_NIBBLES / 2 + j / 2] >> shift & 15;
                to[1 + j] = (uint8_t)(low | high << 4);
            }
        }
        tensor_window_copy(w, piece->joined, block * BLOCK_BYTES, count * BLOCK_BYTES);
        block += count;
    }
done:
    free(piece);
    return status;
}

static enum dgl_status view_read(void *impl, const struct dgl_log *log, size_t index,
                                 uint64_t offset, void *dst, size_t size)
{
    const struct view *view = impl;
    const struct view_tensor *t = &view->tensors[index];
    const struct tensor_window w = {offset, size, dst};
    if (t->kind == PAIR)
        return pair_read(log, view, t, &w);
    if (t->kind == AS_STORED)
        return tensor_source_read(log, view->below, t->index, offset, dst, size);
    const struct tensor_info *info = tensor_source_at(view->below, t->index);
    const struct tensor_transpose turn = {.index = t->index,
                                          .rows = info->shape[2],
                                          .cols = info->shape[1],
                                          .value = dgl_dtype_get(info->dtype)->block_bytes};
    return tensor_transpose_read(log, view->below, &turn, &w);
}

static void view_destroy(void *impl)
{
    struct view *view = impl;
    tensor_source_destroy(&view->below);
    free(view->tensors);
    free(view);
}

/* "X.weight" is in the file as "X_blocks" and "X_scales", or as "X". */
static bool view_file_name(const void *impl, const char *name, struct dgl_buf *out)
{
    static const char *const endings[] = {BLOCKS, ""};
    const struct tensor_source *below = ((const struct view *)impl)->below;
    for (size_t i = 0; i < 2 && dgl_str_ends(dgl_str_of(name), WEIGHT); i++) {
        struct dgl_buf stored = {0};
        dgl_buf_printf(&stored, "%.*s%s", (int)(strlen(name) - strlen(WEIGHT)), name, endings[i]);
        bool found = !stored.failed && tensor_source_find(below, stored.p) >= 0;
        if (found)
            dgl_buf_puts(out, stored.p);
        dgl_buf_finish(&stored);
        if (found)
            return true;
    }
    return tensor_source_file_name(below, name, out);
}

/* ---- making ---------------------------------------------------------------------------------- */

/* Tensor list of the view while it is built. */
struct maker {
    const struct dgl_log *log;
    const struct tensor_source *below;
    struct view *view;
    struct tensor_info *infos;
    size_t count;
    struct dgl_arena names;
    bool changes; /* some tensor differs from the stored one */
};

static enum dgl_status add_made(struct maker *m, const struct tensor_info *from, size_t base_len,
                                struct tensor_info info, struct view_tensor t)
{
    char *name = dgl_arena_printf(&m->names, "%.*s" WEIGHT, (int)base_len, from->name);
    if (!name)
        return dgl_fail_memory(m->log, "tensor names", base_len);
    info.name = name;
    info.role = tensor_role_from_name(name);
    if (!dgl_dtype_tensor_bytes(info.dtype, info.rank, info.shape, &info.bytes))
        return dgl_fail(m->log, DGL_ERR_FORMAT, "%s: the size of tensor %s overflows",
                        tensor_source_label(m->below), DGL_PRINTABLE(from->name));
    m->view->tensors[m->count] = t;
    m->infos[m->count++] = info;
    m->changes = true;
    return DGL_OK;
}

/* Index of the tensor with the name of `t` but another ending. Negative: absent, or out of
 * memory. */
static long partner_find(struct maker *m, const struct tensor_info *t, const char *ending,
                         const char *other)
{
    size_t base = strlen(t->name) - strlen(ending);
    char *name = dgl_arena_printf(&m->names, "%.*s%s", (int)base, t->name, other);
    return name ? tensor_source_find(m->below, name) : -1;
}

static enum dgl_status add_pair(struct maker *m, size_t index)
{
    const struct tensor_info *b = tensor_source_at(m->below, index);
    size_t base = strlen(b->name) - strlen(BLOCKS);
    long scales = partner_find(m, b, BLOCKS, SCALES);
    char b_text[TENSOR_SHAPE_TEXT], s_text[TENSOR_SHAPE_TEXT];
    if (scales < 0)
        return dgl_fail(m->log, DGL_ERR_FORMAT,
                        "%s: tensor %s is there, but %s" SCALES
                        " is missing, wanted as u8 with shape %s",
                        tensor_source_label(m->below), DGL_PRINTABLE(b->name),
                        DGL_PRINTABLE_STR(((struct dgl_str){b->name, base})),
                        tensor_shape_str(b->rank - 1, b->shape, b_text));
    const struct tensor_info *s = tensor_source_at(m->below, (size_t)scales);
    bool fits = b->rank == 4 && s->rank == 3 && b->dtype == DGL_U8 && s->dtype == DGL_U8 &&
                b->shape[3] == BLOCK_NIBBLES &&
                memcmp(b->shape, s->shape, 3 * sizeof(*b->shape)) == 0;
    if (!fits)
        return dgl_fail(m->log, DGL_ERR_FORMAT,
                        "%s: tensors %s %s and %s %s are not an MXFP4 pair: wanted u8 [experts, "
                        "rows, n, 16] and u8 [experts, rows, n]",
                        tensor_source_label(m->below), DGL_PRINTABLE(b->name),
                        tensor_shape_str(b->rank, b->shape, b_text), DGL_PRINTABLE(s->name),
                        tensor_shape_str(s->rank, s->shape, s_text));
    struct tensor_info info = {.dtype = DGL_MXFP4,
                               .rank = 3,
                               .shape = {b->shape[0], b->shape[1], b->shape[2] * BLOCK_VALUES}};
    return add_made(m, b, base, info, (struct view_tensor){PAIR, index, (size_t)scales});
}

static enum dgl_status add_tensor(struct maker *m, size_t index)
{
    const struct tensor_info *t = tensor_source_at(m->below, index);
    if (dgl_str_ends(dgl_str_of(t->name), BLOCKS))
        return add_pair(m, index);
    /* Scales are joined with their blocks. Scales without blocks stay, and binding refuses them. */
    if (dgl_str_ends(dgl_str_of(t->name), SCALES) && partner_find(m, t, SCALES, BLOCKS) >= 0)
        return DGL_OK;
    bool turned = t->rank == 3 && dgl_dtype_get(t->dtype)->block == 1 &&
                  (dgl_str_ends(dgl_str_of(t->name), ".experts.gate_up_proj") ||
                   dgl_str_ends(dgl_str_of(t->name), ".experts.down_proj"));
    struct tensor_info info = {
        .dtype = t->dtype, .rank = 3, .shape = {t->shape[0], t->shape[2], t->shape[1]}};
    if (turned)
        return add_made(m, t, strlen(t->name), info, (struct view_tensor){TURNED, index, 0});
    m->view->tensors[m->count] = (struct view_tensor){AS_STORED, index, 0};
    m->infos[m->count++] = *t;
    return DGL_OK;
}

enum dgl_status expert_view_wrap(const struct dgl_log *log, struct tensor_source **src)
{
    static const struct tensor_source_ops ops = {
        .read = view_read, .destroy = view_destroy, .file_name = view_file_name};
    size_t count = tensor_source_count(*src);
    struct maker m = {.log = log, .below = *src, .view = dgl_new(struct view)};
    m.infos = dgl_new_array(struct tensor_info, count);
    if (m.view)
        m.view->tensors = dgl_new_array(struct view_tensor, count);
    enum dgl_status status = DGL_OK;
    if (!m.infos || !m.view || !m.view->tensors)
        TRY(dgl_fail_memory(log, "tensor list", count * sizeof(*m.infos)));
    for (size_t i = 0; i < count; i++)
        TRY(add_tensor(&m, i));
    if (m.changes) {
        struct view *view = m.view;
        m.view = NULL;
        view->below = *src;
        status = tensor_source_create(log, tensor_source_label(view->below), &ops, view, m.infos,
                                      m.count, src);
    }
done:
    if (m.view)
        view_destroy(m.view); /* it does not own a source yet */
    free(m.infos);
    dgl_arena_finish(&m.names);
    return status;
}
