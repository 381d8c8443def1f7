/* Decomposition, canonical order and composition (Unicode Standard, section 3.11). */
#include "loader/text/tok_normal_form.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "loader/text/tok_unicode.h"

/* Hangul syllables: arithmetic instead of tables. */
#define S_BASE  0xAC00u
#define L_BASE  0x1100u
#define V_BASE  0x1161u
#define T_BASE  0x11A7u
#define L_COUNT 19u
#define V_COUNT 21u
#define T_COUNT 28u
#define S_COUNT (L_COUNT * V_COUNT * T_COUNT)

#define MAX_DECOMPOSITION 18 /* U+FDFA, the longest there is */

static size_t decompose_one(uint32_t cp, bool compatible, uint32_t *out)
{
    uint32_t syllable = cp - S_BASE;
    if (syllable < S_COUNT) {
        out[0] = L_BASE + syllable / (V_COUNT * T_COUNT);
        out[1] = V_BASE + syllable / T_COUNT % V_COUNT;
        out[2] = T_BASE + syllable % T_COUNT;
        return out[2] == T_BASE ? 2 : 3;
    }
    size_t len;
    const uint32_t *text = tok_decomposition(cp, compatible, &len);
    if (!text) {
        out[0] = cp;
        return 1;
    }
    for (size_t i = 0; i < len; i++)
        out[i] = text[i];
    return len;
}

/* Code points travel with their combining class in the upper byte. */
#define CLASS_SHIFT 24
#define CP_MASK     0xFFFFFFu

static uint32_t with_class(uint32_t cp)
{
    return cp | (uint32_t)tok_combining_class(cp) << CLASS_SHIFT;
}

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

/* By class, equal classes in the order they came. `other` has room for as many: texts made of
 * nothing but marks must not take quadratic time. */
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

static uint32_t compose_two(uint32_t first, uint32_t second)
{
    if (first - L_BASE < L_COUNT && second - V_BASE < V_COUNT)
        return S_BASE + ((first - L_BASE) * V_COUNT + (second - V_BASE)) * T_COUNT;
    if (first - S_BASE < S_COUNT && (first - S_BASE) % T_COUNT == 0 && second > T_BASE &&
        second < T_BASE + T_COUNT)
        return first + (second - T_BASE);
    return tok_composition(first, second);
}

/* Composes in place; returns how many code points are left. */
static size_t compose(uint32_t *cps, size_t count)
{
    size_t kept = 0, starter = SIZE_MAX;
    uint32_t last_class = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t class = cps[i] >> CLASS_SHIFT;
        /* Blocked: something of the same or a higher class stands between, or a starter does. */
        bool adjacent = starter != SIZE_MAX && starter + 1 == kept;
        bool free_to_compose = starter != SIZE_MAX && (adjacent || last_class < class);
        uint32_t composite = free_to_compose ? compose_two(cps[starter], cps[i] & CP_MASK) : 0;
        if (composite) {
            cps[starter] = composite;
            continue;
        }
        if (class == 0)
            starter = kept;
        last_class = class;
        cps[kept++] = cps[i];
    }
    return kept;
}

/* Code points below belong to no composite as its second part, stand first in canonical order
 * and do not change. */
static uint32_t inert_below(enum tok_normal_form form)
{
    return form == TOK_NFC ? 0x300 : 0x80;
}

/* Normalizes one stretch that no neighbour can change. */
static bool normalize_part(enum tok_normal_form form, struct dgl_str part, uint32_t **cps,
                           size_t *cap, struct dgl_buf *out)
{
    bool compatible = form == TOK_NFKC || form == TOK_NFKD;
    size_t count = 0;
    for (size_t i = 0; i < part.len;) {
        uint32_t cp, parts[MAX_DECOMPOSITION];
        i += dgl_utf8_decode(part.p + i, part.len - i, &cp);
        size_t len = decompose_one(cp, compatible, parts);
        /* Twice the room: the other half is for sorting. */
        if (!dgl_grow((void **)cps, cap, 2 * (count + len), sizeof(**cps)))
            return false;
        for (size_t j = 0; j < len; j++)
            (*cps)[count++] = with_class(parts[j]);
    }
    order_marks(*cps, count, *cps + count);
    if (form == TOK_NFC || form == TOK_NFKC)
        count = compose(*cps, count);
    for (size_t i = 0; i < count; i++) {
        char bytes[4];
        dgl_buf_append(out, bytes, dgl_utf8_encode((*cps)[i] & CP_MASK, bytes));
    }
    return !out->failed;
}

/* Marks of out[done..], which was made of text[first, end). The character in front, up to `head`,
 * has its own mark unless it was composed with something. */
static void mark_part(struct tok_marked text, size_t first, size_t head, size_t end,
                      const struct dgl_buf *out, size_t done, struct dgl_buf *marks)
{
    size_t kept = head - first, made = out->len - done;
    if (kept > 0 && kept <= made && memcmp(out->p + done, text.text.p + first, kept) == 0) {
        tok_marked_merge(text, first, head, kept, marks);
        made -= kept;
        first = head;
    }
    tok_marked_merge(text, first, end, made, marks);
}

bool tok_normal_form(enum tok_normal_form form, struct tok_marked marked, uint32_t **cps,
                     size_t *cap, struct dgl_buf *out, struct dgl_buf *marks)
{
    struct dgl_str text = marked.text;
    uint32_t limit = inert_below(form);
    size_t start = 0, i = 0; /* [start, i): inert so far */
    while (i < text.len) {
        uint32_t cp;
        size_t step = dgl_utf8_decode(text.p + i, text.len - i, &cp);
        if (cp < limit) {
            i += step;
            continue;
        }
        /* The stretch begins with the code point before, which may take part in a composition. */
        size_t first = i, head = i;
        while (first > start && ((unsigned char)text.p[--first] & 0xC0) == 0x80)
            ;
        while (i < text.len) {
            step = dgl_utf8_decode(text.p + i, text.len - i, &cp);
            if (cp < limit)
                break;
            i += step;
        }
        tok_marked_copy(marked, start, first, out, marks);
        size_t done = out->len;
        if (!normalize_part(form, (struct dgl_str){text.p + first, i - first}, cps, cap, out))
            return false;
        if (marked.marks)
            mark_part(marked, first, head, i, out, done, marks);
        start = i;
    }
    tok_marked_copy(marked, start, text.len, out, marks);
    return !out->failed && (!marked.marks || !marks->failed);
}
