/* Repeated lines of a log, folded to one. */
#include "tools/cli/fold.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/str.h"

struct kind_of_line {
    char *pattern; /* the line with * for each number */
    size_t more;   /* lines after the first one */
};

static void fold_line(void *priv, enum dgl_log_level level, const char *text)
{
    struct folding_log *f = priv;
    struct dgl_buf pattern = {0};
    size_t i = 0;
    if (level != DGL_LOG_WARN && level != DGL_LOG_NOTICE) {
        f->to.write(f->to.priv, level, text);
        return;
    }
    for (const char *p = text; *p; p++)
        if (*p < '0' || *p > '9')
            dgl_buf_putc(&pattern, *p);
        else if (p == text || p[-1] < '0' || p[-1] > '9')
            dgl_buf_putc(&pattern, '*');
    dgl_buf_putc(&pattern, '\0');
    pthread_mutex_lock(&f->lock);
    while (!pattern.failed && i < f->count && strcmp(f->kinds[i].pattern, pattern.p) != 0)
        i++;
    if (!pattern.failed && i < f->count) {
        f->kinds[i].more++;
    } else {
        f->to.write(f->to.priv, level, text);
        if (!pattern.failed &&
            dgl_grow((void **)&f->kinds, &f->cap, f->count + 1, sizeof(*f->kinds))) {
            f->kinds[f->count++] = (struct kind_of_line){.pattern = dgl_buf_take(&pattern)};
            if (!f->kinds[f->count - 1].pattern)
                f->count--;
        }
    }
    pthread_mutex_unlock(&f->lock);
    dgl_buf_finish(&pattern);
}

static bool fold_cancelled(void *priv)
{
    const struct folding_log *f = priv;
    return f->to.cancelled && f->to.cancelled(f->to.priv);
}

void folding_begin(struct folding_log *f, const struct dgl_log *to)
{
    *f = (struct folding_log){.to = *to, .log = *to};
    f->log.write = fold_line;
    f->log.cancelled = fold_cancelled;
    f->log.priv = f;
    pthread_mutex_init(&f->lock, NULL);
}

void folding_end(struct folding_log *f)
{
    for (size_t i = 0; i < f->count; i++) {
        if (f->kinds[i].more)
            dgl_notice(&f->to, "%zu more like it: %s", f->kinds[i].more, f->kinds[i].pattern);
        free(f->kinds[i].pattern);
    }
    free(f->kinds);
    pthread_mutex_destroy(&f->lock);
}
