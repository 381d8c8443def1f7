/*
 * kernels.h: kernels as text. Parses `//!` directive files, layers them, chooses one per operation, and writes the
 * final GLSL. Makes no GL call and knows no tensors: shapes, limits and choices arrive as named integers.
 * docs/kernels.md is the reference of the format.
 */
#ifndef DGL_KERNELS_H
#define DGL_KERNELS_H

#include "core/base/status.h"
#include "core/base/str.h"

#define KERNEL_MAX_BINDS  8
#define KERNEL_MAX_PARAMS 32
#define KERNEL_MAX_VARS   96
#define KERNEL_MAX_TUNES  16
#define KERNEL_MAX_ATTRS  16

/* A named integer: model constants (K, N, HEAD_DIM), device facts (SUBGROUP_SIZE, SHARED_BYTES, SOFTWARE ...),
 * tunables, and T (tokens in this pass) where group counts are computed. */
struct kernel_var {
    const char *name;
    int64_t value;
};

/* Integer expressions of directives: + - * / % ( ) comparisons && || ! ?: and min(a,b) max(a,b) ceildiv(a,b) over
 * names. Parsed once, evaluated without allocation. kernel_expr.c */
struct kernel_expr; /* borrowed from its kernel */
/* False on division by zero, overflow or an unknown name; *bad then names it. */
bool kernel_expr_eval(const struct kernel_expr *expr, const struct kernel_var *vars,
                      size_t num_vars, int64_t *out, const char **bad);

enum kernel_access { KERNEL_READ = 1, KERNEL_WRITE = 2, KERNEL_READ_WRITE = 3 };
struct kernel_bind {
    char name[32];
    char type[16]; /* GLSL element type of the runtime-sized array: uint, float, vec4, uvec4 ... */
    enum kernel_access access;
};
enum kernel_param_type { KERNEL_UINT, KERNEL_INT, KERNEL_FLOAT };
/* Member of the std140 block at UBO binding 0; parameter i lies at byte 4 * i. */
struct kernel_param {
    char name[32];
    enum kernel_param_type type;
};
struct kernel_tune {
    char name[32];
    int64_t preset;
    int64_t choices[16];
    uint32_t num_choices;
    const struct kernel_expr
        *preset_expr; /* NULL: `preset`; else evaluated with constants and device facts */
};
/* WHEN key = a b c: the kernel serves requests whose attribute `key` is one of the words. */
struct kernel_when {
    char key[32];
    char words[256]; /* blank-separated */
};

/* One parsed kernel file. */
struct kernel {
    char name[64], op[32], variant[32];
    const char *summary; /* first comment line */
    const char *text;    /* the file, NUL-terminated */
    size_t text_len;
    const char *origin; /* "builtin" or a path */
    char sha256[65];
    struct kernel_bind binds[KERNEL_MAX_BINDS]; /* index = SSBO binding */
    uint32_t num_binds;
    struct kernel_param params[KERNEL_MAX_PARAMS];
    uint32_t num_params;
    struct kernel_tune tunes[KERNEL_MAX_TUNES];
    uint32_t num_tunes;
    struct kernel_when when[KERNEL_MAX_ATTRS];
    uint32_t num_when;
    const struct kernel_expr *local[3], *groups[3]; /* groups may use T */
    const struct kernel_expr *shared_bytes;         /* NULL = 0 */
    const struct kernel_expr *require[16];          /* all must be non-zero */
    const char *require_text[16];
    uint32_t num_require;
    const struct kernel_expr *prefer; /* higher wins; NULL = 0 */
    char layout[32];                  /* how weights must be packed: "" = as in the file format */
    double tolerance;                 /* NMSE limit of its op test */
    bool uses_step;                   /* reads the step state: UBO binding 1 */
    char chunks[8][32]; /* spliced before the body; "{weight}" stands for the attribute's word */
    uint32_t num_chunks;
    char constants[32][32]; /* CONST: names that the request must supply as #define */
    uint32_t num_constants;
    char extensions[4][48]; /* from REQUIRE: "#extension X : require" lines */
    uint32_t num_extensions;
};

/* ---- registry and layers: kernel_set.c, kernel_hints.c ------------------------------------------------- */

struct kernel_set;
enum dgl_status kernel_set_create(const struct dgl_log *log,
                                  const struct dgl_kernels_params *params, struct kernel_set **out);
void kernel_set_destroy(struct kernel_set **set);
struct kernel_set *kernel_set_ref(struct kernel_set *set); /* shared, immutable after creation */
size_t kernel_set_count(const struct kernel_set *set);
const struct kernel *kernel_set_at(const struct kernel_set *set, size_t index);
const struct kernel *kernel_set_find(const struct kernel_set *set, const char *name);
/* Adds the manifest's hints below the caller's layers; `pinned` are the hints that a manifest marks as its own
 * choice (not converter defaults). Returns a new set; either text may be NULL. */
enum dgl_status kernel_set_with_manifest(const struct dgl_log *log, struct kernel_set *set,
                                         const char *defaults_json, const char *pinned_json,
                                         struct kernel_set **out);

/* ---- choice: kernel_choose.c ------------------------------------------------------------------------------ */

struct kernel_attr {
    const char *key, *word; /* weight=q4_k, phase=decode, kv=f16, act=silu */
};

/* What an operation needs. Names and words are borrowed during the call. */
struct kernel_request {
    const char *op;
    struct kernel_attr attrs[KERNEL_MAX_ATTRS];
    uint32_t num_attrs;
    struct kernel_var consts[32]; /* become #defines, and variables of expressions */
    uint32_t num_consts;
};

struct kernel_choice {
    const struct kernel *kernel;
    struct kernel_var
        vars[KERNEL_MAX_VARS]; /* constants, device facts, tunables: complete but for T */
    uint32_t num_vars;
    uint32_t num_consts, num_tunes; /* vars = consts, then tunes, then device facts */
    int64_t local[3];
    char reason
        [256]; /* "subgroup gemv: rank 30 over gemv_q4_k (10)", "hint attentionDecode=streaming (flag)" */
};

/* Picks the usable kernel with the highest PREFER, or the one a hint names; a hint that cannot run is an error that
 * says why (docs/kernels.md, layers). No kernel at all: DGL_ERR_UNSUPPORTED listing each candidate's failed REQUIRE. */
enum dgl_status kernel_choose(const struct dgl_log *log, const struct kernel_set *set,
                              const struct kernel_request *request, const struct kernel_var *device,
                              size_t num_device, struct kernel_choice *out);

/* ---- generation: kernel_gen.c --------------------------------------------------------------------------------- */

/* The complete GLSL ES 3.10 text: version, extensions, precision, #defines of consts and tunes, local size, bindings,
 * parameter block, step state, chunks, body, main(). Line numbers of the body refer to the kernel file (#line). */
enum dgl_status kernel_generate(const struct dgl_log *log, const struct kernel_set *set,
                                const struct kernel_request *request,
                                const struct kernel_choice *choice, struct dgl_buf *out);

#endif
