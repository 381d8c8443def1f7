/* The parser: tokens to a syntax tree, by recursive descent. */
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "loader/jinja/jinja_ast.h"
#include "loader/jinja/jinja_call.h"
#include "loader/jinja/jinja_lex.h"
#include "loader/text/tok_hash.h"

enum { max_depth = 100 };

struct parser {
    const struct dgl_log *log;
    struct jinja_template *tmpl;
    struct jinja_symbol *symbols[256]; /* hash table of names */
    uint64_t seed;                     /* seed of the hash */
    const struct jinja_token *token;   /* current token; the last one is JINJA_TOK_END */
    enum dgl_status status;            /* status of the error, if any */
    jmp_buf failed;                    /* set by parse_template() */
    uint32_t depth;
    struct jinja_macro_node *macro; /* innermost enclosing macro, or NULL */
    uint32_t loops;                 /* enclosing loops in this macro */
};

/* ---- helpers ---- */

/* Reports an error at the current token and jumps to parse_template(). All memory of the parser is
 * in the arena, so the jump leaks no memory. */
static _Noreturn void parse_fail(struct parser *parser, enum dgl_status status, const char *fmt,
                                 ...) DGL_PRINTF(3, 4);
static _Noreturn void parse_fail(struct parser *parser, enum dgl_status status, const char *fmt,
                                 ...)
{
    struct dgl_buf text = {0};
    va_list args;
    va_start(args, fmt);
    dgl_buf_vprintf(&text, fmt, args);
    va_end(args);
    parser->status = dgl_fail(parser->log, status, "%s:%u: %s", parser->tmpl->name,
                              parser->token->line, text.p ? text.p : "out of memory");
    dgl_buf_finish(&text);
    longjmp(parser->failed, 1);
}

static _Noreturn void parse_unexpected(struct parser *parser, const char *wanted)
{
    enum { shown_bytes = 60 };
    struct dgl_str found = jinja_token_describe(parser->token);
    int len = (int)(found.len < shown_bytes ? found.len : shown_bytes);
    if (!wanted)
        parse_fail(parser, DGL_ERR_FORMAT, "unexpected '%.*s'", len, found.p);
    parse_fail(parser, DGL_ERR_FORMAT, "expected %s, got '%.*s'", wanted, len, found.p);
}

static void *parse_alloc(struct parser *parser, size_t size)
{
    void *part = dgl_arena_alloc(&parser->tmpl->arena, size);
    if (part)
        return part;
    parser->status = dgl_fail_memory(parser->log, parser->tmpl->name, size);
    longjmp(parser->failed, 1);
}

static struct jinja_node *node_new(struct parser *parser, enum jinja_node_type type)
{
    struct jinja_node *node = parse_alloc(parser, sizeof(*node));
    node->type = type;
    node->line = parser->token->line;
    return node;
}

static void nodes_push(struct jinja_nodes *nodes, struct jinja_node *node)
{
    if (nodes->last)
        nodes->last->next = node;
    else
        nodes->first = node;
    nodes->last = node;
    nodes->count++;
}

/* Limits the nesting depth. Decrement parser->depth after each call. */
static void parse_enter(struct parser *parser)
{
    if (parser->depth == max_depth)
        parse_fail(parser, DGL_ERR_FORMAT, "nested more than %d levels deep", max_depth);
    parser->depth++;
}

/* Returns the symbol of a name. Creates it if necessary. */
static const struct jinja_symbol *intern(struct parser *parser, struct dgl_str name)
{
    uint64_t hash = tok_hash_bytes(name.p, name.len, parser->seed);
    struct jinja_symbol **bucket = &parser->symbols[hash % 256];
    for (struct jinja_symbol *s = *bucket; s; s = s->next_in_bucket) {
        if (dgl_str_equal(s->name, name))
            return s;
    }
    struct jinja_symbol *symbol = parse_alloc(parser, sizeof(*symbol));
    *symbol = (struct jinja_symbol){name, parser->tmpl->symbols, *bucket};
    parser->tmpl->symbols = *bucket = symbol;
    return symbol;
}

static bool at_name(const struct jinja_token *token, const char *name)
{
    return token->type == JINJA_TOK_NAME && dgl_str_eq(token->text, name);
}

static bool skip(struct parser *parser, enum jinja_token_type type)
{
    bool there = parser->token->type == type;
    parser->token += there;
    return there;
}

static bool skip_name(struct parser *parser, const char *name)
{
    bool there = at_name(parser->token, name);
    parser->token += there;
    return there;
}

