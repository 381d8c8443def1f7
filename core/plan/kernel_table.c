/* Looks requests up by value: a model has some twenty distinct ones in some hundred operations. */
#include "core/plan/kernel_table.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

void kernel_table_init(struct kernel_table *table, const struct plan_device *device,
                       struct kernel_set *set)
{
    *table = (struct kernel_table){.device = device, .set = kernel_set_ref(set)};
}

void kernel_table_cut(struct kernel_table *table, size_t count)
{
    while (table->count > count)
        free(table->uses[--table->count]);
}

void kernel_table_finish(struct kernel_table *table)
{
    kernel_table_cut(table, 0);
    free(table->uses);
    kernel_set_destroy(&table->set);
    *table = (struct kernel_table){0};
}

bool kernel_request_equal(const struct kernel_request *a, const struct kernel_request *b)
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

bool kernel_use_equal(const struct kernel_use *a, const struct kernel_use *b)
{
    bool same = a->choice.kernel == b->choice.kernel && a->choice.num_vars == b->choice.num_vars;
    for (uint32_t i = 0; i < a->choice.num_vars && same; i++)
        same = a->choice.vars[i].value == b->choice.vars[i].value;
    for (uint32_t i = 0; i < a->choice.kernel->num_libs && same; i++)
        same = a->choice.libs[i] == b->choice.libs[i];
    return same;
}

enum dgl_status kernel_table_find(struct kernel_table *table, const struct kernel_request *request,
                                  struct kernel_use **out)
{
    const struct plan_device *device = table->device;
    for (size_t i = 0; i < table->count; i++) {
        if (kernel_request_equal(&table->uses[i]->request, request)) {
            *out = table->uses[i];
            return DGL_OK;
        }
    }
    struct kernel_choice choice;
    enum dgl_status status = kernel_choose(device->log, table->set, request, device->properties,
                                           device->num_properties, &choice);
    return status == DGL_OK ? kernel_table_add(table, request, &choice, out) : status;
}

enum dgl_status kernel_table_add(struct kernel_table *table, const struct kernel_request *request,
                                 const struct kernel_choice *choice, struct kernel_use **out)
{
    struct kernel_use *use = *out = dgl_new(struct kernel_use);
    if (!use ||
        !dgl_grow((void **)&table->uses, &table->cap, table->count + 1, sizeof(*table->uses))) {
        free(use);
        *out = NULL;
        return dgl_fail_memory(table->device->log, "kernel table", sizeof(*use));
    }
    *use =
        (struct kernel_use){.id = (uint32_t)table->count, .request = *request, .choice = *choice};
    table->uses[table->count++] = use;
    return DGL_OK;
}

enum dgl_status kernel_use_groups(const struct plan_device *device, const struct kernel_use *use,
                                  int32_t tokens, uint32_t rows, uint32_t groups[3])
{
    const uint32_t max_x = device->limits.max_groups[0];
    char why[192];
    if (kernel_groups_band(&use->choice, tokens, rows, max_x, groups))
        return DGL_OK;
    kernel_groups_refusal(&use->choice, tokens, rows, max_x, why);
    return dgl_fail(device->log, DGL_ERR_KERNEL, "%s:%u: %s", use->choice.kernel->path,
                    (unsigned)use->choice.kernel->groups_line, why);
}

bool kernel_choice_is_builtin(const struct kernel_choice *choice)
{
    bool builtin = choice->kernel->source == 0;
    for (uint32_t i = 0; i < choice->kernel->num_libs && builtin; i++)
        builtin = choice->libs[i]->source == 0;
    return builtin;
}
