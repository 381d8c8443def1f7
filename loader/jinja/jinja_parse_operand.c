/* Operands of expressions: literals, names, attributes, calls, filters and tests. */
#include "loader/jinja/jinja_call.h"
#include "loader/jinja/jinja_parse.h"

static struct jinja_node *parse_unary(struct jinja_parser *parser, bool with_filters);

static struct jinja_node *new_constant(struct jinja_parser *parser, struct jinja_value value)
{
    struct jinja_node *node = jinja_node_new(parser, JINJA_NODE_CONSTANT);
    if (node)
        node->constant = value;
    return node;
}

static bool constant_of_name(const struct jinja_token *token, struct jinja_value *out)
{
    if (jinja_at_name(token, "true") || jinja_at_name(token, "True"))
        *out = jinja_bool(true);
    else if (jinja_at_name(token, "false") || jinja_at_name(token, "False"))
        *out = jinja_bool(false);
    else if (jinja_at_name(token, "none") || jinja_at_name(token, "None"))
        *out = jinja_none();
    else
        return false;
    return true;
}

static struct jinja_node *parse_name(struct jinja_parser *parser)
{
    struct jinja_value constant;
    if (constant_of_name(parser->token, &constant)) {
        struct jinja_node *node = new_constant(parser, constant);
        parser->token++;
        return node;
    }
    struct jinja_node *node = jinja_node_new(parser, JINJA_NODE_NAME);
    if (!node || !(node->symbol = jinja_expect_symbol(parser)))
        return NULL;
    struct jinja_macro_node *macro = parser->macro;
    if (macro) {
        macro->uses_varargs |= node->symbol == parser->tmpl->varargs;
        macro->uses_kwargs |= node->symbol == parser->tmpl->kwargs;
        macro->uses_caller |= node->symbol == parser->tmpl->caller;
    }
    return node;
}

/* "a" "b" is one text. */
static struct jinja_node *parse_string(struct jinja_parser *parser)
{
    struct jinja_node *node = new_constant(parser, jinja_text_of(parser->token->text, false));
    parser->token++;
    while (node && parser->token->type == JINJA_TOK_STRING) {
        struct dgl_str first = jinja_str(&node->constant), second = parser->token->text;
        char *joined = jinja_parse_alloc(parser, first.len + second.len + 1);
        if (!joined)
            return NULL;
        for (size_t i = 0; i < first.len + second.len; i++)
            joined[i] = i < first.len ? first.p[i] : second.p[i - first.len];
        node->constant = jinja_text_of((struct dgl_str){joined, first.len + second.len}, false);
        parser->token++;
    }
    return node;
}

/* Expressions up to `end`, with commas between them and perhaps behind the last. */
static bool parse_items(struct jinja_parser *parser, struct jinja_nodes *out,
                        enum jinja_token_type end, bool pairs)
{
    while (parser->token->type != end) {
        if (out->count && !jinja_expect(parser, JINJA_TOK_COMMA, ","))
            return false;
        if (parser->token->type == end)
            break;
        struct jinja_node *item = jinja_parse_expression(parser);
        if (!item)
            return false;
        jinja_nodes_push(out, item);
        if (!pairs)
            continue;
        if (!jinja_expect(parser, JINJA_TOK_COLON, ":") || !(item = jinja_parse_expression(parser)))
            return false;
        jinja_nodes_push(out, item);
    }
    parser->token++;
    return true;
}

static struct jinja_node *parse_bracketed(struct jinja_parser *parser)
{
    bool dict = parser->token->type == JINJA_TOK_LBRACE;
    struct jinja_node *node = jinja_node_new(parser, dict ? JINJA_NODE_DICT : JINJA_NODE_LIST);
    parser->token++;
    if (!node ||
        !parse_items(parser, &node->list, dict ? JINJA_TOK_RBRACE : JINJA_TOK_RBRACKET, dict))
        return NULL;
    return node;
}

static struct jinja_node *parse_parentheses(struct jinja_parser *parser)
{
    parser->token++;
    if (parser->token->type == JINJA_TOK_RPAREN) {
        parser->token++;
        return jinja_node_new(parser, JINJA_NODE_TUPLE);
    }
    struct jinja_node *node = jinja_parse_tuple(parser, true);
    return node && jinja_expect(parser, JINJA_TOK_RPAREN, ")") ? node : NULL;
}

static struct jinja_node *parse_primary(struct jinja_parser *parser)
{
    const struct jinja_token *token = parser->token;
    switch (token->type) {
    case JINJA_TOK_NAME:
        return parse_name(parser);
    case JINJA_TOK_STRING:
        return parse_string(parser);
    case JINJA_TOK_INTEGER:
        parser->token++;
        return new_constant(parser, jinja_int(token->integer));
    case JINJA_TOK_FLOAT:
        parser->token++;
        return new_constant(parser, jinja_float(token->real));
    case JINJA_TOK_LPAREN:
        return parse_parentheses(parser);
    case JINJA_TOK_LBRACKET:
    case JINJA_TOK_LBRACE:
        return parse_bracketed(parser);
    default:
        jinja_parse_unexpected(parser, NULL);
        return NULL;
    }
}

