/* Loads a model: describes it, lists its weights, plans, checks that it fits, uploads. */
#include "core/model/model.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/exec/synthetic_fill.h"
#include "core/plan/model_support.h"
#include "core/exec/tune_store.h"

/* ---- kernels --------------------------------------------------------------------------------- */

/* The caller's layers above the manifest's hints. */
static enum dgl_status make_untuned(const struct dgl_model *m, const struct dgl_kernels *kernels,
                                    struct kernel_set **out)
{
    if (kernels && kernel_set_num_faults(kernels->set) > 0)
        return dgl_fail(m->log, DGL_ERR_KERNEL, "%s", kernel_set_fault_at(kernels->set, 0)->reason);
    struct kernel_set *base = kernels ? kernel_set_ref(kernels->set) : NULL;
    struct dgl_log log = m->log ? *m->log : (struct dgl_log){0};
    /* missing hints of a manifest were already reported */
    if (m->untuned && log.level > DGL_LOG_WARN)
        log.level = DGL_LOG_WARN;
    enum dgl_status status = base ? DGL_OK : kernel_set_create(m->log, NULL, &base);
    if (status == DGL_OK)
        status = kernel_set_with_manifest(
            &log, base,
            &(const struct kernel_manifest_hints){m->file->path, m->file->hint_defaults,
                                                  m->file->hint_pinned},
            out);
    kernel_set_destroy(&base);
    return status;
}

/* Adds the tuner's hints for this device. */
static enum dgl_status add_tuned(const struct shard *shard, struct kernel_set *untuned,
                                 struct kernel_set **out)
{
    const struct dgl_log *log = shard->dev->log;
    enum dgl_status status = DGL_OK;
    struct tune_store store = {0};
    struct dgl_buf json = {0};
    size_t count = 0;
    if (!shard->model->no_tuned)
        tune_store_load(&store, shard->dev);
    tune_store_hints(&store, untuned, &json, &count);
    if (count == 0)
        *out = kernel_set_ref(untuned);
    else if (json.failed)
        status = dgl_fail_memory(log, "hints", json.len);
    else
        status = kernel_set_with_hints(log, untuned, KERNEL_LAYER_TUNER, "tuner", json.p, out);
    dgl_buf_finish(&json);
    tune_store_finish(&store);
    return status;
}

/* Notes that a pack contains kernels which the caller has not allowed: kernels are programs. */
static void note_pack_kernels(const struct dgl_model *m, const struct dgl_kernels *kernels)
{
    /* `--allow-pack-kernels` reads folders of the file system only */
    if (m->file->format != MODEL_RDRR || m->file->source != &blob_files ||
        (kernels && kernels->pack))
        return;
    char *own = dgl_path_join(m->file->path, PACK_KERNELS);
    const bool link = own && dgl_path_is_link(own);
    if (link || (own && dgl_path_is_dir(own)))
        dgl_notice(
            m->log, "%s: %s", own,
            link ? "is a link: kernels behind it are not used; use --kernel-dir with its target"
                 : "the pack has kernels, which are not used; --allow-pack-kernels uses them");
    free(own);
}

