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
        status = set_type(&log.log, &info[i], stored_type(p->types, t->name));
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
