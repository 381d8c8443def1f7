/* Memory and compute units from each kernel driver's ioctls. */
#include "gl/gl_drm.h"

#include <amdgpu_drm.h>
#include <dirent.h>
#include <errno.h>
#include <i915_drm.h>
#include <msm_drm.h>
#include <nouveau_drm.h>
#include <radeon_drm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "core/base/host_memory.h"
#include "core/base/mem.h"
#include "core/base/str.h"
#include "gl/gl_drm_uapi.h"

/* Results outside of these limits are ignored. */
#define BYTES_MIN  (16ull << 20)
#define BYTES_MAX  (1ull << 50)
#define UNITS_MAX  1024u
#define ANSWER_MAX (64u << 10) /* bytes of a result of variable length */

static bool ask(int fd, unsigned long request, void *arg)
{
    int rc;
    do
        rc = ioctl(fd, request, arg);
    while (rc != 0 && (errno == EINTR || errno == EAGAIN));
    return rc == 0;
}

static bool bytes_are_sane(uint64_t total)
{
    return total >= BYTES_MIN && total <= BYTES_MAX;
}

bool gl_drm_driver(int fd, char name[32])
{
    struct drm_version version = {.name_len = 31, .name = name};
    memset(name, 0, 32);
    return ask(fd, DRM_IOCTL_VERSION, &version) && name[0] != '\0';
}

/* ---- amdgpu ---------------------------------------------------------------------------------- */

/* Result of an amdgpu query. The structs grow with the kernel version. Mesa's drm-shim ignores
 * return_size and writes its whole struct: `room` has space for it. */
union amdgpu_answer {
    struct drm_amdgpu_info_device device;
    struct drm_amdgpu_memory_info memory;
    uint8_t room[2048];
};

static bool amdgpu_ask(int fd, uint32_t query, union amdgpu_answer *out)
{
    struct drm_amdgpu_info info = {
        .return_pointer = (uintptr_t)out, .return_size = sizeof(*out), .query = query};
    *out = (union amdgpu_answer){.room = {0}};
    return ask(fd, DRM_IOCTL_AMDGPU_INFO, &info);
}

struct heap {
    uint64_t total, used;
};

static bool heap_is_sane(const struct heap *heap)
{
    return bytes_are_sane(heap->total) && heap->used <= heap->total;
}

/* VRAM is the memory of the device; GTT is host memory that the device can map. On an APU, VRAM is
 * a part of the host's memory that the firmware reserves. */
static bool amdgpu_memory(const struct gl_drm_node *node, struct gl_drm_memory *out)
{
    union amdgpu_answer answer;
    struct heap vram = {0}, gtt = {0};
    const char *source = "amdgpu sysfs";
    bool ok = dgl_kernel_number(node->device, "mem_info_vram_total", &vram.total) &&
              dgl_kernel_number(node->device, "mem_info_vram_used", &vram.used) &&
              heap_is_sane(&vram);
    bool has_gtt = ok && dgl_kernel_number(node->device, "mem_info_gtt_total", &gtt.total) &&
                   dgl_kernel_number(node->device, "mem_info_gtt_used", &gtt.used) &&
                   heap_is_sane(&gtt);
    if (!ok && amdgpu_ask(node->fd, AMDGPU_INFO_MEMORY, &answer)) {
        const struct drm_amdgpu_memory_info *memory = &answer.memory;
        vram = (struct heap){memory->vram.total_heap_size, memory->vram.heap_usage};
        gtt = (struct heap){memory->gtt.total_heap_size, memory->gtt.heap_usage};
        ok = heap_is_sane(&vram);
        has_gtt = heap_is_sane(&gtt);
        source = "amdgpu memory query";
    }
    if (!ok)
        return false;
    /* If the driver does not report the APU flag, sizes decide: an APU has at most 1 GiB of VRAM,
     * and GTT at least twice as large. */
    const bool apu = amdgpu_ask(node->fd, AMDGPU_INFO_DEV_INFO, &answer)
                         ? (answer.device.ids_flags & AMDGPU_IDS_FLAGS_FUSION) != 0
                         : vram.total <= 1ull << 30 && gtt.total / 2 >= vram.total;
    *out =
        (struct gl_drm_memory){.own_bytes = vram.total, .own_free_bytes = vram.total - vram.used};
    if (apu && has_gtt) {
        out->unified = true;
        out->host_bytes = gtt.total;
        out->host_free_bytes = gtt.total - gtt.used;
    }
    snprintf(out->source, sizeof(out->source), "%s", source);
    return true;
}

