/* The tuner's candidates: kernels with values of their tunables. Each is a choice that a model
 * would make if it was loaded with the candidate's values as hints. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/measure/tuner.h"

void tuner_drop(struct tuner *t, size_t first)
{
    for (size_t i = first; i < t->num; i++) {
        struct candidate *c = t->candidates[i];
        for (int u = 0; u < 2; u++) {
            exec_run_destroy(&c->run[u]);
            exec_unref(&c->exec[u]);
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

/* Chooses as a model with these hints would. *fits is set if the choice follows the hints. */
static enum dgl_status choose(struct tuner *t, const struct target *target,
                              const struct kernel_request *request, const char *kernel,
                              const char *tunes, struct kernel_choice *out, bool *fits)
{
    const struct op *op = &target->pass[0].ops[0];
    const struct plan_device *device = &session_dev(t->s)->plan;
    struct kernel_set *set = NULL;
    struct dgl_buf json = {0};
    *fits = true;
    /* Hints of the tuner's layer: the kernel, and its tunables that differ from their presets. */
    struct tune_entry entry = {.key = target->key, .tunes = (char *)tunes};
    snprintf(entry.kernel, sizeof(entry.kernel), "%s", kernel);
    tune_hints_put(&entry, 1, NULL, &json);
    enum dgl_status status = json.failed ? dgl_fail_memory(t->log, "hints", json.len)
                                         : kernel_set_with_hints(t->log, t->set, KERNEL_LAYER_TUNER,
                                                                 "tuner", json.p, &set);
    if (status == DGL_OK)
        status =
            kernel_choose(t->log, set, request, device->properties, device->num_properties, out);
    if (status == DGL_OK) {
        struct dgl_str rest = dgl_str_of(tunes), part;
        *fits = strcmp(out->kernel->name, kernel) == 0 && out->num_skipped == 0 &&
                plan_check_served(NULL, op, out->kernel) == DGL_OK;
        while (*fits && dgl_str_split(&rest, ' ', &part))
            for (uint32_t i = 0; i < out->num_tunes; i++) {
                const struct kernel_var *var = &out->vars[out->num_consts + i];
                size_t len = strlen(var->name);
                int64_t value = var->value;
                if (part.len > len && memcmp(part.p, var->name, len) == 0 && part.p[len] == '=')
                    dgl_parse_i64((struct dgl_str){part.p + len + 1, part.len - len - 1}, INT64_MIN,
                                  INT64_MAX, &value);
                *fits = *fits && value == var->value;
            }
        memset(out->tune_rule, 0, sizeof(out->tune_rule)); /* they were the set's */
        memset(out->skipped, 0, sizeof(out->skipped));
        out->num_skipped = 0;
        out->rule = NULL;
    }
    kernel_set_destroy(&set);
    dgl_buf_finish(&json);
    return status;
}

/* Adds the prefill kernel for the target's weights in a candidate's layout. */
static enum dgl_status add_shared(struct tuner *t, const struct target *target,
                                  const struct kernel *kernel, const struct weight_layout *wanted,
                                  struct kernel_use **use, bool *fits)
{
    const struct plan_device *device = &session_dev(t->s)->plan;
    const struct op *op = &target->pass[1].ops[0];
    const struct weight_layout *layout;
    struct kernel_request request;
    struct kernel_choice choice;
    *fits = true;
    for (size_t i = 0; i < t->num; i++)
        if (t->candidates[i]->layout == wanted) {
            *use = t->candidates[i]->shared_use;
            return DGL_OK;
        }
    *fits = tuner_request(t, op, kernel, &request, &layout) &&
            kernel_choose(NULL, t->set, &request, device->properties, device->num_properties,
                          &choice) == DGL_OK &&
            plan_check_served(NULL, op, choice.kernel) == DGL_OK;
    return *fits ? kernel_table_add(&t->table, &request, &choice, use) : DGL_OK;
}

