/* The evaluator: scopes, macros, expressions and statements. */
#include "loader/jinja/jinja_eval.h"

#include <string.h>

struct jinja_slot {
    const struct jinja_symbol *symbol;
    struct jinja_value value;
};

/* Names are searched from the innermost scope outwards, and set in the innermost scope. */
struct jinja_scope {
    struct jinja_scope *parent;
    struct jinja_slot *slots;
    size_t count, cap;
    bool captured; /* a macro refers to it, so loops cannot reuse it */
};

struct jinja_macro {
    const struct jinja_macro_node *node;
    struct jinja_scope *scope; /* scope of the definition */
};

struct jinja_loop {
    const struct jinja_node *node;
    struct jinja_scope *scope; /* scope outside the loop, for recursion */
    struct jinja_iter iter;
    struct jinja_value current, previous, after, last_changed;
    bool has_after; /* `after` was read from the iterator in advance */
    int64_t index0;
    size_t length; /* set at the start for generators, else on demand */
    bool has_length;
    uint32_t depth0;
};

/* The statement to continue with. */
enum flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE, FLOW_FAIL };

static bool eval(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out);
/* Executes nodes in a scope and returns the output as a string. Fails if `scope` is NULL. */
static enum flow exec_captured(struct jinja_run *run, const struct jinja_nodes *nodes,
                               struct jinja_scope *scope, struct jinja_value *out);
/* Executes loop(inner): the body of a recursive loop over another value. Returns its output as a
 * string. */
static bool loop_recurse(struct jinja_run *run, const struct jinja_loop *loop,
                         const struct jinja_value *over, struct jinja_value *out);

/* ---- scopes ---- */

struct jinja_scope *jinja_scope_new(struct jinja_run *run, struct jinja_scope *parent)
{
    struct jinja_scope *scope = jinja_alloc(run, 1, sizeof(*scope));
    if (scope)
        scope->parent = parent;
    return scope;
}

static struct jinja_slot *find_slot(const struct jinja_scope *scope,
                                    const struct jinja_symbol *symbol)
{
    for (size_t i = 0; i < scope->count; i++) {
        if (scope->slots[i].symbol == symbol)
            return &scope->slots[i];
    }
    return NULL;
}

bool jinja_scope_set(struct jinja_run *run, struct jinja_scope *scope,
                     const struct jinja_symbol *symbol, const struct jinja_value *value)
{
    struct jinja_slot *slot = find_slot(scope, symbol);
    if (!slot && scope->count == scope->cap) {
        size_t cap = scope->cap * 2 + 4;
        struct jinja_slot *slots = jinja_alloc(run, cap, sizeof(*slots));
        if (!slots)
            return false;
        if (scope->count)
            memcpy(slots, scope->slots, scope->count * sizeof(*slots));
        scope->slots = slots;
        scope->cap = cap;
    }
    if (!slot)
        slot = &scope->slots[scope->count++];
    *slot = (struct jinja_slot){symbol, *value};
    return true;
}

/* Returns undefined if the name is not found. */
static struct jinja_value scope_get(const struct jinja_run *run, const struct jinja_symbol *symbol)
{
    for (const struct jinja_scope *scope = run->scope; scope; scope = scope->parent) {
        const struct jinja_slot *slot = find_slot(scope, symbol);
        if (slot)
            return slot->value;
    }
    return (struct jinja_value){
        .type = JINJA_UNDEFINED,
        .missing = {.name = symbol->name.p, .len = symbol->name.len, .owner = ""}};
}

/* ---- the variable `loop` ---- */

static bool loop_next(struct jinja_loop *loop)
{
    loop->previous = loop->current;
    if (loop->has_after)
        loop->current = loop->after;
    else if (!jinja_iter_next(&loop->iter, &loop->current))
        return false;
    loop->has_after = false;
    loop->index0++;
    return true;
}

