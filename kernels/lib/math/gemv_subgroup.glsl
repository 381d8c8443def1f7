// Matrix-vector product with subgroups: x is staged once per group, and lanes keep it in registers.
//
// A lane keeps 32 columns of x and multiplies them with one row after the other. A slice is 32 *
// SUBGROUP columns: the share that one subgroup has of a row. STAGED subgroups are next to each
// other along the columns. SUBGROUPS_N such sets divide the rows of the group. A set computes
// UNROLL rows while it loads the next UNROLL rows; for all sets that is half a TURN of rows. The
// loads of a row are in a branch, which is not taken after the last rows. NVIDIA's compiler moves
// loads that are not in a branch to the end of the loop, where the next rows wait for them.
//
// With TAIL, the last columns of a row occupy half of a subgroup or less. TAILS subgroups then
// process these columns for all rows, TAIL_ROWS rows at a time.
//
// Weights do not depend on x. gemv_begin() loads the first weights and may be called before x is
// available.
//
// In shared memory a vec4 of padding follows every eight. So neither neighbouring columns nor lanes
// 16, 32 or 64 columns apart use the same bank. The slice of a row is summed over the subgroup, and
// the slices of a row are added in order. So the sum depends on neither the tunables nor the number
// of groups.
//
// If a row has more slices than there are subgroups, it is computed in several passes. If there are
// more rows than `part` has room for, they are computed in several chunks. If x does not fit into
// shared memory, it is staged in rounds, after which each lane has its own part. A pass begins with
// the latency of weights and x, a round with a barrier. Rounds are not used if a quarter of the
// subgroups would be idle.
//
//! LET GRID8 = WEIGHT_iq1_s || WEIGHT_iq1_m ? 1024 : WEIGHT_iq2_s ? 512 : WEIGHT_iq2_xs ? 256 : 0
//! LET GRID = WEIGHT_iq3_s ? 256 : WEIGHT_iq3_xxs || WEIGHT_iq2_xxs ? 128 : GRID8
//! LET TABLE = WEIGHT_iq4_nl || WEIGHT_iq4_xs ? 512 : GRID // words of the format's table
//! LET FITS = max(1, min((SHARED_BYTES - 9216 - 4 * TABLE) / 144, WG_SIZE) / SUBGROUP) // slices
//! LET WHOLE = ceildiv(SLICES, max(1, WG_SIZE / SUBGROUP)) // passes, if x fitted
//! LET PASSES = 4 * SLICES >= 3 * WHOLE * (WG_SIZE / SUBGROUP) ? WHOLE : ceildiv(SLICES, FITS)
//! LET STAGED = ceildiv(SLICES, PASSES)
//! LET X_ROUNDS = ceildiv(STAGED, FITS)
//! LET X_SLICES = ceildiv(STAGED, X_ROUNDS) // of a round
//! LET LAST = TAIL ? ceildiv(K, 32) - (SLICES - 1) * SUBGROUP : SUBGROUP
//! LET TAIL_ROWS = LAST <= SUBGROUP / 4 ? 4 : LAST <= SUBGROUP / 2 ? 2 : 1
//! LET FULL = TAIL_ROWS > 1 ? SLICES - 1 : STAGED
//! LET TAILS = TAIL_ROWS > 1 ? max(1, WG_SIZE / SUBGROUP / (1 + FULL * TAIL_ROWS)) : 0
//! LET SUBGROUPS_N = (WG_SIZE / SUBGROUP - TAILS) / max(1, FULL)
//! LET TURN = 2 * max(1, SUBGROUPS_N) * UNROLL
//! LET CHUNK = max(1, min(min(WG_SIZE, 2048 / SLICES) / TURN, ceildiv(GROUP_ROWS, TURN))) * TURN
//! SHARED uint lane_table[TABLE]
//! SHARED vec4 xs[X_SLICES * SUBGROUP * 9]
//! SHARED float part[CHUNK * SLICES]
//! LIB loop_end
// Needs libs weight_*_subgroup and lane_dot, the parameter rows, the tunables WG_SIZE, SUBGROUP and
// UNROLL, the constants or LETs SLICES (the slices that make one result) and GROUP_ROWS (the most
// rows that a group has), and four functions of the kernel:
uint gemv_slice(uint slice);       // its number in a row; called before rows of it are read
uint gemv_row(uint r);             // element of W at which row r of the group starts
bool gemv_has(uint slice, uint r); // false: the row that was read for row r adds nothing
vec4 gemv_x(uint slice, uint i);   // elements 4 i .. 4 i + 3 of the x of a slice; zero beyond it,
                                   // and for slices from SLICES on

uint gemv_lane;                    // of the subgroup
uint gemv_k, gemv_n;               // the subgroup's slice in a pass, its place among those with it
uint gemv_count;                   // rows of the group
uint gemv_next[UNROLL * LANE_RAW]; // the rows in flight

uint tail_width;              // lanes that have a row
uint tail_across, tail_below; // rows that the subgroup has at a time; the lane's among them
uint tail_step;               // rows between those that the subgroup has one after the other

