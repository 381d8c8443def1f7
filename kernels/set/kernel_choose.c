/* Chooses a kernel for a request: the one that a hint or a user's file requests, else the usable
 * kernel with the highest PREFER. */
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "kernels/format/kernel_format.h"
#include "kernels/kernels.h"
#include "kernels/set/kernel_fit.h"
#include "kernels/set/kernel_hints.h"

#define WHY_SIZE 192

struct chooser {
    const struct dgl_log *log;
    struct kernel_fit fit;
    bool allow_f16;
    const struct kernel_rule *rule; /* the rule of FILTER_REQUESTED */
    char note[320];                 /* reason why a rule does not apply */
    struct kernel_skip skipped[KERNEL_MAX_SKIPPED];
    uint32_t num_skipped;
};

/* ---- candidates ------------------------------------------------------------------------------ */

enum filter { FILTER_ALL, FILTER_ADDED, FILTER_REQUESTED };

static bool passes(const struct chooser *c, enum filter filter, const struct kernel *kernel)
{
    const struct kernel_rule *rule = filter == FILTER_REQUESTED ? c->rule : NULL;
    return strcmp(kernel->op, c->fit.request->op) == 0 &&
           (filter != FILTER_ADDED || kernel->added) &&
           (!rule || !rule->kernel || kernel_answers_to(kernel, rule->kernel)) &&
           (!rule || rule->kind != KERNEL_RULE_PRECISION || kernel->f16) &&
           (!kernel->f16 || c->allow_f16 ||
            (rule && rule->kernel && strcmp(kernel->name, rule->kernel) == 0));
}

/* A kernel as it is compared with others. Empty if `kernel` is NULL. */
struct rival {
    const struct kernel *kernel;
    int64_t rank, needs; /* PREFER, number of registers */
    bool spills;
};

/* The outcome of trying all kernels that pass a filter. */
struct pick {
    struct kernel_choice choice;         /* of `best` */
    struct rival best, second, spilling; /* spilling: needs most registers */
    int served;                          /* number of kernels whose WHEN matches */
    struct dgl_buf refusals;             /* "name: why; name: why" of kernels that cannot run */
    struct dgl_buf passed_over;          /* the same for those whose WHEN matches */
    struct rival blocked;                /* the best one that only hard rules prevent */
    char blocked_why[WHY_SIZE];
    /* The first kernel with an error in its own text, or NULL. Built-in kernels do not count. */
    const struct kernel *faulty;
    struct kernel_line fault;
    char fault_why[WHY_SIZE];
};

/* A kernel that fits the device's registers is better than one that spills. Otherwise PREFER
 * decides. */
static bool is_better(const struct rival *a, const struct rival *b)
{
    return !b->kernel || (a->spills != b->spills ? !a->spills : a->rank > b->rank);
}

static void add_refusal(struct dgl_buf *out, const struct kernel *kernel, const char *why)
{
    const bool builtin = strcmp(kernel->origin, "builtin") == 0;
    dgl_buf_printf(out, "%s%s%s%s%s: %s", out->len ? "; " : "", kernel->name, builtin ? "" : " (",
                   builtin ? "" : kernel->origin, builtin ? "" : ")", why);
}

/* Notes a skipped soft rule. If `kernel` is given, the rule is for its tunables. Long texts are
 * cut, and notes beyond KERNEL_MAX_SKIPPED are dropped. */
static void add_skip(struct kernel_skip *list, uint32_t *count, const struct kernel_rule *rule,
                     const struct kernel *kernel, const char *why)
{
    if (*count == KERNEL_MAX_SKIPPED)
        return;
    struct kernel_skip *skip = &list[(*count)++];
    skip->rule = kernel ? NULL : rule;
    skip->why =
        (uint32_t)(kernel ? snprintf(skip->text, sizeof(skip->text),
                                     "tunables of %s (%.40s) do not apply here: ", kernel->name,
                                     rule->origin)
                          : snprintf(skip->text, sizeof(skip->text),
                                     "hint %.100s does not apply here: ", rule->said));
    snprintf(skip->text + skip->why, sizeof(skip->text) - skip->why, "%s", why);
}

