/* The tuner's candidates: kernels with values of their tunables. Each is a choice that a model
 * would make if it was loaded with the candidate's values as hints.
 *
 * Kernels that read the weights of a decode operation in another layout are measured on a copy of
 * them, together with the prefill kernel for that layout. The embedding's weights keep their
 * layout, because the embedding operation reads them too. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/measure/tuner.h"

/* ---- layouts of weights ---------------------------------------------------------------------- */

static const struct model_weights *weights_of(const struct tuner *t)
{
    return session_plan(t->s)->weights;
}

/* Returns the weight of an operation if only matrix products read it, else NULL. */
static const struct weight *weight_of(const struct tuner *t, const struct op *op)
{
    const struct op_bind *bind = op_find_bind(op, "W");
    const struct model_weights *weights = weights_of(t);
    if (!bind || bind->ref.kind != REF_WEIGHT || bind->ref.id == weights->embed.id)
        return NULL;
    const struct weight *weight = weights->matrices[bind->ref.id];
    return weight->band_bias == TENSOR_NONE ? weight : NULL;
}

static struct kernel_attr *find_attr(struct kernel_request *request, const char *key)
{
    for (uint32_t i = 0; i < request->num_attrs; i++)
        if (strcmp(request->attrs[i].key, key) == 0)
            return &request->attrs[i];
    return NULL;
}

/* Makes the operation's request for weights in the layout that a kernel reads. *layout is that
 * layout if the weights have another one now. Returns false if the weights cannot have it. */
