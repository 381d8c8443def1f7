/*
 * oracle.h: evaluates a model on the host in doubles, block by block, directly from its description
 * and its stored tensors. It does not use kernels, plans or layouts, so it gives known answers for
 * all device code. It shares only the decoders of stored formats and the rotary frequencies with
 * the engine (loader/quant, loader/desc), which have tests of their own. The rows of one block are
 * in memory at a time, and all processors share the work.
 */
#ifndef DGL_CORE_ORACLE_H
#define DGL_CORE_ORACLE_H

#include "loader/desc/model_desc.h"

struct oracle_params {
    const struct model_desc *desc;       /* borrowed by the oracle */
    const struct tensor_source *tensors; /* borrowed by the oracle; with stored values */
    size_t count;                        /* tokens of the sequence, from position 0 on */
    int32_t threads;                     /* 0 for one per processor */
};

/* The two halves of a layer, each of which adds to the residual stream. */
enum oracle_block { ORACLE_ATTENTION, ORACLE_FFN };

/* A sequence of tokens and its residual stream. */
struct oracle;

/* Transfers *out (oracle_destroy()). */
enum dgl_status oracle_create(const struct dgl_log *log, const struct oracle_params *params,
                              struct oracle **out);
void oracle_destroy(struct oracle **oracle);
/* The residual stream, [count, hidden]: results of the last call, input of the next. Borrowed; the
 * caller may change it. */
double *oracle_stream(struct oracle *oracle);
/* Replaces the stream with the embeddings of ids [count], each below desc->vocab. */
enum dgl_status oracle_embed(struct oracle *oracle, const int32_t *ids);
/* Adds a block's result to the stream. */
enum dgl_status oracle_add(struct oracle *oracle, int32_t layer, enum oracle_block block);
/* Logits [count, vocab] of the stream, which stays as it is. */
enum dgl_status oracle_head(struct oracle *oracle, double *logits);
/* Returns true if rounding decides the choice of experts for the token in the last ORACLE_FFN. */
bool oracle_is_tie(const struct oracle *oracle, size_t token);
/* Returns the name of the first matrix read so far whose values are all zero (for stacked experts,
 * with an expert in the name), or of the first norm whose weights are all zero, or NULL.
 * Borrowed. */
const char *oracle_zero_weight(const struct oracle *oracle);

/* Runs all of these steps: logits [count, vocab] of ids [count]. */
enum dgl_status oracle_evaluate(const struct dgl_log *log, const struct oracle_params *params,
                                const int32_t *ids, double *logits);

#endif
