/* Sizes of a plan: splits of attention, rows of sums, and bytes, with one function per kind of
 * memory, shared by allocation and estimate. */
#include <string.h>

#include "core/plan/arena_layout.h"
#include "core/plan/oplist_moe.h"
#include "core/plan/plan.h"
#include "core/plan/rope_table.h"
#include "kernels/step.h"

static bool uses_rope(const struct model_desc *d, int32_t set)
{
    for (int32_t i = 0; i < d->layers; i++)
        if (d->layer[i].rope == set)
            return true;
    return set == ROPE_GLOBAL; /* bound if the layer has no positions */
}

static bool has_post_norms(const struct plan *plan)
{
    for (uint32_t i = 0; i < plan->weights->num_layers; i++)
        if (plan->weights->layer[i].attn_post_norm != VECTOR_NONE ||
            plan->weights->layer[i].ffn_post_norm != VECTOR_NONE)
            return true;
    return false;
}

void plan_buffer_bytes(const struct plan *plan, int32_t context, int32_t rows,
                       uint64_t bytes[BUF_COUNT])
{
    const struct model_desc *d = plan->desc;
    uint64_t n = (uint64_t)rows, hidden = (uint64_t)d->hidden, dim = (uint64_t)d->head_dim;
    uint64_t heads = (uint64_t)d->heads, kv_heads = (uint64_t)d->kv_heads;
    uint64_t splits = plan->splits > plan->token_splits ? plan->splits : plan->token_splits;
    uint64_t partial = (heads * splits * (dim + 2) + 3) / 4 * 4; /* decode's split attention */
    memset(bytes, 0, BUF_COUNT * sizeof(bytes[0]));
    bytes[BUF_IDS] = ((uint64_t)context + 1) * 4;
    bytes[BUF_STEP] = sizeof(struct dgl_step_table);
    bytes[BUF_PAGES] = sizeof(struct dgl_kv_table);
    bytes[BUF_STOPS] = (1 + MODEL_MAX_STOP_IDS) * 4;
    bytes[BUF_ARGS] = (plan_body(plan, PASS_DECODE)->ops.count + 64) * 12;
    for (int32_t set = 0; set < ROPE_SETS; set++)
        if (uses_rope(d, set))
            bytes[BUF_ROPE_GLOBAL + set] = rope_table_bytes(&d->rope[set], context);
    bytes[BUF_X] = n * hidden * 4;
    if (has_post_norms(plan))
        bytes[BUF_X2] = hidden * 4;
    bytes[BUF_NORMED] = n * hidden * 4;
    bytes[BUF_QKV] = n * (heads + 2 * kv_heads) * dim * 4;
    bytes[BUF_ATT] = (n * heads * dim > partial ? n * heads * dim : partial) * 4;
    bytes[BUF_MERGED] = heads * dim * 4;
    bytes[BUF_ACT] = n * (uint64_t)d->intermediate * 4;
    bytes[BUF_LOGITS] = (uint64_t)d->vocab * 4;
    bytes[BUF_ARRIVED] = (heads > 256 ? heads : 256) * 4;
    /* Tiles of up to 256 tokens. Passes over more than 512 tokens fill the device without
     * splitting. */
    uint64_t padded = n < 512 ? (n + 255) / 256 * 256 : 512;
    bytes[BUF_SUMS] = padded * plan->sum_rows * 4 + 16;
    bytes[BUF_ADJUST] = (uint64_t)oplist_adjust_words((uint32_t)d->vocab) * 4;
    bytes[BUF_COUNTS] = (uint64_t)d->vocab * 4;
    bytes[BUF_CAND] = oplist_sample_scratch_bytes((uint32_t)d->vocab);
    if (d->moe.experts > 0) {
        uint64_t pairs = n * (uint64_t)d->moe.top_k;
        uint64_t act = pairs * (uint64_t)d->moe.intermediate * 4;
        bytes[BUF_ACT] = act > bytes[BUF_ACT] ? act : bytes[BUF_ACT];
        bytes[BUF_ROUTER] = n * (uint64_t)moe_logits_stride(&d->moe) * 4;
        bytes[BUF_ROUTE] = pairs * 8;
        bytes[BUF_EXPERT_ROWS] = ((uint64_t)d->moe.experts + 1 + pairs) * 4;
        bytes[BUF_EXPERTS] = pairs * hidden * 4;
    }
}

