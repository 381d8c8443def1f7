/* Loads a model: describes it, lists its weights, plans, checks that it fits, uploads. */
#include "core/model/model.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/exec/synthetic_fill.h"
#include "core/plan/model_support.h"
#include "core/model/kernel_swap.h"
#include "core/exec/tune_store.h"

/* ---- kernels --------------------------------------------------------------------------------- */

/* *untuned: the caller's layers above the manifest's hints. *out: the same with the tuner's hints
 * for this device. */
static enum dgl_status make_kernel_set(const struct dgl_model *m, const struct dgl_kernels *kernels,
                                       struct kernel_set **untuned, struct kernel_set **out)
{
    if (kernels && kernel_set_num_faults(kernels->set) > 0)
        return dgl_fail(m->log, DGL_ERR_KERNEL, "%s", kernel_set_fault_at(kernels->set, 0)->reason);
    struct kernel_set *base = kernels ? kernel_set_ref(kernels->set) : NULL;
    struct dgl_log log = m->log ? *m->log : (struct dgl_log){0};
    /* missing hints of a manifest were already reported */
    if (m->shard->kernels && log.level > DGL_LOG_WARN)
        log.level = DGL_LOG_WARN;
    enum dgl_status status = base ? DGL_OK : kernel_set_create(m->log, NULL, &base);
    if (status == DGL_OK)
        status = kernel_set_with_manifest(
            &log, base,
            &(const struct kernel_manifest_hints){m->file->path, m->file->hint_defaults,
                                                  m->file->hint_pinned},
            untuned);
    kernel_set_destroy(&base);
    if (status != DGL_OK)
        return status;
    struct tune_store store = {0};
    struct dgl_buf json = {0};
    size_t count = 0;
    if (!m->no_tuned)
        tune_store_load(&store, m->shard->dev);
    tune_store_hints(&store, *untuned, &json, &count);
    if (count == 0)
        *out = kernel_set_ref(*untuned);
    else if (json.failed)
        status = dgl_fail_memory(m->log, "hints", json.len);
    else
        status = kernel_set_with_hints(m->log, *untuned, KERNEL_LAYER_TUNER, "tuner", json.p, out);
    dgl_buf_finish(&json);
    tune_store_finish(&store);
    return status;
}

/* Notes that a pack contains kernels which the caller has not allowed: kernels are programs. */
static void note_pack_kernels(const struct dgl_model *m, const struct dgl_kernels *kernels)
{
    if (m->file->format != MODEL_RDRR || (kernels && kernels->pack))
        return;
    char *own = dgl_path_join(m->file->path, PACK_KERNELS);
    if (own && dgl_path_is_link(own))
        dgl_notice(m->log,
                   "%s: a link, and no folder of the pack's own: kernels there are not used; "
                   "--kernel-dir takes those of a folder",
                   own);
    else if (own && dgl_path_is_dir(own))
        dgl_notice(m->log,
                   "%s: kernels that the pack brings are not used; --allow-pack-kernels takes them",
                   own);
    free(own);
}