static void expect(struct parser *parser, enum jinja_token_type type, const char *wanted)
{
    if (!skip(parser, type))
        parse_unexpected(parser, wanted);
}

/* Reads a name. */
static const struct jinja_symbol *expect_symbol(struct parser *parser)
{
    if (parser->token->type != JINJA_TOK_NAME)
        parse_unexpected(parser, "a name");
    return intern(parser, parser->token++->text);
}

/* ---- operands ---- */

static struct jinja_node *parse_expression(struct parser *parser);
static struct jinja_node *parse_tuple(struct parser *parser, bool with_condition);

static struct jinja_node *new_constant(struct parser *parser, struct jinja_value value)
{
    struct jinja_node *node = node_new(parser, JINJA_NODE_CONSTANT);
    node->constant = value;
    return node;
}

static bool constant_of_name(const struct jinja_token *token, struct jinja_value *out)
{
    if (at_name(token, "true") || at_name(token, "True"))
        *out = jinja_bool(true);
    else if (at_name(token, "false") || at_name(token, "False"))
        *out = jinja_bool(false);
    else if (at_name(token, "none") || at_name(token, "None"))
        *out = jinja_none();
    else
        return false;
    return true;
}

static struct jinja_node *parse_name(struct parser *parser)
{
    struct jinja_value constant;
    if (constant_of_name(parser->token, &constant)) {
        struct jinja_node *node = new_constant(parser, constant);
        parser->token++;
        return node;
    }
    struct jinja_node *node = node_new(parser, JINJA_NODE_NAME);
    node->symbol = expect_symbol(parser);
    struct jinja_macro_node *macro = parser->macro;
    if (macro) {
        macro->uses_varargs |= node->symbol == parser->tmpl->varargs;
        macro->uses_kwargs |= node->symbol == parser->tmpl->kwargs;
        macro->uses_caller |= node->symbol == parser->tmpl->caller;
    }
    return node;
}

/* Adjacent string literals are one string. */
static struct jinja_node *parse_string(struct parser *parser)
{
    struct jinja_node *node = new_constant(parser, jinja_text_of(parser->token->text, false));
    parser->token++;
    for (; parser->token->type == JINJA_TOK_STRING; parser->token++) {
        struct dgl_str first = jinja_str(&node->constant), second = parser->token->text;
        char *joined = parse_alloc(parser, first.len + second.len + 1);
        for (size_t i = 0; i < first.len + second.len; i++)
            joined[i] = i < first.len ? first.p[i] : second.p[i - first.len];
        node->constant = jinja_text_of((struct dgl_str){joined, first.len + second.len}, false);
    }
    return node;
}

/* Parses a list or dict up to the bracket `end`. A comma after the last element is allowed. */
static struct jinja_node *parse_bracketed(struct parser *parser, enum jinja_node_type type,
                                          enum jinja_token_type end)
{
    struct jinja_node *node = node_new(parser, type);
    parser->token++;
    while (!skip(parser, end)) {
        if (node->list.count)
            expect(parser, JINJA_TOK_COMMA, ",");
        if (skip(parser, end))
            break;
        nodes_push(&node->list, parse_expression(parser));
        if (type == JINJA_NODE_LIST)
            continue;
        expect(parser, JINJA_TOK_COLON, ":");
        nodes_push(&node->list, parse_expression(parser));
    }
    return node;
}

static struct jinja_node *parse_primary(struct parser *parser)
{
    const struct jinja_token *token = parser->token;
    struct jinja_node *node;
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
        parser->token++;
        if (skip(parser, JINJA_TOK_RPAREN))
            return node_new(parser, JINJA_NODE_TUPLE);
        node = parse_tuple(parser, true);
        expect(parser, JINJA_TOK_RPAREN, ")");
        return node;
    case JINJA_TOK_LBRACKET:
        return parse_bracketed(parser, JINJA_NODE_LIST, JINJA_TOK_RBRACKET);
    case JINJA_TOK_LBRACE:
        return parse_bracketed(parser, JINJA_NODE_DICT, JINJA_TOK_RBRACE);
    default:
        parse_unexpected(parser, NULL);
    }
}

/* ---- postfixes ---- */

