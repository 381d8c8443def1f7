/* Attributes, elements and slices of values, and calls of built-in functions. */
#include "loader/jinja/jinja_call.h"

#include "loader/jinja/jinja_eval.h"

/* ---- missing attributes and elements ---- */

static bool missing_attribute(const struct jinja_value *owner, struct dgl_str name,
                              struct jinja_value *out)
{
    *out = (struct jinja_value){
        .type = JINJA_UNDEFINED,
        .missing = {.name = name.p, .len = name.len, .owner = jinja_owner_name(owner)}};
    return true;
}

static bool missing_element(struct jinja_run *run, const struct jinja_value *owner,
                            const struct jinja_value *key, struct jinja_value *out)
{
    struct jinja_text text = {0};
    struct jinja_value message;
    bool ok = jinja_text_put(run, &text, dgl_str_of(jinja_owner_name(owner)), false) &&
              jinja_text_put(run, &text, DGL_STR(" has no element "), false) &&
              jinja_text_add_repr(run, &text, key);
    if (!jinja_text_end(run, &text, ok, &message))
        return false;
    *out = (struct jinja_value){.type = JINJA_UNDEFINED,
                                .missing = {.name = message.text.p, .len = message.text.len}};
    return true;
}

/* ---- elements ---- */

static bool find_element(struct jinja_run *run, const struct jinja_value *owner,
                         const struct jinja_value *key, struct jinja_value *out, bool *found)
{
    *found = false;
    if (owner->type == JINJA_DICT || owner->type == JINJA_NAMESPACE) {
        struct jinja_value *value;
        if (!jinja_dict_find(run, owner->dict, key, &value))
            return false;
        *found = value != NULL;
        if (value)
            *out = *value;
        return true;
    }
    size_t count;
    if (!jinja_is_integral(key) ||
        (!jinja_is_text(owner) && !jinja_is_sequence(owner) && owner->type != JINJA_RANGE))
        return true;
    if (!jinja_length(run, owner, &count))
        return false;
    int64_t index = jinja_integer(key); /* a negative one counts from the end */
    if (index < 0 && __builtin_add_overflow(index, (int64_t)count, &index))
        return true;
    *found = index >= 0 && (uint64_t)index < count;
    if (*found && jinja_is_text(owner)) {
        struct dgl_str text = jinja_str(owner);
        size_t start = jinja_char_offset(text, (size_t)index);
        struct dgl_str rest = {text.p + start, text.len - start};
        *out = jinja_slice_bytes(owner, start, jinja_char_offset(rest, 1));
    } else if (*found && owner->type == JINJA_RANGE) {
        *out = jinja_int(jinja_range_at(owner, (size_t)index));
    } else if (*found) {
        *out = owner->list->items[index];
    }
    return true;
}

/* Finds attributes that are not elements: those of loops and cyclers, and methods. */
static bool find_own(struct jinja_run *run, const struct jinja_value *owner, struct dgl_str name,
                     struct jinja_value *out, bool *found)
{
    *found = false;
    if (owner->type == JINJA_LOOP && !jinja_loop_attribute(run, owner->loop, name, out, found))
        return false;
    if (*found)
        return true;
    if (owner->type == JINJA_CYCLER && owner->cycler->list && dgl_str_eq(name, "current")) {
        *out = owner->cycler->list->items[owner->cycler->next];
        *found = true;
        return true;
    }
    const struct jinja_builtin *method = jinja_find_method(owner, name);
    *found = method != NULL;
    return !method || jinja_new_function(run, method, owner, out);
}

