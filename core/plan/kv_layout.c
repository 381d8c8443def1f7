/* Groups of layers of the KV cache. */
#include "core/plan/kv_layout.h"

#include <assert.h>

#include "kernels/step.h"

static uint32_t find_window(const struct kv_layout *layout, int32_t window)
{
    uint32_t g = 0;
    while (g < layout->num_groups && layout->group[g].window != window)
        g++;
    return g;
}

void kv_layout_init(struct kv_layout *out, const struct model_desc *desc, enum dgl_kv_type type,
                    bool by_window)
{
    const uint64_t numbers = (uint64_t)desc->kv_heads * (uint64_t)desc->head_dim * DGL_KV_PAGE;
    const uint64_t bytes = numbers * (type == DGL_KV_F32 ? 4 : 2);
    struct kv_group group = {
        .type = {type, type}, .part_bytes = {bytes, bytes}, .page_bytes = 2 * bytes};
    bool reads_all = false, grouped = by_window;
    int32_t most = 0;
    *out = (struct kv_layout){0};
    for (int32_t i = 0; i < desc->layers; i++) {
        const int32_t window = desc->layer[i].window;
        reads_all = reads_all || window == 0;
        most = window > most ? window : most;
    }
    if (grouped && reads_all)
        out->group[out->num_groups++] = group;
    for (int32_t i = 0; i < desc->layers && grouped; i++) {
        group.window = desc->layer[i].window;
        if (find_window(out, group.window) < out->num_groups)
            continue;
        grouped = out->num_groups < KV_MAX_GROUPS;
        if (grouped)
            out->group[out->num_groups++] = group;
    }
    if (!grouped) {
        group.window = reads_all ? 0 : most;
        out->num_groups = 1;
        out->group[0] = group;
    }
    for (int32_t i = 0; i < desc->layers; i++)
        out->group[kv_layout_find(out, desc, i).group].layers++;
}

struct kv_place kv_layout_find(const struct kv_layout *layout, const struct model_desc *desc,
                               int32_t layer)
{
    assert(layer < desc->layers);
    if (layout->num_groups == 1)
        return (struct kv_place){0, (uint32_t)layer};
    const int32_t window = desc->layer[layer].window;
    struct kv_place place = {find_window(layout, window), 0};
    assert(place.group < layout->num_groups);
    for (int32_t i = 0; i < layer; i++)
        place.layer += desc->layer[i].window == window;
    return place;
}

uint64_t kv_layout_page_bytes(const struct kv_layout *layout)
{
    uint64_t bytes = 0;
    for (uint32_t g = 0; g < layout->num_groups; g++)
        bytes += layout->group[g].page_bytes * layout->group[g].layers;
    return bytes;
}

uint64_t kv_layout_widest_bytes(const struct kv_layout *layout)
{
    uint64_t bytes = 0;
    for (uint32_t g = 0; g < layout->num_groups; g++)
        bytes = layout->group[g].page_bytes > bytes ? layout->group[g].page_bytes : bytes;
    return bytes;
}

uint32_t kv_layout_entries(const struct kv_layout *layout)
{
    return DGL_KV_TABLE_PAGES / layout->num_groups & ~1u; /* two entries share a word */
}

uint32_t kv_layout_identity(const struct kv_layout *layout)
{
    const struct kv_group *first = &layout->group[0];
    const uint32_t type = first->type[KV_KEYS];
    if (layout->num_groups == 1 && first->type[KV_VALUES] == type)
        return type;
    uint32_t h = 2166136261u; /* FNV-1a over words */
    for (uint32_t g = 0; g < layout->num_groups; g++) {
        const struct kv_group *group = &layout->group[g];
        const uint32_t words[] = {(uint32_t)group->window, group->layers, group->type[KV_KEYS],
                                  group->type[KV_VALUES]};
        for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
            h = (h ^ words[i]) * 16777619u;
    }
    return ((h | 0x100u) & ~0xffu) | type;
}