/* Tries a kernel with all rules for its tunables, then without the soft rules. Notes in `pick` a
 * kernel that could run without the hard rules, and a kernel with an error in its text. */
static bool fit(const struct chooser *c, const struct kernel *kernel, struct pick *pick,
                struct kernel_choice *choice, int64_t *rank, char why[WHY_SIZE])
{
    const struct kernel_rule *rules[KERNEL_MAX_TUNES + 2];
    struct kernel_fit fit = c->fit;
    char hard_why[WHY_SIZE], free_why[WHY_SIZE];
    uint32_t i = 0;
    if (kernel_fit_hinted(&fit, kernel, choice, rank, why))
        return true;
    if (!kernel_serves(kernel, fit.request))
        return false;
    const bool ruled = kernel_fit_rules(&fit, kernel, rules) > 0;
    fit.apply = KERNEL_APPLY_HARD;
    if (ruled && kernel_fit_hinted(&fit, kernel, choice, rank, hard_why)) {
        while (!rules[i] || !rules[i]->soft)
            i++;
        add_skip(choice->skipped, &choice->num_skipped, rules[i], kernel, why);
        return true;
    }
    const uint32_t num_hard = kernel_fit_rules(&fit, kernel, rules);
    const bool columns = rules[kernel->num_tunes + 1];
    struct kernel_choice plain;
    struct rival rival = {.kernel = kernel};
    fit.apply = KERNEL_APPLY_NONE;
    if (!ruled || !kernel_fit_try(&fit, kernel, &plain, &rival.rank, free_why)) {
        const struct kernel_line *fault = ruled ? &plain.fault : &choice->fault;
        if (!pick->faulty && fault->path && fault->source != 0) {
            pick->faulty = kernel;
            pick->fault = *fault;
            snprintf(pick->fault_why, sizeof(pick->fault_why), "%s", ruled ? free_why : why);
        }
    } else if (num_hard > 0) {
        if (columns) /* another kernel may support these columns */
            rival.rank = INT64_MIN;
        if (!pick->blocked.kernel || rival.rank > pick->blocked.rank) {
            pick->blocked = rival;
            snprintf(pick->blocked_why, sizeof(pick->blocked_why), "%s", hard_why);
        }
    }
    return false;
}

/* The caller must call pick_finish(). */
static void pick_among(const struct chooser *c, enum filter filter, struct pick *pick)
{
    *pick = (struct pick){.served = 0};
    for (size_t i = 0; i < kernel_set_count(c->fit.set); i++) {
        const struct kernel *kernel = kernel_set_at(c->fit.set, i);
        struct kernel_choice choice;
        int64_t rank;
        char why[WHY_SIZE];
        if (!passes(c, filter, kernel))
            continue;
        const bool serves = kernel_serves(kernel, c->fit.request);
        bool runs = fit(c, kernel, pick, &choice, &rank, why);
        pick->served += serves;
        /* The precision is requested for speed, which a built-in kernel that spills does not have.
         * A kernel of a file, or one that a hint names, is used anyway. */
        if (runs && choice.spills > 0 && !kernel->added && filter == FILTER_REQUESTED &&
            c->rule->kind == KERNEL_RULE_PRECISION) {
            kernel_spill_text(&choice, why);
            runs = false;
        }
        if (!runs) {
            add_refusal(&pick->refusals, kernel, why);
            if (serves)
                add_refusal(&pick->passed_over, kernel, why);
            continue;
        }
        const struct rival rival = {kernel, rank, choice.registers, choice.spills > 0};
        if (is_better(&rival, &pick->best)) {
            pick->second = pick->best;
            pick->best = rival;
            pick->choice = choice;
        } else if (is_better(&rival, &pick->second)) {
            pick->second = rival;
        }
        if (rival.spills && (!pick->spilling.kernel || rival.needs > pick->spilling.needs))
            pick->spilling = rival;
    }
}

