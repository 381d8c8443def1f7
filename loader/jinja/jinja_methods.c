/* Methods of strings, lists, tuples and dicts. Methods can change only values that the template
 * made; the variables of the caller are read-only. */
#include <string.h>

#include "core/base/utf8.h"
#include "loader/jinja/jinja_call.h"
#include "loader/text/tok_unicode.h"

/* ---- strings ---- */

static const struct jinja_value absent;

/* Variant of methods that work from either end of a string. */
enum text_end { FROM_LEFT, FROM_RIGHT };

static bool method_replace(struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_value old, with;
    int64_t count;
    return jinja_arg_text(in, 0, absent, &old) && jinja_arg_text(in, 1, absent, &with) &&
           jinja_arg_int(in, 2, -1, &count) &&
           jinja_replace(in->run, &in->self, &old, &with, count, out);
}

static bool matches_end(struct dgl_str text, struct dgl_str part, bool suffix)
{
    if (part.len > text.len)
        return false;
    return part.len == 0 ||
           memcmp(suffix ? text.p + text.len - part.len : text.p, part.p, part.len) == 0;
}

/* removeprefix() and removesuffix(). Variant: enum text_end. */
static bool method_remove_end(struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_value part;
    bool suffix = in->builtin->variant == FROM_RIGHT;
    if (!jinja_arg_text(in, 0, absent, &part))
        return false;
    size_t len = part.text.len, total = in->self.text.len;
    *out = in->self;
    if (matches_end(jinja_str(&in->self), jinja_str(&part), suffix))
        *out = jinja_slice_bytes(&in->self, suffix ? 0 : len, total - len);
    return jinja_step_bytes(in->run, len);
}

/* ---- splitting ---- */

struct split {
    struct jinja_run *run;
    const struct jinja_value *text;
    struct jinja_list *list;
    int64_t left; /* number of splits that are left */
};

static bool push_part(struct split *split, struct dgl_str part)
{
    return jinja_list_push(split->run, split->list, jinja_part(split->text, part));
}

/* Length of the word at the left or right end of `s`. */
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

/* Variant: enum text_end. */
static bool method_split(struct jinja_invocation *in, struct jinja_value *out)
{
    bool from_right = in->builtin->variant == FROM_RIGHT;
    struct split split = {.run = in->run, .text = &in->self};
    struct jinja_value separator;
    if (!jinja_arg_text(in, 0, absent, &separator) || !jinja_arg_int(in, 1, -1, &split.left) ||
        !jinja_new_list(in->run, JINJA_LIST, 0, out))
        return false;
    bool blanks = separator.type == JINJA_ABSENT;
    if (split.left < 0)
        split.left = INT64_MAX;
    if (!blanks && separator.text.len == 0)
        return jinja_error(in->run, "empty separator");
    /* A search from the right compares at every position. */
    size_t cost = from_right && !blanks ? separator.text.len / 64 : 0;
    split.list = out->list;
    if (!jinja_step(in->run, 1 + in->self.text.len / 16 * (1 + cost)) ||
        !(blanks ? split_blanks(&split, from_right)
                 : split_at(&split, jinja_str(&separator), from_right)))
        return false;
    if (from_right)
        jinja_list_reverse(out->list);
    return true;
}

static bool method_splitlines(struct jinja_invocation *in, struct jinja_value *out)
{
    return jinja_split_lines(in->run, &in->self, jinja_arg_truth(in, 0, false), out);
}

