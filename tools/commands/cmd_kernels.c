/* kernels list | explain: the kernels, and the reason for each of a model's plan; which of its
 * actions `kernels` is to do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/mem.h"
#include "core/base/nearest.h"
#include "core/base/printable.h"
#include "tools/cli/commands.h"
#include "tools/commands/kernels.h"
#include "tools/cli/options_table.h"
#include "tools/cli/report.h"

void kernels_report(struct dgl_json_writer *w, const struct dgl_kernel_info *k)
{
    dgl_jw_field_cstr(w, "name", k->name);
    dgl_jw_field_cstr(w, "op", k->op);
    dgl_jw_field_cstr(w, "variant", k->variant);
    dgl_jw_field_cstr(w, "origin", k->origin);
    /* The hash is empty if the file could not be read. */
    dgl_jw_field_cstr(w, "sha256", k->sha256[0] ? k->sha256 : NULL);
    dgl_jw_field_cstr(w, "summary", k->summary);
}

static bool list_kernel(void *priv, const struct dgl_kernel_info *k)
{
    struct report_list *l = priv;
    if (l->json) {
        dgl_jw_object(&l->w);
        kernels_report(&l->w, k);
        dgl_jw_end_object(&l->w);
    } else {
        dgl_buf_printf(&l->out, "%-28s %-14s %-10s %.12s %s\n   ", k->name, k->op, k->variant,
                       k->sha256, k->origin);
        report_wrapped(&l->out, 3, 4, k->summary ? k->summary : "");
    }
    return true;
}

/* ---- explain --------------------------------------------------------------------------------- */

/* The steps of one phase and layer as lines. Equal layers are one block: `count` layers from
 * `layer` on. */
struct block {
    enum dgl_phase phase;
    int32_t layer; /* -1 outside the layers */
    uint32_t count;
    struct dgl_buf lines;
};

struct explanation {
    struct report_list *l;
    const struct dgl_model *model;
    struct block *block;
    size_t count, cap;
    struct dgl_buf lazy; /* steps outside of layers that are compiled at their first use */
    bool short_passes;   /* some steps in layers, too: those of passes over few tokens */
    int32_t batch;       /* sequences of a pass; 1 means all passes of the plan */
    uint32_t dispatches; /* steps of the pass over `batch` sequences, without sampling */
    bool failed;
};

/* Prints the groups of a step, its invocations with work, and its bytes. */
static void put_figures(struct dgl_buf *out, const struct dgl_plan_step *s)
{
    struct dgl_buf line = {0};
    const uint32_t groups = s->groups[0] * s->groups[2];
    if (s->tokens > 1)
        dgl_buf_printf(&line, "%d tokens: ", s->tokens);
    dgl_buf_printf(&line, "%u", groups);
    if (s->groups[1] > 1)
        dgl_buf_printf(&line, " x %u", s->groups[1]);
    dgl_buf_printf(&line, " group%s of %u", groups * s->groups[1] == 1 ? "" : "s", s->local[0]);
    for (int axis = 1; axis < 3; axis++)
        if (s->local[axis] > 1)
            dgl_buf_printf(&line, " x %u", s->local[axis]);
    if (s->active < s->launched)
        dgl_buf_printf(&line, "; %llu of %llu invocations have work (%.0f%%)",
                       (unsigned long long)s->active, (unsigned long long)s->launched,
                       100.0 * (double)s->active / (double)s->launched);
    else if (s->launched)
        dgl_buf_printf(&line, "; all %llu invocations have work", (unsigned long long)s->launched);
    if (s->bytes) {
        dgl_buf_puts(&line, "; ");
        dgl_buf_bytes(&line, s->bytes);
        dgl_buf_puts(&line, " of weights");
    }
    dgl_buf_printf(out, "%15s", "");
    report_wrapped(out, 15, 16, line.p ? line.p : "");
    out->failed = out->failed || line.failed;
    dgl_buf_finish(&line);
}

struct others {
    struct dgl_json_writer *w; /* NULL for text */
    struct dgl_buf line;
    const char *reason; /* reason of the step's kernel, whose words are not repeated */
};

