/* Size of the prompt passes in a batch. A pass is kept short enough that answers wait for it no
 * longer than a given time. The estimate uses the times of earlier passes. A second pass may be
 * queued while one runs, but no third, so a new request waits for two passes at most. */
#ifndef DGL_CORE_PREFILL_PACING_H
#define DGL_CORE_PREFILL_PACING_H

#include "core/seq/batch.h"

#define BATCH_MAX_HOLD_MS 60000
/* A shorter pass costs as much as one over this many tokens. */
#define PREFILL_LEAST 16

/* Returns true if no answer is in progress, so that no answer waits for a pass over a prompt.
 * Returns false if the passes may not depend on other requests (hold_ns is 0). */
bool prefill_alone(const struct dgl_batch *b);
/* Returns the size of the next pass over a prompt, at most `most` tokens. */
int32_t prefill_tokens(const struct dgl_batch *b, int32_t most);
/* Call it after queueing a pass. Waits for the previous pass. `begun_ns` is the device_work_ns()
 * before the pass was queued. */
enum dgl_status prefill_queued(struct dgl_batch *b, int32_t tokens, uint64_t begun_ns);
/* Notes the time of a finished pass. Does not wait. Called at the beginning of a step. */
void prefill_look(struct dgl_batch *b);
/* Waits for the queued pass, if any. */
enum dgl_status prefill_wait(struct dgl_batch *b);
/* Call it after the host has waited for work that was queued before the pass. Notes that the pass
 * begins no earlier than now. */
void prefill_seen(struct dgl_batch *b);
/* Forgets the queued pass, because the device was lost or the batch ends. */
void prefill_drop(struct dgl_batch *b);

#endif
