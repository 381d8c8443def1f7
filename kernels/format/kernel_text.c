/* Parses one kernel or lib. It reads the header comment and the directive lines, finds the start of
 * the body, and checks the rules that apply to several lines together. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/utf8.h"
#include "kernels/format/kernel_excerpt.h"
#include "kernels/format/kernel_parser.h"

enum dgl_status kernel_parser_fail(const struct kernel_parser *p, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    const struct kernel_place place = {
        .path = p->path, .text = p->text, .first_line = 1, .line = p->line};
    return kernel_fail_at(p->log, &place, text);
}

/* ---- words ------------------------------------------------------------------------------------
 */

bool kernel_word_next(struct dgl_str *rest, struct dgl_str *word)
{
    while (rest->len && (*rest->p == ' ' || *rest->p == '\t')) {
        rest->p++;
        rest->len--;
    }
    *word = (struct dgl_str){rest->p, 0};
    while (word->len < rest->len && rest->p[word->len] != ' ' && rest->p[word->len] != '\t')
        word->len++;
    rest->p += word->len;
    rest->len -= word->len;
    return word->len > 0;
}

bool kernel_word_in(const char *words, const char *word)
{
    struct dgl_str rest = dgl_str_of(words), one;
    while (kernel_word_next(&rest, &one))
        if (dgl_str_eq(one, word))
            return true;
    return false;
}

bool kernel_is_identifier(struct dgl_str word)
{
    for (size_t i = 0; i < word.len; i++) {
        char c = word.p[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!letter && (i == 0 || c < '0' || c > '9'))
            return false;
    }
    return word.len > 0;
}

struct dgl_str kernel_lib_key(const char *pattern)
{
    const char *open = strchr(pattern, '{'), *close = strchr(pattern, '}');
    return open && close ? (struct dgl_str){open + 1, (size_t)(close - open - 1)} : DGL_STR("");
}

void kernel_lib_name(const char *pattern, struct dgl_str word, char out[96])
{
    struct dgl_str key = kernel_lib_key(pattern);
    if (key.len == 0)
        snprintf(out, 96, "%s", pattern);
    else
        snprintf(out, 96, "%.*s%.*s%s", (int)(key.p - 1 - pattern), pattern, (int)word.len, word.p,
                 key.p + key.len + 1);
}

/* ---- names: of the file, of all expressions, and reserved ones
 * ----------------------------------- */

const struct kernel_var kernel_property_minimum[] = {
    {"SUBGROUP_SIZE", 0},
    {"SHARED_BYTES", 16384},
    {"MAX_INVOCATIONS", 128},
    {"MAX_LOCAL_X", 128},
    {"MAX_LOCAL_Y", 128},
    {"MAX_LOCAL_Z", 64},
    {"MAX_SSBO", 4},
    {"SOFTWARE", 0},
    {"LLVMPIPE", 0},
    {"COMPUTE_UNITS", 1},
    {"REGISTERS", KERNEL_REGISTERS_MANY},
    {NULL, 0},
};

const char *const kernel_extensions[] = {
    "GL_KHR_shader_subgroup_basic",
    "GL_KHR_shader_subgroup_arithmetic",
    "GL_KHR_shader_subgroup_shuffle",
    "GL_EXT_gpu_shader5",
    "GL_NV_gpu_shader5",
    NULL,
};

bool kernel_is_fact(const char *name)
{
    for (const struct kernel_var *property = kernel_property_minimum; property->name; property++)
        if (strcmp(property->name, name) == 0)
            return true;
    return strncmp(name, "HAS_", 4) == 0;
}

static bool is_local(const char *name)
{
    return strcmp(name, "LOCAL_X") == 0 || strcmp(name, "LOCAL_Y") == 0 ||
           strcmp(name, "LOCAL_Z") == 0;
}

static bool is_pass(const char *name)
{
    return strcmp(name, "T") == 0 || strcmp(name, "BAND") == 0;
}

/* Keywords of GLSL ES 3.10, including reserved ones. A #define of a keyword breaks the generated
 * text. */
