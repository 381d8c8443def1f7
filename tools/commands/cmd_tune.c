/* tune: measures kernels and their tunables for a model's operations; shows and removes stored
 * results. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/status.h"
#include "tools/bench/tune_report.h"
#include "tools/cli/commands.h"
#include "tools/cli/engine.h"
#include "tools/cli/options_table.h"
#include "tools/cli/report.h"

/* Tokens of the longest pass, and positions for sampled tokens after it. */
enum { TOKENS = 512, MARGIN = 32 };

bool command_tune_check(const struct options *opt)
{
    if (opt->tune_show && opt->tune_reset)
        return console_refuse("tune: give either --show or --reset");
    if (opt->tune_show + opt->tune_reset && (opt->depth || opt->seconds || opt->op))
        return console_refuse(
            "tune: --depth, --seconds and --op are for measuring, not for --show and --reset");
    return !(opt->tune_show || opt->tune_reset) ||
           options_are_used(opt, "tune", opt->tune_show ? "tune --show" : "tune --reset",
                            OPTIONS_KERNEL " model");
}

/* ---- stored results -------------------------------------------------------------------------- */

struct stored {
    struct report_list list;
    size_t count;
};

static bool show_one(void *priv, const struct dgl_tuned *t)
{
    struct stored *s = priv;
    struct dgl_buf *out = &s->list.out;
    struct dgl_json_writer *w = &s->list.w;
    if (s->list.json) {
        dgl_jw_object(w);
        dgl_jw_field_cstr(w, "op", t->op);
        dgl_jw_field_cstr(w, "phase", phase_name(t->phase));
        dgl_jw_field_i64(w, "tokens", t->tokens);
        dgl_jw_field_cstr(w, "request", t->request);
        dgl_jw_field_cstr(w, "texts", t->texts);
        dgl_jw_field_cstr(w, "kernel", t->kernel);
        dgl_jw_field_cstr(w, "tunes", t->tunes);
        dgl_jw_field_cstr(w, "default", t->default_kernel);
        report_f64(w, "default_us", t->default_us);
        report_f64(w, "tuned_us", t->tuned_us);
        report_f64(w, "spread", t->spread);
        dgl_jw_field_i64(w, "time", t->time);
        dgl_jw_end_object(w);
    } else {
        const bool stays = !t->tunes[0] && strcmp(t->kernel, t->default_kernel) == 0;
        if (s->count == 0)
            dgl_buf_printf(out, "%-14s %-7s %6s %10s %10s  %-8s  %s\n%16sREQUEST\n", "OPERATION",
                           "PHASE", "TOKENS", "DEFAULT us", "TUNED us", "TEXTS", "KERNEL", "");
        dgl_buf_printf(out, "%-14s %-7s %6d %10.2f %10.2f  %.8s  ", t->op, phase_name(t->phase),
                       (int)t->tokens, t->default_us, t->tuned_us, t->texts);
        tune_put_name(out, t->kernel, t->tunes);
        dgl_buf_printf(out, "%s\n%16s", stays ? " (default)" : "", "");
        dgl_buf_visible(out, dgl_str_of(t->request));
        dgl_buf_putc(out, '\n');
    }
    s->count++;
    return true;
}

static int show_stored(const struct options *opt)
{
    struct engine e = {0};
    struct stored s = {.count = 0};
    console_init(&e.console, opt);
    report_list_begin(&s.list, opt->json);
    enum dgl_status status = engine_open_device(&e, opt);
    if (status == DGL_OK)
        status = dgl_tuned_iterate(e.device, show_one, &s);
    if (status == DGL_OK && s.count == 0)
        console_note(&e.console, "nothing is stored for this device: `dopplergl tune` measures");
    engine_close(&e);
    return report_list_end(&s.list, status);
}

static bool count_one(void *priv, const struct dgl_tuned *t)
{
    (void)t;
    ++*(size_t *)priv;
    return true;
}

