/* Uploads weights to the device. Threads read and pack pieces of a few rows, or one vector, into
 * slots of staging memory; the device's thread sends the slots to the buffers in order. */
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/thread.h"
#include "core/memory/repack.h"
#include "core/memory/weight_buffers.h"
#include "loader/quant/quant.h"

/* Maximum bytes of the packed rows of a piece, except that a piece may always have two rows. Small
 * enough for the caches of a processor, large enough for disks. */
#define PIECE_BYTES (2ull << 20)
/* More threads than this read no faster. Each needs two slots. */
#define MOST_THREADS 16
/* Slots whose copies to the buffers are in flight. */
#define SLOTS_SENT 2

/* One write to a buffer. */
struct piece {
    const struct weight *w; /* NULL for a vector */
    const struct weight_band *band;
    /* Rows of the band. If count is 0, the piece is the band's biases, or a vector. */
    uint64_t row, count;
    uint32_t vector; /* in model_weights.vectors */
    struct gl_range to;
};

struct upload {
    const struct weight_buffers *wb;
    struct dgl_device *dev;
    const struct weight_upload_params *p;
    uint64_t done, total; /* progress in bytes read */
    struct piece *pieces;
    size_t num_pieces, cap_pieces;
    struct gl_staging *staging;
    struct slot {
        uint64_t read; /* bytes of files */
        struct dgl_error error;
    } * slots;
    size_t num_slots;
    /* Host memory of each thread */
    uint64_t file_bytes, row_values, changed_bytes;
    struct scratch {
        uint8_t *file; /* rows as stored */
        float *row;    /* values of one row, for changes of type */
        void *changed; /* one row in the device's type, as in a file */
        uint64_t read_ns, busy_ns;
    } scratch[MOST_THREADS + 1];
};

static const struct tensor_info *tensor_at(const struct upload *u, long tensor)
{
    return tensor_source_at(u->p->tensors, (size_t)tensor);
}

/* ---- pieces, on any thread ------------------------------------------------------------------- */

/* A piece while it is produced. */
struct job {
    const struct upload *u;
    const struct piece *piece;
    const struct scratch *scratch;
    struct dgl_log log;
    uint64_t read, read_ns;
};

static enum dgl_status read_bytes(struct job *job, long tensor, uint64_t at, void *dst,
                                  uint64_t bytes)
{
    const uint64_t start_ns = dgl_now_ns();
    enum dgl_status status =
        tensor_source_read(&job->log, job->u->p->tensors, (size_t)tensor, at, dst, (size_t)bytes);
    job->read += bytes;
    job->read_ns += dgl_now_ns() - start_ns;
    return status;
}

static bool pack_row(const struct piece *piece, enum dgl_dtype stored,
                     const struct scratch *scratch, const uint8_t *src, uint32_t *dst)
{
    const struct weight_band *band = piece->band;
    const uint64_t cols = piece->w->cols;
    if (stored != band->dtype) {
        if (!dgl_row_decode(stored, src, cols, scratch->row) ||
            !dgl_row_encode(band->dtype, scratch->row, cols, scratch->changed))
            return false;
        src = scratch->changed;
    }
    repack_row(band->layout, src, cols, dst);
    return true;
}

/* Returns the index of the slice's first row that is placed at weight row `row` or later, or the
 * number of the slice's rows if there is none. Row i of a slice is placed at to + i * step. */
static uint64_t slice_index(const struct weight_slice *s, uint64_t row)
{
    uint64_t i = row <= s->to ? 0 : (row - s->to + s->step - 1) / s->step;
    return i < s->count ? i : s->count;
}

/* Reads and packs the rows of a piece. Each slice contributes the rows that lie in the piece; they
 * are `step` rows apart. */
