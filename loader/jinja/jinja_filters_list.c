/* Filters of lists, dicts and anything that can be walked. */
#include "loader/jinja/jinja_call.h"
#include "loader/jinja/jinja_ops.h"
#include "loader/jinja/jinja_string.h"
#include "loader/jinja/jinja_tojson.h"

static bool filter_length(struct jinja_run *run, struct jinja_invocation *in,
                          struct jinja_value *out)
{
    size_t length;
    if (!jinja_length(run, &in->self, &length))
        return false;
    *out = jinja_int((int64_t)length);
    return true;
}

static bool filter_default(struct jinja_run *run, struct jinja_invocation *in,
                           struct jinja_value *out)
{
    bool missing = in->self.type == JINJA_UNDEFINED ||
                   (jinja_arg_truth(in, 1, false) && !jinja_truth(&in->self));
    (void)run;
    *out = in->self;
    if (missing)
        *out = in->arg[0].type == JINJA_ABSENT ? jinja_literal("") : in->arg[0];
    return true;
}

static bool filter_list(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    return jinja_collect(run, &in->self, JINJA_LIST, out);
}

static bool filter_first(struct jinja_run *run, struct jinja_invocation *in,
                         struct jinja_value *out)
{
    struct jinja_iter iter;
    if (!jinja_iter_init(run, &in->self, &iter))
        return false;
    if (!jinja_iter_next(&iter, out))
        *out = jinja_undefined("No first item, sequence was empty.");
    return true;
}

static bool fail_reversible(struct jinja_run *run, const struct jinja_value *value)
{
    return jinja_error(run, "'%s' object is not reversible", jinja_type_name(value));
}

static bool filter_last(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_value items;
    if (in->self.type == JINJA_GENERATOR)
        return fail_reversible(run, &in->self);
    if (!jinja_collect(run, &in->self, JINJA_LIST, &items))
        return false;
    size_t count = items.list->count;
    *out =
        count ? items.list->items[count - 1] : jinja_undefined("No last item, sequence was empty.");
    return true;
}

static void reverse_items(struct jinja_list *list)
{
    for (size_t i = 0; i < list->count / 2; i++) {
        struct jinja_value item = list->items[i];
        list->items[i] = list->items[list->count - 1 - i];
        list->items[list->count - 1 - i] = item;
    }
}

static bool filter_reverse(struct jinja_run *run, struct jinja_invocation *in,
                           struct jinja_value *out)
{
    const struct jinja_value backwards[3] = {jinja_none(), jinja_none(), jinja_int(-1)};
    if (jinja_is_text(&in->self))
        return jinja_get_slice(run, &in->self, backwards, out);
    if (!jinja_collect(run, &in->self, JINJA_GENERATOR, out))
        return false;
    reverse_items(out->list);
    return true;
}

static bool filter_join(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_iter iter;
    struct jinja_value separator = jinja_literal(""), item, part;
    struct jinja_text text = {0};
    if (in->arg[0].type != JINJA_ABSENT && !jinja_to_text(run, &in->arg[0], &separator))
        return false;
    bool ok = jinja_iter_init(run, &in->self, &iter);
    for (bool first = true; ok && jinja_iter_next(&iter, &item); first = false)
        ok = (first || jinja_text_add(run, &text, &separator)) && jinja_step(run, 1) &&
             jinja_get_path(run, &item, &in->arg[1], &part) &&
             jinja_text_add_str(run, &text, &part);
    return jinja_text_end(run, &text, ok, out);
}

/* ---- dicts ---- */

static bool collect_pairs(struct jinja_run *run, const struct jinja_dict *dict,
                          enum jinja_type type, struct jinja_value *out)
{
    if (!jinja_new_list(run, type, dict->count, out))
        return false;
    for (size_t i = 0; i < dict->count; i++) {
        struct jinja_value pair;
        if (!jinja_new_tuple2(run, dict->entries[i].key, dict->entries[i].value, &pair) ||
            !jinja_list_push(run, out->list, pair))
            return false;
    }
    return true;
}

