/* Messages as people type them: one line, or several. */
#ifndef DGL_TOOLS_CHAT_LINE_H
#define DGL_TOOLS_CHAT_LINE_H

#include "tools/chat/chat_edit.h"

/* Where messages come from: an edited line where standard input and output are a terminal, else
 * plain lines of standard input. */
struct chat_input {
    struct line_editor *editor; /* NULL = plain lines */
    bool prompts;               /* of plain lines: on standard error, for a terminal */
    struct dgl_buf line;
};
void chat_input_init(struct chat_input *in);
void chat_input_finish(struct chat_input *in);

/* Reads the next message and joins its lines with newlines. A line that ends with a backslash
 * continues in the next one. Three quotation marks at the beginning of a message open a block,
 * which ends with three quotation marks at the end of a line. */
enum line_status chat_input_read(struct chat_input *in, struct dgl_buf *message);

#endif
