/* Printable Latin-1 bytes are their own characters. The other 68 are the characters from U+0100 on,
 * in order. */
#include "loader/tokenizer/tok_bytes.h"

#include "core/base/utf8.h"

#define MOVED_BASE 0x100u

static bool is_itself(unsigned byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
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
        unsigned byte = (unsigned char)text.p[i];
        uint32_t cp = is_itself(byte) ? byte
                      : byte <= ' '   ? MOVED_BASE + byte
                      : byte < 0xA1   ? MOVED_BASE + 33 + (byte - 0x7F)
                                      : MOVED_BASE + 67; /* 0xAD */
        len += dgl_utf8_encode(cp, chunk + len);
    }
    dgl_buf_append(out, chunk, len);
}

bool tok_bytes_append_unmapped(struct dgl_buf *out, struct dgl_str text)
{
    size_t before = out->len;
    for (size_t i = 0; i < text.len;) {
        uint32_t cp;
        i += dgl_utf8_decode(text.p + i, text.len - i, &cp);
        uint32_t moved = cp - MOVED_BASE;
        if (cp < MOVED_BASE ? !is_itself(cp) : moved > 67) { /* not in the alphabet */
            out->len = before;
            return false;
        }
        dgl_buf_putc(out, (char)(cp < MOVED_BASE ? cp
                                 : moved < 33    ? moved
                                 : moved < 67    ? 0x7F + (moved - 33)
                                                 : 0xAD));
    }
    return true;
}
