/* Picks a kernel for a request: what hints and user's files ask for, else the highest PREFER among
 * those that can run. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "kernels/format/kernel_format.h"
#include "kernels/kernels.h"
#include "kernels/set/kernel_fit.h"
#include "kernels/set/kernel_hints.h"

/* The hint that decides a request. */
struct requested {
    const struct kernel_hint *hint; /* NULL: none */
    const char *word;               /* NAME or VARIANT wanted; NULL: any kernel will do */
    bool f16;                       /* wants PRECISION f16 */
    bool impossible; /* wants what was to happen before: weights unpacked at upload */
    int specificity;
};

struct chooser {
    const struct dgl_log *log;
    struct kernel_fit fit;
    bool allow_f16;
    struct requested requested;
    char note[320]; /* what was wished for and has nothing to say here */
    struct kernel_fallback fallbacks[KERNEL_MAX_FALLBACKS]; /* of kernel_choice */
    uint32_t num_fallbacks;
};

/* ---- which hint applies ---------------------------------------------------------------------- */

static bool has(const struct kernel_request *request, const char *key, const char *word)
{
    return strcmp(kernel_request_word(request, key), word) == 0;
}

/* Whether the set has a kernel of PRECISION f16 for such requests, on whatever device. */
static bool is_served_in_f16(const struct kernel_set *set, const struct kernel_request *request)
{
    for (size_t i = 0; i < kernel_set_count(set); i++)
        if (kernel_set_at(set, i)->f16 && kernel_serves(kernel_set_at(set, i), request))
            return true;
    return false;
}

/* What the five fixed hints mean. False when the hint has nothing to say about the request. */
static bool read_fixed(const struct kernel_set *set, const struct kernel_hint *hint,
                       const struct kernel_request *request, struct requested *requested)
{
    bool matmul = strcmp(request->op, "matmul") == 0, decode = has(request, "phase", "decode");
    bool subgroup = strcmp(hint->value, "gemv_subgroup") == 0;
    *requested = (struct requested){.hint = hint, .word = hint->value, .specificity = 1};
    if (strcmp(hint->key, "attentionPrefill") == 0)
        return strcmp(request->op, "attn_prefill") == 0;
    if (strcmp(hint->key, "attentionDecode") == 0)
        return strcmp(request->op, "attn_decode") == 0 || strcmp(request->op, "attn_token") == 0;
    if (strcmp(hint->key, "f16Matmul") == 0)
        return matmul && decode && has(request, "weight", "f16");
    if (strcmp(hint->key, "q4kMatmul") == 0) {
        requested->impossible = dgl_str_starts(dgl_str_of(hint->value), "dequant_");
        if (strcmp(hint->value, "fused_q4k") == 0)
            requested->word = NULL; /* every kernel that takes packed weights */
        return matmul && has(request, "weight", "q4_k") && (decode || !subgroup);
    }
    requested->f16 = strcmp(hint->key, "computePrecision") == 0 && strcmp(hint->value, "f16") == 0;
    requested->word = NULL;
    requested->specificity = 0;
    return requested->f16 && matmul && is_served_in_f16(set, request);
}

/* After `passed`, a hint that was passed over, others of its layer are heard; NULL: none was. */
static struct requested find_requested(const struct kernel_set *set,
                                       const struct kernel_request *request,
                                       const struct requested *passed)
{
    const struct kernel_hints *hints = kernel_set_hints(set);
    struct requested best = {.hint = NULL};
    for (size_t i = 0; i < hints->count; i++) {
        const struct kernel_hint *hint = &hints->items[i];
        struct requested requested = {.hint = hint, .word = hint->value};
        if (strcmp(hint->value, "auto") == 0)
            continue;
        if (dgl_str_starts(dgl_str_of(hint->key), "variants.")) {
            requested.specificity = kernel_request_match(request, hint->key + strlen("variants."));
            if (requested.specificity == 0)
                continue;
            requested.specificity++;
        } else if (!read_fixed(set, hint, request, &requested)) {
            continue;
        }
        if (passed &&
            (hint->layer != passed->hint->layer || requested.specificity >= passed->specificity))
            continue;
        if (!best.hint || hint->layer > best.hint->layer ||
            (hint->layer == best.hint->layer && requested.specificity > best.specificity))
            best = requested;
    }
    return best;
}

