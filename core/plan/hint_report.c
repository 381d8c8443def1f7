/* Report of hints: hints that were passed over, manifest defaults that decide, f16 that is slow on
 * this device, and unused hints, which are refused under `strict`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/plan/plan.h"

/* Notes each hint that was skipped, one line each, with its first request. */
static void note_skipped(const struct plan *plan, const struct dgl_log *notes)
{
    for (size_t i = 0; i < plan->kernels.count; i++) {
        const struct kernel_use *use = plan->kernels.uses[i];
        for (uint32_t s = 0; s < use->choice.num_skipped; s++) {
            const struct kernel_skip *skip = &use->choice.skipped[s];
            bool told = false;
            for (size_t j = 0; j < i && !told; j++) {
                const struct kernel_choice *other = &plan->kernels.uses[j]->choice;
                for (uint32_t o = 0; o < other->num_skipped && !told; o++)
                    told = other->skipped[o].why == skip->why &&
                           memcmp(other->skipped[o].text, skip->text, skip->why) == 0;
            }
            if (!told)
                dgl_notice(notes, "%s: %s", use->request.op, skip->text);
        }
    }
}

static void add_rule(struct dgl_buf *list, const struct kernel_rule *rule)
{
    char text[320];
    snprintf(text, sizeof(text), "%s=%s", rule->key, rule->value);
    dgl_buf_add_word(list, 0, dgl_str_of(text));
}

/* Notes all deciding defaults of a manifest in one line: they may cause most of a slowdown. */
static void note_defaults(const struct plan *plan, const struct dgl_log *notes, const char *model)
{
    struct dgl_buf list = {0};
    const char *origin = NULL;
    const char *q4k = kernel_set_hint(plan->kernels.set, "q4kMatmul", &origin);
    if (plan->weights->expands_q4_k && origin && strcmp(origin, KERNEL_MANIFEST_ORIGIN) == 0)
        add_rule(&list, &(const struct kernel_rule){.key = "q4kMatmul", .value = q4k});
    for (size_t i = 0; i < plan->kernels.count; i++) {
        const struct kernel_choice *choice = &plan->kernels.uses[i]->choice;
        const bool fuses = choice->rule && choice->rule->layer == KERNEL_LAYER_MANIFEST &&
                           fusion_was_decided(&plan->fusion, &plan->kernels.uses[i]->request);
        if (choice->decides || fuses)
            add_rule(&list, choice->rule);
        for (uint32_t t = 0; t < choice->num_tunes; t++)
            if (choice->tune_rule[t] && choice->tune_rule[t]->layer == KERNEL_LAYER_MANIFEST)
                add_rule(&list, choice->tune_rule[t]);
    }
    if (list.len)
        dgl_notice(notes,
                   "%s: default hints of its manifest decide over kernels: %s; a hint of yours, as "
                   "auto, beats them",
                   model, list.p);
    dgl_buf_finish(&list);
}

/* Notes once that products use f16 on a renderer without f16 arithmetic: it converts each factor
 * and computes in f32. */
static void note_slow_f16(const struct plan *plan, const struct dgl_log *notes)
{
    for (size_t i = 0; plan->device->on_host && i < plan->kernels.count; i++) {
        const struct kernel_choice *choice = &plan->kernels.uses[i]->choice;
        if (!choice->kernel || !choice->kernel->f16 || !choice->rule)
            continue;
        dgl_notice(notes,
                   "%s: hint %s has products computed in f16, several times slower than in f32 on "
                   "a software renderer; --compute-precision f32 undoes it",
                   plan->kernels.uses[i]->request.op, choice->rule->said);
        return;
    }
}

static void take_note(void *priv, enum dgl_log_level level, const char *text)
{
    struct plan *plan = priv;
    if (level == DGL_LOG_ERROR)
        dgl_logf(plan->device->log, level, "%s", text);
    else
        dgl_buf_printf(&plan->hint_notes, "%s\n", text);
}

enum dgl_status plan_check_hints(struct plan *plan, const char *model)
{
    const struct dgl_log notes = {.write = take_note, .priv = plan, .level = DGL_LOG_NOTICE};
    const struct kernel_table *kernels = &plan->kernels;
    struct kernel_step *steps = dgl_new_array(struct kernel_step, kernels->count);
    enum dgl_status status = DGL_OK;
    if (!steps)
        TRY(dgl_fail_memory(plan->device->log, "the steps of a plan",
                            kernels->count * sizeof(*steps)));
    for (size_t i = 0; i < kernels->count; i++)
        steps[i] = (struct kernel_step){&kernels->uses[i]->request, &kernels->uses[i]->choice};
    TRY(kernel_set_check_unused(&notes, kernels->set, steps, kernels->count,
                                plan->weights->expands_q4_k));
    note_skipped(plan, &notes);
    note_defaults(plan, &notes, model);
    note_slow_f16(plan, &notes);
    if (plan->hint_notes.failed)
        status = dgl_fail_memory(plan->device->log, "notes on hints", plan->hint_notes.len);
done:
    free(steps);
    return status;
}

void plan_tell_hints(const struct plan *plan, const struct plan *before)
{
    struct dgl_str rest = {plan->hint_notes.p, plan->hint_notes.len}, line, other;
    while (rest.len && dgl_str_split(&rest, '\n', &line)) {
        struct dgl_str old =
            before ? (struct dgl_str){before->hint_notes.p, before->hint_notes.len} : DGL_STR("");
        bool told = false;
        while (old.len && !told && dgl_str_split(&old, '\n', &other))
            told = line.len == other.len && memcmp(line.p, other.p, line.len) == 0;
        if (!told)
            dgl_notice(plan->device->log, "%.*s", (int)line.len, line.p);
    }
}
