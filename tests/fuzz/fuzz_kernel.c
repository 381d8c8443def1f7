/* Parses kernel files, libs, hints and expressions. Input: parts, each followed by a NUL byte: a
 * kernel file, a lib, hints as JSON, GLSL whose macros are expanded, an expression, hints of a
 * tuner. */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/format/kernel_format.h"
#include "kernels/kernels.h"

/* Evaluating a parsed expression returns a value or an error text for any numbers. */
static void fuzz_expr(struct dgl_str text)
{
    static const struct kernel_var vars[] = {
        {"A", 0}, {"B", INT64_MAX}, {"C", INT64_MIN}, {"N", 7}};
    struct dgl_arena arena = {0};
    const struct kernel_expr *expr = NULL;
    const char *error = NULL, *bad = NULL;
    const struct dgl_str whole = text;
    int64_t value = 0, again = 0;
    if (kernel_expr_parse(&arena, &text, &expr, &error)) {
        FUZZ_CHECK(expr && text.len < whole.len);
        bool ok = kernel_expr_eval(expr, vars, 4, &value, &bad);
        FUZZ_CHECK(ok || bad);
        FUZZ_CHECK(kernel_expr_eval(expr, vars, 4, &again, &bad) == ok && (!ok || value == again));
    } else {
        FUZZ_CHECK(error || whole.len > 0);
    }
    FUZZ_CHECK(text.p >= whole.p && text.p + text.len == whole.p + whole.len);
    dgl_arena_finish(&arena);
}

/* Applies hints to the built-in kernels. After accepted hints, each tunable of a kernel has one of
 * its values, or the kernel is refused. Hints of the tuner's layer never cause a refusal. */
static void fuzz_choice(const char *above, const char *below)
{
    static const struct kernel_var device[] = {{"SUBGROUP_SIZE", 32},
                                               {"SHARED_BYTES", 49152},
                                               {"MAX_INVOCATIONS", 1024},
                                               {"MAX_LOCAL_X", 1024},
                                               {"MAX_LOCAL_Y", 1024},
                                               {"MAX_LOCAL_Z", 64},
                                               {"MAX_SSBO", 16},
                                               {"COMPUTE_UNITS", 132},
                                               {"HAS_GL_KHR_shader_subgroup_basic", 1},
                                               {"HAS_GL_KHR_shader_subgroup_arithmetic", 1}};
    static const struct kernel_request requests[] = {
        {"matmul",
         {{"phase", "decode"}, {"weight", "q4_k"}, {"pre", "none"}, {"post", "store"}},
         4,
         {{"K", 2048}, {"N", 2048}, {"X_STRIDE", 2048}, {"Y_STRIDE", 2048}, {"W_STRIDE", 288}},
         5},
        {"norm", {{"post", "store"}}, 1, {{"H", 2048}, {"X_STRIDE", 2048}, {"Y_STRIDE", 2048}}, 3},
    };
    static struct kernel_set *builtin;
    struct kernel_set *middle = NULL, *set = NULL;
    struct fuzz_log log;
    fuzz_log_init(&log);
    if (!builtin)
        FUZZ_CHECK(kernel_set_create(NULL, NULL, &builtin) == DGL_OK);
    enum dgl_status status =
        kernel_set_with_hints(&log.log, builtin, KERNEL_LAYER_TUNER, "tuner", below, &middle);
    fuzz_check_status(&log, status);
    if (status != DGL_OK)
        middle = kernel_set_ref(builtin); /* the hints are not JSON */
    status = kernel_set_with_hints(&log.log, middle, KERNEL_LAYER_HINTS, "H", above, &set);
    fuzz_check_status(&log, status);
    FUZZ_CHECK((status == DGL_OK) == (set != NULL));
    for (size_t i = 0; i < 2; i++) {
        struct kernel_choice choice;
        /* Only hints of the user's layer can cause a refusal. */
        status = kernel_choose(&log.log, middle, &requests[i], device, 10, &choice);
        fuzz_check_status(&log, status);
        FUZZ_CHECK(status == DGL_OK);
        if (!set)
            continue;
        status = kernel_choose(&log.log, set, &requests[i], device, 10, &choice);
        fuzz_check_status(&log, status);
        for (uint32_t t = 0; status == DGL_OK && t < choice.num_tunes; t++) {
            const struct kernel_tune *tune = &choice.kernel->tunes[t];
            bool known = false;
            for (uint32_t c = 0; c < tune->num_choices; c++)
                known |= tune->choices[c] == choice.vars[choice.num_consts + t].value;
            FUZZ_CHECK(known);
        }
    }
    kernel_set_destroy(&set);
    kernel_set_destroy(&middle);
}

/* The parser keeps pointers into its text, which must end in NUL. */
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
    struct dgl_str expr = fuzz_section(&input), tuned = fuzz_section(&input);
    const struct kernel_lib head = {.name = "l", .path = "l.glsl"};
    struct dgl_arena arena = {0};
    struct kernel *kernel = NULL;
    struct kernel_lib *lib = NULL;
    struct fuzz_log log;
    char *text = copy_of(file), *lib_text = copy_of(lib_file), *hints = copy_of(json);
    char *below = copy_of(tuned);
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
    fuzz_expr(expr);
    if (json.len || tuned.len)
        fuzz_choice(hints, below);
    free(text);
    free(below);
    free(lib_text);
    free(hints);
    dgl_arena_finish(&arena);
}