/* Notes weights that are not stored in the type of the file, one line per type. */
static void note_changed(const struct dgl_model *m, const struct model_weights *weights,
                         const struct kernel_set *kernels)
{
    const struct dgl_log *log = m->log;
    uint64_t bytes[DGL_DTYPE_COUNT] = {0}, held_bytes[DGL_DTYPE_COUNT] = {0}, was, now;
    enum dgl_dtype held[DGL_DTYPE_COUNT] = {0}, wanted = weights_q4_k_dtype(kernels);
    for (size_t i = 0; i < weights->num_matrices; i++) {
        const struct weight *w = weights->matrices[i];
        for (size_t j = 0; j < w->num_slices; j++) {
            const struct weight_slice *s = &weights->slices[w->first_slice + j];
            enum dgl_dtype stored = tensor_source_at(m->file->tensors, (size_t)s->tensor)->dtype;
            uint32_t band = 0;
            while (band + 1 < w->num_bands && w->bands[band + 1].row0 <= s->to)
                band++;
            if (w->bands[band].dtype == stored || !dgl_dtype_row_bytes(stored, w->cols, &was) ||
                !dgl_dtype_row_bytes(w->bands[band].dtype, w->cols, &now))
                continue;
            bytes[stored] += was * s->count;
            held_bytes[stored] += now * s->count;
            held[stored] = w->bands[band].dtype;
        }
    }
    for (int i = 0; i < DGL_DTYPE_COUNT; i++) {
        const char *name = dgl_dtype_get((enum dgl_dtype)i)->name;
        const char *origin = NULL, *value = NULL;
        if (bytes[i] == 0)
            continue;
        if (i == DGL_Q4_K && wanted != DGL_Q4_K) {
            value = kernel_set_hint(kernels, "q4kMatmul", &origin);
            dgl_info(log, "q4_k weights are expanded to %s: hint q4kMatmul=%s (%s)",
                     dgl_dtype_get(wanted)->name, value, origin);
            continue;
        }
        dgl_warn(log, "%s weights (%llu MiB) are %s %s (%llu MiB): no kernel reads %s", name,
                 (unsigned long long)(bytes[i] >> 20),
                 held[i] == DGL_F16 ? "expanded to" : "held without loss as",
                 dgl_dtype_get(held[i])->name, (unsigned long long)(held_bytes[i] >> 20), name);
    }
}

bool model_expands_q4_k(const struct dgl_model *m, const struct kernel_set *set)
{
    if (weights_q4_k_dtype(set) == DGL_Q4_K)
        return false;
    for (size_t i = 0; i < m->shard->weights->num_slices; i++)
        if (tensor_source_at(m->file->tensors, (size_t)m->shard->weights->slices[i].tensor)
                ->dtype == DGL_Q4_K)
            return true;
    return false;
}

/* ---- fitting --------------------------------------------------------------------------------- */

uint64_t model_memory_left(const struct dgl_model *m)
{
    const uint64_t available = device_memory_budget(m->shard->dev);
    return available > m->shard->dev->held_bytes ? available - m->shard->dev->held_bytes
                                                 : available > 0;
}

/* Bytes of all allocated device memory, and of the reserved pages that sessions have not taken
 * yet. */
static uint64_t promised_bytes(const struct dgl_model *m)
{
    const struct kv_cache *kv = &m->shard->kv;
    const uint64_t all = kv->promised * kv->page_bytes * kv->layers;
    return m->shard->dev->held_bytes + (all > kv->bytes ? all - kv->bytes : 0);
}

void model_estimate(const struct dgl_model *m, int32_t context, int32_t ubatch,
                    struct dgl_memory *out)
{
    /* The budget minus the bytes that other models and the sessions use or may allocate later. The
     * workspace is shared. 0 if unknown, or if the model's kernels are only compiled: its weights
     * then use no memory. */
    uint64_t available = m->shard->buffers.empty ? 0 : device_memory_budget(m->shard->dev);
    if (available) {
        uint64_t others = promised_bytes(m) - m->shard->workspace.bytes;
        if (m->shard->buffers.buffers)
            others -= m->shard->weights->bytes;
        available = available > others ? available - others : 1;
    }
    const struct plan_batch one = {.context = context, .sequences = 1, .rows = ubatch};
    plan_estimate(&m->shard->engine->plan, &one, available, out);
    /* One binding reaches the pages of all sessions. */
    const int64_t left = ((int64_t)m->shard->kv.most_pages - m->shard->kv.promised) * DGL_KV_PAGE;
    out->context_fit = left < out->context_fit ? (int32_t)left : out->context_fit;
}

