/* Loading a model: open, choose layouts, check that it fits, upload, plan. */
#include "core/seq/model.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/plan/model_support.h"
#include "core/memory/synthetic_fill.h"
#include "loader/quant/quant.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

/* ---- opening --------------------------------------------------------------------------------- */

static enum dgl_status open_file(struct dgl_model *m, const struct dgl_model_params *p)
{
    if (!p->path || !p->path[0])
        return dgl_fail(m->dev->log, DGL_ERR_INVALID_ARG, "no model path was given");
    return model_file_open(m->dev->log,
                           &(struct model_open_params){.path = p->path,
                                                       .verify = !p->skip_verify,
                                                       .progress_cb = p->progress_cb,
                                                       .progress_priv = p->progress_priv},
                           &m->file);
}

static enum dgl_status open_tokenizer(struct dgl_model *m)
{
    const struct dgl_model_file *f = m->file;
    if (!f->tokenizer_json)
        return DGL_OK;
    enum dgl_status st = model_file_tokenizer(m->dev->log, f, &m->tok);
    if (st == DGL_OK)
        st = model_file_check_tokenizer(m->dev->log, f, m->tok);
    return st;
}

static enum dgl_status choose_kernel_set(struct dgl_model *m, const struct dgl_kernels *kernels,
                                         struct kernel_set **out)
{
    struct kernel_set *base = kernels ? kernel_set_ref(kernels->set) : NULL;
    enum dgl_status st = base ? DGL_OK : kernel_set_create(m->dev->log, NULL, &base);
    if (st == DGL_OK)
        st = kernel_set_with_manifest(m->dev->log, base, m->file->hint_defaults,
                                      m->file->hint_pinned, out);
    kernel_set_destroy(&base);
    return st;
}

/* The hint q4kMatmul may want packed weights expanded; everything else about hints is the kernels'
 * business. */
static enum dgl_dtype expand_q4_k(const struct dgl_log *log, const struct kernel_set *set)
{
    const char *origin = NULL, *value = kernel_set_hint(set, "q4kMatmul", &origin);
    enum dgl_dtype as = DGL_Q4_K;
    if (value && strcmp(value, "dequant_f16") == 0)
        as = DGL_F16;
    else if (value && strcmp(value, "dequant_f32") == 0)
        as = DGL_F32;
    if (as != DGL_Q4_K)
        dgl_info(log, "q4_k weights are expanded to %s: hint q4kMatmul=%s (%s)",
                 dgl_dtype_get(as)->name, value, origin);
    return as;
}

/* ---- layouts --------------------------------------------------------------------------------- */

/* Decode decides how a format is packed: it reads every weight once per token. A format without
 * kernels has no layout. */
static enum dgl_status choose_layout(struct dgl_model *m, struct kernel_set *set,
                                     enum dgl_dtype dtype, char name[32])
{
    const struct model_desc *d = &m->file->desc;
    struct kernel_request request = {
        .op = "matmul",
        .attrs = {{"weight", dgl_dtype_get(dtype)->name},
                  {"phase", "decode"},
                  {"pre", "none"},
                  {"post", "store"}},
        .num_attrs = 4,
        .consts = {{"K", d->hidden},
                   {"N", d->hidden},
                   {"W_STRIDE", d->hidden},
                   {"X_STRIDE", d->hidden},
                   {"Y_STRIDE", d->hidden},
                   {"X_LAST", 0}},
        .num_consts = 6,
    };
    if (!kernel_set_serves(set, &request))
        return DGL_OK;
    struct kernel_choice *choice = dgl_new(struct kernel_choice);
    if (!choice)
        return dgl_fail_memory(m->dev->log, "kernel choice", sizeof(*choice));
    enum dgl_status st =
        kernel_choose(m->dev->log, set, &request, m->dev->facts, m->dev->num_facts, choice);
    if (st == DGL_OK)
        snprintf(name, 32, "%s", kernel_layout(choice->kernel, dgl_dtype_get(dtype)->name));
    free(choice);
    return st;
}

