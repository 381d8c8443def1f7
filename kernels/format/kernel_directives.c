/* Parses the `//!` directives of a kernel file: one function per directive, and their table.
 * docs/kernels.md is the reference. */
#include <stdio.h>
#include <string.h>

#include "kernels/format/kernel_parser.h"

/* ---- words and names ------------------------------------------------------------------------- */

static enum dgl_status take_word(struct kernel_parser *p, const char *what, struct dgl_str *word)
{
    if (!kernel_word_next(&p->rest, word))
        return kernel_parser_fail(p, "%s: %s is missing", p->directive, what);
    return DGL_OK;
}

/* Consumes one of the words of `list` ("read, write"). Returns its index and text. `label` precedes
 * the word in error messages. */
static enum dgl_status take_choice(struct kernel_parser *p, const char *what, const char *label,
                                   const char *list, int *index, struct dgl_str *word)
{
    struct dgl_str rest = dgl_str_of(list), one;
    enum dgl_status status = take_word(p, what, word);
    if (status != DGL_OK)
        return status;
    for (*index = 0; kernel_word_next(&rest, &one); ++*index) {
        one.len -= one.p[one.len - 1] == ',';
        if (dgl_str_equal(one, *word))
            return DGL_OK;
    }
    return kernel_parser_fail(p, "%s: %s'%.*s' is not one of %s", p->directive, label,
                              (int)word->len, word->p, list);
}

static enum dgl_status copy_word(const struct kernel_parser *p, struct dgl_str word, char *dst,
                                 size_t cap)
{
    if (word.len >= cap)
        return kernel_parser_fail(p, "%s: '%.*s' is longer than %zu characters", p->directive,
                                  (int)word.len, word.p, cap - 1);
    memcpy(dst, word.p, word.len);
    dst[word.len] = '\0';
    return DGL_OK;
}

/* Lower-case letters, digits and _: names of kernels, operations, attributes. */
static enum dgl_status copy_plain(const struct kernel_parser *p, struct dgl_str word, char *dst,
                                  size_t cap)
{
    for (size_t i = 0; i < word.len; i++) {
        char c = word.p[i];
        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '_')
            return kernel_parser_fail(p, "%s: '%.*s' may hold only a to z, 0 to 9 and _",
                                      p->directive, (int)word.len, word.p);
    }
    return copy_word(p, word, dst, cap);
}

static enum dgl_status take_plain(struct kernel_parser *p, const char *what, char *dst, size_t cap)
{
    struct dgl_str word;
    enum dgl_status status = take_word(p, what, &word);
    return status != DGL_OK ? status : copy_plain(p, word, dst, cap);
}

/* A new name of the body: an identifier that is neither reserved nor declared before. */
static enum dgl_status copy_name(const struct kernel_parser *p, struct dgl_str word, char *name,
                                 size_t cap)
{
    if (!kernel_is_identifier(word))
        return kernel_parser_fail(p, "%s: '%.*s' is not an identifier", p->directive, (int)word.len,
                                  word.p);
    enum dgl_status status = copy_word(p, word, name, cap);
    if (status != DGL_OK)
        return status;
    if (kernel_word_in(kernel_glsl_words, name))
        return kernel_parser_fail(p, "%s: the name %s is a word of GLSL", p->directive, name);
    if (kernel_is_reserved(name))
        return kernel_parser_fail(p, "%s: the name %s is reserved", p->directive, name);
    if (p->kernel ? kernel_has_name(p->kernel, name) : kernel_decls_have(p->decls, name))
        return kernel_parser_fail(p, "%s: the name %s is declared twice", p->directive, name);
    return DGL_OK;
}

static enum dgl_status take_name(struct kernel_parser *p, char *dst, size_t cap)
{
    struct dgl_str word;
    enum dgl_status status = take_word(p, "the name", &word);
    return status != DGL_OK ? status : copy_name(p, word, dst, cap);
}

/* ---- expressions and numbers ----------------------------------------------------------------- */

/* A lib's expressions are not recorded: kernel_lib_check() checks them against each kernel that
 * uses it. */
