/* The binding table and its lookups. */
#include "loader/desc/bind_rules.h"

#include <string.h>

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

#define MODEL(field) offsetof(struct model_desc, field)
#define LAYER(field) offsetof(struct layer_desc, field)

#define MATRIX(rows, cols)                                                                         \
    {                                                                                              \
        DIM_##rows, DIM_##cols                                                                     \
    }
#define VECTOR(n)                                                                                  \
    {                                                                                              \
        DIM_##n                                                                                    \
    }
#define STACK(rows, cols)                                                                          \
    {                                                                                              \
        DIM_EXPERTS, DIM_##rows, DIM_##cols                                                        \
    }

const struct bind_rule bind_model_rules[] = {
    {"model.embed_tokens.weight", MODEL(embed), MATRIX(VOCAB, HIDDEN), .with = 0},
    {"model.norm.weight", MODEL(final_norm), VECTOR(HIDDEN), .with = 0},
    {"lm_head.weight", MODEL(head), MATRIX(VOCAB, HIDDEN), .with = 0},
};

const struct bind_rule bind_layer_rules[] = {
    {"input_layernorm.weight", LAYER(attn_norm), VECTOR(HIDDEN), .with = PART_PRE_NORM},
    {"self_attn.q_proj.weight", LAYER(q), MATRIX(Q, HIDDEN), .instead = LAYER(qkv)},
    {"self_attn.k_proj.weight", LAYER(k), MATRIX(KV, HIDDEN), .instead = LAYER(qkv)},
    {"self_attn.v_proj.weight", LAYER(v), MATRIX(KV, HIDDEN), .instead = LAYER(qkv)},
    {"self_attn.qkv_proj.weight", LAYER(qkv), MATRIX(QKV, HIDDEN), .optional = true},
    {"self_attn.q_proj.bias", LAYER(q_bias), VECTOR(Q), .with = PART_QKV_BIAS},
    {"self_attn.k_proj.bias", LAYER(k_bias), VECTOR(KV), .with = PART_QKV_BIAS},
    {"self_attn.v_proj.bias", LAYER(v_bias), VECTOR(KV), .with = PART_QKV_BIAS},
    {"self_attn.o_proj.bias", LAYER(o_bias), VECTOR(HIDDEN), .with = PART_O_BIAS},
    {"self_attn.q_norm.weight", LAYER(q_norm), VECTOR(HEAD), .with = PART_HEAD_NORM},
    {"self_attn.k_norm.weight", LAYER(k_norm), VECTOR(HEAD), .with = PART_HEAD_NORM},
    {"self_attn.q_norm.weight", LAYER(q_norm), VECTOR(Q), .with = PART_WIDE_NORM},
    {"self_attn.k_norm.weight", LAYER(k_norm), VECTOR(KV), .with = PART_WIDE_NORM},
    {"self_attn.sinks", LAYER(sinks), VECTOR(HEADS), .with = PART_SINKS},
    {"self_attn.o_proj.weight", LAYER(o), MATRIX(HIDDEN, Q), .with = 0},
    {"post_attention_layernorm.weight", LAYER(ffn_norm), VECTOR(HIDDEN), .without = PART_POST_NORM},
    {"post_attention_layernorm.weight", LAYER(attn_post_norm), VECTOR(HIDDEN),
     .with = PART_POST_NORM},
    {"pre_feedforward_layernorm.weight", LAYER(ffn_norm), VECTOR(HIDDEN),
     .with = PART_PRE_NORM | PART_POST_NORM},
    {"post_feedforward_layernorm.weight", LAYER(ffn_post_norm), VECTOR(HIDDEN),
     .with = PART_POST_NORM},

    {"mlp.gate_proj.weight", LAYER(gate), MATRIX(INTERMEDIATE, HIDDEN), .where = DENSE,
     .instead = LAYER(gate_up)},
    {"mlp.up_proj.weight", LAYER(up), MATRIX(INTERMEDIATE, HIDDEN), .where = DENSE,
     .instead = LAYER(gate_up)},
    {"mlp.gate_up_proj.weight", LAYER(gate_up), MATRIX(TWO_INTERMEDIATE, HIDDEN), .where = DENSE,
     .optional = true},
    {"mlp.down_proj.weight", LAYER(down), MATRIX(HIDDEN, INTERMEDIATE), .where = DENSE},
    {"mlp.gate_proj.bias", LAYER(gate_bias), VECTOR(INTERMEDIATE), .with = PART_MLP_BIAS,
     .where = DENSE},
    {"mlp.up_proj.bias", LAYER(up_bias), VECTOR(INTERMEDIATE), .with = PART_MLP_BIAS,
     .where = DENSE},
    {"mlp.down_proj.bias", LAYER(down_bias), VECTOR(HIDDEN), .with = PART_MLP_BIAS, .where = DENSE},

    {"block_sparse_moe.gate.weight", LAYER(router), MATRIX(EXPERTS, HIDDEN),
     .with = PART_EXPERTS_MIXTRAL, .where = SPARSE},
    {"block_sparse_moe.experts.*.w1.weight", LAYER(expert_gate), MATRIX(EXPERT, HIDDEN),
     .with = PART_EXPERTS_MIXTRAL, .where = SPARSE, .kind = EACH},
    {"block_sparse_moe.experts.*.w3.weight", LAYER(expert_up), MATRIX(EXPERT, HIDDEN),
     .with = PART_EXPERTS_MIXTRAL, .where = SPARSE, .kind = EACH},
    {"block_sparse_moe.experts.*.w2.weight", LAYER(expert_down), MATRIX(HIDDEN, EXPERT),
     .with = PART_EXPERTS_MIXTRAL, .where = SPARSE, .kind = EACH},

    {"mlp.gate.weight", LAYER(router), MATRIX(EXPERTS, HIDDEN), .with = PART_EXPERTS_QWEN,
     .where = SPARSE},
    {"mlp.experts.*.gate_proj.weight", LAYER(expert_gate), MATRIX(EXPERT, HIDDEN),
     .with = PART_EXPERTS_QWEN, .where = SPARSE, .kind = EACH},
    {"mlp.experts.*.up_proj.weight", LAYER(expert_up), MATRIX(EXPERT, HIDDEN),
     .with = PART_EXPERTS_QWEN, .where = SPARSE, .kind = EACH},
    {"mlp.experts.*.down_proj.weight", LAYER(expert_down), MATRIX(HIDDEN, EXPERT),
     .with = PART_EXPERTS_QWEN, .where = SPARSE, .kind = EACH},

    {"mlp.router.weight", LAYER(router), MATRIX(EXPERTS, HIDDEN), .with = PART_EXPERTS_GPT_OSS,
     .where = SPARSE},
    {"mlp.router.bias", LAYER(router_bias), VECTOR(EXPERTS), .with = PART_EXPERTS_GPT_OSS,
     .where = SPARSE},
    {"mlp.experts.gate_up_proj.weight", LAYER(expert_gate_up), STACK(TWO_EXPERT, HIDDEN),
     .with = PART_EXPERTS_GPT_OSS, .where = SPARSE, .kind = STACKED, .instead = LAYER(expert_gate)},
    {"mlp.experts.gate_up_proj_bias", LAYER(expert_gate_up_bias), MATRIX(EXPERTS, TWO_EXPERT),
     .with = PART_EXPERTS_GPT_OSS, .where = SPARSE},
    {"mlp.experts.down_proj_bias", LAYER(expert_down_bias), MATRIX(EXPERTS, HIDDEN),
     .with = PART_EXPERTS_GPT_OSS, .where = SPARSE},

    /* All experts in one tensor each: the layout of formats other than Hugging Face's. */
    {"mlp.experts.gate_proj.weight", LAYER(expert_gate), STACK(EXPERT, HIDDEN), .where = SPARSE,
     .kind = STACKED, .instead = LAYER(expert_gate_up)},
    {"mlp.experts.up_proj.weight", LAYER(expert_up), STACK(EXPERT, HIDDEN), .where = SPARSE,
     .kind = STACKED, .instead = LAYER(expert_gate_up)},
    {"mlp.experts.down_proj.weight", LAYER(expert_down), STACK(HIDDEN, EXPERT), .where = SPARSE,
     .kind = STACKED},
};

