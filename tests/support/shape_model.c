/* Sources of tensors without bytes. Types of a quantised model are those of the converter's plan.
 */
#include "tests/support/shape_model.h"

#include <stdlib.h>

#include "core/base/mem.h"
#include "loader/convert/convert_plan.h"
#include "loader/desc/model_bind.h"
#include "tests/support/shape_tensors.h"
#include "tests/support/test.h"

static enum dgl_status read_nothing(void *impl, const struct dgl_log *log, size_t index,
                                    uint64_t offset, void *dst, size_t size)
{
    (void)impl;
    (void)index;
    (void)offset;
    (void)dst;
    (void)size;
    return dgl_fail(log, DGL_ERR_UNSUPPORTED, "tensors of a shape have no bytes");
}

static void destroy_nothing(void *impl)
{
    (void)impl;
}

static enum dgl_dtype stored_type(const struct shape_type *types, const char *name)
{
    size_t len = strlen(name);
    for (const struct shape_type *t = types; t && t->ending; t++)
        if (len >= strlen(t->ending) && strcmp(name + len - strlen(t->ending), t->ending) == 0)
            return t->dtype;
    return DGL_BF16;
}

/* Follows llama-quantize. Models of 8 experts have larger types in their attention. */
static enum dgl_dtype q4_k_m_type(const struct model_desc *desc, const struct shape_tensor *t)
{
    const struct dgl_str name = dgl_str_of(t->name);
    const int eighth = desc->layers / 8;
    const bool few = desc->moe.experts == 8;
    int layer = 0;
    sscanf(t->name, "model.layers.%d.", &layer);
    const bool precise =
        layer < eighth || layer >= 7 * desc->layers / 8 || (layer - eighth) % 3 == 2;
    if (t->rank == 1 || dgl_str_ends(name, "gate.weight"))
        return DGL_F32;
    if (dgl_str_eq(name, "lm_head.weight"))
        return DGL_Q6_K;
    if (dgl_str_ends(name, "embed_tokens.weight"))
        return desc->tied_head ? DGL_Q6_K : DGL_Q4_K;
    if (few && (dgl_str_ends(name, "k_proj.weight") || dgl_str_ends(name, "v_proj.weight")))
        return DGL_Q8_0;
    if (few && dgl_str_ends(name, "o_proj.weight"))
        return DGL_Q5_K;
    return precise && (dgl_str_ends(name, "v_proj.weight") || dgl_str_ends(name, "w2.weight") ||
                       dgl_str_ends(name, "down_proj.weight"))
               ? DGL_Q6_K
               : DGL_Q4_K;
}

/* Replaces the source by one whose tensors are of `info`, and binds it. */
static enum dgl_status bind_source(const struct dgl_log *log, const char *config,
                                   const struct tensor_info *info, size_t count,
                                   struct shape_model *m)
{
    static const struct tensor_source_ops ops = {.read = read_nothing, .destroy = destroy_nothing};
    shape_model_close(m);
    enum dgl_status status = shape_desc_read(log, config, &m->desc);
    if (status == DGL_OK)
        status = tensor_source_create(log, config, &ops, NULL, info, count, &m->tensors);
    if (status == DGL_OK)
        status = model_bind(log, m->tensors, config, &m->desc, &m->skipped);
    return status;
}

static enum dgl_status set_type(const struct dgl_log *log, struct tensor_info *info,
                                enum dgl_dtype dtype)
{
    info->dtype = dtype;
    if (!dgl_dtype_tensor_bytes(dtype, info->rank, info->shape, &info->bytes))
        return dgl_fail(log, DGL_ERR_UNSUPPORTED, "%s: bytes overflow", info->name);
    return DGL_OK;
}

void shape_model_open(struct shape_model *m, const struct shape_model_params *p)
{
    struct shape_tensors list = {0};
    struct tensor_info *info = NULL;
    struct convert_recipe recipe;
    struct convert_plan plan = {0};
    struct dgl_convert_params convert = {.quantize = p->quantize, .embed = p->embed};
    struct test_log log;
    test_log_init(&log, DGL_LOG_WARN);
    *m = (struct shape_model){0};
    enum dgl_status status = shape_desc_read(&log.log, p->config, &m->desc);
    if (status == DGL_OK)
        status = shape_tensors_list(&log.log, &m->desc, &list);
    info = checked(dgl_new_array(struct tensor_info, list.count));
    for (size_t i = 0; i < list.count && status == DGL_OK; i++) {
        const struct shape_tensor *t = &list.items[i];
        info[i] = (struct tensor_info){
            .name = t->name, .role = tensor_role_from_name(t->name), .rank = t->rank};
        memcpy(info[i].shape, t->shape, sizeof(t->shape));
        status = set_type(&log.log, &info[i],
                          p->q4_k_m ? q4_k_m_type(&m->desc, t) : stored_type(p->types, t->name));
    }
    if (status == DGL_OK)
        status = bind_source(&log.log, p->config, info, list.count, m);
    if (status == DGL_OK && p->quantize) {
        struct dgl_model_file file = {.path = (char *)(uintptr_t)p->config,
                                      .desc = m->desc,
                                      .skipped = m->skipped,
                                      .tensors = m->tensors};
        status = convert_recipe_init(&log.log, &convert, &recipe);
        if (status == DGL_OK)
            status = convert_plan_init(&log.log, &file, &recipe, &plan);
        for (size_t i = 0; i < plan.count && status == DGL_OK; i++)
            status = set_type(&log.log, &info[plan.items[i].index], plan.items[i].type);
        convert_plan_finish(&plan);
        if (status == DGL_OK)
            status = bind_source(&log.log, p->config, info, list.count, m);
    }
    free(info);
    free(list.items);
    if (status != DGL_OK || log.len > 0)
        fail_msg("%s: %s: %s", p->config, dgl_status_str(status), log.text);
}

void shape_model_close(struct shape_model *m)
{
    tensor_source_destroy(&m->tensors);
    model_skipped_finish(&m->skipped);
    model_desc_finish(&m->desc);
    *m = (struct shape_model){0};
}
