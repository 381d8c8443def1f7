/* "architecture", "inference" and "eos_token_id" of a manifest, as one list of values. The
 * converter writes it and the reader compares it. The config has priority; other readers of the
 * format use these values. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "loader/desc/model_desc.h"
#include "loader/rdrr/rdrr_format.h"

enum value_kind {
    VALUE_NULL,
    VALUE_BOOL,
    VALUE_I64,
    VALUE_F64,
    VALUE_STR,
    VALUE_F64S,       /* an array of numbers */
    VALUE_LAYER_TYPES /* an array: "sliding_attention" for layers with a window */
};

struct value {
    enum value_kind kind;
    bool b;
    int64_t i;
    double f;
    const char *s;
    const double *list;             /* [i] */
    const struct layer_desc *layer; /* [i] */
};

#define NONE ((struct value){.kind = VALUE_NULL})
#define YES  ((struct value){.kind = VALUE_BOOL, .b = true})
#define NO   ((struct value){.kind = VALUE_BOOL})

struct row {
    const char *section, *group, *key; /* group NULL: directly in the section */
    struct value value;
    bool ours; /* compared in packs of this converter only */
};

enum { MAX_ROWS = 64 };

struct rows {
    struct row row[MAX_ROWS];
    size_t count;
};

static void add(struct rows *rows, const char *group, const char *key, struct value value)
{
    const char *section = group ? "inference" : "architecture";
    rows->row[rows->count++] = (struct row){section, group, key, value, false};
}

static void add_ours(struct rows *rows, const char *group, const char *key, struct value value)
{
    add(rows, group, key, value);
    rows->row[rows->count - 1].ours = true;
}

static struct value i64(int64_t i)
{
    return (struct value){.kind = VALUE_I64, .i = i};
}

static struct value f64(double f)
{
    return (struct value){.kind = VALUE_F64, .f = f};
}

/* Writes null if the value is `off`. */
static struct value f64_unless(double f, double off)
{
    return f == off ? NONE : f64(f);
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
    case MODEL_ACT_GELU_TANH:
        return "gelu";
    case MODEL_ACT_SWIGLU_CLAMP:
        return "swiglu";
    }
    return "";
}

static struct value rope_name(enum rope_kind kind)
{
    static const char *const names[] = {[ROPE_LINEAR] = "linear",
                                        [ROPE_DYNAMIC] = "dynamic",
                                        [ROPE_YARN] = "yarn",
                                        [ROPE_LLAMA3] = "llama3",
                                        [ROPE_LONGROPE] = "longrope"};
    return kind == ROPE_DEFAULT ? NONE : str(names[kind]);
}

/* Scores are scaled by 1/sqrt of this; the root's rounding is taken back. */
static double query_scalar(const struct model_desc *d)
{
    double scalar = 1.0 / (d->attn_scale * d->attn_scale), whole = round(scalar);
    return fabs(scalar - whole) < 1e-9 * whole ? whole : scalar;
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
    add(rows, NULL, "ropeTheta", f64(d->rope[ROPE_GLOBAL].theta));
    add(rows, NULL, "rmsNormEps", f64(d->norm_eps));
}

/* Finds the window and the number of layers that have it. */
static int32_t window_count(const struct model_desc *d, int32_t *window)
{
    int32_t count = 0;
    *window = 0;
    for (int32_t i = 0; i < d->layers; i++) {
        if (d->layer[i].window > 0) {
            *window = d->layer[i].window;
            count++;
        }
    }
    return count;
}

static void rows_attention(struct rows *rows, const struct model_desc *d)
{
    int32_t window;
    bool norm = d->parts & (PART_HEAD_NORM | PART_WIDE_NORM);
    bool bias = d->parts & (PART_QKV_BIAS | PART_O_BIAS);
    window_count(d, &window);
    add(rows, "attention", "queryPreAttnScalar", f64(query_scalar(d)));
    add(rows, "attention", "attnLogitSoftcapping", f64_unless(d->attn_softcap, 0));
    add(rows, "attention", "slidingWindow", window > 0 ? i64(window) : NONE);
    add(rows, "attention", "queryKeyNorm", boolean(norm));
    if (norm) {
        add(rows, "attention", "queryKeyNormType", str("rmsnorm"));
        add(rows, "attention", "queryKeyNormAxis",
            str(d->parts & PART_WIDE_NORM ? "projection" : "head"));
    }
    add(rows, "attention", "valueNorm", NO);
    add(rows, "attention", "causal", YES);
    add(rows, "attention", "attentionBias", boolean(bias));
    add(rows, "attention", "attentionOutputGate", NO);
}

