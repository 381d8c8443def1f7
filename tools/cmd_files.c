/* convert, inspect, verify: commands about files, which never open a device (verify --smoke excepted). */
#include <stdlib.h>
#include <string.h>

#include "tools/commands.h"
#include "tools/engine.h"
#include "tools/report.h"

/* ---- convert ---------------------------------------------------------------------------------------------------- */

int command_convert(const struct options *opt)
{
    struct console console;
    struct dgl_convert_result result;
    console_init(&console, opt);
    interrupt_watch(NULL);
    enum dgl_status st = dgl_convert(
        &console.log,
        dgl_convert_params(.in = opt->arg[0], .out = opt->arg[1], .quantize = opt->quantize,
                           .hash = opt->hash, .force = opt->force, .threads = opt->threads,
                           .shard_bytes = (uint64_t)opt->shard_mib << 20,
                           .progress_cb = console_progress, .progress_priv = &console),
        &result);
    if (st != DGL_OK)
        return exit_code(st);
    if (!opt->json) {
        struct dgl_buf in = {0}, out = {0};
        dgl_buf_bytes(&in, result.bytes_in);
        dgl_buf_bytes(&out, result.bytes_out);
        console_note(&console, "%s: %llu tensors, %s -> %s", opt->arg[1],
                     (unsigned long long)result.tensors, in.p, out.p);
        dgl_buf_finish(&in);
        dgl_buf_finish(&out);
        return EXIT_OK;
    }
    printf("{\"out\":");
    struct dgl_buf text = {0};
    struct dgl_json_writer w = dgl_json_writer(&text, 0);
    dgl_jw_cstr(&w, opt->arg[1]);
    dgl_buf_printf(&text, ",\"tensors\":%llu,\"bytes_in\":%llu,\"bytes_out\":%llu}\n",
                   (unsigned long long)result.tensors, (unsigned long long)result.bytes_in,
                   (unsigned long long)result.bytes_out);
    return out_buf(&text) ? EXIT_OK : EXIT_FAILED;
}

/* ---- inspect ------------------------------------------------------------------------------------------------------ */

static void tensor_json(struct dgl_json_writer *w, const struct dgl_tensor_info *t)
{
    dgl_jw_object(w);
    dgl_jw_key(w, "name");
    dgl_jw_cstr(w, t->name);
    dgl_jw_key(w, "dtype");
    dgl_jw_cstr(w, t->dtype);
    dgl_jw_key(w, "role");
    dgl_jw_cstr(w, t->role);
    dgl_jw_key(w, "layout");
    dgl_jw_cstr(w, t->layout);
    dgl_jw_key(w, "shape");
    dgl_jw_array(w);
    for (uint32_t i = 0; i < t->rank; i++)
        dgl_jw_u64(w, t->shape[i]);
    dgl_jw_end_array(w);
    dgl_jw_key(w, "bytes");
    dgl_jw_u64(w, t->bytes);
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
        dgl_jw_key(w, words[i].key);
        dgl_jw_cstr(w, words[i].value);
    }
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        dgl_jw_key(w, numbers[i].key);
        dgl_jw_i64(w, numbers[i].value);
    }
    dgl_jw_key(w, "tokenizer");
    dgl_jw_bool(w, info->has_tokenizer);
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

static void shape_text(const struct dgl_tensor_info *t, char *out, size_t size)
{
    size_t len = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < t->rank && len < size; i++)
        len += (size_t)snprintf(out + len, size - len, "%s%llu", i ? " x " : "",
                                (unsigned long long)t->shape[i]);
}

