/* Work groups of a chosen kernel: group counts of a dispatch, invocations with work, and tunables
 * for the group sizes that hints or an executor request. */
#include "kernels/set/kernel_fit.h"

#include <stdio.h>
#include <string.h>

#include "kernels/format/kernel_format.h"

#define WHY_SIZE      192
#define GROUPS_YZ_MAX 65535 /* GLES 3.1 minimum for y and z */

/* ---- rules for tunables and work groups ------------------------------------------------------ */

uint32_t kernel_fit_rules(const struct kernel_fit *fit, const struct kernel *kernel,
                          const struct kernel_rule *out[KERNEL_MAX_TUNES + 2])
{
    const struct kernel_hints *hints = kernel_set_hints(fit->set);
    const size_t end = fit->apply == KERNEL_APPLY_NONE ? 0 : hints->count;
    uint32_t count = 0;
    memset(out, 0, (KERNEL_MAX_TUNES + 2) * sizeof(*out));
    for (size_t i = 0; i < end; i++) {
        const struct kernel_rule *rule = &hints->items[i];
        uint32_t at = 0;
        if (rule->kind < KERNEL_RULE_TUNE || (rule->kernel && strcmp(rule->kernel, kernel->name)) ||
            (rule->soft && fit->apply == KERNEL_APPLY_HARD))
            continue;
        while (at < kernel->num_tunes &&
               (!rule->tune || strcmp(rule->tune, kernel->tunes[at].name) != 0))
            at++;
        at += rule->kind == KERNEL_RULE_COLUMNS;
        if (!out[at] && kernel_rule_matches(fit->set, rule, fit->request))
            out[at] = rule;
    }
    for (uint32_t at = 0; at < kernel->num_tunes + 2; at++) {
        out[at] = out[at] && out[at]->automatic ? NULL : out[at];
        count += out[at] != NULL;
    }
    return count;
}

/* Returns true if one group computes exactly `cols` rows of weights. */
static bool has_cols(const struct kernel_choice *choice, int64_t cols)
{
    uint32_t one[3], two[3];
    return kernel_groups_band(choice, 1, cols, GROUPS_YZ_MAX, one) &&
           kernel_groups_band(choice, 1, cols + 1, GROUPS_YZ_MAX, two) &&
           one[0] * one[1] * one[2] == 1 && two[0] * two[1] * two[2] == 2;
}

static bool has_shape(const struct kernel_rule *local, const struct kernel_rule *columns,
                      const struct kernel_choice *choice)
{
    return (!local || memcmp(choice->local, local->number, sizeof(choice->local)) == 0) &&
           (!columns || has_cols(choice, columns->number[0]));
}

/* Tries other values of `more` tunables, starting at index `first`, until the choice has the shape.
 * Skips tunables that rules decide. */
static bool try_tunes(struct kernel_fit *fit, const struct kernel *kernel,
                      const struct kernel_rule *const *rules, uint32_t first, uint32_t more,
                      struct kernel_choice *out, int64_t *rank)
{
    const struct kernel_rule *const *shape = &rules[kernel->num_tunes];
    char why[WHY_SIZE];
    for (uint32_t i = first; i < kernel->num_tunes; i++) {
        const struct kernel_tune *tune = &kernel->tunes[i];
        if (rules[i])
            continue;
        const uint32_t at = fit->num_forced++;
        for (uint32_t j = 0; j < tune->num_choices; j++) {
            fit->forced[at] = (struct kernel_var){tune->name, tune->choices[j]};
            if (more > 1 ? try_tunes(fit, kernel, rules, i + 1, more - 1, out, rank)
                         : kernel_fit_try(fit, kernel, out, rank, why) &&
                               has_shape(shape[0], shape[1], out))
                return true;
        }
        fit->num_forced--;
    }
    return false;
}

