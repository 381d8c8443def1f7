/* Rotary embedding in GGUF: keys, and factors per frequency as tensors. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "loader/convert/gguf_export.h"
#include "loader/desc/rope_freq.h"
#include "loader/gguf/gguf_keys.h"

/* Returns true if both lists of longrope are equal. GGUF stores them as rope_freqs, which does not
 * depend on the length. */
static bool is_single(const struct rope_desc *rope)
{
    size_t bytes = (size_t)rope->dims / 2 * sizeof(double);
    return rope->kind == ROPE_LONGROPE && rope->scale == 1 &&
           memcmp(rope->short_factor, rope->long_factor, bytes) == 0;
}

/* Does not write YaRN's `truncate`, which has no key; gguf_export_check() compares it. */
enum dgl_status gguf_export_rope(const struct gguf_exporter *x)
{
    const struct rope_desc *rope = &x->model->desc.rope[ROPE_GLOBAL];
    /* Names of rope.scaling.type. The default of GPT-OSS in Hugging Face is YaRN. The factors of
     * llama3 are stored as a tensor. */
    const char *const types[] = {
        [ROPE_DEFAULT] = x->arch->family == GGUF_GPT_OSS ? "none" : NULL,
        [ROPE_LINEAR] = "linear",
        [ROPE_YARN] = "yarn",
        [ROPE_LONGROPE] = is_single(rope) ? NULL : "longrope",
        [ROPE_LLAMA3] = NULL,
    };
    char key[GGUF_ARCH_KEY_TEXT];
    gguf_export_u32(x, "rope.dimension_count", rope->dims);
    gguf_export_f32(x, "rope.freq_base", rope->theta);
    if (x->arch->family == GGUF_GEMMA3)
        gguf_export_f32(x, "rope.freq_base_swa", x->model->desc.rope[ROPE_LOCAL].theta);
    if (rope->kind == ROPE_DYNAMIC)
        return dgl_fail(x->log, DGL_ERR_UNSUPPORTED,
                        "%s: rope_type is \"dynamic\", but GGUF has none, linear, yarn and "
                        "longrope; " GGUF_AS_PACK,
                        x->model->path);
    const char *type = types[rope->kind];
    if (!type)
        return DGL_OK;
    gguf_put_str(x->w, gguf_arch_key(x->arch, "rope.scaling.type", key), dgl_str_of(type));
    if (rope->kind == ROPE_LINEAR || rope->kind == ROPE_YARN)
        gguf_export_f32(x, "rope.scaling.factor", rope->factor);
    if (rope->kind == ROPE_YARN || rope->kind == ROPE_LONGROPE)
        gguf_export_u32(x, "rope.scaling.original_context_length", rope->original_context);
    if (rope->kind == ROPE_LONGROPE)
        gguf_export_f32(x, "rope.scaling.attn_factor", rope->scale);
    if (rope->kind != ROPE_YARN)
        return DGL_OK;
    gguf_export_f32(x, "rope.scaling.yarn_beta_fast", rope->beta_fast);
    gguf_export_f32(x, "rope.scaling.yarn_beta_slow", rope->beta_slow);
    /* The attention factor is written if it is not the one that readers compute. */
    double usual = rope->factor > 1 ? 0.1 * log(rope->factor) + 1 : 1;
    if (fabs(rope->scale - usual) > 1e-6)
        gguf_export_f32(x, "rope.scaling.yarn_attn_factor", rope->scale);
    return DGL_OK;
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
