// The experts of one token with subgroups: lanes keep their part of x in registers, read 16 bytes.
//
// Each of the TOP_K chosen experts multiplies its weights with a vector, by lib gemv_subgroup. With
// post=glu, all experts have the same x, and each choice has a result row of its own. With
// post=combine, the rows of the chosen experts that are added to one result form one row, TOP_K
// times as long. The weights of the choices are applied when x is staged in shared memory. X is
// [TOP_K or 1][X_STRIDE] and Y is [TOP_K][Y_STRIDE], or one row with post=combine; both are f32. W
// has one band of the rows of all experts, in its packed layout. If a row is in another band, row 0
// of W is read instead and counts as 0.
//
// Layout: work groups in x divide the rows of an expert. With post=glu, y is the choice. In total
// there are about UNIT_GROUPS groups per compute unit. Each invocation keeps 32 columns of x in
// registers.
//
// Choice: PREFER 30 (5 on software renderers), above moe_decode (10).
//
// TUNEs: THREE is set if a row has three slices; groups then have up to 768 invocations. UNROLL is
// the number of rows that are computed together: more rows hide more latency, but need more
// registers. LEAST and UNIT_GROUPS set the number of groups. MOST limits WG_SIZE. TAIL is always 0.
// TINY is explained in matmul_decode_subgroup. SUBGROUP is always the device's SUBGROUP_SIZE.
//
// One H200 (driver 580), one dispatch of many in a submit, barrier included, weights in no cache,
// 2026-11-22, `build/tests/test_kernels_matmul list FILE`. Time in us, and GB/s of weights; sizes
// are K x TOP_K x N:
//     gpt-oss-20b, mxfp4   gate_up 2880 x 4 x 5760   23.4  1610  down 2880 x 4 x 2880  16.5  1140
//     qwen3-30b-a3b, q4_k  gate_up 2048 x 8 x 1536   11.6  1220  down 768 x 8 x 2048    9.8   720
//     mixtral-8x7b, q4_k   gate_up 4096 x 2 x 28672  53.8  2460  down 14336 x 2 x 4096 47.0  1410
// One group more than there are compute units increases the time by half.
//
// Registers (Mesa 25.0.7 over drm-shim, 2026-11-28, spills:fills). With LLVM 15, 512 invocations
// spill 7 to 12 registers with UNROLL 2, and 0 to 3 with UNROLL 1. 256 invocations with UNROLL 1
// spill none. REGISTERS selects these.
//
//! NAME moe_decode_subgroup
//! OP moe_matmul
//! VARIANT subgroup gemv_subgroup
//! WHEN phase decode
//! WHEN weight any
//! WHEN post glu combine
//! WHEN act none silu swiglu_clamp
//! WHEN bias none row
//! BIND read uvec4 W
//! BIND read vec4 X
//! BIND readwrite float Y
//! BIND read uvec2 ROUTE
//! PARAM uint row0
//! PARAM uint rows
//! PARAM float scale
//! PARAM float act_alpha
//! PARAM float act_limit
//! CONST K EXPERT_ROWS TOP_K W_STRIDE X_STRIDE Y_STRIDE
//! TUNE SUBGROUP = SUBGROUP_SIZE in 8 16 32 64 128
//! TUNE THREE = K > 64 * SUBGROUP && K <= 96 * SUBGROUP in 0 1
//! TUNE MOST = THREE ? 768 : REGISTERS <= 93 ? 256 : 512 in 256 512 768
//! TUNE WG_SIZE = SOFTWARE ? 64 : min(MOST, MAX_INVOCATIONS) in 64 128 256 384 512 768
//! TUNE TINY = COMPUTE_UNITS >= 64 && REGISTERS > 200 in 0 1
//! TUNE UNROLL = WEIGHT_f32 || REGISTERS <= 93 ? 1 : 2 in 1 2 4
//! TUNE TAIL = 0 in 0
//! TUNE LEAST = 4 in 2 4 8 16 32
//! TUNE UNIT_GROUPS = 1 in 1 2 3 4 6 8 12 16
//! LET ROW_SLICES = ceildiv(K, 32 * SUBGROUP)
//! LET SLICES = POST_glu ? ROW_SLICES : ROW_SLICES * TOP_K
//! LET CHOICES = POST_glu ? TOP_K : 1
//! LET GROUPS_MOST = max(1, UNIT_GROUPS * max(COMPUTE_UNITS, 16) / CHOICES)
//! LET SHARES = min(ceildiv(EXPERT_ROWS, LEAST), GROUPS_MOST)
//! LET GROUP_ROWS = (1 + POST_glu) * ceildiv(EXPERT_ROWS, (1 + POST_glu) * SHARES)
//! LET W_WIDTH = 4
//! LET HALVES = 0
//! LOCAL WG_SIZE
//! GROUPS SHARES CHOICES
//! ACTIVE min(SHARES * WG_SIZE, ceildiv(EXPERT_ROWS, UNROLL) * SLICES * SUBGROUP) * CHOICES
//! EXTENSION GL_KHR_shader_subgroup_basic
//! EXTENSION GL_KHR_shader_subgroup_shuffle
//! REQUIRE SUBGROUP == SUBGROUP_SIZE && SUBGROUP_SIZE >= 8
//! REQUIRE W_STRIDE % 4 == 0
//! REQUIRE WG_SIZE % SUBGROUP == 0 && UNROLL <= SUBGROUP
//! PREFER SOFTWARE ? 5 : 30
//! LIB weight_subgroup
//! LIB lane_iq4
//! LIB weight_{weight}_subgroup weight_{weight}
//! LIB weight_{weight}_subgroup weight_columns_subgroup
//! LIB lane_dot
//! LIB moe_glu
//! LIB moe_rows
//! LIB moe_choice
//! LIB loop_end
//! LIB gemv_subgroup

