/* Whether the work groups of a program may wait for each other: how many run side by side, and
 * whether barriers hold among them and writes are seen. Asked of the program itself
 * (kernels/lib/phase/device_barrier.glsl). */
#ifndef DGL_CORE_RESIDENCY_H
#define DGL_CORE_RESIDENCY_H

#include "core/memory/device.h"

/* Looks at the counter of a barrier after which a dispatch is given up: 28 ms at 0.37 us each (one
 * NVIDIA H200, driver 580). A phase of the largest models takes less than 2 ms. */
#define RESIDENCY_MAX_SPINS 75000

struct residency_params {
    const struct gl_dispatch *record; /* of the program; `groups` is not looked at */
    struct gl_range control;          /* struct dgl_phase_control, bound to it */
    uint32_t launch;                  /* groups that take part in the poll */
};
struct residency {
    uint32_t groups;     /* that may wait for each other; 0 = none */
    uint64_t barrier_ns; /* one barrier among them, with 4 KiB exchanged at every other one */
    char reason[160];    /* why none */
};
/* Waits for the device: some milliseconds. Leaves the control words zeroed. */
enum dgl_status residency_probe(struct dgl_device *dev, const struct residency_params *params,
                                struct residency *out);

#endif