static bool filter_items(struct jinja_run *run, struct jinja_invocation *in,
                         struct jinja_value *out)
{
    if (in->self.type == JINJA_UNDEFINED)
        return jinja_new_list(run, JINJA_GENERATOR, 0, out);
    if (in->self.type != JINJA_DICT)
        return jinja_error(run, "Can only get item pairs from a mapping.");
    return collect_pairs(run, in->self.dict, JINJA_GENERATOR, out);
}

static bool filter_dictsort(struct jinja_run *run, struct jinja_invocation *in,
                            struct jinja_value *out)
{
    struct jinja_value by, pairs;
    if (!jinja_arg_text(run, in, 1, jinja_literal("key"), &by))
        return false;
    bool by_value = dgl_str_eq(jinja_str(&by), "value");
    if (!by_value && !dgl_str_eq(jinja_str(&by), "key"))
        return jinja_error(run, "You can only sort by either \"key\" or \"value\"");
    if (in->self.type != JINJA_DICT)
        return jinja_error(run, "'%s' object has no attribute 'items'", jinja_type_name(&in->self));
    struct jinja_value path = jinja_int(by_value);
    return collect_pairs(run, in->self.dict, JINJA_LIST, &pairs) &&
           jinja_sort(run, &pairs, &path, jinja_arg_truth(in, 0, false),
                      jinja_arg_truth(in, 2, false), out);
}

/* ---- order ---- */

static bool filter_sort(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    return jinja_sort(run, &in->self, &in->arg[2], jinja_arg_truth(in, 1, false),
                      jinja_arg_truth(in, 0, false), out);
}

static bool filter_unique(struct jinja_run *run, struct jinja_invocation *in,
                          struct jinja_value *out)
{
    struct jinja_iter iter;
    struct jinja_value item, seen, key;
    bool sensitive = jinja_arg_truth(in, 0, false);
    if (!jinja_iter_init(run, &in->self, &iter) || !jinja_new_list(run, JINJA_GENERATOR, 0, out) ||
        !jinja_new_list(run, JINJA_LIST, 0, &seen))
        return false;
    while (jinja_iter_next(&iter, &item)) {
        bool known;
        if (!jinja_sort_key(run, &item, &in->arg[1], sensitive, &key) ||
            !jinja_contains(run, &seen, &key, &known))
            return false;
        if (!known &&
            (!jinja_list_push(run, seen.list, key) || !jinja_list_push(run, out->list, item)))
            return false;
    }
    return true;
}

/* The first of the smallest elements, or with `sign` 1 of the largest ones. */
static bool find_extreme(struct jinja_run *run, struct jinja_invocation *in, int sign,
                         struct jinja_value *out)
{
    struct jinja_iter iter;
    struct jinja_value item, key, best;
    bool sensitive = jinja_arg_truth(in, 0, false), found = false;
    if (!jinja_iter_init(run, &in->self, &iter))
        return false;
    while (jinja_iter_next(&iter, &item)) {
        int order = 0;
        if (!jinja_sort_key(run, &item, &in->arg[1], sensitive, &key) ||
            (found && !jinja_order(run, sign > 0 ? ">" : "<", &key, &best, &order)))
            return false;
        if (!found || (sign > 0 ? order > 0 : order < 0)) {
            best = key;
            *out = item;
        }
        found = true;
    }
    if (!found)
        *out = jinja_undefined("No aggregated item, sequence was empty.");
    return true;
}

static bool filter_min(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    return find_extreme(run, in, -1, out);
}

static bool filter_max(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    return find_extreme(run, in, 1, out);
}

static bool filter_sum(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_iter iter;
    struct jinja_value item, part, sum = in->arg[1];
    if (sum.type == JINJA_ABSENT)
        sum = jinja_int(0);
    if (!jinja_iter_init(run, &in->self, &iter))
        return false;
    while (jinja_iter_next(&iter, &item)) {
        struct jinja_value before = sum;
        if (!jinja_get_path(run, &item, &in->arg[0], &part) ||
            !jinja_arithmetic(run, JINJA_OP_ADD, &before, &part, &sum))
            return false;
    }
    *out = sum;
    return true;
}

