/* Messages from lines: continued lines and quoted blocks. */
#include "tools/chat/chat_line.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli/console.h"
#include "tools/cli/input.h"

#define PROMPT      "> "
#define PROMPT_MORE "... "
#define QUOTES      "\"\"\""

void chat_input_init(struct chat_input *in)
{
    *in = (struct chat_input){.editor = line_editor_create(), .prompts = isatty(STDIN_FILENO)};
}

void chat_input_finish(struct chat_input *in)
{
    line_editor_destroy(&in->editor);
    dgl_buf_finish(&in->line);
}

static enum line_status read_line(struct chat_input *in, const char *prompt)
{
    if (in->editor)
        return line_editor_read(in->editor, prompt, &in->line);
    if (in->prompts) {
        fputs(prompt, stderr);
        fflush(stderr);
    }
    if (input_line(&in->line))
        return LINE_TEXT;
    if (in->line.failed)
        console_error("out of memory for a line of %zu bytes", in->line.len);
    return LINE_END;
}

static bool take_end(struct dgl_buf *text, const char *end)
{
    bool found = dgl_str_ends((struct dgl_str){text->p, text->len}, end);
    if (found)
        text->len -= strlen(end);
    return found;
}

enum line_status chat_input_read(struct chat_input *in, struct dgl_buf *message)
{
    message->len = 0;
    enum line_status status = read_line(in, PROMPT);
    if (status != LINE_TEXT)
        return status;
    struct dgl_str line = {in->line.p, in->line.len};
    bool block = dgl_str_starts(line, QUOTES);
    size_t skip = block ? strlen(QUOTES) : 0;
    dgl_buf_append(message, line.p + skip, line.len - skip);
    while (status == LINE_TEXT && (block ? !take_end(message, QUOTES) : take_end(message, "\\"))) {
        dgl_buf_putc(message, '\n');
        status = read_line(in, PROMPT_MORE);
        if (status == LINE_TEXT)
            dgl_buf_append(message, in->line.p, in->line.len);
    }
    if (message->failed) {
        console_error("out of memory for a message of %zu bytes", message->len);
        return LINE_END;
    }
    /* Ctrl-C drops the message at any of its lines. Without a line editor, read_line() reports it
     * as the end of the input. */
    if (status == LINE_END && interrupted())
        return LINE_DROPPED;
    return status == LINE_DROPPED ? LINE_DROPPED : LINE_TEXT;
}
