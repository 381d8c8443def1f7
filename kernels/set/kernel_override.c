/* Diffs of a user's kernels and libs against the built-in ones, and templates for new kernels. */
#include <stdio.h>
#include <string.h>

#include "core/base/diff.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/nearest.h"
#include "core/base/printable.h"
#include "kernels/format/kernel_format.h"
#include "kernels/kernels.h"
#include "kernels/set/kernel_request.h"

/* ---- differences ----------------------------------------------------------------------------- */

/* Reports one text. Returns false if the callback returns false, or if memory runs out, which sets
 * *failed. */
static bool report(struct kernel_override o, struct dgl_str old, kernel_override_cb cb, void *priv,
                   bool *failed)
{
    struct dgl_buf new_name = {0}, text = {0}, diff = {0};
    dgl_buf_puts(&text, ""); /* never NULL */
    dgl_buf_visible(&new_name, dgl_str_of(o.origin));
    for (size_t i = 0; i < o.text.len; i++) /* CRLF as LF, as hashes are computed */
        if (o.text.p[i] != '\r' || i + 1 == o.text.len || o.text.p[i + 1] != '\n')
            dgl_buf_putc(&text, o.text.p[i]);
    *failed = new_name.failed || text.failed ||
              !dgl_hash_bytes(DGL_HASH_SHA256, text.p, text.len, o.sha256);
    if (!*failed)
        dgl_diff_unified(&diff, o.builtin ? o.builtin : "/dev/null", old, new_name.p,
                         (struct dgl_str){text.p, text.len});
    *failed = *failed || diff.failed;
    o.diff = diff.p ? diff.p : "";
    const bool go_on = !*failed && cb(priv, &o);
    dgl_buf_finish(&new_name);
    dgl_buf_finish(&text);
    dgl_buf_finish(&diff);
    return go_on;
}

enum dgl_status kernel_set_overrides(const struct dgl_log *log, const struct kernel_set *set,
                                     kernel_override_cb cb, void *priv)
{
    bool go_on = true, failed = false;
    for (size_t i = 0; i < kernel_set_count(set) && go_on; i++) {
        const struct kernel *k = kernel_set_at(set, i);
        const struct kernel *old = k->builtin;
        const struct kernel_override o = {
            k->name, k, k->origin, {k->text, k->text_len}, "", old ? old->path : NULL, ""};
        const struct dgl_str text = {old ? old->text : "", old ? old->text_len : 0};
        go_on = k->source == 0 || report(o, text, cb, priv, &failed);
    }
    for (size_t i = 0; i < kernel_set_num_libs(set) && go_on; i++) {
        const struct kernel_lib *lib = kernel_set_lib_at(set, i);
        const struct kernel_lib *old = lib->builtin;
        const struct kernel_override o = {
            lib->name, NULL, lib->path, {lib->text, lib->text_len}, "", old ? old->path : NULL, ""};
        const struct dgl_str text = {old ? old->text : "", old ? old->text_len : 0};
        go_on = lib->source == 0 || report(o, text, cb, priv, &failed);
    }
    return failed ? dgl_fail_memory(log, "a difference of kernels", 0) : DGL_OK;
}

/* ---- a new kernel ---------------------------------------------------------------------------- */

bool kernel_is_for(const struct kernel *kernel, const char *op, struct dgl_buf *line)
{
    struct dgl_str rest = dgl_str_of(op), part;
    if (!dgl_str_split(&rest, '/', &part) || !dgl_str_eq(part, kernel->op))
        return false;
    while (dgl_str_split(&rest, '/', &part)) {
        struct dgl_str key, value;
        const bool keyed = kernel_part_split(part, &key, &value);
        char word[256];
        uint32_t i = 0;
        snprintf(word, sizeof(word), "%.*s", (int)value.len, value.p);
        while (i < kernel->num_when && (!kernel_word_in(kernel->when[i].words, word) ||
                                        (keyed && !dgl_str_eq(key, kernel->when[i].key))))
            i++;
        if (i == kernel->num_when)
            return false;
        if (line)
            dgl_buf_printf(line, "%s%s=%s", line->len ? "," : "", kernel->when[i].key, word);
    }
    return true;
}

const struct kernel *kernel_template_find(const struct kernel_set *set, const char *op)
{
    const struct kernel *found = NULL;
    for (size_t i = 0; i < kernel_set_count(set); i++) {
        const struct kernel *k = kernel_set_at(set, i);
        if (k->source == 0 && kernel_is_for(k, op, NULL) &&
            (!found ||
             (strcmp(k->variant, "baseline") == 0 && strcmp(found->variant, "baseline") != 0)))
            found = k;
    }
    return found;
}

