/* logits and perplexity: comparisons of a model with its reference. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/mem.h"
#include "core/base/status.h"
#include "tools/cli/commands.h"
#include "tools/cli/engine.h"
#include "tools/cli/input.h"
#include "tools/cli/report.h"

#define MAX_TEXT_FILE ((size_t)1 << 30)

/* ---- logits ---------------------------------------------------------------------------------- */

struct logits {
    struct engine engine;
    struct dgl_atomic_file *file;
    struct id_list ids;
    float *values; /* [rows, vocab]; dgl_free() */
    size_t rows;
    int32_t vocab;
};

/* A safetensors file with one tensor: 8 bytes of header length, header, data. */
static enum dgl_status write_tensor(struct logits *l)
{
    struct dgl_buf header = {0};
    uint64_t bytes = (uint64_t)l->rows * (uint64_t)l->vocab * sizeof(float);
    unsigned char prefix[8];
    dgl_buf_printf(&header,
                   "{\"logits\":{\"dtype\":\"F32\",\"shape\":[%zu,%d],\"data_offsets\":[0,%llu]}}",
                   l->rows, l->vocab, (unsigned long long)bytes);
    while (!header.failed && header.len % 8)
        dgl_buf_putc(&header, ' ');
    for (int i = 0; i < 8; i++)
        prefix[i] = (unsigned char)((uint64_t)header.len >> (8 * i));
    enum dgl_status status = DGL_OK;
    if (header.failed)
        TRY(dgl_fail_memory(&l->engine.console.log, "header", header.len));
    TRY(dgl_atomic_write(l->file, prefix, sizeof(prefix)));
    TRY(dgl_atomic_write(l->file, header.p, header.len));
    TRY(dgl_atomic_write(l->file, l->values, (size_t)bytes));
    TRY(dgl_atomic_commit(&l->file));
done:
    dgl_buf_finish(&header);
    return status;
}

bool command_logits_check(const struct options *opt)
{
    if (!opt->ids || !opt->out)
        console_error("logits: --ids and -o are both needed");
    return opt->ids && opt->out;
}

int command_logits(const struct options *opt)
{
    struct logits l = {0};
    struct stat info;
    enum dgl_status status = DGL_OK;
    int code = ids_parse(opt->ids, &l.ids);
    if (code != EXIT_OK)
        goto done;
    TRY(engine_open(&l.engine, opt, NULL, true));
    /* Checked before the work. The rename at the end would replace a device file. */
    if (stat(opt->out, &info) == 0 && !S_ISREG(info.st_mode))
        TRY(dgl_fail(&l.engine.console.log, DGL_ERR_INVALID_ARG,
                     "-o %s is not a regular file: name one, or a new one", opt->out));
    TRY(dgl_atomic_create(&l.engine.console.log, opt->out, &l.file));
    TRY(dgl_logits(l.engine.session,
                   dgl_logits_params(.ids = l.ids.ids, .num_ids = l.ids.count, .all = opt->all),
                   &l.values, &l.rows));
    l.vocab = dgl_model_get_info(l.engine.model)->vocab;
    TRY(write_tensor(&l));
    if (opt->json) {
        struct dgl_buf out = {0};
        struct dgl_json_writer w = report_object(&out);
        dgl_jw_field_cstr(&w, "out", opt->out);
        dgl_jw_field_u64(&w, "rows", l.rows);
        dgl_jw_field_i64(&w, "vocab", l.vocab);
        report_end(&w);
        code = out_exit(out_buf(&out));
    }
done:
    dgl_atomic_abort(&l.file);
    dgl_free(l.values);
    engine_close(&l.engine);
    free(l.ids.ids);
    return status == DGL_OK ? code : exit_code(status);
}

/* ---- perplexity ------------------------------------------------------------------------------ */

struct texts {
    struct dgl_json_doc *doc;
    const char **text;
    size_t *len;
    size_t count;
};

