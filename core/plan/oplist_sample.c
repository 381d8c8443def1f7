/* The three sampling lists of docs/operations.md. */
#include "core/plan/oplist_sample.h"

#include "core/plan/fusion.h"

static const char *const kind_word[SAMPLE_KINDS] = {
    [SAMPLE_GREEDY] = "greedy", [SAMPLE_TOPK] = "topk", [SAMPLE_FULL] = "full"};

/* One of the operations that turn logits into candidates. */
static struct op *add_stage(struct oplist *list, const struct oplist_params *p, const char *name,
                            enum sample_kind kind)
{
    struct op *op = oplist_append(list, DGL_PHASE_SAMPLE, -1, name, name);
    op_attr(op, "kind", kind_word[kind]);
    op_const(op, "VOCAB", p->desc->vocab);
    op_bind_buffer(op, "LOGITS", BUF_LOGITS);
    op_bind_buffer(op, "CAND", BUF_CAND);
    op_bind_buffer(op, "IDS", BUF_IDS);
    op_bind_buffer(op, "STEP", BUF_STEP);
    op_bind_buffer(op, "STOPS", BUF_STOPS);
    op_bind_buffer(op, "ADJUST", BUF_ADJUST);
    op_bind_buffer(op, "COUNTS", BUF_COUNTS);
    op_bind_buffer(op, "ARRIVED", BUF_ARRIVED);
    return op;
}

void oplist_adjust(struct oplist *list, const struct oplist_params *p)
{
    add_stage(list, p, "sample_adjust", SAMPLE_GREEDY);
}

void oplist_mask(struct oplist *list, const struct oplist_params *p)
{
    add_stage(list, p, "sample_mask", SAMPLE_GREEDY);
}

void oplist_filter(struct oplist *list, const struct oplist_params *p)
{
    add_stage(list, p, "sample_filter", SAMPLE_GREEDY);
}

/* Adds one fused operation for all of them, including the end of a batch. */
static void add_fused(struct oplist *list, const struct oplist_params *p, enum sample_kind kind)
{
    struct op *op = oplist_append(list, DGL_PHASE_SAMPLE, -1, "sample", "sample_next");
    op_attr(op, "kind", kind_word[kind]);
    op_const(op, "VOCAB", p->desc->vocab);
    op_op_count(op, "count");
    op_bind_buffer(op, "LOGITS", BUF_LOGITS);
    op_bind_buffer(op, "CAND", BUF_CAND);
    op_bind_buffer(op, "ARRIVED", BUF_ARRIVED);
    op_bind_buffer(op, "STOPS", BUF_STOPS);
    op_bind_buffer(op, "IDS", BUF_IDS);
    op_bind_buffer(op, "STEP", BUF_STEP);
    op_bind_buffer(op, "ARGS", BUF_ARGS);
}

bool oplist_sample(struct oplist *list, const struct oplist_params *p, enum sample_kind kind)
{
    size_t fused = list->count;
    add_fused(list, p, kind);
    size_t separate = list->count;
    add_stage(list, p, kind == SAMPLE_TOPK ? "sample_topk" : "sample_max", kind);
    if (kind == SAMPLE_FULL) {
        for (int level = 0; level < 3; level++)
            op_const(add_stage(list, p, "sample_hist", kind), "LEVEL", level);
        add_stage(list, p, "sample_mass", kind);
        add_stage(list, p, "sample_find", kind);
    }
    add_stage(list, p, "sample_pick", kind);
    oplist_early_exit(list);
    if (fusion_keep(p->fusion, list, fused, separate))
        return true;
    if (!list->failed)
        list->count--; /* the end of a batch is its own body */
    return false;
}

void oplist_early_exit(struct oplist *list)
{
    struct op *op = oplist_append(list, DGL_PHASE_SAMPLE, -1, "sample_args", "sample_args");
    op_bind_buffer(op, "ARGS", BUF_ARGS);
    op_op_count(op, "count");
}

uint32_t oplist_sequences_at(uint32_t vocab)
{
    return ADJUST_MARKS + (vocab + 15) / 16;
}

uint32_t oplist_filters_at(uint32_t vocab)
{
    return oplist_sequences_at(vocab) + ADJUST_MAX_SEQUENCE_WORDS;
}

uint32_t oplist_mask_at(uint32_t vocab)
{
    return oplist_filters_at(vocab) + FILTER_WORDS;
}

uint32_t oplist_mask_words(uint32_t vocab)
{
    return (vocab + 31) / 32;
}

uint32_t oplist_adjust_words(uint32_t vocab)
{
    return oplist_mask_at(vocab) + oplist_mask_words(vocab);
}

uint64_t oplist_sample_scratch_bytes(uint32_t vocab)
{
    uint64_t slices = ((uint64_t)vocab + 2047) / 2048;
    uint64_t topk = 256 * slices, full = 6 * slices + 6144 + 6;
    return 4 * (4 + (topk > full ? topk : full));
}
