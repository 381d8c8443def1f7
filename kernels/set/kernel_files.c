/* Loads kernels and libs into a set: the built-in ones, then directories, then single files. */
#include "kernels/set/kernel_set_internal.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/printable.h"
#include "kernels/format/kernel_format.h"
#include "kernels/format/kernel_parser.h"
#include "kernels/set/embedded.h"

#define WALK_DEPTH_MAX   8    /* depth of folders in a user's directory */
#define WALK_FOLDERS_MAX 1000 /* folders in it */
#define WALK_FILES_MAX   1000 /* kernels and libs in it */
#define WALK_MIB_MAX     16   /* total size of these files */

/* One text to add. Messages name it `path`. `source` is the number of its layer of files, 0 if
 * built in. */
struct addition {
    const struct dgl_log *log;
    struct kernel_set *set;
    const char *path, *origin;
    const char *text; /* owned by the set or static */
    size_t len;
    uint32_t source;
};

/* Checks that a user's kernel is for an existing operation and uses constants that operations
 * supply. Built-in kernels serve all operations, so their constants are the complete list. Without
 * the check such a kernel would silently never run. */
static enum dgl_status check_operation(const struct addition *a, const struct kernel *kernel)
{
    const struct kernel_set *set = a->set;
    const struct kernel_const *wrong = NULL;
    struct dgl_buf ops = {0}, names = {0};
    bool known = false;
    for (size_t i = 0; i < set->count; i++) {
        const struct kernel *other = set->kernels[i]->builtin;
        if (!other)
            continue;
        const bool same = strcmp(other->op, kernel->op) == 0;
        known = known || same;
        dgl_buf_add_word(&ops, 0, dgl_str_of(other->op));
        for (uint32_t c = 0; c < other->num_consts && same; c++)
            dgl_buf_add_word(&names, 0, dgl_str_of(other->consts[c].name));
    }
    for (uint32_t c = 0; c < kernel->num_consts && known && !wrong; c++) {
        bool supplied = kernel->consts[c].has_preset;
        for (size_t i = 0; i < set->count && !supplied; i++)
            supplied = set->kernels[i]->builtin &&
                       kernel_has_const(set->kernels[i]->builtin, kernel->consts[c].name);
        wrong = supplied ? NULL : &kernel->consts[c];
    }
    enum dgl_status status = DGL_OK;
    if (!known)
        status = dgl_fail(
            a->log, DGL_ERR_KERNEL, "%s:%u: OP: no operation is called %s; there are: %s", a->path,
            kernel_directive_line(kernel, "OP", kernel->op), kernel->op, ops.p ? ops.p : "");
    else if (wrong)
        status = dgl_fail(a->log, DGL_ERR_KERNEL,
                          "%s:%u: CONST: no operation supplies %s; built-in kernels of %s use: %s",
                          a->path, kernel_directive_line(kernel, "CONST", wrong->name), wrong->name,
                          kernel->op, names.len ? names.p : "none");
    dgl_buf_finish(&ops);
    dgl_buf_finish(&names);
    return status;
}

static enum dgl_status add_kernel(const struct addition *a)
{
    struct kernel_set *set = a->set;
    struct kernel *kernel = NULL;
    enum dgl_status status = DGL_OK;
    TRY(kernel_parse(a->log, &set->arena, a->path, a->text, a->len, &kernel));
    kernel->origin = a->origin;
    kernel->source = a->source;
    if (a->source != 0)
        TRY(check_operation(a, kernel));
    const size_t index = kernel_set_index(set, kernel->name);
    const struct kernel *old = index < set->count ? set->kernels[index] : NULL;
    if (old && old->source == a->source)
        TRY(dgl_fail(a->log, DGL_ERR_KERNEL, "%s: the NAME %s is also that of %s", a->path,
                     kernel->name, old->path));
    if (old && strcmp(old->op, kernel->op) != 0)
        TRY(dgl_fail(a->log, DGL_ERR_KERNEL,
                     "%s: it would replace the kernel %s of OP %s (%s) by one of OP %s: choose "
                     "another NAME",
                     a->path, kernel->name, old->op, old->path, kernel->op));
    if (!dgl_grow((void **)&set->kernels, &set->cap, index + 1, sizeof(*set->kernels)))
        TRY(dgl_fail_memory(a->log, "the list of kernels", (index + 1) * sizeof(*set->kernels)));
    kernel->added = old ? old->added : a->source != 0;
    kernel->builtin = a->source == 0 ? kernel : old ? old->builtin : NULL;
    set->kernels[index] = kernel;
    set->count += !old;
done:
    return status;
}

