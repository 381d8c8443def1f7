/* Limits profiles. A profile clamps a device to the limits of a smaller device, so that kernels are
 * chosen, compiled and run as on the smaller device. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/str.h"
#include "gl/gl_internal.h"

/* One profile. The limits are those that the chip's driver reports (Mesa 25.0.7, docs/devices.md).
 * max_buffer_bytes is not clamped. */
struct profile {
    struct dgl_limits_profile info;
    struct dgl_limits limits;
    /* The driver's extensions that gl_ext.c loads, separated by spaces. */
    const char *extensions;
    /* Compute units of the chip. 0 if the profile is not a chip: kernels then are chosen for the
     * open device, which may be a software renderer. */
    uint32_t compute_units;
    uint32_t registers; /* as in gl_registers_guess() */
};

#define MIB (1ull << 20)
/* Limits of all chips. iris allows 2^31 - 2 work groups; a plan never uses so many. */
#define CHIP_LIMITS                                                                                \
    .max_ssbo_bytes = 128 * MIB, .max_ubo_bytes = 65536, .max_groups = {65535, 65535, 65535},      \
    .program_binary = true, .buffer_storage = true
/* Extensions of all chips. */
#define CHIP_EXTENSIONS "GL_KHR_debug GL_EXT_buffer_storage GL_KHR_parallel_shader_compile"
/* Extensions of the drivers that report a reset and have timers. */
#define TIMED_EXTENSIONS                                                                           \
    CHIP_EXTENSIONS " GL_EXT_disjoint_timer_query GL_KHR_robustness GL_EXT_robustness "            \
                    "GL_EXT_memory_object_fd GL_EXT_gpu_shader5"

/* "min" has the minimums of the ES 3.1 specification (3 Nov 2016), tables 20.45 to 20.47, and no
 * extension but GL_KHR_debug, which changes no result. */
static const struct profile profiles[] = {
    {.info = {"min", "the minimums of OpenGL ES 3.1, no extension"},
     .limits = {.max_ssbo_bytes = 128 * MIB,
                .max_ssbo_bindings = 4,
                .ssbo_align = 256,
                .ubo_align = 256,
                .max_ubo_bytes = 16384,
                .max_shared_bytes = 16384,
                .max_invocations = 128,
                .max_local_size = {128, 128, 64},
                .max_groups = {65535, 65535, 65535}},
     .extensions = "GL_KHR_debug"},
    {.info = {"v3d", "VideoCore VI of a Raspberry Pi 4, Mesa's v3d driver"},
     .limits = {CHIP_LIMITS, .max_ssbo_bindings = 16, .ssbo_align = 4, .ubo_align = 256,
                .max_shared_bytes = 32768, .max_invocations = 256,
                .max_local_size = {256, 256, 256}},
     .extensions = CHIP_EXTENSIONS,
     .compute_units = 2,
     .registers = 52},
    {.info = {"mali-g52", "Mali G52, Mesa's panfrost driver"},
     .limits = {CHIP_LIMITS, .max_ssbo_bindings = 8, .ssbo_align = 4, .ubo_align = 16,
                .max_shared_bytes = 32768, .max_invocations = 256,
                .max_local_size = {256, 256, 256}},
     .extensions = CHIP_EXTENSIONS " GL_EXT_gpu_shader5",
     .compute_units = 6,
     .registers = 64},
    {.info = {"adreno-630", "Adreno 630, Mesa's freedreno driver"},
     .limits = {CHIP_LIMITS, .max_ssbo_bindings = 16, .ssbo_align = 64, .ubo_align = 64,
                .max_shared_bytes = 32768, .max_invocations = 1024,
                .max_local_size = {1024, 1024, 64}, .timer = true, .reset_notification = true},
     .extensions = TIMED_EXTENSIONS,
     .compute_units = 2,
     .registers = 96},
    {.info = {"intel-skl", "Intel Skylake GT2, Mesa's iris driver"},
     .limits = {CHIP_LIMITS, .max_ssbo_bindings = 16, .ssbo_align = 4, .ubo_align = 32,
                .max_shared_bytes = 65536, .max_invocations = 1024,
                .max_local_size = {1024, 1024, 1024}, .timer = true, .reset_notification = true},
     .extensions = TIMED_EXTENSIONS,
     .compute_units = 3,
     .registers = 96},
};
#define NUM_PROFILES (sizeof(profiles) / sizeof(profiles[0]))