static void pick_finish(struct pick *pick)
{
    dgl_buf_finish(&pick->refusals);
    dgl_buf_finish(&pick->passed_over);
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Appends the reason why no kernel was picked. Kernels for other attributes are listed only if
 * there are no others. If no kernel of the operation has the word of a fixed hint, the kernels of
 * the hint's other operations are listed, each with the feature that the device lacks. */
static void put_why(const struct chooser *c, enum filter filter, const struct pick *pick,
                    struct dgl_buf *out)
{
    const struct kernel_rule *rule = filter == FILTER_REQUESTED ? c->rule : NULL;
    if (rule && rule->kind == KERNEL_RULE_UNPACKED)
        dgl_buf_puts(out, "the weights are still packed");
    else if (pick->refusals.len)
        dgl_buf_puts(out, pick->passed_over.len ? pick->passed_over.p : pick->refusals.p);
    else if (!rule)
        dgl_buf_puts(out, "none has that operation");
    if (out->len || !rule)
        return;
    for (size_t i = 0; i < kernel_set_count(c->fit.set); i++) {
        const struct kernel *kernel = kernel_set_at(c->fit.set, i);
        struct kernel_request other = *c->fit.request;
        struct kernel_choice scratch;
        char lacks[WHY_SIZE];
        other.op = kernel->op;
        if (rule->kind != KERNEL_RULE_KERNEL || !rule->kernel ||
            !kernel_answers_to(kernel, rule->kernel) ||
            !kernel_rule_matches(c->fit.set, rule, &other))
            continue;
        if (kernel_fit_device(&c->fit, kernel, &scratch, lacks))
            snprintf(lacks, sizeof(lacks), "for %s only", kernel->op);
        add_refusal(out, kernel, lacks);
    }
    if (!out->len)
        dgl_buf_printf(out, "no kernel of %s is of that kind", c->fit.request->op);
}

/* Returns the remedy for a device without a usable kernel. The self test may have excluded some. */
static const char *remedy(const struct kernel_fit *fit)
{
    bool wrong = false, unfit = false;
    for (size_t i = 0; i < fit->num_device; i++)
        if (dgl_str_starts(dgl_str_of(fit->device[i].name), KERNEL_WRONG_PROPERTY)) {
            wrong = true;
            unfit |= fit->device[i].value == KERNEL_UNFIT;
        }
    if (unfit && strcmp(kernel_request_word(fit->request, "kind"), "topk") == 0)
        return "; do without it (--top-k 0), or update the device's driver";
    return unfit   ? "; --kernel-file or other --kernel-hints tunes may compile; else update the "
                     "device's driver, or take another device (`dopplergl devices`)"
           : wrong ? "; update the device's driver, or take another device (`dopplergl devices`)"
                   : "";
}

/* Returns true if the rule is a default of a manifest and another kernel would be chosen without
 * it. */
static bool changes_choice(const struct chooser *c, const struct kernel *kernel)
{
    const struct kernel_rule *precision =
        kernel_hints_find(kernel_set_hints(c->fit.set), "computePrecision");
    struct chooser plain = *c;
    struct pick pick;
    if (c->rule->layer != KERNEL_LAYER_MANIFEST)
        return false;
    plain.allow_f16 = c->allow_f16 && precision->layer != KERNEL_LAYER_MANIFEST;
    pick_among(&plain, FILTER_ALL, &pick);
    bool changes = pick.best.kernel != kernel;
    pick_finish(&pick);
    return changes;
}

/* Sets *out to the best kernel of a pick and writes the reason. */
static void take(struct chooser *c, const struct pick *pick, enum filter filter,
                 struct kernel_choice *out)
{
    const struct kernel_rule *rule = filter == FILTER_REQUESTED ? c->rule : NULL;
    const bool measured = rule && rule->layer == KERNEL_LAYER_TUNER;
    struct dgl_buf reason = {0};
    *out = pick->choice;
    out->rank = pick->best.rank;
    out->asked = (filter != FILTER_ALL && !measured) || out->kernel->source != 0;
    out->rule = rule;
    out->decides = rule && changes_choice(c, out->kernel);
    if (measured) /* rule->said would repeat the whole request, so only the origin is printed */
        dgl_buf_printf(&reason, "the fastest that was measured (%s)", rule->origin);
    else if (rule)
        dgl_buf_printf(&reason, "hint %s", rule->said);
    else if (filter == FILTER_ADDED)
        dgl_buf_printf(&reason, "file %s", out->kernel->path);
    else if (pick->second.kernel)
        dgl_buf_printf(&reason, "preferred: %lld over %s (%lld)", (long long)pick->best.rank,
                       pick->second.kernel->name, (long long)pick->second.rank);
    else
        dgl_buf_puts(&reason, "the only one that can run");
    if (out->spills > 0)
        dgl_buf_printf(&reason, "; it spills: it needs %lld registers, REGISTERS is %lld",
                       (long long)out->registers, (long long)(out->registers - out->spills));
    else if (pick->spilling.kernel)
        dgl_buf_printf(&reason, "; %s (%lld) would spill: it needs %lld registers",
                       pick->spilling.kernel->name, (long long)pick->spilling.rank,
                       (long long)pick->spilling.needs);
    for (uint32_t i = 0; i < out->num_tunes; i++)
        if (out->tune_rule[i])
            dgl_buf_printf(&reason, "; %s=%lld (%s)", out->kernel->tunes[i].name,
                           (long long)out->vars[out->num_consts + i].value,
                           out->tune_rule[i]->origin);
    /* a skipped rule for tunables */
    if (out->num_skipped > 0 && c->num_skipped < KERNEL_MAX_SKIPPED)
        c->skipped[c->num_skipped++] = out->skipped[0];
    memcpy(out->skipped, c->skipped, sizeof(out->skipped));
    out->num_skipped = c->num_skipped;
    for (uint32_t i = 0; i < out->num_skipped; i++)
        dgl_buf_printf(&reason, "; %s", out->skipped[i].text);
    if (out->num_skipped == 0 && c->note[0])
        dgl_buf_printf(&reason, "; %s", c->note);
    if (pick->passed_over.len)
        dgl_buf_printf(&reason, "; passed over: %s", pick->passed_over.p);
    snprintf(out->reason, sizeof(out->reason), "%s", reason.p ? reason.p : "");
    dgl_buf_finish(&reason);
}

/* ---- choice ---------------------------------------------------------------------------------- */

/* The outcome of one attempt. */
enum verdict {
    VERDICT_NOT_HERE, /* does not apply: the next stage decides */
    VERDICT_SKIPPED,  /* soft and cannot be met: the next rule of the layer decides */
    VERDICT_FINAL,    /* chosen or refused */
};

#define CANNOT "the hint %s cannot be met for %s: %s%s%s; choose another value or auto"

/* Attempts one stage of a choice. If a kernel that the user added serves the request but cannot
 * run, the choice fails, because built-in kernels must not replace it silently. */
static enum dgl_status try_filter(struct chooser *c, enum filter filter, struct kernel_choice *out,
                                  enum verdict *verdict)
{
    const struct kernel_rule *rule = filter == FILTER_REQUESTED ? c->rule : NULL;
    const struct kernel_rule *rules[KERNEL_MAX_TUNES + 2];
    struct pick pick = {.served = 0};
    struct dgl_buf request = {0}, said = {0}, why = {0};
    enum dgl_status status = DGL_OK;
    kernel_request_describe(c->fit.request, &request);
    if (!rule || rule->kind != KERNEL_RULE_UNPACKED)
        pick_among(c, filter, &pick);
    const bool blocked =
        pick.blocked.kernel && (!pick.best.kernel || pick.blocked.rank > pick.best.rank);
    *verdict = VERDICT_FINAL;
    out->asked = filter != FILTER_ALL || pick.faulty || blocked;
    if (!pick.best.kernel)
        put_why(c, filter, &pick, &why);
    if (pick.faulty) {
        status = dgl_fail(c->log, DGL_ERR_KERNEL, "%s:%u: %s (kernel %s for %s)", pick.fault.path,
                          (unsigned)pick.fault.line, pick.fault_why, pick.faulty->name,
                          request.p ? request.p : "");
    } else if (blocked) {
        const struct kernel *kernel = pick.blocked.kernel;
        struct kernel_fit hard = c->fit;
        hard.apply = KERNEL_APPLY_HARD;
        kernel_fit_rules(&hard, kernel, rules);
        for (uint32_t i = 0; i < kernel->num_tunes + 2; i++)
            if (rules[i])
                dgl_buf_printf(&said, "%s%s", said.len ? ", " : "", rules[i]->said);
        status = dgl_fail(c->log, DGL_ERR_UNSUPPORTED, CANNOT, said.p ? said.p : "",
                          request.p ? request.p : "", kernel->name, ": ", pick.blocked_why);
    } else if (pick.best.kernel) {
        take(c, &pick, filter, out);
    } else if (rule && rule->kind == KERNEL_RULE_VARIANT && pick.served == 0) {
        *verdict = VERDICT_NOT_HERE;
        snprintf(c->note, sizeof(c->note), "hint %s does not apply here: %s", rule->said,
                 why.p ? why.p : "");
    } else if (rule && (rule->soft || (rule->kind == KERNEL_RULE_PRECISION &&
                                       !kernel_set_hints(c->fit.set)->strict))) {
        /* Other products of the model may still use f16. kernel_set_check_unused() fails if none
         * of them can. */
        *verdict = VERDICT_SKIPPED;
        add_skip(c->skipped, &c->num_skipped, rule, NULL, why.p ? why.p : "");
    } else if (rule) {
        status = dgl_fail(c->log, DGL_ERR_UNSUPPORTED, CANNOT, rule->said,
                          request.p ? request.p : "", why.p ? why.p : "", "", "");
    } else if (filter == FILTER_ADDED && pick.served == 0) {
        *verdict = VERDICT_NOT_HERE;
    } else {
        status = dgl_fail(c->log, DGL_ERR_UNSUPPORTED, "no kernel%s can run %s: %s%s",
                          filter == FILTER_ADDED ? " of the given files" : "",
                          request.p ? request.p : "", why.p ? why.p : "", remedy(&c->fit));
    }
    pick_finish(&pick);
    dgl_buf_finish(&request);
    dgl_buf_finish(&said);
    dgl_buf_finish(&why);
    return status;
}

/* Returns the first rule for the kernel of the request. If `after` is given, returns the next less
 * specific rule of the same layer. Returns NULL if there is no such rule. */
static const struct kernel_rule *find_rule(const struct kernel_fit *fit,
                                           const struct kernel_rule *after)
{
    const struct kernel_hints *hints = kernel_set_hints(fit->set);
    for (size_t i = after ? (size_t)(after - hints->items) : 0; i < hints->count; i++) {
        const struct kernel_rule *rule = &hints->items[i];
        if (after && rule->layer != after->layer)
            return NULL;
        if (rule->kind != KERNEL_RULE_NONE && rule->kind < KERNEL_RULE_TUNE &&
            (!after || rule->specificity < after->specificity) &&
            kernel_rule_matches(fit->set, rule, fit->request))
            return rule;
    }
    return NULL;
}

enum dgl_status kernel_choose(const struct dgl_log *log, const struct kernel_set *set,
                              const struct kernel_request *request, const struct kernel_var *device,
                              size_t num_device, struct kernel_choice *out)
{
    static const enum filter stages[] = {FILTER_REQUESTED, FILTER_ADDED, FILTER_REQUESTED,
                                         FILTER_ALL};
    struct chooser c = {
        .log = log,
        .fit = {.set = set, .request = request, .device = device, .num_device = num_device},
        .allow_f16 = kernel_set_allows_f16(set)};
    enum verdict verdict = VERDICT_NOT_HERE;
    enum dgl_status status = DGL_OK;
    if (num_device > KERNEL_MAX_PROPERTIES)
        return dgl_fail(log, DGL_ERR_INVALID_ARG, "%zu device properties are given, at most %d fit",
                        num_device, KERNEL_MAX_PROPERTIES);
    c.rule = find_rule(&c.fit, NULL);
    const bool above = c.rule && c.rule->layer > KERNEL_LAYER_FILES; /* overrides user's files */
    for (int i = 0; i < 4 && verdict != VERDICT_FINAL; i++) {
        if (stages[i] == FILTER_REQUESTED && (!c.rule || above != (i == 0)))
            continue;
        status = try_filter(&c, stages[i], out, &verdict);
        while (verdict == VERDICT_SKIPPED && (c.rule = find_rule(&c.fit, c.rule)))
            status = try_filter(&c, stages[i], out, &verdict);
    }
    return status;
}

/* ---- unused hints ---------------------------------------------------------------------------- */

/* Returns NULL if the rule applies to some step, even if another rule overrides it there. Otherwise
 * returns a description of its target. Sets *same_op if a step has the operation of the rule. */
static const char *find_miss(const struct kernel_set *set, const struct kernel_rule *rule,
                             const struct kernel_step *steps, size_t count, bool *same_op)
{
    const size_t op = strcspn(rule->requests, "/");
    const bool shaped = rule->kind == KERNEL_RULE_TUNE || rule->kind == KERNEL_RULE_LOCAL;
    bool matched = false, used = false;
    *same_op = false;
    for (size_t i = 0; i < count && !used; i++) {
        const struct kernel_request *request = steps[i].request;
        *same_op |= dgl_str_eq((struct dgl_str){rule->requests, op}, request->op);
        if (!kernel_rule_matches(set, rule, request))
            continue;
        matched = true;
        used = shaped ? strcmp(steps[i].choice->kernel->name, rule->kernel) == 0
                      : rule->kind != KERNEL_RULE_VARIANT;
        for (size_t k = 0; k < kernel_set_count(set) && !shaped && !used; k++)
            used = kernel_answers_to(kernel_set_at(set, k), rule->kernel) &&
                   kernel_serves(kernel_set_at(set, k), request);
    }
    return used       ? NULL
           : !matched ? "no operation of the model"
           : shaped   ? "a kernel that no such step of the model takes"
                      : "steps of the model that no such kernel serves";
}

/* Refuses a hard computePrecision=f16 if no product of the model can be computed in f16. It is
 * accepted if other hints override it at every product that it applies to. */
static enum dgl_status check_precision(const struct dgl_log *log, const struct kernel_rule *rule,
                                       const struct kernel_step *steps, size_t count, bool missed)
{
    const struct kernel_skip *skipped = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct kernel_choice *choice = steps[i].choice;
        if (choice->kernel->f16)
            return DGL_OK;
        for (uint32_t s = 0; s < choice->num_skipped && !skipped; s++)
            if (choice->skipped[s].rule == rule)
                skipped = &choice->skipped[s];
    }
    return !skipped && !missed
               ? DGL_OK
               : dgl_fail(log, DGL_ERR_UNSUPPORTED,
                          "the hint %s cannot be met for any product of the model: %s; choose "
                          "another value or auto",
                          rule->said,
                          skipped ? skipped->text + skipped->why
                                  : "no kernel of PRECISION f16 is for one");
}

