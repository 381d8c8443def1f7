// Weights of type affine for kernels with subgroups.
//
// A lane has 32 neighbouring columns: one block of three uvec4. W is uvec4. Needs lib
// weight_subgroup.
#define LANE_RAW     12
#define LANE_GROUPS  2
#define LANE_CENTRE  128.0
#define LANE_SCALED  true
#define LANE_MINIMUM true
#define LANE_UP      16777216.0
#define LANE_ORDER(x) (x).xzyw

uint lane_block;          // element of a row
float lane_sum0, lane_sum1; // of x, 16 columns each

uint lane_vec4(uint lane, uint i, uint width)
{
    return lane * 8u + i;
}

void lane_begin(uint first, uint lane, uint width, uint zero)
{
    lane_one = LANE_ONE(zero);
    lane_block = min(first + lane, uint(W_STRIDE / 12 - 1)) * 3u;
}

void lane_fetch(uint row, out uint raw[LANE_RAW])
{
    uvec4 v4;
    for (int i = 0; i < 3; i++) {
        LANE_RAW4(4 * i, W[row + lane_block + uint(i)])
    }
}

void lane_prepare()
{
    lane_sum0 = LANE_SUM16(0);
    lane_sum1 = LANE_SUM16(4);
}

// Four int8 codes as floats: plus 128 in the lowest bits of 2^23, from which both come off exactly.
#define LANE_CODE(bits, xx) sum += (uintBitsToFloat(((bits) & 255u) | magic) - 8388736.0) * (xx);
#define LANE_WORD(word, i) \
    q = (word) ^ 0x80808080u; \
    LANE_CODE(q, lane_x[i].x) \
    LANE_CODE(q >> 8, lane_x[i].y) \
    LANE_CODE(q >> 16, lane_x[i].z) \
    LANE_CODE(q >> 24, lane_x[i].w)

float lane_dot(uint raw[LANE_RAW])
{
    vec4 s = uintBitsToFloat(uvec4(raw[8], raw[9], raw[10], raw[11]));
    uint q, magic = LANE_MAGIC;
    float sum = 0.0;
    LANE_WORD(raw[0], 0)
    LANE_WORD(raw[1], 1)
    LANE_WORD(raw[2], 2)
    LANE_WORD(raw[3], 3)
    float first = s.x * sum - s.y * lane_sum0;
    sum = 0.0;
    LANE_WORD(raw[4], 4)
    LANE_WORD(raw[5], 5)
    LANE_WORD(raw[6], 6)
    LANE_WORD(raw[7], 7)
    return first + (s.z * sum - s.w * lane_sum1);
}

#define LANE_QUAD(raw, row, i) LANE_BYTES((raw)[(row) + (i)] ^ 0x80808080u)
#define LANE_NEXT(raw, row) LANE_DOWN4(raw, row, 4)

void lane_affine(uint raw[LANE_RAW], out vec2 scale, out vec2 least)
{
    scale = uintBitsToFloat(uvec2(raw[8], raw[10]));
    least = uintBitsToFloat(uvec2(raw[9], raw[11]));
}