/* ---- parts ---- */

/* Lists of `size` elements; the last one is filled up. */
static bool filter_batch(struct jinja_run *run, struct jinja_invocation *in,
                         struct jinja_value *out)
{
    struct jinja_iter iter;
    struct jinja_value item, batch = {0};
    int64_t size;
    if (!jinja_arg_int(run, in, 0, 0, &size) || !jinja_iter_init(run, &in->self, &iter) ||
        !jinja_new_list(run, JINJA_GENERATOR, 0, out))
        return false;
    while (jinja_iter_next(&iter, &item)) {
        bool full = batch.list && (int64_t)batch.list->count == size;
        if ((!batch.list || full) && (!jinja_new_list(run, JINJA_LIST, 0, &batch) ||
                                      !jinja_list_push(run, out->list, batch)))
            return false;
        if (!jinja_list_push(run, batch.list, item))
            return false;
    }
    while (jinja_arg_given(in, 1) && batch.list && (int64_t)batch.list->count < size) {
        if (!jinja_list_push(run, batch.list, in->arg[1]))
            return false;
    }
    return true;
}

/* `count` lists of about the same length. */
static bool filter_slice(struct jinja_run *run, struct jinja_invocation *in,
                         struct jinja_value *out)
{
    struct jinja_value items, part;
    int64_t count;
    if (!jinja_arg_int(run, in, 0, 0, &count) ||
        !jinja_collect(run, &in->self, JINJA_LIST, &items) ||
        !jinja_new_list(run, JINJA_GENERATOR, 0, out))
        return false;
    if (count == 0)
        return jinja_error(run, "integer division or modulo by zero");
    size_t next = 0, total = items.list->count;
    for (int64_t i = 0; i < count; i++) {
        bool longer = (uint64_t)i < total % (uint64_t)count;
        size_t end = next + total / (uint64_t)count + longer;
        if (!jinja_new_list(run, JINJA_LIST, 0, &part))
            return false;
        for (; next < end; next++) {
            if (!jinja_list_push(run, part.list, items.list->items[next]))
                return false;
        }
        if ((!longer && jinja_arg_given(in, 1) && !jinja_list_push(run, part.list, in->arg[1])) ||
            !jinja_list_push(run, out->list, part))
            return false;
    }
    return true;
}

/* Attributes only: what a dict holds are elements. */
static bool filter_attr(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_value name;
    if (!jinja_arg_text(run, in, 0, jinja_literal(""), &name))
        return false;
    if (in->self.type != JINJA_DICT)
        return jinja_get_attribute(run, &in->self, jinja_str(&name), out);
    const struct jinja_builtin *method = jinja_find_method(&in->self, jinja_str(&name));
    if (method)
        return jinja_new_function(run, method, &in->self, out);
    *out = jinja_undefined("a dict has only its methods as attributes");
    return true;
}

const struct jinja_builtin jinja_list_filters[] = {
    {"length", filter_length, ""},
    {"count", filter_length, ""},
    {"default", filter_default, "default_value boolean"},
    {"d", filter_default, "default_value boolean"},
    {"list", filter_list, ""},
    {"first", filter_first, ""},
    {"last", filter_last, ""},
    {"reverse", filter_reverse, ""},
    {"join", filter_join, "d attribute"},
    {"items", filter_items, ""},
    {"dictsort", filter_dictsort, "case_sensitive by reverse"},
    {"sort", filter_sort, "reverse case_sensitive attribute"},
    {"unique", filter_unique, "case_sensitive attribute"},
    {"min", filter_min, "case_sensitive attribute"},
    {"max", filter_max, "case_sensitive attribute"},
    {"sum", filter_sum, "attribute start"},
    {"batch", filter_batch, "linecount! fill_with"},
    {"slice", filter_slice, "slices! fill_with"},
    {"attr", filter_attr, "name!"},
    {"tojson", jinja_filter_tojson, "ensure_ascii indent separators sort_keys"},
    {"random", NULL, NULL},
    {"groupby", NULL, NULL},
    {NULL, NULL, NULL},
};
