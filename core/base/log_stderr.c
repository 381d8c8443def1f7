/* The ready-made log of dopplergl.h. The only place where the library prints, and only if the
 * caller asks for it by passing this log. */
#include <stdio.h>

#include "core/base/log.h"

static void write_stderr(void *priv, enum dgl_log_level level, const char *text)
{
    (void)priv;
    fprintf(stderr, "dopplergl: %s%s\n",
            level == DGL_LOG_ERROR  ? "error: "
            : level == DGL_LOG_WARN ? "warning: "
                                    : "",
            text);
}

const struct dgl_log *dgl_log_stderr(void)
{
    static const struct dgl_log log = {.write = write_stderr, .level = DGL_LOG_WARN};
    return &log;
}
