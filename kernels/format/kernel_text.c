/* Parses one kernel file: the header comment, the directive lines, where the body starts, and the
 * rules that span several lines. */
#include "kernels/format/kernel_parser.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/hash.h"

enum dgl_status kernel_parser_fail(const struct kernel_parser *p, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return dgl_fail(p->log, DGL_ERR_KERNEL, "%s:%u: %s", p->path, p->line, text);
}

/* ---- names that the file uses before or after it declares them ------------------------------- */

struct scope {
    const struct kernel *kernel;
    const struct named_expr *expr;
};

static bool scope_knows(const void *ctx, const char *name)
{
    const struct scope *scope = ctx;
    const struct kernel *k = scope->kernel;
    if (kernel_is_fact(name) || kernel_has_const(k, name) || kernel_has_flag(k, name))
        return true;
    uint32_t above = scope->expr->num_tunes < k->num_tunes ? scope->expr->num_tunes : k->num_tunes;
    if (kernel_has_tune(k, above, name))
        return true;
    if (scope->expr->scope >= SCOPE_PLAN && kernel_is_local(name))
        return true;
    return scope->expr->scope == SCOPE_GROUPS && kernel_is_pass(name);
}

static enum dgl_status check_exprs(struct kernel_parser *p)
{
    for (uint32_t i = 0; i < p->num_exprs; i++) {
        const struct named_expr *e = &p->exprs[i];
        const struct scope scope = {p->kernel, e};
        const char *name = kernel_expr_unknown(e->expr, scope_knows, &scope);
        p->line = e->line;
        if (name)
            return kernel_parser_fail(p,
                                      "%s: the name %s is not known here: declare it with CONST or "
                                      "TUNE, or use a device fact or a word of WHEN",
                                      e->directive, name);
    }
    return DGL_OK;
}

/* A preset that holds on every device must be a choice; others are tested where they are used. */
static enum dgl_status check_tunes(struct kernel_parser *p)
{
    for (uint32_t i = 0; i < p->num_exprs; i++) {
        if (p->exprs[i].scope != SCOPE_TUNE)
            continue;
        const struct kernel_tune *tune = &p->kernel->tunes[p->exprs[i].num_tunes];
        p->line = p->exprs[i].line;
        const char *bad;
        int64_t preset;
        if (!kernel_expr_eval(tune->preset, NULL, 0, &preset, &bad))
            continue;
        uint32_t c = 0;
        while (c < tune->num_choices && tune->choices[c] != preset)
            c++;
        if (c == tune->num_choices)
            return kernel_parser_fail(p, "TUNE %s: the preset %lld is not one of its choices",
                                      tune->name, (long long)preset);
    }
    return DGL_OK;
}

static enum dgl_status check_flags(struct kernel_parser *p)
{
    for (uint32_t i = 0; i < p->kernel->num_flags; i++) {
        const struct kernel_flag *flag = &p->kernel->flags[i];
        if (kernel_has_name(p->kernel, flag->name))
            return kernel_parser_fail(p, "the name %s is also what WHEN %s %s defines", flag->name,
                                      p->kernel->when[flag->when].key, flag->word);
        for (uint32_t j = 0; j < i; j++)
            if (strcmp(p->kernel->flags[j].name, flag->name) == 0)
                return kernel_parser_fail(p, "two WHEN lines define the name %s", flag->name);
    }
    return DGL_OK;
}

static enum dgl_status check_step(struct kernel_parser *p)
{
    const struct kernel *k = p->kernel;
    const struct kernel_bind *step = NULL;
    for (uint32_t i = 0; i < k->num_binds; i++)
        if (strcmp(k->binds[i].name, "STEP") == 0)
            step = &k->binds[i];
    if (step && !k->writes_step)
        return kernel_parser_fail(p, "BIND: the name STEP is for kernels that say STEP write");
    if (!k->writes_step)
        return DGL_OK;
    if (!step || strcmp(step->type, "uint") != 0 || step->access != KERNEL_READ_WRITE)
        return kernel_parser_fail(p, "STEP write needs the line //! BIND readwrite uint STEP");
    return DGL_OK;
}

/* At most one "{key}", of a WHEN line: so that every chunk that it may stand for is known
 * beforehand. */
