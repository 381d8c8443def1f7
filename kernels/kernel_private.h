/* What the files of this room share with one another and with nobody else. */
#ifndef DGL_KERNEL_PRIVATE_H
#define DGL_KERNEL_PRIVATE_H

#include "core/base/mem.h"
#include "kernels/kernels.h"

/* ---- kernel_expr.c ---- */

/* Takes the longest expression off the front of *rest (blanks around it too), so that several may
 * stand side by side. False on a fault: *rest then starts at it and *error says what was expected,
 * NULL when memory ran out.
 * Nodes and names live in `arena`. */
bool kernel_expr_parse(struct dgl_arena *arena, struct dgl_str *rest,
                       const struct kernel_expr **out, const char **error);
/* The first name for which `known` is false; NULL when all are known. */
const char *kernel_expr_unknown(const struct kernel_expr *expr,
                                bool (*known)(const void *ctx, const char *name), const void *ctx);

/* ---- kernel_words.c ---- */

/* Takes the next blank-separated word off the front of *rest; false when there is none. */
bool kernel_word_next(struct dgl_str *rest, struct dgl_str *word);
/* `word` is one of the blank-separated `words`. */
bool kernel_word_in(const char *words, const char *word);
/* A letter or _ first, then letters, digits and _. */
bool kernel_is_identifier(struct dgl_str word);
/* The word of the request's attribute `key`; "none" when it has no such attribute. */
const char *kernel_request_word(const struct kernel_request *request, const char *key);
/* "matmul weight=q4_k phase=decode": what messages call a request. */
void kernel_request_describe(const struct kernel_request *request, struct dgl_buf *out);

/* ---- kernel_text.c ---- */

/* Parses a whole file. `text` is NUL-terminated and must live as long as `arena`, which owns *out.
 * `path` is what messages start with. Faults are DGL_ERR_KERNEL, "PATH:LINE: ...". */
enum dgl_status kernel_parse(const struct dgl_log *log, struct dgl_arena *arena, const char *path,
                             const char *text, size_t len, struct kernel **out);
/* The same for a lib; `file` has its name, path and source. */
enum dgl_status kernel_lib_parse(const struct dgl_log *log, struct dgl_arena *arena,
                                 const struct kernel_lib *file, const char *text, size_t len,
                                 struct kernel_lib **out);
/* The kernel knows every name that the lib's expressions and #if lines use, and none that the lib
 * declares. */
enum dgl_status kernel_lib_check(const struct dgl_log *log, const struct kernel *kernel,
                                 const struct kernel_lib *lib);

/* ---- kernel_body.c ---- */

/* GLSL text in the C sense: what it must not mention and, when `kernel` is given, that every symbol
 * of its #if lines is declared by that kernel, by the lib whose text it is, or #defined in the
 * text. `first_line` is the number of the first line. */
enum dgl_status kernel_body_check(const struct dgl_log *log, const char *path, struct dgl_str text,
                                  uint32_t first_line, const struct kernel *kernel,
                                  const struct kernel_decls *lib);
/* The text defines `void body(uvec3 ...)`. */
bool kernel_body_has_entry(struct dgl_str text);

/* ---- kernel_hints.c ---- */

/* A hint in force. `key` is flat: "attentionDecode", "variants.matmul/decode",
 * "tunes.NAME.TUNABLE". */
struct kernel_hint {
    const char *key, *value;
    enum kernel_layer layer;
    const char *origin; /* "--kernel-hints", "config file PATH" ... */
};
struct kernel_hints {
    struct kernel_hint *items;
    size_t count, cap;
};
/* Where hints are being read from, and where they go. */
struct kernel_hint_source {
    const struct dgl_log *log;
    struct dgl_arena *arena;
    const struct kernel_set *set; /* names in `variants` and `tunes` are checked against its
                                     kernels; NULL: they stay unchecked */
    struct kernel_hints *hints;
    enum kernel_layer layer;
    const char *origin;
};
enum dgl_status kernel_hints_add_json(const struct kernel_hint_source *source, const char *json,
                                      size_t len);
enum dgl_status kernel_hints_add_profile(const struct kernel_hint_source *source,
                                         const char *profile);
/* "key=value" with a flat key. */
enum dgl_status kernel_hints_add_flag(const struct kernel_hint_source *source, const char *flag);
const struct kernel_hint *kernel_hints_find(const struct kernel_hints *hints, const char *key);

/* ---- kernel_set.c ---- */

const struct kernel_hints *kernel_set_hints(const struct kernel_set *set);
/* The name of a lib with its "{key}" replaced by `word`. */
void kernel_lib_name(const struct kernel_lib_ref *ref, struct dgl_str word, char out[96]);
/* The key of a lib's "{key}"; empty when it has none. */
struct dgl_str kernel_lib_key(const struct kernel_lib_ref *ref);

/* ---- kernel_fit.c ---- */

/* Names of device facts with the GLES 3.1 minimum of each; ends with a NULL name. */
extern const struct kernel_var kernel_fact_minimum[];
bool kernel_serves(const struct kernel *kernel, const struct kernel_request *request);

/* One kernel tried for one request on one device. */
struct kernel_fit {
    const struct kernel_set *set;
    const struct kernel_request *request;
    const struct kernel_var *device;
    size_t num_device;
};
/* Fills `out` but for its reason, and *rank (PREFER). False when the kernel cannot run: *why then
 * says which rule. */
bool kernel_fit_try(const struct kernel_fit *fit, const struct kernel *kernel,
                    struct kernel_choice *out, int64_t *rank, char why[192]);

#endif
