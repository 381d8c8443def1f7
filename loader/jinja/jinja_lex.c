/*
 * The lexer, with the settings of Hugging Face transformers. trim_blocks removes the newline after
 * a statement or comment. lstrip_blocks removes the whitespace before a statement or comment if it
 * starts the line. The final newline of a template is removed.
 */
#include "loader/jinja/jinja_lex.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/utf8.h"
#include "loader/jinja/jinja_text.h"

/* ---- numbers and string literals ---- */

/* Longer numbers are refused. No double needs more digits. */
enum { max_number_bytes = 400 };

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'Z')
        return c - 'A' + 10;
    return 99;
}

/* Skips digits of `base` with single '_' between them. Returns the position after them, or `pos` if
 * there are no digits. */
static size_t skip_digits(struct dgl_str text, size_t pos, int base)
{
    size_t end = pos;
    for (size_t i = pos; i < text.len; i++) {
        if (digit_value(text.p[i]) < base)
            end = i + 1;
        else if (text.p[i] != '_' || i == pos || text.p[i - 1] == '_')
            break;
    }
    return end;
}

/* Base of the prefix "0x", "0o" or "0b"; 10 without a prefix. */
static int prefix_base(struct dgl_str text)
{
    if (text.len < 2 || text.p[0] != '0')
        return 10;
    switch (text.p[1] | 0x20) {
    case 'x':
        return 16;
    case 'o':
        return 8;
    case 'b':
        return 2;
    default:
        return 10;
    }
}

static bool digits_to_integer(struct dgl_str text, int base, bool negative, int64_t *out)
{
    int64_t value = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.p[i] == '_')
            continue;
        int digit = digit_value(text.p[i]);
        if (__builtin_mul_overflow(value, base, &value) ||
            __builtin_add_overflow(value, negative ? -digit : digit, &value))
            return false;
    }
    *out = value;
    return true;
}

/* Parses the longest number at the start of `text` and returns its length. Returns 0 if there is no
 * number or it is out of range. */
static size_t scan_integer(struct dgl_str text, int64_t *out)
{
    int base = prefix_base(text);
    size_t start = base == 10 ? 0 : 2;
    if (base != 10 && text.len > 2 && text.p[2] == '_')
        start = 3; /* "0x_ff" */
    size_t end = skip_digits(text, start, base);
    if (end == start && base != 10) { /* "0x" is a zero, then a name */
        base = 10;
        start = 0;
        end = 1;
    }
    struct dgl_str digits = {text.p + start, end - start};
    return end > start && digits_to_integer(digits, base, false, out) ? end : 0;
}

static size_t scan_float(struct dgl_str text, double *out)
{
    char space[max_number_bytes];
    size_t end = skip_digits(text, 0, 10), whole = end;
    if (end == 0)
        return 0;
    if (end + 1 < text.len && text.p[end] == '.' && digit_value(text.p[end + 1]) < 10)
        end = skip_digits(text, end + 1, 10);
    if (end < text.len && (text.p[end] == 'e' || text.p[end] == 'E')) {
        size_t digits = end + 1;
        if (digits < text.len && (text.p[digits] == '+' || text.p[digits] == '-'))
            digits++;
        size_t exponent_end = skip_digits(text, digits, 10);
        end = exponent_end > digits ? exponent_end : end;
    }
    if (end == whole || end > sizeof(space))
        return 0;
    size_t len = 0;
    for (size_t i = 0; i < end; i++) {
        if (text.p[i] != '_')
            space[len++] = text.p[i];
    }
    return dgl_parse_f64((struct dgl_str){space, len}, out) ? end : 0;
}