static enum dgl_status check_chunks(struct kernel_parser *p)
{
    for (uint32_t i = 0; i < p->kernel->num_chunks; i++) {
        const struct kernel_chunk_ref *chunk = &p->kernel->chunks[i];
        const char *open = strchr(chunk->name, '{'), *close = strchr(chunk->name, '}');
        p->line = chunk->line;
        if (!open && !close)
            continue;
        if (!open || !close || close < open || strchr(open + 1, '{') || strchr(close + 1, '}'))
            return kernel_parser_fail(p, "CHUNK: '%s' has more than one {key}, or half of one",
                                      chunk->name);
        struct dgl_str key = {open + 1, (size_t)(close - open - 1)};
        uint32_t w = 0;
        while (w < p->kernel->num_when && !dgl_str_eq(key, p->kernel->when[w].key))
            w++;
        if (w == p->kernel->num_when)
            return kernel_parser_fail(p, "CHUNK: no WHEN line has the key %.*s", (int)key.len,
                                      key.p);
    }
    return DGL_OK;
}

static enum dgl_status check_body(struct kernel_parser *p)
{
    struct kernel *k = p->kernel;
    const struct dgl_str body = {k->body, k->text_len - (size_t)(k->body - k->text)};
    p->line = k->body_line;
    if (!kernel_body_has_entry(body))
        return kernel_parser_fail(p, "the body lacks void body(uvec3 group)");
    return kernel_body_check(p->log, p->path, body, k->body_line, k);
}

/* ---- the file -------------------------------------------------------------------------------- */

static bool is_directive(struct dgl_str line)
{
    return dgl_str_starts(line, "//!");
}

static enum dgl_status parse_summary(struct kernel_parser *p, struct dgl_str line)
{
    if (!dgl_str_starts(line, "//") || is_directive(line))
        return kernel_parser_fail(p, "the first line must be a // comment: the kernel's summary");
    struct dgl_str text = dgl_str_trim((struct dgl_str){line.p + 2, line.len - 2});
    if (text.len == 0)
        return kernel_parser_fail(p, "the summary in the first line is empty");
    p->kernel->summary = dgl_arena_strndup(p->arena, text.p, text.len);
    return p->kernel->summary ? DGL_OK : dgl_fail_memory(p->log, "a kernel's summary", text.len);
}

/* Reads up to the body, then makes sure that no directive stands in it. */
static enum dgl_status parse_lines(struct kernel_parser *p)
{
    struct kernel *k = p->kernel;
    struct dgl_str rest = {k->text, k->text_len}, line;
    enum dgl_status status = DGL_OK;
    for (p->line = 1; status == DGL_OK; p->line++) {
        const char *start = rest.p;
        if (!dgl_str_split(&rest, '\n', &line))
            break;
        line = dgl_str_trim(line);
        if (p->line == 1)
            status = parse_summary(p, line);
        else if (is_directive(line) && k->body)
            status =
                kernel_parser_fail(p, "a directive after the body began on line %u", k->body_line);
        else if (is_directive(line))
            status = kernel_directive_parse(p, (struct dgl_str){line.p + 3, line.len - 3});
        else if (!k->body && line.len && !dgl_str_starts(line, "//")) {
            k->body = start;
            k->body_line = p->line;
        }
        if (status != DGL_OK)
            break;
    }
    return status;
}

static enum dgl_status check_whole(struct kernel_parser *p)
{
    const char *missing = kernel_directive_missing(p);
    p->line = p->kernel->body ? p->kernel->body_line : p->line;
    if (missing)
        return kernel_parser_fail(p, "the directive //! %s is missing", missing);
    if (!p->kernel->body)
        return kernel_parser_fail(p, "the body is missing: void body(uvec3 group)");
    enum dgl_status status = check_step(p);
    if (status == DGL_OK)
        status = check_flags(p);
    if (status == DGL_OK)
        status = check_tunes(p);
    if (status == DGL_OK)
        status = check_chunks(p);
    if (status == DGL_OK)
        status = check_exprs(p);
    return status == DGL_OK ? check_body(p) : status;
}

enum dgl_status kernel_parse(const struct dgl_log *log, struct dgl_arena *arena, const char *path,
                             const char *text, size_t len, struct kernel **out)
{
    *out = NULL;
    struct kernel_parser p = {.log = log, .arena = arena, .path = path, .line = 1};
    if (memchr(text, '\0', len))
        return kernel_parser_fail(&p, "the file holds a zero byte; a kernel is text");
    struct kernel *kernel = p.kernel = dgl_arena_alloc(arena, sizeof(*kernel));
    if (!kernel)
        return dgl_fail_memory(log, "a kernel", sizeof(*kernel));
    kernel->path = path;
    kernel->text = text;
    kernel->text_len = len;
    kernel->tolerance = 1e-12;
    enum dgl_status status = parse_lines(&p);
    if (status == DGL_OK)
        status = check_whole(&p);
    if (status != DGL_OK)
        return status;
    if (!dgl_hash_bytes(DGL_HASH_SHA256, text, len, kernel->sha256))
        return dgl_fail_memory(log, "the SHA-256 of a kernel", len);
    *out = kernel;
    return DGL_OK;
}
