/* Functions that every template has. */
#include <string.h>

#include "core/base/utf8.h"
#include "loader/jinja/jinja_call.h"
#include "loader/jinja/jinja_text.h"
#include "loader/jinja/jinja_time.h"

/* As jinja's sandbox has it: a longer range raises. */
enum { max_range = 100000 };

static bool global_range(struct jinja_run *run, struct jinja_invocation *in,
                         struct jinja_value *out)
{
    struct jinja_value range = {.type = JINJA_RANGE, .range = {.step = 1}};
    int64_t first, stop = 0;
    if (!jinja_arg_int(run, in, 0, 0, &first) || !jinja_arg_int(run, in, 1, 0, &stop) ||
        !jinja_arg_int(run, in, 2, 1, &range.range.step))
        return false;
    bool from_zero = in->arg[1].type == JINJA_ABSENT;
    range.range.start = from_zero ? 0 : first;
    range.range.stop = from_zero ? first : stop;
    if (range.range.step == 0)
        return jinja_error(run, "range() arg 3 must not be zero");
    if (jinja_range_count(&range) > max_range)
        return jinja_error(
            run, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d)", max_range);
    *out = range;
    return true;
}

/* Pairs of the arguments: dicts, lists of pairs, keywords. */
static bool fill_dict(struct jinja_run *run, const struct jinja_call *call, struct jinja_dict *dict)
{
    struct jinja_iter iter;
    struct jinja_value item, pair;
    if (call->num_args > 1)
        return jinja_error(run, "dict expected at most 1 argument, got %zu", call->num_args);
    if (call->num_args && !jinja_iter_init(run, &call->args[0], &iter))
        return false;
    while (call->num_args && jinja_iter_next(&iter, &item)) {
        if (call->args[0].type == JINJA_DICT) {
            struct jinja_value *value;
            if (!jinja_dict_find(run, call->args[0].dict, &item, &value) ||
                !jinja_dict_set(run, dict, &item, value))
                return false;
            continue;
        }
        if (!jinja_collect(run, &item, JINJA_TUPLE, &pair))
            return false;
        if (pair.list->count != 2)
            return jinja_error(run,
                               "dictionary update sequence element has length %zu; 2 is "
                               "required",
                               pair.list->count);
        if (!jinja_dict_set(run, dict, &pair.list->items[0], &pair.list->items[1]))
            return false;
    }
    for (size_t i = 0; i < call->num_named; i++) {
        item = jinja_text_of(call->named[i].name, false);
        if (!jinja_dict_set(run, dict, &item, &call->named[i].value))
            return false;
    }
    return true;
}

static bool global_dict(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    return jinja_new_dict(run, JINJA_DICT, out) && fill_dict(run, in->call, out->dict);
}

static bool global_namespace(struct jinja_run *run, struct jinja_invocation *in,
                             struct jinja_value *out)
{
    return jinja_new_dict(run, JINJA_NAMESPACE, out) && fill_dict(run, in->call, out->dict);
}

static bool new_cycler(struct jinja_run *run, struct jinja_value *out)
{
    struct jinja_cycler *cycler = jinja_alloc(run, 1, sizeof(*cycler));
    *out = (struct jinja_value){.type = JINJA_CYCLER, .cycler = cycler};
    return cycler != NULL;
}

static bool global_cycler(struct jinja_run *run, struct jinja_invocation *in,
                          struct jinja_value *out)
{
    struct jinja_value items;
    if (in->call->num_args == 0)
        return jinja_error(run, "at least one item has to be provided");
    if (!new_cycler(run, out) || !jinja_new_list(run, JINJA_LIST, in->call->num_args, &items))
        return false;
    out->cycler->list = items.list;
    for (size_t i = 0; i < in->call->num_args; i++) {
        if (!jinja_list_push(run, items.list, in->call->args[i]))
            return false;
    }
    return true;
}

static bool global_joiner(struct jinja_run *run, struct jinja_invocation *in,
                          struct jinja_value *out)
{
    if (!new_cycler(run, out))
        return false;
    out->cycler->separator = in->arg[0].type == JINJA_ABSENT ? jinja_literal(", ") : in->arg[0];
    return true;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* An error is one line: a line end in the template's words, with the blanks around it, reads as one
 * blank. Long words are cut, not within a character. */
static size_t make_message(struct dgl_str words, char *out, size_t room)
{
    size_t len = 0, from = 0; /* of the blanks before a word */
    bool ends_line = false;
    words = dgl_str_trim(words);
    for (size_t i = 0; i < words.len && len < room; i++) {
        ends_line |= words.p[i] == '\n' || words.p[i] == '\r';
        if (is_blank(words.p[i]))
            continue;
        if (ends_line)
            out[len++] = ' ';
        else
            while (from < i && len < room)
                out[len++] = words.p[from++];
        if (len < room)
            out[len++] = words.p[i];
        from = i + 1;
        ends_line = false;
    }
    return dgl_utf8_valid_prefix(out, len);
}

static bool global_raise(struct jinja_run *run, struct jinja_invocation *in,
                         struct jinja_value *out)
{
    struct jinja_value message;
    char line[2048];
    (void)out;
    if (!jinja_to_text(run, &in->arg[0], &message))
        return false;
    size_t len = make_message(jinja_str(&message), line, sizeof(line));
    return jinja_error(run, "%.*s", (int)len, line);
}

static bool global_strftime(struct jinja_run *run, struct jinja_invocation *in,
                            struct jinja_value *out)
{
    struct jinja_value format;
    struct dgl_buf space = {0};
    struct jinja_text text = {0};
    char unknown = '\0';
    if (!jinja_arg_text(run, in, 0, jinja_literal(""), &format) ||
        !jinja_step(run, format.text.len + 1))
        return false;
    bool ok = jinja_strftime(&space, jinja_str(&format), run->now, &unknown) ||
              jinja_fail(run, DGL_ERR_UNSUPPORTED, "strftime_now() does not know '%%%c'",
                         unknown >= 0x20 && unknown < 0x7F ? unknown : '?');
    ok = ok && jinja_text_put(run, &text, (struct dgl_str){space.p, space.len}, format.data);
    text.bytes.failed |= space.failed;
    dgl_buf_finish(&space);
    return jinja_text_end(run, &text, ok, out);
}

const struct jinja_builtin jinja_globals[] = {
    {"range", global_range, "start! stop step"},
    {"dict", global_dict, NULL},
    {"namespace", global_namespace, NULL},
    {"cycler", global_cycler, NULL},
    {"joiner", global_joiner, "sep"},
    {"raise_exception", global_raise, "message!"},
    {"strftime_now", global_strftime, "format!"},
    {"lipsum", NULL, NULL},
    {NULL, NULL, NULL},
};
