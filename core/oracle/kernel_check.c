/* Which cases a kernel is tried on, and the verdict. */
#include "core/oracle/kernel_check.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/oracle/crowd.h"
#include "core/oracle/kernel_run.h"
#include "core/oracle/op_problem.h"
#include "core/oracle/ref_ops.h"
#include "core/plan/kernel_table.h"
#include "core/plan/weight_layout.h"
#include "kernels/format/kernel_format.h"
#include "kernels/set/kernel_fit.h"

enum {
    MAX_SEEN = 32,   /* libs of a kernel that are not built in */
    CROWD_CASES = 3, /* cases of a kernel that can serve several sequences */
};

struct kernel_judge {
    struct kernel_judge_params params;
    struct kernel_runner runner;
    struct kernel_set *builtin; /* for stages of other kernels; created on demand */
};

enum dgl_status kernel_judge_create(const struct kernel_judge_params *params,
                                    struct kernel_judge **out)
{
    struct kernel_judge *judge = dgl_new(struct kernel_judge);
    *out = judge;
    if (!judge)
        return dgl_fail_memory(params->dev->log, "judge of kernels", sizeof(*judge));
    *judge = (struct kernel_judge){.params = *params,
                                   .runner = {.dev = params->dev,
                                              .inspect = params->inspect,
                                              .inspect_priv = params->priv,
                                              .go_on = params->go_on,
                                              .go_on_priv = params->priv}};
    kernel_set_ref(params->set);
    return DGL_OK;
}

void kernel_judge_destroy(struct kernel_judge **judge)
{
    if (!*judge)
        return;
    kernel_runner_finish(&(*judge)->runner);
    kernel_set_destroy(&(*judge)->params.set);
    kernel_set_destroy(&(*judge)->builtin);
    free(*judge);
    *judge = NULL;
}

void kernel_judge_set(struct kernel_judge *judge, struct kernel_set *set)
{
    struct kernel_set *old = judge->params.set;
    judge->params.set = kernel_set_ref(set);
    kernel_set_destroy(&old);
}

void kernel_judge_forget(struct kernel_judge *judge)
{
    kernel_runner_forget(&judge->runner);
}

const struct dgl_log *kernel_judge_log(const struct kernel_judge *judge)
{
    return judge->params.dev->log;
}

bool kernel_judge_knows(const char *op)
{
    return op_rule_find(op) != NULL;
}

/* ---- one case -------------------------------------------------------------------------------- */

static enum dgl_status go_on(const struct kernel_judge *judge)
{
    const struct kernel_judge_params *p = &judge->params;
    return !p->go_on || p->go_on(p->priv) ? DGL_OK : DGL_ERR_CANCELLED;
}

void kernel_case_describe(const struct kernel_case *c, struct dgl_buf *out)
{
    kernel_request_describe(&c->request, out);
    for (uint32_t i = 0; i < c->request.num_consts; i++)
        dgl_buf_printf(out, " %s=%lld", c->request.consts[i].name,
                       (long long)c->request.consts[i].value);
    if (c->tokens > 1)
        dgl_buf_printf(out, ", %u tokens", (unsigned)c->tokens);
    if (c->pos > 0)
        dgl_buf_printf(out, " from %u", (unsigned)c->pos);
}

/* Names the other kernels, all built in, that took part in a wrong answer. The subject is the only
 * one that may have texts that are not built in. */
