/* Reports errors in kernel files with their place: one line "PATH:LINE:COLUMN: ...", then the line
 * of the file with a caret below the column. */
#ifndef DGL_KERNEL_EXCERPT_H
#define DGL_KERNEL_EXCERPT_H

#include "core/base/status.h"
#include "core/base/str.h"

/* A place in a text. `first_line` is the number of the text's first line in the file. */
struct kernel_place {
    const char *path;
    struct dgl_str text;
    uint32_t first_line, line;
    uint32_t column;     /* in bytes, from 1; 0 if unknown */
    struct dgl_str word; /* that the caret shows; empty = one that the message quotes */
};

/* Logs a fault as the error of a call and returns DGL_ERR_KERNEL; the excerpt follows as notices.
 */
enum dgl_status kernel_fail_at(const struct dgl_log *log, const struct kernel_place *place,
                               const char *message);
/* As kernel_fail_at(), for a further fault of the call: notices only. */
void kernel_note_at(const struct dgl_log *log, const struct kernel_place *place,
                    const char *message);
/* Returns line `line` of the text without its line end. Empty if the line does not exist. */
struct dgl_str kernel_place_line(const struct kernel_place *place);

#endif