/* ---- postfixes ---- */

/* One argument; keywords end the positional ones, as in Python. */
static bool parse_argument(struct jinja_parser *parser, struct jinja_args *args)
{
    if (jinja_skip(parser, JINJA_TOK_MUL))
        return !args->star && !args->star_star &&
               (args->star = jinja_parse_expression(parser)) != NULL;
    if (jinja_skip(parser, JINJA_TOK_POW))
        return !args->star_star && (args->star_star = jinja_parse_expression(parser)) != NULL;
    if (parser->token->type == JINJA_TOK_NAME && parser->token[1].type == JINJA_TOK_ASSIGN) {
        struct jinja_node *keyword = jinja_node_new(parser, JINJA_NODE_KEYWORD);
        if (args->star_star || !keyword || !(keyword->symbol = jinja_expect_symbol(parser)))
            return false;
        parser->token++;
        if (!(keyword->a = jinja_parse_expression(parser)))
            return false;
        jinja_nodes_push(&args->keywords, keyword);
        return true;
    }
    if (args->star || args->star_star || args->keywords.count)
        return false;
    struct jinja_node *node = jinja_parse_expression(parser);
    if (node)
        jinja_nodes_push(&args->positional, node);
    return node != NULL;
}

static bool parse_args(struct jinja_parser *parser, struct jinja_args *args)
{
    if (!jinja_expect(parser, JINJA_TOK_LPAREN, "("))
        return false;
    for (bool first = true; parser->token->type != JINJA_TOK_RPAREN; first = false) {
        if (!first && !jinja_expect(parser, JINJA_TOK_COMMA, ","))
            return false;
        if (parser->token->type == JINJA_TOK_RPAREN)
            break;
        if (!parse_argument(parser, args)) {
            if (parser->status == DGL_OK)
                jinja_parse_fail(parser, DGL_ERR_FORMAT,
                                 "invalid syntax for function call expression");
            return false;
        }
    }
    parser->token++;
    return true;
}

static struct jinja_node *parse_call(struct jinja_parser *parser, struct jinja_node *callee)
{
    struct jinja_node *node = jinja_node_new(parser, JINJA_NODE_CALL);
    if (!node || !(node->args = jinja_parse_alloc(parser, sizeof(*node->args))) ||
        !parse_args(parser, node->args))
        return NULL;
    node->a = callee;
    return node;
}

/* A bound of a slice that may be left out; false: fault. */
static bool parse_bound(struct jinja_parser *parser, struct jinja_node **out)
{
    enum jinja_token_type type = parser->token->type;
    if (type == JINJA_TOK_COLON || type == JINJA_TOK_RBRACKET || type == JINJA_TOK_COMMA)
        return true;
    return (*out = jinja_parse_expression(parser)) != NULL;
}

static struct jinja_node *parse_subscript(struct jinja_parser *parser)
{
    struct jinja_node *from = NULL;
    if (parser->token->type == JINJA_TOK_RBRACKET) {
        jinja_parse_unexpected(parser, "an expression");
        return NULL;
    }
    if (!parse_bound(parser, &from) || parser->token->type != JINJA_TOK_COLON)
        return from;
    struct jinja_node *slice = jinja_node_new(parser, JINJA_NODE_SLICE);
    parser->token++;
    if (!slice || !parse_bound(parser, &slice->b))
        return NULL;
    slice->a = from;
    return !jinja_skip(parser, JINJA_TOK_COLON) || parse_bound(parser, &slice->c) ? slice : NULL;
}

static struct jinja_node *parse_item(struct jinja_parser *parser, struct jinja_node *owner)
{
    struct jinja_node *node = jinja_node_new(parser, JINJA_NODE_ITEM);
    parser->token++;
    if (!node || !(node->b = parse_subscript(parser)) ||
        !jinja_expect(parser, JINJA_TOK_RBRACKET, "]"))
        return NULL;
    node->a = owner;
    return node;
}

/* ".name" and ".0". */
static struct jinja_node *parse_attribute(struct jinja_parser *parser, struct jinja_node *owner)
{
    parser->token++;
    const struct jinja_token *token = parser->token;
    bool named = token->type == JINJA_TOK_NAME;
    if (!named && token->type != JINJA_TOK_INTEGER) {
        jinja_parse_unexpected(parser, "a name or number");
        return NULL;
    }
    struct jinja_node *node =
        jinja_node_new(parser, named ? JINJA_NODE_ATTRIBUTE : JINJA_NODE_ITEM);
    if (!node)
        return NULL;
    node->a = owner;
    if (named)
        return (node->attribute = jinja_expect_symbol(parser)) ? node : NULL;
    node->b = new_constant(parser, jinja_int(token->integer));
    parser->token++;
    return node->b ? node : NULL;
}