static enum dgl_status texts_load(const struct dgl_log *log, const char *path, struct texts *t)
{
    char *json = NULL;
    size_t len = 0;
    enum dgl_status status = dgl_stream_slurp(log, path, MAX_TEXT_FILE, &json, &len);
    if (status == DGL_OK)
        status = dgl_json_parse(log, path, json, len, &t->doc);
    free(json);
    if (status != DGL_OK)
        return status;
    struct dgl_json_reader r = {log, t->doc};
    const struct dgl_json *root = dgl_json_root(t->doc);
    if (dgl_json_type(root) != DGL_JSON_ARRAY)
        return dgl_json_fail(r, root, "wanted an array of strings, found %s",
                             dgl_json_type_name(dgl_json_type(root)));
    if (dgl_json_count(root) == 0)
        return dgl_json_fail(r, root, "wanted an array of strings, found an empty one");
    t->text = dgl_new_array(const char *, dgl_json_count(root));
    t->len = dgl_new_array(size_t, dgl_json_count(root));
    if (!t->text || !t->len)
        return dgl_fail_memory(log, "texts", dgl_json_count(root) * sizeof(*t->text));
    for (const struct dgl_json *v = dgl_json_first(root); v; v = dgl_json_next(v)) {
        if (dgl_json_type(v) != DGL_JSON_STRING)
            return dgl_json_fail(r, v, "is %s, wanted a string",
                                 dgl_json_type_name(dgl_json_type(v)));
        t->text[t->count] = dgl_json_str(v).p;
        t->len[t->count++] = dgl_json_str(v).len;
    }
    return DGL_OK;
}

static bool print_perplexity(const struct dgl_perplexity_result *result, bool json)
{
    struct dgl_buf out = {0};
    if (!json) {
        dgl_buf_printf(&out, "PPL = %.4f +/- %.4f (%llu token%s; %llu window%s of %d, stride %d)\n",
                       result->ppl, result->ppl_error, (unsigned long long)result->tokens,
                       result->tokens == 1 ? "" : "s", (unsigned long long)result->windows,
                       result->windows == 1 ? "" : "s", result->context, result->stride);
        return out_buf(&out);
    }
    struct dgl_json_writer w = report_object(&out);
    dgl_jw_field_f64(&w, "nll", result->nll);
    dgl_jw_field_u64(&w, "tokens", result->tokens);
    dgl_jw_field_f64(&w, "ppl", result->ppl);
    dgl_jw_field_f64(&w, "ppl_error", result->ppl_error);
    if (result->stride) {
        dgl_jw_field_u64(&w, "windows", result->windows);
        dgl_jw_field_i64(&w, "context", result->context);
        dgl_jw_field_i64(&w, "stride", result->stride);
    }
    report_end(&w);
    return out_buf(&out);
}

bool command_perplexity_check(const struct options *opt)
{
    if (!opt->texts == !opt->file)
        console_error("perplexity: %s", opt->texts ? "-f and --texts are two inputs: give one"
                                                   : "-f FILE or --texts FILE.json is needed");
    return !opt->texts != !opt->file;
}

int command_perplexity(const struct options *opt)
{
    struct engine e = {0};
    struct texts texts = {0};
    struct dgl_perplexity_params params = {.source = opt->texts ? opt->texts : opt->file,
                                           .windows = opt->file || opt->stride,
                                           .stride = opt->stride,
                                           .no_parse_special = opt->no_parse_special,
                                           CONSOLE_PROGRESS(&e.console)};
    struct dgl_perplexity_result result = {.size = sizeof(result)};
    struct dgl_buf file = {0};
    enum dgl_status status = DGL_OK;
    console_init(&e.console, opt);
    if (opt->texts)
        TRY(texts_load(&e.console.log, opt->texts, &texts));
    else if (!input_slurp(opt->file, &file) ||
             !input_is_utf8(opt->file, (struct dgl_str){file.p, file.len}))
        TRY(interrupted() ? DGL_ERR_CANCELLED : DGL_ERR_IO);
    const char *const one = file.p ? file.p : "";
    params.texts = opt->texts ? texts.text : &one;
    params.lens = opt->texts ? texts.len : &file.len;
    params.num_texts = opt->texts ? texts.count : 1;
    TRY(engine_open(&e, opt, NULL, true));
    TRY(dgl_perplexity(e.session, &params, &result));
done:;
    int code = status == DGL_OK ? out_exit(print_perplexity(&result, opt->json || opt->texts))
                                : exit_code(status);
    engine_close(&e);
    dgl_buf_finish(&file);
    free(texts.text);
    free(texts.len);
    dgl_json_destroy(&texts.doc);
    return code;
}