static enum dgl_status refuse(const struct dgl_model *m, const struct dgl_memory *mem)
{
    const struct plan *plan = &m->shard->engine->plan;
    struct dgl_buf w = {0}, k = {0}, s = {0}, a = {0};
    dgl_buf_bytes(&w, mem->weight_bytes);
    dgl_buf_bytes(&k, mem->kv_bytes);
    dgl_buf_bytes(&s, mem->scratch_bytes);
    if (mem->available_bytes)
        dgl_buf_bytes(&a, mem->available_bytes);
    else
        dgl_buf_puts(&a, "an unknown amount");
    if (plan_kv_layer_bytes(plan, DGL_KV_PAGE) *
            (m->shard->kv.promised + plan_kv_pages(mem->context)) >
        plan_device_binding_bytes(plan->device)) {
        dgl_buf_puts(&a, ", per layer's cache ");
        dgl_buf_bytes(&a, plan_device_binding_bytes(plan->device));
        if (m->shard->kv.promised)
            dgl_buf_printf(&a, " with %u tokens of other sessions",
                           m->shard->kv.promised * DGL_KV_PAGE);
    }
    if (mem->context > DGL_KV_TABLE_TOKENS)
        dgl_buf_printf(&a, ", per sequence pages for %d tokens", DGL_KV_TABLE_TOKENS);
    enum dgl_status status = dgl_fail(
        m->log, DGL_ERR_NO_MEMORY,
        "%s does not fit %s: weights %s, KV cache %s for %d tokens, scratch %s, available %s; %s%d",
        m->info.path, m->shard->dev->info.renderer, w.p, k.p, mem->context, s.p, a.p,
        mem->context_fit > 0 ? "the largest context that fits: -c " : "no context fits: ",
        mem->context_fit);
    dgl_buf_finish(&w);
    dgl_buf_finish(&k);
    dgl_buf_finish(&s);
    dgl_buf_finish(&a);
    return status;
}

enum dgl_status model_check_session_fits(const struct dgl_model *m, int32_t context, int32_t ubatch)
{
    struct dgl_memory mem;
    model_estimate(m, context, ubatch, &mem);
    return mem.context_fit < mem.context ? refuse(m, &mem) : DGL_OK;
}

/* ---- loading --------------------------------------------------------------------------------- */

static struct plan_params plan_params(const struct dgl_model *m, struct kernel_set *set,
                                      const struct model_weights *weights, enum dgl_kv_type kv_type)
{
    return (struct plan_params){.device = &m->shard->dev->plan,
                                .set = set,
                                .desc = &m->file->desc,
                                .weights = weights,
                                .kv_type = kv_type};
}

/* Places the model's weights, with types and layouts for a set of kernels. On failure *out is valid
 * for free_weights(). */
static enum dgl_status place_weights(const struct dgl_model *m, struct kernel_set *set,
                                     enum dgl_kv_type kv_type, struct model_weights **out)
{
    const struct dgl_log *log = m->log;
    *out = dgl_new(struct model_weights);
    if (!*out)
        return dgl_fail_memory(log, "weight list", sizeof(**out));
    enum dgl_status status = weights_list(log, &m->file->desc, m->file->tensors, *out);
    if (status != DGL_OK)
        return status;
    return weights_place(*out, &(struct weights_place_params){.device = &m->shard->dev->plan,
                                                              .set = set,
                                                              .desc = &m->file->desc,
                                                              .tensors = m->file->tensors,
                                                              .kv_type = kv_type});
}

static void free_weights(struct model_weights *weights)
{
    if (weights)
        weights_finish(weights);
    free(weights);
}

enum dgl_status model_fill_weights(struct dgl_model *m, struct kernel_set *set,
                                   const struct weight_buffers *buffers, const bool *only)
{
    struct synthetic_filler filler = {0};
    struct weight_upload_params upload = {.tensors = m->file->tensors, .only = only};
    enum dgl_status status = DGL_OK;
    if (m->file->format == MODEL_SYNTHETIC) {
        status = synthetic_filler_init(&filler, m->shard->dev, set);
        upload.fill = synthetic_fill;
        upload.fill_ctx = &filler;
    }
    if (status == DGL_OK)
        status = weight_buffers_upload(buffers, m->shard->dev, &upload);
    synthetic_filler_finish(&filler);
    return status;
}

/* Allocates the weights and fills them, while the driver's threads compile. If `other` is not NULL,
 * moves the model's buffers to that placement instead. `set` is for synthetic values. */
