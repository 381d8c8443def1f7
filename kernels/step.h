/*
 * step.h: the step state, shared by host, kernels and every plan. It is a table of sequences, and
 * the rows of the present pass, each a token of one sequence. One definition makes the C structs,
 * the GLSL uniform block (UBO binding 1), and the same words as an SSBO for kernels with the line
 * STEP write. All members are 32-bit and a sequence has 16 of them, so std140, std430 and C agree.
 *
 * For each sequence:
 * pos             position of its first row in the pass = its earlier tokens in the KV cache
 * tokens          its rows in the pass; 1 in decode
 * draws           random numbers consumed so far: the generator's counter
 * stopped         1 after a stop id, 2 if the context is full, 3 if no logit was a number: if not
 *                 0, later steps must not change the sequence
 * context         positions available
 * seed_lo         lower half of the generator's seed
 * seed_hi         upper half of the generator's seed
 * top_k           0 if off
 * top_p_q         0 if off, else floor(top_p * 2^32)
 * min_p_q         0 if off, else floor(min_p * 2^32)
 * inv_temp        1 / temperature, within 2^-20 and 2^23; 0 if greedy
 * repeat_penalty  factor of negative logits of repeated ids; 1 if off
 * repeat_last_n   window of the penalty in tokens; 0 if off
 * flags           bit 0: DGL_STEP_IGNORE_EOS. The other bits are 0
 * repeat_inverse  1 / repeat_penalty, factor of positive logits, because GLSL's division is not
 *                 correctly rounded
 * kv_first        index of its first page in each group's part of the page table
 */
#ifndef DGL_KERNELS_STEP_H
#define DGL_KERNELS_STEP_H

#include <stdint.h>

/* clang-format off */
#define DGL_STEP_FIELDS(X)           \
    X(uint, uint32_t, pos)           \
    X(uint, uint32_t, tokens)        \
    X(uint, uint32_t, draws)         \
    X(uint, uint32_t, stopped)       \
    X(uint, uint32_t, context)       \
    X(uint, uint32_t, seed_lo)       \
    X(uint, uint32_t, seed_hi)       \
    X(uint, uint32_t, top_k)         \
    X(uint, uint32_t, top_p_q)       \
    X(uint, uint32_t, min_p_q)       \
    X(float, float, inv_temp)        \
    X(float, float, repeat_penalty)  \
    X(uint, uint32_t, repeat_last_n) \
    X(uint, uint32_t, flags)         \
    X(float, float, repeat_inverse)  \
    X(uint, uint32_t, kv_first)
/* clang-format on */

struct dgl_step {
#define X(glsl, c, name) c name;
    DGL_STEP_FIELDS(X)
#undef X
};
_Static_assert(sizeof(struct dgl_step) == 64, "the state of a sequence is 16 words");

/* Bits of flags. */
#define DGL_STEP_IGNORE_EOS 1u /* stop ids do not set `stopped` */

/* 16 KiB, the minimum size of a uniform block that GLES 3.1 guarantees. */
#define DGL_STEP_SEQS 64
#define DGL_STEP_ROWS 3068
struct dgl_step_table {
    uint32_t rows; /* of the pass */
    uint32_t seqs; /* in `seq` */
    /* Distance in words between two sequences in IDS and in ADJUST, if those contain all sequences
     * of the table. 0 if they contain one. */
    uint32_t ids_stride, adjust_stride;
    struct dgl_step seq[DGL_STEP_SEQS];
    uint32_t row[DGL_STEP_ROWS]; /* DGL_STEP_ROW() of each row of the pass */
};
_Static_assert(sizeof(struct dgl_step_table) == 16384, "the step table is one uniform block");
/* A row: its sequence, and its position relative to that sequence's `pos`. */
#define DGL_STEP_ROW(seq, offset) ((uint32_t)(seq) | (uint32_t)(offset) << 16)

/* The page table: the pages of the KV cache of the pass's sequences. It is a uniform block (UBO
 * binding 2) of the minimum size that GLES guarantees. A page holds DGL_KV_PAGE positions of one
 * sequence. The table has a part of equal size for each group of layers, which begins at the
 * constant KV_ENTRY of the group's kernels. Entry KV_ENTRY + kv_first + n is the page of the
 * positions from n * DGL_KV_PAGE on in the layers of the group (kernels/lib/kv/kv.glsl). */
#define DGL_KV_PAGE         64
#define DGL_KV_TABLE_PAGES  8192
#define DGL_KV_TABLE_TOKENS (DGL_KV_TABLE_PAGES * DGL_KV_PAGE)
struct dgl_kv_table {
    uint16_t page[DGL_KV_TABLE_PAGES];
};
_Static_assert(sizeof(struct dgl_kv_table) == 16384, "the page table is one uniform block");

#endif
