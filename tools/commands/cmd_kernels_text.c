/* kernels show NAME | diff [NAME] | new NAME: texts of kernels. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/printable.h"
#include "tools/cli/commands.h"
#include "tools/commands/kernels.h"
#include "tools/cli/report.h"

/* ---- show ------------------------------------------------------------------------------------ */

/* One row of `kernels list`, and the text of the kernel. */
struct wanted {
    struct dgl_json_writer w;
    const char *name;
    struct dgl_str source;
};

static bool show_fields(void *priv, const struct dgl_kernel_info *k)
{
    struct wanted *wanted = priv;
    if (strcmp(k->name, wanted->name) != 0)
        return true;
    dgl_jw_object(&wanted->w);
    kernels_report(&wanted->w, k);
    dgl_jw_field_str(&wanted->w, "source", wanted->source);
    dgl_jw_end_object(&wanted->w);
    return false;
}

static int fail_unknown(const struct options *opt, const char *name)
{
    console_error("there is no kernel %s; `dopplergl kernels list` names them",
                  DGL_PRINTABLE(name));
    return engine_has_kernel_files(opt) ? EXIT_FAILED : EXIT_USAGE;
}

static int show_file(struct engine *e, const struct options *opt)
{
    const char *name = opt->arg[1];
    size_t len;
    const char *text = dgl_kernels_source(e->kernels, name, &len);
    if (!text)
        return fail_unknown(opt, name);
    if (!opt->json)
        return out_exit(out_write(text, len) && out_flush());
    struct dgl_buf out = {0};
    struct wanted wanted = {dgl_json_writer(&out, 0), name, {text, len}};
    dgl_kernels_iterate(e->kernels, show_fields, &wanted);
    dgl_buf_putc(&out, '\n');
    return out_exit(out_buf(&out));
}

/* The generated text of the first step that uses the kernel, and the steps with other texts of
 * it. */
struct generated {
    const struct engine *engine;
    const struct options *opt;
    struct dgl_buf json, shown, others; /* steps with that text, and with other texts, each once */
    char *text;
    size_t len;
    const struct dgl_plan_use *use, *last;
    size_t num_others;
    enum dgl_status status;
    bool named; /* a step uses the kernel, even if it is not one of --op */
};

static bool show_step(void *priv, const struct dgl_plan_step *s)
{
    struct generated *g = priv;
    char *text = NULL;
    size_t len;
    if (strcmp(s->kernel->name, g->opt->arg[1]) != 0)
        return true;
    g->named = true;
    if ((g->opt->op && strcmp(g->opt->op, s->op) != 0 && strcmp(g->opt->op, s->kernel->op) != 0) ||
        s->use == g->use || s->use == g->last)
        return true;
    g->status = dgl_plan_source(g->engine->model, s->use, &text, &len);
    if (g->status != DGL_OK)
        return false;
    g->last = s->use;
    if (!g->use) {
        struct dgl_json_writer w = dgl_json_writer(&g->json, 0);
        g->use = s->use;
        g->text = text;
        g->len = len;
        dgl_buf_printf(&g->shown, "%s %s (%s)", phase_name(s->phase), s->op, s->shape);
        dgl_jw_object(&w);
        kernels_report(&w, s->kernel);
        dgl_jw_field_cstr(&w, "phase", phase_name(s->phase));
        dgl_jw_field_cstr(&w, "step", s->op);
        dgl_jw_field_cstr(&w, "shape", s->shape);
        dgl_jw_field_str(&w, "source", (struct dgl_str){text, len});
        dgl_jw_end_object(&w);
        return true;
    }
    if (len != g->len || memcmp(text, g->text, len) != 0) {
        struct dgl_buf step = {0};
        dgl_buf_printf(&step, "%s %s (%s)", phase_name(s->phase), s->op, s->shape);
        if (step.p && !(g->others.p && strstr(g->others.p, step.p)) && g->num_others++ < 4)
            dgl_buf_printf(&g->others, "%s%s", g->num_others > 1 ? ", " : "", step.p);
        dgl_buf_finish(&step);
    }
    dgl_free(text);
    return true;
}

static int show_generated(struct engine *e, const struct options *opt)
{
    struct generated g = {.engine = e, .opt = opt};
    enum dgl_status status = engine_open(e, opt, NULL, false);
    if (status != DGL_OK)
        return exit_code(status);
    int code = EXIT_FAILED;
    const char *name = opt->arg[1];
    if (!dgl_kernels_source(e->kernels, name, NULL))
        return fail_unknown(opt, name);
    dgl_model_plan_iterate(e->model, show_step, &g);
    if (g.status != DGL_OK) {
        code = exit_code(g.status);
    } else if (!g.use) {
        console_error("no step of %s%s%s has the kernel %s here; `dopplergl kernels explain` tells "
                      "which kernels its steps have",
                      dgl_model_get_info(e->model)->path, opt->op && g.named ? " called " : "",
                      opt->op && g.named ? opt->op : "", name);
    } else {
        if (g.num_others)
            dgl_notice(&e->console.log, "this is its text of %s; it differs for %s%s%s",
                       g.shown.p ? g.shown.p : "one step", g.others.p ? g.others.p : "",
                       g.num_others > 4 ? ", ..." : "", opt->op ? "" : ": --op picks one");
        dgl_buf_putc(&g.json, '\n');
        code = out_exit(opt->json ? out_buf(&g.json) : out_write(g.text, g.len) && out_flush());
    }
    dgl_free(g.text);
    dgl_buf_finish(&g.json);
    dgl_buf_finish(&g.shown);
    dgl_buf_finish(&g.others);
    return code;
}

