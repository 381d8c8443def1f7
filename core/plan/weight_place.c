/* Chooses buffer, offset, type and layout of every weight. Host arithmetic only. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/plan/kernel_table.h"
#include "core/plan/oplist.h"
#include "loader/quant/quant.h"

#define MAX_BUFFERS 4096
/* A band that is cut to bound dispatch time has a multiple of these rows, so that every work group
 * of a matmul is full. */
#define BAND_STEP 64

struct placer {
    const struct plan_params *p;
    struct model_weights *w;
    enum dgl_dtype q4_k_as;
    struct oplist ops;           /* of a decode step, on weights without types */
    const struct op **reader;    /* [num_matrices]: the operation that decides */
    struct kernel_table kernels; /* requests so far */
};

enum dgl_dtype weights_q4_k_dtype(const struct kernel_set *set)
{
    const char *value = kernel_set_hint(set, "q4kMatmul", NULL);
    if (value && strcmp(value, "dequant_f16") == 0)
        return DGL_F16;
    return value && strcmp(value, "dequant_f32") == 0 ? DGL_F32 : DGL_Q4_K;
}

static const struct tensor_info *slice_tensor(const struct placer *b, size_t slice)
{
    return tensor_source_at(b->p->tensors, (size_t)b->w->slices[slice].tensor);
}

/* ---- type and layout ------------------------------------------------------------------------- */

/* Finds the operation of a decode step that reads each weight. For a tied head it is the operation
 * of the head. The weights temporarily get one band each, whose type is not used yet. */
static enum dgl_status find_readers(struct placer *b)
{
    struct model_weights *w = b->w;
    struct kv_layout kv;
    kv_layout_init(&kv, b->p->desc, b->p->kv_type, b->p->device->kv_by_window);
    const struct oplist_params params = {.desc = b->p->desc, .weights = w, .kv = &kv, .splits = 1};
    b->reader = dgl_new_array(const struct op *, w->num_matrices);
    bool failed = !b->reader;
    for (size_t i = 0; i < w->num_matrices && !failed; i++) {
        struct weight *weight = w->matrices[i];
        weight->bands = dgl_new(struct weight_band);
        failed = !weight->bands;
        if (failed)
            break;
        weight->num_bands = 1;
        *weight->bands = (struct weight_band){.dtype = DGL_F16, .rows = (uint32_t)weight->rows};
    }
    if (!failed) {
        w->head.bands = w->matrices[w->head.id]->bands;
        w->head.num_bands = 1;
        oplist_decode_body(&b->ops, &params);
        oplist_head(&b->ops, &params, DGL_PHASE_DECODE);
        failed = b->ops.failed;
    }
    for (size_t i = 0; i < w->num_matrices; i++) {
        free(w->matrices[i]->bands);
        w->matrices[i]->bands = NULL;
        w->matrices[i]->num_bands = 0;
    }
    w->head.bands = NULL;
    w->head.num_bands = 0;
    if (failed)
        return dgl_fail_memory(b->p->device->log, "operation list", w->num_matrices);
    for (size_t i = 0; i < b->ops.count; i++) {
        const struct op_bind *bind = op_find_bind(&b->ops.ops[i], "W");
        if (bind && bind->ref.kind == REF_WEIGHT)
            b->reader[bind->ref.id] = &b->ops.ops[i];
    }
    return DGL_OK;
}

/* The reader's request for weights of another type. */
static struct kernel_request request_for(const struct placer *b, const struct weight *weight,
                                         enum dgl_dtype dtype, uint64_t row_words)
{
    struct kernel_request request = b->reader[weight->id]->request;
    for (uint32_t i = 0; i < request.num_attrs; i++)
        if (strcmp(request.attrs[i].key, "weight") == 0)
            request.attrs[i].word = dgl_dtype_get(dtype)->name;
    for (uint32_t i = 0; i < request.num_consts; i++)
        if (strcmp(request.consts[i].name, "W_STRIDE") == 0)
            request.consts[i].value = (int64_t)row_words;
    return request;
}