static enum dgl_status add_lib(const struct addition *a, const char *file)
{
    struct kernel_set *set = a->set;
    const size_t len = strlen(file) - strlen(".glsl");
    const struct kernel_lib head = {
        .name = dgl_arena_strndup(&set->arena, file, len), .path = a->path, .source = a->source};
    struct kernel_lib *lib = NULL;
    enum dgl_status status = DGL_OK;
    size_t i = 0;
    if (!head.name)
        TRY(dgl_fail_memory(a->log, "a lib's name", len));
    TRY(kernel_lib_parse(a->log, &set->arena, &head, a->text, a->len, &lib));
    while (i < set->num_libs && strcmp(set->libs[i]->name, lib->name) != 0)
        i++;
    if (i < set->num_libs && set->libs[i]->source == a->source)
        TRY(dgl_fail(a->log, DGL_ERR_KERNEL, "%s: the lib's name is also that of %s", a->path,
                     set->libs[i]->path));
    if (!dgl_grow((void **)&set->libs, &set->cap_libs, i + 1, sizeof(*set->libs)))
        TRY(dgl_fail_memory(a->log, "the list of libs", i));
    lib->builtin = a->source == 0 ? lib : i < set->num_libs ? set->libs[i]->builtin : NULL;
    set->num_libs += i == set->num_libs;
    set->libs[i] = lib;
done:
    return status;
}

enum dgl_status kernel_set_add_builtins(const struct dgl_log *log, struct kernel_set *set)
{
    enum dgl_status status = DGL_OK;
    for (const struct kernel_embedded *e = kernel_embedded; e->path; e++) {
        struct addition a = {.log = log, .set = set, .text = e->text, .len = e->len};
        a.origin = "builtin";
        a.path = dgl_arena_printf(&set->arena, "kernels/%s", e->path);
        if (!a.path)
            TRY(dgl_fail_memory(log, "the list of kernels", strlen(e->path)));
        TRY(dgl_str_ends(dgl_str_of(e->path), ".glsl") ? add_lib(&a, strrchr(a.path, '/') + 1)
                                                       : add_kernel(&a));
    }
done:
    return status;
}

void kernel_set_begin_file(struct fault_log *f, const struct dgl_log *log, struct kernel_set *set)
{
    fault_log_begin(f, log, set->keeps_faults ? &set->faults : NULL, &set->arena);
}

/* A user's file to read. */
struct user_file {
    const char *path, *lib;              /* lib: its file name, or NULL for a kernel */
    const struct dgl_kernel_text *given; /* replaces the file's text, or NULL */
    uint32_t source;
};

const struct dgl_kernel_text *kernel_text_given(const struct dgl_kernels_params *params,
                                                const char *path)
{
    for (size_t i = 0; i < params->num_texts; i++)
        if (strcmp(params->texts[i].path, path) == 0)
            return &params->texts[i];
    return NULL;
}

enum dgl_status kernel_text_copy(const struct dgl_log *log, const struct dgl_kernel_text *given,
                                 char **text, size_t *len)
{
    if (given->len > KERNEL_FILE_MAX)
        return dgl_fail(log, DGL_ERR_FORMAT, "%s: a text of %zu bytes, at most %u are read",
                        given->path, given->len, KERNEL_FILE_MAX);
    *len = given->len;
    *text = dgl_calloc(given->len + 1, 1);
    if (!*text)
        return dgl_fail_memory(log, "a kernel file", given->len);
    memcpy(*text, given->text, given->len);
    return DGL_OK;
}

