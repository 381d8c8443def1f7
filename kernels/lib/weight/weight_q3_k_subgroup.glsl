// Weights of type q3_k (layout `split`) for kernels with subgroups.
//
// A lane has 32 columns of a slice. 16 bytes of low bits have 16 columns of each of four groups,
// and a lane uses two of these groups. Each 16 columns have their own scale. W is uvec4. Needs lib
// weight_subgroup. See weight_q3_k.glsl for the words of a block.
#define LANE_RAW     12
#define LANE_GROUPS  2
#define LANE_CENTRE  4.0
#define LANE_SCALED  true
#define LANE_MINIMUM false
#define LANE_UP      LANE_CODE_UP
#define LANE_LATER_UP LANE_DOWN_UP(2)
#define LANE_ORDER(x) (x).xzyw

// Indices of the lane's uvec4 of low bits, of third bits, and of scales and d, from the start of
// the row.
uint lane_codes, lane_thirds, lane_head;
// Shifts of the lane's low bits and third bits in their bytes.
uint lane_bits, lane_bit;
// Shifts of the low four bits and the upper two bits of the lane's scales in their words.
uint lane_low, lane_high;
// True if the lane's groups are 2 and 3, or 6 and 7, of the block.
bool lane_pair;

uint lane_vec4(uint lane, uint i, uint width)
{
    return lane / 8u * 64u + (lane & 4u) * 8u + (lane & 2u) * 8u + (lane & 1u) * 4u + (i & 3u) +
           (i >> 2) * 8u;
}

void lane_begin(uint first, uint lane, uint width, uint zero)
{
    uint b = min(first / 8u + lane / 8u, uint((K + 255) / 256 - 1)) * 7u;
    lane_one = LANE_ONE(zero);
    lane_codes = b + (lane & 4u) / 2u + (lane & 1u);
    lane_thirds = b + 4u + (lane & 1u);
    lane_head = b + 6u;
    lane_bits = (lane & 2u) * 2u;
    lane_bit = lane & 6u;
    lane_low = (lane & 1u) * 8u + (lane & 4u);
    lane_high = (lane & 1u) * 8u + (lane & 6u);
    lane_pair = (lane & 2u) != 0u;
}

void lane_fetch(uint row, out uint raw[LANE_RAW])
{
    uvec4 v4;
    LANE_RAW4(0, W[row + lane_codes])
    LANE_RAW4(4, W[row + lane_thirds])
    LANE_RAW4(8, W[row + lane_head])
}

#define LANE_TABLES
#define LANE_READY(raw, row) \
    LANE_SHIFT4(raw, row, lane_bits) \
    LANE_SHIFT4(raw, (row) + 4, lane_bit)
#define LANE_QUAD(raw, row, i) \
    LANE_BYTES(((raw)[(row) + (i)] & 0x03030303u) | \
               (((raw)[(row) + (i) + 4] & 0x01010101u) << 2))
#define LANE_TURN(raw, row)
#define LANE_LATER(raw, row, i) \
    LANE_BYTES(LANE_DOWN(((raw)[(row) + (i)] & 0x0C0C0C0Cu) | \
                         (((raw)[(row) + (i) + 4] & 0x02020202u) << 3), 2))

void lane_affine(uint raw[LANE_RAW], out vec2 scale, out vec2 least)
{
    uint sc = ((lane_pair ? raw[9] : raw[8]) >> lane_low & 0x000F000Fu) |
              (raw[10] >> lane_high & 0x00030003u) << 4;
    scale = unpackHalf2x16(raw[11]).x * (vec2(LANE_UINT(sc & 63u), LANE_UINT(sc >> 16)) - 32.0);
    least = vec2(0.0);
}
