/* Checks the keys of an architecture and reads the sizes that all other code depends on. */
#include "loader/gguf/gguf_keys.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "loader/gguf/gguf_config.h"

enum { MAX_COUNT = 1 << 20, MAX_CONTEXT = 1 << 27 };

/* Suffixes of keys of parts that are not the text model begin so. */
static const char *const other_modes[] = {"vision.", "audio.", "mm."};

static bool is_other_mode(const char *suffix)
{
    for (size_t i = 0; i < sizeof(other_modes) / sizeof(other_modes[0]); i++) {
        if (strncmp(suffix, other_modes[i], strlen(other_modes[i])) == 0)
            return true;
    }
    return false;
}

/* Known suffixes after "ARCH.": keys that are read, that change no result, or that gguf_key_rules
 * lists. */
static const char known_keys[] =
    "attention.causal attention.head_count attention.head_count_kv attention.key_length "
    "attention.key_length_swa attention.layer_norm_rms_epsilon attention.scale "
    "attention.sliding_window attention.sliding_window_pattern attention.value_length "
    "attention.value_length_swa attn_logit_softcapping block_count context_length "
    "embedding_length embedding_scale expert_count expert_feed_forward_length "
    "expert_gating_func expert_used_count expert_weights_norm expert_weights_scale "
    "feed_forward_length final_logit_softcapping logit_scale pooling_type residual_scale "
    "rope.dimension_count rope.dimension_count_swa rope.freq_base rope.freq_base_swa "
    "rope.scale_linear rope.scaling.attn_factor rope.scaling.factor rope.scaling.finetuned "
    "rope.scaling.original_context_length rope.scaling.type rope.scaling.yarn_attn_factor "
    "rope.scaling.yarn_beta_fast rope.scaling.yarn_beta_slow rope.scaling.yarn_ext_factor "
    "rope.scaling.yarn_log_multiplier tensor_data_layout vocab_size";

const char *gguf_arch_key(const struct gguf_arch *arch, const char *suffix,
                          char text[GGUF_ARCH_KEY_TEXT])
{
    snprintf(text, GGUF_ARCH_KEY_TEXT, "%s.%s", arch->name, suffix);
    return text;
}

enum dgl_status gguf_arch_i64(const struct dgl_log *log, const struct gguf_model *m,
                              const char *suffix, int64_t max, int64_t *inout)
{
    char key[GGUF_ARCH_KEY_TEXT];
    return gguf_opt_i64((struct gguf_reader){log, m->file, m->layers},
                        gguf_arch_key(m->arch, suffix, key), 0, max, inout);
}

enum dgl_status gguf_arch_need_i64(const struct dgl_log *log, const struct gguf_model *m,
                                   const char *suffix, int64_t max, int64_t *out)
{
    char key[GGUF_ARCH_KEY_TEXT];
    return gguf_need_i64((struct gguf_reader){log, m->file, m->layers},
                         gguf_arch_key(m->arch, suffix, key), 1, max, out);
}

enum dgl_status gguf_arch_f64(const struct dgl_log *log, const struct gguf_model *m,
                              const char *suffix, double *inout)
{
    char key[GGUF_ARCH_KEY_TEXT];
    return gguf_opt_f64((struct gguf_reader){log, m->file, m->layers},
                        gguf_arch_key(m->arch, suffix, key), inout);
}

const struct gguf_kv *gguf_arch_find_key(const struct gguf_model *m, const char *suffix)
{
    char key[GGUF_ARCH_KEY_TEXT];
    return gguf_find(m->file, gguf_arch_key(m->arch, suffix, key));
}

static enum dgl_status check_keys(const struct dgl_log *log, const struct gguf_model *m)
{
    size_t len = strlen(m->arch->name);
    for (size_t i = 0; i < m->file->num_keys; i++) {
        const char *key = m->file->keys[i].key;
        struct dgl_str rest = dgl_str_of(known_keys), name;
        bool known = strncmp(key, m->arch->name, len) != 0 || key[len] != '.' ||
                     is_other_mode(key + len + 1);
        while (!known && dgl_str_split(&rest, ' ', &name))
            known = dgl_str_eq(name, key + len + 1);
        if (!known)
            return dgl_fail(log, DGL_ERR_UNSUPPORTED,
                            "%s: key %s is not known, and leaving it out could give wrong results",
                            m->file->name, DGL_PRINTABLE(key));
    }
    return DGL_OK;
}

