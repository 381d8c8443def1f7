/* Limits, capabilities and memory of a context. */
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/str.h"
#include "core/base/thread.h"
#include "gl/gl_internal.h"

/* Limit of buffers and bindings on all devices. llvmpipe has 32-bit offsets and crashes if a
 * binding ends above 2 GiB. */
#define MAX_BUFFER_BYTES ((2ull << 30) - 4096)
#define BLOCK_BYTES_MIN  (128ull << 20) /* minimum of OpenGL ES 3.1 */

/* KHR_shader_subgroup, not in every gl2ext.h */
#define SUBGROUP_SIZE       0x9532
#define SUBGROUP_STAGES     0x9533
#define SUBGROUP_FEATURES   0x9534
#define SUBGROUP_ARITHMETIC 0x04
#define SUBGROUP_SHUFFLE    0x10

static uint32_t get_u32(GLenum name)
{
    GLint value = 0;
    glGetIntegerv(name, &value);
    return value < 0 ? 0 : (uint32_t)value;
}

static void get_u32x3(GLenum name, uint32_t out[3])
{
    for (GLuint i = 0; i < 3; i++) {
        GLint value = 0;
        glGetIntegeri_v(name, i, &value);
        out[i] = value < 0 ? 0 : (uint32_t)value;
    }
}

static void get_text(GLenum name, char *dst, size_t size)
{
    gl_text_copy(dst, size, (const char *)glGetString(name));
}

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* ---- extensions ------------------------------------------------------------------------------ */

static enum dgl_status query_extensions(struct gl_device *dev)
{
    struct dgl_buf list = {0}, kept = {0};
    uint32_t count = get_u32(GL_NUM_EXTENSIONS);
    enum dgl_status status = DGL_OK;

