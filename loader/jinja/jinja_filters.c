/* Filters of strings, lists, dicts and numbers. */
#include <math.h>
#include <string.h>

#include "core/base/utf8.h"
#include "loader/jinja/jinja_call.h"
#include "loader/jinja/jinja_lex.h"
#include "loader/text/tok_unicode.h"

/* ---- strings ---- */

bool jinja_filter_case(struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_value text;
    return jinja_to_text(in->run, &in->self, &text) &&
           jinja_change_case(in->run, &text, (enum jinja_casing)in->builtin->variant, out);
}

bool jinja_filter_has_case(struct jinja_invocation *in, struct jinja_value *out)
{
    return jinja_has_case(in->run, &in->self, (enum jinja_casing)in->builtin->variant, out);
}

bool jinja_filter_strip(struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_value text, set;
    return jinja_to_text(in->run, &in->self, &text) &&
           jinja_arg_text(in, 0, (struct jinja_value){0}, &set) &&
           jinja_strip_text(in->run, &text, &set, in->builtin->variant, out);
}

static bool filter_replace(struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_value text, old, with;
    int64_t count;
    return jinja_to_text(in->run, &in->self, &text) && jinja_to_text(in->run, &in->arg[0], &old) &&
           jinja_to_text(in->run, &in->arg[1], &with) && jinja_arg_int(in, 2, -1, &count) &&
           jinja_replace(in->run, &text, &old, &with, count, out);
}

static bool filter_string(struct jinja_invocation *in, struct jinja_value *out)
{
    return jinja_to_text(in->run, &in->self, out);
}

/* Variant: 1 escapes safe strings too. */
static bool filter_escape(struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_value text;
    if (!jinja_to_text(in->run, &in->self, &text))
        return false;
    if (in->builtin->variant)
        text.safe = false;
    return jinja_escape(in->run, &text, out);
}

static bool filter_safe(struct jinja_invocation *in, struct jinja_value *out)
{
    if (!jinja_to_text(in->run, &in->self, out))
        return false;
    out->safe = true;
    return true;
}

static bool filter_format(struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_value text, values;
    const struct jinja_call *call = in->call;
    if (call->num_args && call->num_named)
        return jinja_error(in->run,
                           "can't handle positional and keyword arguments at the same time");
    if (!jinja_to_text(in->run, &in->self, &text))
        return false;
    bool ok = call->num_named
                  ? jinja_new_dict(in->run, JINJA_DICT, &values) &&
                        jinja_dict_set_named(in->run, values.dict, call)
                  : jinja_new_list(in->run, JINJA_TUPLE, call->num_args, &values) &&
                        jinja_list_extend(in->run, values.list, call->args, call->num_args);
    return ok && jinja_format_percent(in->run, &text, &values, out);
}

static bool filter_wordcount(struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_value text;
    int64_t words = 0;
    bool inside = false;
    if (!jinja_to_text(in->run, &in->self, &text) || !jinja_step_bytes(in->run, text.text.len))
        return false;
    struct dgl_str s = jinja_str(&text);
    for (size_t pos = 0; pos < s.len;) {
        uint32_t cp;
        pos += dgl_utf8_decode(s.p + pos, s.len - pos, &cp);
        bool word = tok_is_word(cp);
        words += word && !inside;
        inside = word;
    }
    *out = jinja_int(words);
    return true;
}

static bool filter_indent(struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_value text, indent, lines, newline = jinja_literal("\n");
    bool first = jinja_arg_truth(in, 1, false), blank = jinja_arg_truth(in, 2, false);
    if (in->self.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(in->run, &in->self);
    if (!jinja_is_text(&in->self))
        return jinja_error(in->run, "unsupported operand type(s) for +=: '%s' and 'str'",
                           jinja_type_name(&in->self));
    /* Splitting into lines drops a final newline. Add one, so that an existing one is kept. */
    if (!jinja_concat(in->run, &in->self, &newline, &text) ||
        !jinja_blanks(in->run, &in->arg[0], 4, &indent) ||
        !jinja_split_lines(in->run, &text, false, &lines))
        return false;
    struct jinja_text result = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < lines.list->count; i++) {
        const struct jinja_value *line = &lines.list->items[i];
        bool indented = i == 0 ? first : blank || line->text.len;
        ok = (i == 0 || jinja_text_add(in->run, &result, &newline)) &&
             (!indented || jinja_text_add(in->run, &result, &indent)) &&
             jinja_text_add(in->run, &result, line);
    }
    return jinja_text_end(in->run, &result, ok, out);
}

