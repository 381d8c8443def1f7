/* Role of a tensor by its name: the rules of the RDRR format for files without roles. */
#include <string.h>

#include "loader/tensor/tensor_source.h"

enum match { CONTAINS, ENDS };

struct role_rule {
    enum match match;
    const char *text;
    const char *role;
};

/* First match wins. */
static const struct role_rule role_rules[] = {
    {ENDS, ".bias", "other"},
    {ENDS, "_bias", "other"},
    {CONTAINS, "embed_tokens.weight", "embedding"},
    {CONTAINS, "token_embd.weight", "embedding"},
    {CONTAINS, "wte.weight", "embedding"},
    {CONTAINS, "word_embeddings", "embedding"},
    {CONTAINS, "lm_head", "lm_head"},
    {ENDS, "attn_output.weight", "matmul"},
    {ENDS, "output.weight", "lm_head"},
    {CONTAINS, "experts.", "expert"},
    {CONTAINS, "shared_expert", "expert"},
    {CONTAINS, "router", "router"},
    {CONTAINS, "block_sparse_moe.gate", "router"},
    {CONTAINS, "moe.gate", "router"},
    {ENDS, "mlp.gate.weight", "router"},
    {CONTAINS, "norm", "norm"},
    {CONTAINS, "ln_", "norm"},
    {ENDS, "_proj.weight", "matmul"},
    {ENDS, "qkv.weight", "matmul"},
    {ENDS, "fc1.weight", "matmul"},
    {ENDS, "fc2.weight", "matmul"},
};

const char *tensor_role_from_name(const char *name)
{
    for (size_t i = 0; i < sizeof(role_rules) / sizeof(role_rules[0]); i++) {
        const struct role_rule *rule = &role_rules[i];
        if (rule->match == ENDS ? dgl_str_ends(dgl_str_of(name), rule->text)
                                : strstr(name, rule->text) != NULL)
            return rule->role;
    }
    return "other";
}

bool tensor_layer_split(const char *name, const char *prefix, int32_t *layer, const char **rest)
{
    size_t skip = strlen(prefix);
    if (strncmp(name, prefix, skip) != 0)
        return false;
    const char *digits = name + skip, *dot = strchr(digits, '.');
    int64_t n;
    if (!dot || (digits[0] == '0' && dot != digits + 1) ||
        !dgl_parse_i64((struct dgl_str){digits, (size_t)(dot - digits)}, 0, INT32_MAX, &n))
        return false;
    *layer = (int32_t)n;
    *rest = dot + 1;
    return true;
}

void dtype_tally_add(struct dtype_tally *tally, const char *role, enum dgl_dtype type,
                     double values)
{
    tally->all[type] += values;
    if (strcmp(role, "matmul") == 0 || strcmp(role, "expert") == 0)
        tally->linear[type] += values;
}

enum dgl_dtype dtype_tally_headline(const struct dtype_tally *tally)
{
    const double *const tallies[] = {tally->linear, tally->all};
    for (int i = 0; i < 2; i++) {
        int best = 0;
        for (int type = 1; type < DGL_DTYPE_COUNT; type++)
            best = tallies[i][type] > tallies[i][best] ? type : best;
        if (tallies[i][best] > 0)
            return (enum dgl_dtype)best;
    }
    return DGL_F32;
}
