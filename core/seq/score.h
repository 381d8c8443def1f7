/* Logits, embeddings and perplexity of given tokens. The caller must have entered the device. */
#ifndef DGL_CORE_SCORE_H
#define DGL_CORE_SCORE_H

#include "core/seq/prefill.h"

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

/* Makes room for the logits of every row of a pass (ROW_SCORE). *rows is set to the maximum rows of
 * such a pass. */
enum dgl_status session_begin_scoring(struct dgl_session *s, int32_t *rows);

/* Replaces the session's tokens by `ids`, of which none are evaluated yet. `name` is as in
 * session_check_ids(). */
enum dgl_status session_load_ids(struct dgl_session *s, const int32_t *ids, size_t count,
                                 const char *name);
/* Evaluates ids[len .. count), which the caller has stored in ids; count <= context. LOGITS is
 * then that of the last token. If cancelled between passes, returns DGL_ERR_CANCELLED without a
 * message, and keeps the tokens evaluated so far. The last pass is queued, but not flushed. */
enum dgl_status session_eval(struct dgl_session *s, int32_t count);

/* Results of evaluated tokens, one row each. Either array may be NULL. */
struct row_results {
    int32_t most;           /* maximum rows of a pass; 0 means `ubatch` */
    float *logits, *hidden; /* [rows, vocab] and [rows, hidden] */
    /* If it is not NULL, each pass writes its rows to the start of the arrays, and this function
     * uses them. The first one is that of position `pos`. */
    enum dgl_status (*use)(void *priv, int32_t pos, int32_t rows);
    void *priv;
};

/* Evaluates ids[len .. count) and reads the results from position `first` on. Afterwards LOGITS is
 * that of the last token, except if all logits, or only hidden states, were read. */
enum dgl_status session_eval_results(struct dgl_session *s, int32_t first, int32_t count,
                                     const struct row_results *out);

#endif