bool jinja_parse_integer(struct dgl_str text, int base, int64_t *out)
{
    text = jinja_strip(text, JINJA_STRIP_BOTH);
    bool negative = text.len && text.p[0] == '-';
    if (text.len && (negative || text.p[0] == '+'))
        text = (struct dgl_str){text.p + 1, text.len - 1};
    int written = prefix_base(text);
    if (written != 10 && (base == 0 || base == written)) {
        text = (struct dgl_str){text.p + 2, text.len - 2};
        base = written;
    } else if (base == 0) {
        base = 10;
    }
    if (base < 2 || base > 36 || text.len == 0 || skip_digits(text, 0, base) != text.len)
        return false;
    return digits_to_integer(text, base, negative, out);
}

static bool is_word(struct dgl_str text, const char *word)
{
    if (text.len != strlen(word))
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if ((text.p[i] | 0x20) != word[i])
            return false;
    }
    return true;
}

bool jinja_parse_float(struct dgl_str text, double *out)
{
    char space[max_number_bytes];
    text = jinja_strip(text, JINJA_STRIP_BOTH);
    if (text.len && text.p[0] == '+')
        text = (struct dgl_str){text.p + 1, text.len - 1};
    bool negative = text.len && text.p[0] == '-';
    struct dgl_str size = {text.p + negative, text.len - negative};
    bool infinite = is_word(size, "inf") || is_word(size, "infinity");
    if (infinite || is_word(size, "nan")) {
        *out = infinite ? (negative ? -INFINITY : INFINITY) : NAN;
        return true;
    }
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        bool between = i && i + 1 < text.len && digit_value(text.p[i - 1]) < 10 &&
                       digit_value(text.p[i + 1]) < 10;
        if (text.p[i] == '_' && between)
            continue;
        if (len == sizeof(space))
            return false;
        space[len++] = text.p[i];
    }
    return dgl_parse_f64((struct dgl_str){space, len}, out);
}

/* Parses the escape whose letter is at `pos`. Returns its length without the backslash. Returns 0
 * if the backslash is not an escape. */
static size_t scan_escape(struct dgl_str body, size_t pos, uint32_t *cp, const char **fault)
{
    static const char letters[] = "\\'\"abfnrtv", meanings[] = "\\'\"\a\b\f\n\r\t\v";
    char c = body.p[pos];
    const char *found = strchr(letters, c);
    if (found && c) {
        *cp = (uint32_t)meanings[found - letters];
        return 1;
    }
    size_t len = 0;
    *cp = 0;
    if (digit_value(c) < 8) { /* up to three octal digits */
        while (len < 3 && pos + len < body.len && digit_value(body.p[pos + len]) < 8)
            *cp = *cp << 3 | (uint32_t)digit_value(body.p[pos + len++]);
        return len;
    }
    size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0) {
        if (c == 'N')
            *fault = "character names (\\N{...}) are not supported; write \\uXXXX";
        return 0;
    }
    while (len < digits && pos + 1 + len < body.len && digit_value(body.p[pos + 1 + len]) < 16)
        *cp = *cp << 4 | (uint32_t)digit_value(body.p[pos + 1 + len++]);
    if (len < digits)
        *fault = "truncated \\x, \\u or \\U escape";
    else if (*cp > 0x10FFFF || (*cp >= 0xD800 && *cp <= 0xDFFF))
        *fault = "an escape is not a Unicode character";
    return digits + 1;
}

/* Decodes the body of a string literal to `out` (at least body.len bytes) and returns the length.
 * Sets *fault to a static message if the literal is invalid. */
static size_t unescape(struct dgl_str body, char *out, const char **fault)
{
    size_t len = 0;
    for (size_t i = 0; i < body.len && !*fault; i++) {
        if (body.p[i] != '\\' || i + 1 == body.len) {
            out[len++] = body.p[i];
            continue;
        }
        uint32_t cp = 0;
        if (body.p[i + 1] == '\n') {
            i++;
            continue;
        }
        size_t escape = scan_escape(body, i + 1, &cp, fault);
        if (escape == 0)
            out[len++] = '\\';
        else if (!*fault)
            len += dgl_utf8_encode(cp, out + len);
        i += escape;
    }
    return len;
}

