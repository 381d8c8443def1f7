/* Escapes characters that a terminal would act upon. */
#include "core/base/printable.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/utf8.h"

/* "\u{10ffff}" and its NUL */
enum { SPELLED_BYTES = 12 };

/* Returns true for code points that are invisible and change other text: C1 controls, zero-width
 * and direction marks, line separators, tags. */
static bool steers(uint32_t cp)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {{0x80, 0x9F},     {0x200B, 0x200F}, {0x2028, 0x202E},  {0x2060, 0x206F},
                  {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFB}, {0xE0000, 0xE007F}};
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        if (cp >= ranges[i].first && cp <= ranges[i].last)
            return true;
    }
    return false;
}

/* Escapes the first character. Returns its length in `text` in bytes. */
static size_t spell(struct dgl_str text, char out[SPELLED_BYTES])
{
    unsigned char first = (unsigned char)text.p[0];
    size_t most = text.len < 4 ? text.len : 4, n = 1;
    uint32_t cp;
    while (n < most && ((unsigned char)text.p[n] & 0xC0) == 0x80)
        n++;
    if ((first < 0x20 && first != '\t') || first == 0x7F || dgl_utf8_valid_prefix(text.p, n) == 0) {
        snprintf(out, SPELLED_BYTES, "\\x%02x", first);
        return 1;
    }
    n = dgl_utf8_decode(text.p, n, &cp);
    if (steers(cp)) {
        snprintf(out, SPELLED_BYTES, "\\u{%" PRIx32 "}", cp);
    } else {
        memcpy(out, text.p, n);
        out[n] = 0;
    }
    return n;
}

struct dgl_printable dgl_printable(struct dgl_str text)
{
    struct dgl_printable shown = {{0}};
    char spelled[SPELLED_BYTES];
    size_t len = 0;
    while (text.len > 0) {
        size_t n = spell(text, spelled), more = strlen(spelled);
        if (len + more > DGL_PRINTABLE_BYTES) {
            memcpy(shown.text + len, "...", sizeof("..."));
            break;
        }
        memcpy(shown.text + len, spelled, more);
        len += more;
        text.p += n;
        text.len -= n;
    }
    return shown;
}

void dgl_buf_visible(struct dgl_buf *out, struct dgl_str text)
{
    char spelled[SPELLED_BYTES];
    while (text.len > 0) {
        size_t n = spell(text, spelled);
        dgl_buf_puts(out, spelled);
        text.p += n;
        text.len -= n;
    }
}
