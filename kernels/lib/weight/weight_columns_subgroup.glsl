// Weights for kernels with subgroups, of formats that have no lib weight_*_subgroup of their own.
//
// A lane has 32 neighbouring columns, which lib weight_* reads and converts. Needs libs
// weight_subgroup and weight_*. Formats with a grid have its words in lane_table: constant memory
// serves lanes with different indices one by one. The parts of a row are in lane_w, so a lane can
// have only one row at a time.
#define LANE_FETCHES (32 / WEIGHT_SPAN)
#define LANE_RAW     (LANE_FETCHES * WEIGHT_RAW * 4)
#define LANE_GROUPS  1
#define LANE_CENTRE  0.0
#define LANE_SCALED  false
#define LANE_MINIMUM false
#define LANE_UP      1.0
#define LANE_LATER_UP LANE_UP
#define LANE_ORDER(x) (x).xyzw

uint lane_k; // first column of the lane in a row

uint lane_vec4(uint lane, uint i, uint width)
{
    return lane * 8u + i;
}

void lane_begin(uint first, uint lane, uint width, uint zero)
{
    lane_k = min((first + lane) * 32u, uint((K - 1) / 32 * 32));
}

void lane_fetch(uint row, out uint raw[LANE_RAW])
{
    uvec4 four[WEIGHT_RAW], v4;
    for (int f = 0; f < LANE_FETCHES; f++) {
        weight_fetch16(4u * row, lane_k + uint(f * WEIGHT_SPAN), four);
        for (int i = 0; i < WEIGHT_RAW; i++) {
            LANE_RAW4((f * WEIGHT_RAW + i) * 4, four[i])
        }
    }
}

void lane_copy_grid()
{
#if !WEIGHT_tq1_0 && !WEIGHT_tq2_0 && !WEIGHT_q1_0 && !WEIGHT_q2_0
    for (uint i = gl_LocalInvocationID.x; i < uint(TABLE); i += uint(WG_SIZE))
        lane_table[i] = WEIGHT_GRID[i];
    memoryBarrierShared(); barrier();
#endif
}

vec4 lane_w[4]; // 16 columns of the row

void lane_decode(uint raw[LANE_RAW], int at, uint k)
{
    uvec4 four[WEIGHT_RAW];
    vec4 w[4];
    for (int i = 0; i < WEIGHT_RAW; i++)
        four[i] = LANE_FOUR(at + 4 * i);
    weight_decode16(four, k, w);
    for (int i = 0; i < 4; i++)
        lane_w[i] = w[i];
}

#define LANE_TABLES lane_copy_grid();
#define LANE_READY(raw, row)   lane_decode(raw, 0, lane_k);
#define LANE_QUAD(raw, row, i) lane_w[i]
#define LANE_LATER(raw, row, i) lane_w[i]
#define LANE_TURN(raw, row)    lane_decode(raw, 16 / WEIGHT_SPAN * WEIGHT_RAW * 4, lane_k + 16u);

void lane_affine(uint raw[LANE_RAW], out vec2 scale, out vec2 least)
{
    scale = vec2(1.0);
    least = vec2(0.0);
}
