/* An open chat: the state of its turns and commands. */
#ifndef DGL_TOOLS_CHAT_H
#define DGL_TOOLS_CHAT_H

#include "tools/chat_line.h"
#include "tools/chat_talk.h"
#include "tools/generation.h"

/* Of the last answer. */
struct chat_figures {
    size_t prompt, reused, tokens;
    double prefill_tps, decode_tps;
    enum dgl_finish finish;
};

struct chat {
    const struct options *opt;
    struct engine engine;
    struct dgl_template *tmpl;
    struct stop_strings stop;
    struct dgl_generate_params params; /* without a prompt */
    struct chat_talk talk;
    struct chat_input input;
    struct chat_figures last;
    size_t answers;   /* in this conversation, since it began or was loaded */
    bool interactive; /* standard input is a terminal: Ctrl-C ends an answer, not the program */
    bool terminal;    /* standard output is one */
    bool at_newline;  /* the last byte that was printed is a newline */
    bool output_lost;
    bool quit;
};

/* Asks the model for an answer to the conversation, prints it as it comes and adds it. A message
 * that cannot be answered is taken back with an explanation. Anything but EXIT_OK ends the chat. */
int chat_answer(struct chat *c);
/* One answer to the messages of a file, as text or JSON. */
int chat_answer_file(struct chat *c, const char *messages, size_t len);

/* Runs a line that begins with a slash. Anything but EXIT_OK ends the chat. */
int chat_command(struct chat *c, struct dgl_str line);

#endif
