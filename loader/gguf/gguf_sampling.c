/* Sampling values in the metadata of GGUF files. */
#include "loader/gguf/gguf_sampling.h"

#include <math.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/log.h"

/* Fields that Hugging Face does not have have the names of llama-server. */
static const struct {
    const char *key, *field;
    enum gguf_type type;
} values[] = {
    {"general.sampling.temp", "temperature", GGUF_F32},
    {"general.sampling.top_k", "top_k", GGUF_I32},
    {"general.sampling.top_p", "top_p", GGUF_F32},
    {"general.sampling.min_p", "min_p", GGUF_F32},
    {"general.sampling.xtc_probability", "xtc_probability", GGUF_F32},
    {"general.sampling.xtc_threshold", "xtc_threshold", GGUF_F32},
    {"general.sampling.penalty_last_n", "repeat_last_n", GGUF_I32},
    {"general.sampling.penalty_repeat", "repetition_penalty", GGUF_F32},
    {"general.sampling.mirostat", "mirostat", GGUF_I32},
    {"general.sampling.mirostat_tau", "mirostat_tau", GGUF_F32},
    {"general.sampling.mirostat_eta", "mirostat_eta", GGUF_F32},
    {"general.sampling.sequence", "samplers", GGUF_STRING},
};
enum { NUM_VALUES = sizeof(values) / sizeof(values[0]) };

/* Reads a number of any type, also as text: llama.cpp reads the text of a value. */
static bool number_read(const struct gguf_kv *kv, double *out)
{
    int64_t whole;
    if (kv->is_array || kv->type == GGUF_BOOL)
        return false;
    if (kv->type == GGUF_STRING)
        return dgl_parse_f64(kv->strings[0], out);
    if (gguf_int_at(kv, 0, &whole)) {
        *out = (double)whole;
        return true;
    }
    if (!gguf_float_at(kv, 0, out) || !isfinite(*out))
        return false;
    if (kv->type == GGUF_F32)
        *out = gguf_short_f64((float)*out);
    return true;
}

enum dgl_status gguf_sampling_read(const struct dgl_log *log, const struct gguf_file *file,
                                   struct dgl_buf *out)
{
    struct dgl_json_writer w = dgl_json_writer(out, 2);
    bool any = false;
    for (size_t i = 0; i < NUM_VALUES; i++)
        any |= gguf_find(file, values[i].key) != NULL;
    if (!any)
        return DGL_OK;
    dgl_jw_object(&w);
    for (size_t i = 0; i < NUM_VALUES; i++) {
        const struct gguf_kv *kv = gguf_find(file, values[i].key);
        const bool text = values[i].type == GGUF_STRING, whole = values[i].type == GGUF_I32;
        double real = 0;
        if (!kv)
            continue;
        if (text ? kv->is_array || kv->type != GGUF_STRING
                 : !number_read(kv, &real) || (whole && fabs(real) > INT32_MAX)) {
            dgl_warn(log, "%s: %s is no %s and is not used", file->name, values[i].key,
                     text    ? "text"
                     : whole ? "integer"
                             : "number");
            continue;
        }
        dgl_jw_key(&w, values[i].field);
        if (text)
            dgl_jw_str(&w, kv->strings[0]);
        else if (whole)
            dgl_jw_i64(&w, (int64_t)real);
        else
            dgl_jw_f64(&w, real);
    }
    dgl_jw_end_object(&w);
    dgl_buf_putc(out, '\n');
    return out->failed ? dgl_fail_memory(log, "sampling defaults", out->len) : DGL_OK;
}

enum dgl_status gguf_sampling_write(const struct dgl_log *log, const char *name, const char *json,
                                    size_t len, struct gguf_writer *w)
{
    struct dgl_json_doc *doc = NULL;
    enum dgl_status status = dgl_json_parse(log, name, json, len, &doc);
    if (status != DGL_OK)
        return status;
    const struct dgl_json_reader r = {log, doc};
    const struct dgl_json *root = dgl_json_root(doc);
    bool sample = true;
    TRY(dgl_json_opt_bool(r, root, "do_sample", &sample));
    if (!sample)
        gguf_put_f32(w, values[0].key, 0);
    for (size_t i = sample ? 0 : 1; i < NUM_VALUES; i++) {
        const struct dgl_json *value = dgl_json_get(root, values[i].field);
        double real = 0;
        int64_t whole = 0;
        if (dgl_json_is(value, DGL_JSON_STRING) && values[i].type == GGUF_STRING) {
            gguf_put_str(w, values[i].key, dgl_json_str(value));
        } else if (dgl_json_is(value, DGL_JSON_NUMBER) && values[i].type == GGUF_I32) {
            TRY(dgl_json_opt_i64(r, root, values[i].field, INT32_MIN, INT32_MAX, &whole));
            gguf_put_i32(w, values[i].key, (int32_t)whole);
        } else if (dgl_json_is(value, DGL_JSON_NUMBER) && values[i].type == GGUF_F32) {
            TRY(dgl_json_opt_f64(r, root, values[i].field, -1e30, 1e30, &real));
            gguf_put_f32(w, values[i].key, real);
        }
    }
done:
    dgl_json_destroy(&doc);
    return status;
}
