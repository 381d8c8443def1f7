/* models: the models on this machine, under the names that -m takes. */
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/mem.h"
#include "core/base/printable.h"
#include "core/base/status.h"
#include "tools/cli/commands.h"
#include "tools/cli/engine.h"
#include "tools/cli/report.h"

struct row {
    char *name, *quantization;
    const char *form;
    uint64_t bytes;
};

struct list {
    struct report_list list;
    bool failed;
    struct row *row; /* kept for text, whose columns are as wide as the widest name */
    size_t count, cap;
};

static bool add_model(void *priv, const struct dgl_model_entry *entry)
{
    struct list *l = priv;
    struct dgl_json_writer *w = &l->list.w;
    if (l->list.json) {
        dgl_jw_object(w);
        dgl_jw_field_cstr(w, "name", entry->name);
        dgl_jw_field_cstr(w, "path", entry->path);
        dgl_jw_field_cstr(w, "form", entry->form);
        dgl_jw_field_cstr(w, "quantization", entry->quantization);
        dgl_jw_field_u64(w, "bytes", entry->bytes);
        dgl_jw_end_object(w);
        return !interrupted();
    }
    struct dgl_buf name = {0};
    dgl_buf_visible(&name, dgl_str_of(entry->name));
    struct row row = {.name = dgl_buf_take(&name),
                      .quantization = dgl_strdup(entry->quantization),
                      .form = entry->form,
                      .bytes = entry->bytes};
    l->failed = !row.name || !row.quantization ||
                !dgl_grow((void **)&l->row, &l->cap, l->count + 1, sizeof(*l->row));
    if (l->failed) {
        free(row.name);
        free(row.quantization);
        return false;
    }
    l->row[l->count++] = row;
    return !interrupted();
}

static void put_table(struct list *l)
{
    struct dgl_buf *out = &l->list.out;
    size_t width = strlen("NAME");
    for (size_t i = 0; i < l->count; i++)
        width = strlen(l->row[i].name) > width ? strlen(l->row[i].name) : width;
    dgl_buf_printf(out, "%-*s  %-10s  %-8s  %s\n", (int)width, "NAME", "FORM", "TYPE", "SIZE");
    for (size_t i = 0; i < l->count; i++) {
        const struct row *row = &l->row[i];
        dgl_buf_printf(out, "%-*s  %-10s  %-8s  ", (int)width, row->name, row->form,
                       row->quantization[0] ? DGL_PRINTABLE(row->quantization) : "?");
        dgl_buf_bytes(out, row->bytes);
        dgl_buf_putc(out, '\n');
    }
}

int command_models(const struct options *opt)
{
    struct console console;
    struct list l = {.failed = false};
    char bundled[MODEL_PATH_MAX];
    const char *first = opt->num_args == 0 ? model_bundled(bundled) : NULL;
    char *real = first ? realpath(first, NULL) : NULL; /* "build/../tests" otherwise */
    enum dgl_status status = DGL_OK;
    console_init(&console, opt);
    report_list_begin(&l.list, opt->json);
    first = real;
    if (first)
        TRY(dgl_models_iterate(&console.log, dgl_models_params(.dirs = &first, .num_dirs = 1),
                               add_model, &l));
    TRY(dgl_models_iterate(&console.log,
                           dgl_models_params(.dirs = opt->num_args ? opt->arg : NULL,
                                             .num_dirs = (size_t)opt->num_args),
                           add_model, &l));
    if (l.failed)
        TRY(dgl_fail_memory(&console.log, "list of models", l.count * sizeof(*l.row)));
    if (interrupted())
        TRY(DGL_ERR_CANCELLED);
    if (l.count)
        put_table(&l);
    else if (!opt->json)
        console_say("no models here; `hf download org/name` fetches one, `dopplergl models --help` "
                    "says where they are looked for");
done:
    for (size_t i = 0; i < l.count; i++) {
        free(l.row[i].name);
        free(l.row[i].quantization);
    }
    free(l.row);
    free(real);
    return report_list_end(&l.list, status);
}
