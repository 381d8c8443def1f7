/* The registry: kernels and libs of the library, of directories and of single files, and the
 * hints in force. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/printable.h"
#include "kernels/format/kernel_format.h"
#include "kernels/format/kernel_parser.h"
#include "kernels/kernels.h"
#include "kernels/set/embedded.h"
#include "kernels/set/kernel_faults.h"
#include "kernels/set/kernel_hints.h"

#define FILE_MAX         (1u << 20) /* bytes of a kernel file */
#define WALK_DEPTH_MAX   8          /* folders within folders of a user's directory */
#define WALK_FOLDERS_MAX 1000       /* of it */
#define WALK_FILES_MAX   1000       /* kernels and libs of it */
#define WALK_MIB_MAX     16         /* of these together */

struct kernel_set {
    atomic_uint refs;
    struct kernel_set *parent; /* owns the kernels and libs; NULL: this set does */
    struct dgl_arena arena;
    struct kernel **kernels;
    size_t count, cap;
    struct kernel_lib **libs;
    size_t num_libs, cap_libs;
    struct kernel **builtin; /* also those that others have replaced; until it is made */
    size_t num_builtin;
    struct kernel_lib **builtin_libs; /* likewise */
    size_t num_builtin_libs;
    struct kernel_faults faults;
    bool keeps_faults;
    struct kernel_hints hints;
};

/* ---- look-up --------------------------------------------------------------------------------- */

size_t kernel_set_count(const struct kernel_set *set)
{
    return set->count;
}

const struct kernel *kernel_set_at(const struct kernel_set *set, size_t index)
{
    return set->kernels[index];
}

static size_t find_index(const struct kernel_set *set, const char *name)
{
    size_t i = 0;
    while (i < set->count && strcmp(set->kernels[i]->name, name) != 0)
        i++;
    return i;
}

const struct kernel *kernel_set_find(const struct kernel_set *set, const char *name)
{
    size_t i = find_index(set, name);
    return i < set->count ? set->kernels[i] : NULL;
}

const struct kernel_lib *kernel_set_lib(const struct kernel_set *set, const char *name)
{
    for (size_t i = 0; i < set->num_libs; i++)
        if (strcmp(set->libs[i]->name, name) == 0)
            return set->libs[i];
    return NULL;
}

size_t kernel_set_num_libs(const struct kernel_set *set)
{
    return set->num_libs;
}

const struct kernel_lib *kernel_set_lib_at(const struct kernel_set *set, size_t index)
{
    return set->libs[index];
}

size_t kernel_set_num_faults(const struct kernel_set *set)
{
    return set->faults.count;
}

const struct kernel_fault *kernel_set_fault_at(const struct kernel_set *set, size_t index)
{
    return &set->faults.items[index];
}

const struct kernel_hints *kernel_set_hints(const struct kernel_set *set)
{
    return &set->hints;
}

const char *kernel_set_hint(const struct kernel_set *set, const char *key, const char **origin)
{
    const struct kernel_hint *hint = kernel_hints_find(&set->hints, key);
    if (origin)
        *origin = hint ? hint->origin : NULL;
    return hint ? hint->value : NULL;
}

bool kernel_texts_hash(char out[65])
{
    struct dgl_hash *hash = dgl_hash_create(DGL_HASH_SHA256);
    if (!hash)
        return false;
    for (const struct kernel_embedded *e = kernel_embedded; e->path; e++)
        dgl_hash_update(hash, e->text, e->len);
    bool ok = dgl_hash_hex(hash, out);
    dgl_hash_destroy(&hash);
    return ok;
}

/* ---- filling --------------------------------------------------------------------------------- */

/* One text that is being added. `path` is what messages say, `source` numbers its layer of files: 0
 * = built in. */
struct addition {
    const struct dgl_log *log;
    struct kernel_set *set;
    const char *path, *origin;
    const char *text; /* owned by the set, or static */
    size_t len;
    uint32_t source;
};

/* The first line of the directive that has the word. */
static uint32_t find_line(const struct addition *a, const char *directive, const char *word)
{
    struct dgl_str rest = {a->text, a->len}, line;
    for (uint32_t number = 1; dgl_str_split(&rest, '\n', &line); number++) {
        struct dgl_str key, each;
        if (!dgl_str_starts(line, "//!"))
            continue;
        line = (struct dgl_str){line.p + 3, line.len - 3};
        if (kernel_word_next(&line, &key) && dgl_str_eq(key, directive))
            while (kernel_word_next(&line, &each))
                if (dgl_str_eq(each, word))
                    return number;
    }
    return 1;
}

