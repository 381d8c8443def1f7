/* Files of a kernel's program, and hashes of its texts. */
#include "kernels/kernels.h"

#include <string.h>

#include "core/base/hash.h"
#include "kernels/format/kernel_format.h"
#include "kernels/format/kernel_lexer.h"

bool kernel_splices(const struct kernel *kernel, const struct kernel_lib *lib)
{
    for (uint32_t r = 0; r < kernel->num_libs; r++) {
        const struct dgl_str key = kernel_lib_key(kernel->libs[r].name);
        struct dgl_str words = DGL_STR("none"), word;
        for (uint32_t i = 0; i < kernel->num_when; i++)
            if (dgl_str_eq(key, kernel->when[i].key))
                words = dgl_str_of(kernel->when[i].words);
        while (kernel_word_next(&words, &word)) {
            char name[96], other[96];
            kernel_lib_name(kernel->libs[r].name, word, name);
            kernel_lib_name(kernel->libs[r].other, word, other);
            if (strcmp(name, lib->name) == 0 || strcmp(other, lib->name) == 0)
                return true;
        }
    }
    return false;
}

bool kernel_set_splices(const struct kernel_set *set, const struct kernel_lib *lib)
{
    bool splices = strcmp(lib->name, KERNEL_BARRIER_LIB) == 0;
    for (size_t i = 0; i < kernel_set_count(set) && !splices; i++)
        splices = kernel_splices(kernel_set_at(set, i), lib);
    return splices;
}

void kernel_choice_origin(const struct kernel_choice *choice, struct dgl_buf *out)
{
    const struct kernel *kernel = choice->kernel;
    const size_t start = out->len;
    if (kernel->source != 0)
        dgl_buf_puts(out, kernel->origin);
    for (uint32_t i = 0; i < kernel->num_libs; i++)
        if (choice->libs[i]->source != 0)
            dgl_buf_printf(out, "%s%s", out->len > start ? " + " : "", choice->libs[i]->path);
    if (out->len == start)
        dgl_buf_puts(out, "builtin");
}

bool kernel_choice_sha256(const struct kernel_choice *choice, char out[65])
{
    const struct kernel *kernel = choice->kernel;
    struct dgl_hash *hash = dgl_hash_create(DGL_HASH_SHA256);
    if (!hash)
        return false;
    kernel_hash_text(hash, kernel->text, kernel->text_len);
    for (uint32_t i = 0; i < kernel->num_libs; i++)
        kernel_hash_text(hash, choice->libs[i]->text, choice->libs[i]->text_len);
    bool ok = dgl_hash_hex(hash, out);
    dgl_hash_destroy(&hash);
    return ok;
}

bool kernel_source_sha256(struct dgl_str source, char out[65])
{
    struct kernel_lexer lexer;
    struct kernel_token token, before = {.kind = TOKEN_NEWLINE};
    struct dgl_hash *hash = dgl_hash_create(DGL_HASH_SHA256);
    bool ok = kernel_lexer_init(&lexer, source, 1) && hash;
    for (; ok && (token = kernel_lexer_next(&lexer)).kind != TOKEN_END; before = token) {
        const bool line_start = before.kind == TOKEN_NEWLINE;
        struct kernel_lexer ahead = lexer;
        if (line_start && dgl_str_eq(token.text, "#") &&
            dgl_str_eq(kernel_lexer_next(&ahead).text, "line")) {
            while (token.kind != TOKEN_NEWLINE && token.kind != TOKEN_END)
                token = kernel_lexer_next(&lexer);
            continue;
        }
        if (line_start && token.kind == TOKEN_NEWLINE)
            continue;
        /* `#define F(x)` and `#define F (x)` differ. */
        if (!line_start && token.kind != TOKEN_NEWLINE &&
            token.text.p > before.text.p + before.text.len)
            dgl_hash_update(hash, " ", 1);
        dgl_hash_update(hash, token.text.p, token.text.len);
    }
    ok = ok && dgl_hash_hex(hash, out);
    kernel_lexer_finish(&lexer);
    dgl_hash_destroy(&hash);
    return ok;
}