/* The first layer that yields and has a say about the kernel's tunables. */
static const char *yielding_origin(const struct chooser *c, const struct kernel *kernel)
{
    const struct kernel_hints *hints = kernel_set_hints(c->fit.set);
    for (uint32_t i = 0; i < kernel->num_tunes; i++) {
        const struct kernel_hint *hint = kernel_hints_find_tune(
            hints, c->fit.request, kernel->name, kernel->tunes[i].name, KERNEL_HEARS_ALL);
        if (hint && kernel_layer_yields(hints, hint->layer))
            return hint->origin;
    }
    const struct kernel_shape_hints shape = kernel_fit_shape(&c->fit, kernel);
    if (shape.local && kernel_layer_yields(hints, shape.local->layer))
        return shape.local->origin;
    return shape.cols ? shape.cols->origin : "";
}

/* ---- candidates ------------------------------------------------------------------------------ */

enum filter { FILTER_ALL, FILTER_ADDED, FILTER_REQUESTED };

static bool answers_to(const struct kernel *kernel, const char *word)
{
    return strcmp(kernel->name, word) == 0 || strcmp(kernel->variant, word) == 0 ||
           kernel_word_in(kernel->aliases, word);
}

static bool passes(const struct chooser *c, enum filter filter, const struct kernel *kernel)
{
    const struct requested *requested = &c->requested;
    if (strcmp(kernel->op, c->fit.request->op) != 0)
        return false;
    if (filter == FILTER_ADDED)
        return kernel->added && (!kernel->f16 || c->allow_f16);
    if (filter == FILTER_REQUESTED && requested->word && !answers_to(kernel, requested->word))
        return false;
    if (filter == FILTER_REQUESTED && requested->f16 && !kernel->f16)
        return false;
    return !kernel->f16 || c->allow_f16 ||
           (filter == FILTER_REQUESTED && requested->word &&
            strcmp(kernel->name, requested->word) == 0);
}

/* The outcome of trying all kernels that pass a filter. */
struct pick {
    struct kernel_choice choice; /* kernel NULL: none can run */
    int64_t rank, second_rank;
    const struct kernel *second;
    bool second_spills;
    /* The one that needs most of those that need more registers than the device has. */
    const struct kernel *spilling; /* NULL: none */
    int64_t spilling_needs, spilling_rank;
    int served;                 /* kernels whose WHEN holds */
    struct dgl_buf refusals;    /* "name: why; name: why" of all that cannot run */
    struct dgl_buf passed_over; /* of those among them whose WHEN holds */
    /* The best of those that only the tunables that were asked for keep from running. */
    const struct kernel *blocked; /* NULL: none */
    int64_t blocked_rank;
    char blocked_why[192];
    /* The first whose text is at fault, unless it is built in: that is never passed over. */
    const struct kernel *faulty; /* NULL: none */
    struct kernel_line fault;
    char fault_why[192];
};

/* A kernel that fits the device's registers comes before all that spill; then PREFER decides. */
static bool is_better(bool spills, int64_t rank, bool other_spills, int64_t other_rank)
{
    return spills != other_spills ? !spills : rank > other_rank;
}

static void pick_add(struct pick *pick, const struct kernel_choice *choice, int64_t rank)
{
    const bool spills = choice->spills > 0;
    if (pick->choice.kernel && !is_better(spills, rank, pick->choice.spills > 0, pick->rank)) {
        if (!pick->second || is_better(spills, rank, pick->second_spills, pick->second_rank)) {
            pick->second = choice->kernel;
            pick->second_rank = rank;
            pick->second_spills = spills;
        }
    } else {
        pick->second = pick->choice.kernel;
        pick->second_rank = pick->rank;
        pick->second_spills = pick->choice.spills > 0;
        pick->choice = *choice;
        pick->rank = rank;
    }
    if (spills && (!pick->spilling || choice->registers > pick->spilling_needs)) {
        pick->spilling = choice->kernel;
        pick->spilling_needs = choice->registers;
        pick->spilling_rank = rank;
    }
}

static void add_refusal(struct dgl_buf *out, const struct kernel *kernel, const char *why)
{
    dgl_buf_printf(out, "%s%s", out->len ? "; " : "", kernel->name);
    if (strcmp(kernel->origin, "builtin") != 0)
        dgl_buf_printf(out, " (%s)", kernel->origin);
    dgl_buf_printf(out, ": %s", why);
}

/* Whether some tunable or the work groups of the kernel have a hint, of the layers that `heard`
 * leaves. */
