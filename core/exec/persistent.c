/* Implements persistent.h with the phase executor. */
#include "core/exec/persistent.h"

#include "core/exec/phases.h"
#include "kernels/phase_control.h"

/* Work groups of the poll, more than any device runs at once. */
#define LAUNCH 4096

static enum dgl_status check(struct exec *exec, struct recipe recipe, const struct memory *memory,
                             char reason[PERSISTENT_REASON], char key[65])
{
    struct dgl_buf text = {0};
    enum dgl_status status = exec_phases_check(exec, recipe, memory, reason, &text);
    key[0] = '\0';
    if (status == DGL_OK && text.failed)
        status = dgl_fail_memory(exec->log, "program of phases", text.len);
    if (status == DGL_OK && !gl_program_key(exec_phases_device(exec)->gl, text.p, text.len, key))
        key[0] = '\0';
    dgl_buf_finish(&text);
    return status;
}

static enum dgl_status probe(struct exec_run *run, struct residency *out)
{
    return residency_probe(exec_phases_device(run->exec),
                           &(struct residency_params){.record = exec_phases_record(run),
                                                      .control = exec_phases_control(run),
                                                      .launch = LAUNCH},
                           out);
}

static enum dgl_status clear(struct exec_run *run)
{
    const struct dgl_phase_control zero = {0};
    const struct gl_range control = exec_phases_control(run);
    return gl_buffer_write(exec_phases_device(run->exec)->gl, control.buffer, control.offset, &zero,
                           sizeof(zero));
}

enum dgl_status persistent_create(struct dgl_device *dev, const struct plan *plan, bool finishes,
                                  struct persistent *out)
{
    static const struct persistent_ops ops = {.check = check,
                                              .begin = exec_phases_begin,
                                              .is_ready = exec_phases_is_ready,
                                              .probe = probe,
                                              .set_groups = exec_phases_set_groups,
                                              .clear = clear};
    const struct exec_phases_params params = {
        .groups = 1, .max_spins = RESIDENCY_MAX_SPINS, .finishes = finishes};
    out->ops = &ops;
    out->aside = gl_has_compiler_threads(dev->gl);
    return exec_phases_create(dev, plan, &params, &out->exec);
}
