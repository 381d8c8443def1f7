/* The built-in norm_rms with two more tunables. */
#include "tests/support/worst_norm.h"

#include "tests/support/kernel_sets.h"
#include "tests/support/test.h"

void worst_norm_write(const char *dir, const char *name, const char *remark)
{
    struct kernel_set *set = loaded_set(NULL);
    struct dgl_buf text = {0};
    const struct kernel *norm = kernel_set_find(set, "norm_rms");
    static const char factor[] = "    float r = inversesqrt(sum / float(H) + eps);\n";
    const char *tune = strstr(norm->text, "//! LOCAL"), *at = strstr(norm->text, factor);
    assert_non_null(tune);
    assert_non_null(at);
    dgl_buf_printf(&text, "// A slow norm.\n%s%.*s", remark, (int)(tune - norm->text), norm->text);
    dgl_buf_puts(&text, "//! TUNE SPIN = 4096 in 0 4096\n//! TUNE HALF = 0 in 0 1\n");
    dgl_buf_append(&text, tune, (size_t)(at - tune));
    dgl_buf_puts(&text, factor);
    dgl_buf_puts(&text, "    uint spin = floatBitsToUint(sum);\n"
                        "    for (int n = 0; n < SPIN; n++)\n"
                        "        spin = spin * 1664525u + (spin >> 7);\n"
                        "    r = spin == 1u ? r * 1.0000001 : r;\n"
                        "#if HALF\n"
                        "    r *= 0.5;\n"
                        "#endif\n");
    dgl_buf_puts(&text, at + strlen(factor));
    assert_false(text.failed);
    test_write_file(dir, name, text.p, text.len);
    dgl_buf_finish(&text);
    kernel_set_destroy(&set);
}