static bool has_tunes(const struct chooser *c, const struct kernel *kernel,
                      enum kernel_hints_heard heard)
{
    const struct kernel_hints *hints = kernel_set_hints(c->fit.set);
    struct kernel_fit fit = c->fit;
    fit.hears = heard;
    const struct kernel_shape_hints shape = kernel_fit_shape(&fit, kernel);
    if (shape.local || shape.cols)
        return true;
    for (uint32_t i = 0; i < kernel->num_tunes; i++)
        if (kernel_hints_find_tune(hints, c->fit.request, kernel->name, kernel->tunes[i].name,
                                   heard))
            return true;
    return false;
}

/* "HEAD: WHY"; both may be cut, and of very many the last ones are not kept. */
static void add_fallback(struct kernel_fallback *list, uint32_t *count, const char *head,
                         const char *why)
{
    if (*count < KERNEL_MAX_FALLBACKS)
        snprintf(list[(*count)++].text, sizeof(list->text), "%.120s: %s", head, why);
}

static void note_fault(struct pick *pick, const struct kernel_choice *choice, const char *why)
{
    if (pick->faulty || !choice->fault.path || choice->fault.source == 0)
        return;
    pick->faulty = choice->kernel;
    pick->fault = choice->fault;
    snprintf(pick->fault_why, sizeof(pick->fault_why), "%s", why);
}

/* Tries a kernel with the tunables of all hints, then without those that yield. One that could run
 * without those that were asked for is noted in `pick`, and so is one whose text is at fault. */
static bool fit(const struct chooser *c, const struct kernel *kernel, struct pick *pick,
                struct kernel_choice *choice, int64_t *rank, char why[192])
{
    struct kernel_fit fit = c->fit;
    struct kernel_choice free_choice;
    int64_t free_rank;
    char asked_why[192], free_why[192], head[160];
    if (kernel_fit_hinted(&fit, kernel, choice, rank, why))
        return true;
    if (!kernel_serves(kernel, fit.request))
        return false;
    if (!has_tunes(c, kernel, KERNEL_HEARS_ALL)) {
        note_fault(pick, choice, why);
        return false;
    }
    fit.hears = KERNEL_HEARS_ASKED;
    const struct kernel_shape_hints shape = kernel_fit_shape(&fit, kernel);
    if (kernel_fit_hinted(&fit, kernel, choice, rank, asked_why)) {
        snprintf(head, sizeof(head), "tunables of %s (%s) do not apply here", kernel->name,
                 yielding_origin(c, kernel));
        add_fallback(choice->fallbacks, &choice->num_fallbacks, head, why);
        return true;
    }
    fit.hears = KERNEL_HEARS_NONE;
    const bool runs = kernel_fit_try(&fit, kernel, &free_choice, &free_rank, free_why);
    const bool blocked = runs && has_tunes(c, kernel, KERNEL_HEARS_ASKED);
    if (!runs)
        note_fault(pick, &free_choice, free_why);
    /* Another kernel may have the columns that one cannot have. */
    if (blocked && shape.cols)
        free_rank = INT64_MIN;
    if (blocked && (!pick->blocked || free_rank > pick->blocked_rank)) {
        pick->blocked = kernel;
        pick->blocked_rank = free_rank;
        snprintf(pick->blocked_why, sizeof(pick->blocked_why), "%s", asked_why);
    }
    return false;
}

/* The precision is a wish for speed, which a built-in kernel that spills does not meet. A kernel of
 * a file, or one that is asked for by its name, is used all the same. */
static bool spills_for_f16(const struct chooser *c, enum filter filter,
                           const struct kernel_choice *choice, char why[192])
{
    if (filter != FILTER_REQUESTED || !c->requested.f16 || choice->spills == 0 ||
        choice->kernel->added)
        return false;
    snprintf(why, 192, "it would spill: it needs %lld registers, REGISTERS is %lld",
             (long long)choice->registers, (long long)(choice->registers - choice->spills));
    return true;
}

/* The caller calls pick_finish(). */
static void pick_among(const struct chooser *c, enum filter filter, struct pick *pick)
{
    *pick = (struct pick){.rank = 0};
    for (size_t i = 0; i < kernel_set_count(c->fit.set); i++) {
        const struct kernel *kernel = kernel_set_at(c->fit.set, i);
        struct kernel_choice choice;
        int64_t rank;
        char why[192];
        if (!passes(c, filter, kernel))
            continue;
        bool serves = kernel_serves(kernel, c->fit.request);
        pick->served += serves;
        if (fit(c, kernel, pick, &choice, &rank, why) && !spills_for_f16(c, filter, &choice, why)) {
            pick_add(pick, &choice, rank);
            continue;
        }
        add_refusal(&pick->refusals, kernel, why);
        if (serves)
            add_refusal(&pick->passed_over, kernel, why);
    }
}