/* The device type for rows of a tensor: the stored type if a kernel reads it, else f16. */
static enum dgl_dtype device_dtype(const struct placer *b, const struct weight *weight,
                                   size_t slice)
{
    enum dgl_dtype stored = slice_tensor(b, slice)->dtype;
    stored = stored == DGL_Q4_K ? b->q4_k_as : stored;
    struct kernel_request request = request_for(b, weight, stored, 0);
    return kernel_set_serves(b->p->set, &request) ? stored : DGL_F16;
}

/* Returns true if the other readers of a weight can read it in a layout. The embedding cannot; for
 * prefill some kernel must exist. */
static bool others_read(const struct placer *b, const struct weight *weight,
                        const struct kernel_request *reader, const struct weight_layout *layout)
{
    struct kernel_request request = *reader;
    struct kernel_choice choice;
    if (weight->id == b->w->embed.id || request.num_attrs + 2 > KERNEL_MAX_ATTRS ||
        request.num_consts == KERNEL_MAX_CONSTS)
        return false;
    for (uint32_t i = 0; i < request.num_attrs; i++)
        if (strcmp(request.attrs[i].key, "phase") == 0)
            request.attrs[i].word = "prefill";
        else if (strcmp(request.attrs[i].key, "pre") == 0)
            request.attrs[i].word = "none";
    request.attrs[request.num_attrs++] = (struct kernel_attr){"layout", layout->name};
    request.attrs[request.num_attrs++] = (struct kernel_attr){"columns", "256"};
    request.consts[request.num_consts++] = (struct kernel_var){"COLUMNS", 256};
    return kernel_choose(NULL, b->p->set, &request, b->p->device->properties,
                         b->p->device->num_properties, &choice) == DGL_OK;
}

/* Chooses the layout that the reader's kernel requires for that type, and its stride. A tuner's
 * choice is dropped if other operations could not read the layout. A user's kernel is kept; the
 * plan refuses it later. */
static enum dgl_status choose_layout(struct placer *b, const struct weight *weight,
                                     enum dgl_dtype dtype, struct weight_band *band)
{
    const struct dgl_log *log = b->p->device->log;
    const char *word = dgl_dtype_get(dtype)->name;
    const struct weight_layout *usual = weight_layout_find(dtype, kernel_layout_default(word));
    uint64_t words = 0;
    struct kernel_use *use;
    if (!usual || !weight_layout_stride(usual, weight->cols, &words) || words > UINT32_MAX)
        return dgl_fail(log, DGL_ERR_UNSUPPORTED, "no kernel multiplies %s weights", word);
    struct kernel_request request = request_for(b, weight, dtype, words);
    enum dgl_status status = kernel_table_find(&b->kernels, &request, &use);
    if (status != DGL_OK)
        return status;
    const struct kernel *kernel = use->choice.kernel;
    band->dtype = dtype;
    band->layout = weight_layout_find(dtype, kernel_layout(kernel, word));
    if (!band->layout)
        return dgl_fail(log, DGL_ERR_UNSUPPORTED,
                        "%s: LAYOUT %s: %s weights cannot be packed so; known: %s", kernel->path,
                        kernel_layout(kernel, word), word, usual->name);
    if (band->layout != usual && use->choice.rule &&
        use->choice.rule->layer == KERNEL_LAYER_TUNER &&
        !others_read(b, weight, &request, band->layout))
        band->layout = usual;
    if (!weight_layout_stride(band->layout, weight->cols, &words) || words > UINT32_MAX)
        return dgl_fail(log, DGL_ERR_UNSUPPORTED, "a weight row of %llu %s values is too long",
                        (unsigned long long)weight->cols, word);
    band->row_words = (uint32_t)words;
    return DGL_OK;
}

/* The one type of rows that belong together. */
static enum dgl_dtype common_dtype(const struct placer *b, const struct weight *weight)
{
    enum dgl_dtype dtype = device_dtype(b, weight, weight->first_slice);
    for (size_t i = 1; i < weight->num_slices; i++) {
        if (device_dtype(b, weight, weight->first_slice + i) == dtype)
            continue;
        dgl_info(b->p->device->log, "%s and %s have different formats: both are expanded to f16",
                 DGL_PRINTABLE(slice_tensor(b, weight->first_slice)->name),
                 DGL_PRINTABLE(slice_tensor(b, weight->first_slice + i)->name));
        return DGL_F16;
    }
    return dtype;
}

