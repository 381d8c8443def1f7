/* kernels check | bench: runs known-answer tests of kernels on a device, and times them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/printable.h"
#include "tools/commands/kernels.h"
#include "tools/cli/report.h"

struct judged {
    bool json;
    struct dgl_buf out;
    struct dgl_log log;   /* the console's */
    struct dgl_buf notes; /* notices about a kernel, printed after its verdict */
    struct dgl_json_writer w;
    uint32_t verdicts[3]; /* count of each verdict */
    uint32_t uncompared;  /* requests that the kernel of --against did not compute */
};

static const char *const verdict_names[] = {[DGL_VERDICT_PASSED] = "passed",
                                            [DGL_VERDICT_FAILED] = "failed",
                                            [DGL_VERDICT_SKIPPED] = "skipped"};

static void report_verdict(struct dgl_json_writer *w, const struct dgl_kernel_verdict *v)
{
    kernels_report(w, v->kernel);
    dgl_jw_field_cstr(w, "verdict", verdict_names[v->verdict]);
    dgl_jw_field_u64(w, "cases", v->cases);
    report_f64(w, "worst", v->verdict == DGL_VERDICT_PASSED ? v->worst : NAN);
    dgl_jw_field_cstr(w, "reason", v->reason[0] ? v->reason : NULL);
}

/* Keeps the notices about a kernel: excerpts of its file, further errors of the driver. */
static void keep_notice(void *priv, enum dgl_log_level level, const char *text)
{
    struct judged *j = priv;
    if (level == DGL_LOG_NOTICE)
        dgl_buf_printf(&j->notes, "%s\n", text);
    else
        j->log.write(j->log.priv, level, text);
}

/* Prints the notices after the verdict. `reason` is repeated before them if the verdict went to
 * another place than standard error. */
static void print_notices(struct judged *j, const char *reason)
{
    struct dgl_str rest = {j->notes.p, j->notes.len}, line;
    if (j->notes.failed)
        console_error("kernels: out of memory for the lines of the log");
    if (reason && rest.len && (j->json || !console_streams_meet()))
        console_say("%s", reason);
    while (rest.len && dgl_str_split(&rest, '\n', &line))
        console_say("%.*s", (int)line.len, line.p);
    dgl_buf_finish(&j->notes);
}

/* Opens the kernels and the device of the options. An invalid kernel file does not fail here: its
 * verdict reports the fault. `path` is one more file or folder of kernels, or NULL. */
static enum dgl_status open_device(struct engine *e, const struct options *opt, const char *path)
{
    struct options own = *opt;
    own.keep_faults = true;
    if (path) {
        struct option_strs *list = dgl_path_is_dir(path) ? &own.kernel_dir : &own.kernel_file;
        if (list->count == OPTIONS_MAX_STRS) {
            console_error("kernels: more than %d files or folders", OPTIONS_MAX_STRS);
            return DGL_ERR_INVALID_ARG;
        }
        list->item[list->count++] = path;
    }
    enum dgl_status status = engine_open_kernels(e, &own);
    return status == DGL_OK ? engine_open_device(e, opt) : status;
}

/* Begins the JSON object with its list `list`, and keeps the notices. The device must be open. */
static void begin(struct judged *j, struct engine *e, const struct options *opt, const char *list)
{
    *j = (struct judged){.json = opt->json, .log = e->console.log};
    j->w = dgl_json_writer(&j->out, 0);
    if (j->json) {
        dgl_jw_object(&j->w);
        report_device(&j->w, e->device);
        dgl_jw_field_array(&j->w, list);
    }
    e->console.log.write = keep_notice;
    e->console.log.priv = j;
}

/* Prints the kept notices. Returns EXIT_OK, or the exit code of a failed `status`. */
static int end(struct judged *j, struct engine *e, enum dgl_status status)
{
    e->console.log = j->log;
    print_notices(j, NULL);
    if (status == DGL_OK)
        return EXIT_OK;
    dgl_buf_finish(&j->out);
    return exit_code(status);
}

/* ---- check ----------------------------------------------------------------------------------- */

static bool tell_verdict(void *priv, const struct dgl_kernel_verdict *v)
{
    struct judged *j = priv;
    j->verdicts[v->verdict]++;
    if (j->json) {
        dgl_jw_object(&j->w);
        report_verdict(&j->w, v);
        dgl_jw_end_object(&j->w);
        print_notices(j, v->reason);
        return true;
    }
    struct dgl_buf text = {0};
    dgl_buf_printf(&j->out, "%-8s", verdict_names[v->verdict]);
    if (v->verdict == DGL_VERDICT_PASSED)
        dgl_buf_printf(&text, "%s: %u case%s, error at most %.2g%% of the tolerance",
                       v->kernel->name, v->cases, v->cases == 1 ? "" : "s", 100 * v->worst);
    else
        dgl_buf_visible(&text, dgl_str_of(v->reason));
    report_wrapped(&j->out, 8, 9, text.p ? text.p : "");
    dgl_buf_finish(&text);
    const bool written = out_buf(&j->out);
    print_notices(j, v->reason);
    return written;
}

