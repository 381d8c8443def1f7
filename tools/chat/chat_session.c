/* Conversations as JSON text, and in session files. */
#include "tools/chat/chat.h"
#include "tools/cli/session.h"
#include "tools/cli/variables.h"

enum dgl_status chat_load_messages(struct chat *c, const char *name, struct dgl_str json)
{
    struct dgl_buf messages = {0};
    enum dgl_status status = variables_add(&c->engine.console.log, c->opt, json, &messages);
    if (status == DGL_OK)
        status = dgl_chat_load(c->talk, name, messages.p, messages.len);
    dgl_buf_finish(&messages);
    return status;
}

enum dgl_status chat_take_session(struct chat *c)
{
    const char *path = c->opt->session;
    struct session_note note = {.command = "chat"};
    bool found = false;
    enum dgl_status status = session_read(&c->engine, path, &note, &found);
    if (status == DGL_OK && found)
        status =
            chat_load_messages(c, path, (struct dgl_str){note.conversation, note.conversation_len});
    if (found) {
        c->held = status == DGL_OK;
        c->answered = false;
    }
    if (status == DGL_OK && found) {
        if (c->set.seed < 0)
            c->params.sampling.seed = note.seed;
        console_note(&c->engine.console, "session: the conversation has %zu messages",
                     dgl_chat_num_messages(c->talk));
    } else if (status == DGL_OK) {
        console_note(&c->engine.console, "session: %s is not there yet", path);
    }
    session_note_finish(&note);
    return status;
}

enum dgl_status chat_put_session(struct chat *c)
{
    struct session_note note = {.command = "chat", .seed = c->params.sampling.seed};
    enum dgl_status status = dgl_chat_save(c->talk, &note.conversation, &note.conversation_len);
    if (!c->held) /* until then the next answer may find the beginning of its prompt */
        dgl_session_trim(c->engine.session, 0);
    if (status == DGL_OK)
        status = session_write(&c->engine, c->opt->session, &note);
    session_note_finish(&note);
    return status;
}
