/* cache: lists the cache folder by kind, device and driver, and empties it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/cache_dir.h"
#include "core/base/cache_kind.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/mem.h"
#include "core/base/printable.h"
#include "core/base/record_file.h"
#include "tools/cli/commands.h"
#include "tools/cli/console.h"
#include "tools/cli/report.h"

/* ---- files ----------------------------------------------------------------------------------- */

/* A cache file of this program. */
struct cached {
    char *name, *device; /* device is "" if the file names none */
    const struct dgl_cache_kind *kind;
    uint64_t bytes;
    struct timespec modified;
};

struct folder {
    char *path;
    int dir; /* -1 if the folder does not exist */
    struct cached *files;
    size_t count, others; /* others: files of other programs, which are never deleted */
};

#define MOST_BYTES (128u << 20)

static int compare_files(const void *a, const void *b)
{
    const struct cached *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    int order = strcmp(x->device, y->device);
    return order ? order : strcmp(x->name, y->name);
}

/* Lists the files of the folder, sorted by kind and device. Returns false after an error line. */
static bool open_folder(struct folder *f, bool devices)
{
    char **names = NULL, *reason = NULL;
    size_t count = 0;
    bool ok = true;
    *f = (struct folder){.dir = -1, .path = dgl_cache_path(NULL)};
    if (!f->path)
        return console_refuse("cache: neither XDG_CACHE_HOME nor HOME is an absolute path");
    f->dir = dgl_cache_open(f->path, false, &reason);
    if (reason)
        console_error("cache: the folder is not used: %s", reason);
    ok = !reason;
    free(reason);
    if (f->dir < 0)
        return ok;
    if (dgl_dir_list(NULL, f->path, &names, &count) != DGL_OK)
        return console_refuse("cache: %s cannot be listed", DGL_PRINTABLE(f->path));
    f->files = dgl_new_array(struct cached, count);
    ok = f->files != NULL;
    for (size_t i = 0; i < count && ok; i++) {
        struct cached *c = &f->files[f->count];
        *c = (struct cached){.kind = dgl_cache_kind_of(names[i])};
        if (!c->kind || !dgl_cache_stat(f->dir, names[i], &c->bytes, &c->modified)) {
            f->others++;
            continue;
        }
        c->name = dgl_strdup(names[i]);
        if (c->name && devices && c->kind->records) {
            c->device = dgl_records_device(f->dir, c->name, MOST_BYTES);
        } else if (c->name && devices) {
            char *bytes = NULL;
            size_t len = 0;
            if (dgl_cache_read(f->dir, c->name, MOST_BYTES, false, &bytes, &len) &&
                len >= DGL_CACHE_DEVICE_AT + DGL_CACHE_DEVICE_BYTES &&
                bytes[DGL_CACHE_VERSION_AT] == DGL_CACHE_VERSION)
                c->device = dgl_strndup(bytes + DGL_CACHE_DEVICE_AT, DGL_CACHE_DEVICE_BYTES - 1);
            free(bytes);
        }
        c->device = c->device ? c->device : dgl_strdup("");
        f->count++;
        ok = c->name && c->device;
    }
    dgl_names_free(names, count);
    if (ok)
        qsort(f->files, f->count, sizeof(*f->files), compare_files);
    else
        console_error("cache: out of memory for %zu files", count);
    return ok;
}

static void close_folder(struct folder *f)
{
    for (size_t i = 0; i < f->count; i++) {
        free(f->files[i].name);
        free(f->files[i].device);
    }
    free(f->files);
    free(f->path);
    if (f->dir >= 0)
        close(f->dir);
}

/* ---- ls -------------------------------------------------------------------------------------- */

static void ls_json(const struct folder *f, struct dgl_buf *out)
{
    struct dgl_json_writer w = report_object(out);
    dgl_jw_field_cstr(&w, "path", f->path);
    dgl_jw_field_array(&w, "kinds");
    for (size_t k = 0; k < dgl_cache_num_kinds; k++) {
        uint64_t bytes = 0, files = 0;
        for (size_t i = 0; i < f->count; i++) {
            files += f->files[i].kind == &dgl_cache_kinds[k];
            bytes += f->files[i].kind == &dgl_cache_kinds[k] ? f->files[i].bytes : 0;
        }
        dgl_jw_object(&w);
        dgl_jw_field_cstr(&w, "kind", dgl_cache_kinds[k].name);
        dgl_jw_field_cstr(&w, "what", dgl_cache_kinds[k].what);
        dgl_jw_field_u64(&w, "files", files);
        dgl_jw_field_u64(&w, "bytes", bytes);
        dgl_jw_end_object(&w);
    }
    dgl_jw_end_array(&w);
    dgl_jw_field_array(&w, "files");
    for (size_t i = 0; i < f->count; i++) {
        const struct cached *c = &f->files[i];
        dgl_jw_object(&w);
        dgl_jw_field_cstr(&w, "kind", c->kind->name);
        dgl_jw_field_cstr(&w, "name", c->name);
        dgl_jw_field_cstr(&w, "device", c->device[0] ? c->device : NULL);
        dgl_jw_field_u64(&w, "bytes", c->bytes);
        dgl_jw_field_i64(&w, "modified", (int64_t)c->modified.tv_sec);
        dgl_jw_end_object(&w);
    }
    dgl_jw_end_array(&w);
    dgl_jw_field_u64(&w, "others", f->others);
    report_end(&w);
}