/* Prints an alternative. JSON has all of them, text only those that serve the step. */
static bool put_other(void *priv, const struct dgl_plan_alternative *a)
{
    struct others *o = priv;
    char named[400], second[128];
    if (o->w) {
        dgl_jw_object(o->w);
        dgl_jw_field_cstr(o->w, "name", a->kernel->name);
        dgl_jw_field_cstr(o->w, "variant", a->kernel->variant);
        dgl_jw_field_cstr(o->w, "origin", a->kernel->origin);
        dgl_jw_field_bool(o->w, "serves", a->serves);
        dgl_jw_field_bool(o->w, "runs", a->runs);
        if (a->runs)
            dgl_jw_field_i64(o->w, "prefer", a->prefer);
        else
            dgl_jw_field_null(o->w, "prefer");
        dgl_jw_field_cstr(o->w, "why", a->why);
        dgl_jw_end_object(o->w);
        return true;
    }
    snprintf(named, sizeof(named), "%s: %s", a->kernel->name, a->why);
    snprintf(second, sizeof(second), " over %s (", a->kernel->name);
    if (a->serves && !strstr(o->reason, named) && !strstr(o->reason, second))
        dgl_buf_printf(&o->line, "%s%s", o->line.len ? "; " : "not ", named);
    return true;
}

static void put_step(struct dgl_buf *out, const struct dgl_model *model,
                     const struct dgl_plan_step *s)
{
    size_t start = out->len;
    dgl_buf_printf(out, "  %-14s %-24s %-20s", s->op, s->kernel->name, s->shape);
    size_t column = out->len - start;
    /* A wide shape leaves no room for the reason on its line. */
    if (column > 2 + 15 + 25 + 20) {
        dgl_buf_printf(out, "\n%16s", "");
        column = 16;
    }
    report_wrapped(out, column, 16, s->reason);
    /* The reason may be the file itself. */
    if (strcmp(s->kernel->origin, "builtin") != 0 && !strstr(s->reason, s->kernel->origin)) {
        dgl_buf_printf(out, "%16sfrom ", "");
        dgl_buf_visible(out, dgl_str_of(s->kernel->origin));
        dgl_buf_putc(out, '\n');
    }
    struct others o = {.reason = s->reason};
    dgl_plan_alternatives(model, s->use, put_other, &o);
    if (o.line.len) {
        dgl_buf_printf(out, "%15s", "");
        report_wrapped(out, 15, 16, o.line.p);
    }
    out->failed = out->failed || o.line.failed;
    dgl_buf_finish(&o.line);
    put_figures(out, s);
}

/* [x, y, z] */
static void report_axes(struct dgl_json_writer *w, const char *key, const uint32_t axes[3])
{
    dgl_jw_field_array(w, key);
    for (int axis = 0; axis < 3; axis++)
        dgl_jw_i64(w, axes[axis]);
    dgl_jw_end_array(w);
}

static bool report_tunable(void *priv, const struct dgl_plan_tunable *t)
{
    struct dgl_json_writer *w = priv;
    dgl_jw_object(w);
    dgl_jw_field_cstr(w, "name", t->name);
    dgl_jw_field_i64(w, "value", t->value);
    dgl_jw_field_cstr(w, "origin", t->origin);
    dgl_jw_end_object(w);
    return true;
}

#define BATCH_EXECUTOR                                                                             \
    "passes over several sequences are a dispatch per operation, those over up to 8 a persistent " \
    "one where a trial finds that faster"

static bool explain_step(void *priv, const struct dgl_plan_step *s)
{
    struct explanation *e = priv;
    struct report_list *l = e->l;
    if (l->json) {
        dgl_jw_object(&l->w);
        dgl_jw_field_cstr(&l->w, "phase", phase_name(s->phase));
        dgl_jw_field_i64(&l->w, "layer", s->layer);
        dgl_jw_field_cstr(&l->w, "step", s->op);
        dgl_jw_field_cstr(&l->w, "shape", s->shape);
        kernels_report(&l->w, s->kernel);
        dgl_jw_field_cstr(&l->w, "reason", s->reason);
        dgl_jw_field_array(&l->w, "tunables");
        dgl_plan_tunables(s->use, report_tunable, &l->w);
        dgl_jw_end_array(&l->w);
        dgl_jw_field_i64(&l->w, "tokens", s->tokens);
        report_axes(&l->w, "groups", s->groups);
        report_axes(&l->w, "local", s->local);
        dgl_jw_field_u64(&l->w, "launched", s->launched);
        dgl_jw_field_u64(&l->w, "active", s->active);
        dgl_jw_field_u64(&l->w, "bytes", s->bytes);
        dgl_jw_field_bool(&l->w, "lazy", s->lazy);
        struct others others = {.w = &l->w};
        dgl_jw_field_array(&l->w, "alternatives");
        dgl_plan_alternatives(e->model, s->use, put_other, &others);
        dgl_jw_end_array(&l->w);
        if (e->batch > 1) {
            dgl_jw_field_cstr(&l->w, "executor", "dispatch");
            dgl_jw_field_cstr(&l->w, "executor_reason", BATCH_EXECUTOR);
        } else if (s->phase != DGL_PHASE_PREFILL) {
            report_executor(&l->w, e->model);
        }
        dgl_jw_end_object(&l->w);
        return true;
    }
    struct block *last = e->count ? &e->block[e->count - 1] : NULL;
    e->dispatches += s->phase == DGL_PHASE_DECODE;
    if (!last || last->phase != s->phase || last->layer != s->layer) {
        e->failed = !dgl_grow((void **)&e->block, &e->cap, e->count + 1, sizeof(*e->block));
        if (e->failed)
            return false;
        last = &e->block[e->count++];
        *last = (struct block){.phase = s->phase, .layer = s->layer, .count = 1};
    }
    put_step(&last->lines, e->model, s);
    e->short_passes = e->short_passes || (s->lazy && s->layer >= 0);
    if (s->lazy && s->layer < 0)
        dgl_buf_add_word(&e->lazy, 0, dgl_str_of(s->op));
    return true;
}