/* A user's kernel is for an operation that there is, and asks for constants that operations have:
 * those of the built-in kernels, which serve all of them. Else it would never run, without a word.
 */
static enum dgl_status check_operation(const struct addition *a, const struct kernel *kernel)
{
    const struct kernel_set *set = a->set;
    const struct kernel_const *wrong = NULL;
    struct dgl_buf names = {0};
    bool known = false;
    for (size_t i = 0; i < set->num_builtin; i++) {
        const struct kernel *other = set->builtin[i];
        bool listed = false;
        for (size_t j = 0; j < i && !listed; j++)
            listed = strcmp(set->builtin[j]->op, other->op) == 0;
        known = known || strcmp(other->op, kernel->op) == 0;
        if (!listed)
            dgl_buf_printf(&names, "%s%s", names.len ? " " : "", other->op);
    }
    enum dgl_status status = DGL_OK;
    if (!known)
        status =
            dgl_fail(a->log, DGL_ERR_KERNEL, "%s:%u: OP: no operation is called %s; there are: %s",
                     a->path, find_line(a, "OP", kernel->op), kernel->op, names.p ? names.p : "");
    names.len = 0;
    for (uint32_t c = 0; c < kernel->num_consts && known && !wrong; c++) {
        bool supplied = kernel->consts[c].has_preset;
        for (size_t i = 0; i < set->num_builtin && !supplied; i++)
            supplied = kernel_has_const(set->builtin[i], kernel->consts[c].name);
        wrong = supplied ? NULL : &kernel->consts[c];
    }
    for (size_t i = 0; i < set->num_builtin && wrong; i++) {
        const struct kernel *other = set->builtin[i];
        for (uint32_t c = 0; c < other->num_consts && strcmp(other->op, kernel->op) == 0; c++)
            if (!names.p || !kernel_word_in(names.p, other->consts[c].name))
                dgl_buf_printf(&names, "%s%s", names.len ? " " : "", other->consts[c].name);
    }
    if (wrong)
        status = dgl_fail(a->log, DGL_ERR_KERNEL,
                          "%s:%u: CONST: no operation supplies %s; built-in kernels of %s use: %s",
                          a->path, find_line(a, "CONST", wrong->name), wrong->name, kernel->op,
                          names.len ? names.p : "none");
    dgl_buf_finish(&names);
    return status;
}

static enum dgl_status replace_kernel(const struct addition *a, size_t index, struct kernel *kernel)
{
    const struct kernel *old = a->set->kernels[index];
    if (old->source == a->source)
        return dgl_fail(a->log, DGL_ERR_KERNEL, "%s: the NAME %s is also that of %s", a->path,
                        kernel->name, old->path);
    if (strcmp(old->op, kernel->op) != 0)
        return dgl_fail(a->log, DGL_ERR_KERNEL,
                        "%s: it would replace the kernel %s of OP %s (%s) by one of OP %s: choose "
                        "another NAME",
                        a->path, kernel->name, old->op, old->path, kernel->op);
    kernel->added = old->added;
    a->set->kernels[index] = kernel;
    return DGL_OK;
}

static enum dgl_status add_kernel(const struct addition *a)
{
    struct kernel_set *set = a->set;
    struct kernel *kernel = NULL;
    enum dgl_status status = kernel_parse(a->log, &set->arena, a->path, a->text, a->len, &kernel);
    if (status != DGL_OK)
        return status;
    kernel->origin = a->origin;
    kernel->source = a->source;
    if (a->source != 0)
        status = check_operation(a, kernel);
    if (status != DGL_OK)
        return status;
    size_t index = find_index(set, kernel->name);
    if (index < set->count)
        return replace_kernel(a, index, kernel);
    if (!dgl_grow((void **)&set->kernels, &set->cap, set->count + 1, sizeof(*set->kernels)))
        return dgl_fail_memory(a->log, "the list of kernels", set->count);
    kernel->added = a->source != 0;
    set->kernels[set->count++] = kernel;
    return DGL_OK;
}

