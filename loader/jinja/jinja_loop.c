/* The variable `loop`, and the functions `cycler` and `joiner`. */
#include "loader/jinja/jinja_eval.h"

bool jinja_loop_next(struct jinja_loop *loop)
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

/* Takes the next element ahead of time; false: there is none. */
static bool peek(struct jinja_loop *loop)
{
    if (!loop->has_after)
        loop->has_after = jinja_iter_next(&loop->iter, &loop->after);
    return loop->has_after;
}

static bool loop_length(struct jinja_run *run, struct jinja_loop *loop, int64_t *out)
{
    if (!loop->has_length && !jinja_length(run, &loop->iter.over, &loop->length))
        return false;
    loop->has_length = true;
    *out = (int64_t)loop->length;
    return true;
}

bool jinja_loop_attribute(struct jinja_run *run, struct jinja_loop *loop, struct dgl_str name,
                          struct jinja_value *out, bool *found)
{
    int64_t length = 0;
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
    else if (!loop_length(run, loop, &length))
        return false;
    else if (dgl_str_eq(name, "length"))
        *out = jinja_int(length);
    else if (dgl_str_eq(name, "revindex"))
        *out = jinja_int(length - loop->index0);
    else if (dgl_str_eq(name, "revindex0"))
        *out = jinja_int(length - loop->index0 - 1);
    else
        *found = false;
    return true;
}

static bool loop_cycle(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    if (in->call->num_args == 0)
        return jinja_error(run, "no items for cycling given");
    *out = in->call->args[(size_t)in->self.loop->index0 % in->call->num_args];
    return true;
}

static bool loop_changed(struct jinja_run *run, struct jinja_invocation *in,
                         struct jinja_value *out)
{
    struct jinja_loop *loop = in->self.loop;
    struct jinja_value values;
    bool same = false;
    if (!jinja_new_list(run, JINJA_TUPLE, in->call->num_args, &values))
        return false;
    for (size_t i = 0; i < in->call->num_args; i++) {
        if (!jinja_list_push(run, values.list, in->call->args[i]))
            return false;
    }
    if (loop->last_changed.type != JINJA_ABSENT &&
        !jinja_equal(run, &loop->last_changed, &values, &same))
        return false;
    loop->last_changed = values;
    *out = jinja_bool(!same);
    return true;
}

const struct jinja_builtin jinja_loop_methods[] = {
    {"cycle", loop_cycle, NULL}, {"changed", loop_changed, NULL}, {NULL, NULL, NULL}};

static bool cycler_next(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_cycler *cycler = in->self.cycler;
    (void)run;
    *out = cycler->list->items[cycler->next];
    cycler->next = (cycler->next + 1) % cycler->list->count;
    return true;
}

static bool cycler_reset(struct jinja_run *run, struct jinja_invocation *in,
                         struct jinja_value *out)
{
    (void)run;
    in->self.cycler->next = 0;
    *out = jinja_none();
    return true;
}

const struct jinja_builtin jinja_cycler_methods[] = {
    {"next", cycler_next, ""}, {"reset", cycler_reset, ""}, {NULL, NULL, NULL}};
