/* Characters as Python sees them. */
#include "loader/jinja/jinja_chars.h"

#include <string.h>
#include <utf8proc.h>

#include "core/base/utf8.h"
#include "loader/text/tok_unicode.h"

bool jinja_is_space(uint32_t cp)
{
    /* The information separators are blanks for Python, and not White_Space. */
    return tok_is_space(cp) || (cp >= 0x1C && cp <= 0x1F);
}

bool jinja_is_printable(uint32_t cp)
{
    switch (tok_category(cp)) {
    case TOK_ZS:
        return cp == ' ';
    case TOK_ZL:
    case TOK_ZP:
    case TOK_CC:
    case TOK_CF:
    case TOK_CS:
    case TOK_CO:
    case TOK_CN:
        return false;
    default:
        return true;
    }
}

bool jinja_is_line_end(uint32_t cp)
{
    return (cp >= '\n' && cp <= '\r') || (cp >= 0x1C && cp <= 0x1E) || cp == 0x85 || cp == 0x2028 ||
           cp == 0x2029;
}

bool jinja_is_cased(uint32_t cp)
{
    enum tok_category category = tok_category(cp);
    return category == TOK_LU || category == TOK_LL || category == TOK_LT;
}

size_t jinja_last_char(struct dgl_str text)
{
    size_t len = text.len ? 1 : 0;
    while (len && len < text.len && ((unsigned char)text.p[text.len - len] & 0xC0) == 0x80)
        len++;
    return len;
}

static bool in_set(struct dgl_str set, bool blanks, struct dgl_str c)
{
    uint32_t cp;
    if (!blanks)
        return jinja_find(set, c, 0) != SIZE_MAX;
    dgl_utf8_decode(c.p, c.len, &cp);
    return jinja_is_space(cp);
}

static struct dgl_str strip(struct dgl_str text, struct dgl_str set, bool blanks,
                            enum jinja_strip_side side)
{
    while ((side & JINJA_STRIP_LEFT) && text.len) {
        uint32_t cp;
        size_t len = dgl_utf8_decode(text.p, text.len, &cp);
        if (!in_set(set, blanks, (struct dgl_str){text.p, len}))
            break;
        text = (struct dgl_str){text.p + len, text.len - len};
    }
    while ((side & JINJA_STRIP_RIGHT) && text.len) {
        size_t len = jinja_last_char(text);
        if (!in_set(set, blanks, (struct dgl_str){text.p + text.len - len, len}))
            break;
        text.len -= len;
    }
    return text;
}

struct dgl_str jinja_strip(struct dgl_str text, enum jinja_strip_side side)
{
    return strip(text, (struct dgl_str){0}, true, side);
}

struct dgl_str jinja_strip_set(struct dgl_str text, struct dgl_str set, enum jinja_strip_side side)
{
    return strip(text, set, false, side);
}

size_t jinja_char_count(struct dgl_str text)
{
    size_t count = 0;
    for (size_t i = 0; i < text.len; i++)
        count += ((unsigned char)text.p[i] & 0xC0) != 0x80;
    return count;
}

size_t jinja_char_offset(struct dgl_str text, size_t index)
{
    size_t pos = 0;
    for (; pos < text.len; pos++) {
        bool first = ((unsigned char)text.p[pos] & 0xC0) != 0x80;
        if (first && index-- == 0)
            break;
    }
    return pos;
}

size_t jinja_find(struct dgl_str text, struct dgl_str part, size_t from)
{
    if (from > text.len || part.len > text.len - from)
        return SIZE_MAX;
    if (part.len == 0)
        return from;
    const char *found = memmem(text.p + from, text.len - from, part.p, part.len);
    return found ? (size_t)(found - text.p) : SIZE_MAX;
}

size_t jinja_find_last(struct dgl_str text, struct dgl_str part)
{
    if (part.len > text.len)
        return SIZE_MAX;
    for (size_t pos = text.len - part.len;; pos--) {
        if (part.len == 0 || memcmp(text.p + pos, part.p, part.len) == 0)
            return pos;
        if (pos == 0)
            return SIZE_MAX;
    }
}

/* A character with several in another case; both texts are UTF-8. */
struct case_special {
    uint32_t cp;
    const char *upper, *title;
};

#include "loader/text/jinja_case.inc"

static const char *find_special(uint32_t cp, enum jinja_case to)
{
    for (size_t i = 0; i < sizeof(special_cases) / sizeof(special_cases[0]); i++) {
        if (special_cases[i].cp == cp)
            return to == JINJA_CASE_UPPER ? special_cases[i].upper : special_cases[i].title;
    }
    return NULL;
}

static size_t to_lower(uint32_t cp, char out[jinja_case_max])
{
    uint32_t lower[2];
    size_t count = tok_lowercase(cp, lower), len = 0;
    for (size_t i = 0; i < count; i++)
        len += dgl_utf8_encode(lower[i], out + len);
    return len;
}

size_t jinja_to_case(uint32_t cp, enum jinja_case to, char out[jinja_case_max])
{
    if (to == JINJA_CASE_LOWER)
        return to_lower(cp, out);
    if (cp < 0x80) {
        out[0] = (char)(cp >= 'a' && cp <= 'z' ? cp - 'a' + 'A' : cp);
        return 1;
    }
    const char *special = find_special(cp, to);
    if (special) {
        size_t len = strlen(special);
        memcpy(out, special, len);
        return len;
    }
    int32_t c = (int32_t)cp;
    c = to == JINJA_CASE_UPPER ? utf8proc_toupper(c) : utf8proc_totitle(c);
    return dgl_utf8_encode((uint32_t)c, out);
}
