/* A pass runs the model over rows, each a token of a sequence. */
#ifndef DGL_CORE_PASS_H
#define DGL_CORE_PASS_H

#include "core/memory/device.h"
#include "core/plan/plan.h"
#include "kernels/step.h"

enum row_flag {
    ROW_LOGITS = 1 << 0, /* last row of the pass only: computes its logits to LOGITS */
    ROW_SCORE = 1 << 1,  /* all rows of the pass: compute their logits to ALL_LOGITS */
    ROW_HIDDEN = 1 << 2, /* all rows of the pass: write their hidden states to NORMED */
};

/* A row of a pass: one token of one sequence. */
struct pass_row {
    uint32_t seq; /* index in the step table */
    uint32_t pos;
    uint32_t flags; /* enum row_flag */
};

/* Host copy of a step table. Rows that the device already has are not written again. */
struct step_table {
    struct gl_range range;
    uint32_t row[DGL_STEP_ROWS]; /* copy of the device's rows */
    uint32_t num_known;          /* valid leading entries of row[] */
};

/* Writes the state of the pass's sequences and its rows. steps[i] is the state of sequence i. The
 * rows of one sequence must ascend from its `pos`. */
enum dgl_status step_table_write(struct step_table *table, struct dgl_device *dev,
                                 const struct dgl_step *steps, uint32_t num_seqs,
                                 const struct pass_row *rows, uint32_t num_rows);

/* The recipes after the body of a pass, as selected by the rows' flags. A recipe is empty if no
 * flag requires it. */
struct pass_tail {
    struct recipe rows; /* for all rows: hidden states, scores */
    struct recipe last; /* for the last row: its logits */
};
struct pass_tail pass_tail(const struct pass_row *rows, uint32_t num_rows);

#endif
