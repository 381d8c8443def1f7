/* Pages of the KV cache for a batch: how many its lanes share, who may begin, and who has to wait
 * again when they run out. */
#ifndef DGL_CORE_BATCH_PAGES_H
#define DGL_CORE_BATCH_PAGES_H

#include "core/seq/batch.h"

/* Grants a batch its context and pages for all lanes together: as many as all contexts come to, or
 * fewer where they do not fit or nobody wants more; the longest context has room in them. The
 * device is not entered yet. */
enum dgl_status batch_pages_init(struct dgl_batch *b, const struct dgl_batch_params *params);
/* When the lanes' sessions are gone. */
void batch_pages_finish(struct dgl_batch *b);

/* Tokens that a request's sequence has before its next one is drawn. */
int32_t batch_request_tokens(const struct batch_request *r);
/* Whether there are pages for all that a waiting request is expected to come to, beside what the
 * running ones are, at any time until they have ended. With nothing that runs, there are. */
bool batch_pages_admit(const struct dgl_batch *b, const struct batch_request *r);
/* Whether the next page of a prompt is about to be evaluated for an older request: then it is not
 * evaluated twice. */
bool batch_pages_waits(const struct batch_request *r);
/* Before work is queued that needs room for `tokens` positions of the request's sequence, or fewer
 * where it ends before: pages are there, or given up by the youngest requests that run, which then
 * wait at their old places and evaluate their tokens again. False: the request itself is the
 * youngest, and waits. */
bool batch_pages_make_room(struct batch_request *r, int32_t tokens);
/* An answer has ended: the next ones are expected to be rather like it. */
void batch_pages_learn(const struct batch_request *r);
/* A lane's request has ended, or waits: its tokens and pages are given back. */
void batch_pages_give(struct batch_lane *lane);

#endif
