// The softmax of a query before its first key: a maximum and a sum of weights.
//
// The sink of the head is a score without a value. Needs lib attn_score, `float S[]` and WHEN sinks
// none head.

void softmax_begin(uint head, out float row_max, out float row_sum)
{
#if SINKS_head
    row_max = S[head] * LOG2_E;
    row_sum = 1.0;
#else
    row_max = NO_SCORE;
    row_sum = 0.0;
#endif
}