static void name_others(const struct kernel_judge *judge, struct kernel_verdict *verdict,
                        const struct problem *p, const struct kernel_choice *choices,
                        const struct kernel_choice *subject)
{
    struct dgl_buf others = {0}, unused = {0}, text = {0};
    const struct kernel *last = NULL;
    for (uint32_t i = 0; i < p->num_stages; i++) {
        const struct kernel *kernel = choices[i].kernel;
        if (p->stages[i].is_subject || kernel == last)
            continue;
        const struct kernel *own = kernel_set_find(judge->params.set, kernel->name);
        dgl_buf_printf(&others, "%s%s", last ? ", " : "", kernel->name);
        if (own && own->source != 0)
            dgl_buf_printf(&unused, "%s%s", unused.len ? ", " : "", kernel->name);
        last = kernel;
    }
    if (last && kernel_choice_is_builtin(subject))
        dgl_buf_printf(&text, "; computed together with %s, all of them built in",
                       others.p ? others.p : "");
    else if (last)
        dgl_buf_printf(&text,
                       "; computed together with the built-in %s: the text that is not built in, "
                       "that of %s, is at fault",
                       others.p ? others.p : "", subject->kernel->name);
    if (last && unused.len)
        dgl_buf_printf(&text, " (yours of %s had no part in it)", unused.p);
    const size_t len = strlen(verdict->text);
    snprintf(verdict->text + len, sizeof(verdict->text) - len, "%s", text.p ? text.p : "");
    dgl_buf_finish(&others);
    dgl_buf_finish(&unused);
    dgl_buf_finish(&text);
}

/* The error is in a case, or in the kernel's text if `c` is NULL. */
static void judge_wrong(struct kernel_verdict *verdict, const char *kernel,
                        const struct kernel_case *c, const char *why)
{
    struct dgl_buf name = {0};
    verdict->kind = KERNEL_WRONG;
    if (c)
        kernel_case_describe(c, &name);
    if (c)
        snprintf(verdict->text, sizeof(verdict->text), "%s: %s: %s", kernel, name.p ? name.p : "",
                 why);
    else
        snprintf(verdict->text, sizeof(verdict->text), "%s", why);
    dgl_buf_finish(&name);
}

/* Chooses the tested kernel for a stage of its own operation, else a built-in kernel, even if it is
 * known to be wrong: the answer shows if that matters here. */
static enum dgl_status choose(struct kernel_judge *judge, const struct problem_stage *stage,
                              const struct kernel_subject *use, struct kernel_choice *out)
{
    const struct plan_device *device = &judge->params.dev->plan;
    struct kernel_var able[sizeof(device->properties) / sizeof(device->properties[0])];
    size_t num_able = 0;
    if (stage->is_subject) {
        *out = *use->choice;
        return DGL_OK;
    }
    for (size_t i = 0; i < device->num_properties; i++)
        if (!dgl_str_starts(dgl_str_of(device->properties[i].name), KERNEL_WRONG_PROPERTY))
            able[num_able++] = device->properties[i];
    if (!judge->builtin) {
        enum dgl_status status = kernel_set_create(
            judge->params.dev->log, &(struct dgl_kernels_params){0}, &judge->builtin);
        if (status != DGL_OK)
            return status;
    }
    return kernel_choose(judge->params.dev->log, judge->builtin, &stage->request, able, num_able,
                         out);
}

/* Runs a problem whose subject is use->choice, or its rows as `crowd` if that is not NULL. Adds a
 * case to the verdict. */
