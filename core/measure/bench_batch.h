/* Timing of sequences that decode together: a batch, and windows of steps that include all of
 * them. */
#ifndef DGL_CORE_BENCH_BATCH_H
#define DGL_CORE_BENCH_BATCH_H

#include "core/seq/session.h"

struct bench_batch;

/* A window of steps, each of which decodes all sequences. */
struct bench_batch_run {
    uint64_t tokens, ns;          /* of all sequences */
    struct dgl_counters counters; /* of the device */
    uint64_t submits_before;      /* of the repetition, before the window */
    double *step_ms;  /* [num_steps]: time of a step divided by its tokens per sequence */
    size_t num_steps; /* at most one per requested token */
    int32_t *ids;     /* [num_ids], of the first sequence */
    size_t num_ids;
    char *text; /* their text; free() */
};

/* Creates params->batch sequences of the model of `session`. Each decodes params->decode_tokens
 * after params->depth tokens. Borrows the session, whose cancel flag applies. The caller must have
 * entered the device for all functions of this file. */
enum dgl_status bench_batch_create(struct dgl_session *session,
                                   const struct dgl_bench_params *params, struct bench_batch **out);
void bench_batch_destroy(struct bench_batch **batch);
/* Returns true if one pass serves several sequences, false if each decodes alone. */
bool bench_batch_shares_passes(const struct bench_batch *batch);
/* Describes the executor of these passes. Requires passes over several sequences. */
void bench_batch_executor(const struct bench_batch *batch, struct dgl_executor_info *out);
/* Runs one repetition. *run is always initialised; the caller must call bench_batch_run_finish().
 * Returns DGL_ERR_CANCELLED without a log line. */
enum dgl_status bench_batch_run(struct bench_batch *batch, struct bench_batch_run *run);
void bench_batch_run_finish(struct bench_batch_run *run);
/* Runs a repetition of `tokens` tokens per sequence and adds it to the profile, without timing it.
 * Requires passes over several sequences. */
enum dgl_status bench_batch_profile(struct bench_batch *batch, struct profile *profile,
                                    int32_t tokens);

#endif
