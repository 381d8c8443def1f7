/*
 * phase_control.h: the first words of the SSBO CONTROL, through which the host and a program of
 * phases control one dispatch. Shared by C and GLSL, like kernels/step.h.
 *
 * arrived    number of arrivals at device barriers; bit 30: the dispatch is aborted. The host
 *            zeroes it before each dispatch, or before the first of several that continue to count
 * steps      tokens of the dispatch
 * mode       enum dgl_phase_mode
 * max_spins  reads of `arrived` after which a work group gives up a barrier
 * aborted    1 after a barrier was given up: every later dispatch exits at once, until the host
 *            zeroes this word
 * joined     for DGL_PHASE_COUNT: arrivals; bit 31: the poll is closed
 * resident   for DGL_PHASE_COUNT: groups that had arrived when the poll closed
 * errors     for DGL_PHASE_TEST: words that differ from the value that another group wrote
 */
#ifndef DGL_KERNELS_PHASE_CONTROL_H
#define DGL_KERNELS_PHASE_CONTROL_H

#include <stdint.h>

/* clang-format off */
#define DGL_PHASE_CONTROL_FIELDS(X) \
    X(arrived)                      \
    X(steps)                        \
    X(mode)                         \
    X(max_spins)                    \
    X(aborted)                      \
    X(joined)                       \
    X(resident)                     \
    X(errors)
/* clang-format on */

struct dgl_phase_control {
#define X(name) uint32_t name;
    DGL_PHASE_CONTROL_FIELDS(X)
#undef X
};

enum dgl_phase_mode {
    DGL_PHASE_RUN,
    DGL_PHASE_COUNT, /* counts the groups that run at the same time */
    DGL_PHASE_TEST,  /* tests barriers between the groups, and the visibility of their writes */
};

/* Floats of scratch that DGL_PHASE_TEST writes, and its number of rounds with two barriers each. */
#define DGL_PHASE_TEST_FLOATS 1024
#define DGL_PHASE_TEST_ROUNDS 500

/* Mark that an aborted dispatch writes to IDS at the positions of its tokens. It is not a valid
 * token of any model. */
#define DGL_PHASE_ABORTED_ID 0xfffffffeu

#endif
