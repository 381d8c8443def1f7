/* jinja_call.h: built-in functions, filters, tests and methods, and their helpers for arguments,
 * attributes and elements. */
#ifndef DGL_LOADER_JINJA_CALL_H
#define DGL_LOADER_JINJA_CALL_H

#include "loader/jinja/jinja_text.h"

struct jinja_named {
    struct dgl_str name;
    struct jinja_value value;
};

/* Evaluated arguments of a call. */
struct jinja_call {
    const struct jinja_value *args;
    size_t num_args;
    const struct jinja_named *named;
    size_t num_named;
};

enum { jinja_max_params = 6 };

struct jinja_invocation {
    struct jinja_run *run;
    const struct jinja_builtin *builtin;
    struct jinja_value self;                  /* input of a filter or test, object of a method */
    struct jinja_value arg[jinja_max_params]; /* by parameter; JINJA_ABSENT if omitted */
    const struct jinja_call *call;            /* all arguments in source order */
};

typedef bool (*jinja_builtin_fn)(struct jinja_invocation *in, struct jinja_value *out);

struct jinja_builtin {
    const char *name;
    jinja_builtin_fn fn;
    /* Parameter names, separated by spaces. A trailing "!" marks a required parameter. If NULL, the
     * function reads `call` itself. */
    const char *params;
    int variant; /* selects one of several functions that share `fn` */
};

struct jinja_function {
    const struct jinja_builtin *builtin;
    struct jinja_value self;
};

/* Binds the arguments to parameters and calls the function. */
bool jinja_invoke(struct jinja_run *run, const struct jinja_builtin *builtin,
                  const struct jinja_value *self, const struct jinja_call *call,
                  struct jinja_value *out);
bool jinja_new_function(struct jinja_run *run, const struct jinja_builtin *builtin,
                        const struct jinja_value *self, struct jinja_value *out);

/* Finds a built-in by name. Returns NULL if the name is unknown. */
const struct jinja_builtin *jinja_find_filter(struct dgl_str name);
const struct jinja_builtin *jinja_find_test(struct dgl_str name);
const struct jinja_builtin *jinja_find_global(struct dgl_str name);
/* Finds a method by the type of the value. Returns NULL if the type has no such method. */
const struct jinja_builtin *jinja_find_method(const struct jinja_value *value, struct dgl_str name);

/* Tables of built-ins. Each table ends with a NULL name. Rows without a function are unsupported
 * parts of jinja or Python; using one is an error with its own message. */
extern const struct jinja_builtin jinja_filters[], jinja_tests[], jinja_globals[],
    jinja_string_methods[], jinja_list_methods[], jinja_tuple_methods[], jinja_dict_methods[],
    jinja_loop_methods[], jinja_cycler_methods[];

/* ---- arguments of built-in functions ---- */

/* The first keyword argument of this name, or NULL. */
const struct jinja_value *jinja_find_named(const struct jinja_call *call, struct dgl_str name);
/* Adds all keyword arguments to a dict. */
bool jinja_dict_set_named(struct jinja_run *run, struct jinja_dict *dict,
                          const struct jinja_call *call);

/* Return the argument as a string, integer or truth value, or `otherwise` if it is omitted or none.
 * jinja_arg_text and jinja_arg_int report other types. */
bool jinja_arg_text(struct jinja_invocation *in, size_t index, struct jinja_value otherwise,
                    struct jinja_value *out);
bool jinja_arg_int(struct jinja_invocation *in, size_t index, int64_t otherwise, int64_t *out);
bool jinja_arg_truth(const struct jinja_invocation *in, size_t index, bool otherwise);
bool jinja_arg_given(const struct jinja_invocation *in, size_t index); /* false if none */

/* ---- attributes and elements ---- */

/* value.name: tries methods, then elements. Sets *out to undefined if both are missing. */
bool jinja_get_attribute(struct jinja_run *run, const struct jinja_value *value,
                         struct dgl_str name, struct jinja_value *out);
/* value[key]: tries elements, then methods. */
bool jinja_get_item(struct jinja_run *run, const struct jinja_value *value,
                    const struct jinja_value *key, struct jinja_value *out);
/* value[from:to:step]. A bound may be none. */
bool jinja_get_slice(struct jinja_run *run, const struct jinja_value *value,
                     const struct jinja_value bounds[3], struct jinja_value *out);
/* Follows the path of an attribute= argument: "a.b.0" or an integer. An omitted or none path
 * returns the value itself. */
bool jinja_get_path(struct jinja_run *run, const struct jinja_value *value,
                    const struct jinja_value *path, struct jinja_value *out);

/* ---- used by several built-ins ---- */

/* Sorts the elements of `value` into a new list. `paths` are sort keys, separated by commas. The
 * sort is stable, also in reverse. */
bool jinja_sort(struct jinja_run *run, const struct jinja_value *value,
                const struct jinja_value *paths, bool case_sensitive, bool reverse,
                struct jinja_value *out);

/* The tojson filter of Hugging Face: json.dumps without HTML escapes. */
bool jinja_filter_tojson(struct jinja_invocation *in, struct jinja_value *out);
/* Filters that are also methods or tests. */
/* Variant: enum jinja_casing. */
bool jinja_filter_case(struct jinja_invocation *in, struct jinja_value *out);
/* Variant: enum jinja_strip_side. */
bool jinja_filter_strip(struct jinja_invocation *in, struct jinja_value *out);
/* Tests that a text is in lower or upper case. Variant: enum jinja_casing. */
bool jinja_filter_has_case(struct jinja_invocation *in, struct jinja_value *out);
bool jinja_filter_list(struct jinja_invocation *in, struct jinja_value *out);

#endif
