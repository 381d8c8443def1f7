/* Probes with dispatches how many work groups are resident at once. */
#include "core/exec/residency.h"

#include <stdio.h>

#include "core/base/clock.h"
#include "kernels/phase_control.h"

/* Polls without a new work group after which the count ends: 2.5 ms on one NVIDIA H200 (driver
 * 580), a hundred times as long as the start of a group takes. During the first run of a program
 * some groups start much later (4 of 132 groups had joined after 0.7 ms). So the largest of several
 * counts is used. A count never includes groups that are not resident at once. */
#define QUIET_SPINS 8000
#define POLLS       3

static enum dgl_status dispatch(struct dgl_device *dev, const struct residency_params *p,
                                uint32_t groups, struct dgl_phase_control *words)
{
    struct gl_dispatch record = *p->record;
    record.groups[0] = groups;
    record.groups[1] = record.groups[2] = 1;
    enum dgl_status status =
        gl_buffer_write(dev->gl, p->control.buffer, p->control.offset, words, sizeof(*words));
    if (status == DGL_OK)
        status = gl_submit(dev->gl, &record, 1, NULL);
    if (status == DGL_OK)
        status =
            gl_buffer_read(dev->gl, p->control.buffer, p->control.offset, words, sizeof(*words));
    return status;
}

enum dgl_status residency_probe(struct dgl_device *dev, const struct residency_params *p,
                                struct residency *out)
{
    const struct dgl_phase_control zero = {0};
    struct dgl_phase_control words;
    uint32_t groups = 0;
    enum dgl_status status = DGL_OK;
    *out = (struct residency){0};
    for (int i = 0; i < POLLS; i++) {
        words = (struct dgl_phase_control){.mode = DGL_PHASE_COUNT, .max_spins = QUIET_SPINS};
        TRY(dispatch(dev, p, p->launch, &words));
        groups = words.resident > groups ? words.resident : groups;
    }
    if (groups == 0)
        snprintf(out->reason, sizeof(out->reason), "none of %u work groups joined the poll",
                 p->launch);
    if (groups > 0) {
        words =
            (struct dgl_phase_control){.mode = DGL_PHASE_TEST, .max_spins = RESIDENCY_MAX_SPINS};
        uint64_t start = dgl_now_ns();
        TRY(dispatch(dev, p, groups, &words));
        out->barrier_ns = (dgl_now_ns() - start) / (2 * DGL_PHASE_TEST_ROUNDS);
    }
    if (groups > 0) {
        if (words.aborted)
            snprintf(out->reason, sizeof(out->reason),
                     "not all of %u work groups arrived at a barrier", groups);
        else if (words.errors)
            snprintf(out->reason, sizeof(out->reason),
                     "%u words written before a barrier were not seen after it", words.errors);
        else
            out->groups = groups;
    }
    TRY(gl_buffer_write(dev->gl, p->control.buffer, p->control.offset, &zero, sizeof(zero)));
done:
    return status;
}