const struct dgl_limits_profile *gl_limits_at(size_t i)
{
    return i < NUM_PROFILES ? &profiles[i].info : NULL;
}

static const struct profile *find(const char *name)
{
    for (size_t i = 0; i < NUM_PROFILES; i++)
        if (strcmp(profiles[i].info.name, name) == 0)
            return &profiles[i];
    return NULL;
}

enum dgl_status gl_limits_find(const struct dgl_log *log, const char *name, const char **found)
{
    char known[128] = "";
    size_t len = 0;
    const struct profile *p = name ? find(name) : NULL;
    *found = p ? p->info.name : NULL;
    if (!name || p)
        return DGL_OK;
    for (size_t i = 0; i < NUM_PROFILES; i++) {
        int n = snprintf(known + len, sizeof(known) - len, "%s%s", i ? ", " : "",
                         profiles[i].info.name);
        assert(n > 0 && (size_t)n < sizeof(known) - len);
        len += (size_t)n;
    }
    return dgl_fail(log, DGL_ERR_INVALID_ARG, "limits \"%s\": wanted one of %s", name, known);
}

bool gl_limits_keep(const char *name, const char *extension)
{
    return !name || gl_ext_has(find(name)->extensions, extension);
}

/* ---- clamp ----------------------------------------------------------------------------------- */

/* One limit of the device, and that of the profile. */
struct clamp {
    const char *what;
    uint32_t *have;
    uint32_t want;
    bool is_align;
};

void gl_limits_clamp(const struct dgl_log *log, const char *name, struct gl_caps *caps)
{
    const struct profile *p = find(name);
    const struct dgl_limits *want = &p->limits;
    struct dgl_limits *lim = &caps->limits;
    const struct clamp list[] = {
        {"storage buffers", &lim->max_ssbo_bindings, want->max_ssbo_bindings, false},
        {"alignment of storage buffers", &lim->ssbo_align, want->ssbo_align, true},
        {"alignment of uniform buffers", &lim->ubo_align, want->ubo_align, true},
        {"bytes of a uniform buffer", &lim->max_ubo_bytes, want->max_ubo_bytes, false},
        {"bytes of shared memory", &lim->max_shared_bytes, want->max_shared_bytes, false},
        {"invocations of a work group", &lim->max_invocations, want->max_invocations, false},
        {"local size x", &lim->max_local_size[0], want->max_local_size[0], false},
        {"local size y", &lim->max_local_size[1], want->max_local_size[1], false},
        {"local size z", &lim->max_local_size[2], want->max_local_size[2], false},
        {"work groups x", &lim->max_groups[0], want->max_groups[0], false},
        {"work groups y", &lim->max_groups[1], want->max_groups[1], false},
        {"work groups z", &lim->max_groups[2], want->max_groups[2], false},
    };
    struct dgl_buf less = {0};
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
        const struct clamp *c = &list[i];
        if (c->is_align) /* a stricter alignment changes no choice: no notice */
            *c->have = *c->have > c->want ? *c->have : c->want;
        else if (*c->have < c->want)
            dgl_buf_printf(&less, "%s%s %u, not %u", less.len ? "; " : "", c->what, *c->have,
                           c->want);
        else
            *c->have = c->want;
    }
    if (lim->max_ssbo_bytes < want->max_ssbo_bytes)
        dgl_buf_printf(&less, "%sbytes of a storage buffer %llu, not %llu", less.len ? "; " : "",
                       (unsigned long long)lim->max_ssbo_bytes,
                       (unsigned long long)want->max_ssbo_bytes);
    else
        lim->max_ssbo_bytes = want->max_ssbo_bytes;
    lim->program_binary &= want->program_binary;
    lim->reset_notification &= want->reset_notification;
    if (less.len && !less.failed)
        dgl_notice(log, "limits %s: this device has lower limits, which remain in force: %s", name,
                   less.p);
    dgl_buf_finish(&less);
    caps->other_chip = p->compute_units > 0;
    if (caps->other_chip) {
        caps->compute_units = p->compute_units;
        caps->wave_size = 0;
        caps->registers = p->registers;
        snprintf(caps->units_source, sizeof(caps->units_source), "limits %s", name);
    }
}