static void pick_finish(struct pick *pick)
{
    dgl_buf_finish(&pick->refusals);
    dgl_buf_finish(&pick->passed_over);
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Kernels for other attributes matter only when there are no others; NULL: none was looked at. */
static const char *why_not(const struct pick *pick)
{
    return pick->passed_over.p ? pick->passed_over.p : pick->refusals.p;
}

/* Why the hint is not met. Where no kernel of the operation goes by its word, the kernels of other
 * operations that the hint speaks of, with what the device lacks for them. */
static void explain_unmet(const struct chooser *c, const struct pick *pick, struct dgl_buf *out)
{
    const char *why = c->requested.impossible ? "the weights are still packed" : why_not(pick);
    const bool fixed = !dgl_str_starts(dgl_str_of(c->requested.hint->key), "variants.");
    if (why) {
        dgl_buf_puts(out, why);
        return;
    }
    for (size_t i = 0; i < kernel_set_count(c->fit.set) && fixed && c->requested.word; i++) {
        const struct kernel *kernel = kernel_set_at(c->fit.set, i);
        struct kernel_request other = *c->fit.request;
        struct kernel_choice scratch;
        struct requested requested;
        char lacks[192];
        other.op = kernel->op;
        if (!answers_to(kernel, c->requested.word) ||
            !read_fixed(c->fit.set, c->requested.hint, &other, &requested))
            continue;
        if (kernel_fit_device(&c->fit, kernel, &scratch, lacks))
            snprintf(lacks, sizeof(lacks), "for %s only", kernel->op);
        add_refusal(out, kernel, lacks);
    }
    if (!out->len)
        dgl_buf_printf(out, "no kernel of %s is of that kind", c->fit.request->op);
}

static enum dgl_status fail_wish(const struct chooser *c, const struct pick *pick)
{
    struct dgl_buf request = {0}, why = {0};
    kernel_request_describe(c->fit.request, &request);
    explain_unmet(c, pick, &why);
    enum dgl_status status =
        dgl_fail(c->log, DGL_ERR_UNSUPPORTED,
                 "the hint %s=%s (%s) cannot be met for %s: %s; choose another value or auto",
                 c->requested.hint->key, c->requested.hint->value, c->requested.hint->origin,
                 request.p ? request.p : "", why.p ? why.p : "");
    dgl_buf_finish(&request);
    dgl_buf_finish(&why);
    return status;
}

/* What was asked for of tunables keeps the kernel that would have been taken from running. */
static bool is_blocked(const struct pick *pick)
{
    return pick->blocked && (!pick->choice.kernel || pick->blocked_rank > pick->rank);
}

static enum dgl_status fail_blocked(const struct chooser *c, const struct pick *pick)
{
    const struct kernel_hints *hints = kernel_set_hints(c->fit.set);
    const struct kernel *kernel = pick->blocked;
    struct dgl_buf request = {0}, asked = {0};
    kernel_request_describe(c->fit.request, &request);
    struct kernel_fit fit = c->fit;
    fit.hears = KERNEL_HEARS_ASKED;
    const struct kernel_shape_hints shape = kernel_fit_shape(&fit, kernel);
    for (uint32_t i = 0; i < kernel->num_tunes + 2; i++) {
        const struct kernel_hint *hint = i == kernel->num_tunes ? shape.local : shape.cols;
        if (i < kernel->num_tunes)
            hint = kernel_hints_find_tune(hints, c->fit.request, kernel->name,
                                          kernel->tunes[i].name, KERNEL_HEARS_ASKED);
        if (hint)
            dgl_buf_printf(&asked, "%s%s=%s (%s)", asked.len ? ", " : "", hint->key, hint->value,
                           hint->origin);
    }
    enum dgl_status status = dgl_fail(
        c->log, DGL_ERR_UNSUPPORTED,
        "the hint %s cannot be met for %s: %s: %s; choose another value or auto",
        asked.p ? asked.p : "", request.p ? request.p : "", kernel->name, pick->blocked_why);
    dgl_buf_finish(&request);
    dgl_buf_finish(&asked);
    return status;
}

static enum dgl_status fail_fault(const struct chooser *c, const struct pick *pick)
{
    struct dgl_buf request = {0};
    kernel_request_describe(c->fit.request, &request);
    enum dgl_status status = dgl_fail(c->log, DGL_ERR_KERNEL, "%s:%u: %s (kernel %s for %s)",
                                      pick->fault.path, (unsigned)pick->fault.line, pick->fault_why,
                                      pick->faulty->name, request.p ? request.p : "");
    dgl_buf_finish(&request);
    return status;
}

static enum dgl_status fail_none(const struct chooser *c, const struct pick *pick, const char *what)
{
    struct dgl_buf request = {0};
    const char *why = why_not(pick);
    bool wrong = false, unfit = false;
    kernel_request_describe(c->fit.request, &request);
    for (size_t i = 0; i < c->fit.num_device; i++) {
        const struct kernel_var *property = &c->fit.device[i];
        wrong |= strncmp(property->name, KERNEL_WRONG_PROPERTY, strlen(KERNEL_WRONG_PROPERTY)) == 0;
        unfit |= property->value == KERNEL_UNFIT &&
                 strncmp(property->name, KERNEL_WRONG_PROPERTY, strlen(KERNEL_WRONG_PROPERTY)) == 0;
    }
    const bool topk = unfit && strcmp(kernel_request_word(c->fit.request, "kind"), "topk") == 0;
    enum dgl_status status = dgl_fail(
        c->log, DGL_ERR_UNSUPPORTED, "no %s can run %s: %s%s", what, request.p ? request.p : "",
        why ? why : "none has that operation",
        topk    ? "; do without it (--top-k 0), or update the device's driver"
        : unfit ? "; --kernel-file or other --kernel-hints tunes may compile; else update the "
                  "device's driver, or take another device (`dopplergl devices`)"
        : wrong ? "; update the device's driver, or take another device (`dopplergl devices`)"
                : "");
    dgl_buf_finish(&request);
    return status;
}

/* Whether another kernel would be taken without the hint of a manifest's defaults. */
static bool changes_choice(const struct chooser *c, const struct kernel *kernel)
{
    const struct kernel_hint *precision =
        kernel_hints_find(kernel_set_hints(c->fit.set), "computePrecision");
    struct chooser plain = *c;
    struct pick pick;
    if (c->requested.hint->layer != KERNEL_LAYER_MANIFEST)
        return false;
    plain.allow_f16 = c->allow_f16 && precision->layer != KERNEL_LAYER_MANIFEST;
    pick_among(&plain, FILTER_ALL, &pick);
    bool changes = pick.choice.kernel != kernel;
    pick_finish(&pick);
    return changes;
}

static void set_reason(const struct chooser *c, const struct pick *pick, enum filter filter,
                       struct kernel_choice *out)
{
    const struct kernel_hint *hint = c->requested.hint;
    const bool measured = filter == FILTER_REQUESTED && hint->layer == KERNEL_LAYER_TUNER;
    out->rank = pick->rank;
    out->asked = (filter != FILTER_ALL && !measured) || out->kernel->source != 0;
    char *reason = out->reason;
    size_t size = sizeof(out->reason);
    int len = 0;
    if (filter == FILTER_REQUESTED)
        out->hint = (struct kernel_hint_used){.key = hint->key,
                                              .value = hint->value,
                                              .origin = hint->origin,
                                              .layer = hint->layer,
                                              .decides = changes_choice(c, out->kernel)};
    if (measured) /* the hint's key is the whole request */
        len = snprintf(reason, size, "the fastest that was measured (%s)", hint->origin);
    else if (filter == FILTER_REQUESTED)
        len = snprintf(reason, size, "hint %s=%s (%s)", hint->key, hint->value, hint->origin);
    else if (filter == FILTER_ADDED)
        len = snprintf(reason, size, "file %s", pick->choice.kernel->path);
    else if (pick->second)
        len = snprintf(reason, size, "preferred: %lld over %s (%lld)", (long long)pick->rank,
                       pick->second->name, (long long)pick->second_rank);
    else
        len = snprintf(reason, size, "the only one that can run");
    if (pick->spilling && out->spills == 0 && len >= 0 && (size_t)len < size)
        len += snprintf(reason + len, size - (size_t)len,
                        "; %s (%lld) would spill: it needs %lld registers", pick->spilling->name,
                        (long long)pick->spilling_rank, (long long)pick->spilling_needs);
    if (out->spills > 0 && len >= 0 && (size_t)len < size)
        len += snprintf(reason + len, size - (size_t)len,
                        "; it spills: it needs %lld registers, REGISTERS is %lld",
                        (long long)out->registers, (long long)(out->registers - out->spills));
    for (uint32_t i = 0; i < out->num_tunes && len >= 0 && (size_t)len < size; i++)
        if (strcmp(out->tune_origin[i], "default") != 0)
            len += snprintf(reason + len, size - (size_t)len, "; %s=%lld (%s)",
                            out->kernel->tunes[i].name,
                            (long long)out->vars[out->num_consts + i].value, out->tune_origin[i]);
    const struct kernel_fallback own = out->fallbacks[0]; /* of its tunables: one at most */
    assert(out->num_fallbacks <= 1);
    if (c->num_fallbacks > 0) {
        const bool has_own = out->num_fallbacks > 0;
        memcpy(out->fallbacks, c->fallbacks, sizeof(out->fallbacks));
        out->num_fallbacks = c->num_fallbacks;
        if (has_own && out->num_fallbacks < KERNEL_MAX_FALLBACKS)
            out->fallbacks[out->num_fallbacks++] = own;
    }
    for (uint32_t i = 0; i < out->num_fallbacks && len >= 0 && (size_t)len < size; i++)
        len += snprintf(reason + len, size - (size_t)len, "; %s", out->fallbacks[i].text);
    if (out->num_fallbacks == 0 && c->note[0] && len >= 0 && (size_t)len < size)
        len += snprintf(reason + len, size - (size_t)len, "; %s", c->note);
    if (pick->passed_over.len && len >= 0 && (size_t)len < size)
        snprintf(reason + len, size - (size_t)len, "; passed over: %s", pick->passed_over.p);
}

/* ---- choice ---------------------------------------------------------------------------------- */

/* Tries the hint; *done says that *out or the status is final, *passed that it was passed over. */
static enum dgl_status try_wish(struct chooser *c, struct kernel_choice *out, bool *done,
                                bool *passed)
{
    const struct kernel_hint *hint = c->requested.hint;
    struct pick pick = {.rank = 0};
    enum dgl_status status = DGL_OK;
    bool named = dgl_str_starts(dgl_str_of(hint->key), "variants.");
    const struct kernel_hints *hints = kernel_set_hints(c->fit.set);
    /* One product of a model that cannot be had in f16 does not keep the others from it:
     * kernel_set_check_heard() refuses where none can. */
    const bool yields =
        kernel_layer_yields(hints, hint->layer) || (c->requested.f16 && !hints->strict);
    struct dgl_buf why = {0};
    char head[160];
    if (!c->requested.impossible)
        pick_among(c, FILTER_REQUESTED, &pick);
    *done = true;
    *passed = false;
    if (pick.faulty) {
        status = fail_fault(c, &pick);
        out->asked = true;
    } else if (is_blocked(&pick)) {
        status = fail_blocked(c, &pick);
        out->asked = true;
    } else if (pick.choice.kernel) {
        *out = pick.choice;
        set_reason(c, &pick, FILTER_REQUESTED, out);
    } else if (named && pick.served == 0) {
        /* A kernel of `variants` that serves only other attributes says nothing here. */
        *done = false;
        explain_unmet(c, &pick, &why);
        snprintf(c->note, sizeof(c->note), "hint %s=%s (%s) does not apply here: %s", hint->key,
                 hint->value, hint->origin, why.p ? why.p : "");
    } else if (yields) {
        *done = false;
        *passed = true;
        snprintf(head, sizeof(head), "hint %s=%s (%s) does not apply here", hint->key, hint->value,
                 hint->origin);
        explain_unmet(c, &pick, &why);
        add_fallback(c->fallbacks, &c->num_fallbacks, head, why.p ? why.p : "");
    } else {
        status = fail_wish(c, &pick);
        out->asked = true;
    }
    pick_finish(&pick);
    dgl_buf_finish(&why);
    return status;
}

/* Tries the hint, then, as long as they are passed over, the others of its layer. */
static enum dgl_status try_wishes(struct chooser *c, struct kernel_choice *out, bool *done)
{
    enum dgl_status status = DGL_OK;
    bool passed = true;
    while (passed && c->requested.hint) {
        const struct requested tried = c->requested;
        status = try_wish(c, out, done, &passed);
        if (passed)
            c->requested = find_requested(c->fit.set, c->fit.request, &tried);
    }
    return status;
}

/* Kernels that a user added beat built-in ones; when they serve the request and none can run, that
 * is an error. */
static enum dgl_status try_filter(struct chooser *c, enum filter filter, struct kernel_choice *out,
                                  bool *done)
{
    struct pick pick;
    enum dgl_status status = DGL_OK;
    pick_among(c, filter, &pick);
    *done = pick.choice.kernel || filter == FILTER_ALL || pick.served > 0;
    if (pick.faulty) {
        status = fail_fault(c, &pick);
        out->asked = true;
    } else if (is_blocked(&pick)) {
        status = fail_blocked(c, &pick);
        out->asked = true;
    } else if (pick.choice.kernel) {
        *out = pick.choice;
        set_reason(c, &pick, filter, out);
    } else if (*done) {
        status =
            fail_none(c, &pick, filter == FILTER_ADDED ? "kernel of the given files" : "kernel");
        out->asked = filter == FILTER_ADDED;
    }
    pick_finish(&pick);
    return status;
}

enum dgl_status kernel_choose(const struct dgl_log *log, const struct kernel_set *set,
                              const struct kernel_request *request, const struct kernel_var *device,
                              size_t num_device, struct kernel_choice *out)
{
    struct chooser c = {
        .log = log,
        .fit = {.set = set, .request = request, .device = device, .num_device = num_device}};
    const struct kernel_hints *hints = kernel_set_hints(set);
    const struct kernel_hint *precision = kernel_hints_find(hints, "computePrecision");
    bool done = false;
    enum dgl_status status = DGL_OK;
    if (num_device > KERNEL_MAX_PROPERTIES)
        return dgl_fail(log, DGL_ERR_INVALID_ARG, "%zu device properties are given, at most %d fit",
                        num_device, KERNEL_MAX_PROPERTIES);
    c.allow_f16 = precision && strcmp(precision->value, "f16") == 0;
    c.requested = find_requested(set, request, NULL);
    bool requested_first = c.requested.hint && c.requested.hint->layer > KERNEL_LAYER_FILES;
    if (requested_first)
        status = try_wishes(&c, out, &done);
    if (!done)
        status = try_filter(&c, FILTER_ADDED, out, &done);
    if (!done && c.requested.hint && !requested_first)
        status = try_wishes(&c, out, &done);
    if (!done)
        status = try_filter(&c, FILTER_ALL, out, &done);
    return status;
}

/* ---- hints that nobody hears ----------------------------------------------------------------- */

/* The kernels that a model's steps take, and what for. */
struct taken {
    const struct kernel_set *set;
    const struct kernel_request *const *requests;
    const struct kernel_choice *const *choices; /* as many */
    size_t count;
    bool q4_k_expanded; /* weights of q4_k were unpacked as a hint says */
};

/* Whether some kernel that goes by the word is for such requests. */
static bool is_served(const struct kernel_set *set, const char *word,
                      const struct kernel_request *request)
{
    for (size_t i = 0; i < kernel_set_count(set); i++) {
        const struct kernel *kernel = kernel_set_at(set, i);
        if (strcmp(kernel->op, request->op) == 0 && answers_to(kernel, word) &&
            kernel_serves(kernel, request))
            return true;
    }
    return false;
}

/* Which steps the hint is for: requests that match the pattern, and of tunables and work groups
 * those that take the kernel. */
struct hint_subject {
    const char *pattern; /* "": every request; NULL: the hint goes by its key alone */
    const char *kernel;  /* NULL: whichever it is */
};

static struct hint_subject hint_subject(const struct kernel_hint *hint)
{
    const char *dot = strchr(hint->key, '.');
    if (hint->tune)
        return (struct hint_subject){hint->pattern, hint->kernel};
    if (dot && dgl_str_starts(dgl_str_of(hint->key), "workgroupOverrides."))
        return (struct hint_subject){"", dot + 1};
    if (dot && dgl_str_starts(dgl_str_of(hint->key), "variants."))
        return (struct hint_subject){dot + 1, NULL};
    return (struct hint_subject){NULL, NULL};
}

/* What the hint is for instead of some step; NULL: it has a say about one, whether or not another
 * hint beats it there. */
static const char *misses(const struct kernel_hint *hint, const struct taken *taken)
{
    const struct hint_subject subject = hint_subject(hint);
    struct requested requested;
    bool matched = false;
    for (size_t i = 0; i < taken->count; i++) {
        const struct kernel_request *request = taken->requests[i];
        if (!subject.pattern) {
            if (strcmp(hint->key, "colsPerWorkgroup") == 0
                    ? strcmp(request->op, "matmul") == 0 && has(request, "phase", "decode")
                    : read_fixed(taken->set, hint, request, &requested))
                return NULL;
            continue;
        }
        if (subject.pattern[0] && !kernel_request_match(request, subject.pattern))
            continue;
        matched = true;
        if (subject.kernel ? strcmp(taken->choices[i]->kernel->name, subject.kernel) == 0
                           : is_served(taken->set, hint->value, request))
            return NULL;
    }
    if (!matched)
        return "no operation of the model";
    return subject.kernel ? "a kernel that no such step of the model takes"
                          : "steps of the model that no such kernel serves";
}

/* Whether the model has the operation that the hint speaks of: if not it may be there for other
 * models. */
static bool has_operation(const struct kernel_hint *hint, const struct taken *taken)
{
    const struct hint_subject subject = hint_subject(hint);
    const struct kernel *kernel =
        subject.kernel ? kernel_set_find(taken->set, subject.kernel) : NULL;
    const struct dgl_str op = kernel ? dgl_str_of(kernel->op)
                              : subject.pattern
                                  ? (struct dgl_str){subject.pattern, strcspn(subject.pattern, "/")}
                                  : DGL_STR("");
    for (size_t i = 0; i < taken->count; i++)
        if (dgl_str_eq(op, taken->requests[i]->op))
            return true;
    return false;
}

/* A person's computePrecision=f16 by which nothing of a model would be computed in f16. It is fine
 * where other hints have beaten it wherever it had a say. */
static enum dgl_status check_precision(const struct dgl_log *log, const struct kernel_hint *hint,
                                       const struct taken *taken)
{
    static const char over[] = " does not apply here: ";
    char head[160];
    const char *passed = NULL, *why;
    const int len = snprintf(head, sizeof(head), "hint %s=%s (", hint->key, hint->value);
    for (size_t i = 0; i < taken->count; i++) {
        const struct kernel_choice *choice = taken->choices[i];
        if (choice->kernel->f16)
            return DGL_OK;
        for (uint32_t f = 0; f < choice->num_fallbacks && !passed; f++)
            if (strncmp(choice->fallbacks[f].text, head, (size_t)len) == 0)
                passed = choice->fallbacks[f].text;
    }
    if (!passed && !misses(hint, taken))
        return DGL_OK;
    why = passed ? strstr(passed, over) : NULL;
    return dgl_fail(log, DGL_ERR_UNSUPPORTED,
                    "the hint %s=%s (%s) cannot be met for any product of the model: %s; choose "
                    "another value or auto",
                    hint->key, hint->value, hint->origin,
                    why      ? why + strlen(over)
                    : passed ? passed
                             : "no kernel of PRECISION f16 is for one");
}

static enum dgl_status check_heard(const struct dgl_log *log, const struct kernel_hint *hint,
                                   const struct taken *taken, bool strict)
{
    const struct kernel_hints *hints = kernel_set_hints(taken->set);
    if (strcmp(hint->key, "computePrecision") == 0 && strcmp(hint->value, "f16") == 0 &&
        !kernel_layer_yields(hints, hint->layer))
        return check_precision(log, hint, taken);
    const bool q4_k = strcmp(hint->key, "q4kMatmul") == 0;
    if (strcmp(hint->value, "auto") == 0 ||
        (strict ? hint->layer == KERNEL_LAYER_TUNER || !kernel_hint_chooses(hint) ||
                      (q4_k && taken->q4_k_expanded)
                : hint->layer < KERNEL_LAYER_PINNED || !has_operation(hint, taken)))
        return DGL_OK;
    const char *other = misses(hint, taken);
    if (other && strict)
        return dgl_fail(log, DGL_ERR_UNSUPPORTED,
                        "the hint %s=%s (%s) is for %s, and hints are strict: leave it out, or "
                        "strict",
                        hint->key, hint->value, hint->origin, other);
    if (other)
        dgl_notice(log, "the hint %s=%s (%s) is for %s, and changes nothing", hint->key,
                   hint->value, hint->origin, other);
    return DGL_OK;
}

enum dgl_status kernel_set_check_heard(const struct dgl_log *log, const struct kernel_set *set,
                                       const struct kernel_request *const *requests,
                                       const struct kernel_choice *const *choices, size_t count,
                                       bool q4_k_expanded)
{
    const struct kernel_hints *hints = kernel_set_hints(set);
    const struct taken taken = {set, requests, choices, count, q4_k_expanded};
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < hints->count && status == DGL_OK; i++)
        status = check_heard(log, &hints->items[i], &taken, hints->strict);
    return status;
}
