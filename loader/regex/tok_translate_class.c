/*
 * Escapes and bracket classes of Oniguruma's patterns. PCRE2's classes cannot be nested or
 * intersected, and ranges cannot be added to the complement of a property. So a class becomes a
 * PCRE2 class of its plain members, with the other members as alternatives to it. Left sides of
 * "&&" become look-aheads.
 */
#include <string.h>

#include "loader/regex/tok_translate.h"

#define MAX_CLASS_DEPTH 20

void tok_translate_property(const struct tok_translator *t, const struct tok_property *property,
                            bool negated, struct dgl_buf *out)
{
    dgl_buf_puts(out, negated ? "[^" : "[");
    tok_property_write(property, t->newer, out);
    dgl_buf_putc(out, ']');
}

/* ---- escapes --------------------------------------------------------------------------------- */

/* Reads up to `max` hex digits and returns their number. */
static size_t take_hex(struct tok_translator *t, size_t max, uint32_t *value)
{
    size_t digits = 0;
    *value = 0;
    while (digits < max && dgl_hex_value(tok_translate_peek(t, 0)) >= 0) {
        *value = *value << 4 | (uint32_t)dgl_hex_value(tok_translate_peek(t, 0));
        t->pos++;
        digits++;
    }
    return digits;
}

static enum dgl_status take_property(struct tok_translator *t, struct tok_escape *out)
{
    if (!tok_translate_accept(t, "{"))
        return tok_translate_fail(t, "a property without braces");
    if (tok_translate_accept(t, "^"))
        out->negated = !out->negated;
    size_t start = t->pos;
    while (!tok_translate_at_end(t) && tok_translate_peek(t, 0) != '}')
        t->pos++;
    struct dgl_str name = {t->pattern.p + start, t->pos - start};
    if (tok_translate_accept(t, "}") && tok_property_find(name, &out->property))
        return DGL_OK;
    t->pos = start;
    return tok_translate_fail(t, "this character property");
}

enum dgl_status tok_translate_escape(struct tok_translator *t, bool in_class,
                                     struct tok_escape *out)
{
    static const char letters[] = "tnrfvae", codes[] = "\t\n\r\f\v\a\x1B";
    *out = (struct tok_escape){0};
    if (tok_translate_at_end(t))
        return tok_translate_fail(t, "a backslash at the end");
    uint32_t cp = out->cp = tok_translate_take(t);
    bool letter = cp < 0x80 && (cp | 0x20) >= 'a' && (cp | 0x20) <= 'z';
    if (!letter && (cp < '0' || cp > '9'))
        return DGL_OK;
    char c = (char)cp;
    const char *known = strchr(letters, c);
    if (known) {
        out->cp = (uint32_t)codes[known - letters];
        return DGL_OK;
    }
    if (c == 'b' && in_class) {
        out->cp = '\b';
        return DGL_OK;
    }
    if (c == '0') { /* octal */
        out->cp = 0;
        for (int i = 0; i < 2 && tok_translate_peek(t, 0) >= '0' && tok_translate_peek(t, 0) <= '7';
             i++)
            out->cp = out->cp * 8 + (uint32_t)(t->pattern.p[t->pos++] - '0');
        return DGL_OK;
    }
    if (c == 'x' || c == 'u') {
        bool ok;
        if (c == 'u')
            ok = take_hex(t, 4, &out->cp) == 4;
        else if (tok_translate_accept(t, "{"))
            ok = take_hex(t, 6, &out->cp) > 0 && tok_translate_accept(t, "}");
        else
            ok = take_hex(t, 2, &out->cp) > 0 && out->cp < 0x80; /* larger values are raw bytes */
        bool surrogate = out->cp >= 0xD800 && out->cp <= 0xDFFF;
        return ok && out->cp <= TOK_MAX_CP && !surrogate
                   ? DGL_OK
                   : tok_translate_fail(t, "this character number");
    }
    out->is_property = true;
    out->negated = c >= 'A' && c <= 'Z';
    if (c == 'p' || c == 'P')
        return take_property(t, out);
    if (tok_property_shorthand(c, in_class, &out->property))
        return DGL_OK;
    t->pos--;
    return tok_translate_fail(t, c >= '1' && c <= '9' ? "a back reference" : "this escape");
}

/* ---- classes --------------------------------------------------------------------------------- */

struct class_parts {
    struct dgl_buf lefts;  /* look-aheads: the left sides of "&&" */
    struct dgl_buf plain;  /* members of one PCRE2 class */
    struct dgl_buf others; /* "|" and an expression, for each other member */
    struct tok_cased cased;
};

static void add_property(const struct tok_translator *t, const struct tok_escape *escape,
                         struct class_parts *parts)
{
    if (escape->negated) {
        dgl_buf_putc(&parts->others, '|');
        tok_translate_property(t, &escape->property, true, &parts->others);
    } else {
        tok_property_write(&escape->property, t->newer, &parts->plain);
    }
    tok_cased_add(&parts->cased, &escape->property, escape->negated);
}

/* Reads "alpha:]" after "[:". Returns false, without moving, if this is a plain class that starts
 * with a colon. */
