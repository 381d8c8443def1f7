/* Methods of texts that look into them: searching, counting, kinds of characters. */
#include <string.h>

#include "core/base/utf8.h"
#include "loader/jinja/jinja_call.h"
#include "loader/jinja/jinja_chars.h"
#include "loader/text/tok_unicode.h"

static const struct jinja_value absent;

static bool answer(struct jinja_value *out, bool yes)
{
    *out = jinja_bool(yes);
    return true;
}

/* The part of the text that the arguments `start` and `end` (from number `first` on) leave, and how
 * many characters are in front of it. */
static bool search_range(struct jinja_run *run, const struct jinja_invocation *in, size_t first,
                         struct dgl_str *out, size_t *before)
{
    struct jinja_value bounds[3], part;
    for (size_t i = 0; i < 2; i++)
        bounds[i] = jinja_arg_given(in, first + i) ? in->arg[first + i] : jinja_none();
    bounds[2] = jinja_none();
    if (!jinja_get_slice(run, &in->self, bounds, &part))
        return false;
    *out = jinja_str(&part);
    struct dgl_str front = {in->self.text.p, (size_t)(part.text.p - in->self.text.p)};
    *before = front.p ? jinja_char_count(front) : 0;
    return true;
}

/* ---- prefixes and suffixes ---- */

static bool matches_end(struct dgl_str text, struct dgl_str part, bool suffix)
{
    if (part.len > text.len)
        return false;
    return part.len == 0 ||
           memcmp(suffix ? text.p + text.len - part.len : text.p, part.p, part.len) == 0;
}

/* One text, or a tuple of which any may match. */
static bool match_end(struct jinja_run *run, struct jinja_invocation *in, bool suffix,
                      struct jinja_value *out)
{
    struct dgl_str text;
    size_t before;
    const struct jinja_value *parts = &in->arg[0];
    bool tuple = parts->type == JINJA_TUPLE, found = false;
    if (!search_range(run, in, 1, &text, &before))
        return false;
    for (size_t i = 0; i < (tuple ? parts->list->count : 1); i++) {
        const struct jinja_value *part = tuple ? &parts->list->items[i] : parts;
        if (part->type == JINJA_UNDEFINED)
            return jinja_fail_undefined(run, part);
        if (!jinja_is_text(part))
            return jinja_error(run, "%s first arg must be str or a tuple of str, not %s",
                               in->builtin->name, jinja_type_name(part));
        found = found || matches_end(text, jinja_str(part), suffix);
        if (!jinja_step_bytes(run, part->text.len))
            return false;
    }
    return answer(out, found);
}

static bool method_startswith(struct jinja_run *run, struct jinja_invocation *in,
                              struct jinja_value *out)
{
    return match_end(run, in, false, out);
}

static bool method_endswith(struct jinja_run *run, struct jinja_invocation *in,
                            struct jinja_value *out)
{
    return match_end(run, in, true, out);
}

/* ---- searching ---- */

/* Index in characters, or -1, which `must` makes an error. */
static bool search(struct jinja_run *run, struct jinja_invocation *in, bool last, bool must,
                   struct jinja_value *out)
{
    struct dgl_str text;
    struct jinja_value part;
    size_t before;
    if (!jinja_arg_text(run, in, 0, absent, &part) || !search_range(run, in, 1, &text, &before) ||
        !jinja_step(run, 1 + text.len / 16 * (last ? 1 + part.text.len / 64 : 1)))
        return false;
    size_t at =
        last ? jinja_find_last(text, jinja_str(&part)) : jinja_find(text, jinja_str(&part), 0);
    if (at == SIZE_MAX && must)
        return jinja_error(run, "substring not found");
    struct dgl_str front = {text.p, at};
    *out = jinja_int(at == SIZE_MAX ? -1 : (int64_t)(before + jinja_char_count(front)));
    return true;
}

static bool method_find(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    return search(run, in, false, false, out);
}

static bool method_rfind(struct jinja_run *run, struct jinja_invocation *in,
                         struct jinja_value *out)
{
    return search(run, in, true, false, out);
}

static bool method_index(struct jinja_run *run, struct jinja_invocation *in,
                         struct jinja_value *out)
{
    return search(run, in, false, true, out);
}