static bool amdgpu_units(const struct gl_drm_node *node, struct gl_drm_units *out)
{
    union amdgpu_answer answer;
    if (!amdgpu_ask(node->fd, AMDGPU_INFO_DEV_INFO, &answer))
        return false;
    out->units = answer.device.cu_active_number;
    if (answer.device.wave_front_size == 32 || answer.device.wave_front_size == 64)
        out->wave_size = answer.device.wave_front_size;
    snprintf(out->source, sizeof(out->source), "amdgpu, active compute units");
    return true;
}

/* ---- radeon, nouveau ------------------------------------------------------------------------- */

static bool radeon_memory(const struct gl_drm_node *node, struct gl_drm_memory *out)
{
    struct drm_radeon_gem_info gem = {0};
    uint64_t used = 0;
    struct drm_radeon_info info = {.request = RADEON_INFO_VRAM_USAGE, .value = (uintptr_t)&used};
    if (!ask(node->fd, DRM_IOCTL_RADEON_GEM_INFO, &gem) || !bytes_are_sane(gem.vram_size))
        return false;
    const bool known = ask(node->fd, DRM_IOCTL_RADEON_INFO, &info) && used <= gem.vram_size;
    *out = (struct gl_drm_memory){.own_bytes = gem.vram_size,
                                  .own_free_bytes = gem.vram_size - (known ? used : 0),
                                  .own_unaccounted = !known};
    snprintf(out->source, sizeof(out->source), "radeon memory query");
    return true;
}

static bool radeon_units(const struct gl_drm_node *node, struct gl_drm_units *out)
{
    uint32_t count = 0;
    struct drm_radeon_info info = {.request = RADEON_INFO_ACTIVE_CU_COUNT,
                                   .value = (uintptr_t)&count};
    if (!ask(node->fd, DRM_IOCTL_RADEON_INFO, &info))
        return false;
    out->units = count;
    snprintf(out->source, sizeof(out->source), "radeon, active compute units");
    return true;
}

static bool nouveau_ask(int fd, uint64_t param, uint64_t *out)
{
    struct drm_nouveau_getparam get = {.param = param};
    if (!ask(fd, DRM_IOWR(DRM_COMMAND_BASE + DRM_NOUVEAU_GETPARAM, struct drm_nouveau_getparam),
             &get))
        return false;
    *out = get.value;
    return true;
}

static bool nouveau_memory(const struct gl_drm_node *node, struct gl_drm_memory *out)
{
    uint64_t total;
    if (!nouveau_ask(node->fd, NOUVEAU_GETPARAM_FB_SIZE, &total) || !bytes_are_sane(total))
        return false;
    *out = (struct gl_drm_memory){
        .own_bytes = total, .own_free_bytes = total, .own_unaccounted = true};
    snprintf(out->source, sizeof(out->source), "nouveau parameter FB_SIZE");
    return true;
}

static bool nouveau_units(const struct gl_drm_node *node, struct gl_drm_units *out)
{
    uint64_t count;
    if (!nouveau_ask(node->fd, NOUVEAU_GETPARAM_GRAPH_UNITS, &count))
        return false;
    out->units = (uint32_t)(count >> 8) & 0xffff; /* GPCs | TPCs << 8 | ROPs << 32 */
    snprintf(out->source, sizeof(out->source), "nouveau, TPCs");
    return true;
}

/* ---- the host's memory ----------------------------------------------------------------------- */

static bool shared_memory(const struct gl_drm_node *node, struct gl_drm_memory *out)
{
    (void)node;
    *out = (struct gl_drm_memory){
        .unified = true, .host_bytes = UINT64_MAX, .host_free_bytes = UINT64_MAX};
    return true;
}

/* ---- i915 ------------------------------------------------------------------------------------ */

/* Returns the result of a query of variable length, or NULL. The caller frees it. */
static void *i915_query(int fd, uint64_t id, uint32_t *size)
{
    struct drm_i915_query_item item = {.query_id = id};
    struct drm_i915_query query = {.num_items = 1, .items_ptr = (uintptr_t)&item};
    if (!ask(fd, DRM_IOCTL_I915_QUERY, &query) || item.length <= 0 ||
        item.length > (int32_t)ANSWER_MAX)
        return NULL;
    uint8_t *answer = dgl_new_array(uint8_t, (size_t)item.length);
    *size = (uint32_t)item.length;
    item.data_ptr = (uintptr_t)answer;
    if (answer && ask(fd, DRM_IOCTL_I915_QUERY, &query) && item.length == (int32_t)*size)
        return answer;
    free(answer);
    return NULL;
}

