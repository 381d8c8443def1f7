/* Memory and compute units with kernel drivers that this machine does not have. The linker replaces
 * ioctl() by the tables below; sysfs, proc and cgroups are files in a temporary folder. */
#include "tests/support/test.h"

#include <amdgpu_drm.h>
#include <errno.h>
#include <i915_drm.h>
#include <msm_drm.h>
#include <nouveau_drm.h>
#include <radeon_drm.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include "core/base/host_memory.h"
#include "gl/gl_drm.h"
#include "gl/gl_drm_uapi.h"
#include "gl/gl_internal.h"
#include "tests/support/fake_tree.h"

#define KIB 1024ull
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

/* ---- fake kernel drivers --------------------------------------------------------------------- */

/* Handles one request. Returns 0 or an errno. */
typedef int answer(unsigned long request, void *arg);

static answer *answers; /* handler of the fake driver; NULL refuses every driver-specific request */
static int refusal;     /* errno of unsupported requests */

int __real_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...)
{
    va_list args;
    va_start(args, request);
    void *arg = va_arg(args, void *);
    va_end(args);
    (void)fd;
    errno = answers ? answers(request, arg) : refusal;
    return errno == 0 ? 0 : -1;
}

/* ---- amdgpu */

static struct drm_amdgpu_memory_info amd_memory; /* all zero refuses the query */
static struct drm_amdgpu_info_device amd_device;

static int amdgpu(unsigned long request, void *arg)
{
    const struct drm_amdgpu_info *info = arg;
    const void *from = info->query == AMDGPU_INFO_MEMORY ? (void *)&amd_memory : &amd_device;
    const size_t size = info->query == AMDGPU_INFO_MEMORY ? sizeof(amd_memory) : sizeof(amd_device);
    static const struct drm_amdgpu_info_device nothing;
    if (request != DRM_IOCTL_AMDGPU_INFO || memcmp(from, &nothing, size) == 0)
        return refusal;
    memcpy((void *)(uintptr_t)info->return_pointer, from,
           size < info->return_size ? size : info->return_size);
    return 0;
}

/* ---- i915 */

static struct drm_i915_memory_region_info i915_regions[3];
static uint32_t i915_count; /* number of regions; 0 refuses the query */
static uint32_t i915_tells; /* number of regions in the reply's header */
static int i915_subslices, i915_eus;

static int i915(unsigned long request, void *arg)
{
    if (request == DRM_IOCTL_I915_GETPARAM) {
        const struct drm_i915_getparam *get = arg;
        const int value = get->param == I915_PARAM_SUBSLICE_TOTAL ? i915_subslices
                          : get->param == I915_PARAM_EU_TOTAL     ? i915_eus
                                                                  : 0;
        *get->value = value;
        return value ? 0 : ENODEV;
    }
    const struct drm_i915_query *query = arg;
    struct drm_i915_query_item *item = (void *)(uintptr_t)query->items_ptr;
    const size_t size =
        sizeof(struct drm_i915_query_memory_regions) + i915_count * sizeof(i915_regions[0]);
    if (request != DRM_IOCTL_I915_QUERY || i915_count == 0)
        return refusal;
    if (item->query_id != DRM_I915_QUERY_MEMORY_REGIONS) {
        item->length = -EINVAL;
        return 0;
    }
    if (item->length == 0) {
        item->length = (int32_t)size;
        return 0;
    }
    struct drm_i915_query_memory_regions *out = (void *)(uintptr_t)item->data_ptr;
    out->num_regions = i915_tells ? i915_tells : i915_count;
    memcpy(out->regions, i915_regions, i915_count * sizeof(i915_regions[0]));
    return 0;
}

/* ---- xe */

static struct gl_xe_mem_region xe_regions[2];
static uint32_t xe_count, xe_tells, xe_size; /* xe_size: false size of the reply, or 0 */