static enum dgl_status solve(struct kernel_judge *judge, const struct kernel_subject *use,
                             const struct kernel_case *c, struct problem *p, struct crowd *crowd,
                             struct kernel_verdict *verdict)
{
    const struct kernel *kernel = use->choice->kernel;
    struct kernel_choice *choices = dgl_new_array(struct kernel_choice, p->num_stages);
    struct kernel_stage stages[PROBLEM_MAX_STAGES] = {{NULL, NULL}};
    char why[KERNEL_RUN_WHY] = "";
    const char *wrong = NULL;
    enum dgl_status status = go_on(judge);
    bool compiled = true;
    if (status == DGL_OK && (!choices || p->failed))
        status = dgl_fail_memory(judge->params.dev->log, kernel->name, sizeof(*choices));
    for (uint32_t i = 0; i < p->num_stages && status == DGL_OK && compiled; i++) {
        status = choose(judge, &p->stages[i], use, &choices[i]);
        stages[i] = (struct kernel_stage){&choices[i], use->program};
        if (status == DGL_OK && (!use->program || !p->stages[i].is_subject))
            status = kernel_runner_program(&judge->runner, &choices[i], &stages[i].program, why);
        compiled = status == DGL_OK;
    }
    if (status == DGL_OK)
        status = kernel_runner_solve(&judge->runner, p, stages, why);
    if (status == DGL_ERR_KERNEL) {
        wrong = why;
        status = DGL_OK;
    } else if (status == DGL_OK) {
        verdict->cases++;
        if (crowd ? !crowd_check(crowd, kernel->tolerance, &verdict->worst, why)
                  : !problem_check(p, kernel->tolerance, &verdict->worst, why))
            wrong = why;
    }
    /* If `why` names a line of the file, the error does not depend on the case. */
    const bool placed = strncmp(why, kernel->path, strlen(kernel->path)) == 0;
    if (status == DGL_OK && wrong)
        judge_wrong(verdict, kernel->name, compiled && !placed ? c : NULL, why);
    verdict->built = wrong && compiled && !placed;
    if (status == DGL_OK && verdict->built)
        name_others(judge, verdict, p, choices, use->choice);
    free(choices);
    return status;
}

/* Runs the case of one row again as a row of several sequences, if the operation has such
 * passes. */
static enum dgl_status solve_crowd(struct kernel_judge *judge, const struct op_rule *rule,
                                   const struct kernel_subject *use, const struct kernel_case *c,
                                   struct kernel_verdict *verdict)
{
    const uint32_t max_x = gl_device_caps(judge->params.dev->gl)->limits.max_groups[0];
    enum dgl_status status = DGL_OK;
    uint32_t one[3], two[3];
    /* Passes over several sequences do not use kernels that are launched for one row only. */
    const bool for_one_row =
        (strncmp(rule->op, "attn_", 5) == 0 || strncmp(rule->op, "sample_", 7) == 0) &&
        kernel_groups_band(use->choice, 1, 0, max_x, one) &&
        kernel_groups_band(use->choice, 2, 0, max_x, two) && memcmp(one, two, sizeof(one)) == 0;
    if (!rule->member || judge->params.gather || for_one_row)
        return DGL_OK;
    struct crowd *crowd = dgl_new(struct crowd);
    struct kernel_case several = *c;
    if (!crowd)
        return dgl_fail_memory(judge->params.dev->log, use->choice->kernel->name, sizeof(*crowd));
    const bool made = crowd_make(rule, c, crowd);
    several.tokens = crowd->rows;
    if (made)
        status = solve(judge, use, &several, &crowd->all, crowd, verdict);
    crowd_finish(crowd);
    free(crowd);
    return status;
}

void kernel_judge_fault(struct kernel_verdict *verdict, const struct kernel *kernel,
                        const struct kernel_line *fault, const char *why)
{
    verdict->kind = KERNEL_WRONG;
    snprintf(verdict->text, sizeof(verdict->text), "%s:%u: %s (kernel %s)", fault->path,
             (unsigned)fault->line, why, kernel->name);
}

/* Completes the case, then fits `kernel` to it. Returns false if the kernel does not serve the case
 * here. Then `why` is "" if no plan makes such a case, and out->fault is set as by
 * kernel_fit_try(). */
