/* jinja_ast.h: the syntax tree of a template. Immutable after parsing. The arena of the template
 * owns all nodes. */
#ifndef DGL_LOADER_JINJA_AST_H
#define DGL_LOADER_JINJA_AST_H

#include "loader/jinja/jinja_value.h"

/* A name in the template. Equal names share one symbol, so scopes compare pointers. */
struct jinja_symbol {
    struct dgl_str name;
    struct jinja_symbol *next; /* next symbol of the template */
    struct jinja_symbol *next_in_bucket;
};

enum jinja_node_type {
    /* expressions */
    JINJA_NODE_CONSTANT,
    JINJA_NODE_NAME,
    JINJA_NODE_LIST,  /* list */
    JINJA_NODE_TUPLE, /* list; also a target of assignments */
    JINJA_NODE_DICT,  /* list: key, value, key, value ... */
    JINJA_NODE_ARITHMETIC,
    JINJA_NODE_MINUS,
    JINJA_NODE_PLUS,
    JINJA_NODE_NOT,
    JINJA_NODE_AND,
    JINJA_NODE_OR,
    JINJA_NODE_CONCAT,    /* list */
    JINJA_NODE_COMPARE,   /* a, then list of JINJA_NODE_OPERAND */
    JINJA_NODE_OPERAND,   /* cmp, a */
    JINJA_NODE_CONDITION, /* a if b else c */
    JINJA_NODE_ATTRIBUTE,
    JINJA_NODE_ITEM,  /* a[b] */
    JINJA_NODE_SLICE, /* a:b:c, each may be NULL; only used as `b` of an item */
    JINJA_NODE_CALL,
    JINJA_NODE_FILTER, /* a | filter; a is NULL in block filters */
    JINJA_NODE_TEST,
    JINJA_NODE_KEYWORD, /* symbol=a in arguments */
    /* targets */
    JINJA_NODE_FIELD, /* symbol.attribute of a namespace */
    /* statements */
    JINJA_NODE_TEXT, /* constant */
    JINJA_NODE_OUTPUT,
    JINJA_NODE_IF,     /* list of JINJA_NODE_BRANCH */
    JINJA_NODE_BRANCH, /* a: condition, NULL for else; body */
    JINJA_NODE_FOR,
    JINJA_NODE_SET,       /* a = b */
    JINJA_NODE_SET_BLOCK, /* a = body, filtered by b */
    JINJA_NODE_MACRO,
    JINJA_NODE_CALL_BLOCK,   /* a: the call; the macro becomes its `caller` */
    JINJA_NODE_FILTER_BLOCK, /* body, filtered by b */
    JINJA_NODE_WITH,         /* list of JINJA_NODE_SET; body */
    JINJA_NODE_SCOPE,        /* body: {% generation %} */
    JINJA_NODE_BREAK,
    JINJA_NODE_CONTINUE,
};

struct jinja_nodes { /* linked by `next` */
    struct jinja_node *first, *last;
    size_t count;
};

struct jinja_args {
    struct jinja_nodes positional, keywords;
    struct jinja_node *star, *star_star; /* *list and **dict, or NULL */
};

struct jinja_macro_node {
    const struct jinja_symbol *name; /* NULL in call blocks */
    struct jinja_nodes params;       /* parameters: JINJA_NODE_NAME */
    struct jinja_nodes defaults;     /* defaults of the last parameters */
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
    struct jinja_node *next; /* next node of the same list */
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
            const struct jinja_builtin *builtin; /* the filter or test; NULL if unknown */
        };
        struct jinja_macro_node *macro;
        struct jinja_for_node *loop;
    };
};

struct jinja_template {
    char *name;
    struct dgl_arena arena;
    struct jinja_nodes body;
    struct jinja_symbol *symbols; /* all names in the template */
    const struct jinja_symbol *loop, *caller, *varargs, *kwargs;
};

#endif