/* Adds a region of the device's own memory. The used bytes are unknown if `accounted` is false or
 * `used` exceeds `total`. Returns false if `total` is impossible. */
static bool add_region(struct gl_drm_memory *out, uint64_t total, uint64_t used, bool accounted)
{
    if (!bytes_are_sane(total) || out->own_bytes > BYTES_MAX - total)
        return false;
    accounted = accounted && used <= total;
    out->own_bytes += total;
    out->own_free_bytes += total - (accounted ? used : 0);
    out->own_unaccounted = out->own_unaccounted || !accounted;
    return true;
}

/* A device without its own memory region is integrated. If the kernel does not have the query, the
 * device is integrated too: the query is older than Intel's cards. */
static bool i915_memory(const struct gl_drm_node *node, struct gl_drm_memory *out)
{
    uint32_t size = 0;
    struct drm_i915_query_memory_regions *regions =
        i915_query(node->fd, DRM_I915_QUERY_MEMORY_REGIONS, &size);
    if (!regions)
        return shared_memory(node, out);
    bool ok = size >= sizeof(*regions) &&
              regions->num_regions <= (size - sizeof(*regions)) / sizeof(regions->regions[0]);
    *out = (struct gl_drm_memory){0};
    for (uint32_t i = 0; ok && i < regions->num_regions; i++) {
        const struct drm_i915_memory_region_info *r = &regions->regions[i];
        /* Without CAP_PERFMON the kernel reports all bytes as unallocated. */
        if (r->region.memory_class == I915_MEMORY_CLASS_DEVICE)
            ok = add_region(out, r->probed_size, r->probed_size - r->unallocated_size,
                            r->unallocated_size < r->probed_size);
    }
    free(regions);
    if (!ok)
        return false;
    if (out->own_bytes == 0)
        return shared_memory(node, out);
    snprintf(out->source, sizeof(out->source), "i915 memory regions");
    return true;
}

static bool i915_param(int fd, int param, uint32_t *out)
{
    int value = 0;
    struct drm_i915_getparam get = {.param = param, .value = &value};
    if (!ask(fd, DRM_IOCTL_I915_GETPARAM, &get) || value <= 0)
        return false;
    *out = (uint32_t)value;
    return true;
}

static bool i915_units(const struct gl_drm_node *node, struct gl_drm_units *out)
{
    struct gl_drm_memory memory;
    uint32_t eus = 0;
    if (!i915_param(node->fd, I915_PARAM_SUBSLICE_TOTAL, &out->units))
        return false;
    /* The smallest card has 6 subslices, but Mesa's drm-shim reports 1 for every card. */
    if (out->units < 4 && i915_memory(node, &memory) && memory.own_bytes > 0)
        return false;
    if (i915_param(node->fd, I915_PARAM_EU_TOTAL, &eus))
        snprintf(out->source, sizeof(out->source), "i915, subslices with %u EUs in all", eus);
    else
        snprintf(out->source, sizeof(out->source), "i915, subslices");
    return true;
}

/* ---- xe -------------------------------------------------------------------------------------- */

static void *xe_query(int fd, uint32_t id, uint32_t *size)
{
    struct gl_xe_device_query query = {.query = id};
    if (!ask(fd, GL_IOCTL_XE_DEVICE_QUERY, &query) || query.size == 0 || query.size > ANSWER_MAX)
        return NULL;
    uint8_t *answer = dgl_new_array(uint8_t, query.size);
    *size = query.size;
    query.data = (uintptr_t)answer;
    if (answer && ask(fd, GL_IOCTL_XE_DEVICE_QUERY, &query) && query.size == *size)
        return answer;
    free(answer);
    return NULL;
}