uint first;        // first row of the work group within the expert
uint choice;       // with post=glu
uint slice_expert; // expert of the slice that gemv_slice() selected

uint gemv_slice(uint slice)
{
#if POST_glu
    slice_expert = ROUTE[choice].x;
#else
    slice_expert = ROUTE[slice / uint(ROW_SLICES)].x;
#endif
    return slice % uint(ROW_SLICES);
}

uint gemv_row(uint r)
{
    uint row = band_row(slice_expert, first + r);
    return (row < rows ? row : 0u) * uint(W_STRIDE / 4);
}

bool gemv_has(uint slice, uint r)
{
    return band_row(slice_expert, first + r) < rows;
}

vec4 gemv_x(uint slice, uint i)
{
    uint v = slice % uint(ROW_SLICES) * uint(8 * SUBGROUP) + i;
    bool inside = slice < uint(SLICES) && v < uint(K / 4);
#if POST_glu
    choose(choice);
#else
    choose(min(slice, uint(SLICES - 1)) / uint(ROW_SLICES));
#endif
    vec4 x = choice_x(min(v, uint(K / 4 - 1)));
    return inside ? x : vec4(0.0);
}

// Starts to load the first weights of the group's rows.
void rows_begin(uvec3 group)
{
    const uint ROW_STEP = uint(1 + POST_glu); // pairs
    const uint STEPS = uint(EXPERT_ROWS) / ROW_STEP, SHARE = STEPS / uint(SHARES);
    uint more = STEPS % uint(SHARES);
    choice = min(group.y, uint(CHOICES - 1));
    first = ROW_STEP * (group.x * SHARE + min(group.x, more));
    gemv_count = 0u;
    if (group.x < uint(SHARES))
        gemv_begin(ROW_STEP * (SHARE + (group.x < more ? 1u : 0u)), rows >> 31);
}

// With post=combine, ROUTE was complete before the previous operation, which read it. With
// post=glu, the previous operation may write ROUTE, so the rows begin in body().
void begin(uvec3 group)
{
#if POST_combine
    rows_begin(group);
#endif
}

void body(uvec3 group)
{
#if POST_glu
    rows_begin(group);
#endif
    uint tid = gl_LocalInvocationID.x, count = gemv_count, zero = rows >> 31;
    if (count == 0u)
        return;
    for (uint chunk = 0u; chunk < count; chunk += uint(CHUNK)) {
        uint n = min(count - chunk, uint(CHUNK)), row = first + chunk;
#if POST_glu
        uint gate = band_row(ROUTE[choice].x, row + 2u * tid);
        float gate_bias = band_bias(gate), up_bias = band_bias(gate + 1u);
#else
        float before = tid < n ? add_biases(Y[row + tid], row + tid) : 0.0;
#endif
        gemv_chunk(chunk, n, zero);
#if POST_glu
        if (tid < n / 2u && gate < rows)
            Y[choice * uint(Y_STRIDE) + row / 2u + tid] =
                glu(gemv_sum(2u * tid) + gate_bias, gemv_sum(2u * tid + 1u) + up_bias);
#else
        // No second `tid < n`: see "Repeated conditions" of docs/kernels.md.
        if (tid < uint(CHUNK) && chunk + tid < count)
            Y[row + tid] = before + gemv_sum(tid);
#endif
        if (chunk + uint(CHUNK) < count) {
            memoryBarrierShared(); barrier(); // `part` has been read
        }
    }
}
