/* Faults on demand: allocations, buffers, programs and submits that fail, and limits that the
 * device does not have. The linker sends the calls through this file (tests/tests.mk). */
#ifndef DGL_TESTS_GL_FAIL_H
#define DGL_TESTS_GL_FAIL_H

#include <stdbool.h>
#include <stdint.h>

/* Counters of calls that still succeed; the next one fails, once. Negative: all succeed. */
struct gl_fail {
    long allocations;   /* malloc, calloc, realloc and strdup of our own code */
    long buffers;       /* gl_buffer_create(): DGL_ERR_NO_MEMORY */
    long programs;      /* gl_programs_create(): DGL_ERR_KERNEL */
    long submits;       /* gl_submit(): the device is lost */
    long readbacks;     /* gl_readback_end(): DGL_ERR_GPU */
    long cancels;       /* gl_submit(): `session` is cancelled between two dispatches of the list */
    bool tripped;       /* one of them has failed */
    uint64_t allocated; /* number of our own allocations since it was cleared */
    struct dgl_session *session;
    /* Value that gl_device_caps() then reports; 0 = the real one. */
    uint64_t max_ssbo_bytes, max_buffer_bytes;
    /* Budget from gl_device_memory_now(), existing buffers included; 0 leaves it unchanged. */
    uint64_t memory_free_bytes;
    bool memory_unknown; /* gl_device_memory_now() reports unknown memory */
    /* if not 0, the device appears as hardware with this number of compute units */
    uint32_t gpu_units;
    /* Buffers and bytes that exist, and the most bytes that did since a test cleared it. */
    int64_t live_buffers, live_bytes, peak_bytes;
};
extern struct gl_fail gl_fail;

/* Lets all functions work again. Live objects are still counted. */
void gl_fail_reset(void);
/* The same as the setup of a case. */
int gl_fail_setup(void **state);

#endif