static enum dgl_status take_expr(struct kernel_parser *p, enum expr_scope scope,
                                 const struct kernel_expr **out)
{
    const char *error;
    if (!kernel_expr_parse(p->arena, &p->rest, out, &error)) {
        struct dgl_str at = dgl_str_trim(p->rest);
        if (!error)
            return dgl_fail_memory(p->log, p->path, at.len);
        return kernel_parser_fail(p, "%s: %s at '%.*s'", p->directive, error,
                                  (int)(at.len < 40 ? at.len : 40), at.p);
    }
    if (!p->kernel)
        return DGL_OK;
    if (p->num_exprs == KERNEL_MAX_EXPRS)
        return kernel_parser_fail(p, "%s: more than %d expressions in the file", p->directive,
                                  KERNEL_MAX_EXPRS);
    p->exprs[p->num_exprs++] = (struct named_expr){
        .expr = *out,
        .directive = p->directive,
        .line = p->line,
        .num_tunes = scope == SCOPE_TUNE ? p->kernel->num_tunes : KERNEL_MAX_TUNES,
        .num_lets = scope == SCOPE_TUNE   ? 0
                    : scope >= SCOPE_PLAN ? KERNEL_MAX_LETS
                                          : p->decls->num_lets,
        .scope = scope,
    };
    return DGL_OK;
}

static enum dgl_status take_integer(struct kernel_parser *p, int64_t *out)
{
    struct dgl_str word;
    enum dgl_status status = take_word(p, "an integer", &word);
    if (status != DGL_OK)
        return status;
    if (!dgl_parse_i64(word, INT32_MIN, INT32_MAX, out))
        return kernel_parser_fail(p, "%s: '%.*s' is not a 32-bit integer", p->directive,
                                  (int)word.len, word.p);
    return DGL_OK;
}

static enum dgl_status check_cap(const struct kernel_parser *p, uint32_t count, uint32_t max)
{
    if (count >= max)
        return kernel_parser_fail(p, "%s: more than %u of them", p->directive, max);
    return DGL_OK;
}

/* ---- one function per directive; each is given p->rest and leaves it empty ------------------- */

static enum dgl_status parse_name(struct kernel_parser *p)
{
    return take_plain(p, "the kernel's name", p->kernel->name, sizeof(p->kernel->name));
}

static enum dgl_status parse_op(struct kernel_parser *p)
{
    return take_plain(p, "the operation", p->kernel->op, sizeof(p->kernel->op));
}

/* Appends a word to a blank-separated list. */
static enum dgl_status append_word(const struct kernel_parser *p, const char *word, char *list,
                                   size_t cap)
{
    if (kernel_word_in(list, word))
        return kernel_parser_fail(p, "%s: '%s' is given twice", p->directive, word);
    size_t len = strlen(list);
    int more = snprintf(list + len, cap - len, "%s%s", len ? " " : "", word);
    if (more < 0 || (size_t)more >= cap - len)
        return kernel_parser_fail(p, "%s: the words are longer than %zu characters", p->directive,
                                  cap - 1);
    return DGL_OK;
}

static enum dgl_status parse_variant(struct kernel_parser *p)
{
    struct kernel *k = p->kernel;
    struct dgl_str word;
    enum dgl_status status;
    TRY(take_plain(p, "the variant", k->variant, sizeof(k->variant)));
    while (kernel_word_next(&p->rest, &word)) {
        char alias[32];
        TRY(copy_plain(p, word, alias, sizeof(alias)));
        TRY(append_word(p, alias, k->aliases, sizeof(k->aliases)));
    }
done:
    return status;
}

/* Adds a word to the WHEN line that is being parsed, and its flag KEY_word. */
static enum dgl_status add_when_word(struct kernel_parser *p, struct kernel_when *when,
                                     struct dgl_str part)
{
    struct kernel *k = p->kernel;
    char word[sizeof(k->flags->word)];
    enum dgl_status status;
    TRY(check_cap(p, k->num_flags, KERNEL_MAX_FLAGS));
    TRY(copy_plain(p, part, word, sizeof(word)));
    TRY(append_word(p, word, when->words, sizeof(when->words)));
    struct kernel_flag *flag = &k->flags[k->num_flags];
    size_t len = 0;
    for (const char *c = when->key; *c; c++)
        flag->name[len++] = *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;
    snprintf(flag->name + len, sizeof(flag->name) - len, "_%s", word);
    memcpy(flag->word, word, sizeof(word));
    flag->when = k->num_when;
    k->num_flags++;
done:
    return status;
}

