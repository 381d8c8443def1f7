/*
 * Records of known answers on disk (core/base/cache_dir.h says which files are trusted). One file
 * per device and driver, DEVICE.judged, DEVICE being the gl_program_key() of FORMAT: another driver
 * finds none. Lines of text, each with a newline:
 *     FORMAT
 *     right KEY           a program that computes rightly, by kernel_records_key(); oldest first
 *     wrong TEXTS NAME    a kernel that does not; TEXTS: kernel_texts_hash(), so that another
 *                         version of the library asks again
 *     sha256 HEX          of all lines before; the file ends with it
 * A file that differs from this in any way counts as absent. Of MAX_RIGHT programs the older half
 * is forgotten: they are judged again.
 */
#include "core/memory/kernel_records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/cache_dir.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/memory/device.h"

#define FORMAT    "dopplergl kernel records 1\n"
#define HEX       64
#define MAX_RIGHT 4096
#define MAX_BYTES (1u << 20)

struct right {
    char key[HEX + 1];
};

struct wrong {
    char name[64];
    char property[sizeof(KERNEL_WRONG_PROPERTY) + 64]; /* plans borrow it */
    bool forgotten;
    bool unfit; /* it does not compile; not stored in the file */
};

struct kernel_records {
    char file[HEX + sizeof(".judged")]; /* "": nothing is kept */
    char texts[HEX + 1];                /* "": not worked out yet */
    struct right *right;
    size_t num_right, cap_right;
    struct wrong **wrong;
    size_t num_wrong, cap_wrong;
};

/* ---- in memory ------------------------------------------------------------------------------- */

bool kernel_records_last(const struct dgl_device *dev)
{
    return dev->records->file[0] != '\0';
}

bool kernel_records_is_right(const struct dgl_device *dev, const char *key)
{
    const struct kernel_records *r = dev->records;
    for (size_t i = r->num_right; i > 0; i--)
        if (memcmp(r->right[i - 1].key, key, HEX) == 0)
            return true;
    return false;
}

enum dgl_status kernel_records_add_right(struct dgl_device *dev, const char *key)
{
    struct kernel_records *r = dev->records;
    if (kernel_records_is_right(dev, key))
        return DGL_OK;
    if (r->num_right == MAX_RIGHT) {
        r->num_right -= MAX_RIGHT / 2;
        memmove(r->right, r->right + MAX_RIGHT / 2, r->num_right * sizeof(*r->right));
    }
    if (!dgl_grow((void **)&r->right, &r->cap_right, r->num_right + 1, sizeof(*r->right)))
        return dgl_fail_memory(dev->log, "records of kernels", r->num_right);
    snprintf(r->right[r->num_right++].key, sizeof(r->right->key), "%.*s", HEX, key);
    return DGL_OK;
}

bool kernel_records_is_wrong(const struct dgl_device *dev, const char *kernel)
{
    const struct kernel_records *r = dev->records;
    for (size_t i = 0; i < r->num_wrong; i++)
        if (!r->wrong[i]->forgotten && strcmp(r->wrong[i]->name, kernel) == 0)
            return true;
    return false;
}

static enum dgl_status pass_over(struct dgl_device *dev, const char *kernel, bool unfit)
{
    struct kernel_records *r = dev->records;
    struct plan_device *plan = &dev->plan;
    if (kernel_records_is_wrong(dev, kernel))
        return DGL_OK;
    if (plan->num_properties == sizeof(plan->properties) / sizeof(plan->properties[0]))
        return dgl_fail(dev->log, DGL_ERR_UNSUPPORTED,
                        "%s: more than %zu kernels cannot be used on this device, now also %s: "
                        "update "
                        "its driver or take another device (`dopplergl devices`)",
                        dev->info.renderer, r->num_wrong, kernel);
    struct wrong *wrong = dgl_new(struct wrong);
    if (!wrong || !dgl_grow((void **)&r->wrong, &r->cap_wrong, r->num_wrong + 1, sizeof(wrong))) {
        free(wrong);
        return dgl_fail_memory(dev->log, "records of kernels", r->num_wrong);
    }
    snprintf(wrong->name, sizeof(wrong->name), "%s", kernel);
    snprintf(wrong->property, sizeof(wrong->property), KERNEL_WRONG_PROPERTY "%s", wrong->name);
    wrong->unfit = unfit;
    r->wrong[r->num_wrong++] = wrong;
    plan->properties[plan->num_properties++] =
        (struct kernel_var){wrong->property, unfit ? KERNEL_UNFIT : 1};
    return DGL_OK;
}