static bool take_posix(struct tok_translator *t, struct class_parts *parts)
{
    size_t start = t->pos;
    struct tok_escape escape = {.negated = tok_translate_accept(t, "^")};
    size_t first = t->pos;
    while (tok_translate_peek(t, 0) >= 'a' && tok_translate_peek(t, 0) <= 'z')
        t->pos++;
    struct dgl_str name = {t->pattern.p + first, t->pos - first};
    if (!tok_translate_accept(t, ":]") || !tok_property_find(name, &escape.property)) {
        t->pos = start;
        return false;
    }
    add_property(t, &escape, parts);
    return true;
}

/* Reads one character or escape. */
static enum dgl_status take_member(struct tok_translator *t, struct tok_escape *out)
{
    *out = (struct tok_escape){.cp = tok_translate_take(t)};
    return out->cp == '\\' ? tok_translate_escape(t, true, out) : DGL_OK;
}

/* Reads a member, or a range if a '-' that is not the last character follows. */
static enum dgl_status take_range(struct tok_translator *t, struct class_parts *parts)
{
    struct tok_escape first, last;
    enum dgl_status status = take_member(t, &first);
    if (status != DGL_OK)
        return status;
    last = first;
    bool dash = tok_translate_peek(t, 0) == '-' && tok_translate_peek(t, 1) != ']';
    if (first.is_property && dash)
        return tok_translate_fail(t, "a range that starts with a class");
    if (first.is_property) {
        add_property(t, &first, parts);
        return DGL_OK;
    }
    if (dash) {
        t->pos++;
        if (tok_translate_at_end(t) || tok_translate_peek(t, 0) == '[')
            return tok_translate_fail(t, "a range without an end");
        status = take_member(t, &last);
        if (status != DGL_OK)
            return status;
        if (last.is_property || last.cp < first.cp)
            return tok_translate_fail(t, "this range");
    }
    struct tok_range range = {first.cp, last.cp};
    tok_property_write_range(range, &parts->plain);
    tok_cased_add_range(&parts->cased, range);
    return DGL_OK;
}

/* Writes the members since the last "&&" as one expression for one character. */
static void write_union(const struct class_parts *parts, struct dgl_buf *out)
{
    struct dgl_str others = {parts->others.p, parts->others.len};
    if (parts->plain.len) {
        dgl_buf_putc(out, '[');
        dgl_buf_append(out, parts->plain.p, parts->plain.len);
        dgl_buf_putc(out, ']');
    } else if (others.len) {
        others = (struct dgl_str){others.p + 1, others.len - 1};
    } else {
        dgl_buf_puts(out, "(?!)");
    }
    dgl_buf_append(out, others.p, others.len);
}

enum dgl_status tok_translate_class(struct tok_translator *t, bool icase, struct dgl_buf *out)
{
    if (++t->class_depth > MAX_CLASS_DEPTH)
        return tok_translate_fail(t, "nesting this deep");
    bool negate = tok_translate_accept(t, "^");
    struct class_parts parts = {0};
    enum dgl_status status = DGL_OK;
    for (bool first = true; status == DGL_OK; first = false) {
        if (tok_translate_at_end(t)) {
            status = tok_translate_fail(t, "a class without its closing bracket");
        } else if (!first && tok_translate_accept(t, "]")) {
            break;
        } else if (tok_translate_accept(t, "&&")) {
            dgl_buf_puts(&parts.lefts, "(?=");
            write_union(&parts, &parts.lefts);
            dgl_buf_putc(&parts.lefts, ')');
            parts.plain.len = parts.others.len = 0;
        } else if (tok_translate_accept(t, "[:") && take_posix(t, &parts)) {
            continue;
        } else if (tok_translate_accept(t, "[")) {
            dgl_buf_putc(&parts.others, '|');
            status = tok_translate_class(t, icase, &parts.others);
        } else {
            status = take_range(t, &parts);
        }
        if (status == DGL_OK &&
            parts.lefts.len + parts.plain.len + parts.others.len > TOK_TRANSLATE_MAX)
            status = tok_translate_fail(t, "a pattern this long");
    }
    if (status == DGL_OK && icase && !tok_cased_is_closed(parts.cased))
        status =
            tok_translate_fail(t, "a class of other than ASCII letters without regard to case");
    t->class_depth--;
    bool simple = !parts.lefts.len && !parts.others.len && parts.plain.len;
    if (simple) {
        dgl_buf_puts(out, negate ? "[^" : "[");
        dgl_buf_append(out, parts.plain.p, parts.plain.len);
        dgl_buf_putc(out, ']');
    } else {
        dgl_buf_puts(out, negate ? "(?:(?!" : "(?:");
        dgl_buf_append(out, parts.lefts.p, parts.lefts.len);
        dgl_buf_puts(out, "(?:");
        write_union(&parts, out);
        dgl_buf_puts(out, negate ? "))(?s:.))" : "))");
    }
    out->failed |= parts.lefts.failed || parts.plain.failed || parts.others.failed;
    dgl_buf_finish(&parts.lefts);
    dgl_buf_finish(&parts.plain);
    dgl_buf_finish(&parts.others);
    return status;
}
