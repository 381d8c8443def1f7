/* Sampling as operations (docs/operations.md, sample_*). */
#ifndef DGL_CORE_OPLIST_SAMPLE_H
#define DGL_CORE_OPLIST_SAMPLE_H

#include "core/plan/oplist.h"

/* The list of sampling operations that serves the parameters (docs/operations.md). */
enum sample_kind { SAMPLE_GREEDY, SAMPLE_TOPK, SAMPLE_FULL, SAMPLE_KINDS };
/* Operations that change the logits before; bits. */
enum sample_changes { SAMPLE_ADJUSTS = 1, SAMPLE_FILTERS = 2, SAMPLE_MASKS = 4 };
#define SAMPLE_CHANGES 8 /* combinations */

/* Layout of ADJUST in 32-bit words (docs/operations.md). The marks, two bits per id, are followed
 * by the sequences of several ids that break repeats. */
enum {
    ADJUST_NUM_BIASES,
    ADJUST_PRESENCE,
    ADJUST_FREQUENCY,
    ADJUST_DRY_LAST_N,
    ADJUST_DRY_ALLOWED,
    ADJUST_DRY_LENGTHS,
    ADJUST_SEQUENCE_WORDS,
    ADJUST_FILTERS, /* 1 if the words of filters apply */
    ADJUST_MASKED,  /* 1 if the mask applies */
    ADJUST_BIASES = 10,
    ADJUST_DRY = ADJUST_BIASES + 2 * DGL_LOGIT_BIAS_MAX,
    ADJUST_MAX_DRY_LENGTHS = 1024,
    ADJUST_MARKS = ADJUST_DRY + ADJUST_MAX_DRY_LENGTHS,
    ADJUST_MAX_SEQUENCE_WORDS = 2048,
    ADJUST_MAX_TAIL = 20, /* ids after the first of a sequence */
};
/* Words of the filters, at oplist_filters_at(). */
enum {
    FILTER_BAN_UNTIL,
    FILTER_NUM_BANS,
    FILTER_XTC_THRESHOLD,
    FILTER_STAGES = 4, /* parameters of the stages, in this order; 0 means off */
    FILTER_SIGMA = FILTER_STAGES,
    FILTER_TOP_K,
    FILTER_TYPICAL,
    FILTER_TOP_P,
    FILTER_MIN_P,
    FILTER_XTC,
    FILTER_BEST,
    FILTER_BANS = 16,
    FILTER_MAX_BANS = 240,
    FILTER_WORDS = FILTER_BANS + FILTER_MAX_BANS,
};
/* Return the first word of the sequences, the filters, and the mask, in ADJUST. */
uint32_t oplist_sequences_at(uint32_t vocab);
uint32_t oplist_filters_at(uint32_t vocab);
uint32_t oplist_mask_at(uint32_t vocab);
/* Returns the size of a mask, a bit per id, in 32-bit words. */
uint32_t oplist_mask_words(uint32_t vocab);
/* Returns the size of ADJUST for a vocabulary, in 32-bit words. */
uint32_t oplist_adjust_words(uint32_t vocab);

/* Returns the size of CAND for a vocabulary, in bytes. */
uint64_t oplist_sample_scratch_bytes(uint32_t vocab);

/* Adds biases, penalties and DRY to LOGITS, with the values in ADJUST and in each row's step. */
void oplist_adjust(struct oplist *list, const struct oplist_params *p);
/* Drops tokens from LOGITS, by the mask in ADJUST. */
void oplist_mask(struct oplist *list, const struct oplist_params *p);
/* Drops tokens from LOGITS, by the filters in ADJUST. */
void oplist_filter(struct oplist *list, const struct oplist_params *p);
/* Samples from LOGITS to IDS and STEP. Returns true if it is one operation, which also does the
 * work of oplist_early_exit(). */
bool oplist_sample(struct oplist *list, const struct oplist_params *p, enum sample_kind kind);
/* Ends a batch of steps if the sequence has stopped: zeroes the group counts in ARGS. */
void oplist_early_exit(struct oplist *list);

#endif