static enum dgl_status produce_rows(struct job *job, uint32_t *packed)
{
    const struct piece *piece = job->piece;
    const struct weight *w = piece->w;
    const uint64_t row = piece->band->row0 + piece->row, words = piece->band->row_words;
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < w->num_slices; i++) {
        const struct weight_slice *s = &job->u->wb->weights->slices[w->first_slice + i];
        const struct tensor_info *info = tensor_at(job->u, s->tensor);
        uint64_t begin = slice_index(s, row), end = slice_index(s, row + piece->count), row_bytes;
        if (begin >= end)
            continue;
        if (!dgl_dtype_row_bytes(info->dtype, w->cols, &row_bytes))
            return dgl_fail(&job->log, DGL_ERR_FORMAT, "%s: row size overflows",
                            DGL_PRINTABLE(info->name));
        TRY(read_bytes(job, s->tensor, (s->from + begin) * row_bytes, job->scratch->file,
                       (end - begin) * row_bytes));
        uint32_t *dst = packed + (s->to + begin * s->step - row) * words;
        for (uint64_t j = 0; j < end - begin; j++)
            if (!pack_row(piece, info->dtype, job->scratch, job->scratch->file + j * row_bytes,
                          dst + j * s->step * words))
                TRY(dgl_fail(&job->log, DGL_ERR_UNSUPPORTED, "%s: cannot pack %s rows",
                             DGL_PRINTABLE(info->name), dgl_dtype_get(info->dtype)->name));
    }
done:
    return status;
}

/* Reads `count` values of a tensor, which are `bytes` bytes at `at`. */
static enum dgl_status read_values(struct job *job, long tensor, uint64_t at, uint64_t bytes,
                                   uint64_t count, float *values)
{
    const struct tensor_info *info = tensor_at(job->u, tensor);
    void *stored = dgl_calloc(1, bytes);
    enum dgl_status status = DGL_OK;
    if (!stored)
        TRY(dgl_fail_memory(&job->log, info->name, bytes));
    TRY(read_bytes(job, tensor, at, stored, bytes));
    if (!dgl_row_decode(info->dtype, stored, count, values))
        TRY(dgl_fail(&job->log, DGL_ERR_UNSUPPORTED, "%s: a %s vector cannot be read",
                     DGL_PRINTABLE(info->name), dgl_dtype_get(info->dtype)->name));
done:
    free(stored);
    return status;
}

static enum dgl_status produce_biases(struct job *job, float *values)
{
    const struct weight_band *band = job->piece->band;
    const long tensor = job->piece->w->band_bias;
    const struct tensor_info *info = tensor_at(job->u, tensor);
    uint64_t each;
    if (!dgl_dtype_row_bytes(info->dtype, 1, &each))
        return dgl_fail(&job->log, DGL_ERR_FORMAT, "%s: value size overflows",
                        DGL_PRINTABLE(info->name));
    return read_values(job, tensor, each * band->row0, each * band->rows, band->rows, values);
}

static enum dgl_status produce_vector(struct job *job, float *all)
{
    const struct model_weights *weights = job->u->wb->weights;
    const struct weight_vector *v = &weights->vectors[job->piece->vector];
    float *values = dgl_new_array(float, v->count);
    enum dgl_status status = DGL_OK;
    if (!values)
        TRY(dgl_fail_memory(&job->log, "vector", v->count * sizeof(*values)));
    for (size_t i = 0; i < v->num_slices; i++) {
        const struct weight_vector_slice *s = &weights->vector_slices[v->first_slice + i];
        TRY(read_values(job, s->tensor, 0, tensor_at(job->u, s->tensor)->bytes, s->count, values));
        for (uint64_t k = 0; k < s->count; k++)
            all[s->at + k * s->step] = (float)(s->scale * (values[k] + s->add));
    }
done:
    free(values);
    return status;
}

static enum dgl_status produce(void *ctx, int32_t thread, size_t item)
{
    struct upload *u = ctx;
    struct slot *slot = &u->slots[item % u->num_slots];
    const uint64_t start_ns = dgl_now_ns();
    struct job job = {.u = u,
                      .piece = &u->pieces[item],
                      .scratch = &u->scratch[thread],
                      .log = dgl_log_with_error(NULL, &slot->error)};
    void *to = gl_staging_slot(u->staging, (uint32_t)(item % u->num_slots));
    enum dgl_status status;
    if (job.piece->count > 0) {
        status = produce_rows(&job, to);
    } else {
        memset(to, 0, (size_t)job.piece->to.size); /* not every value comes from a file */
        status = job.piece->w ? produce_biases(&job, to) : produce_vector(&job, to);
    }
    slot->read = job.read;
    u->scratch[thread].read_ns += job.read_ns;
    u->scratch[thread].busy_ns += dgl_now_ns() - start_ns;
    return status;
}

