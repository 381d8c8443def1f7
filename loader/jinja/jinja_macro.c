/* Calling macros, which are functions of templates. */
#include <string.h>

#include "loader/jinja/jinja_eval.h"

/* Takes a keyword argument off the list of those that are left over. */
static bool take_named(const struct jinja_call *call, bool *taken, struct dgl_str name,
                       struct jinja_value *out)
{
    for (size_t i = 0; i < call->num_named; i++) {
        const struct dgl_str *other = &call->named[i].name;
        if (!taken[i] && other->len == name.len && memcmp(other->p, name.p, name.len) == 0) {
            taken[i] = true;
            *out = call->named[i].value;
            return true;
        }
    }
    return false;
}

static bool missing_param(struct jinja_run *run, struct dgl_str name, struct jinja_value *out)
{
    struct dgl_buf text = {0};
    dgl_buf_printf(&text, "parameter '%.*s' was not provided", (int)name.len, name.p);
    char *message = jinja_alloc(run, text.len + 1, 1);
    if (message && text.p)
        memcpy(message, text.p, text.len);
    if (message)
        *out = jinja_undefined(message);
    dgl_buf_finish(&text);
    return message != NULL;
}

/* Sets the parameters in run->scope, which is the macro's. */
static bool bind_params(struct jinja_run *run, const struct jinja_macro_node *node,
                        const struct jinja_call *call, bool *taken)
{
    const struct jinja_node *fallback = node->defaults.first;
    size_t required = node->params.count - node->defaults.count, index = 0;
    for (const struct jinja_node *p = node->params.first; p; p = p->next, index++) {
        struct jinja_value value = {0};
        if (index < call->num_args)
            value = call->args[index];
        else
            take_named(call, taken, p->symbol->name, &value);
        const struct jinja_node *otherwise = index >= required ? fallback : NULL;
        if (otherwise)
            fallback = fallback->next;
        if (value.type == JINJA_ABSENT &&
            !(otherwise ? jinja_eval(run, otherwise, &value)
                        : missing_param(run, p->symbol->name, &value)))
            return false;
        if (!jinja_scope_set(run, run->scope, p->symbol, &value))
            return false;
    }
    return true;
}

/* Whether one of the parameters is called `caller`. */
static bool has_param(const struct jinja_macro_node *node, const struct jinja_symbol *symbol)
{
    const struct jinja_node *p = node->params.first;
    while (p && p->symbol != symbol)
        p = p->next;
    return p != NULL;
}

static bool bind_rest(struct jinja_run *run, const struct jinja_macro_node *node,
                      const struct jinja_call *call, const bool *taken)
{
    struct jinja_value varargs, kwargs;
    if (!jinja_new_list(run, JINJA_TUPLE, 0, &varargs) || !jinja_new_dict(run, JINJA_DICT, &kwargs))
        return false;
    for (size_t i = node->params.count; i < call->num_args; i++) {
        if (!jinja_list_push(run, varargs.list, call->args[i]))
            return false;
    }
    for (size_t i = 0; i < call->num_named; i++) {
        struct jinja_value key = jinja_text_of(call->named[i].name, false);
        if (!taken[i] && !jinja_dict_set(run, kwargs.dict, &key, &call->named[i].value))
            return false;
    }
    struct dgl_str name = node->name ? node->name->name : DGL_STR("caller");
    if (kwargs.dict->count && !node->uses_kwargs)
        return jinja_error(run, "macro '%.*s' takes no keyword argument '%.*s'", (int)name.len,
                           name.p, (int)kwargs.dict->entries[0].key.text.len,
                           kwargs.dict->entries[0].key.text.p);
    if (varargs.list->count && !node->uses_varargs)
        return jinja_error(run, "macro '%.*s' takes not more than %zu argument(s)", (int)name.len,
                           name.p, node->params.count);
    return (!node->uses_kwargs || jinja_scope_set(run, run->scope, run->tmpl->kwargs, &kwargs)) &&
           (!node->uses_varargs || jinja_scope_set(run, run->scope, run->tmpl->varargs, &varargs));
}

static bool bind_macro(struct jinja_run *run, const struct jinja_macro_node *node,
                       const struct jinja_call *call)
{
    bool *taken = jinja_alloc(run, call->num_named, sizeof(*taken));
    if (!taken || !bind_params(run, node, call, taken))
        return false;
    if (node->uses_caller && !has_param(node, run->tmpl->caller)) {
        struct jinja_value caller = jinja_undefined("No caller defined");
        take_named(call, taken, DGL_STR("caller"), &caller);
        if (!jinja_scope_set(run, run->scope, run->tmpl->caller, &caller))
            return false;
    }
    return bind_rest(run, node, call, taken);
}

bool jinja_call_macro(struct jinja_run *run, const struct jinja_macro *macro,
                      const struct jinja_call *call, struct jinja_value *out)
{
    struct jinja_scope *outer = run->scope, *scope = jinja_scope_new(run, macro->scope);
    if (!scope || !jinja_enter(run))
        return false;
    run->scope = scope;
    bool ok =
        bind_macro(run, macro->node, call) && jinja_exec_text(run, &macro->node->body, scope, out);
    run->scope = outer;
    jinja_leave(run);
    return ok;
}
