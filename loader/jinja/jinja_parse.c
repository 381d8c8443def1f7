/* Statements of templates, and what the parser needs everywhere. */
#include "loader/jinja/jinja_parse.h"

#include <stdlib.h>
#include <string.h>

#include "loader/text/tok_hash.h"

enum { max_depth = 100 };

/* ---- the parser's tools ---- */

bool jinja_parse_fail(struct jinja_parser *parser, enum dgl_status status, const char *fmt, ...)
{
    struct dgl_buf text = {0};
    va_list args;
    va_start(args, fmt);
    dgl_buf_vprintf(&text, fmt, args);
    va_end(args);
    parser->status = dgl_fail(parser->log, status, "%s:%u: %s", parser->tmpl->name,
                              parser->token->line, text.p ? text.p : "out of memory");
    dgl_buf_finish(&text);
    return false;
}

bool jinja_parse_unexpected(struct jinja_parser *parser, const char *wanted)
{
    enum { shown_bytes = 60 };
    struct dgl_str found = jinja_token_describe(parser->token);
    int len = (int)(found.len < shown_bytes ? found.len : shown_bytes);
    if (!wanted)
        return jinja_parse_fail(parser, DGL_ERR_FORMAT, "unexpected '%.*s'", len, found.p);
    return jinja_parse_fail(parser, DGL_ERR_FORMAT, "expected %s, got '%.*s'", wanted, len,
                            found.p);
}

void *jinja_parse_alloc(struct jinja_parser *parser, size_t size)
{
    void *part = dgl_arena_alloc(&parser->tmpl->arena, size);
    if (!part)
        parser->status = dgl_fail_memory(parser->log, parser->tmpl->name, size);
    return part;
}

struct jinja_node *jinja_node_new(struct jinja_parser *parser, enum jinja_node_type type)
{
    struct jinja_node *node = jinja_parse_alloc(parser, sizeof(*node));
    if (node) {
        node->type = type;
        node->line = parser->token->line;
    }
    return node;
}

void jinja_nodes_push(struct jinja_nodes *nodes, struct jinja_node *node)
{
    if (nodes->last)
        nodes->last->next = node;
    else
        nodes->first = node;
    nodes->last = node;
    nodes->count++;
}

bool jinja_parse_enter(struct jinja_parser *parser)
{
    if (parser->depth == max_depth)
        return jinja_parse_fail(parser, DGL_ERR_FORMAT, "nested more than %d levels deep",
                                max_depth);
    parser->depth++;
    return true;
}

const struct jinja_symbol *jinja_intern(struct jinja_symbols *symbols, struct dgl_str name)
{
    uint64_t hash = tok_hash_bytes(name.p, name.len, symbols->seed);
    struct jinja_symbol **bucket = &symbols->buckets[hash % 256];
    for (struct jinja_symbol *s = *bucket; s; s = s->next_in_bucket) {
        if (s->name.len == name.len && memcmp(s->name.p, name.p, name.len) == 0)
            return s;
    }
    struct jinja_symbol *symbol = dgl_arena_alloc(&symbols->tmpl->arena, sizeof(*symbol));
    if (!symbol)
        return NULL;
    *symbol = (struct jinja_symbol){name, symbols->tmpl->symbols, *bucket};
    symbols->tmpl->symbols = *bucket = symbol;
    return symbol;
}

bool jinja_at_name(const struct jinja_token *token, const char *name)
{
    return token->type == JINJA_TOK_NAME && dgl_str_eq(token->text, name);
}

bool jinja_skip(struct jinja_parser *parser, enum jinja_token_type type)
{
    bool there = parser->token->type == type;
    parser->token += there;
    return there;
}

bool jinja_skip_name(struct jinja_parser *parser, const char *name)
{
    bool there = jinja_at_name(parser->token, name);
    parser->token += there;
    return there;
}

bool jinja_expect(struct jinja_parser *parser, enum jinja_token_type type, const char *wanted)
{
    return jinja_skip(parser, type) || jinja_parse_unexpected(parser, wanted);
}