/* No positional argument may follow a keyword, as in Python. */
static void parse_args(struct parser *parser, struct jinja_args *args)
{
    expect(parser, JINJA_TOK_LPAREN, "(");
    for (bool first = true; parser->token->type != JINJA_TOK_RPAREN; first = false) {
        if (!first)
            expect(parser, JINJA_TOK_COMMA, ",");
        if (parser->token->type == JINJA_TOK_RPAREN)
            break;
        bool star = skip(parser, JINJA_TOK_MUL), star_star = !star && skip(parser, JINJA_TOK_POW);
        bool keyword = parser->token->type == JINJA_TOK_NAME &&
                       parser->token[1].type == JINJA_TOK_ASSIGN && !star && !star_star;
        bool positional = !star && !star_star && !keyword;
        if (args->star_star || (args->star && (star || positional)) ||
            (positional && args->keywords.count))
            parse_fail(parser, DGL_ERR_FORMAT, "invalid syntax for function call expression");
        if (star) {
            args->star = parse_expression(parser);
        } else if (star_star) {
            args->star_star = parse_expression(parser);
        } else if (keyword) {
            struct jinja_node *node = node_new(parser, JINJA_NODE_KEYWORD);
            node->symbol = expect_symbol(parser);
            parser->token++;
            node->a = parse_expression(parser);
            nodes_push(&args->keywords, node);
        } else {
            nodes_push(&args->positional, parse_expression(parser));
        }
    }
    parser->token++;
}

static struct jinja_node *parse_call(struct parser *parser, struct jinja_node *callee)
{
    struct jinja_node *node = node_new(parser, JINJA_NODE_CALL);
    node->args = parse_alloc(parser, sizeof(*node->args));
    parse_args(parser, node->args);
    node->a = callee;
    return node;
}

/* Parses a bound of a slice. Returns NULL if it is omitted. */
static struct jinja_node *parse_bound(struct parser *parser)
{
    enum jinja_token_type type = parser->token->type;
    bool omitted = type == JINJA_TOK_COLON || type == JINJA_TOK_RBRACKET || type == JINJA_TOK_COMMA;
    return omitted ? NULL : parse_expression(parser);
}

/* Parses "[key]" or "[from:to:step]". */
static struct jinja_node *parse_item(struct parser *parser, struct jinja_node *owner)
{
    struct jinja_node *node = node_new(parser, JINJA_NODE_ITEM);
    parser->token++;
    if (parser->token->type == JINJA_TOK_RBRACKET)
        parse_unexpected(parser, "an expression");
    node->b = parse_bound(parser);
    node->a = owner;
    if (parser->token->type == JINJA_TOK_COLON) {
        struct jinja_node *slice = node_new(parser, JINJA_NODE_SLICE);
        parser->token++;
        slice->a = node->b;
        slice->b = parse_bound(parser);
        if (skip(parser, JINJA_TOK_COLON))
            slice->c = parse_bound(parser);
        node->b = slice;
    }
    if (!node->b)
        parse_unexpected(parser, NULL);
    expect(parser, JINJA_TOK_RBRACKET, "]");
    return node;
}

/* Parses ".name" or ".0". */
static struct jinja_node *parse_attribute(struct parser *parser, struct jinja_node *owner)
{
    parser->token++;
    const struct jinja_token *token = parser->token;
    bool named = token->type == JINJA_TOK_NAME;
    if (!named && token->type != JINJA_TOK_INTEGER)
        parse_unexpected(parser, "a name or number");
    struct jinja_node *node = node_new(parser, named ? JINJA_NODE_ATTRIBUTE : JINJA_NODE_ITEM);
    node->a = owner;
    if (named) {
        node->attribute = expect_symbol(parser);
        return node;
    }
    node->b = new_constant(parser, jinja_int(token->integer));
    parser->token++;
    return node;
}

static struct jinja_node *parse_postfix(struct parser *parser, struct jinja_node *node)
{
    for (;;) {
        if (parser->token->type == JINJA_TOK_DOT)
            node = parse_attribute(parser, node);
        else if (parser->token->type == JINJA_TOK_LBRACKET)
            node = parse_item(parser, node);
        else if (parser->token->type == JINJA_TOK_LPAREN)
            node = parse_call(parser, node);
        else
            return node;
    }
}

/* ---- filters and tests ---- */

static struct jinja_node *new_application(struct parser *parser, enum jinja_node_type type,
                                          struct jinja_node *input)
{
    struct jinja_node *node = node_new(parser, type);
    node->args = parse_alloc(parser, sizeof(*node->args));
    node->name = expect_symbol(parser);
    node->a = input;
    node->builtin = type == JINJA_NODE_FILTER ? jinja_find_filter(node->name->name)
                                              : jinja_find_test(node->name->name);
    return node;
}

/* Parses "| filter | filter", or "filter | filter" if `named`. `input` is the filtered value; NULL
 * means the text of a block. */