static enum dgl_status choose_layouts(struct dgl_model *m, struct kernel_set *set,
                                      enum dgl_dtype q4_k_as, struct weight_layouts *out)
{
    const struct tensor_source *src = m->file->tensors;
    *out = (struct weight_layouts){0};
    /* Gate and up of different formats are expanded to f16. */
    enum dgl_status st = choose_layout(m, set, DGL_F16, out->name[DGL_F16]);
    for (size_t i = 0; i < tensor_source_count(src) && st == DGL_OK; i++) {
        const struct tensor_info *info = tensor_source_at(src, i);
        enum dgl_dtype dtype = info->dtype == DGL_Q4_K ? q4_k_as : info->dtype, wider;
        if (info->rank >= 2 && !out->name[dtype][0])
            st = choose_layout(m, set, dtype, out->name[dtype]);
        if (info->rank >= 2 && st == DGL_OK && !out->name[dtype][0] &&
            dgl_dtype_wider(dtype, &wider) && !out->name[wider][0])
            st = choose_layout(m, set, wider, out->name[wider]);
    }
    return st;
}

/* One line per format that is not used as it is stored. */
static void note_changed(const struct dgl_model *m)
{
    const struct tensor_source *src = m->file->tensors;
    uint64_t bytes[DGL_DTYPE_COUNT] = {0}, held_bytes[DGL_DTYPE_COUNT] = {0}, now;
    enum dgl_dtype held[DGL_DTYPE_COUNT];
    for (int i = 0; i < DGL_DTYPE_COUNT; i++)
        held[i] = weights_device_dtype(&m->layouts, DGL_Q4_K, (enum dgl_dtype)i);
    for (size_t i = 0; i < tensor_source_count(src); i++) {
        const struct tensor_info *info = tensor_source_at(src, i);
        if (info->rank < 2 || held[info->dtype] == info->dtype ||
            !dgl_dtype_tensor_bytes(held[info->dtype], info->rank, info->shape, &now))
            continue;
        bytes[info->dtype] += info->bytes;
        held_bytes[info->dtype] += now;
    }
    for (int i = 0; i < DGL_DTYPE_COUNT; i++)
        if (bytes[i] && (i != DGL_Q4_K || m->q4_k_as == DGL_Q4_K))
            dgl_warn(m->dev->log, "%s weights (%llu MiB) are %s %s (%llu MiB): no kernel reads %s",
                     dgl_dtype_get((enum dgl_dtype)i)->name, (unsigned long long)(bytes[i] >> 20),
                     held[i] == DGL_F16 ? "expanded to" : "held without loss as",
                     dgl_dtype_get(held[i])->name, (unsigned long long)(held_bytes[i] >> 20),
                     dgl_dtype_get((enum dgl_dtype)i)->name);
}

/* ---- fitting --------------------------------------------------------------------------------- */

/* Parts of the keys that decode attention works on side by side: enough groups to fill the device.
 */
static uint32_t choose_splits(const struct gl_caps *caps, const struct model_desc *d)
{
    uint32_t splits = 1;
    for (int32_t i = 0; i < d->layers; i++)
        if (d->layer[i].sinks != TENSOR_NONE)
            splits = 2; /* attn_merge puts them in */
    if (caps->software)
        return splits;
    while (splits < 32 && splits * 2 * (uint32_t)d->kv_heads <= caps->compute_units_guess)
        splits *= 2;
    return splits;
}

static int32_t choose_chunk(const struct gl_caps *caps)
{
    return caps->software ? 128 : 512;
}

/* Bytes that a kernel can see of one buffer. */
static uint64_t binding_bytes(const struct dgl_model *m)
{
    const struct dgl_limits *lim = dgl_device_get_limits(m->dev);
    return lim->max_ssbo_bytes < lim->max_buffer_bytes ? lim->max_ssbo_bytes
                                                       : lim->max_buffer_bytes;
}

