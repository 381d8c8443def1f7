/* Shared parts of the fuzz targets: checks, the counting log, splitting of an input. */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fuzz_check_failed(const char *condition, const char *file, int line)
{
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
    abort();
}

static void count_line(void *priv, enum dgl_log_level level, const char *text)
{
    struct fuzz_log *f = priv;
    FUZZ_CHECK(text[0] && !strchr(text, '\n'));
    f->errors += level == DGL_LOG_ERROR;
}

void fuzz_log_init(struct fuzz_log *f)
{
    *f = (struct fuzz_log){.log = {.write = count_line, .priv = f, .level = DGL_LOG_WARN}};
}

void fuzz_check_status(struct fuzz_log *f, enum dgl_status status)
{
    FUZZ_CHECK(f->errors == (status == DGL_OK ? 0 : 1));
    f->errors = 0;
}

struct dgl_str fuzz_section(struct dgl_str *rest)
{
    struct dgl_str part = {rest->p, strnlen(rest->p, rest->len)};
    size_t taken = part.len < rest->len ? part.len + 1 : part.len;
    *rest = (struct dgl_str){rest->p + taken, rest->len - taken};
    return part;
}

unsigned fuzz_byte(struct dgl_str *rest)
{
    if (!rest->len)
        return 0;
    unsigned byte = (unsigned char)*rest->p;
    *rest = (struct dgl_str){rest->p + 1, rest->len - 1};
    return byte;
}
