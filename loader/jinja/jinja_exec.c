/* Executing statements. */
#include "loader/jinja/jinja_eval.h"

/* What to do after a statement. */
enum flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE, FLOW_FAIL };

static enum flow exec_nodes(struct jinja_run *run, const struct jinja_nodes *nodes);

static enum flow flow_of(bool ok)
{
    return ok ? FLOW_NEXT : FLOW_FAIL;
}

/* ---- scopes and captures ---- */

/* Nodes in a scope of their own. */
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

/* The same, with the output as a text. */
static enum flow exec_captured(struct jinja_run *run, const struct jinja_nodes *nodes,
                               struct jinja_scope *scope, struct jinja_value *out)
{
    struct jinja_text text = {0}, *outer = run->out;
    run->out = &text;
    enum flow flow = exec_scoped(run, nodes, scope);
    run->out = outer;
    return jinja_text_end(run, &text, flow != FLOW_FAIL, out) ? flow : FLOW_FAIL;
}

bool jinja_exec_text(struct jinja_run *run, const struct jinja_nodes *body,
                     struct jinja_scope *scope, struct jinja_value *out)
{
    return exec_captured(run, body, scope, out) != FLOW_FAIL;
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

static bool assign_field(struct jinja_run *run, const struct jinja_node *target,
                         const struct jinja_value *value)
{
    struct jinja_value owner = jinja_scope_get(run, target->symbol);
    struct jinja_value key = jinja_text_of(target->attribute->name, false);
    if (owner.type != JINJA_NAMESPACE)
        return jinja_error(run, "cannot assign attribute on non-namespace object");
    return jinja_dict_set(run, owner.dict, &key, value);
}

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
    if (target->type == JINJA_NODE_FIELD)
        return assign_field(run, target, value);
    return jinja_scope_set(run, run->scope, target->symbol, value);
}

static bool exec_set(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value value;
    if (!jinja_eval(run, node->b, &value))
        return false;
    run->budget.line = node->line;
    return assign(run, node->a, &value);
}

static enum flow exec_set_block(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value text;
    enum flow flow = exec_captured(run, &node->body, jinja_scope_new(run, run->scope), &text);
    if (flow != FLOW_NEXT)
        return flow;
    if (node->b && !jinja_eval_block_filters(run, node->b, &text, &text))
        return FLOW_FAIL;
    return flow_of(assign(run, node->a, &text));
}

/* ---- loops ---- */

/* The scope of the next round: the one of the last round, unless a macro may still look into it. */
static struct jinja_scope *round_scope(struct jinja_run *run, struct jinja_scope *last)
{
    if (!last || last->captured)
        return jinja_scope_new(run, run->scope);
    last->count = 0;
    return last;
}

/* The elements for which the loop's own `if` holds. */
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
        ok = assign(run, node->target, &item) && jinja_eval(run, node->filter, &test) &&
             (!jinja_truth(&test) || jinja_list_push(run, out->list, item));
        run->scope = outer;
    }
    return ok;
}

static enum flow exec_round(struct jinja_run *run, const struct jinja_for_node *node,
                            struct jinja_loop *loop, struct jinja_scope *scope)
{
    struct jinja_scope *outer = run->scope;
    struct jinja_value self = {.type = JINJA_LOOP, .loop = loop};
    run->scope = scope;
    bool ok = jinja_step(run, 1) && assign(run, node->target, &loop->current) &&
              jinja_scope_set(run, scope, run->tmpl->loop, &self);
    enum flow flow = ok ? exec_nodes(run, &node->body) : FLOW_FAIL;
    run->scope = outer;
    return flow;
}

