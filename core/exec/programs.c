/* Keeps the table of chosen kernels and compiles their text in batches, so that the driver may work
 * in parallel. */
#include "core/exec/programs.h"
#include "core/base/mem.h"

#include <stdlib.h>
#include <string.h>

void programs_init(struct programs *p, struct dgl_device *dev, struct kernel_set *set)
{
    *p = (struct programs){.dev = dev, .set = kernel_set_ref(set)};
}

void programs_finish(struct programs *p)
{
    for (size_t i = 0; i < p->count; i++) {
        gl_program_destroy(p->dev->gl, &p->entries[i]->program);
        free(p->entries[i]);
    }
    free(p->entries);
    kernel_set_destroy(&p->set);
    *p = (struct programs){0};
}

static bool same_request(const struct kernel_request *a, const struct kernel_request *b)
{
    if (strcmp(a->op, b->op) != 0 || a->num_attrs != b->num_attrs || a->num_consts != b->num_consts)
        return false;
    for (uint32_t i = 0; i < a->num_attrs; i++)
        if (strcmp(a->attrs[i].key, b->attrs[i].key) != 0 ||
            strcmp(a->attrs[i].word, b->attrs[i].word) != 0)
            return false;
    for (uint32_t i = 0; i < a->num_consts; i++)
        if (strcmp(a->consts[i].name, b->consts[i].name) != 0 ||
            a->consts[i].value != b->consts[i].value)
            return false;
    return true;
}

enum dgl_status programs_find(struct programs *p, const struct kernel_request *request,
                              struct program_entry **out)
{
    for (size_t i = 0; i < p->count; i++) {
        if (same_request(&p->entries[i]->request, request)) {
            *out = p->entries[i];
            return DGL_OK;
        }
    }
    struct program_entry *entry = dgl_new(struct program_entry);
    if (!entry || !dgl_grow((void **)&p->entries, &p->cap, p->count + 1, sizeof(*p->entries))) {
        free(entry);
        return dgl_fail_memory(p->dev->log, "program table", sizeof(*entry));
    }
    entry->request = *request;
    enum dgl_status st = kernel_choose(p->dev->log, p->set, &entry->request, p->dev->facts,
                                       p->dev->num_facts, &entry->choice);
    if (st != DGL_OK) {
        free(entry);
        return st;
    }
    p->entries[p->count++] = entry;
    *out = entry;
    return DGL_OK;
}

/* The entries that still need a program, each once. */
static size_t collect(struct program_entry *const *entries, size_t count,
                      struct program_entry **missing)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        bool known = entries[i]->program != NULL;
        for (size_t j = 0; j < n && !known; j++)
            known = missing[j] == entries[i];
        if (!known)
            missing[n++] = entries[i];
    }
    return n;
}

enum dgl_status programs_compile(struct programs *p, struct program_entry *const *entries,
                                 size_t count)
{
    struct program_entry **missing = dgl_new_array(struct program_entry *, count);
    struct dgl_buf *texts = dgl_new_array(struct dgl_buf, count);
    struct gl_program_params *params = dgl_new_array(struct gl_program_params, count);
    struct gl_program **programs = dgl_new_array(struct gl_program *, count);
    enum dgl_status st = DGL_OK;
    size_t n = 0;
    if (!missing || !texts || !params || !programs) {
        st = dgl_fail_memory(p->dev->log, "program batch", count * sizeof(*params));
        goto done;
    }
    n = collect(entries, count, missing);
    for (size_t i = 0; i < n && st == DGL_OK; i++) {
        const struct kernel *kernel = missing[i]->choice.kernel;
        st = kernel_generate(p->dev->log, p->set, &missing[i]->request, &missing[i]->choice,
                             &texts[i]);
        if (st == DGL_OK && texts[i].failed)
            st = dgl_fail_memory(p->dev->log, kernel->name, kernel->text_len);
        params[i] =
            (struct gl_program_params){texts[i].p, texts[i].len, kernel->name, kernel->origin};
    }
    if (st == DGL_OK && n > 0)
        st = gl_programs_create(p->dev->gl, params, n, programs);
    for (size_t i = 0; i < n && st == DGL_OK; i++)
        missing[i]->program = programs[i];
done:
    for (size_t i = 0; texts && i < n; i++)
        dgl_buf_finish(&texts[i]);
    free(missing);
    free(texts);
    free(params);
    free(programs);
    return st;
}
