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

/* A row of a pass: one token of one sequence. Rows of a sequence ascend. */
struct pass_row {
    uint32_t seq;    /* index in the step table */
    uint32_t offset; /* its position, from the sequence's `pos` on */
    uint32_t flags;  /* enum row_flag */
};

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

/* The recipes after the body of a pass, as selected by the rows' flags. A recipe is empty if no
 * flag requires it. */
struct pass_tail {
    struct recipe rows; /* for all rows: hidden states, scores */
    struct recipe last; /* for the last row: its logits */
};
struct pass_tail pass_tail(const struct pass_row *rows, uint32_t num_rows);

#endif