static bool xe_memory(const struct gl_drm_node *node, struct gl_drm_memory *out)
{
    uint32_t size = 0;
    struct gl_xe_mem_regions *regions = xe_query(node->fd, GL_XE_QUERY_MEM_REGIONS, &size);
    bool ok =
        regions && size >= sizeof(*regions) &&
        regions->num_mem_regions <= (size - sizeof(*regions)) / sizeof(regions->mem_regions[0]);
    *out = (struct gl_drm_memory){0};
    for (uint32_t i = 0; ok && i < regions->num_mem_regions; i++) {
        const struct gl_xe_mem_region *r = &regions->mem_regions[i];
        /* Without CAP_PERFMON the kernel reports 0 used bytes. */
        if (r->mem_class == GL_XE_MEM_CLASS_VRAM)
            ok = add_region(out, r->total_size, r->used, r->used > 0);
    }
    free(regions);
    if (!ok) /* every version of xe has the query, so a failure is not a sign of an integrated
              * device */
        return false;
    if (out->own_bytes == 0)
        return shared_memory(node, out);
    snprintf(out->source, sizeof(out->source), "xe memory regions");
    return true;
}

static bool xe_units(const struct gl_drm_node *node, struct gl_drm_units *out)
{
    uint32_t size = 0, geometry = 0, compute = 0, eus = 0;
    uint8_t *answer = xe_query(node->fd, GL_XE_QUERY_GT_TOPOLOGY, &size);
    for (size_t at = 0; answer && at + sizeof(struct gl_xe_topology_mask) <= size;) {
        struct gl_xe_topology_mask mask;
        memcpy(&mask, answer + at, sizeof(mask));
        at += sizeof(mask);
        if (mask.num_bytes > size - at)
            break;
        uint32_t count = 0;
        for (size_t i = 0; i < mask.num_bytes; i++)
            count += (uint32_t)__builtin_popcount(answer[at + i]);
        if (mask.type == GL_XE_TOPO_DSS_GEOMETRY)
            geometry += count;
        else if (mask.type == GL_XE_TOPO_DSS_COMPUTE)
            compute += count;
        else if (mask.type == GL_XE_TOPO_EU_PER_DSS || mask.type == GL_XE_TOPO_SIMD16_EU_PER_DSS)
            eus = count > eus ? count : eus;
        at += mask.num_bytes;
    }
    free(answer);
    out->units = compute > geometry ? compute : geometry; /* the two masks overlap */
    snprintf(out->source, sizeof(out->source), "xe topology, %u EUs each", eus);
    return out->units > 0;
}

/* ---- Mali, V3D, Adreno ----------------------------------------------------------------------- */

static bool panfrost_units(const struct gl_drm_node *node, struct gl_drm_units *out)
{
    struct gl_drm_get_param get = {.param = GL_PANFROST_SHADER_PRESENT};
    if (!ask(node->fd, GL_IOCTL_PANFROST_GET_PARAM, &get))
        return false;
    out->units = (uint32_t)__builtin_popcountll(get.value);
    snprintf(out->source, sizeof(out->source), "panfrost, shader cores");
    return true;
}

static bool panthor_units(const struct gl_drm_node *node, struct gl_drm_units *out)
{
    struct gl_panthor_gpu_info info = {0};
    struct gl_panthor_dev_query query = {
        .type = GL_PANTHOR_GPU_INFO, .size = sizeof(info), .pointer = (uintptr_t)&info};
    if (!ask(node->fd, GL_IOCTL_PANTHOR_DEV_QUERY, &query))
        return false;
    out->units = (uint32_t)__builtin_popcountll(info.shader_present);
    snprintf(out->source, sizeof(out->source), "panthor, shader cores");
    return true;
}

/* A slice has 4 QPUs with 4 threads of 16 lanes, so it runs one work group of 256 invocations. */
static bool v3d_units(const struct gl_drm_node *node, struct gl_drm_units *out)
{
    struct gl_drm_get_param get = {.param = GL_V3D_CORE0_IDENT1};
    if (!ask(node->fd, GL_IOCTL_V3D_GET_PARAM, &get))
        return false;
    const uint32_t slices = (uint32_t)(get.value >> 4) & 15, qpus = (uint32_t)(get.value >> 8) & 15;
    out->units = qpus ? slices : 0;
    snprintf(out->source, sizeof(out->source), "v3d, slices of %u QPUs", qpus);
    return true;
}

static bool msm_ask(int fd, uint32_t param, uint64_t *out)
{
    struct drm_msm_param get = {.pipe = MSM_PIPE_3D0, .param = param};
    if (!ask(fd, DRM_IOCTL_MSM_GET_PARAM, &get))
        return false;
    *out = get.value;
    return true;
}