static enum dgl_status add_lib(const struct addition *a, const char *file)
{
    struct kernel_set *set = a->set;
    const size_t len = strlen(file) - strlen(".glsl");
    const struct kernel_lib head = {
        .name = dgl_arena_strndup(&set->arena, file, len), .path = a->path, .source = a->source};
    struct kernel_lib *lib = NULL;
    if (!head.name)
        return dgl_fail_memory(a->log, "a lib's name", len);
    enum dgl_status status = kernel_lib_parse(a->log, &set->arena, &head, a->text, a->len, &lib);
    if (status != DGL_OK)
        return status;
    size_t i = 0;
    while (i < set->num_libs && strcmp(set->libs[i]->name, lib->name) != 0)
        i++;
    if (i < set->num_libs && set->libs[i]->source == a->source)
        return dgl_fail(a->log, DGL_ERR_KERNEL, "%s: the lib's name is also that of %s", a->path,
                        set->libs[i]->path);
    if (i == set->num_libs) {
        if (!dgl_grow((void **)&set->libs, &set->cap_libs, i + 1, sizeof(*set->libs)))
            return dgl_fail_memory(a->log, "the list of libs", i);
        set->num_libs++;
    }
    set->libs[i] = lib;
    return DGL_OK;
}

static enum dgl_status add_builtins(const struct dgl_log *log, struct kernel_set *set)
{
    enum dgl_status status = DGL_OK;
    for (const struct kernel_embedded *e = kernel_embedded; e->path && status == DGL_OK; e++) {
        struct addition a = {.log = log, .set = set, .text = e->text, .len = e->len};
        a.origin = "builtin";
        a.path = dgl_arena_printf(&set->arena, "kernels/%s", e->path);
        if (!a.path)
            status = dgl_fail_memory(log, "the list of kernels", set->count);
        else if (dgl_str_ends(dgl_str_of(e->path), ".glsl"))
            status = add_lib(&a, strrchr(a.path, '/') + 1);
        else
            status = add_kernel(&a);
    }
    if (status != DGL_OK)
        return status;
    const size_t bytes = set->count * sizeof(*set->builtin);
    const size_t lib_bytes = set->num_libs * sizeof(*set->builtin_libs);
    set->builtin = dgl_arena_alloc(&set->arena, bytes + 1);
    set->builtin_libs = dgl_arena_alloc(&set->arena, lib_bytes + 1);
    if (!set->builtin || !set->builtin_libs)
        return dgl_fail_memory(log, "the list of kernels", set->count);
    if (bytes)
        memcpy(set->builtin, set->kernels, bytes);
    if (lib_bytes)
        memcpy(set->builtin_libs, set->libs, lib_bytes);
    set->num_builtin = set->count;
    set->num_builtin_libs = set->num_libs;
    return DGL_OK;
}

static void begin_file(struct fault_log *f, const struct dgl_log *log, struct kernel_set *set)
{
    fault_log_begin(f, log, set->keeps_faults ? &set->faults : NULL, &set->arena);
}

/* A file of the user's that is to be read. */
struct user_file {
    const char *path, *lib;              /* lib: its file name; NULL: it is a kernel */
    const struct dgl_kernel_text *given; /* instead of it; NULL: nothing */
    uint32_t source;
};

/* What the caller says of the file's text; NULL: the file itself counts. */
static const struct dgl_kernel_text *find_text(const struct dgl_kernels_params *params,
                                               const char *path)
{
    for (size_t i = 0; i < params->num_texts; i++)
        if (strcmp(params->texts[i].path, path) == 0)
            return &params->texts[i];
    return NULL;
}

/* A copy of the caller's text. Transferred (free). */
static enum dgl_status copy_text(const struct dgl_log *log, const struct dgl_kernel_text *given,
                                 char **text, size_t *len)
{
    if (given->len > FILE_MAX)
        return dgl_fail(log, DGL_ERR_FORMAT, "%s: a text of %zu bytes, at most %u are read",
                        given->path, given->len, FILE_MAX);
    *len = given->len;
    *text = dgl_calloc(given->len + 1, 1);
    if (!*text)
        return dgl_fail_memory(log, "a kernel file", given->len);
    memcpy(*text, given->text, given->len);
    return DGL_OK;
}

/* Reads a file into the set's memory and adds it as a kernel, or as a lib when `lib` is its file
 * name. Its length is added to `bytes`. */
