// The keys of one token's query, shared out to SPLITS groups. Needs lib attn_score and STEP read.

// First key of a split; that of split SPLITS is one beyond the new key.
uint split_first(uint split)
{
    uint oldest = first_key(step_pos);
    uint share = (step_pos - oldest + uint(SPLITS)) / uint(SPLITS);
    return min(oldest + split * share, step_pos + 1u);
}
