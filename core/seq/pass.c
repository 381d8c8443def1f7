/* The step table of a pass. */
#include "core/seq/pass.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

enum dgl_status step_table_write(struct step_table *table, struct dgl_device *dev,
                                 const struct dgl_step *steps, uint32_t num_seqs,
                                 const struct pass_row *rows, uint32_t num_rows)
{
    const size_t head_bytes = offsetof(struct dgl_step_table, seq);
    struct {
        uint32_t head[4];
        struct dgl_step seq[DGL_STEP_SEQS];
    } state = {.head = {num_rows, num_seqs}};
    uint32_t changed = num_rows; /* first row that differs on the device */
    assert(num_seqs <= DGL_STEP_SEQS && num_rows <= DGL_STEP_ROWS);
    for (uint32_t i = num_rows; i-- > 0;) {
        uint32_t offset = rows[i].pos - steps[rows[i].seq].pos;
        uint32_t word = DGL_STEP_ROW(rows[i].seq, offset);
        assert(rows[i].seq < num_seqs && offset < 1u << 16);
        if (i >= table->num_known || table->row[i] != word)
            changed = i;
        table->row[i] = word;
    }
    memcpy(state.seq, steps, num_seqs * sizeof(*steps));
    enum dgl_status status = gl_buffer_write(dev->gl, table->range.buffer, table->range.offset,
                                             &state, head_bytes + num_seqs * sizeof(*steps));
    if (status == DGL_OK && changed < num_rows)
        status = gl_buffer_write(dev->gl, table->range.buffer,
                                 table->range.offset + offsetof(struct dgl_step_table, row) +
                                     changed * sizeof(uint32_t),
                                 &table->row[changed], (num_rows - changed) * sizeof(uint32_t));
    if (num_rows > table->num_known || changed < num_rows)
        table->num_known = status == DGL_OK ? num_rows : 0;
    return status;
}

struct pass_tail pass_tail(const struct pass_row *rows, uint32_t num_rows)
{
    uint32_t last = rows[num_rows - 1].flags;
    struct pass_tail tail = {0};
    if (last & (ROW_SCORE | ROW_HIDDEN))
        tail.rows = recipe_of(SEG_HIDDEN);
    if (last & ROW_SCORE)
        tail.rows.segments |= 1u << SEG_SCORE;
    if (last & ROW_LOGITS)
        tail.last = recipe_of(SEG_HEAD);
    return tail;
}