/* Reads the next element in advance. Returns false at the end. */
static bool peek(struct jinja_loop *loop)
{
    if (!loop->has_after)
        loop->has_after = jinja_iter_next(&loop->iter, &loop->after);
    return loop->has_after;
}

bool jinja_loop_attribute(struct jinja_run *run, struct jinja_loop *loop, struct dgl_str name,
                          struct jinja_value *out, bool *found)
{
    *found = true;
    if (dgl_str_eq(name, "index0"))
        *out = jinja_int(loop->index0);
    else if (dgl_str_eq(name, "index"))
        *out = jinja_int(loop->index0 + 1);
    else if (dgl_str_eq(name, "first"))
        *out = jinja_bool(loop->index0 == 0);
    else if (dgl_str_eq(name, "last"))
        *out = jinja_bool(!peek(loop));
    else if (dgl_str_eq(name, "depth0"))
        *out = jinja_int(loop->depth0);
    else if (dgl_str_eq(name, "depth"))
        *out = jinja_int((int64_t)loop->depth0 + 1);
    else if (dgl_str_eq(name, "previtem"))
        *out = loop->index0 > 0 ? loop->previous : jinja_undefined("there is no previous item");
    else if (dgl_str_eq(name, "nextitem"))
        *out = peek(loop) ? loop->after : jinja_undefined("there is no next item");
    else if (!loop->has_length && !jinja_length(run, &loop->iter.over, &loop->length))
        return false;
    else {
        int64_t length = (int64_t)loop->length;
        loop->has_length = true;
        if (dgl_str_eq(name, "length"))
            *out = jinja_int(length);
        else if (dgl_str_eq(name, "revindex"))
            *out = jinja_int(length - loop->index0);
        else if (dgl_str_eq(name, "revindex0"))
            *out = jinja_int(length - loop->index0 - 1);
        else
            *found = false;
    }
    return true;
}

static bool loop_cycle(struct jinja_invocation *in, struct jinja_value *out)
{
    if (in->call->num_args == 0)
        return jinja_error(in->run, "no items for cycling given");
    *out = in->call->args[(size_t)in->self.loop->index0 % in->call->num_args];
    return true;
}

static bool loop_changed(struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_loop *loop = in->self.loop;
    struct jinja_value values;
    bool same = false;
    if (!jinja_new_list(in->run, JINJA_TUPLE, in->call->num_args, &values) ||
        !jinja_list_extend(in->run, values.list, in->call->args, in->call->num_args))
        return false;
    if (loop->last_changed.type != JINJA_ABSENT &&
        !jinja_equal(in->run, &loop->last_changed, &values, &same))
        return false;
    loop->last_changed = values;
    *out = jinja_bool(!same);
    return true;
}

const struct jinja_builtin jinja_loop_methods[] = {
    {"cycle", loop_cycle, NULL, 0}, {"changed", loop_changed, NULL, 0}, {.name = NULL}};

/* ---- macros ---- */

/* Finds a keyword argument that is not bound yet, and marks it as bound. */
static bool take_named(const struct jinja_call *call, bool *taken, struct dgl_str name,
                       struct jinja_value *out)
{
    for (size_t i = 0; i < call->num_named; i++) {
        if (!taken[i] && dgl_str_equal(call->named[i].name, name)) {
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

/* Sets the parameters in run->scope, the scope of the macro. */
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
            !(otherwise ? eval(run, otherwise, &value)
                        : missing_param(run, p->symbol->name, &value)))
            return false;
        if (!jinja_scope_set(run, run->scope, p->symbol, &value))
            return false;
    }
    return true;
}

