/* The step table of a pass. */
#include "core/seq/pass.h"

#include <assert.h>
#include <stddef.h>

enum dgl_status step_table_put(struct step_table *table, struct dgl_device *dev, uint32_t seq,
                               const struct dgl_step *step)
{
    assert(seq < table->seqs);
    return gl_buffer_write(dev->gl, table->range.buffer,
                           table->range.offset + offsetof(struct dgl_step_table, seq) +
                               seq * sizeof(*step),
                           step, sizeof(*step));
}

enum dgl_status step_table_set_rows(struct step_table *table, struct dgl_device *dev,
                                    const struct pass_row *rows, uint32_t num_rows)
{
    const uint32_t head[4] = {num_rows, table->seqs, table->ids_stride, table->adjust_stride};
    uint32_t changed = num_rows; /* first row that differs on the device */
    enum dgl_status status = DGL_OK;
    assert(num_rows > 0 && num_rows <= DGL_STEP_ROWS);
    for (uint32_t i = num_rows; i-- > 0;) {
        const uint32_t word = DGL_STEP_ROW(rows[i].seq, rows[i].offset);
        assert(rows[i].seq < table->seqs && rows[i].offset < 1u << 16);
        if (i >= table->num_known || table->row[i] != word)
            changed = i;
        table->row[i] = word;
    }
    if (table->num_rows != num_rows)
        status =
            gl_buffer_write(dev->gl, table->range.buffer, table->range.offset, head, sizeof(head));
    table->num_rows = status == DGL_OK ? num_rows : 0;
    if (status == DGL_OK && changed < num_rows)
        status = gl_buffer_write(dev->gl, table->range.buffer,
                                 table->range.offset + offsetof(struct dgl_step_table, row) +
                                     changed * sizeof(uint32_t),
                                 &table->row[changed], (num_rows - changed) * sizeof(uint32_t));
    if (num_rows > table->num_known || changed < num_rows)
        table->num_known = status == DGL_OK ? num_rows : 0;
    return status;
}