const char kernel_glsl_words[] =
    "active asm atomic_uint attribute bool break buffer bvec2 bvec3 bvec4 case cast centroid class "
    "coherent common const continue default discard do double dvec2 dvec3 dvec4 else enum extern "
    "external false filter fixed flat float for goto half highp hvec2 hvec3 hvec4 if in inline "
    "inout input int interface invariant ivec2 ivec3 ivec4 layout long lowp mat2 mat2x2 mat2x3 "
    "mat2x4 mat3 mat3x2 mat3x3 mat3x4 mat4 mat4x2 mat4x3 mat4x4 mediump namespace noinline "
    "noperspective out output partition patch precise precision public readonly resource restrict "
    "return sample shared short sizeof smooth static struct subroutine superp switch template this "
    "true typedef uint uniform union unsigned using uvec2 uvec3 uvec4 varying vec2 vec3 vec4 void "
    "volatile while writeonly defined";

bool kernel_is_reserved(const char *name)
{
    static const char *const prefixes[] = {"gl_", "GL_", "step_", "STEP_", "HAS_"};
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return kernel_is_fact(name) || is_local(name) || is_pass(name) || strstr(name, "__") ||
           strcmp(name, "body") == 0 || strcmp(name, "main") == 0 || strcmp(name, "group") == 0;
}

bool kernel_is_named(const char *first, size_t size, uint32_t count, struct dgl_str name)
{
    for (uint32_t i = 0; i < count; i++)
        if (dgl_str_eq(name, first + i * size))
            return true;
    return false;
}

bool kernel_has_const(const struct kernel *kernel, const char *name)
{
    return KERNEL_IS_NAMED(kernel->consts, kernel->num_consts, dgl_str_of(name));
}

bool kernel_decls_have(const struct kernel_decls *decls, const char *name)
{
    const struct dgl_str str = dgl_str_of(name);
    return KERNEL_IS_NAMED(decls->lets, decls->num_lets, str) ||
           KERNEL_IS_NAMED(decls->shared, decls->num_shared, str);
}

bool kernel_has_name(const struct kernel *kernel, const char *name)
{
    const struct dgl_str str = dgl_str_of(name);
    return KERNEL_IS_NAMED(kernel->binds, kernel->num_binds, str) ||
           KERNEL_IS_NAMED(kernel->params, kernel->num_params, str) ||
           KERNEL_IS_NAMED(kernel->consts, kernel->num_consts, str) ||
           KERNEL_IS_NAMED(kernel->tunes, kernel->num_tunes, str) ||
           kernel_decls_have(&kernel->decls, name);
}

/* ---- names that the file uses before or after it declares them ------------------------------- */

struct scope {
    const struct kernel *kernel;
    const struct named_expr *expr;
    const struct kernel_decls *lib; /* NULL for an expression of the kernel itself */
    uint32_t num_lib_lets;
};

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static bool scope_knows(const void *ctx, const char *name)
{
    const struct scope *scope = ctx;
    const struct kernel *k = scope->kernel;
    const struct named_expr *e = scope->expr;
    const struct dgl_str str = dgl_str_of(name);
    return kernel_is_fact(name) || KERNEL_IS_NAMED(k->consts, k->num_consts, str) ||
           KERNEL_IS_NAMED(k->flags, k->num_flags, str) ||
           KERNEL_IS_NAMED(k->tunes, min_u32(e->num_tunes, k->num_tunes), str) ||
           KERNEL_IS_NAMED(k->decls.lets, min_u32(e->num_lets, k->decls.num_lets), str) ||
           (scope->lib && KERNEL_IS_NAMED(scope->lib->lets, scope->num_lib_lets, str)) ||
           (e->scope >= SCOPE_LET && is_local(name)) || (e->scope == SCOPE_GROUPS && is_pass(name));
}

static enum dgl_status check_exprs(struct kernel_parser *p)
{
    for (uint32_t i = 0; i < p->num_exprs; i++) {
        const struct named_expr *e = &p->exprs[i];
        const struct scope scope = {.kernel = p->kernel, .expr = e};
        const char *name = kernel_expr_unknown(e->expr, scope_knows, &scope);
        p->line = e->line;
        if (name)
            return kernel_parser_fail(p,
                                      "%s: the name %s is not known here: declare it with CONST, "
                                      "TUNE or LET, or use a device property or a word of WHEN",
                                      e->directive, name);
    }
    return DGL_OK;
}