/* Binds all arguments of a call, and varargs, kwargs and caller, in run->scope. */
static bool bind_macro(struct jinja_run *run, const struct jinja_macro_node *node,
                       const struct jinja_call *call)
{
    const struct jinja_template *tmpl = run->tmpl;
    const struct jinja_node *p = node->params.first;
    struct jinja_value varargs, kwargs;
    bool *taken = jinja_alloc(run, call->num_named, sizeof(*taken));
    if (!taken || !bind_params(run, node, call, taken))
        return false;
    while (p && p->symbol != tmpl->caller)
        p = p->next;
    if (node->uses_caller && !p) {
        struct jinja_value caller = jinja_undefined("No caller defined");
        take_named(call, taken, DGL_STR("caller"), &caller);
        if (!jinja_scope_set(run, run->scope, tmpl->caller, &caller))
            return false;
    }
    const size_t count = node->params.count < call->num_args ? node->params.count : call->num_args;
    const struct jinja_value *more = call->num_args > count ? call->args + count : NULL;
    if (!jinja_new_list(run, JINJA_TUPLE, 0, &varargs) ||
        (more && !jinja_list_extend(run, varargs.list, more, call->num_args - count)) ||
        !jinja_new_dict(run, JINJA_DICT, &kwargs))
        return false;
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
    return (!node->uses_kwargs || jinja_scope_set(run, run->scope, tmpl->kwargs, &kwargs)) &&
           (!node->uses_varargs || jinja_scope_set(run, run->scope, tmpl->varargs, &varargs));
}

static bool call_macro(struct jinja_run *run, const struct jinja_macro *macro,
                       const struct jinja_call *call, struct jinja_value *out)
{
    struct jinja_scope *outer = run->scope, *scope = jinja_scope_new(run, macro->scope);
    if (!scope || !jinja_enter(run))
        return false;
    run->scope = scope;
    bool ok = bind_macro(run, macro->node, call) &&
              exec_captured(run, &macro->node->body, scope, out) != FLOW_FAIL;
    run->scope = outer;
    jinja_leave(run);
    return ok;
}

/* ---- calls ---- */

/* Calls a function, macro, loop or joiner. Reports other types. */
static bool call_value(struct jinja_run *run, const struct jinja_value *callee,
                       const struct jinja_call *call, struct jinja_value *out)
{
    switch (callee->type) {
    case JINJA_UNDEFINED:
        return jinja_fail_undefined(run, callee);
    case JINJA_FUNCTION:
        return jinja_invoke(run, callee->function->builtin, &callee->function->self, call, out);
    case JINJA_MACRO:
        return call_macro(run, callee->macro, call, out);
    case JINJA_LOOP:
        if (!callee->loop->node->loop->recursive)
            return jinja_error(run, "The loop must have the 'recursive' marker to be called "
                                    "recursively.");
        if (call->num_args != 1 || call->num_named)
            return jinja_error(run, "loop() takes 1 argument");
        return loop_recurse(run, callee->loop, &call->args[0], out);
    case JINJA_CYCLER:
        if (callee->cycler->list)
            break;
        /* A joiner returns "" in its first call, later its separator. */
        *out = callee->cycler->next ? callee->cycler->separator : jinja_literal("");
        callee->cycler->next = 1;
        return true;
    default:
        break;
    }
    return jinja_error(run, "'%s' object is not callable", jinja_type_name(callee));
}