    for (uint32_t i = 0; i < count; i++) {
        const char *word = (const char *)glGetStringi(GL_EXTENSIONS, i);
        if (!word)
            continue;
        dgl_buf_printf(&list, "%s ", word);
        if (gl_limits_keep(dev->limits, word))
            dgl_buf_printf(&kept, "%s ", word);
    }
    if (list.failed || kept.failed) {
        status = dgl_fail_memory(dev->log, "the list of extensions", list.len);
        goto done;
    }
    dgl_debug(dev->log, "extensions: %s", list.p ? list.p : "");
    gl_ext_load(&dev->ext, kept.p ? kept.p : "", eglGetProcAddress);
    /* zink signals a fence too early if a flush directly precedes it. In a test, up to 1118 of 3000
     * copies into a persistently mapped buffer were missing after the wait (Mesa 22.3.6 and 26.2.6
     * on lavapipe, 2026-11-21). Without EXT_buffer_storage each read maps the buffer, and the map
     * waits for the copy. */
    if (strncmp(dev->caps.renderer, "zink", 4) == 0)
        dev->ext.buffer_storage = false;
    /* NVIDIA's GLES driver supports the queries of GL_NVX_gpu_memory_info but does not list the
     * extension (driver 580). */
    if (strncmp(dev->caps.vendor, "NVIDIA", 6) == 0 && !dev->limits) {
        GLint total_kib = 0;
        glGetIntegerv(GL_NVX_TOTAL, &total_kib);
        dev->ext.memory_info |= glGetError() == GL_NO_ERROR && total_kib > 0;
    }
done:
    dgl_buf_finish(&list);
    dgl_buf_finish(&kept);
    return status;
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* KHR_shader_subgroup lets a driver run subgroups that are only partly filled. Kernels require full
 * ones: they compute gl_SubgroupID * SUBGROUP_SIZE + gl_SubgroupInvocationID. Mesa compiles each
 * program for 8, 16 or 32 invocations on Intel, and for 64 or 128 on Adreno, and reports the
 * largest size (docs/driver-bugs.md). */
uint32_t gl_subgroup_size(const char *renderer, uint32_t reported)
{
    static const char *const partly_filled[] = {"Intel", "Adreno", "FD"};

    for (size_t i = 0; i < sizeof(partly_filled) / sizeof(partly_filled[0]); i++)
        if (strstr(renderer, partly_filled[i]))
            return 0;
    return reported;
}

static void query_limits(struct gl_device *dev)
{
    struct gl_caps *caps = &dev->caps;
    struct dgl_limits *lim = &caps->limits;
    GLint timer_bits = 0, strategy = 0;
    GLint64 block = 0;

    glGetInteger64v(GL_MAX_SHADER_STORAGE_BLOCK_SIZE, &block);
    lim->max_buffer_bytes = MAX_BUFFER_BYTES;
    lim->max_ssbo_bytes = block < 0 ? 0 : (uint64_t)block;
    if (lim->max_ssbo_bytes > MAX_BUFFER_BYTES)
        lim->max_ssbo_bytes = MAX_BUFFER_BYTES;
    lim->max_ssbo_bindings = min_u32(get_u32(GL_MAX_COMPUTE_SHADER_STORAGE_BLOCKS),
                                     get_u32(GL_MAX_SHADER_STORAGE_BUFFER_BINDINGS));
    lim->max_ssbo_bindings = min_u32(lim->max_ssbo_bindings, GL_MAX_STORAGE);
    lim->ssbo_align = get_u32(GL_SHADER_STORAGE_BUFFER_OFFSET_ALIGNMENT);
    lim->ubo_align = get_u32(GL_UNIFORM_BUFFER_OFFSET_ALIGNMENT);
    lim->max_ubo_bytes = get_u32(GL_MAX_UNIFORM_BLOCK_SIZE);
    lim->max_shared_bytes = get_u32(GL_MAX_COMPUTE_SHARED_MEMORY_SIZE);
    lim->max_invocations = get_u32(GL_MAX_COMPUTE_WORK_GROUP_INVOCATIONS);
    get_u32x3(GL_MAX_COMPUTE_WORK_GROUP_SIZE, lim->max_local_size);
    get_u32x3(GL_MAX_COMPUTE_WORK_GROUP_COUNT, lim->max_groups);

    if (dev->ext.timer_query)
        dev->ext.GetQueryiv(GL_TIMESTAMP_EXT, GL_QUERY_COUNTER_BITS_EXT, &timer_bits);
    if (dev->ext.robustness)
        glGetIntegerv(GL_RESET_NOTIFICATION_STRATEGY_KHR, &strategy);
    lim->timer = timer_bits > 0;
    lim->reset_notification = strategy == GL_LOSE_CONTEXT_ON_RESET_KHR;
    lim->program_binary = get_u32(GL_NUM_PROGRAM_BINARY_FORMATS) > 0;
    lim->buffer_storage = dev->ext.buffer_storage;
    lim->nv_gpu_shader5 = dev->ext.nv_gpu_shader5;
    if (dev->ext.subgroup && (get_u32(SUBGROUP_STAGES) & GL_COMPUTE_SHADER_BIT)) {
        uint32_t features = get_u32(SUBGROUP_FEATURES), reported = get_u32(SUBGROUP_SIZE);
        lim->subgroup_size = gl_subgroup_size(caps->renderer, reported);
        if (lim->subgroup_size != reported)
            dgl_info(dev->log,
                     "%s: no subgroups: the driver reports subgroups of %u, but compiles "
                     "programs with fewer invocations in each",
                     caps->renderer, reported);
        caps->khr_subgroup_arithmetic = features & SUBGROUP_ARITHMETIC;
        caps->khr_subgroup_shuffle = features & SUBGROUP_SHUFFLE;
    }
}

/* ---- units ----------------------------------------------------------------------------------- */

/* Guesses the compute units from a word in the renderer's name. The counts were published by the
 * vendors (multiprocessors, compute units, cores). The first word that matches is used, so "A100"
 * is before "A10". The number affects how work is split, but no result. */
uint32_t gl_units_guess(const char *renderer, bool software)
{
    static const struct {
        const char *word;
        uint32_t units;
    } table[] = {
        {"P1000", 5},         {"T400", 6},       {"Quadro RTX 6000", 72},
        {"RTX A", 64},        {"RTX 6000", 142}, {"RTX 50", 70},
        {"RTX 40", 60},       {"RTX 30", 46},    {"RTX 20", 40},
        {"GTX 16", 22},       {"GTX 10", 20},    {"B200", 148},
        {"H200", 132},        {"H100", 132},     {"H800", 132},
        {"H20", 78},          {"A100", 108},     {"A800", 108},
        {"A40", 84},          {"A30", 56},       {"A10", 72},
        {"L40", 142},         {"L4", 58},        {"V100", 80},
        {"P100", 56},         {"T4", 40},        {"NVIDIA", 48},
        {"MI300", 304},       {"Radeon RX", 40}, {"AMD", 16},
        {"Intel(R) Arc", 32}, {"V3D", 2},        {"Mali-G", 6},
        {"Mali-T", 4},        {"Adreno", 4},     {"FD", 4}, /* freedreno's names of Adreno */
    };

    if (software)
        return min_u32((uint32_t)dgl_cpu_count(), 32); /* LP_MAX_THREADS of llvmpipe */
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (strstr(renderer, table[i].word))
            return table[i].units;
    return 16;
}

/* Guesses how many 32-bit registers an invocation can use before the driver's compiler spills.
 * Kernels estimate their need in a REGISTERS line. The numbers were measured with Mesa 25.0.7 on
 * drm-shim: each is between the largest estimate that did not spill and the smallest one that did.
 * Intel has 128 registers of 8 lanes, and the compiler needs some of them. AMD has 256. ACO can use
 * nearly all of them. LLVM 15 unrolls loops and starts their loads early, so less is left; on RDNA
 * 3 (navi3x) it has only 128. On Adreno an estimate of 94 fits and one of 128 spills. Mali-T has 8
 * vec4 registers and spills nearly always; its number selects the smallest tiles. NVIDIA's number
 * is the limit of the architecture. It was not measured. */
uint32_t gl_registers_guess(const char *renderer, bool software)
{
    static const struct {
        const char *word, *also; /* the name must contain both; `also` may be NULL */
        uint32_t registers;
    } table[] = {
        {"NVIDIA", NULL, 255}, {"LLVM", "navi3", 68}, {"LLVM", NULL, 93},   {"radeonsi", NULL, 200},
        {"Intel", NULL, 96},   {"V3D", NULL, 52},     {"Mali-T", NULL, 32}, {"Mali-G", NULL, 64},
        {"Adreno", NULL, 96},  {"FD", NULL, 96},
    };

    for (size_t i = 0; !software && i < sizeof(table) / sizeof(table[0]); i++)
        if (strstr(renderer, table[i].word) && (!table[i].also || strstr(renderer, table[i].also)))
            return table[i].registers;
    return 0;
}

enum dgl_status gl_caps_query(struct gl_device *dev)
{
    struct gl_caps *caps = &dev->caps;
    const struct dgl_limits *lim = &caps->limits;