/* ---- tokens ---- */

enum { max_template_bytes = 1 << 20, max_brackets = 200 };

struct lexer {
    const struct dgl_log *log;
    const char *name;
    struct dgl_arena *arena;
    struct jinja_tokens *out;
    const char *p; /* source; all line ends are '\n' */
    size_t len, pos;
    uint32_t line;
    bool line_starting;          /* the last tag removed the newline after it */
    char brackets[max_brackets]; /* stack of expected closing brackets */
    size_t num_brackets;
};

static enum dgl_status fail_at(const struct lexer *lx, const char *what)
{
    return dgl_fail(lx->log, DGL_ERR_FORMAT, "%s:%u: %s", lx->name, lx->line, what);
}

static enum dgl_status push_token(struct lexer *lx, struct jinja_token token)
{
    struct jinja_tokens *out = lx->out;
    if (!dgl_grow((void **)&out->items, &out->cap, out->count + 1, sizeof(token)))
        return dgl_fail_memory(lx->log, lx->name, (out->count + 1) * sizeof(token));
    out->items[out->count++] = token;
    return DGL_OK;
}

static bool at(const struct lexer *lx, size_t pos, const char *text)
{
    size_t len = strlen(text);
    return len <= lx->len - pos && memcmp(lx->p + pos, text, len) == 0;
}

static size_t skip_spaces(const struct lexer *lx, size_t pos)
{
    while (pos < lx->len) {
        uint32_t cp;
        size_t len = dgl_utf8_decode(lx->p + pos, lx->len - pos, &cp);
        if (!jinja_is_space(cp))
            break;
        pos += len;
    }
    return pos;
}

/* Moves to `end` and counts lines. */
static void advance(struct lexer *lx, size_t end)
{
    for (size_t i = lx->pos; i < end; i++)
        lx->line += lx->p[i] == '\n';
    lx->line_starting = end > lx->pos && lx->p[end - 1] == '\n';
    lx->pos = end;
}

/* Adds the text before the tag at `end`. `sign` is the whitespace control of that tag. */
static enum dgl_status push_data(struct lexer *lx, size_t end, char sign, bool lstrip)
{
    struct dgl_str text = {lx->p + lx->pos, end - lx->pos};
    if (sign == '-') {
        text = jinja_strip(text, JINJA_STRIP_RIGHT);
    } else if (sign != '+' && lstrip) { /* lstrip_blocks */
        size_t start = text.len;
        while (start && text.p[start - 1] != '\n')
            start--;
        struct dgl_str line = {text.p + start, text.len - start};
        if ((start || lx->line_starting) && jinja_strip(line, JINJA_STRIP_LEFT).len == 0)
            text.len = start;
    }
    if (text.len == 0)
        return DGL_OK;
    return push_token(lx,
                      (struct jinja_token){.type = JINJA_TOK_DATA, .line = lx->line, .text = text});
}

static char sign_at(const struct lexer *lx, size_t pos)
{
    char c = pos < lx->len ? lx->p[pos] : '\0';
    return c == '-' || c == '+' ? c : '\0';
}

/* Returns the end of a tag if it closes with `close` at `pos`, including the whitespace that it
 * removes. Returns 0 if it does not close here. */
static size_t tag_end(const struct lexer *lx, size_t pos, const char *close, bool trim)
{
    char sign = sign_at(lx, pos);
    bool signed_end = sign == '-' || (sign == '+' && trim);
    size_t end = pos + (signed_end ? 1 : 0);
    if (!at(lx, end, close))
        return 0;
    end += strlen(close);
    if (signed_end && sign == '-')
        return skip_spaces(lx, end);
    if (!signed_end && trim && end < lx->len && lx->p[end] == '\n')
        end++;
    return end;
}

