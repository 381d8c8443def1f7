/* JSON that several commands share; docs/cli.md describes the fields. */
#include "tools/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

void report_text(struct dgl_json_writer *w, const char *key, const char *text)
{
    dgl_jw_key(w, key);
    dgl_jw_cstr(w, text);
}

void report_u64(struct dgl_json_writer *w, const char *key, uint64_t value)
{
    dgl_jw_key(w, key);
    dgl_jw_u64(w, value);
}

void report_i64(struct dgl_json_writer *w, const char *key, int64_t value)
{
    dgl_jw_key(w, key);
    dgl_jw_i64(w, value);
}

void report_bool(struct dgl_json_writer *w, const char *key, bool value)
{
    dgl_jw_key(w, key);
    dgl_jw_bool(w, value);
}

void report_f64(struct dgl_json_writer *w, const char *key, double value)
{
    dgl_jw_key(w, key);
    dgl_jw_f64(w, round(value * 1e3) / 1e3);
}

void report_ids(struct dgl_json_writer *w, const char *key, const int32_t *ids, size_t count)
{
    dgl_jw_key(w, key);
    dgl_jw_array(w);
    for (size_t i = 0; i < count; i++)
        dgl_jw_i64(w, ids[i]);
    dgl_jw_end_array(w);
}

void report_counters(struct dgl_json_writer *w, const char *key, const struct dgl_counters *c)
{
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        {"tokens", c->tokens},
        {"submits", c->submits},
        {"readbacks", c->readbacks},
        {"dispatches", c->dispatches},
        {"barriers", c->barriers},
        {"buffers_created", c->buffers_created},
        {"programs_linked", c->programs_linked},
        {"readback_bytes", c->readback_bytes},
        {"upload_bytes", c->upload_bytes},
    };
    dgl_jw_key(w, key);
    dgl_jw_object(w);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        report_u64(w, rows[i].name, rows[i].value);
    }
    dgl_jw_end_object(w);
}

void report_device(struct dgl_json_writer *w, const struct dgl_device *device)
{
    const struct dgl_device_info *info = dgl_device_get_info(device);
    dgl_jw_key(w, "device");
    dgl_jw_object(w);
    report_text(w, "name", info->renderer);
    report_text(w, "node", info->node);
    report_text(w, "driver", info->driver);
    report_bool(w, "software", info->software);
    dgl_jw_end_object(w);
}

void report_executor(struct dgl_json_writer *w, const struct dgl_model *model)
{
    struct dgl_executor_info info;
    dgl_model_executor(model, &info);
    report_text(w, "executor", info.name);
    report_text(w, "executor_reason", info.reason);
}

const char *phase_name(enum dgl_phase phase)
{
    switch (phase) {
    case DGL_PHASE_PREFILL:
        return "prefill";
    case DGL_PHASE_DECODE:
        return "decode";
    case DGL_PHASE_SAMPLE:
        return "sample";
    }
    return "unknown";
}

struct kernel_row {
    enum dgl_phase phase;
    const char *op, *name;
    char sha256[65];
    bool fallback;
};

/* Rows already written, so that layers do not repeat themselves. */
struct kernel_rows {
    struct dgl_json_writer *w;
    struct kernel_row *row;
    size_t count, cap;
};

static bool is_listed(const struct kernel_rows *rows, const struct dgl_plan_step *step)
{
    for (size_t i = 0; i < rows->count; i++)
        if (rows->row[i].phase == step->phase && strcmp(rows->row[i].op, step->op) == 0 &&
            strcmp(rows->row[i].name, step->kernel->name) == 0 &&
            strcmp(rows->row[i].sha256, step->kernel->sha256) == 0 &&
            rows->row[i].fallback == (step->fallback != NULL))
            return true;
    return false;
}

static bool report_step(void *priv, const struct dgl_plan_step *step)
{
    struct kernel_rows *rows = priv;
    const struct dgl_kernel_info *k = step->kernel;
    const struct {
        const char *key, *value;
    } fields[] = {{"phase", phase_name(step->phase)},
                  {"op", step->op},
                  {"name", k->name},
                  {"variant", k->variant},
                  {"origin", k->origin},
                  {"sha256", k->sha256}};
    if (is_listed(rows, step))
        return true;
    if (!dgl_grow((void **)&rows->row, &rows->cap, rows->count + 1, sizeof(*rows->row))) {
        rows->w->out->failed = true;
        return false;
    }
    struct kernel_row *row = &rows->row[rows->count++];
    *row = (struct kernel_row){step->phase, step->op, k->name, .fallback = step->fallback != NULL};
    memcpy(row->sha256, k->sha256, sizeof(row->sha256));
    dgl_jw_object(rows->w);
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        report_text(rows->w, fields[i].key, fields[i].value);
    }
    dgl_jw_key(rows->w, "fallback");
    if (step->fallback)
        dgl_jw_cstr(rows->w, step->fallback);
    else
        dgl_jw_null(rows->w);
    dgl_jw_end_object(rows->w);
    return true;
}

void report_kernels(struct dgl_json_writer *w, const struct dgl_model *model)
{
    struct kernel_rows rows = {.w = w};
    dgl_jw_key(w, "kernels");
    dgl_jw_array(w);
    dgl_model_plan_iterate(model, report_step, &rows);
    dgl_jw_end_array(w);
    free(rows.row);
}