enum dgl_status tuner_add(struct tuner *t, const struct target *target, const char *kernel,
                          const char *tunes)
{
    const struct kernel *found = kernel_set_find(t->set, kernel);
    const struct weight_layout *layout = NULL;
    struct kernel_use *use = NULL, *shared_use = NULL;
    struct kernel_request request;
    struct kernel_choice choice;
    enum dgl_status status = DGL_OK;
    bool fits = found && t->num < TUNER_MAX_CANDIDATES &&
                tuner_request(t, &target->pass[0].ops[0], found, &request, &layout) &&
                (!layout || pass_shape_is(target->pass[0].shape, PASS_DECODE));
    if (fits)
        TRY(choose(t, target, &request, kernel, tunes, &choice, &fits));
    for (size_t i = 0; i < t->num && fits; i++) {
        const struct kernel_use same = {.choice = choice};
        fits = !kernel_use_equal(t->candidates[i]->use, &same);
    }
    if (fits && target->shares)
        TRY(add_shared(t, target, found, layout, &shared_use, &fits));
    if (fits)
        TRY(kernel_table_add(&t->table, &request, &choice, &use));
done:
    if (status != DGL_OK || !fits)
        return status;
    struct candidate *c = dgl_new(struct candidate);
    if (!c)
        return dgl_fail_memory(t->log, "a candidate", sizeof(*c));
    c->use = use;
    c->shared_use = shared_use;
    c->layout = layout;
    c->report = &t->reports[t->num];
    *c->report = (struct dgl_tune_candidate){0};
    snprintf(c->report->kernel, sizeof(c->report->kernel), "%s", kernel);
    snprintf(c->report->tunes, sizeof(c->report->tunes), "%s", tunes);
    t->candidates[t->num++] = c;
    return DGL_OK;
}

bool tune_with(const char *tunes, const char *name, int64_t value, char *out, size_t size)
{
    struct dgl_str rest = dgl_str_of(tunes), part;
    size_t len = strlen(name), used = 0;
    int n;
    out[0] = '\0';
    while (rest.len && dgl_str_split(&rest, ' ', &part)) {
        if (part.len > len && memcmp(part.p, name, len) == 0 && part.p[len] == '=')
            continue;
        n = snprintf(out + used, size - used, "%.*s ", (int)part.len, part.p);
        if (n < 0 || (size_t)n >= size - used)
            return false;
        used += (size_t)n;
    }
    n = snprintf(out + used, size - used, "%s=%lld", name, (long long)value);
    return n >= 0 && (size_t)n < size - used;
}

enum dgl_status tuner_add_neighbours(struct tuner *t, const struct target *target, size_t of)
{
    const struct candidate *c = t->candidates[of];
    const struct kernel *kernel = c->use->choice.kernel;
    char tunes[sizeof(c->report->tunes)];
    enum dgl_status status = DGL_OK;
    for (uint32_t i = 0; i < kernel->num_tunes; i++)
        for (uint32_t k = 0; k < kernel->tunes[i].num_choices && status == DGL_OK; k++)
            if (kernel->tunes[i].choices[k] !=
                    c->use->choice.vars[c->use->choice.num_consts + i].value &&
                tune_with(c->report->tunes, kernel->tunes[i].name, kernel->tunes[i].choices[k],
                          tunes, sizeof(tunes)))
                status = tuner_add(t, target, kernel->name, tunes);
    return status;
}

enum dgl_status tuner_add_variants(struct tuner *t, const struct target *target)
{
    const struct kernel *first = t->candidates[0]->use->choice.kernel;
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < kernel_set_count(t->set) && status == DGL_OK; i++) {
        const struct kernel *kernel = kernel_set_at(t->set, i);
        if (kernel != first && strcmp(kernel->op, first->op) == 0 && kernel->f16 == first->f16)
            status = tuner_add(t, target, kernel->name, "");
    }
    return status;
}