const size_t bind_num_model_rules = COUNT(bind_model_rules);
const size_t bind_num_layer_rules = COUNT(bind_layer_rules);

/* Buffers that some checkpoints store although they follow from the config. */
static const char *const derived_buffers[] = {".rotary_emb.inv_freq", ".rotary_emb_local.inv_freq",
                                              ".masked_bias"};

#define OUTER PART_OTHER_MODES

/* The first match counts, so longer prefixes are listed first. */
const struct bind_prefix bind_prefixes[BIND_NUM_PREFIXES] = {
    {"language_model.model.", "model.", OUTER, false},
    {"language_model.lm_head.", "lm_head.", OUTER, false},
    {"language_model.", "model.", OUTER, true},
    {"model.language_model.", "model.", OUTER, false},
    {"vision_tower.", NULL, OUTER, false},
    {"multi_modal_projector.", NULL, OUTER, false},
    {"model.vision_tower.", NULL, OUTER, false},
    {"model.multi_modal_projector.", NULL, OUTER, false},
    {"embed_tokens.", "model.embed_tokens.", 0, true},
    {"layers.", "model.layers.", 0, true},
    {"norm.", "model.norm.", 0, true},
};

const struct bind_prefix *bind_prefix_find(uint32_t parts, const char *name)
{
    for (size_t i = 0; i < BIND_NUM_PREFIXES; i++) {
        const struct bind_prefix *p = &bind_prefixes[i];
        if ((parts & p->with) == p->with && strncmp(name, p->prefix, strlen(p->prefix)) == 0)
            return p;
    }
    return NULL;
}

