/* References to ranges. */
#include "core/memory/memory.h"

#include <assert.h>
#include <string.h>

enum dgl_status memory_init_state(struct memory *memory, struct dgl_device *dev,
                                  const struct plan *plan, int32_t context, int32_t sequences)
{
    uint64_t sizes[BUF_COUNT];
    struct gl_range ranges[BUF_COUNT];
    if (sequences == 1)
        plan_sequence_bytes(plan, context, sizes);
    else
        plan_batch_own_bytes(plan, context, sequences, sizes);
    enum dgl_status status = arena_init(&memory->arena, dev, "sequence", sizes, BUF_COUNT, ranges);
    for (int i = 0; i < BUF_COUNT; i++)
        *(i < BUF_STATE_COUNT ? &memory->state[i] : &memory->step_scratch[i]) = ranges[i];
    return status;
}

enum dgl_status memory_fit_plan(struct memory *memory, struct dgl_device *dev,
                                const struct plan *plan)
{
    uint64_t sizes[BUF_COUNT];
    struct arena args;
    struct gl_range range;
    plan_sequence_bytes(plan, 1, sizes);
    if (sizes[BUF_ARGS] <= memory->state[BUF_ARGS].size)
        return DGL_OK;
    enum dgl_status status = arena_init(&args, dev, "sequence", &sizes[BUF_ARGS], 1, &range);
    if (status != DGL_OK)
        return status;
    arena_finish(&memory->args, dev);
    memory->args = args;
    memory->state[BUF_ARGS] = range;
    return DGL_OK;
}

void memory_finish_state(struct memory *memory, struct dgl_device *dev)
{
    arena_finish(&memory->arena, dev);
    arena_finish(&memory->args, dev);
    memset(memory->state, 0, sizeof(memory->state));
    memset(memory->step_scratch, 0, sizeof(memory->step_scratch));
}

struct gl_range memory_resolve(const struct memory *memory, struct ref ref)
{
    struct gl_range range = {0};
    switch (ref.kind) {
    case REF_STATE:
        assert(ref.id < BUF_STATE_COUNT);
        range = memory->state[ref.id];
        break;
    case REF_ACT:
        assert(ref.id >= BUF_STATE_COUNT && ref.id < BUF_COUNT);
        range = memory->workspace->range[ref.id];
        break;
    case REF_WEIGHT:
        range = weight_buffers_band(memory->weights, ref.id, ref.part);
        break;
    case REF_VECTOR:
        range = weight_buffers_vector(memory->weights, ref.id);
        break;
    case REF_KV:
        assert(ref.part < memory->kv->num_groups);
        assert(ref.id < memory->kv->store[ref.part].group.layers);
        range = memory->kv->store[ref.part].layer[ref.id];
        break;
    }
    assert(range.buffer);
    return range;
}

bool memory_is_like(const struct memory *a, const struct memory *b)
{
    bool like = a->arena.count == b->arena.count && a->args.count == b->args.count &&
                a->workspace == b->workspace && a->kv == b->kv && a->weights == b->weights;
    for (int i = 0; i < BUF_COUNT && like; i++) {
        const bool state = i < BUF_STATE_COUNT;
        const struct gl_range *x = state ? &a->state[i] : &a->step_scratch[i];
        const struct gl_range *y = state ? &b->state[i] : &b->step_scratch[i];
        like = x->offset == y->offset && x->size == y->size;
    }
    return like;
}

static void move_in(const struct arena *from, const struct arena *to, struct gl_range *ranges,
                    uint32_t count)
{
    for (size_t b = 0; b < from->count; b++)
        for (uint32_t i = 0; i < count; i++)
            if (ranges[i].buffer == from->buffers[b])
                ranges[i].buffer = to->buffers[b];
}

void memory_move(const struct memory *from, const struct memory *to, struct gl_range *ranges,
                 uint32_t count)
{
    move_in(&from->arena, &to->arena, ranges, count);
    move_in(&from->args, &to->args, ranges, count);
}