/* The driver reports the chip but not its number of cores. The table has num_sp_cores of Mesa
 * 25.0.7, src/freedreno/common/freedreno_devices.py. A chip is three bytes: core, major, minor. */
static bool msm_units(const struct gl_drm_node *node, struct gl_drm_units *out)
{
    static const struct {
        uint32_t first, last, units;
    } table[] = {
        {0x050005, 0x050009, 1}, {0x050100, 0x050102, 2}, {0x050300, 0x050400, 4},
        {0x060005, 0x060200, 1}, {0x060201, 0x060201, 2}, {0x060300, 0x0604ff, 2},
        {0x060500, 0x0606ff, 3}, {0x060800, 0x060800, 4}, {0x060900, 0x0609ff, 8},
        {0x070300, 0x0703ff, 4}, {0x070400, 0x0704ff, 6}, {0x430300, 0x4303ff, 3},
        {0x430500, 0x4305ff, 6},
    };
    uint64_t gpu = 0, chip = 0;
    if (!msm_ask(node->fd, MSM_PARAM_GPU_ID, &gpu))
        gpu = 0;               /* chips since 2021 have no GPU_ID */
    if (gpu > 0 && gpu < 1000) /* decimal: 630 */
        chip = (gpu / 100) << 16 | (gpu / 10 % 10) << 8 | gpu % 10;
    else if (msm_ask(node->fd, MSM_PARAM_CHIP_ID, &chip))
        chip = chip >> 8 & 0xffffff; /* low byte: patch level; bits 32 and up: speed bin */
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (chip >= table[i].first && chip <= table[i].last)
            out->units = table[i].units;
    snprintf(out->source, sizeof(out->source), "msm, SP cores of chip %x.%x.%x",
             (unsigned)(chip >> 16 & 255), (unsigned)(chip >> 8 & 255), (unsigned)(chip & 255));
    return out->units > 0;
}

/* ---- drivers --------------------------------------------------------------------------------- */

/* Kernel drivers of devices on which Mesa supports ES 3.1, or may support it later. */
static const struct driver {
    const char *name;
    bool (*memory)(const struct gl_drm_node *node, struct gl_drm_memory *out);
    bool (*units)(const struct gl_drm_node *node, struct gl_drm_units *out);
} drivers[] = {
    {"amdgpu", amdgpu_memory, amdgpu_units},
    {"radeon", radeon_memory, radeon_units},
    {"nouveau", nouveau_memory, nouveau_units},
    {"i915", i915_memory, i915_units},
    {"xe", xe_memory, xe_units},
    {"panfrost", shared_memory, panfrost_units},
    {"panthor", shared_memory, panthor_units},
    {"v3d", shared_memory, v3d_units},
    {"msm", shared_memory, msm_units},
    {"vc4", shared_memory, NULL},
    {"lima", shared_memory, NULL},
    {"etnaviv", shared_memory, NULL},
    {"asahi", shared_memory, NULL},
    {"powervr", shared_memory, NULL},
    {"tegra", shared_memory, NULL},
    {"virtio_gpu", shared_memory, NULL}, /* the guest's memory; the host's is unknown */
};

static const struct driver *find_driver(const char *name)
{
    for (size_t i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++)
        if (strcmp(drivers[i].name, name) == 0)
            return &drivers[i];
    return NULL;
}

bool gl_drm_memory_get(const struct gl_drm_node *node, struct gl_drm_memory *out)
{
    const struct driver *driver = find_driver(node->driver);
    if (driver && driver->memory(node, out))
        return true;
    *out = (struct gl_drm_memory){0};
    return false;
}

bool gl_drm_units_get(const struct gl_drm_node *node, struct gl_drm_units *out)
{
    const struct driver *driver = find_driver(node->driver);
    *out = (struct gl_drm_units){0};
    if (driver && driver->units && driver->units(node, out) && out->units >= 1 &&
        out->units <= UNITS_MAX)
        return true;
    *out = (struct gl_drm_units){0};
    return false;
}

/* ---- memory that this process uses ----------------------------------------------------------- */

/* One fdinfo file. The kernel's drm-usage-stats.rst describes the format. */
struct usage {
    char driver[32], device[32];
    uint64_t client;
    bool has_client, has_memory;        /* a "drm-memory-REGION" line was found */
    struct gl_drm_used resident, older; /* sums of "drm-resident-REGION" and of "drm-memory-REGION"
                                         * lines */
    bool has_resident;
};

