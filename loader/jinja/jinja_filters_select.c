/* Filters that apply other filters and tests to every element: map, select, reject and their kin.
 */
#include "loader/jinja/jinja_call.h"

/* What is left of the arguments behind the first `skip` ones. */
static struct jinja_call rest_of(const struct jinja_call *call, size_t skip)
{
    struct jinja_call rest = *call;
    rest.args += skip;
    rest.num_args -= skip;
    return rest;
}

static const struct jinja_value *named_argument(const struct jinja_call *call, const char *name)
{
    for (size_t i = 0; i < call->num_named; i++) {
        if (dgl_str_eq(call->named[i].name, name))
            return &call->named[i].value;
    }
    return NULL;
}

/* The filter or test that an argument names; false after reporting. */
static bool find_named(struct jinja_run *run, const struct jinja_value *name, bool filter,
                       const struct jinja_builtin **out)
{
    *out = NULL;
    if (jinja_is_text(name))
        *out = filter ? jinja_find_filter(jinja_str(name)) : jinja_find_test(jinja_str(name));
    if (*out)
        return true;
    int len = jinja_is_text(name) && name->text.len < 60 ? (int)name->text.len : 0;
    return jinja_error(run, "No %s named '%.*s'", filter ? "filter" : "test", len,
                       len ? name->text.p : "");
}

/* ---- select ---- */

struct selection {
    const struct jinja_value *attribute; /* NULL: the element itself is tested */
    const struct jinja_builtin *test;    /* NULL: its truth */
    struct jinja_call call;              /* the test's arguments */
};

static bool begin_selection(struct jinja_run *run, const struct jinja_invocation *in,
                            bool by_attribute, struct selection *out)
{
    size_t used = by_attribute ? 1 : 0;
    *out = (struct selection){0};
    if (by_attribute && in->call->num_args == 0)
        return jinja_error(run, "Missing parameter for attribute name");
    if (by_attribute)
        out->attribute = &in->call->args[0];
    if (in->call->num_args == used)
        return true;
    out->call = rest_of(in->call, used + 1);
    return find_named(run, &in->call->args[used], false, &out->test);
}

static bool is_selected(struct jinja_run *run, const struct selection *selection,
                        const struct jinja_value *item, bool *out)
{
    struct jinja_value value = *item, answer;
    if (selection->attribute && !jinja_get_path(run, item, selection->attribute, &value))
        return false;
    answer = value;
    if (selection->test && !jinja_invoke(run, selection->test, &value, &selection->call, &answer))
        return false;
    *out = jinja_truth(&answer);
    return true;
}

static bool select_items(struct jinja_run *run, struct jinja_invocation *in, bool by_attribute,
                         bool wanted, struct jinja_value *out)
{
    struct selection selection;
    struct jinja_iter iter;
    struct jinja_value item;
    if (!jinja_new_list(run, JINJA_GENERATOR, 0, out))
        return false;
    out->data = in->self.data;
    if (!jinja_truth(&in->self))
        return true;
    if (!begin_selection(run, in, by_attribute, &selection) ||
        !jinja_iter_init(run, &in->self, &iter))
        return false;
    while (jinja_iter_next(&iter, &item)) {
        bool selected;
        if (!jinja_step(run, 1) || !is_selected(run, &selection, &item, &selected) ||
            (selected == wanted && !jinja_list_push(run, out->list, item)))
            return false;
    }
    return true;
}

static bool filter_select(struct jinja_run *run, struct jinja_invocation *in,
                          struct jinja_value *out)
{
    return select_items(run, in, false, true, out);
}

static bool filter_reject(struct jinja_run *run, struct jinja_invocation *in,
                          struct jinja_value *out)
{
    return select_items(run, in, false, false, out);
}

static bool filter_selectattr(struct jinja_run *run, struct jinja_invocation *in,
                              struct jinja_value *out)
{
    return select_items(run, in, true, true, out);
}

static bool filter_rejectattr(struct jinja_run *run, struct jinja_invocation *in,
                              struct jinja_value *out)
{
    return select_items(run, in, true, false, out);
}

/* ---- map ---- */

struct mapping {
    const struct jinja_value *attribute, *otherwise; /* NULL: not given */
    const struct jinja_builtin *filter;
    struct jinja_call call;
};

static bool begin_mapping(struct jinja_run *run, const struct jinja_call *call, struct mapping *out)
{
    *out = (struct mapping){.attribute = named_argument(call, "attribute"),
                            .otherwise = named_argument(call, "default")};
    if (call->num_args) {
        out->attribute = NULL;
        out->call = rest_of(call, 1);
        return find_named(run, &call->args[0], true, &out->filter);
    }
    if (!out->attribute)
        return jinja_error(run, "map requires a filter argument");
    size_t known = out->otherwise ? 2 : 1;
    return call->num_named == known || jinja_error(run, "map() got an unexpected keyword argument");
}

static bool map_item(struct jinja_run *run, const struct mapping *mapping,
                     const struct jinja_value *item, struct jinja_value *out)
{
    if (mapping->filter)
        return jinja_invoke(run, mapping->filter, item, &mapping->call, out);
    if (!jinja_get_path(run, item, mapping->attribute, out))
        return false;
    if (out->type == JINJA_UNDEFINED && mapping->otherwise &&
        mapping->otherwise->type != JINJA_NONE)
        *out = *mapping->otherwise;
    return true;
}

static bool filter_map(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    struct mapping mapping;
    struct jinja_iter iter;
    struct jinja_value item, mapped;
    if (!jinja_new_list(run, JINJA_GENERATOR, 0, out))
        return false;
    out->data = in->self.data;
    if (!jinja_truth(&in->self))
        return true;
    if (!begin_mapping(run, in->call, &mapping) || !jinja_iter_init(run, &in->self, &iter))
        return false;
    while (jinja_iter_next(&iter, &item)) {
        if (!map_item(run, &mapping, &item, &mapped) || !jinja_list_push(run, out->list, mapped))
            return false;
    }
    return true;
}

const struct jinja_builtin jinja_select_filters[] = {
    {"select", filter_select, NULL},
    {"reject", filter_reject, NULL},
    {"selectattr", filter_selectattr, NULL},
    {"rejectattr", filter_rejectattr, NULL},
    {"map", filter_map, NULL},
    {NULL, NULL, NULL},
};
