// Weights of type f16, two values per word of W. `row` is the first word of a row.
#define WEIGHT_RAW   2  // uvec4s that weight_fetch16() returns
#define WEIGHT_SPAN  16 // columns around k for which weight_fetch16() reads everything

vec2 weight_pair(uint word)
{
    return unpackHalf2x16(word);
}

float weight_at(uint row, uint k)
{
    vec2 pair = weight_pair(weight_load(row + k / 2u));
    return (k & 1u) == 0u ? pair.x : pair.y;
}

// Columns k .. k + 15 of a row as stored, k a multiple of 16; zero beyond the row.
void weight_fetch16(uint row, uint k, out uvec4 raw[WEIGHT_RAW])
{
    uint w = row + k / 2u;
#if W_STRIDE % 8 == 0
    raw[0] = weight_load4(w);
    raw[1] = weight_load4(w + 4u);
#else
    raw[0] = uvec4(0u);
    raw[1] = uvec4(0u);
    raw[0].xy = uvec2(weight_load(w), weight_load(w + 1u));
    if (k / 2u + 2u < uint(W_STRIDE))
        raw[0].zw = uvec2(weight_load(w + 2u), weight_load(w + 3u));
    if (k / 2u + 4u < uint(W_STRIDE))
        raw[1].xy = uvec2(weight_load(w + 4u), weight_load(w + 5u));
    if (k / 2u + 6u < uint(W_STRIDE))
        raw[1].zw = uvec2(weight_load(w + 6u), weight_load(w + 7u));
#endif
}

void weight_decode16(uvec4 raw[WEIGHT_RAW], uint k, out vec4 w[4])
{
    for (int i = 0; i < 2; i++) {
        w[2 * i] = vec4(weight_pair(raw[i].x), weight_pair(raw[i].y));
        w[2 * i + 1] = vec4(weight_pair(raw[i].z), weight_pair(raw[i].w));
    }
}
