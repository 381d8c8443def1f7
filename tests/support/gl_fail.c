/* Wrappers that the linker places between the library and the functions that it calls. */
#include "tests/support/gl_fail.h"

#include <stdlib.h>

#include "core/base/status.h"
#include "gl/gl_internal.h"
#include "tests/support/test.h"

struct gl_fail gl_fail = {.allocations = -1,
                          .buffers = -1,
                          .programs = -1,
                          .submits = -1,
                          .readbacks = -1,
                          .cancels = -1};

void gl_fail_reset(void)
{
    int64_t buffers = gl_fail.live_buffers, bytes = gl_fail.live_bytes;
    gl_fail = (struct gl_fail){.allocations = -1,
                               .buffers = -1,
                               .programs = -1,
                               .submits = -1,
                               .readbacks = -1,
                               .cancels = -1,
                               .live_buffers = buffers,
                               .live_bytes = bytes};
}

int gl_fail_setup(void **state)
{
    (void)state;
    gl_fail_reset();
    return 0;
}

__attribute__((constructor)) static void begin_rows_clean(void)
{
    test_row_setup = gl_fail_setup;
}

/* Threads that load weights call it too. */
static bool trips(long *left)
{
    if (__atomic_load_n(left, __ATOMIC_RELAXED) < 0 ||
        __atomic_fetch_sub(left, 1, __ATOMIC_RELAXED) != 0)
        return false;
    gl_fail.tripped = true;
    return true;
}

/* ---- host memory ----------------------------------------------------------------------------- */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    __atomic_fetch_add(&gl_fail.allocated, 1, __ATOMIC_RELAXED);
    return trips(&gl_fail.allocations) ? NULL : __real_malloc(size);
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    __atomic_fetch_add(&gl_fail.allocated, 1, __ATOMIC_RELAXED);
    return trips(&gl_fail.allocations) ? NULL : __real_calloc(count, size);
}

void *__real_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size)
{
    __atomic_fetch_add(&gl_fail.allocated, 1, __ATOMIC_RELAXED);
    return trips(&gl_fail.allocations) ? NULL : __real_realloc(p, size);
}

char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text)
{
    __atomic_fetch_add(&gl_fail.allocated, 1, __ATOMIC_RELAXED);
    return trips(&gl_fail.allocations) ? NULL : __real_strdup(text);
}

/* ---- device ---------------------------------------------------------------------------------- */

const struct gl_caps *__real_gl_device_caps(const struct gl_device *dev);
const struct gl_caps *__wrap_gl_device_caps(const struct gl_device *dev);
const struct gl_caps *__wrap_gl_device_caps(const struct gl_device *dev)
{
    static struct gl_caps caps;
    caps = *__real_gl_device_caps(dev);
    if (gl_fail.max_ssbo_bytes)
        caps.limits.max_ssbo_bytes = gl_fail.max_ssbo_bytes;
    if (gl_fail.max_buffer_bytes)
        caps.limits.max_buffer_bytes = gl_fail.max_buffer_bytes;
    if (gl_fail.gpu_units) {
        caps.software = caps.llvmpipe = false;
        caps.compute_units = gl_fail.gpu_units;
    }
    return &caps;
}

void __real_gl_device_memory_now(struct gl_device *dev, uint64_t held, struct gl_memory_now *out);
void __wrap_gl_device_memory_now(struct gl_device *dev, uint64_t held, struct gl_memory_now *out);
void __wrap_gl_device_memory_now(struct gl_device *dev, uint64_t held, struct gl_memory_now *out)
{
    __real_gl_device_memory_now(dev, held, out);
    if (gl_fail.memory_free_bytes || gl_fail.memory_unknown)
        out->budget_bytes = gl_fail.memory_free_bytes;
}

enum dgl_status __real_gl_buffer_create(struct gl_device *dev,
                                        const struct gl_buffer_params *params,
                                        struct gl_buffer **out);
