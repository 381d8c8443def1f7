/* The state of the parser of one kernel or lib. kernel_text.c parses the file, and
 * kernel_directives.c its directive lines. */
#ifndef DGL_KERNEL_PARSER_H
#define DGL_KERNEL_PARSER_H

#include "core/base/budget.h"
#include "kernels/format/kernel_format.h"

#define KERNEL_MAX_MACRO_PARAMS 64 /* Mesa takes time by their square */
#define KERNEL_MAX_EXPRS        80 /* expressions of one file, whose names are checked at its end */

/* Which names an expression may use besides constants, attribute flags and device properties. */
enum expr_scope {
    SCOPE_TUNE,   /* the tunables above it */
    SCOPE_LOCAL,  /* all tunables, the LETs above it */
    SCOPE_LET,    /* and LOCAL_X, LOCAL_Y, LOCAL_Z: a LET below LOCAL */
    SCOPE_PLAN,   /* and all LETs */
    SCOPE_GROUPS, /* and T, BAND */
};

struct named_expr {
    const struct kernel_expr *expr;
    const char *directive;
    uint32_t line, num_tunes, num_lets; /* number of tunables and LETs that it can use */
    enum expr_scope scope;
};

struct kernel_parser {
    const struct dgl_log *log;
    struct dgl_arena *arena;
    const char *path;
    struct dgl_str text;        /* of the file; empty if only its directives are parsed */
    struct kernel *kernel;      /* NULL if the text is a lib */
    struct kernel_decls *decls; /* the kernel's or the lib's, as the libs */
    struct kernel_lib_ref *libs;
    uint32_t *num_libs;
    uint32_t line;
    const char *directive; /* of the line being parsed */
    struct dgl_str rest;   /* its value, not yet taken */
    uint32_t seen;         /* bit i: row i of the table of directives occurred */
    struct named_expr exprs[KERNEL_MAX_EXPRS];
    uint32_t num_exprs;
};

/* Logs "PATH:LINE: ..." and returns DGL_ERR_KERNEL. */
enum dgl_status kernel_parser_fail(const struct kernel_parser *p, const char *fmt, ...)
    DGL_PRINTF(2, 3);
/* One line after its `//!`. */
enum dgl_status kernel_directive_parse(struct kernel_parser *p, struct dgl_str line);
/* Returns the first required directive that this kernel lacks, or NULL. */
const char *kernel_directive_missing(const struct kernel_parser *p);

/* A letter or _ first, then letters, digits and _. */
bool kernel_is_identifier(struct dgl_str word);
/* `name` is the name of a BIND, PARAM, CONST, TUNE, LET or SHARED. */
bool kernel_has_name(const struct kernel *kernel, const char *name);
/* One of `count` items of `size` bytes has that name; `first` is the name of the first. */
bool kernel_is_named(const char *first, size_t size, uint32_t count, struct dgl_str name);
#define KERNEL_IS_NAMED(items, count, str)                                                         \
    kernel_is_named((items)->name, sizeof(*(items)), count, str)
bool kernel_has_const(const struct kernel *kernel, const char *name);
bool kernel_is_reserved(const char *name);
extern const char kernel_glsl_words[]; /* keywords, blank-separated */

/* ---- kernel_body.c ---- */

/* Checks the GLSL text of a kernel or lib. It must not contain reserved names. If `kernel` is not
 * NULL, every symbol in its #if lines must be declared by that kernel, by the lib of the text, or
 * #defined in the text. `first_line` is the number of the first line. */
enum dgl_status kernel_body_check(const struct dgl_log *log, const char *path, struct dgl_str text,
                                  uint32_t first_line, const struct kernel *kernel,
                                  const struct kernel_decls *lib);
/* Place in a text where a function is declared that main() would call. */
struct kernel_entry {
    bool found;    /* the text declares a `void FUNCTION(uvec3)` */
    bool failed;   /* there was no memory to look for it */
    uint32_t line; /* line of the function, else of the first other declaration of FUNCTION, or 0 */
};
struct kernel_entry kernel_body_find(struct dgl_str text, uint32_t first_line,
                                     const char *function);

#endif