/* ---- bands ---------------------------------------------------------------------------------- */

static uint64_t band_bytes(const struct weight *weight, uint64_t rows, uint64_t row_words)
{
    uint64_t words = rows * row_words;
    return 4 * (weight->band_bias != TENSOR_NONE ? (words + rows + 3) / 4 * 4 : words);
}

/* Returns the rows of a band, at most `fit`, that one dispatch can read in time. Expert weights are
 * not cut: a dispatch reads only a few of their rows. */
static uint64_t rows_at_once(const struct placer *b, const struct weight *weight, uint64_t fit,
                             uint64_t row_bytes)
{
    const uint64_t most = b->p->device->dispatch_bytes;
    if (most == 0 || weight->of_experts || fit * row_bytes <= most)
        return fit;
    const uint64_t rows = most / row_bytes / BAND_STEP * BAND_STEP;
    return rows > BAND_STEP ? rows : fit < BAND_STEP ? fit : BAND_STEP;
}

/* Cuts rows [row0, row0 + rows) of one type into bands. Each band fits a binding, and a slow device
 * reads it within the time limit of a dispatch. */
static enum dgl_status place_rows(struct placer *b, struct weight *weight, enum dgl_dtype dtype,
                                  uint64_t row0, uint64_t rows)
{
    const struct dgl_log *log = b->p->device->log;
    uint64_t binding = plan_device_binding_bytes(b->p->device), step = weight->row_pairs ? 2 : 1;
    struct weight_band band = {0};
    enum dgl_status status = choose_layout(b, weight, dtype, &band);
    if (status != DGL_OK)
        return status;
    uint64_t row_bytes = band_bytes(weight, 1, band.row_words);
    uint64_t fit = binding / 16 * 16 / row_bytes / step * step;
    if (fit == 0)
        return dgl_fail(log, DGL_ERR_UNSUPPORTED,
                        "%d weight rows of %llu bytes exceed the device's binding of %llu bytes",
                        (int)step, (unsigned long long)row_bytes, (unsigned long long)binding);
    fit = rows_at_once(b, weight, fit, row_bytes);
    for (uint64_t end = row0 + rows; row0 < end && status == DGL_OK; row0 += band.rows) {
        /* A handful per weight. */
        struct weight_band *grown =
            dgl_realloc(weight->bands, (weight->num_bands + 1) * sizeof(*grown));
        if (!grown)
            return dgl_fail_memory(log, "weight bands", (weight->num_bands + 1) * sizeof(*grown));
        weight->bands = grown;
        band.row0 = (uint32_t)row0;
        band.rows = (uint32_t)(end - row0 < fit ? end - row0 : fit);
        band.place.size = band_bytes(weight, band.rows, band.row_words);
        weight->bands[weight->num_bands++] = band;
    }
    return status;
}

static enum dgl_status place_matrix(struct placer *b, struct weight *weight)
{
    size_t end = weight->first_slice + weight->num_slices;
    if (weight->rows > UINT32_MAX)
        return dgl_fail(b->p->device->log, DGL_ERR_UNSUPPORTED, "%s: %llu rows are more than 2^32",
                        DGL_PRINTABLE(slice_tensor(b, weight->first_slice)->name),
                        (unsigned long long)weight->rows);
    if (weight->row_pairs)
        return place_rows(b, weight, common_dtype(b, weight), 0, weight->rows);
    enum dgl_status status = DGL_OK;
    for (size_t i = weight->first_slice; i < end && status == DGL_OK;) {
        enum dgl_dtype dtype = device_dtype(b, weight, i);
        uint64_t row0 = b->w->slices[i].to, rows = 0;
        for (; i < end && device_dtype(b, weight, i) == dtype; i++)
            rows += b->w->slices[i].count;
        status = place_rows(b, weight, dtype, row0, rows);
    }
    return status;
}

/* ---- places ---------------------------------------------------------------------------------- */

static uint64_t aligned(const struct placer *b, uint64_t bytes)
{
    const uint64_t limit = b->p->device->limits.ssbo_align, align = limit > 256 ? limit : 256;
    return (bytes + align - 1) / align * align;
}

/* Places place->size bytes in the buffer *buffer, or in a new one, and updates *buffer. A place is
 * always in one buffer. */
