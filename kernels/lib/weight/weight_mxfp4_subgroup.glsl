// Weights of type mxfp4 (layout `split`) for kernels with subgroups.
//
// A lane has 32 neighbouring columns: one block. W is uvec4. Needs lib weight_subgroup. See
// weight_mxfp4.glsl for the conversion of codes.
#define LANE_RAW     8
#define LANE_GROUPS  1
#define LANE_CENTRE  0.0
#define LANE_SCALED  true
#define LANE_MINIMUM false
#define LANE_UP      1.0
#define LANE_LATER_UP LANE_UP
#define LANE_ORDER(x) (x).xzyw

uint lane_codes, lane_scale, lane_word, lane_shift; // elements of a row; the exponent in an element

uint lane_vec4(uint lane, uint i, uint width)
{
    return lane * 8u + i;
}

void lane_begin(uint first, uint lane, uint width, uint zero)
{
    // uvec4 of codes, one per block; the exponents follow, sixteen to a uvec4
    const uint CODES = uint((K + 31) / 32);
    uint block = min(first + lane, CODES - 1u);
    lane_codes = block;
    lane_scale = CODES + block / 16u;
    lane_word = block / 4u & 3u;
    lane_shift = 8u * (block & 3u);
}

void lane_fetch(uint row, out uint raw[LANE_RAW])
{
    uvec4 v4;
    LANE_RAW4(0, W[row + lane_codes])
    LANE_RAW4(4, W[row + lane_scale])
}

// Two codes of a word: its bits shifted so that exponent and mantissa of both are in place, and so
// that the signs are.
#define LANE_NUMBERS(number, sign) \
    unpackHalf2x16(((number) & 0x0E000E00u) | ((sign) & 0x80008000u))
#define LANE_TABLES
#define LANE_READY(raw, row)
#define LANE_QUAD(raw, row, i) \
    vec4(LANE_NUMBERS((raw)[(row) + (i)] << 9, (raw)[(row) + (i)] << 12), \
         LANE_NUMBERS((raw)[(row) + (i)] << 1, (raw)[(row) + (i)] << 4))
#define LANE_TURN(raw, row)
#define LANE_LATER(raw, row, i) \
    vec4(LANE_NUMBERS((raw)[(row) + (i)] << 5, (raw)[(row) + (i)] << 8), \
         LANE_NUMBERS((raw)[(row) + (i)] >> 3, (raw)[(row) + (i)]))

// Parts are 2^-14 of their values, so the scale has a factor of 2^14.
void lane_affine(uint raw[LANE_RAW], out vec2 scale, out vec2 least)
{
    uint exponent = lane_pick(LANE_FOUR(4), lane_word) >> lane_shift & 255u;
    scale = vec2(uintBitsToFloat(min(exponent + 14u, 254u) << 23));
    least = vec2(0.0);
}
