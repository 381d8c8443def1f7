/* `--session FILE` of `generate` and `chat`: the library's session file, in which the command
 * stores data of its own as JSON. */
#ifndef DGL_TOOLS_SESSION_H
#define DGL_TOOLS_SESSION_H

#include "tools/cli/engine.h"

/* Data of the command in a session file. */
struct session_note {
    const char *command; /* "generate" or "chat"; each refuses the other's file. Static */
    uint64_t seed;       /* of the last answer */
    /* generate: the pending tokens, which follow those of the session: the rest of a prompt, or the
     * last token of an answer. `draws` is the number of random draws of the answer. */
    int32_t *pending; /* [num_pending]; free() */
    size_t num_pending;
    uint32_t draws;
    char *conversation; /* chat: dgl_chat_save(), or NULL; free() */
    size_t conversation_len;
};
void session_note_finish(struct session_note *note);

/* Returns false after an error line if a file can certainly not be created at `path`. */
bool session_place_is_fit(const char *path);
/* Loads the session if the file exists, and fills *note, whose command is set. Sets *found to false
 * if there is no file. */
enum dgl_status session_read(struct engine *e, const char *path, struct session_note *note,
                             bool *found);
/* Writes the session, also after a signal; only another signal cancels it. Reports the result. */
enum dgl_status session_write(struct engine *e, const char *path, const struct session_note *note);

#endif
