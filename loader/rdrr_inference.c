/* "architecture", "inference" and "eos_token_id" of a manifest: one list of values, written by
 * the converter and compared by the reader. The config beside them is the authority; this is
 * what other readers of the format use. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "loader/model_desc.h"
#include "loader/rdrr_format.h"

enum value_kind { VALUE_NULL, VALUE_BOOL, VALUE_I64, VALUE_F64, VALUE_STR };

struct value {
    enum value_kind kind;
    bool b;
    int64_t i;
    double f;
    const char *s;
};

#define NONE ((struct value){.kind = VALUE_NULL})
#define YES  ((struct value){.kind = VALUE_BOOL, .b = true})
#define NO   ((struct value){.kind = VALUE_BOOL})

struct row {
    const char *section, *group, *key; /* group NULL: directly in the section */
    struct value value;
};

enum { MAX_ROWS = 64 };

struct rows {
    struct row row[MAX_ROWS];
    size_t count;
};

static void add(struct rows *rows, const char *group, const char *key, struct value value)
{
    const char *section = group ? "inference" : "architecture";
    rows->row[rows->count++] = (struct row){section, group, key, value};
}

static struct value i64(int64_t i)
{
    return (struct value){.kind = VALUE_I64, .i = i};
}

static struct value f64(double f)
{
    return (struct value){.kind = VALUE_F64, .f = f};
}

static struct value str(const char *s)
{
    return (struct value){.kind = VALUE_STR, .s = s};
}

static struct value boolean(bool b)
{
    return b ? YES : NO;
}

static const char *act_name(enum model_act act)
{
    switch (act) {
    case MODEL_ACT_SILU:
        return "silu";
    }
    return "";
}

/* Scores are scaled by 1/sqrt of this. */
static double query_scalar(const struct model_desc *d)
{
    double head_dim = (double)d->head_dim;
    return d->attn_scale == 1.0 / sqrt(head_dim) ? head_dim : 1.0 / (d->attn_scale * d->attn_scale);
}

static void rows_architecture(struct rows *rows, const struct model_desc *d)
{
    add(rows, NULL, "numLayers", i64(d->layers));
    add(rows, NULL, "hiddenSize", i64(d->hidden));
    add(rows, NULL, "intermediateSize", i64(d->intermediate));
    add(rows, NULL, "numAttentionHeads", i64(d->heads));
    add(rows, NULL, "numKeyValueHeads", i64(d->kv_heads));
    add(rows, NULL, "headDim", i64(d->head_dim));
    add(rows, NULL, "vocabSize", i64(d->vocab));
    add(rows, NULL, "maxSeqLen", i64(d->context_max));
    add(rows, NULL, "ropeTheta", f64(d->rope.theta));
    add(rows, NULL, "rmsNormEps", f64(d->norm_eps));
}

static void rows_inference(struct rows *rows, const struct model_desc *d)
{
    add(rows, "attention", "queryPreAttnScalar", f64(query_scalar(d)));
    add(rows, "attention", "attnLogitSoftcapping", NONE);
    add(rows, "attention", "slidingWindow", NONE);
    add(rows, "attention", "queryKeyNorm", NO);
    add(rows, "attention", "valueNorm", NO);
    add(rows, "attention", "causal", YES);
    add(rows, "attention", "attentionBias", boolean(d->layer[0].q_bias != TENSOR_NONE));
    add(rows, "attention", "attentionOutputGate", NO);
    add(rows, "normalization", "type", str("rmsnorm"));
    add(rows, "normalization", "rmsNormEps", f64(d->norm_eps));
    add(rows, "normalization", "rmsNormWeightOffset", NO);
    add(rows, "normalization", "postAttentionNorm", NO);
    add(rows, "normalization", "preFeedforwardNorm", NO);
    add(rows, "normalization", "postFeedforwardNorm", NO);
    add(rows, "ffn", "activation", str(act_name(d->act)));
    add(rows, "ffn", "gatedActivation", YES);
    add(rows, "ffn", "branchMode", str("auto"));
    add(rows, "ffn", "useDoubleWideMlp", NO);
    add(rows, "ffn", "swigluLimit", NONE);
    add(rows, "rope", "ropeTheta", f64(d->rope.theta));
    add(rows, "rope", "ropeLocalTheta", NONE);
    add(rows, "rope", "ropeScalingType", NONE);
    add(rows, "rope", "ropeScalingFactor", f64(1.0));
    add(rows, "rope", "partialRotaryFactor", f64((double)d->rope.dims / d->head_dim));
    add(rows, "output", "finalLogitSoftcapping", NONE);
    add(rows, "output", "tieWordEmbeddings", boolean(d->tied_head));
    add(rows, "output", "scaleEmbeddings", NO);
    add(rows, "output", "embeddingVocabSize", NONE);
    add(rows, "layerPattern", "type", str("uniform"));
    add(rows, "layerPattern", "globalPattern", NONE);
    add(rows, "layerPattern", "period", NONE);
    add(rows, "layerPattern", "offset", NONE);
}