/* Evaluates the arguments of a call. `caller` is an additional keyword argument, or NULL. */
static bool eval_arguments(struct jinja_run *run, const struct jinja_args *args,
                           const struct jinja_value *caller, struct jinja_call *out)
{
    struct jinja_value star, list = {0}, dict = {0};
    if (args->star &&
        (!eval(run, args->star, &star) || !jinja_collect(run, &star, JINJA_LIST, &list)))
        return false;
    if (args->star_star && !eval(run, args->star_star, &dict))
        return false;
    if (args->star_star && dict.type != JINJA_DICT)
        return jinja_error(run, "argument after ** must be a mapping, not %s",
                           jinja_type_name(&dict));
    size_t stars = list.type ? list.list->count : 0, pairs = dict.type ? dict.dict->count : 0;
    size_t num_args = args->positional.count + stars;
    size_t num_named = args->keywords.count + pairs + (caller ? 1 : 0);
    struct jinja_value *values = num_args ? jinja_alloc(run, num_args, sizeof(*values)) : NULL;
    struct jinja_named *named = num_named ? jinja_alloc(run, num_named, sizeof(*named)) : NULL;
    if ((num_args && !values) || (num_named && !named) || !jinja_step(run, stars + pairs))
        return false;
    *out = (struct jinja_call){.args = values, .named = named};
    for (const struct jinja_node *n = args->positional.first; n; n = n->next) {
        if (!eval(run, n, &values[out->num_args++]))
            return false;
    }
    for (size_t i = 0; i < stars; i++)
        values[out->num_args++] = list.list->items[i];
    for (const struct jinja_node *n = args->keywords.first; n; n = n->next) {
        named[out->num_named].name = n->symbol->name;
        if (!eval(run, n->a, &named[out->num_named++].value))
            return false;
    }
    if (caller)
        named[out->num_named++] = (struct jinja_named){DGL_STR("caller"), *caller};
    for (size_t i = 0; i < pairs; i++) {
        const struct jinja_entry *entry = &dict.dict->entries[i];
        if (!jinja_is_text(&entry->key))
            return jinja_error(run, "keywords must be strings");
        named[out->num_named++] = (struct jinja_named){jinja_str(&entry->key), entry->value};
    }
    return true;
}

/* Evaluates a call. `caller` is an additional keyword argument, or NULL. */
static bool eval_call(struct jinja_run *run, const struct jinja_node *node,
                      const struct jinja_value *caller, struct jinja_value *out)
{
    struct jinja_value callee;
    struct jinja_call call;
    if (!eval(run, node->a, &callee) || !eval_arguments(run, node->args, caller, &call))
        return false;
    run->budget.line = node->line;
    return call_value(run, &callee, &call, out);
}

/* Evaluates a filter (`x|f(...)`) or a test (`x is t(...)`) on `self`. A test returns a boolean. */
static bool eval_application(struct jinja_run *run, const struct jinja_node *node,
                             const struct jinja_value *self, struct jinja_value *out)
{
    struct jinja_call call;
    bool filter = node->type == JINJA_NODE_FILTER;
    if (!eval_arguments(run, node->args, NULL, &call))
        return false;
    run->budget.line = node->line;
    if (!node->builtin)
        return jinja_error(run, "No %s named '%.*s' found.", filter ? "filter" : "test",
                           (int)(node->name->name.len < 60 ? node->name->name.len : 60),
                           node->name->name.p);
    if (!jinja_invoke(run, node->builtin, self, &call, out))
        return false;
    if (!filter)
        *out = jinja_bool(jinja_truth(out));
    return true;
}

/* Applies the filters of a block to its text. */
static bool eval_block_filters(struct jinja_run *run, const struct jinja_node *filter,
                               const struct jinja_value *text, struct jinja_value *out)
{
    struct jinja_value input = *text;
    if (!jinja_enter(run))
        return false;
    bool ok = (!filter->a || eval_block_filters(run, filter->a, text, &input)) &&
              eval_application(run, filter, &input, out);
    jinja_leave(run);
    return ok;
}

/* ---- expressions ---- */

static bool eval_dict(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    if (!jinja_new_dict(run, JINJA_DICT, out))
        return false;
    for (const struct jinja_node *n = node->list.first; n; n = n->next->next) {
        struct jinja_value key, value;
        if (!eval(run, n, &key) || !eval(run, n->next, &value) ||
            !jinja_dict_set(run, out->dict, &key, &value))
            return false;
    }
    return true;
}

static bool eval_concat(struct jinja_run *run, const struct jinja_node *node,
                        struct jinja_value *out)
{
    struct jinja_text text = {0};
    bool ok = true;
    for (const struct jinja_node *n = node->list.first; ok && n; n = n->next) {
        struct jinja_value part;
        ok = eval(run, n, &part) && jinja_text_add_str(run, &text, &part);
    }
    return jinja_text_end(run, &text, ok, out);
}

