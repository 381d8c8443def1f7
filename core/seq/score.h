/* Logits, embeddings and perplexity of given tokens. The caller must have entered the device. */
#ifndef DGL_CORE_SCORE_H
#define DGL_CORE_SCORE_H

#include "core/seq/session.h"

/* Implement dgl_session_eval(), dgl_logits(), dgl_embed() and dgl_perplexity(). */
enum dgl_status session_append(struct dgl_session *s, const struct dgl_eval_params *params,
                               float *logits, float *hidden);
enum dgl_status session_logits(struct dgl_session *s, const struct dgl_logits_params *params,
                               float **logits, size_t *rows);
enum dgl_status session_embed(struct dgl_session *s, const struct dgl_embed_params *params,
                              float **embeddings, size_t *rows);
enum dgl_status session_perplexity(struct dgl_session *s,
                                   const struct dgl_perplexity_params *params,
                                   struct dgl_perplexity_result *out);

#endif
