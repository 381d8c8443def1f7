/* The page at `/`: tools/web/chat.html, unchanged. Its Content-Security-Policy allows only the
 * page's own style and script, and only requests to its own server. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "tools/serve/serve.h"

extern const unsigned char chat_page[]; /* made by tools/embed.sh */
extern const size_t chat_page_len;

/* Appends "NAME-src 'sha256-...'; ", with the hash of the text between the tags. The page has one
 * such block. */
static bool allow_block(struct dgl_buf *policy, const char *name, const char *open,
                        const char *close)
{
    const char *page = (const char *)chat_page, *text = strstr(page, open), *end;
    unsigned char digest[32];
    char hex[65];
    assert(text);
    text += strlen(open);
    end = strstr(text, close);
    assert(end && !strstr(text, open));
    if (!dgl_hash_bytes(DGL_HASH_SHA256, text, (size_t)(end - text), hex))
        return false;
    for (size_t i = 0; i < sizeof(digest); i++)
        digest[i] = (unsigned char)(dgl_hex_value(hex[2 * i]) << 4 | dgl_hex_value(hex[2 * i + 1]));
    dgl_buf_printf(policy, "%s-src 'sha256-", name);
    dgl_buf_base64(policy, digest, sizeof(digest));
    dgl_buf_puts(policy, "'; ");
    return true;
}

bool serve_page_open(struct serve *s)
{
    struct dgl_buf policy = {0};
    dgl_buf_puts(&policy, "default-src 'none'; ");
    bool ok = allow_block(&policy, "style", "<style>", "</style>") &&
              allow_block(&policy, "script", "<script>", "</script>");
    dgl_buf_puts(&policy, "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
                          "frame-ancestors 'none'; require-trusted-types-for 'script'; "
                          "trusted-types 'none'");
    s->page_policy = ok ? dgl_buf_take(&policy) : NULL;
    dgl_buf_finish(&policy);
    if (!s->page_policy)
        console_error("serve: the page cannot be hashed");
    return s->page_policy != NULL;
}

void serve_page_close(struct serve *s)
{
    free(s->page_policy);
    s->page_policy = NULL;
}

void serve_page_answer(struct serve_exchange *ex)
{
    ex->content_type = "text/html; charset=utf-8";
    ex->policy = ex->server->page_policy;
    dgl_buf_append(&ex->out, chat_page, chat_page_len);
    serve_exchange_answer(ex, 200);
}
