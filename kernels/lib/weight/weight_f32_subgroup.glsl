// Weights of type f32 for kernels with subgroups.
//
// A lane has 32 columns of a slice: eight runs of four, so that the loads of a subgroup are
// contiguous. W is uvec4. Needs lib weight_subgroup.
#define LANE_RAW     32
#define LANE_GROUPS  1
#define LANE_CENTRE  0.0
#define LANE_SCALED  false
#define LANE_MINIMUM false
#define LANE_UP      1.0
#define LANE_LATER_UP LANE_UP
#define LANE_ORDER(x) (x).xyzw

uint lane_at[8]; // elements of a row

uint lane_vec4(uint lane, uint i, uint width)
{
    return i * width + lane;
}

void lane_begin(uint first, uint lane, uint width, uint zero)
{
    for (uint i = 0u; i < 8u; i++)
        lane_at[i] = min(8u * first + i * width + lane, uint(W_STRIDE / 4 - 1));
}

void lane_fetch(uint row, out uint raw[LANE_RAW])
{
    uvec4 v4;
    for (int i = 0; i < 8; i++) {
        LANE_RAW4(4 * i, W[row + lane_at[i]])
    }
}

#define LANE_TABLES
#define LANE_READY(raw, row)
#define LANE_QUAD(raw, row, i) \
    uintBitsToFloat(uvec4((raw)[(row) + 4 * (i)], (raw)[(row) + 4 * (i) + 1], \
                          (raw)[(row) + 4 * (i) + 2], (raw)[(row) + 4 * (i) + 3]))
#define LANE_TURN(raw, row)
#define LANE_LATER(raw, row, i) LANE_QUAD(raw, (row) + 16, i)

void lane_affine(uint raw[LANE_RAW], out vec2 scale, out vec2 least)
{
    scale = vec2(1.0);
    least = vec2(0.0);
}