int kernels_check(struct engine *e, const struct options *opt)
{
    const char *path = opt->num_args > 1 ? opt->arg[1] : NULL;
    struct judged j;
    if (opt->compile_only)
        return kernels_compile(e, opt);
    enum dgl_status status = open_device(e, opt, path);
    if (status != DGL_OK)
        return exit_code(status);
    begin(&j, e, opt, "kernels");
    const bool own = path || opt->kernel_dir.count || opt->kernel_file.count;
    status = dgl_kernels_check(
        e->device,
        dgl_kernels_check_params(.kernels = e->kernels, .overrides_only = own, .quick = opt->quick,
                                 .cb = tell_verdict, .priv = &j, CONSOLE_PROGRESS(&e->console)));
    int code = end(&j, e, status);
    if (code != EXIT_OK)
        return code;
    const uint32_t passed = j.verdicts[DGL_VERDICT_PASSED];
    const uint32_t failed = j.verdicts[DGL_VERDICT_FAILED];
    const uint32_t skipped = j.verdicts[DGL_VERDICT_SKIPPED];
    if (j.json) {
        dgl_jw_end_array(&j.w);
        dgl_jw_field_u64(&j.w, "passed", passed);
        dgl_jw_field_u64(&j.w, "failed", failed);
        dgl_jw_field_u64(&j.w, "skipped", skipped);
        report_end(&j.w);
    } else {
        dgl_buf_printf(&j.out, "%u passed, %u failed, %u skipped\n", passed, failed, skipped);
    }
    code = out_exit(out_buf(&j.out));
    if (failed > 0)
        console_error("kernels check: %u of %u kernels failed%s", failed, passed + failed + skipped,
                      skipped ? "; those skipped count as well" : "");
    else if (passed == 0)
        console_error("kernels check: no kernel ran%s",
                      skipped ? ": all were skipped" : ": there is none to check");
    return failed > 0 || passed == 0 ? EXIT_FAILED : code;
}

/* ---- bench ----------------------------------------------------------------------------------- */

static void put_reason(struct dgl_buf *out, const struct dgl_kernel_verdict *v)
{
    dgl_buf_printf(out, "%s ", verdict_names[v->verdict]);
    dgl_buf_visible(out, dgl_str_of(v->reason));
    dgl_buf_putc(out, '\n');
}

static bool tell_time(void *priv, const struct dgl_kernel_time *t)
{
    struct judged *j = priv;
    const double gbps = t->us > 0 ? (double)t->bytes * 1e-3 / t->us : 0;
    const double gflops = t->us > 0 ? (double)t->flops * 1e-3 / t->us : 0;
    j->verdicts[t->verdict.verdict]++;
    if (t->against && t->verdict.verdict == DGL_VERDICT_PASSED && !(t->ratio > 0))
        j->uncompared++;
    if (j->json) {
        dgl_jw_object(&j->w);
        report_verdict(&j->w, &t->verdict);
        dgl_jw_field_cstr(&j->w, "request", t->request);
        const bool timed = t->us > 0;
        report_f64(&j->w, "us", timed ? t->us : NAN);
        report_f64(&j->w, "best_us", timed ? t->best_us : NAN);
        report_f64(&j->w, "alone_us", timed ? t->alone_us : NAN);
        report_f64(&j->w, "gbps", timed ? gbps : NAN);
        report_f64(&j->w, "gflops", timed ? gflops : NAN);
        report_f64(&j->w, "copy_gbps", timed ? t->copy_gbps : NAN);
        report_f64(&j->w, "copy_share", timed ? t->copy_share : NAN);
        report_f64(&j->w, "timer_us", timed ? t->timer_us : NAN);
        if (t->against) {
            const bool both = t->ratio > 0;
            dgl_jw_field_object(&j->w, "against");
            report_verdict(&j->w, t->against);
            report_f64(&j->w, "us", both ? t->against_us : NAN);
            report_f64(&j->w, "ratio", both ? t->ratio : NAN);
            report_f64(&j->w, "ratio_spread", both ? t->ratio_spread : NAN);
            dgl_jw_field_u64(&j->w, "rounds", t->rounds);
            dgl_jw_end_object(&j->w);
        }
        dgl_jw_field_cstr(&j->w, "clock", !timed ? NULL : t->gpu_clock ? "device" : "host");
        dgl_jw_field_u64(&j->w, "bytes", t->bytes);
        dgl_jw_field_u64(&j->w, "flops", t->flops);
        dgl_jw_end_object(&j->w);
        print_notices(j, t->verdict.reason);
        return true;
    }
    if (t->verdict.verdict != DGL_VERDICT_PASSED) {
        put_reason(&j->out, &t->verdict);
        const bool written = out_buf(&j->out);
        print_notices(j, t->verdict.reason);
        return written;
    }
    dgl_buf_printf(&j->out, "%s\n  %.2f us (best %.2f, alone %.2f, %s clock): %.2f GB/s",
                   t->request, t->us, t->best_us, t->alone_us, t->gpu_clock ? "device's" : "host's",
                   gbps);
    if (t->copy_share > 0)
        dgl_buf_printf(&j->out, ", %.0f%% of a copy's %.2f", 100 * t->copy_share, t->copy_gbps);
    dgl_buf_printf(&j->out, "; %.2f GFLOP/s\n", gflops);
    if (t->ratio > 0)
        dgl_buf_printf(&j->out, "  %s: %.2f us; ratio %.3f, spread %.3f in %u rounds in turn: %s\n",
                       t->against->kernel->name, t->against_us, t->ratio, t->ratio_spread,
                       t->rounds,
                       fabs(t->ratio - 1) <= t->ratio_spread ? "no clear difference"
                       : t->ratio > 1                        ? "faster than it"
                                                             : "slower than it");
    else if (t->against)
        put_reason(&j->out, t->against);
    if (t->copy_share > 1)
        dgl_buf_puts(&j->out, "  (more than a copy, since data that fit into the device's caches "
                              "stay there between rounds)\n");
    return out_buf(&j->out);
}

