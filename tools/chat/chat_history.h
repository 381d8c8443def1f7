/* The lines that were typed in earlier chats: a text file, one line each, newest last. */
#ifndef DGL_TOOLS_CHAT_HISTORY_H
#define DGL_TOOLS_CHAT_HISTORY_H

/* The file is $XDG_STATE_HOME/dopplergl/chat_history; ~/.local/state is used without that variable.
 * Without a home, or if the file cannot be written, there is no history. No message is printed in
 * that case. */
struct chat_history {
    int fd; /* -1 if there is no file */
};
void history_open(struct chat_history *h, void (*each)(void *priv, const char *line), void *priv);
void history_add(struct chat_history *h, const char *line);
void history_close(struct chat_history *h);

#endif
