/*
 * kv_layout.h: the groups of layers that share pages of the KV cache. A page of a group holds
 * DGL_KV_PAGE positions of one sequence in every layer of the group: first the keys, then the
 * values. Each group has its own page size, element types, window and page table, so that its pages
 * can be kept and released on their own. By default all layers are one group.
 */
#ifndef DGL_CORE_KV_LAYOUT_H
#define DGL_CORE_KV_LAYOUT_H

#include "core/base/status.h"
#include "loader/desc/model_desc.h"

#define KV_MAX_GROUPS 4

enum kv_part { KV_KEYS, KV_VALUES, KV_PARTS };

struct kv_group {
    int32_t window; /* largest window of its layers; 0 if a layer reads all positions */
    uint32_t layers;
    enum dgl_kv_type type[KV_PARTS];
    uint64_t part_bytes[KV_PARTS]; /* keys, or values, of one layer in a page */
    uint64_t page_bytes;           /* of one layer: the sum of these */
};

struct kv_layout {
    uint32_t num_groups;
    struct kv_group group[KV_MAX_GROUPS];
};

/* Makes one group. If `by_window`, makes a group of each window instead, unless the model has more
 * than KV_MAX_GROUPS different windows. Layers without a window are then the first group. */
void kv_layout_init(struct kv_layout *out, const struct model_desc *desc, enum dgl_kv_type type,
                    bool by_window);

/* A layer as its group, and its number among the layers of the group. */
struct kv_place {
    uint32_t group, layer;
};
struct kv_place kv_layout_find(const struct kv_layout *layout, const struct model_desc *desc,
                               int32_t layer);

/* Bytes of one page in all groups and layers. */
uint64_t kv_layout_page_bytes(const struct kv_layout *layout);
/* Bytes of one page in a layer of the group with the largest pages. */
uint64_t kv_layout_widest_bytes(const struct kv_layout *layout);
/* Entries of the page table that each group has: group g has those from g times this number on. */
uint32_t kv_layout_entries(const struct kv_layout *layout);
/* Number that differs if groups, windows or element types differ. The low byte is the type of the
 * keys of the first group. For one group of one type the number is that type. */
uint32_t kv_layout_identity(const struct kv_layout *layout);

#endif