static int xe(unsigned long request, void *arg)
{
    static const uint8_t topology[] = {
        0, 0, 1, 0, 4, 0, 0, 0, 0xff, 0x03, 0,    0, /* geometry */
        0, 0, 2, 0, 4, 0, 0, 0, 0xff, 0x0f, 0,    0, /* compute */
        0, 0, 5, 0, 8, 0, 0, 0, 0xff, 0,    0,    0,
        0, 0, 0, 0, 0, 0, 3, 0, 0xff, 0xff, 0xff, 0xff}; /* longer than the reply */
    struct gl_xe_device_query *query = arg;
    struct {
        struct gl_xe_mem_regions head;
        struct gl_xe_mem_region regions[2];
    } regions = {.head = {.num_mem_regions = xe_tells ? xe_tells : xe_count}};
    const bool memory = query->query == GL_XE_QUERY_MEM_REGIONS;
    const uint32_t size = memory
                              ? (uint32_t)(sizeof(regions.head) + xe_count * sizeof(xe_regions[0]))
                              : (uint32_t)sizeof(topology);
    memcpy(regions.regions, xe_regions, sizeof(xe_regions));
    if (request != GL_IOCTL_XE_DEVICE_QUERY || xe_count == 0)
        return refusal;
    if (query->size == 0) {
        query->size = memory && xe_size ? xe_size : size;
        return 0;
    }
    memcpy((void *)(uintptr_t)query->data, memory ? (const void *)&regions : topology, size);
    return 0;
}

/* ---- parameters */

static uint64_t parameter; /* result for Mali and V3D */
static uint64_t msm_gpu, msm_chip;

static int get_param(unsigned long request, void *arg)
{
    struct gl_drm_get_param *get = arg;
    const bool known =
        get->param == GL_PANFROST_SHADER_PRESENT || get->param == GL_V3D_CORE0_IDENT1;
    get->value = parameter;
    return request == GL_IOCTL_V3D_GET_PARAM && known ? 0 : EINVAL;
}

static int panthor(unsigned long request, void *arg)
{
    const struct gl_panthor_dev_query *query = arg;
    struct gl_panthor_gpu_info info = {.shader_present = parameter};
    if (request != GL_IOCTL_PANTHOR_DEV_QUERY || query->type != GL_PANTHOR_GPU_INFO)
        return EINVAL;
    memcpy((void *)(uintptr_t)query->pointer, &info, sizeof(info));
    return 0;
}

static int msm(unsigned long request, void *arg)
{
    struct drm_msm_param *get = arg;
    get->value = get->param == MSM_PARAM_GPU_ID ? msm_gpu : msm_chip;
    return request == DRM_IOCTL_MSM_GET_PARAM && get->pipe == MSM_PIPE_3D0 && get->value ? 0
                                                                                         : EINVAL;
}

static int radeon(unsigned long request, void *arg)
{
    if (request == DRM_IOCTL_RADEON_GEM_INFO) {
        *(struct drm_radeon_gem_info *)arg = (struct drm_radeon_gem_info){.vram_size = 2 * GIB};
        return 0;
    }
    const struct drm_radeon_info *info = arg;
    if (info->request == RADEON_INFO_VRAM_USAGE)
        *(uint64_t *)(uintptr_t)info->value = 512 * MIB;
    else
        *(uint32_t *)(uintptr_t)info->value = 10;
    return 0;
}

static int nouveau(unsigned long request, void *arg)
{
    struct drm_nouveau_getparam *get = arg;
    (void)request;
    get->value = get->param == NOUVEAU_GETPARAM_FB_SIZE ? 2 * GIB : 1 | 5 << 8 | 1ull << 32;
    return 0;
}

static int nonsense(unsigned long request, void *arg)
{
    if (request == DRM_IOCTL_I915_QUERY)
        ((struct drm_i915_query_item *)(uintptr_t)((struct drm_i915_query *)arg)->items_ptr)
            ->length = INT32_MAX;
    else if (request == GL_IOCTL_XE_DEVICE_QUERY)
        ((struct gl_xe_device_query *)arg)->size = UINT32_MAX;
    return 0; /* succeeds with an empty or much too large result */
}

