/* UTF-8 validation, encoding and repair. */
#include "core/base/utf8.h"

/* For each lead byte (Unicode 15, table 3-7): length of the character, and range of the second
 * byte. Length 0 means that the byte is not a lead byte. */
struct lead {
    uint8_t len, second_min, second_max;
};

static struct lead lead_of(unsigned char c)
{
    if (c < 0x80)
        return (struct lead){1, 0, 0};
    if (c < 0xC2)
        return (struct lead){0, 0, 0};
    if (c < 0xE0)
        return (struct lead){2, 0x80, 0xBF};
    if (c < 0xF0)
        return (struct lead){3, c == 0xE0 ? 0xA0 : 0x80, c == 0xED ? 0x9F : 0xBF};
    if (c < 0xF5)
        return (struct lead){4, c == 0xF0 ? 0x90 : 0x80, c == 0xF4 ? 0x8F : 0xBF};
    return (struct lead){0, 0, 0};
}

/* Returns the number of bytes at the start of `text` that are a character or the start of one.
 * *want is the length of that character, or 0 if the first byte is invalid. */
static size_t character_part(const unsigned char *text, size_t len, size_t *want)
{
    struct lead lead = lead_of(text[0]);
    *want = lead.len;
    if (lead.len == 0)
        return 0;
    size_t i = 1;
    if (i < lead.len && i < len && text[i] >= lead.second_min && text[i] <= lead.second_max)
        i++;
    else
        return i;
    while (i < lead.len && i < len && (text[i] & 0xC0) == 0x80)
        i++;
    return i;
}

size_t dgl_utf8_valid_prefix(const char *text, size_t len)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t i = 0;
    while (i < len) {
        if (p[i] < 0x80) {
            i++;
            continue;
        }
        size_t want, got = character_part(p + i, len - i, &want);
        if (want == 0 || got < want)
            return i;
        i += got;
    }
    return len;
}

size_t dgl_utf8_decode(const char *text, size_t len, uint32_t *cp)
{
    const unsigned char *p = (const unsigned char *)text;
    if (len >= 2 && p[0] >= 0xC0 && p[0] < 0xE0) {
        *cp = (uint32_t)(p[0] & 0x1F) << 6 | (p[1] & 0x3F);
        return 2;
    }
    if (len >= 3 && p[0] >= 0xE0 && p[0] < 0xF0) {
        *cp = (uint32_t)(p[0] & 0x0F) << 12 | (uint32_t)(p[1] & 0x3F) << 6 | (p[2] & 0x3F);
        return 3;
    }
    if (len >= 4 && p[0] >= 0xF0) {
        *cp = (uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3F) << 12 |
              (uint32_t)(p[2] & 0x3F) << 6 | (p[3] & 0x3F);
        return 4;
    }
    *cp = p[0];
    return 1;
}

size_t dgl_utf8_encode(uint32_t cp, char out[4])
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xC0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3F));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xE0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3F));
        out[2] = (char)(0x80 | (cp & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3F));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3F));
    out[3] = (char)(0x80 | (cp & 0x3F));
    return 4;
}

size_t dgl_utf8_incomplete_tail(const char *text, size_t len)
{
    const unsigned char *p = (const unsigned char *)text;
    for (size_t back = 1; back <= 3 && back <= len; back++) {
        const unsigned char *start = p + len - back;
        if ((*start & 0xC0) == 0x80)
            continue; /* a continuation byte; its lead byte is further back */
        size_t want, got = character_part(start, back, &want);
        return got == back && got < want ? back : 0;
    }
    return 0;
}

void dgl_utf8_append_lossy(struct dgl_buf *out, const char *text, size_t len)
{
    while (len) {
        size_t good = dgl_utf8_valid_prefix(text, len);
        dgl_buf_append(out, text, good);
        text += good;
        len -= good;
        if (len == 0)
            return;
        size_t want, bad = character_part((const unsigned char *)text, len, &want);
        if (bad == 0)
            bad = 1;
        dgl_buf_puts(out, "\xEF\xBF\xBD");
        text += bad;
        len -= bad;
    }
}
