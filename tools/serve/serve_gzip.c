/* Bodies of requests that are compressed with gzip. */
#include <zlib.h>

#include "tools/serve/serve.h"

bool serve_gzip_read(struct dgl_buf *body, size_t most, struct serve_error *error)
{
    z_stream z = {.next_in = (unsigned char *)body->p, .avail_in = (uInt)body->len};
    struct dgl_buf out = {0};
    unsigned char part[16384];
    int result = Z_OK;
    /* 16: wants the header and the checksum of gzip. */
    if (inflateInit2(&z, 16 + MAX_WBITS) != Z_OK)
        return serve_refuse(error, 500, NULL, "out of memory for the body");
    while (out.len <= most && !out.failed && (result == Z_OK || z.avail_in > 0)) {
        if (result == Z_STREAM_END) /* another member follows */
            inflateReset(&z);
        z.next_out = part;
        z.avail_out = sizeof(part);
        result = inflate(&z, Z_NO_FLUSH);
        if (result != Z_OK && result != Z_STREAM_END)
            break;
        dgl_buf_append(&out, (const char *)part, sizeof(part) - z.avail_out);
    }
    inflateEnd(&z);
    if (out.failed || result == Z_MEM_ERROR)
        serve_refuse(error, 500, NULL, "out of memory for the body");
    else if (out.len > most)
        serve_refuse(error, 413, NULL, "the body has more than the %zu bytes that are taken", most);
    else if (result != Z_STREAM_END)
        serve_refuse(error, 400, NULL, "the body is no gzip: %s",
                     z.msg                   ? z.msg
                     : result == Z_BUF_ERROR ? "it is cut"
                                             : "it is damaged");
    dgl_buf_finish(error->status ? &out : body);
    if (error->status == 0)
        *body = out;
    return error->status == 0;
}
