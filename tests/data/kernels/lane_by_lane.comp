// Matrix-vector product by the libs weight_*_subgroup, on devices without subgroups.
//
// An invocation has a row, and computes the parts of all lanes one after the other.
//
//! NAME lane_by_lane
//! OP matmul
//! VARIANT lane_by_lane
//! WHEN phase decode
//! WHEN weight f32 f16 bf16 q8_0 q4_k q4_0 q4_1 q5_0 q5_1 q2_k q3_k q5_k q6_k mxfp4 iq4_nl iq4_xs
//! WHEN pre none
//! WHEN bias none
//! WHEN post store add
//! BIND read uvec4 W
//! BIND read vec4 X
//! BIND readwrite float Y
//! PARAM uint row0
//! PARAM uint rows
//! CONST K W_STRIDE
//! CONST X_LAST = 0
//! CONST SCALED = 0
//! TUNE SUBGROUP = 32 in 8 16 32
//! LET SLICES = ceildiv(K, 32 * SUBGROUP)
//! TUNE TINY = 1 in 0 1
//! LET HALVES = 0
//! SHARED uint lane_table[WEIGHT_iq4_nl || WEIGHT_iq4_xs ? 512 : 0]
//! TUNE WG_SIZE = 16 in 16
//! LOCAL WG_SIZE
//! GROUPS ceildiv(BAND, WG_SIZE)
//! REQUIRE W_STRIDE % 4 == 0 && !X_LAST && !SCALED
//! PREFER 1
//! TOLERANCE 3e-12
//! LIB weight_subgroup
//! LIB lane_iq4
//! LIB weight_{weight}_subgroup
//! LIB lane_dot

void body(uvec3 group)
{
    uint own = group.x * uint(LOCAL_X) + gl_LocalInvocationID.x;
    uint row = min(own, rows - 1u); // all invocations call lane_prepare()
    float sum = 0.0;
    for (uint slice = 0u; slice < uint(SLICES); slice++)
        for (uint lane = 0u; lane < uint(SUBGROUP); lane++) {
            uint raw[LANE_RAW];
            lane_begin(slice * uint(SUBGROUP), lane, uint(SUBGROUP), rows >> 31);
            lane_fetch(row * uint(W_STRIDE / 4), raw);
            for (int i = 0; i < 8; i++) {
                uint v = slice * uint(8 * SUBGROUP) + lane_vec4(lane, uint(i), uint(SUBGROUP));
                lane_x[i] = v < uint(K / 4) ? X[v] : vec4(0.0);
            }
            lane_prepare();
            sum += lane_dot(raw);
        }
    if (own >= rows)
        return;
#if POST_add
    Y[row0 + row] += sum;
#else
    Y[row0 + row] = sum;
#endif
}
