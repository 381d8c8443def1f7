/* Fused or separate operations, decided by asking for kernels for both. */
#include "core/plan/fusion.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

struct fusion_answer {
    struct kernel_request request;
    struct kernel_choice choice; /* kernel NULL: none can run */
    char why_not[192];           /* why a fused operation that asks so is not taken */
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

/* The error line of a choice that failed is the reason. */
static void take_reason(void *priv, enum dgl_log_level level, const char *text)
{
    struct fusion_answer *answer = priv;
    if (level == DGL_LOG_ERROR)
        snprintf(answer->why_not, sizeof(answer->why_not), "%s", text);
}

/* NULL: out of memory. */
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
    const struct dgl_log log = {.write = take_reason, .priv = answer, .level = DGL_LOG_ERROR};
    if (kernel_choose(&log, f->set, request, f->device->properties, f->device->num_properties,
                      &answer->choice) != DGL_OK) {
        answer->choice.kernel = NULL;
        return answer;
    }
    if (answer->choice.rank < 0)
        snprintf(answer->why_not, sizeof(answer->why_not), "%s is preferred by %lld",
                 answer->choice.kernel->name, (long long)answer->choice.rank);
    return answer;
}

/* A kernel that was asked for serves an operation from `separate` on, and the fused ones have
 * neither that nor another that was asked for. */
static const struct kernel *asked_apart(struct fusion *f, struct oplist *list, size_t fused,
                                        size_t separate)
{
    for (size_t i = separate; i < list->count; i++) {
        const struct fusion_answer *apart = ask(f, &list->ops[i].request), *one;
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
            return apart->choice.kernel;
    }
    return NULL;
}

/* The kernel of a separate operation that is preferred to that of a fused one of the same name. */
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

/* Why the fused operations cannot stay; NULL: they can. */
static const char *refusal(struct fusion *f, struct oplist *list, size_t fused, size_t separate)
{
    const struct kernel *apart = asked_apart(f, list, fused, separate);
    const struct kernel_choice *better;
    for (size_t i = fused; i < separate; i++) {
        struct fusion_answer *answer = ask(f, &list->ops[i].request);
        list->failed |= !answer;
        if (!answer)
            return NULL;
        if (apart)
            snprintf(answer->why_not, sizeof(answer->why_not), "%s is asked for", apart->name);
        if (apart)
            return answer->why_not;
        if (answer->choice.asked)
            continue;
        if (!answer->choice.kernel || answer->choice.rank < 0)
            return answer->why_not;
        better = preferred_apart(f, list, separate, &list->ops[i], &answer->choice);
        if (better) {
            snprintf(answer->why_not, sizeof(answer->why_not),
                     "%s (%lld) is preferred to %s (%lld)", better->kernel->name,
                     (long long)better->rank, answer->choice.kernel->name,
                     (long long)answer->choice.rank);
            return answer->why_not;
        }
    }
    return NULL;
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