/* ---- sorting ---- */

/* Reads the sort key of an element. Strings are converted to lower case unless `case_sensitive`. */
static bool sort_key(struct jinja_run *run, const struct jinja_value *item,
                     const struct jinja_value *path, bool case_sensitive, struct jinja_value *out)
{
    struct jinja_value key;
    if (!jinja_get_path(run, item, path, &key))
        return false;
    *out = key;
    return case_sensitive || !jinja_is_text(&key) || jinja_change_case(run, &key, JINJA_LOWER, out);
}

/* An element with its sort key. */
struct pair {
    struct jinja_value key, item;
};

/* Sorts by a stable bottom-up merge sort. *pairs and `space` are swapped; *pairs is the result. */
static bool merge_sort(struct jinja_run *run, struct pair **pairs, struct pair *space, size_t count,
                       bool reverse)
{
    for (size_t width = 1; width < count; width *= 2) {
        struct pair *from = *pairs, *to = space;
        for (size_t i = 0; i < count;) {
            /* Merges [left, middle) and [right, end). Equal elements keep their order. */
            size_t middle = count - i > width ? i + width : count;
            size_t end = count - middle > width ? middle + width : count;
            size_t left = i, right = middle, size = end - i;
            for (; i < end; i++) {
                bool both = left < middle && right < end;
                int order = right < end ? -1 : 1;
                if (both && !jinja_order(run, "<", &from[right].key, &from[left].key, &order))
                    return false;
                if (both && reverse)
                    order = -order;
                to[i] = order < 0 ? from[right++] : from[left++];
            }
            if (!jinja_step(run, size))
                return false;
        }
        *pairs = to;
        space = from;
    }
    return true;
}

bool jinja_sort(struct jinja_run *run, const struct jinja_value *value,
                const struct jinja_value *paths, bool case_sensitive, bool reverse,
                struct jinja_value *out)
{
    if (!jinja_collect(run, value, JINJA_LIST, out))
        return false;
    struct jinja_list *list = out->list;
    struct pair *pairs = jinja_alloc(run, list->count, sizeof(*pairs));
    struct pair *space = pairs ? jinja_alloc(run, list->count, sizeof(*space)) : NULL;
    if (!space)
        return false;
    for (size_t i = 0; i < list->count; i++) {
        struct dgl_str rest = jinja_is_text(paths) ? jinja_str(paths) : (struct dgl_str){0}, part;
        struct jinja_value key;
        pairs[i].item = list->items[i];
        if (!rest.len || !memchr(rest.p, ',', rest.len)) {
            if (!sort_key(run, &list->items[i], paths, case_sensitive, &pairs[i].key))
                return false;
            continue;
        }
        /* The key of "a,b" is a list with one element per path. */
        if (!jinja_new_list(run, JINJA_LIST, 0, &pairs[i].key))
            return false;
        while (dgl_str_split(&rest, ',', &part)) {
            struct jinja_value path = jinja_text_of(part, false);
            if (!sort_key(run, &list->items[i], &path, case_sensitive, &key) ||
                !jinja_list_push(run, pairs[i].key.list, key))
                return false;
        }
    }
    if (!merge_sort(run, &pairs, space, list->count, reverse))
        return false;
    for (size_t i = 0; i < list->count; i++)
        list->items[i] = pairs[i].item;
    return true;
}

/* ---- lists ---- */

static bool filter_length(struct jinja_invocation *in, struct jinja_value *out)
{
    size_t length;
    if (!jinja_length(in->run, &in->self, &length))
        return false;
    *out = jinja_int((int64_t)length);
    return true;
}