static enum dgl_status reserve(struct placer *b, size_t *buffer, struct weight_place *place)
{
    struct model_weights *w = b->w;
    uint64_t most = plan_device_binding_bytes(b->p->device), start = 0;
    if (*buffer < w->num_buffers)
        start = aligned(b, w->buffer_bytes[*buffer]);
    if (start > 0 && start + place->size > most) {
        *buffer = w->num_buffers;
        start = 0;
    }
    if (*buffer == w->num_buffers) {
        if (w->num_buffers == MAX_BUFFERS)
            return dgl_fail(b->p->device->log, DGL_ERR_UNSUPPORTED,
                            "weights need more than %d device buffers", MAX_BUFFERS);
        if (!dgl_grow((void **)&w->buffer_bytes, &w->cap_buffers, w->num_buffers + 1,
                      sizeof(*w->buffer_bytes)))
            return dgl_fail_memory(b->p->device->log, "weight buffers", w->num_buffers);
        w->buffer_bytes[w->num_buffers++] = 0;
    }
    place->buffer = (uint32_t)*buffer;
    place->offset = start;
    w->buffer_bytes[*buffer] = start + place->size;
    return DGL_OK;
}

/* Returns the number of buffers that places need, one after the other, if the first buffer has
 * `used` bytes already. */
static size_t count_buffers(const struct placer *b, uint64_t used,
                            struct weight_place *const *places, size_t count)
{
    size_t buffers = 1;
    for (size_t i = 0; i < count; i++) {
        used = aligned(b, used);
        if (used > 0 && used + places[i]->size > plan_device_binding_bytes(b->p->device)) {
            used = 0;
            buffers++;
        }
        used += places[i]->size;
    }
    return buffers;
}

/* Reserves the places one after the other in as few buffers as possible. They begin in the first
 * buffer from `first` on that does not raise this number. */
static enum dgl_status reserve_all(struct placer *b, size_t first,
                                   struct weight_place *const *places, size_t count)
{
    const uint64_t *used = b->w->buffer_bytes;
    const size_t fewest = count_buffers(b, 0, places, count);
    enum dgl_status status = DGL_OK;
    size_t buffer = first;
    while (buffer < b->w->num_buffers && count_buffers(b, used[buffer], places, count) > fewest)
        buffer++;
    for (size_t i = 0; i < count && status == DGL_OK; i++)
        status = reserve(b, &buffer, places[i]);
    return status;
}

/* Returns true if a hint may change the type of the weight. */
static bool is_changeable(const struct placer *b, const struct weight *weight)
{
    for (size_t i = 0; i < weight->num_slices; i++)
        if (slice_tensor(b, weight->first_slice + i)->dtype == DGL_Q4_K)
            return true;
    return false;
}

/* Places the matrices whose type a hint may change, or all others, into buffers from `first` on.
 * The weights that one operation reads in all layers are placed together, so that a program over
 * all layers needs few bindings and few texts: core/plan/phase_schedule.h. `places` is scratch. */
static enum dgl_status place_matrices(struct placer *b, size_t first, bool changeable,
                                      struct weight_place **places)
{
    struct model_weights *w = b->w;
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < w->num_matrices && status == DGL_OK; i++) {
        size_t count = 0, j = 0;
        for (; j < w->num_matrices && is_changeable(b, w->matrices[i]) == changeable; j++) {
            struct weight *m = w->matrices[j];
            if (strcmp(b->reader[j]->label, b->reader[i]->label) != 0 ||
                is_changeable(b, m) != changeable)
                continue;
            if (j < i) /* placed already */
                break;
            for (uint32_t k = 0; k < m->num_bands; k++)
                places[count++] = &m->bands[k].place;
        }
        if (j == w->num_matrices && count > 0)
            status = reserve_all(b, first, places, count);
    }
    return status;
}

/* Changeable matrices are placed after the others, in buffers of their own:
 * weights_same_buffer(). */