bool kernel_fit_hinted(const struct kernel_fit *fit, const struct kernel *kernel,
                       struct kernel_choice *out, int64_t *rank, char why[WHY_SIZE])
{
    const struct kernel_rule *rules[KERNEL_MAX_TUNES + 2];
    kernel_fit_rules(fit, kernel, rules);
    const struct kernel_rule *local = rules[kernel->num_tunes];
    const struct kernel_rule *columns = rules[kernel->num_tunes + 1];
    const struct kernel_rule *shape = local ? local : columns;
    struct kernel_fit other = *fit;
    const bool fits = kernel_fit_try(fit, kernel, out, rank, why);
    if (!shape || (fits && has_shape(local, columns, out)))
        return fits;
    if (!kernel_serves(kernel, fit->request))
        return false;
    if (fits)
        snprintf(why, WHY_SIZE, "no two of its tunables give it the work groups of %s=%s",
                 shape->key, shape->value);
    if (!try_tunes(&other, kernel, rules, 0, 1, out, rank) &&
        !try_tunes(&other, kernel, rules, 0, 2, out, rank))
        return false;
    for (uint32_t i = 0; i < kernel->num_tunes; i++)
        if (kernel_find_var(other.forced, other.num_forced, kernel->tunes[i].name))
            out->tune_rule[i] = shape;
    return true;
}

static bool is_sized(const struct kernel_choice *choice, uint32_t local)
{
    return choice->local[0] == local && choice->local[1] * choice->local[2] == 1;
}

bool kernel_choice_resize(const struct kernel_set *set, const struct kernel_request *request,
                          const struct kernel_var *device, size_t num_device,
                          const struct kernel_choice *choice, uint32_t local,
                          struct kernel_choice *out)
{
    const struct kernel *kernel = choice->kernel;
    struct kernel_fit fit = {.set = set,
                             .request = request,
                             .device = device,
                             .num_device = num_device,
                             .apply = choice->applies,
                             .num_forced = choice->num_tunes};
    const struct kernel_rule *rules[KERNEL_MAX_TUNES + 2];
    kernel_fit_rules(&fit, kernel, rules);
    const bool shaped = rules[kernel->num_tunes] || rules[kernel->num_tunes + 1];
    const char *size = NULL; /* the tunable of the group size, which changes no sum */
    char why[WHY_SIZE];
    int64_t rank;
    for (uint32_t i = 0; i < choice->num_tunes; i++) {
        fit.forced[i] = choice->vars[choice->num_consts + i];
        if (strcmp(kernel->tunes[i].name, "WG_SIZE") == 0 ||
            (!size && strcmp(kernel->tunes[i].name, "SETS") == 0))
            size = kernel->tunes[i].name;
    }
    if (kernel_fit_try(&fit, kernel, out, &rank, why) && is_sized(out, local))
        return true;
    for (uint32_t i = 0; i < kernel->num_tunes; i++) {
        const struct kernel_tune *tune = &kernel->tunes[i];
        const int64_t before = fit.forced[i].value;
        /* Tunables with a hard rule keep their values. */
        if (shaped || (rules[i] && !rules[i]->soft) || (size && strcmp(tune->name, size) != 0))
            continue;
        for (uint32_t j = 0; j < tune->num_choices; j++) {
            fit.forced[i].value = tune->choices[j];
            if (kernel_fit_try(&fit, kernel, out, &rank, why) && is_sized(out, local))
                return true;
        }
        fit.forced[i].value = before;
    }
    return false;
}

/* ---- group counts ---------------------------------------------------------------------------- */

/* Sets the variables of a dispatch. Returns their number. */
static size_t dispatch_vars(const struct kernel_choice *choice, int64_t tokens, int64_t rows,
                            struct kernel_var vars[KERNEL_MAX_VARS + 2])
{
    memcpy(vars, choice->vars, choice->num_vars * sizeof(*vars));
    vars[choice->num_vars] = (struct kernel_var){"T", tokens};
    vars[choice->num_vars + 1] = (struct kernel_var){"BAND", rows};
    return choice->num_vars + 2;
}

/* Evaluates an expression of a dispatch. Returns true and keeps *out if there is none. */
static bool eval_dispatch(const struct kernel_choice *choice, const struct kernel_expr *expr,
                          int64_t tokens, int64_t rows, int64_t *out)
{
    struct kernel_var vars[KERNEL_MAX_VARS + 2];
    const size_t num_vars = dispatch_vars(choice, tokens, rows, vars);
    const char *bad;
    return !expr || kernel_expr_eval(expr, vars, num_vars, out, &bad);
}

