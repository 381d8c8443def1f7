/*
 * tok_steps.h: the parts of tokenizer.json that are one step or a "Sequence" of steps, which may be
 * sequences again: normalizer, pre_tokenizer, post_processor, decoder.
 */
#ifndef DGL_LOADER_TOK_STEPS_H
#define DGL_LOADER_TOK_STEPS_H

#include "core/base/json.h"

/* Adds one step of the given type, which is not "Sequence", to what `ctx` is. */
typedef enum dgl_status (*tok_step_fn)(struct dgl_json_reader r, const struct dgl_json *json,
                                       struct dgl_str type, void *ctx);
#define TOK_MAX_STEPS 64 /* of a part; published files have up to ten */

/* Calls `add` for the steps in their order, TOK_MAX_STEPS at most; `list` is where a sequence has
 * its own. A part that is null or missing has none. */
enum dgl_status tok_steps_load(struct dgl_json_reader r, const struct dgl_json *json,
                               const char *list, tok_step_fn add, void *ctx);
/* The text of a step's field, to be freed; it may hold any bytes. */
enum dgl_status tok_step_text(struct dgl_json_reader r, const struct dgl_json *json,
                              const char *field, char **text, size_t *len);

#endif
