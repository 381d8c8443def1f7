// Rank and weight of a logit (docs/formats.md, "Random numbers and sampling").
//
// They are computed by one subtraction and one product in f32, each correctly rounded, then with
// integers. Needs lib uint64 and STEP read. step_row is the row of the logit.

const uint SLICE = 2048u;
const uint SLICES = (uint(VOCAB) + SLICE - 1u) / SLICE;

// Layout of CAND (docs/operations.md, sample_*): CAND_WORDS for each row.
const uint CAND_WORDS = 4u + max(256u * SLICES, 6u * SLICES + 6150u);
#define CAND_ROW (step_row * CAND_WORDS)
#define CAND_FIRST (CAND_ROW + 4u)
#define CAND_HIST (CAND_FIRST + 2u * SLICES)
#define CAND_MASS (CAND_HIST + 6144u)
#define CAND_NUCLEUS (CAND_MASS + 4u * SLICES)

// Rows of a pass may be sampled in different ways. The operations of one way skip the rows of the
// others.
const uint SAMPLE_GREEDY = 0u, SAMPLE_TOPK = 1u, SAMPLE_FULL = 2u;

bool sample_runs(uint kind)
{
    uint own = step_inv_temp == 0.0 ? SAMPLE_GREEDY : step_top_k != 0u ? SAMPLE_TOPK : SAMPLE_FULL;
    return step_stopped == 0u && own == kind;
}

// The row's logit of an id, in LOGITS.
uint logit_at(uint id)
{
    return step_row * uint(VOCAB) + id;
}

// Exponent of a token that is never drawn.
const uint NEVER = 0x7fffffffu;

// Larger logits have larger keys; -0 and subnormals count as 0, NaN as 0u, below everything.
uint sample_key(uint bits)
{
    uint mag = bits & 0x7fffffffu;
    if (mag > 0x7f800000u)
        return 0u;
    if (mag < 0x00800000u)
        return 0x80000000u;
    return bits == mag ? mag | 0x80000000u : ~bits;
}

float sample_logit(uint key)
{
    return uintBitsToFloat((key & 0x80000000u) != 0u ? key & 0x7fffffffu : ~key);
}

// log2 of the best token's probability over this one's, in units of 2^-23.
uint sample_exponent(uint key, uint best)
{
    if (key == best)
        return 0u;
    float t = (sample_logit(best) - sample_logit(key)) * uintBitsToFloat(0x3fb8aa3bu); // log2(e)
    return key != 0u && t < 255.0 ? uint(t * 8388608.0) : NEVER;
}

// The exponent at temperature T. `inv_temp` has the bits of 1 / T, a float between 2^-20 and 2^23.
uint sample_tempered(uint exponent, uint inv_temp)
{
    uvec2 x = u64_mul(exponent, (inv_temp & 0x007fffffu) | 0x00800000u);
    uint shift = 150u - (inv_temp >> 23);
    if (shift >= 32u)
        x = uvec2(x.y >> (shift - 32u), 0u);
    else if (shift > 0u)
        x = uvec2((x.x >> shift) | (x.y << (32u - shift)), x.y >> shift);
    return exponent == NEVER || x.y != 0u || x.x > NEVER ? NEVER : x.x;
}

// 2^45 * 2^-exponent, to about 30 bits: an interpolation of 2^-f at seven Chebyshev nodes, then a
// shift; 0 below 1.
uvec2 sample_weight(uint exponent)
{
    uint n = exponent >> 23;
    uint f = exponent << 9;
    uint p = 0x0000bda6u;
    p = 0x0009c200u - u64_mul(p, f).y;
    p = 0x005728b0u - u64_mul(p, f).y;
    p = 0x027641a9u - u64_mul(p, f).y;
    p = 0x0e358127u - u64_mul(p, f).y;
    p = 0x3d7f7bcbu - u64_mul(p, f).y;
    p = 0xb17217f7u - u64_mul(p, f).y;
    uint m = 0x80000000u - (u64_mul(p, f).y >> 1);
    if (n < 14u)
        return uvec2(m << (14u - n), m >> (18u + n));
    return uvec2(n < 46u ? m >> (n - 14u) : 0u, 0u);
}

// The smallest weight that min-p keeps.
uvec2 sample_min_weight(uint min_p_q)
{
    return uvec2(min_p_q << 13, min_p_q >> 19);
}

// The part of the mass `total` that top-p requires, at least 1.
uvec2 sample_target(uvec2 total, uint top_p_q)
{
    uvec2 target = u64_fraction(total, top_p_q);
    return target == uvec2(0u) ? uvec2(1u, 0u) : target;
}