/* Notes weights that are not stored in the type of the file, one line per type. */
static void note_changed(const struct shard *shard, const struct engine *engine)
{
    const struct dgl_log *log = shard->dev->log;
    const struct model_weights *weights = &engine->weights;
    const struct kernel_set *kernels = engine->plan.kernels.set;
    const struct tensor_source *tensors = shard->model->file->tensors;
    uint64_t bytes[DGL_DTYPE_COUNT] = {0}, held_bytes[DGL_DTYPE_COUNT] = {0}, was, now;
    const enum dgl_dtype wanted = weights_q4_k_dtype(kernels);
    for (size_t i = 0; i < weights->num_matrices; i++) {
        const struct weight *w = weights->matrices[i];
        for (size_t j = 0; j < w->num_slices; j++) {
            const struct weight_slice *s = &weights->slices[w->first_slice + j];
            enum dgl_dtype stored = tensor_source_at(tensors, (size_t)s->tensor)->dtype;
            uint32_t band = 0;
            while (band + 1 < w->num_bands && w->bands[band + 1].row0 <= s->to)
                band++;
            if (w->bands[band].dtype == stored || !dgl_dtype_row_bytes(stored, w->cols, &was) ||
                !dgl_dtype_row_bytes(w->bands[band].dtype, w->cols, &now))
                continue;
            bytes[stored] += was * s->count;
            held_bytes[stored] += now * s->count;
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
        dgl_warn(log, "%s weights (%llu MiB) are expanded to f16 (%llu MiB): no kernel reads %s",
                 name, (unsigned long long)(bytes[i] >> 20),
                 (unsigned long long)(held_bytes[i] >> 20), name);
    }
}

/* ---- fitting --------------------------------------------------------------------------------- */

uint64_t shard_memory_left(const struct shard *shard)
{
    const uint64_t available = device_memory_budget(shard->dev), held = shard->dev->held_bytes;
    return available > held ? available - held : available > 0;
}

/* Bytes of all allocated device memory, and of the reserved pages that sessions have not taken
 * yet. */
static uint64_t promised_bytes(const struct shard *shard)
{
    const struct kv_cache *kv = &shard->kv;
    const uint64_t all = kv->promised * kv->page_bytes;
    return shard->dev->held_bytes + (all > kv->bytes ? all - kv->bytes : 0);
}

void shard_estimate(const struct shard *shard, int32_t context, int32_t ubatch,
                    struct dgl_memory *out)
{
    /* The budget minus the bytes that other models and the sessions use or may allocate later. The
     * workspace is shared. 0 if the budget is unknown, or if the model's weights are not loaded
     * because its kernels are only compiled. */
    uint64_t available = shard->buffers.empty ? 0 : device_memory_budget(shard->dev);
    if (available) {
        uint64_t others = promised_bytes(shard) - shard->workspace.bytes;
        if (shard->buffers.buffers)
            others -= shard->engine->weights.bytes;
        available = available > others ? available - others : 1;
    }
    const struct plan_batch one = {.context = context, .sequences = 1, .rows = ubatch};
    plan_estimate(&shard->engine->plan, &one, available, out);
    /* All pages are in one buffer binding, whose size limits the pages of all sessions together. */
    const int64_t left = ((int64_t)shard->kv.most_pages - shard->kv.promised) * DGL_KV_PAGE;
    out->context_fit = left < out->context_fit ? (int32_t)left : out->context_fit;
}

static enum dgl_status refuse(const struct shard *shard, const struct dgl_memory *mem)
{
    const struct plan *plan = &shard->engine->plan;
    struct dgl_buf room = {0};
    dgl_buf_puts(&room,
                 mem->available_bytes ? DGL_BYTES(mem->available_bytes) : "an unknown amount");
    if (plan_kv_layer_bytes(plan, DGL_KV_PAGE) *
            (shard->kv.promised + plan_kv_pages(mem->context)) >
        plan_device_binding_bytes(plan->device)) {
        dgl_buf_printf(&room, ", per layer's cache %s",
                       DGL_BYTES(plan_device_binding_bytes(plan->device)));
        if (shard->kv.promised)
            dgl_buf_printf(&room, " with %u tokens of other sessions",
                           shard->kv.promised * DGL_KV_PAGE);
    }
    const int32_t table = (int32_t)kv_layout_entries(&plan->kv) * DGL_KV_PAGE;
    if (mem->context > table)
        dgl_buf_printf(&room, ", per sequence pages for %d tokens", table);
    enum dgl_status status = dgl_fail(
        shard->dev->log, DGL_ERR_NO_MEMORY,
        "%s does not fit %s: weights %s, KV cache %s for %d tokens, scratch %s, available %s; %s%d",
        shard->model->info.path, shard->dev->info.renderer, DGL_BYTES(mem->weight_bytes),
        DGL_BYTES(mem->kv_bytes), mem->context, DGL_BYTES(mem->scratch_bytes), room.p ? room.p : "",
        mem->context_fit > 0 ? "the largest context that fits: -c " : "no context fits: ",
        mem->context_fit);
    dgl_buf_finish(&room);
    return status;
}

enum dgl_status shard_check_session_fits(const struct shard *shard, int32_t context, int32_t ubatch)
{
    struct dgl_memory mem = {.size = sizeof(mem)};
    shard_estimate(shard, context, ubatch, &mem);
    return mem.context_fit < mem.context ? refuse(shard, &mem) : DGL_OK;
}

/* ---- loading --------------------------------------------------------------------------------- */

/* Plans the shard for a set of kernels. On failure the caller destroys *out. */
static enum dgl_status make_engine(const struct shard *shard, struct kernel_set *set,
                                   enum dgl_kv_type kv_type, enum dgl_executor wanted,
                                   struct engine **out)
{
    const struct dgl_model_file *file = shard->model->file;
    const struct plan_params params = {.device = &shard->dev->plan,
                                       .set = set,
                                       .desc = &file->desc,
                                       .tensors = file->tensors,
                                       .kv_type = kv_type};
    enum dgl_status status = engine_create(shard->dev, &params, wanted, out);
    return status == DGL_OK ? plan_check_hints(&(*out)->plan, file->path) : status;
}

enum dgl_status shard_fill_weights(struct shard *shard, struct weight_buffers *buffers,
                                   const struct model_weights *other,
                                   struct weight_upload_params upload)
{
    struct synthetic_filler filler = {0};
    enum dgl_status status;
    upload.tensors = shard->model->file->tensors;
    if (shard->model->file->format == MODEL_SYNTHETIC) {
        TRY(synthetic_filler_init(&filler, shard->dev, shard_kernels(shard)));
        upload.fill = synthetic_fill;
        upload.fill_ctx = &filler;
    }
    TRY(other ? weight_buffers_replace(buffers, shard->dev, other, &upload)
              : weight_buffers_upload(buffers, shard->dev, &upload));
done:
    synthetic_filler_finish(&filler);
    return status;
}

/* Allocates the weights and fills them, while the driver's threads compile. */
static enum dgl_status upload_weights(struct shard *shard, dgl_progress_cb progress_cb,
                                      void *progress_priv)
{
    enum dgl_status status;
    TRY(weight_buffers_init(&shard->buffers, shard->dev, &shard->engine->weights));
    TRY(exec_begin(&shard->engine->programs, &shard->engine->plan, PLAN_WARM_SHAPES));
    status = shard_fill_weights(
        shard, &shard->buffers, NULL,
        (struct weight_upload_params){.progress_cb = progress_cb, .progress_priv = progress_priv});
done:
    return status;
}

enum dgl_status model_plan(struct dgl_model *m, struct dgl_device *dev,
                           const struct dgl_model_params *p)
{
    const struct dgl_log *log = dev->log;
    struct shard *shard = m->shard;
    struct kernel_set *tuned = NULL;
    m->log = log;
    m->num_shards = 1;
    *shard = (struct shard){.model = m, .dev = dev};
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
                                                 .source = p->source,
                                                 .override_kv = p->override_kv,
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
    shard->end_layer = desc->layers;
    m->no_tuned = p->no_tuned;
    TRY(model_file_load_tokenizer(log, m->file, false));
    m->tok = m->file->tok;
    m->info = m->file->info;
    m->info.path = m->file->path;
    note_pack_kernels(m, p->kernels);
    if (p->context < 0 || p->context > desc->context_max)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "a context of %d tokens was asked for, %s has at most %d", p->context,
                        m->info.path, desc->context_max);
    m->info.context = p->context ? p->context : desc->context_max;

    /* List, choose, plan: the device is not used yet. */
    TRY(make_untuned(m, p->kernels, &m->untuned));
    TRY(add_tuned(shard, m->untuned, &tuned));
    TRY(make_engine(shard, tuned, p->kv_type, p->executor, &shard->engine));
    note_changed(shard, shard->engine);
    m->info.weight_bytes = shard->engine->weights.bytes;
    struct plan *plan = &shard->engine->plan;
    plan_warn_unused(plan, NULL, m->info.path);
    plan_tell_hints(plan, NULL);
    kv_cache_init(&shard->kv, dev, &plan->kv, kv_prefix_root(kv_layout_identity(&plan->kv), 0, 0));
    shard->context = gl_device_context(dev->gl);
done:
    kernel_set_destroy(&tuned);
    return status;
}

