/* Compares the plan under each --limits profile on this machine's device with the plan on the
 * chip's own driver: kernels, tunables and work groups must be the same. DOPPLERGL_SHIMS names the
 * folder of Mesa's drivers with drm-shim (docs/testing.md). Without it the cases are skipped. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "tests/support/process.h"

struct chip {
    const char *name; /* of the profile */
    const char *chip; /* argument of tests/devices/over.sh */
    /* A kernel whose tunables may differ, because software renderers have less shared memory; may
     * be NULL. */
    const char *smaller;
};
static const struct chip chips[] = {
    {"v3d", "v3d42", NULL},
    {"mali-g52", "g52", NULL},
    {"adreno-630", "a630", NULL},
    {"intel-skl", "skl", "attn_prefill_tiled"},
};

/* Returns the plan as text, with one line per step. */
static char *steps_of(const struct process_params *p, const char *smaller)
{
    static const char *const words[] = {"phase", "step", "shape", "name"};
    struct process_result r;
    struct dgl_buf text = {0};
    process_run(p, &r);
    assert_code(&r, 0);
    const struct dgl_json *step = dgl_json_first(process_json(&r));
    for (; step; step = dgl_json_next(step)) {
        const char *name = dgl_json_str(dgl_json_get(step, "name")).p;
        for (size_t i = 0; i < 4; i++)
            dgl_buf_printf(&text, "%s ", dgl_json_str(dgl_json_get(step, words[i])).p);
        const struct dgl_json *tune = dgl_json_first(dgl_json_get(step, "tunables"));
        for (; tune && (!smaller || strcmp(name, smaller) != 0); tune = dgl_json_next(tune)) {
            int64_t value = 0;
            dgl_json_i64(dgl_json_get(tune, "value"), &value);
            dgl_buf_printf(&text, " %s=%lld", dgl_json_str(dgl_json_get(tune, "name")).p,
                           (long long)value);
        }
        dgl_buf_putc(&text, '\n');
    }
    process_finish(&r);
    return dgl_buf_take(&text);
}

static void profile_plans_as_the_chip(void **state)
{
    const struct chip *c = *state;
    if (!getenv("DOPPLERGL_SHIMS"))
        SKIP("DOPPLERGL_SHIMS is not set");
    const char *const here[] = {"kernels", "explain",  "--json", "--device",
                                "any",     "--limits", c->name,  NULL};
    const char *const there[] = {c->chip, process_program(), "kernels", "explain", "--json", NULL};
    char *got = steps_of(&(struct process_params){.args = here}, c->smaller);
    char *want = steps_of(
        &(struct process_params){.program = "tests/devices/over.sh", .args = there}, c->smaller);
    assert_string_equal(got, want);
    free(got);
    free(want);
}

int main(void)
{
    return test_run_table("profiles", profile_plans_as_the_chip, chips);
}
