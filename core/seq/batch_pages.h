/* Pages of the KV cache for a batch. Decides how many pages the lanes share, which requests may
 * begin, and which request gives its pages back when they run out. */
#ifndef DGL_CORE_BATCH_PAGES_H
#define DGL_CORE_BATCH_PAGES_H

#include "core/seq/batch.h"

/* Sets the context of the batch and promises it pages for all lanes together. That is the sum of
 * all contexts, or fewer if they do not fit or the caller asks for fewer. One sequence of the full
 * context always fits. batch_destroy() releases the pages. The device must not be entered yet. */
enum dgl_status batch_pages_init(struct dgl_batch *b, const struct dgl_batch_params *params);

/* Returns the root of a request's pages in the prefix cache. */
uint64_t batch_request_root(const struct batch_request *r);
/* Returns the number of tokens of a request's sequence before its next token is sampled. */
int32_t batch_request_tokens(const struct batch_request *r);
/* Returns true if a waiting request may begin: the pages suffice for its expected length and for
 * the running requests, at every step until they end. Always true if no request is running. */
bool batch_pages_admit(const struct dgl_batch *b, const struct batch_request *r);
/* Returns true if an older request is about to evaluate the next page of this prompt. Waiting for
 * it avoids evaluating the page twice. */
bool batch_pages_waits(const struct batch_request *r);
/* Makes pages available for `tokens` positions of the request's sequence, or for its maximum length
 * if that is less. Call it before queueing work. If pages are short, the youngest running requests
 * give theirs back. They wait in their old places in the queue, and evaluate their tokens again
 * later. Returns false if the request itself is the youngest and now waits. */
bool batch_pages_make_room(struct batch_request *r, int32_t tokens);
/* Updates the expected answer length with an answer that has ended. */
void batch_pages_learn(const struct batch_request *r);
/* Ends the running of a request that has ended or must wait: it leaves its lane, and its tokens and
 * pages are freed. */
void batch_pages_leave(struct batch_request *r);

#endif