/* Returns the end of "{%- raw %}" or "{%- endraw %}" at `pos`, or 0 if there is another tag. */
static size_t raw_tag_end(const struct lexer *lx, size_t pos, const char *word, bool trim)
{
    pos += 2;
    if (pos < lx->len && (lx->p[pos] == '-' || lx->p[pos] == '+'))
        pos++;
    pos = skip_spaces(lx, pos);
    if (!at(lx, pos, word))
        return 0;
    return tag_end(lx, skip_spaces(lx, pos + strlen(word)), "%}", trim);
}

static enum dgl_status lex_raw(struct lexer *lx, size_t begin_end)
{
    advance(lx, begin_end);
    for (size_t i = lx->pos; i < lx->len; i++) {
        size_t end = at(lx, i, "{%") ? raw_tag_end(lx, i, "endraw", true) : 0;
        if (!end)
            continue;
        enum dgl_status status = push_data(lx, i, sign_at(lx, i + 2), true);
        advance(lx, end);
        return status;
    }
    return fail_at(lx, "Missing end of raw directive");
}

static enum dgl_status lex_comment(struct lexer *lx)
{
    size_t start = lx->pos + 2 + (sign_at(lx, lx->pos + 2) ? 1 : 0);
    for (size_t i = start; i < lx->len; i++) {
        size_t end = tag_end(lx, i, "#}", true);
        if (end) {
            advance(lx, end);
            return DGL_OK;
        }
    }
    return fail_at(lx, "Missing end of comment tag");
}

static const struct {
    char text[3];
    enum jinja_token_type type;
} operators[] = {
    {"**", JINJA_TOK_POW},     {"//", JINJA_TOK_FLOORDIV}, {"==", JINJA_TOK_EQ},
    {"!=", JINJA_TOK_NE},      {">=", JINJA_TOK_GE},       {"<=", JINJA_TOK_LE},
    {"+", JINJA_TOK_ADD},      {"-", JINJA_TOK_SUB},       {"/", JINJA_TOK_DIV},
    {"*", JINJA_TOK_MUL},      {"%", JINJA_TOK_MOD},       {"~", JINJA_TOK_TILDE},
    {"[", JINJA_TOK_LBRACKET}, {"]", JINJA_TOK_RBRACKET},  {"(", JINJA_TOK_LPAREN},
    {")", JINJA_TOK_RPAREN},   {"{", JINJA_TOK_LBRACE},    {"}", JINJA_TOK_RBRACE},
    {">", JINJA_TOK_GT},       {"<", JINJA_TOK_LT},        {"=", JINJA_TOK_ASSIGN},
    {".", JINJA_TOK_DOT},      {":", JINJA_TOK_COLON},     {"|", JINJA_TOK_PIPE},
    {",", JINJA_TOK_COMMA},    {";", JINJA_TOK_SEMICOLON},
};

/* Updates the bracket stack: "}}" inside of brackets does not close a tag. */
static enum dgl_status count_bracket(struct lexer *lx, char c)
{
    static const char opening[] = "([{", closing[] = ")]}";
    const char *found = strchr(opening, c);
    if (found) {
        if (lx->num_brackets == max_brackets)
            return fail_at(lx, "brackets are nested too deeply");
        lx->brackets[lx->num_brackets++] = closing[found - opening];
        return DGL_OK;
    }
    if (!strchr(closing, c))
        return DGL_OK;
    char wanted = lx->num_brackets ? lx->brackets[--lx->num_brackets] : '\0';
    if (wanted == c)
        return DGL_OK;
    if (!wanted)
        return dgl_fail(lx->log, DGL_ERR_FORMAT, "%s:%u: unexpected '%c'", lx->name, lx->line, c);
    return dgl_fail(lx->log, DGL_ERR_FORMAT, "%s:%u: unexpected '%c', expected '%c'", lx->name,
                    lx->line, c, wanted);
}

