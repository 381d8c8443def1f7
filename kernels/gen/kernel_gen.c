/* Writes the complete GLSL ES 3.10 text of a chosen kernel: everything that its directives declare,
 * its libs, its body and main(). */
#include <stddef.h>
#include <string.h>

#include "kernels/format/kernel_format.h"
#include "kernels/kernels.h"
#include "kernels/step.h"

static uint32_t count_lines(struct dgl_str text)
{
    uint32_t lines = 1;
    for (size_t i = 0; i < text.len; i++)
        lines += text.p[i] == '\n';
    return lines;
}

uint32_t kernel_line_step(const struct kernel_choice *choice)
{
    const struct kernel *kernel = choice->kernel;
    uint32_t most = count_lines((struct dgl_str){kernel->text, kernel->text_len}),
             step = KERNEL_LIB_LINES;
    for (uint32_t i = 0; i < kernel->num_libs; i++) {
        const struct kernel_lib *lib = choice->libs[i];
        uint32_t lines = lib->body_line + count_lines((struct dgl_str){lib->body, lib->body_len});
        most = lines > most ? lines : most;
    }
    while (step <= most && step < 10000000)
        step *= 10;
    return step;
}

static void put_defines(const struct kernel_choice *choice, struct dgl_buf *out)
{
    static const char axes[] = "XYZ";
    const struct kernel *kernel = choice->kernel;
    for (uint32_t i = 0; i < choice->num_consts + choice->num_tunes + choice->num_lets; i++) {
        const struct kernel_var *var = &choice->vars[i];
        if (var->value < 0)
            dgl_buf_printf(out, "#define %s (%lld)\n", var->name, (long long)var->value);
        else
            dgl_buf_printf(out, "#define %s %lld\n", var->name, (long long)var->value);
    }
    for (uint32_t i = 0; i < kernel->num_flags; i++)
        for (uint32_t v = 0; v < choice->num_vars; v++)
            if (strcmp(choice->vars[v].name, kernel->flags[i].name) == 0)
                dgl_buf_printf(out, "#define %s %d\n", kernel->flags[i].name,
                               choice->vars[v].value != 0);
    for (int i = 0; i < 3; i++)
        dgl_buf_printf(out, "#define LOCAL_%c %lld\n", axes[i], (long long)choice->local[i]);
}

void kernel_put_pages(struct dgl_buf *out)
{
    dgl_buf_printf(out,
                   "#define KV_PAGE %d\n"
                   "layout(std140, binding = 2) uniform Pages { uvec4 pages[%zu]; };\n"
                   "uint kv_page(uint i)\n"
                   "{\n"
                   "    return pages[i >> 3][i >> 1 & 3u] >> (i & 1u) * 16u & 0xffffu;\n"
                   "}\n",
                   DGL_KV_PAGE, sizeof(struct dgl_kv_table) / 16);
}

/* Writes short names for the state of the sequence of row `step_row`. It is row 0, unless a kernel
 * sets its row. */