/* WHEN key word word ...: each word becomes the flag KEY_word. */
static enum dgl_status parse_when(struct kernel_parser *p)
{
    static const char *const weights[] = {KERNEL_WEIGHT_WORDS};
    struct kernel *k = p->kernel;
    struct kernel_when *when = &k->when[k->num_when];
    enum dgl_status status;
    TRY(check_cap(p, k->num_when, KERNEL_MAX_ATTRS));
    TRY(take_plain(p, "the attribute's key", when->key, sizeof(when->key)));
    for (uint32_t i = 0; i < k->num_when; i++)
        if (strcmp(k->when[i].key, when->key) == 0)
            return kernel_parser_fail(p, "WHEN: the key %s is given twice", when->key);
    struct dgl_str part;
    while (kernel_word_next(&p->rest, &part)) {
        const bool any = strcmp(when->key, "weight") == 0 && dgl_str_eq(part, "any");
        for (size_t i = 0; i < (any ? sizeof(weights) / sizeof(weights[0]) : 1); i++)
            TRY(add_when_word(p, when, any ? dgl_str_of(weights[i]) : part));
    }
    if (!when->words[0])
        return kernel_parser_fail(p, "WHEN: a word that %s may be is missing", when->key);
    k->num_when++;
done:
    return status;
}

static enum dgl_status parse_bind(struct kernel_parser *p)
{
    static const char types[] = "uint int float uvec2 uvec4 ivec2 ivec4 vec2 vec4";
    struct kernel *k = p->kernel;
    struct dgl_str word;
    struct kernel_bind *bind = &k->binds[k->num_binds];
    int access, type;
    enum dgl_status status;
    TRY(check_cap(p, k->num_binds, KERNEL_MAX_BINDS));
    TRY(take_choice(p, "read, write, readwrite or coherent", "", "read, write, readwrite, coherent",
                    &access, &word));
    bind->coherent = access + 1 > KERNEL_READ_WRITE;
    bind->access = bind->coherent ? KERNEL_READ_WRITE : (enum kernel_access)(access + 1);
    TRY(take_choice(p, "the element type", "the type ", types, &type, &word));
    TRY(copy_word(p, word, bind->type, sizeof(bind->type)));
    TRY(take_name(p, bind->name, sizeof(bind->name)));
    bind->line = p->line;
    k->num_binds++;
done:
    return status;
}

static enum dgl_status parse_param(struct kernel_parser *p)
{
    struct kernel *k = p->kernel;
    struct dgl_str word;
    struct kernel_param *param = &k->params[k->num_params];
    int type;
    enum dgl_status status;
    TRY(check_cap(p, k->num_params, KERNEL_MAX_PARAMS));
    TRY(take_choice(p, "the type", "the type ", "uint, int, float", &type, &word));
    TRY(take_name(p, param->name, sizeof(param->name)));
    param->type = (enum kernel_param_type)type;
    param->line = p->line;
    k->num_params++;
done:
    return status;
}

/* CONST NAME NAME ..., the last of which may be followed by = and its default. */
static enum dgl_status parse_const(struct kernel_parser *p)
{
    struct kernel *k = p->kernel;
    struct kernel_const *last = NULL;
    struct dgl_str word;
    enum dgl_status status;
    TRY(take_word(p, "a name", &word));
    do {
        if (last && dgl_str_eq(word, "=")) {
            last->has_preset = true;
            return take_integer(p, &last->preset);
        }
        TRY(check_cap(p, k->num_consts, KERNEL_MAX_CONSTS));
        last = &k->consts[k->num_consts];
        TRY(copy_name(p, word, last->name, sizeof(last->name)));
        k->num_consts++;
    } while (kernel_word_next(&p->rest, &word));
done:
    return status;
}

static enum dgl_status take_equals(struct kernel_parser *p, const char *name)
{
    struct dgl_str equals;
    if (!kernel_word_next(&p->rest, &equals) || !dgl_str_eq(equals, "="))
        return kernel_parser_fail(p, "%s: expected '=' after %s", p->directive, name);
    return DGL_OK;
}

