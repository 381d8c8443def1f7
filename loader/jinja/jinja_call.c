/* Calls: finding built-in functions, binding arguments to their parameters. */
#include "loader/jinja/jinja_call.h"

#include <string.h>

#include "loader/jinja/jinja_eval.h"

/* ---- finding ---- */

static const struct jinja_builtin *find_in(const struct jinja_builtin *table, struct dgl_str name)
{
    for (; table->name; table++) {
        if (dgl_str_eq(name, table->name))
            return table;
    }
    return NULL;
}

const struct jinja_builtin *jinja_find_filter(struct dgl_str name)
{
    const struct jinja_builtin *const tables[] = {jinja_text_filters, jinja_list_filters,
                                                  jinja_select_filters, jinja_number_filters};
    const struct jinja_builtin *found = NULL;
    for (size_t i = 0; !found && i < sizeof(tables) / sizeof(tables[0]); i++)
        found = find_in(tables[i], name);
    return found;
}

const struct jinja_builtin *jinja_find_test(struct dgl_str name)
{
    return find_in(jinja_tests, name);
}

const struct jinja_builtin *jinja_find_global(struct dgl_str name)
{
    return find_in(jinja_globals, name);
}

const struct jinja_builtin *jinja_find_method(const struct jinja_value *value, struct dgl_str name)
{
    const struct jinja_builtin *found = NULL;
    switch (value->type) {
    case JINJA_STRING:
        found = find_in(jinja_string_methods, name);
        return found ? found : find_in(jinja_search_methods, name);
    case JINJA_LIST:
        return find_in(jinja_list_methods, name);
    case JINJA_TUPLE:
        return find_in(jinja_tuple_methods, name);
    case JINJA_DICT:
        return find_in(jinja_dict_methods, name);
    case JINJA_LOOP:
        return find_in(jinja_loop_methods, name);
    case JINJA_CYCLER:
        return value->cycler->list ? find_in(jinja_cycler_methods, name) : NULL;
    default:
        return NULL;
    }
}

bool jinja_new_function(struct jinja_run *run, const struct jinja_builtin *builtin,
                        const struct jinja_value *self, struct jinja_value *out)
{
    struct jinja_function *function = jinja_alloc(run, 1, sizeof(*function));
    if (!function)
        return false;
    *function = (struct jinja_function){builtin, *self};
    *out = (struct jinja_value){.type = JINJA_FUNCTION, .function = function};
    return true;
}

/* ---- binding ---- */

struct param {
    struct dgl_str name;
    bool required;
};

static size_t split_params(const char *text, struct param out[jinja_max_params])
{
    struct dgl_str rest = dgl_str_of(text), name;
    size_t count = 0;
    while (count < jinja_max_params && dgl_str_split(&rest, ' ', &name)) {
        bool required = name.p[name.len - 1] == '!';
        out[count++] = (struct param){{name.p, name.len - required}, required};
    }
    return count;
}

static bool bind_named(struct jinja_run *run, struct jinja_invocation *in,
                       const struct param *params, size_t count)
{
    for (size_t i = 0; i < in->call->num_named; i++) {
        const struct jinja_named *named = &in->call->named[i];
        size_t p = 0;
        while (p < count && (params[p].name.len != named->name.len ||
                             memcmp(params[p].name.p, named->name.p, named->name.len) != 0))
            p++;
        int shown = (int)(named->name.len < 60 ? named->name.len : 60);
        if (p == count)
            return jinja_error(run, "%s() got an unexpected keyword argument '%.*s'",
                               in->builtin->name, shown, named->name.p);
        if (in->arg[p].type != JINJA_ABSENT)
            return jinja_error(run, "%s() got multiple values for argument '%.*s'",
                               in->builtin->name, shown, named->name.p);
        in->arg[p] = named->value;
    }
    return true;
}

