/* Weight layouts as candidates of the tuner. Kernels that read the weights of a decode operation in
 * another layout are measured on a copy of them, together with the prefill kernel for that layout.
 * The embedding's weights keep their layout, because the embedding operation reads them too. */
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/measure/tuner.h"

static const struct model_weights *weights_of(const struct tuner *t)
{
    return session_plan(t->s)->weights;
}

/* Returns the weight of an operation if only matrix products read it, else NULL. *part is the
 * band. */
static const struct weight *weight_of(const struct tuner *t, const struct op *op, uint32_t *part)
{
    const struct op_bind *bind = op_find_bind(op, "W");
    const struct model_weights *weights = weights_of(t);
    if (!bind || bind->ref.kind != REF_WEIGHT || bind->ref.id == weights->embed.id)
        return NULL;
    const struct weight *weight = weights->matrices[bind->ref.id];
    *part = bind->ref.part;
    return weight->band_bias == TENSOR_NONE ? weight : NULL;
}

static struct kernel_attr *find_attr(struct kernel_request *request, const char *key)
{
    for (uint32_t i = 0; i < request->num_attrs; i++)
        if (strcmp(request->attrs[i].key, key) == 0)
            return &request->attrs[i];
    return NULL;
}

bool tuner_request(const struct tuner *t, const struct op *op, const struct kernel *kernel,
                   struct kernel_request *out, const struct weight_layout **layout)
{
    *out = op->request;
    *layout = NULL;
    struct kernel_attr *has = find_attr(out, "layout"), *type = find_attr(out, "weight");
    const char *wants = has && type ? kernel_layout(kernel, type->word) : NULL;
    if (!wants || strcmp(wants, has->word) == 0)
        return true;
    uint32_t part;
    const struct weight *weight = weight_of(t, op, &part);
    uint64_t words;
    if (!weight)
        return false;
    *layout = weight_layout_find(weight->bands[part].dtype, wants);
    if (!*layout || !weight_layout_stride(*layout, weight->cols, &words) || words > UINT32_MAX)
        return false;
    has->word = (*layout)->name;
    for (uint32_t i = 0; i < out->num_consts; i++)
        if (strcmp(out->consts[i].name, "W_STRIDE") == 0)
            out->consts[i].value = (int64_t)words;
    return true;
}

/* Returns true if a pass contains an operation on that band of a weight. */
static bool reads(const struct target_pass *pass, const struct ref *band)
{
    for (size_t i = 0; i < pass->count; i++) {
        const struct ref *own = &op_find_bind(&pass->ops[i], "W")->ref;
        if (own->id == band->id && own->part == band->part)
            return true;
    }
    return false;
}

enum dgl_status tuner_share(struct tuner *t, struct target *target)
{
    const struct target_pass *decode = &target->pass[0];
    struct target_pass *pass = &target->pass[1];
    struct oplist list = {0};
    bool any = false;
    uint32_t part;
    if (target->num_passes > 1 || !pass_shape_is(decode->shape, PASS_DECODE) ||
        !weight_of(t, decode->ops, &part))
        return DGL_OK;
    for (size_t i = 0; i < kernel_set_count(t->set) && !any; i++) {
        struct kernel_request request;
        const struct weight_layout *layout;
        any = tuner_request(t, decode->ops, kernel_set_at(t->set, i), &request, &layout) &&
              layout && kernel_set_serves(t->set, &request);
    }
    if (!any)
        return DGL_OK;
    enum dgl_status status = plan_list_ops(session_plan(t->s), PASS_PREFILL, &list);
    *pass = (struct target_pass){.shape = PASS_PREFILL, .tokens = t->most_tokens};
    for (size_t i = 0; i < list.count && status == DGL_OK; i++) {
        const struct op_bind *bind = op_find_bind(&list.ops[i], "W");
        if (!bind || bind->ref.kind != REF_WEIGHT || !reads(decode, &bind->ref) ||
            (pass->count && !kernel_request_equal(&pass->ops[0].request, &list.ops[i].request)))
            continue;
        if (!dgl_grow((void **)&pass->ops, &pass->cap, pass->count + 1, sizeof(*pass->ops)))
            status = dgl_fail_memory(t->log, "operations", list.count * sizeof(struct op));
        else
            pass->ops[pass->count++] = list.ops[i];
    }
    oplist_finish(&list);
    target->shares = pass->count > 0;
    target->num_passes += target->shares;
    return status;
}

/* Adds a copy of the weight. Bands of the layout's type get the new layout, each in its own buffer.
 * The other bands keep their place. Returns false if memory runs out. */
