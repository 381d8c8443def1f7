/*
 * Normal forms (Unicode Standard, section 3.11) with utf8proc. Its Unicode is newer than that of
 * the reference, so code points that are inert in Unicode 9 are not passed to it. These neither
 * change nor combine, and divide a text into parts that can be normalized independently.
 */
#include "loader/text/tok_normal_form.h"

#include <assert.h>
#include <string.h>
#include <sys/types.h> /* utf8proc.h uses ssize_t */
#include <utf8proc.h>

#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "loader/text/tok_unicode.h"

#define MAX_DECOMPOSITION 18 /* U+FDFA, the longest one */

/* The upper byte of a code point is its combining class. */
#define CLASS_SHIFT 24
#define CP_MASK     0xFFFFFFu

/* Sorts each run of marks by class, stable: a short run by insertion, a long one by counting, which
 * takes linear time even for a text of marks only. `other` has space for as many. */
static void order_marks(uint32_t *cps, size_t count, uint32_t *other)
{
    for (size_t i = 0, end; i < count; i = end) {
        end = i + 1;
        while (end < count && cps[i] >> CLASS_SHIFT && cps[end] >> CLASS_SHIFT)
            end++;
        for (size_t j = i + 1; j < end && end - i <= 16; j++) {
            uint32_t cp = cps[j];
            size_t at = j;
            for (; at > i && cps[at - 1] >> CLASS_SHIFT > cp >> CLASS_SHIFT; at--)
                cps[at] = cps[at - 1];
            cps[at] = cp;
        }
        if (end - i <= 16)
            continue;
        size_t first[257] = {0};
        for (size_t j = i; j < end; j++)
            first[(cps[j] >> CLASS_SHIFT) + 1]++;
        for (size_t j = 1; j < 257; j++)
            first[j] += first[j - 1];
        for (size_t j = i; j < end; j++)
            other[first[cps[j] >> CLASS_SHIFT]++] = cps[j];
        memcpy(cps + i, other, (end - i) * sizeof(*cps));
    }
}

/* Normalizes one part that its neighbours cannot change. Sorts marks here, because utf8proc needs
 * quadratic time for it. */
static bool normalize_part(enum tok_normal_form form, struct dgl_str part, uint32_t **cps,
                           size_t *cap, struct dgl_buf *out)
{
    int options = form == TOK_NFKC || form == TOK_NFKD ? UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT
                                                       : UTF8PROC_DECOMPOSE;
    size_t count = 0;
    for (size_t i = 0; i < part.len;) {
        uint32_t cp;
        int32_t parts[MAX_DECOMPOSITION];
        int boundary = 0; /* state of graphemes, not used */
        i += dgl_utf8_decode(part.p + i, part.len - i, &cp);
        ssize_t len = utf8proc_decompose_char((int32_t)cp, parts, MAX_DECOMPOSITION,
                                              (utf8proc_option_t)options, &boundary);
        assert(len > 0 && len <= MAX_DECOMPOSITION);
        /* Twice the space: the second half is for sorting. */
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

/* Appends the taint of out[done..], which was made from text[first, end). The first character, up
 * to `head`, keeps its taint unless it was composed with another one. */
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
    /* Code points below this limit are never the second part of a composite, have no combining
     * class and do not change. */
    uint32_t limit = form == TOK_NFC ? 0x300 : 0x80;
    size_t start = 0, i = 0; /* [start, i) does not change */
    size_t floor = 0;        /* earliest start of a part */
    while (i < text.len) {
        uint32_t cp;
        size_t step = dgl_utf8_decode(text.p + i, text.len - i, &cp);
        if (cp < limit || tok_is_inert(cp)) {
            i += step;
            if (cp >= limit)
                floor = i;
            continue;
        }
        /* The part begins with the previous code point, which may take part in a composition. */
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