static bool filter_default(struct jinja_invocation *in, struct jinja_value *out)
{
    bool missing = in->self.type == JINJA_UNDEFINED ||
                   (jinja_arg_truth(in, 1, false) && !jinja_truth(&in->self));
    *out = in->self;
    if (missing)
        *out = in->arg[0].type == JINJA_ABSENT ? jinja_literal("") : in->arg[0];
    return true;
}

bool jinja_filter_list(struct jinja_invocation *in, struct jinja_value *out)
{
    return jinja_collect(in->run, &in->self, JINJA_LIST, out);
}

static bool filter_first(struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_iter iter;
    if (!jinja_iter_init(in->run, &in->self, &iter))
        return false;
    if (!jinja_iter_next(&iter, out))
        *out = jinja_undefined("No first item, sequence was empty.");
    return true;
}

static bool filter_last(struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_value items;
    if (in->self.type == JINJA_GENERATOR)
        return jinja_error(in->run, "'%s' object is not reversible", jinja_type_name(&in->self));
    if (!jinja_collect(in->run, &in->self, JINJA_LIST, &items))
        return false;
    size_t count = items.list->count;
    *out =
        count ? items.list->items[count - 1] : jinja_undefined("No last item, sequence was empty.");
    return true;
}

static bool filter_reverse(struct jinja_invocation *in, struct jinja_value *out)
{
    const struct jinja_value backwards[3] = {jinja_none(), jinja_none(), jinja_int(-1)};
    if (jinja_is_text(&in->self))
        return jinja_get_slice(in->run, &in->self, backwards, out);
    if (!jinja_collect(in->run, &in->self, JINJA_GENERATOR, out))
        return false;
    jinja_list_reverse(out->list);
    return true;
}

static bool filter_join(struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_iter iter;
    struct jinja_value separator = jinja_literal(""), item, part;
    struct jinja_text text = {0};
    if (in->arg[0].type != JINJA_ABSENT && !jinja_to_text(in->run, &in->arg[0], &separator))
        return false;
    bool ok = jinja_iter_init(in->run, &in->self, &iter);
    for (bool first = true; ok && jinja_iter_next(&iter, &item); first = false)
        ok = (first || jinja_text_add(in->run, &text, &separator)) && jinja_step(in->run, 1) &&
             jinja_get_path(in->run, &item, &in->arg[1], &part) &&
             jinja_text_add_str(in->run, &text, &part);
    return jinja_text_end(in->run, &text, ok, out);
}

/* ---- dicts ---- */

static bool filter_items(struct jinja_invocation *in, struct jinja_value *out)
{
    if (in->self.type == JINJA_UNDEFINED)
        return jinja_new_list(in->run, JINJA_GENERATOR, 0, out);
    if (in->self.type != JINJA_DICT)
        return jinja_error(in->run, "Can only get item pairs from a mapping.");
    return jinja_dict_pairs(in->run, in->self.dict, JINJA_GENERATOR, out);
}

static bool filter_dictsort(struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_value by, pairs;
    if (!jinja_arg_text(in, 1, jinja_literal("key"), &by))
        return false;
    bool by_value = dgl_str_eq(jinja_str(&by), "value");
    if (!by_value && !dgl_str_eq(jinja_str(&by), "key"))
        return jinja_error(in->run, "You can only sort by either \"key\" or \"value\"");
    if (in->self.type != JINJA_DICT)
        return jinja_error(in->run, "'%s' object has no attribute 'items'",
                           jinja_type_name(&in->self));
    struct jinja_value path = jinja_int(by_value);
    return jinja_dict_pairs(in->run, in->self.dict, JINJA_LIST, &pairs) &&
           jinja_sort(in->run, &pairs, &path, jinja_arg_truth(in, 0, false),
                      jinja_arg_truth(in, 2, false), out);
}

/* ---- sorting and reducing ---- */

static bool filter_sort(struct jinja_invocation *in, struct jinja_value *out)
{
    return jinja_sort(in->run, &in->self, &in->arg[2], jinja_arg_truth(in, 1, false),
                      jinja_arg_truth(in, 0, false), out);
}

