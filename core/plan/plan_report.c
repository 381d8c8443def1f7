/* The plan for display: one line per operation with the kernel and the reason for it. */
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/plan/plan.h"

/* The constants that distinguish operations of one kind, and the weight format. */
static void describe_shape(const struct op *op, char *out, size_t size)
{
    static const char *const shown[] = {"H",        "N",      "K",     "HEADS", "KV_HEADS",
                                        "HEAD_DIM", "SPLITS", "VOCAB", "E",     "TOP_K"};
    size_t len = 0;
    out[0] = '\0';
    for (size_t s = 0; s < sizeof(shown) / sizeof(shown[0]); s++)
        for (uint32_t i = 0; i < op->request.num_consts; i++)
            if (strcmp(op->request.consts[i].name, shown[s]) == 0 && len < size)
                len += (size_t)snprintf(out + len, size - len, "%s%s=%lld", len ? " " : "",
                                        shown[s], (long long)op->request.consts[i].value);
    for (uint32_t i = 0; i < op->request.num_attrs; i++) {
        const char *key = op->request.attrs[i].key;
        if ((strcmp(key, "weight") == 0 || strcmp(key, "kv_k") == 0) && len < size)
            len += (size_t)snprintf(out + len, size - len, "%s%s", len ? " " : "",
                                    op->request.attrs[i].word);
    }
}

struct dgl_kernel_info kernel_info(const struct kernel *kernel)
{
    struct dgl_kernel_info info = {.name = kernel->name,
                                   .op = kernel->op,
                                   .variant = kernel->variant,
                                   .origin = kernel->origin,
                                   .summary = kernel->summary,
                                   .layout = kernel->layout};
    memcpy(info.sha256, kernel->sha256, sizeof(info.sha256));
    return info;
}

/* Tokens of the pass for which the figures of a step are reported: the maximum of the body. */
static int32_t tokens_of(const struct plan *plan, struct pass_shape shape)
{
    const int32_t most = plan_default_rows(plan), tokens = 1 << shape.rows_log2;
    const bool all = shape.rows_log2 == PASS_ANY_ROWS ||
                     (shape.part == PART_OUTPUTS && shape.outputs != OUTPUT_LAST);
    return all || (pass_shape_is_prefill(shape) && tokens > most) ? most : tokens;
}

static enum dgl_phase phase_of(struct pass_shape shape)
{
    if (shape.part > PART_OUTPUTS)
        return DGL_PHASE_SAMPLE;
    return pass_shape_is_prefill(shape) ||
                   (shape.part == PART_OUTPUTS && shape.outputs != OUTPUT_LAST)
               ? DGL_PHASE_PREFILL
               : DGL_PHASE_DECODE;
}

/* Returns true if one of the warm bodies runs the kernel. */
static bool is_warm(const struct plan *plan, const struct kernel_use *use)
{
    const struct shape_set shapes = PLAN_WARM_SHAPES;
    for (uint32_t s = 0; s < shapes.count; s++) {
        const struct body *body = plan_body(plan, shapes.of[s]);
        for (size_t i = 0; i < body->ops.count; i++)
            if (body->use[i] == use)
                return true;
    }
    return false;
}

struct teller {
    const struct plan *plan;
    bool (*cb)(void *priv, const struct dgl_plan_step *step);
    void *priv;
};