static enum dgl_status add_file(const struct dgl_log *log, struct kernel_set *set,
                                const struct user_file *file, size_t *bytes)
{
    char *text = NULL;
    size_t len = 0;
    const char *path = file->path, *lib = file->lib;
    const uint32_t source = file->source;
    enum dgl_status status = file->given ? copy_text(log, file->given, &text, &len)
                                         : dgl_file_slurp(log, path, FILE_MAX, &text, &len);
    if (status != DGL_OK)
        return status;
    *bytes += len;
    struct addition a = {.log = log, .set = set, .len = len, .source = source};
    a.text = dgl_arena_strndup(&set->arena, text, len);
    a.path = a.origin = dgl_arena_strndup(&set->arena, path, strlen(path));
    free(text);
    if (!a.text || !a.path)
        return dgl_fail_memory(log, "a kernel file", len);
    return lib ? add_lib(&a, lib) : add_kernel(&a);
}

/* A user's directory of kernel files, walked with its folders. */
struct walk {
    const struct dgl_log *log;
    struct kernel_set *set;
    const struct dgl_kernels_params *params;
    const char *root; /* the directory, links resolved */
    uint32_t source;
    size_t files, folders, bytes;
};

/* A file that is a link has to stay in the directory: a stranger's could name any file of the
 * user's, whose text would appear in messages. A link to nothing fails when it is read. */
static enum dgl_status check_link(const struct walk *walk, const struct dgl_log *log,
                                  const char *path)
{
    const size_t len = strlen(walk->root);
    char *target = dgl_path_is_link(path) ? realpath(path, NULL) : NULL;
    enum dgl_status status = DGL_OK;
    if (target && (strncmp(target, walk->root, len) != 0 ||
                   (target[len] != '/' && walk->root[len - 1] != '/')))
        status = dgl_fail(log, DGL_ERR_INVALID_ARG,
                          "%s: a link out of the kernel directory, to %s: name that with "
                          "--kernel-file",
                          path, DGL_PRINTABLE(target));
    free(target);
    return status;
}

/* What a folder of strangers may ask for; each file has limits of its own. */
static enum dgl_status add_walked(struct walk *walk, const char *path, const char *lib)
{
    const struct dgl_log *log = walk->log;
    if (log && log->cancelled && log->cancelled(log->priv))
        return dgl_fail(log, DGL_ERR_CANCELLED, "reading the kernel directory was cancelled");
    if (walk->files++ == WALK_FILES_MAX)
        return dgl_fail(log, DGL_ERR_INVALID_ARG, "%s: a kernel directory has at most %d files",
                        path, WALK_FILES_MAX);
    const struct user_file file = {path, lib, find_text(walk->params, path), walk->source};
    struct fault_log own;
    begin_file(&own, log, walk->set);
    enum dgl_status status = file.given ? DGL_OK : check_link(walk, &own.log, path);
    if (status == DGL_OK)
        status = add_file(&own.log, walk->set, &file, &walk->bytes);
    status = fault_log_end(&own, path, status);
    if (status == DGL_OK && walk->bytes > (size_t)WALK_MIB_MAX << 20)
        status = dgl_fail(log, DGL_ERR_INVALID_ARG,
                          "%s: a kernel directory has at most %d MiB of files", path, WALK_MIB_MAX);
    return status;
}

