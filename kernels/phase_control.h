/*
 * phase_control.h: the words through which the host and a program of phases talk about one
 * dispatch, shared by C and GLSL as kernels/step.h is: the first words of the SSBO CONTROL.
 *
 * arrived    arrivals at device barriers so far; bit 30: the dispatch is aborted. Zeroed by the
 *            host before each dispatch, or before the first of several that go on counting
 * steps      tokens of the dispatch
 * mode       enum dgl_phase_mode
 * max_spins  looks at `arrived` after which a work group gives its barrier up
 * aborted    1 since a barrier was given up: every later dispatch leaves at once, until the host
 *            has zeroed this word
 * joined     of DGL_PHASE_COUNT: arrivals; bit 31: the poll is closed
 * resident   of DGL_PHASE_COUNT: groups that had arrived when it closed
 * errors     of DGL_PHASE_TEST: words that were not what another group had written
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
    DGL_PHASE_COUNT, /* how many of the groups run side by side? */
    DGL_PHASE_TEST,  /* do barriers hold among them, and is what they write seen? */
};

/* Floats of scratch that DGL_PHASE_TEST writes, and its rounds, of two barriers each. */
#define DGL_PHASE_TEST_FLOATS 1024
#define DGL_PHASE_TEST_ROUNDS 500

/* What an aborted dispatch leaves in IDS at the positions of its tokens: no token of a model. */
#define DGL_PHASE_ABORTED_ID 0xfffffffeu

#endif