static enum dgl_status upload_weights(struct dgl_model *m, struct kernel_set *set,
                                      const struct model_weights *other,
                                      dgl_progress_cb progress_cb, void *progress_priv)
{
    struct dgl_device *dev = m->shard->dev;
    struct synthetic_filler filler = {0};
    struct weight_upload_params upload = {
        .tensors = m->file->tensors, .progress_cb = progress_cb, .progress_priv = progress_priv};
    enum dgl_status status;
    TRY(other ? DGL_OK : weight_buffers_init(&m->shard->buffers, dev, m->shard->weights));
    if (!other)
        TRY(exec_begin(&m->shard->engine->programs, &m->shard->engine->plan, PLAN_WARM_SEGMENTS));
    if (m->file->format == MODEL_SYNTHETIC) {
        TRY(synthetic_filler_init(&filler, dev, set));
        upload.fill = synthetic_fill;
        upload.fill_ctx = &filler;
    }
    TRY(other ? weight_buffers_replace(&m->shard->buffers, dev, other, &upload)
              : weight_buffers_upload(&m->shard->buffers, dev, &upload));
done:
    synthetic_filler_finish(&filler);
    return status;
}

enum dgl_status model_plan(struct dgl_model *m, struct dgl_device *dev,
                           const struct dgl_model_params *p)
{
    const struct dgl_log *log = dev->log;
    m->log = log;
    m->num_shards = 1;
    m->shard->dev = dev;
    if (!p->path || !p->path[0])
        return dgl_fail(log, DGL_ERR_INVALID_ARG, "no model path was given");

    if ((unsigned)p->kv_type > DGL_KV_F32 || (unsigned)p->hash_weights > DGL_HASH_NEVER ||
        (unsigned)p->executor > DGL_EXECUTOR_PERSISTENT)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "kv_type is %d, hash_weights %d and executor %d: they are 0 to %d, 0 to %d "
                        "and 0 to %d",
                        (int)p->kv_type, (int)p->hash_weights, (int)p->executor, DGL_KV_F32,
                        DGL_HASH_NEVER, DGL_EXECUTOR_PERSISTENT);

    /* Describe. */
    enum dgl_status status = model_file_open(log,
                                             &(struct model_open_params){
                                                 .path = p->path,
                                                 .verify = p->hash_weights != DGL_HASH_NEVER,
                                                 .hash_cache = gl_program_cache_dir(dev->gl),
                                                 .trust_cache = p->hash_weights == DGL_HASH_CHANGED,
                                                 .progress_cb = p->progress_cb,
                                                 .progress_priv = p->progress_priv,
                                             },
                                             &m->file);
    TRY(status);
    TRY(model_check_supported(log, m->file->path, &m->file->desc));
    const struct model_desc *desc = &m->file->desc;
    m->shard->end_layer = desc->layers;
    m->no_tuned = p->no_tuned;
    m->info = m->file->info;
    m->info.path = m->file->path;
    if (m->file->info.has_tokenizer) {
        TRY(model_file_tokenizer(log, m->file, &m->tok));
        TRY(model_file_check_tokenizer(log, m->file, m->tok));
    }
    note_pack_kernels(m, p->kernels);

    /* List, choose, plan: the device is not used yet. */
    TRY(make_kernel_set(m, p->kernels, &m->untuned, &m->shard->kernels));
    TRY(place_weights(m, m->shard->kernels, p->kv_type, &m->shard->weights));
    note_changed(m, m->shard->weights, m->shard->kernels);
    if (p->context < 0 || p->context > desc->context_max)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "a context of %d tokens was asked for, %s has at most %d", p->context,
                        m->info.path, desc->context_max);
    m->info.weight_bytes = m->shard->weights->bytes;
    m->info.context = p->context ? p->context : desc->context_max;
    struct plan_params params = plan_params(m, m->shard->kernels, m->shard->weights, p->kv_type);
    TRY(engine_create(dev, &params, p->executor, &m->shard->engine));
    TRY(plan_check_hints(&m->shard->engine->plan, m->info.path,
                         model_expands_q4_k(m, m->shard->kernels)));
    plan_warn_unused(&m->shard->engine->plan, NULL, m->info.path);
    plan_tell_hints(&m->shard->engine->plan, NULL);
    kv_cache_init(&m->shard->kv, dev, (uint32_t)(m->shard->end_layer - m->shard->first_layer),
                  plan_kv_layer_bytes(&m->shard->engine->plan, DGL_KV_PAGE),
                  kv_prefix_root(p->kv_type, 0, 0));
    m->shard->context = gl_device_context(dev->gl);
