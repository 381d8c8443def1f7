// q8_0 (layout `split`) for kernels with subgroups, where a lane has 32 neighbouring columns: one
// scale. W is uvec4. Needs lib weight_subgroup.
#define LANE_RAW 3

uint lane_vec4(uint slice, uint lane, uint i)
{
    return (slice * uint(SUBGROUP) + lane) * 8u + i;
}

void lane_fetch(uint row, uint slice, uint lane, out uvec4 raw[LANE_RAW])
{
    // uvec4 of codes; the scales follow, eight to a uvec4
    const uint CODES = uint(W_STRIDE / 17 * 4);
    uint block = min(slice * uint(SUBGROUP) + lane, CODES / 2u - 1u);
    raw[0] = W[row + 2u * block];
    raw[1] = W[row + 2u * block + 1u];
    raw[2] = W[row + CODES + block / 8u];
}

float lane_dot(uvec4 raw[LANE_RAW], uint slice, uint lane, vec4 x[8], uint one)
{
    uint q, magic = INT8_MAGIC;
    float sum = 0.0;
    INT8_PRODUCTS(raw[0].x, 0)
    INT8_PRODUCTS(raw[0].y, 1)
    INT8_PRODUCTS(raw[0].z, 2)
    INT8_PRODUCTS(raw[0].w, 3)
    INT8_PRODUCTS(raw[1].x, 4)
    INT8_PRODUCTS(raw[1].y, 5)
    INT8_PRODUCTS(raw[1].z, 6)
    INT8_PRODUCTS(raw[1].w, 7)
    return half_of(raw[2], lane) * sum;
}
