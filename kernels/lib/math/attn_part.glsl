// Stores one work group's part of the attention of one token, in the format of docs/operations.md
// (attn_decode). Needs lib attn_score and `float P[]`, which has PART_ROW numbers for each row of
// the pass.

const uint PART_ROW = SPLITS == 1 ? uint(HEADS * HEAD_DIM)
                                  : uint((HEADS * SPLITS * (HEAD_DIM + 2) + 3) / 4 * 4);

// Stores vec4 i of a head's sum of weights times values, the maximum of its scores and the sum of
// its weights in P, where attn_merge reads them. If there is one split, it stores the finished
// result: the sum divided by the sum of weights.
void write_part(uint row, uint head, uint split, uint i, vec4 x, float row_max, float row_sum)
{
    uint result = head * uint(SPLITS) + split;
    uint to = row * PART_ROW + result * uint(HEAD_DIM) + 4u * i;
#if SPLITS == 1
    x /= row_sum;
#else
    uint max_sum = row * PART_ROW + uint(HEADS * SPLITS * HEAD_DIM) + 2u * result;
    if (i == 0u) {
        P[max_sum] = row_sum > 0.0 ? row_max * LN_2 : NO_SCORE;
        P[max_sum + 1u] = row_sum;
    }
#endif
    P[to] = x.x;
    P[to + 1u] = x.y;
    P[to + 2u] = x.z;
    P[to + 3u] = x.w;
}