static bool eval_comparison(struct jinja_run *run, const struct jinja_node *node,
                            struct jinja_value *out)
{
    struct jinja_value left, right;
    bool holds = true;
    if (!eval(run, node->a, &left))
        return false;
    for (const struct jinja_node *n = node->list.first; holds && n; n = n->next) {
        if (!eval(run, n->a, &right))
            return false;
        run->budget.line = node->line;
        if (!jinja_compare(run, n->cmp, &left, &right, &holds))
            return false;
        left = right;
    }
    *out = jinja_bool(holds);
    return true;
}

static bool eval_condition(struct jinja_run *run, const struct jinja_node *node,
                           struct jinja_value *out)
{
    struct jinja_value test;
    if (!eval(run, node->b, &test))
        return false;
    if (jinja_truth(&test))
        return eval(run, node->a, out);
    if (node->c)
        return eval(run, node->c, out);
    *out = jinja_undefined("the inline if-expression evaluated to false and no else section was "
                           "defined");
    return true;
}

static bool eval_item(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value owner, key;
    if (!eval(run, node->a, &owner))
        return false;
    if (node->b->type != JINJA_NODE_SLICE) {
        if (!eval(run, node->b, &key))
            return false;
        run->budget.line = node->line;
        return jinja_get_item(run, &owner, &key, out);
    }
    const struct jinja_node *parts[3] = {node->b->a, node->b->b, node->b->c};
    struct jinja_value bounds[3];
    for (int i = 0; i < 3; i++) {
        bounds[i] = jinja_none();
        if (parts[i] && !eval(run, parts[i], &bounds[i]))
            return false;
    }
    run->budget.line = node->line;
    return jinja_get_slice(run, &owner, bounds, out);
}

static bool eval_node(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value a, b;
    switch (node->type) {
    case JINJA_NODE_CONSTANT:
        *out = node->constant;
        return true;
    case JINJA_NODE_NAME:
        *out = scope_get(run, node->symbol);
        return true;
    case JINJA_NODE_LIST:
    case JINJA_NODE_TUPLE:
        if (!jinja_new_list(run, node->type == JINJA_NODE_LIST ? JINJA_LIST : JINJA_TUPLE,
                            node->list.count, out))
            return false;
        for (const struct jinja_node *n = node->list.first; n; n = n->next) {
            if (!eval(run, n, &a))
                return false;
            out->list->items[out->list->count++] = a;
        }
        return true;
    case JINJA_NODE_DICT:
        return eval_dict(run, node, out);
    case JINJA_NODE_ARITHMETIC:
        if (!eval(run, node->a, &a) || !eval(run, node->b, &b))
            return false;
        run->budget.line = node->line;
        return jinja_arithmetic(run, node->op, &a, &b, out);
    case JINJA_NODE_MINUS:
    case JINJA_NODE_PLUS:
        if (!eval(run, node->a, &a))
            return false;
        run->budget.line = node->line;
        return jinja_negate(run, &a, node->type == JINJA_NODE_MINUS, out);
    case JINJA_NODE_NOT:
        if (!eval(run, node->a, &a))
            return false;
        *out = jinja_bool(!jinja_truth(&a));
        return true;
    case JINJA_NODE_AND:
    case JINJA_NODE_OR:
        if (!eval(run, node->a, out))
            return false;
        return jinja_truth(out) == (node->type == JINJA_NODE_OR) || eval(run, node->b, out);
    case JINJA_NODE_CONCAT:
        return eval_concat(run, node, out);
    case JINJA_NODE_COMPARE:
        return eval_comparison(run, node, out);
    case JINJA_NODE_CONDITION:
        return eval_condition(run, node, out);
    case JINJA_NODE_ATTRIBUTE:
        if (!eval(run, node->a, &a))
            return false;
        run->budget.line = node->line;
        return jinja_get_attribute(run, &a, node->attribute->name, out);
    case JINJA_NODE_ITEM:
        return eval_item(run, node, out);
    case JINJA_NODE_CALL:
        return eval_call(run, node, NULL, out);
    case JINJA_NODE_FILTER:
    case JINJA_NODE_TEST:
        return eval(run, node->a, &a) && eval_application(run, node, &a, out);
    default: /* the parser creates no statement or target here */
        return jinja_fail(run, DGL_ERR_FORMAT, "expected a value, got a statement");
    }
}

