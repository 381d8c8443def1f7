/* Sampling as operations (docs/operations.md, sample_*). */
#ifndef DGL_CORE_OPLIST_SAMPLE_H
#define DGL_CORE_OPLIST_SAMPLE_H

#include "core/plan/oplist.h"
#include "core/seq/sampling.h"

/* The repetition penalty on LOGITS; comes before sampling when one is in force. */
void oplist_penalty(struct oplist *list, const struct oplist_params *p);
/* From LOGITS to IDS and STEP. */
void oplist_sample(struct oplist *list, const struct oplist_params *p, enum sample_kind kind);
/* Makes the rest of a run of several steps idle once one has stopped: zeroes the group counts in
 * ARGS. */
void oplist_idle(struct oplist *list);

#endif
