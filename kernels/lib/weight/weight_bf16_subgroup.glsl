// Weights of type bf16 for kernels with subgroups.
//
// A lane has 32 columns of a slice: four runs of eight, so that the loads of a subgroup are
// contiguous. W is uvec4. Needs lib weight_subgroup.
#define LANE_RAW     16
#define LANE_GROUPS  1
#define LANE_CENTRE  0.0
#define LANE_SCALED  false
#define LANE_MINIMUM false
#define LANE_UP      1.0
#define LANE_LATER_UP LANE_UP
#define LANE_ORDER(x) (x).xyzw

uint lane_at[4]; // elements of a row

uint lane_vec4(uint lane, uint i, uint width)
{
    return (i / 2u * width + lane) * 2u + (i & 1u);
}

void lane_begin(uint first, uint lane, uint width, uint zero)
{
    for (uint i = 0u; i < 4u; i++)
        lane_at[i] = min(4u * first + i * width + lane, uint(W_STRIDE / 4 - 1));
}

void lane_fetch(uint row, out uint raw[LANE_RAW])
{
    uvec4 v4;
    for (int i = 0; i < 4; i++) {
        LANE_RAW4(4 * i, W[row + lane_at[i]])
    }
}

vec2 lane_pair(uint word)
{
    return uintBitsToFloat(uvec2(word << 16, word & 0xFFFF0000u));
}

#define LANE_TABLES
#define LANE_READY(raw, row)
#define LANE_QUAD(raw, row, i) \
    vec4(lane_pair((raw)[(row) + 2 * (i)]), lane_pair((raw)[(row) + 2 * (i) + 1]))
#define LANE_TURN(raw, row)
#define LANE_LATER(raw, row, i) LANE_QUAD(raw, (row) + 8, i)

void lane_affine(uint raw[LANE_RAW], out vec2 scale, out vec2 least)
{
    scale = vec2(1.0);
    least = vec2(0.0);
}