static bool filter_unique(struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_iter iter;
    struct jinja_value item, seen, key;
    bool sensitive = jinja_arg_truth(in, 0, false);
    if (!jinja_iter_init(in->run, &in->self, &iter) ||
        !jinja_new_list(in->run, JINJA_GENERATOR, 0, out) ||
        !jinja_new_list(in->run, JINJA_LIST, 0, &seen))
        return false;
    while (jinja_iter_next(&iter, &item)) {
        bool known;
        if (!sort_key(in->run, &item, &in->arg[1], sensitive, &key) ||
            !jinja_contains(in->run, &seen, &key, &known))
            return false;
        if (!known && (!jinja_list_push(in->run, seen.list, key) ||
                       !jinja_list_push(in->run, out->list, item)))
            return false;
    }
    return true;
}

/* Returns the first of the smallest or largest elements. Variant: -1 or 1. */
static bool filter_extreme(struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_iter iter;
    struct jinja_value item, key, best;
    bool sensitive = jinja_arg_truth(in, 0, false), found = false;
    int sign = in->builtin->variant;
    if (!jinja_iter_init(in->run, &in->self, &iter))
        return false;
    while (jinja_iter_next(&iter, &item)) {
        int order = 0;
        if (!sort_key(in->run, &item, &in->arg[1], sensitive, &key) ||
            (found && !jinja_order(in->run, sign > 0 ? ">" : "<", &key, &best, &order)))
            return false;
        if (!found || sign * order > 0) {
            best = key;
            *out = item;
        }
        found = true;
    }
    if (!found)
        *out = jinja_undefined("No aggregated item, sequence was empty.");
    return true;
}

static bool filter_sum(struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_iter iter;
    struct jinja_value item, part, sum = in->arg[1];
    if (sum.type == JINJA_ABSENT)
        sum = jinja_int(0);
    if (!jinja_iter_init(in->run, &in->self, &iter))
        return false;
    while (jinja_iter_next(&iter, &item)) {
        struct jinja_value before = sum;
        if (!jinja_get_path(in->run, &item, &in->arg[0], &part) ||
            !jinja_arithmetic(in->run, JINJA_OP_ADD, &before, &part, &sum))
            return false;
    }
    *out = sum;
    return true;
}

/* ---- splitting lists ---- */

/* Splits the input into lists of `size` elements; the last one is filled up. */
static bool filter_batch(struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_iter iter;
    struct jinja_value item, batch = {0};
    int64_t size;
    if (!jinja_arg_int(in, 0, 0, &size) || !jinja_iter_init(in->run, &in->self, &iter) ||
        !jinja_new_list(in->run, JINJA_GENERATOR, 0, out))
        return false;
    while (jinja_iter_next(&iter, &item)) {
        bool full = batch.list && (int64_t)batch.list->count == size;
        if ((!batch.list || full) && (!jinja_new_list(in->run, JINJA_LIST, 0, &batch) ||
                                      !jinja_list_push(in->run, out->list, batch)))
            return false;
        if (!jinja_list_push(in->run, batch.list, item))
            return false;
    }
    while (jinja_arg_given(in, 1) && batch.list && (int64_t)batch.list->count < size) {
        if (!jinja_list_push(in->run, batch.list, in->arg[1]))
            return false;
    }
    return true;
}

/* Splits the input into `count` lists of about equal length. */
static bool filter_slice(struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_value items, part;
    int64_t count;
    if (!jinja_arg_int(in, 0, 0, &count) ||
        !jinja_collect(in->run, &in->self, JINJA_LIST, &items) ||
        !jinja_new_list(in->run, JINJA_GENERATOR, 0, out))
        return false;
    if (count == 0)
        return jinja_error(in->run, "integer division or modulo by zero");
    size_t next = 0, total = items.list->count;
    for (int64_t i = 0; i < count; i++) {
        bool longer = (uint64_t)i < total % (uint64_t)count;
        size_t end = next + total / (uint64_t)count + longer;
        if (!jinja_new_list(in->run, JINJA_LIST, 0, &part) ||
            !jinja_list_extend(in->run, part.list, items.list->items + next, end - next))
            return false;
        next = end;
        if ((!longer && jinja_arg_given(in, 1) &&
             !jinja_list_push(in->run, part.list, in->arg[1])) ||
            !jinja_list_push(in->run, out->list, part))
            return false;
    }
    return true;
}

