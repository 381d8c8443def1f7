/*
 * Writes the GLSL ES 3.10 text of a program of phases: the views of its buffers, the table, one
 * pool of shared memory per type, each kernel's text once (phase_text.c), and main(), which loops
 * over the rows of the table for every token.
 *
 * The loop has one choice among kernels, so that the text contains each kernel, its begin() and the
 * wait between rows only once. NVIDIA's compiler inlines every function, and its time grows with
 * the square of the length of straight code. All invocations run the same kernel, and every load
 * has a binding that is constant for the compiler.
 */
#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "kernels/format/kernel_lexer.h"
#include "kernels/kernels.h"
#include "kernels/phases.h"
#include "kernels/step.h"

/* Types of shared memory. Each has a pool. A vec2 may also use the .xy of a vec4 in that pool. This
 * doubles its bytes, but the vec4 pool is large anyway if matrix products keep x in it. */
static const char *const pool_types[] = {"float", "vec2",  "vec3", "vec4",  "uint",  "uvec2",
                                         "uvec3", "uvec4", "int",  "ivec2", "ivec3", "ivec4"};
#define POOLS (sizeof(pool_types) / sizeof(*pool_types))

/* A variable of file scope that uses share. No value passes from one use to another. */
struct shared_variable {
    struct dgl_str type;
    struct dgl_str own; /* its name in the first use */
    int64_t count;      /* elements of an array, as many as any use needs; 0: no array */
    const char *name;
    uint32_t last; /* number of the last use that has it, plus one */
};

struct generator {
    const struct dgl_log *log;
    const struct phase_program *program;
    struct dgl_buf *out;
    struct dgl_arena arena; /* texts that names refer to */
    int64_t pool[POOLS];    /* size in elements: that of the use that needs most */
    bool wide;              /* vec2s are in the pool of vec4s */
    struct shared_variable *variables;
    size_t num_variables, cap_variables;
    struct phase_names *names; /* of each use */
    char *reason;
    bool failed; /* out of memory */
};

#define REASON_SIZE 256

/* Returns the arena's text, or "" if memory ran out. The caller checks g->failed at the end. */
static const char *kept(struct generator *g, const char *text)
{
    g->failed |= !text;
    return text ? text : "";
}

uint32_t phase_type_bytes(const char *type)
{
    char last = type[strlen(type) - 1];
    return last == '2' ? 8 : last == '3' || last == '4' ? 16 : 4;
}

/* Returns the component type: float, uint or int. */
static char component(const char *type)
{
    return type[0] == 'u' ? 'u' : type[0] == 'i' ? 'i' : 'f';
}

static size_t pool_of(const char *type, bool wide)
{
    size_t i = 0;
    while (i < POOLS && strcmp(pool_types[i], wide && strcmp(type, "vec2") == 0 ? "vec4" : type))
        i++;
    assert(i < POOLS);
    return i;
}

/* Returns the text of a value. Words of the table are uniform, so the compiler may keep them in
 * constant memory. */
static const char *word_text(struct generator *g, const struct phase_value *value, bool is_float)
{
    static const char axes[] = "xyzw";
    const char *f = is_float ? "uintBitsToFloat(" : "(";
    if (value->source == PHASE_LITERAL && is_float) {
        struct dgl_buf text = {0};
        float number;
        memcpy(&number, &value->word, sizeof(number));
        dgl_buf_f32(&text, number);
        bool whole = text.p && !strpbrk(text.p, ".e");
        const char *copy =
            kept(g, dgl_arena_printf(&g->arena, "(%s%s)", text.p, whole ? ".0" : ""));
        dgl_buf_finish(&text);
        return copy;
    }
    if (value->source == PHASE_LITERAL)
        return kept(g, dgl_arena_printf(&g->arena, "%s0x%xu)", f, value->word));
    if (value->source == PHASE_SHARED)
        return kept(g, dgl_arena_printf(&g->arena, "%sphase_shared[%u].%c)", f, value->word / 4,
                                        axes[value->word % 4]));
    uint32_t word = PHASE_ROW_WORDS + value->word;
    return kept(g, dgl_arena_printf(&g->arena, "%sphase_rows[row * %uu + %uu].%c)", f,
                                    g->program->row_words / 4, word / 4, axes[word % 4]));
}

/* ---- declarations ---------------------------------------------------------------------------- */

static bool is_batched(const struct phase_program *p)
{
    return p->columns > 1;
}

