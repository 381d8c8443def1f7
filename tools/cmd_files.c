/* convert, inspect, verify: commands about files, which open no device (but for verify --smoke). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/printable.h"
#include "tools/commands.h"
#include "tools/engine.h"
#include "tools/report.h"

/* ---- convert --------------------------------------------------------------------------------- */

static struct dgl_convert_params convert_params(const struct options *opt, struct console *console)
{
    return (struct dgl_convert_params){
        .in = opt->arg[0],
        .out = opt->arg[1],
        .to = opt->to_format,
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
        .progress_cb = console_progress,
        .progress_priv = console,
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
    struct dgl_convert_result result;
    console_init(&console, opt);
    console.work = "converting";
    const struct dgl_convert_params params = convert_params(opt, &console);
    enum dgl_status status = dgl_convert(&console.log, &params, &result);
    if (status != DGL_OK)
        return exit_code(status);
    struct dgl_buf out = {0};
    if (opt->json) {
        struct dgl_json_writer w = dgl_json_writer(&out, 0);
        dgl_jw_object(&w);
        report_text(&w, "out", opt->arg[1]);
        report_u64(&w, "tensors", result.tensors);
        report_u64(&w, "bytes_in", result.bytes_in);
        report_u64(&w, "bytes_out", result.bytes_out);
        dgl_jw_end_object(&w);
        dgl_buf_putc(&out, '\n');
        return out_exit(out_buf(&out));
    }
    dgl_buf_bytes(&out, result.bytes_in);
    dgl_buf_puts(&out, " -> ");
    dgl_buf_bytes(&out, result.bytes_out);
    console_note(&console, "%s: %llu tensors, %s", opt->arg[1], (unsigned long long)result.tensors,
                 out.p);
    dgl_buf_finish(&out);
    return EXIT_OK;
}

/* ---- inspect --------------------------------------------------------------------------------- */

static void tensor_json(struct dgl_json_writer *w, const struct dgl_tensor_info *t)
{
    dgl_jw_object(w);
    report_text(w, "name", t->name);
    report_text(w, "dtype", t->dtype);
    report_text(w, "role", t->role);
    report_text(w, "layout", t->layout);
    dgl_jw_key(w, "shape");
    dgl_jw_array(w);
    for (uint32_t i = 0; i < t->rank; i++)
        dgl_jw_u64(w, t->shape[i]);
    dgl_jw_end_array(w);
    report_u64(w, "bytes", t->bytes);
    dgl_jw_end_object(w);
}

static void info_json(struct dgl_json_writer *w, const struct dgl_model_info *info)
{
    const struct {
        const char *key;
        int64_t value;
    } numbers[] = {
        {"vocab", info->vocab},
        {"layers", info->layers},
        {"hidden", info->hidden},
        {"heads", info->heads},
        {"kv_heads", info->kv_heads},
        {"head_dim", info->head_dim},
        {"intermediate", info->intermediate},
        {"context", info->context_max},
        {"parameters", (int64_t)info->parameters},
        {"weight_bytes", (int64_t)info->weight_bytes},
    };
    const struct {
        const char *key, *value;
    } words[] = {{"path", info->path},
                 {"name", info->name},
                 {"family", info->family},
                 {"quantization", info->quantization}};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        report_text(w, words[i].key, words[i].value);
    }
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        report_i64(w, numbers[i].key, numbers[i].value);
    }
    report_bool(w, "tokenizer", info->has_tokenizer);
    report_stop_ids(w, info);
}

static bool inspect_json(const struct dgl_model_file *file)
{
    struct dgl_buf out = {0};
    struct dgl_json_writer w = dgl_json_writer(&out, 0);
    dgl_jw_object(&w);
    info_json(&w, dgl_model_file_info(file));
    dgl_jw_key(&w, "tensors");
    dgl_jw_array(&w);
    for (size_t i = 0; i < dgl_model_file_num_tensors(file); i++) {
        struct dgl_tensor_info t;
        dgl_model_file_tensor(file, i, &t);
        tensor_json(&w, &t);
    }
    dgl_jw_end_array(&w);
    dgl_jw_key(&w, "skipped");
    dgl_jw_array(&w);
    for (size_t i = 0; i < dgl_model_file_num_skipped(file); i++)
        dgl_jw_cstr(&w, dgl_model_file_skipped(file, i));
    dgl_jw_end_array(&w);
    dgl_jw_end_object(&w);
    dgl_buf_putc(&out, '\n');
    return out_buf(&out);
}