/* Variant: enum text_end. */
static bool method_partition(struct jinja_invocation *in, struct jinja_value *out)
{
    bool from_right = in->builtin->variant == FROM_RIGHT;
    struct jinja_value separator;
    struct dgl_str s = jinja_str(&in->self);
    if (!jinja_arg_text(in, 0, absent, &separator) ||
        !jinja_new_list(in->run, JINJA_TUPLE, 3, out) ||
        !jinja_step(in->run, 1 + s.len / 16 * (1 + separator.text.len / 64)))
        return false;
    if (separator.text.len == 0)
        return jinja_error(in->run, "empty separator");
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

/* ---- joining and layout ---- */

static bool method_join(struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_iter iter;
    struct jinja_value item;
    struct jinja_text text = {0};
    bool ok = jinja_iter_init(in->run, &in->arg[0], &iter);
    for (size_t i = 0; ok && jinja_iter_next(&iter, &item); i++) {
        if (!jinja_is_text(&item))
            ok = jinja_error(in->run, "sequence item %zu: expected str instance, %s found", i,
                             jinja_type_name(&item));
        ok = ok && jinja_step(in->run, 1) &&
             (i == 0 || jinja_text_add(in->run, &text, &in->self)) &&
             jinja_text_add(in->run, &text, &item);
    }
    return jinja_text_end(in->run, &text, ok, out);
}

static bool method_format(struct jinja_invocation *in, struct jinja_value *out)
{
    return jinja_format_braces(in->run, &in->self, in->call, out);
}

/* ljust() and rjust(). Variant: the alignment, '<' or '>'. */
static bool method_justify(struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_format_spec spec = {.align = (char)in->builtin->variant, .precision = -1};
    struct jinja_value fill;
    struct jinja_text text = {0};
    if (!jinja_arg_int(in, 0, 0, &spec.width) || !jinja_arg_text(in, 1, jinja_literal(" "), &fill))
        return false;
    spec.fill = jinja_str(&fill);
    if (jinja_char_count(spec.fill) != 1)
        return jinja_error(in->run, "The fill character must be exactly one character long");
    bool ok = jinja_format_value(in->run, &text, &spec, &in->self);
    return jinja_text_end(in->run, &text, ok, out);
}

/* Inserts zeros after the sign. */
static bool method_zfill(struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_format_spec spec = {.fill = DGL_STR("0"), .align = '>', .precision = -1};
    struct jinja_text text = {0};
    if (!jinja_arg_int(in, 0, 0, &spec.width))
        return false;
    bool sign = in->self.text.len && strchr("+-", in->self.text.p[0]) && in->self.text.p[0];
    struct jinja_value head = jinja_slice_bytes(&in->self, 0, sign);
    struct jinja_value digits = jinja_slice_bytes(&in->self, sign, in->self.text.len - sign);
    spec.width -= sign && spec.width > 0;
    bool ok =
        jinja_text_add(in->run, &text, &head) && jinja_format_value(in->run, &text, &spec, &digits);
    return jinja_text_end(in->run, &text, ok, out);
}

/* ---- searching ---- */

/* Applies the arguments `start` and `end`, which have the numbers `first` and `first` + 1. *before
 * is the number of characters before the selected part. */
static bool search_range(const struct jinja_invocation *in, size_t first, struct dgl_str *out,
                         size_t *before)
{
    struct jinja_value bounds[3], part;
    for (size_t i = 0; i < 2; i++)
        bounds[i] = jinja_arg_given(in, first + i) ? in->arg[first + i] : jinja_none();
    bounds[2] = jinja_none();
    if (!jinja_get_slice(in->run, &in->self, bounds, &part))
        return false;
    *out = jinja_str(&part);
    struct dgl_str front = {in->self.text.p, (size_t)(part.text.p - in->self.text.p)};
    *before = front.p ? jinja_char_count(front) : 0;
    return true;
}

/* startswith() and endswith() of a string, or of any string in a tuple. Variant: enum text_end. */
static bool method_has_end(struct jinja_invocation *in, struct jinja_value *out)
{
    bool suffix = in->builtin->variant == FROM_RIGHT;
    struct dgl_str text;
    size_t before;
    const struct jinja_value *parts = &in->arg[0];
    bool tuple = parts->type == JINJA_TUPLE, found = false;
    if (!search_range(in, 1, &text, &before))
        return false;
    for (size_t i = 0; i < (tuple ? parts->list->count : 1); i++) {
        const struct jinja_value *part = tuple ? &parts->list->items[i] : parts;
        if (part->type == JINJA_UNDEFINED)
            return jinja_fail_undefined(in->run, part);
        if (!jinja_is_text(part))
            return jinja_error(in->run, "%s first arg must be str or a tuple of str, not %s",
                               in->builtin->name, jinja_type_name(part));
        found = found || matches_end(text, jinja_str(part), suffix);
        if (!jinja_step_bytes(in->run, part->text.len))
            return false;
    }
    *out = jinja_bool(found);
    return true;
}

/* Flags in the variant of method_find. */
enum { FIND_LAST = 1, FIND_OR_FAIL = 2 };

/* Returns the character index of a match, or -1. FIND_OR_FAIL reports an error instead of -1. */
static bool method_find(struct jinja_invocation *in, struct jinja_value *out)
{
    bool last = in->builtin->variant & FIND_LAST, must = in->builtin->variant & FIND_OR_FAIL;
    struct dgl_str text;
    struct jinja_value part;
    size_t before;
    if (!jinja_arg_text(in, 0, absent, &part) || !search_range(in, 1, &text, &before) ||
        !jinja_step(in->run, 1 + text.len / 16 * (last ? 1 + part.text.len / 64 : 1)))
        return false;
    size_t at =
        last ? jinja_find_last(text, jinja_str(&part)) : jinja_find(text, jinja_str(&part), 0);
    if (at == SIZE_MAX && must)
        return jinja_error(in->run, "substring not found");
    struct dgl_str front = {text.p, at};
    *out = jinja_int(at == SIZE_MAX ? -1 : (int64_t)(before + jinja_char_count(front)));
    return true;
}

static bool method_count(struct jinja_invocation *in, struct jinja_value *out)
{
    struct dgl_str text;
    struct jinja_value part;
    size_t before;
    int64_t count = 0;
    if (!jinja_arg_text(in, 0, absent, &part) || !search_range(in, 1, &text, &before) ||
        !jinja_step_bytes(in->run, text.len))
        return false;
    if (part.text.len == 0) {
        *out = jinja_int((int64_t)jinja_char_count(text) + 1);
        return true;
    }
    for (size_t at = 0; (at = jinja_find(text, jinja_str(&part), at)) != SIZE_MAX; count++)
        at += part.text.len;
    *out = jinja_int(count);
    return true;
}

/* ---- kinds of characters ---- */

enum char_kind { ALPHA, DECIMAL, NUMERIC, ALNUM, SPACE, ASCII, PRINTABLE };

/* Tests that every character is of the variant's kind, enum char_kind. Only isascii() and
 * isprintable() accept an empty text. */
static bool method_is(struct jinja_invocation *in, struct jinja_value *out)
{
    enum char_kind kind = (enum char_kind)in->builtin->variant;
    struct dgl_str s = jinja_str(&in->self);
    bool all = s.len || kind == ASCII || kind == PRINTABLE;
    for (size_t pos = 0; all && pos < s.len;) {
        uint32_t cp;
        pos += dgl_utf8_decode(s.p + pos, s.len - pos, &cp);
        enum tok_category category = tok_category(cp);
        bool alpha = category == TOK_LU || category == TOK_LL || category == TOK_LT ||
                     category == TOK_LM || category == TOK_LO;
        all = (kind == ALPHA && alpha) || (kind == DECIMAL && category == TOK_ND) ||
              (kind == NUMERIC && tok_is_numeric(cp)) ||
              (kind == ALNUM && (alpha || tok_is_numeric(cp))) ||
              (kind == SPACE && jinja_is_space(cp)) || (kind == ASCII && cp < 0x80) ||
              (kind == PRINTABLE && jinja_is_printable(cp));
    }
    *out = jinja_bool(all);
    return jinja_step_bytes(in->run, s.len);
}

const struct jinja_builtin jinja_string_methods[] = {
    {"strip", jinja_filter_strip, "chars", JINJA_STRIP_BOTH},
    {"lstrip", jinja_filter_strip, "chars", JINJA_STRIP_LEFT},
    {"rstrip", jinja_filter_strip, "chars", JINJA_STRIP_RIGHT},
    {"split", method_split, "sep maxsplit", FROM_LEFT},
    {"rsplit", method_split, "sep maxsplit", FROM_RIGHT},
    {"splitlines", method_splitlines, "keepends", 0},
    {"partition", method_partition, "sep!", FROM_LEFT},
    {"rpartition", method_partition, "sep!", FROM_RIGHT},
    {"upper", jinja_filter_case, "", JINJA_UPPER},
    {"lower", jinja_filter_case, "", JINJA_LOWER},
    {"casefold", jinja_filter_case, "", JINJA_CASEFOLD},
    {"title", jinja_filter_case, "", JINJA_TITLE},
    {"capitalize", jinja_filter_case, "", JINJA_CAPITALIZE},
    {"swapcase", jinja_filter_case, "", JINJA_SWAPCASE},
    {"replace", method_replace, "old! new! count", 0},
    {"removeprefix", method_remove_end, "prefix!", FROM_LEFT},
    {"removesuffix", method_remove_end, "suffix!", FROM_RIGHT},
    {"join", method_join, "iterable!", 0},
    {"format", method_format, NULL, 0},
    {"ljust", method_justify, "width! fillchar", '<'},
    {"rjust", method_justify, "width! fillchar", '>'},
    {"zfill", method_zfill, "width!", 0},
    {"startswith", method_has_end, "prefix! start end", FROM_LEFT},
    {"endswith", method_has_end, "suffix! start end", FROM_RIGHT},
    {"find", method_find, "sub! start end", 0},
    {"rfind", method_find, "sub! start end", FIND_LAST},
    {"index", method_find, "sub! start end", FIND_OR_FAIL},
    {"rindex", method_find, "sub! start end", FIND_LAST | FIND_OR_FAIL},
    {"count", method_count, "sub! start end", 0},
    {"isalpha", method_is, "", ALPHA},
    {"isdigit", method_is, "", DECIMAL},
    {"isdecimal", method_is, "", DECIMAL},
    {"isnumeric", method_is, "", NUMERIC},
    {"isalnum", method_is, "", ALNUM},
    {"isspace", method_is, "", SPACE},
    {"isascii", method_is, "", ASCII},
    {"isprintable", method_is, "", PRINTABLE},
    {"islower", jinja_filter_has_case, "", JINJA_LOWER},
    {"isupper", jinja_filter_has_case, "", JINJA_UPPER},
    /* Not supported in chat templates. */
    {.name = "center"},
    {.name = "encode"},
    {.name = "expandtabs"},
    {.name = "format_map"},
    {.name = "isidentifier"},
    {.name = "istitle"},
    {.name = "maketrans"},
    {.name = "translate"},
    {.name = NULL},
};

/* ---- lists ---- */

/* Reports an error if the list or dict belongs to the caller. */
static bool check_own(const struct jinja_invocation *in)
{
    bool dict = in->self.type == JINJA_DICT;
    if (dict ? !in->self.dict->frozen : !in->self.list->frozen)
        return true;
    return jinja_error(in->run,
                       "%s() would change a variable of the caller; a template can change only its "
                       "own lists and dicts",
                       in->builtin->name);
}

static bool list_append(struct jinja_invocation *in, struct jinja_value *out)
{
    *out = jinja_none();
    return check_own(in) && jinja_list_push(in->run, in->self.list, in->arg[0]);
}

static bool list_extend(struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_value items;
    *out = jinja_none();
    return check_own(in) && jinja_collect(in->run, &in->arg[0], JINJA_LIST, &items) &&
           jinja_list_extend(in->run, in->self.list, items.list->items, items.list->count);
}

static bool list_insert(struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_list *list = in->self.list;
    int64_t at, count = (int64_t)list->count;
    if (!check_own(in) || !jinja_arg_int(in, 0, 0, &at))
        return false;
    if (at < 0)
        at = at < -count ? 0 : at + count;
    if (at > count)
        at = count;
    if (!jinja_list_push(in->run, list, in->arg[1]) || !jinja_step(in->run, list->count / 16))
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

static bool list_pop(struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_list *list = in->self.list;
    int64_t at, count = (int64_t)list->count;
    if (!check_own(in) || !jinja_arg_int(in, 0, -1, &at))
        return false;
    if (count == 0)
        return jinja_error(in->run, "pop from empty list");
    if (at < -count || at >= count)
        return jinja_error(in->run, "pop index out of range");
    at = at < 0 ? at + count : at;
    *out = list->items[at];
    remove_at(list, (size_t)at);
    return jinja_step(in->run, list->count / 16);
}

/* Finds the first element that is equal to the first argument. If there is no such element, sets
 * *out to the length. */
static bool find_item(const struct jinja_invocation *in, size_t *out)
{
    const struct jinja_list *list = in->self.list;
    bool equal = false;
    size_t i = 0;
    while (i < list->count) {
        if (!jinja_step(in->run, 1) || !jinja_equal(in->run, &list->items[i], &in->arg[0], &equal))
            return false;
        if (equal)
            break;
        i++;
    }
    *out = i;
    return true;
}

static bool list_index(struct jinja_invocation *in, struct jinja_value *out)
{
    size_t at;
    if (!find_item(in, &at))
        return false;
    *out = jinja_int((int64_t)at);
    return at < in->self.list->count || jinja_error(in->run, "the value is not in the list");
}

static bool list_remove(struct jinja_invocation *in, struct jinja_value *out)
{
    size_t at;
    if (!check_own(in) || !find_item(in, &at))
        return false;
    if (at == in->self.list->count)
        return jinja_error(in->run, "list.remove(x): x not in list");
    remove_at(in->self.list, at);
    *out = jinja_none();
    return true;
}

static bool list_count(struct jinja_invocation *in, struct jinja_value *out)
{
    int64_t count = 0;
    for (size_t i = 0; i < in->self.list->count; i++) {
        bool equal;
        if (!jinja_step(in->run, 1) ||
            !jinja_equal(in->run, &in->self.list->items[i], &in->arg[0], &equal))
            return false;
        count += equal;
    }
    *out = jinja_int(count);
    return true;
}

static bool list_reverse(struct jinja_invocation *in, struct jinja_value *out)
{
    if (!check_own(in) || !jinja_step(in->run, in->self.list->count))
        return false;
    jinja_list_reverse(in->self.list);
    *out = jinja_none();
    return true;
}

static bool own_clear(struct jinja_invocation *in, struct jinja_value *out)
{
    if (!check_own(in))
        return false;
    if (in->self.type == JINJA_DICT)
        in->self.dict->count = 0;
    else
        in->self.list->count = 0;
    *out = jinja_none();
    return true;
}

const struct jinja_builtin jinja_list_methods[] = {
    {"append", list_append, "object!", 0},
    {"extend", list_extend, "iterable!", 0},
    {"insert", list_insert, "index! object!", 0},
    {"pop", list_pop, "index", 0},
    {"remove", list_remove, "value!", 0},
    {"index", list_index, "value!", 0},
    {"count", list_count, "value!", 0},
    {"reverse", list_reverse, "", 0},
    {"copy", jinja_filter_list, "", 0},
    {"clear", own_clear, "", 0},
    {.name = "sort"}, /* not supported in chat templates */
    {.name = NULL},
};

const struct jinja_builtin jinja_tuple_methods[] = {
    {"index", list_index, "value!", 0},
    {"count", list_count, "value!", 0},
    {.name = NULL},
};

/* ---- dicts ---- */

/* get() and setdefault(). Variant: true for the latter. */
static bool dict_get(struct jinja_invocation *in, struct jinja_value *out)
{
    bool sets = in->builtin->variant;
    struct jinja_value *found;
    if ((sets && !check_own(in)) || !jinja_dict_find(in->run, in->self.dict, &in->arg[0], &found))
        return false;
    *out = found ? *found : in->arg[1].type == JINJA_ABSENT ? jinja_none() : in->arg[1];
    return found || !sets || jinja_dict_set(in->run, in->self.dict, &in->arg[0], out);
}

enum view { VIEW_KEYS, VIEW_VALUES, VIEW_ITEMS };

/* keys(), values() and items(). Variant: enum view. */
static bool dict_view(struct jinja_invocation *in, struct jinja_value *out)
{
    enum view view = (enum view)in->builtin->variant;
    static const char *const labels[] = {"dict_keys", "dict_values", "dict_items"};
    const struct jinja_dict *dict = in->self.dict;
    if (!jinja_new_list(in->run, JINJA_VIEW, dict->count, out))
        return false;
    out->data = in->self.data;
    out->list->label = labels[view];
    for (size_t i = 0; i < dict->count; i++) {
        const struct jinja_entry *entry = &dict->entries[i];
        struct jinja_value item = view == VIEW_KEYS ? entry->key : entry->value;
        if (view == VIEW_ITEMS && !jinja_new_tuple2(in->run, entry->key, entry->value, &item))
            return false;
        if (!jinja_list_push(in->run, out->list, item))
            return false;
    }
    return true;
}

static bool set_all(struct jinja_run *run, struct jinja_dict *dict, const struct jinja_dict *from)
{
    for (size_t i = 0; i < from->count; i++) {
        if (!jinja_dict_set(run, dict, &from->entries[i].key, &from->entries[i].value))
            return false;
    }
    return true;
}

static bool dict_copy(struct jinja_invocation *in, struct jinja_value *out)
{
    bool ok =
        jinja_new_dict(in->run, JINJA_DICT, out) && set_all(in->run, out->dict, in->self.dict);
    out->data = in->self.data;
    return ok;
}

/* update(): accepts a dict and keywords. */
static bool dict_update(struct jinja_invocation *in, struct jinja_value *out)
{
    const struct jinja_call *call = in->call;
    struct jinja_value copy;
    *out = jinja_none();
    if (!check_own(in))
        return false;
    if (call->num_args > 1 || (call->num_args && call->args[0].type != JINJA_DICT))
        return jinja_error(in->run, "update() takes one dict");
    /* Copy the argument: a dict may be updated with itself. */
    if (call->num_args && (!jinja_new_dict(in->run, JINJA_DICT, &copy) ||
                           !set_all(in->run, copy.dict, call->args[0].dict) ||
                           !set_all(in->run, in->self.dict, copy.dict)))
        return false;
    return jinja_dict_set_named(in->run, in->self.dict, call);
}

static bool dict_pop(struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_dict *dict = in->self.dict;
    struct jinja_value *found;
    if (!check_own(in) || !jinja_dict_find(in->run, dict, &in->arg[0], &found))
        return false;
    *out = found ? *found : in->arg[1];
    if (!found)
        return in->arg[1].type != JINJA_ABSENT || jinja_error(in->run, "pop(): the key is missing");
    size_t at = 0;
    while (&dict->entries[at].value != found)
        at++;
    memmove(dict->entries + at, dict->entries + at + 1,
            (dict->count - at - 1) * sizeof(*dict->entries));
    dict->count--;
    return true;
}

const struct jinja_builtin jinja_dict_methods[] = {
    {"get", dict_get, "key! default", false},
    {"items", dict_view, "", VIEW_ITEMS},
    {"keys", dict_view, "", VIEW_KEYS},
    {"values", dict_view, "", VIEW_VALUES},
    {"copy", dict_copy, "", 0},
    {"update", dict_update, NULL, 0},
    {"setdefault", dict_get, "key! default", true},
    {"pop", dict_pop, "key! default", 0},
    {"clear", own_clear, "", 0},
    /* Not supported in chat templates. */
    {.name = "popitem"},
    {.name = "fromkeys"},
    {.name = NULL},
};