/* Prints a row per kind and device. */
static void ls_table(const struct folder *f, struct dgl_buf *out)
{
    uint64_t total = 0;
    dgl_buf_printf(out, "%-10s %6s  %-10s  %s\n", "KIND", "FILES", "SIZE", "DEVICE AND DRIVER");
    for (size_t i = 0, end; i < f->count; i = end) {
        const struct cached *first = &f->files[i];
        uint64_t bytes = 0;
        for (end = i; end < f->count && f->files[end].kind == first->kind &&
                      strcmp(f->files[end].device, first->device) == 0;
             end++)
            bytes += f->files[end].bytes;
        total += bytes;
        dgl_buf_printf(out, "%-10s %6zu  %-10s  %s\n", first->kind->name, end - i, DGL_BYTES(bytes),
                       first->device[0] ? DGL_PRINTABLE(first->device) : "-");
    }
    dgl_buf_bytes(out, total);
    dgl_buf_printf(out, " in %s\n", DGL_PRINTABLE(f->path));
    if (f->others)
        dgl_buf_printf(out, "%zu other file%s there %s not DopplerGL's\n", f->others,
                       f->others == 1 ? "" : "s", f->others == 1 ? "is" : "are");
}

static int cache_ls(const struct options *opt)
{
    struct folder f;
    struct dgl_buf out = {0};
    int code = EXIT_FAILED;
    if (open_folder(&f, true)) {
        if (opt->json)
            ls_json(&f, &out);
        else
            ls_table(&f, &out);
        code = out_exit(out_buf(&out));
    }
    close_folder(&f);
    return code;
}

/* ---- purge ----------------------------------------------------------------------------------- */

static int cache_purge(const struct options *opt)
{
    struct folder f;
    uint64_t files = 0, bytes = 0, failed = 0;
    int error = 0;
    bool ok = open_folder(&f, false);
    for (size_t i = 0; i < f.count && ok; i++) {
        bool wanted = opt->num_args == 1;
        for (int k = 1; k < opt->num_args; k++)
            wanted |= strcmp(opt->arg[k], f.files[i].kind->name) == 0;
        if (!wanted)
            continue;
        bool gone = dgl_cache_remove(f.dir, f.files[i].name) || errno == ENOENT;
        error = gone ? error : errno;
        files += gone;
        bytes += gone ? f.files[i].bytes : 0;
        failed += !gone;
    }
    if (ok && failed) {
        char space[DGL_ERRNO_BYTES];
        console_error("cache: %llu file%s in %s cannot be removed: %s", (unsigned long long)failed,
                      failed == 1 ? "" : "s", DGL_PRINTABLE(f.path), dgl_errno_text(error, space));
    }
    if (ok && opt->json) {
        struct dgl_buf out = {0};
        struct dgl_json_writer w = report_object(&out);
        dgl_jw_field_cstr(&w, "path", f.path);
        dgl_jw_field_u64(&w, "files", files);
        dgl_jw_field_u64(&w, "bytes", bytes);
        report_end(&w);
        ok = out_buf(&out);
    } else if (ok) {
        console_say("removed %llu file%s, %s, from %s", (unsigned long long)files,
                    files == 1 ? "" : "s", DGL_BYTES(bytes), DGL_PRINTABLE(f.path));
    }
    close_folder(&f);
    return ok && !failed ? EXIT_OK : EXIT_FAILED;
}

/* ---- path ------------------------------------------------------------------------------------ */

static int cache_path(const struct options *opt)
{
    struct folder f = {.path = dgl_cache_path(NULL)};
    struct dgl_buf out = {0};
    if (!f.path)
        return console_fail("cache: neither XDG_CACHE_HOME nor HOME is an absolute path");
    if (opt->json) {
        struct dgl_json_writer w = report_object(&out);
        dgl_jw_field_cstr(&w, "path", f.path);
        dgl_jw_end_object(&w);
    } else {
        dgl_buf_puts(&out, f.path);
    }
    dgl_buf_putc(&out, '\n');
    free(f.path);
    return out_exit(out_buf(&out));
}

static const struct action {
    const char *name;
    int (*run)(const struct options *opt);
} actions[] = {{"ls", cache_ls}, {"purge", cache_purge}, {"path", cache_path}};

bool command_cache_check(const struct options *opt)
{
    const struct action *action = NULL;
    for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
        if (opt->num_args > 0 && strcmp(opt->arg[0], actions[i].name) == 0)
            action = &actions[i];
    if (!action)
        return console_refuse("cache %s: wanted ls, purge or path",
                              opt->num_args ? opt->arg[0] : "");
    if (opt->num_args > 1 && action->run != cache_purge)
        return console_refuse("cache %s %s: only purge takes kinds", action->name, opt->arg[1]);
    for (int i = 1; i < opt->num_args; i++) {
        struct dgl_buf known = {0};
        bool found = false;
        for (size_t k = 0; k < dgl_cache_num_kinds; k++) {
            found |= strcmp(opt->arg[i], dgl_cache_kinds[k].name) == 0;
            dgl_buf_printf(&known, "%s%s", k ? ", " : "", dgl_cache_kinds[k].name);
        }
        if (!found)
            console_error("cache purge %s: there is no such kind, but %s", opt->arg[i],
                          known.p ? known.p : "others");
        dgl_buf_finish(&known);
        if (!found)
            return false;
    }
    return true;
}

int command_cache(const struct options *opt)
{
    for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
        if (strcmp(opt->arg[0], actions[i].name) == 0)
            return actions[i].run(opt);
    return EXIT_USAGE;
}
