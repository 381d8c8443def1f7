/* Methods of lists, tuples and dicts. Those that change something work on what the template itself
 * made: the caller's variables stay as they are. */
#include <string.h>

#include "loader/jinja/jinja_call.h"
#include "loader/jinja/jinja_ops.h"

static bool check_own(struct jinja_run *run, const struct jinja_invocation *in, bool frozen)
{
    return !frozen || jinja_error(run,
                                  "%s() would change a variable of the caller; a template may "
                                  "change what it made itself",
                                  in->builtin->name);
}

static bool own_list(struct jinja_run *run, const struct jinja_invocation *in)
{
    return check_own(run, in, in->self.list->frozen);
}

static bool own_dict(struct jinja_run *run, const struct jinja_invocation *in)
{
    return check_own(run, in, in->self.dict->frozen);
}

/* ---- lists ---- */

static bool list_append(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    *out = jinja_none();
    return own_list(run, in) && jinja_list_push(run, in->self.list, in->arg[0]);
}

static bool list_extend(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_value items;
    if (!own_list(run, in) || !jinja_collect(run, &in->arg[0], JINJA_LIST, &items))
        return false;
    for (size_t i = 0; i < items.list->count; i++) {
        if (!jinja_list_push(run, in->self.list, items.list->items[i]))
            return false;
    }
    *out = jinja_none();
    return true;
}

static bool list_insert(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_list *list = in->self.list;
    int64_t at, count = (int64_t)list->count;
    if (!own_list(run, in) || !jinja_arg_int(run, in, 0, 0, &at))
        return false;
    if (at < 0)
        at = at < -count ? 0 : at + count;
    if (at > count)
        at = count;
    if (!jinja_list_push(run, list, in->arg[1]) || !jinja_step(run, list->count / 16))
        return false;
    memmove(list->items + at + 1, list->items + at, (size_t)(count - at) * sizeof(*list->items));
    list->items[at] = in->arg[1];
    *out = jinja_none();
    return true;
}

static void remove_at(struct jinja_list *list, size_t at)
{
    memmove(list->items + at, list->items + at + 1, (list->count - at - 1) * sizeof(*list->items));
    list->count--;
}

static bool list_pop(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_list *list = in->self.list;
    int64_t at, count = (int64_t)list->count;
    if (!own_list(run, in) || !jinja_arg_int(run, in, 0, -1, &at))
        return false;
    if (count == 0)
        return jinja_error(run, "pop from empty list");
    if (at < -count || at >= count)
        return jinja_error(run, "pop index out of range");
    at = at < 0 ? at + count : at;
    *out = list->items[at];
    remove_at(list, (size_t)at);
    return jinja_step(run, list->count / 16);
}

/* Where an element equal to the first argument is; the length when there is none. */
static bool find_item(struct jinja_run *run, const struct jinja_invocation *in, size_t *out)
{
    const struct jinja_list *list = in->self.list;
    bool equal = false;
    size_t i = 0;
    while (i < list->count) {
        if (!jinja_step(run, 1) || !jinja_equal(run, &list->items[i], &in->arg[0], &equal))
            return false;
        if (equal)
            break;
        i++;
    }
    *out = i;
    return true;
}

static bool list_index(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    size_t at;
    if (!find_item(run, in, &at))
        return false;
    *out = jinja_int((int64_t)at);
    return at < in->self.list->count || jinja_error(run, "the value is not in the list");
}

static bool list_remove(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    size_t at;
    if (!own_list(run, in) || !find_item(run, in, &at))
        return false;
    if (at == in->self.list->count)
        return jinja_error(run, "list.remove(x): x not in list");
    remove_at(in->self.list, at);
    *out = jinja_none();
    return true;
}

static bool list_count(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    int64_t count = 0;
    for (size_t i = 0; i < in->self.list->count; i++) {
        bool equal;
        if (!jinja_step(run, 1) || !jinja_equal(run, &in->self.list->items[i], &in->arg[0], &equal))
            return false;
        count += equal;
    }
    *out = jinja_int(count);
    return true;
}

static bool list_reverse(struct jinja_run *run, struct jinja_invocation *in,
                         struct jinja_value *out)
{
    const struct jinja_value backwards[3] = {jinja_none(), jinja_none(), jinja_int(-1)};
    struct jinja_value turned;
    if (!own_list(run, in) || !jinja_get_slice(run, &in->self, backwards, &turned))
        return false;
    in->self.list->items = turned.list->items;
    in->self.list->cap = turned.list->cap;
    *out = jinja_none();
    return true;
}

static bool list_copy(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    return jinja_collect(run, &in->self, JINJA_LIST, out);
}

static bool list_clear(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    if (!own_list(run, in))
        return false;
    in->self.list->count = 0;
    *out = jinja_none();
    return true;
}

const struct jinja_builtin jinja_list_methods[] = {
    {"append", list_append, "object!"},
    {"extend", list_extend, "iterable!"},
    {"insert", list_insert, "index! object!"},
    {"pop", list_pop, "index"},
    {"remove", list_remove, "value!"},
    {"index", list_index, "value!"},
    {"count", list_count, "value!"},
    {"reverse", list_reverse, ""},
    {"copy", list_copy, ""},
    {"clear", list_clear, ""},
    {"sort", NULL, NULL},
    {NULL, NULL, NULL},
};