static void put_head(struct generator *g)
{
    const struct phase_program *p = g->program;
    struct dgl_buf *out = g->out;
    /* For NVIDIA: the compiler must not unroll, because phase_unroll.c writes loops out. */
    dgl_buf_puts(out, "#version 310 es\n#pragma optionNV(unroll none)\n");
    for (uint32_t u = 0; u < p->num_uses; u++) {
        const struct kernel *kernel = p->uses[u].choice->kernel;
        for (uint32_t i = 0; i < kernel->num_extensions; i++)
            dgl_buf_printf(out, "#extension %s : require\n", kernel->extensions[i]);
    }
    dgl_buf_printf(out,
                   "precision highp float;\nprecision highp int;\n"
                   "layout(local_size_x = %u) in;\n"
                   "layout(std140, binding = 0) uniform PhaseTable {\n"
                   "    uvec4 phase_shared[%u];\n"
                   "    uvec4 phase_rows[%u];\n"
                   "};\n"
                   "layout(std140, binding = 1) uniform PhaseRange {\n"
                   "    uint phase_first, phase_last, %s, phase_spare1;\n"
                   "};\n",
                   p->local, p->shared_words / 4, p->num_rows * p->row_words / 4,
                   is_batched(p) ? "pass_rows" : "phase_spare0");
    for (uint32_t i = 0; i < p->num_views; i++) {
        const struct phase_view *view = &p->views[i];
        bool control = i + 1 == p->num_views;
        dgl_buf_printf(out, "layout(std430, binding = %u) %s buffer PhaseView%u { %s ", i,
                       view->written ? "coherent" : "readonly restrict", i, view->type);
        if (control)
            dgl_buf_puts(out, "CONTROL[]; };\n");
        else
            dgl_buf_printf(out, "phase_v%u[]; };\n", i);
        if (view->written)
            continue;
        dgl_buf_printf(out,
                       "uint phase_word%u(uint i) { return phase_v%u[i >> 2][i & 3u]; }\n"
                       "uvec2 phase_pair%u(uint i)\n"
                       "{\n"
                       "    uvec4 v = phase_v%u[i >> 1];\n"
                       "    return (i & 1u) == 0u ? v.xy : v.zw;\n"
                       "}\n",
                       i, i, i, i);
    }
}

/* Writes the loads of the fields of row `row` from its words in phase_step. `open` and `close`
 * enclose a word's number to form its index. */