static bool method_rindex(struct jinja_run *run, struct jinja_invocation *in,
                          struct jinja_value *out)
{
    return search(run, in, true, true, out);
}

static bool method_count(struct jinja_run *run, struct jinja_invocation *in,
                         struct jinja_value *out)
{
    struct dgl_str text;
    struct jinja_value part;
    size_t before;
    int64_t count = 0;
    if (!jinja_arg_text(run, in, 0, absent, &part) || !search_range(run, in, 1, &text, &before) ||
        !jinja_step_bytes(run, text.len))
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

static bool is_alpha(uint32_t cp)
{
    enum tok_category category = tok_category(cp);
    return category == TOK_LU || category == TOK_LL || category == TOK_LT || category == TOK_LM ||
           category == TOK_LO;
}

static bool is_decimal(uint32_t cp)
{
    return tok_category(cp) == TOK_ND;
}

static bool is_alnum(uint32_t cp)
{
    return is_alpha(cp) || tok_is_numeric(cp);
}

static bool is_ascii(uint32_t cp)
{
    return cp < 0x80;
}

/* Every character is of the kind; of an empty text that is `empty`. */
static bool all_chars(struct jinja_run *run, struct jinja_invocation *in, bool (*kind)(uint32_t cp),
                      bool empty, struct jinja_value *out)
{
    struct dgl_str s = jinja_str(&in->self);
    bool all = empty || s.len;
    for (size_t pos = 0; all && pos < s.len;) {
        uint32_t cp;
        pos += dgl_utf8_decode(s.p + pos, s.len - pos, &cp);
        all = kind(cp);
    }
    return jinja_step_bytes(run, s.len) && answer(out, all);
}

#define KIND_METHOD(name, kind, empty)                                                             \
    static bool method_##name(struct jinja_run *run, struct jinja_invocation *in,                  \
                              struct jinja_value *out)                                             \
    {                                                                                              \
        return all_chars(run, in, (kind), (empty), out);                                           \
    }

KIND_METHOD(isalpha, is_alpha, false)
KIND_METHOD(isdecimal, is_decimal, false)
KIND_METHOD(isnumeric, tok_is_numeric, false)
KIND_METHOD(isalnum, is_alnum, false)
KIND_METHOD(isspace, jinja_is_space, false)
KIND_METHOD(isascii, is_ascii, true)
KIND_METHOD(isprintable, jinja_is_printable, true)

#undef KIND_METHOD

/* The test of the same meaning: jinja's "is lower" calls islower(). */
static bool by_test(struct jinja_run *run, struct jinja_invocation *in, const char *test,
                    struct jinja_value *out)
{
    const struct jinja_call none = {0};
    return jinja_invoke(run, jinja_find_test(dgl_str_of(test)), &in->self, &none, out);
}

static bool method_islower(struct jinja_run *run, struct jinja_invocation *in,
                           struct jinja_value *out)
{
    return by_test(run, in, "lower", out);
}

static bool method_isupper(struct jinja_run *run, struct jinja_invocation *in,
                           struct jinja_value *out)
{
    return by_test(run, in, "upper", out);
}

const struct jinja_builtin jinja_search_methods[] = {
    {"startswith", method_startswith, "prefix! start end"},
    {"endswith", method_endswith, "suffix! start end"},
    {"find", method_find, "sub! start end"},
    {"rfind", method_rfind, "sub! start end"},
    {"index", method_index, "sub! start end"},
    {"rindex", method_rindex, "sub! start end"},
    {"count", method_count, "sub! start end"},
    {"isalpha", method_isalpha, ""},
    {"isdigit", method_isdecimal, ""},
    {"isdecimal", method_isdecimal, ""},
    {"isnumeric", method_isnumeric, ""},
    {"isalnum", method_isalnum, ""},
    {"isspace", method_isspace, ""},
    {"isascii", method_isascii, ""},
    {"isprintable", method_isprintable, ""},
    {"islower", method_islower, ""},
    {"isupper", method_isupper, ""},
    {"isidentifier", NULL, NULL},
    {"istitle", NULL, NULL},
    {NULL, NULL, NULL},
};
