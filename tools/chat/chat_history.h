/* The lines that were typed in earlier chats: a text file, one line each, newest last. */
#ifndef DGL_TOOLS_CHAT_HISTORY_H
#define DGL_TOOLS_CHAT_HISTORY_H

/* $XDG_STATE_HOME/dopplergl/chat_history, below ~/.local/state without that variable. Without a
 * home, or where nothing can be written, there is no history, without a message. */
struct chat_history {
    int fd; /* -1 = none */
};
void history_open(struct chat_history *h, void (*each)(void *priv, const char *line), void *priv);
void history_add(struct chat_history *h, const char *line);
void history_close(struct chat_history *h);

#endif