enum dgl_status kernel_records_add_wrong(struct dgl_device *dev, const char *kernel)
{
    return pass_over(dev, kernel, false);
}

enum dgl_status kernel_records_add_unfit(struct dgl_device *dev, const char *kernel)
{
    return pass_over(dev, kernel, true);
}

/* Removes the properties of wrong kernels: of all, or of those that are forgotten. */
static void drop_properties(struct dgl_device *dev, bool all)
{
    struct plan_device *plan = &dev->plan;
    size_t kept = 0;
    for (size_t i = 0; i < plan->num_properties; i++) {
        const char *name = plan->properties[i].name;
        if (!dgl_str_starts(dgl_str_of(name), KERNEL_WRONG_PROPERTY) ||
            (!all && kernel_records_is_wrong(dev, name + strlen(KERNEL_WRONG_PROPERTY))))
            plan->properties[kept++] = plan->properties[i];
    }
    plan->num_properties = kept;
}

void kernel_records_forget_wrong(struct dgl_device *dev, const char *kernel)
{
    struct kernel_records *r = dev->records;
    for (size_t i = 0; i < r->num_wrong; i++)
        r->wrong[i]->forgotten |= !kernel || strcmp(r->wrong[i]->name, kernel) == 0;
    drop_properties(dev, false);
}

void kernel_records_hide_wrong(struct dgl_device *dev)
{
    drop_properties(dev, true);
}

/* ---- keys ------------------------------------------------------------------------------------ */

bool kernel_records_key(const struct dgl_device *dev, const struct kernel_choice *choice,
                        char key[65])
{
    const struct kernel *kernel = choice->kernel;
    struct dgl_buf text = {0};
    dgl_buf_append(&text, kernel->text, kernel->text_len);
    for (uint32_t i = 0; i < kernel->num_libs; i++)
        dgl_buf_append(&text, choice->libs[i]->body, choice->libs[i]->body_len);
    for (uint32_t i = 0; i < choice->num_vars; i++)
        if (!dgl_str_starts(dgl_str_of(choice->vars[i].name), KERNEL_WRONG_PROPERTY))
            dgl_buf_printf(&text, "\n%s=%lld", choice->vars[i].name,
                           (long long)choice->vars[i].value);
    bool ok = !text.failed && gl_program_key(dev->gl, text.p, text.len, key);
    dgl_buf_finish(&text);
    return ok;
}

/* Of all built-in texts; "" on failure. */
static const char *texts_hash(struct kernel_records *r)
{
    if (!r->texts[0] && !kernel_texts_hash(r->texts))
        r->texts[0] = '\0';
    return r->texts;
}

/* ---- on disk --------------------------------------------------------------------------------- */

static int open_dir(const struct dgl_device *dev, bool make)
{
    const char *dir = gl_program_cache_dir(dev->gl);
    char *reason = NULL;
    int fd = dir && dev->records->file[0] ? dgl_cache_open(dir, make, &reason) : -1;
    free(reason);
    return fd;
}