/* Where the path goes on after `dir`/; NULL: it is elsewhere. */
static const char *inside(const char *path, const char *dir)
{
    const size_t len = strlen(dir), slash = len > 0 && dir[len - 1] == '/';
    if (strncmp(path, dir, len) != 0 || (!slash && path[len] != '/'))
        return NULL;
    return path + len + !slash;
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

/* Sorted names of a folder, with those that only the caller's texts have. dgl_names_free(). */
static enum dgl_status list_folder(const struct walk *walk, const char *dir, char ***names,
                                   size_t *count)
{
    const struct dgl_kernels_params *params = walk->params;
    enum dgl_status status = DGL_OK;
    if (dgl_path_present(dir) || !kernel_texts_in(params, dir))
        status = dgl_dir_list(walk->log, dir, names, count);
    if (status != DGL_OK || params->num_texts == 0)
        return status;
    char **all = realloc(*names, (*count + params->num_texts) * sizeof(*all));
    if (!all)
        return dgl_fail_memory(walk->log, "a folder's names", *count);
    *names = all;
    for (size_t i = 0; i < params->num_texts; i++) {
        const char *rest = inside(params->texts[i].path, dir);
        const size_t len = rest ? strcspn(rest, "/") : 0;
        bool known = !params->texts[i].text || len == 0;
        for (size_t j = 0; j < *count && !known; j++)
            known = strncmp(all[j], rest, len) == 0 && all[j][len] == '\0';
        if (known)
            continue;
        all[*count] = strndup(rest, len);
        if (!all[*count])
            return dgl_fail_memory(walk->log, "a folder's names", *count);
        ++*count;
    }
    if (*count > 0)
        qsort(all, *count, sizeof(*all), compare_names);
    return DGL_OK;
}

/* The files of one folder in the order of their names, then its folders likewise. Hidden folders
 * and links to folders are left alone. */
static enum dgl_status add_folder(struct walk *walk, const char *dir, uint32_t depth)
{
    char **names = NULL;
    size_t num_names = 0;
    if (depth > WALK_DEPTH_MAX || walk->folders++ == WALK_FOLDERS_MAX)
        return dgl_fail(walk->log, DGL_ERR_INVALID_ARG,
                        "%s: a kernel directory has at most %d folders, %d deep", dir,
                        WALK_FOLDERS_MAX, WALK_DEPTH_MAX);
    enum dgl_status status = list_folder(walk, dir, &names, &num_names);
    for (size_t i = 0; i < 2 * num_names && status == DGL_OK; i++) {
        const bool want_folder = i >= num_names;
        const char *name = names[i % num_names];
        const bool lib = dgl_str_ends(dgl_str_of(name), ".glsl");
        const bool file = lib || dgl_str_ends(dgl_str_of(name), ".comp");
        if (file == want_folder || (want_folder && name[0] == '.'))
            continue;
        char *path = dgl_path_join(dir, name);
        if (!path) {
            status = dgl_fail_memory(walk->log, "a path", strlen(dir));
        } else if (file) {
            const struct dgl_kernel_text *given = find_text(walk->params, path);
            if (!given || given->text)
                status = add_walked(walk, path, lib ? name : NULL);
        } else if (dgl_path_is_dir(path) && dgl_path_is_link(path)) {
            dgl_warn(walk->log, "%s: a link to a folder is not followed", path);
        } else if (dgl_path_is_dir(path) || kernel_texts_in(walk->params, path)) {
            status = add_folder(walk, path, depth + 1);
        }
        free(path);
    }
    dgl_names_free(names, num_names);
    return status;
}

static enum dgl_status add_dir(const struct dgl_log *log, struct kernel_set *set,
                               const struct dgl_kernels_params *params, const char *dir,
                               uint32_t source)
{
    char *root = realpath(dir, NULL);
    struct walk walk = {
        .log = log, .set = set, .params = params, .root = root ? root : dir, .source = source};
    enum dgl_status status = add_folder(&walk, dir, 0);
    free(root);
    if (status == DGL_OK && walk.files == 0 && !params->allow_empty_dirs)
        status = dgl_fail(log, DGL_ERR_INVALID_ARG,
                          "%s: the kernel directory holds no *.comp and no *.glsl", dir);
    return status;
}

static enum dgl_status add_user_files(const struct dgl_log *log, struct kernel_set *set,
                                      const struct dgl_kernels_params *params)
{
    uint32_t source = 1;
    size_t bytes = 0;
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < params->num_dirs && status == DGL_OK; i++)
        status = add_dir(log, set, params, params->dirs[i], source++);
    for (size_t i = 0; i < params->num_files && status == DGL_OK; i++) {
        const char *path = params->files[i];
        const struct user_file file = {path, NULL, find_text(params, path), source};
        struct fault_log own;
        const bool there =
            file.given || dgl_path_present(path); /* a name that is wrong is no fault */
        fault_log_begin(&own, log, set->keeps_faults && there ? &set->faults : NULL, &set->arena);
        if (!file.given || file.given->text)
            status = add_file(&own.log, set, &file, &bytes);
        status = fault_log_end(&own, path, status);
    }
    return status;
}

/* ---- libs that kernels name: each must exist and go together with the kernel and its others ---
 */

/* One lib that a kernel may splice in; several of one `ref` never meet in a text. */
struct used_lib {
    const struct kernel_lib *lib;
    uint32_t ref;
};

