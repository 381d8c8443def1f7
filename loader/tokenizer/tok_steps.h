/*
 * tok_steps.h: parts of tokenizer.json that are one step or a "Sequence" of steps, which may be
 * nested: normalizer, pre_tokenizer, post_processor, decoder.
 */
#ifndef DGL_LOADER_TOK_STEPS_H
#define DGL_LOADER_TOK_STEPS_H

#include "core/base/json.h"

/* Adds one step of the given type, which is not "Sequence", to `ctx`. */
typedef enum dgl_status (*tok_step_fn)(struct dgl_json_reader r, const struct dgl_json *json,
                                       struct dgl_str type, void *ctx);
#define TOK_MAX_STEPS 64 /* per part; published files have up to ten */

/* Calls `add` for all steps in order, at most TOK_MAX_STEPS. `list` is the field of a sequence with
 * its steps. A part that is null or missing has no steps. */
enum dgl_status tok_steps_load(struct dgl_json_reader r, const struct dgl_json *json,
                               const char *list, tok_step_fn add, void *ctx);
/* Copies the text of a step's field, which may contain any bytes. The caller frees *text. */
enum dgl_status tok_step_text(struct dgl_json_reader r, const struct dgl_json *json,
                              const char *field, char **text, size_t *len);

#endif
