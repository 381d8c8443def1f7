/* Passes: rows of sequences through the model. */
#ifndef DGL_CORE_PASS_H
#define DGL_CORE_PASS_H

#include "core/memory/device.h"
#include "core/plan/plan.h"
#include "kernels/step.h"

enum row_flag {
    ROW_LOGITS = 1 << 0, /* the pass's last row: its logits go to LOGITS */
    ROW_SCORE = 1 << 1,  /* all rows of a pass: their logits go to ALL_LOGITS */
    ROW_HIDDEN = 1 << 2, /* all rows of a pass: their hidden states go to NORMED */
};

/* One token of one sequence in a pass. */
struct pass_row {
    uint32_t seq; /* in the step table */
    uint32_t pos;
    uint32_t flags; /* enum row_flag */
};

/* The host's side of a step table: what the device already has is not written again. */
struct step_table {
    struct gl_range range;
    uint32_t row[DGL_STEP_ROWS]; /* as on the device */
    uint32_t num_known;          /* leading rows that are */
};

/* Writes the state of the pass's sequences and its rows. steps[i] is sequence i's; rows of one
 * sequence ascend from its `pos`. */
enum dgl_status step_table_write(struct step_table *table, struct dgl_device *dev,
                                 const struct dgl_step *steps, uint32_t num_seqs,
                                 const struct pass_row *rows, uint32_t num_rows);

/* What follows the body of a pass as the rows' flags say; without segments where nothing does. */
struct pass_tail {
    struct recipe rows; /* of all rows: hidden states, scores */
    struct recipe last; /* of the last row: its logits */
};
struct pass_tail pass_tail(const struct pass_row *rows, uint32_t num_rows);

#endif