/* Reports the operations of a body, for a pass over `tokens`. Returns false to stop. */
static bool tell_body(const struct teller *to, const struct body *body, int32_t tokens)
{
    const struct plan *plan = to->plan;
    bool more = true;
    for (size_t i = 0; i < body->ops.count && more; i++) {
        const struct op *op = &body->ops.ops[i];
        const struct kernel *kernel = body->use[i]->choice.kernel;
        struct dgl_kernel_info info = kernel_info(kernel);
        struct dgl_buf origin = {0};
        kernel_choice_origin(&body->use[i]->choice, &origin);
        if (kernel->num_libs > 0 && !kernel_choice_sha256(&body->use[i]->choice, info.sha256))
            info.sha256[0] = '\0'; /* out of memory: better no hash than a wrong one */
        info.origin = origin.failed ? kernel->origin : origin.p;
        const struct kernel_choice *choice = &body->use[i]->choice;
        const char *reason = choice->reason;
        char shape[160], unfused[sizeof(choice->reason) + 256];
        char fallback[sizeof(choice->skipped) + 16] = "";
        for (uint32_t f = 0, len = 0; f < choice->num_skipped; f++)
            len += (uint32_t)snprintf(fallback + len, sizeof(fallback) - len, "%s%s", f ? "; " : "",
                                      choice->skipped[f].text);
        describe_shape(op, shape, sizeof(shape));
        if (op->unfused) {
            snprintf(unfused, sizeof(unfused), "%s; not fused: %s", reason, op->unfused);
            reason = unfused;
        }
        const char *weight = "";
        for (uint32_t k = 0; k < op->request.num_attrs; k++)
            if (strcmp(op->request.attrs[k].key, "weight") == 0)
                weight = op->request.attrs[k].word;
        struct dgl_plan_step step = {.phase = phase_of(body->shape),
                                     .layer = op->layer,
                                     .op = op->label,
                                     .shape = shape,
                                     .weight = weight,
                                     .layout = weight[0] ? kernel_layout(kernel, weight) : "",
                                     .kernel = &info,
                                     .reason = reason,
                                     .fallback = fallback[0] ? fallback : NULL,
                                     .tokens = tokens,
                                     .bytes = op->bytes,
                                     .lazy = !is_warm(plan, body->use[i]),
                                     .use = (const struct dgl_plan_use *)body->use[i]};
        for (int axis = 0; axis < 3; axis++)
            step.local[axis] = (uint32_t)choice->local[axis];
        /* An impossible count is reported when the operation runs. Its figures stay 0 here. */
        const uint32_t rows = op_weight_rows(op), max_x = plan->device->limits.max_groups[0];
        if (!kernel_groups_band(choice, tokens, rows, max_x, step.groups) ||
            !kernel_invocations(choice, tokens, rows, max_x, &step.launched, &step.active))
            step.launched = step.active = 0;
        more = to->cb(to->priv, &step);
        dgl_buf_finish(&origin);
    }
    return more;
}

void plan_iterate(const struct plan *plan, bool (*cb)(void *priv, const struct dgl_plan_step *step),
                  void *priv)
{
    const struct teller to = {plan, cb, priv};
    for (size_t i = 0; i < plan->num_bodies; i++)
        if (!tell_body(&to, plan->bodies[i], tokens_of(plan, plan->bodies[i]->shape)))
            return;
}

void plan_iterate_batch(const struct plan *plan, int32_t sequences,
                        bool (*cb)(void *priv, const struct dgl_plan_step *step), void *priv)
{
    const struct teller to = {plan, cb, priv};
    struct shape_set shapes = {{PASS_DECODE, PASS_HEAD}, 2};
    if (sequences > 1)
        shapes = shapes_of(plan_batch_shape(plan, sequences));
    shapes = shapes_add(shapes_add(shapes, PASS_ADJUST), PASS_REPORT);
    for (int kind = 0; kind < SAMPLE_KINDS; kind++)
        shapes = shapes_add(shapes, PASS_SAMPLE(kind));
    for (uint32_t i = 0; i < shapes.count; i++)
        if (!tell_body(&to, plan_body(plan, shapes.of[i]), sequences))
            return;
}

/* Returns true if the earlier set already had this text of the user. */
static bool same_text(const char *a, size_t a_len, const char *b, size_t b_len)
{
    return a_len == b_len && memcmp(a, b, a_len) == 0;
}

