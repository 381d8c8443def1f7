// Layout of ADJUST, the changes of logits before they are ranked (docs/operations.md, sample_*).
//
// Needs STEP read. step_row is the row whose logits are changed.

uint adjust_word(uint i)
{
    return ADJUST[row_adjust(step_row) + i];
}

// Words of the head.
const uint ADJUST_NUM_BIASES = 0u;
const uint ADJUST_PRESENCE = 1u;    // f32
const uint ADJUST_FREQUENCY = 2u;   // f32
const uint ADJUST_DRY_LAST_N = 3u;  // window, tokens
const uint ADJUST_DRY_ALLOWED = 4u; // length of a repeat that costs nothing more
const uint ADJUST_DRY_LENGTHS = 5u; // penalties in the table
const uint ADJUST_SEQUENCE_WORDS = 6u;

// The tables after the head.
const uint ADJUST_BIASES = 10u;                   // id, f32
const uint ADJUST_DRY = ADJUST_BIASES + 2048u;    // f32 by tokens beyond the allowed length
const uint ADJUST_MARKS = ADJUST_DRY + 1024u;     // two bits per id
const uint ADJUST_SEQUENCES = ADJUST_MARKS + (uint(VOCAB) + 15u) / 16u;
