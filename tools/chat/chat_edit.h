/* One line from a terminal, with editing and history (libedit). */
#ifndef DGL_TOOLS_CHAT_EDIT_H
#define DGL_TOOLS_CHAT_EDIT_H

#include "core/base/str.h"

enum line_status {
    LINE_TEXT,
    LINE_DROPPED, /* Ctrl-C: the line is not to be sent */
    LINE_END,     /* the end of input, another signal, out of memory */
};

struct line_editor;
/* Returns NULL if standard input or output is not a terminal, or if the terminal does not support
 * editing. While an editor exists, SIGHUP and SIGQUIT end the chat as SIGTERM does, so that the
 * terminal is restored. */
struct line_editor *line_editor_create(void);
/* The line without its newline. The terminal is only changed during the call. */
enum line_status line_editor_read(struct line_editor *e, const char *prompt, struct dgl_buf *line);
void line_editor_destroy(struct line_editor **e);

#endif
