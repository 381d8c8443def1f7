/* Report of hints: hints that were passed over, manifest defaults that decide, f16 that is slow on
 * this device, and unused hints, which are refused under `strict`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/plan/plan.h"

/* Returns true if one of the first `count` kernels has passed over the same hint (the text up to
 * WHY). */
static bool is_told(const struct plan *plan, size_t count, const char *text)
{
    const size_t head = strcspn(text, ":");
    for (size_t i = 0; i < count; i++) {
        const struct kernel_choice *choice = &plan->kernels.uses[i]->choice;
        for (uint32_t f = 0; f < choice->num_fallbacks; f++)
            if (strcspn(choice->fallbacks[f].text, ":") == head &&
                memcmp(choice->fallbacks[f].text, text, head) == 0)
                return true;
    }
    return false;
}

/* Notes each hint that was passed over, one line each, with its first request. */
static void note_fallbacks(const struct plan *plan, const struct dgl_log *notes)
{
    for (size_t i = 0; i < plan->kernels.count; i++) {
        const struct kernel_use *use = plan->kernels.uses[i];
        for (uint32_t f = 0; f < use->choice.num_fallbacks; f++)
            if (!is_told(plan, i, use->choice.fallbacks[f].text))
                dgl_notice(notes, "%s: %s", use->request.op, use->choice.fallbacks[f].text);
    }
}

/* Adds "KEY=VALUE" to a list unless it is there. */
static void add_once(struct dgl_buf *list, const char *text)
{
    struct dgl_str rest = {list->p, list->len}, item;
    while (list->p && dgl_str_split(&rest, ' ', &item))
        if (dgl_str_eq(item, text))
            return;
    dgl_buf_printf(list, "%s%s", list->len ? " " : "", text);
}

/* Notes all deciding defaults of a manifest in one line: they may cause most of a slowdown. */
static void note_defaults(const struct plan *plan, const struct dgl_log *notes, const char *model,
                          bool q4_k_expanded)
{
    struct dgl_buf list = {0};
    const char *origin = NULL;
    const char *q4k = kernel_set_hint(plan->kernels.set, "q4kMatmul", &origin);
    char text[320];
    if (q4_k_expanded && origin && strcmp(origin, KERNEL_MANIFEST_ORIGIN) == 0) {
        snprintf(text, sizeof(text), "q4kMatmul=%s", q4k);
        add_once(&list, text);
    }
    for (size_t i = 0; i < plan->kernels.count; i++) {
        const struct kernel_choice *choice = &plan->kernels.uses[i]->choice;
        const bool fuses = choice->hint.key && choice->hint.layer == KERNEL_LAYER_MANIFEST &&
                           fusion_was_decided(&plan->fusion, &plan->kernels.uses[i]->request);
        if (choice->hint.decides || fuses) {
            snprintf(text, sizeof(text), "%s=%s", choice->hint.key, choice->hint.value);
            add_once(&list, text);
        }
        for (uint32_t t = 0; t < choice->num_tunes; t++)
            if (strcmp(choice->tune_origin[t], KERNEL_MANIFEST_ORIGIN) == 0) {
                snprintf(text, sizeof(text), "%s=%s", choice->tune_hint[t].key,
                         choice->tune_hint[t].value);
                add_once(&list, text);
            }
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
        if (!choice->kernel || !choice->kernel->f16 || !choice->hint.key)
            continue;
        dgl_notice(notes,
                   "%s: hint %s=%s (%s) has products computed in f16, several times slower than in "
                   "f32 on a software renderer; --compute-precision f32 undoes it",
                   plan->kernels.uses[i]->request.op, choice->hint.key, choice->hint.value,
                   choice->hint.origin);
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

enum dgl_status plan_check_hints(struct plan *plan, const char *model, bool q4_k_expanded)
{
    const struct dgl_log notes = {.write = take_note, .priv = plan, .level = DGL_LOG_NOTICE};
    const struct kernel_table *kernels = &plan->kernels;
    const struct kernel_request **requests =
        dgl_new_array(const struct kernel_request *, kernels->count);
    const struct kernel_choice **choices =
        dgl_new_array(const struct kernel_choice *, kernels->count);
    enum dgl_status status = DGL_OK;
    if (!requests || !choices)
        status = dgl_fail_memory(plan->device->log, "the requests of a plan", kernels->count);
    for (size_t i = 0; i < kernels->count && status == DGL_OK; i++) {
        requests[i] = &kernels->uses[i]->request;
        choices[i] = &kernels->uses[i]->choice;
    }
    if (status == DGL_OK)
        status = kernel_set_check_heard(&notes, kernels->set, requests, choices, kernels->count,
                                        q4_k_expanded);
    free(requests);
    free(choices);
    if (status != DGL_OK)
        return status;
    note_fallbacks(plan, &notes);
    note_defaults(plan, &notes, model, q4_k_expanded);
    note_slow_f16(plan, &notes);
    return plan->hint_notes.failed
               ? dgl_fail_memory(plan->device->log, "notes on hints", plan->hint_notes.len)
               : DGL_OK;
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