/* Reads a file into the set's memory and adds it as a kernel or lib. Adds its length to *bytes. */
static enum dgl_status add_file(const struct dgl_log *log, struct kernel_set *set,
                                const struct user_file *file, size_t *bytes)
{
    char *text = NULL;
    size_t len = 0;
    struct addition a = {.log = log, .set = set, .source = file->source};
    enum dgl_status status = DGL_OK;
    TRY(file->given ? kernel_text_copy(log, file->given, &text, &len)
                    : dgl_file_slurp(log, file->path, KERNEL_FILE_MAX, &text, &len));
    *bytes += len;
    a.len = len;
    a.text = dgl_arena_strndup(&set->arena, text, len);
    a.path = a.origin = dgl_arena_strndup(&set->arena, file->path, strlen(file->path));
    if (!a.text || !a.path)
        TRY(dgl_fail_memory(log, "a kernel file", len));
    TRY(file->lib ? add_lib(&a, file->lib) : add_kernel(&a));
done:
    free(text);
    return status;
}

/* State of a walk over a user's directory and its folders. */
struct walk {
    const struct dgl_log *log;
    struct kernel_set *set;
    const struct dgl_kernels_params *params;
    const char *root; /* the directory with links resolved */
    uint32_t source;
    size_t files, folders, bytes;
};

/* Returns the part of the path after `dir`/, or NULL if the path is elsewhere. */
static const char *inside(const char *path, const char *dir)
{
    const size_t len = strlen(dir), slash = len > 0 && dir[len - 1] == '/';
    if (strncmp(path, dir, len) != 0 || (!slash && path[len] != '/'))
        return NULL;
    return path + len + !slash;
}

/* Adds one file of a directory. Enforces the limits of the directory, which may be downloaded. The
 * limits of single files are checked elsewhere. */
static enum dgl_status add_walked(struct walk *walk, const char *path, const char *lib)
{
    const struct dgl_log *log = walk->log;
    if (log && log->cancelled && log->cancelled(log->priv))
        return dgl_fail(log, DGL_ERR_CANCELLED, "reading the kernel directory was cancelled");
    if (walk->files++ == WALK_FILES_MAX)
        return dgl_fail(log, DGL_ERR_INVALID_ARG, "%s: a kernel directory has at most %d files",
                        path, WALK_FILES_MAX);
    const struct user_file file = {path, lib, kernel_text_given(walk->params, path), walk->source};
    struct fault_log own;
    kernel_set_begin_file(&own, log, walk->set);
    /* A link in a downloaded directory could name any file of the user, and messages would show its
     * text. A dangling link fails when it is read. */
    char *target = !file.given && dgl_path_is_link(path) ? realpath(path, NULL) : NULL;
    enum dgl_status status;
    if (target && !inside(target, walk->root))
        status = dgl_fail(&own.log, DGL_ERR_INVALID_ARG,
                          "%s: a link out of the kernel directory, to %s: name that with "
                          "--kernel-file",
                          path, DGL_PRINTABLE(target));
    else
        status = add_file(&own.log, walk->set, &file, &walk->bytes);
    free(target);
    status = fault_log_end(&own, path, status);
    if (status == DGL_OK && walk->bytes > (size_t)WALK_MIB_MAX << 20)
        status = dgl_fail(log, DGL_ERR_INVALID_ARG,
                          "%s: a kernel directory has at most %d MiB of files", path, WALK_MIB_MAX);
    return status;
}

