// affine for kernels with subgroups, where a lane has 32 neighbouring columns: one block, three
// uvec4. W is uvec4. Needs lib weight_subgroup.
#define LANE_RAW 3

uint lane_vec4(uint slice, uint lane, uint i)
{
    return (slice * uint(SUBGROUP) + lane) * 8u + i;
}

void lane_fetch(uint row, uint slice, uint lane, out uvec4 raw[LANE_RAW])
{
    uint b = row + min(slice * uint(SUBGROUP) + lane, uint(W_STRIDE / 12 - 1)) * 3u;
    raw[0] = W[b];
    raw[1] = W[b + 1u];
    raw[2] = W[b + 2u];
}

float lane_dot(uvec4 raw[LANE_RAW], uint slice, uint lane, vec4 x[8], uint one)
{
    vec4 sa = x[0] + x[1] + x[2] + x[3], sb = x[4] + x[5] + x[6] + x[7];
    vec4 s = uintBitsToFloat(raw[2]);
    uint q, magic = INT8_MAGIC;
    float sum = 0.0;
    INT8_PRODUCTS(raw[0].x, 0)
    INT8_PRODUCTS(raw[0].y, 1)
    INT8_PRODUCTS(raw[0].z, 2)
    INT8_PRODUCTS(raw[0].w, 3)
    float first = s.x * sum - s.y * (sa.x + sa.y + sa.z + sa.w);
    sum = 0.0;
    INT8_PRODUCTS(raw[1].x, 4)
    INT8_PRODUCTS(raw[1].y, 5)
    INT8_PRODUCTS(raw[1].z, 6)
    INT8_PRODUCTS(raw[1].w, 7)
    return first + (s.z * sum - s.w * (sb.x + sb.y + sb.z + sb.w));
}
