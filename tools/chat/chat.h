/* An open chat: the state of its turns and commands. */
#ifndef DGL_TOOLS_CHAT_H
#define DGL_TOOLS_CHAT_H

#include "tools/chat/chat_line.h"
#include "tools/cli/generation.h"
#include "tools/cli/screen.h"
#include "tools/watch/watch.h"

/* Figures of the last answer. */
struct chat_figures {
    size_t prompt, reused, tokens;
    double prefill_tps, decode_tps;
    enum dgl_finish finish;
};

struct chat {
    const struct options *opt;
    struct options set; /* options, and changes made by /set */
    struct engine engine;
    struct dgl_template *tmpl;
    char *prompt_end; /* end of the prompts of `tmpl`, or NULL */
    struct dgl_chat *talk;
    struct generation_lists lists;
    struct dgl_generate_params params; /* without a prompt */
    struct chat_input input;
    struct screen screen;
    struct watch *watch; /* NULL without --watch-kernels */
    struct chat_figures last;
    bool answered;    /* `last` is of this conversation, since it began or was loaded */
    bool held;        /* the session contains tokens of this conversation */
    bool interactive; /* standard input is a terminal: Ctrl-C ends an answer, not the program */
    bool output_lost;
    bool quit;
};

/* Asks the model for an answer to the conversation, prints it as it comes and adds it. A message
 * that cannot be answered is taken back with an explanation. Anything but EXIT_OK ends the chat. */
int turn_answer(struct chat *c);
/* One answer to the messages of a file, as text or JSON. */
int turn_answer_file(struct chat *c, struct dgl_str file);
/* Sets the parameters of answers from the options and the changes made by /set. */
enum dgl_status chat_params(struct chat *c);

/* Replaces the conversation by JSON text, with the variables of --chat-template-kwargs. `name` is
 * used in log lines. */
enum dgl_status chat_load_messages(struct chat *c, const char *name, struct dgl_str json);
/* The session of --session from its file, conversation and seed with it; a message that waits there
 * is not answered. And to it. */
enum dgl_status chat_take_session(struct chat *c);
enum dgl_status chat_put_session(struct chat *c);

/* Runs a line that begins with a slash. Anything but EXIT_OK ends the chat. */
int chat_command(struct chat *c, struct dgl_str line);

#endif