static int remove_stored(const struct options *opt)
{
    struct engine e = {0};
    struct dgl_buf out = {0};
    size_t count = 0;
    enum dgl_status status = DGL_OK;
    console_init(&e.console, opt);
    TRY(engine_open_device(&e, opt));
    TRY(dgl_tuned_iterate(e.device, count_one, &count));
    TRY(dgl_tuned_reset(e.device));
    if (opt->json) {
        struct dgl_json_writer w = report_object(&out);
        report_device(&w, e.device);
        dgl_jw_field_u64(&w, "removed", count);
        report_end(&w);
    }
    const struct dgl_device_info *info = dgl_device_get_info(e.device);
    console_note(&e.console, "tune: removed %zu result%s for %s (%s)", count, count == 1 ? "" : "s",
                 info->renderer, info->driver);
done:;
    const int code = status == DGL_OK ? out_exit(out_buf(&out)) : exit_code(status);
    engine_close(&e);
    return code;
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Returns the context of the options. Without one, returns the context that measuring needs,
 * because the cache for the model's full context may need most of the memory. */
static int32_t context_of(const struct options *opt, const char *path)
{
    struct dgl_model_file *file = NULL;
    int64_t need = (int64_t)(opt->depth > TOKENS ? opt->depth : TOKENS) + MARGIN;
    if (opt->context ||
        dgl_inspect(NULL, dgl_inspect_params(.path = path, .override_kv = opt->override_kv.item),
                    &file) != DGL_OK)
        return opt->context;
    int32_t most = dgl_model_file_info(file)->context_max;
    dgl_model_file_destroy(&file);
    return need < most ? (int32_t)need : most;
}

/* Runs the trial of executors again, because the model decodes by another program with the new
 * kernels. Later processes use its result. A bench waits for the compiler and makes the trial. */
static enum dgl_status try_executors(struct engine *e, const struct options *opt, const char *path)
{
    struct dgl_bench_result r = {0};
    struct dgl_executor_info info = {.size = sizeof(info)};
    engine_close(e);
    *e = (struct engine){0};
    enum dgl_status status = DGL_OK;
    TRY(engine_open(e, opt, path, true));
    TRY(dgl_bench(e->session,
                  dgl_bench_params(.prompt_tokens = 4, .decode_tokens = 4, .repetitions = 1,
                                   CONSOLE_PROGRESS(&e->console)),
                  &r));
    dgl_model_executor(e->model, &info);
    console_note(&e->console, "tune: decoding by %s dispatches: %s",
                 info.executor == DGL_EXECUTOR_PERSISTENT ? "persistent" : "single", info.reason);
done:
    dgl_bench_result_finish(&r);
    return status;
}

static void tell_left(const struct console *console, const struct dgl_tune_result *r, bool late)
{
    struct dgl_buf names = {0};
    for (size_t i = 0; i < r->num_left; i++)
        dgl_buf_printf(&names, "%s%s (%s, %d token%s)", i ? ", " : "", r->left[i].op,
                       phase_name(r->left[i].phase), (int)r->left[i].tokens,
                       r->left[i].tokens == 1 ? "" : "s");
    console_note(console, "tune: %zu operation%s not reached: %s; %s", r->num_left,
                 r->num_left == 1 ? " was" : "s were", names.p ? names.p : "",
                 late ? "another call begins with them, --seconds gives more time"
                      : "what was measured is kept");
    dgl_buf_finish(&names);
}

int command_tune(const struct options *opt)
{
    struct engine e = {0};
    struct options with = *opt;
    struct dgl_tune_result r = {0};
    struct dgl_buf out = {0};
    char bundled[MODEL_PATH_MAX];
    if (opt->tune_show)
        return show_stored(opt);
    if (opt->tune_reset)
        return remove_stored(opt);
    const char *path = model_path(opt, bundled);
    if (!path)
        return EXIT_FAILED;
    with.no_tune = true;
    with.context = context_of(opt, path);
    enum dgl_status status = engine_open(&e, &with, path, true);
    if (status == DGL_OK)
        status = dgl_tune(e.session,
                          dgl_tune_params(.depth = opt->depth, .seconds = opt->seconds,
                                          .op = opt->op, CONSOLE_PROGRESS(&e.console)),
                          &r);
    /* Finished operations are kept and shown after Ctrl-C too. */
    if (opt->json && r.num_ops + (status == DGL_OK)) {
        struct dgl_json_writer w = report_object(&out);
        dgl_jw_field_cstr(&w, "model", dgl_model_get_info(e.model)->path);
        report_device(&w, e.device);
        dgl_jw_field_cstr(&w, "clock", r.gpu_clock ? "gpu" : "host");
        dgl_jw_field_bool(&w, "stored", r.stored);
        report_f64(&w, "seconds", (double)r.ns * 1e-9);
        dgl_jw_field_u64(&w, "left", r.num_left);
        dgl_jw_field_array(&w, "left_operations");
        for (size_t i = 0; i < r.num_left; i++) {
            dgl_jw_object(&w);
            dgl_jw_field_cstr(&w, "op", r.left[i].op);
            dgl_jw_field_cstr(&w, "phase", phase_name(r.left[i].phase));
            dgl_jw_field_i64(&w, "tokens", r.left[i].tokens);
            dgl_jw_end_object(&w);
        }
        dgl_jw_end_array(&w);
        dgl_jw_key(&w, "operations");
        tune_json(&w, &r);
        report_end(&w);
    } else {
        tune_put(&out, &r, true);
    }
    bool written = out_buf(&out);
    size_t num_timed = r.num_ops;
    for (size_t i = 0; i < r.num_ops; i++) {
        const struct dgl_tune_candidate *first = r.ops[i].candidates;
        if (!tune_default_is_wrong(&r.ops[i]))
            continue;
        num_timed--;
        console_error("tune: %s (%s): the default, %s, cannot be measured against: %s", r.ops[i].op,
                      phase_name(r.ops[i].phase), first->kernel, first->reason);
    }
    if (num_timed)
        console_note(&e.console, "tune: %zu operation%s in %.0f s by the %s clock%s", num_timed,
                     num_timed == 1 ? "" : "s", (double)r.ns * 1e-9,
                     r.gpu_clock ? "GPU's" : "host's",
                     r.stored ? "; `dopplergl tune --show` lists what is stored"
                              : "; there is no cache folder to keep the results in");
    if (num_timed && !opt->json)
        console_note(
            &e.console,
            "tune: times of candidates are the least of three in the search, each at "
            "another moment; five rounds in turn of the default and the best decide: DEFAULT "
            "and TUNED are medians of them, equal where the default stays (SPREAD: of the "
            "ratio; -: no candidate was faster in the search)");
    if (r.num_left)
        tell_left(&e.console, &r, status == DGL_OK);
    const bool wrong = num_timed < r.num_ops;
    dgl_tune_result_finish(&r);
    if (status == DGL_OK && !wrong && !opt->op && !dgl_device_get_info(e.device)->software)
        status = try_executors(&e, opt, path);
    int code = status == DGL_OK ? out_exit(written) : exit_code(status);
    engine_close(&e);
    return code == EXIT_OK && wrong ? EXIT_FAILED : code;
}
