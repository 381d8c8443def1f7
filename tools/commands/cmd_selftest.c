/* selftest: runs the known-answer tests of the built-in kernels and reports wrong ones. */
#include <string.h>

#include "core/base/status.h"
#include "tools/cli/commands.h"
#include "tools/cli/engine.h"
#include "tools/cli/report.h"

struct tested {
    bool json;
    struct dgl_buf out;
    struct dgl_json_writer w;
    uint32_t passed, rounds, wrong, skipped;
};

static bool tell(void *priv, const struct dgl_kernel_verdict *v, bool wrong)
{
    struct tested *t = priv;
    const char *word = "passed";
    if (v->verdict == DGL_VERDICT_PASSED) {
        t->passed++;
    } else if (v->verdict == DGL_VERDICT_SKIPPED) {
        word = "skipped";
        t->skipped++;
    } else if (wrong) {
        word = "wrong";
        t->wrong++;
    } else {
        word = "rounds";
        t->rounds++;
    }
    if (t->json) {
        dgl_jw_object(&t->w);
        dgl_jw_field_cstr(&t->w, "name", v->kernel->name);
        dgl_jw_field_cstr(&t->w, "op", v->kernel->op);
        dgl_jw_field_cstr(&t->w, "verdict", word);
        dgl_jw_field_u64(&t->w, "cases", v->cases);
        dgl_jw_field_cstr(&t->w, "reason", v->reason[0] ? v->reason : NULL);
        dgl_jw_end_object(&t->w);
        return true;
    }
    dgl_buf_printf(&t->out, "%-8s ", word);
    if (v->verdict == DGL_VERDICT_PASSED)
        dgl_buf_printf(&t->out, "%s", v->kernel->name);
    else
        dgl_buf_visible(&t->out, dgl_str_of(v->reason));
    dgl_buf_putc(&t->out, '\n');
    return out_buf(&t->out);
}

int command_selftest(const struct options *opt)
{
    struct engine e = {0};
    struct tested t = {.json = opt->json};
    size_t len;
    console_init(&e.console, opt);
    if (opt->num_args) {
        if (dgl_kernels_create(&e.console.log, NULL, &e.kernels) != DGL_OK)
            return EXIT_FAILED;
        if (!dgl_kernels_source(e.kernels, opt->arg[0], &len)) {
            console_error("selftest: no built-in kernel is called %s", DGL_PRINTABLE(opt->arg[0]));
            engine_close(&e);
            return EXIT_USAGE;
        }
    }
    enum dgl_status status = DGL_OK;
    int code = EXIT_OK;
    TRY(engine_open_device(&e, opt));
    t.w = dgl_json_writer(&t.out, 0);
    if (t.json) {
        dgl_jw_object(&t.w);
        report_device(&t.w, e.device);
        dgl_jw_field_array(&t.w, "kernels");
    }
    TRY(dgl_selftest(e.device, dgl_selftest_params(.name = opt->num_args ? opt->arg[0] : NULL,
                                                   .quick = opt->quick, .cb = tell, .priv = &t,
                                                   CONSOLE_PROGRESS(&e.console))));
    if (t.json) {
        dgl_jw_end_array(&t.w);
        dgl_jw_field_u64(&t.w, "passed", t.passed);
        dgl_jw_field_u64(&t.w, "rounds", t.rounds);
        dgl_jw_field_u64(&t.w, "wrong", t.wrong);
        dgl_jw_field_u64(&t.w, "skipped", t.skipped);
        report_end(&t.w);
    } else {
        dgl_buf_printf(&t.out, "%u passed, %u only round, %u wrong, %u skipped\n", t.passed,
                       t.rounds, t.wrong, t.skipped);
    }
    code = out_exit(out_buf(&t.out));
    if (t.wrong > 0) {
        console_error("%s: %u kernel%s wrongly; update the driver, or take another device",
                      dgl_device_get_info(e.device)->renderer, t.wrong,
                      t.wrong == 1 ? " computes" : "s compute");
        code = EXIT_FAILED;
    }
done:
    dgl_buf_finish(&t.out);
    engine_close(&e);
    return status == DGL_OK ? code : exit_code(status);
}