/* Logs an operation and its attributes with their words, wrapped at words. */
static void log_words(const struct dgl_log *log, const struct kernel_set *set, struct dgl_str op)
{
    enum { WIDTH = 88 };
    struct dgl_buf words = {0}, line = {0};
    struct dgl_str rest, word;
    kernel_op_words(set, op, false, &words);
    rest = (struct dgl_str){words.p, words.len};
    dgl_buf_printf(&line, "  %-*.*s", words.len ? 14 : 0, (int)op.len, op.p);
    while (rest.len && kernel_word_next(&rest, &word)) {
        if (line.len + 1 + word.len > WIDTH) {
            dgl_notice(log, "%s", line.p ? line.p : "");
            line.len = 0;
            dgl_buf_printf(&line, "%16s", "");
        }
        dgl_buf_printf(&line, " %.*s", (int)word.len, word.p);
    }
    dgl_notice(log, "%s", line.p ? line.p : "");
    dgl_buf_finish(&words);
    dgl_buf_finish(&line);
}

/* Logs the error, then the available operations and words. */
static enum dgl_status fail_op(const struct dgl_log *log, const struct kernel_set *set,
                               const char *op)
{
    const struct dgl_str name = {op, strcspn(op, "/")};
    struct dgl_nearest nearest = {.word = name};
    struct dgl_buf ops = {0};
    struct dgl_str rest, one;
    bool known = false;
    for (size_t i = 0; i < kernel_set_count(set); i++) {
        known = known || dgl_str_eq(name, kernel_set_at(set, i)->op);
        dgl_nearest_try(&nearest, kernel_set_at(set, i)->op);
        dgl_buf_add_word(&ops, 0, dgl_str_of(kernel_set_at(set, i)->op));
    }
    if (!*op)
        dgl_fail(log, DGL_ERR_INVALID_ARG,
                 "a new kernel wants the operation that it is for, alone or with words of its "
                 "kernels: norm, matmul/decode");
    else if (known)
        dgl_fail(log, DGL_ERR_INVALID_ARG, "no built-in kernel is for %s: none has all these words",
                 op);
    else
        dgl_fail(log, DGL_ERR_INVALID_ARG, "no built-in kernel is for %s%s%s%s", op,
                 nearest.best ? "; did you mean " : "", nearest.best ? nearest.best : "",
                 nearest.best ? "?" : "");
    for (rest = (struct dgl_str){ops.p, ops.len}; kernel_word_next(&rest, &one);)
        if (!known || dgl_str_equal(one, name))
            log_words(log, set, one);
    dgl_buf_finish(&ops);
    return DGL_ERR_INVALID_ARG;
}

enum dgl_status kernel_template(const struct dgl_log *log, const struct kernel_set *set,
                                const char *name, const char *op, const struct kernel *from,
                                struct dgl_buf *out)
{
    const size_t len = strlen(name);
    if (len == 0 || len > 63 || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != len)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "%s cannot be the NAME of a kernel: 1 to 63 of a-z, 0-9 and _", name);
    if (kernel_set_find(set, name))
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "there is a kernel %s: choose another NAME, or begin a replacement with "
                        "`dopplergl kernels show %s`",
                        name, name);
    if (!from)
        from = kernel_template_find(set, op);
    if (!from)
        return fail_op(log, set, op);
    dgl_buf_printf(
        out,
        "// %s: begun as a copy of %s. %s\n"
        "//\n"
        "// To be written here: the mathematics, shapes, how the work is spread over groups and\n"
        "// invocations, and what was measured, with command, machine and date. "
        "docs/operations.md\n"
        "// has the buffers and constants of %s, docs/kernels.md the lines that begin with //!.\n"
        "//\n",
        name, from->name, from->summary ? from->summary : "", from->op);
    /* Copy the directives and the comments between them, then the body. */
    struct dgl_str rest = {from->text, (size_t)(from->body - from->text)}, line;
    bool begun = false;
    while (rest.len && dgl_str_split(&rest, '\n', &line)) {
        begun = begun || dgl_str_starts(line, "//!");
        if (dgl_str_starts(line, "//! NAME "))
            dgl_buf_printf(out, "//! NAME %s\n", name);
        else if (dgl_str_starts(line, "//! VARIANT "))
            dgl_buf_puts(out, "//! VARIANT own\n");
        else if (begun)
            dgl_buf_printf(out, "%.*s\n", (int)line.len, line.p);
    }
    dgl_buf_append(out, from->body, from->text_len - (size_t)(from->body - from->text));
    return out->failed ? dgl_fail_memory(log, "a kernel", out->len) : DGL_OK;
}
