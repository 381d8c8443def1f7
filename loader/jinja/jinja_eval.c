/* Evaluating expressions. */
#include "loader/jinja/jinja_eval.h"

#include <string.h>

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

struct jinja_value jinja_scope_get(const struct jinja_run *run, const struct jinja_symbol *symbol)
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

/* ---- arguments ---- */

struct arguments {
    struct jinja_call call;
    struct jinja_value *args;
    struct jinja_named *named;
    size_t args_cap, named_cap;
};

static bool alloc_arguments(struct jinja_run *run, struct arguments *out, size_t args, size_t named)
{
    out->args = args ? jinja_alloc(run, args, sizeof(*out->args)) : NULL;
    out->named = named ? jinja_alloc(run, named, sizeof(*out->named)) : NULL;
    out->call.args = out->args;
    out->call.named = out->named;
    return (out->args || !args) && (out->named || !named);
}

static bool add_star(struct jinja_run *run, struct arguments *out, const struct jinja_value *list)
{
    for (size_t i = 0; i < list->list->count; i++)
        out->args[out->call.num_args++] = list->list->items[i];
    return jinja_step(run, list->list->count);
}

static bool add_star_star(struct jinja_run *run, struct arguments *out,
                          const struct jinja_value *dict)
{
    for (size_t i = 0; i < dict->dict->count; i++) {
        const struct jinja_entry *entry = &dict->dict->entries[i];
        if (!jinja_is_text(&entry->key))
            return jinja_error(run, "keywords must be strings");
        out->named[out->call.num_named++] =
            (struct jinja_named){jinja_str(&entry->key), entry->value};
    }
    return jinja_step(run, dict->dict->count);
}

/* *list and **dict, evaluated; left ABSENT when not written. */
static bool eval_stars(struct jinja_run *run, const struct jinja_args *args,
                       struct jinja_value *list, struct jinja_value *dict)
{
    struct jinja_value value;
    if (args->star &&
        (!jinja_eval(run, args->star, &value) || !jinja_collect(run, &value, JINJA_LIST, list)))
        return false;
    if (args->star_star && !jinja_eval(run, args->star_star, dict))
        return false;
    if (args->star_star && dict->type != JINJA_DICT)
        return jinja_error(run, "argument after ** must be a mapping, not %s",
                           jinja_type_name(dict));
    return true;
}

static bool eval_arguments(struct jinja_run *run, const struct jinja_args *args,
                           const struct jinja_value *caller, struct arguments *out)
{
    struct jinja_value list = {0}, dict = {0};
    *out = (struct arguments){0};
    if (!eval_stars(run, args, &list, &dict))
        return false;
    size_t stars = list.type ? list.list->count : 0, pairs = dict.type ? dict.dict->count : 0;
    if (!alloc_arguments(run, out, args->positional.count + stars,
                         args->keywords.count + pairs + (caller ? 1 : 0)))
        return false;
    for (const struct jinja_node *n = args->positional.first; n; n = n->next) {
        if (!jinja_eval(run, n, &out->args[out->call.num_args++]))
            return false;
    }
    for (const struct jinja_node *n = args->keywords.first; n; n = n->next) {
        struct jinja_named *named = &out->named[out->call.num_named++];
        named->name = n->symbol->name;
        if (!jinja_eval(run, n->a, &named->value))
            return false;
    }
    if (caller)
        out->named[out->call.num_named++] = (struct jinja_named){DGL_STR("caller"), *caller};
    return (!stars || add_star(run, out, &list)) && (!pairs || add_star_star(run, out, &dict));
}

bool jinja_eval_call(struct jinja_run *run, const struct jinja_node *node,
                     const struct jinja_value *caller, struct jinja_value *out)
{
    struct jinja_value callee;
    struct arguments arguments;
    if (!jinja_eval(run, node->a, &callee) || !eval_arguments(run, node->args, caller, &arguments))
        return false;
    run->budget.line = node->line;
    return jinja_call_value(run, &callee, &arguments.call, out);
}

static bool eval_application(struct jinja_run *run, const struct jinja_node *node,
                             const struct jinja_value *self, struct jinja_value *out)
{
    struct arguments arguments;
    bool filter = node->type == JINJA_NODE_FILTER;
    if (!eval_arguments(run, node->args, NULL, &arguments))
        return false;
    run->budget.line = node->line;
    if (!node->builtin)
        return jinja_error(run, "No %s named '%.*s' found", filter ? "filter" : "test",
                           (int)(node->name->name.len < 60 ? node->name->name.len : 60),
                           node->name->name.p);
    if (!jinja_invoke(run, node->builtin, self, &arguments.call, out))
        return false;
    if (!filter)
        *out = jinja_bool(jinja_truth(out));
    return true;
}

bool jinja_eval_block_filters(struct jinja_run *run, const struct jinja_node *filter,
                              const struct jinja_value *text, struct jinja_value *out)
{
    struct jinja_value input = *text;
    if (!jinja_enter(run))
        return false;
    bool ok = (!filter->a || jinja_eval_block_filters(run, filter->a, text, &input)) &&
              eval_application(run, filter, &input, out);
    jinja_leave(run);
    return ok;
}

/* ---- kinds of expressions ---- */

static bool eval_items(struct jinja_run *run, const struct jinja_node *node,
                       struct jinja_value *out)
{
    enum jinja_type type = node->type == JINJA_NODE_LIST ? JINJA_LIST : JINJA_TUPLE;
    if (!jinja_new_list(run, type, node->list.count, out))
        return false;
    struct jinja_list *list = out->list;
    for (const struct jinja_node *n = node->list.first; n; n = n->next) {
        if (!jinja_eval(run, n, &list->items[list->count]))
            return false;
        list->count++;
    }
    return true;
}