/* ---- all of it, on the device's thread ------------------------------------------------------- */

static enum dgl_status consume(void *ctx, size_t item, enum dgl_status produced)
{
    struct upload *u = ctx;
    const struct slot *slot = &u->slots[item % u->num_slots];
    enum dgl_status status = DGL_OK;
    if (produced != DGL_OK)
        TRY(dgl_fail(u->dev->log, produced, "%s", slot->error.text));
    TRY(gl_staging_send(u->dev->gl, u->staging, (uint32_t)(item % u->num_slots),
                        &u->pieces[item].to));
    if (item >= SLOTS_SENT)
        TRY(gl_staging_wait(u->dev->gl, u->staging,
                            (uint32_t)((item - SLOTS_SENT) % u->num_slots)));
    u->done += slot->read;
    if (u->p->progress_cb && !u->p->progress_cb(u->p->progress_priv, "bytes", u->done, u->total))
        TRY(dgl_fail(u->dev->log, DGL_ERR_CANCELLED, "loading was cancelled"));
done:
    return status;
}

static enum dgl_status add_piece(struct upload *u, const struct piece *piece)
{
    if (!dgl_grow((void **)&u->pieces, &u->cap_pieces, u->num_pieces + 1, sizeof(*piece)))
        return dgl_fail_memory(u->dev->log, "list of uploads", u->num_pieces * sizeof(*piece));
    u->pieces[u->num_pieces++] = *piece;
    return DGL_OK;
}

/* Lists the rows of a band, counts the bytes to read, and computes the scratch memory for one
 * piece. */
static enum dgl_status add_rows(struct upload *u, const struct piece *band)
{
    const struct weight *w = band->w;
    const uint64_t row0 = band->band->row0, rows = band->band->rows;
    const uint64_t row_bytes = band->band->row_words * 4ull;
    uint64_t widest = 0, changed, bytes = 0, step = PIECE_BYTES / row_bytes;
    enum dgl_status status = DGL_OK;
    bool fits = dgl_dtype_row_bytes(band->band->dtype, w->cols, &changed);
    for (size_t i = 0; i < w->num_slices && fits; i++) {
        const struct weight_slice *s = &u->wb->weights->slices[w->first_slice + i];
        fits = dgl_dtype_row_bytes(tensor_at(u, s->tensor)->dtype, w->cols, &bytes);
        widest = bytes > widest ? bytes : widest;
        u->total += bytes * (slice_index(s, row0 + rows) - slice_index(s, row0));
    }
    if (!fits)
        return dgl_fail(u->dev->log, DGL_ERR_FORMAT, "row size overflows");
    /* Two slices may alternate row by row (gate and up). An even step keeps their pairs whole. */
    step = step < 2 ? 2 : step & ~1ull;
    step = step < rows ? step : rows;
    u->file_bytes = step * widest > u->file_bytes ? step * widest : u->file_bytes;
    u->row_values = w->cols > u->row_values ? w->cols : u->row_values;
    u->changed_bytes = changed > u->changed_bytes ? changed : u->changed_bytes;
    for (uint64_t row = 0; row < rows; row += step) {
        struct piece piece = *band;
        piece.row = row;
        piece.count = step < rows - row ? step : rows - row;
        piece.to.offset += row * row_bytes;
        piece.to.size = piece.count * row_bytes;
        TRY(add_piece(u, &piece));
    }
done:
    return status;
}

static bool is_wanted(const struct upload *u, const struct weight_place *place)
{
    return !u->p->only || u->p->only[place->buffer];
}

/* Lists the pieces that are read from files, and counts their bytes. If the caller has a fill
 * callback, it writes the rows of the bands at once, and only biases and vectors are listed. */