static bool eval(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    if (!jinja_step(run, 1) || !jinja_enter(run))
        return false;
    run->budget.line = node->line;
    bool ok = eval_node(run, node, out);
    jinja_leave(run);
    return ok;
}

/* ---- statements ---- */

static enum flow exec_nodes(struct jinja_run *run, const struct jinja_nodes *nodes);

static enum flow flow_of(bool ok)
{
    return ok ? FLOW_NEXT : FLOW_FAIL;
}

/* Executes nodes in a new scope. */
static enum flow exec_scoped(struct jinja_run *run, const struct jinja_nodes *nodes,
                             struct jinja_scope *scope)
{
    if (!scope)
        return FLOW_FAIL;
    struct jinja_scope *outer = run->scope;
    run->scope = scope;
    enum flow flow = exec_nodes(run, nodes);
    run->scope = outer;
    return flow;
}

static enum flow exec_captured(struct jinja_run *run, const struct jinja_nodes *nodes,
                               struct jinja_scope *scope, struct jinja_value *out)
{
    struct jinja_text text = {0}, *outer = run->out;
    run->out = &text;
    enum flow flow = exec_scoped(run, nodes, scope);
    run->out = outer;
    return jinja_text_end(run, &text, flow != FLOW_FAIL, out) ? flow : FLOW_FAIL;
}

static bool new_macro(struct jinja_run *run, const struct jinja_macro_node *node,
                      struct jinja_value *out)
{
    struct jinja_macro *macro = jinja_alloc(run, 1, sizeof(*macro));
    if (!macro)
        return false;
    *macro = (struct jinja_macro){node, run->scope};
    for (struct jinja_scope *scope = run->scope; scope && !scope->captured; scope = scope->parent)
        scope->captured = true;
    *out = (struct jinja_value){.type = JINJA_MACRO, .macro = macro};
    return true;
}

/* ---- assignments ---- */

static bool assign(struct jinja_run *run, const struct jinja_node *target,
                   const struct jinja_value *value);

static bool assign_tuple(struct jinja_run *run, const struct jinja_node *target,
                         const struct jinja_value *value)
{
    struct jinja_value items;
    if (!jinja_can_iterate(value))
        return jinja_error(run, "cannot unpack non-iterable %s object", jinja_type_name(value));
    if (!jinja_collect(run, value, JINJA_TUPLE, &items))
        return false;
    size_t wanted = target->list.count, got = items.list->count;
    if (got > wanted)
        return jinja_error(run, "too many values to unpack (expected %zu)", wanted);
    if (got < wanted)
        return jinja_error(run, "not enough values to unpack (expected %zu, got %zu)", wanted, got);
    const struct jinja_node *part = target->list.first;
    for (size_t i = 0; i < got; i++, part = part->next) {
        if (!assign(run, part, &items.list->items[i]))
            return false;
    }
    return true;
}

static bool assign(struct jinja_run *run, const struct jinja_node *target,
                   const struct jinja_value *value)
{
    if (target->type == JINJA_NODE_TUPLE)
        return assign_tuple(run, target, value);
    if (target->type == JINJA_NODE_NAME)
        return jinja_scope_set(run, run->scope, target->symbol, value);
    /* JINJA_NODE_FIELD */
    struct jinja_value owner = scope_get(run, target->symbol);
    struct jinja_value key = jinja_text_of(target->attribute->name, false);
    if (owner.type != JINJA_NAMESPACE)
        return jinja_error(run, "cannot assign attribute on non-namespace object");
    return jinja_dict_set(run, owner.dict, &key, value);
}