done:
    return status;
}

enum dgl_status model_load(struct dgl_model *m, struct dgl_device *dev,
                           const struct dgl_model_params *p)
{
    const struct dgl_log *log = dev->log;
    enum dgl_status status = model_plan(m, dev, p);
    if (status != DGL_OK)
        return status;

    /* If the caller requested a context, it is granted or refused. The default is lowered until it
     * fits. */
    struct dgl_memory mem;
    model_estimate(m, m->info.context, plan_default_rows(&m->shard->engine->plan), &mem);
    if (mem.context_fit < (p->context ? p->context : 1))
        return refuse(m, &mem);
    if (mem.context_fit < m->info.context) {
        dgl_warn(log, "context lowered from %d to %d tokens to fit the device", m->info.context,
                 mem.context_fit);
        m->info.context = mem.context_fit;
    }
    return upload_weights(m, m->shard->kernels, NULL, p->progress_cb, p->progress_priv);
}

/* ---- change of kernels ----------------------------------------------------------------------- */

/* A change to other kernels in preparation, with everything that depends on them. */
struct model_change {
    /* a reference to the caller's set, which identifies the change, or NULL */
    struct kernel_set *from;
    uint32_t engine_serial; /* the model's, at the beginning of the change */
    struct kernel_set *untuned, *set;
    struct model_weights *weights;
    struct engine *engine;
    struct kernel_swap swap;
};

/* Accepts NULL in *change. */
static void drop_change(struct model_change **change)
{
    struct model_change *c = *change;
    *change = NULL;
    if (!c)
        return;
    kernel_swap_finish(&c->swap);
    engine_destroy(&c->engine);
    free_weights(c->weights);
    kernel_set_destroy(&c->set);
    kernel_set_destroy(&c->untuned);
    kernel_set_destroy(&c->from);
    free(c);
}

/* ---- a lost device --------------------------------------------------------------------------- */

enum dgl_status model_enter(const struct dgl_model *m, struct gl_saved *saved)
{
    enum dgl_status status = device_enter(m->shard->dev, saved);
    if (status != DGL_OK ||
        (m->shard->context == gl_device_context(m->shard->dev->gl) && m->shard->lost == DGL_OK))
        return status;
    device_leave(m->shard->dev, saved);
    if (m->shard->lost != DGL_OK)
        return dgl_fail(m->log, m->shard->lost,
                        "the weights of %s were lost when its kernels were changed: "
                        "dgl_model_rebuild() brings them back",
                        m->info.path);
    return dgl_fail(m->log, DGL_ERR_DEVICE_LOST,
                    "%s went with a context of %s that was lost: dgl_model_rebuild() brings it "
                    "back",
                    m->info.path, m->shard->dev->info.renderer);
}

/* Frees all device memory of the model. The host keeps plan, placement and ids. */
static void drop_device_state(struct dgl_model *m)
{
    if (m->calls)
        m->calls->drop_memory(m);
    kv_cache_drop(&m->shard->kv);
    weight_buffers_finish(&m->shard->buffers, m->shard->dev);
}