const struct jinja_builtin jinja_tuple_methods[] = {
    {"index", list_index, "value!"},
    {"count", list_count, "value!"},
    {NULL, NULL, NULL},
};

/* ---- dicts ---- */

static bool dict_get(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_value *found;
    if (!jinja_dict_find(run, in->self.dict, &in->arg[0], &found))
        return false;
    *out = found ? *found : in->arg[1].type == JINJA_ABSENT ? jinja_none() : in->arg[1];
    return true;
}

enum view { VIEW_KEYS, VIEW_VALUES, VIEW_ITEMS };

static bool dict_view(struct jinja_run *run, struct jinja_invocation *in, enum view view,
                      struct jinja_value *out)
{
    static const char *const labels[] = {"dict_keys", "dict_values", "dict_items"};
    const struct jinja_dict *dict = in->self.dict;
    if (!jinja_new_list(run, JINJA_VIEW, dict->count, out))
        return false;
    out->data = in->self.data;
    out->list->label = labels[view];
    for (size_t i = 0; i < dict->count; i++) {
        const struct jinja_entry *entry = &dict->entries[i];
        struct jinja_value item = view == VIEW_KEYS ? entry->key : entry->value;
        if (view == VIEW_ITEMS && !jinja_new_tuple2(run, entry->key, entry->value, &item))
            return false;
        if (!jinja_list_push(run, out->list, item))
            return false;
    }
    return true;
}

static bool dict_keys(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    return dict_view(run, in, VIEW_KEYS, out);
}

static bool dict_values(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    return dict_view(run, in, VIEW_VALUES, out);
}

static bool dict_items(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    return dict_view(run, in, VIEW_ITEMS, out);
}

static bool set_all(struct jinja_run *run, struct jinja_dict *dict, const struct jinja_dict *from)
{
    for (size_t i = 0; i < from->count; i++) {
        if (!jinja_dict_set(run, dict, &from->entries[i].key, &from->entries[i].value))
            return false;
    }
    return true;
}

static bool dict_copy(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    bool ok = jinja_new_dict(run, JINJA_DICT, out) && set_all(run, out->dict, in->self.dict);
    out->data = in->self.data;
    return ok;
}

/* One dict and keyword arguments. */
static bool dict_update(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    const struct jinja_call *call = in->call;
    struct jinja_value copy;
    *out = jinja_none();
    if (!own_dict(run, in))
        return false;
    if (call->num_args > 1 || (call->num_args && call->args[0].type != JINJA_DICT))
        return jinja_error(run, "update() takes one dict");
    /* A copy, because a dict may be updated with itself. */
    if (call->num_args &&
        (!jinja_new_dict(run, JINJA_DICT, &copy) || !set_all(run, copy.dict, call->args[0].dict) ||
         !set_all(run, in->self.dict, copy.dict)))
        return false;
    for (size_t i = 0; i < call->num_named; i++) {
        struct jinja_value key = jinja_text_of(call->named[i].name, false);
        if (!jinja_dict_set(run, in->self.dict, &key, &call->named[i].value))
            return false;
    }
    return true;
}

static bool dict_setdefault(struct jinja_run *run, struct jinja_invocation *in,
                            struct jinja_value *out)
{
    struct jinja_value *found;
    if (!own_dict(run, in) || !jinja_dict_find(run, in->self.dict, &in->arg[0], &found))
        return false;
    *out = found ? *found : in->arg[1].type == JINJA_ABSENT ? jinja_none() : in->arg[1];
    return found || jinja_dict_set(run, in->self.dict, &in->arg[0], out);
}

static bool dict_pop(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_dict *dict = in->self.dict;
    struct jinja_value *found;
    if (!own_dict(run, in) || !jinja_dict_find(run, dict, &in->arg[0], &found))
        return false;
    *out = found ? *found : in->arg[1];
    if (!found)
        return in->arg[1].type != JINJA_ABSENT || jinja_error(run, "pop() of a key that is not "
                                                                   "there");
    size_t at = 0;
    while (&dict->entries[at].value != found)
        at++;
    memmove(dict->entries + at, dict->entries + at + 1,
            (dict->count - at - 1) * sizeof(*dict->entries));
    dict->count--;
    return true;
}

static bool dict_clear(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    if (!own_dict(run, in))
        return false;
    in->self.dict->count = 0;
    *out = jinja_none();
    return true;
}

const struct jinja_builtin jinja_dict_methods[] = {
    {"get", dict_get, "key! default"},
    {"items", dict_items, ""},
    {"keys", dict_keys, ""},
    {"values", dict_values, ""},
    {"copy", dict_copy, ""},
    {"update", dict_update, NULL},
    {"setdefault", dict_setdefault, "key! default"},
    {"pop", dict_pop, "key! default"},
    {"clear", dict_clear, ""},
    {"popitem", NULL, NULL},
    {"fromkeys", NULL, NULL},
    {NULL, NULL, NULL},
};