static struct jinja_node *parse_filters(struct parser *parser, struct jinja_node *input, bool named)
{
    while (named || parser->token->type == JINJA_TOK_PIPE) {
        if (!named)
            parser->token++;
        named = false;
        input = new_application(parser, JINJA_NODE_FILTER, input);
        if (parser->token->type == JINJA_TOK_LPAREN)
            parse_args(parser, input->args);
    }
    return input;
}

static bool begins_test_argument(const struct jinja_token *token)
{
    switch (token->type) {
    case JINJA_TOK_NAME:
        return !at_name(token, "else") && !at_name(token, "or") && !at_name(token, "and");
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

static struct jinja_node *parse_test(struct parser *parser, struct jinja_node *value)
{
    parser->token++;
    bool negated = skip_name(parser, "not");
    struct jinja_node *node = new_application(parser, JINJA_NODE_TEST, value);
    if (parser->token->type == JINJA_TOK_LPAREN)
        parse_args(parser, node->args);
    else if (at_name(parser->token, "is"))
        parse_fail(parser, DGL_ERR_FORMAT, "You cannot chain multiple tests with is");
    else if (begins_test_argument(parser->token))
        nodes_push(&node->args->positional, parse_postfix(parser, parse_primary(parser)));
    if (!negated)
        return node;
    struct jinja_node *inverse = node_new(parser, JINJA_NODE_NOT);
    inverse->a = node;
    return inverse;
}

/* ---- signs ---- */

/* Parses an operand with its signs, attributes, elements and calls; with filters and tests if
 * `with_filters`. */
static struct jinja_node *parse_unary(struct parser *parser, bool with_filters)
{
    parse_enter(parser);
    enum jinja_token_type type = parser->token->type;
    struct jinja_node *node;
    if (type == JINJA_TOK_SUB || type == JINJA_TOK_ADD) {
        node = node_new(parser, type == JINJA_TOK_SUB ? JINJA_NODE_MINUS : JINJA_NODE_PLUS);
        parser->token++;
        node->a = parse_unary(parser, false);
    } else {
        node = parse_primary(parser);
    }
    node = parse_postfix(parser, node);
    while (with_filters) {
        if (parser->token->type == JINJA_TOK_PIPE)
            node = parse_filters(parser, node, false);
        else if (at_name(parser->token, "is"))
            node = parse_test(parser, node);
        else if (parser->token->type == JINJA_TOK_LPAREN)
            node = parse_call(parser, node);
        else
            break;
    }
    parser->depth--;
    return node;
}

/* ---- expressions ---- */

/* Precedence of operators, from the lowest to the highest. */
enum level {
    LEVEL_OR,
    LEVEL_AND,
    LEVEL_NOT,
    LEVEL_COMPARISON,
    LEVEL_SUM,
    LEVEL_CONCAT,
    LEVEL_PRODUCT,
    LEVEL_POWER,
    LEVEL_OPERAND,
};

/* Left-associative binary operators. */
static const struct binary {
    enum level level;
    enum jinja_token_type token;
    const char *name; /* text of a JINJA_TOK_NAME */
    enum jinja_node_type node;
    enum jinja_op op;
} binaries[] = {
    {LEVEL_OR, JINJA_TOK_NAME, "or", JINJA_NODE_OR, 0},
    {LEVEL_AND, JINJA_TOK_NAME, "and", JINJA_NODE_AND, 0},
    {LEVEL_SUM, JINJA_TOK_ADD, NULL, JINJA_NODE_ARITHMETIC, JINJA_OP_ADD},
    {LEVEL_SUM, JINJA_TOK_SUB, NULL, JINJA_NODE_ARITHMETIC, JINJA_OP_SUB},
    {LEVEL_PRODUCT, JINJA_TOK_MUL, NULL, JINJA_NODE_ARITHMETIC, JINJA_OP_MUL},
    {LEVEL_PRODUCT, JINJA_TOK_DIV, NULL, JINJA_NODE_ARITHMETIC, JINJA_OP_DIV},
    {LEVEL_PRODUCT, JINJA_TOK_FLOORDIV, NULL, JINJA_NODE_ARITHMETIC, JINJA_OP_FLOORDIV},
    {LEVEL_PRODUCT, JINJA_TOK_MOD, NULL, JINJA_NODE_ARITHMETIC, JINJA_OP_MOD},
    {LEVEL_POWER, JINJA_TOK_POW, NULL, JINJA_NODE_ARITHMETIC, JINJA_OP_POW},
};

static struct jinja_node *parse_level(struct parser *parser, enum level level);

static const struct binary *skip_binary(struct parser *parser, enum level level)
{
    for (size_t i = 0; i < sizeof(binaries) / sizeof(binaries[0]); i++) {
        const struct binary *binary = &binaries[i];
        if (binary->level == level &&
            (binary->name ? skip_name(parser, binary->name) : skip(parser, binary->token)))
            return binary;
    }
    return NULL;
}

static struct jinja_node *parse_concat(struct parser *parser)
{
    struct jinja_node *first = parse_level(parser, LEVEL_PRODUCT);
    if (parser->token->type != JINJA_TOK_TILDE)
        return first;
    struct jinja_node *node = node_new(parser, JINJA_NODE_CONCAT);
    node->line = first->line;
    nodes_push(&node->list, first);
    while (skip(parser, JINJA_TOK_TILDE))
        nodes_push(&node->list, parse_level(parser, LEVEL_PRODUCT));
    return node;
}

static bool skip_comparison(struct parser *parser, enum jinja_cmp *cmp)
{
    static const struct {
        enum jinja_token_type token;
        enum jinja_cmp cmp;
    } signs[] = {{JINJA_TOK_EQ, JINJA_CMP_EQ}, {JINJA_TOK_NE, JINJA_CMP_NE},
                 {JINJA_TOK_LT, JINJA_CMP_LT}, {JINJA_TOK_LE, JINJA_CMP_LE},
                 {JINJA_TOK_GT, JINJA_CMP_GT}, {JINJA_TOK_GE, JINJA_CMP_GE}};
    for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
        *cmp = signs[i].cmp;
        if (skip(parser, signs[i].token))
            return true;
    }
    *cmp = JINJA_CMP_IN;
    if (skip_name(parser, "in"))
        return true;
    *cmp = JINJA_CMP_NOT_IN;
    if (!at_name(parser->token, "not") || !at_name(parser->token + 1, "in"))
        return false;
    parser->token += 2;
    return true;
}

static struct jinja_node *parse_comparison(struct parser *parser)
{
    enum jinja_cmp cmp;
    struct jinja_node *first = parse_level(parser, LEVEL_SUM), *node = NULL;
    while (skip_comparison(parser, &cmp)) {
        struct jinja_node *operand = node_new(parser, JINJA_NODE_OPERAND);
        if (!node) {
            node = node_new(parser, JINJA_NODE_COMPARE);
            node->line = first->line;
            node->a = first;
        }
        operand->a = parse_level(parser, LEVEL_SUM);
        operand->cmp = cmp;
        nodes_push(&node->list, operand);
    }
    return node ? node : first;
}

static struct jinja_node *parse_not(struct parser *parser)
{
    if (!at_name(parser->token, "not"))
        return parse_comparison(parser);
    struct jinja_node *node = node_new(parser, JINJA_NODE_NOT);
    parser->token++;
    parse_enter(parser);
    node->a = parse_not(parser);
    parser->depth--;
    return node;
}

static struct jinja_node *parse_level(struct parser *parser, enum level level)
{
    switch (level) {
    case LEVEL_NOT:
        return parse_not(parser);
    case LEVEL_CONCAT:
        return parse_concat(parser);
    case LEVEL_OPERAND:
        return parse_unary(parser, true);
    default:
        break;
    }
    const struct binary *binary;
    struct jinja_node *left = parse_level(parser, level + 1);
    while ((binary = skip_binary(parser, level)) != NULL) {
        struct jinja_node *right = parse_level(parser, level + 1);
        struct jinja_node *node = node_new(parser, binary->node);
        node->line = left->line;
        node->a = left;
        node->b = right;
        if (binary->node == JINJA_NODE_ARITHMETIC)
            node->op = binary->op;
        left = node;
    }
    return left;
}

static struct jinja_node *parse_expression(struct parser *parser)
{
    parse_enter(parser);
    struct jinja_node *value = parse_level(parser, LEVEL_OR);
    while (at_name(parser->token, "if")) {
        struct jinja_node *node = node_new(parser, JINJA_NODE_CONDITION);
        parser->token++;
        node->b = parse_level(parser, LEVEL_OR);
        if (skip_name(parser, "else"))
            node->c = parse_expression(parser);
        node->a = value;
        value = node;
    }
    parser->depth--;
    return value;
}

/* Parses one expression, or a tuple without parentheses. Without `with_condition`, "x if y else z"
 * is not allowed at the top level: the `in` of a loop may be followed by the `if` of the loop. */
static struct jinja_node *parse_tuple(struct parser *parser, bool with_condition)
{
    struct jinja_node *tuple = NULL;
    for (;;) {
        struct jinja_node *item =
            with_condition ? parse_expression(parser) : parse_level(parser, LEVEL_OR);
        if (!tuple && parser->token->type != JINJA_TOK_COMMA)
            return item;
        if (!tuple)
            tuple = node_new(parser, JINJA_NODE_TUPLE);
        nodes_push(&tuple->list, item);
        if (!skip(parser, JINJA_TOK_COMMA))
            return tuple;
        enum jinja_token_type next = parser->token->type;
        if (next == JINJA_TOK_VARIABLE_END || next == JINJA_TOK_BLOCK_END ||
            next == JINJA_TOK_RPAREN || at_name(parser->token, "recursive"))
            return tuple;
    }
}

/* ---- targets ---- */

static struct jinja_node *parse_target(struct parser *parser, bool fields);

static struct jinja_node *parse_single_target(struct parser *parser, bool fields)
{
    if (skip(parser, JINJA_TOK_LPAREN)) {
        parse_enter(parser);
        struct jinja_node *inner = parse_target(parser, fields);
        parser->depth--;
        expect(parser, JINJA_TOK_RPAREN, ")");
        return inner;
    }
    struct jinja_value constant;
    if (constant_of_name(parser->token, &constant))
        parse_unexpected(parser, "a name to assign to");
    struct jinja_node *node = node_new(parser, JINJA_NODE_NAME);
    node->symbol = expect_symbol(parser);
    if (fields && skip(parser, JINJA_TOK_DOT)) {
        node->type = JINJA_NODE_FIELD;
        node->attribute = expect_symbol(parser);
    }
    return node;
}

/* Parses a target of an assignment: a name or a tuple. With `fields`, attributes of namespaces are
 * allowed. */
static struct jinja_node *parse_target(struct parser *parser, bool fields)
{
    struct jinja_node *tuple = NULL;
    for (;;) {
        struct jinja_node *target = parse_single_target(parser, fields);
        if (!tuple && parser->token->type != JINJA_TOK_COMMA)
            return target;
        if (!tuple)
            tuple = node_new(parser, JINJA_NODE_TUPLE);
        nodes_push(&tuple->list, target);
        if (!skip(parser, JINJA_TOK_COMMA) || at_name(parser->token, "in") ||
            parser->token->type == JINJA_TOK_ASSIGN || parser->token->type == JINJA_TOK_RPAREN)
            return tuple;
    }
}

/* ---- statements ---- */

static struct jinja_node *parse_statement(struct parser *parser);

/* Parses nodes up to a tag whose name is in `ends`; the closing tag is the last one. That name
 * becomes the current token. If `ends` is NULL, parses to the end of the template. */
static void parse_nodes(struct parser *parser, const char *const *ends, struct jinja_nodes *out)
{
    for (;;) {
        struct jinja_node *node;
        switch (parser->token->type) {
        case JINJA_TOK_END:
            if (!ends)
                return;
            while (ends[1])
                ends++;
            parse_fail(parser, DGL_ERR_FORMAT, "unexpected end of template, expected '%s'",
                       ends[0]);
        case JINJA_TOK_DATA:
            node = node_new(parser, JINJA_NODE_TEXT);
            node->constant = jinja_text_of(parser->token->text, false);
            parser->token++;
            break;
        case JINJA_TOK_VARIABLE_BEGIN:
            node = node_new(parser, JINJA_NODE_OUTPUT);
            parser->token++;
            node->a = parse_tuple(parser, true);
            expect(parser, JINJA_TOK_VARIABLE_END, "end of print statement");
            break;
        default: /* all other tokens between tags begin a block */
            parser->token++;
            for (const char *const *end = ends; end && *end; end++)
                if (at_name(parser->token, *end))
                    return;
            node = parse_statement(parser);
        }
        nodes_push(out, node);
    }
}

/* Parses the end of a tag, then nodes up to a tag whose name is in `ends`. That name becomes the
 * current token. */
static void parse_body(struct parser *parser, const char *const *ends, struct jinja_nodes *out)
{
    skip(parser, JINJA_TOK_COLON);
    expect(parser, JINJA_TOK_BLOCK_END, "end of statement block");
    parse_enter(parser);
    parse_nodes(parser, ends, out);
    parser->depth--;
}

/* Parses a body up to the tag `end` and skips its name. */
static void parse_only_body(struct parser *parser, const char *end, struct jinja_nodes *out)
{
    const char *const ends[] = {end, NULL};
    parse_body(parser, ends, out);
    parser->token++;
}

static struct jinja_node *parse_if(struct parser *parser)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    struct jinja_node *node = node_new(parser, JINJA_NODE_IF);
    for (bool otherwise = false;; parser->token++) {
        struct jinja_node *branch = node_new(parser, JINJA_NODE_BRANCH);
        if (!otherwise)
            branch->a = parse_tuple(parser, false);
        parse_body(parser, otherwise ? ends + 2 : ends, &branch->body);
        nodes_push(&node->list, branch);
        if (skip_name(parser, "endif"))
            return node;
        otherwise = at_name(parser->token, "else");
    }
}