/* Libs of different LIB lines may meet: none may declare a name of another. */
static enum dgl_status check_lib_pair(const struct dgl_log *log, const struct kernel *kernel,
                                      const struct kernel_lib *a, const struct kernel_lib *b)
{
    for (uint32_t i = 0; i < b->decls.num_lets + b->decls.num_shared; i++) {
        const char *name = i < b->decls.num_lets ? b->decls.lets[i].name
                                                 : b->decls.shared[i - b->decls.num_lets].name;
        if (kernel_decls_have(&a->decls, name))
            return dgl_fail(log, DGL_ERR_KERNEL,
                            "%s: the name %s is declared by the lib %s too (kernel %s)", b->path,
                            name, a->path, kernel->name);
    }
    return DGL_OK;
}

/* *at: where it fails, a lib that the kernel does not go with, one that is not built in if there is
 * any; NULL: the kernel lacks one. */
static enum dgl_status check_kernel_libs(const struct dgl_log *log, const struct kernel_set *set,
                                         const struct kernel *kernel, const struct kernel_lib **at)
{
    struct used_lib *used = NULL;
    size_t num_used = 0, cap = 0;
    uint32_t num_lets = kernel->decls.num_lets, num_shared = kernel->decls.num_shared;
    enum dgl_status status = DGL_OK;
    for (uint32_t r = 0; r < kernel->num_libs; r++) {
        const struct kernel_lib_ref *ref = &kernel->libs[r];
        struct dgl_str key = kernel_lib_key(ref), words = DGL_STR("none"), word;
        uint32_t most_lets = 0, most_shared = 0;
        for (uint32_t i = 0; i < kernel->num_when; i++)
            if (dgl_str_eq(key, kernel->when[i].key))
                words = dgl_str_of(kernel->when[i].words);
        while (kernel_word_next(&words, &word)) {
            char name[96];
            kernel_lib_name(ref, word, name);
            const struct kernel_lib *lib = kernel_set_lib(set, name);
            *at = NULL;
            if (!lib) {
                status = dgl_fail(log, DGL_ERR_KERNEL,
                                  "%s:%u: LIB: there is no lib %s (kernel %s); it would be the "
                                  "file %s.glsl",
                                  kernel->path, ref->line, name, kernel->name, name);
                goto done;
            }
            *at = lib;
            if ((status = kernel_lib_check(log, kernel, lib)) != DGL_OK)
                goto done;
            for (size_t i = 0; i < num_used; i++) {
                *at = lib->source != 0 ? lib : used[i].lib;
                if (used[i].ref != r &&
                    (status = check_lib_pair(log, kernel, used[i].lib, lib)) != DGL_OK)
                    goto done;
            }
            if (!dgl_grow((void **)&used, &cap, num_used + 1, sizeof(*used))) {
                status = dgl_fail_memory(log, "the libs of a kernel", num_used);
                goto done;
            }
            used[num_used++] = (struct used_lib){lib, r};
            if (lib->decls.num_lets > most_lets)
                most_lets = lib->decls.num_lets;
            if (lib->decls.num_shared > most_shared)
                most_shared = lib->decls.num_shared;
        }
        num_lets += most_lets;
        num_shared += most_shared;
    }
    for (size_t i = 0; i < num_used; i++)
        *at = used[i].lib->source != 0 ? used[i].lib : *at;
    if (num_lets > KERNEL_MAX_LETS || num_shared > KERNEL_MAX_SHARED)
        status = dgl_fail(log, DGL_ERR_KERNEL,
                          "%s: kernel %s and its libs have more than %d LETs or %d SHAREDs",
                          kernel->path, kernel->name, KERNEL_MAX_LETS, KERNEL_MAX_SHARED);
done:
    free(used);
    return status;
}

/* What is built in takes the place of a text that is left out. */
static void drop_kernel(struct kernel_set *set, const char *name)
{
    const size_t index = find_index(set, name);
    for (size_t i = 0; i < set->num_builtin; i++)
        if (strcmp(set->builtin[i]->name, name) == 0) {
            set->kernels[index] = (struct kernel *)set->builtin[i];
            return;
        }
    set->count--;
    memmove(&set->kernels[index], &set->kernels[index + 1],
            (set->count - index) * sizeof(set->kernels[0]));
}