const struct jinja_symbol *jinja_expect_symbol(struct jinja_parser *parser)
{
    if (parser->token->type != JINJA_TOK_NAME) {
        jinja_parse_unexpected(parser, "a name");
        return NULL;
    }
    const struct jinja_symbol *symbol = jinja_intern(&parser->symbols, parser->token->text);
    if (!symbol)
        parser->status = dgl_fail_memory(parser->log, parser->tmpl->name, sizeof(*symbol));
    parser->token++;
    return symbol;
}

/* ---- targets ---- */

static bool is_constant_name(const struct jinja_token *token)
{
    static const char *const names[] = {"true", "True", "false", "False", "none", "None"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (jinja_at_name(token, names[i]))
            return true;
    }
    return false;
}

static struct jinja_node *parse_single_target(struct jinja_parser *parser, bool fields)
{
    if (jinja_skip(parser, JINJA_TOK_LPAREN)) {
        if (!jinja_parse_enter(parser))
            return NULL;
        struct jinja_node *inner = jinja_parse_target(parser, fields);
        parser->depth--;
        return inner && jinja_expect(parser, JINJA_TOK_RPAREN, ")") ? inner : NULL;
    }
    if (is_constant_name(parser->token)) {
        jinja_parse_unexpected(parser, "a name to assign to");
        return NULL;
    }
    struct jinja_node *node = jinja_node_new(parser, JINJA_NODE_NAME);
    if (!node || !(node->symbol = jinja_expect_symbol(parser)))
        return NULL;
    if (fields && jinja_skip(parser, JINJA_TOK_DOT)) {
        node->type = JINJA_NODE_FIELD;
        node->attribute = jinja_expect_symbol(parser);
        return node->attribute ? node : NULL;
    }
    return node;
}

struct jinja_node *jinja_parse_target(struct jinja_parser *parser, bool fields)
{
    struct jinja_node *tuple = NULL;
    for (;;) {
        struct jinja_node *target = parse_single_target(parser, fields);
        if (!target)
            return NULL;
        if (!tuple && parser->token->type != JINJA_TOK_COMMA)
            return target;
        if (!tuple && !(tuple = jinja_node_new(parser, JINJA_NODE_TUPLE)))
            return NULL;
        jinja_nodes_push(&tuple->list, target);
        if (!jinja_skip(parser, JINJA_TOK_COMMA) || jinja_at_name(parser->token, "in") ||
            parser->token->type == JINJA_TOK_ASSIGN || parser->token->type == JINJA_TOK_RPAREN)
            return tuple;
    }
}

/* ---- statements ---- */

static bool parse_statement(struct jinja_parser *parser, struct jinja_nodes *out);

static bool at_end_tag(const struct jinja_token *token, const char *const *ends)
{
    for (; *ends; ends++) {
        if (jinja_at_name(token, *ends))
            return true;
    }
    return false;
}

static bool parse_output(struct jinja_parser *parser, struct jinja_nodes *out)
{
    struct jinja_node *node = jinja_node_new(parser, JINJA_NODE_OUTPUT);
    parser->token++;
    if (!node || !(node->a = jinja_parse_tuple(parser, true)) ||
        !jinja_expect(parser, JINJA_TOK_VARIABLE_END, "end of print statement"))
        return false;
    jinja_nodes_push(out, node);
    return true;
}

static bool parse_data(struct jinja_parser *parser, struct jinja_nodes *out)
{
    struct jinja_node *node = jinja_node_new(parser, JINJA_NODE_TEXT);
    if (!node)
        return false;
    node->constant = jinja_text_of(parser->token->text, false);
    parser->token++;
    jinja_nodes_push(out, node);
    return true;
}

static bool fail_end(struct jinja_parser *parser, const char *const *ends)
{
    while (ends[1])
        ends++;
    return jinja_parse_fail(parser, DGL_ERR_FORMAT, "unexpected end of template, expected '%s'",
                            ends[0]);
}

/* Nodes up to a tag named in `ends` (the closing one last), whose name becomes the current token;
 * NULL: up to the end of the template. */