static bool inspect_text(const struct dgl_model_file *file)
{
    const struct dgl_model_info *m = dgl_model_file_info(file);
    struct dgl_buf out = {0};
    dgl_buf_printf(&out,
                   "%s: %s, %s, %.1f M parameters\n"
                   "layers %d, hidden %d, intermediate %d, heads %d (%d kv) of %d, vocabulary %d, "
                   "context %d, tokenizer %s\n",
                   m->name, m->family, m->quantization, (double)m->parameters * 1e-6, m->layers,
                   m->hidden, m->intermediate, m->heads, m->kv_heads, m->head_dim, m->vocab,
                   m->context_max, m->has_tokenizer ? "yes" : "no");
    for (size_t i = 0; i < m->num_stop_ids; i++)
        dgl_buf_printf(&out, "stop id %d (%s)\n", m->stop_ids[i].id, m->stop_ids[i].origin);
    for (size_t i = 0; i < dgl_model_file_num_tensors(file); i++) {
        struct dgl_tensor_info t;
        char shape[96];
        dgl_model_file_tensor(file, i, &t);
        shape_text(&t, shape, sizeof(shape));
        dgl_buf_printf(&out, "%-48s %-6s %-16s %-10s %12llu\n", t.name, t.dtype, shape, t.role,
                       (unsigned long long)t.bytes);
    }
    for (size_t i = 0; i < dgl_model_file_num_skipped(file); i++)
        dgl_buf_printf(&out, "skipped: %s\n", dgl_model_file_skipped(file, i));
    return out_buf(&out);
}

/* MODEL as an argument, -m MODEL, or the bundled one; to be freed. */
static char *named_model(const struct options *opt)
{
    return opt->num_args ? strdup(opt->arg[0]) : model_path(opt);
}

int command_inspect(const struct options *opt)
{
    struct console console;
    struct dgl_model_file *file = NULL;
    console_init(&console, opt);
    char *path = named_model(opt);
    if (!path)
        return EXIT_FAILED;
    enum dgl_status st = dgl_inspect(&console.log, path, &file);
    int code = exit_code(st);
    if (st == DGL_OK && !(opt->json ? inspect_json(file) : inspect_text(file)))
        code = EXIT_FAILED;
    dgl_model_file_destroy(&file);
    free(path);
    return code;
}

/* ---- verify --------------------------------------------------------------------------------------------------------- */

static int smoke(const struct options *opt, const char *path, bool *passed, char *text, size_t size)
{
    struct engine e;
    enum dgl_status st = engine_open(&e, opt, path, true);
    if (st == DGL_OK)
        st = dgl_verify_smoke(e.session, passed, text, size);
    engine_close(&e);
    return exit_code(st);
}

static bool print_verify(const struct options *opt, const char *path,
                         const struct dgl_verify_result *result, const char *smoke_text,
                         bool passed)
{
    struct dgl_buf out = {0};
    if (!opt->json) {
        dgl_buf_printf(&out, "%s: %llu files, %llu bytes, every hash is right\n", path,
                       (unsigned long long)result->files, (unsigned long long)result->bytes);
        if (opt->smoke)
            dgl_buf_printf(&out, "smoke: %s: The color of the sky is%s\n", passed ? "pass" : "FAIL",
                           smoke_text);
        return out_buf(&out);
    }
    struct dgl_json_writer w = dgl_json_writer(&out, 0);
    dgl_jw_object(&w);
    dgl_jw_key(&w, "path");
    dgl_jw_cstr(&w, path);
    dgl_jw_key(&w, "files");
    dgl_jw_u64(&w, result->files);
    dgl_jw_key(&w, "bytes");
    dgl_jw_u64(&w, result->bytes);
    if (opt->smoke) {
        dgl_jw_key(&w, "smoke");
        dgl_jw_bool(&w, passed);
        dgl_jw_key(&w, "text");
        dgl_jw_cstr(&w, smoke_text);
    }
    dgl_jw_end_object(&w);
    dgl_buf_putc(&out, '\n');
    return out_buf(&out);
}

int command_verify(const struct options *opt)
{
    struct console console;
    struct dgl_verify_result result;
    char text[512] = "";
    bool passed = true;
    console_init(&console, opt);
    interrupt_watch(NULL);
    char *path = named_model(opt);
    if (!path)
        return EXIT_FAILED;
    enum dgl_status st = dgl_verify(
        &console.log,
        dgl_verify_params(.path = path, .progress_cb = console_progress, .progress_priv = &console),
        &result);
    /* A folder carries no hashes; the smoke test alone is still worth having. */
    bool only_smoke = st == DGL_ERR_UNSUPPORTED && opt->smoke;
    int code = only_smoke ? EXIT_OK : exit_code(st);
    if (code == EXIT_OK && opt->smoke)
        code = smoke(opt, path, &passed, text, sizeof(text));
    if (code == EXIT_OK && !print_verify(opt, path, &result, text, passed))
        code = EXIT_FAILED;
    free(path);
    return code == EXIT_OK && !passed ? EXIT_FAILED : code;
}
