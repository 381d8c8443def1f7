// The table of IQ4 for kernels with subgroups.
//
// Each of 32 banks of shared memory has a table of its own, so that lanes with different codes do
// not wait for each other. Needs the tunable WG_SIZE. It must precede lib weight_*_subgroup.
//
//! SHARED float lane_iq4[WEIGHT_iq4_nl || WEIGHT_iq4_xs ? 512 : 0] // fixed: 16 entries, 32 banks
#if WEIGHT_iq4_nl || WEIGHT_iq4_xs
// The polynomial of iq4_entries() in lib weight_words.
float lane_entry_of(float t)
{
    t = (((103.593 * t - 286.218) * t - 114.775) * t + 1060.82) * t - 890.0;
    return floor(t + 0.5);
}

void lane_entries()
{
    for (uint i = gl_LocalInvocationID.x; i < 512u; i += uint(WG_SIZE))
        lane_iq4[i] = lane_entry_of(1.0 + float(i / 32u) / 16.0);
    memoryBarrierShared(); barrier();
}

#define LANE_ENTRY(bits) lane_iq4[((bits) & 0x1E0u) | (gl_LocalInvocationID.x & 31u)]
#define LANE_TABLES      lane_entries();
#define LANE_READY(raw, row)
#define LANE_QUAD(raw, row, i) \
    vec4(LANE_ENTRY((raw)[(row) + (i)] << 5), LANE_ENTRY((raw)[(row) + (i)] >> 3), \
         LANE_ENTRY((raw)[(row) + (i)] >> 11), LANE_ENTRY((raw)[(row) + (i)] >> 19))
#define LANE_NEXT(raw, row) LANE_SHIFT4(raw, row, 4)
#endif