/* TUNE NAME = preset in choice choice ... */
static enum dgl_status parse_tune(struct kernel_parser *p)
{
    struct kernel *k = p->kernel;
    struct dgl_str word;
    struct kernel_tune *tune = &k->tunes[k->num_tunes];
    enum dgl_status status;
    TRY(check_cap(p, k->num_tunes, KERNEL_MAX_TUNES));
    tune->line = p->line;
    TRY(take_name(p, tune->name, sizeof(tune->name)));
    TRY(take_equals(p, tune->name));
    TRY(take_expr(p, SCOPE_TUNE, &tune->preset));
    TRY(take_word(p, "'in' and the choices", &word));
    if (!dgl_str_eq(word, "in"))
        return kernel_parser_fail(p, "TUNE: expected 'in' and the choices at '%.*s'", (int)word.len,
                                  word.p);
    do {
        TRY(check_cap(p, tune->num_choices, KERNEL_MAX_CHOICES));
        TRY(take_integer(p, &tune->choices[tune->num_choices]));
        for (uint32_t i = 0; i < tune->num_choices; i++)
            if (tune->choices[i] == tune->choices[tune->num_choices])
                return kernel_parser_fail(p, "TUNE: the choice %lld is given twice",
                                          (long long)tune->choices[i]);
        tune->num_choices++;
    } while (dgl_str_trim(p->rest).len > 0);
    k->num_tunes++;
done:
    return status;
}

static bool is_count(void *priv, int64_t value)
{
    *(int64_t *)priv = value;
    return value >= 1;
}

static enum dgl_status parse_local(struct kernel_parser *p)
{
    enum dgl_status status;
    int64_t value;
    p->kernel->num_lets_local = p->decls->num_lets;
    p->kernel->local_line = p->line;
    for (int i = 0; i < 3 && (i == 0 || dgl_str_trim(p->rest).len); i++) {
        TRY(take_expr(p, SCOPE_LOCAL, &p->kernel->local[i]));
        if (!kernel_expr_outcomes(p->kernel->local[i], is_count, &value))
            return kernel_parser_fail(p, "LOCAL: a size of %lld; wanted 1 or more",
                                      (long long)value);
    }
done:
    return status;
}

static enum dgl_status parse_groups(struct kernel_parser *p)
{
    enum dgl_status status = DGL_OK;
    p->kernel->groups_line = p->line;
    for (int i = 0; i < 2 && status == DGL_OK && (i == 0 || dgl_str_trim(p->rest).len); i++)
        status = take_expr(p, SCOPE_GROUPS, &p->kernel->groups[i]);
    return status;
}

static enum dgl_status parse_active(struct kernel_parser *p)
{
    p->kernel->active_line = p->line;
    return take_expr(p, SCOPE_GROUPS, &p->kernel->active);
}

static enum dgl_status parse_let(struct kernel_parser *p)
{
    const bool below_local = p->kernel && p->kernel->local[0];
    struct kernel_let *let = &p->decls->lets[p->decls->num_lets];
    enum dgl_status status;
    TRY(check_cap(p, p->decls->num_lets, KERNEL_MAX_LETS));
    let->line = p->line;
    TRY(take_name(p, let->name, sizeof(let->name)));
    TRY(take_equals(p, let->name));
    TRY(take_expr(p, below_local ? SCOPE_LET : SCOPE_LOCAL, &let->value));
    p->decls->num_lets++;
done:
    return status;
}

/* SHARED type name[expr], or SHARED type name. */
static enum dgl_status parse_shared(struct kernel_parser *p)
{
    static const char types[] = "float vec2 vec3 vec4 uint uvec2 uvec3 uvec4 int ivec2 ivec3 ivec4";
    struct dgl_str type, name;
    struct kernel_shared *shared = &p->decls->shared[p->decls->num_shared];
    enum dgl_status status;
    TRY(check_cap(p, p->decls->num_shared, KERNEL_MAX_SHARED));
    TRY(take_word(p, "the type", &type));
    shared->line = p->line;
    if (type.len < sizeof(shared->type))
        memcpy(shared->type, type.p, type.len);
    if (!kernel_word_in(types, shared->type))
        return kernel_parser_fail(p,
                                  "SHARED: '%.*s' is not one of %s; a number of bytes is no longer "
                                  "given: write //! SHARED type name[elements] for each array",
                                  (int)type.len, type.p, types);
    p->rest = dgl_str_trim(p->rest);
    name = (struct dgl_str){p->rest.p, 0};
    while (name.len < p->rest.len && !strchr("[ \t", p->rest.p[name.len]))
        name.len++;
    if (name.len == 0)
        return kernel_parser_fail(p, "SHARED: the name is missing");
    TRY(copy_name(p, name, shared->name, sizeof(shared->name)));
    p->rest = dgl_str_trim((struct dgl_str){p->rest.p + name.len, p->rest.len - name.len});
    if (dgl_str_starts(p->rest, "[")) {
        p->rest = (struct dgl_str){p->rest.p + 1, p->rest.len - 1};
        TRY(take_expr(p, SCOPE_PLAN, &shared->count));
        if (!dgl_str_starts(p->rest, "]"))
            return kernel_parser_fail(p, "SHARED: expected ']' after the elements of %s",
                                      shared->name);
        p->rest = (struct dgl_str){p->rest.p + 1, p->rest.len - 1};
    }
    p->decls->num_shared++;
done:
    return status;
}

