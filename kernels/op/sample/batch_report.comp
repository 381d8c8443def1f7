// Result of the steps of a batch, for one readback of all sequences: positions and last ids.
//
// REPORT is [T][16] uint. Each row of the pass has the position of the pending token of its
// sequence, then 15 ids, from that position backwards. Ids before position 0 are reported as zeros.
//
// Layout: one invocation per word of REPORT.
//
// Choice: it is the only kernel of this operation.
//
// TUNEs: WG_SIZE is the group size.
//
//! NAME batch_report
//! OP batch_report
//! VARIANT baseline
//! BIND read uint IDS
//! BIND write uint REPORT
//! STEP read
//! TUNE WG_SIZE = SOFTWARE ? 32 : 64 in 32 64 128
//! LOCAL WG_SIZE
//! GROUPS ceildiv(16 * T, WG_SIZE) // fixed: words of a row
//! ACTIVE 16 * T

void body(uvec3 group)
{
    uint i = group.x * uint(LOCAL_X) + gl_LocalInvocationID.x;
    if (i >= 16u * pass_rows)
        return;
    uint row = i / 16u, pos = row_pos(row), back = i % 16u;
    uint word = pos;
    if (back > 0u)
        word = back <= pos + 1u ? IDS[row_ids(row) + pos + 1u - back] : 0u;
    REPORT[i] = word;
}
