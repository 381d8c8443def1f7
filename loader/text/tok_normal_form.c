/*
 * Normal forms (Unicode Standard, section 3.11) with utf8proc, which has a newer Unicode than the
 * reference: code points that are inert in Unicode 9 are kept from it. They neither change nor
 * combine, so they divide a text into parts that can be normalized each by itself.
 */
#include "loader/text/tok_normal_form.h"

#include <assert.h>
#include <string.h>
#include <sys/types.h> /* utf8proc.h uses ssize_t */
#include <utf8proc.h>

#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "loader/text/tok_unicode.h"

#define MAX_DECOMPOSITION 18 /* U+FDFA, the longest there is */

/* Code points travel with their combining class in the upper byte. */
#define CLASS_SHIFT 24
#define CP_MASK     0xFFFFFFu

static void sort_few_marks(uint32_t *cps, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        uint32_t cp = cps[i];
        size_t at = i;
        for (; at > 0 && cps[at - 1] >> CLASS_SHIFT > cp >> CLASS_SHIFT; at--)
            cps[at] = cps[at - 1];
        cps[at] = cp;
    }
}

/* By class, stable. `other` has room for as many: texts of nothing but marks must not take
 * quadratic time. */
static void sort_marks(uint32_t *cps, size_t count, uint32_t *other)
{
    if (count <= 16) {
        sort_few_marks(cps, count);
        return;
    }
    size_t first[257] = {0};
    for (size_t i = 0; i < count; i++)
        first[(cps[i] >> CLASS_SHIFT) + 1]++;
    for (size_t i = 1; i < 257; i++)
        first[i] += first[i - 1];
    for (size_t i = 0; i < count; i++)
        other[first[cps[i] >> CLASS_SHIFT]++] = cps[i];
    memcpy(cps, other, count * sizeof(*cps));
}

static void order_marks(uint32_t *cps, size_t count, uint32_t *other)
{
    for (size_t i = 0, end; i < count; i = end) {
        end = i + 1;
        if (!(cps[i] >> CLASS_SHIFT))
            continue;
        while (end < count && cps[end] >> CLASS_SHIFT)
            end++;
        sort_marks(cps + i, end - i, other);
    }
}

/* Code points below are no second part of a composite, have no combining class and do not change.
 */
static uint32_t inert_below(enum tok_normal_form form)
{
    return form == TOK_NFC ? 0x300 : 0x80;
}

/* Normalizes one stretch that no neighbour can change. utf8proc would sort marks in quadratic time,
 * so that is done here. */
static bool normalize_part(enum tok_normal_form form, struct dgl_str part, uint32_t **cps,
                           size_t *cap, struct dgl_buf *out)
{
    int options = form == TOK_NFKC || form == TOK_NFKD ? UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT
                                                       : UTF8PROC_DECOMPOSE;
    size_t count = 0;
    for (size_t i = 0; i < part.len;) {
        uint32_t cp;
        int32_t parts[MAX_DECOMPOSITION];
        int boundary = 0; /* of graphemes: not asked for */
        i += dgl_utf8_decode(part.p + i, part.len - i, &cp);
        ssize_t len = utf8proc_decompose_char((int32_t)cp, parts, MAX_DECOMPOSITION,
                                              (utf8proc_option_t)options, &boundary);
        assert(len > 0 && len <= MAX_DECOMPOSITION);
        /* Twice the room: the other half is for sorting. */
        if (!dgl_grow((void **)cps, cap, 2 * (count + (size_t)len), sizeof(**cps)))
            return false;
        for (ssize_t j = 0; j < len; j++) {
            uint32_t class = (uint32_t)utf8proc_get_property(parts[j])->combining_class;
            (*cps)[count++] = (uint32_t)parts[j] | class << CLASS_SHIFT;
        }
    }
    order_marks(*cps, count, *cps + count);
    for (size_t i = 0; i < count; i++)
        (*cps)[i] &= CP_MASK;
    if (form == TOK_NFC || form == TOK_NFKC)
        count = (size_t)utf8proc_normalize_utf32((int32_t *)*cps, (ssize_t)count,
                                                 UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    for (size_t i = 0; i < count; i++) {
        char bytes[4];
        dgl_buf_append(out, bytes, dgl_utf8_encode((*cps)[i], bytes));
    }
    return !out->failed;
}

/* Marks of out[done..], which was made of text[first, end). The first character, up to `head`,
 * keeps its mark unless it was composed with another. */
static void taint_part(struct tainted_text text, size_t first, size_t head, size_t end,
                       const struct dgl_buf *out, size_t done, struct dgl_buf *taint)
{
    size_t kept = head - first, made = out->len - done;
    if (kept > 0 && kept <= made && memcmp(out->p + done, text.text.p + first, kept) == 0) {
        tainted_merge(text, first, head, kept, taint);
        made -= kept;
        first = head;
    }
    tainted_merge(text, first, end, made, taint);
}

bool tok_normal_form(enum tok_normal_form form, struct tainted_text tainted, uint32_t **cps,
                     size_t *cap, struct dgl_buf *out, struct dgl_buf *taint)
{
    struct dgl_str text = tainted.text;
    uint32_t limit = inert_below(form);
    size_t start = 0, i = 0; /* [start, i) does not change */
    size_t floor = 0;        /* where a stretch may begin at the earliest */
    while (i < text.len) {
        uint32_t cp;
        size_t step = dgl_utf8_decode(text.p + i, text.len - i, &cp);
        if (cp < limit || tok_is_inert(cp)) {
            i += step;
            if (cp >= limit)
                floor = i;
            continue;
        }
        /* The stretch begins with the code point before, which may take part in a composition. */
        size_t first = i, head = i;
        while (first > floor && ((unsigned char)text.p[--first] & 0xC0) == 0x80)
            ;
        while (i < text.len) {
            step = dgl_utf8_decode(text.p + i, text.len - i, &cp);
            if (cp < limit || tok_is_inert(cp))
                break;
            i += step;
        }
        tainted_copy(tainted, start, first, out, taint);
        size_t done = out->len;
        if (!normalize_part(form, (struct dgl_str){text.p + first, i - first}, cps, cap, out))
            return false;
        if (tainted.taint)
            taint_part(tainted, first, head, i, out, done, taint);
        start = floor = i;
    }
    tainted_copy(tainted, start, text.len, out, taint);
    return !out->failed && (!tainted.taint || !taint->failed);
}