/* ---- the table ------------------------------------------------------------------------------- */

#define DEVICE "sys/dev/char/226:128/device"
/* 16 GiB, 8 GiB available */
#define MEMINFO                                                                                    \
    {                                                                                              \
        "proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n"                        \
    }
#define CARD_SYSFS                                                                                 \
    {DEVICE "/mem_info_vram_total", "8589934592\n"},                                               \
        {DEVICE "/mem_info_vram_used", "1073741824\n"},                                            \
        {DEVICE "/mem_info_gtt_total", "8589934592\n"},                                            \
    {                                                                                              \
        DEVICE "/mem_info_gtt_used", "0\n"                                                         \
    }
#define APU_SYSFS                                                                                  \
    {DEVICE "/mem_info_vram_total", "536870912\n"}, {DEVICE "/mem_info_vram_used", "268435456\n"}, \
        {DEVICE "/mem_info_gtt_total", "8589934592\n"},                                            \
    {                                                                                              \
        DEVICE "/mem_info_gtt_used", "1073741824\n"                                                \
    }
#define REGION(kind, size, left)                                                                   \
    {                                                                                              \
        .region = {.memory_class = (kind)}, .probed_size = (size), .unallocated_size = (left)      \
    }

struct row {
    const char *name, *driver;
    answer *answers;
    int refusal; /* errno of unsupported requests; 0 selects EINVAL */
    struct fake_file files[8];
    struct drm_amdgpu_memory_info amd_memory;
    struct drm_amdgpu_info_device amd_device;
    struct drm_i915_memory_region_info i915[3];
    uint32_t count, tells, size; /* regions of i915 or xe */
    struct gl_xe_mem_region xe[2];
    int subslices, eus;
    uint64_t parameter, gpu, chip;
    uint64_t held; /* size of our buffers */
    /* Expected results. If `source` is NULL, memory must be unknown. */
    uint64_t total, free, budget;
    bool unified;
    const char *source;
    uint32_t units, wave;
    const char *units_source;
};

