// Arrivals of work groups at a counter, without waiting.
//
// A counter of ARRIVED is 0 between dispatches: the last group resets it. Buffers that all groups
// write and the last group reads are coherent. `coherent` makes writes visible, and
// memoryBarrierBuffer() orders them (OpenGL ES 3.1, 4.9 of the language). Needs `coherent uint
// ARRIVED[]`.

// Returns the number of work groups, of `groups`, that had arrived before. One invocation calls it,
// after a barrier() that follows each invocation's memoryBarrierBuffer().
uint arrive(uint counter, uint groups)
{
    uint before = atomicAdd(ARRIVED[counter], 1u);
    if (before + 1u == groups)
        ARRIVED[counter] = 0u;
    return before;
}
