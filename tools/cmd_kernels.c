/* kernels list | show NAME | explain: the kernels, and the reason for each of a model's plan. */
#include <string.h>

#include "core/base/json.h"
#include "tools/commands.h"
#include "tools/engine.h"
#include "tools/report.h"

struct listing {
    struct dgl_buf out;
    struct dgl_json_writer w;
    bool json;
};

static void kernel_fields(struct dgl_json_writer *w, const struct dgl_kernel_info *k)
{
    const struct {
        const char *key, *value;
    } rows[] = {{"name", k->name},     {"op", k->op},         {"variant", k->variant},
                {"origin", k->origin}, {"sha256", k->sha256}, {"summary", k->summary}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        report_text(w, rows[i].key, rows[i].value);
    }
}

static bool list_kernel(void *priv, const struct dgl_kernel_info *k)
{
    struct listing *l = priv;
    if (l->json) {
        dgl_jw_object(&l->w);
        kernel_fields(&l->w, k);
        dgl_jw_end_object(&l->w);
    } else {
        dgl_buf_printf(&l->out, "%-28s %-14s %-10s %.12s %-8s %s\n", k->name, k->op, k->variant,
                       k->sha256, k->origin, k->summary ? k->summary : "");
    }
    return true;
}

static bool explain_step(void *priv, const struct dgl_plan_step *s)
{
    struct listing *l = priv;
    if (!l->json) {
        dgl_buf_printf(&l->out, "%-8s %3d %-12s %-32s %-28s %-8s %.12s  %s\n", phase_name(s->phase),
                       s->layer, s->op, s->shape, s->kernel->name, s->kernel->origin,
                       s->kernel->sha256, s->reason);
        return true;
    }
    dgl_jw_object(&l->w);
    report_text(&l->w, "phase", phase_name(s->phase));
    report_i64(&l->w, "layer", s->layer);
    report_text(&l->w, "step", s->op);
    report_text(&l->w, "shape", s->shape);
    kernel_fields(&l->w, s->kernel);
    report_text(&l->w, "reason", s->reason);
    dgl_jw_end_object(&l->w);
    return true;
}

static void begin(struct listing *l, bool json)
{
    *l = (struct listing){.json = json};
    l->w = dgl_json_writer(&l->out, 0);
    if (json)
        dgl_jw_array(&l->w);
}

static int end(struct listing *l)
{
    if (l->json) {
        dgl_jw_end_array(&l->w);
        dgl_buf_putc(&l->out, '\n');
    }
    return out_exit(out_buf(&l->out));
}

/* `list` of one kernel, and its text. */
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
    kernel_fields(&wanted->w, k);
    dgl_jw_key(&wanted->w, "source");
    dgl_jw_str(&wanted->w, wanted->source);
    dgl_jw_end_object(&wanted->w);
    return false;
}

static int show(const struct engine *e, const char *name, bool json)
{
    size_t len;
    const char *text = dgl_kernels_source(e->kernels, name, &len);
    if (!text) {
        console_error("there is no kernel %s; `dopplergl kernels list` names them", name);
        return EXIT_FAILED;
    }
    if (!json)
        return out_exit(out_write(text, len) && out_flush());
    struct dgl_buf out = {0};
    struct wanted wanted = {dgl_json_writer(&out, 0), name, {text, len}};
    dgl_kernels_iterate(e->kernels, show_fields, &wanted);
    dgl_buf_putc(&out, '\n');
    return out_exit(out_buf(&out));
}

static int explain(struct engine *e, const struct options *opt)
{
    struct listing l;
    enum dgl_status status = engine_open(e, opt, NULL, false);
    if (status != DGL_OK)
        return exit_code(status);
    begin(&l, opt->json);
    dgl_model_plan_iterate(e->model, explain_step, &l);
    return end(&l);
}

bool command_kernels_check(const struct options *opt)
{
    const char *what = opt->arg[0];
    bool wants_name = strcmp(what, "show") == 0;
    bool known = wants_name || strcmp(what, "list") == 0 || strcmp(what, "explain") == 0;
    if (known && opt->num_args == (wants_name ? 2 : 1))
        return true;
    console_error("kernels: wanted `list`, `show NAME` or `explain`");
    return false;
}

int command_kernels(const struct options *opt)
{
    struct engine e = {0};
    const char *what = opt->arg[0];
    int code;
    if (strcmp(what, "explain") == 0) {
        code = explain(&e, opt);
    } else {
        console_init(&e.console, opt);
        code = exit_code(engine_open_kernels(&e, opt));
        if (code == EXIT_OK && strcmp(what, "show") == 0) {
            code = show(&e, opt->arg[1], opt->json);
        } else if (code == EXIT_OK) {
            struct listing l;
            begin(&l, opt->json);
            dgl_kernels_iterate(e.kernels, list_kernel, &l);
            code = end(&l);
        }
    }
    engine_close(&e);
    return code;
}