/* In packs of others, postAttentionNorm may also be Llama's norm of that name. */
static void rows_layers(struct rows *rows, const struct model_desc *d)
{
    bool pre = d->parts & PART_PRE_NORM, post = d->parts & PART_POST_NORM;
    add(rows, "normalization", "type", str("rmsnorm"));
    add(rows, "normalization", "rmsNormEps", f64(d->norm_eps));
    add(rows, "normalization", "rmsNormWeightOffset", boolean(d->norm_plus_one));
    add_ours(rows, "normalization", "postAttentionNorm", boolean(post));
    add(rows, "normalization", "preFeedforwardNorm", boolean(pre && post));
    add(rows, "normalization", "postFeedforwardNorm", boolean(post));
    add_ours(rows, "ffn", "activation", str(act_name(d->act)));
    add(rows, "ffn", "gatedActivation", YES);
    add_ours(rows, "ffn", "branchMode", str(d->moe.experts > 0 ? "moe" : "auto"));
    add(rows, "ffn", "useDoubleWideMlp", NO);
    add(rows, "ffn", "swigluLimit", f64_unless(d->act_limit, 0));
}

static void rows_rope(struct rows *rows, const struct model_desc *d)
{
    const struct rope_desc *r = &d->rope[ROPE_GLOBAL], *local = &d->rope[ROPE_LOCAL];
    struct value pairs = {.kind = VALUE_F64S, .i = r->dims / 2};
    add(rows, "rope", "ropeTheta", f64(r->theta));
    add(rows, "rope", "ropeLocalTheta", f64_unless(local->theta, 0));
    add_ours(rows, "rope", "ropeScalingType", rope_name(r->kind));
    add_ours(rows, "rope", "ropeScalingFactor", f64(r->factor));
    add_ours(rows, "rope", "partialRotaryFactor", f64((double)r->dims / d->head_dim));
    if (r->kind == ROPE_YARN) {
        add_ours(rows, "rope", "yarnBetaFast", f64(r->beta_fast));
        add_ours(rows, "rope", "yarnBetaSlow", f64(r->beta_slow));
        add_ours(rows, "rope", "yarnOriginalMaxPos", i64(r->original_context));
    } else if (r->kind == ROPE_LONGROPE) {
        pairs.list = r->short_factor;
        add_ours(rows, "rope", "longropeShortFactor", pairs);
        pairs.list = r->long_factor;
        add_ours(rows, "rope", "longropeLongFactor", pairs);
        add_ours(rows, "rope", "longropeOriginalMaxPos", i64(r->original_context));
    }
}

static void rows_output(struct rows *rows, const struct model_desc *d)
{
    bool scaled = d->embed_scale != 1.0;
    add(rows, "output", "finalLogitSoftcapping", f64_unless(d->logit_softcap, 0));
    add(rows, "output", "tieWordEmbeddings", boolean(d->tied_head));
    add(rows, "output", "scaleEmbeddings", boolean(scaled));
    if (scaled)
        add_ours(rows, "output", "embeddingScale", f64(d->embed_scale));
    if (d->logit_scale != 1.0)
        add_ours(rows, "output", "logitInputScale", f64(d->logit_scale));
    add_ours(rows, "output", "embeddingVocabSize", NONE);
}

static void rows_pattern(struct rows *rows, const struct model_desc *d)
{
    int32_t window, count = window_count(d, &window);
    bool mixed = count > 0 && count < d->layers;
    add_ours(rows, "layerPattern", "type", str(mixed ? "custom" : "uniform"));
    add_ours(rows, "layerPattern", "globalPattern", NONE);
    add_ours(rows, "layerPattern", "period", NONE);
    add_ours(rows, "layerPattern", "offset", NONE);
    if (mixed)
        add_ours(rows, "layerPattern", "layerTypes",
                 (struct value){.kind = VALUE_LAYER_TYPES, .i = d->layers, .layer = d->layer});
    if (d->residual_scale != 1.0)
        add_ours(rows, "layerPattern", "residualBranchScale", f64(d->residual_scale));
}

static void rows_inference(struct rows *rows, const struct model_desc *d)
{
    rows_attention(rows, d);
    rows_layers(rows, d);
    rows_rope(rows, d);
    rows_output(rows, d);
    rows_pattern(rows, d);
}

static const char *layer_type(const struct layer_desc *layer)
{
    return layer->window > 0 ? "sliding_attention" : "full_attention";
}

static void list_write(struct dgl_json_writer *w, const struct value *v)
{
    dgl_jw_array(w);
    for (int64_t i = 0; i < v->i; i++) {
        if (v->kind == VALUE_F64S)
            dgl_jw_f64(w, v->list[i]);
        else
            dgl_jw_cstr(w, layer_type(&v->layer[i]));
    }
    dgl_jw_end_array(w);
}