/* Refuses keys that would change the result if the architecture does not use them. */
static enum dgl_status check_unused(const struct dgl_log *log, const struct gguf_model *m)
{
    int64_t window = 0, context = 0, whole;
    char key[GGUF_ARCH_KEY_TEXT], text[64];
    enum dgl_status status;
    TRY(gguf_arch_i64(log, m, "attention.sliding_window", MAX_CONTEXT, &window));
    TRY(gguf_arch_i64(log, m, "context_length", MAX_CONTEXT, &context));
    for (size_t i = 0; i < gguf_num_key_rules; i++) {
        const struct gguf_key_rule *rule = &gguf_key_rules[i];
        const struct gguf_kv *kv = gguf_arch_find_key(m, rule->suffix);
        double value = 0;
        if (!kv || gguf_arch_uses(m->arch, rule->suffix) ||
            (rule->of_window && (window == 0 || window >= context)))
            continue;
        bool number = !kv->is_array && gguf_float_at(kv, 0, &value);
        if (!number && !kv->is_array && gguf_int_at(kv, 0, &whole)) {
            value = (double)whole;
            number = true;
        }
        if (number)
            snprintf(text, sizeof(text), "%g", value);
        else
            snprintf(text, sizeof(text), "%s %s", kv->is_array ? "an array of" : "a",
                     gguf_type_name(kv->type));
        if (!number || (value != rule->neutral && value != rule->also))
            return dgl_fail(log, DGL_ERR_UNSUPPORTED,
                            "%s: %s is %s, which is not implemented for this architecture; "
                            "supported: %g",
                            m->file->name, gguf_arch_key(m->arch, rule->suffix, key), text,
                            rule->neutral);
    }
done:
    return status;
}

/* Keys with a single supported value, and switches that would change the results. */
static enum dgl_status check_fixed(const struct dgl_log *log, const struct gguf_model *m)
{
    static const struct {
        const char *suffix;
        unsigned families;
    } switches[] = {{"attention.causal", ~0u},
                    /* only in Granite, false means "no rotation" in llama.cpp */
                    {"rope.scaling.finetuned", GGUF_GRANITE}};
    static const char *const pairs[][2] = {
        {"attention.value_length", "attention.key_length"},
        {"attention.key_length_swa", "attention.key_length"},
        {"attention.value_length_swa", "attention.key_length"},
    };
    char a[GGUF_ARCH_KEY_TEXT], b[GGUF_ARCH_KEY_TEXT];
    enum dgl_status status;
    for (size_t i = 0; i < sizeof(switches) / sizeof(switches[0]); i++) {
        bool on = true;
        gguf_arch_key(m->arch, switches[i].suffix, a);
        TRY(gguf_opt_bool((struct gguf_reader){.log = log, .file = m->file}, a, &on));
        if (!on && (switches[i].families & (unsigned)m->arch->family))
            return dgl_fail(log, DGL_ERR_UNSUPPORTED, "%s: %s is false; supported: true",
                            m->file->name, DGL_PRINTABLE(a));
    }
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        int64_t value = m->head_dim;
        TRY(gguf_arch_i64(log, m, pairs[i][0], MAX_COUNT, &value));
        if (value != m->head_dim)
            return dgl_fail(log, DGL_ERR_UNSUPPORTED,
                            "%s: %s is %" PRId64 " and %s is %" PRId32 "; supported: both the same",
                            m->file->name, gguf_arch_key(m->arch, pairs[i][0], a), value,
                            gguf_arch_key(m->arch, pairs[i][1], b), m->head_dim);
    }
    int64_t gating = 1; /* softmax */
    double log_mul = 0, ext = 1, expert_scale = 1;
    TRY(gguf_arch_i64(log, m, "expert_gating_func", 255, &gating));
    TRY(gguf_arch_f64(log, m, "rope.scaling.yarn_log_multiplier", &log_mul));
    TRY(gguf_arch_f64(log, m, "rope.scaling.yarn_ext_factor", &ext));
    TRY(gguf_arch_f64(log, m, "expert_weights_scale", &expert_scale));
    const struct {
        const char *suffix;
        double value, want, also;
    } fixed[] = {{"expert_gating_func", (double)gating, 1, 0},
                 {"rope.scaling.yarn_log_multiplier", log_mul, 0, 0},
                 {"rope.scaling.yarn_ext_factor", ext, 1, -1},
                 {"expert_weights_scale", expert_scale, 1, 0}};
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++) {
        if (fixed[i].value != fixed[i].want && fixed[i].value != fixed[i].also)
            return dgl_fail(log, DGL_ERR_UNSUPPORTED, "%s: %s is %g; supported: %g", m->file->name,
                            gguf_arch_key(m->arch, fixed[i].suffix, a), fixed[i].value,
                            fixed[i].want);
    }
