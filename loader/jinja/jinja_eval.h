/* jinja_eval.h: scopes, loops and macros; evaluating expressions and executing statements. */
#ifndef DGL_LOADER_JINJA_EVAL_H
#define DGL_LOADER_JINJA_EVAL_H

#include "loader/jinja/jinja_ast.h"
#include "loader/jinja/jinja_call.h"
#include "loader/jinja/jinja_text.h"

struct jinja_slot {
    const struct jinja_symbol *symbol;
    struct jinja_value value;
};

/* Names are looked up from the innermost scope outwards, and set in the innermost one. */
struct jinja_scope {
    struct jinja_scope *parent;
    struct jinja_slot *slots;
    size_t count, cap;
    bool captured; /* a macro may come back to it: it cannot be used again for the next round of a
                      loop */
};

struct jinja_macro {
    const struct jinja_macro_node *node;
    struct jinja_scope *scope; /* where it was defined */
};

struct jinja_loop {
    const struct jinja_node *node;
    struct jinja_scope *scope; /* around the loop, for recursion */
    struct jinja_iter iter;
    struct jinja_value current, previous, after, last_changed;
    bool has_after; /* `after` was taken from the iterator ahead of time */
    int64_t index0;
    size_t length; /* of a generator at the start; else taken when asked for */
    bool has_length;
    uint32_t depth0;
};

struct jinja_scope *jinja_scope_new(struct jinja_run *run, struct jinja_scope *parent);
bool jinja_scope_set(struct jinja_run *run, struct jinja_scope *scope,
                     const struct jinja_symbol *symbol, const struct jinja_value *value);
/* Undefined when no scope has it. */
struct jinja_value jinja_scope_get(const struct jinja_run *run, const struct jinja_symbol *symbol);

bool jinja_eval(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out);
/* A call with one more keyword argument, `caller`. */
bool jinja_eval_call(struct jinja_run *run, const struct jinja_node *node,
                     const struct jinja_value *caller, struct jinja_value *out);
/* The filters of a block, applied to its text. */
bool jinja_eval_block_filters(struct jinja_run *run, const struct jinja_node *filter,
                              const struct jinja_value *text, struct jinja_value *out);

/* Executes to run->out. A body of its own (macro, template): breaks and continues end within it. */
bool jinja_exec_body(struct jinja_run *run, const struct jinja_nodes *body);
/* The same in a scope, with the output as a text. `scope` may be NULL, after a fault. */
bool jinja_exec_text(struct jinja_run *run, const struct jinja_nodes *body,
                     struct jinja_scope *scope, struct jinja_value *out);
bool jinja_call_macro(struct jinja_run *run, const struct jinja_macro *macro,
                      const struct jinja_call *call, struct jinja_value *out);

/* loop.index and its kin; *found tells whether there is such an attribute. */
bool jinja_loop_attribute(struct jinja_run *run, struct jinja_loop *loop, struct dgl_str name,
                          struct jinja_value *out, bool *found);
bool jinja_loop_next(struct jinja_loop *loop);
/* loop(inner): the body of a recursive loop over something else, as a text. */
bool jinja_loop_recurse(struct jinja_run *run, const struct jinja_loop *loop,
                        const struct jinja_value *over, struct jinja_value *out);

#endif
