/* dgl_verify_smoke(): a fixed prompt whose answer shows at a glance whether weights, kernels and
 * driver agree. */
#include <stdio.h>
#include <string.h>

#include "core/seq/session.h"

#define SMOKE_PROMPT "The color of the sky is"
#define SMOKE_TOKENS 16
/* A broken run repeats itself or speaks in unused tokens. */
#define MIN_DISTINCT 4

static size_t distinct(const int32_t *ids, size_t count)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        bool seen = false;
        for (size_t j = 0; j < i && !seen; j++)
            seen = ids[j] == ids[i];
        n += !seen;
    }
    return n;
}

/* At least two thirds letters, digits, blanks or bytes of longer characters. */
static bool reads_like_text(const char *text, size_t len)
{
    size_t good = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        good += c == ' ' || c == '\n' || c >= 0x80 || (c >= '0' && c <= '9') ||
                ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
    }
    return len > 0 && good * 3 >= len * 2;
}

enum dgl_status dgl_verify_smoke(struct dgl_session *session, bool *passed, char *text,
                                 size_t text_size)
{
    struct dgl_generate_result r;
    *passed = false;
    if (text_size)
        text[0] = '\0';
    enum dgl_status status = dgl_generate(
        session, dgl_generate_params(.prompt = SMOKE_PROMPT, .max_tokens = SMOKE_TOKENS), &r);
    if (status == DGL_OK) {
        size_t want = r.num_tokens < MIN_DISTINCT ? r.num_tokens : MIN_DISTINCT;
        *passed = r.num_tokens > 0 && reads_like_text(r.text, r.text_len) &&
                  distinct(r.tokens, r.num_tokens) >= want;
        if (text_size)
            snprintf(text, text_size, "%s", r.text);
    }
    dgl_generate_result_finish(&r);
    return status;
}