#if TAIL_ROWS > 1
#define TAIL_LANES  (SUBGROUP / TAIL_ROWS)
#define gemv_width  tail_width
#define gemv_across tail_across
#define gemv_below  tail_below
#define gemv_step   tail_step
#else
#define gemv_width  uint(SUBGROUP)
#define gemv_across 1u
#define gemv_below  0u
#define gemv_step   uint(TURN / 2)
#endif

// Loads row r of the group as the i-th of UNROLL.
void gemv_fetch(int i, uint r)
{
    uint raw[LANE_RAW];
    lane_fetch(gemv_row(r), raw);
    for (int j = 0; j < LANE_RAW; j++)
        gemv_next[i * LANE_RAW + j] = raw[j];
}

// Loads UNROLL times the rows that the subgroup has at a time, from row r of the group on. Rows
// beyond the last one are the last one.
void gemv_fetch_all(uint r)
{
    for (int i = 0; i < UNROLL; i++)
        gemv_fetch(i, min(r + uint(i) * gemv_across + gemv_below, gemv_count - 1u));
}

// False in a subgroup that belongs to no complete set.
bool gemv_has_rows()
{
#if TAIL_ROWS > 1
    return gemv_n < (gemv_across > 1u ? uint(TAILS) : uint(SUBGROUPS_N));
#else
    return gemv_n < uint(SUBGROUPS_N);
#endif
}

// Loads the first of the group's `count` rows. `zero` is 0, but the compiler cannot know that.
void gemv_begin(uint count, uint zero)
{
    gemv_lane = gl_SubgroupInvocationID;
    gemv_count = count;
#if TAIL_ROWS > 1
    bool tail = gl_SubgroupID >= uint(FULL * SUBGROUPS_N);
    gemv_k = tail ? uint(FULL) : gl_SubgroupID % uint(max(1, FULL));
    gemv_n = tail ? gl_SubgroupID - uint(FULL * SUBGROUPS_N) : gl_SubgroupID / uint(max(1, FULL));
    gemv_width = tail ? uint(TAIL_LANES) : uint(SUBGROUP);
    gemv_across = tail ? uint(TAIL_ROWS) : 1u;
    gemv_below = gemv_lane / gemv_width;
    gemv_step = tail ? uint(TAILS * TAIL_ROWS * UNROLL) : uint(TURN / 2);
#else
    gemv_k = gl_SubgroupID % uint(FULL);
    gemv_n = gl_SubgroupID / uint(FULL);
#endif
    lane_begin(gemv_slice(gemv_k) * uint(SUBGROUP), gemv_lane % gemv_width, gemv_width, zero);
    if (gemv_has_rows())
        gemv_fetch_all(gemv_n * uint(UNROLL) * gemv_across);
}

// The i-th vec4 of x that the invocation writes to shared memory in a round of a pass.
#define STAGE_LOADS ((X_SLICES * SUBGROUP * 8 + WG_SIZE - 1) / WG_SIZE)
vec4 gemv_stage_load(uint pass, int round, int i)
{
    uint v = gl_SubgroupID * uint(SUBGROUP) + gemv_lane + uint(i * WG_SIZE);
    uint slice = pass * uint(STAGED) + uint(round * X_SLICES);
    return gemv_x(slice + v / uint(8 * SUBGROUP), v % uint(8 * SUBGROUP));
}

void gemv_stage_store(int i, vec4 x)
{
    uint v = gl_SubgroupID * uint(SUBGROUP) + gemv_lane + uint(i * WG_SIZE);
    if (v < uint(X_SLICES * SUBGROUP * 8))
        xs[v + v / 8u] = x;
}

// Writes x of the slices of a pass to shared memory, and the lane's part of it to registers, in
// rounds. Whole subgroups call gemv_x(). All loads start before the first one is needed. If LLVM
// would spill, only two vec4s are loaded at a time.
#define STAGE_PAIRS (ROLLED && X_ROUNDS * STAGE_LOADS > 2)
void gemv_stage(uint pass)
{
#if !STAGE_PAIRS
    vec4 x[X_ROUNDS * STAGE_LOADS];
    for (int i = 0; i < X_ROUNDS * STAGE_LOADS; i++)
        x[i] = gemv_stage_load(pass, i / STAGE_LOADS, i % STAGE_LOADS);
#endif
    for (int round = 0; round < X_ROUNDS; round++) {
        if (round > 0) {
            memoryBarrierShared(); barrier(); // the lanes have theirs
        }
#if STAGE_PAIRS
        for (uint i = 0u; i < LOOP_END(uint(STAGE_LOADS), rows); i += 2u) {
            vec4 x = gemv_stage_load(pass, round, int(i));
            vec4 y = gemv_stage_load(pass, round, int(i + 1u));
            gemv_stage_store(int(i), x);
            gemv_stage_store(int(i + 1u), y);
        }
#else
        for (int i = 0; i < STAGE_LOADS; i++)
            gemv_stage_store(i, x[round * STAGE_LOADS + i]);
#endif
        memoryBarrierShared(); barrier();
        if (X_ROUNDS == 1 || gemv_k / uint(X_SLICES) == uint(round))
            for (int i = 0; i < 8; i++) {
                uint v = (gemv_k - uint(round * X_SLICES)) * uint(8 * SUBGROUP) +
                         lane_vec4(gemv_lane % gemv_width, uint(i), gemv_width);
                lane_x[i] = xs[v + v / 8u];
            }
    }
}

