/* Methods of texts that give texts or lists of texts. */
#include <string.h>

#include "core/base/utf8.h"
#include "loader/jinja/jinja_call.h"
#include "loader/jinja/jinja_chars.h"
#include "loader/jinja/jinja_format.h"
#include "loader/jinja/jinja_string.h"

static const struct jinja_value absent;

#define CASE_METHOD(name, casing)                                                                  \
    static bool method_##name(struct jinja_run *run, struct jinja_invocation *in,                  \
                              struct jinja_value *out)                                             \
    {                                                                                              \
        return jinja_change_case(run, &in->self, (casing), out);                                   \
    }

CASE_METHOD(upper, JINJA_UPPER)
CASE_METHOD(lower, JINJA_LOWER)
CASE_METHOD(title, JINJA_TITLE)
CASE_METHOD(capitalize, JINJA_CAPITALIZE)
CASE_METHOD(swapcase, JINJA_SWAPCASE)

#undef CASE_METHOD

static bool strip_side(struct jinja_run *run, struct jinja_invocation *in,
                       enum jinja_strip_side side, struct jinja_value *out)
{
    struct jinja_value set;
    return jinja_arg_text(run, in, 0, absent, &set) &&
           jinja_strip_text(run, &in->self, &set, side, out);
}

static bool method_strip(struct jinja_run *run, struct jinja_invocation *in,
                         struct jinja_value *out)
{
    return strip_side(run, in, JINJA_STRIP_BOTH, out);
}

static bool method_lstrip(struct jinja_run *run, struct jinja_invocation *in,
                          struct jinja_value *out)
{
    return strip_side(run, in, JINJA_STRIP_LEFT, out);
}

static bool method_rstrip(struct jinja_run *run, struct jinja_invocation *in,
                          struct jinja_value *out)
{
    return strip_side(run, in, JINJA_STRIP_RIGHT, out);
}

static bool method_replace(struct jinja_run *run, struct jinja_invocation *in,
                           struct jinja_value *out)
{
    struct jinja_value old, with;
    int64_t count;
    return jinja_arg_text(run, in, 0, absent, &old) && jinja_arg_text(run, in, 1, absent, &with) &&
           jinja_arg_int(run, in, 2, -1, &count) &&
           jinja_replace(run, &in->self, &old, &with, count, out);
}

static bool method_removeprefix(struct jinja_run *run, struct jinja_invocation *in,
                                struct jinja_value *out)
{
    struct jinja_value prefix;
    if (!jinja_arg_text(run, in, 0, absent, &prefix))
        return false;
    size_t len = prefix.text.len, total = in->self.text.len;
    bool there = len <= total && (len == 0 || memcmp(in->self.text.p, prefix.text.p, len) == 0);
    *out = there ? jinja_slice_bytes(&in->self, len, total - len) : in->self;
    return jinja_step_bytes(run, len);
}

static bool method_removesuffix(struct jinja_run *run, struct jinja_invocation *in,
                                struct jinja_value *out)
{
    struct jinja_value suffix;
    if (!jinja_arg_text(run, in, 0, absent, &suffix))
        return false;
    size_t len = suffix.text.len, total = in->self.text.len;
    bool there = len <= total &&
                 (len == 0 || memcmp(in->self.text.p + total - len, suffix.text.p, len) == 0);
    *out = there ? jinja_slice_bytes(&in->self, 0, total - len) : in->self;
    return jinja_step_bytes(run, len);
}

/* ---- splitting ---- */

struct split {
    struct jinja_run *run;
    const struct jinja_value *text;
    struct jinja_list *list;
    int64_t left; /* how many more times to split; negative: no limit */
};

static bool push_part(struct split *split, struct dgl_str part)
{
    return jinja_list_push(split->run, split->list, jinja_part(split->text, part));
}

/* Length of the part of `s` up to a blank, from the left or the right end. */
static size_t word_length(struct dgl_str s, bool from_right)
{
    size_t len = 0;
    while (len < s.len) {
        uint32_t cp;
        struct dgl_str rest = from_right ? (struct dgl_str){s.p, s.len - len}
                                         : (struct dgl_str){s.p + len, s.len - len};
        size_t size = from_right ? jinja_last_char(rest) : 0;
        size_t used = dgl_utf8_decode(from_right ? rest.p + rest.len - size : rest.p,
                                      from_right ? size : rest.len, &cp);
        if (jinja_is_space(cp))
            break;
        len += used;
    }
    return len;
}