static struct jinja_node *parse_postfix(struct jinja_parser *parser, struct jinja_node *node)
{
    while (node) {
        if (parser->token->type == JINJA_TOK_DOT)
            node = parse_attribute(parser, node);
        else if (parser->token->type == JINJA_TOK_LBRACKET)
            node = parse_item(parser, node);
        else if (parser->token->type == JINJA_TOK_LPAREN)
            node = parse_call(parser, node);
        else
            break;
    }
    return node;
}

/* ---- filters and tests ---- */

static struct jinja_node *new_application(struct jinja_parser *parser, enum jinja_node_type type,
                                          struct jinja_node *input)
{
    struct jinja_node *node = jinja_node_new(parser, type);
    if (!node || !(node->args = jinja_parse_alloc(parser, sizeof(*node->args))) ||
        !(node->name = jinja_expect_symbol(parser)))
        return NULL;
    node->a = input;
    node->builtin = type == JINJA_NODE_FILTER ? jinja_find_filter(node->name->name)
                                              : jinja_find_test(node->name->name);
    return node;
}

struct jinja_node *jinja_parse_filters(struct jinja_parser *parser, struct jinja_node *input,
                                       bool named)
{
    while (named || parser->token->type == JINJA_TOK_PIPE) {
        if (!named)
            parser->token++;
        named = false;
        input = new_application(parser, JINJA_NODE_FILTER, input);
        if (!input)
            return NULL;
        if (parser->token->type == JINJA_TOK_LPAREN && !parse_args(parser, input->args))
            return NULL;
    }
    return input;
}

static bool begins_test_argument(const struct jinja_token *token)
{
    switch (token->type) {
    case JINJA_TOK_NAME:
        return !jinja_at_name(token, "else") && !jinja_at_name(token, "or") &&
               !jinja_at_name(token, "and");
    case JINJA_TOK_STRING:
    case JINJA_TOK_INTEGER:
    case JINJA_TOK_FLOAT:
    case JINJA_TOK_LBRACKET:
    case JINJA_TOK_LBRACE:
        return true;
    default:
        return false;
    }
}

static struct jinja_node *parse_test(struct jinja_parser *parser, struct jinja_node *value)
{
    parser->token++;
    bool negated = jinja_skip_name(parser, "not");
    struct jinja_node *node = new_application(parser, JINJA_NODE_TEST, value);
    if (!node)
        return NULL;
    if (parser->token->type == JINJA_TOK_LPAREN) {
        if (!parse_args(parser, node->args))
            return NULL;
    } else if (jinja_at_name(parser->token, "is")) {
        jinja_parse_fail(parser, DGL_ERR_FORMAT, "You cannot chain multiple tests with is");
        return NULL;
    } else if (begins_test_argument(parser->token)) {
        struct jinja_node *argument = parse_postfix(parser, parse_primary(parser));
        if (!argument)
            return NULL;
        jinja_nodes_push(&node->args->positional, argument);
    }
    if (!negated)
        return node;
    struct jinja_node *inverse = jinja_node_new(parser, JINJA_NODE_NOT);
    if (inverse)
        inverse->a = node;
    return inverse;
}

static struct jinja_node *parse_applications(struct jinja_parser *parser, struct jinja_node *node)
{
    while (node) {
        if (parser->token->type == JINJA_TOK_PIPE)
            node = jinja_parse_filters(parser, node, false);
        else if (jinja_at_name(parser->token, "is"))
            node = parse_test(parser, node);
        else if (parser->token->type == JINJA_TOK_LPAREN)
            node = parse_call(parser, node);
        else
            break;
    }
    return node;
}

/* ---- signs ---- */

static struct jinja_node *parse_signed(struct jinja_parser *parser)
{
    enum jinja_token_type type = parser->token->type;
    struct jinja_node *node =
        jinja_node_new(parser, type == JINJA_TOK_SUB ? JINJA_NODE_MINUS : JINJA_NODE_PLUS);
    parser->token++;
    if (!node || !(node->a = parse_unary(parser, false)))
        return NULL;
    return node;
}

static struct jinja_node *parse_unary(struct jinja_parser *parser, bool with_filters)
{
    if (!jinja_parse_enter(parser))
        return NULL;
    enum jinja_token_type type = parser->token->type;
    struct jinja_node *node = type == JINJA_TOK_SUB || type == JINJA_TOK_ADD
                                  ? parse_signed(parser)
                                  : parse_primary(parser);
    node = parse_postfix(parser, node);
    if (with_filters)
        node = parse_applications(parser, node);
    parser->depth--;
    return node;
}

struct jinja_node *jinja_parse_operand(struct jinja_parser *parser)
{
    return parse_unary(parser, true);
}