/* A preset's tunable, and the value that was last compared with its choices. */
struct outcome {
    const struct kernel_tune *tune;
    int64_t value;
};

static bool is_choice(void *priv, int64_t value)
{
    struct outcome *o = priv;
    o->value = value;
    for (uint32_t c = 0; c < o->tune->num_choices; c++)
        if (o->tune->choices[c] == value)
            return true;
    return false;
}

/* Every number in a preset must be one of the choices, for all sizes. Computed presets are checked
 * at their use. */
static enum dgl_status check_tunes(struct kernel_parser *p)
{
    for (uint32_t i = 0; i < p->num_exprs; i++) {
        if (p->exprs[i].scope != SCOPE_TUNE)
            continue;
        struct outcome outcome = {.tune = &p->kernel->tunes[p->exprs[i].num_tunes]};
        p->line = p->exprs[i].line;
        if (!kernel_expr_outcomes(outcome.tune->preset, is_choice, &outcome))
            return kernel_parser_fail(p, "TUNE %s: the preset %lld is not one of its choices",
                                      outcome.tune->name, (long long)outcome.value);
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
        if (KERNEL_IS_NAMED(p->kernel->flags, i, dgl_str_of(flag->name)))
            return kernel_parser_fail(p, "two WHEN lines define the name %s", flag->name);
    }
    return DGL_OK;
}

static enum dgl_status check_step(struct kernel_parser *p)
{
    struct kernel *k = p->kernel;
    const struct kernel_bind *step = NULL;
    for (uint32_t i = 0; i < k->num_binds; i++) {
        if (strcmp(k->binds[i].name, "STEP") == 0)
            step = &k->binds[i];
        k->uses_pages |= k->uses_step && strcmp(k->binds[i].name, "KV") == 0;
    }
    /* The plan sets it for groups of layers other than the first; kernels/lib/kv reads it. */
    if (k->uses_pages && !kernel_has_const(k, "KV_ENTRY")) {
        if (k->num_consts == KERNEL_MAX_CONSTS)
            return kernel_parser_fail(p, "BIND KV needs one of the %d constants",
                                      KERNEL_MAX_CONSTS);
        k->consts[k->num_consts++] = (struct kernel_const){.name = "KV_ENTRY", .has_preset = true};
    }
    if (step && !k->writes_step)
        return kernel_parser_fail(p, "BIND: the name STEP is for kernels that say STEP write");
    if (!k->writes_step)
        return DGL_OK;
    if (!step || strcmp(step->type, "uint") != 0 || step->access != KERNEL_READ_WRITE)
        return kernel_parser_fail(p, "STEP write needs the line //! BIND readwrite uint STEP");
    return DGL_OK;
}

/* Allows at most one "{key}" in a name, of a WHEN line, so that all libs that it can refer to are
 * known in advance. If the second name of a line has a key, it is
 * that of the first. */
static enum dgl_status check_libs(struct kernel_parser *p)
{
    for (uint32_t i = 0; i < 2 * p->kernel->num_libs; i++) {
        const struct kernel_lib_ref *lib = &p->kernel->libs[i / 2];
        const char *name = i % 2 ? lib->other : lib->name;
        const char *open = strchr(name, '{'), *close = strchr(name, '}');
        p->line = lib->line;
        if (!open && !close)
            continue;
        if (!open || !close || close < open || strchr(open + 1, '{') || strchr(close + 1, '}'))
            return kernel_parser_fail(p, "LIB: '%s' has more than one {key}, or half of one", name);
        struct dgl_str key = {open + 1, (size_t)(close - open - 1)};
        if (i % 2 && !dgl_str_equal(key, kernel_lib_key(lib->name)))
            return kernel_parser_fail(p, "LIB: '%s' and '%s' have different keys", lib->name, name);
        uint32_t w = 0;
        while (w < p->kernel->num_when && !dgl_str_eq(key, p->kernel->when[w].key))
            w++;
        if (w == p->kernel->num_when)
            return kernel_parser_fail(p, "LIB: no WHEN line has the key %.*s", (int)key.len, key.p);
    }
    return DGL_OK;
}

