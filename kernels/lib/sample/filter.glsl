// Layout of the filters and the mask in ADJUST, which drop tokens (docs/operations.md, sample_*).
//
// Needs lib adjust.

const uint ADJUST_FILTERS = 7u; // word of the head: 1 if there are filters
const uint FILTERS = ADJUST_SEQUENCES + 2048u;
const uint ADJUST_MASKED = 8u; // word of the head: 1 if the mask applies
const uint MASK = FILTERS + 256u; // a bit per id

const uint FILTER_BAN_UNTIL = 0u; // the bans end at this number of ids of the sequence
const uint FILTER_NUM_BANS = 1u;
const uint FILTER_XTC_THRESHOLD = 2u;
// The parameters of the stages, in order. 0 means off.
const uint FILTER_STAGES = 4u;
const uint FILTER_BANS = 16u; // ids

const uint STAGE_SIGMA = 0u;   // floor(n * 2^16)
const uint STAGE_TOP_K = 1u;   // tokens
const uint STAGE_TYPICAL = 2u; // floor(p * 2^32)
const uint STAGE_TOP_P = 3u;   // likewise
const uint STAGE_MIN_P = 4u;   // likewise
const uint STAGE_XTC = 5u;     // likewise: probability
const uint STAGE_BEST = 6u;    // 1: keeps only the best token
const uint NUM_STAGES = 7u;
