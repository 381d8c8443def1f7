// Weights of type q5_0 (layout `split`) for kernels with subgroups.
//
// A lane has 32 neighbouring columns: one block. W is uvec4. Needs lib weight_subgroup. See
// weight_q5_0.glsl for the order of the fifth bits.
#define LANE_RAW     12
#define LANE_GROUPS  1
#define LANE_CENTRE  16.0
#define LANE_SCALED  true
#define LANE_MINIMUM false
#define LANE_UP      LANE_CODE_UP
#define LANE_LATER_UP LANE_UP
#define LANE_ORDER(x) (x).xzyw

// Indices of the uvec4 with the lane's codes, fifth bits and scale, from the start of the row.
uint lane_codes, lane_fifths, lane_scale;
// lane_fifth_word, lane_word: index of the word of fifth bits and of the scale's word in their
// uvec4. lane_half: shift of the scale in its word.
uint lane_fifth_word, lane_word, lane_half;

uint lane_vec4(uint lane, uint i, uint width)
{
    return lane * 8u + i;
}

void lane_begin(uint first, uint lane, uint width, uint zero)
{
    // uvec4 of codes, one per block; a word of fifth bits per block and the scales follow
    const uint BLOCKS = uint((K + 31) / 32);
    uint block = min(first + lane, BLOCKS - 1u), word = BLOCKS * 5u + block / 2u;
    lane_one = LANE_ONE(zero);
    lane_codes = block;
    lane_fifths = BLOCKS + block / 4u;
    lane_fifth_word = block & 3u;
    lane_scale = word / 4u;
    lane_word = word & 3u;
    lane_half = block % 2u * 16u;
}

void lane_fetch(uint row, out uint raw[LANE_RAW])
{
    uvec4 v4;
    LANE_RAW4(0, W[row + lane_codes])
    LANE_RAW4(4, W[row + lane_fifths])
    LANE_RAW4(8, W[row + lane_scale])
}

#define LANE_TABLES
#define LANE_READY(raw, row) raw[(row) + 4] = lane_pick(LANE_FOUR((row) + 4), lane_fifth_word);
#define LANE_QUAD(raw, row, i) \
    LANE_BYTES(((raw)[(row) + (i)] & 0x0F0F0F0Fu) | \
               ((((raw)[(row) + 4] >> (i)) & 0x01010101u) << 4))
#define LANE_TURN(raw, row)
#define LANE_LATER(raw, row, i) \
    LANE_BYTES((((raw)[(row) + (i)] >> 4) & 0x0F0F0F0Fu) | \
               (((raw)[(row) + 4] >> (i)) & 0x10101010u))

void lane_affine(uint raw[LANE_RAW], out vec2 scale, out vec2 least)
{
    scale = vec2(unpackHalf2x16(lane_pick(LANE_FOUR(8), lane_word) >> lane_half).x);
    least = vec2(0.0);
}
