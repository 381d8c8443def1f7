// RoPE on q and k of many tokens; q in place, k and v to the KV cache.
//
// With KEYS_ONLY q stays as it is, because the attention after it rotates q.
//
// QKV is [T][QKV_STRIDE] f32. Each row has HEADS + 2 * KV_HEADS heads of HEAD_DIM numbers: q, k and
// v. q and k are rotated by the angles in ROPE, q in place. k and v are rounded to the type of KV
// and stored there.
//
// Layout: an invocation processes EACH items of four numbers (lib rope_items). Neighbouring
// invocations have neighbouring items of a row. No two items share a number, so q can be rotated in
// place.
//
// Choice: it is the only kernel of this operation.
//
// TUNEs: EACH is the number of items per invocation: more items mean fewer invocations. WG_SIZE is
// the group size.
//
//! NAME rope_kv
//! OP rope_kv
//! VARIANT baseline
//! WHEN kv_k f16 f32
//! WHEN kv_v f16 f32
//! BIND readwrite vec2 QKV
//! BIND write uint KV
//! BIND read vec4 ROPE
//! PARAM float rope_scale
//! CONST HEADS KV_HEADS HEAD_DIM ROPE_DIMS QKV_STRIDE
//! CONST KEYS_ONLY = 0
//! TUNE WG_SIZE = 64 in 32 64 128 256 512
//! TUNE EACH = 1 in 1 2 4
//! LET HEAD_ITEMS = HEAD_DIM / 4
//! LET FIRST_HEAD = KEYS_ONLY ? HEADS : 0
//! LET ROW_ITEMS = (HEADS + 2 * KV_HEADS - FIRST_HEAD) * HEAD_ITEMS
//! STEP read
//! LOCAL WG_SIZE
//! GROUPS ceildiv(T * ROW_ITEMS, WG_SIZE * EACH)
//! ACTIVE T * ROW_ITEMS
//! REQUIRE KV_K_f16 == KV_V_f16
//! REQUIRE HEAD_DIM % 4 == 0 && ROPE_DIMS % 4 == 0 && ROPE_DIMS <= HEAD_DIM && QKV_STRIDE % 4 == 0
//! TOLERANCE 1e-13
//! LIB half
//! LIB kv
//! LIB kv_vec2_store
//! LIB rope
//! LIB rope_items
//! LIB rope_items_vec2

void rotate_item(uint n)
{
    uint t = n / uint(ROW_ITEMS);
    uint head = uint(FIRST_HEAD) + (n % uint(ROW_ITEMS)) / uint(HEAD_ITEMS);
    uint i = n % uint(HEAD_ITEMS);
    rope_item item = rope_item_at(i);
    bool rotates = item.paired && head < uint(HEADS + KV_HEADS);
    bool cached = head >= uint(HEADS);
    if (t >= pass_rows || !(rotates || cached))
        return;

    uint seq = row_seq(t), pos = row_pos(t);
    if (step_table[seq].stopped != 0u)
        return;
    uint first = t * uint(QKV_STRIDE) + head * uint(HEAD_DIM);
    vec4 x = rope_item_load(first, item);
    if (rotates)
        x = rope_rotate(x, rope_angles(pos, i));
    if (cached) {
        bool is_key = head < uint(HEADS + KV_HEADS);
        uint key = kv_row(kv_keys(seq, head - uint(HEADS)), pos);
        uint value = kv_row(kv_values(seq, head - uint(HEADS + KV_HEADS)), pos);
        uint row = is_key ? key : value;
        kv_store_vec2(row, item.dim / 2u, x.xy);
        kv_store_vec2(row, item.partner / 2u, x.zw);
    } else {
        QKV[(first + item.dim) / 2u] = x.xy;
        QKV[(first + item.partner) / 2u] = x.zw;
    }
}

void body(uvec3 group)
{
    uint first = group.x * uint(LOCAL_X * EACH) + gl_LocalInvocationID.x;
    rope_begin();
    for (uint e = 0u; e < uint(EACH); e++)
        rotate_item(first + e * uint(LOCAL_X));
}