enum dgl_status model_load(struct dgl_model *m, struct dgl_device *dev,
                           const struct dgl_model_params *p)
{
    struct shard *shard = m->shard;
    enum dgl_status status = model_plan(m, dev, p);
    if (status != DGL_OK)
        return status;

    /* If the caller requested a context, it is granted or refused. The default is lowered until it
     * fits. */
    struct dgl_memory mem = {.size = sizeof(mem)};
    shard_estimate(shard, m->info.context, plan_default_rows(&shard->engine->plan), &mem);
    if (mem.context_fit < (p->context ? p->context : 1))
        return refuse(shard, &mem);
    if (mem.context_fit < m->info.context) {
        dgl_warn(dev->log, "context lowered from %d to %d tokens to fit the device",
                 m->info.context, mem.context_fit);
        m->info.context = mem.context_fit;
    }
    return upload_weights(shard, p->progress_cb, p->progress_priv);
}

/* ---- change of kernels ----------------------------------------------------------------------- */

static void drop_change(struct dgl_model *m)
{
    for (int32_t i = 0; i < m->num_shards; i++)
        kernel_swap_finish(&m->shard[i].swap);
    kernel_set_destroy(&m->next);
    kernel_set_destroy(&m->next_from);
}

/* ---- a lost device --------------------------------------------------------------------------- */