/* Executes "set" and "filter" blocks: filters the text of the body, then assigns or prints it. */
static enum flow exec_text_block(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value text;
    enum flow flow = exec_captured(run, &node->body, jinja_scope_new(run, run->scope), &text);
    if (flow != FLOW_NEXT)
        return flow;
    if (node->b && !eval_block_filters(run, node->b, &text, &text))
        return FLOW_FAIL;
    return flow_of(node->type == JINJA_NODE_SET_BLOCK ? assign(run, node->a, &text)
                                                      : jinja_text_add_str(run, run->out, &text));
}

/* ---- loops ---- */

/* Returns the scope of the next iteration. Reuses the scope of the last iteration unless a macro
 * refers to it. */
static struct jinja_scope *round_scope(struct jinja_run *run, struct jinja_scope *last)
{
    if (!last || last->captured)
        return jinja_scope_new(run, run->scope);
    last->count = 0;
    return last;
}

/* Collects the elements that pass the `if` of the loop. */
static bool filter_items(struct jinja_run *run, const struct jinja_for_node *node,
                         const struct jinja_value *over, struct jinja_value *out)
{
    struct jinja_iter iter;
    struct jinja_value item, test;
    struct jinja_scope *outer = run->scope, *scope = NULL;
    if (!jinja_iter_init(run, over, &iter) || !jinja_new_list(run, JINJA_GENERATOR, 0, out))
        return false;
    bool ok = true;
    while (ok && jinja_iter_next(&iter, &item)) {
        scope = round_scope(run, scope);
        if (!scope)
            return false;
        run->scope = scope;
        ok = assign(run, node->target, &item) && eval(run, node->filter, &test) &&
             (!jinja_truth(&test) || jinja_list_push(run, out->list, item));
        run->scope = outer;
    }
    return ok;
}

static enum flow run_loop(struct jinja_run *run, const struct jinja_node *node,
                          const struct jinja_value *over, struct jinja_loop *loop)
{
    const struct jinja_for_node *n = node->loop;
    const struct jinja_value self = {.type = JINJA_LOOP, .loop = loop};
    struct jinja_value items = *over;
    struct jinja_scope *outer = run->scope, *scope = NULL;
    enum flow flow = FLOW_NEXT;
    loop->node = node;
    loop->scope = outer;
    loop->index0 = -1;
    if ((n->filter && !filter_items(run, n, over, &items)) ||
        !jinja_iter_init(run, &items, &loop->iter))
        return FLOW_FAIL;
    if (items.type == JINJA_GENERATOR) {
        loop->length = items.list->count - items.list->next;
        loop->has_length = true;
    }
    while (flow != FLOW_BREAK && loop_next(loop)) {
        scope = round_scope(run, scope);
        if (!scope)
            return FLOW_FAIL;
        run->scope = scope;
        bool ok = jinja_step(run, 1) && assign(run, n->target, &loop->current) &&
                  jinja_scope_set(run, scope, run->tmpl->loop, &self);
        flow = ok ? exec_nodes(run, &n->body) : FLOW_FAIL;
        run->scope = outer;
        if (flow == FLOW_FAIL)
            return FLOW_FAIL;
    }
    if (loop->index0 < 0 && n->otherwise.count)
        return exec_scoped(run, &n->otherwise, jinja_scope_new(run, outer));
    return FLOW_NEXT;
}

static enum flow exec_for(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value over;
    struct jinja_loop *loop = jinja_alloc(run, 1, sizeof(*loop));
    if (!loop || !eval(run, node->loop->over, &over))
        return FLOW_FAIL;
    run->budget.line = node->line;
    return run_loop(run, node, &over, loop);
}