static bool parse_nodes(struct jinja_parser *parser, const char *const *ends,
                        struct jinja_nodes *out)
{
    for (;;) {
        bool ok = true;
        switch (parser->token->type) {
        case JINJA_TOK_END:
            return !ends || fail_end(parser, ends);
        case JINJA_TOK_DATA:
            ok = parse_data(parser, out);
            break;
        case JINJA_TOK_VARIABLE_BEGIN:
            ok = parse_output(parser, out);
            break;
        default: /* the lexer gives nothing else between tags than the begin of a block */
            parser->token++;
            if (ends && at_end_tag(parser->token, ends))
                return true;
            ok = parse_statement(parser, out);
        }
        if (!ok)
            return false;
    }
}

/* The rest of a tag, then everything up to a tag named in `ends`, whose name becomes the current
 * token. */
static bool parse_body(struct jinja_parser *parser, const char *const *ends,
                       struct jinja_nodes *out)
{
    jinja_skip(parser, JINJA_TOK_COLON);
    if (!jinja_expect(parser, JINJA_TOK_BLOCK_END, "end of statement block") ||
        !jinja_parse_enter(parser))
        return false;
    bool ok = parse_nodes(parser, ends, out);
    parser->depth--;
    return ok;
}

/* Body of a statement with nothing but an end tag, which is skipped. */
static bool parse_only_body(struct jinja_parser *parser, const char *end, struct jinja_nodes *out)
{
    const char *const ends[] = {end, NULL};
    if (!parse_body(parser, ends, out))
        return false;
    parser->token++;
    return true;
}

static struct jinja_node *parse_if(struct jinja_parser *parser)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    struct jinja_node *node = jinja_node_new(parser, JINJA_NODE_IF);
    bool otherwise = false;
    while (node) {
        struct jinja_node *branch = jinja_node_new(parser, JINJA_NODE_BRANCH);
        if (!branch || (!otherwise && !(branch->a = jinja_parse_tuple(parser, false))) ||
            !parse_body(parser, otherwise ? ends + 2 : ends, &branch->body))
            return NULL;
        jinja_nodes_push(&node->list, branch);
        if (jinja_skip_name(parser, "endif"))
            break;
        otherwise = jinja_at_name(parser->token, "else");
        parser->token++;
    }
    return node;
}

static struct jinja_node *parse_for(struct jinja_parser *parser)
{
    static const char *const ends[] = {"else", "endfor", NULL};
    struct jinja_node *node = jinja_node_new(parser, JINJA_NODE_FOR);
    struct jinja_for_node *loop = node ? jinja_parse_alloc(parser, sizeof(*loop)) : NULL;
    if (!loop || !(loop->target = jinja_parse_target(parser, false)))
        return NULL;
    node->loop = loop;
    if (!jinja_skip_name(parser, "in")) {
        jinja_parse_unexpected(parser, "'in'");
        return NULL;
    }
    if (!(loop->over = jinja_parse_tuple(parser, false)) ||
        (jinja_skip_name(parser, "if") && !(loop->filter = jinja_parse_expression(parser))))
        return NULL;
    loop->recursive = jinja_skip_name(parser, "recursive");
    parser->loops++;
    bool ok = parse_body(parser, ends, &loop->body);
    parser->loops--;
    if (!ok)
        return NULL;
    if (jinja_skip_name(parser, "else") && !parse_body(parser, ends + 1, &loop->otherwise))
        return NULL;
    parser->token++; /* endfor */
    return node;
}

static struct jinja_node *parse_set(struct jinja_parser *parser)
{
    struct jinja_node *node = jinja_node_new(parser, JINJA_NODE_SET);
    if (!node || !(node->a = jinja_parse_target(parser, true)))
        return NULL;
    if (jinja_skip(parser, JINJA_TOK_ASSIGN))
        return (node->b = jinja_parse_tuple(parser, true)) ? node : NULL;
    node->type = JINJA_NODE_SET_BLOCK;
    if (parser->token->type == JINJA_TOK_PIPE &&
        !(node->b = jinja_parse_filters(parser, NULL, false)))
        return NULL;
    return parse_only_body(parser, "endset", &node->body) ? node : NULL;
}