enum dgl_status shard_check(const struct shard *shard, const struct dgl_log *log)
{
    const char *path = shard->model->info.path;
    if (shard->lost != DGL_OK)
        return dgl_fail(log, shard->lost,
                        "the weights of %s were lost when its kernels were changed: "
                        "dgl_model_rebuild() brings them back",
                        path);
    if (shard->context != gl_device_context(shard->dev->gl))
        return dgl_fail(log, DGL_ERR_DEVICE_LOST,
                        "%s went with a context of %s that was lost: dgl_model_rebuild() brings it "
                        "back",
                        path, shard->dev->info.renderer);
    return DGL_OK;
}

enum dgl_status model_enter(const struct dgl_model *m, struct gl_saved *saved)
{
    enum dgl_status status = device_enter(m->shard->dev, saved);
    if (status != DGL_OK)
        return status;
    status = shard_check(m->shard, m->log);
    if (status != DGL_OK)
        device_leave(m->shard->dev, saved);
    return status;
}

/* Frees all device memory of the model. The host keeps plan, placement and ids. */
static void drop_device_state(struct dgl_model *m)
{
    for (struct model_user *user = m->users; user; user = user->next)
        user->ops->drop_memory(user);
    for (int32_t i = 0; i < m->num_shards; i++) {
        kv_cache_drop(&m->shard[i].kv);
        weight_buffers_finish(&m->shard[i].buffers, m->shard[i].dev);
    }
}

enum dgl_status model_rebuild(struct dgl_model *m, const struct dgl_rebuild_params *p)
{
    struct shard *shard = m->shard;
    struct dgl_device *dev = shard->dev;
    struct engine *engine = NULL;
    struct gl_saved saved = {0};
    enum dgl_status status = gl_device_is_lost(dev->gl) ? device_reopen(dev) : DGL_OK;
    if (status == DGL_OK)
        status = device_enter(dev, &saved);
    if (status != DGL_OK || shard_check(shard, NULL) == DGL_OK) {
        device_leave(dev, &saved);
        return status;
    }
    m->rebuilds++;
    drop_device_state(m);
    drop_change(m);
    shard->pace = (struct pace){.losses = shard->pace.losses + (shard->lost == DGL_OK)};
    status = make_engine(shard, shard_kernels(shard), shard->engine->plan.kv_type,
                         shard->engine->wanted, &engine);
    if (status == DGL_OK) {
        engine_destroy(&shard->engine);
        shard->engine = engine;
        engine = NULL;
        shard->engine_serial++;
        status = upload_weights(shard, p->progress_cb, p->progress_priv);
    }
    for (struct model_user *user = m->users; user && status == DGL_OK; user = user->next)
        status = user->ops->make_memory(user);
    if (status == DGL_OK) {
        shard->context = gl_device_context(dev->gl);
        shard->lost = DGL_OK;
    } else {
        drop_device_state(m);
    }
    for (struct model_user *user = m->users; user; user = user->next)
        status = user->ops->restore(user, status);
    engine_destroy(&engine);
    device_leave(dev, &saved);
    return status;
}

/* ---- life of an engine ----------------------------------------------------------------------- */

enum dgl_status model_check_head(const struct dgl_model *m)
{
    if (!m->info.no_head)
        return DGL_OK;
    return dgl_fail(m->log, DGL_ERR_UNSUPPORTED,
                    "%s: the checkpoint has no lm_head.weight, so the model computes embeddings, "
                    "not answers or logits; use dgl_embed() or /v1/embeddings",
                    m->info.path);
}

void model_destroy(struct dgl_model *m)
{
    drop_change(m);
    for (struct shard *shard = m->shard; shard < m->shard + m->num_shards; shard++) {
        weight_buffers_finish(&shard->buffers, shard->dev);
        engine_destroy(&shard->engine);
    }
    kernel_set_destroy(&m->untuned);
    model_file_close(&m->file);
    free(m);
}

/* Returns DGL_ERR_NO_MEMORY if the new weights do not fit with sessions and other models. */
static enum dgl_status check_weights_fit(const struct shard *shard, const struct engine *engine)
{
    const uint64_t available = device_memory_budget(shard->dev);
    const uint64_t old = shard->engine->weights.bytes, new = engine->weights.bytes;
    const uint64_t others = promised_bytes(shard) - old;
    if (new <= old || available == 0 || (others <= available && new <= available - others))
        return DGL_OK;
    return dgl_fail(
        shard->dev->log, DGL_ERR_NO_MEMORY,
        "%s does not fit %s with the new kernels: weights %s instead of %s, sessions and other "
        "models %s, available %s; it keeps its kernels",
        shard->model->info.path, shard->dev->info.renderer, DGL_BYTES(new), DGL_BYTES(old),
        DGL_BYTES(others), DGL_BYTES(available));
}

