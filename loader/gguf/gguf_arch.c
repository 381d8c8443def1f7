/* Tables of architectures and tensor names. */
#include "loader/gguf/gguf_arch.h"

#include <string.h>

#include "core/base/str.h"

static const struct gguf_arch archs[] = {
    {"llama", "llama", GGUF_LLAMA, true, false, 0},
    {"llama", "mistral", GGUF_LLAMA, true, false, 0},
    {"llama", "mixtral", GGUF_MIXTRAL, true, false, 0},
    {"qwen2", "qwen2", GGUF_QWEN2, false, false, 0},
    {"qwen3", "qwen3", GGUF_QWEN3, false, false, 0},
    {"qwen3moe", "qwen3_moe", GGUF_QWEN3_MOE, false, false, 0},
    {"gemma2", "gemma2", GGUF_GEMMA2, false, true, 2},
    {"gemma3", "gemma3_text", GGUF_GEMMA3, false, true, 6},
    {"phi3", "phi3", GGUF_PHI3, false, false, 0},
    {"gpt-oss", "gpt_oss", GGUF_GPT_OSS, false, false, 2},
    {"olmo2", "olmo2", GGUF_OLMO2, false, false, 0},
    {"smollm3", "smollm3", GGUF_SMOLLM3, true, false, 0},
    {"granite", "granite", GGUF_GRANITE, true, false, 0},
};

#define ALL     0xffffu
#define GEMMAS  (GGUF_GEMMA2 | GGUF_GEMMA3)
#define NO_PHI3 (ALL & ~(unsigned)GGUF_PHI3)
/* Families whose second norm is before the MLP and is named after attention. */
#define PLAIN (ALL & ~(unsigned)(GEMMAS | GGUF_GPT_OSS | GGUF_OLMO2))

#define ALTERNATE (unsigned)(GEMMAS | GGUF_GPT_OSS)
#define WINDOWED  (ALTERNATE | (unsigned)(GGUF_LLAMA | GGUF_MIXTRAL | GGUF_PHI3))

/* llama.cpp stores 0 for an absent scale or cap. */
const struct gguf_key_rule gguf_key_rules[] = {
    {"attention.scale", GEMMAS | GGUF_GRANITE, false, 0, 0},
    {"attention.sliding_window", WINDOWED, true, 0, 0},
    {"attention.sliding_window_pattern", ALTERNATE, true, 0, 0},
    {"attn_logit_softcapping", GGUF_GEMMA2, false, 0, 0},
    {"embedding_scale", GGUF_GRANITE, false, 1, 0},
    /* always done in Mixtral and GPT-OSS */
    {"expert_weights_norm", ALL & ~(unsigned)(GGUF_MIXTRAL | GGUF_GPT_OSS), false, 1, 1},
    {"final_logit_softcapping", GEMMAS, false, 0, 0},
    {"logit_scale", GGUF_GRANITE, false, 1, 0},
    {"residual_scale", GGUF_GRANITE, false, 1, 0},
};
const size_t gguf_num_key_rules = sizeof(gguf_key_rules) / sizeof(gguf_key_rules[0]);

const struct gguf_name_rule gguf_model_names[] = {
    {"token_embd.weight", "model.embed_tokens.weight", NULL, ALL, GGUF_AS_IS},
    {"output_norm.weight", "model.norm.weight", NULL, ALL, GGUF_NORM},
    {"output.weight", "lm_head.weight", NULL, ALL, GGUF_AS_IS},
    {"rope_freqs.weight", NULL, NULL, ALL, GGUF_DROP},
    {"rope_factors_long.weight", NULL, NULL, ALL, GGUF_DROP},
    {"rope_factors_short.weight", NULL, NULL, ALL, GGUF_DROP},
};
const size_t gguf_num_model_names = sizeof(gguf_model_names) / sizeof(gguf_model_names[0]);

