/* Integer expressions in directives. A recursive-descent parser makes a tree of each expression,
 * which is evaluated in checked 64-bit arithmetic. */
#include <string.h>

#include "kernels/format/kernel_format.h"

/* A directive is one line; these limits keep the recursion of parser and evaluation shallow. */
#define MAX_DEPTH 32
#define MAX_NODES 256

enum expr_op {
    OP_NUMBER,
    OP_NAME,
    OP_NEG,
    OP_NOT,
    OP_SELECT,
    OP_MUL,
    OP_DIV,
    OP_MOD,
    OP_ADD,
    OP_SUB,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_EQ,
    OP_NE,
    OP_AND,
    OP_OR,
    OP_MIN,
    OP_MAX,
    OP_CEILDIV,
};

struct kernel_expr {
    enum expr_op op;
    int64_t value;    /* OP_NUMBER */
    const char *name; /* OP_NAME */
    const struct kernel_expr *arg[3];
};

/* Longer spellings first: "<=" before "<". */
static const struct operator_row {
    const char *text;
    enum expr_op op;
    int precedence; /* higher binds tighter */
} operators[] = {
    {"||", OP_OR, 1}, {"&&", OP_AND, 2}, {"==", OP_EQ, 3}, {"!=", OP_NE, 3}, {"<=", OP_LE, 4},
    {">=", OP_GE, 4}, {"<", OP_LT, 4},   {">", OP_GT, 4},  {"+", OP_ADD, 5}, {"-", OP_SUB, 5},
    {"*", OP_MUL, 6}, {"/", OP_DIV, 6},  {"%", OP_MOD, 6},
};

static const struct function_row {
    const char *name;
    enum expr_op op;
} functions[] = {{"min", OP_MIN}, {"max", OP_MAX}, {"ceildiv", OP_CEILDIV}};

struct expr_parser {
    struct dgl_arena *arena;
    struct dgl_str rest;
    const char *error;
    bool no_memory;
    int depth, nodes;
};

static const struct kernel_expr *parse_select(struct expr_parser *p);

static const struct kernel_expr *fail(struct expr_parser *p, const char *error)
{
    if (!p->error)
        p->error = error;
    return NULL;
}

static void skip_blanks(struct expr_parser *p)
{
    while (p->rest.len && (*p->rest.p == ' ' || *p->rest.p == '\t')) {
        p->rest.p++;
        p->rest.len--;
    }
}

static bool take(struct expr_parser *p, const char *text)
{
    skip_blanks(p);
    if (!dgl_str_starts(p->rest, text))
        return false;
    p->rest.p += strlen(text);
    p->rest.len -= strlen(text);
    return true;
}

static struct kernel_expr *new_node(struct expr_parser *p, enum expr_op op,
                                    const struct kernel_expr *a, const struct kernel_expr *b)
{
    if (++p->nodes > MAX_NODES) {
        fail(p, "the expression is too long");
        return NULL;
    }
    struct kernel_expr *node = dgl_arena_alloc(p->arena, sizeof(*node));
    if (!node) {
        p->no_memory = true;
        return NULL;
    }
    *node = (struct kernel_expr){.op = op, .arg = {a, b}};
    return node;
}

static bool is_name_char(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (!first && c >= '0' && c <= '9');
}

static const struct kernel_expr *parse_number(struct expr_parser *p)
{
    struct dgl_str digits = {p->rest.p, 0};
    while (digits.len < p->rest.len && digits.p[digits.len] >= '0' && digits.p[digits.len] <= '9')
        digits.len++;
    int64_t value;
    if (!dgl_parse_i64(digits, 0, INT64_MAX, &value))
        return fail(p, "the number does not fit 64 bits");
    p->rest.p += digits.len;
    p->rest.len -= digits.len;
    if (p->rest.len && is_name_char(*p->rest.p, true))
        return fail(p, "expected a decimal number without a suffix");
    struct kernel_expr *node = new_node(p, OP_NUMBER, NULL, NULL);
    if (node)
        node->value = value;
    return node;
}

static const struct kernel_expr *parse_call(struct expr_parser *p, enum expr_op op)
{
    if (!take(p, "("))
        return fail(p, "expected '(' after the function's name");
    const struct kernel_expr *a = parse_select(p);
    if (!a)
        return NULL;
    if (!take(p, ","))
        return fail(p, "expected ',' between two arguments");
    const struct kernel_expr *b = parse_select(p);
    if (!b)
        return NULL;
    if (!take(p, ")"))
        return fail(p, "expected ')'");
    return new_node(p, op, a, b);
}