bool kernel_groups_band(const struct kernel_choice *choice, int64_t tokens, int64_t rows,
                        uint32_t max_x, uint32_t groups[3])
{
    int64_t count[2] = {1, 1};
    for (int i = 0; i < 2; i++)
        if (!eval_dispatch(choice, choice->kernel->groups[i], tokens, rows, &count[i]) ||
            count[i] < 1)
            return false;
    if (max_x == 0 || count[1] > GROUPS_YZ_MAX || count[0] > (int64_t)max_x * GROUPS_YZ_MAX)
        return false;
    int64_t z = (count[0] + max_x - 1) / max_x;
    groups[0] = (uint32_t)((count[0] + z - 1) / z);
    groups[1] = (uint32_t)count[1];
    groups[2] = (uint32_t)z;
    return true;
}

void kernel_groups_refusal(const struct kernel_choice *choice, int64_t tokens, int64_t rows,
                           uint32_t max_x, char why[WHY_SIZE])
{
    const int64_t most[2] = {(int64_t)max_x * GROUPS_YZ_MAX, GROUPS_YZ_MAX};
    struct kernel_var vars[KERNEL_MAX_VARS + 2];
    const size_t num_vars = dispatch_vars(choice, tokens, rows, vars);
    why[0] = '\0';
    for (int i = 0; i < 2 && !why[0]; i++) {
        const struct kernel_expr *expr = choice->kernel->groups[i];
        int64_t count = 1;
        const char *bad = NULL;
        if (!expr)
            continue;
        const struct kernel_values values = kernel_values_of(expr, vars, num_vars);
        if (!kernel_expr_eval(expr, vars, num_vars, &count, &bad))
            snprintf(why, WHY_SIZE, "GROUPS %c cannot be evaluated: %s%s", "xy"[i], bad,
                     values.text);
        else if (count < 1 || count > most[i])
            snprintf(why, WHY_SIZE, "GROUPS %c comes to %lld%s: wanted 1 to %lld", "xy"[i],
                     (long long)count, values.text, (long long)most[i]);
    }
}

bool kernel_invocations(const struct kernel_choice *choice, int64_t tokens, int64_t rows,
                        uint32_t max_x, uint64_t *launched, uint64_t *active)
{
    int64_t count[2] = {1, 1}, work = 0;
    uint32_t groups[3];
    const uint64_t local =
        (uint64_t)choice->local[0] * (uint64_t)choice->local[1] * (uint64_t)choice->local[2];
    if (!kernel_groups_band(choice, tokens, rows, max_x, groups))
        return false;
    *launched = (uint64_t)groups[0] * groups[1] * groups[2] * local;
    for (int i = 0; i < 2; i++)
        eval_dispatch(choice, choice->kernel->groups[i], tokens, rows, &count[i]);
    *active = (uint64_t)count[0] * (uint64_t)count[1] * local;
    if (!choice->kernel->active)
        return true;
    if (!eval_dispatch(choice, choice->kernel->active, tokens, rows, &work) || work < 0)
        return false;
    *active = (uint64_t)work < *active ? (uint64_t)work : *active;
    return true;
}

bool kernel_active_refusal(const struct kernel_choice *choice, int64_t tokens, int64_t rows,
                           char why[WHY_SIZE])
{
    const struct kernel_expr *expr = choice->kernel->active;
    struct kernel_var vars[KERNEL_MAX_VARS + 2];
    const size_t num_vars = dispatch_vars(choice, tokens, rows, vars);
    int64_t work = 0;
    const char *bad = NULL;
    if (!expr || (kernel_expr_eval(expr, vars, num_vars, &work, &bad) && work >= 0))
        return false;
    const struct kernel_values values = kernel_values_of(expr, vars, num_vars);
    if (bad)
        snprintf(why, WHY_SIZE, "ACTIVE cannot be evaluated: %s%s", bad, values.text);
    else
        snprintf(why, WHY_SIZE, "ACTIVE comes to %lld%s: wanted 0 or more", (long long)work,
                 values.text);
    return true;
}
