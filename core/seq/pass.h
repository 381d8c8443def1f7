/* A pass runs the model over rows, each a token of a sequence. */
#ifndef DGL_CORE_PASS_H
#define DGL_CORE_PASS_H

#include "core/memory/device.h"
#include "core/plan/plan.h"
#include "kernels/step.h"

/* Results of a row. */
enum row_flag {
    ROW_LOGITS = 1 << 0, /* computes its logits to LOGITS; the last such row leaves them there */
    ROW_SAMPLE = 1 << 1, /* with ROW_LOGITS, last row of its sequence: samples the next token */
    ROW_SCORE = 1 << 2,  /* all rows of the pass: compute their logits to ALL_LOGITS */
    ROW_HIDDEN = 1 << 3, /* all rows of the pass: write their hidden states to NORMED */
};

/* A row of a pass: one token of one sequence. The rows of a sequence follow each other. */
struct pass_row {
    uint32_t seq;    /* index in the step table */
    uint32_t offset; /* its position, from the sequence's `pos` on */
    uint32_t flags;  /* enum row_flag */
    /* ROW_SAMPLE: how to sample, as in recipe_sampling() */
    enum sample_kind sampler;
    bool adjusts;
};

/* Attention over many rows reads the sequence of a tile from its first row. In a pass over several
 * sequences, the rows of each begin at a multiple of this, and a tile has at most so many rows. */
#define PASS_TILE 64

/* The step table on the device. Its head and rows are not written again if they are the same. */
struct step_table {
    struct gl_range range;
    uint32_t seqs, ids_stride, adjust_stride; /* of struct dgl_step_table */
    uint32_t num_rows;                        /* of the last pass; 0 if the device has no head */
    uint32_t row[DGL_STEP_ROWS];              /* copy of the device's rows */
    uint32_t num_known;                       /* valid leading entries of row[] */
};

/* Writes the state of a sequence. */
enum dgl_status step_table_put(struct step_table *table, struct dgl_device *dev, uint32_t seq,
                               const struct dgl_step *step);
/* Writes the rows of the next pass. */
enum dgl_status step_table_set_rows(struct step_table *table, struct dgl_device *dev,
                                    const struct pass_row *rows, uint32_t num_rows);

#endif