/* The name of the kernel in a file. */
struct file_kernel {
    const char *path, *name;
};

static bool find_in_file(void *priv, const struct dgl_kernel_info *k)
{
    struct file_kernel *f = priv;
    if (strcmp(k->origin, f->path) == 0)
        f->name = k->name;
    return !f->name;
}

int kernels_bench(struct engine *e, const struct options *opt)
{
    struct judged j;
    struct options own = *opt;
    /* Names of kernels have neither a slash nor a dot. */
    struct file_kernel f = {.path = strpbrk(opt->arg[1], "/.") ? opt->arg[1] : NULL,
                            .name = opt->arg[1]};
    if (f.path && own.kernel_file.count == OPTIONS_MAX_STRS)
        return console_error("kernels: more than %d files", OPTIONS_MAX_STRS), EXIT_USAGE;
    if (f.path)
        own.kernel_file.item[own.kernel_file.count++] = f.path;
    opt = &own;
    enum dgl_status status = engine_open_kernels(e, opt);
    if (status != DGL_OK)
        return exit_code(status);
    if (f.path) {
        f.name = NULL;
        dgl_kernels_iterate(e->kernels, find_in_file, &f);
        if (!f.name)
            return console_error("%s is a lib: give a kernel", DGL_PRINTABLE(f.path)), EXIT_FAILED;
    }
    status = dgl_kernels_check_shape(&e->console.log, e->kernels, f.name, opt->shape);
    if (status == DGL_OK && opt->against)
        status = dgl_kernels_check_shape(&e->console.log, e->kernels, opt->against, opt->shape);
    if (status == DGL_ERR_INVALID_ARG)
        return engine_has_kernel_files(opt) ? EXIT_FAILED : EXIT_USAGE;
    if (status == DGL_OK)
        status = engine_open_device(e, opt);
    if (status != DGL_OK)
        return exit_code(status);
    begin(&j, e, opt, "times");
    status = dgl_kernels_bench(e->device,
                               dgl_kernels_bench_params(.kernels = e->kernels, .name = f.name,
                                                        .against = opt->against,
                                                        .shape = opt->shape, .cb = tell_time,
                                                        .priv = &j, CONSOLE_PROGRESS(&e->console)));
    int code = end(&j, e, status);
    if (code != EXIT_OK)
        return code;
    if (j.json) {
        dgl_jw_end_array(&j.w);
        report_end(&j.w);
    }
    code = out_exit(out_buf(&j.out));
    if (j.uncompared > 0 && code == EXIT_OK) {
        console_error("kernels bench: %s does not compute %u of the requests here, and is not "
                      "compared there",
                      DGL_PRINTABLE(opt->against), j.uncompared);
        code = EXIT_FAILED;
    }
    if (j.verdicts[DGL_VERDICT_FAILED] > 0)
        console_error("kernels bench: %s failed, and is not timed", DGL_PRINTABLE(opt->arg[1]));
    else if (j.verdicts[DGL_VERDICT_PASSED] == 0)
        console_error("kernels bench: %s cannot run this on this device",
                      DGL_PRINTABLE(opt->arg[1]));
    return j.verdicts[DGL_VERDICT_FAILED] || !j.verdicts[DGL_VERDICT_PASSED] ? EXIT_FAILED : code;
}

bool kernels_check_shape(const struct options *opt)
{
    struct dgl_str rest = dgl_str_of(opt->shape), item;
    while (opt->shape && dgl_str_split(&rest, ',', &item)) {
        const char *equals = memchr(item.p, '=', item.len);
        if (equals && equals != item.p && equals + 1 < item.p + item.len)
            continue;
        return console_refuse("--shape: '%.*s' is not KEY=VALUE, as in K=4096,N=4096,weight=q4_k",
                              (int)item.len, item.p);
    }
    return true;
}
