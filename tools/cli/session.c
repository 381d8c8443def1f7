/* Sessions in files: reading, writing, and the commands' own JSON in them. */
#include "tools/cli/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/mem.h"
#include "core/base/printable.h"
#include "core/base/status.h"
#include "tools/cli/report.h"

#define MAX_SEED 9007199254740991 /* as --seed */

void session_note_finish(struct session_note *note)
{
    free(note->pending);
    free(note->conversation);
    *note = (struct session_note){.command = note->command};
}

bool session_place_is_fit(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *dir = !slash          ? dgl_strdup(".")
                : slash == path ? dgl_strdup("/")
                                : dgl_strndup(path, slash - path);
    const bool ok = dir && (dgl_path_present(path) || access(dir, W_OK | X_OK) == 0);
    if (!ok)
        console_error("--session %s: no file can be made there: %s", DGL_PRINTABLE(path),
                      dir ? strerror(errno) : "out of memory");
    free(dir);
    return ok;
}

/* ---- reading --------------------------------------------------------------------------------- */

static enum dgl_status read_pending(struct dgl_json_reader r, const struct dgl_json *root,
                                    int32_t vocab, struct session_note *note)
{
    const struct dgl_json *list = NULL;
    enum dgl_status status = dgl_json_need(r, root, "pending", DGL_JSON_ARRAY, &list);
    if (status != DGL_OK)
        return status;
    note->pending = dgl_new_array(int32_t, dgl_json_count(list));
    if (!note->pending)
        return dgl_fail_memory(r.log, "ids", dgl_json_count(list) * sizeof(int32_t));
    for (const struct dgl_json *v = dgl_json_first(list); v; v = dgl_json_next(v)) {
        int64_t id = 0;
        if (!dgl_json_i64(v, &id) || id < 0 || id >= vocab)
            return dgl_json_fail_wanted(r, v, "a token id");
        note->pending[note->num_pending++] = (int32_t)id;
    }
    return DGL_OK;
}

static enum dgl_status read_note(const struct engine *e, const char *path, struct dgl_str data,
                                 struct session_note *note)
{
    const struct dgl_log *log = &e->console.log;
    const struct dgl_json *command = NULL, *conversation = NULL;
    struct dgl_json_doc *doc = NULL;
    struct dgl_buf name = {0};
    int64_t seed = 0, draws = 0;
    if (data.len == 0)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "%s was written by another program: give another name", path);
    dgl_buf_printf(&name, "%s: the command's part", path);
    enum dgl_status status = DGL_OK;
    TRY(dgl_json_parse(log, name.p ? name.p : path, data.p, data.len, &doc));
    const struct dgl_json *root = dgl_json_root(doc);
    struct dgl_json_reader r = {log, doc};
    TRY(dgl_json_need(r, root, "command", DGL_JSON_STRING, &command));
    if (!dgl_str_eq(dgl_json_str(command), note->command))
        TRY(dgl_fail(log, DGL_ERR_INVALID_ARG,
                     "%s is a session of `dopplergl %s`, not of %s: give another name", path,
                     DGL_PRINTABLE_STR(dgl_json_str(command)), note->command));
    TRY(dgl_json_need_i64(r, root, "seed", 0, MAX_SEED, &seed));
    if (strcmp(note->command, "generate") == 0) {
        TRY(dgl_json_need_i64(r, root, "draws", 0, UINT32_MAX, &draws));
        TRY(read_pending(r, root, dgl_model_get_info(e->model)->vocab, note));
    } else {
        struct dgl_buf out = {0};
        struct dgl_json_writer w = dgl_json_writer(&out, 0);
        TRY(dgl_json_need(r, root, "conversation", DGL_JSON_OBJECT, &conversation));
        dgl_jw_value(&w, conversation);
        note->conversation_len = out.len;
        note->conversation = dgl_buf_take(&out);
        if (!note->conversation)
            TRY(dgl_fail_memory(log, "the conversation", data.len));
    }
    note->seed = (uint64_t)seed;
    note->draws = (uint32_t)draws;
done:
    dgl_json_destroy(&doc);
    dgl_buf_finish(&name);
    return status;
}

enum dgl_status session_read(struct engine *e, const char *path, struct session_note *note,
                             bool *found)
{
    char *data = NULL;
    size_t len = 0;
    *found = dgl_path_present(path);
    if (!*found)
        return DGL_OK;
    e->console.work = "reading the session";
    enum dgl_status status = dgl_session_load(
        e->session, dgl_session_load_params(.path = path, CONSOLE_PROGRESS(&e->console)), &data,
        &len);
    if (status == DGL_OK)
        status = read_note(e, path, (struct dgl_str){data, len}, note);
    if (status == DGL_OK) {
        const int32_t tokens = dgl_session_len(e->session);
        console_note(&e->console, "session: %d token%s read from %s", tokens,
                     tokens == 1 ? "" : "s", path);
    }
    dgl_free(data);
    e->console.work = "loading"; /* should the device be lost */
    return status;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* The signal that ended an answer must not end the writing of the session. The next signal cancels
 * the library's call. */
static bool draw_only(void *priv, const char *what, uint64_t done, uint64_t total)
{
    console_progress(priv, what, done, total);
    return true;
}

enum dgl_status session_write(struct engine *e, const char *path, const struct session_note *note)
{
    struct dgl_buf data = {0};
    struct dgl_json_writer w = report_object(&data);
    dgl_jw_field_cstr(&w, "command", note->command);
    dgl_jw_field_u64(&w, "seed", note->seed);
    if (note->conversation) {
        dgl_jw_field_raw(&w, "conversation", note->conversation);
    } else {
        dgl_jw_field_u64(&w, "draws", note->draws);
        report_ids(&w, "pending", note->pending, note->num_pending);
    }
    dgl_jw_end_object(&w);
    e->console.work = "writing the session";
    enum dgl_status status =
        data.failed
            ? dgl_fail_memory(&e->console.log, "the session's notes", data.len)
            : dgl_session_save(e->session, dgl_session_save_params(.path = path, .data = data.p,
                                                                   .data_len = data.len,
                                                                   .progress_cb = draw_only,
                                                                   .progress_priv = &e->console));
    e->console.work = "loading";
    const int32_t tokens = dgl_session_len(e->session);
    if (status == DGL_OK)
        console_note(&e->console, "session: %s%d token%s written to %s",
                     interrupted() ? "the part until now, " : "", tokens, tokens == 1 ? "" : "s",
                     path);
    else if (status == DGL_ERR_CANCELLED)
        console_note(&e->console, "session: not written, %s is as it was", path);
    dgl_buf_finish(&data);
    return status;
}
