/* jinja_parse.h: the parser's state, shared by statements and expressions. */
#ifndef DGL_LOADER_JINJA_PARSE_H
#define DGL_LOADER_JINJA_PARSE_H

#include "loader/jinja/jinja_ast.h"
#include "loader/jinja/jinja_lex.h"

struct jinja_parser {
    const struct dgl_log *log;
    struct jinja_template *tmpl;
    struct jinja_symbols symbols;
    const struct jinja_token *token; /* the current one; the last token is JINJA_TOK_END */
    enum dgl_status status;          /* of the first fault */
    uint32_t depth;
    struct jinja_macro_node *macro; /* the innermost one around */
    uint32_t loops;                 /* around, within the macro */
};

/* All of these return NULL or false after reporting; callers only pass that on. */
bool jinja_parse_fail(struct jinja_parser *parser, enum dgl_status status, const char *fmt, ...)
    DGL_PRINTF(3, 4);
bool jinja_parse_unexpected(struct jinja_parser *parser, const char *wanted);
void *jinja_parse_alloc(struct jinja_parser *parser, size_t size);
struct jinja_node *jinja_node_new(struct jinja_parser *parser, enum jinja_node_type type);
void jinja_nodes_push(struct jinja_nodes *nodes, struct jinja_node *node);
/* Against templates that are made of brackets; every success is followed by --parser->depth. */
bool jinja_parse_enter(struct jinja_parser *parser);

bool jinja_at_name(const struct jinja_token *token, const char *name);
bool jinja_skip(struct jinja_parser *parser, enum jinja_token_type type);
bool jinja_skip_name(struct jinja_parser *parser, const char *name);
bool jinja_expect(struct jinja_parser *parser, enum jinja_token_type type, const char *wanted);
/* Any name. */
const struct jinja_symbol *jinja_expect_symbol(struct jinja_parser *parser);

/* What stands between operators: a signed value with everything that is applied to it. */
struct jinja_node *jinja_parse_operand(struct jinja_parser *parser);
struct jinja_node *jinja_parse_expression(struct jinja_parser *parser);
/* Without "x if y else z" at the top: `in` of a loop is followed by its own `if`. */
struct jinja_node *jinja_parse_plain_expression(struct jinja_parser *parser);
/* One expression, or several with commas as a tuple. */
struct jinja_node *jinja_parse_tuple(struct jinja_parser *parser, bool with_condition);
/* The filters from the current "|" on, or from a name when `named`; applied to `input`, which may
 * be NULL. */
struct jinja_node *jinja_parse_filters(struct jinja_parser *parser, struct jinja_node *input,
                                       bool named);
/* What may be assigned to: names, tuples of them, and with `fields` attributes of namespaces. */
struct jinja_node *jinja_parse_target(struct jinja_parser *parser, bool fields);

#endif
