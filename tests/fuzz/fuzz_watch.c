/* The watcher of kernel folders (--watch-kernels), whose files belong to a hostile author. Input: a
 * script of changes to a folder of kernels; step() lists them. The program runs as another user in
 * a namespace of its own, so that files without permissions cannot be read, also if root runs
 * it. */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/dopplergl.h"
#include "tools/cli/console.h"
#include "tools/watch/watch_files.h"

extern int fuzz_damaged;
int fuzz_damaged = 10; /* reading a set of kernels takes some milliseconds */

#define MAX_STEPS 64

/* ---- the user -------------------------------------------------------------------------------- */

static bool write_text(const char *path, const char *text)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    const bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return ok;
}

/* Before main(), because a process with several threads cannot change its namespace. */
__attribute__((constructor)) static void become_another_user(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
    char uids[64], gids[64];
    snprintf(uids, sizeof(uids), "1000 %d 1", (int)geteuid());
    snprintf(gids, sizeof(gids), "1000 %d 1", (int)getegid());
    if (unshare(CLONE_NEWUSER) != 0 || !write_text("/proc/self/setgroups", "deny") ||
        !write_text("/proc/self/uid_map", uids) || !write_text("/proc/self/gid_map", gids))
        fprintf(stderr, "no user namespace: %s; only capabilities are dropped\n", strerror(errno));
    /* Without capabilities, the owner of a file is bound by its permissions. */
    if (syscall(SYS_capset, &header, none) != 0)
        fprintf(stderr, "capabilities cannot be dropped: %s\n", strerror(errno));
    prctl(PR_SET_DUMPABLE, 1); /* for the leak checker */
}

/* ---- the console ----------------------------------------------------------------------------- */

static int said; /* lines */

void console_say(const char *fmt, ...)
{
    FUZZ_CHECK(fmt[0]);
    said++;
}

void console_error(const char *fmt, ...)
{
    FUZZ_CHECK(fmt[0]);
    said++;
}

bool console_refuse(const char *fmt, ...)
{
    FUZZ_CHECK(fmt[0]);
    said++;
    return false;
}

/* ---- the folder ------------------------------------------------------------------------------ */

static char base[] = "/tmp/dopplergl-fuzz-watch-XXXXXX", root[64], config[64], single[64];

/* Folders, and names of files in them. A change never follows a link. */
static const char *const places[][4] = {
    {NULL}, {"k", NULL}, {"k", "a", NULL}, {"k", "a", "b", NULL}, {"o", NULL}};
static const char *const names[] = {"k",
                                    "a",
                                    "b",
                                    "o",
                                    "x.comp",
                                    "y.comp",
                                    "sample_pick.comp",
                                    "weights.glsl",
                                    "h.json",
                                    ".x.comp",
                                    "\xff\xfe.comp",
                                    "new\nline.comp",
                                    "x.comp~",
                                    "deep"};
static const char *const targets[] = {"k",          "a",           ".",      "..",         "/",
                                      "/dev/zero",  "x.comp",      "y.comp", "nowhere",    "self",
                                      "/proc/self", "/etc/shadow", "a/b",    "../k/x.comp"};
static const mode_t modes[] = {0, 0400, 0200, 0100, 0500, 0600, 0700};

#define PICK(list, byte) ((list)[(byte) % (sizeof(list) / sizeof((list)[0]))])

/* Returns a descriptor of a folder, or -1 if it is missing, a link, or may not be opened. */
static int open_place(unsigned byte)
{
    const char *const *path = PICK(places, byte);
    int fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; path[i] && fd >= 0; i++) {
        const int next = openat(fd, path[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        close(fd);
        fd = next;
    }
    return fd;
}

static void remove_tree(int parent, const char *name)
{
    struct stat st;
    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return;
    if (S_ISDIR(st.st_mode)) {
        fchmodat(parent, name, 0700, 0);
        const int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
        for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir))
            if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
                remove_tree(fd, e->d_name);
        if (dir)
            closedir(dir);
    }
    unlinkat(parent, name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0);
}

static void remove_all(void)
{
    remove_tree(AT_FDCWD, base);
}

/* ---- changes --------------------------------------------------------------------------------- */

struct watched {
    struct watch_files *files;
    struct fuzz_log log;
    ino_t root;       /* the root folder at the last restart if it could be watched, or 0 */
    bool must_change; /* a kernel was written there since */
    int reads;
};

/* Returns the inode of the root folder if it can be watched, or 0. */
static ino_t watched_root(void)
{
    struct stat st;
    const bool can = stat(root, &st) == 0 && S_ISDIR(st.st_mode) && access(root, R_OK) == 0;
    return can ? st.st_ino : 0;
}

static void write_file(struct watched *w, int dir, unsigned place, const char *name,
                       struct dgl_str text)
{
    const int fd =
        openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    const bool wrote = write(fd, text.p, text.len) == (ssize_t)text.len;
    struct stat st;
    w->must_change |= wrote && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && w->root &&
                      w->root == watched_root() && PICK(places, place) == places[1] &&
                      strcmp(name, "x.comp") == 0;
    close(fd);
}