static bool list_matches(const struct value *v, const struct dgl_json *found)
{
    int64_t i = 0;
    if (!dgl_json_is(found, DGL_JSON_ARRAY) || dgl_json_count(found) != (size_t)v->i)
        return false;
    for (const struct dgl_json *e = dgl_json_first(found); e; e = dgl_json_next(e), i++) {
        bool same = v->kind == VALUE_F64S ? dgl_json_f64(e) == v->list[i]
                                          : dgl_str_eq(dgl_json_str(e), layer_type(&v->layer[i]));
        if (!same)
            return false;
    }
    return true;
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
    case VALUE_F64S:
    case VALUE_LAYER_TYPES:
        list_write(w, &v);
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
            dgl_jw_field_object(w, row->group);
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
    case VALUE_F64S:
    case VALUE_LAYER_TYPES:
        return list_matches(&v, found);
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
    enum dgl_status status = dgl_fail(
        r.log, DGL_ERR_FORMAT,
        "%s: %s%s%s.%s is %s, but config makes it %s; convert the model again",
        dgl_json_name(r.doc), row->section, row->group ? "." : "", row->group ? row->group : "",
        row->key, DGL_PRINTABLE(have.p), want.p ? want.p : "?");
    dgl_buf_finish(&have);
    dgl_buf_finish(&want);
    return status;
}

static enum dgl_status rows_check(struct dgl_json_reader r, const struct dgl_json *manifest,
                                  const struct rows *rows, bool complete)
{
    for (size_t i = 0; i < rows->count; i++) {
        const struct row *row = &rows->row[i];
        if (row->ours && !complete)
            continue;
        const struct dgl_json *object = dgl_json_get(manifest, row->section);
        if (row->group)
            object = dgl_json_get(object, row->group);
        const struct dgl_json *found = dgl_json_get(object, row->key);
        if (found ? !value_matches(row->value, found) : complete)
            return fail_row(r, row, found);
    }
    return DGL_OK;
}

static bool is_stop(const struct model_desc *d, int64_t id)
{
    for (size_t i = 0; i < d->num_stop_ids; i++) {
        if (d->stop_ids[i].id == id)
            return true;
    }
    return false;
}

/* eos_token_id of a manifest is null, an id or ids; as a set it equals the description's stop
 * ids. In packs of others, generation_config.json may add some. */
static enum dgl_status stops_check(struct dgl_json_reader r, const struct dgl_json *manifest,
                                   const struct model_desc *d, bool complete)
{
    const struct dgl_json *eos = dgl_json_get(manifest, "eos_token_id");
    bool array = dgl_json_is(eos, DGL_JSON_ARRAY);
    size_t count = array ? dgl_json_count(eos) : dgl_json_is(eos, DGL_JSON_NUMBER);
    if (!eos && !complete)
        return DGL_OK;
    bool equal = eos && (count == d->num_stop_ids || !complete);
    for (size_t i = 0; equal && i < count; i++) {
        int64_t id;
        equal = dgl_json_i64(array ? dgl_json_at(eos, i) : eos, &id) &&
                (complete ? id == d->stop_ids[i].id : is_stop(d, id));
    }
    if (equal)
        return DGL_OK;
    return dgl_json_fail(r, eos ? eos : manifest,
                         "%zu stop ids in eos_token_id, but config and generation_config.json "
                         "give %zu or others; convert the model again",
                         count, d->num_stop_ids);
}

static enum dgl_status moe_check(struct dgl_json_reader r, const struct dgl_json *manifest,
                                 const struct model_desc *d)
{
    const struct dgl_json *moe = dgl_json_get(manifest, "moeConfig");
    const struct {
        const char *key;
        int32_t value;
    } rows[] = {{"numExperts", d->moe.experts}, {"numExpertsPerToken", d->moe.top_k}};
    for (size_t i = 0; dgl_json_is(moe, DGL_JSON_OBJECT) && i < 2; i++) {
        const struct dgl_json *found = dgl_json_get(moe, rows[i].key);
        if (found && dgl_json_f64(found) != rows[i].value)
            return dgl_fail(r.log, DGL_ERR_FORMAT,
                            "%s: moeConfig.%s is %g, but config makes it %" PRId32,
                            dgl_json_name(r.doc), rows[i].key, dgl_json_f64(found), rows[i].value);
    }
    return DGL_OK;
}

enum dgl_status rdrr_inference_check(struct dgl_json_reader r, const struct dgl_json *manifest,
                                     const struct model_desc *desc, bool complete)
{
    struct rows architecture = {.count = 0}, inference = {.count = 0};
    rows_architecture(&architecture, desc);
    rows_inference(&inference, desc);
    enum dgl_status status;
    TRY(rows_check(r, manifest, &architecture, complete));
    TRY(rows_check(r, manifest, &inference, complete));
    TRY(moe_check(r, manifest, desc));
    status = stops_check(r, manifest, desc, complete);
done:
    return status;
}
