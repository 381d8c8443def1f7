/* jinja_eval.h: executing a syntax tree. The interface between the evaluator, jinja_render.c and
 * jinja_call.c. */
#ifndef DGL_LOADER_JINJA_EVAL_H
#define DGL_LOADER_JINJA_EVAL_H

#include "loader/jinja/jinja_ast.h"
#include "loader/jinja/jinja_call.h"

struct jinja_scope *jinja_scope_new(struct jinja_run *run, struct jinja_scope *parent);
bool jinja_scope_set(struct jinja_run *run, struct jinja_scope *scope,
                     const struct jinja_symbol *symbol, const struct jinja_value *value);
/* Executes the statements of a template and appends the output to run->out. */
bool jinja_exec_body(struct jinja_run *run, const struct jinja_nodes *body);
/* Attributes of the variable `loop`: loop.index etc. Sets *found to false if the name is
 * unknown. */
bool jinja_loop_attribute(struct jinja_run *run, struct jinja_loop *loop, struct dgl_str name,
                          struct jinja_value *out, bool *found);

#endif