static const struct row rows[] = {
    {.name = "amdgpu, a card",
     .driver = "amdgpu",
     .answers = amdgpu,
     .files = {MEMINFO, CARD_SYSFS},
     .amd_device = {.cu_active_number = 36, .wave_front_size = 64},
     .total = 8 * GIB,
     .free = 7 * GIB,
     .budget = 7 * GIB,
     .source = "amdgpu sysfs",
     .units = 36,
     .wave = 64,
     .units_source = "amdgpu, active compute units"},
    {.name = "amdgpu, a card with models on it",
     .driver = "amdgpu",
     .answers = amdgpu,
     .files = {MEMINFO, CARD_SYSFS},
     .amd_device = {.cu_active_number = 36, .wave_front_size = 32},
     .held = 512 * MIB,
     .total = 8 * GIB,
     .free = 7 * GIB,
     .budget = 7 * GIB + 512 * MIB,
     .source = "amdgpu sysfs",
     .units = 36,
     .wave = 32},
    {.name = "amdgpu, buffers that went out of the card",
     .driver = "amdgpu",
     .answers = amdgpu,
     .files = {MEMINFO,
               CARD_SYSFS,
               {"proc/self/fdinfo/7", "pos:\t0\ndrm-driver:\tamdgpu\ndrm-pdev:\t0000:03:00.0\n"
                                      "drm-client-id:\t4\ndrm-memory-vram:\t0 KiB\n"},
               {"proc/self/fdinfo/9", "drm-driver:\tamdgpu\ndrm-pdev:\t0000:03:00.0\n"
                                      "drm-client-id:\t5\ndrm-memory-vram:\t131072 KiB\n"
                                      "drm-memory-gtt: \t393216 KiB\n"},
               {"proc/self/fdinfo/10", "drm-driver:\tamdgpu\ndrm-pdev:\t0000:03:00.0\n"
                                       "drm-client-id:\t5\ndrm-memory-vram:\t131072 KiB\n"}},
     .amd_device = {.cu_active_number = 36},
     .held = 512 * MIB,
     .total = 8 * GIB,
     .free = 7 * GIB,
     .budget = 7 * GIB + 128 * MIB,
     .source = "amdgpu sysfs",
     .units = 36},
    {.name = "amdgpu, an APU",
     .driver = "amdgpu",
     .answers = amdgpu,
     .files = {MEMINFO, APU_SYSFS},
     .amd_device = {.cu_active_number = 8,
                    .ids_flags = AMDGPU_IDS_FLAGS_FUSION,
                    .wave_front_size = 64},
     .total = 8 * GIB + 512 * MIB,
     .free = 7 * GIB + 256 * MIB,
     .budget = 6 * GIB + 256 * MIB,
     .unified = true,
     .source = "amdgpu sysfs, /proc/meminfo",
     .units = 8,
     .wave = 64},
    {.name = "amdgpu, an APU of which the driver tells nothing",
     .driver = "amdgpu",
     .answers = amdgpu,
     .refusal = EACCES,
     .files = {MEMINFO, APU_SYSFS},
     .total = 8 * GIB + 512 * MIB,
     .free = 7 * GIB + 256 * MIB,
     .budget = 6 * GIB + 256 * MIB,
     .unified = true,
     .source = "amdgpu sysfs, /proc/meminfo"},
    {.name = "amdgpu without sysfs",
     .driver = "amdgpu",
     .answers = amdgpu,
     .files = {MEMINFO},
     .amd_memory = {.vram = {.total_heap_size = 4 * GIB, .heap_usage = GIB},
                    .gtt = {.total_heap_size = 8 * GIB}},
     .amd_device = {.cu_active_number = 20, .wave_front_size = 64},
     .total = 4 * GIB,
     .free = 3 * GIB,
     .budget = 3 * GIB,
     .source = "amdgpu memory query",
     .units = 20,
     .wave = 64},
    {.name = "amdgpu, garbage in sysfs and in the answer",
     .driver = "amdgpu",
     .answers = amdgpu,
     .files = {MEMINFO,
               {DEVICE "/mem_info_vram_total", "8589934592\n"},
               {DEVICE "/mem_info_vram_used", "8589934593\n"}},
     .amd_memory = {.vram = {.total_heap_size = UINT64_MAX, .heap_usage = 5}},
     .amd_device = {.cu_active_number = 100000, .wave_front_size = 7}},
    {.name = "amdgpu, everything is refused",
     .driver = "amdgpu",
     .answers = amdgpu,
     .refusal = EACCES,
     .files = {MEMINFO}},
    {.name = "radeon",
     .driver = "radeon",
     .answers = radeon,
     .files = {MEMINFO},
     .total = 2 * GIB,
     .free = GIB + 512 * MIB,
     .budget = GIB + 512 * MIB,
     .source = "radeon memory query",
     .units = 10},
    {.name = "nouveau tells no use",
     .driver = "nouveau",
     .answers = nouveau,
     .files = {MEMINFO},
     .held = 256 * MIB,
     .total = 2 * GIB,
     .free = GIB + 512 * MIB,
     .budget = GIB + 768 * MIB,
     .source = "nouveau parameter FB_SIZE, 7/8 of it: use by others is unknown",
     .units = 5},
    {.name = "i915, integrated",
     .driver = "i915",
     .answers = i915,
     .files = {MEMINFO},
     .i915 = {REGION(I915_MEMORY_CLASS_SYSTEM, 16 * GIB, 16 * GIB)},
     .count = 1,
     .subslices = 3,
     .eus = 24,
     .total = 16 * GIB,
     .free = 8 * GIB,
     .budget = 6 * GIB,
     .unified = true,
     .source = "/proc/meminfo",
     .units = 3,
     .units_source = "i915, subslices with 24 EUs in all"},
    {.name = "i915, a kernel without the query",
     .driver = "i915",
     .answers = i915,
     .files = {MEMINFO},
     .subslices = 2,
     .total = 16 * GIB,
     .free = 8 * GIB,
     .budget = 6 * GIB,
     .unified = true,
     .source = "/proc/meminfo",
     .units = 2,
     .units_source = "i915, subslices"},
    {.name = "i915, a card",
     .driver = "i915",
     .answers = i915,
     .files = {MEMINFO},
     .i915 = {REGION(I915_MEMORY_CLASS_SYSTEM, 16 * GIB, 16 * GIB),
              REGION(I915_MEMORY_CLASS_DEVICE, 16 * GIB, 15 * GIB)},
     .count = 2,
     .subslices = 32,
     .eus = 512,
     .held = 512 * MIB,
     .total = 16 * GIB,
     .free = 15 * GIB,
     .budget = 15 * GIB + 512 * MIB,
     .source = "i915 memory regions",
     .units = 32},
    {.name = "i915, a card that tells no use",
     .driver = "i915",
     .answers = i915,
     .files = {MEMINFO},
     .i915 = {REGION(I915_MEMORY_CLASS_SYSTEM, 16 * GIB, 16 * GIB),
              REGION(I915_MEMORY_CLASS_DEVICE, 8 * GIB, 8 * GIB)},
     .count = 2,
     .subslices = 8,
     .held = GIB,
     .total = 8 * GIB,
     .free = 6 * GIB,
     .budget = 7 * GIB,
     .source = "i915 memory regions, 7/8 of it: use by others is unknown",
     .units = 8},
    {.name = "i915, a card of a simulator",
     .driver = "i915",
     .answers = i915,
     .files = {MEMINFO},
     .i915 = {REGION(I915_MEMORY_CLASS_SYSTEM, 4 * GIB, UINT64_MAX),
              REGION(I915_MEMORY_CLASS_DEVICE, 4 * GIB, UINT64_MAX)},
     .count = 2,
     .subslices = 1,
     .eus = 16,
     .total = 4 * GIB,
     .free = 3 * GIB + 512 * MIB,
     .budget = 3 * GIB + 512 * MIB,
     .source = "i915 memory regions, 7/8 of it: use by others is unknown"},
    {.name = "i915, more regions than the answer has",
     .driver = "i915",
     .answers = i915,
     .files = {MEMINFO},
     .i915 = {REGION(I915_MEMORY_CLASS_DEVICE, 8 * GIB, 8 * GIB)},
     .count = 1,
     .tells = 1u << 30},
    {.name = "i915, a region of nothing",
     .driver = "i915",
     .answers = i915,
     .files = {MEMINFO},
     .i915 = {REGION(I915_MEMORY_CLASS_DEVICE, 0, 0)},
     .count = 1},
    {.name = "xe, integrated",
     .driver = "xe",
     .answers = xe,
     .files = {MEMINFO},
     .xe = {{.total_size = 16 * GIB}},
     .count = 1,
     .total = 16 * GIB,
     .free = 8 * GIB,
     .budget = 6 * GIB,
     .unified = true,
     .source = "/proc/meminfo",
     .units = 12,
     .units_source = "xe topology, 8 EUs each"},
    {.name = "xe, a card",
     .driver = "xe",
     .answers = xe,
     .files = {MEMINFO,
               {"proc/self/fdinfo/7", "drm-driver:\txe\ndrm-client-id:\t1\n"},
               {"proc/self/fdinfo/8", "drm-driver:\txe\ndrm-client-id:\t2\n"
                                      "drm-resident-vram0:\t256 MiB\ndrm-resident-gtt:\t1 MiB\n"
                                      "drm-total-vram0:\t512 MiB\n"}},
     .xe = {{.total_size = 16 * GIB},
            {.mem_class = GL_XE_MEM_CLASS_VRAM, .total_size = 12 * GIB, .used = 2 * GIB}},
     .count = 2,
     .held = 512 * MIB,
     .total = 12 * GIB,
     .free = 10 * GIB,
     .budget = 10 * GIB + 256 * MIB,
     .source = "xe memory regions",
     .units = 12},
    {.name = "xe, more regions than the answer has",
     .driver = "xe",
     .answers = xe,
     .files = {MEMINFO},
     .xe = {{.mem_class = GL_XE_MEM_CLASS_VRAM, .total_size = 12 * GIB}},
     .count = 1,
     .tells = UINT32_MAX,
     .units = 12},
    {.name = "xe, an answer too long to be one",
     .driver = "xe",
     .answers = xe,
     .files = {MEMINFO},
     .count = 1,
     .size = 1u << 30,
     .units = 12},
    {.name = "v3d of a Raspberry Pi 4",
     .driver = "v3d",
     .answers = get_param,
     .files = {MEMINFO},
     .parameter = 2 << 4 | 4 << 8,
     .total = 16 * GIB,
     .free = 8 * GIB,
     .budget = 6 * GIB,
     .unified = true,
     .source = "/proc/meminfo",
     .units = 2,
     .units_source = "v3d, slices of 4 QPUs"},
    {.name = "v3d with buffers, in nested cgroups",
     .driver = "v3d",
     .answers = get_param,
     .files = {MEMINFO,
               {"proc/self/cgroup", "0::/outer/inner\n"},
               {"sys/fs/cgroup/outer/inner/memory.max", "4294967296\n"},
               {"sys/fs/cgroup/outer/inner/memory.current", "0\n"},
               {"sys/fs/cgroup/outer/memory.max", "1073741824\n"},
               {"sys/fs/cgroup/outer/memory.current", "536870912\n"}},
     .parameter = 3 << 4 | 4 << 8,
     .held = 256 * MIB,
     .total = GIB,
     .free = 512 * MIB,
     .budget = 576 * MIB, /* 75% of 512 + 256 */
     .unified = true,
     .source = "/proc/meminfo, cgroup limit",
     .units = 3},
    {.name = "v3d whose buffers have no pages yet",
     .driver = "v3d",
     .answers = get_param,
     .files = {MEMINFO,
               {"proc/self/fdinfo/7", "drm-driver:\tv3d\ndrm-client-id:\t1\n"
                                      "drm-resident-memory:\t0\n"}},
     .parameter = 2 << 4 | 4 << 8,
     .held = 2 * GIB,
     .total = 16 * GIB,
     .free = 8 * GIB,
     .budget = 6 * GIB,
     .unified = true,
     .source = "/proc/meminfo",
     .units = 2},
    {.name = "panfrost",
     .driver = "panfrost",
     .answers = get_param,
     .files = {MEMINFO},
     .parameter = 0x10003,
     .total = 16 * GIB,
     .free = 8 * GIB,
     .budget = 6 * GIB,
     .unified = true,
     .source = "/proc/meminfo",
     .units = 3,
     .units_source = "panfrost, shader cores"},
    {.name = "panthor",
     .driver = "panthor",
     .answers = panthor,
     .files = {MEMINFO},
     .parameter = 0x50005,
     .total = 16 * GIB,
     .free = 8 * GIB,
     .budget = 6 * GIB,
     .unified = true,
     .source = "/proc/meminfo",
     .units = 4,
     .units_source = "panthor, shader cores"},
    {.name = "msm, by the number of the GPU",
     .driver = "msm",
     .answers = msm,
     .files = {MEMINFO},
     .gpu = 630,
     .total = 16 * GIB,
     .free = 8 * GIB,
     .budget = 6 * GIB,
     .unified = true,
     .source = "/proc/meminfo",
     .units = 2,
     .units_source = "msm, SP cores of chip 6.3.0"},
    {.name = "msm, by the chip",
     .driver = "msm",
     .answers = msm,
     .files = {MEMINFO},
     .chip = 0xffff43050a01,
     .total = 16 * GIB,
     .free = 8 * GIB,
     .budget = 6 * GIB,
     .unified = true,
     .source = "/proc/meminfo",
     .units = 6,
     .units_source = "msm, SP cores of chip 43.5.a"},
    {.name = "msm, a chip that nobody knows",
     .driver = "msm",
     .answers = msm,
     .files = {MEMINFO},
     .chip = 0x09000000,
     .total = 16 * GIB,
     .free = 8 * GIB,
     .budget = 6 * GIB,
     .unified = true,
     .source = "/proc/meminfo"},
    {.name = "virtio",
     .driver = "virtio_gpu",
     .files = {MEMINFO},
     .total = 16 * GIB,
     .free = 8 * GIB,
     .budget = 6 * GIB,
     .unified = true,
     .source = "/proc/meminfo"},
    {.name = "unified memory of a host that tells nothing",
     .driver = "v3d",
     .source = "unknown",
     .unified = true},
    {.name = "a driver that nobody knows", .driver = "nvidia-drm", .files = {MEMINFO}},
    {.name = "nonsense for i915",
     .driver = "i915",
     .answers = nonsense,
     .files = {MEMINFO},
     .total = 16 * GIB,
     .free = 8 * GIB,
     .budget = 6 * GIB,
     .unified = true,
     .source = "/proc/meminfo"},
    {.name = "nonsense for xe", .driver = "xe", .answers = nonsense, .files = {MEMINFO}},
    {.name = "nonsense for amdgpu", .driver = "amdgpu", .answers = nonsense, .files = {MEMINFO}},
};