static bool serves_plan(const struct plan *plan, const struct kernel *kernel,
                        const struct kernel_lib *lib)
{
    for (size_t i = 0; i < plan->kernels.count; i++) {
        const struct kernel_choice *choice = &plan->kernels.uses[i]->choice;
        if (choice->kernel == kernel)
            return true;
        for (uint32_t l = 0; lib && l < choice->kernel->num_libs; l++)
            if (choice->libs[l] == lib)
                return true;
    }
    return false;
}

void plan_iterate_unused(const struct plan *plan, const struct kernel_set *before,
                         void (*cb)(void *priv, const struct kernel *kernel,
                                    const struct kernel_lib *lib),
                         void *priv)
{
    const struct kernel_set *set = plan->kernels.set;
    for (size_t i = 0; i < kernel_set_count(set); i++) {
        const struct kernel *kernel = kernel_set_at(set, i);
        const struct kernel *old = before ? kernel_set_find(before, kernel->name) : NULL;
        if (kernel->source != 0 && !serves_plan(plan, kernel, NULL) &&
            !(old && old->source != 0 &&
              same_text(old->text, old->text_len, kernel->text, kernel->text_len)))
            cb(priv, kernel, NULL);
    }
    for (size_t i = 0; i < kernel_set_num_libs(set); i++) {
        const struct kernel_lib *lib = kernel_set_lib_at(set, i);
        const struct kernel_lib *old = before ? kernel_set_lib(before, lib->name) : NULL;
        if (lib->source != 0 && !serves_plan(plan, NULL, lib) &&
            !(old && old->source != 0 &&
              kernel_set_splices(before, old) == kernel_set_splices(set, lib) &&
              same_text(old->text, old->text_len, lib->text, lib->text_len)))
            cb(priv, NULL, lib);
    }
}

enum { UNUSED_SHOWN = 4 };

struct unused {
    const struct kernel_set *set;
    struct dgl_buf list;
    size_t count;
};

static void list_unused(void *priv, const struct kernel *kernel, const struct kernel_lib *lib)
{
    struct unused *u = priv;
    if (u->count++ >= UNUSED_SHOWN)
        return;
    dgl_buf_puts(&u->list, u->count > 1 ? ", " : "");
    if (kernel)
        dgl_buf_printf(&u->list, "%s (%s, operation %s)", kernel->origin, kernel->name, kernel->op);
    else
        dgl_buf_printf(&u->list, "%s (%s, a lib%s)", lib->path, lib->name,
                       kernel_set_splices(u->set, lib) ? "" : " that no kernel splices");
}

void plan_warn_unused(const struct plan *plan, const struct kernel_set *before, const char *model)
{
    struct unused u = {.set = plan->kernels.set};
    plan_iterate_unused(plan, before, list_unused, &u);
    if (u.count > UNUSED_SHOWN)
        dgl_buf_printf(&u.list, ", ... (%zu in all)", u.count);
    if (u.count)
        dgl_warn(plan->device->log,
                 "serves no step of %s on this device: %s; `dopplergl kernels explain` tells which "
                 "kernels do",
                 model, u.list.p ? u.list.p : "a kernel file");
    dgl_buf_finish(&u.list);
}

void plan_name_users_texts(const struct plan *plan, struct dgl_buf *out)
{
    const struct kernel_table *table = &plan->kernels;
    const size_t start = out->len;
    for (size_t i = 0; i < table->count; i++) {
        const struct kernel_choice *choice = &table->uses[i]->choice;
        for (uint32_t text = 0; text <= choice->kernel->num_libs; text++) {
            const struct kernel_lib *lib = text > 0 ? choice->libs[text - 1] : NULL;
            const char *path = lib ? lib->path : choice->kernel->origin;
            struct dgl_buf item = {0};
            dgl_buf_printf(&item, "%s (%s)", lib ? lib->name : choice->kernel->name, path);
            const bool users = (lib ? lib->source : choice->kernel->source) != 0;
            if (users && item.p && (out->len == start || !strstr(out->p + start, item.p)))
                dgl_buf_printf(out, "%s%s", out->len > start ? ", " : "", item.p);
            dgl_buf_finish(&item);
        }
    }
}