/* Reads attributes, not the elements of dicts. */
static bool filter_attr(struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_value name;
    if (!jinja_arg_text(in, 0, jinja_literal(""), &name))
        return false;
    if (in->self.type != JINJA_DICT)
        return jinja_get_attribute(in->run, &in->self, jinja_str(&name), out);
    const struct jinja_builtin *method = jinja_find_method(&in->self, jinja_str(&name));
    if (method)
        return jinja_new_function(in->run, method, &in->self, out);
    *out = jinja_undefined("a dict has only its methods as attributes");
    return true;
}

/* ---- applying filters and tests to every element ---- */

/* Removes the first argument of a call and returns it. */
static const struct jinja_value *take_argument(struct jinja_call *call)
{
    call->num_args--;
    return call->args++;
}

/* Finds the filter or test that an argument names. Reports an unknown name. */
static bool find_named(struct jinja_run *run, const struct jinja_value *name, bool filter,
                       const struct jinja_builtin **out)
{
    *out = NULL;
    if (jinja_is_text(name))
        *out = filter ? jinja_find_filter(jinja_str(name)) : jinja_find_test(jinja_str(name));
    if (*out)
        return true;
    int len = jinja_is_text(name) && name->text.len < 60 ? (int)name->text.len : 0;
    return jinja_error(run, "No %s named '%.*s'.", filter ? "filter" : "test", len,
                       len ? name->text.p : "");
}

/* Flags in the variant of filter_select. */
enum { SELECT_BY_ATTRIBUTE = 1, SELECT_FAILING = 2 };

/* select(test, ...) and selectattr(attribute, test, ...). The default test is the truth value. */
static bool filter_select(struct jinja_invocation *in, struct jinja_value *out)
{
    const struct jinja_value *attribute = NULL;
    const struct jinja_builtin *test = NULL;
    struct jinja_call call = *in->call; /* arguments of the test */
    struct jinja_iter iter;
    struct jinja_value item;
    if (!jinja_new_list(in->run, JINJA_GENERATOR, 0, out))
        return false;
    out->data = in->self.data;
    if (!jinja_truth(&in->self))
        return true;
    if (in->builtin->variant & SELECT_BY_ATTRIBUTE) {
        if (call.num_args == 0)
            return jinja_error(in->run, "Missing parameter for attribute name");
        attribute = take_argument(&call);
    }
    if (call.num_args && !find_named(in->run, take_argument(&call), false, &test))
        return false;
    if (!jinja_iter_init(in->run, &in->self, &iter))
        return false;
    while (jinja_iter_next(&iter, &item)) {
        struct jinja_value value = item, answer;
        if (!jinja_step(in->run, 1) ||
            (attribute && !jinja_get_path(in->run, &item, attribute, &value)))
            return false;
        answer = value;
        if (test && !jinja_invoke(in->run, test, &value, &call, &answer))
            return false;
        if (jinja_truth(&answer) == !(in->builtin->variant & SELECT_FAILING) &&
            !jinja_list_push(in->run, out->list, item))
            return false;
    }
    return true;
}

/* map(filter, ...) or map(attribute=..., default=...) */
static bool filter_map(struct jinja_invocation *in, struct jinja_value *out)
{
    const struct jinja_value *attribute = NULL, *otherwise = NULL;
    const struct jinja_builtin *filter = NULL;
    struct jinja_call call = *in->call; /* arguments of the filter */
    struct jinja_iter iter;
    struct jinja_value item, mapped;
    if (!jinja_new_list(in->run, JINJA_GENERATOR, 0, out))
        return false;
    out->data = in->self.data;
    if (!jinja_truth(&in->self))
        return true;
    if (call.num_args) {
        if (!find_named(in->run, take_argument(&call), true, &filter))
            return false;
    } else {
        attribute = jinja_find_named(&call, DGL_STR("attribute"));
        otherwise = jinja_find_named(&call, DGL_STR("default"));
        if (!attribute)
            return jinja_error(in->run, "map requires a filter argument");
        if (call.num_named != (otherwise ? 2 : 1))
            return jinja_error(in->run, "map() got an unexpected keyword argument");
    }
    if (!jinja_iter_init(in->run, &in->self, &iter))
        return false;
    while (jinja_iter_next(&iter, &item)) {
        if (!(filter ? jinja_invoke(in->run, filter, &item, &call, &mapped)
                     : jinja_get_path(in->run, &item, attribute, &mapped)))
            return false;
        if (mapped.type == JINJA_UNDEFINED && otherwise && otherwise->type != JINJA_NONE)
            mapped = *otherwise;
        if (!jinja_list_push(in->run, out->list, mapped))
            return false;
    }
    return true;
}

