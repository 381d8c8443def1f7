/* Cases, replacing, lines and stripping of texts with taint. */
#include "loader/jinja/jinja_string.h"

#include <string.h>

#include "core/base/utf8.h"
#include "loader/jinja/jinja_chars.h"

/* ---- cases ---- */

struct casing_state {
    enum jinja_casing casing;
    bool inside; /* of a word: behind its first letter */
};

static bool begins_word(uint32_t cp)
{
    return cp == '-' || cp == '(' || cp == '{' || cp == '[' || cp == '<' || jinja_is_space(cp);
}

static enum jinja_case next_case(struct casing_state *state, uint32_t cp)
{
    char space[jinja_case_max];
    bool inside = state->inside;
    switch (state->casing) {
    case JINJA_UPPER:
        return JINJA_CASE_UPPER;
    case JINJA_LOWER:
        return JINJA_CASE_LOWER;
    case JINJA_SWAPCASE: {
        char self[4];
        size_t len = dgl_utf8_encode(cp, self);
        bool lower =
            jinja_to_case(cp, JINJA_CASE_LOWER, space) == len && memcmp(space, self, len) == 0;
        return lower ? JINJA_CASE_UPPER : JINJA_CASE_LOWER;
    }
    case JINJA_CAPITALIZE:
        state->inside = true;
        return inside ? JINJA_CASE_LOWER : JINJA_CASE_TITLE;
    case JINJA_TITLE:
        state->inside = jinja_is_cased(cp);
        return inside ? JINJA_CASE_LOWER : JINJA_CASE_TITLE;
    case JINJA_TITLE_WORDS:
        state->inside = !begins_word(cp);
        return inside ? JINJA_CASE_LOWER : JINJA_CASE_UPPER;
    }
    return JINJA_CASE_LOWER;
}

bool jinja_change_case(struct jinja_run *run, const struct jinja_value *text,
                       enum jinja_casing casing, struct jinja_value *out)
{
    struct casing_state state = {casing, false};
    struct jinja_text result = {0};
    struct dgl_str s = jinja_str(text);
    bool ok = true;
    for (size_t pos = 0, len; ok && pos < s.len; pos += len) {
        uint32_t cp;
        char space[jinja_case_max];
        len = dgl_utf8_decode(s.p + pos, s.len - pos, &cp);
        bool data = jinja_byte_is_data(text, pos);
        size_t size = jinja_to_case(cp, next_case(&state, cp), space);
        ok = jinja_text_put(run, &result, (struct dgl_str){space, size}, data);
    }
    ok = jinja_text_end(run, &result, ok, out);
    out->safe = text->safe;
    return ok;
}

/* ---- replacing ---- */

/* Where the next occurrence begins. The empty text occurs before every character, and at the end.
 */
static size_t next_match(struct dgl_str s, struct dgl_str old, size_t from, bool first)
{
    if (old.len || first)
        return jinja_find(s, old, from);
    if (from >= s.len)
        return SIZE_MAX;
    uint32_t cp;
    return from + dgl_utf8_decode(s.p + from, s.len - from, &cp);
}

bool jinja_replace(struct jinja_run *run, const struct jinja_value *text,
                   const struct jinja_value *old, const struct jinja_value *with, int64_t count,
                   struct jinja_value *out)
{
    struct jinja_text result = {0};
    struct dgl_str s = jinja_str(text), part = jinja_str(old);
    size_t copied = 0, at = next_match(s, part, 0, true);
    bool ok = jinja_step_bytes(run, s.len);
    for (; ok && at != SIZE_MAX && count != 0; count -= count > 0) {
        struct jinja_value before = jinja_slice_bytes(text, copied, at - copied);
        ok = jinja_step(run, 1) && jinja_text_add(run, &result, &before) &&
             jinja_text_add(run, &result, with);
        copied = at + part.len;
        at = next_match(s, part, copied, false);
    }
    struct jinja_value rest = jinja_slice_bytes(text, copied, s.len - copied);
    return jinja_text_end(run, &result, ok && jinja_text_add(run, &result, &rest), out);
}

/* ---- lines ---- */

/* Length of the line end at `pos`; 0: there is none. */
static size_t line_end(struct dgl_str s, size_t pos)
{
    uint32_t cp;
    size_t len = dgl_utf8_decode(s.p + pos, s.len - pos, &cp);
    if (!jinja_is_line_end(cp))
        return 0;
    return cp == '\r' && pos + 1 < s.len && s.p[pos + 1] == '\n' ? 2 : len;
}

bool jinja_split_lines(struct jinja_run *run, const struct jinja_value *text, bool keep_ends,
                       struct jinja_value *out)
{
    struct dgl_str s = jinja_str(text);
    size_t start = 0, pos = 0;
    if (!jinja_step_bytes(run, s.len) || !jinja_new_list(run, JINJA_LIST, 0, out))
        return false;
    while (pos < s.len) {
        size_t end = line_end(s, pos);
        if (!end) {
            uint32_t cp;
            pos += dgl_utf8_decode(s.p + pos, s.len - pos, &cp);
            continue;
        }
        size_t len = pos - start + (keep_ends ? end : 0);
        if (!jinja_list_push(run, out->list, jinja_slice_bytes(text, start, len)))
            return false;
        start = pos += end;
    }
    return start == s.len ||
           jinja_list_push(run, out->list, jinja_slice_bytes(text, start, s.len - start));
}

/* ---- stripping ---- */

bool jinja_strip_text(struct jinja_run *run, const struct jinja_value *text,
                      const struct jinja_value *set, int side, struct jinja_value *out)
{
    struct dgl_str s = jinja_str(text);
    bool blanks = set->type == JINJA_ABSENT;
    struct dgl_str kept = blanks ? jinja_strip(s, (enum jinja_strip_side)side)
                                 : jinja_strip_set(s, jinja_str(set), (enum jinja_strip_side)side);
    size_t set_len = blanks ? 1 : set->text.len;
    *out = jinja_part(text, kept);
    /* Each stripped character was looked for in the whole set. */
    return jinja_step(run, 1 + (s.len - kept.len) / 16 * (1 + set_len / 16));
}