static void put_step(const struct kernel *kernel, struct dgl_buf *out)
{
    if (kernel->uses_step || kernel->writes_step)
        dgl_buf_puts(out, "uint step_row = 0u;\n");
    if (kernel->uses_step) {
        dgl_buf_puts(out, "struct Step {\n");
#define X(glsl, c, name) dgl_buf_puts(out, "    " #glsl " " #name ";\n");
        DGL_STEP_FIELDS(X)
#undef X
        dgl_buf_printf(out,
                       "};\n"
                       "layout(std140, binding = 1) uniform Steps {\n"
                       "    uint pass_rows;\n"
                       "    uint pass_seqs;\n"
                       "    uint pass_ids_stride;\n"
                       "    uint pass_adjust_stride;\n"
                       "    Step step_table[%d];\n"
                       "    uvec4 pass_row[%d];\n"
                       "};\n"
                       "uint row_seq(uint t) { return pass_row[t >> 2][t & 3u] & 0xffffu; }\n"
                       "uint row_pos(uint t) { return step_table[row_seq(t)].pos + "
                       "(pass_row[t >> 2][t & 3u] >> 16); }\n"
                       "uint row_ids(uint t) { return row_seq(t) * pass_ids_stride; }\n"
                       "uint row_adjust(uint t) { return row_seq(t) * pass_adjust_stride; }\n",
                       DGL_STEP_SEQS, DGL_STEP_ROWS / 4);
#define X(glsl, c, name)                                                                           \
    dgl_buf_puts(out, "#define step_" #name " step_table[row_seq(step_row)]." #name "\n");
        DGL_STEP_FIELDS(X)
#undef X
    }
    if (kernel->uses_pages)
        kernel_put_pages(out);
    if (kernel->writes_step) {
        unsigned index = offsetof(struct dgl_step_table, seq) / 4;
        if (kernel->uses_step)
            dgl_buf_puts(out, "uint step_base() { return row_seq(step_row)");
        else
            dgl_buf_printf(out, "uint step_base() { return (STEP[%zuu + step_row] & 0xffffu)",
                           offsetof(struct dgl_step_table, row) / 4);
        dgl_buf_printf(out, " * %zuu; }\n", sizeof(struct dgl_step) / 4);
#define X(glsl, c, name)                                                                           \
    dgl_buf_printf(out, "#define STEP_" #name " (step_base() + %uu)\n", index++);
        DGL_STEP_FIELDS(X)
#undef X
    }
}

/* In ES 3.10 `#line N` numbers the line after it N, unlike desktop GLSL before 3.30. */
enum dgl_status kernel_generate(const struct dgl_log *log, const struct kernel_choice *choice,
                                struct dgl_buf *out)
{
    static const char *const access[] = {"", "readonly ", "writeonly ", ""};
    static const char *const types[] = {"uint", "int", "float"};
    /* More groups than one dimension of the grid holds are folded into z: kernel_groups_band(). */
    static const char group[] =
        "uvec3(gl_WorkGroupID.x + gl_WorkGroupID.z * gl_NumWorkGroups.x, gl_WorkGroupID.y, 0u)";
    const struct kernel *kernel = choice->kernel;
    const uint32_t step = kernel_line_step(choice);
    dgl_buf_puts(out, "#version 310 es\n");
    for (uint32_t i = 0; i < kernel->num_extensions; i++)
        dgl_buf_printf(out, "#extension %s : require\n", kernel->extensions[i]);
    dgl_buf_printf(out, "#line %u\n", step * (kernel->num_libs + 1) + 1);
    dgl_buf_puts(out, "precision highp float;\nprecision highp int;\n");
    put_defines(choice, out);
    dgl_buf_printf(
        out, "layout(local_size_x = %lld, local_size_y = %lld, local_size_z = %lld) in;\n",
        (long long)choice->local[0], (long long)choice->local[1], (long long)choice->local[2]);
    for (uint32_t i = 0; i < kernel->num_binds; i++) {
        const struct kernel_bind *bind = &kernel->binds[i];
        dgl_buf_printf(out, "layout(std430, binding = %u) %s%sbuffer Bind_%s { %s %s[]; };\n", i,
                       bind->coherent ? "coherent " : "", access[bind->access], bind->name,
                       bind->type, bind->name);
    }
    if (kernel->num_params > 0)
        dgl_buf_puts(out, "layout(std140, binding = 0) uniform Params {\n");
    for (uint32_t i = 0; i < kernel->num_params; i++)
        dgl_buf_printf(out, "    %s %s;\n", types[kernel->params[i].type], kernel->params[i].name);
    if (kernel->num_params > 0)
        dgl_buf_puts(out, "};\n");
    put_step(kernel, out);
    for (uint32_t i = 0; i < choice->num_shared; i++) {
        const struct kernel_shared *decl = choice->shared[i].decl;
        dgl_buf_printf(out, "shared %s %s", decl->type, decl->name);
        if (decl->count)
            dgl_buf_printf(out, "[%lld]", (long long)choice->shared[i].count);
        dgl_buf_puts(out, ";\n");
    }
    bool given = kernel->source != 0;
    for (uint32_t i = 0; i < kernel->num_libs; i++) {
        const struct kernel_lib *lib = choice->libs[i];
        dgl_buf_printf(out, "#line %u\n", step * (i + 1) + lib->body_line);
        dgl_buf_append(out, lib->body, lib->body_len);
        dgl_buf_putc(out, '\n');
        given |= lib->source != 0;
    }
    dgl_buf_printf(out, "#line %u\n", kernel->body_line);
    dgl_buf_append(out, kernel->body, kernel->text_len - (size_t)(kernel->body - kernel->text));
    dgl_buf_puts(out, "\nvoid main()\n{\n");
    if (kernel->begins)
        dgl_buf_printf(out, "    begin(%s);\n", group);
    dgl_buf_printf(out, "    body(%s);\n}\n", group);
    if (out->failed)
        return dgl_fail_memory(log, "generated GLSL", out->len);
    if (!given) /* built-in texts are small enough and are not checked */
        return DGL_OK;
    struct dgl_buf path = {0};
    if (kernel->source == 0) {
        kernel_choice_origin(choice, &path);
        dgl_buf_puts(&path, ": at ");
    }
    dgl_buf_puts(&path, kernel->path);
    enum dgl_status status = kernel_expand_check(log, path.failed ? kernel->path : path.p,
                                                 (struct dgl_str){out->p, out->len});
    dgl_buf_finish(&path);
    return status;
}
