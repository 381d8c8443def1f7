/* jinja_lex.h: the lexer: template text to tokens, and Python's number and string literals. The
 * lexer handles whitespace control, so text tokens are printed as they are. */
#ifndef DGL_LOADER_JINJA_LEX_H
#define DGL_LOADER_JINJA_LEX_H

#include "core/base/mem.h"
#include "core/base/status.h"
#include "core/base/str.h"

enum jinja_token_type {
    JINJA_TOK_END, /* end of the template */
    JINJA_TOK_DATA,
    JINJA_TOK_VARIABLE_BEGIN,
    JINJA_TOK_VARIABLE_END,
    JINJA_TOK_BLOCK_BEGIN,
    JINJA_TOK_BLOCK_END,
    JINJA_TOK_NAME,
    JINJA_TOK_STRING,
    JINJA_TOK_INTEGER,
    JINJA_TOK_FLOAT,
    JINJA_TOK_POW,
    JINJA_TOK_FLOORDIV,
    JINJA_TOK_EQ,
    JINJA_TOK_NE,
    JINJA_TOK_GE,
    JINJA_TOK_LE,
    JINJA_TOK_ADD,
    JINJA_TOK_SUB,
    JINJA_TOK_DIV,
    JINJA_TOK_MUL,
    JINJA_TOK_MOD,
    JINJA_TOK_TILDE,
    JINJA_TOK_LBRACKET,
    JINJA_TOK_RBRACKET,
    JINJA_TOK_LPAREN,
    JINJA_TOK_RPAREN,
    JINJA_TOK_LBRACE,
    JINJA_TOK_RBRACE,
    JINJA_TOK_GT,
    JINJA_TOK_LT,
    JINJA_TOK_ASSIGN,
    JINJA_TOK_DOT,
    JINJA_TOK_COLON,
    JINJA_TOK_PIPE,
    JINJA_TOK_COMMA,
    JINJA_TOK_SEMICOLON,
};

struct jinja_token {
    enum jinja_token_type type;
    uint32_t line;       /* from 1 */
    struct dgl_str text; /* DATA: trimmed; STRING: unescaped; others: as in the source */
    union {
        int64_t integer;
        double real;
    };
};

struct jinja_tokens {
    struct jinja_token *items; /* ends with JINJA_TOK_END; the caller frees it */
    size_t count, cap;
};

/* Splits a template into tokens, whose strings are stored in `arena`. Returns DGL_ERR_FORMAT and
 * logs the line on invalid input. */
enum dgl_status jinja_lex(const struct dgl_log *log, const char *name, struct dgl_str source,
                          struct dgl_arena *arena, struct jinja_tokens *out);
/* Name of a token for messages: "end of print statement", "foo". Borrowed. */
struct dgl_str jinja_token_describe(const struct jinja_token *token);

/* int(text, base) and float(text) of Python: surrounding whitespace, a sign and single '_' between
 * digits are allowed. Base 0 reads the base from the prefix. "inf" and "nan" are floats. Returns
 * false if the text is not a number or out of range. */
bool jinja_parse_integer(struct dgl_str text, int base, int64_t *out);
bool jinja_parse_float(struct dgl_str text, double *out);

#endif
