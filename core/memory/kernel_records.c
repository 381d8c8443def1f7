/*
 * Results of known-answer tests: one record file per device and driver, DEVICE.judged
 * (core/base/record_file.h). A record's key is the key of a program that computes correctly
 * (kernel_records_key()), or the name of a kernel that does not. The record of a wrong kernel
 * contains kernel_texts_hash(), so that another version of the library tests it again.
 */
#include "core/memory/kernel_records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/record_file.h"
#include "core/memory/device.h"

/* Hashed together with the device; the hash is the file name. */
#define FILE_KEY "dopplergl kernel records 1\n"
#define HEX      64

struct judged {
    uint32_t wrong;      /* 1: a kernel; 0: a correct program */
    char texts[HEX + 1]; /* of a wrong kernel */
};

static const struct dgl_field fields[] = {
    {"wrong", DGL_FIELD_U32, offsetof(struct judged, wrong), 1},
    {"texts", DGL_FIELD_CHARS, offsetof(struct judged, texts), HEX + 1},
};

static const struct dgl_record_format format = {.name = "dopplergl-answers-2",
                                                .suffix = ".judged",
                                                .fields = fields,
                                                .num_fields = sizeof(fields) / sizeof(fields[0]),
                                                .max_records = 4096,
                                                .max_bytes = 1u << 20};

struct kernel_records {
    struct dgl_records file;
    struct dgl_arena names; /* of properties; plans borrow them */
    char texts[HEX + 1];    /* "": not computed yet */
};

/* ---- in memory ------------------------------------------------------------------------------- */

bool kernel_records_last(const struct dgl_device *dev)
{
    return dev->records->file.dir != NULL;
}

bool kernel_records_is_right(const struct dgl_device *dev, const char *key)
{
    return dgl_records_find(&dev->records->file, key) != NULL;
}

enum dgl_status kernel_records_add_right(struct dgl_device *dev, const char *key)
{
    if (!kernel_records_is_right(dev, key) &&
        !dgl_records_put(&dev->records->file, key, &(struct judged){0}))
        return dgl_fail_memory(dev->log, "records of kernels", sizeof(struct judged));
    return DGL_OK;
}

/* Name of the kernel that a property of the device excludes, or NULL. */
static const char *excluded_by(const struct kernel_var *property)
{
    return dgl_str_starts(dgl_str_of(property->name), KERNEL_WRONG_PROPERTY)
               ? property->name + strlen(KERNEL_WRONG_PROPERTY)
               : NULL;
}

bool kernel_records_is_wrong(const struct dgl_device *dev, const char *kernel)
{
    for (size_t i = 0; i < dev->plan.num_properties; i++) {
        const char *name = excluded_by(&dev->plan.properties[i]);
        if (name && strcmp(name, kernel) == 0)
            return true;
    }
    return false;
}

static enum dgl_status exclude(struct dgl_device *dev, const char *kernel, int64_t value)
{
    struct plan_device *plan = &dev->plan;
    if (kernel_records_is_wrong(dev, kernel))
        return DGL_OK;
    if (plan->num_properties == sizeof(plan->properties) / sizeof(plan->properties[0]))
        return dgl_fail(dev->log, DGL_ERR_UNSUPPORTED,
                        "%s: no more kernels can be excluded on this device, now %s: update its "
                        "driver or take another device (`dopplergl devices`)",
                        dev->info.renderer, kernel);
    const char *name = dgl_arena_printf(&dev->records->names, KERNEL_WRONG_PROPERTY "%s", kernel);
    if (!name)
        return dgl_fail_memory(dev->log, "records of kernels", strlen(kernel));
    plan->properties[plan->num_properties++] = (struct kernel_var){name, value};
    return DGL_OK;
}

/* Hash of all built-in kernels, or "" on failure. */
static const char *texts_hash(struct kernel_records *r)
{
    if (!r->texts[0] && !kernel_texts_hash(r->texts))
        r->texts[0] = '\0';
    return r->texts;
}

enum dgl_status kernel_records_add_wrong(struct dgl_device *dev, const char *kernel)
{
    struct kernel_records *r = dev->records;
    struct judged judged = {.wrong = 1};
    enum dgl_status status = exclude(dev, kernel, 1);
    if (status != DGL_OK || !texts_hash(r)[0])
        return status;
    memcpy(judged.texts, r->texts, sizeof(judged.texts));
    if (!dgl_records_put(&r->file, kernel, &judged))
        return dgl_fail_memory(dev->log, "records of kernels", sizeof(judged));
    return DGL_OK;
}

enum dgl_status kernel_records_add_unfit(struct dgl_device *dev, const char *kernel)
{
    return exclude(dev, kernel, KERNEL_UNFIT);
}

void kernel_records_forget_wrong(struct dgl_device *dev, const char *kernel)
{
    struct plan_device *plan = &dev->plan;
    size_t kept = 0;
    for (size_t i = 0; i < plan->num_properties; i++) {
        const char *name = excluded_by(&plan->properties[i]);
        if (!name || (kernel && strcmp(name, kernel) != 0))
            plan->properties[kept++] = plan->properties[i];
        else
            dgl_records_remove(&dev->records->file, name);
    }
    plan->num_properties = kept;
}

void kernel_records_hide_wrong(struct dgl_device *dev)
{
    struct plan_device *plan = &dev->plan;
    size_t kept = 0;
    for (size_t i = 0; i < plan->num_properties; i++)
        if (!excluded_by(&plan->properties[i]))
            plan->properties[kept++] = plan->properties[i];
    plan->num_properties = kept;
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

/* ---- on disk --------------------------------------------------------------------------------- */

enum dgl_status kernel_records_open(struct dgl_device *dev)
{
    const char *dir = gl_program_cache_dir(dev->gl);
    enum dgl_status status = DGL_OK;
    char key[HEX + 1];
    struct kernel_records *r = dev->records = dgl_new(struct kernel_records);
    if (!r)
        return dgl_fail_memory(dev->log, "records of kernels", sizeof(*r));
    if (!dir || !gl_program_key(dev->gl, FILE_KEY, sizeof(FILE_KEY) - 1, key))
        dir = NULL;
    dgl_records_open(&r->file, &format, dir, dir ? key : NULL);
    for (size_t i = 0; i < r->file.count && status == DGL_OK; i++) {
        const struct dgl_record *record = &r->file.items[i];
        struct judged judged;
        if (!dgl_records_get(&r->file, record, &judged) || !judged.wrong ||
            strcmp(judged.texts, texts_hash(r)) != 0)
            continue;
        status = exclude(dev, record->key, 1);
        if (status == DGL_OK)
            dgl_notice(dev->log,
                       "%s: the kernel %s computed wrongly here and is not used; `dopplergl "
                       "selftest` tests it again",
                       dev->info.renderer, record->key);
    }
    return status;
}

void kernel_records_close(struct dgl_device *dev)
{
    struct kernel_records *r = dev->records;
    dev->records = NULL;
    if (!r)
        return;
    dgl_records_finish(&r->file);
    dgl_arena_finish(&r->names);
    free(r);
}

void kernel_records_store(struct dgl_device *dev)
{
    dgl_records_store(&dev->records->file, gl_program_cache_device(dev->gl), dev->log);
}