/* ---- numbers ---- */

static bool filter_abs(struct jinja_invocation *in, struct jinja_value *out)
{
    const struct jinja_value *value = &in->self;
    if (value->type == JINJA_UNDEFINED)
        return jinja_fail_undefined(in->run, value);
    if (!jinja_is_number(value))
        return jinja_error(in->run, "bad operand type for abs(): '%s'", jinja_type_name(value));
    bool negative =
        value->type == JINJA_FLOAT ? signbit(value->real) != 0 : jinja_integer(value) < 0;
    return jinja_negate(in->run, value, negative, out);
}

static bool float_to_int(double value, int64_t *out)
{
    if (!(value >= -0x1p63 && value < 0x1p63))
        return false;
    *out = (int64_t)value;
    return true;
}

/* int(value) of Python; strings are converted by int(), then by int(float()). Returns the default
 * if that fails. */
static bool filter_int(struct jinja_invocation *in, struct jinja_value *out)
{
    const struct jinja_value *self = &in->self;
    int64_t base = 10, integer = 0;
    double real = 0;
    bool ok = true;
    if (self->type == JINJA_UNDEFINED)
        return jinja_fail_undefined(in->run, self);
    if (jinja_is_text(self) && !jinja_arg_int(in, 1, 10, &base))
        return false;
    if (self->type == JINJA_FLOAT && isinf(self->real))
        return jinja_error(in->run, "cannot convert float infinity to integer");
    if (jinja_is_integral(self))
        integer = jinja_integer(self);
    else if (self->type == JINJA_FLOAT)
        ok = float_to_int(self->real, &integer);
    else
        ok = jinja_is_text(self) && base >= 0 && base <= 36 &&
             (jinja_parse_integer(jinja_str(self), (int)base, &integer) ||
              (jinja_parse_float(jinja_str(self), &real) && float_to_int(real, &integer)));
    *out = in->arg[0].type == JINJA_ABSENT ? jinja_int(0) : in->arg[0];
    if (ok) {
        *out = jinja_int(integer);
        out->data = self->data;
    }
    return true;
}