void plan_sequence_bytes(const struct plan *plan, int32_t context, uint64_t bytes[BUF_COUNT])
{
    plan_buffer_bytes(plan, context, 1, bytes);
}

uint64_t plan_sequence_total(const struct plan *plan, int32_t context)
{
    uint64_t own[BUF_COUNT];
    plan_sequence_bytes(plan, context, own);
    return arena_layout_bytes(plan->device, own, BUF_COUNT);
}

uint32_t plan_batch_splits(uint32_t splits, int32_t columns)
{
    const uint32_t least =
        splits < 2 ? splits : 2; /* of models with sinks, which attn_merge adds */
    return splits / (uint32_t)columns > least ? splits / (uint32_t)columns : least;
}

void plan_batch_bytes(const struct plan *plan, int32_t context, int32_t sequences,
                      uint64_t bytes[BUF_COUNT])
{
    static const enum plan_buffer each[] = {BUF_IDS,     BUF_LOGITS, BUF_ADJUST,
                                            BUF_ARRIVED, BUF_CAND,   BUF_COUNTS};
    const struct model_desc *d = plan->desc;
    const uint64_t n = (uint64_t)sequences, heads = (uint64_t)d->heads;
    const uint64_t dim = (uint64_t)d->head_dim;
    plan_buffer_bytes(plan, context, sequences, bytes);
    for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++)
        bytes[each[i]] *= n;
    bytes[BUF_MERGED] = n * heads * dim * 4;
    for (uint64_t columns = 2; columns <= DGL_STEP_SEQS; columns *= 2) {
        const uint64_t a = plan_batch_splits(plan->splits, (int32_t)columns);
        const uint64_t b = plan_batch_splits(plan->token_splits, (int32_t)columns);
        const uint64_t part = (heads * (a > b ? a : b) * (dim + 2) + 3) / 4 * 16;
        const uint64_t rows = n < columns ? n : columns;
        bytes[BUF_ATT] = rows * part > bytes[BUF_ATT] ? rows * part : bytes[BUF_ATT];
    }
    bytes[BUF_REPORT] = n * OPLIST_REPORT_WORDS * 4;
}

void plan_batch_own_bytes(const struct plan *plan, int32_t context, int32_t sequences,
                          uint64_t bytes[BUF_COUNT])
{
    uint64_t scratch[BUF_COUNT];
    plan_batch_bytes(plan, context, sequences, bytes);
    plan_batch_bytes(plan, 1, sequences < PLAN_PHASE_ROWS ? sequences : PLAN_PHASE_ROWS, scratch);
    scratch[BUF_SUMS] = 0;
    for (int i = BUF_STATE_COUNT; i < BUF_COUNT; i++)
        bytes[i] = scratch[i];
}

int32_t plan_batch_slots(const struct plan *plan, int32_t context, int32_t sequences)
{
    const uint64_t binding = plan_device_binding_bytes(plan->device);
    uint64_t bytes[BUF_COUNT];
    sequences = sequences < DGL_STEP_SEQS ? sequences : DGL_STEP_SEQS;
    for (; sequences > 1; sequences--) {
        bool fits = true;
        plan_batch_bytes(plan, context, sequences, bytes);
        for (int i = 0; i < BUF_COUNT; i++)
            fits = fits && bytes[i] <= binding;
        if (fits)
            break;
    }
    return sequences;
}

uint64_t plan_batch_total(const struct plan *plan, const struct plan_batch *batch, uint64_t *state)
{
    const int32_t context = batch->context;
    const int32_t rows = batch->rows < context ? batch->rows : context;
    uint64_t shared[BUF_COUNT], group[BUF_COUNT], own[BUF_COUNT], total = 0;
    *state = (uint64_t)batch->sequences * plan_sequence_total(plan, context);
    plan_buffer_bytes(plan, context, rows, shared);
    for (int32_t first = 0, i = 0; batch->groups && i < PLAN_BATCH_GROUPS; i++) {
        const int32_t slots = plan_batch_slots(plan, context, batch->sequences - first);
        if (slots < 2)
            break;
        plan_batch_bytes(plan, context, slots, group);
        plan_batch_own_bytes(plan, context, slots, own);
        *state += arena_layout_bytes(plan->device, own, BUF_COUNT);
        for (int k = BUF_STATE_COUNT; k < BUF_COUNT; k++)
            shared[k] = group[k] > shared[k] ? group[k] : shared[k];
        first += slots;
    }
    for (int i = BUF_STATE_COUNT; i < BUF_COUNT; i++)
        total += shared[i];
    return total + *state;
}