static enum dgl_status check_body(struct kernel_parser *p)
{
    struct kernel *k = p->kernel;
    const struct dgl_str body = {k->body, k->text_len - (size_t)(k->body - k->text)};
    p->line = k->body_line;
    enum dgl_status status = kernel_body_check(p->log, p->path, body, k->body_line, k, NULL);
    if (status != DGL_OK)
        return status;
    const struct kernel_entry main = kernel_body_find(body, k->body_line, "body");
    const struct kernel_entry begin = kernel_body_find(body, k->body_line, "begin");
    if (main.failed || begin.failed)
        return dgl_fail_memory(p->log, p->path, body.len);
    if (!main.found) {
        p->line = main.line ? main.line : k->body_line;
        return kernel_parser_fail(p, "the body lacks void body(uvec3 group)");
    }
    if (!begin.found && begin.line) {
        p->line = begin.line;
        return kernel_parser_fail(p, "begin is not void begin(uvec3 group): nothing would call it");
    }
    k->begins = begin.found;
    return DGL_OK;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Parses the directives before the body, and checks that the body contains no directive. *body is
 * NULL if there is no body. */
static enum dgl_status parse_lines(struct kernel_parser *p, struct dgl_str text, const char **body,
                                   uint32_t *body_line)
{
    struct dgl_str rest = text, line;
    bool includes = false;
    enum dgl_status status = DGL_OK;
    const char *start = rest.p;
    for (p->line = 1; dgl_str_split(&rest, '\n', &line); p->line++, start = rest.p) {
        line = dgl_str_trim(line);
        const bool directive = dgl_str_starts(line, "//!");
        if (p->line == 1 && p->kernel) {
            if (!dgl_str_starts(line, "//") || directive)
                return kernel_parser_fail(p, "the first line must be a // comment: the kernel's "
                                             "summary");
            struct dgl_str summary = dgl_str_trim((struct dgl_str){line.p + 2, line.len - 2});
            if (summary.len == 0)
                return kernel_parser_fail(p, "the summary in the first line is empty");
            p->kernel->summary = dgl_arena_strndup(p->arena, summary.p, summary.len);
            if (!p->kernel->summary)
                return dgl_fail_memory(p->log, "a kernel's summary", summary.len);
        } else if (directive && *body && includes) {
            p->line = *body_line;
            return kernel_parser_fail(p, "#include may not appear here: kernels share texts by "
                                         "//! LIB");
        } else if (directive && *body) {
            return kernel_parser_fail(p, "a directive after the body began on line %u", *body_line);
        } else if (directive) {
            TRY(kernel_directive_parse(p, (struct dgl_str){line.p + 3, line.len - 3}));
        } else if (!*body && line.len && !dgl_str_starts(line, "//")) {
            *body = start;
            *body_line = p->line;
            includes =
                dgl_str_starts(line, "#") &&
                dgl_str_starts(dgl_str_trim((struct dgl_str){line.p + 1, line.len - 1}), "include");
        }
    }
done:
    return status;
}

/* Refuses bytes that occur in other kinds of files, and control characters of terminals. */
static enum dgl_status check_bytes(struct kernel_parser *p)
{
    if (dgl_str_starts(p->text, "\xef\xbb\xbf"))
        return kernel_parser_fail(p, "the file begins with a byte order mark: save it as UTF-8 "
                                     "without one");
    if (dgl_str_starts(p->text, "\xff\xfe") || dgl_str_starts(p->text, "\xfe\xff"))
        return kernel_parser_fail(p, "the file begins as UTF-16 does; kernels and libs are UTF-8");
    if (p->kernel && dgl_str_trim(p->text).len == 0)
        return kernel_parser_fail(p, "the file is empty: a kernel begins with a // comment, then "
                                     "come //! NAME, OP and others");
    for (size_t i = 0; i < p->text.len; i++) {
        const unsigned char byte = (unsigned char)p->text.p[i];
        p->line += byte == '\n';
        if (byte == '\r' && (i + 1 == p->text.len || p->text.p[i + 1] != '\n'))
            return kernel_parser_fail(p, "the line ends with CR alone (0x0d): lines end with LF, "
                                         "or with CR and LF");
        if (byte == 0)
            return kernel_parser_fail(p, "the file holds a zero byte; kernels and libs are text");
        if ((byte < 0x20 && !strchr("\t\n\r", byte)) || byte == 0x7f)
            return kernel_parser_fail(
                p, "the file holds a control character, 0x%02x; kernels and libs are text", byte);
    }
    const size_t valid = dgl_utf8_valid_prefix(p->text.p, p->text.len);
    if (valid < p->text.len) {
        p->line = 1;
        for (size_t i = 0; i < valid; i++)
            p->line += p->text.p[i] == '\n';
        return kernel_parser_fail(p, "the file is not UTF-8: byte 0x%02x",
                                  (unsigned char)p->text.p[valid]);
    }
    p->line = 1;
    return DGL_OK;
}

uint32_t kernel_directive_line(const struct kernel *kernel, const char *directive, const char *word)
{
    struct dgl_str rest = {kernel->text, kernel->text_len}, line;
    for (uint32_t number = 1; dgl_str_split(&rest, '\n', &line); number++) {
        struct dgl_str key, each;
        if (!dgl_str_starts(line, "//!"))
            continue;
        line = (struct dgl_str){line.p + 3, line.len - 3};
        if (kernel_word_next(&line, &key) && dgl_str_eq(key, directive))
            while (kernel_word_next(&line, &each))
                if (dgl_str_eq(each, word))
                    return number;
    }
    return 1;
}

void kernel_hash_text(struct dgl_hash *hash, const char *text, size_t len)
{
    const char *end = text + len, *start = text;
    for (const char *p = text; p < end; p++)
        if (p[0] == '\r' && p + 1 < end && p[1] == '\n') {
            dgl_hash_update(hash, start, (size_t)(p - start));
            start = p + 1;
        }
    dgl_hash_update(hash, start, (size_t)(end - start));
}

enum dgl_status kernel_parse(const struct dgl_log *log, struct dgl_arena *arena, const char *path,
                             const char *text, size_t len, struct kernel **out)
{
    *out = NULL;
    struct kernel_parser p = {
        .log = log, .arena = arena, .path = path, .text = {text, len}, .line = 1};
    struct kernel *kernel = p.kernel = dgl_arena_alloc(arena, sizeof(*kernel));
    if (!kernel)
        return dgl_fail_memory(log, "a kernel", sizeof(*kernel));
    struct dgl_hash *hash = NULL;
    enum dgl_status status;
    TRY(check_bytes(&p));
    p.decls = &kernel->decls;
    p.libs = kernel->libs;
    p.num_libs = &kernel->num_libs;
    *kernel = (struct kernel){.path = path, .text = text, .text_len = len, .tolerance = 1e-12};
    TRY(parse_lines(&p, p.text, &kernel->body, &kernel->body_line));
    const char *missing = kernel_directive_missing(&p);
    p.line = kernel->body ? kernel->body_line : p.line;
    if (missing)
        TRY(kernel_parser_fail(
            &p, "the directive //! %s is missing%s", missing,
            dgl_str_ends(dgl_str_of(path), ".glsl") ? "; a lib is given with its folder" : ""));
    if (!kernel->body)
        TRY(kernel_parser_fail(&p, "the body is missing: void body(uvec3 group)"));
    TRY(check_step(&p));
    TRY(check_flags(&p));
    TRY(check_tunes(&p));
    TRY(check_libs(&p));
    TRY(check_exprs(&p));
    TRY(check_body(&p));
    hash = dgl_hash_create(DGL_HASH_SHA256);
    if (hash)
        kernel_hash_text(hash, text, len);
    if (!hash || !dgl_hash_hex(hash, kernel->sha256))
        TRY(dgl_fail_memory(log, "the SHA-256 of a kernel", len));
    *out = kernel;
done:
    dgl_hash_destroy(&hash);
    return status;
}

enum dgl_status kernel_lib_parse(const struct dgl_log *log, struct dgl_arena *arena,
                                 const struct kernel_lib *file, const char *text, size_t len,
                                 struct kernel_lib **out)
{
    struct kernel_parser p = {
        .log = log, .arena = arena, .path = file->path, .text = {text, len}, .line = 1};
    enum dgl_status status;
    *out = NULL;
    TRY(check_bytes(&p));
    struct kernel_lib *lib = dgl_arena_alloc(arena, sizeof(*lib));
    if (!lib)
        return dgl_fail_memory(log, "a lib", sizeof(*lib));
    *lib = *file;
    lib->text = text;
    lib->text_len = len;
    p.decls = &lib->decls;
    p.libs = lib->libs;
    p.num_libs = &lib->num_libs;
    TRY(parse_lines(&p, p.text, &lib->body, &lib->body_line));
    if (!lib->body) {
        lib->body = text + len;
        lib->body_line = p.line;
    }
    lib->body_len = len - (size_t)(lib->body - text);
    const struct dgl_str body = {lib->body, lib->body_len};
    TRY(kernel_body_check(log, lib->path, body, lib->body_line, NULL, NULL));
    const struct kernel_entry begin = kernel_body_find(body, lib->body_line, "begin");
    if (begin.failed)
        return dgl_fail_memory(log, lib->path, body.len);
    if (begin.found) {
        p.line = begin.line;
        return kernel_parser_fail(&p, "void begin(uvec3 group) belongs into the kernel: that of a "
                                      "lib would not be called");
    }
    *out = lib;
done:
    return status;
}

/* Checks one LET or SHARED of a lib for a kernel that uses the lib. */
static enum dgl_status check_lib_decl(const struct kernel_parser *p, const struct scope *scope,
                                      const char *own, const struct kernel_expr *expr)
{
    const struct kernel *kernel = scope->kernel;
    const char *name = expr ? kernel_expr_unknown(expr, scope_knows, scope) : NULL;
    if (name)
        return kernel_parser_fail(p, "%s: kernel %s does not declare the name %s", p->directive,
                                  kernel->name, name);
    if (kernel_has_name(kernel, own) ||
        KERNEL_IS_NAMED(kernel->flags, kernel->num_flags, dgl_str_of(own)))
        return kernel_parser_fail(p, "%s: kernel %s declares the name %s too", p->directive,
                                  kernel->name, own);
    return DGL_OK;
}

enum dgl_status kernel_lib_check(const struct dgl_log *log, const struct kernel *kernel,
                                 const struct kernel_lib *lib)
{
    static const struct named_expr all = {
        .num_tunes = KERNEL_MAX_TUNES, .num_lets = KERNEL_MAX_LETS, .scope = SCOPE_PLAN};
    struct kernel_parser p = {.log = log, .path = lib->path};
    struct scope scope = {.kernel = kernel, .expr = &all, .lib = &lib->decls};
    enum dgl_status status;
    p.directive = "LET";
    for (uint32_t i = 0; i < lib->decls.num_lets; i++) {
        const struct kernel_let *let = &lib->decls.lets[i];
        p.line = let->line;
        scope.num_lib_lets = i;
        TRY(check_lib_decl(&p, &scope, let->name, let->value));
    }
    p.directive = "SHARED";
    scope.num_lib_lets = lib->decls.num_lets;
    for (uint32_t i = 0; i < lib->decls.num_shared; i++) {
        const struct kernel_shared *shared = &lib->decls.shared[i];
        p.line = shared->line;
        TRY(check_lib_decl(&p, &scope, shared->name, shared->count));
    }
    for (uint32_t i = 0; i < lib->num_libs; i++) {
        const char *needed = lib->libs[i].name;
        uint32_t r = 0;
        while (r < kernel->num_libs && strcmp(kernel->libs[r].name, needed) != 0 &&
               strcmp(kernel->libs[r].name, lib->name) != 0)
            r++;
        if (r < kernel->num_libs && strcmp(kernel->libs[r].name, needed) == 0)
            continue;
        p.path = kernel->path;
        p.text = (struct dgl_str){kernel->text, kernel->text_len};
        p.line = r < kernel->num_libs ? kernel->libs[r].line : 1;
        return kernel_parser_fail(&p, "lib %s needs lib %s: add //! LIB %s above //! LIB %s",
                                  lib->name, needed, needed, lib->name);
    }
    const struct dgl_str body = {lib->body, lib->body_len};
    status = kernel_body_check(log, lib->path, body, lib->body_line, kernel, &lib->decls);
done:
    return status;
}
