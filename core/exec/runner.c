/* Making and queueing the runs of one state. */
#include "core/exec/runner.h"

#include "core/base/clock.h"

void runner_clear(struct runner *r)
{
    exec_cache_clear(&r->runs->dispatch);
    exec_cache_clear(&r->runs->persistent);
}

enum dgl_status runner_run(struct runner *r, struct recipe recipe, struct exec_run **out)
{
    return exec_cache_get(&r->runs->dispatch, (*r->engine)->exec, recipe, r->memory, out);
}

enum dgl_status runner_queue(struct runner *r, struct exec_run *run, uint32_t steps,
                             enum dgl_phase phase)
{
    struct dgl_device *dev = r->dev;
    uint64_t start_ns = dev->trace ? dgl_now_ns() : 0;
    exec_run_move(run, r->memory);
    enum dgl_status status = exec_run_submit(run, steps, NULL);
    if (dev->trace)
        device_tell(dev, &(struct dgl_event){.kind = DGL_EVENT_RECORD,
                                             .phase = phase,
                                             .name = "record",
                                             .kernel = "",
                                             .start_ns = start_ns,
                                             .duration_ns = dgl_now_ns() - start_ns});
    return status;
}

enum dgl_status runner_submit(struct runner *r, struct exec_run *run, enum dgl_phase phase,
                              int32_t held)
{
    const struct profile_pass pass = {.phase = phase, .sequences = 1, .held = held};
    const bool added = r->profile && !(r->profile->decoding_only && phase == DGL_PHASE_PREFILL);
    return added ? profile_run(r->profile, run, &pass, NULL) : runner_queue(r, run, 1, phase);
}

enum dgl_status runner_write_args(struct runner *r, const struct exec_run *run)
{
    const struct gl_range args = r->memory->state[BUF_ARGS];
    return shapes_have(&run->recipe.shapes, PASS_EARLY_EXIT)
               ? gl_buffer_write(r->dev->gl, args.buffer, args.offset, run->groups, run->count * 12)
               : DGL_OK;
}

/* Timers slow down the step, so every second step runs without timers. Its GPU time is the time for
 * which the host waits for the device. That requires a device with timers to compare with, which
 * does not compute while the host records. */
enum dgl_status runner_profile_step(struct runner *r, struct exec_run *const *runs, int32_t count,
                                    const struct profile_pass *pass, struct dgl_profile_step *step,
                                    uint64_t *done_ns)
{
    struct dgl_device *dev = r->dev;
    const bool timer = dev->plan.limits.timer;
    uint64_t start_ns = dgl_now_ns(), recorded_ns = start_ns, gpu_ns = 0;
    enum dgl_status status = DGL_OK;
    *step = (struct dgl_profile_step){.timed = timer && r->profile->sums.num_steps % 2 == 0};
    for (int32_t i = 0; i < count; i++)
        TRY(step->timed ? profile_run(r->profile, runs[i], pass, &gpu_ns)
                        : runner_queue(r, runs[i], 1, pass->phase));
    if (!step->timed) {
        recorded_ns = dgl_now_ns();
        TRY(gl_finish(dev->gl));
    }
    *done_ns = dgl_now_ns();
    if (step->timed)
        recorded_ns = *done_ns - gpu_ns > start_ns ? *done_ns - gpu_ns : start_ns;
    for (int32_t i = 0; i < count && !timer; i++)
        TRY(profile_add(r->profile, runs[i], pass, NULL));
    if (!step->timed && dev->info.software)
        recorded_ns = *done_ns;
    else if (!timer) /* the host's wait for the device is part of the readback */
        *done_ns = recorded_ns;
    step->record_ns = recorded_ns - start_ns;
    step->gpu_ns = *done_ns - recorded_ns;
done:
    return status;
}