const struct gguf_name_rule gguf_layer_names[] = {
    {"attn_norm.weight", "input_layernorm.weight", NULL, ALL, GGUF_NORM},
    {"attn_q.weight", "self_attn.q_proj.weight", NULL, ALL, GGUF_PERMUTE_Q},
    {"attn_k.weight", "self_attn.k_proj.weight", NULL, ALL, GGUF_PERMUTE_K},
    {"attn_v.weight", "self_attn.v_proj.weight", NULL, ALL, GGUF_AS_IS},
    {"attn_q.bias", "self_attn.q_proj.bias", NULL, ALL, GGUF_PERMUTE_Q},
    {"attn_k.bias", "self_attn.k_proj.bias", NULL, ALL, GGUF_PERMUTE_K},
    {"attn_v.bias", "self_attn.v_proj.bias", NULL, ALL, GGUF_AS_IS},
    {"attn_qkv.weight", "self_attn.qkv_proj.weight", NULL, GGUF_PHI3, GGUF_AS_IS},
    {"attn_output.weight", "self_attn.o_proj.weight", NULL, ALL, GGUF_AS_IS},
    {"attn_output.bias", "self_attn.o_proj.bias", NULL, ALL, GGUF_AS_IS},
    {"attn_q_norm.weight", "self_attn.q_norm.weight", NULL, ALL, GGUF_NORM},
    {"attn_k_norm.weight", "self_attn.k_norm.weight", NULL, ALL, GGUF_NORM},
    {"attn_sinks.weight", "self_attn.sinks", NULL, GGUF_GPT_OSS, GGUF_AS_IS},
    {"ffn_norm.weight", "post_attention_layernorm.weight", NULL, PLAIN, GGUF_NORM},
    {"ffn_norm.weight", "pre_feedforward_layernorm.weight", NULL, GEMMAS, GGUF_NORM},
    {"post_attention_norm.weight", "post_attention_layernorm.weight", NULL,
     GEMMAS | GGUF_GPT_OSS | GGUF_OLMO2, GGUF_NORM},
    {"post_ffw_norm.weight", "post_feedforward_layernorm.weight", NULL, GEMMAS | GGUF_OLMO2,
     GGUF_NORM},
    {"ffn_gate.weight", "mlp.gate_proj.weight", NULL, NO_PHI3, GGUF_AS_IS},
    {"ffn_up.weight", "mlp.up_proj.weight", NULL, NO_PHI3, GGUF_AS_IS},
    {"ffn_up.weight", "mlp.gate_up_proj.weight", NULL, GGUF_PHI3, GGUF_AS_IS},
    /* For packs; after the rules of the two tensors, which reading uses. */
    {"ffn_gate.weight", "mlp.gate_up_proj.weight", "ffn_up.weight", NO_PHI3, GGUF_JOINED},
    {"ffn_down.weight", "mlp.down_proj.weight", NULL, ALL, GGUF_AS_IS},
    {"ffn_gate.bias", "mlp.gate_proj.bias", NULL, NO_PHI3, GGUF_AS_IS},
    {"ffn_up.bias", "mlp.up_proj.bias", NULL, NO_PHI3, GGUF_AS_IS},
    {"ffn_down.bias", "mlp.down_proj.bias", NULL, NO_PHI3, GGUF_AS_IS},
    {"ffn_gate_inp.weight", "block_sparse_moe.gate.weight", NULL, GGUF_MIXTRAL, GGUF_AS_IS},
    {"ffn_gate_exps.weight", "block_sparse_moe.experts.%d.w1.weight", NULL, GGUF_MIXTRAL,
     GGUF_EXPERTS},
    {"ffn_down_exps.weight", "block_sparse_moe.experts.%d.w2.weight", NULL, GGUF_MIXTRAL,
     GGUF_EXPERTS},
    {"ffn_up_exps.weight", "block_sparse_moe.experts.%d.w3.weight", NULL, GGUF_MIXTRAL,
     GGUF_EXPERTS},
    {"ffn_gate_inp.weight", "mlp.gate.weight", NULL, GGUF_QWEN3_MOE, GGUF_AS_IS},
    {"ffn_gate_exps.weight", "mlp.experts.%d.gate_proj.weight", NULL, GGUF_QWEN3_MOE, GGUF_EXPERTS},
    {"ffn_up_exps.weight", "mlp.experts.%d.up_proj.weight", NULL, GGUF_QWEN3_MOE, GGUF_EXPERTS},
    {"ffn_down_exps.weight", "mlp.experts.%d.down_proj.weight", NULL, GGUF_QWEN3_MOE, GGUF_EXPERTS},
    {"ffn_gate_inp.weight", "mlp.router.weight", NULL, GGUF_GPT_OSS, GGUF_AS_IS},
    {"ffn_gate_inp.bias", "mlp.router.bias", NULL, GGUF_GPT_OSS, GGUF_AS_IS},
    {"ffn_gate_exps.weight", "mlp.experts.gate_up_proj.weight", "ffn_up_exps.weight", GGUF_GPT_OSS,
     GGUF_INTERLEAVE},
    {"ffn_gate_exps.bias", "mlp.experts.gate_up_proj_bias", "ffn_up_exps.bias", GGUF_GPT_OSS,
     GGUF_INTERLEAVE},
    {"ffn_down_exps.weight", "mlp.experts.down_proj.weight", NULL, GGUF_GPT_OSS, GGUF_AS_IS},
    {"ffn_down_exps.bias", "mlp.experts.down_proj_bias", NULL, GGUF_GPT_OSS, GGUF_AS_IS},
};
const size_t gguf_num_layer_names = sizeof(gguf_layer_names) / sizeof(gguf_layer_names[0]);

const struct gguf_arch *gguf_arch_find(const char *name, size_t len, bool experts)
{
    for (size_t i = 0; i < sizeof(archs) / sizeof(archs[0]); i++) {
        bool has = (archs[i].family & (GGUF_MIXTRAL | GGUF_QWEN3_MOE | GGUF_GPT_OSS)) != 0;
        if (dgl_str_eq((struct dgl_str){name, len}, archs[i].name) && has == experts)
            return &archs[i];
    }
    return NULL;
}

const struct gguf_arch *gguf_arch_of_model_type(const char *model_type)
{
    for (size_t i = 0; i < sizeof(archs) / sizeof(archs[0]); i++) {
        if (strcmp(archs[i].model_type, model_type) == 0)
            return &archs[i];
    }
    return NULL;
}

bool gguf_arch_uses(const struct gguf_arch *arch, const char *suffix)
{
    for (size_t i = 0; i < gguf_num_key_rules; i++) {
        if (strcmp(gguf_key_rules[i].suffix, suffix) == 0)
            return (gguf_key_rules[i].families & (unsigned)arch->family) != 0;
    }
    return false;
}

uint64_t gguf_permuted_row(uint64_t row, uint64_t head_dim)
{
    uint64_t head = row / head_dim, at = row % head_dim, half = head_dim / 2;
    return head * head_dim + at % half * 2 + at / half;
}

uint64_t gguf_permuted_inverse(uint64_t row, uint64_t head_dim)
{
    uint64_t head = row / head_dim, at = row % head_dim, half = head_dim / 2;
    return head * head_dim + at / 2 + at % 2 * half;
}
