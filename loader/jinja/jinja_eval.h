/* jinja_eval.h: scopes, loops and macros; evaluating expressions and executing statements. */
#ifndef DGL_LOADER_JINJA_EVAL_H
#define DGL_LOADER_JINJA_EVAL_H

#include "loader/jinja/jinja_ast.h"
#include "loader/jinja/jinja_call.h"

struct jinja_scope *jinja_scope_new(struct jinja_run *run, struct jinja_scope *parent);
bool jinja_scope_set(struct jinja_run *run, struct jinja_scope *scope,
                     const struct jinja_symbol *symbol, const struct jinja_value *value);
/* Executes to run->out. A body of its own (macro, template): breaks and continues end within it. */
bool jinja_exec_body(struct jinja_run *run, const struct jinja_nodes *body);
/* loop.index and its kin; *found tells whether there is such an attribute. */
bool jinja_loop_attribute(struct jinja_run *run, struct jinja_loop *loop, struct dgl_str name,
                          struct jinja_value *out, bool *found);

#endif