int kernels_show(struct engine *e, const struct options *opt)
{
    if (opt->generated)
        return show_generated(e, opt);
    enum dgl_status status = engine_open_texts(e, opt);
    return status == DGL_OK ? show_file(e, opt) : exit_code(status);
}

/* ---- diff ------------------------------------------------------------------------------------ */

struct differences {
    struct report_list list;
    const char *name; /* NULL: all */
    bool found;
};

static bool put_difference(void *priv, const struct dgl_kernel_override *o)
{
    struct differences *d = priv;
    if (d->name && strcmp(d->name, o->name) != 0)
        return true;
    d->found = true;
    if (!d->list.json) {
        dgl_buf_puts(&d->list.out, o->diff);
        return true;
    }
    dgl_jw_object(&d->list.w);
    dgl_jw_field_cstr(&d->list.w, "name", o->name);
    dgl_jw_field_cstr(&d->list.w, "kind", o->is_lib ? "lib" : "kernel");
    dgl_jw_field_cstr(&d->list.w, "origin", o->origin);
    dgl_jw_field_cstr(&d->list.w, "sha256", o->sha256);
    dgl_jw_field_cstr(&d->list.w, "builtin", o->builtin);
    dgl_jw_field_cstr(&d->list.w, "diff", o->diff);
    dgl_jw_end_object(&d->list.w);
    return true;
}

/* A difference is not a failure: the exit code is 0 in both cases, as with `git diff`. */
int kernels_diff(struct engine *e, const struct options *opt)
{
    struct differences d = {.name = opt->num_args > 1 ? opt->arg[1] : NULL};
    enum dgl_status status = engine_open_texts(e, opt);
    report_list_begin(&d.list, opt->json);
    if (status == DGL_OK)
        status = dgl_kernels_overrides(&e->console.log, e->kernels, put_difference, &d);
    if (status != DGL_OK || !d.name || d.found || dgl_kernels_source(e->kernels, d.name, NULL))
        return report_list_end(&d.list, status);
    dgl_buf_finish(&d.list.out);
    return fail_unknown(opt, d.name);
}

/* ---- new ------------------------------------------------------------------------------------- */

int kernels_new(struct engine *e, const struct options *opt)
{
    const struct dgl_log *log = &e->console.log;
    const char *name = opt->arg[1];
    char path[80], *text = NULL;
    size_t len = 0;
    snprintf(path, sizeof(path), "%s.comp", name);
    const char *to = opt->out ? opt->out : path;
    struct dgl_error why = {""};
    enum dgl_status status = engine_open_texts(e, opt);
    if (status != DGL_OK)
        return exit_code(status);
    /* Faults of the command line are reported before a device is opened. */
    status = dgl_kernels_template(log, e->kernels, NULL, name, opt->op ? opt->op : "", &text, &len);
    if (status != DGL_OK)
        return status == DGL_ERR_INVALID_ARG ? EXIT_USAGE : exit_code(status);
    dgl_free(text);
    /* Without a device, the copy is of the baseline kernel, unless the user named a device. */
    if (!opt->device)
        e->console.log.error = &why;
    status = engine_open_device(e, opt);
    e->console.log.error = NULL;
    if (status != DGL_OK && opt->device)
        return exit_code(status);
    if (status != DGL_OK)
        console_note(&e->console,
                     "the kernel begins as the baseline, because no device was opened: %s",
                     why.text);
    status = dgl_kernels_template(log, e->kernels, e->device, name, opt->op, &text, &len);
    if (status != DGL_OK)
        return status == DGL_ERR_INVALID_ARG ? EXIT_USAGE : exit_code(status);
    int code = EXIT_FAILED;
    if (strcmp(to, "-") == 0) {
        code = out_exit(out_write(text, len) && out_flush());
    } else if (!opt->force && dgl_path_present(to)) {
        console_error("%s is there already; --force replaces it", to);
    } else {
        status = dgl_atomic_store(log, to, text, len);
        code = exit_code(status);
        if (status == DGL_OK)
            console_note(&e->console, "%s: a kernel for %s, to be given as --kernel-file %s", to,
                         opt->op, to);
    }
    dgl_free(text);
    return code;
}