/* The file's lines without the last; false: it is not whole. */
static bool read_lines(int fd, const char *name, char **bytes, struct dgl_str *lines)
{
    static const char last[] = "sha256 ";
    const size_t end = sizeof(last) - 1 + HEX + 1;
    char sum[HEX + 1];
    size_t len = 0;
    if (!dgl_cache_read(fd, name, MAX_BYTES, true, bytes, &len))
        return false;
    *lines = (struct dgl_str){*bytes, len > end ? len - end : 0};
    return dgl_str_starts(*lines, FORMAT) && memcmp(*bytes + lines->len, last, strlen(last)) == 0 &&
           (*bytes)[len - 1] == '\n' &&
           dgl_hash_bytes(DGL_HASH_SHA256, lines->p, lines->len, sum) &&
           memcmp(*bytes + len - HEX - 1, sum, HEX) == 0;
}

/* Adds what the file says; `wrong`: of kernels too. */
static enum dgl_status merge(struct dgl_device *dev, bool wrong)
{
    char *bytes = NULL, name[64];
    struct dgl_str lines, line;
    enum dgl_status status = DGL_OK;
    int fd = open_dir(dev, false);
    if (fd < 0)
        return DGL_OK;
    bool ok = read_lines(fd, dev->records->file, &bytes, &lines);
    close(fd);
    while (ok && status == DGL_OK && dgl_str_split(&lines, '\n', &line)) {
        struct dgl_str word, key;
        if (!dgl_str_split(&line, ' ', &word) || !dgl_str_split(&line, ' ', &key) ||
            !dgl_hash_is_hex(key.p, key.len))
            continue;
        if (dgl_str_eq(word, "right"))
            status = kernel_records_add_right(dev, key.p);
        if (wrong && dgl_str_eq(word, "wrong") && line.len > 0 && line.len < sizeof(name) &&
            memcmp(key.p, texts_hash(dev->records), HEX) == 0) {
            snprintf(name, sizeof(name), "%.*s", (int)line.len, line.p);
            status = kernel_records_add_wrong(dev, name);
            if (status == DGL_OK)
                dgl_notice(dev->log,
                           "%s: the kernel %s computed wrongly here and is not used; `dopplergl "
                           "selftest` asks it again",
                           dev->info.renderer, name);
        }
    }
    free(bytes);
    return status;
}

enum dgl_status kernel_records_open(struct dgl_device *dev)
{
    char key[HEX + 1];
    dev->records = dgl_new(struct kernel_records);
    if (!dev->records)
        return dgl_fail_memory(dev->log, "records of kernels", sizeof(*dev->records));
    if (gl_program_cache_dir(dev->gl) && gl_program_key(dev->gl, FORMAT, sizeof(FORMAT) - 1, key))
        snprintf(dev->records->file, sizeof(dev->records->file), "%.*s.judged", HEX, key);
    return merge(dev, true);
}

void kernel_records_close(struct dgl_device *dev)
{
    struct kernel_records *r = dev->records;
    dev->records = NULL;
    if (!r)
        return;
    for (size_t i = 0; i < r->num_wrong; i++)
        free(r->wrong[i]);
    free(r->wrong);
    free(r->right);
    free(r);
}

void kernel_records_store(struct dgl_device *dev)
{
    struct kernel_records *r = dev->records;
    struct dgl_buf out = {0};
    char sum[HEX + 1];
    int fd = -1;
    if (merge(dev, false) != DGL_OK)
        return;
    dgl_buf_puts(&out, FORMAT);
    for (size_t i = 0; i < r->num_right; i++)
        dgl_buf_printf(&out, "right %s\n", r->right[i].key);
    for (size_t i = 0; i < r->num_wrong; i++)
        if (!r->wrong[i]->forgotten && !r->wrong[i]->unfit && texts_hash(dev->records)[0])
            dgl_buf_printf(&out, "wrong %s %s\n", r->texts, r->wrong[i]->name);
    if (!out.failed && dgl_hash_bytes(DGL_HASH_SHA256, out.p, out.len, sum))
        fd = open_dir(dev, true);
    if (fd >= 0) {
        dgl_buf_printf(&out, "sha256 %s\n", sum);
        const struct dgl_str parts[] = {{out.p, out.len}};
        if (!out.failed)
            dgl_cache_write(fd, r->file, parts, 1);
        close(fd);
    }
    dgl_buf_finish(&out);
}
