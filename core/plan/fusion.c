/* Chooses fused or separate operations by choosing kernels for both. */
#include "core/plan/fusion.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

struct fusion_answer {
    struct kernel_request request;
    struct kernel_choice choice; /* kernel is NULL if no kernel can run */
    char why_not[192];           /* reason why a fused operation with this request is not chosen */
    /* a hint or a user's file for it changed the choice of operations */
    bool decides;
};

void fusion_init(struct fusion *fusion, const struct plan_device *device, struct kernel_set *set)
{
    *fusion = (struct fusion){.device = device, .set = kernel_set_ref(set)};
}

void fusion_finish(struct fusion *fusion)
{
    for (size_t i = 0; i < fusion->count; i++)
        free(fusion->answers[i]);
    free(fusion->answers);
    kernel_set_destroy(&fusion->set);
    *fusion = (struct fusion){0};
}

/* Returns NULL if memory runs out. */
static struct fusion_answer *ask(struct fusion *f, const struct kernel_request *request)
{
    for (size_t i = 0; i < f->count; i++)
        if (kernel_request_equal(&f->answers[i]->request, request))
            return f->answers[i];
    struct fusion_answer *answer = dgl_new(struct fusion_answer);
    if (!answer || !dgl_grow((void **)&f->answers, &f->cap, f->count + 1, sizeof(*f->answers))) {
        free(answer);
        return NULL;
    }
    f->answers[f->count++] = answer;
    answer->request = *request;
    struct dgl_error error = {""};
    const struct dgl_log log = {.error = &error};
    if (kernel_choose(&log, f->set, request, f->device->properties, f->device->num_properties,
                      &answer->choice) != DGL_OK) {
        answer->choice.kernel = NULL;
        snprintf(answer->why_not, sizeof(answer->why_not), "%.*s", (int)sizeof(answer->why_not) - 1,
                 error.text);
        return answer;
    }
    if (answer->choice.rank < 0)
        snprintf(answer->why_not, sizeof(answer->why_not), "%s is preferred by %lld",
                 answer->choice.kernel->name, (long long)answer->choice.rank);
    return answer;
}

/* Finds a requested kernel that serves an operation from `separate` on, if the fused operations use
 * neither it nor another requested kernel. */
static struct fusion_answer *asked_apart(struct fusion *f, struct oplist *list, size_t fused,
                                         size_t separate)
{
    for (size_t i = separate; i < list->count; i++) {
        struct fusion_answer *apart = ask(f, &list->ops[i].request), *one;
        bool serves_fused = false;
        list->failed |= !apart;
        if (!apart || !apart->choice.kernel || !apart->choice.asked)
            continue;
        for (size_t j = fused; j < separate && !serves_fused; j++) {
            one = ask(f, &list->ops[j].request);
            list->failed |= !one;
            serves_fused = one && one->choice.kernel &&
                           (one->choice.asked || one->choice.kernel == apart->choice.kernel);
        }
        if (!serves_fused)
            return apart;
    }
    return NULL;
}

/* Returns the kernel of a separate operation that is preferred over that of a fused operation of
 * the same name, or NULL. */
static const struct kernel_choice *preferred_apart(struct fusion *f, struct oplist *list,
                                                   size_t separate, const struct op *op,
                                                   const struct kernel_choice *fused)
{
    for (size_t i = separate; i < list->count; i++) {
        if (strcmp(list->ops[i].request.op, op->request.op) != 0)
            continue;
        const struct fusion_answer *apart = ask(f, &list->ops[i].request);
        list->failed |= !apart;
        if (apart && apart->choice.kernel && apart->choice.rank > fused->rank)
            return &apart->choice;
    }
    return NULL;
}

/* Returns true if every separate operation has a kernel that fits the device's registers. */
static bool fits_apart(struct fusion *f, struct oplist *list, size_t separate)
{
    for (size_t i = separate; i < list->count; i++) {
        const struct fusion_answer *apart = ask(f, &list->ops[i].request);
        list->failed |= !apart;
        if (!apart || !apart->choice.kernel || apart->choice.spills > 0)
            return false;
    }
    return true;
}

/* Returns the reason, stored in its answer, why a fused operation would not stay by itself, or NULL
 * if it would. */
static const char *weakness(struct fusion *f, struct oplist *list, size_t separate,
                            const struct op *op, struct fusion_answer *answer)
{
    const struct kernel_choice *choice = &answer->choice;
    if (!choice->kernel || choice->rank < 0)
        return answer->why_not;
    if (choice->spills > 0 && fits_apart(f, list, separate)) {
        snprintf(answer->why_not, sizeof(answer->why_not),
                 "%s would spill: it needs %lld registers", choice->kernel->name,
                 (long long)choice->registers);
        return answer->why_not;
    }
    const struct kernel_choice *better = preferred_apart(f, list, separate, op, choice);
    if (better)
        snprintf(answer->why_not, sizeof(answer->why_not), "%s (%lld) is preferred to %s (%lld)",
                 better->kernel->name, (long long)better->rank, choice->kernel->name,
                 (long long)choice->rank);
    return better ? answer->why_not : NULL;
}

/* Returns the reason why the fused operations cannot stay, or NULL if they can. */
static const char *refusal(struct fusion *f, struct oplist *list, size_t fused, size_t separate)
{
    struct fusion_answer *apart = asked_apart(f, list, fused, separate), *answer = NULL;
    const char *why_not = NULL;
    for (size_t i = fused; i < separate; i++) {
        const struct op *op = &list->ops[i];
        answer = ask(f, &op->request);
        list->failed |= !answer;
        if (!answer)
            return NULL;
        const char *weak = weakness(f, list, separate, op, answer);
        const struct kernel_choice *better =
            preferred_apart(f, list, separate, op, &answer->choice);
        if (answer->choice.asked && !(better && better->asked))
            answer->decides = answer->decides || (weak && !apart);
        else if (!why_not)
            why_not = weak;
    }
    if (!apart)
        return why_not;
    apart->decides = apart->decides || !why_not;
    snprintf(answer->why_not, sizeof(answer->why_not), "%s is asked for",
             apart->choice.kernel->name);
    return answer->why_not;
}

bool fusion_was_decided(const struct fusion *fusion, const struct kernel_request *request)
{
    for (size_t i = 0; i < fusion->count; i++)
        if (kernel_request_equal(&fusion->answers[i]->request, request))
            return fusion->answers[i]->decides;
    return false;
}

bool fusion_keep(struct fusion *fusion, struct oplist *list, size_t fused, size_t separate)
{
    const char *why_not = NULL;
    if (list->failed)
        return false;
    assert(fused < separate && separate < list->count);
    if (fusion) {
        why_not = refusal(fusion, list, fused, separate);
        if (!why_not && !list->failed) {
            list->count = separate;
            return true;
        }
        list->ops[separate].unfused = why_not;
    }
    memmove(&list->ops[fused], &list->ops[separate], (list->count - separate) * sizeof(*list->ops));
    list->count -= separate - fused;
    return false;
}
