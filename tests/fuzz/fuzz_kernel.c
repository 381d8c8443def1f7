/* Kernel files, libs and hints. Input: parts with a NUL byte after each: a kernel file, a lib,
 * hints as JSON, GLSL whose macros are expanded. */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/format/kernel_format.h"

/* The parser keeps pointers into a text that ends in NUL. */
static char *copy_of(struct dgl_str part)
{
    char *text = calloc(part.len + 1, 1);
    FUZZ_CHECK(text);
    if (part.len)
        memcpy(text, part.p, part.len);
    return text;
}

void fuzz_one(struct dgl_str input)
{
    struct dgl_str file = fuzz_section(&input), lib_file = fuzz_section(&input);
    struct dgl_str json = fuzz_section(&input), glsl = fuzz_section(&input);
    const struct kernel_lib head = {.name = "l", .path = "l.glsl"};
    struct dgl_arena arena = {0};
    struct kernel *kernel = NULL;
    struct kernel_lib *lib = NULL;
    struct fuzz_log log;
    char *text = copy_of(file), *lib_text = copy_of(lib_file), *hints = copy_of(json);
    fuzz_log_init(&log);
    enum dgl_status status = kernel_parse(&log.log, &arena, "k.comp", text, file.len, &kernel);
    fuzz_check_status(&log, status);
    FUZZ_CHECK((status == DGL_OK) == (kernel != NULL));
    status = kernel_lib_parse(&log.log, &arena, &head, lib_text, lib_file.len, &lib);
    fuzz_check_status(&log, status);
    FUZZ_CHECK((status == DGL_OK) == (lib != NULL));
    if (kernel && lib)
        fuzz_check_status(&log, kernel_lib_check(&log.log, kernel, lib));
    fuzz_check_status(&log, kernel_hints_check(&log.log, "H", hints));
    if (kernel)
        fuzz_check_status(&log, kernel_expand_check(&log.log, "k.comp", file));
    fuzz_check_status(&log, kernel_expand_check(&log.log, "k.comp", glsl));
    free(text);
    free(lib_text);
    free(hints);
    dgl_arena_finish(&arena);
}