static bool place_copy(struct tuner_copy *c, const struct weight *weight)
{
    struct weight *copy = &c->matrices[c->num++];
    uint64_t words = 0;
    *copy = *weight;
    copy->bands = dgl_new_array(struct weight_band, weight->num_bands);
    if (!copy->bands || !weight_layout_stride(c->layout, weight->cols, &words))
        return false;
    for (uint32_t i = 0; i < weight->num_bands; i++) {
        struct weight_band *band = &copy->bands[i];
        *band = weight->bands[i];
        if (band->dtype != c->layout->dtype)
            continue;
        band->layout = c->layout;
        band->row_words = (uint32_t)words;
        band->place = (struct weight_place){.buffer = (uint32_t)c->weights.num_buffers,
                                            .size = 4 * words * band->rows};
        c->weights.buffer_bytes[c->weights.num_buffers++] = band->place.size;
    }
    c->weights.matrices[weight->id] = copy;
    return true;
}

enum dgl_status tuner_copy_begin(struct tuner *t, const struct target *target,
                                 const struct weight_layout *layout)
{
    const struct model_weights *weights = weights_of(t);
    const struct weight_buffers *own = &t->s->model->shard->buffers;
    const uint32_t passes = target->shares ? 2 : 1;
    struct tuner_copy *c = &t->copied;
    struct gl_device *gl = session_dev(t->s)->gl;
    size_t bands = 0, ops = 0;
    uint32_t part;
    bool *only = NULL, ok;
    if (c->layout)
        return c->layout == layout ? DGL_OK
                                   : dgl_fail(t->log, DGL_ERR_UNSUPPORTED,
                                              "tune: kernels read %s weights in three layouts",
                                              dgl_dtype_get(layout->dtype)->name);
    for (uint32_t u = 0; u < passes; u++)
        for (size_t i = 0; i < target->pass[u].count; i++, ops++)
            bands += weight_of(t, &target->pass[u].ops[i], &part)->num_bands;
    c->layout = layout;
    c->weights = *weights;
    c->weights.matrices = dgl_new_array(struct weight *, weights->num_matrices);
    c->weights.buffer_bytes = dgl_new_array(uint64_t, weights->num_buffers + bands);
    c->matrices = dgl_new_array(struct weight, ops);
    c->buffers = (struct weight_buffers){
        .weights = &c->weights,
        .buffers = dgl_new_array(struct gl_buffer *, weights->num_buffers + bands)};
    only = dgl_new_array(bool, weights->num_buffers + bands);
    ok =
        c->weights.matrices && c->weights.buffer_bytes && c->matrices && c->buffers.buffers && only;
    if (ok) {
        memcpy(c->weights.matrices, weights->matrices,
               weights->num_matrices * sizeof(*weights->matrices));
        memcpy(c->weights.buffer_bytes, weights->buffer_bytes,
               weights->num_buffers * sizeof(*weights->buffer_bytes));
        memcpy(c->buffers.buffers, own->buffers, weights->num_buffers * sizeof(*own->buffers));
    }
    for (uint32_t u = 0; u < passes; u++)
        for (size_t i = 0; i < target->pass[u].count && ok; i++) {
            const struct weight *weight = weight_of(t, &target->pass[u].ops[i], &part);
            ok = c->weights.matrices[weight->id] != weight || place_copy(c, weight);
        }
    enum dgl_status status =
        ok ? DGL_OK : dgl_fail_memory(t->log, "weights in another layout", bands);
    for (size_t i = weights->num_buffers; i < c->weights.num_buffers && status == DGL_OK; i++) {
        only[i] = true;
        status = gl_buffer_create(
            gl, &(struct gl_buffer_params){.size = c->weights.buffer_bytes[i], .label = "weights"},
            &c->buffers.buffers[i]);
    }
    if (status == DGL_OK)
        status = shard_fill_weights(t->s->model->shard, t->set, &c->buffers, only);
    c->memory = t->s->state.memory;
    c->memory.weights = &c->buffers;
    free(only);
    return status;
}

void tuner_copy_end(struct tuner *t)
{
    struct tuner_copy *c = &t->copied;
    if (!c->layout)
        return;
    for (size_t i = weights_of(t)->num_buffers; c->buffers.buffers && i < c->weights.num_buffers;
         i++)
        gl_buffer_destroy(session_dev(t->s)->gl, &c->buffers.buffers[i]);
    for (size_t i = 0; i < c->num; i++)
        free(c->matrices[i].bands);
    free(c->matrices);
    free(c->buffers.buffers);
    free(c->weights.buffer_bytes);
    free(c->weights.matrices);
    *c = (struct tuner_copy){.num = 0};
}