static const struct kernel_expr *parse_name(struct expr_parser *p)
{
    struct dgl_str name = {p->rest.p, 0};
    while (name.len < p->rest.len && is_name_char(name.p[name.len], name.len == 0))
        name.len++;
    p->rest.p += name.len;
    p->rest.len -= name.len;
    for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++)
        if (dgl_str_eq(name, functions[i].name))
            return parse_call(p, functions[i].op);
    struct kernel_expr *node = new_node(p, OP_NAME, NULL, NULL);
    if (!node)
        return NULL;
    node->name = dgl_arena_strndup(p->arena, name.p, name.len);
    p->no_memory = !node->name;
    return node->name ? node : NULL;
}

static const struct kernel_expr *parse_primary(struct expr_parser *p)
{
    skip_blanks(p);
    if (p->rest.len && *p->rest.p >= '0' && *p->rest.p <= '9')
        return parse_number(p);
    if (p->rest.len && is_name_char(*p->rest.p, true))
        return parse_name(p);
    if (!take(p, "("))
        return fail(p, "expected a number, a name or '('");
    const struct kernel_expr *inner = parse_select(p);
    if (inner && !take(p, ")"))
        return fail(p, "expected ')'");
    return inner;
}

static const struct kernel_expr *parse_unary(struct expr_parser *p)
{
    if (++p->depth > MAX_DEPTH)
        return fail(p, "the expression is nested too deeply");
    const struct kernel_expr *node;
    skip_blanks(p);
    if (!dgl_str_starts(p->rest, "!=") && take(p, "!")) {
        node = parse_unary(p);
        node = node ? new_node(p, OP_NOT, node, NULL) : NULL;
    } else if (take(p, "-")) {
        node = parse_unary(p);
        node = node ? new_node(p, OP_NEG, node, NULL) : NULL;
    } else {
        node = parse_primary(p);
    }
    p->depth--;
    return node;
}

static const struct operator_row *peek_operator(struct expr_parser *p, int precedence)
{
    skip_blanks(p);
    for (size_t i = 0; i < sizeof(operators) / sizeof(*operators); i++)
        if (dgl_str_starts(p->rest, operators[i].text))
            return operators[i].precedence >= precedence ? &operators[i] : NULL;
    return NULL;
}

static const struct kernel_expr *parse_binary(struct expr_parser *p, int precedence)
{
    const struct kernel_expr *left = parse_unary(p);
    const struct operator_row *row;
    while (left && (row = peek_operator(p, precedence))) {
        take(p, row->text);
        const struct kernel_expr *right = parse_binary(p, row->precedence + 1);
        left = right ? new_node(p, row->op, left, right) : NULL;
    }
    return left;
}

static const struct kernel_expr *parse_select(struct expr_parser *p)
{
    if (++p->depth > MAX_DEPTH)
        return fail(p, "the expression is nested too deeply");
    const struct kernel_expr *node = parse_binary(p, 1);
    if (node && take(p, "?")) {
        const struct kernel_expr *yes = parse_select(p);
        if (!yes)
            return NULL;
        if (!take(p, ":"))
            return fail(p, "expected ':' of the '?'");
        const struct kernel_expr *no = parse_select(p);
        struct kernel_expr *select = no ? new_node(p, OP_SELECT, node, yes) : NULL;
        if (select)
            select->arg[2] = no;
        node = select;
    }
    p->depth--;
    return node;
}

bool kernel_expr_parse(struct dgl_arena *arena, struct dgl_str *rest,
                       const struct kernel_expr **out, const char **error)
{
    struct expr_parser p = {.arena = arena, .rest = *rest};
    *out = parse_select(&p);
    skip_blanks(&p);
    *rest = p.rest;
    *error = p.no_memory ? NULL : p.error;
    return *out != NULL;
}

const char *kernel_expr_unknown(const struct kernel_expr *expr,
                                bool (*known)(const void *ctx, const char *name), const void *ctx)
{
    if (expr->op == OP_NAME)
        return known(ctx, expr->name) ? NULL : expr->name;
    for (int i = 0; i < 3 && expr->arg[i]; i++) {
        const char *name = kernel_expr_unknown(expr->arg[i], known, ctx);
        if (name)
            return name;
    }
    return NULL;
}

static bool none_is_known(const void *ctx, const char *name)
{
    (void)ctx;
    (void)name;
    return false;
}

