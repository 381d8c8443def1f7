// The experts of one token with subgroups: lanes keep their part of x in registers, read 16 bytes.
//
// Lib gemv_subgroup, with one barrier. post=glu: group.y is the choice. post=combine: the rows of
// the chosen experts that meet in one result are taken for one row, TOP_K times as long, whose x is
// weighted when it is loaded; its slices are shared out among the subgroups like those of any other
// row. A row that another band has is read from this band's first row and counts as 0. Groups: x
// covers an expert's rows, ROWS each, y with post=glu the choices. LONG: rows that twice the
// subgroups share.
//
// One H200 (driver 580), all layers of a token, 2026-11-21, `dopplergl bench --shape SHAPE
// --profile --kernel-hints ...`; us and GB/s of weights, of gate_up and then of down:
//     WG_SIZE, ROWS           128, 8              256, 8              128, 16 (gate_up)
//     gpt-oss-20b:mxfp4      1058  855   870 520   1156  782   795 569   1160  780
//     mixtral-8x7b:q4_k      2517 1680  2302 918   3476 1216  2511 842   2605 1623
//     qwen3-30b-a3b:q4_k     1016  669  1007 338   1155  588   889 382   1070  635
// Four rows at a time are slower. An empty dispatch with its barrier is 3 us of each, per layer.
//
//! NAME moe_decode_subgroup
//! OP moe_matmul
//! VARIANT subgroup gemv_subgroup
//! WHEN phase decode
//! WHEN weight f32 f16 bf16 q8_0 q4_k q4_0 q5_k q6_k mxfp4 affine
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
//! TUNE LONG = POST_combine && K * TOP_K > 128 * SUBGROUP && K * TOP_K < 512 * SUBGROUP in 0 1
//! TUNE WG_SIZE = LONG && MAX_INVOCATIONS >= 256 ? 256 : 128 in 64 96 128 192 256 512
//! TUNE UNROLL = WEIGHT_f32 ? 1 : 2 in 1 2 4
//! TUNE ROWS = 8 in 8 16 32 64
//! LET ROW_SLICES = ceildiv(K, 32 * SUBGROUP)
//! LET SLICES = POST_glu ? ROW_SLICES : ROW_SLICES * TOP_K
//! LET W_WIDTH = 4
//! LOCAL WG_SIZE
//! GROUPS ceildiv(EXPERT_ROWS, ROWS) POST_glu ? TOP_K : 1
//! EXTENSION GL_KHR_shader_subgroup_basic
//! EXTENSION GL_KHR_shader_subgroup_shuffle
//! REQUIRE SUBGROUP_SIZE >= 8
//! REQUIRE W_STRIDE % 4 == 0
//! REQUIRE WG_SIZE % SUBGROUP == 0 && ROWS <= WG_SIZE && ROWS % UNROLL == 0 && UNROLL <= SUBGROUP
//! PREFER SOFTWARE ? 5 : 30
//! LIB weight_subgroup
//! LIB weight_{weight}_subgroup
//! LIB moe_glu
//! LIB moe_rows
//! LIB moe_choice
//! LIB gemv_subgroup

uint first; // first row of the work group within the expert

uint gemv_row(uint r)
{
    uint row = band_row(choice_expert, first + r);
    return (row < rows ? row : 0u) * uint(W_STRIDE / 4);
}

bool gemv_has(uint r)
{
    return band_row(choice_expert, first + r) < rows;
}

vec4 gemv_x(uint i)
{
    return choice_x(i);
}

void body(uvec3 group)
{
    uint lane = gl_SubgroupInvocationID, r = gl_LocalInvocationID.x;
    uint sg_k = gl_SubgroupID % uint(SUBGROUPS_K), sg_n = gl_SubgroupID / uint(SUBGROUPS_K);
    uint one = 0x3F800000u | (rows >> 31);
    first = group.x * uint(ROWS);
#if POST_glu
    uint s = min(group.y, uint(TOP_K - 1));
    choose(s);
#else
    float before = r < uint(ROWS) && first + r < uint(EXPERT_ROWS) ? Y[first + r] : 0.0;
#endif
    if (sg_n < uint(SUBGROUPS_N))
        for (uint slice = sg_k; slice < uint(SLICES); slice += uint(SUBGROUPS_K)) {
#if POST_combine
            choose(slice / uint(ROW_SLICES));
#endif
            gemv_slice(slice % uint(ROW_SLICES), sg_k, sg_n, slice >= uint(SUBGROUPS_K), lane, one);
        }
    memoryBarrierShared(); barrier();
#if POST_glu
    uint gate = band_row(choice_expert, first + 2u * r);
    if (r < uint(ROWS / 2) && gate < rows)
        Y[s * uint(Y_STRIDE) + first / 2u + r] = glu(gemv_sum(2u * r) + band_bias(gate),
                                                     gemv_sum(2u * r + 1u) + band_bias(gate + 1u));
#else
    if (r < uint(ROWS) && first + r < uint(EXPERT_ROWS))
        Y[first + r] = add_biases(before + gemv_sum(r), first + r);
#endif
}
