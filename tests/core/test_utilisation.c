/* Share of the launched invocations that have work: more than half in every step of every published
 * shape, on each simulated device. Otherwise the kernel's comment must state the reason, in a line
 * that begins with "Utilisation:". */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "tests/support/kernel_sets.h"
#include "tests/support/planned.h"

#define CONFIGS "tests/models/configs"

static struct kernel_set *builtin;

struct tally {
    const char *device, *config;
    size_t steps;
    char faults[4096];
    size_t len;
};

static bool look(void *priv, const struct dgl_plan_step *step)
{
    struct tally *t = priv;
    const struct kernel *kernel = kernel_set_find(builtin, step->kernel->name);
    t->steps++;
    assert_non_null(kernel);
    if (step->layer > 0 && t->len > 0)
        return true; /* the first layer has been reported */
    if (step->launched &&
        (2 * step->active > step->launched || strstr(kernel->text, "Utilisation:")))
        return true;
    if (t->len < sizeof(t->faults))
        t->len +=
            (size_t)snprintf(t->faults + t->len, sizeof(t->faults) - t->len,
                             "%s, %s: %s (%s) of %d tokens by %s: %llu of %llu\n", t->config,
                             t->device, step->op, step->shape, step->tokens, step->kernel->name,
                             (unsigned long long)step->active, (unsigned long long)step->launched);
    return t->len < sizeof(t->faults);
}

static void shape_keeps_invocations_busy(void **state)
{
    const char *config = *(const char *const *)*state;
    for (int device = 0; device < MADE_DEVICES; device++) {
        char path[128];
        struct planned p;
        struct tally t = {.device = made_device_names[device], .config = config};
        snprintf(path, sizeof(path), CONFIGS "/%s.json", config);
        planned_open(
            &p,
            &(struct shape_model_params){
                .config = path, .quantize = strncmp(config, "gpt-oss", 7) == 0 ? NULL : "q4_k_m"},
            (enum made_device)device, builtin);
        plan_iterate(&p.plan, look, &t);
        planned_close(&p);
        assert_true(t.steps > 20);
        assert_string_equal(t.faults, "");
    }
}

int main(void)
{
    static const struct {
        const char *name;
    } rows[] = {{"llama-3.2-1b"}, {"llama-3.1-8b"}, {"qwen2.5-1.5b"},
                {"qwen3-0.6b"},   {"gemma-2-9b"},   {"gemma-3-1b"},
                {"phi-3.5-mini"}, {"mixtral-8x7b"}, {"gpt-oss-20b"}};
    if (kernel_set_create(NULL, NULL, &builtin) != DGL_OK)
        return 1;
    int failures = test_run_table("shapes", shape_keeps_invocations_busy, rows);
    kernel_set_destroy(&builtin);
    return failures;
}
