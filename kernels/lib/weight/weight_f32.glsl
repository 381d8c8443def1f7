// f32, one value per word of `uint W[]`. `row` is the word a row starts at.
#define WEIGHT_RAW 4

float weight_at(uint row, uint k)
{
    return uintBitsToFloat(W[row + k]);
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
            raw[i] = uvec4(W[w], W[w + 1u], W[w + 2u], W[w + 3u]);
    }
}

void weight_decode16(uvec4 raw[WEIGHT_RAW], uint k, out vec4 w[4])
{
    for (int i = 0; i < 4; i++)
        w[i] = uintBitsToFloat(raw[i]);
}