static struct jinja_node *parse_for(struct parser *parser)
{
    static const char *const ends[] = {"else", "endfor", NULL};
    struct jinja_node *node = node_new(parser, JINJA_NODE_FOR);
    struct jinja_for_node *loop = node->loop = parse_alloc(parser, sizeof(*loop));
    loop->target = parse_target(parser, false);
    if (!skip_name(parser, "in"))
        parse_unexpected(parser, "'in'");
    loop->over = parse_tuple(parser, false);
    if (skip_name(parser, "if"))
        loop->filter = parse_expression(parser);
    loop->recursive = skip_name(parser, "recursive");
    parser->loops++;
    parse_body(parser, ends, &loop->body);
    parser->loops--;
    if (skip_name(parser, "else"))
        parse_body(parser, ends + 1, &loop->otherwise);
    parser->token++; /* endfor */
    return node;
}

static struct jinja_node *parse_set(struct parser *parser)
{
    struct jinja_node *node = node_new(parser, JINJA_NODE_SET);
    node->a = parse_target(parser, true);
    if (skip(parser, JINJA_TOK_ASSIGN)) {
        node->b = parse_tuple(parser, true);
        return node;
    }
    node->type = JINJA_NODE_SET_BLOCK;
    node->b = parse_filters(parser, NULL, false);
    parse_only_body(parser, "endset", &node->body);
    return node;
}