static bool inspect_text(const struct dgl_model_file *file)
{
    const struct dgl_model_info *m = dgl_model_file_info(file);
    struct dgl_buf out = {0};
    dgl_buf_printf(&out,
                   "%s: %s, %s, %.1f M parameters\n"
                   "layers %d, hidden %d, intermediate %d, heads %d (%d kv) of %d, vocabulary %d, "
                   "context %d, tokenizer %s\n",
                   DGL_PRINTABLE(m->name), m->family, DGL_PRINTABLE(m->quantization),
                   (double)m->parameters * 1e-6, m->layers, m->hidden, m->intermediate, m->heads,
                   m->kv_heads, m->head_dim, m->vocab, m->context_max,
                   m->has_tokenizer ? "yes" : "no");
    for (size_t i = 0; i < m->num_stop_ids; i++)
        dgl_buf_printf(&out, "stop id %d (%s)\n", m->stop_ids[i].id, m->stop_ids[i].origin);
    for (size_t i = 0; i < dgl_model_file_num_tensors(file); i++) {
        struct dgl_tensor_info t;
        char shape[96] = "";
        dgl_model_file_tensor(file, i, &t);
        for (size_t d = 0, len = 0; d < t.rank && len < sizeof(shape); d++)
            len += (size_t)snprintf(shape + len, sizeof(shape) - len, "%s%llu", d ? " x " : "",
                                    (unsigned long long)t.shape[d]);
        dgl_buf_printf(&out, "%-48s %-6s %-16s %-10s %12llu\n", DGL_PRINTABLE(t.name), t.dtype,
                       shape, DGL_PRINTABLE(t.role), (unsigned long long)t.bytes);
    }
    for (size_t i = 0; i < dgl_model_file_num_skipped(file); i++) {
        dgl_buf_puts(&out, "skipped: ");
        dgl_buf_visible(&out, dgl_str_of(dgl_model_file_skipped(file, i)));
        dgl_buf_putc(&out, '\n');
    }
    return out_buf(&out);
}

int command_inspect(const struct options *opt)
{
    struct console console;
    struct dgl_model_file *file = NULL;
    char bundled[MODEL_PATH_MAX];
    int code = EXIT_FAILED;
    console_init(&console, opt);
    const char *path = model_path(opt, bundled);
    if (!path)
        return code;
    enum dgl_status status = dgl_inspect(&console.log, dgl_inspect_params(.path = path), &file);
    if (status == DGL_OK)
        code = out_exit(opt->json ? inspect_json(file) : inspect_text(file));
    else
        code = exit_code(status);
    dgl_model_file_destroy(&file);
    return code;
}

/* ---- verify ---------------------------------------------------------------------------------- */

struct verify {
    const struct options *opt;
    const char *path;
    struct console console;
    struct dgl_verify_result result;
    bool hashed; /* the model carries hashes */
    char error[2048];
    struct dgl_smoke_result smoke;
};

/* Keeps an error back: without hashes and with --smoke it is none. */
static void hold_error(void *priv, enum dgl_log_level level, const char *text)
{
    struct verify *v = priv;
    if (level == DGL_LOG_ERROR)
        snprintf(v->error, sizeof(v->error), "%s", text);
    else
        v->console.log.write(v->console.log.priv, level, text);
}

static int check_hashes(struct verify *v)
{
    struct dgl_log log = {.write = hold_error,
                          .priv = v,
                          .level = v->console.log.level,
                          .cancelled = v->console.log.cancelled};
    v->console.work = "checking";
    enum dgl_status status =
        dgl_verify(&log,
                   dgl_verify_params(.path = v->path, .progress_cb = console_progress,
                                     .progress_priv = &v->console),
                   &v->result);
    v->hashed = status == DGL_OK;
    if (status == DGL_ERR_UNSUPPORTED && v->opt->smoke)
        return EXIT_OK;
    if (v->error[0])
        v->console.log.write(v->console.log.priv, DGL_LOG_ERROR, v->error);
    return exit_code(status);
}

static int smoke(struct verify *v)
{
    struct engine e;
    enum dgl_status status = engine_open(&e, v->opt, v->path, true);
    if (status == DGL_OK)
        status = dgl_verify_smoke(
            e.session,
            dgl_smoke_params(.progress_cb = console_progress, .progress_priv = &v->console),
            &v->smoke);
    engine_close(&e);
    return exit_code(status);
}

static bool verify_text(const struct verify *v)
{
    struct dgl_buf out = {0};
    if (v->hashed)
        dgl_buf_printf(&out, "%s: %llu files, %llu bytes, every hash is right\n", v->path,
                       (unsigned long long)v->result.files, (unsigned long long)v->result.bytes);
    else
        dgl_buf_printf(&out, "%s: carries no hashes\n", v->path);
    if (v->opt->smoke)
        dgl_buf_printf(
            &out,
            "smoke: %s: %s%s\n"
            "known answers: largest error %.2g (NMSE); fixed text: %.4f nats per token\n",
            v->smoke.passed ? "pass" : "FAIL", v->smoke.prompt, v->smoke.text, v->smoke.error,
            v->smoke.nll);
    return out_buf(&out);
}

static bool verify_json(const struct verify *v)
{
    struct dgl_buf out = {0};
    struct dgl_json_writer w = dgl_json_writer(&out, 0);
    dgl_jw_object(&w);
    report_text(&w, "path", v->path);
    report_u64(&w, "files", v->result.files);
    report_u64(&w, "bytes", v->result.bytes);
    if (v->opt->smoke) {
        report_bool(&w, "smoke", v->smoke.passed);
        report_text(&w, "fault", v->smoke.fault);
        report_text(&w, "text", v->smoke.text);
        report_ids(&w, "tokens", v->smoke.tokens, v->smoke.num_tokens);
        dgl_jw_key(&w, "nll");
        dgl_jw_f64(&w, v->smoke.nll);
        dgl_jw_key(&w, "error");
        dgl_jw_f64(&w, v->smoke.error);
    }
    dgl_jw_end_object(&w);
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
        code = out_exit(opt->json ? verify_json(&v) : verify_text(&v));
    if (code != EXIT_OK || !opt->smoke || v.smoke.passed)
        return code;
    console_error("%s: the smoke test failed: %s", v.path, v.smoke.fault);
    return EXIT_FAILED;
}
