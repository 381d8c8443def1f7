/* Printable Latin-1 bytes are their own characters. The other 68 are the characters from U+0100 on,
 * in order. */
#include "loader/tokenizer/tok_bytes.h"

#include "core/base/utf8.h"

#define MOVED_BASE 0x100u

static bool is_itself(unsigned byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

static uint32_t character_of(unsigned byte)
{
    if (is_itself(byte))
        return byte;
    if (byte <= ' ')
        return MOVED_BASE + byte;
    if (byte < 0xA1)
        return MOVED_BASE + 33 + (byte - 0x7F);
    return MOVED_BASE + 67; /* 0xAD */
}

/* Returns -1 if the character is not in the alphabet. */
static int byte_of(uint32_t cp)
{
    if (cp < MOVED_BASE)
        return is_itself(cp) ? (int)cp : -1;
    uint32_t moved = cp - MOVED_BASE;
    if (moved < 33)
        return (int)moved;
    if (moved < 67)
        return (int)(0x7F + (moved - 33));
    return moved == 67 ? 0xAD : -1;
}

void tok_bytes_append_mapped(struct dgl_buf *out, struct dgl_str text)
{
    char chunk[512];
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (len + 4 > sizeof(chunk)) {
            dgl_buf_append(out, chunk, len);
            len = 0;
        }
        len += dgl_utf8_encode(character_of((unsigned char)text.p[i]), chunk + len);
    }
    dgl_buf_append(out, chunk, len);
}

bool tok_bytes_append_unmapped(struct dgl_buf *out, struct dgl_str text)
{
    size_t before = out->len;
    for (size_t i = 0; i < text.len;) {
        uint32_t cp;
        i += dgl_utf8_decode(text.p + i, text.len - i, &cp);
        int byte = byte_of(cp);
        if (byte < 0) {
            out->len = before;
            return false;
        }
        dgl_buf_putc(out, (char)byte);
    }
    return true;
}
