/* Filters of texts. */
#include "core/base/utf8.h"
#include "loader/jinja/jinja_call.h"
#include "loader/jinja/jinja_chars.h"
#include "loader/jinja/jinja_format.h"
#include "loader/jinja/jinja_ops.h"
#include "loader/jinja/jinja_string.h"
#include "loader/text/tok_unicode.h"

/* What the filter is applied to, as a text: most filters print their input first. */
static bool self_text(struct jinja_run *run, const struct jinja_invocation *in,
                      struct jinja_value *out)
{
    return jinja_to_text(run, &in->self, out);
}

static bool change_case(struct jinja_run *run, const struct jinja_invocation *in,
                        enum jinja_casing casing, struct jinja_value *out)
{
    struct jinja_value text;
    return self_text(run, in, &text) && jinja_change_case(run, &text, casing, out);
}

static bool filter_upper(struct jinja_run *run, struct jinja_invocation *in,
                         struct jinja_value *out)
{
    return change_case(run, in, JINJA_UPPER, out);
}

static bool filter_lower(struct jinja_run *run, struct jinja_invocation *in,
                         struct jinja_value *out)
{
    return change_case(run, in, JINJA_LOWER, out);
}

static bool filter_title(struct jinja_run *run, struct jinja_invocation *in,
                         struct jinja_value *out)
{
    return change_case(run, in, JINJA_TITLE_WORDS, out);
}

static bool filter_capitalize(struct jinja_run *run, struct jinja_invocation *in,
                              struct jinja_value *out)
{
    return change_case(run, in, JINJA_CAPITALIZE, out);
}

static bool filter_trim(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_value text, set;
    return self_text(run, in, &text) && jinja_arg_text(run, in, 0, (struct jinja_value){0}, &set) &&
           jinja_strip_text(run, &text, &set, JINJA_STRIP_BOTH, out);
}

static bool filter_replace(struct jinja_run *run, struct jinja_invocation *in,
                           struct jinja_value *out)
{
    struct jinja_value text, old, with;
    int64_t count;
    return self_text(run, in, &text) && jinja_to_text(run, &in->arg[0], &old) &&
           jinja_to_text(run, &in->arg[1], &with) && jinja_arg_int(run, in, 2, -1, &count) &&
           jinja_replace(run, &text, &old, &with, count, out);
}

static bool filter_string(struct jinja_run *run, struct jinja_invocation *in,
                          struct jinja_value *out)
{
    return self_text(run, in, out);
}

static bool filter_escape(struct jinja_run *run, struct jinja_invocation *in,
                          struct jinja_value *out)
{
    struct jinja_value text;
    return self_text(run, in, &text) && jinja_escape(run, &text, out);
}

static bool filter_forceescape(struct jinja_run *run, struct jinja_invocation *in,
                               struct jinja_value *out)
{
    struct jinja_value text;
    if (!self_text(run, in, &text))
        return false;
    text.safe = false;
    return jinja_escape(run, &text, out);
}

static bool filter_safe(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    if (!self_text(run, in, out))
        return false;
    out->safe = true;
    return true;
}

static bool filter_format(struct jinja_run *run, struct jinja_invocation *in,
                          struct jinja_value *out)
{
    struct jinja_value text, values;
    const struct jinja_call *call = in->call;
    if (call->num_args && call->num_named)
        return jinja_error(run, "can't handle positional and keyword arguments at the same time");
    if (!self_text(run, in, &text) ||
        !(call->num_named ? jinja_new_dict(run, JINJA_DICT, &values)
                          : jinja_new_list(run, JINJA_TUPLE, call->num_args, &values)))
        return false;
    for (size_t i = 0; i < call->num_args; i++) {
        if (!jinja_list_push(run, values.list, call->args[i]))
            return false;
    }
    for (size_t i = 0; i < call->num_named; i++) {
        struct jinja_value key = jinja_text_of(call->named[i].name, false);
        if (!jinja_dict_set(run, values.dict, &key, &call->named[i].value))
            return false;
    }
    return jinja_format_percent(run, &text, &values, out);
}

static bool filter_wordcount(struct jinja_run *run, struct jinja_invocation *in,
                             struct jinja_value *out)
{
    struct jinja_value text;
    int64_t words = 0;
    bool inside = false;
    if (!self_text(run, in, &text) || !jinja_step_bytes(run, text.text.len))
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

/* ---- indent ---- */

/* The width as a number of blanks, or as the text to put in front. */
static bool indent_text(struct jinja_run *run, const struct jinja_value *width,
                        struct jinja_value *out)
{
    struct jinja_value blank = jinja_literal(" "), four = jinja_int(4);
    if (jinja_is_text(width)) {
        *out = *width;
        return true;
    }
    return jinja_arithmetic(run, JINJA_OP_MUL, &blank, width->type == JINJA_ABSENT ? &four : width,
                            out);
}

static bool filter_indent(struct jinja_run *run, struct jinja_invocation *in,
                          struct jinja_value *out)
{
    struct jinja_value text, indent, lines, newline = jinja_literal("\n");
    bool first = jinja_arg_truth(in, 1, false), blank = jinja_arg_truth(in, 2, false);
    if (in->self.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, &in->self);
    if (!jinja_is_text(&in->self))
        return jinja_error(run, "unsupported operand type(s) for +=: '%s' and 'str'",
                           jinja_type_name(&in->self));
    /* With a newline more, a text that ends in one keeps it: splitting into lines drops one. */
    if (!jinja_concat(run, &in->self, &newline, &text) || !indent_text(run, &in->arg[0], &indent) ||
        !jinja_split_lines(run, &text, false, &lines))
        return false;
    struct jinja_text result = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < lines.list->count; i++) {
        const struct jinja_value *line = &lines.list->items[i];
        bool indented = i == 0 ? first : blank || line->text.len;
        ok = (i == 0 || jinja_text_add(run, &result, &newline)) &&
             (!indented || jinja_text_add(run, &result, &indent)) &&
             jinja_text_add(run, &result, line);
    }
    return jinja_text_end(run, &result, ok, out);
}

const struct jinja_builtin jinja_text_filters[] = {
    {"upper", filter_upper, ""},
    {"lower", filter_lower, ""},
    {"title", filter_title, ""},
    {"capitalize", filter_capitalize, ""},
    {"trim", filter_trim, "chars"},
    {"replace", filter_replace, "old! new! count"},
    {"string", filter_string, ""},
    {"escape", filter_escape, ""},
    {"e", filter_escape, ""},
    {"forceescape", filter_forceescape, ""},
    {"safe", filter_safe, ""},
    {"format", filter_format, NULL},
    {"wordcount", filter_wordcount, ""},
    {"indent", filter_indent, "width first blank"},
    {"center", NULL, NULL},
    {"filesizeformat", NULL, NULL},
    {"pprint", NULL, NULL},
    {"striptags", NULL, NULL},
    {"truncate", NULL, NULL},
    {"urlencode", NULL, NULL},
    {"urlize", NULL, NULL},
    {"wordwrap", NULL, NULL},
    {"xmlattr", NULL, NULL},
    {NULL, NULL, NULL},
};
