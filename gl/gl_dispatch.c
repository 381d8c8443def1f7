/* Submits prepared dispatches: sets changed bindings, and issues barriers and dispatch calls. */
#include <assert.h>

#include "core/base/clock.h"
#include "gl/gl_internal.h"

#define ALL_BITS                                                                                   \
    (GL_SHADER_STORAGE_BARRIER_BIT | GL_UNIFORM_BARRIER_BIT | GL_COMMAND_BARRIER_BIT |             \
     GL_BUFFER_UPDATE_BARRIER_BIT)

static void bind_range(GLenum target, GLuint index, struct gl_binding *bound,
                       const struct gl_range *range)
{
    GLuint id = range->buffer->id;

    if (bound->id == id && bound->offset == range->offset && bound->size == range->size)
        return;
    glBindBufferRange(target, index, id, (GLintptr)range->offset, (GLsizeiptr)range->size);
    *bound = (struct gl_binding){id, range->offset, range->size};
}

/* Issues one dispatch. Derived barriers (`rec->barrier`) order the dispatches of one list. Pending
 * barriers order the list after earlier lists. */
static void issue(struct gl_device *dev, const struct gl_dispatch *rec)
{
    struct gl_bound *bound = &dev->bound;
    uint32_t uses = GL_SHADER_STORAGE_BARRIER_BIT;

    if (rec->num_uniform)
        uses |= GL_UNIFORM_BARRIER_BIT;
    if (rec->indirect.buffer)
        uses |= GL_COMMAND_BARRIER_BIT;
    uint32_t bits = rec->barrier | (uses & dev->pending_barriers);
    if (bits) {
        glMemoryBarrier(bits);
        dev->pending_barriers &= ~bits;
        dev->counters.barriers++;
    }
    if (bound->program != rec->program->id) {
        glUseProgram(rec->program->id);
        bound->program = rec->program->id;
    }
    for (GLuint i = 0; i < rec->num_storage; i++)
        if (rec->storage[i].buffer)
            bind_range(GL_SHADER_STORAGE_BUFFER, i, &bound->storage[i], &rec->storage[i]);
    for (GLuint i = 0; i < rec->num_uniform; i++)
        if (rec->uniform[i].buffer)
            bind_range(GL_UNIFORM_BUFFER, i, &bound->uniform[i], &rec->uniform[i]);
    if (!rec->indirect.buffer) {
        glDispatchCompute(rec->groups[0], rec->groups[1], rec->groups[2]);
        return;
    }
    if (bound->indirect != rec->indirect.buffer->id) {
        bound->indirect = rec->indirect.buffer->id;
        glBindBuffer(GL_DISPATCH_INDIRECT_BUFFER, bound->indirect);
    }
    glDispatchComputeIndirect((GLintptr)rec->indirect.offset);
}

/* ---- checks of a debug device ---------------------------------------------------------------- */

/* Requirements of the device on one kind of binding. */
struct bind_rule {
    const char *kind;
    uint64_t align, max;
};

static enum dgl_status check_range(const struct gl_device *dev, const struct gl_dispatch *rec,
                                   const struct bind_rule *rule, int index,
                                   const struct gl_range *range)
{
    if (!range->buffer || (range->offset % rule->align == 0 && range->size > 0 &&
                           range->size <= rule->max && range->offset <= range->buffer->size &&
                           range->size <= range->buffer->size - range->offset))
        return DGL_OK;
    return dgl_fail(
        dev->log, DGL_ERR_INVALID_ARG,
        "dispatch of %s: %s %d is %llu bytes at %llu of buffer %s of %llu bytes; the device "
        "requires offsets that are multiples of %llu, and at most %llu bytes",
        rec->program->label, rule->kind, index, (unsigned long long)range->size,
        (unsigned long long)range->offset, range->buffer->label,
        (unsigned long long)range->buffer->size, (unsigned long long)rule->align,
        (unsigned long long)rule->max);
}

/* Checks a record, then issues it in a debug group of its own and asks for errors. */
static enum dgl_status issue_debug(struct gl_device *dev, const struct gl_dispatch *rec)
{
    const struct dgl_limits *lim = &dev->caps.limits;
    const struct bind_rule storage = {"storage", lim->ssbo_align, lim->max_ssbo_bytes};
    const struct bind_rule uniform = {"uniform", lim->ubo_align, lim->max_ubo_bytes};
    const struct bind_rule indirect = {"indirect", 4, UINT64_MAX};
    enum dgl_status status;

