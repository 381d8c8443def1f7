// Data of the new token that a work group needs, in shared memory, with norms and by subgroups.
//
// These are the queries of its heads, normed, rotated and scaled, and the new key and value with
// the bits that the cache has. Needs libs kv_round, rope, rope_items, attn_score and attn_share,
// WHEN norm none head all, subgroup shuffles, and the constants SUBGROUPS, KEY_PARTS and
// KEY_THREADS, a power of two.
//
//! SHARED vec2 new_rows[(HEADS_BLOCK + 2) * HEAD_DIM / 2] // q of each head, k, v
//! LET ALL_SQUARES = NORM_all ? 2 * HEADS_BLOCK * KEY_PARTS : 0
//! SHARED float squares[NORM_head ? (HEADS_BLOCK + 2) * VEC4S / 2 : ALL_SQUARES] // parts of sums

const uint NEW_KEY = uint(HEADS_BLOCK), NEW_VALUE = NEW_KEY + 1u; // rows of new_rows
const int NORM_PART = VEC4S % KEY_THREADS == 0 ? KEY_THREADS : 2; // neighbours with a sum
const int TEAM = HEADS_BLOCK * KEY_PARTS; // parts of a sum of all heads
const int ITEMS = ((HEADS_BLOCK + 2) * VEC4S + WG_SIZE - 1) / WG_SIZE;

// The head of QKV from which row r of new_rows is computed.
uint source_head(uint r, attn_share share)
{
    return r < NEW_KEY ? min(share.head0 + r, uint(HEADS - 1))
                       : uint(HEADS) + share.kv_head + (r - NEW_KEY) * uint(KV_HEADS);
}

vec2 source_pair(uint first, uint dim)
{
    vec4 x = QKV[first + dim / 4u];
    return (dim & 2u) == 0u ? x.xy : x.zw;
}

vec2 gain_pair(uint first, uint dim)
{
    vec4 g = G[first + dim / 4u];
    return (dim & 2u) == 0u ? g.xy : g.zw;
}

// Sums of the squares of all queries and of all keys, in this order.
#if NORM_all
void sum_squares(uint first)
{
    uint step = uint(TEAM) * gl_SubgroupSize;
    uint keys = first + uint(HEADS * VEC4S);
    for (uint part = gl_SubgroupID; part < uint(TEAM); part += uint(SUBGROUPS)) {
        float q = 0.0, k = 0.0;
        uint begin = part * gl_SubgroupSize + gl_SubgroupInvocationID;
        for (uint i = begin; i < uint(HEADS * VEC4S); i += step)
            q += dot(QKV[first + i], QKV[first + i]);
        for (uint i = begin; i < uint(KV_HEADS * VEC4S); i += step)
            k += dot(QKV[keys + i], QKV[keys + i]);
        for (uint mask = 1u; mask < gl_SubgroupSize; mask *= 2u) {
            q += subgroupShuffleXor(q, mask);
            k += subgroupShuffleXor(k, mask);
        }
        if (gl_SubgroupInvocationID == 0u) {
            squares[2u * part] = q;
            squares[2u * part + 1u] = k;
        }
    }
}
#endif

// The norm's factor of row r of new_rows, without the gain.
float norm_factor(uint r)
{
    float sum = 0.0;
#if NORM_all
    for (uint e = 0u; e < uint(TEAM); e++)
        sum += squares[2u * e + (r < NEW_KEY ? 0u : 1u)];
    sum /= float((r < NEW_KEY ? HEADS : KV_HEADS) * HEAD_DIM);
#elif NORM_head
    for (int e = 0; e < VEC4S / NORM_PART; e++)
        sum += squares[r * uint(VEC4S / NORM_PART) + uint(e)];
    sum /= float(HEAD_DIM);
#endif
#if NORM_none
    return 1.0;
#else
    return inversesqrt(sum + eps);
#endif
}

// The memory that an invocation reads for its items: the group's queries, and the new key and value
// if its split has them. The values are not used here, so that other loads can follow at once.
struct row_items {
    vec4 x[ITEMS], angles[ITEMS], gain[ITEMS];
};

uint count_items(attn_share share)
{
    return (NEW_KEY + (share.has_new ? 2u : 0u)) * uint(VEC4S);
}

void load_rows(uint tid, attn_share share, out row_items items)
{
    uint count = count_items(share);
    uint first = share.row * uint(QKV_STRIDE / 4); // vec4 of QKV
    for (int e = 0; e < ITEMS; e++) {
        uint n = tid + uint(e * WG_SIZE), r = n / uint(VEC4S), i = n % uint(VEC4S);
        items.x[e] = items.angles[e] = items.gain[e] = vec4(0.0);
        if (n < count) {
            rope_item item = rope_item_at(i);
            uint head = source_head(r, share), from = first + head * uint(VEC4S);
            items.x[e] = vec4(source_pair(from, item.dim), source_pair(from, item.partner));
            if (item.paired && r <= NEW_KEY)
                items.angles[e] = rope_angles(share.pos, i);
#if NORM_head
            uint g = r < NEW_KEY ? 0u : uint(VEC4S);
#elif NORM_all
            uint g = head * uint(VEC4S);
#endif
#if !NORM_none
            if (r <= NEW_KEY)
                items.gain[e] = vec4(gain_pair(g, item.dim), gain_pair(g, item.partner));
#endif
        }
    }
}

// Writes these items to new_rows.
void make_rows(uint tid, attn_share share, row_items items)
{
    uint count = count_items(share);
#if NORM_head
    // A row begins in the subgroup in which its first part begins.
    for (int e = 0; e < ITEMS; e++) {
        uint n = tid + uint(e * WG_SIZE);
        float square = dot(items.x[e], items.x[e]); // beyond the last row 0
        for (int across = 1; across < NORM_PART; across *= 2)
            square += subgroupShuffleXor(square, uint(across));
        if (n < count && n % uint(NORM_PART) == 0u)
            squares[n / uint(NORM_PART)] = square;
    }
#elif NORM_all
    sum_squares(share.row * uint(QKV_STRIDE / 4));
#endif
#if !NORM_none
    memoryBarrierShared(); barrier();
#endif
    for (int e = 0; e < ITEMS; e++) {
        uint n = tid + uint(e * WG_SIZE), r = n / uint(VEC4S), i = n % uint(VEC4S);
        if (n < count) {
            rope_item item = rope_item_at(i);
            vec4 y = items.x[e];
#if !NORM_none
            if (r <= NEW_KEY)
                y = y * norm_factor(r) * items.gain[e];
#endif
            if (item.paired && r <= NEW_KEY)
                y = rope_rotate(y, items.angles[e]);
            if (r < NEW_KEY)
                y *= query_scale();
            else
                y = kv_round(y);
            new_rows[(r * uint(HEAD_DIM) + item.dim) / 2u] = y.xy;
            new_rows[(r * uint(HEAD_DIM) + item.partner) / 2u] = y.zw;
        }
    }
}

// Returns vec4 i of row r, or zeros beyond the row.
vec4 new_vec4(uint r, uint i)
{
    uint n = 2u * (r * uint(VEC4S) + i);
    return i < uint(VEC4S) ? vec4(new_rows[n], new_rows[n + 1u]) : vec4(0.0);
}
