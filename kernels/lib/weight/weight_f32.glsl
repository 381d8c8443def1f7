// Weights of type f32, one value per word of W. `row` is the first word of a row.
#define WEIGHT_RAW   4  // uvec4s that weight_fetch16() returns
#define WEIGHT_SPAN  16 // columns around k for which weight_fetch16() reads everything

float weight_at(uint row, uint k)
{
    return uintBitsToFloat(weight_load(row + k));
}

// Columns k .. k + 15 of a row as stored, k a multiple of 16; zero beyond the row.
void weight_fetch16(uint row, uint k, out uvec4 raw[WEIGHT_RAW])
{
    for (uint i = 0u; i < 4u; i++) {
        uint w = row + k + 4u * i;
        raw[i] = uvec4(0u);
#if W_STRIDE % 16 != 0
        if (k + 4u * i < uint(W_STRIDE))
#endif
            raw[i] = weight_load4(w);
    }
}

void weight_decode16(uvec4 raw[WEIGHT_RAW], uint k, out vec4 w[4])
{
    for (int i = 0; i < 4; i++)
        w[i] = uintBitsToFloat(raw[i]);
}
