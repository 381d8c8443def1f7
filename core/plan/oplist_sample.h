/* Sampling as operations (docs/operations.md, sample_*). */
#ifndef DGL_CORE_OPLIST_SAMPLE_H
#define DGL_CORE_OPLIST_SAMPLE_H

#include "core/plan/oplist.h"

/* Which list of sampling operations serves the parameters (docs/operations.md). */
enum sample_kind { SAMPLE_GREEDY, SAMPLE_TOPK, SAMPLE_FULL, SAMPLE_KINDS };

/* Size of CAND for a vocabulary, bytes. */
uint64_t oplist_sample_scratch_bytes(uint32_t vocab);

/* The repetition penalty on LOGITS; comes before sampling when one is in force. */
void oplist_penalty(struct oplist *list, const struct oplist_params *p);
/* From LOGITS to IDS and STEP. */
void oplist_sample(struct oplist *list, const struct oplist_params *p, enum sample_kind kind);
/* Ends a batch of steps once the sequence has stopped: zeroes the group counts in ARGS. */
void oplist_early_exit(struct oplist *list);

#endif