/* The largest context whose KV cache fits one binding per layer and `bytes` in all. */
static int32_t fit_context(const struct dgl_model *m, uint64_t bytes, int32_t wanted)
{
    uint64_t per_token = model_kv_layer_bytes(m, 1);
    uint64_t bound = binding_bytes(m) / per_token;
    uint64_t fit = bytes / (per_token * (uint64_t)m->file->desc.layers);
    fit = fit < bound ? fit : bound;
    return fit < (uint64_t)wanted ? (int32_t)fit : wanted;
}

/* What was free when the device was opened, less what other models and all sessions hold since; 0
 * = unknown. */
static uint64_t available_bytes(const struct dgl_model *m)
{
    uint64_t free_bytes = gl_device_caps(m->dev->gl)->memory_free_bytes;
    uint64_t others = m->dev->held_bytes - m->weights.bytes;
    if (free_bytes == 0)
        return 0;
    return free_bytes > others ? free_bytes - others : 1;
}

static void estimate(const struct dgl_model *m, int32_t context, int32_t chunk,
                     struct dgl_memory *out)
{
    *out = (struct dgl_memory){
        .weight_bytes = m->info.weight_bytes,
        .kv_bytes = model_kv_layer_bytes(m, context) * (uint64_t)m->file->desc.layers,
        .scratch_bytes = model_scratch_bytes(m, chunk < context ? chunk : context),
        .available_bytes = available_bytes(m),
        .context = context,
    };
    uint64_t room = UINT64_MAX, fixed = out->weight_bytes + out->scratch_bytes;
    if (out->available_bytes)
        room = out->available_bytes > fixed ? out->available_bytes - fixed : 0;
    out->context_fit = fit_context(m, room, context);
}

static enum dgl_status refuse(const struct dgl_model *m, const struct dgl_memory *mem)
{
    struct dgl_buf w = {0}, k = {0}, s = {0}, a = {0};
    dgl_buf_bytes(&w, mem->weight_bytes);
    dgl_buf_bytes(&k, mem->kv_bytes);
    dgl_buf_bytes(&s, mem->scratch_bytes);
    if (mem->available_bytes)
        dgl_buf_bytes(&a, mem->available_bytes);
    else
        dgl_buf_puts(&a, "an unknown amount");
    if (model_kv_layer_bytes(m, mem->context) > binding_bytes(m)) {
        dgl_buf_puts(&a, ", per layer's cache ");
        dgl_buf_bytes(&a, binding_bytes(m));
    }
    enum dgl_status st = dgl_fail(
        m->dev->log, DGL_ERR_NO_MEMORY,
        "%s does not fit %s: weights %s, KV cache %s for %d tokens, scratch %s, available %s; %s%d",
        m->info.path, m->dev->info.renderer, w.p, k.p, mem->context, s.p, a.p,
        mem->context_fit > 0 ? "the largest context that fits: -c " : "no context fits: ",
        mem->context_fit);
    dgl_buf_finish(&w);
    dgl_buf_finish(&k);
    dgl_buf_finish(&s);
    dgl_buf_finish(&a);
    return st;
}

/* A context that was asked for is granted or refused; the default is lowered to what fits. */
static enum dgl_status grant_context(struct dgl_model *m, int32_t asked)
{
    int32_t most = m->file->desc.context_max;
    if (asked < 0 || asked > most)
        return dgl_fail(m->dev->log, DGL_ERR_INVALID_ARG,
                        "a context of %d tokens was asked for, %s has at most %d", asked,
                        m->info.path, most);
    struct weights_params wp = {.dev = m->dev,
                                .desc = &m->file->desc,
                                .tensors = m->file->tensors,
                                .layouts = &m->layouts,
                                .q4_k_as = m->q4_k_as};
    enum dgl_status st = weights_estimate(&wp, &m->info.weight_bytes);
    if (st != DGL_OK)
        return st;
    struct dgl_memory mem;
    m->info.context = asked ? asked : most;
    estimate(m, m->info.context, m->chunk, &mem);
    if (mem.context_fit < (asked ? asked : 1))
        return refuse(m, &mem);
    if (mem.context_fit < m->info.context) {
        dgl_warn(m->dev->log, "context lowered from %d to %d tokens to fit the device",
                 m->info.context, mem.context_fit);
        m->info.context = mem.context_fit;
    }
    m->ops.context = m->info.context;
    return DGL_OK;
}