static enum flow run_loop(struct jinja_run *run, const struct jinja_node *node,
                          const struct jinja_value *over, struct jinja_loop *loop)
{
    const struct jinja_for_node *n = node->loop;
    struct jinja_value items = *over;
    struct jinja_scope *scope = NULL;
    enum flow flow = FLOW_NEXT;
    loop->node = node;
    loop->scope = run->scope;
    loop->index0 = -1;
    if ((n->filter && !filter_items(run, n, over, &items)) ||
        !jinja_iter_init(run, &items, &loop->iter))
        return FLOW_FAIL;
    if (items.type == JINJA_GENERATOR) {
        loop->length = items.list->count - items.list->next;
        loop->has_length = true;
    }
    while (flow != FLOW_FAIL && flow != FLOW_BREAK && jinja_loop_next(loop)) {
        scope = round_scope(run, scope);
        flow = scope ? exec_round(run, n, loop, scope) : FLOW_FAIL;
    }
    if (flow == FLOW_FAIL)
        return FLOW_FAIL;
    if (loop->index0 < 0 && n->otherwise.count)
        return exec_scoped(run, &n->otherwise, jinja_scope_new(run, run->scope));
    return FLOW_NEXT;
}

static enum flow exec_for(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value over;
    struct jinja_loop *loop = jinja_alloc(run, 1, sizeof(*loop));
    if (!loop || !jinja_eval(run, node->loop->over, &over))
        return FLOW_FAIL;
    run->budget.line = node->line;
    return run_loop(run, node, &over, loop);
}

bool jinja_loop_recurse(struct jinja_run *run, const struct jinja_loop *loop,
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

static bool exec_macro(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value macro;
    return new_macro(run, node->macro, &macro) &&
           jinja_scope_set(run, run->scope, node->macro->name, &macro);
}

static bool exec_call_block(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value caller, text;
    return new_macro(run, node->macro, &caller) && jinja_eval_call(run, node->a, &caller, &text) &&
           jinja_text_add_str(run, run->out, &text);
}

static bool exec_output(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value value;
    return jinja_eval(run, node->a, &value) && jinja_text_add_str(run, run->out, &value);
}

static enum flow exec_if(struct jinja_run *run, const struct jinja_node *node)
{
    for (const struct jinja_node *branch = node->list.first; branch; branch = branch->next) {
        struct jinja_value test;
        if (branch->a && !jinja_eval(run, branch->a, &test))
            return FLOW_FAIL;
        if (!branch->a || jinja_truth(&test))
            return exec_nodes(run, &branch->body);
    }
    return FLOW_NEXT;
}

static enum flow exec_filter_block(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value text;
    enum flow flow = exec_captured(run, &node->body, jinja_scope_new(run, run->scope), &text);
    if (flow != FLOW_NEXT)
        return flow;
    return flow_of(jinja_eval_block_filters(run, node->b, &text, &text) &&
                   jinja_text_add_str(run, run->out, &text));
}

/* The values are evaluated outside of the new scope. */
static enum flow exec_with(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_scope *scope = jinja_scope_new(run, run->scope);
    if (!scope)
        return FLOW_FAIL;
    for (const struct jinja_node *set = node->list.first; set; set = set->next) {
        struct jinja_value value;
        if (!jinja_eval(run, set->b, &value))
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
    switch (node->type) {
    case JINJA_NODE_TEXT:
        return flow_of(jinja_text_add(run, run->out, &node->constant));
    case JINJA_NODE_OUTPUT:
        return flow_of(exec_output(run, node));
    case JINJA_NODE_IF:
        return exec_if(run, node);
    case JINJA_NODE_FOR:
        return exec_for(run, node);
    case JINJA_NODE_SET:
        return flow_of(exec_set(run, node));
    case JINJA_NODE_SET_BLOCK:
        return exec_set_block(run, node);
    case JINJA_NODE_MACRO:
        return flow_of(exec_macro(run, node));
    case JINJA_NODE_CALL_BLOCK:
        return flow_of(exec_call_block(run, node));
    case JINJA_NODE_FILTER_BLOCK:
        return exec_filter_block(run, node);
    case JINJA_NODE_WITH:
        return exec_with(run, node);
    case JINJA_NODE_SCOPE:
        return exec_scoped(run, &node->body, jinja_scope_new(run, run->scope));
    case JINJA_NODE_BREAK:
        return FLOW_BREAK;
    case JINJA_NODE_CONTINUE:
        return FLOW_CONTINUE;
    default: /* expressions are not in lists of statements */
        return flow_of(
            jinja_fail(run, DGL_ERR_FORMAT, "a value stands where a statement is needed"));
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