bool kernel_texts_in(const struct dgl_kernels_params *params, const char *dir)
{
    for (size_t i = 0; i < params->num_texts; i++)
        if (params->texts[i].text && inside(params->texts[i].path, dir))
            return true;
    return false;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Lists the sorted names of a folder, including names that only the caller's texts have. The caller
 * frees them with dgl_names_free(), also on failure. */
static enum dgl_status list_folder(const struct walk *walk, const char *dir, char ***names,
                                   size_t *count)
{
    const struct dgl_kernels_params *params = walk->params;
    enum dgl_status status = DGL_OK;
    if (dgl_path_present(dir) || !kernel_texts_in(params, dir))
        status = dgl_dir_list(walk->log, dir, names, count);
    size_t cap = *count;
    for (size_t i = 0; status == DGL_OK && i < params->num_texts; i++) {
        const char *rest = inside(params->texts[i].path, dir);
        const size_t len = rest ? strcspn(rest, "/") : 0;
        bool known = !params->texts[i].text || len == 0;
        for (size_t j = 0; j < *count && !known; j++)
            known = strncmp((*names)[j], rest, len) == 0 && (*names)[j][len] == '\0';
        if (known)
            continue;
        if (!dgl_grow((void **)names, &cap, *count + 1, sizeof(**names)) ||
            !((*names)[*count] = dgl_strndup(rest, len)))
            status = dgl_fail_memory(walk->log, "a folder's names", len + 1);
        else
            ++*count;
    }
    if (*count > 0)
        qsort(*names, *count, sizeof(**names), compare_names);
    return status;
}

/* Adds the files of a folder, then its folders, both sorted by name. Ignores hidden names, because
 * editors keep locks and backups in them, and links to folders. */
static enum dgl_status add_folder(struct walk *walk, const char *dir, uint32_t depth)
{
    char **names = NULL, *path = NULL;
    size_t num_names = 0;
    enum dgl_status status = DGL_OK;
    if (depth > WALK_DEPTH_MAX || walk->folders++ == WALK_FOLDERS_MAX)
        TRY(dgl_fail(walk->log, DGL_ERR_INVALID_ARG,
                     "%s: a kernel directory has at most %d folders, %d deep", dir,
                     WALK_FOLDERS_MAX, WALK_DEPTH_MAX));
    TRY(list_folder(walk, dir, &names, &num_names));
    for (size_t i = 0; i < 2 * num_names; i++) {
        const bool want_folder = i >= num_names;
        const char *name = names[i % num_names];
        const bool lib = dgl_str_ends(dgl_str_of(name), ".glsl");
        const bool file = lib || dgl_str_ends(dgl_str_of(name), ".comp");
        if (file == want_folder || name[0] == '.')
            continue;
        free(path);
        path = dgl_path_join(dir, name);
        if (!path)
            TRY(dgl_fail_memory(walk->log, "a path", strlen(dir)));
        const struct dgl_kernel_text *given = kernel_text_given(walk->params, path);
        const bool folder = !file && dgl_path_is_dir(path);
        if (file && (!given || given->text))
            TRY(add_walked(walk, path, lib ? name : NULL));
        else if (folder && dgl_path_is_link(path) && !given)
            dgl_warn(walk->log, "%s: a link to a folder is not followed", path);
        else if (!file && !(folder && dgl_path_is_link(path)) &&
                 (folder || kernel_texts_in(walk->params, path)))
            TRY(add_folder(walk, path, depth + 1));
    }
done:
    free(path);
    dgl_names_free(names, num_names);
    return status;
}

enum dgl_status kernel_set_add_files(const struct dgl_log *log, struct kernel_set *set,
                                     const struct dgl_kernels_params *params)
{
    char *root = NULL;
    uint32_t source = 1;
    size_t bytes = 0;
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < params->num_dirs; i++) {
        const char *dir = params->dirs[i];
        free(root);
        root = realpath(dir, NULL);
        struct walk walk = {.log = log, .set = set, .params = params, .source = source++};
        walk.root = root ? root : dir;
        TRY(add_folder(&walk, dir, 0));
        if (walk.files == 0 && !params->allow_empty_dirs)
            TRY(dgl_fail(log, DGL_ERR_INVALID_ARG,
                         "%s: the kernel directory holds no *.comp and no *.glsl", dir));
    }
    for (size_t i = 0; i < params->num_files; i++) {
        const char *path = params->files[i];
        const struct user_file file = {path, NULL, kernel_text_given(params, path), source};
        struct fault_log own;
        const bool there =
            file.given || dgl_path_present(path); /* a wrong name fails the whole call */
        if (file.given && !file.given->text)
            continue;
        fault_log_begin(&own, log, set->keeps_faults && there ? &set->faults : NULL, &set->arena);
        TRY(fault_log_end(&own, path, add_file(&own.log, set, &file, &bytes)));
    }
done:
    free(root);
    return status;
}