enum dgl_status kernel_set_check_unused(const struct dgl_log *log, const struct kernel_set *set,
                                        const struct kernel_step *steps, size_t count,
                                        bool q4_k_expanded)
{
    const struct kernel_hints *hints = kernel_set_hints(set);
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < hints->count; i++) {
        const struct kernel_rule *rule = &hints->items[i];
        bool same_op;
        if (rule->kind == KERNEL_RULE_NONE || rule->automatic || rule->layer == KERNEL_LAYER_TUNER)
            continue;
        const char *miss = find_miss(set, rule, steps, count, &same_op);
        const bool partial = rule->kind == KERNEL_RULE_VARIANT || rule->kind == KERNEL_RULE_TUNE ||
                             rule->kind == KERNEL_RULE_LOCAL;
        if (rule->kind == KERNEL_RULE_PRECISION && !rule->soft)
            TRY(check_precision(log, rule, steps, count, miss));
        else if (miss && hints->strict && !(q4_k_expanded && strcmp(rule->key, "q4kMatmul") == 0))
            TRY(dgl_fail(log, DGL_ERR_UNSUPPORTED,
                         "the hint %s is for %s, and hints are strict: leave it out, or strict",
                         rule->said, miss));
        else if (miss && !hints->strict && rule->layer >= KERNEL_LAYER_PINNED && partial && same_op)
            dgl_notice(log, "the hint %s is for %s, and changes nothing", rule->said, miss);
    }
done:
    return status;
}
