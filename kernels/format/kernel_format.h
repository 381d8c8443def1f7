/* Parsing of kernel files and libs: expressions, words, and whole texts. */
#ifndef DGL_KERNEL_FORMAT_H
#define DGL_KERNEL_FORMAT_H

#include "core/base/mem.h"
#include "kernels/kernels.h"

struct dgl_hash;

/* ---- kernel_expr.c ---- */

/* Parses the longest expression at the start of *rest and removes it and the blanks around it, so
 * that several can follow each other. Returns false on an error: *rest then starts at it, and
 * *error is the expected syntax, or NULL if memory runs out. `arena` owns nodes and names. */
bool kernel_expr_parse(struct dgl_arena *arena, struct dgl_str *rest,
                       const struct kernel_expr **out, const char **error);
/* Returns the first name for which `known` is false, or NULL. */
const char *kernel_expr_unknown(const struct kernel_expr *expr,
                                bool (*known)(const void *ctx, const char *name), const void *ctx);

/* Calls `cb` with each value that the expression can have as a whole without using a name: a
 * number, the numbers of both branches of ?:, 0 and 1 of a comparison. Values that depend on names
 * are skipped. Returns false if `cb` did. */
bool kernel_expr_outcomes(const struct kernel_expr *expr, bool (*cb)(void *priv, int64_t value),
                          void *priv);

/* ---- kernel_expand.c ---- */

/* Limits of a generated text after macro expansion. kernel_expand_check() finds at most 550,000
 * words in a built-in kernel, whose macros write out a row of weights. With 40,000 words in one
 * statement Mesa's compiler runs out of stack. */
#define KERNEL_MAX_WORDS     1000000
#define KERNEL_MAX_STATEMENT 10000

/* Numbers of lines from here on are not of the kernel's own file: kernel_line_step(), which is more
 * for longer files. */
#define KERNEL_LIB_LINES 10000u

/* Refuses a complete GLSL text that may be larger (DGL_ERR_KERNEL). */
enum dgl_status kernel_expand_check(const struct dgl_log *log, const char *path,
                                    struct dgl_str text);

/* ---- kernel_text.c ---- */

/* Removes the next blank-separated word from the front of *rest. Returns false if there is no
 * word. */
bool kernel_word_next(struct dgl_str *rest, struct dgl_str *word);
/* `word` is one of the blank-separated `words`. */
bool kernel_word_in(const char *words, const char *word);

/* Returns the first line of the kernel's file with that directive and that word, or 1. */
uint32_t kernel_directive_line(const struct kernel *kernel, const char *directive,
                               const char *word);

/* Adds a text to a hash as if all its lines ended in LF: another editor is no change. */
void kernel_hash_text(struct dgl_hash *hash, const char *text, size_t len);

/* Names of device properties with the GLES 3.1 minimum of each; ends with a NULL name. */
extern const struct kernel_var kernel_property_minimum[];
/* `name` is one of them, or HAS_x. */
bool kernel_is_fact(const char *name);
/* `name` is that of a LET or SHARED. */
bool kernel_decls_have(const struct kernel_decls *decls, const char *name);

/* Returns the key of the "{key}" in a lib's name, or an empty string. */
struct dgl_str kernel_lib_key(const char *pattern);
/* Writes the name of a lib with its "{key}" replaced by `word`. */
void kernel_lib_name(const char *pattern, struct dgl_str word, char out[96]);

/* Parses a whole file. `text` is NUL-terminated and must live as long as `arena`, which owns *out.
 * Messages start with `path`. Errors are DGL_ERR_KERNEL, "PATH:LINE: ...". */
enum dgl_status kernel_parse(const struct dgl_log *log, struct dgl_arena *arena, const char *path,
                             const char *text, size_t len, struct kernel **out);
/* As kernel_parse(), for a lib; `file` has its name, path and source. */
enum dgl_status kernel_lib_parse(const struct dgl_log *log, struct dgl_arena *arena,
                                 const struct kernel_lib *file, const char *text, size_t len,
                                 struct kernel_lib **out);
/* Returns DGL_ERR_KERNEL unless the kernel declares every name that the lib's expressions and #if
 * lines use, and no name that the lib declares, and splices the libs that it needs. */
enum dgl_status kernel_lib_check(const struct dgl_log *log, const struct kernel *kernel,
                                 const struct kernel_lib *lib);

#endif