static void make_deep(int dir)
{
    int fd = dup(dir);
    for (int i = 0; i < 12 && fd >= 0; i++) {
        mkdirat(fd, "deep", 0700);
        const int next = openat(fd, "deep", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        close(fd);
        fd = next;
    }
    if (fd >= 0)
        close(fd);
}

/* Looks for changes. */
static void look(struct watched *w)
{
    const bool changed = watch_files_changed(w->files);
    FUZZ_CHECK(changed || !w->must_change);
    w->must_change = false;
}

static bool count_override(void *priv, const struct dgl_kernel_override *o)
{
    FUZZ_CHECK(o->name[0] && o->origin[0] && strlen(o->sha256) == 64);
    ++*(size_t *)priv;
    return true;
}

static void read_kernels(struct watched *w)
{
    const char *dirs[] = {root}, *files[] = {single};
    struct dgl_kernels *kernels = NULL;
    size_t count = 0;
    const enum dgl_status status = dgl_kernels_create(
        &w->log.log,
        dgl_kernels_params(.dirs = dirs, .num_dirs = dgl_path_is_dir(root) ? 1 : 0, .files = files,
                           .num_files = dgl_path_exists(single) ? 1 : 0,
                           .config_file = dgl_path_exists(config) ? config : NULL),
        &kernels);
    fuzz_check_status(&w->log, status);
    FUZZ_CHECK((status == DGL_OK) == (kernels != NULL));
    if (kernels)
        FUZZ_CHECK(dgl_kernels_overrides(&w->log.log, kernels, count_override, &count) == DGL_OK);
    dgl_kernels_destroy(&kernels);
}

/* Watches anew and reads all files, as the watcher does after a change. A set of kernels is read at
 * most twice, because that takes most of the time. */
static void read_all(struct watched *w)
{
    FUZZ_CHECK(watch_files_restart(w->files));
    w->root = watched_root();
    w->must_change = false;
    if (w->reads++ < 2)
        read_kernels(w);
    /* Reading is no change: the watcher would read forever. */
    FUZZ_CHECK(!watch_files_changed(w->files));
}

/* A change is a byte for its kind, one for its folder, one for its name, and what it needs. */
static void step(struct watched *w, struct dgl_str *script)
{
    enum {
        WRITE,
        MKDIR,
        LINK,
        FIFO,
        REMOVE,
        RENAME,
        CHMOD,
        NAME,
        LARGE,
        SOCKET,
        DEEP,
        LOOK,
        READ,
        KINDS
    };
    const unsigned kind = fuzz_byte(script) % KINDS, place = fuzz_byte(script);
    const char *name = PICK(names, fuzz_byte(script));
    const int dir = open_place(place);
    if (kind == LOOK)
        look(w);
    else if (kind == READ)
        read_all(w);
    if (dir < 0)
        return;
    if (kind == WRITE) {
        write_file(w, dir, place, name, fuzz_section(script));
    } else if (kind == MKDIR) {
        mkdirat(dir, name, 0700);
    } else if (kind == LINK) {
        FUZZ_CHECK(symlinkat(PICK(targets, fuzz_byte(script)), dir, name) == 0 || errno);
    } else if (kind == FIFO || kind == SOCKET) {
        mknodat(dir, name, (kind == FIFO ? S_IFIFO : S_IFSOCK) | 0600, 0);
    } else if (kind == REMOVE) {
        remove_tree(dir, name);
    } else if (kind == RENAME || kind == NAME) {
        const int other = open_place(fuzz_byte(script));
        const char *to = PICK(names, fuzz_byte(script));
        const int result =
            kind == NAME ? linkat(dir, name, other, to, 0) : renameat(dir, name, other, to);
        FUZZ_CHECK(result == 0 || errno);
        if (other >= 0)
            close(other);
    } else if (kind == CHMOD) {
        struct stat st;
        if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISLNK(st.st_mode))
            fchmodat(dir, name, PICK(modes, fuzz_byte(script)), 0);
    } else if (kind == LARGE) {
        const int fd = openat(dir, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        FUZZ_CHECK(fd < 0 || ftruncate(fd, (off_t)3 << 30) == 0 || errno);
        if (fd >= 0)
            close(fd);
    } else if (kind == DEEP) {
        make_deep(dir);
    }
    close(dir);
}

void fuzz_one(struct dgl_str input)
{
    static bool made;
    struct options opt = {.kernel_dir = {.count = 1}, .kernel_file = {.count = 1}};
    struct watched w = {.files = NULL};
    if (!made) {
        FUZZ_CHECK(mkdtemp(base));
        snprintf(root, sizeof(root), "%s/k", base);
        snprintf(config, sizeof(config), "%s/k/h.json", base);
        snprintf(single, sizeof(single), "%s/o/y.comp", base);
        atexit(remove_all);
        made = true;
    }
    opt.kernel_dir.item[0] = root;
    opt.kernel_file.item[0] = single;
    opt.kernel_config = config;
    FUZZ_CHECK(mkdir(root, 0700) == 0);
    fuzz_log_init(&w.log);
    said = 0;
    FUZZ_CHECK(watch_files_create(&w.files, &opt, NULL));
    w.root = watched_root();
    for (int i = 0; input.len > 0 && i < MAX_STEPS; i++)
        step(&w, &input);
    look(&w);
    w.reads = w.reads > 1 ? 1 : w.reads;
    read_all(&w);
    watch_files_destroy(&w.files);
    FUZZ_CHECK(said <= 64 * MAX_STEPS);
    remove_all();
    FUZZ_CHECK(mkdir(base, 0700) == 0);
}