static enum dgl_status parse_prefer(struct kernel_parser *p)
{
    p->kernel->prefer_line = p->line;
    return take_expr(p, SCOPE_PLAN, &p->kernel->prefer);
}

static enum dgl_status parse_registers(struct kernel_parser *p)
{
    p->kernel->registers_line = p->line;
    return take_expr(p, SCOPE_PLAN, &p->kernel->registers);
}

static enum dgl_status parse_require(struct kernel_parser *p)
{
    struct kernel *k = p->kernel;
    const struct dgl_str text = dgl_str_trim(p->rest);
    enum dgl_status status;
    TRY(check_cap(p, k->num_require, KERNEL_MAX_REQUIRES));
    TRY(take_expr(p, SCOPE_PLAN, &k->require[k->num_require]));
    k->require_line[k->num_require] = p->line;
    k->require_text[k->num_require] = dgl_arena_strndup(p->arena, text.p, text.len);
    if (!k->require_text[k->num_require++])
        return dgl_fail_memory(p->log, "a kernel's REQUIRE", text.len);
done:
    return status;
}

static enum dgl_status parse_extension(struct kernel_parser *p)
{
    struct kernel *k = p->kernel;
    struct dgl_str word;
    enum dgl_status status = check_cap(p, k->num_extensions, KERNEL_MAX_EXTENSIONS);
    if (status != DGL_OK || (status = take_word(p, "the extension", &word)) != DGL_OK)
        return status;
    if (!kernel_is_identifier(word) || !dgl_str_starts(word, "GL_"))
        return kernel_parser_fail(p, "EXTENSION: '%.*s' is not the name of an extension (GL_...)",
                                  (int)word.len, word.p);
    char *name = k->extensions[k->num_extensions];
    status = copy_word(p, word, name, sizeof(k->extensions[0]));
    if (status == DGL_OK && kernel_is_named(k->extensions[0], sizeof(k->extensions[0]),
                                            k->num_extensions, dgl_str_of(name)))
        return kernel_parser_fail(p, "EXTENSION: %s is given twice", name);
    k->num_extensions++;
    return status;
}

static enum dgl_status parse_precision(struct kernel_parser *p)
{
    struct dgl_str word;
    int type;
    enum dgl_status status = take_choice(p, "f32 or f16", "", "f32, f16", &type, &word);
    p->kernel->f16 = status == DGL_OK && type == 1;
    return status;
}

static enum dgl_status parse_layout(struct kernel_parser *p)
{
    return take_plain(p, "the layout", p->kernel->layout, sizeof(p->kernel->layout));
}

static enum dgl_status parse_tolerance(struct kernel_parser *p)
{
    struct dgl_str word;
    enum dgl_status status = take_word(p, "a number", &word);
    if (status != DGL_OK)
        return status;
    if (!dgl_parse_f64(word, &p->kernel->tolerance) || !(p->kernel->tolerance > 0))
        return kernel_parser_fail(p, "TOLERANCE: '%.*s' is not a number above 0", (int)word.len,
                                  word.p);
    return DGL_OK;
}

/* LIB name, in kernels also LIB name other. */
static enum dgl_status parse_lib(struct kernel_parser *p)
{
    struct dgl_str word;
    enum dgl_status status;
    TRY(check_cap(p, *p->num_libs, KERNEL_MAX_LIBS));
    struct kernel_lib_ref *lib = &p->libs[(*p->num_libs)++];
    lib->line = p->line;
    for (int n = 0; n < 2 && (n == 0 || (p->kernel && dgl_str_trim(p->rest).len > 0)); n++) {
        TRY(take_word(p, "the lib's name", &word));
        for (size_t i = 0; i < word.len; i++)
            if (!((word.p[i] >= 'a' && word.p[i] <= 'z') ||
                  (word.p[i] >= '0' && word.p[i] <= '9') ||
                  strchr(p->kernel ? "_{}" : "_", word.p[i])))
                return kernel_parser_fail(p, "LIB: '%.*s' may hold only a to z, 0 to 9 and _%s",
                                          (int)word.len, word.p,
                                          p->kernel ? ", and one {key}" : "");
        TRY(copy_word(p, word, n == 0 ? lib->name : lib->other, sizeof(lib->name)));
    }
done:
    return status;
}