static enum dgl_status place_all(struct placer *b)
{
    struct model_weights *w = b->w;
    size_t most = w->num_vectors, count = 0;
    for (size_t i = 0; i < w->num_matrices; i++)
        most += w->matrices[i]->num_bands;
    struct weight_place **places = dgl_new_array(struct weight_place *, most);
    if (!places)
        return dgl_fail_memory(b->p->device->log, "weight places", most * sizeof(*places));
    enum dgl_status status;
    TRY(place_matrices(b, 0, false, places));
    for (size_t i = VECTOR_NONE + 1; i < w->num_vectors; i++) {
        w->vectors[i].place.size = w->vectors[i].count * 4;
        places[count++] = &w->vectors[i].place;
    }
    TRY(reserve_all(b, 0, places, count));
    TRY(place_matrices(b, w->num_buffers, true, places));
done:
    free(places);
    return status;
}

enum dgl_status weights_place(struct model_weights *weights, const struct plan_params *p)
{
    struct placer b = {.p = p, .w = weights, .q4_k_as = weights_q4_k_dtype(p->set)};
    enum dgl_status status = weights_list(p->device->log, p->desc, p->tensors, weights);
    if (status != DGL_OK)
        return status;
    kernel_table_init(&b.kernels, p->device, p->set);
    status = find_readers(&b);
    for (size_t i = 0; i < weights->num_matrices && status == DGL_OK; i++) {
        assert(b.reader[i]);
        weights->expands_q4_k |= b.q4_k_as != DGL_Q4_K && is_changeable(&b, weights->matrices[i]);
        status = place_matrix(&b, weights->matrices[i]);
    }
    if (status == DGL_OK)
        status = place_all(&b);
    weights->head.bands = weights->matrices[weights->head.id]->bands;
    weights->head.num_bands = weights->matrices[weights->head.id]->num_bands;
    for (size_t i = 0; i < weights->num_buffers; i++)
        weights->bytes += weights->buffer_bytes[i];
    oplist_finish(&b.ops);
    kernel_table_finish(&b.kernels);
    free(b.reader);
    return status;
}

/* ---- two placements of one model ------------------------------------------------------------- */

static bool same_place(const struct weight_place *a, const struct weight_place *b)
{
    return a->offset == b->offset && a->size == b->size;
}

static bool same_band(const struct weight_band *a, const struct weight_band *b)
{
    return a->dtype == b->dtype && a->layout == b->layout && a->row0 == b->row0 &&
           a->rows == b->rows && a->row_words == b->row_words && same_place(&a->place, &b->place);
}

/* Number of bands and vectors in a buffer. */
static size_t count_in(const struct model_weights *w, size_t buffer)
{
    size_t count = 0;
    for (size_t i = 0; i < w->num_matrices; i++)
        for (uint32_t k = 0; k < w->matrices[i]->num_bands; k++)
            count += w->matrices[i]->bands[k].place.buffer == buffer;
    for (size_t i = VECTOR_NONE + 1; i < w->num_vectors; i++)
        count += w->vectors[i].place.buffer == buffer;
    return count;
}

size_t weights_same_buffer(const struct model_weights *from, const struct model_weights *to,
                           size_t buffer)
{
    size_t same = SIZE_MAX, count = 0; /* buffer of the first item, and number of items in it */
    assert(from->num_matrices == to->num_matrices && from->num_vectors == to->num_vectors);
    for (size_t i = 0; i < to->num_matrices; i++) {
        const struct weight *a = from->matrices[i], *b = to->matrices[i];
        for (uint32_t k = 0; k < b->num_bands; k++) {
            if (b->bands[k].place.buffer != buffer)
                continue;
            if (k >= a->num_bands || !same_band(&a->bands[k], &b->bands[k]))
                return SIZE_MAX;
            same = count == 0 ? a->bands[k].place.buffer : same;
            count += a->bands[k].place.buffer == same;
        }
    }
    for (size_t i = VECTOR_NONE + 1; i < to->num_vectors; i++) {
        const struct weight_place *a = &from->vectors[i].place, *b = &to->vectors[i].place;
        if (b->buffer != buffer)
            continue;
        if (!same_place(a, b))
            return SIZE_MAX;
        same = count == 0 ? a->buffer : same;
        count += a->buffer == same;
    }
    bool all = count > 0 && count == count_in(to, buffer) && count == count_in(from, same);
    return all && from->buffer_bytes[same] == to->buffer_bytes[buffer] ? same : SIZE_MAX;
}
