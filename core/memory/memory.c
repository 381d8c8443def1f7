/* References to ranges. */
#include "core/memory/memory.h"

#include <assert.h>

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
        assert(ref.id < memory->kv->layers);
        range = memory->kv->layer[ref.id];
        break;
    }
    assert(range.buffer);
    return range;
}