static bool follows(const struct block *a, const struct block *b)
{
    return a->phase == b->phase && a->layer >= 0 && b->layer == a->layer + (int32_t)a->count &&
           a->lines.len == b->lines.len && memcmp(a->lines.p, b->lines.p, a->lines.len) == 0;
}

static void put_blocks(struct explanation *e)
{
    struct dgl_buf *out = &e->l->out;
    dgl_buf_printf(out, "  %-14s %-24s %-20s REASON\n", "STEP", "KERNEL", "SHAPE");
    for (size_t i = 0; i < e->count; i += e->block[i].count) {
        struct block *b = &e->block[i];
        while (i + b->count < e->count && follows(b, &e->block[i + b->count]))
            b->count++;
        dgl_buf_puts(out, phase_name(b->phase));
        if (b->count > 1)
            dgl_buf_printf(out, ", layers %d to %d", b->layer, b->layer + (int32_t)b->count - 1);
        else if (b->layer >= 0)
            dgl_buf_printf(out, ", layer %d", b->layer);
        dgl_buf_putc(out, '\n');
        dgl_buf_append(out, b->lines.p, b->lines.len);
    }
    size_t start = out->len;
    if (e->batch > 1) {
        dgl_buf_printf(out, "a pass over %d sequences:", e->batch);
        struct dgl_buf line = {0};
        dgl_buf_printf(&line,
                       "%u dispatches, then those of sampling; " BATCH_EXECUTOR
                       ", and compiled when two answers are first written together",
                       e->dispatches);
        report_wrapped(out, out->len - start, 2, line.p ? line.p : "");
        out->failed = out->failed || line.failed;
        dgl_buf_finish(&line);
        dgl_buf_finish(&e->lazy);
        return;
    }
    struct dgl_executor_info info = {.size = sizeof(info)};
    dgl_model_executor(e->model, &info);
    dgl_buf_printf(out, "decode and sample run as %s:",
                   info.executor == DGL_EXECUTOR_PERSISTENT ? "one dispatch for many tokens"
                                                            : "a dispatch per operation");
    report_wrapped(out, out->len - start, 2, info.reason);
    if (e->lazy.len && e->short_passes)
        dgl_buf_puts(&e->lazy, ", and what passes over few tokens have of their own");
    start = out->len;
    dgl_buf_puts(out, "compiled by the first call that needs them:");
    report_wrapped(out, out->len - start, 2, e->lazy.p ? e->lazy.p : "none");
    out->failed = out->failed || e->lazy.failed;
    dgl_buf_finish(&e->lazy);
}

static int explain(struct engine *e, const struct options *opt)
{
    struct report_list l;
    struct explanation x = {.l = &l};
    /* The executor of decode steps and the measurements are only known with a session. */
    enum dgl_status status = engine_open(e, opt, NULL, true);
    if (status != DGL_OK)
        return exit_code(status);
    x.model = e->model;
    x.batch = opt->batch;
    report_list_begin(&l, opt->json);
    if (opt->batch > 1)
        status = dgl_model_plan_batch(e->model, opt->batch, explain_step, &x);
    else
        dgl_model_plan_iterate(e->model, explain_step, &x);
    if (!opt->json)
        put_blocks(&x);
    for (size_t i = 0; i < x.count; i++) {
        l.out.failed = l.out.failed || x.block[i].lines.failed;
        dgl_buf_finish(&x.block[i].lines);
    }
    l.out.failed = l.out.failed || x.failed;
    free(x.block);
    return report_list_end(&l, status);
}

/* ---- actions --------------------------------------------------------------------------------- */

static int list(struct engine *e, const struct options *opt)
{
    struct report_list l;
    enum dgl_status status = engine_open_texts(e, opt);
    report_list_begin(&l, opt->json);
    if (status == DGL_OK)
        dgl_kernels_iterate(e->kernels, list_kernel, &l);
    return report_list_end(&l, status);
}

