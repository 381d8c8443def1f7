/* Strings with taint: characters, building, case, replacing, lines and stripping. */
#include "loader/jinja/jinja_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "core/base/utf8.h"
#include "loader/text/tok_unicode.h"

/* ---- characters ---- */

bool jinja_is_space(uint32_t cp)
{
    /* Python counts the information separators as whitespace; Unicode does not. */
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

size_t jinja_last_char(struct dgl_str text)
{
    size_t len = text.len ? 1 : 0;
    while (len && len < text.len && ((unsigned char)text.p[text.len - len] & 0xC0) == 0x80)
        len++;
    return len;
}

/* Returns true if the character is in `set`, or is whitespace if `set` is NULL. */
static bool is_stripped(struct dgl_str c, const struct dgl_str *set)
{
    uint32_t cp;
    if (set)
        return jinja_find(*set, c, 0) != SIZE_MAX;
    dgl_utf8_decode(c.p, c.len, &cp);
    return jinja_is_space(cp);
}

static struct dgl_str strip(struct dgl_str text, const struct dgl_str *set,
                            enum jinja_strip_side side)
{
    while ((side & JINJA_STRIP_LEFT) && text.len) {
        uint32_t cp;
        size_t len = dgl_utf8_decode(text.p, text.len, &cp);
        if (!is_stripped((struct dgl_str){text.p, len}, set))
            break;
        text = (struct dgl_str){text.p + len, text.len - len};
    }
    while ((side & JINJA_STRIP_RIGHT) && text.len) {
        size_t len = jinja_last_char(text);
        if (!is_stripped((struct dgl_str){text.p + text.len - len, len}, set))
            break;
        text.len -= len;
    }
    return text;
}

struct dgl_str jinja_strip(struct dgl_str text, enum jinja_strip_side side)
{
    return strip(text, NULL, side);
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

enum letter_case { CASE_LOWER, CASE_UPPER, CASE_TITLE };
#define CAPITAL_SIGMA 0x3A3
#define FINAL_SIGMA   0x3C2
enum { case_max = 12 }; /* bytes */

/* A character that has several characters in another case, as UTF-8. */
struct case_special {
    uint32_t cp;
    const char *upper, *title;
};

#include "loader/text/jinja_case.inc"

/* Writes a character in another case as UTF-8 and returns the length. Ignores the context. */
static size_t to_case(uint32_t cp, enum letter_case to, char out[case_max])
{
    size_t len = 0;
    if (to == CASE_LOWER) {
        uint32_t lower[2];
        size_t count = tok_lowercase(cp, lower);
        for (size_t i = 0; i < count; i++)
            len += dgl_utf8_encode(lower[i], out + len);
        return len;
    }
    if (cp < 0x80) {
        out[0] = (char)(cp >= 'a' && cp <= 'z' ? cp - 'a' + 'A' : cp);
        return 1;
    }
    for (size_t i = 0; i < sizeof(special_cases) / sizeof(special_cases[0]); i++) {
        if (special_cases[i].cp != cp)
            continue;
        const char *special = to == CASE_UPPER ? special_cases[i].upper : special_cases[i].title;
        len = strlen(special);
        memcpy(out, special, len);
        return len;
    }
    int32_t c = (int32_t)cp;
    c = to == CASE_UPPER ? utf8proc_toupper(c) : utf8proc_totitle(c);
    return dgl_utf8_encode((uint32_t)c, out);
}

/* ---- building ---- */

static void fill_taint(struct dgl_buf *taint, size_t len, bool data)
{
    static const uint8_t template_taint[64];
    uint8_t data_taint[64];
    memset(data_taint, JINJA_TAINT_DATA, sizeof(data_taint));
    for (size_t part; len; len -= part) {
        part = len < sizeof(data_taint) ? len : sizeof(data_taint);
        dgl_buf_append(taint, data ? data_taint : template_taint, part);
    }
}

/* Checks the size limit and counts steps. Starts to store taint per byte if the new part has
 * another taint. */
static bool prepare(struct jinja_run *run, struct jinja_text *text, size_t len, bool mixed,
                    bool data)
{
    if (len > run->limits.output_bytes - text->bytes.len)
        return jinja_fail_size(run);
    if (text->bytes.len == 0)
        text->data = data;
    if (!text->mixed && (mixed || data != text->data)) {
        fill_taint(&text->taint, text->bytes.len, text->data);
        text->mixed = true;
    }
    return jinja_step_bytes(run, len);
}

bool jinja_text_put(struct jinja_run *run, struct jinja_text *text, struct dgl_str part, bool data)
{
    if (part.len == 0)
        return true;
    if (!prepare(run, text, part.len, false, data))
        return false;
    dgl_buf_append(&text->bytes, part.p, part.len);
    if (text->mixed)
        fill_taint(&text->taint, part.len, data);
    return true;
}

bool jinja_text_add(struct jinja_run *run, struct jinja_text *text,
                    const struct jinja_value *string)
{
    if (!string->text.taint)
        return jinja_text_put(run, text, jinja_str(string), string->data);
    if (string->text.len == 0)
        return true;
    if (!prepare(run, text, string->text.len, true, string->data))
        return false;
    dgl_buf_append(&text->bytes, string->text.p, string->text.len);
    dgl_buf_append(&text->taint, string->text.taint, string->text.len);
    return true;
}

bool jinja_text_add_escaped(struct jinja_run *run, struct jinja_text *text,
                            const struct jinja_value *string, jinja_escape_fn escape, int mode)
{
    struct dgl_str s = jinja_str(string);
    size_t start = 0, pos = 0;
    while (pos < s.len) {
        uint32_t cp;
        char escaped[jinja_escape_max];
        size_t begin = pos;
        pos += dgl_utf8_decode(s.p + pos, s.len - pos, &cp);
        size_t len = escape(cp, mode, escaped);
        if (len == 0)
            continue;
        struct jinja_value before = jinja_slice_bytes(string, start, begin - start);
        if (!jinja_text_add(run, text, &before) ||
            !jinja_text_put(run, text, (struct dgl_str){escaped, len},
                            jinja_byte_is_data(string, begin)))
            return false;
        start = pos;
    }
    struct jinja_value rest = jinja_slice_bytes(string, start, s.len - start);
    return jinja_text_add(run, text, &rest);
}

bool jinja_text_write_taint(const struct jinja_text *text, struct dgl_buf *out)
{
    if (text->mixed)
        dgl_buf_append(out, text->taint.p, text->taint.len);
    else
        fill_taint(out, text->bytes.len, text->data);
    return !out->failed;
}

bool jinja_text_end(struct jinja_run *run, struct jinja_text *text, bool ok,
                    struct jinja_value *out)
{
    size_t len = text->bytes.len;
    if (ok && (text->bytes.failed || text->taint.failed))
        ok = dgl_budget_fail_memory(&run->budget, len);
    char *copy = ok ? jinja_alloc(run, len + (text->mixed ? len : 0) + 1, 1) : NULL;
    if (copy) {
        *out = jinja_text_of((struct dgl_str){copy, len}, text->data);
        if (len)
            memcpy(copy, text->bytes.p, len);
        if (text->mixed) {
            memcpy(copy + len + 1, text->taint.p, len);
            out->text.taint = (const uint8_t *)copy + len + 1;
        }
    }
    dgl_buf_finish(&text->bytes);
    dgl_buf_finish(&text->taint);
    return copy != NULL;
}

void jinja_print_float(struct dgl_buf *out, double value)
{
    if (!isfinite(value)) {
        dgl_buf_puts(out, isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
        return;
    }
    struct dgl_buf space = {0};
    double back = 0;
    int digits = -1; /* decimals of the shortest number that reads back as `value` */
    do {
        digits++;
        space.len = 0;
        dgl_buf_printf(&space, "%.*e", digits, value);
    } while (!space.failed && digits < 16 &&
             !(dgl_parse_f64((struct dgl_str){space.p, space.len}, &back) && back == value));
    const char *mark = space.failed ? NULL : strchr(space.p, 'e');
    int exponent = mark ? (int)strtol(mark + 1, NULL, 10) : 0;
    if (exponent < -4 || exponent >= 16)
        dgl_buf_puts(out, space.p ? space.p : "");
    else
        dgl_buf_printf(out, "%.*f", digits > exponent + 1 ? digits - exponent : 1, value);
    out->failed |= space.failed;
    dgl_buf_finish(&space);
}

static bool put_cstr(struct jinja_run *run, struct jinja_text *text, const char *part, bool data)
{
    return jinja_text_put(run, text, dgl_str_of(part), data);
}

/* Escapes of repr(). Mode: the quote around the string. */
static size_t repr_escape(uint32_t cp, int quote, char out[jinja_escape_max])
{
    static const char plain[] = "\n\r\t", letters[] = "nrt";
    const char *found = cp && cp < 0x80 ? strchr(plain, (int)cp) : NULL;
    const char *fmt = cp < 0x100 ? "\\x%02x" : cp < 0x10000 ? "\\u%04x" : "\\U%08x";
    if (found)
        return (size_t)snprintf(out, jinja_escape_max, "\\%c", letters[found - plain]);
    if (cp == '\\' || cp == (uint32_t)quote)
        return (size_t)snprintf(out, jinja_escape_max, "\\%c", (int)cp);
    if (jinja_is_printable(cp))
        return 0;
    return (size_t)snprintf(out, jinja_escape_max, fmt, (unsigned)cp);
}

static bool add_quoted(struct jinja_run *run, struct jinja_text *text,
                       const struct jinja_value *string)
{
    struct dgl_str s = jinja_str(string);
    bool single = s.len && memchr(s.p, '\'', s.len), twice = s.len && memchr(s.p, '"', s.len);
    const char quote[2] = {single && !twice ? '"' : '\'', '\0'};
    return put_cstr(run, text, quote, string->data) &&
           jinja_text_add_escaped(run, text, string, repr_escape, quote[0]) &&
           put_cstr(run, text, quote, string->data);
}

static bool add_items(struct jinja_run *run, struct jinja_text *text,
                      const struct jinja_value *value)
{
    const struct jinja_list *list = value->list;
    bool tuple = value->type == JINJA_TUPLE;
    bool ok = true;
    if (value->type == JINJA_VIEW)
        ok = put_cstr(run, text, list->label, value->data) && put_cstr(run, text, "(", value->data);
    ok = ok && put_cstr(run, text, tuple ? "(" : "[", value->data);
    for (size_t i = 0; ok && i < list->count; i++)
        ok = (i == 0 || put_cstr(run, text, ", ", value->data)) &&
             jinja_text_add_repr(run, text, &list->items[i]);
    if (ok && tuple && list->count == 1)
        ok = put_cstr(run, text, ",", value->data);
    ok = ok && put_cstr(run, text, tuple ? ")" : "]", value->data);
    return ok && (value->type != JINJA_VIEW || put_cstr(run, text, ")", value->data));
}

static bool add_entries(struct jinja_run *run, struct jinja_text *text,
                        const struct jinja_value *value)
{
    bool ok = put_cstr(run, text, "{", value->data);
    for (size_t i = 0; ok && i < value->dict->count; i++) {
        const struct jinja_entry *entry = &value->dict->entries[i];
        ok = (i == 0 || put_cstr(run, text, ", ", value->data)) &&
             jinja_text_add_repr(run, text, &entry->key) &&
             put_cstr(run, text, ": ", value->data) &&
             jinja_text_add_repr(run, text, &entry->value);
    }
    return ok && put_cstr(run, text, "}", value->data);
}

static bool add_repr(struct jinja_run *run, struct jinja_text *text,
                     const struct jinja_value *value)
{
    struct dgl_buf number = {0};
    switch (value->type) {
    case JINJA_ABSENT:
    case JINJA_UNDEFINED:
        return put_cstr(run, text, "Undefined", false);
    case JINJA_NONE:
        return put_cstr(run, text, "None", value->data);
    case JINJA_BOOL:
        return put_cstr(run, text, value->boolean ? "True" : "False", value->data);
    case JINJA_INT:
        dgl_buf_printf(&number, "%" PRId64, value->integer);
        break;
    case JINJA_FLOAT:
        jinja_print_float(&number, value->real);
        break;
    case JINJA_RANGE:
        dgl_buf_printf(&number, "range(%" PRId64 ", %" PRId64, value->range.start,
                       value->range.stop);
        if (value->range.step != 1)
            dgl_buf_printf(&number, ", %" PRId64, value->range.step);
        dgl_buf_putc(&number, ')');
        break;
    case JINJA_STRING:
        return add_quoted(run, text, value);
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_VIEW:
        return add_items(run, text, value);
    case JINJA_DICT:
        return add_entries(run, text, value);
    case JINJA_NAMESPACE:
        return put_cstr(run, text, "<Namespace ", false) && add_entries(run, text, value) &&
               put_cstr(run, text, ">", false);
    case JINJA_GENERATOR:
    case JINJA_FUNCTION:
    case JINJA_MACRO:
    case JINJA_LOOP:
    case JINJA_CYCLER:
        return put_cstr(run, text, "<", false) &&
               put_cstr(run, text, jinja_type_name(value), false) &&
               put_cstr(run, text, ">", false);
    case JINJA_SELF:
        return put_cstr(run, text, "<TemplateReference None>", false);
    }
    bool ok = jinja_text_put(run, text, (struct dgl_str){number.p, number.len}, value->data);
    text->bytes.failed |= number.failed;
    dgl_buf_finish(&number);
    return ok;
}

bool jinja_text_add_repr(struct jinja_run *run, struct jinja_text *text,
                         const struct jinja_value *value)
{
    if (!jinja_enter(run))
        return false;
    bool ok = jinja_step(run, 1) && add_repr(run, text, value);
    jinja_leave(run);
    return ok;
}

bool jinja_text_add_str(struct jinja_run *run, struct jinja_text *text,
                        const struct jinja_value *value)
{
    if (value->type == JINJA_STRING)
        return jinja_text_add(run, text, value);
    if (value->type == JINJA_UNDEFINED)
        return true;
    return jinja_text_add_repr(run, text, value);
}

bool jinja_to_text(struct jinja_run *run, const struct jinja_value *value, struct jinja_value *out)
{
    if (value->type == JINJA_STRING) {
        *out = *value;
        return true;
    }
    struct jinja_text text = {0};
    bool ok = jinja_text_add_str(run, &text, value);
    return jinja_text_end(run, &text, ok, out);
}

/* ---- cases ---- */

static bool is_in(uint32_t cp, const struct tok_range *ranges, size_t count)
{
    for (size_t i = 0; i < count && cp >= ranges[i].first; i++)
        if (cp <= ranges[i].last)
            return true;
    return false;
}

/* Unicode's property Cased. */
static bool is_cased(uint32_t cp)
{
    static const struct tok_range other_uppercase[] = {{0x2160, 0x216F},
                                                       {0x24B6, 0x24CF},
                                                       {0x1F130, 0x1F149},
                                                       {0x1F150, 0x1F169},
                                                       {0x1F170, 0x1F189}};
    const enum tok_category category = tok_category(cp);
    size_t count;
    const struct tok_range *lower = tok_other_lowercase(&count);
    return category == TOK_LU || category == TOK_LL || category == TOK_LT ||
           is_in(cp, lower, count) ||
           is_in(cp, other_uppercase, sizeof(other_uppercase) / sizeof(other_uppercase[0]));
}

/* Unicode's property Case_Ignorable. */
static bool is_case_ignorable(uint32_t cp)
{
    /* Word_Break MidLetter, MidNumLet and Single_Quote */
    static const struct tok_range marks[] = {
        {0x27, 0x27},     {0x2E, 0x2E},     {0x3A, 0x3A},     {0xB7, 0xB7},
        {0x387, 0x387},   {0x55F, 0x55F},   {0x5F4, 0x5F4},   {0x2018, 0x2019},
        {0x2024, 0x2024}, {0x2027, 0x2027}, {0xFE13, 0xFE13}, {0xFE52, 0xFE52},
        {0xFE55, 0xFE55}, {0xFF07, 0xFF07}, {0xFF0E, 0xFF0E}, {0xFF1A, 0xFF1A}};
    const enum tok_category category = tok_category(cp);
    return category == TOK_MN || category == TOK_ME || category == TOK_CF || category == TOK_LM ||
           category == TOK_SK || is_in(cp, marks, sizeof(marks) / sizeof(marks[0]));
}

/* Returns true if the capital sigma at `at` (two bytes) ends a word: a cased letter is before it
 * and none after it, apart from ignorable characters. */
static bool is_final_sigma(struct dgl_str s, size_t at)
{
    uint32_t cp = 0;
    size_t pos = at;
    bool ignorable = true;
    while (ignorable && pos > 0) {
        pos = tok_char_before(s.p, pos);
        dgl_utf8_decode(s.p + pos, s.len - pos, &cp);
        ignorable = is_case_ignorable(cp);
    }
    if (ignorable || !is_cased(cp))
        return false;
    ignorable = true;
    for (pos = at + 2; ignorable && pos < s.len;) {
        pos += dgl_utf8_decode(s.p + pos, s.len - pos, &cp);
        ignorable = is_case_ignorable(cp);
    }
    return ignorable || !is_cased(cp);
}

bool jinja_change_case(struct jinja_run *run, const struct jinja_value *text,
                       enum jinja_casing casing, struct jinja_value *out)
{
    struct jinja_text result = {0};
    struct dgl_str s = jinja_str(text);
    bool ok = true, inside = false; /* inside: after the first letter of a word */
    size_t word = 0;                /* the title filter converts the rest of each word by itself */
    for (size_t pos = 0, len; ok && pos < s.len; pos += len) {
        uint32_t cp;
        char space[case_max];
        len = dgl_utf8_decode(s.p + pos, s.len - pos, &cp);
        enum tok_category category = casing == JINJA_TITLE ? tok_category(cp) : TOK_CN;
        enum letter_case to =
            inside || casing == JINJA_LOWER || casing == JINJA_CASEFOLD ? CASE_LOWER : CASE_TITLE;
        if (casing == JINJA_UPPER || (casing == JINJA_TITLE_WORDS && !inside))
            to = CASE_UPPER;
        if (casing == JINJA_SWAPCASE) {
            size_t size = to_case(cp, CASE_LOWER, space);
            to = size == len && memcmp(space, s.p + pos, len) == 0 ? CASE_UPPER : CASE_LOWER;
        }
        inside = casing == JINJA_CAPITALIZE ||
                 (casing == JINJA_TITLE &&
                  (category == TOK_LU || category == TOK_LL || category == TOK_LT)) ||
                 (casing == JINJA_TITLE_WORDS && !jinja_is_space(cp) &&
                  !(cp && cp < 0x80 && strchr("-({[<", (int)cp)));
        if (casing == JINJA_TITLE_WORDS && to == CASE_UPPER)
            word = pos + len;
        size_t size = to_case(cp, to, space);
        if (cp == CAPITAL_SIGMA && to == CASE_LOWER && casing != JINJA_CASEFOLD &&
            is_final_sigma((struct dgl_str){s.p + word, s.len - word}, pos - word))
            size = dgl_utf8_encode(FINAL_SIGMA, space);
        ok = jinja_text_put(run, &result, (struct dgl_str){space, size},
                            jinja_byte_is_data(text, pos));
    }
    ok = jinja_text_end(run, &result, ok, out);
    out->safe = text->safe;
    return ok;
}

bool jinja_has_case(struct jinja_run *run, const struct jinja_value *value,
                    enum jinja_casing casing, struct jinja_value *out)
{
    struct jinja_value text, same, other;
    bool kept, changed;
    if (!jinja_to_text(run, value, &text) || !jinja_change_case(run, &text, casing, &same) ||
        !jinja_change_case(run, &text, casing == JINJA_UPPER ? JINJA_LOWER : JINJA_UPPER, &other) ||
        !jinja_equal(run, &text, &same, &kept) || !jinja_equal(run, &text, &other, &changed))
        return false;
    *out = jinja_bool(kept && !changed);
    return true;
}

/* ---- replacing ---- */

/* Finds the next match. An empty string matches before each character and at the end. */
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

bool jinja_split_lines(struct jinja_run *run, const struct jinja_value *text, bool keep_ends,
                       struct jinja_value *out)
{
    struct dgl_str s = jinja_str(text);
    size_t start = 0, pos = 0;
    if (!jinja_step_bytes(run, s.len) || !jinja_new_list(run, JINJA_LIST, 0, out))
        return false;
    while (pos < s.len) {
        uint32_t cp;
        size_t end = pos;
        pos += dgl_utf8_decode(s.p + pos, s.len - pos, &cp);
        bool ends_line = (cp >= '\n' && cp <= '\r') || (cp >= 0x1C && cp <= 0x1E) || cp == 0x85 ||
                         cp == 0x2028 || cp == 0x2029;
        if (!ends_line)
            continue;
        if (cp == '\r' && pos < s.len && s.p[pos] == '\n')
            pos++;
        size_t len = (keep_ends ? pos : end) - start;
        if (!jinja_list_push(run, out->list, jinja_slice_bytes(text, start, len)))
            return false;
        start = pos;
    }
    return start == s.len ||
           jinja_list_push(run, out->list, jinja_slice_bytes(text, start, s.len - start));
}

/* ---- blanks ---- */

bool jinja_blanks(struct jinja_run *run, const struct jinja_value *width, int64_t otherwise,
                  struct jinja_value *out)
{
    const struct jinja_value blank = jinja_literal(" "), count = jinja_int(otherwise);
    *out = *width;
    return jinja_is_text(width) ||
           jinja_arithmetic(run, JINJA_OP_MUL, &blank, width->type == JINJA_ABSENT ? &count : width,
                            out);
}

bool jinja_strip_text(struct jinja_run *run, const struct jinja_value *text,
                      const struct jinja_value *set, int side, struct jinja_value *out)
{
    struct dgl_str s = jinja_str(text);
    bool blanks = set->type == JINJA_ABSENT;
    struct dgl_str chars = blanks ? (struct dgl_str){0} : jinja_str(set);
    struct dgl_str kept = strip(s, blanks ? NULL : &chars, (enum jinja_strip_side)side);
    size_t set_len = blanks ? 1 : chars.len;
    *out = jinja_part(text, kept);
    /* Each stripped character was compared with the whole set. */
    return jinja_step(run, 1 + (s.len - kept.len) / 16 * (1 + set_len / 16));
}
