/* jinja_call.h: built-in functions, filters, tests and methods, and what they share: arguments,
 * attributes and elements of values. */
#ifndef DGL_LOADER_JINJA_CALL_H
#define DGL_LOADER_JINJA_CALL_H

#include "loader/jinja/jinja_text.h"

struct jinja_named {
    struct dgl_str name;
    struct jinja_value value;
};

/* Evaluated arguments. */
struct jinja_call {
    const struct jinja_value *args;
    size_t num_args;
    const struct jinja_named *named;
    size_t num_named;
};

enum { jinja_max_params = 6 };

struct jinja_invocation {
    const struct jinja_builtin *builtin;
    struct jinja_value self; /* what a filter or test is applied to, the object of a method */
    struct jinja_value arg[jinja_max_params]; /* by parameter; JINJA_ABSENT where none was given */
    const struct jinja_call *call;            /* as written */
};

typedef bool (*jinja_builtin_fn)(struct jinja_run *run, struct jinja_invocation *in,
                                 struct jinja_value *out);

struct jinja_builtin {
    const char *name;
    jinja_builtin_fn fn;
    /* Names of the parameters, separated by blanks; "!" behind one that is required. NULL: the
     * function looks at `call` itself. */
    const char *params;
    int variant; /* selects one of several that share `fn`; its meaning is that function's */
};

struct jinja_function {
    const struct jinja_builtin *builtin;
    struct jinja_value self;
};

/* Binds arguments to parameters and calls. */
bool jinja_invoke(struct jinja_run *run, const struct jinja_builtin *builtin,
                  const struct jinja_value *self, const struct jinja_call *call,
                  struct jinja_value *out);
bool jinja_new_function(struct jinja_run *run, const struct jinja_builtin *builtin,
                        const struct jinja_value *self, struct jinja_value *out);

/* By name; NULL when there is none. */
const struct jinja_builtin *jinja_find_filter(struct dgl_str name);
const struct jinja_builtin *jinja_find_test(struct dgl_str name);
const struct jinja_builtin *jinja_find_global(struct dgl_str name);
/* The method of a value; NULL when its type has none of the name. */
const struct jinja_builtin *jinja_find_method(const struct jinja_value *value, struct dgl_str name);

/* Tables of the files that implement them; each ends with a NULL name. A row without a function is
 * something that Python has and chat templates do without: naming it is an error of its own. */
extern const struct jinja_builtin jinja_filters[], jinja_tests[], jinja_globals[],
    jinja_string_methods[], jinja_list_methods[], jinja_tuple_methods[], jinja_dict_methods[],
    jinja_loop_methods[], jinja_cycler_methods[];

/* ---- arguments of built-in functions ---- */

/* The first keyword argument of this name, or NULL. */
const struct jinja_value *jinja_find_named(const struct jinja_call *call, struct dgl_str name);
/* Adds all keyword arguments to a dict. */
bool jinja_dict_set_named(struct jinja_run *run, struct jinja_dict *dict,
                          const struct jinja_call *call);

/* The argument as a text, integer or truth value, or what stands for it when it was not given.
 * Report other types. */
bool jinja_arg_text(struct jinja_run *run, struct jinja_invocation *in, size_t index,
                    struct jinja_value otherwise, struct jinja_value *out);
bool jinja_arg_int(struct jinja_run *run, struct jinja_invocation *in, size_t index,
                   int64_t otherwise, int64_t *out);
bool jinja_arg_truth(const struct jinja_invocation *in, size_t index, bool otherwise);
bool jinja_arg_given(const struct jinja_invocation *in, size_t index); /* and not none */

/* ---- looking into values ---- */

/* value.name: methods first, then elements. Undefined when there is neither. */
bool jinja_get_attribute(struct jinja_run *run, const struct jinja_value *value,
                         struct dgl_str name, struct jinja_value *out);
/* value[key]: elements first, then methods. */
bool jinja_get_item(struct jinja_run *run, const struct jinja_value *value,
                    const struct jinja_value *key, struct jinja_value *out);
/* value[from:to:step]; bounds may be none. */
bool jinja_get_slice(struct jinja_run *run, const struct jinja_value *value,
                     const struct jinja_value bounds[3], struct jinja_value *out);
/* "a.b.0" of an attribute= argument, or an integer; ABSENT and none lead to the value itself. */
bool jinja_get_path(struct jinja_run *run, const struct jinja_value *value,
                    const struct jinja_value *path, struct jinja_value *out);

/* ---- order ---- */

/* A sorted list of what `value` holds; `paths` may be several, "a,b". Stable, also in reverse. */
bool jinja_sort(struct jinja_run *run, const struct jinja_value *value,
                const struct jinja_value *paths, bool case_sensitive, bool reverse,
                struct jinja_value *out);

/* The filter tojson, as Hugging Face defines it: json.dumps without HTML escapes. */
bool jinja_filter_tojson(struct jinja_run *run, struct jinja_invocation *in,
                         struct jinja_value *out);

#endif