    for (int i = 0; i < rec->num_storage; i++)
        TRY(check_range(dev, rec, &storage, i, &rec->storage[i]));
    for (int i = 0; i < rec->num_uniform; i++)
        TRY(check_range(dev, rec, &uniform, i, &rec->uniform[i]));
    TRY(check_range(dev, rec, &indirect, 0, &rec->indirect));
    for (int i = 0; i < 3; i++)
        if (rec->groups[i] > lim->max_groups[i])
            return dgl_fail(dev->log, DGL_ERR_INVALID_ARG,
                            "dispatch of %s: %u groups in dimension %d, at most %u are possible",
                            rec->program->label, rec->groups[i], i, lim->max_groups[i]);
    if (dev->ext.debug)
        dev->ext.PushDebugGroup(GL_DEBUG_SOURCE_APPLICATION_KHR, 0, -1, rec->program->label);
    issue(dev, rec);
    status = gl_errors_check(dev, rec->program->label);
    if (dev->ext.debug)
        dev->ext.PopDebugGroup();
done:
    return status;
}

/* ---- submit ---------------------------------------------------------------------------------- */

static enum dgl_status issue_list(struct gl_device *dev, const struct gl_dispatch *list,
                                  size_t count)
{
    enum dgl_status status = DGL_OK;

    for (size_t i = 0; i < count && status == DGL_OK; i++) {
        if (gl_is_stopped(dev)) /* checked each time: llvmpipe computes a dispatch before the call
                                 * returns */
            return DGL_ERR_CANCELLED;
        if (dev->debug)
            status = issue_debug(dev, &list[i]);
        else
            issue(dev, &list[i]);
        dev->counters.dispatches++;
        dev->in_flight.unfenced++;
    }
    return status;
}

static enum dgl_status issue_timed(struct gl_device *dev, const struct gl_dispatch *list,
                                   size_t count, uint64_t *gpu_ns)
{
    enum dgl_status status = DGL_OK;

    for (size_t done = 0; done < count && status == DGL_OK;) {
        size_t batch = count - done < GL_TIMER_BATCH ? count - done : GL_TIMER_BATCH;
        gl_timer_begin(dev);
        for (size_t i = 0; i < batch && status == DGL_OK; i++) {
            gl_timer_stamp(dev, i);
            status = issue_list(dev, &list[done + i], 1);
        }
        gl_timer_stamp(dev, batch);
        if (status == DGL_OK)
            status = gl_timer_collect(dev, batch, gpu_ns + done);
        done += batch;
    }
    return status;
}

/* Rounds of a measurement. The shortest counts, because disturbances only add time. */
#define COST_ROUNDS 6

enum dgl_status gl_timer_cost(struct gl_device *dev, const struct gl_dispatch *list, size_t count,
                              uint64_t *ns)
{
    uint64_t each[GL_TIMER_COST_MAX], timed = UINT64_MAX, plain = UINT64_MAX;

    assert(count > 0 && count <= GL_TIMER_COST_MAX);
    *ns = 0;
    enum dgl_status status = gl_lost_check(dev);
    for (int round = 0; round < COST_ROUNDS && status == DGL_OK && dev->timer.ready; round++) {
        uint64_t sum = 0, whole = UINT64_MAX;
        status = gl_submit(dev, list, count, each);
        if (status != DGL_OK)
            break;
        gl_timer_begin(dev);
        gl_timer_stamp(dev, 0);
        status = gl_submit(dev, list, count, NULL);
        gl_timer_stamp(dev, 1);
        if (status == DGL_OK)
            status = gl_timer_collect(dev, 1, &whole);
        for (size_t i = 0; i < count && sum != UINT64_MAX; i++)
            sum = each[i] == UINT64_MAX ? UINT64_MAX : sum + each[i];
        timed = sum < timed ? sum : timed;
        plain = whole < plain ? whole : plain;
    }
    if (timed != UINT64_MAX && plain < timed)
        *ns = (timed - plain) / count;
    return status;
}

bool gl_has_timer(const struct gl_device *dev)
{
    return dev->timer.ready;
}

enum dgl_status gl_submit_span(struct gl_device *dev, const struct gl_dispatch *list, size_t count,
                               uint32_t rounds, uint64_t *ns)
{
    *ns = UINT64_MAX;
    enum dgl_status status;
    TRY(gl_finish(dev));
    const uint64_t start = dgl_now_ns();
    gl_timer_begin(dev);
    gl_timer_stamp(dev, 0);
    for (uint32_t i = 0; i < rounds; i++)
        TRY(gl_submit(dev, list, count, NULL));
    gl_timer_stamp(dev, 1);
    if (dev->timer.ready)
        return gl_timer_collect(dev, 1, ns);
    TRY(gl_finish(dev));
    *ns = dgl_now_ns() - start;
done:
    return status;
}

enum dgl_status gl_submit(struct gl_device *dev, const struct gl_dispatch *list, size_t count,
                          uint64_t *gpu_ns)
{
    enum dgl_status status = gl_lost_check(dev);
    if (status != DGL_OK)
        return status;
    status = gpu_ns ? issue_timed(dev, list, count, gpu_ns) : issue_list(dev, list, count);
    if (count > 0)
        dev->pending_barriers = ALL_BITS;
    if (status == DGL_OK && dev->in_flight.unfenced >= GL_FENCE_DISPATCHES)
        status = gl_in_flight_add(dev);
    return status;
}