static void value_write(struct dgl_json_writer *w, struct value v)
{
    switch (v.kind) {
    case VALUE_NULL:
        dgl_jw_null(w);
        break;
    case VALUE_BOOL:
        dgl_jw_bool(w, v.b);
        break;
    case VALUE_I64:
        dgl_jw_i64(w, v.i);
        break;
    case VALUE_F64:
        dgl_jw_f64(w, v.f);
        break;
    case VALUE_STR:
        dgl_jw_cstr(w, v.s);
        break;
    }
}

static bool same(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static void rows_write(struct dgl_json_writer *w, const struct rows *rows)
{
    const char *group = NULL;
    dgl_jw_object(w);
    for (size_t i = 0; i < rows->count; i++) {
        const struct row *row = &rows->row[i];
        if (!same(row->group, group)) {
            if (group)
                dgl_jw_end_object(w);
            dgl_jw_key(w, row->group);
            dgl_jw_object(w);
            group = row->group;
        }
        dgl_jw_key(w, row->key);
        value_write(w, row->value);
    }
    if (group)
        dgl_jw_end_object(w);
    dgl_jw_end_object(w);
}

void rdrr_inference_write(struct dgl_json_writer *w, const struct model_desc *desc)
{
    struct rows architecture = {.count = 0}, inference = {.count = 0};
    rows_architecture(&architecture, desc);
    rows_inference(&inference, desc);
    dgl_jw_key(w, "architecture");
    rows_write(w, &architecture);
    dgl_jw_key(w, "inference");
    rows_write(w, &inference);
}

static bool value_matches(struct value v, const struct dgl_json *found)
{
    switch (v.kind) {
    case VALUE_NULL:
        return dgl_json_is(found, DGL_JSON_NULL);
    case VALUE_BOOL:
        return dgl_json_is(found, DGL_JSON_BOOL) && dgl_json_bool(found) == v.b;
    case VALUE_I64:
        return dgl_json_is(found, DGL_JSON_NUMBER) && dgl_json_f64(found) == (double)v.i;
    case VALUE_F64:
        return dgl_json_is(found, DGL_JSON_NUMBER) && dgl_json_f64(found) == v.f;
    case VALUE_STR:
        return dgl_str_eq(dgl_json_str(found), v.s);
    }
    return false;
}

static enum dgl_status fail_row(struct dgl_json_reader r, const struct row *row,
                                const struct dgl_json *found)
{
    struct dgl_buf have = {0}, want = {0};
    struct dgl_json_writer have_writer = dgl_json_writer(&have, 0);
    struct dgl_json_writer want_writer = dgl_json_writer(&want, 0);
    if (found)
        dgl_jw_value(&have_writer, found);
    else
        dgl_buf_puts(&have, "missing");
    value_write(&want_writer, row->value);
    enum dgl_status st = dgl_fail(
        r.log, DGL_ERR_FORMAT,
        "%s: %s%s%s.%s is %s, but config makes it %s; convert the model again",
        dgl_json_name(r.doc), row->section, row->group ? "." : "", row->group ? row->group : "",
        row->key, have.p ? have.p : "?", want.p ? want.p : "?");
    dgl_buf_finish(&have);
    dgl_buf_finish(&want);
    return st;
}

static enum dgl_status rows_check(struct dgl_json_reader r, const struct dgl_json *manifest,
                                  const struct rows *rows, bool complete)
{
    for (size_t i = 0; i < rows->count; i++) {
        const struct row *row = &rows->row[i];
        const struct dgl_json *object = dgl_json_get(manifest, row->section);
        if (row->group)
            object = dgl_json_get(object, row->group);
        const struct dgl_json *found = dgl_json_get(object, row->key);
        if (found ? !value_matches(row->value, found) : complete)
            return fail_row(r, row, found);
    }
    return DGL_OK;
}

/* eos_token_id of a manifest is null, an id or ids; as a set it equals the description's stop
 * ids. */
static enum dgl_status stops_check(struct dgl_json_reader r, const struct dgl_json *manifest,
                                   const struct model_desc *d, bool complete)
{
    const struct dgl_json *eos = dgl_json_get(manifest, "eos_token_id");
    bool array = dgl_json_is(eos, DGL_JSON_ARRAY);
    size_t count = array ? dgl_json_count(eos) : dgl_json_is(eos, DGL_JSON_NUMBER);
    if (!eos && !complete)
        return DGL_OK;
    bool equal = eos && count == d->num_stop_ids;
    for (size_t i = 0; equal && i < count; i++) {
        int64_t id;
        equal = dgl_json_i64(array ? dgl_json_at(eos, i) : eos, &id) && id == d->stop_ids[i].id;
    }
    if (equal)
        return DGL_OK;
    return dgl_json_fail(r, eos ? eos : manifest,
                         "%zu stop ids in eos_token_id, but config and generation_config.json "
                         "give %zu or others; convert the model again",
                         count, d->num_stop_ids);
}

enum dgl_status rdrr_inference_check(struct dgl_json_reader r, const struct dgl_json *manifest,
                                     const struct model_desc *desc, bool complete)
{
    struct rows architecture = {.count = 0}, inference = {.count = 0};
    rows_architecture(&architecture, desc);
    rows_inference(&inference, desc);
    enum dgl_status st = rows_check(r, manifest, &architecture, complete);
    if (st == DGL_OK)
        st = rows_check(r, manifest, &inference, complete);
    return st == DGL_OK ? stops_check(r, manifest, desc, complete) : st;
}