uint64_t plan_kv_layer_bytes(const struct plan *plan, int32_t tokens)
{
    return kv_layout_widest_bytes(&plan->kv) * (uint64_t)tokens / DGL_KV_PAGE;
}

uint32_t plan_kv_pages(int32_t tokens)
{
    return ((uint32_t)tokens + DGL_KV_PAGE - 1) / DGL_KV_PAGE;
}

uint64_t plan_kv_read_bytes(const struct plan *plan, uint32_t layer, int32_t rows, int32_t held)
{
    const int32_t window = plan->desc->layer[layer].window;
    const int32_t seen = window > 0 && window < held - rows + 1 ? window + rows - 1 : held;
    const struct kv_place at = kv_layout_find(&plan->kv, plan->desc, (int32_t)layer);
    return plan->kv.group[at.group].page_bytes * (uint64_t)seen / DGL_KV_PAGE;
}

int32_t plan_most_rows(const struct plan *plan)
{
    uint64_t one[BUF_COUNT], two[BUF_COUNT], widest = 1;
    plan_buffer_bytes(plan, 1, 1, one);
    plan_buffer_bytes(plan, 1, 2, two);
    for (int i = 0; i < BUF_COUNT; i++)
        widest = two[i] - one[i] > widest ? two[i] - one[i] : widest;
    uint64_t rows = plan_device_binding_bytes(plan->device) / widest;
    return rows < INT32_MAX ? (int32_t)rows : INT32_MAX;
}

int32_t plan_default_rows(const struct plan *plan)
{
    int32_t rows = plan->device->software ? 128 : 512, most = plan_most_rows(plan);
    return rows < most ? rows : most;
}

void plan_estimate(const struct plan *plan, const struct plan_batch *batch, uint64_t available,
                   struct dgl_memory *out)
{
    const uint64_t each = (uint64_t)batch->sequences, page_bytes = kv_layout_page_bytes(&plan->kv);
    const uint64_t entries = kv_layout_entries(&plan->kv);
    const int32_t context = batch->context;
    uint64_t room = UINT64_MAX, state;
    *out = (struct dgl_memory){
        .weight_bytes = plan->weights->bytes, .available_bytes = available, .context = context};
    out->scratch_bytes = plan_batch_total(plan, batch, &state);
    out->kv_bytes = each * plan_kv_pages(context) * page_bytes;
    if (available) {
        uint64_t fixed = out->weight_bytes + out->scratch_bytes;
        room = available > fixed ? available - fixed : 0;
    }
    /* One binding must contain a layer's pages, and one page table a sequence's pages. */
    uint64_t fit = room / (page_bytes * each);
    uint64_t bound =
        plan_device_binding_bytes(plan->device) / (kv_layout_widest_bytes(&plan->kv) * each);
    fit = fit < bound ? fit : bound;
    fit = (fit < entries ? fit : entries) * DGL_KV_PAGE;
    out->context_fit = fit < (uint64_t)context ? (int32_t)fit : context;
}

uint32_t plan_choose_splits(const struct plan_device *device, const struct model_desc *desc)
{
    uint32_t splits = 1;
    for (int32_t i = 0; i < desc->layers; i++)
        if (desc->layer[i].sinks != TENSOR_NONE)
            splits = 2; /* attn_merge puts them in */
    if (device->software)
        return splits;
    while (splits < 32 && splits * 2 * (uint32_t)desc->kv_heads <= device->compute_units)
        splits *= 2;
    return splits;
}

/* Two groups per unit. More are slower, because the last group to finish reads the results of all
 * groups of a KV head. */
uint32_t plan_token_splits(const struct plan_device *device, const struct model_desc *desc)
{
    uint32_t splits = device->software ? 1 : 2 * device->compute_units / (uint32_t)desc->kv_heads;
    return splits < 1 ? 1 : splits > 64 ? 64 : splits;
}

uint32_t plan_sum_rows(const struct plan_device *device)
{
    /* Three times the number of tiles of 128 rows and 256 tokens that the device processes at a
     * time. */
    return device->software ? 0 : device->compute_units * 192;
}