static enum dgl_status list_pieces(struct upload *u)
{
    const struct model_weights *weights = u->wb->weights;
    enum dgl_status status = DGL_OK;
    for (uint32_t i = 0; i < weights->num_matrices; i++) {
        const struct weight *w = weights->matrices[i];
        for (uint32_t j = 0; j < w->num_bands; j++) {
            const struct weight_band *band = &w->bands[j];
            struct piece piece = {.w = w, .band = band, .to = weight_buffers_band(u->wb, i, j)};
            if (!is_wanted(u, &band->place))
                continue;
            TRY(u->p->fill ? u->p->fill(u->p->fill_ctx, w, band, piece.to) : add_rows(u, &piece));
            if (w->band_bias == TENSOR_NONE)
                continue;
            const uint64_t rows_bytes = 4ull * band->rows * band->row_words;
            piece.to.offset += rows_bytes;
            piece.to.size -= rows_bytes;
            u->total += tensor_at(u, w->band_bias)->bytes / w->rows * band->rows;
            TRY(add_piece(u, &piece));
        }
    }
    for (uint32_t i = VECTOR_NONE + 1; i < weights->num_vectors; i++) {
        const struct weight_vector *v = &weights->vectors[i];
        if (!is_wanted(u, &v->place))
            continue;
        for (size_t j = 0; j < v->num_slices; j++)
            u->total += tensor_at(u, weights->vector_slices[v->first_slice + j].tensor)->bytes;
        TRY(add_piece(u, &(struct piece){.vector = i, .to = weight_buffers_vector(u->wb, i)}));
    }
done:
    return status;
}

enum dgl_status weight_buffers_upload(const struct weight_buffers *wb, struct dgl_device *dev,
                                      const struct weight_upload_params *params)
{
    struct upload u = {.wb = wb, .dev = dev, .p = params};
    struct dgl_pipeline line = {
        .threads = dgl_thread_count(), .lag = SLOTS_SENT, .produce = produce, .consume = consume};
    uint64_t slot_bytes = 0, start_ns = dgl_now_ns(), read_ns = 0, busy_ns = 0;
    enum dgl_status status;
    TRY(list_pieces(&u));
    if (u.num_pieces == 0)
        goto done;
    for (size_t i = 0; i < u.num_pieces; i++)
        slot_bytes = u.pieces[i].to.size > slot_bytes ? u.pieces[i].to.size : slot_bytes;
    line.threads = line.threads < MOST_THREADS ? line.threads : MOST_THREADS;
    if ((size_t)line.threads > u.num_pieces)
        line.threads = (int32_t)u.num_pieces;
    u.num_slots = 2 * (size_t)line.threads + SLOTS_SENT;
    u.slots = dgl_new_array(struct slot, u.num_slots);
    bool ok = u.slots != NULL;
    for (int32_t i = 0; i <= line.threads && ok; i++) {
        u.scratch[i] = (struct scratch){.file = dgl_calloc(1, u.file_bytes),
                                        .row = dgl_new_array(float, u.row_values),
                                        .changed = dgl_calloc(1, u.changed_bytes)};
        ok = u.scratch[i].file && u.scratch[i].row && u.scratch[i].changed;
    }
    if (!ok)
        TRY(dgl_fail_memory(dev->log, "weight staging", u.file_bytes));
    TRY(gl_staging_create(dev->gl, (uint32_t)u.num_slots, slot_bytes, &u.staging));
    line.count = u.num_pieces;
    line.slots = u.num_slots;
    line.ctx = &u;
    status = dgl_pipeline_run(dev->log, &line);
done:
    gl_staging_destroy(&u.staging);
    for (int32_t i = 0; i <= MOST_THREADS; i++) {
        read_ns += u.scratch[i].read_ns;
        busy_ns += u.scratch[i].busy_ns;
        free(u.scratch[i].file);
        free(u.scratch[i].row);
        free(u.scratch[i].changed);
    }
    free(u.slots);
    free(u.pieces);
    dgl_debug(dev->log,
              "weights: %llu MiB of files in %.1f ms; %d threads read for %.1f ms and packed for "
              "%.1f ms, in total",
              (unsigned long long)(u.done >> 20), (double)(dgl_now_ns() - start_ns) / 1e6,
              line.threads, (double)read_ns / 1e6, (double)(busy_ns - read_ns) / 1e6);
    return status;
}
