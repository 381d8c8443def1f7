/* How many tokens of a prompt a step of a batch reads: so few that answers which are being written
 * wait for them no longer than a stated time, by what passes took before. At most one pass is
 * queued behind another, so that a request which comes now waits for two and no more. */
#ifndef DGL_CORE_BATCH_READS_H
#define DGL_CORE_BATCH_READS_H

#include "core/seq/batch.h"

/* dgl_batch_params.hold_ms when nobody says. */
#define BATCH_HOLD_MS     100
#define BATCH_MAX_HOLD_MS 60000
/* A pass over fewer tokens costs as much as one over these. */
#define BATCH_LEAST_READ 16

/* Nobody else writes, who would wait for this prompt, and how it is read does not have to be the
 * same in any company. */
bool batch_reads_alone(const struct dgl_batch *b);
/* Tokens of the next pass over a prompt, at most `most`. */
int32_t batch_reads_tokens(const struct dgl_batch *b, int32_t most);
/* Before a pass is queued, and behind it; waits for the one before. */
void batch_reads_begin(struct dgl_batch *b);
enum dgl_status batch_reads_queued(struct dgl_batch *b, int32_t tokens);
/* At the beginning of a step: does not wait. */
void batch_reads_look(struct dgl_batch *b);
/* Waits for the pass that is queued, if there is one. */
enum dgl_status batch_reads_end(struct dgl_batch *b);
/* Something that was queued before the pass has been waited for: it begins now at the earliest. */
void batch_reads_seen(struct dgl_batch *b);
/* The device was lost, or the batch ends. */
void batch_reads_drop(struct dgl_batch *b);

#endif