static bool settle(const struct kernel_judge *judge, const struct op_rule *rule,
                   const struct kernel *kernel, struct kernel_case *c, struct kernel_choice *out,
                   char why[192])
{
    const struct plan_device *device = &judge->params.dev->plan;
    const struct kernel_fit fit = {.set = judge->params.set,
                                   .request = &c->request,
                                   .device = device->properties,
                                   .num_device = device->num_properties};
    int64_t rank;
    why[0] = '\0';
    out->fault = (struct kernel_line){NULL, 0, 0};
    if (rule->settle && !rule->settle(c))
        return false;
    if (!request_is(&c->request, "weight", "none") && request_is(&c->request, "layout", "none"))
        request_set(&c->request, "layout",
                    kernel_layout(kernel, kernel_request_word(&c->request, "weight")));
    struct problem sizes = {.seed = 1}; /* constants that follow from other constants */
    struct kernel_case plain = *c;
    plain.timing = true;
    rule->make(&sizes, &plain);
    const bool failed = sizes.failed;
    for (uint32_t i = 0; i < sizes.num_stages && !failed; i++)
        if (sizes.stages[i].is_subject)
            c->request = sizes.stages[i].request;
    if (failed)
        snprintf(why, 192, "%s", sizes.unfit ? sizes.unfit : "out of memory");
    problem_finish(&sizes);
    return !failed && kernel_fit_try(&fit, kernel, out, &rank, why);
}

bool kernel_judge_fit(struct kernel_judge *judge, const struct kernel *kernel,
                      struct kernel_case *c, struct kernel_choice *out, char why[192])
{
    const struct op_rule *rule = op_rule_find(kernel->op);
    why[0] = '\0';
    return rule && settle(judge, rule, kernel, c, out, why);
}

/* Runs a case, or passes its source to `gather`. */
static enum dgl_status run_case(struct kernel_judge *judge, const struct op_rule *rule,
                                const struct kernel_choice *choice, const struct kernel_case *c,
                                struct kernel_verdict *verdict)
{
    const struct kernel_judge_params *params = &judge->params;
    struct problem p = {.seed = c->seed ? c->seed : 1};
    struct dgl_buf text = {0};
    enum dgl_status status;
    if (params->gather) {
        verdict->cases++;
        TRY(kernel_generate(params->dev->log, choice, &text));
        if (text.failed)
            TRY(dgl_fail_memory(params->dev->log, choice->kernel->name, text.len));
        TRY(params->gather(params->priv, choice->kernel, text.p, text.len) ? DGL_OK
                                                                           : DGL_ERR_CANCELLED);
        goto done;
    }
    rule->make(&p, c);
    status = solve(judge, &(struct kernel_subject){.choice = choice}, c, &p, NULL, verdict);
done:
    problem_finish(&p);
    dgl_buf_finish(&text);
    return status;
}

static void skip(struct kernel_verdict *verdict, const char *kernel, const char *why)
{
    verdict->kind = KERNEL_SKIPPED;
    snprintf(verdict->text, sizeof(verdict->text), "%s: %s", kernel, why);
}

enum dgl_status kernel_judge_case(struct kernel_judge *judge, const char *kernel,
                                  const struct kernel_case *c, struct kernel_verdict *out)
{
    const struct op_rule *rule = op_rule_find(c->request.op);
    const struct kernel *k = kernel_set_find(judge->params.set, kernel);
    struct kernel_choice *choice = dgl_new(struct kernel_choice);
    struct kernel_case settled = *c;
    enum dgl_status status = DGL_OK;
    char why[192];
    *out = (struct kernel_verdict){0};
    if (!choice)
        status = dgl_fail_memory(judge->params.dev->log, kernel, sizeof(*choice));
    else if (!rule || !k)
        skip(out, kernel, rule ? "no such kernel" : "no known answers");
    else if (settle(judge, rule, k, &settled, choice, why))
        status = run_case(judge, rule, choice, &settled, out);
    else if (choice->fault.path)
        kernel_judge_fault(out, k, &choice->fault, why);
    else
        skip(out, kernel, why);
    free(choice);
    return status;
}

/* ---- the cases of a kernel ------------------------------------------------------------------- */

/* The i-th case of a kernel, with a shape of its operation, before it is settled. Every run of as
 * many cases as the kernel serves words of an attribute has each word once, in an order that
 * differs from run to run. */
