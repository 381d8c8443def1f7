/* Writes the complete GLSL ES 3.10 text of a chosen kernel: everything that its directives declare,
 * its chunks, its body and main(). */
#include "kernels/kernel_private.h"

#include <string.h>

#include "kernels/step.h"

/* Line l of chunk n is numbered n * CHUNK_LINES + l: Mesa ignores the source string number of #line
 * in its messages. */
#define CHUNK_LINES 10000u

static void put_defines(const struct kernel_choice *choice, struct dgl_buf *out)
{
    static const char axes[] = "XYZ";
    const struct kernel *kernel = choice->kernel;
    for (uint32_t i = 0; i < choice->num_consts + choice->num_tunes; i++) {
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

static void put_buffers(const struct kernel *kernel, struct dgl_buf *out)
{
    static const char *const access[] = {"", "readonly ", "writeonly ", ""};
    for (uint32_t i = 0; i < kernel->num_binds; i++) {
        const struct kernel_bind *bind = &kernel->binds[i];
        dgl_buf_printf(out, "layout(std430, binding = %u) %sbuffer Bind_%s { %s %s[]; };\n", i,
                       access[bind->access], bind->name, bind->type, bind->name);
    }
}

static void put_params(const struct kernel *kernel, struct dgl_buf *out)
{
    static const char *const types[] = {"uint", "int", "float"};
    if (kernel->num_params == 0)
        return;
    dgl_buf_puts(out, "layout(std140, binding = 0) uniform Params {\n");
    for (uint32_t i = 0; i < kernel->num_params; i++)
        dgl_buf_printf(out, "    %s %s;\n", types[kernel->params[i].type], kernel->params[i].name);
    dgl_buf_puts(out, "};\n");
}

static void put_step(const struct kernel *kernel, struct dgl_buf *out)
{
    if (kernel->uses_step) {
        dgl_buf_puts(out, "layout(std140, binding = 1) uniform Step {\n");
#define X(glsl, c, name) dgl_buf_puts(out, "    " #glsl " step_" #name ";\n");
        DGL_STEP_FIELDS(X)
#undef X
        dgl_buf_puts(out, "};\n");
    }
    if (kernel->writes_step) {
        unsigned index = 0;
#define X(glsl, c, name) dgl_buf_printf(out, "#define STEP_" #name " %uu\n", index++);
        DGL_STEP_FIELDS(X)
#undef X
    }
}

/* The chunk's name with "{key}" replaced. */
static void expand_chunk(const struct kernel_request *request, const char *name,
                         struct dgl_buf *out)
{
    const char *open = strchr(name, '{'), *close = strchr(name, '}');
    if (!open || !close) {
        dgl_buf_puts(out, name);
        return;
    }
    char key[32] = "";
    memcpy(key, open + 1, (size_t)(close - open - 1));
    dgl_buf_printf(out, "%.*s%s%s", (int)(open - name), name, kernel_request_word(request, key),
                   close + 1);
}

static enum dgl_status put_chunks(const struct dgl_log *log, const struct kernel_set *set,
                                  const struct kernel_request *request, const struct kernel *kernel,
                                  struct dgl_buf *out)
{
    struct dgl_buf name = {0};
    enum dgl_status status = DGL_OK;
    for (uint32_t i = 0; i < kernel->num_chunks && status == DGL_OK; i++) {
        name.len = 0;
        expand_chunk(request, kernel->chunks[i].name, &name);
        const char *text = name.failed ? NULL : kernel_set_chunk(set, name.p);
        if (name.failed) {
            status = dgl_fail_memory(log, "a chunk's name", name.len);
        } else if (!text) {
            status = dgl_fail(log, DGL_ERR_KERNEL, "kernel %s: there is no chunk %s (%s)",
                              kernel->name, name.p, kernel->origin);
        } else {
            dgl_buf_printf(out, "#line %u\n%s\n", CHUNK_LINES * (i + 1) + 1, text);
        }
    }
    dgl_buf_finish(&name);
    return status;
}

/* In ES 3.10 `#line N` numbers the line after it N, unlike desktop GLSL before 3.30. */
static void put_body(const struct kernel *kernel, struct dgl_buf *out)
{
    dgl_buf_printf(out, "#line %u\n", kernel->body_line);
    dgl_buf_append(out, kernel->body, kernel->text_len - (size_t)(kernel->body - kernel->text));
    /* More groups than one dimension of the grid holds are folded into z: kernel_groups_band(). */
    dgl_buf_puts(out, "\nvoid main()\n"
                      "{\n"
                      "    body(uvec3(gl_WorkGroupID.x + gl_WorkGroupID.z * gl_NumWorkGroups.x, "
                      "gl_WorkGroupID.y, 0u));\n"
                      "}\n");
}

enum dgl_status kernel_generate(const struct dgl_log *log, const struct kernel_set *set,
                                const struct kernel_request *request,
                                const struct kernel_choice *choice, struct dgl_buf *out)
{
    const struct kernel *kernel = choice->kernel;
    dgl_buf_puts(out, "#version 310 es\n");
    for (uint32_t i = 0; i < kernel->num_extensions; i++)
        dgl_buf_printf(out, "#extension %s : require\n", kernel->extensions[i]);
    dgl_buf_puts(out, "precision highp float;\nprecision highp int;\n");
    put_defines(choice, out);
    dgl_buf_printf(
        out, "layout(local_size_x = %lld, local_size_y = %lld, local_size_z = %lld) in;\n",
        (long long)choice->local[0], (long long)choice->local[1], (long long)choice->local[2]);
    put_buffers(kernel, out);
    put_params(kernel, out);
    put_step(kernel, out);
    enum dgl_status status = put_chunks(log, set, request, kernel, out);
    if (status != DGL_OK)
        return status;
    put_body(kernel, out);
    return out->failed ? dgl_fail_memory(log, "generated GLSL", out->len) : DGL_OK;
}