static enum dgl_status parse_step(struct kernel_parser *p)
{
    struct dgl_str word;
    int access;
    enum dgl_status status =
        take_choice(p, "read, write or readwrite", "", "read, write, readwrite", &access, &word);
    p->kernel->uses_step = status == DGL_OK && access != 1;
    p->kernel->writes_step = status == DGL_OK && access != 0;
    return status;
}

/* Rules of a directive: at most once, in every kernel, in libs too. */
enum { ONCE = 1, NEEDED = 2, LIB = 4 };

static const struct directive {
    const char *name;
    enum dgl_status (*parse)(struct kernel_parser *p);
    unsigned rules;
} directives[] = {
    {"NAME", parse_name, ONCE | NEEDED},
    {"OP", parse_op, ONCE | NEEDED},
    {"VARIANT", parse_variant, ONCE | NEEDED},
    {"LOCAL", parse_local, ONCE | NEEDED},
    {"GROUPS", parse_groups, ONCE | NEEDED},
    {"ACTIVE", parse_active, ONCE},
    {"WHEN", parse_when, 0},
    {"BIND", parse_bind, 0},
    {"PARAM", parse_param, 0},
    {"CONST", parse_const, 0},
    {"TUNE", parse_tune, 0},
    {"LET", parse_let, LIB},
    {"SHARED", parse_shared, LIB},
    {"REQUIRE", parse_require, 0},
    {"EXTENSION", parse_extension, 0},
    {"PREFER", parse_prefer, ONCE},
    {"REGISTERS", parse_registers, ONCE},
    {"PRECISION", parse_precision, ONCE},
    {"LAYOUT", parse_layout, ONCE},
    {"TOLERANCE", parse_tolerance, ONCE},
    {"LIB", parse_lib, LIB},
    {"STEP", parse_step, ONCE},
};
#define NUM_DIRECTIVES (sizeof(directives) / sizeof(*directives))

const char *kernel_directive_missing(const struct kernel_parser *p)
{
    for (size_t i = 0; i < NUM_DIRECTIVES; i++)
        if ((directives[i].rules & NEEDED) && !(p->seen & (1u << i)))
            return directives[i].name;
    return NULL;
}

static enum dgl_status fail_unknown(const struct kernel_parser *p, struct dgl_str word)
{
    char all[256] = "";
    const struct dgl_str rest = dgl_str_trim(p->rest);
    if (dgl_str_eq(word, "CHUNK"))
        return kernel_parser_fail(p, "CHUNK is called LIB now: write //! LIB %.*s", (int)rest.len,
                                  rest.p);
    for (size_t i = 0, len = 0; i < NUM_DIRECTIVES; i++)
        if (p->kernel || (directives[i].rules & LIB))
            len += (size_t)snprintf(all + len, sizeof(all) - len, " %s", directives[i].name);
    return kernel_parser_fail(p, "'%.*s' is not a directive%s; there are%s", (int)word.len, word.p,
                              p->kernel ? "" : " of libs", all);
}

enum dgl_status kernel_directive_parse(struct kernel_parser *p, struct dgl_str line)
{
    struct dgl_str word;
    for (size_t i = 0; i + 1 < line.len; i++) /* cut a remark: no value contains two slashes */
        if (line.p[i] == '/' && line.p[i + 1] == '/')
            line.len = i;
    p->rest = dgl_str_trim(line);
    if (!kernel_word_next(&p->rest, &word))
        return kernel_parser_fail(p, "a directive is missing after //!");
    size_t i = 0;
    while (i < NUM_DIRECTIVES && !dgl_str_eq(word, directives[i].name))
        i++;
    if (i == NUM_DIRECTIVES || (!p->kernel && !(directives[i].rules & LIB)))
        return fail_unknown(p, word);
    p->directive = directives[i].name;
    if ((directives[i].rules & ONCE) && (p->seen & (1u << i)))
        return kernel_parser_fail(p, "%s is given twice", p->directive);
    p->seen |= 1u << i;
    enum dgl_status status = directives[i].parse(p);
    if (status == DGL_OK && kernel_word_next(&p->rest, &word))
        status = kernel_parser_fail(p, "%s: '%.*s' is one word too many", p->directive,
                                    (int)word.len, word.p);
    return status;
}
