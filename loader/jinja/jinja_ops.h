/* jinja_ops.h: what operators do, with Python's rules and words. */
#ifndef DGL_LOADER_JINJA_OPS_H
#define DGL_LOADER_JINJA_OPS_H

#include "loader/jinja/jinja_value.h"

enum jinja_op {
    JINJA_OP_ADD,
    JINJA_OP_SUB,
    JINJA_OP_MUL,
    JINJA_OP_DIV,
    JINJA_OP_FLOORDIV,
    JINJA_OP_MOD,
    JINJA_OP_POW,
};
enum jinja_cmp {
    JINJA_CMP_EQ,
    JINJA_CMP_NE,
    JINJA_CMP_LT,
    JINJA_CMP_LE,
    JINJA_CMP_GT,
    JINJA_CMP_GE,
    JINJA_CMP_IN,
    JINJA_CMP_NOT_IN,
};

bool jinja_arithmetic(struct jinja_run *run, enum jinja_op op, const struct jinja_value *a,
                      const struct jinja_value *b, struct jinja_value *out);
bool jinja_negate(struct jinja_run *run, const struct jinja_value *value, bool minus,
                  struct jinja_value *out);
bool jinja_compare(struct jinja_run *run, enum jinja_cmp cmp, const struct jinja_value *a,
                   const struct jinja_value *b, bool *out);
bool jinja_equal(struct jinja_run *run, const struct jinja_value *a, const struct jinja_value *b,
                 bool *out);
/* *out < 0, 0, > 0; reports what has no order. `sign` is the operator for the message. */
bool jinja_order(struct jinja_run *run, const char *sign, const struct jinja_value *a,
                 const struct jinja_value *b, int *out);
bool jinja_contains(struct jinja_run *run, const struct jinja_value *container,
                    const struct jinja_value *item, bool *out);
/* a + b of texts, with the rules of Markup. */
bool jinja_concat(struct jinja_run *run, const struct jinja_value *a, const struct jinja_value *b,
                  struct jinja_value *out);
/* & < > ' " as HTML entities; the result is safe, and a safe text stays as it is. */
bool jinja_escape(struct jinja_run *run, const struct jinja_value *text, struct jinja_value *out);

#endif