static void drop_lib(struct kernel_set *set, const struct kernel_lib *lib)
{
    size_t index = 0;
    while (set->libs[index] != lib)
        index++;
    for (size_t i = 0; i < set->num_builtin_libs; i++)
        if (strcmp(set->builtin_libs[i]->name, lib->name) == 0) {
            set->libs[index] = set->builtin_libs[i];
            return;
        }
    set->num_libs--;
    memmove(&set->libs[index], &set->libs[index + 1],
            (set->num_libs - index) * sizeof(set->libs[0]));
}

static enum dgl_status check_libs(const struct dgl_log *log, struct kernel_set *set)
{
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < set->count && status == DGL_OK;) {
        const struct kernel *kernel = set->kernels[i];
        const struct kernel_lib *lib = NULL;
        struct fault_log own;
        begin_file(&own, log, set);
        status = check_kernel_libs(&own.log, set, kernel, &lib);
        const bool wrong = status != DGL_OK, of_lib = kernel->source == 0 && lib;
        status = fault_log_end(&own, of_lib ? lib->path : kernel->path, status);
        if (!wrong) {
            i++;
        } else if (status == DGL_OK) { /* without that file, from the beginning */
            if (of_lib)
                drop_lib(set, lib);
            else
                drop_kernel(set, kernel->name);
            i = 0;
        }
    }
    return status;
}

/* ---- hints ----------------------------------------------------------------------------------- */

static struct kernel_hint_source hint_source(const struct dgl_log *log, struct kernel_set *set,
                                             enum kernel_layer layer, const char *origin)
{
    return (struct kernel_hint_source){.log = log,
                                       .arena = &set->arena,
                                       .set = set,
                                       .hints = &set->hints,
                                       .layer = layer,
                                       .origin = origin,
                                       .where = origin};
}

static enum dgl_status add_config(const struct dgl_log *log, struct kernel_set *set,
                                  const struct dgl_kernels_params *params, const char *path)
{
    const struct kernel_hint_source source = hint_source(log, set, KERNEL_LAYER_CONFIG, path);
    const struct dgl_kernel_text *given = find_text(params, path);
    char *text = NULL;
    size_t len = 0;
    if (given && !given->text)
        return DGL_OK;
    enum dgl_status status = given ? copy_text(log, given, &text, &len)
                                   : dgl_stream_slurp(log, path, FILE_MAX, &text, &len);
    if (status == DGL_OK)
        status = kernel_hints_add_json(&source, text, len);
    free(text);
    return status;
}

static enum dgl_status add_profile(const struct dgl_log *log, struct kernel_set *set,
                                   const char *profile, const char *where)
{
    const char *origin = where ? dgl_arena_strndup(&set->arena, where, strlen(where))
                               : dgl_arena_printf(&set->arena, "--kernel-profile %s", profile);
    const struct kernel_hint_source source = hint_source(log, set, KERNEL_LAYER_PROFILE, origin);
    return origin ? kernel_hints_add_profile(&source, profile)
                  : dgl_fail_memory(log, "a kernel profile", strlen(profile));
}

static enum dgl_status add_hints(const struct dgl_log *log, struct kernel_set *set,
                                 const struct dgl_kernels_params *params)
{
    enum dgl_status status = DGL_OK;
    struct kernel_hint_source source;
    if (params->user_config)
        status = add_config(log, set, params, params->user_config);
    if (status == DGL_OK && params->config_file)
        status = add_config(log, set, params, params->config_file);
    if (status == DGL_OK && params->profile)
        status = add_profile(log, set, params->profile, params->profile_origin);
    source = hint_source(log, set, KERNEL_LAYER_HINTS,
                         params->hints_origin ? params->hints_origin : KERNEL_HINTS_ORIGIN);
    if (status == DGL_OK && params->hints)
        status = kernel_hints_add_json(&source, params->hints, strlen(params->hints));
    for (size_t i = 0; i < params->num_flags && status == DGL_OK; i++) {
        const char *origin = params->flag_origins ? params->flag_origins[i] : NULL;
        source = hint_source(log, set, KERNEL_LAYER_FLAG, origin ? origin : "flag");
        status = kernel_hints_add_flag(&source, params->flags[i]);
    }
    return status;
}

/* ---- life ------------------------------------------------------------------------------------ */

static struct kernel_set *new_set(void)
{
    struct kernel_set *set = dgl_new(struct kernel_set);
    if (set)
        atomic_init(&set->refs, 1);
    return set;
}

