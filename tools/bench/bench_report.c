/* Reports of `bench`: table, Markdown, CSV, JSON and figure. The JSON is Doppler's benchmark result
 * (schemaVersion 1) next to fields of our own; its `model` object is `modelInfo`, since `model` is
 * the name here. */
#include "tools/bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/mem.h"
#include "tools/bench/plot.h"
#include "tools/bench/tune_report.h"
#include "tools/cli/profile.h"
#include "tools/cli/report.h"

#define MAX_MANIFEST (64u << 20)

static const char *kv_name(const struct bench_report *report)
{
    return report->opt->kv_type ? report->opt->kv_type : "f16";
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* GPU time of one phase in one repetition, summed over its operations. Null if an operation could
 * not be timed. Only some decode tokens are timed, so their time is scaled to all tokens. */
static void gpu_ms(struct dgl_json_writer *w, const char *key, const struct dgl_bench_result *r,
                   enum dgl_phase phase)
{
    const struct dgl_profile *p = &r->profile;
    uint64_t ns = 0;
    double tokens = 0;
    bool timed = p->num_entries > 0;
    for (size_t i = 0; i < p->num_entries; i++) {
        if (p->entries[i].phase != phase)
            continue;
        timed &= p->entries[i].timed;
        ns += p->entries[i].gpu_ns;
    }
    for (size_t i = 0; i < p->num_steps; i++)
        tokens += p->steps[i].timed;
    double runs = phase == DGL_PHASE_DECODE ? r->decode_tokens / tokens : 1;
    dgl_jw_field_f64(w, key, timed ? (double)ns * runs * 1e-6 : NAN);
}

static void env_json(struct dgl_json_writer *w, const struct dgl_device *device)
{
    const struct dgl_device_info *info = dgl_device_get_info(device);
    const struct dgl_limits *limits = dgl_device_get_limits(device);
    struct utsname os;
    bool known = uname(&os) == 0;
    dgl_jw_field_object(w, "env");
    dgl_jw_key(w, "browser"); /* the program, in the words of the schema */
    dgl_jw_object(w);
    dgl_jw_field_cstr(w, "name", "dopplergl");
    dgl_jw_field_cstr(w, "version", dgl_version());
    dgl_jw_end_object(w);
    dgl_jw_field_object(w, "os");
    dgl_jw_field_cstr(w, "name", known ? os.sysname : NULL);
    dgl_jw_field_cstr(w, "version", known ? os.release : NULL);
    dgl_jw_end_object(w);
    dgl_jw_field_object(w, "gpu");
    dgl_jw_field_cstr(w, "vendor", info->driver);
    dgl_jw_field_cstr(w, "device", info->renderer);
    dgl_jw_field_cstr(w, "description", dgl_device_gl_version(device));
    dgl_jw_end_object(w);
    dgl_jw_field_object(w, "gl");
    dgl_jw_field_bool(w, "hasF16", limits->nv_gpu_shader5);
    dgl_jw_field_bool(w, "hasSubgroups", limits->subgroup_size > 1);
    dgl_jw_field_bool(w, "hasTimestampQuery", limits->timer);
    dgl_jw_end_object(w);
    dgl_jw_end_object(w);
}

/* `file` may be NULL. */
static void model_json(struct dgl_json_writer *w, const struct dgl_model_info *m,
                       const struct dgl_model_file *file)
{
    dgl_jw_field_object(w, "modelInfo");
    dgl_jw_field_cstr(w, "modelId", m->path);
    dgl_jw_field_cstr(w, "modelName", m->name);
    dgl_jw_field_cstr(w, "quantization", m->quantization);
    dgl_jw_field_u64(w, "totalSizeBytes", m->weight_bytes);
    if (file)
        dgl_jw_field_u64(w, "tensorCount", dgl_model_file_num_tensors(file));
    else
        dgl_jw_field_null(w, "tensorCount");
    dgl_jw_field_i64(w, "numLayers", m->layers);
    dgl_jw_field_i64(w, "hiddenSize", m->hidden);
    dgl_jw_field_u64(w, "parameters", m->parameters);
    dgl_jw_end_object(w);
}

static void metrics_json(struct dgl_json_writer *w, const struct bench_report *report)
{
    const struct dgl_bench_result *r = &report->result;
    dgl_jw_field_object(w, "metrics");
    report_f64(w, "ttft_ms", r->ttft_ms_warm);
    report_f64(w, "prefill_ms", r->prefill_ms_median);
    report_f64(w, "prefill_tokens_per_sec", r->prefill_tps_median);
    report_f64(w, "decode_ms_total", r->decode_ms_median);
    report_f64(w, "decode_tokens_per_sec", r->decode_tps_median);
    dgl_jw_field_u64(w, "gpu_submit_count_prefill", r->prefill.submits);
    dgl_jw_field_u64(w, "gpu_submit_count_decode", r->decode.submits);
    report_f64(w, "decode_ms_per_token_p50", r->decode_ms_p50);
    report_f64(w, "decode_ms_per_token_p90", r->decode_ms_p90);
    report_f64(w, "decode_ms_per_token_p99", r->decode_ms_p99);
    dgl_jw_field_u64(w, "gpu_readback_bytes_total",
                     r->prefill.readback_bytes + r->decode.readback_bytes);
    dgl_jw_field_bool(w, "gpu_timestamp_available",
                      dgl_device_get_limits(report->engine->device)->timer);
    gpu_ms(w, "gpu_time_ms_prefill", r, DGL_PHASE_PREFILL);
    gpu_ms(w, "gpu_time_ms_decode", r, DGL_PHASE_DECODE);
    dgl_jw_field_u64(w, "estimated_vram_bytes_peak", r->peak_bytes);
    dgl_jw_field_cstr(w, "kv_cache_dtype", kv_name(report));
    dgl_jw_field_i64(w, "kv_cache_max_seq_len", r->context);
    dgl_jw_field_cstr(w, "storage_mode", "native_bridge");
    dgl_jw_end_object(w);
}

static void points_json(struct dgl_json_writer *w, const char *key, const char *tokens,
                        const char *tps, const struct bench_point *points, size_t count)
{
    char all[32];
    snprintf(all, sizeof(all), "%s_all", tps);
    dgl_jw_field_array(w, key);
    for (size_t i = 0; i < count; i++) {
        dgl_jw_object(w);
        dgl_jw_field_i64(w, tokens, points[i].tokens);
        report_f64(w, tps, points[i].median);
        if (points[i].step_ms > 0)
            report_f64(w, "step_ms", points[i].step_ms);
        report_f64s(w, all, points[i].tps, (size_t)points[i].count);
        dgl_jw_end_object(w);
    }
    dgl_jw_end_array(w);
}

static void settings_json(struct dgl_json_writer *w, const struct bench_report *report,
                          const struct dgl_model_file *file)
{
    const struct dgl_bench_result *r = &report->result;
    const struct dgl_model_info *m = dgl_model_get_info(report->engine->model);
    /* Only packs have a manifest. */
    char *path = dgl_path_join(m->path, "manifest.json"), *text = NULL, hex[65];
    size_t len = 0;
    const bool known = path && dgl_path_exists(path) &&
                       dgl_file_slurp(NULL, path, MAX_MANIFEST, &text, &len) == DGL_OK &&
                       dgl_hash_bytes(DGL_HASH_SHA256, text, len, hex);
    free(text);
    free(path);
    dgl_jw_field_cstr(w, "version", dgl_version());
    dgl_jw_field_cstr(w, "commit", DGL_COMMIT[0] ? DGL_COMMIT : NULL);
    dgl_jw_field_array(w, "flags");
    for (int i = 0; i < report->opt->argc; i++)
        dgl_jw_cstr(w, report->opt->argv[i]);
    dgl_jw_end_array(w);
    dgl_jw_field_cstr(w, "model", m->name);
    dgl_jw_field_cstr(w, "manifest_hash", known ? hex : NULL);
    dgl_jw_field_cstr(w, "quantization", m->quantization);
    dgl_jw_field_cstr(w, "kv_type", kv_name(report));
    dgl_jw_field_i64(w, "prompt_tokens", r->prompt_tokens);
    dgl_jw_field_i64(w, "decode_tokens", r->decode_tokens);
    dgl_jw_field_i64(w, "depth", r->depth);
    dgl_jw_field_i64(w, "batch", r->batch);
    dgl_jw_field_i64(w, "ubatch", r->ubatch);
    dgl_jw_field_i64(w, "context", r->context);
    dgl_jw_field_i64(w, "repetitions", r->repetitions);
    dgl_jw_field_i64(w, "warmup", r->warmup);
    dgl_jw_field_u64(w, "weight_bytes", m->weight_bytes);
    dgl_jw_field_u64(w, "held_bytes", m->weight_bytes);
    if (file)
        dgl_jw_field_u64(w, "file_bytes", dgl_model_file_info(file)->weight_bytes);
    else
        dgl_jw_field_null(w, "file_bytes");
}

static bool print_json(const struct bench_report *report)
{
    const struct engine *e = report->engine;
    const struct dgl_bench_result *r = &report->result;
    const struct dgl_model_info *m = dgl_model_get_info(e->model);
    struct dgl_buf out = {0};
    struct dgl_json_writer w = dgl_json_writer(&out, 0);
    struct dgl_model_file *file = NULL; /* stays NULL if it cannot be read again */
    dgl_inspect(NULL,
                dgl_inspect_params(.path = m->path, .override_kv = report->opt->override_kv.item),
                &file);
    report_begin(&w, "pipeline");
    dgl_jw_field_cstr(&w, "runType", "warm");
    env_json(&w, e->device);
    model_json(&w, m, file);
    dgl_jw_field_object(&w, "workload");
    dgl_jw_field_cstr(&w, "promptName", "custom");
    dgl_jw_field_i64(&w, "promptTokens", r->prompt_tokens);
    dgl_jw_field_i64(&w, "maxNewTokens", r->decode_tokens);
    dgl_jw_field_object(&w, "sampling");
    dgl_jw_field_i64(&w, "temperature", 0);
    dgl_jw_field_i64(&w, "topK", 1);
    dgl_jw_field_i64(&w, "topP", 1);
    dgl_jw_end_object(&w);
    dgl_jw_end_object(&w);
    metrics_json(&w, report);
    settings_json(&w, report, file);
    dgl_model_file_destroy(&file);
    report_f64(&w, "prefill_tps", r->prefill_tps_median);
    report_f64(&w, "decode_tps", r->decode_tps_median);
    report_f64s(&w, "prefill_tps_all", r->prefill_tps, (size_t)r->repetitions);
    report_f64s(&w, "decode_tps_all", r->decode_tps, (size_t)r->repetitions);
    report_f64(&w, "decode_ms_per_token_p50", r->decode_ms_p50);
    report_f64(&w, "decode_ms_per_token_p90", r->decode_ms_p90);
    report_f64(&w, "decode_ms_per_token_p99", r->decode_ms_p99);
    report_f64(&w, "ttft_ms_cold", r->ttft_ms_cold);
    report_f64(&w, "ttft_ms_warm", r->ttft_ms_warm);
    dgl_jw_field_u64(&w, "bytes_per_token", r->bytes_per_token);
    report_f64(&w, "decode_gbps", r->decode_gbps);
    report_f64(&w, "copy_gbps", r->copy_gbps);
    report_f64(&w, "cpu_us_per_token", r->batch > 1 ? NAN : r->cpu_us_per_token);
    dgl_jw_field_u64(&w, "peak_bytes", r->peak_bytes);
    dgl_jw_field_u64(&w, "estimate_bytes", r->estimate_bytes);
    report_f64(&w, "load_ms", (double)e->load_ns * 1e-6);
    report_f64(&w, "compile_ms", (double)r->compile_ns * 1e-6);
    dgl_jw_field_cstr(&w, "executor", r->executor);
    dgl_jw_field_cstr(&w, "executor_reason", r->executor_reason);
    dgl_jw_field_object(&w, "counters");
    report_counters(&w, "load", &e->load);
    report_counters(&w, "prefill", &r->prefill);
    report_counters(&w, "decode", &r->decode);
    dgl_jw_end_object(&w);
    report_device(&w, e->device);
    report_kernels(&w, e->model);
    profile_json(&w, &r->profile, r->profile.num_entries > 0);
    dgl_jw_key(&w, "tuned");
    tune_json(&w, &report->tuned);
    if (report->num_batches) {
        points_json(&w, "sweep_batch", "batch", "decode_tps", report->batch, report->num_batches);
    } else if (report->opt->sweep) {
        points_json(&w, "sweep_depth", "depth", "decode_tps", report->depth, report->num_depths);
        points_json(&w, "sweep_prompt", "prompt_tokens", "prefill_tps", report->prompt,
                    report->num_prompts);
    }
    if (report->opt->matrix) {
        dgl_jw_field_array(&w, "matrix");
        for (size_t i = 0; i < report->num_cells; i++) {
            const struct bench_cell *c = &report->cell[i];
            dgl_jw_object(&w);
            dgl_jw_field_cstr(&w, "quantization", c->quantization);
            dgl_jw_field_cstr(&w, "layout", c->layout);
            dgl_jw_field_u64(&w, "weight_bytes", c->weight_bytes);
            report_f64(&w, "prefill_tps", c->result.prefill_tps_median);
            report_f64(&w, "decode_tps", c->result.decode_tps_median);
            report_f64(&w, "decode_gbps", c->result.decode_gbps);
            dgl_jw_end_object(&w);
        }
        dgl_jw_end_array(&w);
    }
    dgl_jw_field_object(&w, "raw");
    report_f64s(&w, "decode_latencies_ms", r->decode_latency_ms, r->num_latencies);
    report_f64s(&w, "submit_times_ms", r->submit_ms, r->num_submits);
    report_ids(&w, "generated_token_ids", r->tokens, r->num_tokens);
    dgl_jw_field_cstr(&w, "generated_text", r->text);
    dgl_jw_end_object(&w);
    report_end(&w);
    return out_buf(&out);
}

/* ---- CSV and Markdown ------------------------------------------------------------------------ */

/* Appends a text as a field, with an `escape` before every `mark`. */
static void put_field(struct dgl_buf *out, const char *text, char mark, char escape)
{
    for (; *text; text++) {
        if (*text == mark)
            dgl_buf_putc(out, escape);
        dgl_buf_putc(out, *text);
    }
}

/* The begin of a line of CSV: model, weights, device. */
static void csv_begin(struct dgl_buf *out, const struct bench_report *report,
                      const char *quantization)
{
    dgl_buf_putc(out, '"');
    put_field(out, dgl_model_get_info(report->engine->model)->name, '"', '"');
    dgl_buf_printf(out, "\",%s,\"", quantization);
    put_field(out, dgl_device_get_info(report->engine->device)->renderer, '"', '"');
    dgl_buf_puts(out, "\",");
}

/* A whole run; the copy was timed once. */
static void csv_run(struct dgl_buf *out, const struct bench_report *report,
                    const struct dgl_bench_result *r, const char *quantization, const char *layout)
{
    char cpu_us[32] = ""; /* not measured of a batch */
    if (r->batch == 1)
        snprintf(cpu_us, sizeof(cpu_us), "%.1f", r->cpu_us_per_token);
    csv_begin(out, report, quantization);
    dgl_buf_printf(out, "%d,%d,%d,%.1f,%.1f,%.2f,%.2f,%s,%.2f,%.2f,%.4f,%.4f,%.4f,%llu,%s,%d\n",
                   r->prompt_tokens, r->decode_tokens, r->depth, r->prefill_tps_median,
                   r->decode_tps_median, r->decode_gbps, report->result.copy_gbps, cpu_us,
                   r->ttft_ms_warm, r->ttft_ms_cold, r->decode_ms_p50, r->decode_ms_p90,
                   r->decode_ms_p99, (unsigned long long)r->peak_bytes, layout, r->batch);
}

static bool print_csv(const struct bench_report *report)
{
    const struct dgl_bench_result *r = &report->result;
    const struct dgl_model_info *m = dgl_model_get_info(report->engine->model);
    struct dgl_buf out = {0};
    dgl_buf_puts(&out, "model,quantization,device,prompt_tokens,decode_tokens,depth,prefill_tps,"
                       "decode_tps,decode_gbps,copy_gbps,cpu_us_per_token,ttft_ms_warm,"
                       "ttft_ms_cold,decode_ms_p50,decode_ms_p90,decode_ms_p99,peak_bytes,layout,"
                       "batch\n");
    csv_run(&out, report, r, m->quantization, report->layout);
    for (size_t i = 0; i < report->num_depths; i++) {
        csv_begin(&out, report, m->quantization);
        dgl_buf_printf(&out, ",%d,%d,,%.1f,,,,,,,,,,,1\n", r->decode_tokens,
                       report->depth[i].tokens, report->depth[i].median);
    }
    for (size_t i = 0; i < report->num_prompts; i++) {
        csv_begin(&out, report, m->quantization);
        dgl_buf_printf(&out, "%d,,0,%.1f,,,,,,,,,,,,1\n", report->prompt[i].tokens,
                       report->prompt[i].median);
    }
    for (size_t i = 0; i < report->num_batches; i++) {
        csv_begin(&out, report, m->quantization);
        dgl_buf_printf(&out, ",%d,%d,,%.1f,,,,,,%.4f,,,,,%d\n", r->decode_tokens, r->depth,
                       report->batch[i].median, report->batch[i].step_ms, report->batch[i].tokens);
    }
    for (size_t i = 0; i < report->num_cells; i++)
        csv_run(&out, report, &report->cell[i].result, report->cell[i].quantization,
                report->cell[i].layout);
    return out_buf(&out);
}

/* As llama-bench names its tests: pp = prompt, tg = generation, @ d = at a depth; x B = sequences
 * together. */
static bool print_md(const struct bench_report *report)
{
    const struct dgl_bench_result *r = &report->result;
    const struct dgl_model_info *m = dgl_model_get_info(report->engine->model);
    char at[24] = "", together[24] = "";
    struct dgl_buf out = {0}, name = {0};
    put_field(&name, m->name, '|', '\\');
    const char *model = name.p ? name.p : "";
    if (r->depth)
        snprintf(at, sizeof(at), " @ d%d", r->depth);
    if (r->batch > 1)
        snprintf(together, sizeof(together), " x %d", r->batch);
    dgl_buf_printf(&out,
                   "| model | weights | test | tok/s | GB/s | ms per token p50 / p90 / p99 |\n"
                   "| --- | --- | --- | --- | --- | --- |\n"
                   "| %s | %s | pp%d%s | %.1f | | |\n"
                   "| %s | %s | tg%d%s%s | %.1f | %.1f | %.3f / %.3f / %.3f |\n",
                   model, m->quantization, r->prompt_tokens, at, r->prefill_tps_median, model,
                   m->quantization, r->decode_tokens, together, at, r->decode_tps_median,
                   r->decode_gbps, r->decode_ms_p50, r->decode_ms_p90, r->decode_ms_p99);
    for (size_t i = 0; i < report->num_depths; i++)
        dgl_buf_printf(&out, "| %s | %s | tg%d @ d%d | %.1f | | |\n", model, m->quantization,
                       r->decode_tokens, report->depth[i].tokens, report->depth[i].median);
    for (size_t i = 0; i < report->num_prompts; i++)
        dgl_buf_printf(&out, "| %s | %s | pp%d | %.1f | | |\n", model, m->quantization,
                       report->prompt[i].tokens, report->prompt[i].median);
    for (size_t i = 0; i < report->num_batches; i++)
        dgl_buf_printf(&out, "| %s | %s | tg%d x %d%s | %.1f | | %.3f / / |\n", model,
                       m->quantization, r->decode_tokens, report->batch[i].tokens, at,
                       report->batch[i].median, report->batch[i].step_ms);
    for (size_t i = 0; i < report->num_cells; i++) {
        const struct bench_cell *c = &report->cell[i];
        dgl_buf_printf(&out,
                       "| %s | %s, %s | pp%d%s | %.1f | | |\n"
                       "| %s | %s, %s | tg%d%s | %.1f | %.1f | |\n",
                       model, c->quantization, c->layout, r->prompt_tokens, at,
                       c->result.prefill_tps_median, model, c->quantization, c->layout,
                       r->decode_tokens, at, c->result.decode_tps_median, c->result.decode_gbps);
    }
    profile_markdown(&out, &r->profile, r->batch);
    out.failed |= name.failed;
    dgl_buf_finish(&name);
    return out_buf(&out);
}

/* ---- the table for people -------------------------------------------------------------------- */

static bool print_table(const struct bench_report *report)
{
    const struct dgl_bench_result *r = &report->result;
    const struct dgl_model_info *m = dgl_model_get_info(report->engine->model);
    struct dgl_buf out = {0};
    dgl_buf_printf(&out, "%s, %s, %.1f M parameters, ", m->name, m->quantization,
                   (double)m->parameters * 1e-6);
    dgl_buf_bytes(&out, m->weight_bytes);
    dgl_buf_printf(&out,
                   " of weights\n"
                   "prefill %5d tokens at depth %d: %10.1f tok/s in passes of up to %d\n"
                   "decode  %5d tokens at depth %d: %10.1f tok/s, %.1f GB/s of %.1f GB/s copy, ",
                   r->prompt_tokens, r->depth, r->prefill_tps_median, r->ubatch, r->decode_tokens,
                   r->depth, r->decode_tps_median, r->decode_gbps, r->copy_gbps);
    if (r->batch > 1)
        dgl_buf_printf(&out, "%d sequences together", r->batch);
    else
        dgl_buf_printf(&out, "%.1f us CPU per token", r->cpu_us_per_token);
    dgl_buf_printf(&out,
                   "\nfirst token after %.2f ms, of the process after %.2f ms; then %.3f ms each, "
                   "p90 %.3f, p99 %.3f\n"
                   "per %s: %llu dispatches, %llu barriers, %llu buffers created, %llu programs "
                   "linked\n"
                   "memory: ",
                   r->ttft_ms_warm, r->ttft_ms_cold, r->decode_ms_p50, r->decode_ms_p90,
                   r->decode_ms_p99, r->batch > 1 ? "step of all" : "token",
                   (unsigned long long)(r->decode.dispatches / (uint64_t)r->decode_tokens),
                   (unsigned long long)(r->decode.barriers / (uint64_t)r->decode_tokens),
                   (unsigned long long)r->decode.buffers_created,
                   (unsigned long long)r->decode.programs_linked);
    dgl_buf_bytes(&out, r->peak_bytes);
    dgl_buf_puts(&out, " at most, ");
    dgl_buf_bytes(&out, r->estimate_bytes);
    dgl_buf_puts(&out, r->batch > 1 ? " estimated of one sequence; " : " estimated; ");
    dgl_buf_bytes(&out, r->bytes_per_token);
    dgl_buf_printf(&out, " read per token\nexecutor: %s (%s)\n", r->executor, r->executor_reason);
    for (size_t i = 0; i < report->num_depths; i++)
        dgl_buf_printf(&out, "decode  at depth %6d: %10.1f tok/s\n", report->depth[i].tokens,
                       report->depth[i].median);
    for (size_t i = 0; i < report->num_prompts; i++)
        dgl_buf_printf(&out, "prefill of %8d: %10.1f tok/s, %.3f ms\n", report->prompt[i].tokens,
                       report->prompt[i].median,
                       1e3 * report->prompt[i].tokens / report->prompt[i].median);
    for (size_t i = 0; i < report->num_batches; i++)
        dgl_buf_printf(&out, "decode of %3d together: %10.1f tok/s, %.3f ms a step\n",
                       report->batch[i].tokens, report->batch[i].median, report->batch[i].step_ms);
    for (size_t i = 0; i < report->num_cells; i++) {
        const struct bench_cell *c = &report->cell[i];
        dgl_buf_printf(&out, "%-8s %-12s prefill %10.1f tok/s, decode %10.1f tok/s, %.1f GB/s\n",
                       c->quantization, c->layout, c->result.prefill_tps_median,
                       c->result.decode_tps_median, c->result.decode_gbps);
    }
    profile_table(&out, &r->profile, r->batch);
    if (report->tuned.num_ops)
        dgl_buf_puts(&out, "what was tuned, five rounds in turn with the default:\n");
    tune_put(&out, &report->tuned, false);
    return out_buf(&out);
}

bool bench_print(const struct bench_report *report)
{
    const struct options *opt = report->opt;
    return opt->json  ? print_json(report)
           : opt->csv ? print_csv(report)
           : opt->md  ? print_md(report)
                      : print_table(report);
}

/* ---- figure ---------------------------------------------------------------------------------- */

/* Plots the results. A sweep plots decode speed by depth, and prefill speed and time by length, or
 * the time and rate of a step by number of sequences. A matrix plots decode speed by bytes of
 * weights. Any other run plots the time of each token. */
enum dgl_status bench_plot(const struct dgl_log *log, const struct bench_report *report,
                           struct dgl_atomic_file **file)
{
    enum { MOST = BENCH_MAX_POINTS > BENCH_MAX_CELLS ? BENCH_MAX_POINTS : BENCH_MAX_CELLS };
    const struct dgl_bench_result *r = &report->result;
    const struct dgl_model_info *m = dgl_model_get_info(report->engine->model);
    double x[2][MOST], y[2][MOST], ms[MOST];
    double *index = dgl_new_array(double, r->num_latencies);
    struct plot_panel panel[3];
    size_t panels = 1;
    struct dgl_buf title = {0};
    enum dgl_status status = DGL_OK;
    if (report->num_batches) {
        panels = 2;
        for (size_t i = 0; i < report->num_batches; i++) {
            x[0][i] = report->batch[i].tokens;
            y[0][i] = report->batch[i].step_ms;
            y[1][i] = report->batch[i].median;
        }
        panel[0] = (struct plot_panel){.title = "time of a step",
                                       .x_label = "sequences that decode together",
                                       .y_label = "ms for a token of each",
                                       .line = {{NULL, x[0], y[0], report->num_batches}},
                                       .num_lines = 1};
        panel[1] = panel[0];
        panel[1].title = "decode of all";
        panel[1].y_label = "tokens per second";
        panel[1].line[0].y = y[1];
    } else if (report->num_depths) {
        panels = 3;
        for (size_t i = 0; i < report->num_depths; i++) {
            x[0][i] = report->depth[i].tokens;
            y[0][i] = report->depth[i].median;
        }
        for (size_t i = 0; i < report->num_prompts; i++) {
            x[1][i] = report->prompt[i].tokens;
            y[1][i] = report->prompt[i].median;
            ms[i] = 1e3 * x[1][i] / y[1][i];
        }
        panel[0] = (struct plot_panel){.title = "decode by depth",
                                       .x_label = "tokens in the KV cache",
                                       .y_label = "tokens per second",
                                       .line = {{NULL, x[0], y[0], report->num_depths}},
                                       .num_lines = 1};
        panel[1] = (struct plot_panel){.title = "prefill by length",
                                       .x_label = "tokens of the prompt",
                                       .y_label = "tokens per second",
                                       .log_x = true,
                                       .line = {{NULL, x[1], y[1], report->num_prompts}},
                                       .num_lines = 1};
        panel[2] = panel[1];
        panel[2].title = "time of a prompt";
        panel[2].log_y = true;
        panel[2].y_label = "ms";
        panel[2].line[0].y = ms;
    } else if (report->num_cells) {
        for (size_t i = 0; i < report->num_cells; i++) {
            const double bytes = (double)report->cell[i].weight_bytes * 1e-9;
            size_t at = i;
            for (; at > 0 && x[0][at - 1] > bytes; at--) {
                x[0][at] = x[0][at - 1];
                y[0][at] = y[0][at - 1];
            }
            x[0][at] = bytes;
            y[0][at] = report->cell[i].result.decode_tps_median;
        }
        panel[0] = (struct plot_panel){.title = "decode by size of weights",
                                       .x_label = "GB of weights",
                                       .y_label = "tokens per second",
                                       .line = {{NULL, x[0], y[0], report->num_cells}},
                                       .num_lines = 1};
    } else {
        for (size_t i = 0; index && i < r->num_latencies; i++)
            index[i] = (double)i;
        panel[0] = (struct plot_panel){
            .title = r->batch > 1 ? "time of each step" : "time of each token",
            .x_label = r->batch > 1 ? "step, repetition after repetition"
                                    : "token, repetition after repetition",
            .y_label = "ms",
            .line = {{NULL, index, r->decode_latency_ms, index ? r->num_latencies : 0}},
            .num_lines = 1};
    }
    dgl_buf_printf(&title, "%s %s, %s", m->name, m->quantization,
                   dgl_device_get_info(report->engine->device)->renderer);
    if (!index || title.failed)
        status = dgl_fail_memory(log, "figure", title.len);
    else
        status = plot_write(log, file, title.p, panel, panels);
    dgl_buf_finish(&title);
    free(index);
    return status;
}
