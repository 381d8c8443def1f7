/* bench: speed as a table, JSON or CSV. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "tools/commands.h"
#include "tools/engine.h"
#include "tools/report.h"

static void rates(struct dgl_json_writer *w, const char *key, const double *values, int32_t count)
{
    dgl_jw_key(w, key);
    dgl_jw_array(w);
    for (int32_t i = 0; i < count; i++)
        dgl_jw_f64(w, values[i]);
    dgl_jw_end_array(w);
}

static void profile_json(struct dgl_json_writer *w, const struct dgl_bench_result *r)
{
    dgl_jw_key(w, "profile");
    dgl_jw_array(w);
    for (size_t i = 0; i < r->num_profile; i++) {
        const struct dgl_profile_entry *e = &r->profile[i];
        dgl_jw_object(w);
        report_text(w, "phase", phase_name(e->phase));
        report_text(w, "op", e->op);
        report_text(w, "kernel", e->kernel);
        report_u64(w, "calls", e->calls);
        report_u64(w, "bytes", e->bytes);
        dgl_jw_key(w, "gpu_us");
        if (e->timed)
            dgl_jw_f64(w, (double)e->gpu_ns * 1e-3);
        else
            dgl_jw_null(w);
        dgl_jw_end_object(w);
    }
    dgl_jw_end_array(w);
}

static bool print_json(const struct engine *e, const struct dgl_bench_result *r)
{
    const struct dgl_model_info *m = dgl_model_get_info(e->model);
    struct dgl_buf out = {0};
    struct dgl_json_writer w = dgl_json_writer(&out, 0);
    const struct {
        const char *key;
        int64_t value;
    } counts[] = {{"prompt_tokens", r->prompt_tokens},
                  {"decode_tokens", r->decode_tokens},
                  {"depth", r->depth},
                  {"repetitions", r->repetitions},
                  {"weight_bytes", (int64_t)m->weight_bytes}};
    dgl_jw_object(&w);
    report_text(&w, "version", dgl_version());
    report_text(&w, "model", m->name);
    report_text(&w, "quantization", m->quantization);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        report_i64(&w, counts[i].key, counts[i].value);
    }
    report_f64(&w, "prefill_tps", r->prefill_tps_median);
    report_f64(&w, "decode_tps", r->decode_tps_median);
    rates(&w, "prefill_tps_all", r->prefill_tps, r->repetitions);
    rates(&w, "decode_tps_all", r->decode_tps, r->repetitions);
    report_f64(&w, "decode_gbps", r->decode_gbps);
    report_f64(&w, "copy_gbps", r->copy_gbps);
    report_f64(&w, "cpu_us_per_token", r->cpu_us_per_token);
    report_f64(&w, "load_ms", (double)e->load_ns * 1e-6);
    report_f64(&w, "compile_ms", (double)r->compile_ns * 1e-6);
    dgl_jw_key(&w, "counters");
    dgl_jw_object(&w);
    report_counters(&w, "load", &e->load);
    report_counters(&w, "prefill", &r->prefill);
    report_counters(&w, "decode", &r->decode);
    dgl_jw_end_object(&w);
    report_device(&w, e->device);
    report_kernels(&w, e->model);
    profile_json(&w, r);
    dgl_jw_end_object(&w);
    dgl_buf_putc(&out, '\n');
    return out_buf(&out);
}

static bool print_csv(const struct engine *e, const struct dgl_bench_result *r)
{
    struct dgl_buf out = {0};
    dgl_buf_printf(&out,
                   "model,quantization,device,prompt_tokens,decode_tokens,depth,prefill_tps,"
                   "decode_tps,decode_gbps,copy_gbps,cpu_us_per_token\n"
                   "\"%s\",%s,\"%s\",%d,%d,%d,%.1f,%.1f,%.2f,%.2f,%.1f\n",
                   dgl_model_get_info(e->model)->name, dgl_model_get_info(e->model)->quantization,
                   dgl_device_get_info(e->device)->renderer, r->prompt_tokens, r->decode_tokens,
                   r->depth, r->prefill_tps_median, r->decode_tps_median, r->decode_gbps,
                   r->copy_gbps, r->cpu_us_per_token);
    return out_buf(&out);
}

static void profile_text(struct dgl_buf *out, const struct dgl_bench_result *r)
{
    if (r->num_profile)
        dgl_buf_printf(out, "\n%-8s %-14s %-30s %6s %10s %9s\n", "phase", "operation", "kernel",
                       "calls", "GPU us", "GB/s");
    for (size_t i = 0; i < r->num_profile; i++) {
        const struct dgl_profile_entry *e = &r->profile[i];
        dgl_buf_printf(out, "%-8s %-14s %-30s %6llu ", phase_name(e->phase), e->op, e->kernel,
                       (unsigned long long)e->calls);
        if (e->timed && e->gpu_ns)
            dgl_buf_printf(out, "%10.1f %9.1f\n", (double)e->gpu_ns * 1e-3,
                           (double)e->bytes / (double)e->gpu_ns);
        else
            dgl_buf_printf(out, "%10s %9s\n", "n/a", "n/a");
    }
}

static bool print_table(const struct engine *e, const struct dgl_bench_result *r)
{
    const struct dgl_model_info *m = dgl_model_get_info(e->model);
    struct dgl_buf out = {0};
    dgl_buf_printf(&out, "%s, %s, %.1f M parameters, ", m->name, m->quantization,
                   (double)m->parameters * 1e-6);
    dgl_buf_bytes(&out, m->weight_bytes);
    dgl_buf_printf(&out,
                   " of weights\n"
                   "prefill %5d tokens at depth %d: %10.1f tok/s\n"
                   "decode  %5d tokens at depth %d: %10.1f tok/s, %.1f GB/s of %.1f GB/s copy, "
                   "%.1f us CPU per token\n"
                   "per token: %llu dispatches, %llu barriers, %llu buffers created, %llu programs "
                   "linked\n",
                   r->prompt_tokens, r->depth, r->prefill_tps_median, r->decode_tokens, r->depth,
                   r->decode_tps_median, r->decode_gbps, r->copy_gbps, r->cpu_us_per_token,
                   (unsigned long long)(r->decode.dispatches / (uint64_t)r->decode_tokens),
                   (unsigned long long)(r->decode.barriers / (uint64_t)r->decode_tokens),
                   (unsigned long long)r->decode.buffers_created,
                   (unsigned long long)r->decode.programs_linked);
    profile_text(&out, r);
    return out_buf(&out);
}

/* The name under which the library knows a shape. */
static void shape_path(const struct options *opt, char path[MODEL_PATH_MAX + 16])
{
    snprintf(path, MODEL_PATH_MAX + 16, "synthetic:%s", opt->shape);
}