static bool loop_recurse(struct jinja_run *run, const struct jinja_loop *loop,
                         const struct jinja_value *over, struct jinja_value *out)
{
    struct jinja_text text = {0}, *outer_text = run->out;
    struct jinja_scope *outer_scope = run->scope;
    struct jinja_loop *inner = jinja_alloc(run, 1, sizeof(*inner));
    if (!inner || !jinja_enter(run))
        return false;
    inner->depth0 = loop->depth0 + 1;
    run->out = &text;
    run->scope = loop->scope;
    bool ok = run_loop(run, loop->node, over, inner) != FLOW_FAIL;
    run->out = outer_text;
    run->scope = outer_scope;
    jinja_leave(run);
    return jinja_text_end(run, &text, ok, out);
}

/* ---- other statements ---- */

static enum flow exec_if(struct jinja_run *run, const struct jinja_node *node)
{
    for (const struct jinja_node *branch = node->list.first; branch; branch = branch->next) {
        struct jinja_value test;
        if (branch->a && !eval(run, branch->a, &test))
            return FLOW_FAIL;
        if (!branch->a || jinja_truth(&test))
            return exec_nodes(run, &branch->body);
    }
    return FLOW_NEXT;
}

/* The values are evaluated outside of the new scope. */
static enum flow exec_with(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_scope *scope = jinja_scope_new(run, run->scope);
    if (!scope)
        return FLOW_FAIL;
    for (const struct jinja_node *set = node->list.first; set; set = set->next) {
        struct jinja_value value;
        if (!eval(run, set->b, &value))
            return FLOW_FAIL;
        struct jinja_scope *outer = run->scope;
        run->scope = scope;
        bool ok = assign(run, set->a, &value);
        run->scope = outer;
        if (!ok)
            return FLOW_FAIL;
    }
    return exec_scoped(run, &node->body, scope);
}

static enum flow exec_node(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value value, caller;
    switch (node->type) {
    case JINJA_NODE_TEXT:
        return flow_of(jinja_text_add(run, run->out, &node->constant));
    case JINJA_NODE_OUTPUT:
        return flow_of(eval(run, node->a, &value) && jinja_text_add_str(run, run->out, &value));
    case JINJA_NODE_IF:
        return exec_if(run, node);
    case JINJA_NODE_FOR:
        return exec_for(run, node);
    case JINJA_NODE_SET:
        if (!eval(run, node->b, &value))
            return FLOW_FAIL;
        run->budget.line = node->line;
        return flow_of(assign(run, node->a, &value));
    case JINJA_NODE_SET_BLOCK:
    case JINJA_NODE_FILTER_BLOCK:
        return exec_text_block(run, node);
    case JINJA_NODE_MACRO:
        return flow_of(new_macro(run, node->macro, &value) &&
                       jinja_scope_set(run, run->scope, node->macro->name, &value));
    case JINJA_NODE_CALL_BLOCK:
        return flow_of(new_macro(run, node->macro, &caller) &&
                       eval_call(run, node->a, &caller, &value) &&
                       jinja_text_add_str(run, run->out, &value));
    case JINJA_NODE_WITH:
        return exec_with(run, node);
    case JINJA_NODE_SCOPE:
        return exec_scoped(run, &node->body, jinja_scope_new(run, run->scope));
    case JINJA_NODE_BREAK:
        return FLOW_BREAK;
    case JINJA_NODE_CONTINUE:
        return FLOW_CONTINUE;
    default: /* the parser creates no expression here */
        return flow_of(jinja_fail(run, DGL_ERR_FORMAT, "expected a statement, got a value"));
    }
}

static enum flow exec_nodes(struct jinja_run *run, const struct jinja_nodes *nodes)
{
    enum flow flow = FLOW_NEXT;
    if (!jinja_enter(run))
        return FLOW_FAIL;
    for (const struct jinja_node *node = nodes->first; node && flow == FLOW_NEXT;
         node = node->next) {
        run->budget.line = node->line;
        flow = jinja_step(run, 1) ? exec_node(run, node) : FLOW_FAIL;
    }
    jinja_leave(run);
    return flow;
}

bool jinja_exec_body(struct jinja_run *run, const struct jinja_nodes *body)
{
    return exec_nodes(run, body) != FLOW_FAIL;
}
