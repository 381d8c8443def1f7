/* Measures how many work groups of a program are resident at once, and checks if barriers between
 * them work and make their writes visible. Only then may these groups wait for each other. The test
 * runs the program itself (kernels/lib/phase/device_barrier.glsl). */
#ifndef DGL_CORE_RESIDENCY_H
#define DGL_CORE_RESIDENCY_H

#include "core/memory/device.h"

/* Polls of a barrier before a dispatch aborts: 28 ms at 0.37 us per poll (one NVIDIA H200, driver
 * 580). A phase of the largest models takes less than 2 ms. */
#define RESIDENCY_MAX_SPINS 75000

struct residency_params {
    const struct gl_dispatch *record; /* dispatch of the program; `groups` is ignored */
    struct gl_range control;          /* struct dgl_phase_control, which the dispatch binds */
    uint32_t launch;                  /* groups that take part in the poll */
};
struct residency {
    uint32_t groups; /* work groups that may wait for each other, or 0 */
    /* time of one barrier among them; 4 KiB are exchanged at every second barrier */
    uint64_t barrier_ns;
    char reason[160]; /* reason if groups is 0 */
};
/* Waits for the device, for some milliseconds. Leaves the control words zeroed. */
enum dgl_status residency_probe(struct dgl_device *dev, const struct residency_params *params,
                                struct residency *out);

#endif