/* Parses the parameters "(a, b=1)" of a macro. */
static void parse_signature(struct parser *parser, struct jinja_macro_node *macro)
{
    expect(parser, JINJA_TOK_LPAREN, "(");
    while (!skip(parser, JINJA_TOK_RPAREN)) {
        if (macro->params.count)
            expect(parser, JINJA_TOK_COMMA, ",");
        struct jinja_node *param = node_new(parser, JINJA_NODE_NAME);
        param->symbol = expect_symbol(parser);
        nodes_push(&macro->params, param);
        if (skip(parser, JINJA_TOK_ASSIGN))
            nodes_push(&macro->defaults, parse_expression(parser));
        else if (macro->defaults.count)
            parse_fail(parser, DGL_ERR_FORMAT, "non-default argument follows default argument");
    }
}

/* Parses the body of a macro or call block, which is a function. */
static void parse_macro_body(struct parser *parser, const char *end, struct jinja_macro_node *macro)
{
    struct jinja_macro_node *outer = parser->macro;
    uint32_t loops = parser->loops;
    parser->macro = macro;
    parser->loops = 0;
    parse_only_body(parser, end, &macro->body);
    parser->macro = outer;
    parser->loops = loops;
    if (outer) { /* names that the inner function does not define may be of the outer one */
        outer->uses_caller |= macro->uses_caller;
        outer->uses_varargs |= macro->uses_varargs;
        outer->uses_kwargs |= macro->uses_kwargs;
    }
}

