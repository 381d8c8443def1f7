/* Stores the messages about a faulty file, so that the other files can still be used. */
#include "kernels/set/kernel_faults.h"

#include <string.h>

#include "core/base/log.h"

static void keep_note(void *priv, enum dgl_log_level level, const char *text)
{
    struct fault_log *f = priv;
    (void)level;
    dgl_buf_printf(&f->notes, "%s\n", text);
}

void fault_log_begin(struct fault_log *f, const struct dgl_log *to, struct kernel_faults *faults,
                     struct dgl_arena *arena)
{
    *f = (struct fault_log){.to = to, .faults = faults, .arena = arena};
    if (to)
        f->log = *to;
    if (!faults)
        return;
    f->log = dgl_log_with_error(to, &f->error);
    f->log.write = keep_note;
    f->log.priv = f;
    f->log.level = DGL_LOG_NOTICE;
}

enum dgl_status fault_log_end(struct fault_log *f, const char *path, enum dgl_status status)
{
    struct kernel_faults *faults = f->faults;
    if (!faults || status == DGL_OK)
        goto done;
    if (status == DGL_ERR_NO_MEMORY || status == DGL_ERR_CANCELLED || f->notes.failed) {
        dgl_fail(f->to, status, "%s", f->error.text[0] ? f->error.text : path);
        goto done;
    }
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    const char *dot = strrchr(base, '.');
    struct kernel_fault fault = {
        .name = dgl_arena_strndup(f->arena, base,
                                  dot && dot > base ? (size_t)(dot - base) : strlen(base)),
        .path = dgl_arena_strndup(f->arena, path, strlen(path)),
        .reason = dgl_arena_strndup(f->arena, f->error.text, strlen(f->error.text)),
        .notes = dgl_arena_strndup(f->arena, f->notes.p ? f->notes.p : "", f->notes.len)};
    if (!fault.name || !fault.path || !fault.reason || !fault.notes ||
        !dgl_grow((void **)&faults->items, &faults->cap, faults->count + 1, sizeof(fault))) {
        status = dgl_fail_memory(f->to, "the faults of files", (faults->count + 1) * sizeof(fault));
        goto done;
    }
    faults->items[faults->count++] = fault;
    status = DGL_OK;
done:
    dgl_buf_finish(&f->notes);
    return status;
}