/* Exchanges the shard's engine and that of a complete swap. */
static enum dgl_status exchange_engines(struct shard *shard)
{
    struct engine *old = shard->engine, *engine = shard->swap.engine;
    /* The last step that can fail. Even on failure the buffers change, so all runs must bind
     * again. */
    enum dgl_status status = shard_fill_weights(shard, &shard->buffers, &engine->weights,
                                                (struct weight_upload_params){0});
    shard->engine_serial++;
    if (status != DGL_OK) {
        shard->lost = shard->buffers.buffers ? shard->lost : status;
        return status;
    }
    if (weights_q4_k_dtype(engine->plan.kernels.set) != weights_q4_k_dtype(shard_kernels(shard)))
        note_changed(shard, engine);
    plan_warn_unused(&engine->plan, shard_kernels(shard), shard->model->info.path);
    plan_tell_hints(&engine->plan, &old->plan);
    kv_prefix_evict_all(&shard->kv); /* its numbers come from the old kernels */
    shard->pace = (struct pace){.losses = shard->pace.losses};
    shard->engine = engine;
    shard->swap.engine = old;
    return DGL_OK;
}

/* Continues the change to these kernels, and begins it if necessary. If `replan`, plans the model's
 * present kernels again. Completes the change if `ready` is NULL, else does a part of it and sets
 * *ready if only the exchange of engines is left. On failure the change is dropped. */
static enum dgl_status change_kernels(struct dgl_model *m, const struct dgl_kernels *kernels,
                                      bool replan, bool *ready)
{
    struct kernel_set *from = kernels ? kernels->set : NULL;
    const bool unchecked = kernels && kernels->unchecked;
    enum dgl_status status = DGL_OK;
    bool same = !replan && m->next && m->next_from == from, all = true;
    for (int32_t i = 0; same && i < m->num_shards; i++)
        same = m->shard[i].swap.unchecked == unchecked &&
               m->shard[i].swap.engine_serial == m->shard[i].engine_serial;
    if (!same) {
        drop_change(m);
        m->next_from = from ? kernel_set_ref(from) : NULL;
        if (replan)
            m->next = kernel_set_ref(m->untuned);
        else
            TRY(make_untuned(m, kernels, &m->next));
        for (int32_t i = 0; i < m->num_shards; i++) {
            struct shard *shard = &m->shard[i];
            struct kernel_swap *swap = &shard->swap;
            struct kernel_set *set = replan ? kernel_set_ref(shard_kernels(shard)) : NULL;
            *swap = (struct kernel_swap){
                .shard = shard, .engine_serial = shard->engine_serial, .unchecked = unchecked};
            status = replan ? DGL_OK : add_tuned(shard, m->next, &set);
            if (status == DGL_OK)
                status = make_engine(shard, set, shard->engine->plan.kv_type, shard->engine->wanted,
                                     &swap->engine);
            kernel_set_destroy(&set);
            TRY(status);
            TRY(check_weights_fit(shard, swap->engine));
            TRY(kernel_swap_begin(swap));
        }
    }
    for (int32_t i = 0; i < m->num_shards; i++) {
        bool done;
        TRY(kernel_swap_go_on(&m->shard[i].swap, !ready, &done));
        all = all && done;
    }
    if (ready) {
        *ready = all;
        return DGL_OK;
    }
    m->info.weight_bytes = 0;
    for (int32_t i = 0; i < m->num_shards; i++) {
        if (status == DGL_OK)
            status = exchange_engines(&m->shard[i]);
        m->info.weight_bytes += m->shard[i].engine->weights.bytes;
    }
    TRY(status);
    kernel_set_destroy(&m->untuned);
    m->untuned = kernel_set_ref(m->next);
done:
    drop_change(m);
    return status;
}

enum dgl_status model_set_kernels(struct dgl_model *m, const struct dgl_kernels *kernels,
                                  bool *ready)
{
    if (ready)
        *ready = false;
    for (const struct model_user *user = m->users; user; user = user->next)
        if (user->runner->profile) /* a profile holds names of kernels */
            return dgl_fail(m->log, DGL_ERR_INVALID_ARG,
                            "the kernels of %s cannot be replaced in a call that profiles",
                            m->info.path);
    return change_kernels(m, kernels, false, ready);
}

enum dgl_status model_replan(struct dgl_model *m)
{
    return change_kernels(m, NULL, true, NULL);
}
