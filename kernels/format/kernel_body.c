/* Looks through the GLSL of a kernel or lib, comments left out: names that only the generator may
 * use, and preprocessor conditions on symbols that nobody declares. */
#include <string.h>

#include "kernels/format/kernel_parser.h"
#include "kernels/step.h"

enum token_kind { TOKEN_END, TOKEN_NEWLINE, TOKEN_WORD, TOKEN_NUMBER, TOKEN_MARK };

struct token {
    enum token_kind kind;
    struct dgl_str text;
    uint32_t line;
};

struct lexer {
    const char *p, *end;
    uint32_t line;
};

static bool is_word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9');
}

static bool lexer_at(const struct lexer *lexer, char first, char second)
{
    return lexer->end - lexer->p >= 2 && lexer->p[0] == first && lexer->p[1] == second;
}

static void skip_block_comment(struct lexer *lexer)
{
    lexer->p += 2;
    while (lexer->p < lexer->end && !lexer_at(lexer, '*', '/'))
        lexer->line += *lexer->p++ == '\n';
    lexer->p += lexer->end - lexer->p < 2 ? lexer->end - lexer->p : 2;
}

/* Blanks, comments and line continuations. */
static void skip_space(struct lexer *lexer)
{
    while (lexer->p < lexer->end) {
        if (lexer_at(lexer, '/', '*')) {
            skip_block_comment(lexer);
        } else if (lexer_at(lexer, '/', '/')) {
            while (lexer->p < lexer->end && *lexer->p != '\n')
                lexer->p++;
        } else if (lexer_at(lexer, '\\', '\n')) {
            lexer->p += 2;
            lexer->line++;
        } else if (*lexer->p == ' ' || *lexer->p == '\t' || *lexer->p == '\r') {
            lexer->p++;
        } else {
            return;
        }
    }
}

static struct token lexer_next(struct lexer *lexer)
{
    skip_space(lexer);
    struct token token = {TOKEN_END, {lexer->p, 0}, lexer->line};
    if (lexer->p == lexer->end)
        return token;
    token.text.len = 1;
    if (*lexer->p == '\n') {
        token.kind = TOKEN_NEWLINE;
        lexer->line++;
    } else if (is_word_char(*lexer->p)) {
        bool digit = *lexer->p >= '0' && *lexer->p <= '9';
        token.kind = digit ? TOKEN_NUMBER : TOKEN_WORD;
        while (lexer->p + token.text.len < lexer->end && is_word_char(lexer->p[token.text.len]))
            token.text.len++;
    } else {
        token.kind = TOKEN_MARK;
    }
    lexer->p += token.text.len;
    return token;
}

static struct lexer lexer_of(struct dgl_str text, uint32_t first_line)
{
    return (struct lexer){text.p, text.p + text.len, first_line};
}

bool kernel_body_has_entry(struct dgl_str text)
{
    static const char *const wanted[] = {"void", "body", "(", "uvec3"};
    struct lexer lexer = lexer_of(text, 1);
    size_t found = 0;
    for (;;) {
        struct token token = lexer_next(&lexer);
        if (token.kind == TOKEN_END)
            return false;
        if (token.kind == TOKEN_NEWLINE)
            continue;
        found = dgl_str_eq(token.text, wanted[found]) ? found + 1 : dgl_str_eq(token.text, "void");
        if (found == sizeof(wanted) / sizeof(*wanted))
            return true;
    }
}

/* The text has a line `#define NAME`. */
static bool text_defines(struct dgl_str text, struct dgl_str name)
{
    struct lexer lexer = lexer_of(text, 1);
    struct token before[2] = {{TOKEN_NEWLINE, {"", 0}, 0}, {TOKEN_NEWLINE, {"", 0}, 0}};
    for (;;) {
        struct token token = lexer_next(&lexer);
        if (token.kind == TOKEN_END)
            return false;
        if (dgl_str_eq(before[0].text, "#") && dgl_str_eq(before[1].text, "define") &&
            token.text.len == name.len && memcmp(token.text.p, name.p, name.len) == 0)
            return true;
        before[0] = before[1];
        before[1] = token;
    }
}