static void begin_case(const struct op_rule *rule, const struct kernel *kernel, uint32_t i,
                       const struct op_shape *shape, struct kernel_case *out)
{
    *out = (struct kernel_case){.request.op = rule->op,
                                .tokens = shape->tokens,
                                .pos = shape->pos,
                                .bands = shape->bands,
                                .variant = shape->variant,
                                .seed = i + 1};
    for (uint32_t a = 0; a < OP_MAX_ATTRS && rule->attrs[a].key; a++) {
        const char *words[OP_MAX_WORDS];
        const uint32_t count = op_attr_served(kernel, &rule->attrs[a], words);
        uint64_t seed = a * 977ull + (count ? i / count : 0);
        const char *word = count ? words[(i + ref_rand(&seed)) % count] : "none";
        if (strcmp(word, "none") != 0)
            request_set(&out->request, rule->attrs[a].key, word);
    }
    for (uint32_t n = 0; n < OP_MAX_CONSTS && shape->consts[n].name; n++)
        request_set_const(&out->request, shape->consts[n].name, shape->consts[n].value);
}

/* Like begin_case(), then fits the kernel. Returns false and sets `why` if it cannot run the
 * case. */
static bool make_case(const struct kernel_judge *judge, const struct op_rule *rule,
                      const struct kernel *kernel, uint32_t i, const struct op_shape *shape,
                      struct kernel_case *out, struct kernel_choice *choice, char why[192])
{
    begin_case(rule, kernel, i, shape, out);
    return settle(judge, rule, kernel, out, choice, why);
}

/* The i-th case; its shape is the first, from the i-th on, that the kernel can run, or for which
 * its text is at fault (false, and choice->fault). */
static bool nth_case(const struct kernel_judge *judge, const struct op_rule *rule,
                     const struct kernel *kernel, uint32_t i, struct kernel_case *out,
                     struct kernel_choice *choice, char reason[192])
{
    char why[192];
    for (size_t s = 0; s < rule->num_shapes; s++) {
        if (make_case(judge, rule, kernel, i, &rule->shapes[(i + s) % rule->num_shapes], out,
                      choice, why))
            return true;
        if (why[0] && (!reason[0] || strncmp(why, "WHEN ", 5) != 0))
            snprintf(reason, 192, "%s", why);
        if (choice->fault.path)
            break;
    }
    return false;
}

/* Returns true if the kernel's presets are valid choices for the i-th case, for the typical sizes
 * of its operation, and for a quarter to sixteen times of each size. Compiles no program. Otherwise
 * *c is the failing case. */
static bool presets_hold(const struct kernel_judge *judge, const struct op_rule *rule,
                         const struct kernel *kernel, uint32_t i, struct kernel_case *c,
                         struct kernel_choice *scratch, char why[192])
{
    static const char *const scaled[] = {"H", "N", "K", "VOCAB"};
    const struct plan_device *device = &judge->params.dev->plan;
    const struct kernel_fit fit = {.set = judge->params.set,
                                   .request = &c->request,
                                   .device = device->properties,
                                   .num_device = device->num_properties};
    if (!make_case(judge, rule, kernel, i, &rule->shapes[i % rule->num_shapes], c, scratch, why) &&
        !why[0])
        return true; /* no plan makes such a case */
    if (!kernel_fit_presets(&fit, kernel, scratch, why))
        return false;
    for (uint32_t n = 0; n < OP_MAX_CONSTS && rule->typical.consts[n].name; n++)
        request_set_const(&c->request, rule->typical.consts[n].name, rule->typical.consts[n].value);
    for (size_t n = 0; n < sizeof(scaled) / sizeof(scaled[0]); n++) {
        const int64_t typical = request_const(&c->request, scaled[n], 0);
        for (int64_t quarters = 1; typical > 0 && quarters <= 64; quarters *= 2) {
            request_set_const(&c->request, scaled[n], (typical * quarters + 3) / 4);
            if (!kernel_fit_presets(&fit, kernel, scratch, why))
                return false;
        }
        if (typical > 0)
            request_set_const(&c->request, scaled[n], typical);
    }
    return true;
}