static struct jinja_node *parse_macro(struct parser *parser)
{
    struct jinja_node *node = node_new(parser, JINJA_NODE_MACRO);
    node->macro = parse_alloc(parser, sizeof(*node->macro));
    node->macro->name = expect_symbol(parser);
    parse_signature(parser, node->macro);
    parse_macro_body(parser, "endmacro", node->macro);
    return node;
}

static struct jinja_node *parse_call_block(struct parser *parser)
{
    struct jinja_node *node = node_new(parser, JINJA_NODE_CALL_BLOCK);
    node->macro = parse_alloc(parser, sizeof(*node->macro));
    if (parser->token->type == JINJA_TOK_LPAREN)
        parse_signature(parser, node->macro);
    node->a = parse_expression(parser);
    if (node->a->type != JINJA_NODE_CALL)
        parse_fail(parser, DGL_ERR_FORMAT, "expected call");
    parse_macro_body(parser, "endcall", node->macro);
    return node;
}

static struct jinja_node *parse_filter_block(struct parser *parser)
{
    struct jinja_node *node = node_new(parser, JINJA_NODE_FILTER_BLOCK);
    node->b = parse_filters(parser, NULL, true);
    parse_only_body(parser, "endfilter", &node->body);
    return node;
}

static struct jinja_node *parse_with(struct parser *parser)
{
    struct jinja_node *node = node_new(parser, JINJA_NODE_WITH);
    while (parser->token->type != JINJA_TOK_BLOCK_END) {
        if (node->list.count)
            expect(parser, JINJA_TOK_COMMA, ",");
        struct jinja_node *set = node_new(parser, JINJA_NODE_SET);
        set->a = parse_single_target(parser, false);
        expect(parser, JINJA_TOK_ASSIGN, "=");
        set->b = parse_expression(parser);
        nodes_push(&node->list, set);
    }
    parse_only_body(parser, "endwith", &node->body);
    return node;
}

