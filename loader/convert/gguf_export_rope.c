/* Rotary embedding in GGUF: keys, and factors per frequency as tensors. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "loader/convert/gguf_export.h"
#include "loader/desc/rope_freq.h"
#include "loader/gguf/gguf_keys.h"

static void put_f32(struct gguf_writer *w, const struct gguf_arch *arch, const char *suffix,
                    double value)
{
    char key[GGUF_ARCH_KEY_TEXT];
    gguf_put_f32(w, gguf_arch_key(arch, suffix, key), value);
}

static void put_u32(struct gguf_writer *w, const struct gguf_arch *arch, const char *suffix,
                    int64_t value)
{
    char key[GGUF_ARCH_KEY_TEXT];
    gguf_put_u32(w, gguf_arch_key(arch, suffix, key), (uint32_t)value);
}

static void put_type(struct gguf_writer *w, const struct gguf_arch *arch, const char *type)
{
    char key[GGUF_ARCH_KEY_TEXT];
    gguf_put_str(w, gguf_arch_key(arch, "rope.scaling.type", key), dgl_str_of(type));
}

/* Returns true if both lists of longrope are equal. GGUF stores them as rope_freqs, which does not
 * depend on the length. */
static bool is_single(const struct rope_desc *rope)
{
    size_t bytes = (size_t)rope->dims / 2 * sizeof(double);
    return rope->kind == ROPE_LONGROPE && rope->scale == 1 &&
           memcmp(rope->short_factor, rope->long_factor, bytes) == 0;
}

/* Attention factor of YaRN if the config has none. */
static double yarn_scale(double factor)
{
    return factor > 1 ? 0.1 * log(factor) + 1 : 1;
}

/* Does not write `truncate`, which has no key; gguf_export_check() compares it. */
static void put_yarn(const struct rope_desc *rope, const struct gguf_arch *arch,
                     struct gguf_writer *w)
{
    double usual = yarn_scale(rope->factor);
    put_type(w, arch, "yarn");
    put_f32(w, arch, "rope.scaling.factor", rope->factor);
    put_u32(w, arch, "rope.scaling.original_context_length", rope->original_context);
    put_f32(w, arch, "rope.scaling.yarn_beta_fast", rope->beta_fast);
    put_f32(w, arch, "rope.scaling.yarn_beta_slow", rope->beta_slow);
    if (fabs(rope->scale - usual) > 1e-6)
        put_f32(w, arch, "rope.scaling.yarn_attn_factor", rope->scale);
}

enum dgl_status gguf_export_rope(const struct dgl_log *log, const struct dgl_model_file *model,
                                 const struct gguf_arch *arch, struct gguf_writer *w)
{
    const struct rope_desc *rope = &model->desc.rope[ROPE_GLOBAL];
    put_u32(w, arch, "rope.dimension_count", rope->dims);
    put_f32(w, arch, "rope.freq_base", rope->theta);
    if (arch->family == GGUF_GEMMA3)
        put_f32(w, arch, "rope.freq_base_swa", model->desc.rope[ROPE_LOCAL].theta);
    switch (rope->kind) {
    case ROPE_DEFAULT: /* the default of GPT-OSS in Hugging Face is YaRN */
        if (arch->family == GGUF_GPT_OSS)
            put_type(w, arch, "none");
        return DGL_OK;
    case ROPE_LLAMA3:
        return DGL_OK;
    case ROPE_LINEAR:
        put_type(w, arch, "linear");
        put_f32(w, arch, "rope.scaling.factor", rope->factor);
        return DGL_OK;
    case ROPE_YARN:
        put_yarn(rope, arch, w);
        return DGL_OK;
    case ROPE_LONGROPE:
        if (is_single(rope))
            return DGL_OK;
        put_type(w, arch, "longrope");
        put_u32(w, arch, "rope.scaling.original_context_length", rope->original_context);
        put_f32(w, arch, "rope.scaling.attn_factor", rope->scale);
        return DGL_OK;
    case ROPE_DYNAMIC:
        break;
    }
    return dgl_fail(
        log, DGL_ERR_UNSUPPORTED,
        "%s: rope_type is \"dynamic\", but GGUF has none, linear, yarn and longrope; " GGUF_AS_PACK,
        model->path);
}

static float *as_floats(const double *from, uint64_t count)
{
    float *out = dgl_new_array(float, count);
    for (uint64_t i = 0; out && i < count; i++)
        out[i] = (float)from[i];
    return out;
}

/* Ratios of the plain rotation steps to those of llama3. */
static float *llama3_factors(const struct rope_desc *rope, uint64_t count)
{
    struct rope_desc plain = *rope;
    plain.kind = ROPE_DEFAULT;
    double *steps = dgl_new_array(double, 2 * count);
    float *out = steps ? dgl_new_array(float, count) : NULL;
    if (out) {
        rope_inv_freq(rope, 0, steps);
        rope_inv_freq(&plain, 0, steps + count);
    }
    for (uint64_t i = 0; out && i < count; i++)
        out[i] = (float)(steps[count + i] / steps[i]);
    free(steps);
    return out;
}

enum dgl_status gguf_export_factors(const struct dgl_log *log, const struct rope_desc *rope,
                                    struct gguf_rope_factors out[GGUF_MAX_ROPE_FACTORS],
                                    size_t *count)
{
    uint64_t n = (uint64_t)rope->dims / 2;
    *count = 0;
    if (rope->kind == ROPE_LLAMA3) {
        out[(*count)++] =
            (struct gguf_rope_factors){"rope_freqs.weight", llama3_factors(rope, n), n};
    } else if (is_single(rope)) {
        out[(*count)++] =
            (struct gguf_rope_factors){"rope_freqs.weight", as_floats(rope->short_factor, n), n};
    } else if (rope->kind == ROPE_LONGROPE) {
        out[(*count)++] = (struct gguf_rope_factors){"rope_factors_long.weight",
                                                     as_floats(rope->long_factor, n), n};
        out[(*count)++] = (struct gguf_rope_factors){"rope_factors_short.weight",
                                                     as_floats(rope->short_factor, n), n};
    }
    for (size_t i = 0; i < *count; i++) {
        if (!out[i].values)
            return dgl_fail_memory(log, out[i].name, n * sizeof(float));
    }
    return DGL_OK;
}
