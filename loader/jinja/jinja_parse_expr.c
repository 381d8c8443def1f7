/* Expressions of templates, by recursive descent in jinja's order of precedence: what binds less
 * than a sign. */
#include "loader/jinja/jinja_parse.h"

static struct jinja_node *new_pair(struct jinja_parser *parser, enum jinja_node_type type,
                                   struct jinja_node *a, struct jinja_node *b)
{
    struct jinja_node *node = a && b ? jinja_node_new(parser, type) : NULL;
    if (node) {
        node->line = a->line;
        node->a = a;
        node->b = b;
    }
    return node;
}

static struct jinja_node *new_arithmetic(struct jinja_parser *parser, enum jinja_op op,
                                         struct jinja_node *a, struct jinja_node *b)
{
    struct jinja_node *node = new_pair(parser, JINJA_NODE_ARITHMETIC, a, b);
    if (node)
        node->op = op;
    return node;
}

static struct jinja_node *parse_power(struct jinja_parser *parser)
{
    struct jinja_node *left = jinja_parse_operand(parser);
    while (left && jinja_skip(parser, JINJA_TOK_POW))
        left = new_arithmetic(parser, JINJA_OP_POW, left, jinja_parse_operand(parser));
    return left;
}

static struct jinja_node *parse_product(struct jinja_parser *parser)
{
    struct jinja_node *left = parse_power(parser);
    while (left) {
        enum jinja_op op;
        if (parser->token->type == JINJA_TOK_MUL)
            op = JINJA_OP_MUL;
        else if (parser->token->type == JINJA_TOK_DIV)
            op = JINJA_OP_DIV;
        else if (parser->token->type == JINJA_TOK_FLOORDIV)
            op = JINJA_OP_FLOORDIV;
        else if (parser->token->type == JINJA_TOK_MOD)
            op = JINJA_OP_MOD;
        else
            break;
        parser->token++;
        left = new_arithmetic(parser, op, left, parse_power(parser));
    }
    return left;
}

static struct jinja_node *parse_concat(struct jinja_parser *parser)
{
    struct jinja_node *first = parse_product(parser);
    if (!first || parser->token->type != JINJA_TOK_TILDE)
        return first;
    struct jinja_node *node = jinja_node_new(parser, JINJA_NODE_CONCAT);
    if (!node)
        return NULL;
    node->line = first->line;
    jinja_nodes_push(&node->list, first);
    while (jinja_skip(parser, JINJA_TOK_TILDE)) {
        struct jinja_node *part = parse_product(parser);
        if (!part)
            return NULL;
        jinja_nodes_push(&node->list, part);
    }
    return node;
}

static struct jinja_node *parse_sum(struct jinja_parser *parser)
{
    struct jinja_node *left = parse_concat(parser);
    while (left && (parser->token->type == JINJA_TOK_ADD || parser->token->type == JINJA_TOK_SUB)) {
        enum jinja_op op = parser->token->type == JINJA_TOK_ADD ? JINJA_OP_ADD : JINJA_OP_SUB;
        parser->token++;
        left = new_arithmetic(parser, op, left, parse_concat(parser));
    }
    return left;
}

static bool skip_comparison(struct jinja_parser *parser, enum jinja_cmp *cmp)
{
    static const struct {
        enum jinja_token_type token;
        enum jinja_cmp cmp;
    } signs[] = {{JINJA_TOK_EQ, JINJA_CMP_EQ}, {JINJA_TOK_NE, JINJA_CMP_NE},
                 {JINJA_TOK_LT, JINJA_CMP_LT}, {JINJA_TOK_LE, JINJA_CMP_LE},
                 {JINJA_TOK_GT, JINJA_CMP_GT}, {JINJA_TOK_GE, JINJA_CMP_GE}};
    for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
        *cmp = signs[i].cmp;
        if (jinja_skip(parser, signs[i].token))
            return true;
    }
    *cmp = JINJA_CMP_IN;
    if (jinja_skip_name(parser, "in"))
        return true;
    *cmp = JINJA_CMP_NOT_IN;
    if (!jinja_at_name(parser->token, "not") || !jinja_at_name(parser->token + 1, "in"))
        return false;
    parser->token += 2;
    return true;
}

static struct jinja_node *parse_comparison(struct jinja_parser *parser)
{
    enum jinja_cmp cmp;
    struct jinja_node *first = parse_sum(parser), *node = NULL;
    while (first && skip_comparison(parser, &cmp)) {
        struct jinja_node *operand = jinja_node_new(parser, JINJA_NODE_OPERAND);
        if (!node && (node = jinja_node_new(parser, JINJA_NODE_COMPARE)) != NULL)
            node->line = first->line;
        if (!node || !operand || !(operand->a = parse_sum(parser)))
            return NULL;
        operand->cmp = cmp;
        node->a = first;
        jinja_nodes_push(&node->list, operand);
    }
    return node ? node : first;
}

static struct jinja_node *parse_not(struct jinja_parser *parser)
{
    if (!jinja_at_name(parser->token, "not"))
        return parse_comparison(parser);
    struct jinja_node *node = jinja_node_new(parser, JINJA_NODE_NOT);
    parser->token++;
    if (!node || !jinja_parse_enter(parser))
        return NULL;
    node->a = parse_not(parser);
    parser->depth--;
    return node->a ? node : NULL;
}

static struct jinja_node *parse_and(struct jinja_parser *parser)
{
    struct jinja_node *left = parse_not(parser);
    while (left && jinja_skip_name(parser, "and"))
        left = new_pair(parser, JINJA_NODE_AND, left, parse_not(parser));
    return left;
}

static struct jinja_node *parse_or(struct jinja_parser *parser)
{
    struct jinja_node *left = parse_and(parser);
    while (left && jinja_skip_name(parser, "or"))
        left = new_pair(parser, JINJA_NODE_OR, left, parse_and(parser));
    return left;
}

struct jinja_node *jinja_parse_plain_expression(struct jinja_parser *parser)
{
    return parse_or(parser);
}

struct jinja_node *jinja_parse_expression(struct jinja_parser *parser)
{
    if (!jinja_parse_enter(parser))
        return NULL;
    struct jinja_node *value = parse_or(parser);
    while (value && jinja_at_name(parser->token, "if")) {
        struct jinja_node *node = jinja_node_new(parser, JINJA_NODE_CONDITION);
        parser->token++;
        if (!node || !(node->b = parse_or(parser)))
            value = NULL;
        else if (jinja_skip_name(parser, "else") && !(node->c = jinja_parse_expression(parser)))
            value = NULL;
        else
            node->a = value;
        value = value ? node : NULL;
    }
    parser->depth--;
    return value;
}

static bool ends_tuple(const struct jinja_token *token)
{
    return token->type == JINJA_TOK_VARIABLE_END || token->type == JINJA_TOK_BLOCK_END ||
           token->type == JINJA_TOK_RPAREN || jinja_at_name(token, "recursive");
}

struct jinja_node *jinja_parse_tuple(struct jinja_parser *parser, bool with_condition)
{
    struct jinja_node *tuple = NULL;
    for (;;) {
        struct jinja_node *item =
            with_condition ? jinja_parse_expression(parser) : jinja_parse_plain_expression(parser);
        if (!item)
            return NULL;
        if (!tuple && parser->token->type != JINJA_TOK_COMMA)
            return item;
        if (!tuple && !(tuple = jinja_node_new(parser, JINJA_NODE_TUPLE)))
            return NULL;
        jinja_nodes_push(&tuple->list, item);
        if (!jinja_skip(parser, JINJA_TOK_COMMA) || ends_tuple(parser->token))
            return tuple;
    }
}