static void memory_case(void **state)
{
    const struct row *row = *state;
    char *root = test_tmpdir(), *device, *proc;
    struct gl_drm_memory drm;
    struct gl_drm_units units;
    struct gl_drm_used used;
    struct gl_memory_now now = {.source = ""};
    assert_true(asprintf(&device, "%s/" DEVICE, root) > 0);
    assert_true(asprintf(&proc, "%s/proc/self", root) > 0);
    fake_tree_write(root, row->files);
    answers = row->answers;
    refusal = row->refusal ? row->refusal : EINVAL;
    amd_memory = row->amd_memory;
    amd_device = row->amd_device;
    memcpy(i915_regions, row->i915, sizeof(i915_regions));
    memcpy(xe_regions, row->xe, sizeof(xe_regions));
    i915_count = xe_count = row->count;
    i915_tells = xe_tells = row->tells;
    xe_size = row->size;
    i915_subslices = row->subslices;
    i915_eus = row->eus;
    parameter = row->parameter;
    msm_gpu = row->gpu;
    msm_chip = row->chip;

    const struct gl_drm_node node = {7, row->driver, device, proc};
    const struct dgl_host_memory host = dgl_host_memory_under(root);
    const bool known = gl_drm_memory_get(&node, &drm), has_used = gl_drm_used_get(&node, &used);
    if (known)
        gl_memory_combine(&drm, &host, has_used ? &used : NULL, row->held, &now);
    const bool counted = gl_drm_units_get(&node, &units);
    test_tmpdir_remove(root);
    free(device);
    free(proc);

    assert_int_equal(known, row->source != NULL);
    assert_int_equal(now.total_bytes, row->total);
    assert_int_equal(now.free_bytes, row->free);
    assert_int_equal(now.budget_bytes, row->budget);
    assert_int_equal(now.unified, row->unified);
    assert_string_equal(now.source, row->source ? row->source : "");
    assert_int_equal(counted, row->units != 0);
    assert_int_equal(units.units, row->units);
    assert_int_equal(units.wave_size, row->wave);
    if (row->units_source)
        assert_string_equal(units.source, row->units_source);
}

int main(void)
{
    return test_run_table("memory and units by kernel drivers", memory_case, rows);
}