static bool split_blanks(struct split *split, bool from_right)
{
    enum jinja_strip_side inner = from_right ? JINJA_STRIP_RIGHT : JINJA_STRIP_LEFT;
    struct dgl_str rest = jinja_strip(jinja_str(split->text), inner);
    while (rest.len) {
        if (split->left-- == 0)
            return push_part(split, rest);
        size_t len = word_length(rest, from_right);
        struct dgl_str word = {from_right ? rest.p + rest.len - len : rest.p, len};
        if (!push_part(split, word))
            return false;
        rest = (struct dgl_str){from_right ? rest.p : rest.p + len, rest.len - len};
        rest = jinja_strip(rest, inner);
    }
    return true;
}

static bool split_at(struct split *split, struct dgl_str separator, bool from_right)
{
    struct dgl_str rest = jinja_str(split->text);
    while (split->left-- != 0) {
        size_t at = from_right ? jinja_find_last(rest, separator) : jinja_find(rest, separator, 0);
        if (at == SIZE_MAX)
            break;
        size_t behind = at + separator.len;
        struct dgl_str left = {rest.p, at}, right = {rest.p + behind, rest.len - behind};
        if (!push_part(split, from_right ? right : left))
            return false;
        rest = from_right ? left : right;
    }
    return push_part(split, rest);
}

static void reverse_items(struct jinja_list *list)
{
    for (size_t i = 0; i < list->count / 2; i++) {
        struct jinja_value item = list->items[i];
        list->items[i] = list->items[list->count - 1 - i];
        list->items[list->count - 1 - i] = item;
    }
}

static bool split_text(struct jinja_run *run, struct jinja_invocation *in, bool from_right,
                       struct jinja_value *out)
{
    struct split split = {.run = run, .text = &in->self};
    struct jinja_value separator;
    if (!jinja_arg_text(run, in, 0, absent, &separator) ||
        !jinja_arg_int(run, in, 1, -1, &split.left) || !jinja_new_list(run, JINJA_LIST, 0, out))
        return false;
    bool blanks = separator.type == JINJA_ABSENT;
    if (split.left < 0)
        split.left = INT64_MAX;
    if (!blanks && separator.text.len == 0)
        return jinja_error(run, "empty separator");
    /* Searching from the right compares at every place. */
    size_t cost = from_right && !blanks ? separator.text.len / 64 : 0;
    split.list = out->list;
    if (!jinja_step(run, 1 + in->self.text.len / 16 * (1 + cost)) ||
        !(blanks ? split_blanks(&split, from_right)
                 : split_at(&split, jinja_str(&separator), from_right)))
        return false;
    if (from_right)
        reverse_items(out->list);
    return true;
}

static bool method_split(struct jinja_run *run, struct jinja_invocation *in,
                         struct jinja_value *out)
{
    return split_text(run, in, false, out);
}

static bool method_rsplit(struct jinja_run *run, struct jinja_invocation *in,
                          struct jinja_value *out)
{
    return split_text(run, in, true, out);
}

static bool method_splitlines(struct jinja_run *run, struct jinja_invocation *in,
                              struct jinja_value *out)
{
    return jinja_split_lines(run, &in->self, jinja_arg_truth(in, 0, false), out);
}

static bool partition(struct jinja_run *run, struct jinja_invocation *in, bool from_right,
                      struct jinja_value *out)
{
    struct jinja_value separator;
    struct dgl_str s = jinja_str(&in->self);
    if (!jinja_arg_text(run, in, 0, absent, &separator) ||
        !jinja_new_list(run, JINJA_TUPLE, 3, out) ||
        !jinja_step(run, 1 + s.len / 16 * (1 + separator.text.len / 64)))
        return false;
    if (separator.text.len == 0)
        return jinja_error(run, "empty separator");
    size_t at = from_right ? jinja_find_last(s, jinja_str(&separator))
                           : jinja_find(s, jinja_str(&separator), 0);
    struct jinja_value *parts = out->list->items, none = jinja_slice_bytes(&in->self, 0, 0);
    out->list->count = 3;
    parts[0] = parts[1] = parts[2] = none;
    if (at == SIZE_MAX) {
        parts[from_right ? 2 : 0] = in->self;
        return true;
    }
    size_t behind = at + separator.text.len;
    parts[0] = jinja_slice_bytes(&in->self, 0, at);
    parts[1] = separator;
    parts[2] = jinja_slice_bytes(&in->self, behind, s.len - behind);
    return true;
}

static bool method_partition(struct jinja_run *run, struct jinja_invocation *in,
                             struct jinja_value *out)
{
    return partition(run, in, false, out);
}

