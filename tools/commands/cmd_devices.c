/* devices: lists the rows of the device table, with the reason if a row is unusable or not the
 * default. With -v and --json also verdicts, limits and measured speed. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/json.h"
#include "tools/cli/commands.h"
#include "tools/cli/console.h"
#include "tools/cli/report.h"

struct listing {
    struct console console;
    const struct options *opt;
    struct report_list list;
    int rows;
};

/* A field of dgl_limits and its name. */
struct limit {
    const char *name;
    uint64_t value;
    bool flag; /* a bool: printed in the lines "has" and "without" */
};
#define NUM_LIMITS 20

static void list_limits(const struct dgl_limits *l, struct limit out[NUM_LIMITS])
{
    const struct limit limits[NUM_LIMITS] = {
        {"max_ssbo_bytes", l->max_ssbo_bytes, false},
        {"max_buffer_bytes", l->max_buffer_bytes, false},
        {"max_ssbo_bindings", l->max_ssbo_bindings, false},
        {"ssbo_align", l->ssbo_align, false},
        {"ubo_align", l->ubo_align, false},
        {"max_ubo_bytes", l->max_ubo_bytes, false},
        {"max_shared_bytes", l->max_shared_bytes, false},
        {"max_invocations", l->max_invocations, false},
        {"max_local_size_x", l->max_local_size[0], false},
        {"max_local_size_y", l->max_local_size[1], false},
        {"max_local_size_z", l->max_local_size[2], false},
        {"max_groups_x", l->max_groups[0], false},
        {"max_groups_y", l->max_groups[1], false},
        {"max_groups_z", l->max_groups[2], false},
        {"subgroup_size", l->subgroup_size, false},
        {"timer", l->timer, true},
        {"program_binary", l->program_binary, true},
        {"buffer_storage", l->buffer_storage, true},
        {"reset_notification", l->reset_notification, true},
        {"nv_gpu_shader5", l->nv_gpu_shader5, true},
    };
    memcpy(out, limits, sizeof(limits));
}

static void put_details(struct dgl_buf *out, struct dgl_device *dev,
                        const struct dgl_device_speed *speed)
{
    const char *separator = "     without:";
    struct limit limits[NUM_LIMITS];
    struct dgl_device_facts facts = {.size = sizeof(facts)};
    list_limits(dgl_device_get_limits(dev), limits);
    dgl_device_get_facts(dev, &facts);
    dgl_buf_printf(out, "     %s\n     memory             ", dgl_device_gl_version(dev));
    if (facts.budget_bytes) {
        if (facts.memory_bytes) {
            dgl_buf_bytes(out, facts.memory_bytes);
            dgl_buf_puts(out, facts.unified ? " shared with the host, " : ", ");
        }
        dgl_buf_bytes(out, facts.free_bytes);
        dgl_buf_puts(out, " free, ");
        dgl_buf_bytes(out, facts.budget_bytes);
        dgl_buf_printf(out, " for models (%s)\n", facts.memory_source);
    } else {
        dgl_buf_puts(out, "unknown\n");
    }
    dgl_buf_printf(out, "     compute_units      %u (%s)\n", facts.compute_units,
                   facts.units_source);
    if (facts.wave_size)
        dgl_buf_printf(out, "     wave_size          %u\n", facts.wave_size);
    for (size_t i = 0; i < NUM_LIMITS; i++)
        if (!limits[i].flag)
            dgl_buf_printf(out, "     %-18s %llu\n", limits[i].name,
                           (unsigned long long)limits[i].value);
    dgl_buf_puts(out, "     has               ");
    for (size_t i = 0; i < NUM_LIMITS; i++)
        if (limits[i].flag && limits[i].value)
            dgl_buf_printf(out, " %s", limits[i].name);
    dgl_buf_putc(out, '\n');
    for (size_t i = 0; i < NUM_LIMITS; i++) {
        if (!limits[i].flag || limits[i].value)
            continue;
        dgl_buf_printf(out, "%s %s", separator, limits[i].name);
        separator = "";
    }
    if (!separator[0])
        dgl_buf_putc(out, '\n');
    dgl_buf_printf(out,
                   "     measured: dispatch %.1f us, memory read %.2f GB/s, copied %.2f GB/s\n",
                   speed->dispatch_us, speed->read_gbps, speed->copy_gbps);
}

