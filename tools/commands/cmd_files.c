/* convert, verify: commands about files. Only verify --smoke opens a device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/printable.h"
#include "tools/cli/commands.h"
#include "tools/cli/engine.h"
#include "tools/cli/fold.h"
#include "tools/cli/options_table.h"
#include "tools/cli/report.h"

/* ---- convert --------------------------------------------------------------------------------- */

static struct dgl_convert_params convert_params(const struct options *opt, struct console *console)
{
    return (struct dgl_convert_params){
        .in = opt->arg[0],
        .out = opt->arg[1],
        .to = opt->to_format,
        .override_kv = opt->override_kv.item,
        .quantize = opt->quantize,
        .embed = opt->embed_type,
        .head = opt->head_type,
        .experts = opt->experts_type,
        .q4k_layout = opt->q4k_layout,
        .fuse_gate_up = opt->fuse_gate_up,
        .transpose_weights = opt->transpose_weights,
        .text_only = opt->text_only,
        .fast = opt->fast,
        .hash = opt->hash,
        .force = opt->force,
        .threads = opt->threads,
        .shard_bytes = (uint64_t)opt->shard_mib << 20,
        CONSOLE_PROGRESS(console),
    };
}

bool command_convert_check(const struct options *opt)
{
    struct console console;
    console_init(&console, opt);
    const struct dgl_convert_params params = convert_params(opt, &console);
    return dgl_convert_check(&console.log, &params) == DGL_OK;
}

int command_convert(const struct options *opt)
{
    struct console console;
    struct dgl_convert_result result = {.size = sizeof(result)};
    console_init(&console, opt);
    console.work = "converting";
    const struct dgl_convert_params params = convert_params(opt, &console);
    dgl_info(&console.log, "converting %s to %s", opt->arg[0], opt->arg[1]);
    struct folding_log folding;
    folding_begin(&folding, &console.log);
    enum dgl_status status = dgl_convert(&folding.log, &params, &result);
    folding_end(&folding);
    if (status != DGL_OK)
        return exit_code(status);
    struct dgl_buf out = {0};
    if (opt->json) {
        struct dgl_json_writer w = report_object(&out);
        dgl_jw_field_cstr(&w, "out", opt->arg[1]);
        dgl_jw_field_u64(&w, "tensors", result.tensors);
        dgl_jw_field_u64(&w, "bytes_in", result.bytes_in);
        dgl_jw_field_u64(&w, "bytes_out", result.bytes_out);
        report_end(&w);
        return out_exit(out_buf(&out));
    }
    console_note(&console, "%s: %llu tensors, %s -> %s", opt->arg[1],
                 (unsigned long long)result.tensors, DGL_BYTES(result.bytes_in),
                 DGL_BYTES(result.bytes_out));
    return EXIT_OK;
}

/* ---- verify ---------------------------------------------------------------------------------- */

bool command_verify_check(const struct options *opt)
{
    return opt->smoke || options_are_used(opt, "verify", "verify` without `--smoke",
                                          OPTIONS_KERNEL " override-kv");
}

struct verify {
    const struct options *opt;
    const char *path;
    struct console console;
    struct dgl_verify_result result;
    bool hashed; /* the model carries hashes */
    struct dgl_smoke_result smoke;
};

static int check_hashes(struct verify *v)
{
    struct dgl_error error;
    const struct dgl_log log = dgl_log_with_error(&v->console.log, &error);
    v->console.work = "checking";
    enum dgl_status status = dgl_verify(
        &log, dgl_verify_params(.path = v->path, CONSOLE_PROGRESS(&v->console)), &v->result);
    v->hashed = status == DGL_OK;
    if (status == DGL_ERR_UNSUPPORTED && v->opt->smoke)
        return EXIT_OK;
    if (status != DGL_OK && error.text[0])
        dgl_logf(&v->console.log, DGL_LOG_ERROR, "%s", error.text);
    return exit_code(status);
}

static int smoke(struct verify *v)
{
    struct engine e;
    enum dgl_status status = engine_open(&e, v->opt, v->path, true);
    if (status == DGL_OK)
        status =
            dgl_verify_smoke(e.session, dgl_smoke_params(CONSOLE_PROGRESS(&v->console)), &v->smoke);
    engine_close(&e);
    return exit_code(status);
}

static bool print_verify(const struct verify *v)
{
    struct dgl_buf out = {0};
    if (v->opt->json) {
        struct dgl_json_writer w = report_object(&out);
        dgl_jw_field_cstr(&w, "path", v->path);
        dgl_jw_field_u64(&w, "files", v->result.files);
        dgl_jw_field_u64(&w, "bytes", v->result.bytes);
        if (v->opt->smoke) {
            dgl_jw_field_bool(&w, "smoke", v->smoke.passed);
            dgl_jw_field_cstr(&w, "fault", v->smoke.fault);
            dgl_jw_field_cstr(&w, "text", v->smoke.text);
            report_ids(&w, "tokens", v->smoke.tokens, v->smoke.num_tokens);
            dgl_jw_field_f64(&w, "nll", v->smoke.nll);
            dgl_jw_field_f64(&w, "error", v->smoke.error);
        }
        report_end(&w);
        return out_buf(&out);
    }
    if (v->hashed)
        dgl_buf_printf(&out, "%s: %llu file%s, %llu bytes, every hash is right\n", v->path,
                       (unsigned long long)v->result.files, v->result.files == 1 ? "" : "s",
                       (unsigned long long)v->result.bytes);
    else
        dgl_buf_printf(&out, "%s: carries no hashes\n", v->path);
    if (!v->opt->smoke)
        return out_buf(&out);
    dgl_buf_printf(&out, "smoke: %s", v->smoke.passed ? "pass" : "FAIL");
    if (v->smoke.num_tokens > 0)
        dgl_buf_printf(&out, ": %s%s", v->smoke.prompt, v->smoke.text);
    dgl_buf_printf(&out, "\nknown answers: largest error %.2g (NMSE)", v->smoke.error);
    if (v->smoke.nll > 0)
        dgl_buf_printf(&out, "; fixed text: %.4f nats per token", v->smoke.nll);
    dgl_buf_putc(&out, '\n');
    return out_buf(&out);
}

int command_verify(const struct options *opt)
{
    struct verify v = {.opt = opt};
    char bundled[MODEL_PATH_MAX];
    int code = EXIT_FAILED;
    console_init(&v.console, opt);
    v.path = model_path(opt, bundled);
    if (v.path)
        code = check_hashes(&v);
    if (code == EXIT_OK && opt->smoke)
        code = smoke(&v);
    if (code == EXIT_OK)
        code = out_exit(print_verify(&v));
    if (code != EXIT_OK || !opt->smoke || v.smoke.passed)
        return code;
    return console_fail("%s: the smoke test failed: %s", v.path, v.smoke.fault);
}
