/* jinja_ast.h: a parsed template. Immutable after parsing; all of it lives in the template's arena.
 */
#ifndef DGL_LOADER_JINJA_AST_H
#define DGL_LOADER_JINJA_AST_H

#include "loader/jinja/jinja_value.h"

/* A name of the template. There is one symbol per name, so that scopes compare pointers. */
struct jinja_symbol {
    struct dgl_str name;
    struct jinja_symbol *next; /* of the template */
    struct jinja_symbol *next_in_bucket;
};

enum jinja_node_type {
    /* expressions */
    JINJA_NODE_CONSTANT,
    JINJA_NODE_NAME,
    JINJA_NODE_LIST,  /* list */
    JINJA_NODE_TUPLE, /* list; also the target of an assignment */
    JINJA_NODE_DICT,  /* list: key, value, key, value ... */
    JINJA_NODE_ARITHMETIC,
    JINJA_NODE_MINUS,
    JINJA_NODE_PLUS,
    JINJA_NODE_NOT,
    JINJA_NODE_AND,
    JINJA_NODE_OR,
    JINJA_NODE_CONCAT,    /* list */
    JINJA_NODE_COMPARE,   /* list of JINJA_NODE_OPERAND behind `a` */
    JINJA_NODE_OPERAND,   /* cmp, a */
    JINJA_NODE_CONDITION, /* a if b else c */
    JINJA_NODE_ATTRIBUTE,
    JINJA_NODE_ITEM,  /* a[b] */
    JINJA_NODE_SLICE, /* a:b:c, each may be NULL; only as `b` of an item */
    JINJA_NODE_CALL,
    JINJA_NODE_FILTER, /* `a` is NULL for the text of a block */
    JINJA_NODE_TEST,
    JINJA_NODE_KEYWORD, /* symbol=a, in arguments */
    /* targets */
    JINJA_NODE_FIELD, /* symbol.attribute of a namespace */
    /* statements */
    JINJA_NODE_TEXT, /* constant */
    JINJA_NODE_OUTPUT,
    JINJA_NODE_IF,     /* list of JINJA_NODE_BRANCH */
    JINJA_NODE_BRANCH, /* a: condition, NULL for else; body */
    JINJA_NODE_FOR,
    JINJA_NODE_SET,       /* a = b */
    JINJA_NODE_SET_BLOCK, /* a = body, through the filters b */
    JINJA_NODE_MACRO,
    JINJA_NODE_CALL_BLOCK,   /* a: the call; the macro is its caller */
    JINJA_NODE_FILTER_BLOCK, /* body through the filters b */
    JINJA_NODE_WITH,         /* list of JINJA_NODE_SET; body */
    JINJA_NODE_SCOPE,        /* body: {% generation %} */
    JINJA_NODE_BREAK,
    JINJA_NODE_CONTINUE,
};

struct jinja_nodes { /* chained by `next` */
    struct jinja_node *first, *last;
    size_t count;
};

struct jinja_args {
    struct jinja_nodes positional, keywords;
    struct jinja_node *star, *star_star; /* *list and **dict, or NULL */
};

struct jinja_macro_node {
    const struct jinja_symbol *name; /* NULL: the block of a call */
    struct jinja_nodes params;       /* names */
    struct jinja_nodes defaults;     /* of the last ones */
    struct jinja_nodes body;
    bool uses_varargs, uses_kwargs, uses_caller;
};

struct jinja_for_node {
    struct jinja_node *target, *over, *filter; /* `filter` may be NULL */
    struct jinja_nodes body, otherwise;
    bool recursive;
};

struct jinja_builtin;

struct jinja_node {
    enum jinja_node_type type;
    uint32_t line;
    struct jinja_node *next; /* in the list that it is part of */
    struct jinja_node *a, *b;
    union {
        struct jinja_value constant;
        struct {
            const struct jinja_symbol *symbol;
            const struct jinja_symbol *attribute;
        };
        struct {
            struct jinja_nodes list, body;
        };
        enum jinja_op op;
        enum jinja_cmp cmp;
        struct jinja_node *c;
        struct { /* CALL, FILTER, TEST */
            struct jinja_args *args;
            const struct jinja_symbol *name;
            const struct jinja_builtin *builtin; /* of filters and tests; NULL: unknown */
        };
        struct jinja_macro_node *macro;
        struct jinja_for_node *loop;
    };
};

struct jinja_template {
    char *name;
    struct dgl_arena arena;
    struct jinja_nodes body;
    struct jinja_symbol *symbols; /* every name that occurs */
    const struct jinja_symbol *loop, *caller, *varargs, *kwargs;
};

#endif