bool jinja_get_attribute(struct jinja_run *run, const struct jinja_value *value,
                         struct dgl_str name, struct jinja_value *out)
{
    bool found;
    struct jinja_value key = jinja_text_of(name, false);
    if (value->type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    if (!find_own(run, value, name, out, &found))
        return false;
    if (!found && !find_element(run, value, &key, out, &found))
        return false;
    return found || missing_attribute(value, name, out);
}

bool jinja_get_item(struct jinja_run *run, const struct jinja_value *value,
                    const struct jinja_value *key, struct jinja_value *out)
{
    bool found;
    if (value->type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    if (!find_element(run, value, key, out, &found))
        return false;
    if (found)
        return true;
    if (!jinja_is_text(key))
        return missing_element(run, value, key, out);
    if (!find_own(run, value, jinja_str(key), out, &found))
        return false;
    return found || missing_attribute(value, jinja_str(key), out);
}

bool jinja_get_path(struct jinja_run *run, const struct jinja_value *value,
                    const struct jinja_value *path, struct jinja_value *out)
{
    *out = *value;
    if (path->type == JINJA_ABSENT || path->type == JINJA_NONE)
        return true;
    if (!jinja_is_text(path)) {
        struct jinja_value owner = *out;
        return jinja_get_item(run, &owner, path, out);
    }
    struct dgl_str rest = jinja_str(path), part;
    while (dgl_str_split(&rest, '.', &part)) {
        int64_t index;
        struct jinja_value owner = *out, key = jinja_text_of(part, false);
        if (dgl_parse_i64(part, 0, INT64_MAX, &index))
            key = jinja_int(index);
        if (!jinja_get_item(run, &owner, &key, out))
            return false;
    }
    return true;
}

/* ---- slices ---- */

struct slice {
    int64_t start, step;
    size_t count;
};

static bool slice_bound(struct jinja_run *run, const struct jinja_value *bound, int64_t otherwise,
                        int64_t *out)
{
    if (bound->type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, bound);
    if (bound->type != JINJA_NONE && !jinja_is_integral(bound))
        return jinja_error(run, "slice indices must be integers or None, not %s",
                           jinja_type_name(bound));
    *out = bound->type == JINJA_NONE ? otherwise : jinja_integer(bound);
    return true;
}

/* Clamps a position to [low, high]. A negative position counts from the end. */
static int64_t clamp_bound(int64_t position, int64_t length, int64_t low, int64_t high)
{
    if (position < 0)
        position = position < -length ? low : position + length;
    return position < low ? low : position > high ? high : position;
}

/* Applies Python's rules for start:stop:step to `length` elements. */
static bool resolve_slice(struct jinja_run *run, const struct jinja_value bounds[3], size_t length,
                          struct slice *out)
{
    int64_t n = (int64_t)length, start, stop, step;
    if (!slice_bound(run, &bounds[2], 1, &step))
        return false;
    if (step == 0)
        return jinja_error(run, "slice step cannot be zero");
    if (step == INT64_MIN)
        step++; /* so that -step exists; both steps reach at most one element */
    if (!slice_bound(run, &bounds[0], step > 0 ? 0 : INT64_MAX, &start) ||
        !slice_bound(run, &bounds[1], step > 0 ? INT64_MAX : INT64_MIN, &stop))
        return false;
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    start = clamp_bound(start, n, low, high);
    stop = clamp_bound(stop, n, low, high);
    int64_t span = step > 0 ? stop - start : start - stop, size = step > 0 ? step : -step;
    *out = (struct slice){start, step, span > 0 ? (size_t)((span - 1) / size + 1) : 0};
    return true;
}

static bool slice_text(struct jinja_run *run, const struct jinja_value *value,
                       const struct slice *slice, struct jinja_value *out)
{
    struct dgl_str text = jinja_str(value);
    struct jinja_value chars;
    if (slice->step == 1) {
        size_t start = jinja_char_offset(text, (size_t)slice->start);
        struct dgl_str rest = {text.p + start, text.len - start};
        *out = jinja_slice_bytes(value, start, jinja_char_offset(rest, slice->count));
        return true;
    }
    if (!jinja_collect(run, value, JINJA_LIST, &chars))
        return false;
    struct jinja_text result = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < slice->count; i++)
        ok = jinja_text_add(run, &result,
                            &chars.list->items[slice->start + (int64_t)i * slice->step]);
    return jinja_text_end(run, &result, ok, out);
}

bool jinja_get_slice(struct jinja_run *run, const struct jinja_value *value,
                     const struct jinja_value bounds[3], struct jinja_value *out)
{
    struct slice slice = {0};
    struct jinja_value source = *value;
    size_t length;
    if (value->type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    if (value->type == JINJA_RANGE && !jinja_collect(run, value, JINJA_LIST, &source))
        return false;
    if (!jinja_is_text(&source) && !jinja_is_sequence(&source))
        return jinja_error(run, "'%s' object is not subscriptable", jinja_type_name(value));
    if (!jinja_length(run, &source, &length) || !resolve_slice(run, bounds, length, &slice))
        return false;
    if (jinja_is_text(&source))
        return slice_text(run, &source, &slice, out);
    if (!jinja_step(run, slice.count) || !jinja_new_list(run, source.type, slice.count, out))
        return false;
    for (size_t i = 0; i < slice.count; i++)
        out->list->items[i] = source.list->items[slice.start + (int64_t)i * slice.step];
    out->list->count = slice.count;
    out->data = value->data;
    return true;
}

/* ---- tables of built-ins ---- */

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
    return find_in(jinja_filters, name);
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
    switch (value->type) {
    case JINJA_STRING:
        return find_in(jinja_string_methods, name);
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

/* ---- calls ---- */

/* Copies the arguments of in->call to in->arg, in the order of the parameters. */
static bool bind(struct jinja_invocation *in)
{
    const char *function = in->builtin->name;
    struct dgl_str names[jinja_max_params], rest = dgl_str_of(in->builtin->params);
    bool required[jinja_max_params];
    size_t count = 0;
    while (count < jinja_max_params && dgl_str_split(&rest, ' ', &names[count])) {
        required[count] = names[count].p[names[count].len - 1] == '!';
        names[count].len -= required[count];
        count++;
    }
    if (in->call->num_args > count)
        return jinja_error(in->run, "%s() takes at most %zu argument%s (%zu given)", function,
                           count, count == 1 ? "" : "s", in->call->num_args);
    for (size_t i = 0; i < in->call->num_args; i++)
        in->arg[i] = in->call->args[i];
    for (size_t i = 0; i < in->call->num_named; i++) {
        struct dgl_str name = in->call->named[i].name;
        int shown = (int)(name.len < 60 ? name.len : 60);
        size_t p = 0;
        while (p < count && !dgl_str_equal(names[p], name))
            p++;
        if (p == count)
            return jinja_error(in->run, "%s() got an unexpected keyword argument '%.*s'", function,
                               shown, name.p);
        if (in->arg[p].type != JINJA_ABSENT)
            return jinja_error(in->run, "%s() got multiple values for argument '%.*s'", function,
                               shown, name.p);
        in->arg[p] = in->call->named[i].value;
    }
    for (size_t i = 0; i < count; i++) {
        if (required[i] && in->arg[i].type == JINJA_ABSENT)
            return jinja_error(in->run, "%s() missing required argument '%.*s'", function,
                               (int)names[i].len, names[i].p);
    }
    return true;
}

bool jinja_invoke(struct jinja_run *run, const struct jinja_builtin *builtin,
                  const struct jinja_value *self, const struct jinja_call *call,
                  struct jinja_value *out)
{
    struct jinja_invocation in = {.run = run, .builtin = builtin, .self = *self, .call = call};
    if (!builtin->fn)
        return jinja_fail(run, DGL_ERR_UNSUPPORTED, "'%s' is not supported in chat templates",
                          builtin->name);
    return (!builtin->params || bind(&in)) && builtin->fn(&in, out);
}

/* ---- arguments of built-in functions ---- */

const struct jinja_value *jinja_find_named(const struct jinja_call *call, struct dgl_str name)
{
    for (size_t i = 0; i < call->num_named; i++) {
        if (dgl_str_equal(call->named[i].name, name))
            return &call->named[i].value;
    }
    return NULL;
}

bool jinja_dict_set_named(struct jinja_run *run, struct jinja_dict *dict,
                          const struct jinja_call *call)
{
    for (size_t i = 0; i < call->num_named; i++) {
        struct jinja_value key = jinja_text_of(call->named[i].name, false);
        if (!jinja_dict_set(run, dict, &key, &call->named[i].value))
            return false;
    }
    return true;
}

bool jinja_arg_given(const struct jinja_invocation *in, size_t index)
{
    return in->arg[index].type != JINJA_ABSENT && in->arg[index].type != JINJA_NONE;
}

bool jinja_arg_text(struct jinja_invocation *in, size_t index, struct jinja_value otherwise,
                    struct jinja_value *out)
{
    *out = jinja_arg_given(in, index) ? in->arg[index] : otherwise;
    if (out->type == JINJA_UNDEFINED)
        return jinja_fail_undefined(in->run, out);
    if (out->type == JINJA_STRING || out->type == JINJA_ABSENT)
        return true;
    return jinja_error(in->run, "%s() argument must be str, not %s", in->builtin->name,
                       jinja_type_name(out));
}

bool jinja_arg_int(struct jinja_invocation *in, size_t index, int64_t otherwise, int64_t *out)
{
    const struct jinja_value *arg = &in->arg[index];
    *out = otherwise;
    if (!jinja_arg_given(in, index))
        return true;
    if (arg->type == JINJA_UNDEFINED)
        return jinja_fail_undefined(in->run, arg);
    if (!jinja_is_integral(arg))
        return jinja_error(in->run, "'%s' object cannot be interpreted as an integer",
                           jinja_type_name(arg));
    *out = jinja_integer(arg);
    return true;
}

bool jinja_arg_truth(const struct jinja_invocation *in, size_t index, bool otherwise)
{
    return in->arg[index].type == JINJA_ABSENT ? otherwise : jinja_truth(&in->arg[index]);
}
