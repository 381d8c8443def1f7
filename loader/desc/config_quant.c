/* quantization_config: which ways of storing quantised weights are read. */
#include "loader/desc/model_config.h"

/* MXFP4 expert matrices show in the tensors themselves (expert_view.h). */
static bool is_read(const struct config_family *family, struct dgl_str method)
{
    return (family->parts & PART_EXPERTS_GPT_OSS) && dgl_str_eq(method, "mxfp4");
}

enum dgl_status config_quant_check(const struct config *c, const struct config_family *family)
{
    static const char *const fields[] = {"quantization_config", "compression_config"};
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        const struct dgl_json *q = dgl_json_get(c->root, fields[i]);
        if (!q || dgl_json_is(q, DGL_JSON_NULL))
            continue;
        struct dgl_str method = dgl_json_str(dgl_json_get(q, "quant_method"));
        if (is_read(family, method))
            continue;
        return dgl_fail(c->r.log, DGL_ERR_UNSUPPORTED,
                        "%s: %s.quant_method is \"%s\"; supported: checkpoints without %s, and "
                        "gpt_oss with mxfp4. Use the original checkpoint; `dopplergl convert "
                        "--quantize` makes it small",
                        dgl_json_name(c->r.doc), fields[i], DGL_SHOWN_STR(method), fields[i]);
    }
    return DGL_OK;
}
