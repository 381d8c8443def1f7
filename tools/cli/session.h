/* `--session FILE` of `generate` and `chat`: the library's session file, with what the command has
 * to remember beside it as JSON. */
#ifndef DGL_TOOLS_SESSION_H
#define DGL_TOOLS_SESSION_H

#include "tools/cli/engine.h"

/* What goes with a session. */
struct session_note {
    const char *command; /* "generate", "chat": neither takes the other's file. Static */
    uint64_t seed;       /* of the last answer */
    /* generate: what continues the tokens that are held (the rest of a prompt, the last token of an
     * answer), and how many draws the answer has had. */
    int32_t *pending; /* [num_pending]; free() */
    size_t num_pending;
    uint32_t draws;
    char *conversation; /* chat: dgl_chat_save(), or NULL; free() */
    size_t conversation_len;
};
void session_note_finish(struct session_note *note);

/* Whether a file can be made at `path`, as far as that is known beforehand; false after an error
 * line. */
bool session_place_is_fit(const char *path);
/* Loads the session of a file that is there, and fills *note, whose command is set, with what goes
 * with it; *found = false where there is no file. */
enum dgl_status session_read(struct engine *e, const char *path, struct session_note *note,
                             bool *found);
/* Writes the session, also after an interruption: only another one ends that. Tells so. */
enum dgl_status session_write(struct engine *e, const char *path, const struct session_note *note);

#endif
