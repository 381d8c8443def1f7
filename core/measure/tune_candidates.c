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

/* Returns the weight of an operation if only matrix products read it, else NULL. */
static const struct weight *weight_of(const struct tuner *t, const struct op *op)
{
    const struct op_bind *bind = op_find_bind(op, "W");
    const struct model_weights *weights = session_plan(t->s)->weights;
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
        bool same = false; /* it reads a band that the decode operations read */
        for (size_t k = 0; bind && bind->ref.kind == REF_WEIGHT && k < decode->count; k++) {
            const struct ref *own = &op_find_bind(&decode->ops[k], "W")->ref;
            same = same || (own->id == bind->ref.id && own->part == bind->ref.part);
        }
        if (same &&
            (!pass->count || kernel_request_equal(&pass->ops[0].request, &list.ops[i].request)))
            status = tuner_add_op(t, pass, &list.ops[i]);
    }
    oplist_finish(&list);
    target->shares = pass->count > 0;
    target->num_passes += target->shares;
    return status;
}

enum dgl_status tuner_copy_begin(struct tuner *t, const struct target *target,
                                 const struct weight_layout *layout)
{
    struct shard *shard = t->s->model->shard;
    const struct plan *plan = session_plan(t->s);
    const size_t old = plan->weights->num_buffers;
    struct tuner_copy *c = &t->copied;
    struct model_weights *to = &c->weights;
    bool *only = NULL;
    enum dgl_status status;
    if (c->layout)
        return c->layout == layout ? DGL_OK
                                   : dgl_fail(t->log, DGL_ERR_UNSUPPORTED,
                                              "tune: kernels read %s weights in three layouts",
                                              dgl_dtype_get(layout->dtype)->name);
    c->layout = layout;
    /* the model's placement once more */
    TRY(weights_place(to, &(struct plan_params){.device = plan->device,
                                                .set = plan->kernels.set,
                                                .desc = plan->desc,
                                                .tensors = t->s->model->file->tensors,
                                                .kv_type = plan->kv_type}));
    if (to->num_buffers != old || to->bytes != plan->weights->bytes)
        TRY(dgl_fail(t->log, DGL_ERR_UNSUPPORTED,
                     "tune: a kernel was excluded after the model was loaded; load it again"));
    for (uint32_t u = 0; u < target->num_passes; u++)
        for (size_t i = 0; i < target->pass[u].count; i++) {
            const struct op_bind *bind = op_find_bind(&target->pass[u].ops[i], "W");
            const struct weight *weight = to->matrices[bind->ref.id];
            /* Bands of other types keep their place. */
            for (uint32_t k = 0; k < weight->num_bands; k++) {
                struct weight_band *band = &weight->bands[k];
                uint64_t words = 0;
                if (band->dtype != layout->dtype || band->layout == layout)
                    continue;
                if (!dgl_grow((void **)&to->buffer_bytes, &to->cap_buffers, to->num_buffers + 1,
                              sizeof(*to->buffer_bytes)))
                    TRY(dgl_fail_memory(t->log, "weight buffers", to->num_buffers));
                const bool fits = weight_layout_stride(layout, weight->cols, &words);
                assert(fits); /* find_request() has computed it */
                (void)fits;
                band->layout = layout;
                band->row_words = (uint32_t)words;
                band->place = (struct weight_place){.buffer = (uint32_t)to->num_buffers,
                                                    .size = 4 * words * band->rows};
                to->buffer_bytes[to->num_buffers++] = band->place.size;
            }
        }
    c->buffers = (struct weight_buffers){
        .weights = to, .buffers = dgl_new_array(struct gl_buffer *, to->num_buffers)};
    only = dgl_new_array(bool, to->num_buffers);
    if (!c->buffers.buffers || !only)
        TRY(dgl_fail_memory(t->log, "weight buffers", to->num_buffers));
    memcpy(c->buffers.buffers, shard->buffers.buffers, old * sizeof(*c->buffers.buffers));
    for (size_t i = old; i < to->num_buffers; i++) {
        only[i] = true;
        TRY(gl_buffer_create(
            shard->dev->gl,
            &(struct gl_buffer_params){.size = to->buffer_bytes[i], .label = "weights"},
            &c->buffers.buffers[i]));
    }
    TRY(shard_fill_weights(shard, &c->buffers, NULL, (struct weight_upload_params){.only = only}));
    c->memory = t->s->state.memory;
    c->memory.weights = &c->buffers;
done:
    free(only);
    return status;
}