/* "(a, b=1)". */
static bool parse_signature(struct jinja_parser *parser, struct jinja_macro_node *macro)
{
    if (!jinja_expect(parser, JINJA_TOK_LPAREN, "("))
        return false;
    while (!jinja_skip(parser, JINJA_TOK_RPAREN)) {
        if (macro->params.count && !jinja_expect(parser, JINJA_TOK_COMMA, ","))
            return false;
        struct jinja_node *param = jinja_node_new(parser, JINJA_NODE_NAME), *value;
        if (!param || !(param->symbol = jinja_expect_symbol(parser)))
            return false;
        jinja_nodes_push(&macro->params, param);
        if (jinja_skip(parser, JINJA_TOK_ASSIGN)) {
            if (!(value = jinja_parse_expression(parser)))
                return false;
            jinja_nodes_push(&macro->defaults, value);
        } else if (macro->defaults.count) {
            return jinja_parse_fail(parser, DGL_ERR_FORMAT,
                                    "non-default argument follows default argument");
        }
    }
    return true;
}

/* The body of a macro or of a call is a function of its own. */
static bool parse_macro_body(struct jinja_parser *parser, const char *end,
                             struct jinja_macro_node *macro)
{
    struct jinja_macro_node *outer = parser->macro;
    uint32_t loops = parser->loops;
    parser->macro = macro;
    parser->loops = 0;
    bool ok = parse_only_body(parser, end, &macro->body);
    parser->macro = outer;
    parser->loops = loops;
    if (ok && outer) { /* a name that the inner function does not define may be the outer one's */
        outer->uses_caller |= macro->uses_caller;
        outer->uses_varargs |= macro->uses_varargs;
        outer->uses_kwargs |= macro->uses_kwargs;
    }
    return ok;
}

static struct jinja_node *parse_macro(struct jinja_parser *parser)
{
    struct jinja_node *node = jinja_node_new(parser, JINJA_NODE_MACRO);
    if (!node || !(node->macro = jinja_parse_alloc(parser, sizeof(*node->macro))) ||
        !(node->macro->name = jinja_expect_symbol(parser)) ||
        !parse_signature(parser, node->macro) || !parse_macro_body(parser, "endmacro", node->macro))
        return NULL;
    return node;
}

static struct jinja_node *parse_call_block(struct jinja_parser *parser)
{
    struct jinja_node *node = jinja_node_new(parser, JINJA_NODE_CALL_BLOCK);
    if (!node || !(node->macro = jinja_parse_alloc(parser, sizeof(*node->macro))))
        return NULL;
    if (parser->token->type == JINJA_TOK_LPAREN && !parse_signature(parser, node->macro))
        return NULL;
    if (!(node->a = jinja_parse_expression(parser)))
        return NULL;
    if (node->a->type != JINJA_NODE_CALL) {
        jinja_parse_fail(parser, DGL_ERR_FORMAT, "expected call");
        return NULL;
    }
    return parse_macro_body(parser, "endcall", node->macro) ? node : NULL;
}

static struct jinja_node *parse_filter_block(struct jinja_parser *parser)
{
    struct jinja_node *node = jinja_node_new(parser, JINJA_NODE_FILTER_BLOCK);
    if (!node || !(node->b = jinja_parse_filters(parser, NULL, true)) ||
        !parse_only_body(parser, "endfilter", &node->body))
        return NULL;
    return node;
}

static struct jinja_node *parse_with(struct jinja_parser *parser)
{
    struct jinja_node *node = jinja_node_new(parser, JINJA_NODE_WITH);
    while (node && parser->token->type != JINJA_TOK_BLOCK_END) {
        if (node->list.count && !jinja_expect(parser, JINJA_TOK_COMMA, ","))
            return NULL;
        struct jinja_node *set = jinja_node_new(parser, JINJA_NODE_SET);
        if (!set || !(set->a = parse_single_target(parser, false)) ||
            !jinja_expect(parser, JINJA_TOK_ASSIGN, "=") ||
            !(set->b = jinja_parse_expression(parser)))
            return NULL;
        jinja_nodes_push(&node->list, set);
    }
    return node && parse_only_body(parser, "endwith", &node->body) ? node : NULL;
}

static struct jinja_node *parse_generation(struct jinja_parser *parser)
{
    struct jinja_node *node = jinja_node_new(parser, JINJA_NODE_SCOPE);
    return node && parse_only_body(parser, "endgeneration", &node->body) ? node : NULL;
}

