// The table of IQ4 for kernels with subgroups.
//
// The 16 entries are in shared memory once for each of 32 banks, so that lanes with different codes
// do not wait for each other. Needs lane_table of 512 words, the tunable WG_SIZE and lib
// weight_subgroup.
#if WEIGHT_iq4_nl || WEIGHT_iq4_xs
void lane_fill_table()
{
    for (uint i = gl_LocalInvocationID.x; i < 512u; i += uint(WG_SIZE)) {
        float t = 1.0 + float(i / 32u) / 16.0; // as iq4_entries() in lib weight_words
        t = (((103.593 * t - 286.218) * t - 114.775) * t + 1060.82) * t - 890.0;
        lane_table[i] = floatBitsToUint(floor(t + 0.5));
    }
    memoryBarrierShared(); barrier();
}

#define LANE_ENTRY(bits) \
    uintBitsToFloat(lane_table[((bits) & 0x1E0u) | (gl_LocalInvocationID.x & 31u)])
#define LANE_TABLES lane_fill_table();
#define LANE_READY(raw, row)
#define LANE_QUAD(raw, row, i) \
    vec4(LANE_ENTRY((raw)[(row) + (i)] << 5), LANE_ENTRY((raw)[(row) + (i)] >> 3), \
         LANE_ENTRY((raw)[(row) + (i)] >> 11), LANE_ENTRY((raw)[(row) + (i)] >> 19))
#define LANE_TURN(raw, row)
#define LANE_LATER(raw, row, i) \
    vec4(LANE_ENTRY((raw)[(row) + (i)] << 1), LANE_ENTRY((raw)[(row) + (i)] >> 7), \
         LANE_ENTRY((raw)[(row) + (i)] >> 15), LANE_ENTRY((raw)[(row) + (i)] >> 23))
#endif