bool bind_rule_holds(const struct bind_rule *rule, const struct model_desc *d, int32_t layer)
{
    if ((d->parts & rule->with) != rule->with || (d->parts & rule->without))
        return false;
    return rule->where == ANYWHERE || (rule->where == SPARSE) == d->layer[layer].sparse;
}

uint32_t bind_rule_rank(const struct bind_rule *rule)
{
    uint32_t rank = 0;
    while (rank < BIND_MAX_RANK && rule->dims[rank] != DIM_NONE)
        rank++;
    return rank;
}

void bind_dims_fill(const struct model_desc *d, uint64_t dims[DIM_COUNT])
{
    dims[DIM_HIDDEN] = (uint64_t)d->hidden;
    dims[DIM_INTERMEDIATE] = (uint64_t)d->intermediate;
    dims[DIM_TWO_INTERMEDIATE] = 2 * dims[DIM_INTERMEDIATE];
    dims[DIM_VOCAB] = (uint64_t)d->vocab;
    dims[DIM_Q] = (uint64_t)d->heads * (uint64_t)d->head_dim;
    dims[DIM_KV] = (uint64_t)d->kv_heads * (uint64_t)d->head_dim;
    dims[DIM_QKV] = dims[DIM_Q] + 2 * dims[DIM_KV];
    dims[DIM_HEADS] = (uint64_t)d->heads;
    dims[DIM_HEAD] = (uint64_t)d->head_dim;
    dims[DIM_EXPERTS] = (uint64_t)d->moe.experts;
    dims[DIM_EXPERT] = (uint64_t)d->moe.intermediate;
    dims[DIM_TWO_EXPERT] = 2 * dims[DIM_EXPERT];
}

/* Returns true if `name` is the pattern with a number, without leading zeros, for its '*'. */
static bool name_matches(const char *pattern, const char *name, int32_t count, int32_t *number)
{
    const char *star = strchr(pattern, '*');
    *number = 0;
    if (!star)
        return strcmp(pattern, name) == 0;
    size_t before = (size_t)(star - pattern);
    if (strncmp(pattern, name, before) != 0)
        return false;
    const char *digits = name + before, *end = strchr(digits, '.');
    int64_t n;
    if (!end || (digits[0] == '0' && end != digits + 1) ||
        !dgl_parse_i64((struct dgl_str){digits, (size_t)(end - digits)}, 0, (int64_t)count - 1, &n))
        return false;
    *number = (int32_t)n;
    return strcmp(star + 1, end) == 0;
}

static bool rule_find(const struct model_desc *d, int32_t layer, const char *name,
                      struct bind_match *out)
{
    for (size_t i = 0; i < COUNT(bind_layer_rules); i++) {
        const struct bind_rule *rule = &bind_layer_rules[i];
        if (bind_rule_holds(rule, d, layer) &&
            name_matches(rule->name, name, d->moe.experts, &out->number)) {
            out->rule = rule;
            out->base = &d->layer[layer];
            return true;
        }
    }
    return false;
}

bool bind_match_find(struct model_desc *d, const char *name, struct bind_match *out)
{
    int32_t layer;
    const char *rest;
    for (size_t i = 0; i < COUNT(bind_model_rules); i++) {
        if (strcmp(bind_model_rules[i].name, name) == 0) {
            *out = (struct bind_match){.rule = &bind_model_rules[i], .base = d};
            return true;
        }
    }
    return tensor_layer_split(name, "model.layers.", &layer, &rest) && layer < d->layers &&
           rule_find(d, layer, rest, out);
}

bool bind_is_derived(const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < COUNT(derived_buffers); i++) {
        size_t n = strlen(derived_buffers[i]);
        if (len >= n && strcmp(name + len - n, derived_buffers[i]) == 0)
            return true;
    }
    return false;
}