static bool method_rpartition(struct jinja_run *run, struct jinja_invocation *in,
                              struct jinja_value *out)
{
    return partition(run, in, true, out);
}

/* ---- joining and layout ---- */

static bool method_join(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_iter iter;
    struct jinja_value item;
    struct jinja_text text = {0};
    bool ok = jinja_iter_init(run, &in->arg[0], &iter);
    for (size_t i = 0; ok && jinja_iter_next(&iter, &item); i++) {
        if (!jinja_is_text(&item))
            ok = jinja_error(run, "sequence item %zu: expected str instance, %s found", i,
                             jinja_type_name(&item));
        ok = ok && jinja_step(run, 1) && (i == 0 || jinja_text_add(run, &text, &in->self)) &&
             jinja_text_add(run, &text, &item);
    }
    return jinja_text_end(run, &text, ok, out);
}

static bool method_format(struct jinja_run *run, struct jinja_invocation *in,
                          struct jinja_value *out)
{
    return jinja_format_braces(run, &in->self, in->call, out);
}

/* ljust, rjust, center: to a width, with a character of one's own. */
static bool justify(struct jinja_run *run, struct jinja_invocation *in, char align,
                    struct jinja_value *out)
{
    struct jinja_format_spec spec = {.align = align, .precision = -1};
    struct jinja_value fill;
    struct jinja_text text = {0};
    if (!jinja_arg_int(run, in, 0, 0, &spec.width) ||
        !jinja_arg_text(run, in, 1, jinja_literal(" "), &fill))
        return false;
    spec.fill = jinja_str(&fill);
    if (jinja_char_count(spec.fill) != 1)
        return jinja_error(run, "The fill character must be exactly one character long");
    bool ok = jinja_format_value(run, &text, &spec, &in->self);
    return jinja_text_end(run, &text, ok, out);
}

static bool method_ljust(struct jinja_run *run, struct jinja_invocation *in,
                         struct jinja_value *out)
{
    return justify(run, in, '<', out);
}

static bool method_rjust(struct jinja_run *run, struct jinja_invocation *in,
                         struct jinja_value *out)
{
    return justify(run, in, '>', out);
}

/* Zeros behind the sign. */
static bool method_zfill(struct jinja_run *run, struct jinja_invocation *in,
                         struct jinja_value *out)
{
    struct jinja_format_spec spec = {.fill = DGL_STR("0"), .align = '>', .precision = -1};
    struct jinja_text text = {0};
    if (!jinja_arg_int(run, in, 0, 0, &spec.width))
        return false;
    bool sign = in->self.text.len && strchr("+-", in->self.text.p[0]) && in->self.text.p[0];
    struct jinja_value head = jinja_slice_bytes(&in->self, 0, sign);
    struct jinja_value digits = jinja_slice_bytes(&in->self, sign, in->self.text.len - sign);
    spec.width -= sign && spec.width > 0;
    bool ok = jinja_text_add(run, &text, &head) && jinja_format_value(run, &text, &spec, &digits);
    return jinja_text_end(run, &text, ok, out);
}

const struct jinja_builtin jinja_string_methods[] = {
    {"strip", method_strip, "chars"},
    {"lstrip", method_lstrip, "chars"},
    {"rstrip", method_rstrip, "chars"},
    {"split", method_split, "sep maxsplit"},
    {"rsplit", method_rsplit, "sep maxsplit"},
    {"splitlines", method_splitlines, "keepends"},
    {"partition", method_partition, "sep!"},
    {"rpartition", method_rpartition, "sep!"},
    {"upper", method_upper, ""},
    {"lower", method_lower, ""},
    {"casefold", method_lower, ""},
    {"title", method_title, ""},
    {"capitalize", method_capitalize, ""},
    {"swapcase", method_swapcase, ""},
    {"replace", method_replace, "old! new! count"},
    {"removeprefix", method_removeprefix, "prefix!"},
    {"removesuffix", method_removesuffix, "suffix!"},
    {"join", method_join, "iterable!"},
    {"format", method_format, NULL},
    {"ljust", method_ljust, "width! fillchar"},
    {"rjust", method_rjust, "width! fillchar"},
    {"zfill", method_zfill, "width!"},
    {"center", NULL, NULL},
    {"encode", NULL, NULL},
    {"expandtabs", NULL, NULL},
    {"format_map", NULL, NULL},
    {"maketrans", NULL, NULL},
    {"translate", NULL, NULL},
    {NULL, NULL, NULL},
};
