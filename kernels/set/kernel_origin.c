/* Which files a program was made of, and their hash. */
#include "kernels/kernels.h"

#include "core/base/hash.h"
#include "kernels/format/kernel_format.h"

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