static struct jinja_node *parse_generation(struct parser *parser)
{
    struct jinja_node *node = node_new(parser, JINJA_NODE_SCOPE);
    parse_only_body(parser, "endgeneration", &node->body);
    return node;
}

/* Parses "break" and "continue". */
static struct jinja_node *parse_jump(struct parser *parser)
{
    bool is_break = at_name(parser->token - 1, "break");
    if (!parser->loops)
        parse_fail(parser, DGL_ERR_FORMAT, "'%s' outside of a loop",
                   is_break ? "break" : "continue");
    return node_new(parser, is_break ? JINJA_NODE_BREAK : JINJA_NODE_CONTINUE);
}

/* Reports an unknown statement. Some statements of jinja are not supported: they need other
 * templates or an extension. */
static struct jinja_node *parse_statement(struct parser *parser)
{
    static const struct {
        const char *name;
        struct jinja_node *(*parse)(struct parser *parser); /* from after the name to before "%}" */
    } statements[] = {
        {"if", parse_if},           {"for", parse_for},
        {"set", parse_set},         {"macro", parse_macro},
        {"call", parse_call_block}, {"filter", parse_filter_block},
        {"with", parse_with},       {"generation", parse_generation},
        {"break", parse_jump},      {"continue", parse_jump},
    };
    static const char *const known[] = {"include", "import", "from",  "extends", "block",
                                        "do",      "print",  "trans", "debug",   "autoescape"};
    for (size_t i = 0; i < sizeof(statements) / sizeof(statements[0]); i++) {
        if (!skip_name(parser, statements[i].name))
            continue;
        struct jinja_node *node = statements[i].parse(parser);
        expect(parser, JINJA_TOK_BLOCK_END, "end of statement block");
        return node;
    }
    struct dgl_str name = jinja_token_describe(parser->token);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (at_name(parser->token, known[i]))
            parse_fail(parser, DGL_ERR_UNSUPPORTED,
                       "the statement '%s' is not supported in chat templates", known[i]);
    parse_fail(parser, DGL_ERR_FORMAT, "Encountered unknown tag '%.*s'",
               (int)(name.len < 60 ? name.len : 60), name.p);
}

/* ---- templates ---- */

/* Parses the tokens to tmpl->body. Sets parser->status. */
static void parse_template(struct parser *parser)
{
    struct jinja_template *tmpl = parser->tmpl;
    if (setjmp(parser->failed))
        return;
    tmpl->loop = intern(parser, DGL_STR("loop"));
    tmpl->caller = intern(parser, DGL_STR("caller"));
    tmpl->varargs = intern(parser, DGL_STR("varargs"));
    tmpl->kwargs = intern(parser, DGL_STR("kwargs"));
    parse_nodes(parser, NULL, &tmpl->body);
}

enum dgl_status jinja_parse(const struct dgl_log *log, const char *name, const char *text,
                            size_t len, struct jinja_template **out)
{
    struct jinja_tokens tokens = {0};
    struct jinja_template *tmpl = dgl_new(struct jinja_template);
    enum dgl_status status;
    *out = NULL;
    if (!tmpl)
        return dgl_fail_memory(log, name, sizeof(*tmpl));
    struct parser parser = {.log = log, .tmpl = tmpl, .seed = tok_hash_new_seed()};
    tmpl->name = dgl_arena_strndup(&tmpl->arena, name, strlen(name));
    if (!tmpl->name)
        TRY(dgl_fail_memory(log, name, strlen(name)));
    TRY(jinja_lex(log, name, (struct dgl_str){text, len}, &tmpl->arena, &tokens));
    parser.token = tokens.items;
    parse_template(&parser);
    status = parser.status;
done:
    free(tokens.items);
    if (status != DGL_OK)
        jinja_destroy(&tmpl);
    *out = tmpl;
    return status;
}

void jinja_destroy(struct jinja_template **tmpl)
{
    if (*tmpl) {
        struct dgl_arena arena = (*tmpl)->arena;
        dgl_arena_finish(&arena);
        free(*tmpl);
    }
    *tmpl = NULL;
}
