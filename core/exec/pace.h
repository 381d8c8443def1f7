/* Chooses the tokens of a prefill pass from the times of earlier passes on this device, so that no
 * dispatch takes much longer than 100 ms. Graphics watchdogs reset a device after 640 ms (i915) to
 * 10 s (amdgpu), and a display on the device is frozen during a dispatch. The division of a prompt
 * into passes changes no token, and logits only within rounding. Host arithmetic only. */
#ifndef DGL_CORE_PACE_H
#define DGL_CORE_PACE_H

#include "core/plan/plan.h"

/* Time limit of a dispatch. Calls can be cancelled between two dispatches. Passes of a prompt may
 * delay the answers of a batch by the same time, if the caller sets none. */
#define PACE_BUDGET_NS 100000000ull
/* Time limit of queued steps of several sequences. A new prompt has to wait for them. */
#define PACE_QUEUED_NS (PACE_BUDGET_NS / 10)

/* Estimates the time of a pass by a pass that was timed. */
struct pace_estimate {
    int32_t tokens; /* 0 if no pass was timed yet */
    uint64_t ns;
};
/* Returns the tokens of a pass that takes at most `limit_ns`: `most`, or a power of two times
 * `least`, at least `least`. */
int32_t pace_fit(const struct pace_estimate *e, double limit_ns, int32_t least, int32_t most);
/* Notes that a pass of `tokens` took `ns`, or at most `ns` if `exact` is false. A pass that took
 * longer per token is ignored if it is shorter, such as the last pass of a prompt, unless it
 * exceeded the limit. Returns false if the pass is ignored. */
bool pace_estimate_note(struct pace_estimate *e, int32_t tokens, uint64_t ns, uint64_t limit_ns,
                        bool exact);
/* Returns how many steps of `step_ns` take at most `limit_ns`: 1 to `most`. step_ns = 0 means that
 * the time is unknown: the result is `most`. */
int32_t pace_steps(uint64_t step_ns, uint64_t limit_ns, int32_t most);

/* State of a model on a device. */
struct pace {
    struct pace_estimate layer; /* times of one layer, which has several dispatches */
    int32_t held;               /* tokens of the sequence after the timed pass, >= PACE_HELD */
    uint64_t head_ns; /* estimate for the head's largest dispatch with one token; 0 if unknown */
    uint32_t losses;  /* losses of the device; each halves the budget */
};
/* Up to this many tokens, attention is a small part of a layer. */
#define PACE_HELD 1024

/* Returns the tokens of the next pass, 1 to `most`, of a sequence with `held` tokens. `scores`: the
 * pass computes the logits of each token. If the result is less than `most`, the caller times the
 * pass and calls pace_note(). On software renderers the result is `most`: they have no watchdog. */
int32_t pace_tokens(const struct pace *p, const struct plan *plan, int32_t most, int32_t held,
                    bool scores);
/* Returns how many sequences may decode in one pass: 1 to `most`, and `most` unless the device is
 * slow. */
int32_t pace_sequences(const struct pace *p, const struct plan *plan, int32_t most, int32_t held);
/* Estimates the time of one token, layers and head. Uses the timed passes, or before the first one,
 * the rate that plan_device.c assumes for slow devices. Returns 0 for a fast device that was not
 * timed yet. */
uint64_t pace_token_ns(const struct pace *p, const struct plan *plan);
/* Notes that a pass of `tokens` took `ns`, and that the sequence has `held` tokens after it. */
void pace_note(struct pace *p, const struct plan *plan, int32_t tokens, int32_t held, uint64_t ns);

#endif
