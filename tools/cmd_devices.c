/* devices: the rows of the device table, each with the reason why it is or is not used. */
#include <stdio.h>

#include "core/base/json.h"
#include "tools/commands.h"
#include "tools/console.h"
#include "tools/report.h"

struct listing {
    struct dgl_buf out;
    struct dgl_json_writer w;
    bool json;
    int rows;
};

static bool add_row(void *priv, const struct dgl_device_info *info)
{
    struct listing *l = priv;
    l->rows++;
    if (!l->json) {
        dgl_buf_printf(&l->out, "%3d  %-20s %-10s %-9s %s\n", info->index,
                       info->node[0] ? info->node : "-", info->driver[0] ? info->driver : "-",
                       info->usable ? (info->software ? "software" : "hardware") : "unusable",
                       info->renderer[0] ? info->renderer : "-");
        if (info->reason[0])
            dgl_buf_printf(&l->out, "     %s\n", info->reason);
        return true;
    }
    const struct {
        const char *key, *value;
    } words[] = {{"name", info->renderer},
                 {"node", info->node},
                 {"driver", info->driver},
                 {"reason", info->reason}};
    dgl_jw_object(&l->w);
    report_i64(&l->w, "index", info->index);
    for (size_t i = 0; i < 4; i++) {
        report_text(&l->w, words[i].key, words[i].value);
    }
    report_bool(&l->w, "software", info->software);
    report_bool(&l->w, "usable", info->usable);
    dgl_jw_end_object(&l->w);
    return true;
}

int command_devices(const struct options *opt)
{
    struct console console;
    struct listing l = {.json = opt->json};
    console_init(&console, opt);
    l.w = dgl_json_writer(&l.out, 0);
    if (l.json)
        dgl_jw_array(&l.w);
    else
        dgl_buf_printf(&l.out, "row  %-20s %-10s %-9s %s\n", "node", "driver", "kind", "renderer");
    enum dgl_status status = dgl_device_iterate(&console.log, add_row, &l);
    if (l.json) {
        dgl_jw_end_array(&l.w);
        dgl_buf_putc(&l.out, '\n');
    } else if (l.rows == 0) {
        dgl_buf_puts(&l.out, "no device: neither a render node nor an EGL device was found\n");
    }
    if (status == DGL_OK)
        return out_exit(out_buf(&l.out));
    dgl_buf_finish(&l.out);
    return exit_code(status);
}