    get_text(GL_VENDOR, caps->vendor, sizeof(caps->vendor));
    get_text(GL_RENDERER, caps->renderer, sizeof(caps->renderer));
    get_text(GL_VERSION, caps->version, sizeof(caps->version));
    enum dgl_status status = query_extensions(dev);
    if (status != DGL_OK)
        return status;
    memcpy(dev->node.renderer, caps->renderer, sizeof(caps->renderer));
    if (!dev->node.driver[0])
        memcpy(dev->node.driver, dev->egl.driver, sizeof(dev->egl.driver));
    memcpy(caps->driver, dev->egl.driver, sizeof(caps->driver));
    caps->software = dev->node.software || gl_renderer_is_software(caps->renderer);
    caps->llvmpipe = strstr(caps->renderer, "llvmpipe") != NULL;
    query_limits(dev);
    caps->ext_gpu_shader5 = dev->ext.gpu_shader5;
    caps->parallel_compile = dev->ext.parallel_compile;
    caps->debug_output = dev->ext.debug;
    gl_memory_open(dev);
    caps->registers = gl_registers_guess(caps->renderer, caps->software);
    if (dev->limits)
        gl_limits_clamp(dev->log, dev->limits, caps);
    /* The layers above rely on the minimums of OpenGL ES 3.1. A driver below them would fail later,
     * with a less clear error. */
    if (lim->max_ssbo_bindings >= 4 && lim->max_invocations >= 128 &&
        lim->max_shared_bytes >= 16384 && lim->max_groups[0] >= 65535 && lim->ssbo_align > 0 &&
        lim->ubo_align > 0 && lim->max_ssbo_bytes >= BLOCK_BYTES_MIN)
        return DGL_OK;
    return dgl_fail(dev->log, DGL_ERR_UNSUPPORTED,
                    "%s: below the minimums of OpenGL ES 3.1: %u storage blocks, %u invocations, "
                    "%u bytes shared, %u groups, blocks of %llu bytes",
                    caps->renderer, lim->max_ssbo_bindings, lim->max_invocations,
                    lim->max_shared_bytes, lim->max_groups[0],
                    (unsigned long long)lim->max_ssbo_bytes);
}