/* Parses a size such as "12 KiB" or "4096". */
static bool parse_size(struct dgl_str text, uint64_t *out)
{
    struct dgl_str number;
    uint64_t value;
    if (!dgl_str_split(&text, ' ', &number) || !dgl_parse_u64(number, BYTES_MAX, &value))
        return false;
    const unsigned shift = dgl_str_eq(text, "KiB") ? 10 : dgl_str_eq(text, "MiB") ? 20 : 0;
    if (value > BYTES_MAX >> shift)
        return false;
    *out = value << shift;
    return true;
}

/* Adds `bytes` to the device's memory ("vram", "vram0", "local0") or the host's ("gtt", "system0",
 * "memory"). Returns false if the region has another name. */
static bool add_resident(struct gl_drm_used *used, struct dgl_str region, uint64_t bytes)
{
    static const char *const own[] = {"vram", "local"}, *const host[] = {"gtt", "system", "memory"};
    uint64_t *to = NULL;
    for (size_t i = 0; i < 2; i++)
        to = dgl_str_starts(region, own[i]) ? &used->own_bytes : to;
    for (size_t i = 0; i < 3; i++)
        to = dgl_str_starts(region, host[i]) ? &used->host_bytes : to;
    if (!to || bytes > BYTES_MAX - *to)
        return false;
    *to += bytes;
    return true;
}

static void read_usage(const char *path, struct usage *out)
{
    static const char resident[] = "drm-resident-", older[] = "drm-memory-";
    char line[256];
    *out = (struct usage){0};
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file)) {
        struct dgl_str value = dgl_str_trim(dgl_str_of(line)), key;
        uint64_t bytes;
        if (!dgl_str_split(&value, ':', &key) || !dgl_str_starts(key, "drm-"))
            continue;
        value = dgl_str_trim(value);
        if (dgl_str_eq(key, "drm-driver")) {
            snprintf(out->driver, sizeof(out->driver), "%.*s", (int)value.len, value.p);
        } else if (dgl_str_eq(key, "drm-pdev")) {
            snprintf(out->device, sizeof(out->device), "%.*s", (int)value.len, value.p);
        } else if (dgl_str_eq(key, "drm-client-id")) {
            out->has_client = dgl_parse_u64(value, UINT64_MAX, &out->client);
        } else if (dgl_str_starts(key, resident) && parse_size(value, &bytes)) {
            key.p += sizeof(resident) - 1;
            key.len -= sizeof(resident) - 1;
            out->has_resident |= add_resident(&out->resident, key, bytes);
        } else if (dgl_str_starts(key, older) && parse_size(value, &bytes)) {
            key.p += sizeof(older) - 1;
            key.len -= sizeof(older) - 1;
            out->has_memory |= add_resident(&out->older, key, bytes);
        }
    }
    if (file)
        fclose(file);
}

bool gl_drm_used_get(const struct gl_drm_node *node, struct gl_drm_used *out)
{
    enum { MAX_CLIENTS = 64 };
    uint64_t clients[MAX_CLIENTS];
    int count = 0;
    char path[512];
    struct usage self, one;
    bool known = false;
    *out = (struct gl_drm_used){0};
    snprintf(path, sizeof(path), "%s/fdinfo/%d", node->proc, node->fd);
    read_usage(path, &self);
    snprintf(path, sizeof(path), "%s/fdinfo", node->proc);
    DIR *dir = opendir(path);
    for (const struct dirent *entry; dir && (entry = readdir(dir)) && count < MAX_CLIENTS;) {
        if (entry->d_name[0] == '.' || snprintf(path, sizeof(path), "%s/fdinfo/%s", node->proc,
                                                entry->d_name) >= (int)sizeof(path))
            continue;
        read_usage(path, &one);
        bool counts = one.has_client && strcmp(one.driver, node->driver) == 0 &&
                      strcmp(one.device, self.device) == 0;
        for (int i = 0; i < count; i++) /* several descriptors may share a client */
            counts = counts && clients[i] != one.client;
        if (!counts)
            continue;
        clients[count++] = one.client;
        const struct gl_drm_used *add = one.has_resident ? &one.resident : &one.older;
        known |= one.has_resident || one.has_memory;
        out->own_bytes += add->own_bytes; /* cannot overflow: at most 64 times 2^50 */
        out->host_bytes += add->host_bytes;
    }
    if (dir)
        closedir(dir);
    return known;
}
