// RoPE on q and k of a chunk, k and v to the KV cache: one invocation per four numbers.
//
// A row of QKV is HEADS + 2 * KV_HEADS heads of HEAD_DIM numbers. An item is two neighbouring pairs
// of a head, (i, i + R/2) and (i + 1, i + 1 + R/2) with R = ROPE_DIMS, or beyond R four
// neighbouring numbers that are not turned: HEAD_DIM / 4 items per head whatever R is. No two
// invocations touch the same number, so q can be turned in place.
//
//! NAME rope_kv
//! OP rope_kv
//! VARIANT baseline
//! WHEN kv f16 f32
//! BIND readwrite vec2 QKV
//! BIND write uint KV
//! BIND read vec2 ROPE
//! PARAM float rope_scale
//! CONST HEADS KV_HEADS HEAD_DIM ROPE_DIMS QKV_STRIDE CONTEXT
//! STEP read
//! LOCAL 64
//! GROUPS ceildiv(T * (HEADS + 2 * KV_HEADS) * (HEAD_DIM / 4), 64)
//! REQUIRE HEAD_DIM % 4 == 0 && ROPE_DIMS % 4 == 0 && ROPE_DIMS <= HEAD_DIM && QKV_STRIDE % 4 == 0
//! TOLERANCE 1e-13
//! LIB kv
//! LIB rope

const uint ITEMS = uint(HEAD_DIM / 4);
const uint ROW_ITEMS = uint(HEADS + 2 * KV_HEADS) * ITEMS;

// Two neighbouring numbers of head `head` (keys first, then values) at a position; dim is even.
void kv_store(uint head, uint at, uint dim, vec2 x)
{
    uint i = (head * uint(CONTEXT) + at) * uint(HEAD_DIM) + dim;
#if KV_f16
    KV[i / 2u] = kv_pack(x);
#else
    KV[i] = floatBitsToUint(x.x);
    KV[i + 1u] = floatBitsToUint(x.y);
#endif
}

void body(uvec3 group)
{
    rope_begin();
    uint item = group.x * uint(LOCAL_X) + gl_LocalInvocationID.x;
    uint t = item / ROW_ITEMS;
    uint head = (item % ROW_ITEMS) / ITEMS;
    uint i = item % ITEMS;
    bool paired = i < uint(ROPE_DIMS / 4);
    bool turned = paired && head < uint(HEADS + KV_HEADS);
    bool cached = head >= uint(HEADS);
    if (t >= step_tokens || !(turned || cached))
        return;

    uint at = step_pos + t;
    uint dim = paired ? 2u * i : 4u * i;
    uint away = paired ? uint(ROPE_DIMS / 2) : 2u;
    uint from = (t * uint(QKV_STRIDE) + head * uint(HEAD_DIM) + dim) / 2u;
    vec2 x = QKV[from];
    vec2 y = QKV[from + away / 2u];
    if (turned) {
        const uint WIDTH = uint(ROPE_DIMS / 2);
        uint lo = (at & 255u) * WIDTH + dim, hi = (256u + (at >> 8)) * WIDTH + dim;
        vec4 angles = rope_angles(vec4(ROPE[lo], ROPE[lo + 1u]), vec4(ROPE[hi], ROPE[hi + 1u]));
        vec4 pairs = rope_turn(vec4(x, y), angles);
        x = pairs.xy;
        y = pairs.zw;
    }
    if (cached) {
        kv_store(head - uint(HEADS), at, dim, x);
        kv_store(head - uint(HEADS), at, dim + away, y);
    } else {
        QKV[from] = x;
        QKV[from + away / 2u] = y;
    }
}