/* So many cases that every word of every attribute has its turn. */
static uint32_t cases_of_all(const struct op_rule *rule)
{
    uint32_t most = 2;
    for (uint32_t a = 0; a < OP_MAX_ATTRS && rule->attrs[a].key; a++)
        for (uint32_t w = 0; w < OP_MAX_WORDS && rule->attrs[a].words[w]; w++)
            most = w + 1 > most ? w + 1 : most;
    return most > rule->num_shapes ? most : (uint32_t)rule->num_shapes;
}

static bool splices_given(const struct kernel_judge *judge, const struct kernel *kernel)
{
    const struct kernel_set *set = judge->params.set;
    for (size_t i = 0; kernel && i < kernel_set_num_libs(set); i++) {
        const struct kernel_lib *lib = kernel_set_lib_at(set, i);
        if (lib->source != 0 && kernel_splices(kernel, lib))
            return true;
    }
    return false;
}

/* Returns true if the operation has the attributes and words of the kernel's WHEN lines, and some
 * weight type has the kernel's LAYOUT. Otherwise the kernel could never be chosen; sets `why`. */
static bool is_asked_for(const struct op_rule *rule, const struct kernel *kernel, char why[512])
{
    bool packed = kernel->layout[0] == '\0';
    for (size_t i = 0; i < ref_types() && !packed; i++)
        packed = weight_layout_find(ref_type(i), kernel->layout) != NULL;
    if (!packed)
        snprintf(why, 512, "%.300s:%u: LAYOUT %s: no weights are packed so", kernel->path,
                 (unsigned)kernel_directive_line(kernel, "LAYOUT", kernel->layout), kernel->layout);
    for (uint32_t i = 0; i < kernel->num_when && packed; i++) {
        const struct kernel_when *when = &kernel->when[i];
        const unsigned line = kernel_directive_line(kernel, "WHEN", when->key);
        const struct op_attr *attr = op_attr_find(rule, when->key);
        struct dgl_str words = dgl_str_of(when->words), word;
        if (!attr) {
            snprintf(why, 512, "%.300s:%u: WHEN %s: operation %s has no such attribute",
                     kernel->path, line, when->key, rule->op);
            return false;
        }
        while (kernel_word_next(&words, &word)) {
            if (dgl_str_eq(word, "none") || op_attr_word(attr, word))
                continue;
            snprintf(why, 512, "%.300s:%u: WHEN %s: %s of operation %s is never '%.*s'",
                     kernel->path, line, when->key, when->key, rule->op, (int)word.len, word.p);
            return false;
        }
    }
    return packed;
}

/* Returns true the first time a test case uses a lib that is not built in, and marks that lib as
 * seen. */
static bool has_new_lib(const struct kernel_choice *choice, const struct kernel_lib **seen,
                        size_t *num_seen)
{
    bool any = false;
    for (uint32_t l = 0; l < choice->kernel->num_libs; l++) {
        size_t i = 0;
        while (i < *num_seen && seen[i] != choice->libs[l])
            i++;
        if (i < *num_seen || choice->libs[l]->source == 0 || *num_seen == MAX_SEEN)
            continue;
        seen[(*num_seen)++] = choice->libs[l];
        any = true;
    }
    return any;
}