static bool eval_dict(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    if (!jinja_new_dict(run, JINJA_DICT, out))
        return false;
    for (const struct jinja_node *n = node->list.first; n; n = n->next->next) {
        struct jinja_value key, value;
        if (!jinja_eval(run, n, &key) || !jinja_eval(run, n->next, &value) ||
            !jinja_dict_set(run, out->dict, &key, &value))
            return false;
    }
    return true;
}

static bool eval_arithmetic(struct jinja_run *run, const struct jinja_node *node,
                            struct jinja_value *out)
{
    struct jinja_value a, b;
    if (!jinja_eval(run, node->a, &a) || !jinja_eval(run, node->b, &b))
        return false;
    run->budget.line = node->line;
    return jinja_arithmetic(run, node->op, &a, &b, out);
}

static bool eval_concat(struct jinja_run *run, const struct jinja_node *node,
                        struct jinja_value *out)
{
    struct jinja_text text = {0};
    bool ok = true;
    for (const struct jinja_node *n = node->list.first; ok && n; n = n->next) {
        struct jinja_value part;
        ok = jinja_eval(run, n, &part) && jinja_text_add_str(run, &text, &part);
    }
    return jinja_text_end(run, &text, ok, out);
}

static bool eval_comparison(struct jinja_run *run, const struct jinja_node *node,
                            struct jinja_value *out)
{
    struct jinja_value left, right;
    bool holds = true;
    if (!jinja_eval(run, node->a, &left))
        return false;
    for (const struct jinja_node *n = node->list.first; holds && n; n = n->next) {
        if (!jinja_eval(run, n->a, &right))
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
    if (!jinja_eval(run, node->b, &test))
        return false;
    if (jinja_truth(&test))
        return jinja_eval(run, node->a, out);
    if (node->c)
        return jinja_eval(run, node->c, out);
    *out = jinja_undefined("the inline if-expression evaluated to false and no else section was "
                           "defined");
    return true;
}

static bool eval_logic(struct jinja_run *run, const struct jinja_node *node,
                       struct jinja_value *out)
{
    if (!jinja_eval(run, node->a, out))
        return false;
    if (jinja_truth(out) == (node->type == JINJA_NODE_OR))
        return true;
    return jinja_eval(run, node->b, out);
}

static bool eval_unary(struct jinja_run *run, const struct jinja_node *node,
                       struct jinja_value *out)
{
    struct jinja_value value;
    if (!jinja_eval(run, node->a, &value))
        return false;
    if (node->type == JINJA_NODE_NOT) {
        *out = jinja_bool(!jinja_truth(&value));
        return true;
    }
    run->budget.line = node->line;
    return jinja_negate(run, &value, node->type == JINJA_NODE_MINUS, out);
}

static bool eval_item(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value owner, key;
    if (!jinja_eval(run, node->a, &owner))
        return false;
    if (node->b->type != JINJA_NODE_SLICE) {
        if (!jinja_eval(run, node->b, &key))
            return false;
        run->budget.line = node->line;
        return jinja_get_item(run, &owner, &key, out);
    }
    const struct jinja_node *parts[3] = {node->b->a, node->b->b, node->b->c};
    struct jinja_value bounds[3];
    for (int i = 0; i < 3; i++) {
        bounds[i] = jinja_none();
        if (parts[i] && !jinja_eval(run, parts[i], &bounds[i]))
            return false;
    }
    run->budget.line = node->line;
    return jinja_get_slice(run, &owner, bounds, out);
}

static bool eval_attribute(struct jinja_run *run, const struct jinja_node *node,
                           struct jinja_value *out)
{
    struct jinja_value owner;
    if (!jinja_eval(run, node->a, &owner))
        return false;
    run->budget.line = node->line;
    return jinja_get_attribute(run, &owner, node->attribute->name, out);
}

static bool eval_node(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value self;
    switch (node->type) {
    case JINJA_NODE_CONSTANT:
        *out = node->constant;
        return true;
    case JINJA_NODE_NAME:
        *out = jinja_scope_get(run, node->symbol);
        return true;
    case JINJA_NODE_LIST:
    case JINJA_NODE_TUPLE:
        return eval_items(run, node, out);
    case JINJA_NODE_DICT:
        return eval_dict(run, node, out);
    case JINJA_NODE_ARITHMETIC:
        return eval_arithmetic(run, node, out);
    case JINJA_NODE_MINUS:
    case JINJA_NODE_PLUS:
    case JINJA_NODE_NOT:
        return eval_unary(run, node, out);
    case JINJA_NODE_AND:
    case JINJA_NODE_OR:
        return eval_logic(run, node, out);
    case JINJA_NODE_CONCAT:
        return eval_concat(run, node, out);
    case JINJA_NODE_COMPARE:
        return eval_comparison(run, node, out);
    case JINJA_NODE_CONDITION:
        return eval_condition(run, node, out);
    case JINJA_NODE_ATTRIBUTE:
        return eval_attribute(run, node, out);
    case JINJA_NODE_ITEM:
        return eval_item(run, node, out);
    case JINJA_NODE_CALL:
        return jinja_eval_call(run, node, NULL, out);
    case JINJA_NODE_FILTER:
    case JINJA_NODE_TEST:
        return jinja_eval(run, node->a, &self) && eval_application(run, node, &self, out);
    default: /* statements and targets are never evaluated */
        return jinja_fail(run, DGL_ERR_FORMAT, "a statement stands where a value is needed");
    }
}

bool jinja_eval(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    if (!jinja_step(run, 1) || !jinja_enter(run))
        return false;
    run->budget.line = node->line;
    bool ok = eval_node(run, node, out);
    jinja_leave(run);
    return ok;
}