#define ALL_BUT_TUNABLES OPTIONS_KERNEL_WORDS " " OPTIONS_KERNEL_LOADING
#define ALL_BUT_FILES    OPTIONS_KERNEL_HINTS " " ALL_BUT_TUNABLES
#define COMPILE_ONLY     " compile-only all time-limit memory-limit known"
#define NOT_BENCH        " against" COMPILE_ONLY

static const struct action {
    const char *name, *usage;
    int min_args, max_args; /* including the name */
    int (*run)(struct engine *e, const struct options *opt);
    const char *unused; /* options without effect; `model` also if no pack is read */
} actions[] = {
    {"list", "`list`", 1, 1, list,
     ALL_BUT_FILES " op shape quick generated output force model batch" NOT_BENCH},
    {"show", "`show NAME`", 2, 2, kernels_show,
     ALL_BUT_FILES " op shape quick output force model batch" NOT_BENCH},
    {"check", "`check [FILE|DIR]`", 1, 2, kernels_check,
     ALL_BUT_TUNABLES
     " op shape generated output force model batch all time-limit memory-limit known against"},
    {"bench", "`bench NAME|FILE`", 2, 2, kernels_bench,
     ALL_BUT_TUNABLES " op quick generated output force model batch" COMPILE_ONLY},
    {"diff", "`diff [NAME]`", 1, 2, kernels_diff,
     ALL_BUT_FILES " op shape quick generated output force model batch" NOT_BENCH},
    {"new", "`new NAME --op OP`", 2, 2, kernels_new,
     ALL_BUT_FILES " shape quick generated model json batch" NOT_BENCH},
    {"explain", "`explain`", 1, 1, explain, "op shape quick generated output force" NOT_BENCH},
};
#define NUM_ACTIONS (sizeof(actions) / sizeof(actions[0]))

static const struct action *find_action(const char *name)
{
    for (size_t i = 0; i < NUM_ACTIONS; i++)
        if (strcmp(actions[i].name, name) == 0)
            return &actions[i];
    return NULL;
}

/* Returns false after an error line if the action ignores an option of the command line. */
static bool uses_options(const struct action *action, const struct options *opt)
{
    const bool generated = action->run == kernels_show && opt->generated;
    const bool compile_only = action->run == kernels_check && opt->compile_only;
    struct dgl_str rest = dgl_str_of(generated      ? "shape quick output force batch" NOT_BENCH
                                     : compile_only ? "op quick generated force batch against"
                                                    : action->unused),
                   name;
    char form[64], one[32];
    snprintf(form, sizeof(form), "kernels %s%s", action->name,
             action->run == kernels_show && !generated       ? "` without `--generated"
             : action->run == kernels_check && !compile_only ? "` without `--compile-only"
             : compile_only                                  ? " --compile-only"
                                                             : "");
    while (dgl_str_split(&rest, ' ', &name)) {
        if (dgl_str_eq(name, "model") && opt->allow_pack_kernels)
            continue;
        snprintf(one, sizeof(one), "%.*s", (int)name.len, name.p);
        if (!options_are_used(opt, "kernels", form, one))
            return false;
    }
    return true;
}

bool command_kernels_check(const struct options *opt)
{
    const struct action *action = find_action(opt->arg[0]);
    struct dgl_nearest nearest = {.word = dgl_str_of(opt->arg[0])};
    struct dgl_buf usage = {0};
    if (action && opt->num_args >= action->min_args && opt->num_args <= action->max_args) {
        return uses_options(action, opt) &&
               (action->run != kernels_bench || kernels_check_shape(opt)) &&
               (!opt->compile_only || kernels_compile_check(opt));
    }
    for (size_t i = 0; i < NUM_ACTIONS; i++) {
        dgl_buf_printf(&usage, "%s%s",
                       i == 0                ? ""
                       : i + 1 < NUM_ACTIONS ? ", "
                                             : " or ",
                       actions[i].usage);
        if (!action)
            dgl_nearest_try(&nearest, actions[i].name);
    }
    console_error("kernels: wanted %s%s%s%s", usage.p ? usage.p : "an action",
                  nearest.best ? "; did you mean " : "", nearest.best ? nearest.best : "",
                  nearest.best ? "?" : "");
    dgl_buf_finish(&usage);
    return false;
}

int command_kernels(const struct options *opt)
{
    struct engine e = {0};
    console_init(&e.console, opt);
    int code = find_action(opt->arg[0])->run(&e, opt);
    engine_close(&e);
    return code;
}
