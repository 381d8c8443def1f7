/* One dispatch of the `synth` operation per band. */
#include "core/memory/synthetic_fill.h"

#include <string.h>

enum dgl_status synthetic_filler_init(struct synthetic_filler *f, struct dgl_device *dev,
                                      struct kernel_set *set, const struct weight_layouts *layouts)
{
    *f = (struct synthetic_filler){.layouts = layouts};
    programs_init(&f->programs, dev, set);
    return gl_buffer_create(
        dev->gl, &(struct gl_buffer_params){.size = KERNEL_MAX_PARAMS * 4, .label = "synth params"},
        &f->params);
}

void synthetic_filler_finish(struct synthetic_filler *f)
{
    if (f->programs.dev)
        gl_buffer_destroy(f->programs.dev->gl, &f->params);
    programs_finish(&f->programs);
}

static struct kernel_request request_for(const struct synthetic_filler *f,
                                         const struct weight *weight,
                                         const struct weight_band *band)
{
    return (struct kernel_request){
        .op = "synth",
        .attrs = {{"weight", dgl_dtype_get(band->dtype)->name},
                  {"layout", f->layouts->name[band->dtype]}},
        .num_attrs = 2,
        .consts = {{"K", (int64_t)weight->cols}, {"W_STRIDE", band->row_words}},
        .num_consts = 2,
    };
}

/* The kernel's parameters in its own order. */
static enum dgl_status write_params(struct synthetic_filler *f, const struct kernel *kernel,
                                    const struct weight_band *band)
{
    uint32_t words[KERNEL_MAX_PARAMS] = {0};
    for (uint32_t i = 0; i < kernel->num_params; i++)
        words[i] = strcmp(kernel->params[i].name, "rows") == 0 ? band->rows : f->seed;
    f->seed++;
    return gl_buffer_write(f->programs.dev->gl, f->params, 0, words, sizeof(words));
}

enum dgl_status synthetic_fill(void *ctx, const struct weight *weight,
                               const struct weight_band *band)
{
    struct synthetic_filler *f = ctx;
    struct dgl_device *dev = f->programs.dev;
    struct kernel_request request = request_for(f, weight, band);
    struct program_entry *entry = NULL;
    enum dgl_status st = programs_find(&f->programs, &request, &entry);
    if (st == DGL_OK)
        st = programs_compile(&f->programs, &entry, 1);
    if (st == DGL_OK)
        st = write_params(f, entry->choice.kernel, band);
    if (st != DGL_OK)
        return st;
    struct gl_dispatch d = {.program = entry->program,
                            .storage = {band->range},
                            .num_storage = 1,
                            .writes = 1,
                            .uniform = {{f->params, 0, KERNEL_MAX_PARAMS * 4}},
                            .num_uniform = 1};
    if (!kernel_groups_band(&entry->choice, 1, band->rows,
                            dgl_device_get_limits(dev)->max_groups[0], d.groups))
        return dgl_fail(dev->log, DGL_ERR_KERNEL, "%s: GROUPS gives no usable count",
                        entry->choice.kernel->name);
    gl_hazards_derive(&d, 1, true);
    return gl_submit(dev->gl, &d, 1, NULL);
}