static enum dgl_status lex_operator(struct lexer *lx)
{
    for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++) {
        if (!at(lx, lx->pos, operators[i].text))
            continue;
        size_t len = strlen(operators[i].text);
        const struct jinja_token token = {
            .type = operators[i].type, .line = lx->line, .text = {lx->p + lx->pos, len}};
        enum dgl_status status = len == 1 ? count_bracket(lx, lx->p[lx->pos]) : DGL_OK;
        if (status != DGL_OK)
            return status;
        advance(lx, lx->pos + len);
        return push_token(lx, token);
    }
    uint32_t cp;
    size_t len = dgl_utf8_decode(lx->p + lx->pos, lx->len - lx->pos, &cp);
    return dgl_fail(lx->log, DGL_ERR_FORMAT, "%s:%u: unexpected character '%.*s'", lx->name,
                    lx->line, (int)len, lx->p + lx->pos);
}

static enum dgl_status lex_string(struct lexer *lx)
{
    char quote = lx->p[lx->pos];
    size_t end = lx->pos + 1;
    while (end < lx->len && lx->p[end] != quote)
        end += lx->p[end] == '\\' ? 2 : 1;
    if (end >= lx->len)
        return fail_at(lx, "unterminated string");
    struct dgl_str body = {lx->p + lx->pos + 1, end - lx->pos - 1};
    struct jinja_token token = {.type = JINJA_TOK_STRING, .line = lx->line};
    const char *fault = NULL;
    char *text = dgl_arena_alloc(lx->arena, body.len + 1);
    if (!text)
        return dgl_fail_memory(lx->log, lx->name, body.len + 1);
    token.text = (struct dgl_str){text, unescape(body, text, &fault)};
    if (fault)
        return fail_at(lx, fault);
    advance(lx, end + 1);
    return push_token(lx, token);
}

static bool is_name_byte(char c)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (unsigned char)c >= 0x80;
}

/* Reads one token inside of a tag. */
static enum dgl_status lex_inside(struct lexer *lx)
{
    char c = lx->p[lx->pos];
    struct jinja_token token = {.type = JINJA_TOK_NAME, .line = lx->line};
    if (c >= '0' && c <= '9') {
        bool after_dot = lx->pos && lx->p[lx->pos - 1] == '.';
        struct dgl_str rest = {lx->p + lx->pos, lx->len - lx->pos};
        size_t len = 0;
        if (!after_dot && (len = scan_float(rest, &token.real)) != 0)
            token.type = JINJA_TOK_FLOAT;
        else if ((len = scan_integer(rest, &token.integer)) != 0)
            token.type = JINJA_TOK_INTEGER;
        else
            return fail_at(lx, "a number is out of range");
        token.text = (struct dgl_str){rest.p, len};
        advance(lx, lx->pos + len);
        return push_token(lx, token);
    }
    if (c == '"' || c == '\'')
        return lex_string(lx);
    if (!is_name_byte(c))
        return lex_operator(lx);
    size_t end = lx->pos;
    while (end < lx->len && is_name_byte(lx->p[end]))
        end++;
    token.text = (struct dgl_str){lx->p + lx->pos, end - lx->pos};
    advance(lx, end);
    return push_token(lx, token);
}

/* Reads a tag from after "{%" or "{{" to its end. */
static enum dgl_status lex_tag(struct lexer *lx, bool variable)
{
    const char *close = variable ? "}}" : "%}";
    lx->num_brackets = 0;
    for (;;) {
        advance(lx, skip_spaces(lx, lx->pos));
        if (lx->pos >= lx->len)
            return fail_at(lx, variable ? "Missing end of print statement, expected '}}'"
                                        : "Missing end of statement block, expected '%}'");
        size_t end = lx->num_brackets ? 0 : tag_end(lx, lx->pos, close, !variable);
        if (end) {
            struct jinja_token token = {.type =
                                            variable ? JINJA_TOK_VARIABLE_END : JINJA_TOK_BLOCK_END,
                                        .line = lx->line,
                                        .text = dgl_str_of(close)};
            advance(lx, end);
            return push_token(lx, token);
        }
        enum dgl_status status = lex_inside(lx);
        if (status != DGL_OK)
            return status;
    }
}

