/* Small text helpers of this room: words, identifiers, attributes. */
#include "kernels/kernel_private.h"

#include <string.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

bool kernel_word_next(struct dgl_str *rest, struct dgl_str *word)
{
    while (rest->len && is_blank(*rest->p)) {
        rest->p++;
        rest->len--;
    }
    *word = (struct dgl_str){rest->p, 0};
    while (word->len < rest->len && !is_blank(rest->p[word->len]))
        word->len++;
    rest->p += word->len;
    rest->len -= word->len;
    return word->len > 0;
}

bool kernel_word_in(const char *words, const char *word)
{
    struct dgl_str rest = dgl_str_of(words), one;
    while (kernel_word_next(&rest, &one))
        if (dgl_str_eq(one, word))
            return true;
    return false;
}

bool kernel_is_identifier(struct dgl_str word)
{
    for (size_t i = 0; i < word.len; i++) {
        char c = word.p[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!letter && (i == 0 || c < '0' || c > '9'))
            return false;
    }
    return word.len > 0;
}

const char *kernel_request_word(const struct kernel_request *request, const char *key)
{
    for (uint32_t i = 0; i < request->num_attrs; i++)
        if (strcmp(request->attrs[i].key, key) == 0)
            return request->attrs[i].word;
    return "none";
}

void kernel_request_describe(const struct kernel_request *request, struct dgl_buf *out)
{
    dgl_buf_puts(out, request->op);
    for (uint32_t i = 0; i < request->num_attrs; i++)
        dgl_buf_printf(out, " %s=%s", request->attrs[i].key, request->attrs[i].word);
}