static bool find_request(const struct tuner *t, const struct op *op, const struct kernel *kernel,
                         struct kernel_request *out, const struct weight_layout **layout)
{
    *out = op->request;
    *layout = NULL;
    struct kernel_attr *has = find_attr(out, "layout"), *type = find_attr(out, "weight");
    const char *wants = has && type ? kernel_layout(kernel, type->word) : NULL;
    if (!wants || strcmp(wants, has->word) == 0)
        return true;
    const struct weight *weight = weight_of(t, op);
    uint64_t words;
    if (!weight)
        return false;
    *layout = weight_layout_find(weight->bands[op_find_bind(op, "W")->ref.part].dtype, wants);
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

enum dgl_status tuner_add_op(const struct tuner *t, struct target_pass *pass, const struct op *op)
{
    if (!dgl_grow((void **)&pass->ops, &pass->cap, pass->count + 1, sizeof(*pass->ops)))
        return dgl_fail_memory(t->log, "operations", (pass->count + 1) * sizeof(*pass->ops));
    pass->ops[pass->count++] = *op;
    return DGL_OK;
}

enum dgl_status tuner_share(struct tuner *t, struct target *target)
{
    const struct target_pass *decode = &target->pass[0];
    struct target_pass *pass = &target->pass[1];
    struct oplist list = {0};
    bool any = false;
    if (target->num_passes > 1 || !pass_shape_is(decode->shape, PASS_DECODE) ||
        !weight_of(t, decode->ops))
        return DGL_OK;
    for (size_t i = 0; i < kernel_set_count(t->set) && !any; i++) {
        struct kernel_request request;
        const struct weight_layout *layout;
        any = find_request(t, decode->ops, kernel_set_at(t->set, i), &request, &layout) && layout &&
              kernel_set_serves(t->set, &request);
    }
    if (!any)
        return DGL_OK;
    enum dgl_status status = plan_list_ops(session_plan(t->s), PASS_PREFILL, &list);
    *pass = (struct target_pass){.shape = PASS_PREFILL, .prefill = true, .tokens = t->most_tokens};
    for (size_t i = 0; i < list.count && status == DGL_OK; i++) {
        const struct op_bind *bind = op_find_bind(&list.ops[i], "W");
        if (!bind || bind->ref.kind != REF_WEIGHT || !reads(decode, &bind->ref) ||
            (pass->count && !kernel_request_equal(&pass->ops[0].request, &list.ops[i].request)))
            continue;
        status = tuner_add_op(t, pass, &list.ops[i]);
    }
    oplist_finish(&list);
    target->shares = pass->count > 0;
    target->num_passes += target->shares;
    return status;
}

/* Copies an array, and adds `more` zeroed items. Returns NULL if memory runs out. */
static void *copy_items(struct dgl_arena *arena, const void *from, size_t count, size_t more,
                        size_t size)
{
    void *copy = dgl_arena_alloc(arena, (count + more) * size);
    if (copy)
        memcpy(copy, from, count * size);
    return copy;
}

enum dgl_status tuner_copy_begin(struct tuner *t, const struct target *target,
                                 const struct weight_layout *layout)
{
    const struct model_weights *weights = weights_of(t);
    const size_t old = weights->num_buffers;
    struct tuner_copy *c = &t->copied;
    struct model_weights *to = &c->weights;
    size_t bands = 0;
    enum dgl_status status;
    if (c->layout)
        return c->layout == layout ? DGL_OK
                                   : dgl_fail(t->log, DGL_ERR_UNSUPPORTED,
                                              "tune: kernels read %s weights in three layouts",
                                              dgl_dtype_get(layout->dtype)->name);
    for (uint32_t u = 0; u < target->num_passes; u++)
        for (size_t i = 0; i < target->pass[u].count; i++)
            bands += weight_of(t, &target->pass[u].ops[i])->num_bands;
    c->layout = layout;
    *to = *weights;
    to->matrices =
        copy_items(&c->arena, weights->matrices, weights->num_matrices, 0, sizeof(*to->matrices));
    to->buffer_bytes =
        copy_items(&c->arena, weights->buffer_bytes, old, bands, sizeof(*to->buffer_bytes));
    c->buffers = (struct weight_buffers){
        .weights = to,
        .buffers = copy_items(&c->arena, t->s->model->shard->buffers.buffers, old, bands,
                              sizeof(struct gl_buffer *))};
    bool *only = dgl_arena_alloc(&c->arena, old + bands);
    bool ok = to->matrices && to->buffer_bytes && c->buffers.buffers && only;
    for (uint32_t u = 0; u < target->num_passes; u++)
        for (size_t i = 0; i < target->pass[u].count && ok; i++) {
            const struct weight *weight = weight_of(t, &target->pass[u].ops[i]);
            if (to->matrices[weight->id] != weight)
                continue; /* copied already */
            struct weight *copy = copy_items(&c->arena, weight, 1, 0, sizeof(*copy));
            if (copy)
                copy->bands = copy_items(&c->arena, weight->bands, weight->num_bands, 0,
                                         sizeof(*copy->bands));
            ok = copy && copy->bands;
            if (ok)
                to->matrices[weight->id] = copy;
            /* Bands of other types keep their place. */
            for (uint32_t k = 0; ok && k < weight->num_bands; k++) {
                struct weight_band *band = &copy->bands[k];
                uint64_t words = 0;
                if (band->dtype != layout->dtype)
                    continue;
                ok = weight_layout_stride(layout, weight->cols, &words);
                assert(ok); /* find_request() has computed it */
                band->layout = layout;
                band->row_words = (uint32_t)words;
                band->place = (struct weight_place){.buffer = (uint32_t)to->num_buffers,
                                                    .size = 4 * words * band->rows};
                only[to->num_buffers] = true;
                to->buffer_bytes[to->num_buffers++] = band->place.size;
            }
        }
    if (!ok)
        TRY(dgl_fail_memory(t->log, "the list of weights in another layout",
                            weights->num_matrices * sizeof(struct weight)));
    for (size_t i = old; i < to->num_buffers; i++)
        TRY(gl_buffer_create(
            session_dev(t->s)->gl,
            &(struct gl_buffer_params){.size = to->buffer_bytes[i], .label = "weights"},
            &c->buffers.buffers[i]));
    TRY(shard_fill_weights(t->s->model->shard, t->set, &c->buffers, only));
    c->memory = t->s->state.memory;
    c->memory.weights = &c->buffers;
done:
    return status;
}

void tuner_copy_end(struct tuner *t)
{
    struct tuner_copy *c = &t->copied;
    for (size_t i = weights_of(t)->num_buffers; c->buffers.buffers && i < c->weights.num_buffers;
         i++)
        gl_buffer_destroy(session_dev(t->s)->gl, &c->buffers.buffers[i]);
    dgl_arena_finish(&c->arena);
    *c = (struct tuner_copy){0};
}

/* ---- candidates ------------------------------------------------------------------------------ */

void tuner_drop(struct tuner *t, size_t first)
{
    for (size_t i = first; i < t->num; i++) {
        struct candidate *c = t->candidates[i];
        for (int u = 0; u < 2; u++) {
            exec_run_destroy(&c->run[u]);
            free(c->body[u].use);
        }
        free(c);
    }
    t->num = first < t->num ? first : t->num;
}

void tuner_target_end(struct tuner *t)
{
    tuner_drop(t, 0);
    tuner_copy_end(t);
    programs_finish(&t->programs);
    kernel_table_finish(&t->table);
}

enum dgl_status tuner_add(struct tuner *t, const struct target *target, const struct tuning *tuning)
{
    const struct kernel *kernel = tuning->kernel;
    const struct op *op = &target->pass[0].ops[0];
    const struct plan_device *device = &session_dev(t->s)->plan;
    struct candidate candidate = {.tuning = *tuning, .report = &t->reports[t->num]};
    struct dgl_tune_candidate report = {.us = 0};
    struct kernel_set *set = NULL;
    struct dgl_buf json = {0};
    struct kernel_request request, shared;
    const struct weight_layout *layout;
    struct kernel_choice choice;
    size_t used = 0;
    enum dgl_status status = DGL_OK;
    bool fits = t->num < TUNER_MAX_CANDIDATES &&
                find_request(t, op, kernel, &request, &candidate.layout) &&
                (!candidate.layout || pass_shape_is(target->pass[0].shape, PASS_DECODE));
    snprintf(report.kernel, sizeof(report.kernel), "%s", kernel->name);
    for (uint32_t i = 0; i < kernel->num_tunes && fits; i++)
        if (tuning->set >> i & 1) {
            used += (size_t)snprintf(report.tunes + used, sizeof(report.tunes) - used, "%s%s=%lld",
                                     used ? " " : "", kernel->tunes[i].name,
                                     (long long)tuning->value[i]);
            fits = used < sizeof(report.tunes);
        }
    if (!fits)
        return DGL_OK;
    /* Choose as a model would with these hints of the tuner's layer: the kernel, and its tunables
     * that differ from their presets. */
    const struct dgl_tuned entry = {.request = target->key,
                                    .kernel = report.kernel,
                                    .tunes = report.tunes,
                                    .default_kernel = ""};
    tune_hints_put(&entry, 1, &json);
    if (json.failed)
        TRY(dgl_fail_memory(t->log, "hints", json.len));
    TRY(kernel_set_with_hints(t->log, t->set, KERNEL_LAYER_TUNER, "tuner", json.p, &set));
    TRY(kernel_choose(t->log, set, &request, device->properties, device->num_properties, &choice));
    fits = strcmp(choice.kernel->name, kernel->name) == 0 && choice.num_skipped == 0 &&
           plan_check_served(NULL, op, choice.kernel) == DGL_OK;
    for (uint32_t i = 0; i < kernel->num_tunes && fits; i++)
        fits =
            !(tuning->set >> i & 1) || choice.vars[choice.num_consts + i].value == tuning->value[i];
    for (size_t i = 0; i < t->num && fits; i++)
        fits = !kernel_use_equal(t->candidates[i]->use, &(struct kernel_use){.choice = choice});
    memset(choice.tune_rule, 0, sizeof(choice.tune_rule)); /* they were the set's */
    memset(choice.skipped, 0, sizeof(choice.skipped));
    choice.num_skipped = 0;
    choice.rule = NULL;
    /* The prefill kernel for the target's weights in the candidate's layout. */
    if (fits && target->shares) {
        struct kernel_choice prefill;
        const struct op *other = &target->pass[1].ops[0];
        fits = find_request(t, other, kernel, &shared, &layout) &&
               kernel_choose(NULL, t->set, &shared, device->properties, device->num_properties,
                             &prefill) == DGL_OK &&
               plan_check_served(NULL, other, prefill.kernel) == DGL_OK;
        if (fits)
            TRY(kernel_table_find(&t->table, &shared, &candidate.shared_use));
    }
    if (!fits)
        goto done;
    TRY(kernel_table_add(&t->table, &request, &choice, &candidate.use));
    t->candidates[t->num] = dgl_new(struct candidate);
    if (!t->candidates[t->num])
        TRY(dgl_fail_memory(t->log, "a candidate", sizeof(candidate)));
    *candidate.report = report;
    *t->candidates[t->num++] = candidate;
done:
    kernel_set_destroy(&set);
    dgl_buf_finish(&json);
    return status;
}

enum dgl_status tuner_choose_default(const struct tuner *t, const struct target *target,
                                     struct kernel_choice *out)
{
    const struct plan_device *device = &session_dev(t->s)->plan;
    /* The request with which the weights were placed, without their layout. */
    struct kernel_request request = target->pass[0].ops[0].request;
    for (uint32_t i = 0; i < request.num_attrs; i++)
        if (pass_shape_is(target->pass[0].shape, PASS_DECODE) &&
            strcmp(request.attrs[i].key, "layout") == 0)
            request.attrs[i].word = "none";
    return kernel_choose(t->log, t->set, &request, device->properties, device->num_properties, out);
}

enum dgl_status tuner_add_default(struct tuner *t, const struct target *target)
{
    struct kernel_choice choice;
    enum dgl_status status = tuner_choose_default(t, target, &choice);
    return status == DGL_OK ? tuner_add(t, target, &(struct tuning){.kernel = choice.kernel})
                            : status;
}

enum dgl_status tuner_add_stored(struct tuner *t, const struct target *target,
                                 const struct dgl_tuned *entry)
{
    struct tuning tuning = {.kernel = kernel_set_find(t->set, entry->kernel)};
    struct dgl_str rest = dgl_str_of(entry->tunes), part;
    if (!tuning.kernel)
        return DGL_OK;
    while (dgl_str_split(&rest, ' ', &part))
        for (uint32_t i = 0; i < tuning.kernel->num_tunes; i++) {
            const char *name = tuning.kernel->tunes[i].name;
            const size_t len = strlen(name);
            if (part.len > len && memcmp(part.p, name, len) == 0 && part.p[len] == '=' &&
                dgl_parse_i64((struct dgl_str){part.p + len + 1, part.len - len - 1}, INT64_MIN,
                              INT64_MAX, &tuning.value[i]))
                tuning.set |= 1u << i;
        }
    return tuner_add(t, target, &tuning);
}

struct tuning tuning_with(const struct tuning *tuning, uint32_t tunable, int64_t value)
{
    struct tuning with = *tuning;
    with.set |= 1u << tunable;
    with.value[tunable] = value;
    return with;
}

enum dgl_status tuner_add_neighbours(struct tuner *t, const struct target *target, size_t of)
{
    const struct candidate *c = t->candidates[of];
    const struct kernel *kernel = c->tuning.kernel;
    enum dgl_status status = DGL_OK;
    for (uint32_t i = 0; i < kernel->num_tunes; i++)
        for (uint32_t k = 0; k < kernel->tunes[i].num_choices; k++) {
            const int64_t value = kernel->tunes[i].choices[k];
            const struct tuning next = tuning_with(&c->tuning, i, value);
            if (value != c->use->choice.vars[c->use->choice.num_consts + i].value)
                TRY(tuner_add(t, target, &next));
        }
done:
    return status;
}

enum dgl_status tuner_add_first(struct tuner *t, const struct target *target)
{
    const struct kernel *first = t->candidates[0]->tuning.kernel;
    enum dgl_status status = tuner_add_neighbours(t, target, 0);
    for (size_t i = 0; i < kernel_set_count(t->set) && status == DGL_OK; i++) {
        const struct kernel *kernel = kernel_set_at(t->set, i);
        if (kernel != first && strcmp(kernel->op, first->op) == 0 && kernel->f16 == first->f16)
            status = tuner_add(t, target, &(struct tuning){.kernel = kernel});
    }
    return status;
}