/* Reads the text before the tag at `start`, and the tag. */
static enum dgl_status lex_part(struct lexer *lx, size_t start)
{
    char kind = lx->p[start + 1], sign = sign_at(lx, start + 2);
    enum dgl_status status = push_data(lx, start, sign, kind != '{');
    if (status != DGL_OK)
        return status;
    advance(lx, start);
    if (kind == '#')
        return lex_comment(lx);
    /* The newline after "raw" belongs to the raw text. The newline after "endraw" is removed. */
    size_t raw_end = kind == '%' ? raw_tag_end(lx, start, "raw", false) : 0;
    if (raw_end)
        return lex_raw(lx, raw_end);
    const struct jinja_token token = {.type = kind == '{' ? JINJA_TOK_VARIABLE_BEGIN
                                                          : JINJA_TOK_BLOCK_BEGIN,
                                      .line = lx->line,
                                      .text = {lx->p + start, 2}};
    status = push_token(lx, token);
    if (status != DGL_OK)
        return status;
    advance(lx, start + 2 + (sign ? 1 : 0));
    return lex_tag(lx, kind == '{');
}

enum dgl_status jinja_lex(const struct dgl_log *log, const char *name, struct dgl_str source,
                          struct dgl_arena *arena, struct jinja_tokens *out)
{
    struct lexer lx = {
        .log = log, .name = name, .arena = arena, .out = out, .line = 1, .line_starting = true};
    if (source.len > max_template_bytes)
        return dgl_fail(log, DGL_ERR_FORMAT, "%s: %zu bytes, a template has at most %d", name,
                        source.len, max_template_bytes);
    size_t valid = dgl_utf8_valid_prefix(source.p, source.len);
    if (valid < source.len)
        return dgl_fail(log, DGL_ERR_FORMAT, "%s: byte %zu is not UTF-8", name, valid);
    /* Copy the source with '\n' for all line ends and without the last one. */
    char *copy = dgl_arena_alloc(arena, source.len + 1);
    if (!copy)
        return dgl_fail_memory(log, name, source.len);
    for (size_t i = 0; i < source.len; i++) {
        char c = source.p[i];
        if (c != '\r' || i + 1 == source.len || source.p[i + 1] != '\n')
            copy[lx.len++] = c == '\r' ? '\n' : c;
    }
    lx.len -= lx.len && copy[lx.len - 1] == '\n';
    lx.p = copy;
    while (lx.pos < lx.len) {
        size_t tag = lx.pos;
        while (tag < lx.len && !at(&lx, tag, "{%") && !at(&lx, tag, "{{") && !at(&lx, tag, "{#"))
            tag++;
        enum dgl_status status =
            tag < lx.len ? lex_part(&lx, tag) : push_data(&lx, lx.len, '+', false);
        if (status != DGL_OK)
            return status;
        if (tag == lx.len)
            advance(&lx, tag);
    }
    return push_token(&lx, (struct jinja_token){.type = JINJA_TOK_END, .line = lx.line});
}

struct dgl_str jinja_token_describe(const struct jinja_token *token)
{
    switch (token->type) {
    case JINJA_TOK_END:
        return DGL_STR("end of template");
    case JINJA_TOK_DATA:
        return DGL_STR("template data / text");
    case JINJA_TOK_VARIABLE_BEGIN:
        return DGL_STR("begin of print statement");
    case JINJA_TOK_VARIABLE_END:
        return DGL_STR("end of print statement");
    case JINJA_TOK_BLOCK_BEGIN:
        return DGL_STR("begin of statement block");
    case JINJA_TOK_BLOCK_END:
        return DGL_STR("end of statement block");
    default:
        return token->text;
    }
}