void dgl_session_estimate(const struct dgl_model *model, const struct dgl_session_params *params,
                          struct dgl_memory *out)
{
    int32_t context = params && params->context ? params->context : model->info.context;
    estimate(model, context, params && params->chunk ? params->chunk : model->chunk, out);
}

enum dgl_status model_check_session_fits(const struct dgl_model *model, int32_t chunk)
{
    struct dgl_memory mem;
    estimate(model, model->info.context, chunk, &mem);
    return mem.context_fit < mem.context ? refuse(model, &mem) : DGL_OK;
}

/* ---- upload ---------------------------------------------------------------------------------- */

static enum dgl_status upload(struct dgl_model *m, const struct dgl_model_params *p)
{
    struct weights_params wp = {.dev = m->dev,
                                .desc = &m->file->desc,
                                .tensors = m->file->tensors,
                                .layouts = &m->layouts,
                                .q4_k_as = m->q4_k_as,
                                .progress_cb = p->progress_cb,
                                .progress_priv = p->progress_priv};
    struct synthetic_filler filler = {0};
    enum dgl_status st = DGL_OK;
    if (m->file->format == MODEL_SYNTHETIC) {
        st = synthetic_filler_init(&filler, m->dev, m->kernels, &m->layouts);
        wp.fill = synthetic_fill;
        wp.fill_ctx = &filler;
    }
    if (st == DGL_OK)
        st = weights_create(&wp, &m->weights);
    synthetic_filler_finish(&filler);
    m->dev->held_bytes += m->weights.bytes;
    return st;
}