enum dgl_status model_rebuild(struct dgl_model *m, const struct dgl_rebuild_params *p)
{
    struct dgl_device *dev = m->shard->dev;
    struct engine *engine = NULL;
    struct gl_saved saved = {0};
    enum dgl_status status = gl_device_is_lost(dev->gl) ? device_reopen(dev) : DGL_OK;
    if (status == DGL_OK)
        status = device_enter(dev, &saved);
    if (status != DGL_OK ||
        (m->shard->context == gl_device_context(dev->gl) && m->shard->lost == DGL_OK)) {
        device_leave(dev, &saved);
        return status;
    }
    drop_device_state(m);
    drop_change(&m->coming);
    m->shard->pace = (struct pace){.losses = m->shard->pace.losses + (m->shard->lost == DGL_OK)};
    struct plan_params params =
        plan_params(m, m->shard->kernels, m->shard->weights, m->shard->engine->plan.kv_type);
    status = engine_create(dev, &params, m->shard->engine->wanted, &engine);
    if (status == DGL_OK) {
        engine_destroy(&m->shard->engine);
        m->shard->engine = engine;
        m->shard->engine_serial++;
        status = upload_weights(m, m->shard->kernels, NULL, p->progress_cb, p->progress_priv);
    }
    if (status == DGL_OK && m->calls)
        status = m->calls->make_memory(m);
    if (status == DGL_OK) {
        m->shard->context = gl_device_context(dev->gl);
        m->shard->lost = DGL_OK;
    } else {
        drop_device_state(m);
    }
    if (m->calls)
        status = m->calls->restore(m, status);
    device_leave(dev, &saved);
    return status;
}

/* ---- life of an engine ----------------------------------------------------------------------- */

void model_destroy(struct dgl_model *m)
{
    drop_change(&m->coming);
    engine_destroy(&m->shard->engine);
    weight_buffers_finish(&m->shard->buffers, m->shard->dev);
    free_weights(m->shard->weights);
    kernel_set_destroy(&m->shard->kernels);
    kernel_set_destroy(&m->untuned);
    tokenizer_destroy(&m->tok);
    model_file_close(&m->file);
    free(m);
}

/* Returns DGL_ERR_NO_MEMORY if the new weights do not fit with sessions and other models. */
static enum dgl_status check_weights_fit(const struct dgl_model *m,
                                         const struct model_weights *weights)
{
    uint64_t available = device_memory_budget(m->shard->dev);
    uint64_t others = promised_bytes(m) - m->shard->weights->bytes;
    if (weights->bytes <= m->shard->weights->bytes || available == 0 ||
        (others <= available && weights->bytes <= available - others))
        return DGL_OK;
    struct dgl_buf then = {0}, now = {0}, rest = {0}, a = {0};
    dgl_buf_bytes(&then, weights->bytes);
    dgl_buf_bytes(&now, m->shard->weights->bytes);
    dgl_buf_bytes(&rest, others);
    dgl_buf_bytes(&a, available);
    enum dgl_status status = dgl_fail(
        m->log, DGL_ERR_NO_MEMORY,
        "%s does not fit %s with the new kernels: weights %s instead of %s, sessions and other "
        "models %s, available %s; it keeps its kernels",
        m->info.path, m->shard->dev->info.renderer, then.p, now.p, rest.p, a.p);
    dgl_buf_finish(&then);
    dgl_buf_finish(&now);
    dgl_buf_finish(&rest);
    dgl_buf_finish(&a);
    return status;
}

/* Plans the engine for the sets of `c`, and begins to compile it. */
static enum dgl_status begin_change(struct dgl_model *m, struct model_change *c, bool unchecked)
{
    const enum dgl_kv_type kv_type = m->shard->engine->plan.kv_type;
    c->engine_serial = m->shard->engine_serial;
    enum dgl_status status;
    TRY(place_weights(m, c->set, kv_type, &c->weights));
    struct plan_params params = plan_params(m, c->set, c->weights, kv_type);
    TRY(engine_create(m->shard->dev, &params, m->shard->engine->wanted, &c->engine));
    TRY(plan_check_hints(&c->engine->plan, m->info.path, model_expands_q4_k(m, c->set)));
    TRY(check_weights_fit(m, c->weights));
    status = kernel_swap_begin(m, c->engine, unchecked, &c->swap);
done:
    return status;
}

