/* Tokens of turns, by their names: GGUF files have keys for three stop ids only, and published
 * files often give these tokens a wrong type. */
#ifndef DGL_LOADER_GGUF_TURNS_H
#define DGL_LOADER_GGUF_TURNS_H

#include "loader/desc/model_desc.h"
#include "loader/tokenizer/vocab_lists.h"

/* Makes tokens that begin or end a turn in published chat formats control tokens, whatever their
 * type is. One warning lists those of another type. */
enum dgl_status gguf_turns_mark(const struct dgl_log *log, struct vocab_lists *v);
/* Stop ids in ascending order, each with its origin: the ids of the keys, and tokens below `rows`
 * that end a turn. */
enum dgl_status gguf_turns_stops(const struct dgl_log *log, const struct vocab_lists *v,
                                 uint64_t rows, struct dgl_stop_id *out, size_t max, size_t *count);

#endif