static enum dgl_status load_entered(struct dgl_model *m, const struct dgl_model_params *p)
{
    const struct gl_caps *caps = gl_device_caps(m->dev->gl);
    enum dgl_status st = open_file(m, p);
    if (st == DGL_OK)
        st = model_check_supported(m->dev->log, m->file->path, &m->file->desc);
    if (st != DGL_OK)
        return st;
    m->info = m->file->info;
    m->info.path = m->file->path;
    m->chunk = choose_chunk(caps);
    m->ops = (struct oplist_params){.desc = &m->file->desc,
                                    .weights = &m->weights,
                                    .layouts = &m->layouts,
                                    .kv_type = p->kv_type,
                                    .splits = choose_splits(caps, &m->file->desc)};
    st = open_tokenizer(m);
    if (st == DGL_OK)
        st = choose_kernel_set(m, p->kernels, &m->kernels);
    if (st == DGL_OK) {
        m->q4_k_as = expand_q4_k(m->dev->log, m->kernels);
        st = choose_layouts(m, m->kernels, m->q4_k_as, &m->layouts);
    }
    if (st == DGL_OK)
        note_changed(m);
    if (st == DGL_OK)
        st = grant_context(m, p->context);
    if (st == DGL_OK)
        st = upload(m, p);
    if (st == DGL_OK)
        st = model_plan_init(&m->plan, m->dev, m->kernels, &m->ops);
    return st;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void destroy_entered(struct dgl_model *m)
{
    model_plan_finish(&m->plan);
    m->dev->held_bytes -= m->weights.bytes;
    weights_finish(m->dev, &m->weights);
    kernel_set_destroy(&m->kernels);
    tokenizer_destroy(&m->tok);
    model_file_close(&m->file);
    free(m);
}

enum dgl_status dgl_model_load(struct dgl_device *dev, const struct dgl_model_params *params,
                               struct dgl_model **out)
{
    static const struct dgl_model_params defaults;
    struct gl_saved saved = {0};
    if (!out)
        return dgl_fail_no_out(dev->log, "dgl_model_load");
    *out = NULL;
    enum dgl_status st = device_enter(dev, &saved);
    if (st != DGL_OK)
        return st;
    struct dgl_model *m = dgl_new(struct dgl_model);
    if (m) {
        m->dev = dev;
        st = load_entered(m, params ? params : &defaults);
        if (st == DGL_OK)
            *out = m;
        else
            destroy_entered(m);
    } else {
        st = dgl_fail_memory(dev->log, "model", sizeof(*m));
    }
    device_leave(dev, &saved);
    return st;
}

void dgl_model_destroy(struct dgl_model **model)
{
    struct dgl_model *m = *model;
    *model = NULL;
    if (!m)
        return;
    struct dgl_device *dev = m->dev;
    struct gl_saved saved = {0};
    bool entered = gl_enter(dev->gl, &saved) == DGL_OK;
    destroy_entered(m);
    if (entered)
        gl_leave(dev->gl, &saved);
}

const struct dgl_model_info *dgl_model_get_info(const struct dgl_model *model)
{
    return &model->info;
}

const struct dgl_tokenizer *dgl_model_tokenizer(const struct dgl_model *model)
{
    return model->tok;
}

const char *dgl_model_generation_config(const struct dgl_model *model, size_t *len)
{
    *len = model->file->generation_config_len;
    return model->file->generation_config_json;
}

/* ---- kernels of a live model ----------------------------------------------------------------- */

static enum dgl_status check_layouts(struct dgl_model *m, struct kernel_set *set)
{
    struct weight_layouts wanted;
    if (expand_q4_k(NULL, set) != m->q4_k_as)
        return dgl_fail(m->dev->log, DGL_ERR_UNSUPPORTED,
                        "the hint q4kMatmul changes how weights are held: load the model again");
    enum dgl_status st = choose_layouts(m, set, m->q4_k_as, &wanted);
    for (int i = 0; i < DGL_DTYPE_COUNT && st == DGL_OK; i++)
        if (wanted.name[i][0] && strcmp(wanted.name[i], m->layouts.name[i]) != 0)
            st = dgl_fail(m->dev->log, DGL_ERR_UNSUPPORTED,
                          "the new kernels want %s weights packed as %s, they were loaded as %s: "
                          "load the model again",
                          dgl_dtype_get((enum dgl_dtype)i)->name, wanted.name[i],
                          m->layouts.name[i]);
    return st;
}

static enum dgl_status set_kernels_entered(struct dgl_model *m, const struct dgl_kernels *kernels)
{
    struct kernel_set *set = NULL;
    struct model_plan plan = {0};
    enum segment all[SEG_COUNT];
    for (int i = 0; i < SEG_COUNT; i++)
        all[i] = (enum segment)i;
    enum dgl_status st = choose_kernel_set(m, kernels, &set);
    if (st == DGL_OK)
        st = check_layouts(m, set);
    if (st == DGL_OK)
        st = model_plan_init(&plan, m->dev, set, &m->ops);
    if (st == DGL_OK)
        st = model_plan_compile(&plan, all, SEG_COUNT);
    if (st != DGL_OK) {
        model_plan_finish(&plan);
        kernel_set_destroy(&set);
        return st;
    }
    model_plan_finish(&m->plan);
    kernel_set_destroy(&m->kernels);
    m->plan = plan;
    m->kernels = set;
    m->plan_serial++;
    return DGL_OK;
}

enum dgl_status dgl_model_set_kernels(struct dgl_model *model, const struct dgl_kernels *kernels)
{
    struct gl_saved saved = {0};
    enum dgl_status st = device_enter(model->dev, &saved);
    if (st != DGL_OK)
        return st;
    st = set_kernels_entered(model, kernels);
    device_leave(model->dev, &saved);
    return st;
}