bool kernel_expr_outcomes(const struct kernel_expr *expr, bool (*cb)(void *priv, int64_t value),
                          void *priv)
{
    const bool fixed = !kernel_expr_unknown(expr, none_is_known, NULL);
    int64_t value;
    const char *bad;
    if (fixed)
        return !kernel_expr_eval(expr, NULL, 0, &value, &bad) || cb(priv, value);
    switch (expr->op) {
    case OP_SELECT:
        if (!kernel_expr_unknown(expr->arg[0], none_is_known, NULL) &&
            kernel_expr_eval(expr->arg[0], NULL, 0, &value, &bad))
            return kernel_expr_outcomes(expr->arg[value ? 1 : 2], cb, priv);
        return kernel_expr_outcomes(expr->arg[1], cb, priv) &&
               kernel_expr_outcomes(expr->arg[2], cb, priv);
    case OP_NOT:
    case OP_LT:
    case OP_LE:
    case OP_GT:
    case OP_GE:
    case OP_EQ:
    case OP_NE:
    case OP_AND:
    case OP_OR:
        return cb(priv, 0) && cb(priv, 1);
    default:
        return true;
    }
}

static bool eval_div(enum expr_op op, int64_t a, int64_t b, int64_t *out, const char **bad)
{
    if (b == 0) {
        *bad = "division by zero";
        return false;
    }
    if (a == INT64_MIN && b == -1) {
        *bad = "overflow";
        return false;
    }
    *out = a / b;
    if (op == OP_MOD)
        *out = a % b;
    else if (op == OP_CEILDIV && a % b != 0 && (a > 0) == (b > 0))
        *out += 1;
    return true;
}

static bool eval_binary(enum expr_op op, int64_t a, int64_t b, int64_t *out, const char **bad)
{
    bool overflow = false;
    switch (op) {
    case OP_ADD:
        overflow = __builtin_add_overflow(a, b, out);
        break;
    case OP_SUB:
        overflow = __builtin_sub_overflow(a, b, out);
        break;
    case OP_MUL:
        overflow = __builtin_mul_overflow(a, b, out);
        break;
    case OP_LT:
        *out = a < b;
        break;
    case OP_LE:
        *out = a <= b;
        break;
    case OP_GT:
        *out = a > b;
        break;
    case OP_GE:
        *out = a >= b;
        break;
    case OP_EQ:
        *out = a == b;
        break;
    case OP_NE:
        *out = a != b;
        break;
    case OP_MIN:
        *out = a < b ? a : b;
        break;
    case OP_MAX:
        *out = a > b ? a : b;
        break;
    default: /* OP_DIV, OP_MOD, OP_CEILDIV */
        return eval_div(op, a, b, out, bad);
    }
    if (overflow)
        *bad = "overflow";
    return !overflow;
}

bool kernel_expr_eval(const struct kernel_expr *expr, const struct kernel_var *vars,
                      size_t num_vars, int64_t *out, const char **bad)
{
    if (expr->op == OP_NUMBER) {
        *out = expr->value;
        return true;
    }
    if (expr->op == OP_NAME) {
        size_t i = 0;
        while (i < num_vars && strcmp(vars[i].name, expr->name) != 0)
            i++;
        *out = i < num_vars ? vars[i].value : 0;
        if (i == num_vars)
            *bad = expr->name;
        return i < num_vars || strncmp(expr->name, "HAS_", 4) == 0;
    }
    int64_t a, b;
    if (!kernel_expr_eval(expr->arg[0], vars, num_vars, &a, bad))
        return false;
    if (expr->op == OP_NOT) {
        *out = a == 0;
        return true;
    }
    if (expr->op == OP_NEG)
        return eval_binary(OP_SUB, 0, a, out, bad);
    /* &&, || and ?: evaluate their later operands only if needed: `SUBGROUP_SIZE && K /
     * SUBGROUP_SIZE > 4`. */
    if (expr->op == OP_SELECT)
        return kernel_expr_eval(a ? expr->arg[1] : expr->arg[2], vars, num_vars, out, bad);
    const bool logical = expr->op == OP_AND || expr->op == OP_OR;
    if (logical && (expr->op == OP_OR) == (a != 0)) {
        *out = a != 0;
        return true;
    }
    if (!kernel_expr_eval(expr->arg[1], vars, num_vars, &b, bad))
        return false;
    if (logical)
        *out = b != 0;
    return logical || eval_binary(expr->op, a, b, out, bad);
}
