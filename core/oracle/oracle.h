/*
 * oracle.h: a model evaluated on the host in doubles, block by block, straight from its
 * description and its stored tensors. Knows no kernels, plans or layouts: known answers for
 * everything that computes on the device. Only decoders of stored formats and rotary frequencies
 * are shared with the engine (loader/quant, loader/desc), which have tests of their own. One
 * block's rows are in memory at a time, and every processor takes a part of them.
 */
#ifndef DGL_CORE_ORACLE_H
#define DGL_CORE_ORACLE_H

#include "loader/desc/model_desc.h"

struct oracle_params {
    const struct model_desc *desc;       /* borrowed by the oracle */
    const struct tensor_source *tensors; /* borrowed by the oracle; with stored values */
    size_t count;                        /* tokens of the sequence, from position 0 on */
    int32_t threads;                     /* 0 = one per processor */
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
/* Whether rounding decides which experts the token got in the last ORACLE_FFN. */
bool oracle_is_tie(const struct oracle *oracle, size_t token);
/* Name of the first matrix read so far (of stacked experts: with an expert in it) whose values are
 * all zero, or of the first norm that multiplies by zeros alone; NULL = none. Borrowed. */
const char *oracle_zero_weight(const struct oracle *oracle);

/* All of these in turn: logits [count, vocab] of ids [count]. */
enum dgl_status oracle_evaluate(const struct dgl_log *log, const struct oracle_params *params,
                                const int32_t *ids, double *logits);

#endif