enum dgl_status kernel_set_create(const struct dgl_log *log,
                                  const struct dgl_kernels_params *params, struct kernel_set **out)
{
    static const struct dgl_kernels_params none = {0};
    *out = NULL;
    params = params ? params : &none;
    struct kernel_set *set = new_set();
    if (!set)
        return dgl_fail_memory(log, "a set of kernels", sizeof(*set));
    set->keeps_faults = params->keep_faults;
    enum dgl_status status = add_builtins(log, set);
    if (status == DGL_OK)
        status = add_user_files(log, set, params);
    if (status == DGL_OK)
        status = check_libs(log, set);
    if (status == DGL_OK)
        status = add_hints(log, set, params);
    /* A hint may be for what is not there because of a fault. */
    for (size_t i = 0; i < set->faults.count && status != DGL_OK; i++)
        dgl_notice(log, "%s", set->faults.items[i].reason);
    if (status == DGL_OK)
        *out = set;
    else
        kernel_set_destroy(&set);
    return status;
}

struct kernel_set *kernel_set_ref(struct kernel_set *set)
{
    atomic_fetch_add(&set->refs, 1);
    return set;
}

void kernel_set_destroy(struct kernel_set **set)
{
    struct kernel_set *old = *set;
    *set = NULL;
    if (!old || atomic_fetch_sub(&old->refs, 1) != 1)
        return;
    if (old->parent) {
        kernel_set_destroy(&old->parent);
    } else {
        free(old->kernels);
        free(old->libs);
        free(old->faults.items);
    }
    free(old->hints.items);
    dgl_arena_finish(&old->arena);
    free(old);
}

/* A set that shares the kernels and starts with the same hints. */
static struct kernel_set *derive(struct kernel_set *set)
{
    struct kernel_set *child = new_set();
    if (!child)
        return NULL;
    child->parent = kernel_set_ref(set);
    child->kernels = set->kernels;
    child->count = set->count;
    child->libs = set->libs;
    child->num_libs = set->num_libs;
    if (!dgl_grow((void **)&child->hints.items, &child->hints.cap, set->hints.count + 1,
                  sizeof(*set->hints.items))) {
        kernel_set_destroy(&child);
        return NULL;
    }
    if (set->hints.count)
        memcpy(child->hints.items, set->hints.items, set->hints.count * sizeof(*set->hints.items));
    child->hints.count = set->hints.count;
    child->hints.strict = set->hints.strict;
    return child;
}

/* `file` may be NULL: `origin` says enough. */
static enum dgl_status with_hints(const struct dgl_log *log, struct kernel_set *set,
                                  enum kernel_layer layer, const char *origin, const char *file,
                                  const char *json, struct kernel_set **out)
{
    struct dgl_buf where = {0};
    *out = NULL;
    struct kernel_set *child = derive(set);
    dgl_buf_printf(&where, "%s%s%s", file ? file : "", file ? ": " : "", origin);
    if (!child || where.failed) {
        kernel_set_destroy(&child);
        dgl_buf_finish(&where);
        return dgl_fail_memory(log, "a set of kernels", sizeof(*child));
    }
    struct kernel_hint_source source = hint_source(log, child, layer, origin);
    source.where = where.p;
    enum dgl_status status = kernel_hints_add_json(&source, json, strlen(json));
    if (status == DGL_OK)
        *out = child;
    else
        kernel_set_destroy(&child);
    dgl_buf_finish(&where);
    return status;
}

enum dgl_status kernel_set_with_hints(const struct dgl_log *log, struct kernel_set *set,
                                      enum kernel_layer layer, const char *origin, const char *json,
                                      struct kernel_set **out)
{
    return with_hints(log, set, layer, origin, NULL, json, out);
}

enum dgl_status kernel_set_with_manifest(const struct dgl_log *log, struct kernel_set *set,
                                         const struct kernel_manifest_hints *hints,
                                         struct kernel_set **out)
{
    struct kernel_set *defaults = NULL;
    *out = NULL;
    enum dgl_status status =
        with_hints(log, set, KERNEL_LAYER_MANIFEST, KERNEL_MANIFEST_ORIGIN, hints->file,
                   hints->defaults ? hints->defaults : "{}", &defaults);
    if (status == DGL_OK)
        status = with_hints(log, defaults, KERNEL_LAYER_PINNED, "manifest (pinned)", hints->file,
                            hints->pinned ? hints->pinned : "{}", out);
    kernel_set_destroy(&defaults);
    return status;
}