done:
    return status;
}

/* Finds the architecture and the number of layers. */
static enum dgl_status find_arch(const struct dgl_log *log, struct gguf_model *m)
{
    struct gguf_reader r = {.log = log, .file = m->file};
    struct dgl_str name = {0};
    int64_t experts = 0, layers = 0;
    char key[GGUF_ARCH_KEY_TEXT];
    enum dgl_status status;
    TRY(gguf_opt_str(r, "general.architecture", &name));
    if (name.len == 0)
        return dgl_fail(log, DGL_ERR_FORMAT, "%s: general.architecture is missing", m->file->name);
    if (name.len < sizeof(key) - sizeof(".expert_count")) {
        snprintf(key, sizeof(key), "%s.expert_count", name.p);
        TRY(gguf_opt_i64(r, key, 0, MAX_COUNT, &experts));
        m->arch = gguf_arch_find(name.p, name.len, experts > 0);
    }
    if (!m->arch && experts == 0 && gguf_arch_find(name.p, name.len, true))
        return dgl_fail(log, DGL_ERR_FORMAT,
                        "%s: %s is %s, wanted the number of experts that every model of this "
                        "architecture has",
                        m->file->name, DGL_PRINTABLE(key),
                        gguf_find(m->file, key) ? "0" : "missing");
    if (!m->arch)
        return dgl_fail(log, DGL_ERR_UNSUPPORTED,
                        "%s: general.architecture is \"%s\"%s; supported: " GGUF_ARCH_NAMES,
                        m->file->name, DGL_PRINTABLE_STR(name), experts > 0 ? " with experts" : "");
    m->experts = (int32_t)experts;
    TRY(gguf_arch_i64(log, m, "block_count", MAX_COUNT, &layers));
    m->layers = (int32_t)layers; /* 0 if it is missing, which gguf_model_init() reports */
    /* Llama with a sliding window is Mistral in Hugging Face. */
    int64_t window = 0;
    if (m->arch->family == GGUF_LLAMA)
        TRY(gguf_arch_i64(log, m, "attention.sliding_window", MAX_COUNT, &window));
    if (window > 0)
        m->arch = gguf_arch_of_model_type("mistral");
done:
    return status;
}

enum dgl_status gguf_model_init(const struct dgl_log *log, const struct gguf_file *file,
                                const struct tensor_source *raw, struct gguf_model *out)
{
    int64_t layers = 0, heads = 0, hidden = 0;
    *out = (struct gguf_model){.file = file, .raw = raw};
    enum dgl_status status;
    TRY(find_arch(log, out));
    TRY(check_keys(log, out));
    TRY(check_unused(log, out));
    TRY(gguf_arch_need_i64(log, out, "block_count", MAX_COUNT, &layers));
    TRY(gguf_arch_need_i64(log, out, "attention.head_count", MAX_COUNT, &heads));
    TRY(gguf_arch_need_i64(log, out, "embedding_length", MAX_COUNT, &hidden));
    int64_t kv_heads = heads, head_dim = hidden / heads;
    TRY(gguf_arch_i64(log, out, "attention.head_count_kv", MAX_COUNT, &kv_heads));
    TRY(gguf_arch_i64(log, out, "attention.key_length", MAX_COUNT, &head_dim));
    if (kv_heads < 1 || head_dim < 2 || head_dim % 2 != 0)
        return dgl_fail(log, DGL_ERR_FORMAT,
                        "%s: %" PRId64 " key-value heads of %" PRId64
                        " values; wanted 1 or more heads of an even number of values",
                        file->name, kv_heads, head_dim);
    out->heads = (int32_t)heads;
    out->kv_heads = (int32_t)kv_heads;
    out->head_dim = (int32_t)head_dim;

    TRY(check_fixed(log, out));
done:
    return status;
}