static bool bind(struct jinja_run *run, struct jinja_invocation *in)
{
    struct param params[jinja_max_params];
    size_t count = split_params(in->builtin->params, params);
    if (in->call->num_args > count)
        return jinja_error(run, "%s() takes at most %zu argument%s (%zu given)", in->builtin->name,
                           count, count == 1 ? "" : "s", in->call->num_args);
    for (size_t i = 0; i < in->call->num_args; i++)
        in->arg[i] = in->call->args[i];
    if (!bind_named(run, in, params, count))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (params[i].required && in->arg[i].type == JINJA_ABSENT)
            return jinja_error(run, "%s() missing required argument '%.*s'", in->builtin->name,
                               (int)params[i].name.len, params[i].name.p);
    }
    return true;
}

bool jinja_invoke(struct jinja_run *run, const struct jinja_builtin *builtin,
                  const struct jinja_value *self, const struct jinja_call *call,
                  struct jinja_value *out)
{
    struct jinja_invocation in = {.builtin = builtin, .self = *self, .call = call};
    if (!builtin->fn)
        return jinja_fail(run, DGL_ERR_UNSUPPORTED, "'%s' is not supported in chat templates",
                          builtin->name);
    return (!builtin->params || bind(run, &in)) && builtin->fn(run, &in, out);
}

/* ---- what can be called ---- */

/* A joiner is nothing the first time, and its separator from then on. */
static bool call_joiner(struct jinja_cycler *joiner, struct jinja_value *out)
{
    *out = joiner->next ? joiner->separator : jinja_literal("");
    joiner->next = 1;
    return true;
}

static bool call_loop(struct jinja_run *run, const struct jinja_loop *loop,
                      const struct jinja_call *call, struct jinja_value *out)
{
    if (!loop->node->loop->recursive)
        return jinja_error(run, "The loop must have the 'recursive' marker to be called "
                                "recursively.");
    if (call->num_args != 1 || call->num_named)
        return jinja_error(run, "loop() takes 1 argument");
    return jinja_loop_recurse(run, loop, &call->args[0], out);
}

bool jinja_call_value(struct jinja_run *run, const struct jinja_value *callee,
                      const struct jinja_call *call, struct jinja_value *out)
{
    switch (callee->type) {
    case JINJA_UNDEFINED:
        return jinja_fail_undefined(run, callee);
    case JINJA_FUNCTION:
        return jinja_invoke(run, callee->function->builtin, &callee->function->self, call, out);
    case JINJA_MACRO:
        return jinja_call_macro(run, callee->macro, call, out);
    case JINJA_LOOP:
        return call_loop(run, callee->loop, call, out);
    case JINJA_CYCLER:
        if (!callee->cycler->list)
            return call_joiner(callee->cycler, out);
        break;
    default:
        break;
    }
    return jinja_error(run, "'%s' object is not callable", jinja_type_name(callee));
}

/* ---- arguments of built-in functions ---- */

bool jinja_arg_given(const struct jinja_invocation *in, size_t index)
{
    return in->arg[index].type != JINJA_ABSENT && in->arg[index].type != JINJA_NONE;
}

bool jinja_arg_text(struct jinja_run *run, struct jinja_invocation *in, size_t index,
                    struct jinja_value otherwise, struct jinja_value *out)
{
    *out = jinja_arg_given(in, index) ? in->arg[index] : otherwise;
    if (out->type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, out);
    if (out->type == JINJA_STRING || out->type == JINJA_ABSENT)
        return true;
    return jinja_error(run, "%s() argument must be str, not %s", in->builtin->name,
                       jinja_type_name(out));
}

bool jinja_arg_int(struct jinja_run *run, struct jinja_invocation *in, size_t index,
                   int64_t otherwise, int64_t *out)
{
    const struct jinja_value *arg = &in->arg[index];
    *out = otherwise;
    if (!jinja_arg_given(in, index))
        return true;
    if (arg->type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, arg);
    if (!jinja_is_integral(arg))
        return jinja_error(run, "'%s' object cannot be interpreted as an integer",
                           jinja_type_name(arg));
    *out = jinja_integer(arg);
    return true;
}

bool jinja_arg_truth(const struct jinja_invocation *in, size_t index, bool otherwise)
{
    return in->arg[index].type == JINJA_ABSENT ? otherwise : jinja_truth(&in->arg[index]);
}