bool command_bench_check(const struct options *opt)
{
    struct console console;
    struct dgl_model_file *file = NULL;
    char shape[MODEL_PATH_MAX + 16];
    if (opt->shape && opt->model) {
        console_error("bench: give either --shape or -m");
        return false;
    }
    if (opt->json && opt->csv) {
        console_error("bench: give either --json or --csv");
        return false;
    }
    if (!opt->shape)
        return true;
    if (strlen(opt->shape) >= MODEL_PATH_MAX) {
        console_error("--shape: the name is longer than %d bytes", MODEL_PATH_MAX - 1);
        return false;
    }
    /* A name that the library does not know; what is wrong with a file is said when it is used. */
    shape_path(opt, shape);
    enum dgl_status status = dgl_inspect(NULL, dgl_inspect_params(.path = shape), &file);
    dgl_model_file_destroy(&file);
    if (status != DGL_ERR_INVALID_ARG)
        return true;
    console_init(&console, opt);
    dgl_inspect(&console.log, dgl_inspect_params(.path = shape), &file);
    return false;
}

/* Published contexts reach 131,072 tokens, whose cache would be made for a run that never fills it:
 * unless -c says another, a shape gets what the run needs and at least 8,192. */
static int32_t shape_context(const struct options *opt, const char *shape)
{
    struct dgl_model_file *file = NULL;
    int64_t prompt = opt->prompt_tokens ? opt->prompt_tokens : 512;
    int64_t decode = opt->tokens_given ? opt->tokens : 128;
    int64_t need = (int64_t)opt->depth + (prompt > decode ? prompt : decode) + 1;
    int64_t context = need > 8192 ? need : 8192;
    if (opt->context || dgl_inspect(NULL, dgl_inspect_params(.path = shape), &file) != DGL_OK)
        return opt->context;
    int32_t most = dgl_model_file_info(file)->context_max;
    dgl_model_file_destroy(&file);
    return context < most ? (int32_t)context : most;
}

int command_bench(const struct options *opt)
{
    struct engine e;
    struct options with = *opt;
    struct dgl_bench_result result;
    char shape[MODEL_PATH_MAX + 16];
    if (opt->shape) {
        shape_path(opt, shape);
        with.context = shape_context(opt, shape);
    }
    enum dgl_status status = engine_open(&e, &with, opt->shape ? shape : NULL, true);
    if (status == DGL_OK)
        status =
            dgl_bench(e.session,
                      dgl_bench_params(.prompt_tokens = opt->prompt_tokens,
                                       .decode_tokens = opt->tokens_given ? opt->tokens : 0,
                                       .depth = opt->depth, .repetitions = opt->repetitions,
                                       .profile = opt->profile, .progress_cb = console_progress,
                                       .progress_priv = &e.console),
                      &result);
    int code = exit_code(status);
    if (status == DGL_OK) {
        code = out_exit(opt->json  ? print_json(&e, &result)
                        : opt->csv ? print_csv(&e, &result)
                                   : print_table(&e, &result));
        dgl_bench_result_finish(&result);
    }
    engine_close(&e);
    return code;
}