// Sums UNROLL values over the subgroup in few more steps than one value needs: in the first steps a
// lane passes on half of its values. Lane SUBGROUP / UNROLL * i then has the sum of y[i]. The steps
// are written out: as loops they took 20% longer.
#define GEMV_FOLD(across) \
    if (across <= SUBGROUP / UNROLL / 2) \
        sum += subgroupShuffleXor(sum, uint(across));
float gemv_spread(float y[UNROLL])
{
#if UNROLL == 1
    float sum = y[0];
#else
    bool upper = (gemv_lane & uint(SUBGROUP / 2)) != 0u;
#if UNROLL == 2
    float sum = (upper ? y[1] : y[0]) + subgroupShuffleXor(upper ? y[0] : y[1], uint(SUBGROUP / 2));
#else
    float a = (upper ? y[2] : y[0]) + subgroupShuffleXor(upper ? y[0] : y[2], uint(SUBGROUP / 2));
    float b = (upper ? y[3] : y[1]) + subgroupShuffleXor(upper ? y[1] : y[3], uint(SUBGROUP / 2));
    upper = (gemv_lane & uint(SUBGROUP / 4)) != 0u;
    float sum = (upper ? b : a) + subgroupShuffleXor(upper ? a : b, uint(SUBGROUP / 4));
#endif
#endif
    GEMV_FOLD(64)
    GEMV_FOLD(32)
    GEMV_FOLD(16)
    GEMV_FOLD(8)
    GEMV_FOLD(4)
    GEMV_FOLD(2)
    GEMV_FOLD(1)
    return sum;
}

// Writes the products of rows chunk .. chunk + rows - 1 of the group with the slices of a pass to
// `part`.
void gemv_pass(uint pass, uint chunk, uint rows)
{
    uint slice = pass * uint(STAGED) + gemv_k;
    if (PASSES > 1 || chunk == 0u) {
        gemv_stage(pass);
        lane_prepare();
    }
    if (!gemv_has_rows() || slice >= uint(SLICES))
        return;
    uint first = gemv_n * uint(UNROLL) * gemv_across;
#if TAIL_ROWS > 1
    if (gemv_across > 1u && chunk > 0u)
        gemv_fetch_all(chunk + first); // a chunk is not a multiple of its steps
#endif
    for (uint r = first; r < rows; r += gemv_step) {
        float y[UNROLL];
        for (int i = 0; i < UNROLL; i++) {
            uint raw[LANE_RAW];
            for (int j = 0; j < LANE_RAW; j++)
                raw[j] = gemv_next[i * LANE_RAW + j];
            uint ahead = chunk + r + gemv_step + uint(i) * gemv_across + gemv_below;
            if (ahead < (PASSES > 1 ? chunk + rows : gemv_count))
                gemv_fetch(i, ahead);
            y[i] = lane_dot(raw);
        }
#if TAIL_ROWS > 1
        if (gemv_across > 1u) {
            for (int i = 0; i < UNROLL; i++) {
                float sum = y[i];
                for (uint across = uint(TAIL_LANES / 2); across > 0u; across /= 2u)
                    sum += subgroupShuffleXor(sum, across);
                uint mine = r + uint(i * TAIL_ROWS) + gemv_below;
                if (gemv_lane % uint(TAIL_LANES) == 0u && mine < rows)
                    part[mine * uint(SLICES) + slice] = gemv_has(slice, chunk + mine) ? sum : 0.0;
            }
            continue;
        }
#endif
        float sum = gemv_spread(y);
        if (gemv_lane % uint(SUBGROUP / UNROLL) == 0u) {
            uint mine = r + gemv_lane / uint(SUBGROUP / UNROLL);
            part[mine * uint(SLICES) + slice] = gemv_has(slice, chunk + mine) ? sum : 0.0;
        }
    }
}

// Computes the products of rows chunk .. chunk + rows - 1 of the group for gemv_sum(). Ends with a
// barrier.
void gemv_chunk(uint chunk, uint rows, uint zero)
{
    for (uint pass = 0u; pass < uint(PASSES); pass++) {
#if PASSES > 1
        if (pass > 0u || chunk > 0u) {
            lane_begin(gemv_slice(min(pass * uint(STAGED) + gemv_k, uint(SLICES - 1))) *
                           uint(SUBGROUP), gemv_lane, gemv_width, zero);
            if (gemv_has_rows())
                gemv_fetch_all(chunk + gemv_n * uint(UNROLL));
            memoryBarrierShared(); barrier(); // the last slices of x have been read
        }
#endif
        gemv_pass(pass, chunk, rows);
    }
    memoryBarrierShared(); barrier();
}

// Sum of row r of the chunk.
float gemv_sum(uint r)
{
    float y = 0.0;
    for (int i = 0; i < SLICES; i++)
        y += part[r * uint(SLICES) + uint(i)];
    return y;
}