/* Applies a prepared change. Consumes it, also on failure. */
static enum dgl_status make_change(struct dgl_model *m, struct model_change **change)
{
    struct model_change *c = *change;
    /* The last step that can fail. Even on failure the buffers change, so all runs must bind
     * again. */
    enum dgl_status status = upload_weights(m, c->set, c->weights, NULL, NULL);
    m->shard->engine_serial++;
    if (status != DGL_OK) {
        m->shard->lost = m->shard->buffers.buffers ? m->shard->lost : status;
        drop_change(change);
        return status;
    }
    if (weights_q4_k_dtype(c->set) != weights_q4_k_dtype(m->shard->kernels))
        note_changed(m, c->weights, c->set);
    plan_warn_unused(&c->engine->plan, m->shard->kernels, m->info.path);
    plan_tell_hints(&c->engine->plan, &m->shard->engine->plan);
    /* The change now owns the old state and frees it. */
    struct model_change old = {.engine = m->shard->engine,
                               .weights = m->shard->weights,
                               .set = m->shard->kernels,
                               .untuned = m->untuned};
    m->shard->engine = c->engine;
    m->shard->weights = c->weights;
    m->shard->kernels = c->set;
    kv_prefix_evict_all(&m->shard->kv); /* its numbers come from the old kernels */
    m->untuned = c->untuned;
    c->engine = old.engine;
    c->weights = old.weights;
    c->set = old.set;
    c->untuned = old.untuned;
    m->info.weight_bytes = m->shard->weights->bytes;
    m->shard->pace = (struct pace){.losses = m->shard->pace.losses};
    drop_change(change);
    return DGL_OK;
}

/* Continues the change to these kernels, and begins it if necessary. On failure the change is
 * dropped. */
static enum dgl_status go_on_with(struct dgl_model *m, const struct dgl_kernels *kernels, bool wait,
                                  bool *ready)
{
    struct kernel_set *from = kernels ? kernels->set : NULL;
    const bool unchecked = kernels && kernels->unchecked;
    enum dgl_status status = DGL_OK;
    *ready = false;
    if (m->calls && m->calls->is_profiling(m)) /* a profile holds names of kernels */
        return dgl_fail(m->log, DGL_ERR_INVALID_ARG,
                        "the kernels of %s cannot be replaced in a call that profiles",
                        m->info.path);
    if (m->coming && (m->coming->from != from || m->coming->swap.unchecked != unchecked ||
                      m->coming->engine_serial != m->shard->engine_serial))
        drop_change(&m->coming);
    if (!m->coming) {
        m->coming = dgl_new(struct model_change);
        if (!m->coming)
            return dgl_fail_memory(m->log, "other kernels", sizeof(*m->coming));
        m->coming->from = from ? kernel_set_ref(from) : NULL;
        status = make_kernel_set(m, kernels, &m->coming->untuned, &m->coming->set);
        if (status == DGL_OK)
            status = begin_change(m, m->coming, unchecked);
    }
    if (status == DGL_OK)
        status = kernel_swap_go_on(m, &m->coming->swap, wait, ready);
    if (status != DGL_OK)
        drop_change(&m->coming);
    return status;
}

enum dgl_status model_prepare_kernels(struct dgl_model *m, const struct dgl_kernels *kernels,
                                      bool *ready)
{
    return go_on_with(m, kernels, false, ready);
}

enum dgl_status model_set_kernels(struct dgl_model *m, const struct dgl_kernels *kernels)
{
    bool ready;
    enum dgl_status status = go_on_with(m, kernels, true, &ready);
    return status == DGL_OK ? make_change(m, &m->coming) : status;
}

enum dgl_status model_replan(struct dgl_model *m)
{
    struct model_change *c = dgl_new(struct model_change);
    bool ready;
    if (!c)
        return dgl_fail_memory(m->log, "other kernels", sizeof(*c));
    c->untuned = kernel_set_ref(m->untuned);
    c->set = kernel_set_ref(m->shard->kernels);
    enum dgl_status status = begin_change(m, c, false);
    if (status == DGL_OK)
        status = kernel_swap_go_on(m, &c->swap, true, &ready);
    if (status == DGL_OK)
        return make_change(m, &c);
    drop_change(&c);
    return status;
}