enum dgl_status kernel_judge_kernel(struct kernel_judge *judge, const char *name,
                                    struct kernel_verdict *out)
{
    const struct kernel *kernel = kernel_set_find(judge->params.set, name);
    const struct op_rule *rule = kernel ? op_rule_find(kernel->op) : NULL;
    struct kernel_choice *choice = dgl_new(struct kernel_choice);
    struct kernel_case c;
    enum dgl_status status = DGL_OK;
    char reason[192] = "";
    *out = (struct kernel_verdict){0};
    if (!choice)
        return dgl_fail_memory(judge->params.dev->log, name, sizeof(*choice));
    if (!kernel)
        status =
            dgl_fail(judge->params.dev->log, DGL_ERR_INVALID_ARG, "no kernel is called '%s'", name);
    const uint32_t all = rule ? cases_of_all(rule) : 0;
    const uint32_t wanted = judge->params.mode == KERNEL_JUDGE_QUICK && all > 2 ? 2 : all;
    const struct kernel_lib *seen[MAX_SEEN];
    size_t num_seen = 0;
    char unasked[512];
    if (rule && !is_asked_for(rule, kernel, unasked))
        judge_wrong(out, name, NULL, unasked);
    for (uint32_t i = 0; i < wanted && status == DGL_OK && out->kind == KERNEL_PASSED; i++)
        if (!presets_hold(judge, rule, kernel, i, &c, choice, reason))
            kernel_judge_fault(out, kernel, &choice->fault, reason);
    reason[0] = '\0';
    if (kernel && !rule)
        snprintf(reason, sizeof(reason), "no operation is called %s", kernel->op);
    /* Some combinations of words make no sense: a few more are looked at. Of libs that are not
     * built in each is tried, however few cases are wanted. */
    const uint32_t looked_at = splices_given(judge, kernel) ? 3 * all : 3 * wanted;
    for (uint32_t i = 0; i < looked_at && status == DGL_OK && out->kind == KERNEL_PASSED; i++) {
        const bool runs = nth_case(judge, rule, kernel, i, &c, choice, reason);
        if (!runs && choice->fault.path)
            kernel_judge_fault(out, kernel, &choice->fault, reason);
        else if (runs && (has_new_lib(choice, seen, &num_seen) || out->cases < wanted))
            status = run_case(judge, rule, choice, &c, out);
    }
    const bool full = rule && judge->params.mode == KERNEL_JUDGE_FULL;
    for (size_t s = 0; full && s < rule->num_specials && status == DGL_OK; s++) {
        const struct op_special *special = &rule->specials[s];
        char why[192];
        begin_case(rule, kernel, all + (uint32_t)s, &special->shape, &c);
        for (size_t w = 0; w < OP_MAX_ATTRS && special->words[w].key; w++)
            request_set(&c.request, special->words[w].key, special->words[w].word);
        if (out->kind != KERNEL_PASSED)
            break;
        if (settle(judge, rule, kernel, &c, choice, why))
            status = run_case(judge, rule, choice, &c, out);
        else if (choice->fault.path)
            kernel_judge_fault(out, kernel, &choice->fault, why);
    }
    /* Rows of several sequences, of the first that can be. */
    const uint32_t crowds = judge->params.mode == KERNEL_JUDGE_QUICK ? 1 : CROWD_CASES;
    for (uint32_t i = 0, cases = out->cases;
         i < wanted && out->cases < cases + crowds && status == DGL_OK &&
         out->kind == KERNEL_PASSED && rule->member;
         i++)
        if (nth_case(judge, rule, kernel, i, &c, choice, reason))
            status = solve_crowd(judge, rule, &(struct kernel_subject){.choice = choice}, &c, out);
    if (status == DGL_OK && out->kind == KERNEL_PASSED && out->cases == 0)
        skip(out, name, reason[0] ? reason : "it serves no request that a plan makes");
    free(choice);
    return status;
}

/* ---- uses of a plan -------------------------------------------------------------------------- */

/* Returns use->choice, or the choice of the set for the request. */
static enum dgl_status choice_of(struct kernel_judge *judge, const struct kernel_subject *use,
                                 struct kernel_choice *out)
{
    const struct plan_device *device = &judge->params.dev->plan;
    if (use->choice) {
        *out = *use->choice;
        return DGL_OK;
    }
    return kernel_choose(judge->params.dev->log, judge->params.set, use->request,
                         device->properties, device->num_properties, out);
}

