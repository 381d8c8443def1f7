// Token ids to rows of the embedding table: EACH vec4s per invocation.
//
// X[t, i] = scale * W[id of row t, i] for the tokens whose id is in this band of the table. W is
// [rows][W_STRIDE] words in its packed layout. The band has the ids row0 to row0 + rows - 1. X is
// [T][X_STRIDE] f32. IDS contains the token ids.
//
// Layout: work group x covers WG_SIZE * EACH vec4s of the H columns; y is one of the T tokens.
// Neighbouring invocations have neighbouring vec4s.
//
// Choice: it is the only kernel of this operation.
//
// TUNEs: EACH is the number of vec4s per invocation, WG_SIZE the group size.
//
//! NAME embed_rows
//! OP embed
//! VARIANT rows
//! WHEN weight any
//! BIND read uint IDS
//! BIND read uint W
//! BIND write vec4 X
//! PARAM uint row0
//! PARAM uint rows
//! PARAM float scale
//! CONST H X_STRIDE W_STRIDE
//! TUNE WG_SIZE = 64 in 32 64 128 256 512
//! TUNE EACH = 1 in 1 2 4
//! LET W_WIDTH = 1
//! LET K = H // for lib weight_{weight}
//! LOCAL WG_SIZE
//! GROUPS ceildiv(H / 4, WG_SIZE * EACH) T
//! ACTIVE T * (H / 4)
//! PREFER 10
//! STEP read
//! LIB weight_words
//! LIB weight_{weight}

void body(uvec3 group)
{
    uint first = group.x * uint(LOCAL_X * EACH) + gl_LocalInvocationID.x, t = group.y;
    if (first >= uint(H / 4) || t >= pass_rows)
        return;
    // An id before the band wraps around, and is then not below `rows`.
    uint id = IDS[row_ids(t) + row_pos(t)] - row0;
    if (id >= rows)
        return;
    uint row = id * uint(W_STRIDE);
    for (uint e = 0u; e < uint(EACH); e++) {
        uint i = first + e * uint(LOCAL_X), k = 4u * i;
        if (i < uint(H / 4))
            X[t * uint(X_STRIDE / 4) + i] =
                scale * vec4(weight_at(row, k), weight_at(row, k + 1u), weight_at(row, k + 2u),
                             weight_at(row, k + 3u));
    }
}
