// Weights of type q5_k for kernels with subgroups.
//
// A lane has 32 columns of a slice: 16 bytes of nibbles for 16 columns of two neighbouring groups,
// and the 16 bytes with their fifth bits. W is uvec4. Needs lib weight_subgroup.
#define LANE_RAW     12
#define LANE_GROUPS  2
#define LANE_CENTRE  0.0
#define LANE_SCALED  true
#define LANE_MINIMUM true
#define LANE_UP      LANE_CODE_UP
#define LANE_LATER_UP LANE_UP
#define LANE_ORDER(x) (x).xzyw

uint lane_codes, lane_fifths, lane_head; // elements of a row
uint lane_bit, lane_shift;               // of the fifth bits, and of the groups' bytes in the head
bool lane_upper;                         // groups 4 to 7 of a block

uint lane_vec4(uint lane, uint i, uint width)
{
    return lane / 8u * 64u + (lane / 2u & 3u) * 16u + (lane & 1u) * 4u + (i & 3u) + (i >> 2) * 8u;
}

void lane_begin(uint first, uint lane, uint width, uint zero)
{
    uint b = min(first / 8u + lane / 8u, uint(W_STRIDE / 44 - 1)) * 11u;
    lane_one = LANE_ONE(zero);
    lane_head = b;
    lane_fifths = b + 1u + (lane & 1u);
    lane_codes = b + 3u + (lane & 7u);
    lane_bit = lane & 6u;
    lane_shift = (lane & 2u) * 8u;
    lane_upper = (lane & 4u) != 0u;
}

void lane_fetch(uint row, out uint raw[LANE_RAW])
{
    uvec4 v4;
    LANE_RAW4(0, W[row + lane_codes])
    LANE_RAW4(4, W[row + lane_fifths])
    LANE_RAW4(8, W[row + lane_head])
}

#define LANE_TABLES
#define LANE_READY(raw, row) LANE_SHIFT4(raw, (row) + 4, lane_bit)
#define LANE_QUAD(raw, row, i) \
    LANE_BYTES(((raw)[(row) + (i)] & 0x0F0F0F0Fu) | \
               (((raw)[(row) + (i) + 4] & 0x01010101u) << 4))
#define LANE_TURN(raw, row)
#define LANE_LATER(raw, row, i) \
    LANE_BYTES((((raw)[(row) + (i)] >> 4) & 0x0F0F0F0Fu) | \
               (((raw)[(row) + (i) + 4] & 0x02020202u) << 3))

void lane_affine(uint raw[LANE_RAW], out vec2 scale, out vec2 least)
{
    vec4 codes = lane_k_codes(uvec3(raw[9], raw[10], raw[11]), lane_shift, lane_upper);
    vec2 d = unpackHalf2x16(raw[8]);
    scale = d.x * codes.xy;
    least = d.y * codes.zw;
}