enum dgl_status kernel_judge_use(struct kernel_judge *judge, const struct kernel_subject *use,
                                 struct kernel_verdict *out)
{
    const struct op_rule *rule = op_rule_find(use->request->op);
    struct kernel_case c = {.request = *use->request, .seed = 1};
    struct problem p = {.seed = 1};
    struct kernel_choice *choice = dgl_new(struct kernel_choice);
    struct kernel_subject chosen = *use;
    enum dgl_status status = DGL_OK;
    *out = (struct kernel_verdict){0};
    if (!choice)
        return dgl_fail_memory(judge->params.dev->log, use->request->op, sizeof(*choice));
    TRY(choice_of(judge, use, choice));
    chosen.choice = choice;
    if (!rule) {
        skip(out, choice->kernel->name, "no known answers for its operation");
        goto done;
    }
    if (rule->narrow)
        rule->narrow(&c);
    rule->make(&p, &c);
    status = solve(judge, &chosen, &c, &p, NULL, out);
    problem_finish(&p);
    if (status == DGL_OK && out->kind == KERNEL_PASSED)
        status = solve_crowd(judge, rule, &chosen, &c, out);
done:
    problem_finish(&p);
    free(choice);
    return status;
}

enum dgl_status kernel_judge_time(struct kernel_judge *judge, const struct kernel_subject *use,
                                  const struct kernel_load *load, struct kernel_timing *out,
                                  struct kernel_verdict *why)
{
    const struct op_rule *rule = op_rule_find(use->request->op);
    struct kernel_case c = {.request = *use->request,
                            .tokens = load->tokens,
                            .pos = load->pos,
                            .rows = load->rows,
                            .seed = 1,
                            .timing = true};
    struct problem p = {.seed = 1};
    struct kernel_choice *choice = dgl_new(struct kernel_choice);
    struct kernel_stage stage = {choice, use->program};
    struct kernel_run_times times = {0};
    struct kernel_verdict verdict = {0};
    char text[KERNEL_RUN_WHY] = "";
    enum dgl_status status = DGL_OK;
    *out = (struct kernel_timing){0};
    if (!choice)
        return dgl_fail_memory(judge->params.dev->log, use->request->op, sizeof(*choice));
    TRY(choice_of(judge, use, choice));
    TRY(go_on(judge));
    if (!rule) {
        skip(&verdict, choice->kernel->name, "no known answers for its operation");
        goto done;
    }
    op_load_fit(&c, plan_device_binding_bytes(&judge->params.dev->plan));
    rule->make(&p, &c);
    uint32_t subject = 0;
    while (subject < p.num_stages && !p.stages[subject].is_subject)
        subject++;
    assert(subject < p.num_stages);
    p.stages[0] = p.stages[subject];
    if (!stage.program)
        status = kernel_runner_program(&judge->runner, choice, &stage.program, text);
    if (status == DGL_OK)
        status = kernel_runner_time(&judge->runner, &p, &stage, rule->streamed,
                                    load->dispatches ? load->dispatches : 20, &times, text);
    if (status == DGL_ERR_KERNEL) {
        judge_wrong(&verdict, choice->kernel->name, NULL, text);
        status = DGL_OK;
    }
    out->dispatches = times.dispatches;
    out->gpu_clock = times.gpu_us > 0;
    out->us = out->gpu_clock ? times.gpu_us : times.stream_us;
    out->best_us = out->gpu_clock ? times.gpu_best_us : times.stream_us;
    out->alone_us = times.alone_us;
    out->stream_us = times.stream_us;
    out->bytes = p.bytes;
    out->flops = p.flops;
done:
    if (why)
        *why = verdict;
    problem_finish(&p);
    free(choice);
    return status;
}