static struct jinja_node *parse_jump(struct jinja_parser *parser, enum jinja_node_type type)
{
    if (parser->loops)
        return jinja_node_new(parser, type);
    jinja_parse_fail(parser, DGL_ERR_FORMAT, "'%s' outside of a loop",
                     type == JINJA_NODE_BREAK ? "break" : "continue");
    return NULL;
}

static struct jinja_node *parse_break(struct jinja_parser *parser)
{
    return parse_jump(parser, JINJA_NODE_BREAK);
}

static struct jinja_node *parse_continue(struct jinja_parser *parser)
{
    return parse_jump(parser, JINJA_NODE_CONTINUE);
}

static const struct {
    const char *name;
    struct jinja_node *(*parse)(
        struct jinja_parser *parser); /* from behind the name to before "%}" */
} statements[] = {
    {"if", parse_if},           {"for", parse_for},
    {"set", parse_set},         {"macro", parse_macro},
    {"call", parse_call_block}, {"filter", parse_filter_block},
    {"with", parse_with},       {"generation", parse_generation},
    {"break", parse_break},     {"continue", parse_continue},
};

/* Statements of jinja that chat templates have no use for: they need other templates, or an
 * extension. */
static bool fail_statement(struct jinja_parser *parser)
{
    static const char *const known[] = {"include", "import", "from",  "extends", "block",
                                        "do",      "print",  "trans", "debug",   "autoescape"};
    struct dgl_str name = jinja_token_describe(parser->token);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (jinja_at_name(parser->token, known[i]))
            return jinja_parse_fail(parser, DGL_ERR_UNSUPPORTED,
                                    "the statement '%s' is not supported in chat templates",
                                    known[i]);
    }
    return jinja_parse_fail(parser, DGL_ERR_FORMAT, "Encountered unknown tag '%.*s'",
                            (int)(name.len < 60 ? name.len : 60), name.p);
}

static bool parse_statement(struct jinja_parser *parser, struct jinja_nodes *out)
{
    for (size_t i = 0; i < sizeof(statements) / sizeof(statements[0]); i++) {
        if (!jinja_skip_name(parser, statements[i].name))
            continue;
        struct jinja_node *node = statements[i].parse(parser);
        if (!node || !jinja_expect(parser, JINJA_TOK_BLOCK_END, "end of statement block"))
            return false;
        jinja_nodes_push(out, node);
        return true;
    }
    return fail_statement(parser);
}

/* ---- templates ---- */

static bool intern_own_names(struct jinja_parser *parser)
{
    struct jinja_template *tmpl = parser->tmpl;
    tmpl->loop = jinja_intern(&parser->symbols, DGL_STR("loop"));
    tmpl->caller = jinja_intern(&parser->symbols, DGL_STR("caller"));
    tmpl->varargs = jinja_intern(&parser->symbols, DGL_STR("varargs"));
    tmpl->kwargs = jinja_intern(&parser->symbols, DGL_STR("kwargs"));
    return tmpl->loop && tmpl->caller && tmpl->varargs && tmpl->kwargs;
}

enum dgl_status jinja_parse(const struct dgl_log *log, const char *name, const char *text,
                            size_t len, struct jinja_template **out)
{
    struct jinja_tokens tokens = {0};
    struct jinja_template *tmpl = dgl_new(struct jinja_template);
    *out = NULL;
    if (!tmpl)
        return dgl_fail_memory(log, name, sizeof(*tmpl));
    struct jinja_parser parser = {
        .log = log, .tmpl = tmpl, .symbols = {.tmpl = tmpl, .seed = tok_hash_new_seed()}};
    enum dgl_status status;
    tmpl->name = dgl_arena_strndup(&tmpl->arena, name, strlen(name));
    if (!tmpl->name || !intern_own_names(&parser))
        status = dgl_fail_memory(log, name, len);
    else
        status = jinja_lex(log, name, (struct dgl_str){text, len}, &tmpl->arena, &tokens);
    if (status == DGL_OK) {
        parser.token = tokens.items;
        parse_nodes(&parser, NULL, &tmpl->body);
        status = parser.status;
    }
    free(tokens.items);
    if (status == DGL_OK)
        *out = tmpl;
    else
        jinja_destroy(&tmpl);
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
