/* Tokens of a prefill pass by the time that passes take on this device, so that no dispatch keeps
 * it for much longer than 100 ms: graphics watchdogs reset a device after 640 ms (i915) to 10 s
 * (amdgpu), and a display on it stands still as long. Tokens are the same however a prompt is cut,
 * logits within rounding. Host arithmetic only. */
#ifndef DGL_CORE_PACE_H
#define DGL_CORE_PACE_H

#include "core/plan/plan.h"

/* The longest that a dispatch may take. */
#define PACE_BUDGET_NS 100000000ull

/* The last pass that was timed. */
struct pace {
    int32_t tokens;    /* 0 = none was yet */
    int32_t held;      /* tokens of the sequence after it, at least PACE_HELD */
    uint64_t layer_ns; /* one layer of it, which has several dispatches */
    uint64_t head_ns;  /* the head's largest dispatch for one token, estimated; 0 = unknown */
    uint32_t losses;   /* of the device: each halves the budget */
};
/* Up to so many tokens attention is a small part of a layer. */
#define PACE_HELD 1024

/* Tokens of the next pass, 1 to `most`, of a sequence that holds `held`; `scores`: with logits of
 * each. Fewer than `most` asks for pace_note() after it. Software renderers have no watchdog. */
int32_t pace_tokens(const struct pace *p, const struct plan *plan, int32_t most, int32_t held,
                    bool scores);
/* Returns how many sequences may decode in one pass: 1 to `most`, and `most` unless the device is
 * slow. */
int32_t pace_sequences(const struct pace *p, const struct plan *plan, int32_t most, int32_t held);
/* Estimates the longest dispatch among `ops` for one token: from timed passes or, before the first
 * one, from the rate that plan_device.c assumes for slow devices. Returns 0 if unknown, that is for
 * a fast device that was not timed yet. */
uint64_t pace_dispatch_ns(const struct pace *p, const struct plan *plan, const struct oplist *ops);
/* Estimates the time of a token, body and head, from the same numbers. */
uint64_t pace_token_ns(const struct pace *p, const struct plan *plan);
/* A pass of `tokens` took `ns`, after which the sequence held `held`. */
void pace_note(struct pace *p, const struct plan *plan, int32_t tokens, int32_t held, uint64_t ns);

#endif