static bool filter_float(struct jinja_invocation *in, struct jinja_value *out)
{
    double real;
    if (in->self.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(in->run, &in->self);
    *out = in->arg[0].type == JINJA_ABSENT ? jinja_float(0) : in->arg[0];
    bool number = jinja_is_number(&in->self);
    if (number || (jinja_is_text(&in->self) && jinja_parse_float(jinja_str(&in->self), &real))) {
        *out = jinja_float(number ? jinja_real(&in->self) : real);
        out->data = in->self.data;
    }
    return true;
}

/* Rounds to the nearest decimal number. Ties round to even. */
static double round_nearest(double value, int64_t precision)
{
    struct dgl_buf space = {0};
    double rounded = value;
    if (!isfinite(value) || precision > 300)
        return value;
    if (precision < 0) {
        double unit = pow(10, (double)(precision < -310 ? 310 : -precision));
        return isfinite(unit) ? nearbyint(value / unit) * unit : 0;
    }
    dgl_buf_printf(&space, "%.*f", (int)precision, value);
    if (!space.failed)
        dgl_parse_f64((struct dgl_str){space.p, space.len}, &rounded);
    dgl_buf_finish(&space);
    return rounded;
}

static bool filter_round(struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_value method;
    int64_t precision;
    if (in->self.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(in->run, &in->self);
    if (!jinja_arg_int(in, 0, 0, &precision) ||
        !jinja_arg_text(in, 1, jinja_literal("common"), &method))
        return false;
    if (!jinja_is_number(&in->self))
        return jinja_error(in->run, "type %s doesn't define __round__ method",
                           jinja_type_name(&in->self));
    bool ceiling = dgl_str_eq(jinja_str(&method), "ceil");
    if (!ceiling && !dgl_str_eq(jinja_str(&method), "floor")) {
        if (!dgl_str_eq(jinja_str(&method), "common"))
            return jinja_error(in->run, "method must be common, ceil or floor");
        int64_t integer = jinja_is_integral(&in->self) ? jinja_integer(&in->self) : 0;
        if (in->self.type != JINJA_FLOAT && precision < 0 &&
            !float_to_int(round_nearest((double)integer, precision), &integer))
            return jinja_fail(in->run, DGL_ERR_UNSUPPORTED, "an integer needs more than 64 bits");
        *out = in->self.type == JINJA_FLOAT ? jinja_float(round_nearest(in->self.real, precision))
                                            : jinja_int(integer);
    } else {
        double unit = pow(10, (double)precision), scaled = jinja_real(&in->self) * unit;
        *out = jinja_float((ceiling ? ceil(scaled) : floor(scaled)) / unit);
    }
    out->data = in->self.data;
    return true;
}

const struct jinja_builtin jinja_filters[] = {
    {"upper", jinja_filter_case, "", JINJA_UPPER},
    {"lower", jinja_filter_case, "", JINJA_LOWER},
    {"title", jinja_filter_case, "", JINJA_TITLE_WORDS},
    {"capitalize", jinja_filter_case, "", JINJA_CAPITALIZE},
    {"trim", jinja_filter_strip, "chars", JINJA_STRIP_BOTH},
    {"replace", filter_replace, "old! new! count", 0},
    {"string", filter_string, "", 0},
    {"escape", filter_escape, "", 0},
    {"e", filter_escape, "", 0},
    {"forceescape", filter_escape, "", 1},
    {"safe", filter_safe, "", 0},
    {"format", filter_format, NULL, 0},
    {"wordcount", filter_wordcount, "", 0},
    {"indent", filter_indent, "width first blank", 0},
    {"length", filter_length, "", 0},
    {"count", filter_length, "", 0},
    {"default", filter_default, "default_value boolean", 0},
    {"d", filter_default, "default_value boolean", 0},
    {"list", jinja_filter_list, "", 0},
    {"first", filter_first, "", 0},
    {"last", filter_last, "", 0},
    {"reverse", filter_reverse, "", 0},
    {"join", filter_join, "d attribute", 0},
    {"items", filter_items, "", 0},
    {"dictsort", filter_dictsort, "case_sensitive by reverse", 0},
    {"sort", filter_sort, "reverse case_sensitive attribute", 0},
    {"unique", filter_unique, "case_sensitive attribute", 0},
    {"min", filter_extreme, "case_sensitive attribute", -1},
    {"max", filter_extreme, "case_sensitive attribute", 1},
    {"sum", filter_sum, "attribute start", 0},
    {"batch", filter_batch, "linecount! fill_with", 0},
    {"slice", filter_slice, "slices! fill_with", 0},
    {"attr", filter_attr, "name!", 0},
    {"tojson", jinja_filter_tojson, "ensure_ascii indent separators sort_keys", 0},
    {"select", filter_select, NULL, 0},
    {"reject", filter_select, NULL, SELECT_FAILING},
    {"selectattr", filter_select, NULL, SELECT_BY_ATTRIBUTE},
    {"rejectattr", filter_select, NULL, SELECT_BY_ATTRIBUTE | SELECT_FAILING},
    {"map", filter_map, NULL, 0},
    {"abs", filter_abs, "", 0},
    {"int", filter_int, "default base", 0},
    {"float", filter_float, "default", 0},
    {"round", filter_round, "precision method", 0},
    /* Not supported in chat templates. */
    {.name = "center"},
    {.name = "filesizeformat"},
    {.name = "groupby"},
    {.name = "pprint"},
    {.name = "random"},
    {.name = "striptags"},
    {.name = "truncate"},
    {.name = "urlencode"},
    {.name = "urlize"},
    {.name = "wordwrap"},
    {.name = "xmlattr"},
    {.name = NULL},
};