void tuner_copy_end(struct tuner *t)
{
    struct tuner_copy *c = &t->copied;
    for (size_t i = session_plan(t->s)->weights->num_buffers;
         c->buffers.buffers && i < c->weights.num_buffers; i++)
        gl_buffer_destroy(session_dev(t->s)->gl, &c->buffers.buffers[i]);
    free(c->buffers.buffers);
    weights_finish(&c->weights);
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
    struct candidate *c = NULL;
    struct kernel_set *set = NULL;
    struct dgl_buf json = {0};
    struct kernel_request request, shared;
    const struct weight_layout *layout;
    struct kernel_choice choice;
    size_t used = 0;
    enum dgl_status status = DGL_OK;
    if (t->num == TUNER_MAX_CANDIDATES)
        return DGL_OK;
    c = dgl_new(struct candidate);
    if (!c)
        return dgl_fail_memory(t->log, "a candidate", sizeof(*c));
    struct dgl_tune_candidate *report = &c->report;
    c->tuning = *tuning;
    bool fits = find_request(t, op, kernel, &request, &c->layout) &&
                (!c->layout || pass_shape_is(target->pass[0].shape, PASS_DECODE));
    snprintf(report->kernel, sizeof(report->kernel), "%s", kernel->name);
    for (uint32_t i = 0; i < kernel->num_tunes && fits; i++)
        if (tuning->set >> i & 1) {
            used += (size_t)snprintf(report->tunes + used, sizeof(report->tunes) - used,
                                     "%s%s=%lld", used ? " " : "", kernel->tunes[i].name,
                                     (long long)tuning->value[i]);
            fits = used < sizeof(report->tunes);
        }
    if (!fits)
        goto done;
    /* Choose as a model would with these hints of the tuner's layer: the kernel, and its tunables
     * that differ from their presets. */
    const struct dgl_tuned entry = {.request = target->key,
                                    .kernel = report->kernel,
                                    .tunes = report->tunes,
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
        fits = !kernel_use_equal(t->candidates[i]->use[0], &(struct kernel_use){.choice = choice});
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
            TRY(kernel_table_find(&t->table, &shared, &c->use[1]));
    }
    if (!fits)
        goto done;
    TRY(kernel_table_add(&t->table, &request, &choice, &c->use[0]));
    t->candidates[t->num++] = c;
    c = NULL;
done:
    free(c);
    kernel_set_destroy(&set);
    dgl_buf_finish(&json);
    return status;
}

static enum dgl_status choose_from(const struct tuner *t, const struct kernel_set *set,
                                   const struct target *target, struct kernel_choice *out)
{
    const struct plan_device *device = &session_dev(t->s)->plan;
    /* The request with which the weights were placed, without their layout. */
    struct kernel_request request = target->pass[0].ops[0].request;
    struct kernel_attr *layout = find_attr(&request, "layout");
    if (layout && pass_shape_is(target->pass[0].shape, PASS_DECODE))
        layout->word = "none";
    return kernel_choose(t->log, set, &request, device->properties, device->num_properties, out);
}

enum dgl_status tuner_choose_default(const struct tuner *t, const struct target *target,
                                     struct kernel_choice *out)
{
    return choose_from(t, t->set, target, out);
}

/* Returns true if a file replaces the kernel, or a lib of it. */
static bool is_from_file(const struct tuner *t, const struct kernel *kernel)
{
    bool found = kernel->source != 0;
    for (size_t i = 0; i < kernel_set_num_libs(t->set) && !found; i++) {
        const struct kernel_lib *lib = kernel_set_lib_at(t->set, i);
        found = lib->source != 0 && kernel_splices(kernel, lib);
    }
    return found;
}

/* Adds the kernel that the device would use without files, if the default is from a file. Files
 * prevail over results of the tuner, so this candidate is only compared. */
static enum dgl_status add_builtin(struct tuner *t, const struct target *target)
{
    const struct op *op = &target->pass[0].ops[0];
    struct kernel_request request;
    struct kernel_choice choice;
    struct candidate *c = NULL;
    enum dgl_status status = DGL_OK;
    if (!is_from_file(t, t->candidates[0]->use[0]->choice.kernel) || t->num == TUNER_MAX_CANDIDATES)
        return DGL_OK;
    if (!t->builtin)
        TRY(kernel_set_create(t->log, NULL, &t->builtin));
    TRY(choose_from(t, t->builtin, target, &choice));
    c = dgl_new(struct candidate);
    if (!c)
        TRY(dgl_fail_memory(t->log, "a candidate", sizeof(*c)));
    c->tuning.kernel = choice.kernel;
    c->report.builtin = true;
    snprintf(c->report.kernel, sizeof(c->report.kernel), "%s", choice.kernel->name);
    if (!find_request(t, op, choice.kernel, &request, &c->layout) || c->layout ||
        plan_check_served(NULL, op, choice.kernel) != DGL_OK)
        goto done;
    TRY(kernel_table_add(&t->table, &request, &choice, &c->use[0]));
    t->candidates[t->num++] = c;
    c = NULL;
done:
    free(c);
    return status;
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

enum dgl_status tuner_add_neighbours(struct tuner *t, const struct target *target, size_t of,
                                     bool others)
{
    const struct candidate *c = t->candidates[of];
    const struct kernel *kernel = c->tuning.kernel;
    enum dgl_status status = DGL_OK;
    if (others)
        TRY(add_builtin(t, target));
    for (uint32_t i = 0; i < kernel->num_tunes; i++)
        for (uint32_t k = 0; k < kernel->tunes[i].num_choices; k++) {
            const int64_t value = kernel->tunes[i].choices[k];
            const struct tuning next = tuning_with(&c->tuning, i, value);
            if (value != c->use[0]->choice.vars[c->use[0]->choice.num_consts + i].value)
                TRY(tuner_add(t, target, &next));
        }
    for (size_t i = 0; others && i < kernel_set_count(t->set); i++) {
        const struct kernel *other = kernel_set_at(t->set, i);
        if (other != kernel && strcmp(other->op, kernel->op) == 0 && other->f16 == kernel->f16)
            TRY(tuner_add(t, target, &(struct tuning){.kernel = other}));
    }
done:
    return status;
}