enum dgl_status __wrap_gl_buffer_create(struct gl_device *dev,
                                        const struct gl_buffer_params *params,
                                        struct gl_buffer **out);
enum dgl_status __wrap_gl_buffer_create(struct gl_device *dev,
                                        const struct gl_buffer_params *params,
                                        struct gl_buffer **out)
{
    *out = NULL;
    if (trips(&gl_fail.buffers))
        return dgl_fail(dev->log, DGL_ERR_NO_MEMORY, "buffer %s: no memory (test)", params->label);
    enum dgl_status status = __real_gl_buffer_create(dev, params, out);
    if (status == DGL_OK) {
        gl_fail.live_buffers++;
        gl_fail.live_bytes += (int64_t)gl_buffer_size(*out);
        if (gl_fail.live_bytes > gl_fail.peak_bytes)
            gl_fail.peak_bytes = gl_fail.live_bytes;
    }
    return status;
}

void __real_gl_buffer_destroy(struct gl_device *dev, struct gl_buffer **buffer);
void __wrap_gl_buffer_destroy(struct gl_device *dev, struct gl_buffer **buffer);
void __wrap_gl_buffer_destroy(struct gl_device *dev, struct gl_buffer **buffer)
{
    if (*buffer) {
        gl_fail.live_buffers--;
        gl_fail.live_bytes -= (int64_t)gl_buffer_size(*buffer);
    }
    __real_gl_buffer_destroy(dev, buffer);
}

enum dgl_status __real_gl_programs_create(struct gl_device *dev,
                                          const struct gl_program_params *params, size_t count,
                                          const struct gl_compile *how, struct gl_program **out);
enum dgl_status __wrap_gl_programs_create(struct gl_device *dev,
                                          const struct gl_program_params *params, size_t count,
                                          const struct gl_compile *how, struct gl_program **out);
enum dgl_status __wrap_gl_programs_create(struct gl_device *dev,
                                          const struct gl_program_params *params, size_t count,
                                          const struct gl_compile *how, struct gl_program **out)
{
    if (!trips(&gl_fail.programs))
        return __real_gl_programs_create(dev, params, count, how, out);
    for (size_t i = 0; i < count; i++)
        out[i] = NULL;
    return dgl_fail(dev->log, DGL_ERR_KERNEL, "%s: does not compile (test)", params[0].label);
}

enum dgl_status __real_gl_submit(struct gl_device *dev, const struct gl_dispatch *list,
                                 size_t count, uint64_t *gpu_ns);
enum dgl_status __wrap_gl_submit(struct gl_device *dev, const struct gl_dispatch *list,
                                 size_t count, uint64_t *gpu_ns);
enum dgl_status __wrap_gl_submit(struct gl_device *dev, const struct gl_dispatch *list,
                                 size_t count, uint64_t *gpu_ns)
{
    if (trips(&gl_fail.submits))
        return gl_lost_set(dev, "the test says so");
    if (!trips(&gl_fail.cancels))
        return __real_gl_submit(dev, list, count, gpu_ns);
    const size_t half = count / 2;
    enum dgl_status status = half > 0 ? __real_gl_submit(dev, list, half, gpu_ns) : DGL_OK;
    dgl_session_cancel(gl_fail.session);
    return status == DGL_OK
               ? __real_gl_submit(dev, list + half, count - half, gpu_ns ? gpu_ns + half : NULL)
               : status;
}

enum dgl_status __real_gl_readback_end(struct gl_device *dev, struct gl_ticket ticket, void *bytes);
enum dgl_status __wrap_gl_readback_end(struct gl_device *dev, struct gl_ticket ticket, void *bytes);
enum dgl_status __wrap_gl_readback_end(struct gl_device *dev, struct gl_ticket ticket, void *bytes)
{
    enum dgl_status status = __real_gl_readback_end(dev, ticket, bytes);
    if (status == DGL_OK && trips(&gl_fail.readbacks))
        return dgl_fail(dev->log, DGL_ERR_GPU, "the readback failed (test)");
    return status;
}