static bool is_step_index(struct dgl_str name)
{
#define X(glsl, c, field)                                                                          \
    if (dgl_str_eq(name, "STEP_" #field))                                                          \
        return true;
    DGL_STEP_FIELDS(X)
#undef X
    return false;
}

static bool decls_have(const struct kernel_decls *decls, struct dgl_str name)
{
    for (uint32_t i = 0; i < decls->num_lets; i++)
        if (dgl_str_eq(name, decls->lets[i].name))
            return true;
    return false;
}

static bool kernel_declares(const struct kernel *kernel, struct dgl_str name)
{
    static const char *const always[] = {"defined", "GL_ES",   "__VERSION__",
                                         "LOCAL_X", "LOCAL_Y", "LOCAL_Z"};
    for (size_t i = 0; i < sizeof(always) / sizeof(*always); i++)
        if (dgl_str_eq(name, always[i]))
            return true;
    for (uint32_t i = 0; i < kernel->num_consts; i++)
        if (dgl_str_eq(name, kernel->consts[i].name))
            return true;
    for (uint32_t i = 0; i < kernel->num_tunes; i++)
        if (dgl_str_eq(name, kernel->tunes[i].name))
            return true;
    for (uint32_t i = 0; i < kernel->num_flags; i++)
        if (dgl_str_eq(name, kernel->flags[i].name))
            return true;
    for (uint32_t i = 0; i < kernel->num_extensions; i++)
        if (dgl_str_eq(name, kernel->extensions[i]))
            return true;
    return decls_have(&kernel->decls, name) || (kernel->writes_step && is_step_index(name));
}

static bool is_condition(struct dgl_str word)
{
    return dgl_str_eq(word, "if") || dgl_str_eq(word, "ifdef") || dgl_str_eq(word, "ifndef") ||
           dgl_str_eq(word, "elif");
}

enum dgl_status kernel_body_check(const struct dgl_log *log, const char *path, struct dgl_str text,
                                  uint32_t first_line, const struct kernel *kernel,
                                  const struct kernel_decls *lib)
{
    static const char *const forbidden[][2] = {
        {"gl_WorkGroupID", "use the parameter of body(uvec3 group)"},
        {"gl_NumWorkGroups", "make the count a CONST or a PARAM"},
        {"gl_GlobalInvocationID", "use group and gl_LocalInvocationID"},
        {"main", "the generator writes main(); write void body(uvec3 group)"},
        {"layout", "declare buffers, parameters and the local size with //! BIND, PARAM and LOCAL"},
        {"shared", "declare it with //! SHARED type name[elements]"},
    };
    struct lexer lexer = lexer_of(text, first_line);
    struct token before = {TOKEN_NEWLINE, {"", 0}, 0}, token = lexer_next(&lexer);
    bool condition = false;
    for (; token.kind != TOKEN_END; before = token, token = lexer_next(&lexer)) {
        if (token.kind == TOKEN_NEWLINE)
            condition = false;
        if (before.kind == TOKEN_NEWLINE && dgl_str_eq(token.text, "#")) {
            token = lexer_next(&lexer);
            if (dgl_str_eq(token.text, "version") || dgl_str_eq(token.text, "line") ||
                dgl_str_eq(token.text, "extension"))
                return dgl_fail(log, DGL_ERR_KERNEL,
                                "%s:%u: #%.*s may not appear here: the generator writes it%s", path,
                                token.line, (int)token.text.len, token.text.p,
                                dgl_str_eq(token.text, "extension") ? " for each //! EXTENSION"
                                                                    : "");
            condition = is_condition(token.text);
            if (token.kind == TOKEN_END)
                break;
            continue;
        }
        if (token.kind != TOKEN_WORD)
            continue;
        for (size_t i = 0; i < sizeof(forbidden) / sizeof(*forbidden); i++)
            if (dgl_str_eq(token.text, forbidden[i][0]))
                return dgl_fail(log, DGL_ERR_KERNEL, "%s:%u: %s may not appear here: %s", path,
                                token.line, forbidden[i][0], forbidden[i][1]);
        if (condition && kernel && !kernel_declares(kernel, token.text) &&
            !(lib && decls_have(lib, token.text)) && !text_defines(text, token.text))
            return dgl_fail(log, DGL_ERR_KERNEL,
                            "%s:%u: kernel %s does not declare the symbol %.*s: add CONST, TUNE, "
                            "LET or a WHEN line with that word",
                            path, token.line, kernel->name, (int)token.text.len, token.text.p);
    }
    return DGL_OK;
}