/* `dev` is NULL if the device could not be opened. */
static void write_details(struct dgl_json_writer *w, struct dgl_device *dev,
                          const struct dgl_device_speed *speed)
{
    struct limit limits[NUM_LIMITS];
    struct dgl_device_facts facts = {.size = sizeof(facts)};
    if (dev) {
        dgl_device_get_facts(dev, &facts);
        dgl_jw_field_object(w, "memory");
        dgl_jw_field_u64(w, "total_bytes", facts.memory_bytes);
        dgl_jw_field_u64(w, "free_bytes", facts.free_bytes);
        dgl_jw_field_u64(w, "budget_bytes", facts.budget_bytes);
        dgl_jw_field_bool(w, "unified", facts.unified);
        dgl_jw_field_cstr(w, "source", facts.memory_source);
        dgl_jw_end_object(w);
        dgl_jw_field_object(w, "units");
        dgl_jw_field_u64(w, "compute_units", facts.compute_units);
        dgl_jw_field_u64(w, "wave_size", facts.wave_size);
        dgl_jw_field_cstr(w, "source", facts.units_source);
        dgl_jw_end_object(w);
        dgl_jw_field_cstr(w, "version", dgl_device_gl_version(dev));
        list_limits(dgl_device_get_limits(dev), limits);
        dgl_jw_field_object(w, "limits");
        for (size_t i = 0; i < NUM_LIMITS; i++)
            if (limits[i].flag)
                dgl_jw_field_bool(w, limits[i].name, limits[i].value);
            else
                dgl_jw_field_u64(w, limits[i].name, limits[i].value);
        dgl_jw_end_object(w);
    } else {
        dgl_jw_field_null(w, "memory");
        dgl_jw_field_null(w, "units");
        dgl_jw_field_null(w, "version");
        dgl_jw_field_null(w, "limits");
    }
    report_f64(w, "dispatch_us", speed->dispatch_us > 0 ? speed->dispatch_us : NAN);
    report_f64(w, "read_gbps", speed->read_gbps > 0 ? speed->read_gbps : NAN);
    report_f64(w, "copy_gbps", speed->copy_gbps > 0 ? speed->copy_gbps : NAN);
}

static bool add_row(void *priv, const struct dgl_device_info *info)
{
    struct listing *l = priv;
    struct dgl_device *dev = NULL;
    struct dgl_device_speed speed = {0};
    struct dgl_buf *out = &l->list.out;
    struct dgl_json_writer *w = &l->list.w;
    const bool json = l->opt->json, details = json || l->opt->verbose > 0;
    l->rows++;
    if (details && info->usable) {
        char select[16];
        snprintf(select, sizeof(select), "%d", info->index);
        /* A failure is logged, and the row is listed without details. */
        if (dgl_device_create(&l->console.log,
                              dgl_device_params(.select = select, .limits = l->opt->limits),
                              &dev) == DGL_OK)
            dgl_device_measure(dev, &speed);
    }
    if (json) {
        dgl_jw_object(w);
        dgl_jw_field_i64(w, "index", info->index);
        dgl_jw_field_cstr(w, "name", info->renderer);
        dgl_jw_field_cstr(w, "node", info->node);
        dgl_jw_field_cstr(w, "driver", info->driver);
        dgl_jw_field_cstr(w, "reason", info->reason);
        dgl_jw_field_cstr(w, "verdict", dgl_device_verdict_name(info->verdict));
        dgl_jw_field_cstr(w, "verdict_note", info->verdict_note);
        dgl_jw_field_bool(w, "software", info->software);
        dgl_jw_field_bool(w, "usable", info->usable);
        write_details(w, dev, &speed);
        dgl_jw_end_object(w);
    } else {
        dgl_buf_printf(out, "%3d  %-20s %-10s %-9s %s\n", info->index,
                       info->node[0] ? info->node : "-", info->driver[0] ? info->driver : "-",
                       info->usable ? (info->software ? "software" : "hardware") : "unusable",
                       info->renderer[0] ? info->renderer : "-");
        if (info->reason[0])
            dgl_buf_printf(out, "     %s\n", info->reason);
        if (details && info->renderer[0]) /* without a renderer the kind of device is unknown */
            dgl_buf_printf(out, "     verdict: %s (%s)\n", dgl_device_verdict_name(info->verdict),
                           info->verdict_note);
        if (dev)
            put_details(out, dev, &speed);
    }
    dgl_device_destroy(&dev);
    return !interrupted();
}

int command_devices(const struct options *opt)
{
    struct listing l = {.opt = opt};
    struct dgl_buf *out = &l.list.out;
    console_init(&l.console, opt);
    report_list_begin(&l.list, opt->json);
    if (!opt->json)
        dgl_buf_printf(out, "row  %-20s %-10s %-9s %s\n", "node", "driver", "kind", "renderer");
    enum dgl_status status = dgl_device_iterate(&l.console.log, add_row, &l);
    if (status == DGL_OK && interrupted())
        status = DGL_ERR_CANCELLED;
    if (!opt->json && l.rows == 0)
        dgl_buf_puts(out, "no device: neither a render node nor an EGL device was found\n");
    return report_list_end(&l.list, status);
}