static void put_step_fields(struct dgl_buf *out, const char *row, const char *open,
                            const char *close)
{
    unsigned field = 0;
#define X(glsl, c, name)                                                                           \
    dgl_buf_printf(out, "        step_table[%s]." #name " = %s(phase_step[%s%u%s]);\n", row,       \
                   strcmp(#glsl, "float") == 0 ? "uintBitsToFloat" : "uint", open, field++,        \
                   close);
    DGL_STEP_FIELDS(X)
#undef X
}

/* Writes step_load() for row 0's sequence, with the names of put_step() in kernel_gen.c. The state
 * is loaded once per token: a uniform block would contain the values that the host wrote. */
static void put_one_row_load(struct dgl_buf *out)
{
    dgl_buf_printf(
        out,
        "void step_load()\n"
        "{\n"
        "    uint i = gl_LocalInvocationIndex, row = STATE[phase_step_at + %zuu];\n"
        "    if (i < %zuu)\n"
        "        phase_step[i] = STATE[phase_step_at + %zuu + (row & 0xffffu) * %zuu + i];\n"
        "    memoryBarrierShared(); barrier();\n"
        "    if (i == 0u) {\n"
        "        phase_offset = row >> 16;\n",
        offsetof(struct dgl_step_table, row) / 4, sizeof(struct dgl_step) / 4,
        offsetof(struct dgl_step_table, seq) / 4, sizeof(struct dgl_step) / 4);
    put_step_fields(out, "0", "", "");
    dgl_buf_puts(out, "    }\n    memoryBarrierShared(); barrier();\n}\n");
#define X(glsl, c, name) dgl_buf_puts(out, "#define step_" #name " step_table[0]." #name "\n");
    DGL_STEP_FIELDS(X)
#undef X
}

/* Loads the values of a row that are constant within a dispatch, before a group waits for others.
 * If a dispatch is aborted, each group that leaves writes a mark to the ids of every row. A group
 * writes no id after a mark. */
static void put_rows_load(struct dgl_buf *out)
{
    const size_t step = sizeof(struct dgl_step) / 4, seq = offsetof(struct dgl_step_table, seq) / 4;
    dgl_buf_printf(out,
                   "void phase_note()\n"
                   "{\n"
                   "    for (uint r = gl_LocalInvocationIndex; r < pass_rows; r += PHASE_LOCAL) {\n"
                   "        uint word = STATE[phase_step_at + %zuu + r], seq = word & 0xffffu;\n"
                   "        phase_seq[r] = seq;\n"
                   "        phase_offset[r] = word >> 16;\n"
                   "        phase_ids[r] = seq * STATE[phase_step_at + %zuu];\n"
                   "        phase_adjust[r] = seq * STATE[phase_step_at + %zuu];\n"
                   "        phase_from[r] = STATE[phase_step_at + STEP_WORD_pos + seq * %zuu] +\n"
                   "                        phase_offset[r];\n"
                   "        phase_end[r] = STATE[phase_step_at + STEP_WORD_context + seq * %zuu];\n"
                   "    }\n"
                   "}\n",
                   offsetof(struct dgl_step_table, row) / 4,
                   offsetof(struct dgl_step_table, ids_stride) / 4,
                   offsetof(struct dgl_step_table, adjust_stride) / 4, step, step);
    dgl_buf_puts(out, "void phase_mark()\n"
                      "{\n"
                      "    uint count = CONTROL[CONTROL_steps] * pass_rows;\n"
                      "    for (uint i = gl_LocalInvocationIndex; i < count; i += PHASE_LOCAL) {\n"
                      "        uint r = i % pass_rows, pos = phase_from[r] + 1u + i / pass_rows;\n"
                      "        if (pos <= phase_end[r])\n"
                      "            STATE[phase_ids_at + phase_ids[r] + pos] = PHASE_ABORTED_ID;\n"
                      "    }\n"
                      "}\n");
    dgl_buf_printf(out,
                   "void step_load()\n"
                   "{\n"
                   "    uint i = gl_LocalInvocationIndex, words = pass_rows * %zuu;\n"
                   "    for (uint n = i; n < words; n += PHASE_LOCAL)\n"
                   "        phase_step[n] = STATE[phase_step_at + %zuu + "
                   "phase_seq[n / %zuu] * %zuu + n %% %zuu];\n"
                   "    if (i == 0u)\n"
                   "        phase_live = 0u;\n"
                   "    memoryBarrierShared(); barrier();\n"
                   "    for (uint r = i; r < pass_rows; r += PHASE_LOCAL) {\n"
                   "        uint w = r * %zuu;\n",
                   step, seq, step, step, step, step);
    put_step_fields(out, "r", "w + uint(", ")");
    dgl_buf_printf(out,
                   "        if (phase_step[w + %zuu] == 0u)\n"
                   "            phase_live = 1u;\n"
                   "    }\n    memoryBarrierShared(); barrier();\n}\n",
                   offsetof(struct dgl_step, stopped) / 4);
#define X(glsl, c, name)                                                                           \
    dgl_buf_puts(out, "#define step_" #name " step_table[step_row]." #name "\n");
    DGL_STEP_FIELDS(X)
#undef X
}

static void put_step(struct generator *g)
{
    const struct phase_program *p = g->program;
    struct dgl_buf *out = g->out;
    dgl_buf_puts(out, "struct Step {\n");
#define X(glsl, c, name) dgl_buf_puts(out, "    " #glsl " " #name ";\n");
    DGL_STEP_FIELDS(X)
#undef X
    dgl_buf_puts(out, "};\n");
    /* Each row of the pass has a copy of its sequence's state, so both have the same number. */
    if (is_batched(p))
        dgl_buf_printf(out,
                       "shared Step step_table[%u];\n"
                       "shared uint phase_step[%zu];\n"
                       "shared uint phase_seq[%u], phase_offset[%u];\n"
                       "shared uint phase_ids[%u], phase_adjust[%u];\n"
                       "shared uint phase_from[%u], phase_end[%u], phase_live;\n"
                       "uint row_seq(uint t) { return t; }\n"
                       "uint row_pos(uint t) { return step_table[t].pos + phase_offset[t]; }\n"
                       "uint row_ids(uint t) { return phase_ids[t]; }\n"
                       "uint row_adjust(uint t) { return phase_adjust[t]; }\n"
                       "uint step_row;\n",
                       p->columns, p->columns * sizeof(struct dgl_step) / 4, p->columns, p->columns,
                       p->columns, p->columns, p->columns, p->columns);
    else
        dgl_buf_printf(out,
                       "shared Step step_table[1];\n"
                       "shared uint phase_offset, phase_step[%zu];\n"
                       "const uint pass_rows = 1u;\n"
                       "uint row_seq(uint t) { return 0u; }\n"
                       "uint row_pos(uint t) { return step_table[0].pos + phase_offset; }\n"
                       "uint row_ids(uint t) { return 0u; }\n"
                       "uint row_adjust(uint t) { return 0u; }\n"
                       "uint step_row;\n", /* kernels set it: to 0 */
                       sizeof(struct dgl_step) / 4);
    dgl_buf_printf(out,
                   "#define STATE phase_v%u\n"
                   "#define SCRATCH_FLOAT phase_v%u\n"
                   "#define SCRATCH_VEC4 phase_v%u\n"
                   "#define phase_ids_at %s\n"
                   "#define phase_step_at %s\n"
                   "#define phase_scratch_at %s\n"
                   "#define PHASE_LOCAL %uu\n"
                   "#define PHASE_GROUPS gl_NumWorkGroups.x\n"
                   "#define PHASE_GROUP gl_WorkGroupID.x\n"
                   "#define PHASE_PASSED %s\n"
                   "shared uint phase_word;\n",
                   p->state_view, p->float_view, p->vec4_view, word_text(g, &p->ids_base, false),
                   word_text(g, &p->step_base, false), word_text(g, &p->scratch_base, false),
                   p->local, p->parts > 1 ? "phase_passed_before()" : "0u");
    phase_control_put(out);
    if (is_batched(p))
        put_rows_load(out);
    else
        put_one_row_load(out);
}

/* ---- one use --------------------------------------------------------------------------------- */

/* Sets the texts before and after the index of an element of the bind. */
static void name_bind(struct generator *g, struct phase_names *names, const struct phase_use *use,
                      uint32_t u, uint32_t i)
{
    const struct kernel_bind *bind = &use->choice->kernel->binds[i];
    const struct phase_view *view = &g->program->views[use->view[i]];
    uint32_t bytes = phase_type_bytes(bind->type), view_bytes = phase_type_bytes(view->type);
    char from = component(view->type), to = component(bind->type);
    static const char *const dims[] = {"", "2", "", "4"}; /* by bytes / 4 - 1 */
    const char *cast = "", *access;
    if (from != to) {
        assert(bind->access == KERNEL_READ);
        if (to == 'f')
            cast = from == 'u' ? "uintBitsToFloat" : "intBitsToFloat";
        else if (from == 'f')
            cast = to == 'u' ? "floatBitsToUint" : "floatBitsToInt";
        else
            cast = kept(g, dgl_arena_printf(&g->arena, "%s%s",
                                            to == 'u' ? (bytes == 4 ? "uint" : "uvec")
                                                      : (bytes == 4 ? "int" : "ivec"),
                                            dims[bytes / 4 - 1]));
    }
    if (bytes == view_bytes)
        access = kept(g, dgl_arena_printf(&g->arena, "phase_v%u[", use->view[i]));
    else
        access = kept(g, dgl_arena_printf(&g->arena, "phase_%s%u(", bytes == 4 ? "word" : "pair",
                                          use->view[i]));
    const char *close = bytes == view_bytes ? ")]" : "))";
    phase_names_add(names, (struct phase_name){
                               .name = dgl_str_of(bind->name),
                               .open = kept(g, dgl_arena_printf(&g->arena, "%s(%sP%u_at_%s + uint(",
                                                                cast, access, u, bind->name)),
                               .close = kept(g, dgl_arena_printf(&g->arena, "%s)", close))});
    /* The left side of an assignment must not be a conversion. */
    if (bind->access != KERNEL_READ) {
        struct phase_name *name = &names->names[names->count - 1];
        name->open =
            kept(g, dgl_arena_printf(&g->arena, "%sP%u_at_%s + uint(", access, u, bind->name));
        name->close = close;
    }
}

static struct dgl_str body_of(const struct kernel *kernel)
{
    return (struct dgl_str){kernel->body, kernel->text_len - (size_t)(kernel->body - kernel->text)};
}

/* Returns false for an array that is passed to a macro: it is declared separately. */
static bool is_pooled(const struct kernel_choice *choice, const struct kernel_shared *decl)
{
    bool bare = phase_text_has_bare(body_of(choice->kernel), decl->name);
    for (uint32_t i = 0; i < choice->kernel->num_libs && !bare; i++) {
        const struct kernel_lib *lib = choice->libs[i];
        bare = phase_text_has_bare((struct dgl_str){lib->body, lib->body_len}, decl->name);
    }
    return !bare || !decl->count;
}

static void name_directives(struct generator *g, struct phase_names *names,
                            const struct phase_use *use, uint32_t u)
{
    const struct kernel_choice *choice = use->choice;
    const struct kernel *kernel = choice->kernel;
    int64_t pool[POOLS] = {0};
    for (uint32_t i = 0; i < kernel->num_binds; i++)
        name_bind(g, names, use, u, i);
    for (uint32_t i = 0; i < choice->num_shared; i++) {
        const struct kernel_shared *decl = choice->shared[i].decl;
        size_t type = pool_of(decl->type, g->wide);
        const char *part = strcmp(decl->type, pool_types[type]) == 0 ? "" : ".xy";
        struct phase_name name = {.name = dgl_str_of(decl->name)};
        if (!is_pooled(choice, decl)) {
            phase_names_add(names, name);
            continue;
        }
        if (decl->count) {
            name.open = kept(g, dgl_arena_printf(&g->arena, "phase_%ss[%lldu + uint(",
                                                 pool_types[type], (long long)pool[type]));
            name.close = *part ? ")].xy" : ")]";
        } else {
            name.open = kept(g, dgl_arena_printf(&g->arena, "phase_%ss[%lld]%s", pool_types[type],
                                                 (long long)pool[type], part));
        }
        phase_names_add(names, name);
        pool[type] += choice->shared[i].count;
    }
    for (size_t i = 0; i < POOLS; i++)
        g->pool[i] = pool[i] > g->pool[i] ? pool[i] : g->pool[i];
    for (uint32_t i = 0; i < choice->num_consts + choice->num_tunes + choice->num_lets; i++)
        phase_names_add(names, (struct phase_name){.name = dgl_str_of(choice->vars[i].name)});
    for (uint32_t i = 0; i < kernel->num_flags; i++)
        phase_names_add(names, (struct phase_name){.name = dgl_str_of(kernel->flags[i].name)});
    for (uint32_t i = 0; i < kernel->num_params; i++)
        phase_names_add(names, (struct phase_name){.name = dgl_str_of(kernel->params[i].name)});
    static const char *const locals[] = {"LOCAL_X", "LOCAL_Y", "LOCAL_Z"};
    for (int i = 0; i < 3; i++)
        phase_names_add(names, (struct phase_name){.name = dgl_str_of(locals[i])});
}

/* Returns the bytes of all pools. `wide` puts vec2s into the pool of vec4s. */
static int64_t pool_bytes(const struct phase_program *program, bool wide)
{
    const int64_t row = 2 * (int64_t)sizeof(struct dgl_step) + (is_batched(program) ? 24 : 0);
    int64_t most[POOLS] = {0}, bytes = (is_batched(program) ? program->columns : 1) * row + 16;
    for (uint32_t u = 0; u < program->num_uses; u++) {
        const struct kernel_choice *choice = program->uses[u].choice;
        int64_t pool[POOLS] = {0};
        for (uint32_t i = 0; i < choice->num_shared; i++) {
            const struct kernel_shared *decl = choice->shared[i].decl;
            int64_t *count = &pool[pool_of(decl->type, wide)];
            if (is_pooled(choice, decl))
                *count += choice->shared[i].count;
            else
                bytes += choice->shared[i].count * phase_type_bytes(decl->type);
        }
        for (size_t i = 0; i < POOLS; i++)
            most[i] = pool[i] > most[i] ? pool[i] : most[i];
    }
    for (size_t i = 0; i < POOLS; i++)
        bytes += most[i] * phase_type_bytes(pool_types[i]);
    return bytes;
}

int64_t phase_shared_bytes(const struct phase_program *program)
{
    int64_t apart = pool_bytes(program, false), wide = pool_bytes(program, true);
    return wide < apart ? wide : apart;
}

/* Defines the constants of a choice. */
static void put_constants(const struct kernel_choice *choice, const char *prefix,
                          struct dgl_buf *out)
{
    const struct kernel *kernel = choice->kernel;
    for (uint32_t i = 0; i < choice->num_consts + choice->num_tunes + choice->num_lets; i++)
        dgl_buf_printf(out, "#define %s%s (%lld)\n", prefix, choice->vars[i].name,
                       (long long)choice->vars[i].value);
    for (uint32_t i = 0; i < kernel->num_flags; i++)
        for (uint32_t v = 0; v < choice->num_vars; v++)
            if (strcmp(choice->vars[v].name, kernel->flags[i].name) == 0)
                dgl_buf_printf(out, "#define %s%s %d\n", prefix, kernel->flags[i].name,
                               choice->vars[v].value != 0);
    for (int i = 0; i < 3; i++)
        dgl_buf_printf(out, "#define %sLOCAL_%c %lld\n", prefix, "XYZ"[i],
                       (long long)choice -> local[i]);
}

/* Declares the names of the directives with the use's prefix. */
static void put_directives(struct generator *g, const struct phase_use *use, uint32_t u)
{
    static const char *const types[] = {"uint", "int", "float"};
    const struct kernel_choice *choice = use->choice;
    const struct kernel *kernel = choice->kernel;
    struct dgl_buf *out = g->out;
    dgl_buf_printf(out, "// %s: P%u\n", kernel->name, u);
    for (uint32_t i = 0; i < choice->num_shared; i++)
        if (!is_pooled(choice, choice->shared[i].decl))
            dgl_buf_printf(out, "shared %s P%u_%s[%lld];\n", choice->shared[i].decl->type, u,
                           choice->shared[i].decl->name, (long long)choice->shared[i].count);
    put_constants(choice, g->names[u].prefix, out);
    for (uint32_t i = 0; i < kernel->num_binds; i++) {
        if (use->base[i].source == PHASE_ROW)
            dgl_buf_printf(out, "uint P%u_at_%s;\n", u, kernel->binds[i].name);
        else
            dgl_buf_printf(out, "#define P%u_at_%s %s\n", u, kernel->binds[i].name,
                           word_text(g, &use->base[i], false));
    }
    for (uint32_t i = 0; i < kernel->num_params; i++) {
        const struct kernel_param *param = &kernel->params[i];
        const char *type = types[param->type];
        if (use->param[i].source == PHASE_LITERAL)
            dgl_buf_printf(out, "const %s P%u_%s = %s(%s);\n", type, u, param->name, type,
                           word_text(g, &use->param[i], param->type == KERNEL_FLOAT));
        else
            dgl_buf_printf(out, "%s P%u_%s;\n", type, u, param->name);
    }
}

/* Returns GLSL text for kernels that write the step state: step_base(), the offset of the row's
 * sequence in the bind STEP, and a #define STEP_<field> for each field. */
static const char *step_text(struct generator *g)
{
    struct dgl_buf text = {0};
    unsigned index = offsetof(struct dgl_step_table, seq) / 4;
    if (is_batched(g->program))
        dgl_buf_printf(&text, "uint step_base() { return phase_seq[step_row] * %zuu; }\n",
                       sizeof(struct dgl_step) / 4);
    else
        dgl_buf_printf(&text, "uint step_base() { return (STEP[%zu] & 0xffffu) * %zuu; }\n",
                       offsetof(struct dgl_step_table, row) / 4, sizeof(struct dgl_step) / 4);
#define X(glsl, c, name)                                                                           \
    dgl_buf_printf(&text, "#define STEP_" #name " (step_base() + %uu)\n", index++);
    DGL_STEP_FIELDS(X)
#undef X
    const char *copy = kept(g, text.p ? dgl_arena_strndup(&g->arena, text.p, text.len) : NULL);
    dgl_buf_finish(&text);
    return copy;
}

static bool is_number_type(struct dgl_str type)
{
    for (size_t i = 0; i < POOLS; i++)
        if (dgl_str_eq(type, pool_types[i]))
            return true;
    return dgl_str_eq(type, "bool");
}

/* Sets counts[i] to the elements of array i among the names, or 0 if that is no constant. */
static void count_elements(struct generator *g, uint32_t u, int64_t *counts)
{
    const struct kernel_choice *choice = g->program->uses[u].choice;
    const struct phase_names *names = &g->names[u];
    const struct dgl_str body = body_of(choice->kernel);
    struct dgl_buf text = {0};
    put_constants(choice, "", &text);
    kernel_put_pages(&text);
    for (uint32_t i = 0; i < choice->kernel->num_libs; i++)
        dgl_buf_append(&text, choice->libs[i]->body, choice->libs[i]->body_len);
    dgl_buf_append(&text, body.p, body.len);
    for (size_t i = 0; i < names->count; i++) {
        const struct dgl_str count = names->names[i].count;
        dgl_buf_printf(&text, "\n#define " PHASE_CONSTANT "%zu ", i);
        for (size_t c = 0; c < count.len; c++) /* one line, also if the declaration has several */
            dgl_buf_putc(&text, count.p[c] == '\n' ? ' ' : count.p[c]);
    }
    dgl_buf_putc(&text, '\n');
    g->failed |=
        text.failed || !phase_constants((struct dgl_str){text.p, text.len}, counts, names->count);
    dgl_buf_finish(&text);
}

/* Returns the variable of this name and type. Else, for an array that needs `count` elements, the
 * smallest that is large enough, or the largest, among those that use u does not have yet. Returns
 * NULL if there is none. */
static struct shared_variable *find_variable(struct generator *g, uint32_t u,
                                             const struct phase_name *name, int64_t count)
{
    struct shared_variable *best = NULL;
    for (size_t i = 0; i < g->num_variables; i++) {
        struct shared_variable *v = &g->variables[i];
        if (v->last > u || !dgl_str_equal(v->type, name->type) || (v->count > 0) != (count > 0))
            continue;
        if (dgl_str_equal(v->own, name->name))
            return v;
        const bool larger = best && v->count > best->count;
        if (count > 0 && (!best || (best->count < count ? larger : !larger && v->count >= count)))
            best = v;
    }
    return best;
}

/* Only one use runs at a time, so all uses share their arrays by type, and scalars by name and
 * type. With separate variables the results of begin() would occupy registers for each use while
 * groups wait. Sharing one scalar between several names was 0 to 3% slower on one H200 (driver
 * 580). An array of more than PHASE_ROUNDS elements is not shared: its initialisation is not
 * unrolled, so no use could keep the array in registers. */
static void share_variables(struct generator *g, uint32_t u)
{
    struct phase_names *names = &g->names[u];
    int64_t *counts = dgl_new_array(int64_t, names->count);
    g->failed |= !counts;
    if (counts)
        count_elements(g, u, counts);
    for (size_t i = 0; i < names->count && !g->failed; i++) {
        struct phase_name *name = &names->names[i];
        bool whole = name->declaration && !name->open; /* the declaration can be left out */
        for (size_t j = 0; j < names->count; j++)
            if (names->names[j].declaration == name->declaration)
                whole &=
                    is_number_type(names->names[j].type) &&
                    (!names->names[j].count.len || (counts[j] > 0 && counts[j] <= PHASE_ROUNDS));
        if (!whole)
            continue;
        struct shared_variable *v = find_variable(g, u, name, counts[i]);
        if (!v &&
            dgl_grow((void **)&g->variables, &g->cap_variables, g->num_variables + 1, sizeof(*v))) {
            const size_t at = g->num_variables++;
            v = &g->variables[at];
            *v = (struct shared_variable){
                .type = name->type,
                .own = name->name,
                .name = kept(g, dgl_arena_printf(&g->arena, "phase_own%zu", at))};
        }
        if (!v) {
            g->failed = true;
            break;
        }
        v->count = counts[i] > v->count ? counts[i] : v->count;
        v->last = u + 1;
        name->open = v->name;
        name->elsewhere = true;
    }
    free(counts);
}

/* Initialises a variable. `count` is the text of an array's elements, else empty. Otherwise the
 * compiler would keep it from one round of the loop over rows to the next, in registers that other
 * kernels need. (Llama 3.2 1B on 2026-11-22, by Mesa's compiler for a Radeon: 478 registers
 * without, 112 with.) */
static void put_reset(struct generator *g, struct dgl_str type, const char *name, const char *count)
{
    const int len = (int)type.len;
    if (*count)
        dgl_buf_printf(g->out, "    for (int i = 0; i < int(%s); i++)\n        %s[i] = %.*s(0);\n",
                       count, name, len, type.p);
    else
        dgl_buf_printf(g->out, "    %s = %.*s(0);\n", name, len, type.p);
}

/* Initialises the variables of use u that it does not share. */
static void put_own_resets(struct generator *g, uint32_t u)
{
    const struct phase_names *names = &g->names[u];
    for (size_t i = 0; i < names->count; i++) {
        const struct phase_name *name = &names->names[i];
        struct dgl_buf count = {0};
        struct dgl_str bad;
        if (name->open || !is_number_type(name->type))
            continue;
        phase_text_rewrite(names, name->count, &count, &bad);
        dgl_buf_putc(&count, '\0');
        g->failed |= count.failed;
        if (!count.failed)
            put_reset(g, name->type,
                      kept(g, dgl_arena_printf(&g->arena, "P%u_%.*s", u, (int)name->name.len,
                                               name->name.p)),
                      count.p);
        dgl_buf_finish(&count);
    }
}

/* Initialises the shared variables, or those of one use if `last` is its number plus one. */
static void put_shared_resets(struct generator *g, uint32_t last)
{
    for (size_t i = 0; i < g->num_variables; i++) {
        const struct shared_variable *v = &g->variables[i];
        char count[24] = "";
        if (v->count > 0)
            snprintf(count, sizeof(count), "%lld", (long long)v->count);
        if (last == 0 || v->last == last)
            put_reset(g, v->type, v->name, count);
    }
}

/* Writes the function that loads the row's values. */
static void put_load(struct generator *g, const struct phase_use *use, uint32_t u)
{
    const struct kernel *kernel = use->choice->kernel;
    struct dgl_buf *out = g->out;
    dgl_buf_printf(out, "void P%u_load(uint row)\n{\n", u);
    for (uint32_t i = 0; i < kernel->num_binds; i++)
        if (use->base[i].source == PHASE_ROW)
            dgl_buf_printf(out, "    P%u_at_%s = %s;\n", u, kernel->binds[i].name,
                           word_text(g, &use->base[i], false));
    for (uint32_t i = 0; i < kernel->num_params; i++)
        if (use->param[i].source != PHASE_LITERAL)
            dgl_buf_printf(out, "    P%u_%s = %s(%s);\n", u, kernel->params[i].name,
                           kernel->params[i].type == KERNEL_INT ? "int" : "",
                           word_text(g, &use->param[i], kernel->params[i].type == KERNEL_FLOAT));
    dgl_buf_puts(out, "}\n");
}

/* Writes a call of `function` for group g of the row. */
static void put_call(struct generator *g, const struct kernel *kernel, uint32_t u,
                     const char *function)
{
    dgl_buf_printf(g->out, "    P%u_%s(uvec3(%s, 0u));\n", u, function,
                   kernel->groups[1] ? "g % head.y, g / head.y" : "g, 0u");
}

/* Runs group g of the row, after its begin(). */
static void put_run(struct generator *g, const struct phase_use *use, uint32_t u)
{
    const struct kernel *kernel = use->choice->kernel;
    dgl_buf_printf(g->out, "void P%u_run(uint row, uvec4 head, uint g)\n{\n", u);
    if (!kernel->begins) {
        put_shared_resets(g, u + 1);
        put_own_resets(g, u);
    }
    if (is_batched(g->program)) /* for bodies that read the state without naming a row */
        dgl_buf_puts(g->out, "    step_row = 0u;\n");
    dgl_buf_printf(g->out, "    P%u_load(row);\n", u);
    put_call(g, kernel, u, "body");
    dgl_buf_puts(g->out, "}\n");
}

/* Runs the part of a kernel that does not depend on other groups, so that the first weights are
 * loaded while groups wait. Variables of all uses are initialised before it. */
static void put_begin(struct generator *g)
{
    const struct phase_program *p = g->program;
    struct dgl_buf *out = g->out;
    dgl_buf_puts(out, "void phase_begin(uint row, uvec4 head, uint g)\n{\n");
    put_shared_resets(g, 0);
    for (uint32_t u = 0; u < p->num_uses; u++)
        if (p->uses[u].choice->kernel->begins)
            put_own_resets(g, u);
    dgl_buf_puts(out, "    if (g >= head.z) {\n");
    for (uint32_t u = 0; u < p->num_uses; u++) {
        const struct kernel *kernel = p->uses[u].choice->kernel;
        if (!kernel->begins)
            continue;
        dgl_buf_printf(out, "    } else if (head.x == %uu) {\n    P%u_load(row);\n", u, u);
        put_call(g, kernel, u, "begin");
    }
    dgl_buf_puts(out, "    }\n}\n");
}

static enum dgl_status put_use(struct generator *g, uint32_t u)
{
    const struct phase_use *use = &g->program->uses[u];
    const struct kernel_choice *choice = use->choice;
    const struct kernel *kernel = choice->kernel;
    const struct dgl_str body = body_of(kernel);
    struct phase_names *names = &g->names[u];
    struct dgl_str bad = {0};
    enum dgl_status status = DGL_OK;
    snprintf(names->prefix, sizeof(names->prefix), "P%u_", u);
    const char *step = kernel->writes_step ? step_text(g) : "";
    name_directives(g, names, use, u);
    phase_names_scan(names, dgl_str_of(step));
    for (uint32_t i = 0; i < kernel->num_libs; i++)
        phase_names_scan(names, (struct dgl_str){choice->libs[i]->body, choice->libs[i]->body_len});
    phase_names_scan(names, body);
    share_variables(g, u);
    put_directives(g, use, u);
    bool ok = phase_text_rewrite(names, dgl_str_of(step), g->out, &bad);
    for (uint32_t i = 0; i < kernel->num_libs && ok; i++) {
        ok = phase_text_rewrite(names,
                                (struct dgl_str){choice->libs[i]->body, choice->libs[i]->body_len},
                                g->out, &bad);
        dgl_buf_putc(g->out, '\n');
    }
    ok = ok && phase_text_rewrite(names, body, g->out, &bad);
    dgl_buf_putc(g->out, '\n');
    if (names->failed || g->out->failed) {
        status = dgl_fail_memory(g->log, "generated GLSL", g->out->len);
    } else if (!ok) {
        snprintf(g->reason, REASON_SIZE, "%s uses %.*s other than by its elements", kernel->name,
                 (int)bad.len, bad.p);
        status = DGL_ERR_UNSUPPORTED;
    }
    put_load(g, use, u);
    put_run(g, use, u);
    return status;
}

/* ---- the walk -------------------------------------------------------------------------------- */

/* The inner loop runs the groups of a row that belong to this work group, mostly one. The first row
 * of each step loads its state, and the dispatch ends if no sequence continues. */
static void put_main(const struct phase_program *p, struct dgl_buf *out)
{
    dgl_buf_puts(out, "void main()\n{\n"
                      "    uint pos;\n");
    if (is_batched(p))
        dgl_buf_puts(out, "    phase_note();\n"
                          "    if (!phase_enter(pos)) {\n"
                          "        if (CONTROL[CONTROL_aborted] != 0u)\n"
                          "            phase_mark();\n"
                          "        return;\n"
                          "    }\n");
    else
        dgl_buf_puts(out, "    if (!phase_enter(pos))\n        return;\n");
    if (p->one_row)
        dgl_buf_puts(out, "    step_load();\n");
    dgl_buf_printf(out,
                   "    uint steps = CONTROL[CONTROL_steps];\n"
                   "    for (uint t = 0u; t < steps; t++) {\n"
                   "        bool wait = t > 0u;\n"
                   "        for (uint row = phase_first; row < phase_last; row++) {\n"
                   "            uvec4 head = phase_rows[row * %uu];\n"
                   "            uint g = gl_WorkGroupID.x;\n"
                   "            do {\n"
                   "                if (wait)\n"
                   "                    device_arrive();\n"
                   "                phase_begin(row, head, g);\n"
                   "                if (wait) {\n"
                   "                    if (!device_wait()) {\n"
                   "                        %s\n"
                   "                        return;\n"
                   "                    }\n"
                   "                } else {\n"
                   "                    memoryBarrierShared();\n"
                   "                    barrier();\n"
                   "                }\n"
                   "                wait = false;\n"
                   "                if (row == phase_first && g == gl_WorkGroupID.x) {\n"
                   "                    step_load();\n"
                   "                    if (%s)\n"
                   "                        return;\n"
                   "                }\n"
                   "                if (g >= head.z) {\n                ",
                   p->row_words / 4, is_batched(p) ? "phase_mark();" : "phase_leave(pos);",
                   is_batched(p) ? "phase_live == 0u" : "step_stopped != 0u");
    /* Not a switch: compilers turn it into a sequence of `if`s, and the variables of every begin()
     * would stay alive until the last. */
    for (uint32_t u = 0; u < p->num_uses; u++)
        dgl_buf_printf(out,
                       "} else if (head.x == %uu) {\n"
                       "                    P%u_run(row, head, g);\n                ",
                       u, u);
    dgl_buf_puts(out, "}\n"
                      "                g += gl_NumWorkGroups.x;\n"
                      "            } while (g < head.z);\n"
                      "            wait = head.w != 0u;\n"
                      "        }\n"
                      "    }\n"
                      "}\n");
}

enum dgl_status phase_generate(const struct dgl_log *log, const struct phase_program *program,
                               struct dgl_buf *out, char reason[REASON_SIZE])
{
    struct dgl_buf uses = {0}, rolled = {0};
    struct generator g = {.log = log, .program = program, .out = &uses, .reason = reason};
    enum dgl_status status = DGL_OK;
    reason[0] = '\0';
    g.wide = pool_bytes(program, true) < pool_bytes(program, false);
    g.names = dgl_new_array(struct phase_names, program->num_uses);
    if (!g.names)
        return dgl_fail_memory(log, "generated GLSL", program->num_uses * sizeof(*g.names));
    for (uint32_t u = 0; u < program->num_uses && status == DGL_OK; u++)
        status = put_use(&g, u);
    put_begin(&g);
    g.out = &rolled;
    put_head(&g);
    put_step(&g);
    kernel_put_pages(&rolled); /* changes between dispatches alone */
    for (size_t i = 0; i < POOLS; i++)
        if (g.pool[i])
            dgl_buf_printf(&rolled, "shared %s phase_%ss[%lld];\n", pool_types[i], pool_types[i],
                           (long long)g.pool[i]);
    for (size_t i = 0; i < g.num_variables; i++) {
        const struct shared_variable *v = &g.variables[i];
        dgl_buf_printf(&rolled, v->count ? "%.*s %s[%lld];\n" : "%.*s %s;\n", (int)v->type.len,
                       v->type.p, v->name, (long long)v->count);
    }
    dgl_buf_append(&rolled, program->barrier->body, program->barrier->body_len);
    dgl_buf_append(&rolled, uses.p, uses.len);
    put_main(program, &rolled);
    if (status == DGL_OK && (g.failed || rolled.failed || uses.failed ||
                             !phase_unroll((struct dgl_str){rolled.p, rolled.len}, out)))
        status = dgl_fail_memory(log, "generated GLSL", rolled.len + uses.len);
    for (uint32_t u = 0; u < program->num_uses; u++)
        phase_names_finish(&g.names[u]);
    free(g.names);
    free(g.variables);
    dgl_buf_finish(&uses);
    dgl_buf_finish(&rolled);
    dgl_arena_finish(&g.arena);
    return status;
}
